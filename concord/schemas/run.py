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

from pydantic import Field

from concord.schemas.folders import FolderKind
from concord.schemas.settings import Settings, TextSettings
from concord.schemas.shown import Report

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

ADOPTED = "adopted"
"""In the place of an engine, in runs whose answers another program gave (`concord adopt`)."""

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

    @property
    def adds(self) -> bool:
        """Does a run do more with an answer than write it?"""
        return self.certificates or self.confidence != "none" or self.n_best > 0 or self.errors_of is not None


DEFAULT_RUN = RunSettings()

ADDITIONS = ("certificates", "certificate_nodes", "errors_of", "confidence", "margin_work", "n_best", "n_best_work")
"""Settings of what is added to an answer that stands, whatever it is: no label depends on them."""


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

    @property
    def of_answers(self) -> RunKey:
        """The key with the defaults of all `ADDITIONS`: equal ones have equal labels."""
        defaults = {name: getattr(DEFAULT_RUN, name) for name in ADDITIONS}
        return self.model_copy(update={"settings": self.settings.model_copy(update=defaults)})


class ConstraintFigures(Report):
    """Degree and penalty (nats) of one constraint under the Viterbi labelling and under the engine's."""

    degree_before: float = 0.0
    degree: float = 0.0
    penalty_before: float = 0.0
    penalty: float = 0.0


class Strength(Report):
    """Form and weights of a constraint: what of its penalty two runs can compare.

    - ``name``: of the constraint
    - ``form``: digest of the constraint without its weights
    - ``weights``: nats; where one of two constraints of the same form has no smaller weight, it never costs less
    """

    name: str
    form: str
    weights: tuple[float, ...]


class RuleStrengths(Report):
    """The constraints of a run, as far as a later run compares them with its own.

    - ``strengths`` (K,): the constraints
    - ``local``: digest of what they add to local scores
    """

    strengths: tuple[Strength, ...] = ()
    local: str = ""


CountsByName = dict[str, dict[str, int]]
"""Name → kind → count, as `workers.evaluation.named_counts.NamedCounts.as_dict` gives them."""


class ShardReport(Report):
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


class RowReject(Report):
    """A reject of a shard; ``row`` counts from the shard's first row, and is None if it is not known."""

    row: int | None
    doc_id: str | None
    reason: str


class ShardMarker(Report):
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


class RunManifest(Report):
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


class Reuse(Report):
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


class ShardResult(NamedTuple):
    """Result that a worker returns: the marker that it wrote, and what is not in the marker, times and reuse."""

    marker: ShardMarker
    seconds: Seconds
    reuse: Reuse = Reuse()
