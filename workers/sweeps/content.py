"""The content of a cell: digests of all that can change its result, so that its key names the result for good.

Two cells of one content have one result, whatever their sweeps call them. A cell whose content differs from that of a
result under its name is stale, and the parts that differ say why.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from concord.schemas.sweep import Cell
from concord.workers.compiling.code import LABELLING, digest_of_code
from concord.workers.learning.trainers.registry import DEFAULT
from concord.workers.models.folder import MANIFEST, parse_manifest
from concord.workers.parts import LABELLING as LABELLING_PARTS
from concord.workers.parts import Group
from concord.workers.sweeps.cells import entry_of, rules_of
from concord.workers.sweeps.sweep_file import Sweep

FORMAT = 1
"""Version of results; a change makes all of them again."""

KEY_LETTERS = 20
"""Number of hexadecimal digits of a key."""

TRAINER = "trainer"
"""Part of the content of a model that the sweep trains."""

TRAINING_CODE = ("concord.workers.sweeps.training",)
JUDGING_CODE = (*LABELLING, "concord.workers.sweeps.judging")


class Content(NamedTuple):
    """Digests, names and settings by part, and the key that they make."""

    parts: Mapping[str, Any]

    @property
    def key(self) -> str:
        """Hexadecimal digits that name the result."""
        state = json.dumps([FORMAT, self.parts], sort_keys=True)
        return hashlib.sha256(state.encode()).hexdigest()[:KEY_LETTERS]

    def changed(self, other: Mapping[str, Any]) -> tuple[str, ...]:
        """Parts that differ from those of another content."""
        return tuple(name for name in self.parts if self.parts[name] != other.get(name))


def model_content(sweep: Sweep, cell: Cell, digests: Mapping[str, str]) -> Content:
    """Content of the model of a cell; ``digests`` are those of corpora by place.

    Raises `ModelError` for a model folder that cannot be read.
    """
    model, corpus = sweep.file.models[cell.model], sweep.file.corpora[cell.corpus]
    if model.folder is not None:
        return Content({"model": parse_manifest(Path(model.folder) / MANIFEST).digest})
    assert corpus.train is not None
    settings = sweep.trainers[cell.model]
    beside = {name: getattr(settings, name) for name in (*settings.corpora, *settings.files)}
    return Content(
        {
            "training documents": [digests[corpus.train], *_fold(sweep, cell), cell.size, cell.subset],
            TRAINER: [model.trainer or DEFAULT, settings.model_dump(mode="json"), model.consistency],
            "files of the trainer": {name: _digest_of(place) for name, place in beside.items() if place},
            "training code": digest_of_code(TRAINING_CODE, (*LABELLING_PARTS, Group.TRAINERS)),
        }
    )


def cell_content(sweep: Sweep, cell: Cell, digests: Mapping[str, str]) -> Content:
    """Content of a cell. Raises `ModelError` as `model_content`."""
    corpus = sweep.file.corpora[cell.corpus]
    judged = corpus.test or corpus.train
    assert judged is not None
    entry = sweep.file.constraints[entry_of(sweep, cell.constraints)]
    engine = sweep.engines[cell.engine].model_copy(update={"seed": cell.seed})
    return Content(
        {
            **model_content(sweep, cell, digests).parts,
            "judged documents": [digests[judged], *_fold(sweep, cell)],
            "constraints": [rules_of(sweep, cell.constraints).digest, entry.consistency, entry.known_labels_only],
            "engine": engine.model_dump(mode="json"),
            "measures": list(sweep.file.measures),
            "code": digest_of_code(JUDGING_CODE, (*LABELLING_PARTS, Group.MEASURES)),
        }
    )


def _fold(sweep: Sweep, cell: Cell) -> list[Any]:
    corpus = sweep.file.corpora[cell.corpus]
    return [] if cell.fold is None else [cell.fold, corpus.folds, corpus.validation.value]


def _digest_of(place: Any) -> list[str]:
    """Digests of files that a trainer reads beside the corpus."""
    places = place if isinstance(place, list | tuple) else [place]
    return [_digest_of_file(str(one)) for one in places]


@cache
def _digest_of_file(place: str) -> str:
    path = Path(place)
    files = sorted(path.rglob("*")) if path.is_dir() else [path]
    state = hashlib.sha256()
    for file in files:
        if file.is_file():
            state.update(file.relative_to(path.parent).as_posix().encode() + b"\0" + file.read_bytes())
    return state.hexdigest()
