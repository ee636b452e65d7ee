"""Constraints mined from gold on Ray: what `concord constraints mine` writes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from flows.cluster.cluster import Cluster, cluster
from flows.cluster.counting import M, P, count_all
from flows.commands.learning import DIGITS
from flows.jobs import corpus_place, folder_place
from flows.progress import meter
from schemas.audit import MinedRule, MineReport, UnsaidClause
from schemas.errors import CorpusError, UsageError
from schemas.labels import LabelSet
from schemas.names import unknown
from schemas.settings import TextSettings
from workers.constraints.constraint_writer import constraints_text
from workers.constraints.declared import KINDS, DeclaredConstraints
from workers.corpus.plan import plan
from workers.corpus.shards import DEFAULT_TEXT, Shard
from workers.evaluation.corpus_counts import CorpusCounts
from workers.learning.logic.clauses import ClauseCounts, OpeningCounts
from workers.learning.logic.kept import found_by, kept_clauses, remarks_on, tried, unsaid_report, written
from workers.learning.logic.openings import names_of
from workers.learning.logic.search import Learned, LogicSettings, clauses_of
from workers.learning.mining import (
    KeptSettings,
    MiningSettings,
    Tried,
    candidates,
    comment,
    declared,
    in_documents,
    kept_of,
    passing,
    significant,
)
from workers.learning.penalties import COUNTED, Penalty, PenaltyError, penalty_named, with_weights
from workers.learning.rule_counts import RuleCounts
from workers.remote.count import COUNT, CountParts
from workers.remote.mining import (
    CLAUSES,
    OPENINGS,
    ROWS,
    RULES,
    ClausesParts,
    OpeningsParts,
    RowsCounted,
    RowsParts,
    RulesParts,
)
from workers.remote.task import Task
from workers.storage.files import write_whole


class Gold(NamedTuple):
    """A corpus with gold labels, in shards, on a cluster that counts them."""

    running: Cluster
    shards: Sequence[Shard]
    labels: LabelSet
    seed: int
    text: TextSettings

    def counted(self, task: Task[Shard, P, M], parts: P, *, title: str) -> list[M]:
        """What `count_all` counts, and raises."""
        return count_all(self.running, task, self.shards, parts, title=title)


class Found(NamedTuple):
    """What a method finds: rules and the constraints that say them, in such a share of documents, and how.

    ``notes`` are sentences about rules, by name; ``documents`` with gold are those that were looked at, and the
    ``rejected`` rows those that could not be read.
    """

    rules: Sequence[Tried]
    constraints: DeclaredConstraints
    documents: int
    with_gold: int
    rejected: int
    candidates: int
    significant: int
    held_out: float = 1.0
    notes: Mapping[str, str] = {}
    unsaid: tuple[UnsaidClause, ...] = ()
    remarks: tuple[str, ...] = ()


def by_counting(gold: Gold, settings: MiningSettings) -> Found:
    """Every rule of some kinds over all fields, counted."""
    parts = RulesParts(gold.labels, settings.orders, gold.seed, gold.text)
    counts = RuleCounts.merge(gold.counted(RULES, parts, title="counting rules"))
    every = candidates(counts, gold.labels)
    beyond_chance = significant(every, settings)
    kept = kept_of(beyond_chance, settings)
    seen = counts.documents, counts.with_gold, counts.rejected
    return Found(kept, declared(kept, gold.labels), *seen, len(every), len(beyond_chance))


def by_logic(gold: Gold, settings: LogicSettings) -> Found:
    """Clauses, learned from one part of the documents and tried on the other."""
    parts = OpeningsParts(gold.labels, settings.held_out, gold.text)
    samples = OpeningCounts.merge(gold.counted(OPENINGS, parts, title="counting runs"))
    learned = list[Learned]()
    with meter("finding clauses", None) as bar:
        for one in clauses_of(samples, names_of(gold.labels), settings, seed=gold.seed):
            learned.append(one)
            bar.advance()
    clauses = tuple(one.clause for one in learned)
    trial = ClausesParts(gold.labels, settings.held_out, clauses, settings.orders, gold.seed, gold.text)
    counts = ClauseCounts.merge(gold.counted(CLAUSES, trial, title="trying clauses") if clauses else [])
    every = tried(learned, counts)
    beyond_chance = passing(every, settings)
    kept = written(kept_clauses(beyond_chance, settings), gold.labels)
    return Found(
        kept.clauses,
        kept.constraints,
        samples.documents,
        samples.learned + counts.tried,
        samples.rejected,
        len(every),
        len(beyond_chance),
        settings.held_out,
        {one.name: found_by(one) for one in kept.clauses},
        tuple(unsaid_report(one, reason) for one, reason in kept.unsaid),
        tuple(remarks_on(samples, counts, learned, settings)),
    )


class Method(NamedTuple):
    """A way to mine, and its options."""

    find: Callable[[Gold, Any], Found]
    settings: type[KeptSettings]


METHODS: dict[str, Method] = {
    "counting": Method(by_counting, MiningSettings),
    "logic": Method(by_logic, LogicSettings),
}


def method_named(name: str) -> Method:
    """An entry of `METHODS`. Raises `UsageError`."""
    if name not in METHODS:
        raise UsageError(unknown("method of mining", name, METHODS))
    return METHODS[name]


def mine(
    corpus: str,
    out: Path,
    settings: KeptSettings,
    *,
    method: str = "counting",
    penalty: str = "odds",
    seed: int = 0,
    text: TextSettings = DEFAULT_TEXT,
    ray: str | None = None,
    workers: int | None = None,
) -> MineReport:
    """Mines the rules of a corpus with gold labels into the file ``out``, the same for any number of workers.

    ``settings`` are those of the method. Raises `UsageError` for one that is not there, `PenaltyError`, `CorpusError`
    where no document has gold labels, `ShardsError` where a shard failed, `ClusterError`, and what reading the corpus
    and writing raise.
    """
    folder_place(str(out))
    cost, find = _counted(penalty), method_named(method).find
    shards = plan(corpus_place(corpus), text=text)
    with cluster(ray, workers=workers) as running:
        read = count_all(running, COUNT, shards, CountParts(text), title="reading labels")
        gold = Gold(running, shards, _labels(corpus, CorpusCounts.merge(read)), seed, text)
        found = find(gold, settings)
        parts = RowsParts(gold.labels, found.constraints, found.held_out, text)
        rows = RowsCounted.merge(gold.counted(ROWS, parts, title="weighing")).rows if found.rules else {}
    weighed = [_weighed(rule, found, rows[rule.name].degree, cost) for rule in found.rules]
    if weighed:
        write_whole(out, _text(found, weighed).encode())
    return MineReport(
        documents=found.documents,
        with_gold=found.with_gold,
        rejected=found.rejected,
        candidates=found.candidates,
        significant=found.significant,
        rules=tuple(rule.report for rule in weighed),
        out=str(out) if weighed else None,
        unsaid=found.unsaid,
        remarks=found.remarks,
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


def _weighed(rule: Tried, found: Found, degree: float, cost: Penalty) -> _Weighed:
    settings, rows = cost.settings(), in_documents(rule, degree)
    low, high = rows.interval(cost, settings)
    template = found.constraints.templates[found.constraints.titles.index(rule.name)]
    report = MinedRule(
        name=rule.name,
        template=KINDS[type(template)],
        n=rule.n,
        broken=rule.broken,
        chance=rule.chance,
        p=rule.p,
        weight=round(rows.weight(cost, settings), DIGITS),
        low=low,
        high=high,
    )
    above = comment(rule, (low, high), held_out=found.held_out < 1.0)
    note = found.notes.get(rule.name)
    return _Weighed(report, above if note is None else f"{above}; {note}")


def _text(found: Found, rules: Sequence[_Weighed]) -> str:
    weighed = with_weights(found.constraints, {rule.report.name: rule.report.weight for rule in rules})
    unsaid = [one.sentence for one in found.unsaid]
    return constraints_text(weighed, {rule.report.name: rule.comment for rule in rules}, [*found.remarks, *unsaid])
