"""The best model that a corpus's own documents can choose: a ladder of steps, kept as it is climbed.

A fifth of the documents has no part in the choice: by it what was chosen is measured, beside the base. Each trial is
written to a file beside the model when it ends, so that the same call goes on after a kill, with the same choice.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import numpy as np

from concord.flows.cluster.cluster import cluster
from concord.flows.errors import failed_message
from concord.flows.screen.progress import meter
from concord.flows.training.ladder_rules import RULES_STEP, rules_that_help, with_rules
from concord.flows.training.trial_file import TrialFile
from concord.flows.training.tuning import learn_outside_cost, learn_temperature
from concord.flows.work.done import PoolWork
from concord.schemas.document import Document
from concord.schemas.errors import ShardsError, TrainingError
from concord.schemas.labels import OUTSIDE
from concord.schemas.run_context import HERE, RunContext
from concord.schemas.settings import TrainerSettings, Validation
from concord.schemas.train_report import SearchReport, StepRow
from concord.workers.features.resources import RESOURCES, own_resources
from concord.workers.learning.search.folds import LATER_SHARE, divided
from concord.workers.learning.trainers.outside_cost import OutsideCostFit
from concord.workers.learning.trainers.registry import trainer_named
from concord.workers.learning.trainers.selection import (
    FOLDS,
    Climb,
    ExpectedFigures,
    Judged,
    LadderStep,
    TrainerChoice,
    climb_ladder,
    expected,
    judged,
)
from concord.workers.learning.trainers.temperature import TemperatureFit
from concord.workers.learning.trainers.trainer import Train, gold_of, without_new_labels
from concord.workers.models.model import BringsRows, Model, costing, tempered
from concord.workers.remote.ladder import LADDER, LadderParts, LadderTrial
from concord.workers.sweeps.documents import digest_of_files, digests_beside

RESERVE = 3.0
"""Time of a step and of all that follows if it is kept, as a multiple of its trials'.

That are its trials, two trainings for the figure to expect, of which one tunes label consistency, too, and the model's.
"""
RULES_COST = 0.8
"""Cost of mining and judging rules, as a multiple of the trials of the model that they are for.

With `RESERVE` that is two trainings to judge, one for the model, and mining.
"""
FIELD_RULES_COST, FEW_OUTSIDE = 8.0, 0.1
"""Cost of mining and judging rules where less than this share of tokens is outside of fields, in the base's trials.

There many rules hold, and no other step gains as much: steps leave this time free.
"""
FINAL_COST = 0.5
"""Cost of the model of all documents, which follows the rules, as a multiple of the trials of its settings."""

LEAST_DOCUMENTS = 10
"""Least number of documents: two have no part in the choice, and each part of the others has one."""


class BestModel(NamedTuple):
    """What was chosen.

    - ``report``: of the search.
    - ``tuning_model``: a model of it that has not seen the documents with no part in the choice.
    - ``temperature``, ``outside_cost``: of that model, by these documents.
    - ``rules``: text of a file of mined rules that help it; None where none does.
    """

    candidate: TrainerChoice
    report: SearchReport
    tuning_model: Model
    temperature: TemperatureFit
    outside_cost: OutsideCostFit
    rules: str | None = None


class SearchLimits(NamedTuple):
    """How long a search may take: no step begins that would not be done, with all that follows, within both.

    Rules, whose cost nobody foresees, are given up when one is reached.

    - ``minutes``: of this call, by the clock; None for any number.
    - ``cpu_seconds``: of the steps that were judged, also by earlier calls, whatever their workers were; None likewise.
    """

    minutes: float | None = None
    cpu_seconds: float | None = None

    def after(self, minutes: float, cpu_seconds: float) -> SearchLimits:
        """The limits of what comes after so much time."""
        return SearchLimits(
            None if self.minutes is None else self.minutes - minutes,
            None if self.cpu_seconds is None else self.cpu_seconds - cpu_seconds,
        )


NO_LIMITS = SearchLimits()


class _Clock:
    """Is there time for a step?"""

    def __init__(self, limits: SearchLimits) -> None:
        self._end = math.inf if limits.minutes is None else time.monotonic() + 60.0 * limits.minutes
        self._cpu_left = math.inf if limits.cpu_seconds is None else limits.cpu_seconds
        self._base_seconds = math.inf

    def count(self, step: LadderStep) -> None:
        """Takes off what a step has cost."""
        self._cpu_left -= step.cpu_seconds
        if step.gain is None:
            self._base_seconds = step.cpu_seconds

    def is_over(self, cost: float, cpu_seconds: float) -> bool:
        """Is no time left after so many CPU seconds, but for a training of so many times the base's cost?"""
        seconds = cost * self._base_seconds
        return cpu_seconds + seconds > self._cpu_left or time.monotonic() + seconds > self._end

    def has_time(self, cost: float, *, is_known: bool, free: float) -> bool:
        """Is there time for a step of so many times the base's cost? If its judgement is known, it takes no minutes.

        - ``free``: what is left free after it and all that follows, as a multiple of the base's cost.
        """
        seconds = (cost * RESERVE + free) * self._base_seconds
        return seconds <= self._cpu_left and (is_known or time.monotonic() + seconds <= self._end)


