"""Reports that commands print with ``--json``. Shares and figures are fractions from 0 to 1, not per cent."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pydantic import Field

from concord.schemas.blocks import (
    AnyBlock,
    Headline,
    Remark,
    Table,
    TableRow,
    Tone,
    figure_columns,
    per_cent,
    row,
    text_columns,
)
from concord.schemas.gains import Comparison, points
from concord.schemas.secrets import short_name
from concord.schemas.shown import Report
from concord.schemas.train_report import ConsistencyReport, TemperatureReport


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
    - ``whole``: figures over all names, ``viterbi_whole`` and ``viterbi_names``: F1 of the labelling of the model alone
      over these and of each; these three are not in the JSON.
    """

    figures: dict[str, float]
    intervals: dict[str, tuple[float, float]] = Field(default_factory=dict)
    viterbi: dict[str, float]
    names: dict[str, NameFigures]
    whole: NameFigures | None = Field(None, exclude=True)
    viterbi_whole: float | None = Field(None, exclude=True)
    viterbi_names: dict[str, float] = Field(default_factory=dict, exclude=True)

    def interval(self, figure: str) -> str:
        """The interval of a figure in per cent, for people; empty without one."""
        ends = self.intervals.get(figure)
        return "" if ends is None else f"{100 * ends[0]:.2f} to {100 * ends[1]:.2f}"

    def best_line(self, measure: str) -> str:
        """F1 over all names, or else accuracy, with its interval in per cent; empty where there is neither."""
        figure = next((name for name in ("f1", "accuracy") if name in self.figures), None)
        if figure is None:
            return ""
        ends = self.interval(figure)
        around = f" (95 % interval {ends})" if ends else ""
        return f"{measure} {_words(figure)} {100 * self.figures[figure]:.2f}{around}"

    def table(self, measure: str) -> Table:
        """Precision, recall and F1 (per cent) of each name and over all names, beside Viterbi's F1; mean and overlap.

        If every item has one gold and one predicted name, all three over all names are the accuracy.
        """
        rows = [_measured(name, one, self.viterbi_names.get(name)) for name, one in self.names.items()]
        if self.whole is not None and len(self.names) > 1:
            name = "accuracy" if "accuracy" in self.figures else "all"
            rows.append(_measured(name, self.whole, self.viterbi_whole, tone=Tone.STRONG))
        if "macro_f1" in self.figures:
            macro = [f"{100 * self.figures[f'macro_{name}']:.2f}" for name in ("precision", "recall", "f1")]
            rows.append(self._mean("macro", macro, "macro_f1"))
        if "overlap" in self.figures:
            rows.append(self._mean("overlap", ["", "", f"{100 * self.figures['overlap']:.2f}"], "overlap"))
        heads = ("gold", "found", "right", "precision", "recall", "F1", "Viterbi\nF1", "change")
        return Table(figure_columns(measure, *heads), tuple(rows))

    def _mean(self, name: str, figures: Sequence[str], figure: str) -> TableRow:
        before = self.viterbi[figure]
        change = 100 * (self.figures[figure] - before)
        return row(name, "", "", "", *figures, f"{100 * before:.2f}", f"{change:+.2f}", tone=Tone.STRONG)

    def interval_line(self, measure: str) -> str:
        """The intervals of all figures, in per cent."""
        ends = (f"{_words(figure)} {self.interval(figure)}" for figure in self.intervals)
        return f"{measure}, intervals of 95 % over documents: {', '.join(ends)}"


def _measured(name: str, one: NameFigures, before: float | None, *, tone: Tone = Tone.PLAIN) -> TableRow:
    counts = (f"{count:,}" for count in (one.gold, one.predicted, one.correct))
    shares = (f"{100 * share:.2f}" for share in (one.precision, one.recall, one.f1))
    change = ["", ""] if before is None else [f"{100 * before:.2f}", f"{100 * (one.f1 - before):+.2f}"]
    return row(name, *counts, *shares, *change, tone=tone)


