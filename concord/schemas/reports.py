"""Reports that commands print with ``--json``. Shares and figures are fractions from 0 to 1, not per cent."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict

from concord.schemas.run import ConsistencyReport, Figures
from concord.schemas.shown import Shown, lines_html, table_html


class Report(Shown, BaseModel):
    """Base of all reports: frozen, and an unknown key is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class NameFigures(Report):
    """Figures of one label, field or type.

    - ``gold``, ``predicted``, ``correct``: numbers of items.
    """

    precision: float
    recall: float
    f1: float
    gold: int
    predicted: int
    correct: int


class MeasureReport(Report):
    """Figures of one measure of `workers.evaluation.measures`.

    - ``figures``: over all names; those with ``macro_`` are means over the names that gold has.
    - ``intervals``: of each of these the ends of its 95 % interval, by the bootstrap over documents.
    - ``viterbi``: the same for the labelling of the model alone.
    - ``names``: figures of each name.
    """

    figures: dict[str, float]
    intervals: dict[str, tuple[float, float]] = {}
    viterbi: dict[str, float]
    names: dict[str, NameFigures]

    def interval(self, figure: str) -> str:
        """The interval of a figure in per cent, for people; empty without one."""
        ends = self.intervals.get(figure)
        return "" if ends is None else f"{100 * ends[0]:.2f} to {100 * ends[1]:.2f}"


class Difference(Report):
    """Difference of a figure to another run's.

    - ``other``: the other run's figure.
    - ``difference``: this run's figure minus that.
    - ``low``, ``high``: 95 % interval of the difference.
    - ``p_value``: two-sided.
    """

    other: float
    difference: float
    low: float
    high: float
    p_value: float


class AgainstReport(Report):
    """A comparison with another run, by the paired bootstrap over documents.

    - ``run``: the other run.
    - ``only_here``, ``only_there``: gold documents that only this or only the other run has; they are left out.
    - ``measures``: differences by measure and figure.
    """

    run: str
    only_here: tuple[str, ...]
    only_there: tuple[str, ...]
    measures: dict[str, dict[str, Difference]]


class EvaluationReport(Report):
    """Report of ``concord evaluate --json``.

    - ``certified``: share of documents whose gap is closed.
    - ``by_solver``: share of documents whose gap is closed by CP-SAT's word alone; a part of ``certified``.
    - ``max_gap``: largest gap of a document, in nats; null if a document has no bound.
    - ``measures``: figures of each measure.
    - ``against``: comparison with another run; null if none was given.
    """

    documents: int
    tokens: int
    certified: float
    by_solver: float
    max_gap: float | None
    token_accuracy: float
    measures: dict[str, MeasureReport]
    against: AgainstReport | None = None

    def _repr_html_(self) -> str:
        heads = ["figure, %", "run", "95 % interval", "model alone"]
        heads += ["other run", "difference", "its 95 % interval", "p"] if self.against else []
        rows = [
            [
                f"{measure} {figure}",
                f"{100 * value:.2f}",
                found.interval(figure),
                f"{100 * found.viterbi[figure]:.2f}",
                *self._difference(measure, figure),
            ]
            for measure, found in self.measures.items()
            for figure, value in found.figures.items()
        ]
        line = f"{self.documents:,} documents, {self.tokens:,} tokens; {self.certified:.1%} certified"
        return f"{table_html(heads, rows)}{lines_html([line])}"

    def _difference(self, measure: str, figure: str) -> list[str]:
        """Cells of the comparison with the other run; none without one."""
        if self.against is None:
            return []
        one = self.against.measures.get(measure, {}).get(figure)
        if one is None:
            return [""] * 4
        interval = f"{100 * one.low:+.2f} to {100 * one.high:+.2f}"
        return [f"{100 * one.other:.2f}", f"{100 * one.difference:+.2f}", interval, f"{one.p_value:.3f}"]


class ClusterReport(Report):
    """Report of ``concord clusters``.

    - ``tokens``: number of tokens that were counted; 0 for words that came with vectors.
    - ``words``: number of words with a cluster.
    - ``clusterings``: names of the clusterings.
    - ``examples``: some words of one cluster of each clustering.
    """

    tokens: int
    words: int
    clusterings: tuple[str, ...]
    examples: list[list[str]]
    out: str


class AgreementReport(Report):
    """Report of ``concord corpus agreement``.

    - ``words``: number of distinct words.
    - ``words_in_spans``: number of these that the model has in a span somewhere.
    """

    documents: int
    rejected: int
    tokens: int
    words: int
    words_in_spans: int
    model_digest: str
    out: str


