"""Figures of each document of a night, from its table of predictions: arrays, and nothing a token in plain Python."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from concord.schemas.arrays import Floats
from concord.schemas.columns import (
    DOC_ID,
    LABELS,
    MARGIN,
    PROBABILITY,
    SENTENCE_STARTS,
    VITERBI_LOCAL,
    VITERBI_PENALTY,
)
from concord.schemas.document import TOKENS
from concord.schemas.drift import FigureUnit
from concord.schemas.labels import LabelSet
from concord.workers.drift.items import Coded, ItemColumn
from concord.workers.inference.numerics import TOLERANCE

UNKNOWN, LENGTH, FIT = "unknown words", "tokens", "score of the model alone"
OF_TEXTS = (UNKNOWN, LENGTH, FIT)
"""Figures that texts alone are compared by: another model gives them another scale."""
WITHOUT_ANSWERS = (UNKNOWN, LENGTH)
"""Figures that no answer is in."""
OF_LABEL, VIOLATIONS = "label ", "violations "
"""Starts of the names of figures of a label, and of a constraint; where a night has none of it they are 0."""
PER = 1000.0
"""Violations and nats are those of so many tokens."""


UNITS: dict[str, FigureUnit] = {
    UNKNOWN: "share",
    LENGTH: "words",
    FIT: "nats per 1,000 words",
    "certified": "share",
    "gap": "nats",
    "penalty": "nats per 1,000 words",
    "nats given up": "nats per 1,000 words",
    "penalty of the model alone": "nats per 1,000 words",
    "margin of entities": "nats",
    "probability of entities": "share",
}
"""Of the figures that are no label's and no constraint's."""


def unit_of(figure: str) -> FigureUnit:
    """What a figure is counted in, by its name."""
    if figure.startswith(OF_LABEL):
        return "share"
    return "per 1,000 words" if figure.startswith(VIOLATIONS) else UNITS[figure]


class DriftWatch(NamedTuple):
    """What is looked at beside what every run has.

    - ``known``: gives the mask (V,) of the words that the model knows; None for a model that cannot tell
    - ``constraints``: names of constraints
    - ``weights``: nats a degree of the constraints that count in the penalty, by name; None for the recorded penalty of
      the constraint. None where all constraints count as they were recorded
    """

    known: Callable[[Sequence[str]], NDArray[np.bool_]] | None = None
    constraints: Sequence[str] = ()
    weights: Mapping[str, float | None] | None = None


@dataclass(frozen=True, eq=False)
class DocumentFigures:
    """Documents (D) of a night.

    - ``ids``: their ids
    - ``files``: the file of the corpus that each is in, where that is known
    - ``times``: for how many documents each stands, where some were drawn
    - ``texts``, ``answers``: digests of words and sentences, and of labels
    - ``values``: figures (D,) by name; NaN where a document has none
    - ``spans``: (S, 4) labelled spans: document, number of the type in ``types``, start, end
    """

    ids: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    times: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    texts: tuple[bytes, ...] = ()
    answers: tuple[bytes, ...] = ()
    values: dict[str, Floats] = field(default_factory=dict)
    spans: NDArray[np.int64] = field(default_factory=lambda: np.zeros((0, 4), np.int64))
    types: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.ids)

    @classmethod
    def of(cls, table: pa.Table, watch: DriftWatch, times: int = 1, file: str = "") -> DocumentFigures:
        """The documents of a table of predictions for a ``file`` of the corpus; each stands for so many."""
        tokens, labels = ItemColumn.of(table[TOKENS]), ItemColumn.of(table[LABELS])
        sentences = ItemColumn.of(table[SENTENCE_STARTS])
        words, labelled = Coded.of(tokens.values), Coded.of(labels.values)
        starts = sentences.values.to_numpy(zero_copy_only=False)
        texts = zip(tokens.digests(words.digests), sentences.digests(starts), strict=True)
        spans, types = _spans(table["entities"])
        return cls(
            tuple(table[DOC_ID].to_pylist()),
            (file,) * len(table),
            np.full(len(table), times),
            tuple(a + b for a, b in texts),
            tuple(labels.digests(labelled.digests)),
            _text_figures(tokens, words, watch) | _label_shares(labels, labelled) | _scores(table, tokens, watch),
            spans,
            types,
        )

    @classmethod
    def joined(cls, parts: Iterable[DocumentFigures]) -> DocumentFigures:
        """The documents of all parts, in their order."""
        every = list(parts)
        if not every:
            return cls()
        types = tuple(dict.fromkeys(kind for part in every for kind in part.types))
        firsts = np.cumsum([0, *map(len, every)]).tolist()
        return cls(
            tuple(name for part in every for name in part.ids),
            tuple(name for part in every for name in part.files),
            np.concatenate([part.times for part in every]),
            tuple(digest for part in every for digest in part.texts),
            tuple(digest for part in every for digest in part.answers),
            {
                name: np.concatenate([part.figure(name) for part in every])
                for name in dict.fromkeys(name for part in every for name in part.values)
            },
            np.concatenate(
                [part.spans_of(np.arange(len(part)), types, first) for part, first in zip(every, firsts, strict=False)]
            ),
            types,
        )

    def figure(self, name: str) -> Floats:
        """(D,) a figure by its name; where no document has it, 0 or NaN."""
        return self.values.get(name, np.full(len(self), 0.0 if name.startswith((OF_LABEL, VIOLATIONS)) else np.nan))

    def spans_of(self, rows: NDArray[np.int64], types: Sequence[str], first: int = 0) -> NDArray[np.int64]:
        """(S, 4) spans of these documents, which are numbered from ``first`` on, and whose types are those given."""
        place = np.full(len(self) + 1, -1, np.int64)
        place[rows] = np.arange(len(rows)) + first
        number = np.array([*map(types.index, self.types), -1], np.int64)
        spans = np.column_stack([place[self.spans[:, 0]], number[self.spans[:, 1]], self.spans[:, 2:]])
        return spans[spans[:, 0] >= 0]


def _text_figures(tokens: ItemColumn, words: Coded, watch: DriftWatch) -> dict[str, Floats]:
    values = {LENGTH: tokens.lengths.astype(np.float64)}
    if watch.known is not None and words.names:
        in_vocabulary = watch.known(words.names)[words.codes]
        values[UNKNOWN] = tokens.sums(np.where(in_vocabulary, -1, 0), 1)[:, 0] / np.maximum(tokens.lengths, 1)
    return values


def _label_shares(labels: ItemColumn, labelled: Coded) -> dict[str, Floats]:
    """Share of the tokens that have each type of label, but for those outside."""
    names = LabelSet.infer(labelled.names)
    types = names.type_of[names.encode(labelled.names)].astype(np.int64)
    counts = labels.sums(types[labelled.codes], len(names.types)) / np.maximum(labels.lengths, 1)[:, None]
    return {f"{OF_LABEL}{kind}": counts[:, k] for k, kind in enumerate(names.types)}


def _scores(table: pa.Table, tokens: ItemColumn, watch: DriftWatch) -> dict[str, Floats]:
    """What proofs, constraints and, where it was asked for, confidence say of each document."""
    per = PER / np.maximum(tokens.lengths, 1)
    gap, local = _floats(table["gap"]), _floats(table["local"])
    values = {
        "certified": table["certified"].cast(pa.int64()).to_numpy().astype(np.float64),
        "gap": np.where(gap <= TOLERANCE, 0.0, np.where(np.isfinite(gap), gap, np.nan)),
    }
    if VITERBI_LOCAL in table.column_names:
        alone = _floats(table[VITERBI_LOCAL])
        values |= {FIT: alone * per, "nats given up": (alone - local) * per}
    for column, name in ((MARGIN, "margin of entities"), (PROBABILITY, "probability of entities")):
        if column in table.column_names:
            values[name] = ItemColumn.of(table[column]).means()
    rows = ItemColumn.of(table["constraints"])
    charged = Coded.of(rows.values.field("name"))
    places = {name: k for k, name in enumerate(watch.constraints)}
    codes = np.array([places.get(name, -1) for name in charged.names], np.int64)[charged.codes]
    degree = rows.values.field("degree").to_numpy(zero_copy_only=False)
    sums = rows.sums(codes, len(places), degree) * per[:, None]
    values |= {f"{VIOLATIONS}{name}": sums[:, k] for name, k in places.items()}
    if watch.weights is None:
        values["penalty"] = _floats(table["penalty"]) * per
        if VITERBI_PENALTY in table.column_names:
            values["penalty of the model alone"] = _floats(table[VITERBI_PENALTY]) * per
    else:
        values["penalty"] = _penalty(rows, charged, watch.weights) * per
    return values


def _penalty(rows: ItemColumn, charged: Coded, weights: Mapping[str, float | None]) -> Floats:
    """(D,) nats of the constraints that ``weights`` names, at these weights."""
    counts = np.array([name in weights for name in charged.names], np.bool_)[charged.codes]
    weight = np.array([weights.get(name) for name in charged.names], np.float64)[charged.codes]
    degree, recorded = (rows.values.field(name).to_numpy(zero_copy_only=False) for name in ("degree", "penalty"))
    nats = np.where(np.isnan(weight), recorded, weight * degree)
    return rows.sums(np.where(counts, 0, -1), 1, nats)[:, 0]


def _floats(column: pa.ChunkedArray) -> Floats:
    floats: Floats = column.to_numpy()
    return floats


def _spans(column: pa.ChunkedArray) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """(S, 4) spans, see `DocumentFigures`, and their types."""
    spans = ItemColumn.of(column)
    kinds = Coded.of(spans.values.field("type"))
    ends = [spans.values.field(name).to_numpy(zero_copy_only=False) for name in ("start", "end")]
    return np.column_stack([spans.of_row, kinds.codes, *ends]).astype(np.int64), tuple(kinds.names)
