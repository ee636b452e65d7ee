"""Local model of another program's candidate spans: their log-odds as the scores of a chain.

The candidates are in a token column of the corpus (`schemas.layers.CANDIDATES_SUFFIX`). A candidate's weight is its
log-odds, see `Calibration`, and any other span costs ``floor``. So the best labelling is the set of spans that share no
token with the highest sum of log-odds, whichever rivals it takes.

A chain scores single tokens, so the score of a span of one type from token s to e (exclusive) is A(s) + D(e).
Candidates of one type that overlap are a window. There v(s, e) is what a candidate gains over a span that is none, and

    A(s) = max_e v(s, e),    D(e) = max_s v(s, e) − A(s) ≤ 0    over the first tokens s of its candidates.

This is never less than v, and equal to it unless two candidates begin and end apart and each could end as the other.
What is more, a row of the model's own takes back exactly. Spans that are no candidates and cross a window's border cost
up to the window's highest gain more than ``floor``, and no span gains by one of which it is no candidate.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from pydantic import Field

from concord.schemas.arrays import Floats, Ints
from concord.schemas.document import Batch, Document
from concord.schemas.errors import DocumentError
from concord.schemas.labels import LabelSet
from concord.schemas.layers import CANDIDATES_SUFFIX, NO_ANSWER, NO_CANDIDATES, candidates_in, types_under
from concord.schemas.potentials import Potentials
from concord.schemas.problem import ANY, LinearRows
from concord.schemas.settings import Settings
from concord.workers.models.folder import Manifest, manifest_of, read_manifest, write_manifest
from concord.workers.models.model import LocalScores
from concord.workers.models.saved_files import FolderModel, saved_content, write_content

KIND = "candidates"
CALIBRATION_FILE = "calibration.json"
LEAST_DOUBT = 1e-6
"""Probabilities nearer to 0 or 1 are taken as this near: no candidate is impossible, and none is beyond doubt."""
LEAST_NONE = 0.01
"""Least probability that no candidate holds a token, where several candidates do."""
LEAST_EXCESS = 1e-9


class CandidateSpan(NamedTuple):
    """A candidate span: tokens (end exclusive), type, and score as a probability."""

    start: int
    end: int
    type: str
    score: float


class Calibration(Settings):
    """Numbers by which a score p becomes log-odds, in nats: offset + slope · ln p/(1 − p) + rivalry · ln (1 − p)/q.

    The probability q that no rival is right is 1 − Σ p over the candidates that hold a token, for the token of the span
    with the highest sum. Where only one of rivals can be given, as by samples, n-best lists and marginals, ln p/q are
    the odds against nothing; where each has a score of its own, as GLiNER's, rivalry is 0.

    - ``layer``: the layer whose candidates are read.
    - ``floor``: log-odds of a span that is no candidate; none has less.
    - ``names``: the model's name for types of the layer; None leaves a type out.
    """

    layer: str = Field(min_length=1)
    slope: float = Field(1.0, gt=0, le=100)
    offset: float = Field(0.0, ge=-100, le=100)
    rivalry: float = Field(0.0, ge=0, le=100)
    floor: float = Field(ge=-100, lt=0)
    names: dict[str, str | None] = Field(default_factory=dict)

    def weights(self, spans: Sequence[CandidateSpan]) -> Floats:
        """(C,) log-odds of a document's candidates, in nats."""
        return np.maximum(evidence(spans) @ [self.slope, self.offset, self.rivalry], self.floor)


def evidence(spans: Sequence[CandidateSpan]) -> Floats:
    """(C, 3) of a document's candidates: ln p/(1 − p), 1, and ln (1 − p)/q, see `Calibration`; in nats."""
    p = np.array([one.score for one in spans])
    q = np.maximum(1.0 - crowds(spans), LEAST_NONE)
    return np.stack([log_odds(p), np.ones(len(p)), np.log(np.maximum(1.0 - p, q) / q)], axis=1)


def crowds(spans: Sequence[CandidateSpan]) -> Floats:
    """(C,) largest sum of scores over the candidates that hold a token, among the tokens of each candidate."""
    change = np.zeros(max((one.end for one in spans), default=0) + 1)
    for one in spans:
        change[one.start] += one.score
        change[one.end] -= one.score
    held = np.cumsum(change)
    return np.array([held[one.start : one.end].max() for one in spans], np.float64)


