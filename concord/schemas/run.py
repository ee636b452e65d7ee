"""A run over a corpus: its settings, its key, and the reports of its shards."""

from __future__ import annotations

import hashlib
import json
import math
from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from operator import add, attrgetter
from typing import Any, Final, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from concord.schemas.folders import FolderKind
from concord.schemas.settings import Settings, TextSettings
from concord.schemas.shown import Shown, lines_html, table_html

FORMAT: Final = 3
"""Version of the shard markers and the manifest; a change makes old output be done again."""

SHARD_BYTES = 256 << 10
"""Approximate size of a shard in bytes of text: 50,000 tokens.

A shard costs half a millisecond outside its worker (benchmarks/bench_growth.py), and some time within it. Larger shards
leave workers idle at the end where documents are uneven. Smaller ones share fewer known words, which slows down
Viterbi, the fastest engine.
"""

REGISTRY = "models:/"
"""Start of the name of a model in MLflow's registry."""

ALIAS = "champion"
"""Default alias of a model's version in that registry."""


ENGINE = "certify"
"""Default engine."""

OnInfeasible = Literal["reject", "relax", "viterbi"]
ConfidenceKind = Literal["none", "marginal", "margin"]


class RunSettings(Settings):
    """Settings by which every document of a run is decoded. All of them decide the output, so all are in the key."""

    engine: str = Field(
        ENGINE,
        description="Engine that decodes each document. certify proves its answers and is right nearly always; viterbi "
        "shows what the model says alone, without agreement and rules; `concord list engines` has the others.",
    )
    options: Mapping[str, Any] = Field(default_factory=dict, description="Settings of the engine.")
    seed: int = Field(0, ge=0, description="Seed of the random numbers; the same seed gives the same result.")
    work: int | None = Field(
        None,
        ge=1,
        description="Limit of deterministic work for a document (default: the engine's own); a higher one closes gaps.",
    )
    seconds: float | None = Field(
        None,
        gt=0,
        description="Limit of wall-clock time for a document, in seconds. The output then depends on the machine.",
    )
    on_infeasible: OnInfeasible = Field(
        "viterbi",
        description="Answer to a document in which every labelling breaks a hard constraint: none (the document is "
        "a reject), the best under relaxed constraints, or its Viterbi labels.",
    )
    relaxed_weight: float = Field(
        50.0, gt=0, allow_inf_nan=False, description="Price of a relaxed hard constraint, in nats a unit of degree."
    )
    text: TextSettings = Field(default_factory=TextSettings, description="How raw text is cut into tokens.")
    certificates: bool = Field(
        default=False,
        description="Write a certificate for each document (engine certify), for readers who do not take concord's "
        "word: `concord verify` checks it by code of its own.",
    )
    errors_of: str | None = Field(
        None,
        description="Second engine, examined on documents with gold labels: proofs of the first engine show which "
        "errors of the second are search errors, and which are errors of the model.",
    )
    confidence: ConfidenceKind = Field(
        "none",
        description="Confidence of each entity: its marginal probability under the local scores; with margin also "
        "by how many nats the best answer without it is worse.",
    )
    margin_work: int = Field(
        50_000_000, ge=1, description="Work limit of each margin; a margin that reaches it is a lower bound."
    )
    n_best: int = Field(
        0,
        ge=0,
        description="Number of best labellings of each document, for people or programs that choose among them.",
    )
    n_best_work: int = Field(
        100_000_000, ge=1, description="Work limit of the list; if it is reached, the end of the list is not proven."
    )
    certificate_nodes: int = Field(100, ge=1, description="Largest certificate, in branches.")
    settle: bool = Field(
        default=False,
        description="For a corpus that is labelled every night: prove that no other labelling comes near an answer, so "
        "that later runs with other constraints or another model keep it without a search. On long documents no "
        "slower than engine certify alone.",
    )


DEFAULT_RUN = RunSettings()


class RunKey(Settings):
    """Key of a run: everything that decides its output, without the documents."""

    settings: RunSettings
    model: str
    constraints: str
    code: str

    @property
    def digest(self) -> str:
        """Hex digest. Shards that were done under the same digest need not be done again."""
        state = json.dumps([FORMAT, self.model_dump(mode="json")], sort_keys=True)
        return hashlib.sha256(state.encode()).hexdigest()


