"""Which mined rules help a model: what `concord constraints mine` does before it writes a file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from concord.flows.commands.learning import DIGITS, AsTrained
from concord.flows.progress import meter
from concord.schemas.audit import HelpfulRule, JudgementReport
from concord.schemas.document import Document
from concord.schemas.labels import LabelSet
from concord.workers.constraints.declared import DeclaredConstraints
from concord.workers.learning.folds import fold_of
from concord.workers.learning.judgement import Judgement, judged
from concord.workers.learning.mined_here import MineHere
from concord.workers.learning.mining import KeptSettings
from concord.workers.learning.penalties import Penalty
from concord.workers.learning.unseen import Unseen


class Miner(NamedTuple):
    """A method of mining with its settings, how rules are weighed that are counted, all labels, and the seed."""

    here: MineHere
    settings: KeptSettings
    penalty: Penalty
    labels: LabelSet
    seed: int

    def rules(self, documents: Sequence[Document], holding: Sequence[Document]) -> DeclaredConstraints:
        """The weighed rules of some documents; of those too large for any of the ``holding`` ones there is none."""
        return self.here(documents, holding, self.labels, self.settings, self.penalty, self.seed)


def judged_beside(
    made: AsTrained, documents: Sequence[Document], whole: DeclaredConstraints, miner: Miner
) -> JudgementReport:
    """Which rules of the ``whole`` help models that are trained as one was ``made``, by cross-validation.

    Raises what training raises, `TrainingError` for fewer documents than folds, and `EngineError`.
    """
    settings = miner.settings
    fold = fold_of(documents, settings.folds)
    with meter("training models of the folds", None):
        unseen = Unseen.of(documents, made.trainer.train, made.settings, settings.folds)
    parts = list[DeclaredConstraints]()
    with meter("mining without each fold", settings.folds) as bar:
        for mine in range(settings.folds):
            inside = [d for d, own in zip(documents, fold, strict=True) if own != mine]
            parts.append(miner.rules(inside, documents))
            bar.advance()
    with meter("judging rules", None) as bar:
        found = judged(
            unseen, fold, whole, parts, settings, seed=miner.seed, progress=lambda said: bar.advance(note=said)
        )
    return _report(found, settings, trainer=made.name, features=getattr(made.settings, "features", None))


def _report(found: Judgement, settings: KeptSettings, *, trainer: str, features: str | None) -> JudgementReport:
    rules = [
        HelpfulRule(
            name=name,
            weight=round(weight, DIGITS),
            documents=found.gains[name].documents,
            gain=found.gains[name].gain.difference,
            low=found.gains[name].gain.low,
            high=found.gains[name].gain.high,
        )
        for name, weight in found.weights.items()
        if round(weight, DIGITS) > 0.0
    ]
    return JudgementReport(
        trainer=trainer,
        features=features,
        folds=settings.folds,
        measure=settings.measure,
        figure=settings.figure,
        source=found.source,
        passes=found.passes,
        scale=found.scale,
        tried=found.tried,
        before=found.before,
        after=found.after,
        low=found.gain.low,
        high=found.gain.high,
        p=found.p,
        level=settings.level,
        rules=tuple(rules),
    )
