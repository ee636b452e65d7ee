"""Constraints mined from gold on Ray: what `concord constraints mine` writes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from flows.cluster.cluster import cluster
from flows.cluster.counting import count_all
from flows.commands.learning import DIGITS
from flows.jobs import corpus_place, folder_place
from schemas.audit import MinedRule, MineReport
from schemas.labels import LabelSet
from schemas.settings import TextSettings
from workers.constraints.constraint_writer import constraints_text
from workers.constraints.declared import KINDS, DeclaredConstraints
from workers.corpus.parquet import CorpusError
from workers.corpus.plan import plan
from workers.corpus.shards import DEFAULT_TEXT
from workers.evaluation.corpus_counts import CorpusCounts
from workers.learning.mining import (
    TEMPLATES_OF,
    MiningSettings,
    Rule,
    candidates,
    comment,
    declared,
    in_documents,
    kept_of,
    significant,
)
from workers.learning.penalties import COUNTED, Penalty, PenaltyError, penalty_named, with_weights
from workers.learning.rule_counts import RuleCounts
from workers.remote.count import COUNT, CountParts
from workers.remote.mining import ROWS, RULES, RowsCounted, RowsParts, RulesParts
from workers.storage.files import write_whole


def mine(
    corpus: str,
    out: Path,
    settings: MiningSettings,
    *,
    penalty: str = "odds",
    seed: int = 0,
    text: TextSettings = DEFAULT_TEXT,
    ray: str | None = None,
    workers: int | None = None,
) -> MineReport:
    """Mines the rules of a corpus with gold labels into the file ``out``, the same for any number of workers.

    Raises `PenaltyError`, `CorpusError` where no document has gold labels, `ShardsError` where a shard failed,
    `ClusterError`, and what reading the corpus and writing raise.
    """
    folder_place(str(out))
    cost = _counted(penalty)
    shards = plan(corpus_place(corpus), text=text)
    with cluster(ray, workers=workers) as running:
        read = count_all(running, COUNT, shards, CountParts(text), title="reading labels")
        labels = _labels(corpus, CorpusCounts.merge(read))
        parts = RulesParts(labels, settings.orders, seed, text)
        counts = RuleCounts.merge(count_all(running, RULES, shards, parts, title="counting rules"))
        every = candidates(counts, labels)
        passing = significant(every, settings)
        kept = kept_of(passing, settings)
        constraints = declared(kept, labels)
        written = RowsParts(labels, constraints, text)
        rows = RowsCounted.merge(count_all(running, ROWS, shards, written, title="weighing")) if kept else None
    weighed = [] if rows is None else [_weighed(rule, rows.rows[rule.name].degree, cost) for rule in kept]
    if rows is not None:
        write_whole(out, _text(constraints, weighed).encode())
    return MineReport(
        documents=counts.documents,
        with_gold=counts.with_gold,
        rejected=counts.rejected,
        candidates=len(every),
        significant=len(passing),
        rules=tuple(rule.report for rule in weighed),
        out=str(out) if weighed else None,
    )


def _labels(corpus: str, counts: CorpusCounts) -> LabelSet:
    if not counts.labels.names:
        raise CorpusError(f"{corpus}: has no gold labels, of which rules are mined")
    return LabelSet.infer(counts.labels.names)


class _Weighed(NamedTuple):
    """A rule as the file and the report have it."""

    report: MinedRule
    comment: str


def _counted(penalty: str) -> Penalty:
    """A penalty that counts alone decide. Raises `PenaltyError`."""
    if penalty_named(penalty) not in COUNTED.values():
        raise PenaltyError(f"{penalty} needs a model: mine without it, then weigh the file that is mined")
    return COUNTED[penalty]


def _weighed(rule: Rule, degree: float, cost: Penalty) -> _Weighed:
    settings, rows = cost.settings(), in_documents(rule, degree)
    low, high = rows.interval(cost, settings)
    report = MinedRule(
        name=rule.name,
        template=KINDS[TEMPLATES_OF[rule.kind]],
        n=rule.n,
        broken=rule.broken,
        chance=rule.chance,
        p=rule.p,
        weight=round(rows.weight(cost, settings), DIGITS),
        low=low,
        high=high,
    )
    return _Weighed(report, comment(rule, (low, high)))


def _text(constraints: DeclaredConstraints, rules: Sequence[_Weighed]) -> str:
    weighed = with_weights(constraints, {rule.report.name: rule.report.weight for rule in rules})
    return constraints_text(weighed, {rule.report.name: rule.comment for rule in rules})