def _words(figure: str) -> str:
    return figure.replace("_", " ").replace("f1", "F1")


class Difference(Comparison):
    """Difference of a figure to that of another run, ``other``."""

    other: float


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

    def blocks(self) -> Iterator[AnyBlock]:
        """Figures beside the other run's, and which documents were left out."""
        yield Headline(f"against {self.run}: intervals of 95 %")
        yield self.table()
        yield from self.left_out()

    def table(self) -> Table:
        """Figures (per cent) beside the other run's, with the difference, its interval of 95 % and the p-value."""
        rows = tuple(
            row(
                f"{measure} {_words(figure)}",
                *(f"{100 * value:.2f}" for value in (one.other, one.other + one.difference)),
                *map(points, one.with_interval),
                f"{one.p_value:.3f}",
            )
            for measure, figures in self.measures.items()
            for figure, one in figures.items()
        )
        return Table(figure_columns("measure", "other", "here", "change", "from", "to", "p"), rows)

    def left_out(self) -> Iterator[Remark]:
        """Documents that only one of the runs has."""
        for where, ids in (("not in that run", self.only_here), ("in that run alone", self.only_there)):
            if ids:
                yield Remark(f"{len(ids):,} gold documents {where}, left out; the first is {ids[0]!r}")


class EvaluationReport(Report):
    """Report of ``concord evaluate --json``.

    - ``certified``: share of documents whose gap is closed.
    - ``by_solver``: share of documents whose gap is closed by CP-SAT's word alone; a part of ``certified``.
    - ``max_gap``: largest gap of a document, in nats; null if a document has no bound.
    - ``measures``: figures of each measure.
    - ``against``: comparison with another run; null if none was given.
    - ``entity_changes``, ``token_changes``: changes against the model alone, by kind; not in the JSON.
    """

    documents: int
    tokens: int
    certified: float
    by_solver: float
    max_gap: float | None
    token_accuracy: float
    measures: dict[str, MeasureReport]
    against: AgainstReport | None = None
    entity_changes: dict[str, int] = Field(default_factory=dict, exclude=True)
    token_changes: dict[str, int] = Field(default_factory=dict, exclude=True)

    def blocks(self) -> Iterator[AnyBlock]:
        """Figures of each measure, the comparison with another run, and what the constraints changed."""
        for name, one in self.measures.items():
            yield one.table(name)
            yield Remark(one.interval_line(name))
        if self.against is not None:
            yield self.against.table()
            compared = f"paired bootstrap over {self.documents:,} documents, intervals of 95 %"
            yield Remark(f"against {self.against.run}: {compared}")
            yield from self.against.left_out()
        bound = "unknown, as not all have a bound" if self.max_gap is None else f"{self.max_gap:.6g} nats"
        yield Headline(
            f"{self.documents:,} documents, {self.tokens:,} tokens; token accuracy {self.token_accuracy:.2%}; "
            f"certified {per_cent(self.certified)} ({self.by_solver:.1%} on a solver's word), largest gap {bound}"
        )
        if self.entity_changes:
            yield Remark(self._changes)

    @property
    def _changes(self) -> str:
        entities, tokens = self.entity_changes, self.token_changes
        return (
            f"against Viterbi: {entities['fixed']:,} entities fixed, {entities['broken']:,} broken, "
            f"{entities['removed']:,} wrong ones gone, {entities['added']:,} wrong ones new; "
            f"{tokens['fixed']:,} tokens fixed, {tokens['broken']:,} broken, "
            f"{tokens['both_wrong']:,} changed and still wrong"
        )