class ScoresReport(Report):
    """Report of ``concord import scores --json``: the column that the model reads, and its labels.

    - ``column``, ``form``: name of the column, and the form of its scores.
    - ``source``: labels of the column.
    - ``labels``: labels of the model.
    - ``joined``: labels of the column that BIO writes in another way.
    - ``padding``: labels of the column that no token can have.
    - ``outside``: has the column a label ``O``?
    - ``scheme``: ``bio``, or ``plain`` for labels that are types by themselves.
    - ``types``: number of types of spans.
    """

    column: str
    form: str
    temperature: float
    source: tuple[str, ...]
    labels: tuple[str, ...]
    joined: tuple[str, ...]
    padding: tuple[str, ...]
    outside: bool
    scheme: str
    types: int
    out: str
    model_digest: str


class EntitiesReport(Report):
    """Report of ``concord import entities --json``: a tagger's answers as a layer of a corpus.

    - ``layer``, ``form``: name of the layer, and reader of its source.
    - ``documents``, ``answered``: documents of the corpus, and those with an answer.
    - ``spans``, ``labels``: number of spans, and of those of each label of the tagger.
    - ``unplaced``: number of spans that the labels of tokens do not show, by reason.
    - ``unused``: number of answers or documents that did not find each other, by reason.
    - ``unread``, ``unread_reason``: records of the source that could not be read, and what the first one has.
    - ``names``: names of the layer for labels of the tagger.
    - ``layers``: all layers that the new corpus has.
    - ``notices``: what else is to be known of the source.
    """

    layer: str
    form: str
    documents: int
    answered: int
    spans: int
    labels: dict[str, int]
    unplaced: dict[str, int]
    unused: dict[str, int]
    unread: int
    unread_reason: str | None
    names: dict[str, str]
    layers: tuple[str, ...]
    notices: tuple[str, ...]
    out: str


class WeakFamily(Report):
    """Attributes of one name of which a model knows less than half of the values that its function made.

    - ``values``, ``known``: number of different values, and of those that the model knows.
    """

    name: str
    values: int
    known: int


class CrfsuiteReport(Report):
    """Report of ``concord import crfsuite --json``.

    - ``features``, ``tokenizer``: functions, as MODULE:FUNCTION.
    - ``columns``: columns that the feature function reads beside the words.
    - ``trial_sentences``, ``failed_sentences``: sentences on which it was tried, and those that it could not take.
    - ``fault``: reason of the first failure.
    - ``attributes_known``: share of the attributes that it made of them which the model knows, a fraction.
    - ``few_known``: is that so little that something must be wrong?
    - ``weak_families``: attributes by name of which the model knows less than half.
    - ``changed_word``: a word of a trial text that the tokenizer changes, and what it becomes.
    - ``marks_ends``: are the model's labels of BIOES or BILOU?
    - ``padding``: labels of the model that no token can have.
    - ``package``, ``release``: package of the feature function, and its version.
    - ``word_tables``: is the model scored from tables of words?
    - ``departure``: why it is not.
    - ``trust``: value that the environment needs before the model's code may run.
    """

    labels: tuple[str, ...]
    attributes: int
    features: str
    tokenizer: str | None
    columns: tuple[str, ...]
    trial_sentences: int
    failed_sentences: int
    fault: str
    attributes_known: float
    few_known: bool
    weak_families: tuple[WeakFamily, ...]
    changed_word: tuple[str, str] | None
    marks_ends: bool
    padding: tuple[str, ...]
    package: str
    release: str
    word_tables: bool
    departure: str
    trust: str
    out: str
    model_digest: str


class OnnxReport(Report):
    """Report of ``concord import onnx --json``.

    - ``labels``: labels of the model.
    - ``joined``: labels of the network that BIO writes in another way.
    - ``padding``: labels of the network that no token can have.
    - ``outside``: has the network a label ``O``?
    - ``scheme``: ``bio``, or ``plain`` for labels that are types by themselves.
    - ``types``: number of types of spans.
    - ``pooling``: scores of a word: those of its first sub-word, or the mean of all.
    - ``pooling_f1``: entity F1 by pooling, a fraction, on the labelled documents; empty without them.
    - ``room``, ``overlap``: sub-words that are read at once, and those that two windows have in common.
    """

    labels: tuple[str, ...]
    joined: tuple[str, ...]
    padding: tuple[str, ...]
    outside: bool
    scheme: str
    types: int
    pooling: str
    pooling_f1: dict[str, float]
    room: int
    overlap: int
    out: str
    model_digest: str


