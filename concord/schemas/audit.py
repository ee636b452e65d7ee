"""Reports of the commands of `concord constraints`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from concord.schemas.blocks import (
    AnyBlock,
    Headline,
    Remark,
    Table,
    TableColumn,
    Tone,
    figure_columns,
    row,
    text_columns,
)
from concord.schemas.gains import FigureEffect, Gain, points, points_between
from concord.schemas.settings import Validation
from concord.schemas.shown import Report, within

SPANS = "spans"
"""The measure whose interval is in a table: each label scheme has it, and most users care for it."""


def nats(weight: float) -> str:
    """A weight."""
    return "hard" if weight == float("inf") else f"{weight:g}"


class Breaches(Report):
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

    @property
    def cells(self) -> tuple[str, str, str]:
        """Broken places, rows that could be broken, and documents, for a table."""
        return f"{self.places:,}", f"{self.bearing:,}", f"{self.documents:,}"


class MeasuredEffect(Report):
    """Effect of one constraint beside all others, or of all together, on documents with gold.

    - ``documents``: number of documents whose answer it changes.
    - ``figures``: a figure of each default measure of the label scheme.
    """

    documents: int
    figures: tuple[FigureEffect, ...]

    def lines(self) -> Iterator[Remark]:
        """What all constraints together change."""
        for one in self.figures:
            line = f"{one.figure} of {one.measure}: {one.before:.2%} without constraints"
            if self.documents:
                gain = points_between(one.low, one.high)
                yield Remark(f"{line}, {one.after:.2%} with them ({gain} points)")
            else:
                yield Remark(f"{line} and with them")


class ConstraintCheck(Report):
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


class Conflict(Report):
    """A minimal set of constraints that cannot all hold; without any one of them the others can.

    - ``hard``: whether all are hard, so that the documents have no labelling at all.
    - ``documents``: number of searched documents with this conflict.
    - ``doc_id``: the first of them.
    """

    constraints: tuple[str, ...]
    hard: bool
    documents: int
    doc_id: str


class CheckReport(Report):
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

    def blocks(self) -> Iterator[AnyBlock]:
        """Places and breaches of each constraint, gains, counts, warnings and contradictions."""
        yield self._breaches()
        if self.effect is not None and self.effect.documents:
            yield self._gains(self.effect)
        yield Headline(
            f"{self.documents:,} documents, {self.tokens:,} tokens, {self.with_gold:,} documents with gold labels"
        )
        if self.effect is not None:
            yield from self.effect.lines()
        for one in self.constraints:
            warnings = (warning for warning in one.warnings if "contradicts" not in warning)
            yield from (Remark(f"warning: {one.name}: {warning}") for warning in warnings)
        for conflict in self.conflicts:
            kind = "cannot hold together (all hard: no labelling is left)" if conflict.hard else "cannot hold together"
            names = " + ".join(conflict.constraints)
            where = f"in {conflict.documents} documents, first {conflict.doc_id}"
            yield Remark(f"contradiction: {names} {kind} {where}")
        undecided = f", {self.undecided} undecided" if self.undecided else ""
        yield Remark(f"searched {self.searched:,} documents for contradictions{undecided}")

    def _breaches(self) -> Table:
        """A line for each constraint: number of places where it applies, and how many of the bearing rows gold and the
        model's answers break."""
        gold = ("gold\nbreaks", "of", "in\ndocs") if any(one.gold for one in self.constraints) else ()
        of_model = ("model\nbreaks", "of", "in\ndocs", "penalty,\nnats")
        model = of_model if any(one.model for one in self.constraints) else ()
        rows = []
        for one in self.constraints:
            cells = [one.name, nats(one.weight), f"{one.places:,}", f"{one.documents:,}"]
            if gold:
                cells += one.gold.cells if one.gold else [""] * len(gold)
            if model:
                cells += [*one.model.cells, f"{one.model.penalty:,.1f}"] if one.model else [""] * len(model)
            rows.append(row(*cells))
        return Table(figure_columns("constraint", "weight", "places", "in\ndocs", *gold, *model), tuple(rows))

    def _gains(self, whole: MeasuredEffect) -> Table:
        """A line for all constraints and for each that changes an answer: the documents that it changes, its gain by
        each measure in points, and the interval of that in spans."""
        heads = [head for one in whole.figures for head in _heads(one)]
        every = [("all of them", whole), *((one.name, one.effect) for one in self.constraints)]
        rows = (
            row(name, f"{effect.documents:,}", *(cell for one in effect.figures for cell in _cells(one)))
            for name, effect in every
            if effect is not None and effect.documents
        )
        return Table(figure_columns("gain, points", "docs\nchanged", *heads), tuple(rows))