class Figures(Shown, BaseModel):
    """Base of reports that are kept as JSON; infinite figures are written as strings and read back."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings")


class ConstraintFigures(Figures):
    """Degree and penalty (nats) of one constraint under the Viterbi labelling and under the engine's."""

    degree_before: float = 0.0
    degree: float = 0.0
    penalty_before: float = 0.0
    penalty: float = 0.0


class Strength(Figures):
    """Form and weights of a constraint: what of its penalty two runs can compare.

    - ``name``: of the constraint
    - ``form``: digest of the constraint without its weights
    - ``weights``: nats; where one of two constraints of the same form has no smaller weight, it never costs less
    """

    name: str
    form: str
    weights: tuple[float, ...]


class RuleStrengths(Figures):
    """The constraints of a run, as far as a later run compares them with its own.

    - ``strengths`` (K,): the constraints
    - ``local``: digest of what they add to local scores
    """

    strengths: tuple[Strength, ...] = ()
    local: str = ""


CountsByName = dict[str, dict[str, int]]
"""Name → kind → count, as `workers.evaluation.named_counts.NamedCounts.as_dict` gives them."""


class ShardReport(Figures):
    """Counts of one shard. Nothing in it depends on time, worker or order.

    - ``infeasible``: documents without an answer that keeps the hard constraints, including rejected ones.
    - ``infeasible_rejected``: the rejected ones among these; part of ``rejected``, not of ``documents``.
    - ``measures``, ``measures_before``: counts against gold by measure (`workers.evaluation.measures`), of the answers
      and of the Viterbi labelling; empty without gold.
    - ``changes``: entities that only one of these two has.
    - ``search_errors``, ``search_documents``: see `workers.evaluation.search_errors`; where an engine with proofs ran
      on gold.
    - ``relabelled``: tokens whose label differs from Viterbi's.
    - ``gap_sum``, ``gap_max``: nats; inf where a document has no bound.
    """

    documents: int = 0
    tokens: int = 0
    rejected: int = 0
    infeasible: int = 0
    infeasible_rejected: int = 0
    with_gold: int = 0
    gold_tokens: int = 0
    correct_tokens: int = 0
    measures: dict[str, CountsByName] = Field(default_factory=dict)
    measures_before: dict[str, CountsByName] = Field(default_factory=dict)
    changes: CountsByName = Field(default_factory=dict)
    search_errors: CountsByName = Field(default_factory=dict)
    search_documents: CountsByName = Field(default_factory=dict)
    relabelled: int = 0
    certified: int = 0
    gap_sum: float = 0.0
    gap_max: float = 0.0
    statuses: dict[str, int] = Field(default_factory=dict)
    constraints: dict[str, ConstraintFigures] = Field(default_factory=dict)

    @classmethod
    def merge(cls, reports: Iterable[ShardReport]) -> ShardReport:
        """The counts of all shards together; the order of the reports does not matter."""
        total = ReportSum()
        for report in reports:
            total.add(report)
        return total.report()


class ReportSum:
    """Sum of reports that come one after the other, in any order; none of them is kept."""

    def __init__(self) -> None:
        """Of none yet."""
        self._sums: dict[str, int] = dict.fromkeys(_SUMS, 0)
        self._counts: dict[str, CountsByName] = {name: {} for name in _COUNTS}
        self._measures: dict[str, dict[str, CountsByName]] = {"measures": {}, "measures_before": {}}
        self._statuses: dict[str, int] = {}
        # Of figures every one is kept, so that their order does not matter.
        self._gaps = array("d")
        self._gap_max = 0.0
        self._constraints: dict[str, tuple[array[float], ...]] = {}

    def add(self, report: ShardReport) -> None:
        """Adds the counts of a shard."""
        for name in _SUMS:
            self._sums[name] += getattr(report, name)
        for name, total in self._counts.items():
            _add_counts(total, getattr(report, name))
        for name, totals in self._measures.items():
            for measure, counts in getattr(report, name).items():
                _add_counts(totals.setdefault(measure, {}), counts)
        _add_row(self._statuses, report.statuses)
        self._gaps.append(report.gap_sum)
        self._gap_max = max(self._gap_max, report.gap_max)
        for name, figures in report.constraints.items():
            columns = self._constraints.get(name)
            if columns is None:
                columns = self._constraints[name] = tuple(array("d") for _ in _CONSTRAINT_FIELDS)
            for column, value in zip(columns, _CONSTRAINT_VALUES(figures), strict=True):
                column.append(value)

    def report(self) -> ShardReport:
        """The counts of all shards together."""
        constraints = {}
        for name in sorted(self._constraints):
            sums = map(math.fsum, self._constraints[name])
            constraints[name] = ConstraintFigures(**dict(zip(_CONSTRAINT_FIELDS, sums, strict=True)))
        return ShardReport(
            **self._sums,
            **{name: _sorted_counts(total) for name, total in self._counts.items()},
            **{
                name: {measure: _sorted_counts(totals[measure]) for measure in sorted(totals)}
                for name, totals in self._measures.items()
            },
            statuses=dict(sorted(self._statuses.items())),
            gap_sum=math.fsum(self._gaps),
            gap_max=self._gap_max,
            constraints=constraints,
        )


