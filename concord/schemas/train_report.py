"""What a training answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pydantic import Field

from concord.schemas.blocks import AnyBlock, Headline, Remark, Table, TableRow, Tone, figure_columns, row
from concord.schemas.gains import Gain, points, points_between
from concord.schemas.shown import Report


class StepRow(Report):
    """A step of ``concord train --effort best``; figures are fractions.

    - ``step``: what it changes of the best model before it.
    - ``f1``: entity F1 of models that have not seen the documents that they label.
    - ``gain``, ``low``, ``high``: F1 minus that of the best model before it, and its 95 % interval; null for the base.
    - ``cpu_seconds``: of its trainings.
    - ``is_kept``: does it take the place of that model?
    """

    step: str
    f1: float
    gain: float | None
    low: float | None
    high: float | None
    cpu_seconds: float
    is_kept: bool


class RulesReport(Gain):
    """What mined rules that help gain over the chosen model, on the documents that had no part in the choice.

    - ``rules``: number of rules.
    - ``f1``: entity F1 under them, a fraction.
    """

    rules: int
    f1: float


class SearchReport(Gain):
    """How a model was chosen, and what to expect of it; figures are fractions.

    - ``steps``: what was tried, in order.
    - ``untried``: steps for which no time was left.
    - ``failures``: reasons of steps that failed, by step.
    - ``documents``: number of documents that the steps were judged by.
    - ``held_out``: number of documents that had no part in the choice, and ``entities`` their number of entities.
    - ``base_f1``, ``f1``: entity F1 on these, of the base and of what was chosen.
    - ``tokens_a_second``: tokens that the chosen model scores and labels by Viterbi in a CPU second.
    - ``rules``: what mined rules gain beside it; null where none help.
    """

    steps: tuple[StepRow, ...]
    untried: tuple[str, ...]
    failures: dict[str, str]
    documents: int
    held_out: int
    entities: int
    base_f1: float
    f1: float
    tokens_a_second: float
    rules: RulesReport | None = None

    def lines(self) -> Iterator[AnyBlock]:
        """A line for each step (F1 and gain in points), and what to expect."""
        columns = figure_columns("step", "F1", "gain", "from", "to", "CPU s", "kept")
        yield Table(columns, tuple(map(_step_row, self.steps)))
        if self.untried:
            yield Remark(f"not tried, for want of time: {', '.join(self.untried)}", Tone.NOTICE)
        for step, reason in self.failures.items():
            yield Remark(f"left out, as it failed: {step}: {reason}", Tone.NOTICE)
        yield Remark(self._expectation)
        if self.rules is not None:
            gain = " points, ".join(self.rules.gain_cells)
            yield Remark(f"under {self.rules.rules:,} mined rules expect {self.rules.f1:.2%} ({gain})")
        yield Remark(f"labels {self.tokens_a_second:,.0f} tokens a CPU second by Viterbi")

    @property
    def _expectation(self) -> str:
        on = f"{self.held_out:,} documents that had no part in the choice"
        if not self.entities:
            return f"no F1 can be foretold: the {on} have no entity"
        gain = " points, ".join(self.gain_cells)
        return f"expect an F1 of {self.f1:.2%}; the base has {self.base_f1:.2%} ({gain}): on {on}"


def _step_row(step: StepRow) -> TableRow:
    gains = ("" if value is None else points(value) for value in (step.gain, step.low, step.high))
    kept, tone = ("yes", Tone.STRONG) if step.is_kept else ("no", Tone.PLAIN)
    return row(step.step, f"{100 * step.f1:.2f}", *gains, f"{step.cpu_seconds:,.1f}", kept, tone=tone)


class SampleRow(Report):
    """A sample of wrapped progressive sampling.

    - ``tokens``, ``tested``: numbers of tokens to learn from, and to test on.
    - ``tried``, ``left``: numbers of settings that were tried, and that remained.
    - ``best``: the most accurate settings, which are chosen where no larger sample follows.
    - ``accuracy``: fraction of the tested tokens with the right class.
    - ``default``: accuracy of the settings that the search started from.
    - ``seconds``: CPU time of all its trials.
    """

    tokens: int
    tested: int
    tried: int
    left: int
    best: dict[str, str | float]
    accuracy: float
    default: float
    seconds: float


class ConsistencyReport(Report):
    """Label consistency that was tuned on documents.

    - ``exact_scale``, ``subsequence_scale``, ``unlabelled_scale``: factors of the learned costs; 0 leaves a family out.
    - ``f1_without``, ``f1``: entity F1 on those documents without label consistency and with it, as fractions.
    """

    exact_scale: float
    subsequence_scale: float
    unlabelled_scale: float
    f1_without: float
    f1: float

    def line(self, f1: str) -> str:
        """Its scales, and F1 without label consistency and with it; ``f1`` names this F1."""
        return (
            f"label consistency: scales {self.exact_scale:g} (exact), {self.subsequence_scale:g} (subsequence) "
            f"and {self.unlabelled_scale:g} (unlabelled); {f1} {self.f1_without:.2%} → {self.f1:.2%}"
        )


class TemperatureReport(Report):
    """A temperature by which a model's scores are divided, learned on documents that it has not seen.

    - ``kept_for``: why it stays what it was; null where another one was learned.
    - ``documents``: number of documents it was learned from.
    - ``error_before``, ``error``: calibration error of the entities in the model's best labels, a fraction: how far
      their marginals are from the share that is right. At the temperature before, and at one learned from half of the
      documents on the other half; null where none is judged, or none is better.
    - ``loss_before``, ``loss``: mean −log p(right or wrong, as it was) of these entities, in nats.
    """

    temperature: float
    kept_for: str | None
    documents: int
    error_before: float | None
    error: float | None
    loss_before: float | None
    loss: float | None

    @property
    def line(self) -> str:
        """The temperature, and how sure the model is of its entities before and after."""
        figures = ""
        if self.error_before is not None:
            error = f"{self.error_before:.2%}" + ("" if self.error is None else f" → {self.error:.2%}")
            loss = f"{self.loss_before:.4f}" + ("" if self.loss is None else f" → {self.loss:.4f}")
            figures = f"; held-out entities: calibration error {error}, log loss {loss} nats"
        why = "" if self.kept_for is None else f" ({self.kept_for})"
        return f"temperature {self.temperature:.4g}{why}{figures}"


class OutsideCostReport(Report):
    """What a token outside of entities costs, learned on documents that the model has not seen.

    - ``cost``: nats, before temperature; 0 where ``kept_for`` says why.
    - ``f1_without``: F1 of the entities in the model's best labels on these documents, without it; null where it was
      not judged.
    - ``f1``: the same with it; null where there is none.
    """

    cost: float
    kept_for: str | None
    f1_without: float | None
    f1: float | None

    @property
    def line(self) -> str:
        """The cost and what it gives; empty where there is none."""
        if self.f1 is None:
            return ""
        gain = f"held-out F1 {self.f1_without:.2%} → {self.f1:.2%}"
        return f"outside cost {self.cost:.4g} nats, so that more entities are named: {gain}"


class LayersReport(Report):
    """Ways to use layers (taggers' answers), judged on documents that nothing was learned from; figures are fractions.

    - ``documents``: number of documents judged.
    - ``held_out_f1``: entity F1 of each way.
    - ``base``: the best layer as it is, which is taken unless another way is better beyond chance.
    - ``gains``: F1 of each other way minus that of ``base``, and the ends of its 95 % interval.
    - ``best``: the way that was taken.
    - ``learned``: does it learn?
    - ``names``: by layer, the labels that gold calls otherwise, with gold's name, or null if it has none for them.
    """

    documents: int
    held_out_f1: dict[str, float]
    base: str
    gains: dict[str, tuple[float, float, float]]
    best: str
    learned: bool
    names: dict[str, dict[str, str | None]]

    @property
    def lines(self) -> Iterator[str]:
        """What labels are called, F1 of each way, and the one that was taken."""
        for layer, names in self.names.items():
            yield f"layer {layer} has labels that gold calls otherwise: {_renamed(names)}"
        judged = ", ".join(f"{name} {f1:.2%}" for name, f1 in self.held_out_f1.items())
        yield f"held-out F1: {judged}; taken: {self.best} ({self._reason})"

    @property
    def _reason(self) -> str:
        if self.best != self.base:
            return self._gain(self.best)
        nearest = max(self.gains, key=lambda name: self.held_out_f1[name])
        return f"nothing else is better beyond chance; {nearest}: {self._gain(nearest)}"

    def _gain(self, name: str) -> str:
        gain, low, high = self.gains[name]
        return f"{points(gain)} points on {self.base}, {points_between(low, high)}"


def _renamed(names: Mapping[str, str | None]) -> str:
    """Labels with gold's names, and those for which gold has none."""
    named = [f"{theirs} is {gold}" for theirs, gold in names.items() if gold is not None]
    none = [theirs for theirs, gold in names.items() if gold is None]
    return ", ".join(named + ([f"none for {', '.join(none)}"] if none else []))


class TaggerFigures(Report):
    """What is known of a tagger without gold labels, by a model of what it and others say; nothing of it is measured.

    - ``weight``: 1, or less where it says nearly the same as another.
    - ``alarms``: probability of a false alarm at a token outside all entities.
    - ``types``: probabilities of ``hit``, ``wrong``, ``missed`` and ``shifted`` at a token of each type.
    """

    weight: float
    alarms: float
    types: dict[str, dict[str, float]]


class TaggersReport(Report):
    """Taggers that a model was learned from without gold labels.

    - ``taggers``: by layer.
    - ``equal``: share of equal labels of two layers among the tokens that either marks, by their names.
    - ``coinciding_errors``: share of the errors of two layers that both make beyond chance, if the model is right.
    """

    taggers: dict[str, TaggerFigures]
    equal: dict[str, float]
    coinciding_errors: dict[str, float]

    @property
    def witnesses(self) -> float:
        """The number of taggers; those that say nearly the same count as one."""
        return sum(tagger.weight for tagger in self.taggers.values())

    def blocks(self) -> Iterator[AnyBlock]:
        """How often each tagger is right, and how far that can be trusted."""
        yield Headline(f"{len(self.taggers)} taggers, which count as {self.witnesses:.3g}")
        yield from self.lines()

    def lines(self) -> Iterator[Remark]:
        """The same without the headline."""
        for name, tagger in self.taggers.items():
            types = ", ".join(
                f"{kind} {' '.join(f'{100 * chance:.0f}' for chance in chances.values())}"
                for kind, chances in tagger.types.items()
            )
            copies = "" if tagger.weight == 1.0 else f"; says what others say, and counts {tagger.weight:.2f}"
            yield Remark(f"{name}: {types}; false alarms {tagger.alarms:.1%}{copies}")
        yield Remark(
            "(% of the tokens of each type that it hits, takes for another type, misses, or puts in another place)"
        )
        yield Remark(self._trust, Tone.NOTICE)

    @property
    def _trust(self) -> str:
        if self.witnesses < 1.5:
            how = "one tagger alone, so how reliable it is was assumed and not learned"
        else:
            share = sum(self.equal.values()) / len(self.equal)
            how = f"the taggers say the same of {share:.0%} of the tokens that either of two marks"
        return (
            f"no gold was read: {how}; errors that are alike everywhere show nowhere; label some documents, and "
            "`concord evaluate` says how good the model is"
        )


class TrainReport(Report):
    """Report of ``concord train --json``.

    - ``labels``: number of labels.
    - ``columns``: columns of the corpus that the model reads beside the tokens.
    - ``figures``: figures of the trainer, such as its iterations and its last loss in nats.
    - ``search``: how the model was chosen; null if it was not.
    - ``samples``: samples of wrapped progressive sampling.
    - ``calibration``: the model's temperature.
    - ``outside_cost``: what a token outside of entities costs.
    - ``consistency``: label consistency, tuned on the held-out part; null if it was not.
    - ``layers``: ways to use layers of the corpus; null if no layer was asked for.
    - ``taggers``: what is known of taggers; null for a trainer that reads gold labels.
    - ``registered``: name and version in MLflow's registry; null if the model was not registered.
    - ``rules``: file of mined rules that help the model; null where there is none.
    - ``remarks``: what the trainer says of ``figures``; not in the JSON.
    """

    trainer: str
    documents: int
    tokens: int
    rejected: int
    labels: int
    columns: tuple[str, ...]
    figures: dict[str, float]
    search: SearchReport | None = None
    samples: tuple[SampleRow, ...] = ()
    calibration: TemperatureReport
    outside_cost: OutsideCostReport
    consistency: ConsistencyReport | None
    layers: LayersReport | None = None
    taggers: TaggersReport | None = None
    seconds: float
    out: str
    model_digest: str
    mlflow_run: str
    mlflow_page: str | None = None
    registered: str | None
    rules: str | None = None
    remarks: tuple[Remark, ...] = Field((), exclude=True)

    def blocks(self) -> Iterator[AnyBlock]:
        """What was tried, what the model has learned from, its figures, and where it is."""
        if self.search is not None:
            yield from self.search.lines()
            if self.columns:
                yield Remark(
                    f"reads {', '.join(self.columns)}, so it cannot label raw text, which has none", Tone.NOTICE
                )
        if self.samples:
            yield samples_table(self.samples)
            trials, seconds = sum(one.tried for one in self.samples), sum(one.seconds for one in self.samples)
            yield Remark(f"{trials:,} trials on {len(self.samples)} samples, {seconds:,.1f} CPU s")
        registered = f", registered as {self.registered}" if self.registered else ""
        yield Headline(f"trained on {self.documents:,} documents by {self.trainer}{registered}")
        yield Remark(f"{self.documents:,} documents, {self.tokens:,} tokens, {self.rejected} rejected")
        yield from self.remarks
        if self.layers is not None:
            yield from map(Remark, self.layers.lines)
        if self.taggers is not None:
            yield from self.taggers.lines()
        yield Remark(self.calibration.line)
        if self.outside_cost.line:
            yield Remark(self.outside_cost.line)
        if self.consistency is not None:
            yield Remark(self.consistency.line("held-out F1"))
        rows = [row("labels", f"{self.labels:,}"), row("MLflow run", self.mlflow_run)]
        rows += [row(name, f"{value:,.6g}") for name, value in self.figures.items()]
        yield Table(figure_columns("model", "value"), tuple(rows), detail=True)
        yield Remark(f"model in {self.out}{registered}")
        if self.rules is not None:
            yield Remark(f"the mined rules that help it: --constraints {self.rules}")
        if self.mlflow_page is not None:
            yield Remark(f"MLflow run {self.mlflow_run}", link=self.mlflow_page)


def samples_table(samples: Sequence[SampleRow]) -> Table:
    """A line for each sample of wrapped progressive sampling: number of settings tried and left, and the best setting.

    Accuracy is the share of right classes, in per cent. The best setting of the last line is chosen.
    """
    names = list(samples[0].best)
    rows = (
        row(
            *(f"{count:,}" for count in (one.tokens, one.tested, one.tried, one.left)),
            *_values(one.best),
            *(f"{100 * share:.2f}" for share in (one.accuracy, one.default)),
            f"{one.seconds:,.1f}",
            tone=Tone.STRONG if one is samples[-1] else Tone.PLAIN,
        )
        for one in samples
    )
    return Table(figure_columns("tokens", "tested", "tried", "left", *names, "right", "default", "CPU s"), tuple(rows))


def _values(setting: Mapping[str, str | float]) -> list[str]:
    return [value if isinstance(value, str) else f"{value:g}" for value in setting.values()]