def _heads(effect: FigureEffect) -> tuple[str, ...]:
    """Heads of the columns of `_cells`."""
    head = f"{effect.measure},\n{effect.figure}"
    return (head, "95 %") if effect.measure == SPANS else (head,)


def _cells(effect: FigureEffect) -> tuple[str, ...]:
    """The gain in points, and the interval of that in spans."""
    gain = points(effect.after - effect.before)
    return (gain, points_between(effect.low, effect.high)) if effect.measure == SPANS else (gain,)


class CountedWeight(Report):
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


class KnownWeight(Report):
    """A constraint's weight.

    - ``weight``: nats; inf: hard.
    - ``low``, ``high``: 95 % interval of the counted weight; None where nothing was counted.
    """

    name: str
    weight: float
    low: float | None = None
    high: float | None = None


class TuningReport(FigureEffect):
    """Factors of weights, tuned by a figure on documents held out from counts and model.

    - ``base``: the formula of the counted weights, whose figure is ``before``.
    - ``documents``, ``trials``: numbers of held-out documents and of trials.
    - ``factors``: chosen factor by template.
    """

    base: str
    documents: int
    trials: int
    factors: dict[str, float]

    def blocks(self) -> Iterator[AnyBlock]:
        """The factors, and what they gain."""
        factors = ", ".join(f"{family} × {factor:g}" for family, factor in self.factors.items())
        tried = f"the best of {self.trials} on {self.documents:,} held-out documents"
        yield Headline(f"{self.base} times factors, {tried}: {factors}")
        yield Remark(
            f"{self.figure} of {self.measure} there {self.before:.2%} as counted, {self.after:.2%} with them "
            f"(gain {self.low:+.2%} to {self.high:+.2%}, on the documents they were chosen on)"
        )


class LearningReport(FigureEffect):
    """Weights learned from the errors of models on documents that these have not seen.

    Rate, passes and scale are chosen by the figure on either half of the documents, under weights learned from the
    other half. With later documents (``validation``) it is the later half alone, under weights of the earlier one.

    - ``rate``: nats per unit of degree.
    - ``scale``: factor of all weights at the end.
    - ``stopped``: did learning end because the figure no longer rose, rather than at the limit of passes?
    - ``dropped``: number of constraints without a weight.
    """

    validation: Validation
    rate: float
    passes: int
    scale: float
    stopped: bool
    dropped: int

    def blocks(self) -> Iterator[AnyBlock]:
        """How the weights were learned, and what they gain."""
        yield Headline(
            f"learned in {self.passes} passes at rate {self.rate:g}, times {self.scale:g}; "
            f"{self.dropped:,} got no weight"
        )
        halves = "the later half, with weights of the earlier half"
        if self.validation is Validation.RANDOM:
            halves = "halves, with weights of the other half"
        yield Remark(
            f"{self.figure} of {self.measure} on {halves}: {self.before:.2%} without, {self.after:.2%} with them "
            f"(gain {self.low:+.2%} to {self.high:+.2%}, rate, passes and scale were chosen by it)"
        )
        if not self.stopped:
            yield Remark("warning: it still rose with the last pass; --set passes=N allows more")


