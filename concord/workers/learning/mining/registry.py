"""Registry of methods of mining by name: the values of `concord constraints mine --method`."""

from __future__ import annotations

from functools import partial
from typing import cast

from concord.schemas.document import Batch
from concord.schemas.errors import UsageError
from concord.schemas.labels import LabelSet
from concord.schemas.names import unknown
from concord.workers.learning.mining.logic.clauses import ClauseCounts, OpeningCounts
from concord.workers.learning.mining.logic.kept import found_by, kept_clauses, remarks_on, tried, unsaid_report, written
from concord.workers.learning.mining.logic.openings import names_of
from concord.workers.learning.mining.logic.search import LearnedClause, LogicSettings, clauses_of
from concord.workers.learning.mining.miner import Counting, MinedRules, Miner, Mining, MiningTask
from concord.workers.learning.mining.rule_counts import RuleCounts
from concord.workers.learning.mining.rules import (
    KeptSettings,
    MiningSettings,
    candidates,
    declared,
    kept_of,
    passing,
    significant,
)
from concord.workers.parts import Group, Registry, an_entry


def by_counting(task: MiningTask) -> Mining:
    """Counted rules of some kinds, over all fields."""
    settings, labels = cast("MiningSettings", task.settings), task.labels
    count = partial(_rule_counts, labels=labels, orders=settings.orders, seed=task.seed)
    counts: RuleCounts = yield Counting("counting rules", count, RuleCounts.merge)
    every = candidates(counts, labels)
    beyond_chance = significant(every, settings)
    rules = kept_of(beyond_chance, settings)
    read = counts.documents, counts.with_gold, counts.rejected
    return MinedRules(rules, declared(rules, labels), *read, len(every), len(beyond_chance))


def _rule_counts(
    batch: Batch, *, labels: LabelSet, orders: int, seed: int, first: int | None, rejected: int
) -> RuleCounts:
    """`RuleCounts.of`; no document is held out."""
    del first
    return RuleCounts.of(batch, labels, orders=orders, seed=seed, rejected=rejected)


def by_logic(task: MiningTask) -> Mining:
    """Clauses, learned from one part of the documents and tried on the other."""
    settings, labels = cast("LogicSettings", task.settings), task.labels
    share = settings.held_out_share
    sample = partial(OpeningCounts.of, labels=labels, held_out=share)
    samples: OpeningCounts = yield Counting("counting runs", sample, OpeningCounts.merge, share)
    clause_stream = clauses_of(samples, names_of(labels), settings, seed=task.seed)
    clauses_of_search: list[LearnedClause] = list(task.watched("finding clauses", clause_stream))
    clauses = tuple(one.clause for one in clauses_of_search)
    counts = ClauseCounts.merge([])
    if clauses:
        trial = partial(
            ClauseCounts.of, labels=labels, clauses=clauses, held_out=share, orders=settings.orders, seed=task.seed
        )
        counts = yield Counting("trying clauses", trial, ClauseCounts.merge, share)
    every = tried(clauses_of_search, counts)
    beyond_chance = passing(every, settings)
    rules = written(kept_clauses(beyond_chance, settings), labels)
    return MinedRules(
        rules.clauses,
        rules.constraints,
        samples.documents,
        samples.learned + counts.tried,
        samples.rejected,
        len(every),
        len(beyond_chance),
        share,
        {one.name: found_by(one) for one in rules.clauses},
        tuple(unsaid_report(one, reason) for one, reason in rules.unsaid),
        tuple(remarks_on(samples, counts, clauses_of_search, settings)),
    )


OWN: dict[str, Miner] = {
    "counting": Miner(by_counting, MiningSettings),
    "logic": Miner(by_logic, LogicSettings, holds_out=True),
}
"""Concord's own methods; a new one is a generator, one settings class and one line here."""

MINERS: Registry[Miner] = Registry(Group.METHODS, OWN, an_entry(Miner, KeptSettings))


def miner_named(name: str) -> Miner:
    """The method of that name. Raises `UsageError` if there is none."""
    if name not in MINERS:
        raise UsageError(unknown("method of mining", name, MINERS))
    return MINERS[name]
