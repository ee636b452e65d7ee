"""Local model that reads another tagger's scores from a column of the corpus.

The column has a list of scores for each token (`schemas.document.ScoreColumn`). The model folder holds its name, the
labels of the scores in order, and how scores become nats (`ScoresSettings`); beside these, the transition scores of a
chain.

Labels of BIOES and BILOU become BIO token by token. Where several labels become one, its score is log Σ e^score, which
keeps the tagger's probability that a token opens a span. The tagger's scores of where a span ends are lost: they depend
on two labels and the place, for which a chain of BIO labels has no score. A label of padding is no label of a token,
and its scores are left out.

Numbers of another form than the model reads are no matter of taste: probabilities in place of their logarithms make
every label about as good as any other. `workers.models.score_forms` says what they look like.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from concord.schemas.arrays import Floats
from concord.schemas.document import Batch, ScoreColumn
from concord.schemas.errors import DocumentError, InputError
from concord.schemas.label_names import WrittenLabels, read_label_names
from concord.schemas.labels import LabelError, Labels, LabelSet
from concord.schemas.potentials import Potentials
from concord.schemas.settings import Settings
from concord.workers.models.arrays_file import SCORES, ArrayKind, write_arrays
from concord.workers.models.folder import Manifest, manifest_of, read_manifest, write_manifest
from concord.workers.models.saved_files import check_labels, parsing, saved_arrays, saved_content, write_content
from concord.workers.models.score_forms import check_form
from concord.workers.models.settings import ScoresSettings

KIND = "scores"
SCORES_FILE = "scores.json"
"""File of the `ScoresSettings`."""
TRANSITION_FILE = "transition.bin"
TRANSITION_ARRAYS = (ArrayKind("transition", "<f8", ("labels", "labels"), SCORES),)
NO_LABEL = -1
"""Id of a column of scores that is of no label."""


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

        Raises `MissingScoresError` where the batch was read without the column, and `DocumentError` for numbers that
        look like scores of another form, or that allow padding alone.
        """
        name, width = self.score_column
        if batch.scores is None or batch.scores.shape[1] != width:
            raise MissingScoresError(f"the documents were read without the {width} scores a token of column {name!r}")
        check_form(batch, self.source.form)
        table = unary(batch.scores, self.labels, self.source)
        self._check_allowed(table, batch)
        return Potentials(table, self.transition.copy(), batch.sentence_starts)

    def _check_allowed(self, table: Floats, batch: Batch) -> None:
        padded = np.flatnonzero((table == -np.inf).all(axis=1))
        if len(padded):
            place = int(np.searchsorted(batch.doc_starts, padded[0], side="right")) - 1
            token = int(padded[0] - batch.doc_starts[place])
            raise DocumentError(f"scores forbid every label of token {token} but padding", batch.doc_ids[place])


def unary(scores: NDArray[np.float64], labels: LabelSet, source: ScoresSettings) -> Floats:
    """(N, L) scores of the label set in nats, from scores (N, W) of the column divided by the temperature.

    −inf for labels that the column does not have.
    """
    scaled = scores / source.temperature
    if source.form == "logits":
        scaled -= scaled.max(axis=1, keepdims=True)
        scaled -= np.log(np.exp(scaled).sum(axis=1, keepdims=True))
    return joined(scaled, label_ids(source, labels), len(labels))


def joined(scores: Floats, ids: Labels, size: int) -> Floats:
    """(N, L) log Σ e^score over the columns of ``scores`` (N, W) that stand for the same label.

    ``ids`` (W,) is the label of each column, `NO_LABEL` for padding. −inf for labels of no column.
    """
    table = np.full((len(scores), size), -np.inf)
    for place, label in columns_of(ids):
        np.logaddexp(table[:, label], scores[:, place], out=table[:, label])
    return table


def columns_of(ids: Labels) -> Iterator[tuple[int, int]]:
    """Each column of scores that is of a label, with the label's id."""
    return ((place, label) for place, label in enumerate(ids.tolist()) if label != NO_LABEL)


def names_of(source: ScoresSettings) -> WrittenLabels:
    """The labels of a column as they were read. Raises `LabelError` where they are of no scheme."""
    return read_label_names(source.labels, plain=source.scheme == "plain", padding=True)


def label_set(source: ScoresSettings) -> LabelSet:
    """Label set of a column: BIO for labels of BIO, BIOES or BILOU, otherwise plain.

    Raises `LabelError` where the labels are of no scheme, and where a type has no label that opens a span, so that it
    could have no spans.
    """
    read = names_of(source)
    labels = read.label_set
    if not labels.types:
        raise LabelError(f"there is no label of a span or type among {', '.join(source.labels)}")
    for kind, opening in zip(labels.types, labels.opening.tolist(), strict=True):
        if labels.names[opening] not in read.written:
            raise LabelError(
                f"no label opens a span of {kind!r} ('B-{kind}'); for one label a token leave the prefix 'I-' out"
            )
    return labels


def label_ids(source: ScoresSettings, labels: LabelSet) -> Labels:
    """(W,) id in the label set for each of a column's labels, `NO_LABEL` for padding."""
    return np.array([labels.index[name] if name else NO_LABEL for name in names_of(source).written], np.int32)


def placed(transition: Floats, source: ScoresSettings) -> Floats:
    """Transition scores (L, L) of the label set, from those (W, W) of a column; 0 for labels that the column lacks.

    Raises `LabelError` where several labels of the column become one, as its transitions are then not defined.
    """
    labels = label_set(source)
    ids = label_ids(source, labels)
    own = np.flatnonzero(ids != NO_LABEL)
    if len(set(ids[own].tolist())) < len(own):
        raise LabelError("transitions between labels of BIOES or BILOU have no equal in BIO; leave them out")
    whole = np.zeros((len(labels), len(labels)))
    whole[np.ix_(ids[own], ids[own])] = transition[np.ix_(own, own)]
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
    labels = label_set(source)
    write_content(out / SCORES_FILE, source)
    write_arrays(out / TRANSITION_FILE, [transition])
    files = (SCORES_FILE, TRANSITION_FILE)
    manifest = write_manifest(out, manifest_of(out, KIND, labels, files=files, settings=settings, training=training))
    return ScoresModel(labels, source, transition, manifest, manifest.digest)


def load(folder: Path | str) -> ScoresModel:
    """The model saved in a folder; no file is opened before its hash was checked. Raises `ModelError`."""
    folder = Path(folder)
    manifest = read_manifest(folder, kind=KIND, files=(SCORES_FILE, TRANSITION_FILE))
    source, transition = read_scores(folder, manifest)
    return ScoresModel(manifest.label_set, source, transition, manifest, manifest.digest)


def read_scores(folder: Path, manifest: Manifest) -> tuple[ScoresSettings, Floats]:
    """Settings and transitions (L, L) in the folder of a model of scores. Raises `ModelError`."""
    source = saved_content(folder / SCORES_FILE, ScoresSettings)
    with parsing(folder / SCORES_FILE):
        check_labels(folder / SCORES_FILE, label_set(source), manifest)
    (transition,) = saved_arrays(folder / TRANSITION_FILE, TRANSITION_ARRAYS, labels=len(manifest.labels))
    return source, transition
