"""What a page says of all documents of a run: counts of one pass over its tables, and the documents that are shown."""

from __future__ import annotations

import heapq
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from concord.schemas.columns import DOC_ID, LABELS, SENTENCE_STARTS, VITERBI_CONSTRAINTS, VITERBI_LABELS
from concord.schemas.shown import NO_GAP
from concord.workers.report.answered import AnsweredDocument, ShardTables
from concord.workers.report.chosen import ShownDocuments
from concord.workers.report.other_labels import OtherLabels
from concord.workers.report.places import ErrorKind, GoldVerdict, places_of, verdict_on

MOST_SLOW = 15
"""Documents in the list of the slowest."""

MOST_REJECT_REASONS = 1000
"""Different reasons of rejects that are told apart; later ones are counted together."""

OTHER_REASONS = "other reasons"

GAP_EDGES = (NO_GAP, 0.01, 0.1, 1.0, 10.0, np.inf)
"""Upper ends of the classes of gaps, in nats; those without a bound are a class of their own."""

SECOND_EDGES = (0.001, 0.01, 0.1, 1.0, 10.0, 100.0, np.inf)
"""Upper ends of the classes of seconds."""

DIGITS = re.compile(r"\d+")

Changes = Counter[tuple[tuple[str, str], GoldVerdict]]
"""Numbers of changes by types before and after, and by what gold says of them."""


@dataclass
class RuleEffect:
    """What a constraint did.

    - ``grounded``: documents in which it has something to say
    - ``cheaper``: documents with another answer, which costs less by it
    - ``alone``: changes in those documents in which it is the only one, by what gold says of them
    """

    grounded: int = 0
    cheaper: int = 0
    alone: Counter[GoldVerdict] = field(default_factory=Counter)


class SlowDocument(NamedTuple):
    """A document, and the time that was spent on it."""

    seconds: float
    doc_id: str
    tokens: int
    status: str


@dataclass
class RejectReason:
    """Rows without an answer for a reason: how many, and the first of them."""

    rows: int
    place: str
    example: str


@dataclass
class RunSummary:
    """Counts of the documents of a run.

    - ``other``, ``gold``: another run and gold, of the same documents
    - ``plain``: is each label a type by itself, whatever its name looks like?
    """

    other: OtherLabels | None = None
    gold: OtherLabels | None = None
    plain: bool = False
    documents: int = 0
    changed: int = 0
    other_changed: int = 0
    absent: int = 0
    entities: Counter[str] = field(default_factory=Counter)
    changes: Changes = field(default_factory=Counter)
    other_changes: Changes = field(default_factory=Counter)
    errors: Counter[tuple[str, ErrorKind]] = field(default_factory=Counter)
    rules: dict[str, RuleEffect] = field(default_factory=dict)
    gaps: Counter[int] = field(default_factory=Counter)
    times: Counter[int] = field(default_factory=Counter)
    seconds: float = 0.0
    slowest: list[SlowDocument] = field(default_factory=list)
    rejects: dict[str, RejectReason] = field(default_factory=dict)
    chosen: ShownDocuments = field(default_factory=ShownDocuments)

    def add(self, shard: ShardTables) -> None:
        """Counts a shard; shards come in the order of the corpus."""
        self._add_rejects(shard)
        self._add_grounded(shard.predictions)
        gaps = shard.predictions["gap"].to_numpy()
        for document in self._documents(shard):
            gap = float(gaps[document.number])
            self._add(document)
            self.gaps[int(np.searchsorted(GAP_EDGES, gap))] += 1
            self.chosen.offer(document, gap=gap if gap > NO_GAP else 0.0)

    def _documents(self, shard: ShardTables) -> Iterator[AnsweredDocument]:
        table = shard.predictions
        starts = table[SENTENCE_STARTS]
        answers = places_of(table[LABELS], starts, plain=self.plain)
        model = VITERBI_LABELS if VITERBI_LABELS in table.column_names else LABELS
        alone = places_of(table[model], starts, plain=self.plain)
        times = [None] * len(table) if shard.times is None else shard.times["seconds"].to_pylist()
        rows = zip(table[DOC_ID].to_pylist(), answers, alone, times, strict=True)
        for number, (doc_id, answer, before, seconds) in enumerate(rows):
            yield AnsweredDocument(
                shard,
                number,
                answer=answer,
                alone=before,
                other=None if self.other is None else self.other.of(doc_id),
                gold=None if self.gold is None else self.gold.of(doc_id),
                seconds=seconds,
            )

    def _add(self, document: AnsweredDocument) -> None:
        self.documents += 1
        self.entities.update(document.answer.values())
        self.absent += self.other is not None and document.other is None
        self.errors.update((error.type, error.kind) for error in document.errors)
        for counts, changes in (
            (self.changes, document.changes),
            (self.other_changes, document.other_changes),
        ):
            counts.update((change.kind, verdict_on(change, document.gold)) for change in changes)
        self.changed += bool(document.changes)
        self.other_changed += bool(document.other_changes)
        if document.changes:
            self._add_effects(document)
        if document.seconds is not None:
            self._add_time(document, document.seconds)

    def _add_effects(self, document: AnsweredDocument) -> None:
        cheaper = document.cheaper
        for name in cheaper:
            self.rules.setdefault(name, RuleEffect()).cheaper += 1
        if len(cheaper) == 1:
            verdicts = (verdict_on(change, document.gold) for change in document.changes)
            self.rules[cheaper[0]].alone.update(verdicts)

    def _add_time(self, document: AnsweredDocument, seconds: float) -> None:
        self.seconds += seconds
        self.times[int(np.searchsorted(SECOND_EDGES, seconds))] += 1
        if len(self.slowest) == MOST_SLOW and seconds <= self.slowest[0].seconds:
            return
        name, status = str(document.value(DOC_ID)), str(document.value("status"))
        add = heapq.heapreplace if len(self.slowest) == MOST_SLOW else heapq.heappush
        add(self.slowest, SlowDocument(seconds, name, len(document.tokens), status))

    def _add_grounded(self, table: pa.Table) -> None:
        if VITERBI_CONSTRAINTS not in table.column_names:
            return
        flat = table[VITERBI_CONSTRAINTS].combine_chunks().flatten()
        there = pc.value_counts(flat.filter(flat.field("grounded")).field("name"))
        for one in there.to_pylist():
            self.rules.setdefault(one["values"], RuleEffect()).grounded += one["counts"]

    def _add_rejects(self, shard: ShardTables) -> None:
        for reject in shard.rejects:
            kind = DIGITS.sub("…", reject["reason"])
            if kind not in self.rejects and len(self.rejects) >= MOST_REJECT_REASONS:
                kind = OTHER_REASONS
            row = "a row" if reject["row"] is None else f"row {reject['row']}"
            place = f"{reject['source']}, {row}"
            self.rejects.setdefault(kind, RejectReason(0, place, reject["reason"])).rows += 1