_SUMS = (
    "documents",
    "tokens",
    "rejected",
    "infeasible",
    "infeasible_rejected",
    "with_gold",
    "gold_tokens",
    "correct_tokens",
    "relabelled",
    "certified",
)
_CONSTRAINT_FIELDS = tuple(ConstraintFigures.model_fields)
_CONSTRAINT_VALUES = attrgetter(*_CONSTRAINT_FIELDS)
_COUNTS = ("changes", "search_errors", "search_documents")


def _add_counts(total: CountsByName, part: CountsByName) -> None:
    for name, row in part.items():
        _add_row(total.setdefault(name, {}), row)


def _add_row(total: dict[str, int], part: Mapping[str, int]) -> None:
    for kind, count in part.items():
        total[kind] = total.get(kind, 0) + count


def _sorted_counts(total: CountsByName) -> CountsByName:
    return {name: dict(sorted(total[name].items())) for name in sorted(total)}


@dataclass(frozen=True, slots=True)
class FileDigest:
    """A file of the output: its path inside the output folder, size in bytes and SHA-256."""

    path: str
    bytes: int
    sha256: str


class RowReject(Figures):
    """A reject of a shard; ``row`` counts from the shard's first row, and is None if it is not known."""

    row: int | None
    doc_id: str | None
    reason: str


class ShardMarker(Figures):
    """Marker of a finished shard, written last: its key, its files and its rejects."""

    key: str
    files: tuple[FileDigest, ...]
    rejects: tuple[RowReject, ...] = ()
    report: ShardReport


@dataclass(frozen=True, slots=True)
class ShardPlace:
    """A shard of a finished run: its key, and the place of its rows in the corpus."""

    key: str
    file: str
    first_row: int
    rows: int


class RunManifest(Figures):
    """Manifest of a finished run. Nothing in it depends on time, order or workers.

    - ``folder``: kind of the folder, see `workers.storage.folder_kinds`.
    - ``dataset``: digest of the corpus.
    - ``totals``: counts of all shards.
    - ``shards``: number of shards.
    - ``lists``: SHA-256 by name, of the tables that list the shards and their files, in the order of the corpus.
    - ``rules``: the constraints, which the next run compares with its own.
    """

    folder: Literal[FolderKind.RUN] = FolderKind.RUN
    format: Literal[3] = FORMAT
    dataset: str
    run: RunKey
    rules: RuleStrengths = RuleStrengths()
    totals: ShardReport
    shards: int
    lists: dict[str, str]


class Seconds(NamedTuple):
    """Time of a shard by step, in seconds of one worker."""

    read: float = 0.0
    score: float = 0.0
    decode: float = 0.0
    write: float = 0.0

    @property
    def total(self) -> float:
        """All parts together."""
        return math.fsum(self)

    def plus(self, other: Seconds) -> Seconds:
        """Both shards together, step by step."""
        return Seconds(*map(add, self, other))


