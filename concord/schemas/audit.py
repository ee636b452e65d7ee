"""Reports of the commands of `concord constraints`."""

from __future__ import annotations

from collections.abc import Sequence

from concord.schemas.run import Figures
from concord.schemas.settings import Validation
from concord.schemas.shown import lines_html, table_html


class Breaches(Figures):
    """Violations of one constraint under one labelling of the corpus.

    - ``bearing``: rows whose antecedent the labelling has, and all span agreements; the other rows are vacuous.
    - ``documents``: documents that break the constraint.
    - ``places``: broken rows or span agreements.
    - ``degree``: their total degree.
    - ``penalty``: nats; inf where the constraint is hard and broken.
    """

    bearing: int = 0
    documents: int = 0
    places: int = 0
    degree: float = 0.0
    penalty: float = 0.0


class FigureEffect(Figures):
    """A figure of a measure without and with something, on the same documents; fractions.

    - ``before``, ``after``: figure without it, and with it.
    - ``low``, ``high``: 95 % interval of ``after`` − ``before``, by drawing documents.
    """

    measure: str
    figure: str
    before: float
    after: float
    low: float
    high: float


class MeasuredEffect(Figures):
    """Effect of one constraint beside all others, or of all together, on documents with gold.

    - ``documents``: number of documents whose answer it changes.
    - ``figures``: a figure of each default measure of the label scheme.
    """

    documents: int
    figures: tuple[FigureEffect, ...]


class ConstraintCheck(Figures):
    """One constraint on a corpus.

    - ``weight``: nats; inf: hard.
    - ``documents``: number of documents in which it applies.
    - ``places``: number of rows and span agreements in these.
    - ``gold``: breaches in the gold labels; None without gold.
    - ``model``: breaches in the model's answers; None without a model.
    - ``effect``: effect on the measures, beside all other constraints; None without gold, a model or an engine that
      knows constraints.
    - ``warnings``: sentences about a constraint that is probably not meant like this.
    """

    name: str
    weight: float
    documents: int
    places: int
    gold: Breaches | None
    model: Breaches | None
    effect: MeasuredEffect | None = None
    warnings: tuple[str, ...]


class Conflict(Figures):
    """A minimal set of constraints that cannot all hold; without any one of them the others can.

    - ``hard``: whether all are hard, so that the documents have no labelling at all.
    - ``documents``: number of searched documents with this conflict.
    - ``doc_id``: the first of them.
    """

    constraints: tuple[str, ...]
    hard: bool
    documents: int
    doc_id: str


class CheckReport(Figures):
    """Report of a constraint file on a corpus.

    - ``searched``: documents that were searched for conflicts.
    - ``undecided``: documents among these that reached the limit of work or of conflicts, and show nothing.
    - ``effect``: effect of all constraints together on the measures; None as in `ConstraintCheck`.
    """

    documents: int
    tokens: int
    with_gold: int
    searched: int
    undecided: int
    constraints: tuple[ConstraintCheck, ...]
    conflicts: tuple[Conflict, ...]
    effect: MeasuredEffect | None = None


class CountedWeight(Figures):
    """A constraint's weight from gold; weights are in nats per unit of degree.

    - ``before``: declared weight, inf: hard; a hard one is not changed.
    - ``weight``, ``low``, ``high``: new weight and its 95 % interval; those of the counts times ``factor``.
    - ``rows``: rows (of an agreement: pairs of spans) whose antecedent gold has.
    - ``vacuous``: rows without their antecedent, which are no evidence.
    - ``broken``, ``degree``: rows that gold breaks, and their total degree.
    - ``factor``: taken as known, so the interval does not include its uncertainty.

    A learned weight may lie outside the interval.
    """

    name: str
    before: float
    weight: float
    low: float
    high: float
    rows: int
    vacuous: int
    broken: int
    degree: float
    factor: float = 1.0


class KnownWeight(Figures):
    """A constraint's weight.

    - ``weight``: nats; inf: hard.
    - ``low``, ``high``: 95 % interval of the counted weight; None where nothing was counted.
    """

    name: str
    weight: float
    low: float | None = None
    high: float | None = None


class TuningReport(Figures):
    """Factors of weights, tuned on documents held out from counts and model.

    - ``documents``, ``trials``: numbers of held-out documents and of trials.
    - ``measure``, ``figure``: what was maximised, a fraction.
    - ``factors``: chosen factor by template.
    - ``before``, ``after``: the figure under the counted weights, and under these times the factors.
    - ``low``, ``high``: 95 % interval of the gain; too favourable, as the factors were chosen by this gain.
    """

    base: str
    documents: int
    trials: int
    measure: str
    figure: str
    factors: dict[str, float]
    before: float
    after: float
    low: float
    high: float


