"""Reports that commands print with ``--json``. Shares and scores are fractions from 0 to 1, not per cent."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict

from concord.schemas.run import ConsistencyReport, Figures
from concord.schemas.shown import Shown


class Report(Shown, BaseModel):
    """Base of all reports: frozen, and an unknown key is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class NameFigures(Report):
    """Figures of one label, field or type; ``gold``, ``predicted`` and ``correct`` are counts."""

    precision: float
    recall: float
    f1: float
    gold: int
    predicted: int
    correct: int


class MeasureReport(Report):
    """Figures of one measure of `workers.evaluation.measures`.

    ``figures``: over all names; those with ``macro_`` are means over the names that gold has
    ``viterbi``: the same for the labelling of the model alone
    ``names``: figures of each name
    """

    figures: dict[str, float]
    viterbi: dict[str, float]
    names: dict[str, NameFigures]


class Difference(Report):
    """Difference of a figure to another run's.

    ``other``: the other run's figure
    ``difference``: this run's figure minus that
    ``low``, ``high``: 95 % interval of the difference
    ``p_value``: two-sided
    """

    other: float
    difference: float
    low: float
    high: float
    p_value: float


class AgainstReport(Report):
    """A comparison with another run by the paired bootstrap over documents: by measure, then by figure.

    ``only_here`` and ``only_there`` are gold documents that one of the runs does not have; they are left out.
    """

    run: str
    only_here: tuple[str, ...]
    only_there: tuple[str, ...]
    measures: dict[str, dict[str, Difference]]


class EvaluationReport(Report):
    """The object that ``concord evaluate --json`` prints.

    ``certified`` is the share of documents whose gap is closed, ``by_solver`` the part of it that rests on a
    solver's word alone. ``max_gap`` is the largest gap of any
    document in nats, null where some document has no bound. ``against`` is null where no other run was given.
    """

    documents: int
    tokens: int
    certified: float
    by_solver: float
    max_gap: float | None
    token_accuracy: float
    measures: dict[str, MeasureReport]
    against: AgainstReport | None = None


class ClusterReport(Report):
    """What ``concord clusters`` made: ``examples`` has some words of one cluster of each clustering.

    ``tokens`` were counted, 0 where the words came with vectors.
    """

    tokens: int
    words: int
    clusterings: tuple[str, ...]
    examples: list[list[str]]
    out: str


class AgreementReport(Report):
    """What ``concord corpus agreement`` counted: words of documents, and how many of them are in a span somewhere."""

    documents: int
    rejected: int
    tokens: int
    words: int
    words_in_spans: int
    model_digest: str
    out: str


class ScoresReport(Report):
    """What ``concord import scores --json`` prints: what is read of a corpus, and what it becomes.

    ``source`` are the column's labels and ``labels`` the model's; ``joined`` are those of the first that BIO writes
    in another way; ``types`` counts types of spans.
    """

    column: str
    form: str
    temperature: float
    source: tuple[str, ...]
    labels: tuple[str, ...]
    joined: tuple[str, ...]
    types: int
    out: str
    model_digest: str


class CrfsuiteReport(Report):
    """What ``concord import crfsuite --json`` prints; ``release`` is of the package that the feature function is from.

    ``departure`` says why there are no ``word_tables``; ``trust`` is what the environment has to name.
    """

    labels: tuple[str, ...]
    attributes: int
    features: str
    tokenizer: str | None
    package: str
    release: str
    word_tables: bool
    departure: str
    trust: str
    out: str
    model_digest: str


class CalibrationReport(Report):
    """What ``concord calibrate --json`` prints; null is what was not learned.

    ``loss_before`` and ``loss`` are −log p(gold) a token in nats: they and ``consistency`` are of the documents that
    were learned from. ``sentences_left_out`` have gold labels that the scores forbid.
    """

    documents: int
    tokens: int
    rejected: int
    sentences_left_out: int
    temperature: float | None
    loss_before: float | None
    loss: float | None
    consistency: ConsistencyReport | None
    out: str
    model_digest: str


class LengthFigures(Report):
    """Lengths in tokens; ``p25`` is the shortest that a quarter of all does not exceed, and so on."""

    mean: float
    shortest: int
    p25: int
    median: int
    p75: int
    p95: int
    p99: int
    longest: int