class ClusterReport(Report):
    """Report of ``concord clusters``.

    - ``words``: number of words with a cluster.
    - ``clusterings``: names of the clusterings.
    - ``examples``: some words of one cluster of each clustering.
    """

    words: int
    clusterings: tuple[str, ...]
    examples: list[list[str]]
    out: str

    def blocks(self) -> Iterator[AnyBlock]:
        """The clusterings, some words of each, and the file."""
        yield Headline(f"{self.words:,} words in clusters: {', '.join(self.clusterings)}")
        for name, words in zip(self.clusterings, self.examples, strict=True):
            yield Remark(f"  one of {name}: {' '.join(words)}")
        yield Remark(f"clusters in {self.out}")


class GazetteerReport(Report):
    """Report of ``concord gazetteer build``.

    - ``read``: number of phrases that the sources have.
    - ``phrases``: number of distinct phrases in the file, by type in ``types``.
    - ``common``: number of phrases read that are one common word.
    - ``too_long``: number of phrases read that are left out, since they have too many words.
    - ``origins``: where the data of each package come from, and their licence.
    """

    read: int
    phrases: int
    types: dict[str, int]
    common: int
    too_long: int
    origins: dict[str, str]
    out: str

    def blocks(self) -> Iterator[AnyBlock]:
        """The phrases by type, what was left out, and whose data they are."""
        yield Headline(f"{self.phrases:,} phrases of {self.read:,} read, {self.common:,} of them one common word")
        if self.too_long:
            yield Remark(f"  {self.too_long:,} left out: too many words to be looked up")
        yield Table(figure_columns("type", "phrases"), tuple(row(kind, f"{n:,}") for kind, n in self.types.items()))
        for name, origin in self.origins.items():
            yield Remark(f"data of {name}: {origin}")
        yield Remark(f"phrases in {self.out}")


class TaggerImport(Report):
    """A tagger's model that was imported, and what is strange about its labels.

    - ``labels``: labels of the model.
    - ``joined``: labels of the tagger that BIO writes in another way.
    - ``padding``: labels of the tagger that no token can have.
    - ``outside``: has the tagger a label ``O``?
    - ``scheme``: ``bio``, or ``plain`` for labels that are types by themselves.
    - ``types``: number of types of spans.
    """

    labels: tuple[str, ...]
    joined: tuple[str, ...]
    padding: tuple[str, ...]
    outside: bool
    scheme: str
    types: int
    out: str
    model_digest: str

    def notices(self) -> Iterator[Remark]:
        """What is strange about the labels."""
        if self.joined:
            joined = f"{', '.join(self.joined)} are read as the labels of BIO that they stand for"
            yield Remark(joined, Tone.NOTICE)
        if self.padding:
            yield Remark(_padding(self.padding), Tone.NOTICE)
        if not self.outside:
            yield Remark("there is no label 'O', so every token will be part of a span", Tone.NOTICE)


class ScoresReport(TaggerImport):
    """Report of ``concord import scores --json``: the column that the model reads, and its labels.

    - ``column``, ``form``: name of the column, and the form of its scores.
    - ``source``: labels of the column.
    """

    column: str
    form: str
    temperature: float
    source: tuple[str, ...]

    def blocks(self) -> Iterator[AnyBlock]:
        """What the column holds, what is strange about its labels, and the model."""
        yield Headline(
            f"{len(self.source)} labels in column {self.column!r}, as {self.form} at temperature "
            f"{self.temperature:g}: {self.types} types of spans"
        )
        yield from self.notices()
        yield Remark(f"model in {self.out}")