def log_odds(probabilities: Sequence[float] | Floats) -> Floats:
    """(C,) ln p/(1 − p) in nats, finite."""
    p = np.clip(np.asarray(probabilities, np.float64), LEAST_DOUBT, 1.0 - LEAST_DOUBT)
    odds: Floats = np.log(p) - np.log1p(-p)
    return odds


@dataclass(frozen=True, eq=False)
class CandidatesModel(FolderModel):
    """Model of candidate spans."""

    labels: LabelSet
    calibration: Calibration
    manifest: Manifest

    @property
    def columns(self) -> tuple[str, ...]:
        """The token column of candidates."""
        return (self.calibration.layer + CANDIDATES_SUFFIX,)

    def potentials(self, batch: Batch) -> Potentials:
        """Local scores of a whole batch, unary (N, L) in nats, without the model's own rows."""
        return self.scores(batch).potentials

    def scores(self, batch: Batch) -> LocalScores:
        """See `BringsRows`. Raises `DocumentError` for candidates that are not in the form of the column."""
        unary = np.zeros((batch.token_count, len(self.labels)))
        unary[:, self.labels.opening] = self.calibration.floor
        rows = [self._score(batch, i, unary) for i in range(len(batch))]
        transition = np.zeros((len(self.labels), len(self.labels)))
        return LocalScores(Potentials(unary, transition, batch.sentence_starts), rows)

    def misfit(self, documents: Sequence[Document]) -> str:
        """See `JudgesFit`: documents to which the layer has no answer."""
        (name,) = self.columns
        silent = sum(NO_ANSWER in document.columns[name].used() for document in documents)
        if not silent:
            return ""
        return (
            f"{silent} of the first {len(documents)} documents have no answer in layer {self.calibration.layer!r}, and "
            "nothing is found there; import tonight's candidates"
        )

    def _score(self, batch: Batch, i: int, unary: Floats) -> LinearRows:
        """Adds the candidates of document i of the batch to ``unary`` (N, L); returns the rows that they need."""
        first, last = int(batch.doc_starts[i]), int(batch.doc_starts[i + 1])
        spans = read_candidates(batch, i, self.calibration)
        gains = (self.calibration.weights(spans) - self.calibration.floor).tolist()
        ends = _sentence_ends(batch, i)
        charged = list[_Excess]()
        for kind, name in enumerate(self.labels.types):
            own = [(one.start, one.end, gain) for one, gain in zip(spans, gains, strict=True) if one.type == name]
            opening, inside = int(self.labels.opening[kind]), int(self.labels.inside[kind])
            for window in _windows(own):
                end = int(ends[window[0][0]])
                table = unary[first:last][:end]
                charged += [_Excess(*one, opening, inside, end) for one in _add(window, table, opening, inside)]
        return _rows(charged)


def read_candidates(batch: Batch, i: int, calibration: Calibration) -> list[CandidateSpan]:
    """The candidates of document i of a batch, under the model's names, in order; each place and type once.

    Raises `DocumentError` for what is not in the form of the column.
    """
    name, doc_id = calibration.layer + CANDIDATES_SUFFIX, batch.doc_ids[i]
    column, ends = batch.columns[name], _sentence_ends(batch, i).tolist()
    best = dict[tuple[int, int, str], float]()
    for at, code in enumerate(column.codes[batch.doc_starts[i] : batch.doc_starts[i + 1]].tolist()):
        if column.values[code] in (NO_CANDIDATES, NO_ANSWER):
            continue
        try:
            spans = candidates_in(column.values[code])
        except ValueError as error:
            raise DocumentError(f"column {name!r}, token {at}: {error}", doc_id) from error
        for label, size, score in spans:
            if at + size > ends[at]:
                raise DocumentError(
                    f"column {name!r}, token {at}: a candidate of {size} tokens leaves its sentence", doc_id
                )
            for kind in types_under(label):
                named = calibration.names.get(kind, kind)
                if named is not None:
                    place = (at, at + size, named)
                    best[place] = max(score, best.get(place, 0.0))
    return [CandidateSpan(*place, score) for place, score in sorted(best.items())]