class SpanFigures(Report):
    """Spans of one type, and the tokens in them."""

    spans: int
    tokens: int


class CorpusReport(Report):
    """What ``concord corpus stats --json`` prints. Nothing in it depends on the number of workers.

    ``rejected`` rows could not be read, ``repeated`` of them have the id of an earlier row. ``unknown`` is the share
    of tokens that a model does not know as words, null without one. ``scheme`` is that of all gold labels together,
    null without any; ``labels`` has the tokens of each, ``spans`` what they encode by type. ``errors`` say which
    parts of the corpus are not counted, and why.
    """

    corpus: str
    documents: int
    with_gold: int
    rejected: int
    repeated: int
    sentences: int
    tokens: int
    unknown_tokens: int | None
    unknown: float | None
    scheme: str | None
    labels: dict[str, int]
    spans: dict[str, SpanFigures]
    document_tokens: LengthFigures
    sentence_tokens: LengthFigures
    errors: tuple[str, ...] = ()


class OptionReport(Report):
    """An option of an engine, trainer or reader, or a key of a constraint template.

    ``values`` is the JSON schema of what it takes; ``default`` is null where it is ``needed``.
    """

    name: str
    needed: bool
    default: Any
    values: dict[str, Any]
    meaning: str


class EntryReport(Report):
    """What ``--json`` prints of one entry of ``concord list``."""

    name: str
    summary: str
    options: tuple[OptionReport, ...]


class EngineReport(EntryReport):
    """What ``concord list engines --json`` prints of one; ``exact``: it proves its answers where it ends."""

    exact: bool


class DocumentChains(Figures):
    """How several Gibbs chains did on one document; objectives in nats.

    ``split_rhat``, ``effective_samples``, ``flips`` (a sweep) and ``best`` as in
    `workers.inference.sampling.diagnostics.Diagnostic`; ``viterbi`` is the objective of the Viterbi labelling.
    ``objective`` has a row a chain: what it was at after each sweep.
    """

    doc_id: str
    tokens: int
    split_rhat: float
    effective_samples: float
    flips: float
    best: float
    viterbi: float
    mixed: bool
    objective: tuple[tuple[float, ...], ...]


class ChainsReport(Figures):
    """What ``concord chains --json`` prints: ``chains`` chains of ``sweeps`` sweeps a document.

    ``mixed`` counts the documents whose split R̂ is below ``rhat_limit``.
    """

    chains: int
    sweeps: int
    rhat_limit: float
    mixed: int
    documents: tuple[DocumentChains, ...]


class VerifyFault(Report):
    """The first wrong ``field`` of a document in a run's folder, or of a file, where ``doc_id`` is null."""

    file: str
    doc_id: str | None
    field: str
    reason: str

    def __str__(self) -> str:
        place = self.file if self.doc_id is None else f"{self.file}, document {self.doc_id!r}"
        return f"{place}: {self.field}: {self.reason}"


class VerifyReport(Report):
    """Report of ``concord verify --json``: numbers of documents by what could be verified of them.

    Every document of the corpus is either counted in one of ``optimal`` to ``rejected``, or named in ``failed``.

    ``tolerance``: nats
    ``optimal``: proven optimal, by a certificate or the local optimum
    ``bounded``: with a proven bound that leaves a gap
    ``by_engine``: optimal, or without any possible labelling, by the engine's word
    ``by_solver``: optimal by CP-SAT's word
    ``open``: neither optimal nor with a proven bound
    ``rejected``: rejects, each with a reason that was confirmed
    ``lethal``: rejects among these that are said to have killed their workers, which cannot be recomputed
    ``failed``: faults
    ``trusted``: what the verification rests on
    ``cpu_seconds``: CPU seconds of reading, rebuilding and checking
    """

    tolerance: float
    documents: int
    optimal: int
    bounded: int
    by_engine: int
    by_solver: int
    open: int
    rejected: int
    lethal: int
    failed: tuple[VerifyFault, ...]
    trusted: tuple[str, ...]
    cpu_seconds: float
    out: str
