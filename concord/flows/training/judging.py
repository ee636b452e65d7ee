"""Judgement of mined rules, which ones help a model: by `concord constraints mine`, and `train --effort best`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, cast

from concord.flows.screen.progress import meter
from concord.schemas.audit import HelpfulRule, JudgementReport
from concord.schemas.document import Document
from concord.schemas.settings import TrainerSettings, Validation
from concord.workers.constraints.declared import DeclaredConstraints
from concord.workers.constraints.declared_weights import with_weights
from concord.workers.learning.mining.judgement import Judgement, judged
from concord.workers.learning.mining.miner import MinerHere
from concord.workers.learning.mining.rules import KeptSettings
from concord.workers.learning.search.folds import first_answered, first_judged, parts_of, round_of
from concord.workers.learning.trainers.trainer import Trainer
from concord.workers.learning.weights.penalties import WEIGHT_DECIMALS
from concord.workers.learning.weights.unseen import Unseen


class AsTrained(NamedTuple):
    """Training of a model: the trainer's name, the trainer, its settings, temperature and outside cost that it got."""

    name: str
    trainer: Trainer
    settings: TrainerSettings
    temperature: float
    outside_cost: float

    def unseen(self, documents: Sequence[Document], folds: int, validation: Validation) -> Unseen:
        """Documents as models of this kind score them that have not seen them. Raises the errors of `Unseen.of`."""
        with meter("training models of the folds", None):
            unseen = Unseen.of(documents, self.trainer.train, self.settings, folds, validation)
        return unseen.at(self.temperature, self.outside_cost)


def judged_beside(
    made: AsTrained,
    documents: Sequence[Document],
    whole: DeclaredConstraints,
    miner: MinerHere,
    look: Callable[[], None] = lambda: None,
) -> JudgementReport:
    """Report on the rules of ``whole`` that help models which are trained as one was ``made``, by cross-validation.

    ``look`` is called every now and then, and may end it by an error of its own.

    Raises the errors of training, `TrainingError` for fewer documents than folds, and `EngineError`.
    """
    settings, validation = cast("KeptSettings", miner.task.settings), miner.validation
    part = parts_of(documents, settings.folds, validation)
    unseen = made.unseen(documents, settings.folds, validation)
    first, rules = first_judged(settings.folds, validation), list[DeclaredConstraints]()
    with meter("mining without each fold", settings.folds - first) as bar:
        for mine in range(settings.folds):
            inside = [documents[i] for i in round_of(part, mine, validation).learned]
            # What is not judged is answered without rules.
            rules.append(miner.rules(inside, documents) if mine >= first else whole.only(()))
            bar.advance(mine >= first)
            look()
    fold = [own for own in part if own >= first_answered(validation)]
    with meter("judging rules", None) as bar:
        found = judged(
            *(unseen, fold, whole, rules, settings),
            validation=validation,
            seed=miner.task.seed,
            progress=lambda said: bar.advance(note=said),
            look=look,
        )
    return _report(found, miner, made)


def helping(rules: DeclaredConstraints, judgement: JudgementReport) -> DeclaredConstraints:
    """Those of the rules that help, with the weights that the judgement gives them."""
    weights = {rule.name: rule.weight for rule in judgement.rules}
    return with_weights(rules.only(weights), weights)


def help_comment(rule: HelpfulRule) -> str:
    """What a rule gains, for the line above it."""
    return (
        f"helps: changes {rule.documents:,} documents that it was not counted in, {rule.gain:+.2%} "
        f"({rule.low:+.2%} to {rule.high:+.2%}), at {rule.weight:.2f} nats"
    )


def _report(found: Judgement, miner: MinerHere, made: AsTrained) -> JudgementReport:
    settings = cast("KeptSettings", miner.task.settings)
    rules = [
        HelpfulRule.from_results(
            *(found.gains[name], found.gains[name].gain),
            name=name,
            weight=round(weight, WEIGHT_DECIMALS),
            gain=found.gains[name].gain.difference,
        )
        for name, weight in found.weights.items()
        if round(weight, WEIGHT_DECIMALS) > 0.0
    ]
    return JudgementReport.from_results(
        *(found, found.gain, miner, settings),
        passes=found.passes,
        trainer=made.name,
        features=getattr(made.settings, "features", None),
        rules=tuple(rules),
    )