def _sentence_ends(batch: Batch, i: int) -> Ints:
    """(n,) end of the sentence of each token of document i, counted from the document's first token."""
    first, last = int(batch.doc_starts[i]), int(batch.doc_starts[i + 1])
    ends = np.append(batch.sentence_starts, batch.token_count)
    own: Ints = ends[np.searchsorted(batch.sentence_starts, np.arange(first, last), side="right")] - first
    return own


class _Excess(NamedTuple):
    """A span of which the chain says more than is meant, by ``nats``; ``stop`` is the end of its sentence."""

    start: int
    end: int
    nats: float
    opening: int
    inside: int
    stop: int


_Weighed = tuple[int, int, float]
"""First token, token after the last, and gain in nats over a span that is no candidate."""


def _windows(spans: Sequence[_Weighed]) -> Iterator[list[_Weighed]]:
    """Candidates of one type that overlap, directly or by others."""
    window, end = list[_Weighed](), 0
    for span in sorted(spans):
        if window and span[0] >= end:
            yield window
            window = []
        window.append(span)
        end = max(end, span[1]) if len(window) > 1 else span[1]
    if window:
        yield window


def _add(window: Sequence[_Weighed], unary: Floats, opening: int, inside: int) -> Iterator[tuple[int, int, float]]:
    """Adds a window to ``unary`` (n, L) of its document up to the sentence's end; tells spans with too high scores."""
    low, high = window[0][0], max(end for _, end, _ in window)
    starts = sorted({start for start, _, _ in window})
    gain = np.zeros((high - low, high - low + 1))  # by start, and by end
    for start, end, v in window:
        gain[start - low, end - low] = v
    best = gain.max(axis=1)
    own = np.array(starts) - low
    before = np.arange(high - low + 1)[None] > own[:, None]
    level = np.where(before, gain[own] - best[own, None], -np.inf).max(axis=0)
    level[0] = 0.0  # where a span ends before the window
    after = -best.max()
    highest = np.maximum.accumulate(np.append(level, after)[::-1])[::-1]
    start_score = np.where(np.isin(np.arange(high - low), own), best, -highest[1:-1])
    unary[low:high, opening] += start_score + level[1:]
    unary[low:high, inside] += np.diff(level)
    if high < len(unary):
        unary[high, inside] += after - level[-1]
    excess = np.where(before, best[own, None] + level - gain[own], 0.0)
    for place, end in np.argwhere(excess > LEAST_EXCESS).tolist():
        yield starts[place], low + end, float(excess[place, end])


def _rows(charged: Sequence[_Excess]) -> LinearRows:
    """A row for each of the spans: it is broken, by 1, by labellings that have exactly this span."""
    if not charged:
        return LinearRows.none()
    position, label, coefficient, pointer, bound = list[int](), list[int](), list[float](), [0], list[float]()
    for one in charged:
        size = one.end - one.start
        goes_on = one.end < one.stop
        position += range(one.start, one.end + goes_on)
        label += [one.opening, *[one.inside] * (size - 1 + goes_on)]
        coefficient += [1.0] * size + [-1.0] * goes_on
        bound.append(size - 1.0)
        pointer.append(len(position))
    return LinearRows(
        np.array(pointer, np.int64),
        np.array(position, np.int32),
        np.full(len(position), ANY, np.int32),
        np.array(label, np.int32),
        np.array(coefficient),
        np.array(bound),
        np.array([one.nats for one in charged]),
        np.zeros(len(charged), np.int32),
    )


def save(
    out: Path, calibration: Calibration, labels: LabelSet, *, settings: Settings, training: dict[str, Any]
) -> CandidatesModel:
    """Writes a model into an existing folder, the manifest last. Raises `OSError` and `OutputError`."""
    write_content(out / CALIBRATION_FILE, calibration)
    manifest = manifest_of(out, KIND, labels, files=(CALIBRATION_FILE,), settings=settings, training=training)
    return CandidatesModel(labels, calibration, write_manifest(out, manifest))


def load(folder: Path | str) -> CandidatesModel:
    """The model of a folder; files are parsed only after their hash was checked. Raises `ModelError`."""
    folder = Path(folder)
    manifest = read_manifest(folder, kind=KIND, files=(CALIBRATION_FILE,))
    return CandidatesModel(manifest.label_set, saved_content(folder / CALIBRATION_FILE, Calibration), manifest)
