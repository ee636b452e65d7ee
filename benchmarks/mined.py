"""Rules mined in this process, as `concord constraints mine --all` finds and weighs them for any number of workers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from concord.schemas.document import Batch, Document
from concord.schemas.labels import LabelSet
from concord.workers.constraints.declared import DeclaredConstraints
from concord.workers.learning.mining import miner
from concord.workers.learning.mining.rule_counts import RuleCounts
from concord.workers.learning.mining.rules import MiningSettings, Rule, candidates, declared, kept_of, significant
from concord.workers.learning.weights.penalties import COUNTED_PENALTY


def mined(documents: Sequence[Document], labels: LabelSet, settings: MiningSettings) -> list[Rule]:
    """The rules that are kept."""
    counts = RuleCounts.of(Batch.of(documents), labels, orders=settings.orders, seed=0)
    return kept_of(significant(candidates(counts, labels), settings), settings)


def weighed(rules: Sequence[Rule], batches: Iterable[Batch], labels: LabelSet) -> DeclaredConstraints:
    """The rules with the weights that a mined file has."""
    return miner.weighed(rules, declared(rules, labels), batches, labels, COUNTED_PENALTY["odds"])