class CalibrationReport(Report):
    """Report of ``concord calibrate --json``; a figure is null if it was not learned.

    - ``fit``: what was learned of another tagger's scores: ``both``, ``temperature``, ``transitions`` or ``neither``.
    - ``tagger_f1``: entity F1 of the tagger's own labels, a fraction.
    - ``held_out_f1``: entity F1 on documents that were not learned from, by what is learned; ``neither``: as imported.
    - ``consistency_f1``: entity F1 with label consistency, on documents that nothing was learned from.
    - ``sentences_left_out``: number of sentences whose gold labels the scores forbid.
    - ``loss_before``, ``loss``: −log p(gold) in nats per token, on the documents that were learned from.
    - ``consistency``: label consistency, tuned on the same documents.
    """

    documents: int
    tokens: int
    rejected: int
    fit: str | None
    tagger_f1: float | None
    held_out_f1: dict[str, float]
    consistency_f1: float | None
    sentences_left_out: int
    temperature: float | None
    loss_before: float | None
    loss: float | None
    consistency: ConsistencyReport | None
    out: str
    model_digest: str


class LengthFigures(Report):
    """Lengths in tokens; a quarter of all is at most ``p25`` long, and so on."""

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


class ExportReport(Report):
    """Predictions that were written in the form of another program.

    - ``spans``: number of spans of the answers, ``changed`` of them added or retyped by constraints.
    - ``removed``: number of spans that only the model alone has.
    """

    form: str
    documents: int
    spans: int
    changed: int
    removed: int
    out: str


class CorpusReport(Report):
    """Report of ``concord corpus stats --json``. Nothing in it depends on the number of workers.

    - ``rejected``: number of rows that could not be read.
    - ``repeated``: number of these that have the id of an earlier row.
    - ``unknown_tokens``, ``unknown``: number and share of tokens whose word a model does not know; null without one.
    - ``scheme``: label scheme of all gold labels; null without gold.
    - ``labels``: number of tokens by label.
    - ``spans``: number of spans and of their tokens, by type.
    - ``document_tokens``, ``sentence_tokens``: lengths of documents and of sentences.
    - ``errors``: parts of the corpus that are not counted, and why.
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

    - ``needed``: must it be given?
    - ``default``: its default; null if it is needed.
    - ``values``: JSON schema of its values.
    - ``meaning``: its help text.
    """

    name: str
    needed: bool
    default: Any
    values: dict[str, Any]
    meaning: str


class EntryReport(Report):
    """One entry of ``concord list --json``."""

    name: str
    summary: str
    options: tuple[OptionReport, ...]


class EngineReport(EntryReport):
    """One engine of ``concord list engines --json``; ``exact``: without a limit, it proves its answer optimal."""

    exact: bool


class DocumentChains(Figures):
    """Several Gibbs chains on one document; objectives in nats.

    - ``split_rhat``, ``effective_samples``, ``flips`` (per sweep), ``best``: see
      `workers.inference.sampling.diagnostics.Diagnostic`.
    - ``viterbi``: objective of the Viterbi labelling.
    - ``mixed``: is split R̂ below the limit?
    - ``objective``: objective of each chain after each of its sweeps.
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
    """Report of ``concord chains --json``.

    - ``chains``: number of chains for each document.
    - ``sweeps``: number of sweeps of each chain.
    - ``rhat_limit``: limit of split R̂.
    - ``mixed``: number of documents whose split R̂ is below it.
    """

    chains: int
    sweeps: int
    rhat_limit: float
    mixed: int
    documents: tuple[DocumentChains, ...]


class VerifyFault(Report):
    """The first wrong field of a document in a run's folder; of a whole file if ``doc_id`` is null."""

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

    - ``tolerance``: nats.
    - ``optimal``: proven optimal, by a certificate or the local optimum.
    - ``bounded``: with a proven bound that leaves a gap.
    - ``by_engine``: optimal, or without any possible labelling, by the engine's word.
    - ``by_solver``: optimal by CP-SAT's word.
    - ``open``: neither optimal nor with a proven bound.
    - ``rejected``: rejects, each with a reason that was confirmed.
    - ``lethal``: rejects among these that are said to have killed their workers, which cannot be recomputed.
    - ``failed``: faults.
    - ``trusted``: what the verification rests on.
    - ``cpu_seconds``: CPU seconds of reading, rebuilding and checking.
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