class LearningReport(Figures):
    """Weights learned from the errors of models on documents that these have not seen.

    Rate, passes and scale are chosen by a figure on either half of the documents, under weights learned from the other
    half. With later documents (``validation``) it is the later half alone, under weights of the earlier one.

    - ``rate``: nats per unit of degree.
    - ``scale``: factor of all weights at the end.
    - ``stopped``: did learning end because the figure no longer rose, rather than at the limit of passes?
    - ``measure``, ``figure``: the figure that chooses, a fraction.
    - ``dropped``: number of constraints without a weight.
    - ``before``, ``after``: the figure without the weights and with them.
    - ``low``, ``high``: 95 % interval of the gain; too favourable, as the weights were chosen by this gain.
    """

    validation: Validation
    rate: float
    passes: int
    scale: float
    stopped: bool
    measure: str
    figure: str
    dropped: int
    before: float
    after: float
    low: float
    high: float


class WeighReport(Figures):
    """Weights of a constraint file, from documents with gold labels.

    - ``documents``: number of documents that the weights come from.
    - ``without_gold``: number of documents left out for want of gold labels.
    - ``rejected``: number of rows that cannot be read.
    - ``penalty``: name of the formula.
    - ``written``: number of entries in the new file, local features included. Learned weights leave out constraints
      that got none.
    - ``out``: the new file; None if nothing was written.
    """

    documents: int
    without_gold: int
    rejected: int
    penalty: str
    constraints: tuple[CountedWeight, ...]
    tuning: TuningReport | None
    learning: LearningReport | None
    written: int
    out: str | None
    mlflow_run: str | None


SHOWN_CHANGES = 12
"""Changes that a line for people names."""


class LabelChange(Figures):
    """A token whose label a constraint changes.

    - ``without``: label without the constraint.
    - ``label``: label under all constraints.
    """

    position: int
    token: str
    without: str
    label: str

    @property
    def line(self) -> str:
        """The change for people."""
        return f"{self.token} {self.without} → {self.label}"


def first_changes(changes: Sequence[LabelChange]) -> str:
    """The first changes in one line, and the number of those that are left."""
    more = [f"and {len(changes) - SHOWN_CHANGES} more"] if len(changes) > SHOWN_CHANGES else []
    return "; ".join([*(change.line for change in changes[:SHOWN_CHANGES]), *more])


class ConstraintEffect(Figures):
    """Effect of one entry of a constraint file in one document.

    - ``degree_before``: degree under the labelling of the local scores alone.
    - ``degree``, ``penalty``: degree and penalty (nats) of the answer.
    - ``cost``: local score, in nats, that the answer gives up compared with the answer without the entry.
    - ``changes``: tokens that differ from the answer without the entry.

    Degrees and penalty are None for a local feature, which has none.
    """

    name: str
    degree_before: float | None
    degree: float | None
    penalty: float | None
    cost: float
    changes: tuple[LabelChange, ...]


class Explanation(Figures):
    """One document with and without its constraints; labels by name, scores in nats.

    - ``cost``: local score that the answer gives up compared with ``unconstrained``, the labels of the model alone.
    - ``effects``: of each constraint alone. Where two agree, neither changes anything alone, see `together`.
    """

    doc_id: str
    tokens: tuple[str, ...]
    gold: tuple[str, ...] | None
    unconstrained: tuple[str, ...]
    labels: tuple[str, ...]
    local: float
    penalty: float
    cost: float
    gap: float
    status: str
    effects: tuple[ConstraintEffect, ...]

    @property
    def together(self) -> tuple[LabelChange, ...]:
        """The labels of the model alone that all constraints together change."""
        rows = enumerate(zip(self.tokens, self.unconstrained, self.labels, strict=True))
        return tuple(
            LabelChange(position=place, token=token, without=before, label=after)
            for place, (token, before, after) in rows
            if before != after
        )

    @property
    def sentence(self) -> str:
        """What the constraints changed, in one line."""
        return f"labels that the constraints changed: {first_changes(self.together) or 'none'}"

    def _repr_html_(self) -> str:
        every = [(e.name, e.changes, e.degree, e.penalty, e.cost) for e in self.effects]
        every.append(("together", self.together, None, self.penalty, self.cost))
        rows = [
            (
                name,
                first_changes(changes),
                *("" if value is None else f"{value:,.4g}" for value in figures),
            )
            for name, changes, *figures in every
        ]
        table = table_html(("constraint", "changes alone", "degree", "penalty in nats", "cost in nats"), rows)
        return f"{table}{lines_html([self.sentence])}"


