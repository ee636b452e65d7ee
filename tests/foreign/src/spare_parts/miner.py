"""A method of mining: the label on which documents end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from concord.parts import Batch, Counting, DeclaredConstraints, KeptSettings, MinedRules, Miner, Mining, MiningTask
from spare_parts.template import EndsWith


class LastLabel(NamedTuple):
    """Documents end with the label: n documents, of which ``broken`` do not."""

    name: str
    n: int
    broken: int
    chance: float
    p: float


class LastLabels(NamedTuple):
    """Counts of documents, of rows that could not be read, of gold labels, and of those of last tokens."""

    documents: int
    rejected: int
    labels: Counter[str]
    last: Counter[str]

    @classmethod
    def of(cls, batch: Batch, *, first: int | None, rejected: int) -> LastLabels:
        """Counts of a batch; no document is held out."""
        del first
        gold = [document.labels.strings() for document in batch if document.labels is not None and len(document)]
        every, last = (label for labels in gold for label in labels), (labels[-1] for labels in gold)
        return cls(len(batch), rejected, Counter(every), Counter(last))

    @classmethod
    def merge(cls, parts: Iterable[LastLabels]) -> LastLabels:
        """Counts of all parts together."""
        total = cls(0, 0, Counter(), Counter())
        for part in parts:
            total.labels.update(part.labels)
            total.last.update(part.last)
            total = total._replace(documents=total.documents + part.documents, rejected=total.rejected + part.rejected)
        return total


def last_label(task: MiningTask) -> Mining:
    """The label on which nearly all documents end."""
    settings: KeptSettings = task.settings
    counts: LastLabels = yield Counting("counting last labels", LastLabels.of, LastLabels.merge)
    count, rules = counts.last.total(), list[LastLabel]()
    for label, ended in sorted(counts.last.items()):
        chance = counts.labels[label] / counts.labels.total()
        p = min(1.0, count * chance / ended)  # by Markov's inequality, which will do for rules that nearly always hold
        rules.append(LastLabel(f"documents end with {label}", count, count - ended, chance, p))
    passing = [rule for rule in rules if count >= settings.support and rule.n - rule.broken >= settings.held * rule.n]
    templates = [EndsWith(labels=(rule.name.split()[-1],), name=rule.name, weight=1.0) for rule in passing]
    constraints = DeclaredConstraints(tuple(templates))
    return MinedRules(passing, constraints, counts.documents, count, counts.rejected, len(rules), len(passing))


LAST_LABEL = Miner(last_label, KeptSettings)
