"""Mining in this process: the same weighed rules that `concord constraints mine` finds with any number of workers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, cast

from concord.schemas.document import Batch, Document
from concord.schemas.labels import LabelSet
from concord.schemas.settings import Validation
from concord.workers.constraints.declared import DeclaredConstraints
from concord.workers.constraints.declared_weights import with_weights
from concord.workers.learning.mining.logic.clauses import ClauseCounts, OpeningCounts
from concord.workers.learning.mining.logic.kept import kept_clauses, tried, written
from concord.workers.learning.mining.logic.openings import names_of
from concord.workers.learning.mining.logic.search import LogicSettings, clauses_of
from concord.workers.learning.mining.rule_counts import RuleCounts
from concord.workers.learning.mining.rules import (
    MiningSettings,
    Rule,
    Tried,
    candidates,
    declared,
    in_documents,
    kept_of,
    passing,
    significant,
)
from concord.workers.learning.search.folds import held_out
from concord.workers.learning.weights.penalties import Penalty
from concord.workers.learning.weights.row_counts import count_rows
from concord.workers.learning.weights.unseen import BATCH_DOCUMENTS


class MiningWay(NamedTuple):
    """Settings of mining rules in one process.

    - ``labels``: all labels.
    - ``settings``: settings of the method.
    - ``penalty``: counted penalty that gives the weights.
    - ``seed``: seed of the shuffled orders and of CP-SAT.
    - ``validation``: choice of the documents that are held out.
    """

    labels: LabelSet
    settings: Any
    penalty: Penalty
    seed: int
    validation: Validation = Validation.RANDOM


MineHere = Callable[[Sequence[Document], Sequence[Document], MiningWay], DeclaredConstraints]
"""Function that mines the first documents, and gives the weighed rules that are not too large for any of the second."""


def rules_of(counts: RuleCounts, labels: LabelSet, settings: MiningSettings) -> list[Rule]:
    """The rules that are kept, given their counts."""
    return kept_of(significant(candidates(counts, labels), settings), settings)


def counted_rules(documents: Sequence[Document], holding: Sequence[Document], way: MiningWay) -> DeclaredConstraints:
    """Weighed rules found by counting; see `MineHere`."""
    labels, settings = way.labels, cast("MiningSettings", way.settings)
    counts = RuleCounts.of(Batch.of(documents), labels, orders=settings.orders, seed=way.seed)
    rules = rules_of(counts, labels, settings)
    fitting = held_by(holding, declared(rules, labels), labels)
    return weighed(rules, fitting, _batches(documents), labels, way.penalty)


def clause_rules(documents: Sequence[Document], holding: Sequence[Document], way: MiningWay) -> DeclaredConstraints:
    """Weighed rules found by logic; see `MineHere`."""
    labels, settings = way.labels, cast("LogicSettings", way.settings)
    held = held_out(documents, settings.held_out_share, way.validation)
    inside, outside = ([d for d, own in zip(documents, held, strict=True) if own == out] for out in (False, True))
    samples = OpeningCounts.of(Batch.of(inside), labels, held_out=0.0)
    learned = list(clauses_of(samples, names_of(labels), settings, seed=way.seed))
    heads = [one.clause for one in learned]
    counts = ClauseCounts.of(Batch.of(outside), labels, heads, held_out=1.0, orders=settings.orders, seed=way.seed)
    kept = written(kept_clauses(passing(tried(learned, counts), settings), settings), labels)
    fitting = held_by(holding, kept.constraints, labels)
    return weighed(kept.clauses, fitting, _batches(outside), labels, way.penalty)


def held_by(documents: Sequence[Document], constraints: DeclaredConstraints, labels: LabelSet) -> DeclaredConstraints:
    """The constraints that are not too large for any of the documents."""
    too_large = {title for batch in _batches(documents) for title in constraints.too_large(batch, labels)}
    return constraints.only(set(constraints.titles) - too_large)


def weighed(
    rules: Sequence[Tried],
    constraints: DeclaredConstraints,
    batches: Iterable[Batch],
    labels: LabelSet,
    penalty: Penalty,
) -> DeclaredConstraints:
    """The constraints, one for each rule, with the weights that a mined file has."""
    rows, settings = count_rows(constraints, batches, labels), penalty.settings()
    said = (rule for rule in rules if rule.name in rows)
    given = {rule.name: in_documents(rule, rows[rule.name].degree).weight(penalty, settings) for rule in said}
    return with_weights(constraints, given)


def _batches(documents: Sequence[Document]) -> Iterator[Batch]:
    for first in range(0, len(documents), BATCH_DOCUMENTS):
        yield Batch.of(documents[first : first + BATCH_DOCUMENTS])