class LadderJudge:
    """Answers of candidates' models: from an earlier call, this process, or workers that try several steps at once.

    Workers begin steps that come next if none is kept, which most are not; what was tried in vain is kept in the file
    and changes nothing.
    """

    def __init__(
        self, documents: Sequence[Document], validation: Validation, trials: TrialFile, workers: LadderWorkers | None
    ) -> None:
        self._documents, self._validation, self._trials, self._workers = documents, validation, trials, workers

    def __call__(self, candidate: TrainerChoice) -> Judged:
        """Judges a candidate. Raises the errors of training, and `OutputError`."""
        name = LadderTrial(candidate).id
        if name not in self._trials.results:
            train = trainer_named(candidate.trainer).train
            self._keep(name, judged(self._documents, train, candidate.settings, self._validation))
        counts, cpu_seconds = self._trials.results[name]
        return Judged(np.array(counts, np.int64), cpu_seconds)

    def knows(self, candidate: TrainerChoice) -> bool:
        """Has the candidate been judged?"""
        return LadderTrial(candidate).id in self._trials.results

    def foresee(self, candidates: Iterator[TrainerChoice]) -> None:
        """Has workers judge the first candidate, if nobody has, and as many of the next ones as there are workers.

        One of the next ones that fails is left to its turn, which may never come. Raises `ShardsError` if the first
        failed.
        """
        first = LadderTrial(next(candidates))
        if self._workers is None or first.id in self._trials.results:
            return
        todo = {first.id: first} | {one.id: one for one in map(LadderTrial, candidates)}
        new = [trial for name, trial in todo.items() if name not in self._trials.results]
        for done in self._workers.work(new[: self._workers.number]):
            if done.result is not None:
                self._keep(done.shard.id, done.result)
            elif done.shard == first:
                raise ShardsError(failed_message([done.failure], 1, of="steps"))

    def _keep(self, name: str, answer: Judged) -> None:
        self._trials.add({name: [answer.counts.tolist(), answer.cpu_seconds]})


class LadderWorkers(NamedTuple):
    """Workers that judge candidates: what they do, and their number."""

    work: PoolWork[LadderTrial, Judged]
    number: int


@contextmanager
def _workers(context: RunContext, parts: LadderParts) -> Iterator[LadderWorkers | None]:
    """Workers on Ray for the length of the block, if they are asked for. Raises `ClusterError`."""
    if context.ray is None and not context.workers:
        yield None
        return
    with cluster(context.ray, workers=context.workers) as running:
        number = running.workers
        with running.pool(LADDER, parts, most=number) as work:
            yield LadderWorkers(work, number)


