"""Rules mined in this process, as `concord constraints mine` finds and weighs them for any number of workers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from schemas.document import Batch, Document
from schemas.labels import LabelSet
from workers.constraints.declared import DeclaredConstraints
from workers.learning.mining import MiningSettings, Rule, candidates, declared, in_documents, kept_of, significant
from workers.learning.penalties import PENALTIES, count_rows, with_weights
from workers.learning.rule_counts import RuleCounts


def mined(documents: Sequence[Document], labels: LabelSet, settings: MiningSettings) -> list[Rule]:
    """The rules that are kept."""
    counts = RuleCounts.of(Batch.of(documents), labels, orders=settings.orders, seed=0)
    return kept_of(significant(candidates(counts, labels), settings), settings)


def weighed(rules: Sequence[Rule], batches: Iterable[Batch], labels: LabelSet) -> DeclaredConstraints:
    """The rules with the weights that a mined file has."""
    constraints, odds = declared(rules, labels), PENALTIES["odds"]
    rows = count_rows(constraints, batches, labels)
    given = {rule.name: in_documents(rule, rows[rule.name].degree).weight(odds, odds.settings()) for rule in rules}
    return with_weights(constraints, given)