class Reuse(Figures):
    """Documents of a run that were not decoded again, see `workers.labelling.kept`.

    - ``kept``: document, model and constraints are those of the last run
    - ``stood``: other constraints, under which a settled answer stands
    - ``confirmed``: another model or other constraints, under which the best answer was found from the last one, and
      proven, without a search
    """

    kept: int = 0
    stood: int = 0
    confirmed: int = 0

    @property
    def documents(self) -> int:
        """All of them."""
        return self.kept + self.stood + self.confirmed

    @property
    def line(self) -> str:
        """In a line."""
        parts = [f"{self.kept:,} unchanged"]
        parts += [f"{self.stood:,} still optimal under the new constraints"] if self.stood else []
        parts += [f"{self.confirmed:,} proven again from the old answer"] if self.confirmed else []
        return f"reused from the last run: {self.documents:,} documents ({', '.join(parts)})"

    def __add__(self, other: Reuse) -> Reuse:
        return Reuse(**{name: getattr(self, name) + getattr(other, name) for name in Reuse.model_fields})


class RunPlan(Figures):
    """What ``concord reprocess --dry-run`` prints: documents by what a run would do with them.

    - ``documents``: rows of the corpus
    - ``skipped``: rows of shards that are done
    - ``repeated``: of the others, rows with the document id of an earlier one, which become rejects
    - ``kept``: with the answer of the last run, as it was
    - ``checked``: with a settled answer of the last run, kept if it stands under the new constraints
    - ``guessed``: scored, with the labels of the last run to start from; most need no search
    - ``decoded``: new, changed, or without an answer that can be taken; whether they can be read, the run finds out
    - ``cpu_seconds``: estimate for these, from those that the last run decoded; null without one
    - ``shards``: shards to do
    - ``sampled``: were only some of these read, so that ``kept`` to ``cpu_seconds`` are estimates?
    """

    documents: int
    skipped: int
    repeated: int = 0
    kept: int
    checked: int
    guessed: int
    decoded: int
    cpu_seconds: float | None
    shards: int
    sampled: bool


class ShardResult(NamedTuple):
    """Result that a worker returns: the marker that it wrote, and what is not in the marker, times and reuse."""

    marker: ShardMarker
    seconds: Seconds
    reuse: Reuse = Reuse()


TELLING_SECONDS = 10.0
"""Least total time of workers, in seconds, for which their speed is reported; below it, loading dominates."""


class Movement(Figures):
    """A figure of documents tonight against the last night, see `flows.nights.drift`.

    - ``figure``: its name, such as ``unknown words``
    - ``of``: ``texts`` (new documents against the others) or ``answers`` (other answers to the same documents)
    - ``before``, ``after``: what it was, and is
    - ``p_value``: how often chance alone would move some figure of the night as far; adjusted for all figures
    - ``breach``: is it beyond the threshold?
    """

    figure: str
    of: Literal["texts", "answers"]
    before: float
    after: float
    p_value: float
    breach: bool

    @property
    def line(self) -> str:
        """In a few words."""
        return f"{self.figure} ({self.of}) {self.before:.4g} → {self.after:.4g}"


class ChangedDocument(Figures):
    """A document with another answer than last night; ``spans`` that only one of the two answers has."""

    doc_id: str
    spans: int


MOST_MISSING = 0.1
"""Largest share of the last night's documents that may be missing from the corpus of a run that is published without
being told that they may."""


class Drift(Figures):
    """What is different from the last night of an output folder, in documents.

    - ``against``: number of that night
    - ``last``: documents of that night
    - ``new``, ``gone``: documents, by id and text, that only one of the two nights has
    - ``missing``: the ones among ``gone`` whose ids are not in the corpus any more, under any text
    - ``changed``: documents that both have, with another answer
    - ``movements``: the figures that were compared, the least likely one first
    - ``most_changed``: the ones among these documents with the most changes
    - ``sampled``: were documents drawn, and the counts estimated from them?
    """

    against: int
    last: int = 0
    new: int
    gone: int
    missing: int = 0
    changed: int
    sampled: bool = False
    movements: tuple[Movement, ...] = ()
    most_changed: tuple[ChangedDocument, ...] = ()

    @property
    def breaches(self) -> tuple[Movement, ...]:
        """Movements beyond their threshold."""
        return tuple(movement for movement in self.movements if movement.breach)

    @property
    def loses(self) -> bool:
        """Is more missing than `MOST_MISSING`?"""
        return self.missing > MOST_MISSING * self.last

    @property
    def told_missing(self) -> str:
        """What is missing, in a few words."""
        about = "about " if self.sampled else ""
        return f"{about}{self.missing:,} of the last {self.last:,} documents are gone"