class EntitiesReport(Report):
    """Report of ``concord import entities --json``: a tagger's answers as a layer of a corpus.

    - ``layer``, ``form``: name of the layer, and reader of its source.
    - ``documents``, ``answered``: documents of the corpus, and those with an answer.
    - ``spans``, ``labels``: number of all spans, and of those of each label of the tagger that can be read.
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

    def blocks(self) -> Iterator[AnyBlock]:
        """The layer, its labels, and what did not fit."""
        yield Headline(
            f"layer {self.layer!r}: answers to {self.answered:,} of {self.documents:,} documents, {self.spans:,} spans"
        )
        labels = [
            f"{label} {count:,}" + (f" (as {self.names[label]})" if label in self.names else "")
            for label, count in self.labels.items()
        ]
        if labels:
            yield Remark(", ".join(labels))
        notices = [f"spans that {reason}: {count:,}" for reason, count in self.unplaced.items()]
        notices += [f"{reason}: {count:,}" for reason, count in self.unused.items()]
        if self.unread:
            notices.append(f"{self.unread:,} records cannot be read; the first: {self.unread_reason}")
        yield from (Remark(notice, Tone.NOTICE) for notice in (*notices, *self.notices))
        yield Remark(f"layers of {self.out}: {', '.join(self.layers)}")


class WeakFamily(Report):
    """Attributes of one name of which a model knows less than half of the values that its function made.

    - ``values``, ``known``: number of different values, and of those that the model knows.
    """

    name: str
    values: int
    known: int


SHOWN_FAMILIES = 6
"""Families of attributes that a report names."""


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

    def blocks(self) -> Iterator[AnyBlock]:
        """The model, what its functions did on trial sentences, and how it is scored."""
        yield Headline(f"{self.attributes:,} attributes, {len(self.labels)} labels")
        yield Remark(f"features by {self.features} of {self.package} {self.release}")
        if self.columns:
            yield Remark(f"it reads the columns {', '.join(self.columns)} beside the words")
        yield from self._trial()
        if self.marks_ends:
            yield Remark(
                "labels of BIOES or BILOU: scores are log-probabilities of BIO labels, by the model's own chain"
            )
        if self.padding:
            yield Remark(_padding(self.padding), Tone.NOTICE)
        if self.tokenizer:
            yield Remark(f"text is cut by {self.tokenizer}")
        if self.changed_word is not None:
            there, word = self.changed_word
            changes = f"it changes words, as {there!r} into {word!r}: each is placed by what is left of it"
            yield Remark(changes, Tone.NOTICE)
        if self.word_tables:
            yield Remark("each feature depends on one word: scored from word tables")
        else:
            yield Remark(f"no word tables: {self.departure}", Tone.NOTICE)
        yield Remark(f"model in {self.out}; set CONCORD_TRUST={self.trust} to use it")

    def _trial(self) -> Iterator[AnyBlock]:
        few = "; is it the function that the model was trained with?" if self.few_known else ""
        yield Remark(
            f"of the attributes that it makes of {self.trial_sentences} trial sentences, the model knows "
            f"{self.attributes_known:.0%}{few}",
            Tone.NOTICE if self.few_known else Tone.PLAIN,
        )
        for family in self.weak_families[:SHOWN_FAMILIES]:
            yield Remark(f"{family.name}: {family.known} of {family.values} values known", Tone.NOTICE)
        if self.failed_sentences:
            failed = f"it fails on {self.failed_sentences} of them, the first time so: {self.fault}"
            yield Remark(failed, Tone.NOTICE)


class OnnxReport(TaggerImport):
    """Report of ``concord import onnx --json``.

    - ``pooling``: scores of a word: those of its first sub-word, or the mean of all.
    - ``pooling_f1``: entity F1 by pooling, a fraction, on the labelled documents; empty without them.
    - ``room``, ``overlap``: sub-words that are read at once, and those that two windows have in common.
    """

    pooling: str
    pooling_f1: dict[str, float]
    room: int
    overlap: int

    def blocks(self) -> Iterator[AnyBlock]:
        """The labels, how words are scored, and the model."""
        yield Headline(f"{len(self.labels)} labels: {self.types} types of spans")
        yield from self.notices()
        judged = ", ".join(f"{way} {f1:.2%}" for way, f1 in self.pooling_f1.items())
        yield Remark(f"scores of a word: {self.pooling} of its sub-words" + (f"; F1 {judged}" if judged else ""))
        yield Remark(f"{self.room} sub-words at once; longer sentences in windows with {self.overlap} in common")
        yield Remark(f"model in {self.out}")


def _padding(labels: Sequence[str]) -> str:
    return f"{', '.join(labels)}: padding, which no token gets as its label"


class CalibrationReport(Report):
    """Report of ``concord calibrate --json``; a figure is null if it was not learned.

    - ``temperature``, ``calibration``: of another tagger's scores, and of the scores of any other model.
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
    calibration: TemperatureReport | None
    loss_before: float | None
    loss: float | None
    consistency: ConsistencyReport | None
    out: str
    model_digest: str

    def blocks(self) -> Iterator[AnyBlock]:
        """What was learned, how good it is on held-out documents, and the model."""
        yield Headline(f"{self.documents:,} documents, {self.tokens:,} tokens, {self.rejected} rejected")
        if self.tagger_f1 is not None:
            names = {"neither": "as imported"}
            ways = [f"{names.get(fit, fit)} {f1:.2%}" for fit, f1 in self.held_out_f1.items()]
            yield Remark(f"held-out F1: the tagger itself {self.tagger_f1:.2%}, {', '.join(ways)}")
            yield Remark(f"learned: {self.fit}")
        if self.temperature is not None:
            loss = f"{self.loss_before:.4f} → {self.loss:.4f} nats a token"
            yield Remark(f"temperature {self.temperature:.4g}; −log p(gold) {loss}")
        if self.calibration is not None:
            yield Remark(self.calibration.line)
        if self.sentences_left_out:
            left = f"{self.sentences_left_out:,} sentences left out: the scores forbid their gold labels"
            yield Remark(left, Tone.NOTICE)
        if self.consistency is not None:
            yield Remark(self.consistency.line("F1"))
        if self.consistency_f1 is not None:
            tuned = "held-out F1 with label consistency, tuned on the other half of the documents"
            yield Remark(f"{tuned}: {self.consistency_f1:.2%}")
        yield Remark(f"model in {self.out}")


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

    def blocks(self) -> Iterator[AnyBlock]:
        """What was written, and where."""
        yield Headline(
            f"{self.documents:,} documents, {self.spans:,} spans: {self.changed:,} added or retyped by constraints, "
            f"{self.removed:,} of the model alone removed"
        )
        yield Remark(f"{self.form} in {self.out}")


