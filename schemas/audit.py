"""Reports of the commands of `concord constraints`."""

from __future__ import annotations

from concord.schemas.run import Figures
from concord.schemas.settings import Validation


class Breaches(Figures):
    """Violations of one constraint under one labelling of the corpus.

    ``bearing``: rows whose antecedent the labelling has, and all span agreements; the other rows are vacuous
    ``documents``: documents that break the constraint
    ``places``: broken rows or span agreements
    ``degree``: their total degree
    ``penalty``: nats; inf where the constraint is hard and broken
    """

    bearing: int = 0
    documents: int = 0
    places: int = 0
    degree: float = 0.0
    penalty: float = 0.0


class ConstraintCheck(Figures):
    """One constraint on a corpus: it applies in ``documents``, at ``places`` rows or span agreements.

    ``gold`` and ``model`` are its breaches there, None where there is no gold or no model was given.
    ``weight`` is in nats, inf: hard.
    """

    name: str
    weight: float
    documents: int
    places: int
    gold: Breaches | None
    model: Breaches | None
    warnings: tuple[str, ...]


class Conflict(Figures):
    """A minimal set of constraints that cannot all hold; without any one of them the others can.

    ``hard``: whether all are hard, so that the documents have no labelling at all
    ``documents``: number of searched documents with this conflict
    ``doc_id``: the first of them
    """

    constraints: tuple[str, ...]
    hard: bool
    documents: int
    doc_id: str


class CheckReport(Figures):
    """Report of a constraint file on a corpus.

    ``searched``: documents that were searched for conflicts
    ``undecided``: documents among these that reached the limit of work or of conflicts, and show nothing
    """

    documents: int
    tokens: int
    with_gold: int
    searched: int
    undecided: int
    constraints: tuple[ConstraintCheck, ...]
    conflicts: tuple[Conflict, ...]


class CountedWeight(Figures):
    """A constraint's weight from gold; weights are in nats per unit of degree.

    ``before``: declared weight, inf: hard; a hard one is not changed
    ``weight``, ``low``, ``high``: new weight and its 95 % interval; those of the counts times ``factor``
    ``rows``: rows (of an agreement: pairs of spans) whose antecedent gold has
    ``vacuous``: rows without their antecedent, which are no evidence
    ``broken``, ``degree``: rows that gold breaks, and their total degree
    ``factor``: taken as known, so the interval does not include its uncertainty

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
    """A constraint's weight in nats (inf: hard), and the 95 % interval of what was counted, where that is known."""

    name: str
    weight: float
    low: float | None = None
    high: float | None = None


class TuningReport(Figures):
    """Factors of weights, tuned on documents held out from counts and model.

    ``documents``, ``trials``: numbers of held-out documents and of trials
    ``measure``, ``figure``: what was maximised, a fraction
    ``factors``: chosen factor by template
    ``before``, ``after``: the figure under the counted weights, and under these times the factors
    ``low``, ``high``: 95 % interval of the gain; too favourable, as the factors were chosen by this gain
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
    """Weights learned from the errors of models on documents they have not seen; ``dropped`` constraints got none.

    ``rate`` (nats a unit of degree), ``passes`` and ``scale``, which multiplies weights in the end, were chosen by the
    ``figure`` of a ``measure`` (a fraction) on either half of the documents under weights of the other: ``before``
    without them and ``after`` with them; the gain lies between ``low`` and ``high`` with 95 %, but they were chosen by
    it. By later documents, as ``validation`` says, it is the later half under weights of the earlier. ``stopped``: the
    figure no longer rose when learning ended, rather than that no more passes were allowed.
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
    """The weights of a constraint file by ``penalty``, from ``documents`` with gold labels; ``out`` has them, and so
    many entries are ``written``: local features, too, and none that got no weight where weights are learned.

    Documents ``without_gold`` labels, and ``rejected`` rows, which cannot be read, had no part in them.
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


class LabelChange(Figures):
    """A token whose label a constraint changes: its label without the constraint, and with all constraints."""

    position: int
    token: str
    without: str
    label: str


class ConstraintEffect(Figures):
    """Effect of one entry of a constraint file in one document.

    ``degree_before``: degree under the labelling of the local scores alone
    ``degree``, ``penalty``: degree and penalty (nats) of the answer
    ``cost``: local score, in nats, that the answer gives up compared with the answer without the entry
    ``changes``: tokens that differ from the answer without the entry

    Degrees and penalty are None for a local feature, which has none.
    """

    name: str
    degree_before: float | None
    degree: float | None
    penalty: float | None
    cost: float
    changes: tuple[LabelChange, ...]


class Explanation(Figures):
    """One document with and without its constraints; labels by name, scores in nats."""

    doc_id: str
    tokens: tuple[str, ...]
    gold: tuple[str, ...] | None
    unconstrained: tuple[str, ...]
    labels: tuple[str, ...]
    local: float
    penalty: float
    gap: float
    status: str
    effects: tuple[ConstraintEffect, ...]


class MinedRule(Figures):
    """A mined rule that was kept.

    ``n``: documents where it binds (of a clause: held-out ones)
    ``broken``: documents among these that break it
    ``chance``: fraction of these that would hold by chance
    ``p``: probability that so many hold by chance
    ``weight``, ``low``, ``high``: weight in nats per unit of degree, and its 95 % interval
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
    """A clause or rule that was kept but that no constraint can express, with the ``reason``."""

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
    """A rule that helps a model: its ``weight`` (nats a unit of degree) beyond what the model knows.

    It changes ``documents`` that neither counting nor model saw, and the judgement's figure by ``gain`` (a fraction)
    beside the other rules that help, which lies between ``low`` and ``high`` with 95 %.
    """

    name: str
    weight: float
    documents: int
    gain: float
    low: float
    high: float


class JudgementReport(Figures):
    """Which mined rules help models of a ``trainer`` on documents that neither these nor the counting saw.

    Weights are of a ``source``, after ``passes`` where they are learned, times ``scale``. ``before`` and ``after`` are
    the ``figure`` of a ``measure`` (a fraction) of ``folds``, which ``validation`` says how to cut, or of the later
    half of them, without rules and under the best set; the gain lies between ``low`` and ``high`` with 95 %, but the
    set was chosen by it. ``p``: how likely luck gives the best of all ``tried`` sets as much; above ``level`` no rule
    helps, and ``rules`` are none.
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
    """What `concord constraints mine` found in ``with_gold`` of so many documents, and wrote to ``out``.

    ``candidates`` rules bind anywhere, ``significant`` hold more often than chance lets them, and ``rules`` are those
    of them that are kept; the ``judgement`` says which of these help a model, where one was asked for. ``written`` of
    them are in the file. ``unsaid`` rules, which are kept, too, are not among the rules, and ``remarks`` say what was
    looked at, how far, and what is proven.
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