class WeighReport(Report):
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

    def blocks(self) -> Iterator[AnyBlock]:
        """The weights, the documents counted, constraints with little evidence, and the place of the weights."""
        yield self._weights()
        yield Headline(f"penalty {self.penalty}, counted on {self.documents:,} documents with gold labels")
        if self.without_gold or self.rejected:
            left = f"{self.without_gold:,} documents without gold labels, {self.rejected:,} rejected rows"
            yield Remark(f"left out: {left}")
        yield Remark("vacuous rows hold for want of what they speak of; they are no evidence and do not count")
        if self.tuning is not None:
            yield from within(self.tuning)
        if self.learning is not None:
            yield from within(self.learning)
        for one in self.constraints:
            if not one.rows:
                yield Remark(f"warning: {one.name}: gold never has what it speaks of; its weight rests on nothing")
            elif one.weight == 0.0:
                yield Remark(f"warning: {one.name}: gold breaks it more than it keeps it; it weighs nothing")
        if self.out is None:
            yield Remark("nothing was written; --out FILE keeps these weights")
        elif not self.written:
            yield Remark(f"no constraint helps: the list in {self.out} is empty")
        else:
            yield Remark(f"weights in {self.out}")

    def _weights(self) -> Table:
        """A line for each constraint: its rows in gold, its old weight, and its new one with the interval."""
        rows = (
            row(
                one.name,
                *(f"{count:,}" for count in (one.rows, one.vacuous, one.broken)),
                nats(one.before),
                nats(one.weight),
                f"{one.low:.2f} to {one.high:.2f}",
            )
            for one in self.constraints
        )
        heads = ("rows", "vacuous", "broken", "weight\nbefore", "weight", "95 %")
        return Table(figure_columns("constraint", *heads), tuple(rows))


SHOWN_CHANGES = 12
"""Changes that a line for people names."""


class LabelChange(Report):
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


class ConstraintEffect(Report):
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

    @property
    def shows(self) -> bool:
        """Is it broken, or does it change a label?"""
        return bool(self.degree_before or self.degree or self.changes)

    @property
    def figures(self) -> tuple[float | None, ...]:
        """Degree before and after, penalty and cost."""
        return self.degree_before, self.degree, self.penalty, self.cost


class Explanation(Report):
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

    @property
    def subject(self) -> str:
        """The document."""
        return self.doc_id

    def blocks(self) -> Iterator[AnyBlock]:
        """The document token by token, the effect of each entry, and what was proven of the answer."""
        yield self._labels()
        yield self.effect_table()
        idle = sum(not effect.shows for effect in self.effects)
        yield Remark(f"{idle} of {len(self.effects)} constraints hold and change nothing here")
        yield Headline(
            f"{self.doc_id}: {self.status}, local score {self.local:,.4f} nats, penalty {self.penalty:,.4f}, "
            f"gap {self.gap:.2g}"
        )

    def _labels(self) -> Table:
        """The document token by token: gold, without constraints, with them."""
        gold = [(name,) for name in self.gold] if self.gold is not None else [()] * len(self.tokens)
        rows = (
            row(token, *names, before, label, tone=Tone.PLAIN if before == label else Tone.STRONG)
            for token, names, before, label in zip(self.tokens, gold, self.unconstrained, self.labels, strict=True)
        )
        heads = ("token", *(() if self.gold is None else ("gold",)), "unconstrained", "constrained")
        return Table(text_columns(*heads), tuple(rows))

    def effect_table(self) -> Table:
        """A line for each entry that is broken or changes a label: degree, penalty, changes and their cost."""
        rows = [
            row(
                effect.name,
                *("–" if figure is None else f"{figure:,.4g}" for figure in effect.figures),
                first_changes(effect.changes),
            )
            for effect in self.effects
            if effect.shows
        ]
        if len(self.effects) > 1:
            changes = first_changes(self.together)
            rows.append(row("together", "", "", f"{self.penalty:,.4g}", f"{self.cost:,.4g}", changes))
        columns = figure_columns("constraint", "degree\nbefore", "after", "penalty", "local\nscore\ngiven up")
        return Table((*columns, TableColumn("changes (without → with)")), tuple(rows))


class TestedRule(Report):
    """A mined rule or clause that was kept.

    - ``n``: documents where it binds (of a clause: held-out ones).
    - ``broken``: documents among these that break it.
    - ``chance``: fraction of these that would hold by chance.
    - ``p``: probability that so many hold by chance.
    """

    name: str
    n: int
    broken: int
    chance: float
    p: float


class MinedRule(TestedRule):
    """A kept rule that a constraint expresses.

    - ``weight``, ``low``, ``high``: weight in nats per unit of degree, and its 95 % interval.
    """

    template: str
    weight: float
    low: float
    high: float


