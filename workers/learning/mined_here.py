"""Rules of documents in this process, weighed: what `concord constraints mine` finds for any number of workers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from concord.schemas.document import Batch, Document
from concord.schemas.labels import LabelSet
from concord.workers.constraints.declared import DeclaredConstraints
from concord.workers.learning.logic.clauses import ClauseCounts, OpeningCounts
from concord.workers.learning.logic.kept import kept_clauses, tried, written
from concord.workers.learning.logic.openings import names_of, part_of
from concord.workers.learning.logic.search import LogicSettings, clauses_of
from concord.workers.learning.mining import (
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
from concord.workers.learning.penalties import Penalty, count_rows, with_weights
from concord.workers.learning.rule_counts import RuleCounts

CHUNK = 50
"""Documents that are grounded together: the rows of all would not fit into memory."""

MineHere = Callable[[Sequence[Document], Sequence[Document], LabelSet, Any, Penalty, int], DeclaredConstraints]
"""The weighed rules of documents, of those that other documents can hold, by a method's settings, a counted penalty and
the seed."""


def rules_of(counts: RuleCounts, labels: LabelSet, settings: MiningSettings) -> list[Rule]:
    """Those that are kept."""
    return kept_of(significant(candidates(counts, labels), settings), settings)


def counted_rules(
    documents: Sequence[Document],
    holding: Sequence[Document],
    labels: LabelSet,
    settings: MiningSettings,
    penalty: Penalty,
    seed: int,
) -> DeclaredConstraints:
    """By counting."""
    counts = RuleCounts.of(Batch.of(documents), labels, orders=settings.orders, seed=seed)
    rules = rules_of(counts, labels, settings)
    fitting = held_by(holding, declared(rules, labels), labels)
    return weighed(rules, fitting, _batches(documents), labels, penalty)


def clause_rules(
    documents: Sequence[Document],
    holding: Sequence[Document],
    labels: LabelSet,
    settings: LogicSettings,
    penalty: Penalty,
    seed: int,
) -> DeclaredConstraints:
    """By logic."""
    batch = Batch.of(documents)
    samples = OpeningCounts.of(batch, labels, held_out=settings.held_out_share)
    learned = list(clauses_of(samples, names_of(labels), settings, seed=seed))
    heads = [one.clause for one in learned]
    counts = ClauseCounts.of(batch, labels, heads, held_out=settings.held_out_share, orders=settings.orders, seed=seed)
    kept = written(kept_clauses(passing(tried(learned, counts), settings), settings), labels)
    held = (part_of(own, settings.held_out_share, held_out=True) for own in _batches(documents))
    fitting = held_by(holding, kept.constraints, labels)
    return weighed(kept.clauses, fitting, (own for own in held if len(own)), labels, penalty)


def held_by(documents: Sequence[Document], constraints: DeclaredConstraints, labels: LabelSet) -> DeclaredConstraints:
    """Those that are not too large for any of the documents."""
    too_large = {title for batch in _batches(documents) for title in constraints.too_large(batch, labels)}
    return constraints.only(set(constraints.titles) - too_large)


def weighed(
    rules: Sequence[Tried],
    constraints: DeclaredConstraints,
    batches: Iterable[Batch],
    labels: LabelSet,
    penalty: Penalty,
) -> DeclaredConstraints:
    """The constraints, each of which says a rule, with the weights that a mined file has."""
    rows, settings = count_rows(constraints, batches, labels), penalty.settings()
    said = (rule for rule in rules if rule.name in rows)
    given = {rule.name: in_documents(rule, rows[rule.name].degree).weight(penalty, settings) for rule in said}
    return with_weights(constraints, given)


def _batches(documents: Sequence[Document]) -> Iterator[Batch]:
    for first in range(0, len(documents), CHUNK):
        yield Batch.of(documents[first : first + CHUNK])