class RunReport(Figures):
    """Report of ``concord reprocess --json``.

    - ``labelled``: number of documents that were labelled now; the others were done before.
    - ``reuse``: number of these that took the answer of the last run.
    - ``infeasible``: number of documents without an answer that keeps the hard constraints, including rejected ones.
    - ``shards_done``, ``shards_skipped``, ``shards_failed``: number of shards done now, done before, and failed.
    - ``seconds``: wall-clock time from start to end.
    - ``tokens_per_second``: tokens of the shards done now, per second from the start of the workers to their end; 0 if
      all shards were skipped.
    - ``worker_seconds``: time that workers spent on shards, summed over workers.
    - ``worker_speed``: tokens per second of that time.
    - ``certified``: share of documents whose gap is closed.
    - ``by_solver``: share of documents whose gap is closed by CP-SAT's word alone; a part of ``certified``.
    - ``max_gap``: largest gap of a document, in nats; null if a document has no bound.
    - ``violations_before``, ``violations``: total degree under the Viterbi labels, and under the answers.
    - ``penalty_before``, ``penalty``: total penalty under these, in nats.
    - ``search_errors``, ``search_documents``: errors of the examined engine by kind, see
      `workers.evaluation.search_errors`; empty without gold or proofs.
    - ``mlflow_page``: address of the run's page, if MLflow is a server.
    - ``drift``: differences to the last night; null if there was none, or if shards failed.
    - ``withheld``: was nothing published because of what `Drift.missing` counts?
    - ``cancelled``: did a signal end the run before its end? Nothing is published then.
    """

    documents: int
    labelled: int
    reuse: Reuse = Reuse()
    tokens: int
    rejected: int
    infeasible: int
    shards_done: int
    shards_skipped: int
    shards_failed: int
    seconds: float
    tokens_per_second: float
    worker_seconds: float
    worker_speed: float
    certified: float
    by_solver: float
    max_gap: float | None
    violations_before: float
    violations: float
    penalty_before: float
    penalty: float
    search_errors: dict[str, int]
    search_documents: dict[str, int]
    out: str
    mlflow_run: str
    mlflow_page: str | None = None
    drift: Drift | None = None
    withheld: bool = False
    cancelled: bool = False
    errors: tuple[str, ...] = ()

    @property
    def skipped(self) -> int:
        """Documents that were labelled before."""
        return self.documents - self.labelled

    @property
    def headline(self) -> str:
        """What the run came to, in a line."""
        if self.cancelled:
            return f"cancelled: {self.labelled:,} documents labelled, nothing published; the same again does the rest"
        if self.shards_failed:
            every = self.shards_done + self.shards_skipped + self.shards_failed
            failed = f"{self.shards_failed:,} of {every:,} shards failed"
            return f"{failed}; {self.labelled:,} documents labelled, nothing published"
        missing = [self.drift.told_missing] if self.drift is not None and self.drift.missing else []
        if self.withheld:
            return f"nothing published: {missing[0]}"
        if not self.shards_done:
            return "; ".join([*missing, f"nothing new: 0 of {self.documents:,} documents"])
        parts = [*missing, f"labelled {self.labelled:,} of {self.documents:,} documents"]
        if self.drift is not None:
            parts.append(f"{self.drift.new:,} new, {self.drift.changed:,} with another answer")
        parts.append(f"{self.certified:.1%} certified")
        if self.rejected:
            parts.append(f"{self.rejected:,} rejected")
        if self.drift is not None and self.drift.breaches:
            parts.append(f"DRIFT: {', '.join(movement.line for movement in self.drift.breaches)}")
        return "; ".join(parts)

    @property
    def counts(self) -> list[tuple[str, str, str]]:
        """Rows of a table: what is counted, its meaning, and the number."""
        change = "by the model alone → now"
        return [
            *_against(self.drift, self.documents),
            ("done", "labelled now", f"{self.labelled:,}"),
            ("taken", "of these, answers of the last run", f"{self.reuse.documents:,}"),
            ("skipped", "labelled before, nothing has changed", f"{self.skipped:,}"),
            ("rejected", "cannot be read or labelled; see _rejects", f"{self.rejected:,}"),
            ("failed", "shards; tried again by the next run", f"{self.shards_failed:,}"),
            ("certified", "nothing scores higher, by proof", f"{self.certified:.2%}"),
            ("infeasible", "no answer keeps the hard constraints", f"{self.infeasible:,}"),
            ("violations", change, f"{self.violations_before:,.0f} → {self.violations:,.0f}"),
            ("penalty in nats", change, f"{self.penalty_before:,.1f} → {self.penalty:,.1f}"),
        ]

    def _repr_html_(self) -> str:
        spent = ("seconds", "of workers, on labelling", f"{self.worker_seconds:,.1f}")
        rows = table_html(("what", "", "documents"), [*self.counts, spent])
        return f"{lines_html([self.headline])}{rows}{lines_html([f'output in {self.out}', *self.errors])}"

    @property
    def pace(self) -> str:
        """Sentence about the time of the workers, without their start, and about their speed if the run was long
        enough."""
        line = f"workers labelled for {self.worker_seconds:.1f} s"
        if self.worker_seconds < TELLING_SECONDS:
            return line
        return f"{line}, {self.worker_speed:,.0f} tokens a second each"