class MinedRule(Figures):
    """A mined rule that was kept.

    - ``n``: documents where it binds (of a clause: held-out ones).
    - ``broken``: documents among these that break it.
    - ``chance``: fraction of these that would hold by chance.
    - ``p``: probability that so many hold by chance.
    - ``weight``, ``low``, ``high``: weight in nats per unit of degree, and its 95 % interval.
    """

    name: str
    template: str
    n: int
    broken: int
    chance: float
    p: float
    weight: float
    low: float
    high: float


class UnsaidClause(Figures):
    """A clause or rule that was kept, though no constraint can express it.

    - ``reason``: why none can; it continues a sentence.
    - ``n``, ``broken``, ``chance``, ``p``: as in `MinedRule`.
    """

    name: str
    reason: str
    n: int
    broken: int
    chance: float
    p: float

    @property
    def sentence(self) -> str:
        """All of it in one line."""
        return (
            f"{self.name}: no constraint says it, as it {self.reason}; {self.broken:,} of {self.n:,} documents break it"
        )


class HelpfulRule(Figures):
    """A rule that helps a model.

    - ``weight``: nats per unit of degree, beyond what the model knows.
    - ``documents``: number of documents it changes, of those that neither the counting nor the model saw.
    - ``gain``: what the judgement's figure (a fraction) gains by it, beside the other rules that help.
    - ``low``, ``high``: 95 % interval of the gain.
    """

    name: str
    weight: float
    documents: int
    gain: float
    low: float
    high: float


class JudgementReport(Figures):
    """The mined rules that help models on documents that neither the models nor the counting saw.

    - ``trainer``, ``features``: how the models are trained.
    - ``folds``, ``validation``: number of parts of the corpus, and how they are cut.
    - ``measure``, ``figure``: the figure that judges, a fraction.
    - ``source``: where the weights come from; ``passes``: passes of learning them; ``scale``: their factor.
    - ``tried``: number of sets of rules that were compared.
    - ``before``, ``after``: the figure without rules and under the best set. With later documents: of the later half.
    - ``low``, ``high``: 95 % interval of the gain; too favourable, as the set was chosen by this gain.
    - ``p``: probability that the best of as many sets gains as much by luck.
    - ``level``: largest ``p`` at which rules count as helpful.
    - ``rules``: the rules of the best set; none if ``p`` is above the level.
    """

    trainer: str
    features: str | None
    folds: int
    validation: Validation
    measure: str
    figure: str
    source: str
    passes: int
    scale: float
    tried: int
    before: float
    after: float
    low: float
    high: float
    p: float
    level: float
    rules: tuple[HelpfulRule, ...]

    @property
    def sentence(self) -> str:
        """All of it in one line."""
        features = f", features {self.features}" if self.features else ""
        folds = "folds" if self.validation is Validation.RANDOM else "parts in order, each by those before it"
        beside = f"beside models of {self.trainer}{features}, by {self.folds} {folds}"
        figures = f"{self.figure} of {self.measure} {self.before:.2%} without rules"
        if self.after <= self.before:
            return f"none of {self.tried:,} sets of rules helps {beside}: {figures}, no better with any"
        best = f"{self.after:.2%} under the best of {self.tried:,} sets ({self.low:+.2%} to {self.high:+.2%})"
        if not self.rules:
            return f"no rule helps {beside}: {figures}, {best}, but luck gives as much with p {self.p:.3f}"
        return (
            f"{len(self.rules):,} rules help {beside}: {figures}, {best}, which luck gives with p {self.p:.3f}; "
            f"weights {self.source} × {self.scale:g}"
        )


class MineReport(Figures):
    """Report of `concord constraints mine`.

    - ``documents``, ``with_gold``: number of documents, and of those with gold labels, which the rules come from.
    - ``candidates``: number of rules that bind in some document.
    - ``significant``: number of these that hold more often than chance explains.
    - ``rules``: the significant rules that are kept.
    - ``judgement``: the rules among these that help a model; None if that was not asked for.
    - ``written``: number of rules in the file ``out``.
    - ``unsaid``: other kept rules, which no constraint can express.
    - ``remarks``: sentences about how far the search went, and what it proves.
    """

    documents: int
    with_gold: int
    rejected: int
    candidates: int
    significant: int
    rules: tuple[MinedRule, ...]
    judgement: JudgementReport | None
    written: int
    out: str
    unsaid: tuple[UnsaidClause, ...] = ()
    remarks: tuple[str, ...] = ()