def best_model(
    documents: Sequence[Document],
    base: TrainerChoice,
    *,
    out: Path,
    corpus: str,
    validation: Validation,
    limits: SearchLimits = NO_LIMITS,
    context: RunContext = HERE,
) -> BestModel:
    """Climbs the ladder from a base, and measures what it ends at.

    - ``out``: folder of the model, beside which trials are kept.
    - ``corpus``: digest of the documents.

    Raises `TrainingError` for too few documents, the errors of training, `ShardsError` for a step that failed on Ray,
    `ClusterError` and `OutputError`.
    """
    inside, outside = divided(documents, LATER_SHARE, validation)
    if len(documents) < LEAST_DOCUMENTS or len(inside) < FOLDS or not outside:
        raise TrainingError(
            f"{len(documents)} documents, of which {len(outside)} have no part in the choice, are too few to choose "
            f"by; --effort best wants {LEAST_DOCUMENTS} or more, and --validation random some more than these"
        )
    trials, clock = TrialFile(out, [corpus, validation, *_digests(base.settings)]), _Clock(limits)
    free = FIELD_RULES_COST if _are_fields(inside) else 0.0
    with _workers(context, LadderParts(inside, validation)) as workers, meter("choosing", None) as bar:

        def show(step: LadderStep) -> None:
            clock.count(step)
            bar.advance(note=f"{step.name}: F1 {step.trial.value:.2%}{', kept' if step.is_kept else ''}")

        judge = LadderJudge(inside, validation, trials, workers)

        def has_time(candidate: TrainerChoice, cost: float) -> bool:
            return clock.has_time(cost, is_known=judge.knows(candidate), free=free)

        ladder = climb_ladder(inside, base, judge, has_time=has_time, progress=show, foresee=judge.foresee)
        figures = expected(inside, outside, base, ladder.best, _train_named)
    known = without_new_labels(outside, inside)
    learning = ladder.best.settings.learning
    fit = learn_temperature(known, figures.model, learning)
    model = tempered(figures.model, fit.temperature)
    cost = learn_outside_cost(known, model, learning)
    found = BestModel(ladder.best, _report(ladder, figures), figures.model, fit, cost)
    if learning != "l" or isinstance(figures.model, BringsRows):
        return found
    without_rules = found._replace(report=found.report.model_copy(update={"untried": (*ladder.untried, RULES_STEP)}))
    # What steps have left free is the time of rules.
    if not clock.has_time(0.0 if free else ladder.cost * RULES_COST, is_known=False, free=free):
        return without_rules
    is_over = partial(clock.is_over, ladder.cost * FINAL_COST)
    model = costing(model, cost.cost)
    rules = rules_that_help(inside, ladder.best, model, validation, trials, is_over=is_over)
    if rules is None:
        return without_rules
    report = with_rules(found.report, rules, model, inside, outside)
    return found._replace(report=report, rules=rules.text)


def _are_fields(documents: Sequence[Document]) -> bool:
    """Are few tokens outside of fields, as in citations and addresses?"""
    gold = [name for document in documents for name in gold_of(document)]
    return gold.count(OUTSIDE) < FEW_OUTSIDE * len(gold)


def _digests(settings: TrainerSettings) -> list[str]:
    """Digests of what the settings read, and of the user's own resources, which a step may read; versions of packages.

    Raises the errors of `digests_beside`.
    """
    added = {one.name: digest_of_files(Path(one.path)) for one in own_resources() if Path(one.path).exists()}
    resources = [one for named in RESOURCES.values() for one in named.values() if not one.missing]
    versions = {package: version(package) for one in resources for package in one.packages}
    return [f"{name} {digest}" for name, digest in sorted((digests_beside(settings) | added | versions).items())]


def _train_named(name: str) -> Train:
    return trainer_named(name).train


def _report(ladder: Climb, figures: ExpectedFigures) -> SearchReport:
    return SearchReport.from_results(
        figures.gain,
        steps=tuple(map(_row, ladder.steps)),
        untried=tuple(ladder.untried),
        failures=dict(ladder.failures),
        entities=int(figures.chosen.counts[:, 0].sum()),
        documents=len(ladder.steps[0].trial.counts),
        held_out=len(figures.chosen.counts),
        base_f1=figures.base.value,
        f1=figures.chosen.value,
        gain=figures.gain.difference,
        tokens_a_second=round(figures.tokens_a_second),
    )


def _row(step: LadderStep) -> StepRow:
    gain = step.gain
    return StepRow(
        step=step.name,
        f1=step.trial.value,
        gain=None if gain is None else gain.difference,
        low=None if gain is None else gain.low,
        high=None if gain is None else gain.high,
        cpu_seconds=round(step.cpu_seconds, 3),
        is_kept=step.is_kept,
    )
