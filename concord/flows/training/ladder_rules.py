"""The ladder's last step: rules mined from the documents that chose a model, judged beside models of its settings.

Each part of these documents is answered by a model and under rules of the parts before it. What helps is measured on
the documents that had no part in any choice, which the model that says what to expect has not seen either.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from concord.flows.screen.progress import meter
from concord.flows.training.judging import AsTrained, help_comment, helping, judged_beside
from concord.flows.training.trial_file import TrialFile
from concord.schemas.audit import JudgementReport
from concord.schemas.decoded import Budget
from concord.schemas.document import Document
from concord.schemas.labels import Labels
from concord.schemas.settings import Validation
from concord.schemas.train_report import RulesReport, SearchReport, StepRow
from concord.workers.constraints.constraint_writer import constraints_text
from concord.workers.constraints.declared import DeclaredConstraints
from concord.workers.constraints.declared_weights import declared_weights
from concord.workers.evaluation.figures import f1_of_counts
from concord.workers.inference.registry import Decoder
from concord.workers.learning.mining.judgement import JudgedSettings
from concord.workers.learning.mining.miner import MinerHere, MiningTask
from concord.workers.learning.mining.registry import miner_named
from concord.workers.learning.search.trials import Trial
from concord.workers.learning.trainers.registry import trainer_named
from concord.workers.learning.trainers.selection import TrainerChoice
from concord.workers.learning.trainers.trainer import labels_of
from concord.workers.learning.weights.penalties import penalty_named
from concord.workers.learning.weights.unseen import Unseen, UnseenAnswers, scores_among
from concord.workers.models.model import Model, outside_cost_of, temperature_of

RULES_STEP = "rules mined"

METHOD, PENALTY = "counting", "odds"
"""The defaults of `concord constraints mine`."""


class _OutOfTimeError(Exception):
    """Ends a judgement when no time is left for it."""


class LadderRules(NamedTuple):
    """Mined rules that help the chosen model.

    - ``constraints``: the rules with their weights; none where none helps.
    - ``judgement``: how that was found; None where no rule holds.
    - ``cpu_seconds``: of mining and judging.
    """

    constraints: DeclaredConstraints
    judgement: JudgementReport | None
    cpu_seconds: float

    @property
    def text(self) -> str | None:
        """Text of a file of the rules; None where none helps."""
        if self.judgement is None or not self.judgement.rules:
            return None
        comments = {rule.name: help_comment(rule) for rule in self.judgement.rules}
        return constraints_text(self.constraints, comments, [self.judgement.sentence])


def rules_that_help(
    documents: Sequence[Document],
    chosen: TrainerChoice,
    model: Model,
    validation: Validation,
    trials: TrialFile,
    *,
    is_over: Callable[[float], bool],
) -> LadderRules | None:
    """Mines rules from documents, and judges them beside models of the chosen settings on later parts.

    - ``model``: one whose temperature and outside cost these have, too.

    A judgement that is in the file of trials is not made again. None where the time of others ends before it is made:
    ``is_over`` says so of the CPU seconds that it has taken. Raises the errors of `judged_beside` and `OutputError`.
    """
    started = time.process_time()

    def look() -> None:
        if is_over(time.process_time() - started):
            raise _OutOfTimeError

    miner = miner_named(METHOD)
    task = MiningTask(labels_of(documents), miner.settings(), seed=0)
    here = MinerHere(miner, task, penalty_named(PENALTY), validation)
    with meter("mining rules", None):
        holding = here.rules(documents, documents)
    if not holding.templates:
        return LadderRules(holding, None, time.process_time() - started)
    temperature, cost = temperature_of(model), outside_cost_of(model)
    name = f"{RULES_STEP}, temperature {temperature!r}, outside cost {cost!r} {chosen.trainer} "
    name += chosen.settings.model_dump_json()
    if name not in trials.results:
        made = AsTrained(chosen.trainer, trainer_named(chosen.trainer), chosen.settings, temperature, cost)
        try:
            judgement = judged_beside(made, documents, holding, here, look)
        except _OutOfTimeError:
            return None
        trials.add({name: [judgement.model_dump(mode="json"), time.process_time() - started]})
    report, cpu_seconds = trials.results[name]
    judgement = JudgementReport.model_validate(report)
    return LadderRules(helping(holding, judgement), judgement, cpu_seconds)


def with_rules(
    report: SearchReport,
    rules: LadderRules,
    model: Model,
    inside: Sequence[Document],
    outside: Sequence[Document],
) -> SearchReport:
    """The report of a ladder with its last step, and with what is to be expected under rules that help.

    - ``model``: the chosen one, at its temperature and outside cost, that has not seen the documents ``outside``.

    Raises `EngineError`.
    """
    found, seconds = rules.judgement, round(rules.cpu_seconds, 3)
    if found is None:
        best = [step.f1 for step in report.steps if step.is_kept][-1]
        step = StepRow(
            step=f"{RULES_STEP}: none holds", f1=best, gain=0.0, low=0.0, high=0.0, cpu_seconds=seconds, is_kept=False
        )
        return report.model_copy(update={"steps": (*report.steps, step)})
    step = StepRow.from_results(
        found,
        step=RULES_STEP,
        f1=found.after,
        gain=found.after - found.before,
        cpu_seconds=seconds,
        is_kept=bool(found.rules),
    )
    expected = _measured(rules.constraints, model, inside, outside) if found.rules else None
    return report.model_copy(update={"steps": (*report.steps, step), "rules": expected})


def _measured(
    rules: DeclaredConstraints, model: Model, inside: Sequence[Document], outside: Sequence[Document]
) -> RulesReport:
    settings, labels, every = JudgedSettings(), labels_of([*inside, *outside]), range(len(outside))
    unseen = Unseen(outside, scores_among(model, outside, labels), labels)
    bound = rules.bind(labels)
    decoder = Decoder.of(settings.engine, seed=0, budget=Budget(work=settings.work))
    answers = UnseenAnswers(unseen, bound, np.ones(len(bound.names), np.bool_), decoder)
    nats = dict(declared_weights(bound))
    weights = np.array([nats[name] for name in bound.names])
    with meter("measuring rules", len(outside)) as bar:
        ruled = list[Labels]()
        for i in every:
            ruled.append(answers.under(i, weights).labels)
            bar.advance()
    alone = [answers.alone(i).labels for i in every]
    before, after = (
        Trial("", answers.counts(every, given, settings.measure).sum(axis=1), f1_of_counts) for given in (alone, ruled)
    )
    gain = after.gain(before)
    return RulesReport.from_results(gain, rules=len(rules.templates), f1=after.value, gain=gain.difference)