class ProposalReport(Report):
    """Report of ``concord constraints propose --json``.

    - ``errors``, ``shown``: sentences that the model labels wrongly, and those in the prompt.
    - ``templates``: kinds of rules that the prompt describes.
    """

    corpus: str
    model: str
    documents: int
    errors: int
    shown: int
    templates: int
    out: str

    def blocks(self) -> Iterator[AnyBlock]:
        """What the prompt holds, and what to do with it."""
        yield Headline(
            f"{self.shown:,} of {self.errors:,} wrong sentences of {self.documents:,} documents, and {self.templates} "
            f"templates, in {self.out}"
        )
        yield Remark("give it to a language model or a person; it holds text of the corpus, and nothing was sent")


class ResourceReport(Report):
    """Report of ``concord resources --json``: a file of the user's that has a name, or had one.

    - ``kind``: option that takes the name.
    - ``path``: the file or folder, which stays where it is.
    - ``licence``, ``languages``: what the user said of it.
    - ``is_known``: has it the name now?
    """

    kind: str
    name: str
    path: str
    licence: str
    languages: tuple[str, ...]
    is_known: bool

    def blocks(self) -> Iterator[AnyBlock]:
        """What the name stands for now, and who tries it."""
        if self.is_known:
            yield Headline(f"{self.kind} {self.name}: {self.path}")
            yield Remark("train --effort best tries it by itself; concord list resources has all")
        else:
            yield Headline(f"{self.name} is no name of {self.kind} any more; {self.path} stays")