class UnsaidClause(TestedRule):
    """A kept clause or rule that no constraint can express; ``reason`` says why and continues a sentence."""

    reason: str

    @property
    def sentence(self) -> str:
        """All of it in one line."""
        return (
            f"{self.name}: no constraint says it, as it {self.reason}; {self.broken:,} of {self.n:,} documents break it"
        )


class HelpfulRule(Gain):
    """A rule that helps a model, with what the judgement's figure gains by it beside the other rules that help.

    - ``weight``: nats per unit of degree, beyond what the model knows.
    - ``documents``: number of documents it changes, of those that neither the counting nor the model saw.
    """

    name: str
    weight: float
    documents: int


class JudgementReport(FigureEffect):
    """The mined rules that help models on documents that neither the models nor the counting saw.

    The figure is without rules and under the best set. With later documents it is that of the later half.

    - ``trainer``, ``features``: how the models are trained.
    - ``folds``, ``validation``: number of parts of the corpus, and how they are cut.
    - ``source``: where the weights come from; ``passes``: passes of learning them; ``scale``: their factor.
    - ``tried``: number of sets of rules that were compared.
    - ``p``: probability that the best of as many sets gains as much by luck.
    - ``level``: largest ``p`` at which rules count as helpful.
    - ``rules``: the rules of the best set; none if ``p`` is above the level.
    """

    trainer: str
    features: str | None
    folds: int
    validation: Validation
    source: str
    passes: int
    scale: float
    tried: int
    p: float
    level: float
    rules: tuple[HelpfulRule, ...]

    def blocks(self) -> Iterator[AnyBlock]:
        """The rules that help, and how it was found."""
        if self.rules:
            yield self.table()
        yield Headline(self.sentence)

    def table(self) -> Table:
        """A line for each rule that helps: documents that it changes, its gain with the interval, and its weight."""
        rows = (row(one.name, f"{one.documents:,}", *one.gain_cells, nats(one.weight)) for one in self.rules)
        heads = ("documents\nchanged", "gain,\npoints", "95 %", "weight")
        return Table(figure_columns("rule that helps", *heads), tuple(rows))

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


class MineReport(Report):
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

    def blocks(self) -> Iterator[AnyBlock]:
        """The rules, those that help, the number of rules that hold and that help, and the file."""
        yield self._rules()
        if self.judgement is not None and self.judgement.rules:
            yield self.judgement.table()
        counted = f"{self.with_gold:,} of {self.documents:,} documents, {self.rejected:,} rejected rows"
        yield Remark(f"counted on {counted}")
        yield from map(Remark, self.remarks)
        yield Headline(
            f"{self.candidates:,} rules bind somewhere, {self.significant:,} hold more often than chance lets them"
        )
        yield from (Remark(one.sentence) for one in self.unsaid)
        if self.judgement is not None and self.rules:
            yield Remark(self.judgement.sentence)
        if self.written:
            yield Remark(f"{self.written} of {len(self.rules)} rules that hold in {self.out}")
        else:
            why = "no rule was found" if not self.rules else "no rule helps"
            yield Remark(f"{why}: the list in {self.out} is empty")

    def _rules(self) -> Table:
        """A line for each rule: documents where it binds, how many break it, how many would by chance, and its weight
        with the interval."""
        rows = (
            row(
                *(one.name, f"{one.n:,}", f"{one.broken:,}", f"{100 * one.chance:.1f}", f"{one.p:.1e}"),
                *(nats(one.weight), f"{one.low:.2f} to {one.high:.2f}"),
            )
            for one in self.rules
        )
        heads = ("documents", "broken", "by chance\nhold, %", "p", "weight", "95 %")
        return Table(figure_columns("rule", *heads), tuple(rows))


class SchemaReport(Report):
    """What `concord constraints schema` has written: to which file, and for how many ``templates``."""

    out: str
    templates: int

    def blocks(self) -> Iterator[AnyBlock]:
        """Where the schema is, and the line by which editors find it."""
        yield Headline(f"schema of {self.templates:,} templates in {self.out}")
        yield Remark(f"first line of a file for editors: # yaml-language-server: $schema={self.out}")
