"""Constraints mined from gold on Ray: `concord constraints mine`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from concord.flows.cluster.cluster import cluster
from concord.flows.cluster.counting import M, P, count_all
from concord.flows.commands.learning import as_trained
from concord.flows.commands.requests import MineRequest
from concord.flows.inputs.jobs import folder_place, source_place
from concord.flows.inputs.output_places import check_file_place
from concord.flows.labelling.documents import read_documents
from concord.flows.screen.progress import meter
from concord.flows.training.judging import help_comment, helping, judged_beside
from concord.flows.work.done import Workers
from concord.schemas.audit import JudgementReport, MinedRule, MineReport
from concord.schemas.errors import CorpusError, UsageError
from concord.schemas.labels import LabelSet
from concord.schemas.settings import TextSettings, Validation
from concord.workers.constraints.constraint_writer import constraints_text
from concord.workers.constraints.declared import DeclaredConstraints
from concord.workers.constraints.declared_weights import with_weights
from concord.workers.constraints.templates.registry import TEMPLATES
from concord.workers.constraints.templates.template import TooLarge
from concord.workers.corpus.plan import plan
from concord.workers.corpus.shards import Shard
from concord.workers.evaluation.corpus_counts import CorpusCounts
from concord.workers.learning.mining.logic.kept import unsaid_report
from concord.workers.learning.mining.miner import Counting, MinedRules, Miner, MinerHere, MiningTask, mined
from concord.workers.learning.mining.registry import miner_named
from concord.workers.learning.mining.rules import KeptSettings, RuleTrial, comment, in_documents
from concord.workers.learning.weights.penalties import (
    WEIGHT_DECIMALS,
    By,
    Penalty,
    PenaltyError,
    check_figure,
    penalty_named,
)
from concord.workers.remote.count import COUNT, CountParts
from concord.workers.remote.mining import COUNTED_RULES, ROWS, HeldOut, MinedParts, RowsCounted, RowsParts
from concord.workers.remote.task import Task
from concord.workers.storage.files import write_whole

T = TypeVar("T")


class GoldCorpus(NamedTuple):
    """A corpus with gold labels, on a cluster that counts it.

    - ``running``: the cluster.
    - ``shards``: shards of the corpus.
    - ``labels``: labels of the corpus.
    - ``seed``: seed of the random numbers.
    - ``text``: settings of raw text.
    - ``documents``: number of documents of each shard.
    - ``validation``: how held-out documents are chosen.
    """

    running: Workers
    shards: Sequence[Shard]
    labels: LabelSet
    seed: int
    text: TextSettings
    documents: Sequence[int]
    validation: Validation = Validation.RANDOM

    def held_out(self, share: float) -> HeldOut:
        """The held-out documents: a share of all."""
        return HeldOut.of(self.shards, self.documents, share, self.validation)

    def mined(self, miner: Miner, settings: KeptSettings) -> MinedRules:
        """The rules of a method. Raises the errors of `count_all`."""

        def count(counting: Counting) -> Any:
            parts = MinedParts(counting, self.held_out(counting.held_out), self.text)
            return counting.merge(self._counted(COUNTED_RULES, parts, title=counting.title))

        return mined(miner, MiningTask(self.labels, settings, self.seed, _watched), count)

    def rows(self, found: MinedRules) -> RowsCounted:
        """Counts of the rows of mined rules, in the documents on which they were tested. Raises as `mined`."""
        parts = RowsParts(self.labels, found.constraints, self.held_out(found.held_out), self.text)
        return RowsCounted.merge(self._counted(ROWS, parts, title="weighing") if found.rules else [])

    def _counted(self, task: Task[Shard, P, M], parts: P, *, title: str) -> list[M]:
        return count_all(self.running, task, self.shards, parts, title=title)


def _held(found: MinedRules, too_large: Mapping[str, TooLarge]) -> MinedRules:
    """The result without rules whose constraints are too large for a document; these move to ``unsaid``."""
    left = tuple(unsaid_report(one, too_large[one.name].reason) for one in found.rules if one.name in too_large)
    rules = [one for one in found.rules if one.name not in too_large]
    constraints = found.constraints.only(one.name for one in rules)
    return found._replace(rules=rules, constraints=constraints, unsaid=(*found.unsaid, *left))


def _watched(title: str, items: Iterable[T]) -> Iterator[T]:
    with meter(title, None) as bar:
        for item in items:
            yield item
            bar.advance()


UNJUDGED = (
    "which rules help is judged beside a model: give --model FOLDER, trained as the model that is to use them, or "
    "--all to write all rules that hold; beside a model these often cost more than they gain"
)


UNHELD = "--validation says which documents judge rules, and none do: give --model FOLDER"


def mine(request: MineRequest, settings: KeptSettings) -> MineReport:
    """Mines rules from a corpus with gold labels, and writes them to a file. Any number of workers gives the same.

    - ``settings``: settings of the method

    Raises `UsageError` for an unknown method, if neither a model nor ``all`` is given, and for an option of judging if
    nothing is judged; `PenaltyError`; `CorpusError` if no document has gold labels; `ShardsError` if a shard failed;
    `ClusterError`; and the errors of reading corpus and model, training and writing.
    """
    out, model, text = request.out, request.model, request.text
    folder_place(str(out))
    check_file_place(out, [request.corpus, model])
    if model is None and not request.all:
        raise UsageError(UNJUDGED)
    cost, miner = _counted(request.penalty), miner_named(request.method)
    if request.validation is not None and model is None and not miner.holds_out:
        raise UsageError(UNHELD)
    check_figure(settings.measure, settings.figure)
    learner = None if model is None else as_trained(model, request.context, why="the judgement of rules")
    shards = plan(source_place(request.corpus), text=text)
    with cluster(request.context.ray, workers=request.context.workers) as running:
        read = count_all(running, COUNT, shards, CountParts(text), title="reading labels")
        labels, sizes = _labels(request.corpus, CorpusCounts.merge(read)), [own.documents for own in read]
        chosen = request.validation or Validation.RANDOM
        gold = GoldCorpus(running, shards, labels, request.seed, text, sizes, chosen)
        found = gold.mined(miner, settings)
        counts = gold.rows(found)
    found = _held(found, counts.too_large)
    weighed = [_weighed(rule, found, counts.rows[rule.name].degree, cost) for rule in found.rules]
    holding = with_weights(found.constraints, {rule.report.name: rule.report.weight for rule in weighed})
    judgement = None
    if learner is not None:
        documents, _ = read_documents(shards, text=text)
        labelled = [document for document in documents if document.labels is not None]
        here = MinerHere(miner, MiningTask(labels, settings, request.seed), cost, chosen)
        judgement = judged_beside(learner, labelled, holding, here)
    kept, comments = _written(holding, weighed, judgement, write_all=request.all)
    remarks = [*found.remarks, *(one.sentence for one in found.unsaid), *_verdict(judgement)]
    write_whole(out, constraints_text(kept, comments, remarks).encode())
    return MineReport.from_results(
        found,
        rules=tuple(rule.report for rule in weighed),
        judgement=judgement,
        written=len(kept.templates),
        out=str(out),
    )


def _written(
    holding: DeclaredConstraints, rules: Sequence[_Weighed], judgement: JudgementReport | None, *, write_all: bool
) -> tuple[DeclaredConstraints, dict[str, str]]:
    """Constraints for the file, and the comment above each."""
    comments = {rule.report.name: rule.comment for rule in rules}
    if judgement is None:
        return holding, comments
    comments |= {rule.name: f"{comments[rule.name]}; {help_comment(rule)}" for rule in judgement.rules}
    return (holding if write_all else helping(holding, judgement)), comments


def _verdict(judgement: JudgementReport | None) -> Iterator[str]:
    """Sentences on a judgement for the head of a file."""
    if judgement is not None:
        yield judgement.sentence


def _labels(corpus: str, counts: CorpusCounts) -> LabelSet:
    if not counts.labels.names:
        raise CorpusError(f"{corpus}: has no gold labels to mine rules from")
    return counts.label_set


class _Weighed(NamedTuple):
    """A rule in the report, and its comment in the file."""

    report: MinedRule
    comment: str


def _counted(penalty: str) -> Penalty:
    """Penalty with a name that is decided by counts alone. Raises `PenaltyError` for any other."""
    cost = penalty_named(penalty)
    if cost.by is not By.COUNTS:
        raise PenaltyError(f"{penalty} needs a model: mine without it, then weigh the file that is mined")
    return cost


def _weighed(rule: RuleTrial, found: MinedRules, degree: float, cost: Penalty) -> _Weighed:
    settings, rows = cost.settings(), in_documents(rule, degree)
    low, high = rows.interval(cost, settings)
    template = found.constraints.templates[found.constraints.titles.index(rule.name)]
    report = MinedRule.from_results(
        rule,
        template=TEMPLATES.name_of(type(template)),
        weight=round(rows.weight(cost, settings), WEIGHT_DECIMALS),
        low=low,
        high=high,
    )
    above = comment(rule, (low, high), held_out=found.held_out < 1.0)
    note = found.notes.get(rule.name)
    return _Weighed(report, above if note is None else f"{above}; {note}")
