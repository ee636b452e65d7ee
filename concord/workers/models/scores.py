"""Local model that reads another tagger's scores from a column of the corpus.

The column has a list of scores for each token (`schemas.document.ScoreColumn`). The model folder holds its name, the
labels of the scores in order, and how scores become nats (`ScoresSettings`); beside these, the transition scores of a
chain.

Labels of BIOES and BILOU become BIO token by token. Where several labels become one, its score is log Σ e^score, which
keeps the tagger's probability that a token opens a span. The tagger's scores of where a span ends are lost: they depend
on two labels and the place, for which a chain of BIO labels has no score.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from concord.schemas.arrays import Floats
from concord.schemas.document import Batch, ScoreColumn
from concord.schemas.errors import InputError
from concord.schemas.labels import OUTSIDE, SPAN_PREFIXES, LabelError, Labels, LabelSet, bio_label
from concord.schemas.potentials import LARGEST_WEIGHT, Potentials
from concord.schemas.settings import Settings
from concord.workers.models.arrays_file import ArrayKind, ArraysFileError, read_arrays, write_arrays
from concord.workers.models.folder import MANIFEST, Manifest, ModelError, manifest_of, read_manifest, write_manifest
from concord.workers.models.settings import ScoresSettings
from concord.workers.storage.files import write_whole

KIND = "scores"
SCORES_FILE = "scores.json"
"""File of the `ScoresSettings`."""
TRANSITION_FILE = "transition.bin"
ARRAYS = (ArrayKind("transition", "<f8", 2),)


class MissingScoresError(InputError):
    """The documents were read without the column of scores."""


@dataclass(frozen=True, eq=False)
class ScoresModel:
    """Model of another tagger's scores.

    - ``source``: column, labels and kind of the scores.
    - ``transition`` (L, L): nats, row: the previous label; without the label set's legality.
    """

    labels: LabelSet
    source: ScoresSettings
    transition: Floats
    manifest: Manifest
    digest: str
    columns: tuple[str, ...] = ()

    @property
    def score_column(self) -> ScoreColumn:
        """Column of scores that a corpus must be read with, and its width W."""
        return ScoreColumn(self.source.column, len(self.source.labels))

    def potentials(self, batch: Batch) -> Potentials:
        """Local scores of a whole batch: unary (N, L), nats, without the label set's legality.

        Raises `MissingScoresError` where the batch was read without the column.
        """
        name, width = self.score_column
        if batch.scores is None or batch.scores.shape[1] != width:
            raise MissingScoresError(f"the documents were read without the {width} scores a token of column {name!r}")
        return Potentials(unary(batch.scores, self.labels, self.source), self.transition.copy(), batch.sentence_starts)


def unary(scores: NDArray[np.float64], labels: LabelSet, source: ScoresSettings) -> Floats:
    """(N, L) scores of the label set in nats, from scores (N, W) of the column divided by the temperature.

    −inf for labels that the column does not have.
    """
    scaled = scores / source.temperature
    if source.form == "logits":
        scaled -= scaled.max(axis=1, keepdims=True)
        scaled -= np.log(np.exp(scaled).sum(axis=1, keepdims=True))
    return joined(scaled, label_ids(source.labels, labels), len(labels))


def joined(scores: Floats, ids: Labels, size: int) -> Floats:
    """(N, L) log Σ e^score over the columns of ``scores`` (N, W) that stand for the same label.

    ``ids`` (W,) is the label of each column. −inf for labels of no column.
    """
    table = np.full((len(scores), size), -np.inf)
    for place, label in enumerate(ids.tolist()):
        np.logaddexp(table[:, label], scores[:, place], out=table[:, label])
    return table


def label_set(names: Sequence[str]) -> LabelSet:
    """Label set of a column: BIO if all its labels are of BIO, BIOES or BILOU, otherwise plain.

    Raises `LabelError` where a type has no label that opens a span, so that it could have no spans.
    """
    written = _written(names)
    labels = LabelSet.infer(written)
    for kind, opening in zip(labels.types, labels.opening.tolist(), strict=True):
        if labels.names[opening] not in written:
            raise LabelError(
                f"no label opens a span of {kind!r} ('B-{kind}'); for one label a token leave the prefix 'I-' out"
            )
    return labels


def label_ids(names: Sequence[str], labels: LabelSet) -> Labels:
    """(W,) id in the label set for each of a column's labels."""
    return labels.encode(_written(names))


def _written(names: Sequence[str]) -> list[str]:
    marked = all(name == OUTSIDE or name.startswith(SPAN_PREFIXES) for name in names)
    return [bio_label(name) for name in names] if marked else list(names)


def placed(transition: Floats, names: Sequence[str]) -> Floats:
    """Transition scores (L, L) of the label set, from those (W, W) of a column; 0 for labels that the column lacks.

    Raises `LabelError` where several labels of the column become one, as its transitions are then not defined.
    """
    labels = label_set(names)
    ids = label_ids(names, labels)
    if len(set(ids.tolist())) < len(ids):
        raise LabelError("transitions between labels of BIOES or BILOU have no equal in BIO; leave them out")
    whole = np.zeros((len(labels), len(labels)))
    whole[np.ix_(ids, ids)] = transition
    return whole


def save(
    out: Path,
    source: ScoresSettings,
    transition: Floats,
    *,
    settings: Settings | None = None,
    training: Mapping[str, Any] | None = None,
) -> ScoresModel:
    """Writes a model into an existing folder, the manifest last.

    - ``transition`` (L, L): nats.
    - ``settings``, ``training``: of the trainer that learned the model, for the manifest.

    Raises `LabelError`, `OSError` and `OutputError`.
    """
    labels = label_set(source.labels)
    write_whole(out / SCORES_FILE, source.model_dump_json(indent=2).encode() + b"\n")
    write_arrays(out / TRANSITION_FILE, [transition])
    files = (SCORES_FILE, TRANSITION_FILE)
    manifest = manifest_of(out, KIND, labels, files=files, settings=settings, training=training)
    write_manifest(out, manifest)
    return ScoresModel(labels, source, transition, manifest, manifest.digest)


def load(folder: Path | str) -> ScoresModel:
    """The model saved in a folder; no file is opened before its hash was checked. Raises `ModelError`."""
    folder = Path(folder)
    manifest = read_manifest(folder, kind=KIND, files=(SCORES_FILE, TRANSITION_FILE))
    labels = manifest.label_set
    try:
        source = ScoresSettings.model_validate_json((folder / SCORES_FILE).read_bytes())
        same = label_set(source.labels) == labels
    except (ValidationError, LabelError) as error:
        first = error.errors()[0]["msg"] if isinstance(error, ValidationError) else str(error)
        raise ModelError(f"{folder / SCORES_FILE}: {first}; make the model again") from error
    if not same:
        raise ModelError(f"{folder / SCORES_FILE}: its labels are not those of {MANIFEST}; make the model again")
    try:
        (transition,) = read_arrays(folder / TRANSITION_FILE, ARRAYS)
    except ArraysFileError as error:
        raise ModelError(f"{folder / TRANSITION_FILE}: damaged ({error}); make the model again") from error
    _check(transition, len(labels), folder / TRANSITION_FILE)
    return ScoresModel(labels, source, transition, manifest, manifest.digest)


def _check(transition: Floats, labels: int, where: Path) -> None:
    if transition.shape != (labels, labels):
        raise ModelError(f"{where}: transitions are {transition.shape} for {labels} labels")
    if not np.abs(transition).max() <= LARGEST_WEIGHT:
        raise ModelError(f"{where}: a transition is not a number of at most {LARGEST_WEIGHT:g} nats")
