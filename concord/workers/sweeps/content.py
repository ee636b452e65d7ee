"""The content of a cell: digests of all that can change its result, so that its key names the result for good.

Two cells of one content have one result, whatever their sweeps call them. A cell whose content differs from that of a
result under its name is stale, and the parts that differ say why.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from concord.schemas.errors import CorpusError
from concord.schemas.sweep import Cell
from concord.workers.compiling.code import LABELLING_CODE
from concord.workers.compiling.kept_digests import kept_digest
from concord.workers.corpus.plan import plan
from concord.workers.learning.trainers.registry import DEFAULT
from concord.workers.models.loaders import load_model
from concord.workers.parts import LABELLING_PARTS, Group
from concord.workers.sweeps.cells import engine_of, entry_of, rules_of, settings_of
from concord.workers.sweeps.documents import digest_of, digests_beside, model_digest_of, read_by
from concord.workers.sweeps.sweep_file import Sweep

FORMAT = 1
"""Version of results; a change makes all of them again."""

KEY_LETTERS = 20
"""Number of hexadecimal digits of a key."""

TRAINER = "trainer"
"""Part of the content of a model that the sweep trains."""

TRAINING_CODE = ("concord.workers.sweeps.training",)
WEIGHING_CODE = ("concord.workers.sweeps.weighing",)
JUDGING_CODE = (*LABELLING_CODE, "concord.workers.sweeps.judging")


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


def digests_of(sweep: Sweep) -> dict[str, str]:
    """Digests of everything that a sweep reads beside its own file and its constraints, by place.

    Raises `CorpusError`, `ModelError` for a model folder that cannot be read, and `OSError` for a trainer's file.
    """
    digests = {place: digest_of(plan(place)) for place in corpora_of(sweep)}
    digests |= {folder: model_digest_of(load_model(Path(folder)), Path(folder)) for folder in folders_of(sweep)}
    for settings in sweep.trainers.values():
        digests |= digests_beside(settings)
    return digests


def corpora_of(sweep: Sweep) -> list[str]:
    """Places of all corpora of the file."""
    places = [place for one in sweep.file.corpora.values() for place in (one.train, one.test, one.pool) if place]
    return list(dict.fromkeys(places))


def folders_of(sweep: Sweep) -> list[str]:
    """Folders of models that are not trained here."""
    return [model.folder for model in sweep.file.models.values() if model.folder is not None]


def model_content(sweep: Sweep, cell: Cell, digests: Mapping[str, str]) -> Content:
    """Content of the model of a cell; ``digests`` are those of `digests_of`."""
    model = sweep.file.models[cell.model]
    if model.folder is not None:
        return Content({"model": digests[model.folder]})
    settings = settings_of(sweep, cell)
    beside = {*settings.corpora, *settings.files}
    return Content(
        {
            "training documents": _training(sweep, cell, digests),
            TRAINER: [model.trainer or DEFAULT, settings.model_dump(mode="json", exclude=beside), model.consistency],
            "read by the trainer": {
                name: [digests[place] for place in read_by(settings, name)] for name in sorted(beside)
            },
            "training code": kept_digest(TRAINING_CODE, (*LABELLING_PARTS, Group.TRAINERS)),
        }
    )


def weights_content(sweep: Sweep, cell: Cell, model: Content, digests: Mapping[str, str]) -> Content | None:
    """Content of the weights of a cell's constraints; None where they are as declared."""
    weighing = sweep.weighings.get(cell.penalty)
    if weighing is None:
        return None
    groups = (*LABELLING_PARTS, Group.TRAINERS, Group.PENALTIES, Group.MEASURES)
    return Content(
        {
            **model.parts,
            "training documents": _training(sweep, cell, digests),
            "constraints": _constraints(sweep, cell),
            "penalty": [weighing.penalty, weighing.settings.model_dump(mode="json")],
            "weighing code": kept_digest(WEIGHING_CODE, groups),
        }
    )


def cell_content(
    sweep: Sweep, cell: Cell, model: Content, weights: Content | None, digests: Mapping[str, str]
) -> Content:
    """Content of a cell."""
    corpus = sweep.file.corpora[cell.corpus]
    test_place = corpus.test or corpus.train
    assert test_place is not None
    return Content(
        {
            **model.parts,
            "judged documents": [digests[test_place], *_fold(sweep, cell)],
            "constraints": _constraints(sweep, cell),
            **({} if weights is None else weights.parts),
            "engine": engine_of(sweep, cell).model_dump(mode="json"),
            "measures": list(sweep.file.measures),
            "code": kept_digest(JUDGING_CODE, (*LABELLING_PARTS, Group.MEASURES)),
        }
    )


def _training(sweep: Sweep, cell: Cell, digests: Mapping[str, str]) -> list[Any]:
    """What decides the documents that a cell learns from. Raises `CorpusError` where there are none."""
    place = sweep.file.corpora[cell.corpus].train
    if place is None:
        raise CorpusError(f"cell {cell.name} learns from documents, but corpus {cell.corpus!r} has no 'train'")
    return [digests[place], *_fold(sweep, cell), cell.size, cell.subset]


def _constraints(sweep: Sweep, cell: Cell) -> list[Any]:
    entry = sweep.file.constraints[entry_of(sweep, cell.constraints)]
    return [rules_of(sweep, cell.constraints).digest, entry.learned, entry.consistency, entry.known_labels_only]


def _fold(sweep: Sweep, cell: Cell) -> list[Any]:
    corpus = sweep.file.corpora[cell.corpus]
    return [] if cell.fold is None else [cell.fold, corpus.folds, corpus.validation.value]