def _against(drift: Drift | None, documents: int) -> list[tuple[str, str, str]]:
    if drift is None:
        return [("documents", "in all; no other night to compare with", f"{documents:,}")]
    return [
        ("new", "in id or text, since the last night", f"{drift.new:,}"),
        ("gone", "since the last night", f"{drift.gone:,}"),
        ("changed", "have another answer than the last night", f"{drift.changed:,}"),
    ]


class SelectionRow(Figures):
    """A trial of ``concord train --tune``; figures are fractions.

    - ``chosen``: the settings.
    - ``f1``: entity F1 in cross-validation.
    - ``gain``: F1 minus that of the first trial.
    - ``low``, ``high``: 95 % interval of the gain.
    """

    chosen: dict[str, str | float]
    f1: float
    gain: float
    low: float
    high: float


class SampleRow(Figures):
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


class ConsistencyReport(Figures):
    """Label consistency that was tuned on documents.

    - ``exact_scale``, ``subsequence_scale``, ``unlabelled_scale``: factors of the learned costs; 0 leaves a family out.
    - ``f1_without``, ``f1``: entity F1 on those documents without label consistency and with it, as fractions.
    """

    exact_scale: float
    subsequence_scale: float
    unlabelled_scale: float
    f1_without: float
    f1: float


class LayersReport(Figures):
    """Ways to use layers (taggers' answers), judged on documents that nothing was learned from; figures are fractions.

    - ``documents``: number of documents judged.
    - ``held_out_f1``: entity F1 of each way.
    - ``best``: the way that was taken; ``unlearned``: the best one that learns nothing.
    - ``learned``: does the best way learn?
    - ``gain``, ``low``, ``high``: F1 of the best way minus that of ``unlearned``, and its 95 % interval.
    """

    documents: int
    held_out_f1: dict[str, float]
    best: str
    unlearned: str
    learned: bool
    gain: float
    low: float
    high: float


class TaggerFigures(Figures):
    """What is known of a tagger without gold labels, by a model of what it and others say; nothing of it is measured.

    - ``weight``: 1, or less where it says nearly the same as another.
    - ``alarms``: probability of a false alarm at a token outside all entities.
    - ``types``: probabilities of ``hit``, ``wrong``, ``missed`` and ``shifted`` at a token of each type.
    """

    weight: float
    alarms: float
    types: dict[str, dict[str, float]]


class TaggersReport(Figures):
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


class TrainReport(Figures):
    """Report of ``concord train --json``.

    - ``labels``: number of labels.
    - ``figures``: figures of the trainer, such as its iterations and its last loss in nats.
    - ``selection``: trials of cross-validation.
    - ``samples``: samples of wrapped progressive sampling.
    - ``consistency``: label consistency, tuned on the held-out part; null if it was not.
    - ``layers``: ways to use layers of the corpus; null if no layer was asked for.
    - ``taggers``: what is known of taggers; null for a trainer that reads gold labels.
    - ``registered``: name and version in MLflow's registry; null if the model was not registered.
    """

    trainer: str
    documents: int
    tokens: int
    rejected: int
    labels: int
    figures: dict[str, float]
    selection: tuple[SelectionRow, ...]
    samples: tuple[SampleRow, ...] = ()
    consistency: ConsistencyReport | None
    layers: LayersReport | None = None
    taggers: TaggersReport | None = None
    seconds: float
    out: str
    model_digest: str
    mlflow_run: str
    mlflow_page: str | None = None
    registered: str | None