class RunPageReport(Report):
    """The page of a run that ``concord report`` wrote.

    - ``documents``: number of documents of the run; the viewer shows ``shown`` of them
    - ``bytes``: size of the page
    """

    documents: int
    shown: int
    bytes: int
    out: str

    def blocks(self) -> Iterator[AnyBlock]:
        """What the page is about, and where it is."""
        yield Headline(f"{self.documents:,} documents, {self.shown:,} of them to look at; {self.bytes / 1000:,.0f} kB")
        yield Remark(f"page in {self.out}")


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

    @property
    def subject(self) -> str:
        """The corpus."""
        return short_name(self.corpus)

    def blocks(self) -> Iterator[AnyBlock]:
        """Lengths, spans by type, labels, and what there is once."""
        yield self._lengths()
        if self.spans:
            spans = (
                row(name, f"{one.spans:,}", f"{one.tokens:,}", f"{one.tokens / one.spans:.2f}")
                for name, one in self.spans.items()
            )
            yield Table(figure_columns("span", "spans", "tokens", "tokens a span"), tuple(spans))
        if self.labels:
            whole = sum(self.labels.values())
            labels = (row(name, f"{tokens:,}", f"{tokens / whole:.2%}") for name, tokens in self.labels.items())
            yield Table(figure_columns("label", "tokens", "share"), tuple(labels))
        yield Headline(
            f"{self.documents:,} documents ({self.with_gold:,} with gold labels), {self.sentences:,} sentences, "
            f"{self.tokens:,} tokens; {self.rejected:,} rows rejected, {self.repeated:,} of them with an earlier "
            "row's doc_id"
        )
        if self.unknown is not None:
            unknown = f"{self.unknown_tokens:,} tokens ({self.unknown:.2%})"
            yield Remark(f"{unknown} are words that the model does not know")
        if self.errors:
            yield Table(text_columns("reason"), tuple(map(row, self.errors)), "Not counted", detail=True)

    def _lengths(self) -> Table:
        names = [name for name in LengthFigures.model_fields if name != "mean"]
        rows = (
            row(name, f"{one.mean:,.1f}", *(f"{getattr(one, length):,}" for length in names))
            for name, one in (("document", self.document_tokens), ("sentence", self.sentence_tokens))
        )
        return Table(figure_columns("tokens a", "mean", *names), tuple(rows))


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
    """One entry of ``concord list --json``.

    ``comparison``: does it stand beside a paper's figures, and would users choose another?
    """

    name: str
    summary: str
    options: tuple[OptionReport, ...]
    comparison: bool = False


class EngineReport(EntryReport):
    """One engine of ``concord list engines --json``; ``exact``: without a limit, it proves its answer optimal."""

    exact: bool


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

    def blocks(self) -> Iterator[AnyBlock]:
        """Documents by what could be verified of them, faults, and what the verification rests on."""
        yield Headline(self._counts)
        yield from (Remark(f"failed: {fault}", Tone.WRONG) for fault in self.failed)
        yield Remark(f"trusted: {'; '.join(self.trusted)} ({self.cpu_seconds:.1f} CPU seconds)")

    @property
    def _counts(self) -> str:
        """The tolerance, and the number of documents in each state with their share of all answers."""
        kinds = (
            ("proven optimal", self.optimal),
            ("with a proven bound and a gap", self.bounded),
            ("optimal by the engine's word", self.by_engine),
            ("optimal by a solver's word", self.by_solver),
            ("open", self.open),
        )
        parts = [f"{count:,} {what} ({count / max(self.documents, 1):.1%})" for what, count in kinds if count]
        lethal = f" ({self.lethal:,} said to have killed their workers)" if self.lethal else ""
        documents = f"{self.documents:,} documents right" + (f": {', '.join(parts)}" if parts else "")
        rejects = f"{self.rejected:,} rejected{lethal}; {len(self.failed):,} faults"
        return f"tolerance {self.tolerance:g} nats; {documents}; {rejects}"
