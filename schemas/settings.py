"""Every option once: its default, range and meaning. YAML files and the command line parse into these."""

from __future__ import annotations

import codecs
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator, model_validator

LARGEST_TOLERANCE = 0.01
"""Nats of gap within which an answer may be called optimal: such a labelling is at most 1 % likelier."""


class Settings(BaseModel):
    """Base of all settings: frozen; an unknown key is an error, and so is a number that is infinite or none."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class EngineSettings(Settings):
    """Base of every engine's options; also the options of an engine that has none.

    Of options that hold options of their own (`CertifySettings.sampler`) some may be given: the others stay
    what they are there, not what they are by themselves.
    """

    @model_validator(mode="before")
    @classmethod
    def _fill_in(cls, given: Any) -> Any:
        if not isinstance(given, Mapping):
            return given
        parts = {
            name: field.default for name, field in cls.model_fields.items() if isinstance(given.get(name), Mapping)
        }
        inner = {name: part.model_dump() | given[name] for name, part in parts.items() if isinstance(part, Settings)}
        return {**given, **inner}


class GibbsSettings(EngineSettings):
    """Annealed Gibbs sampling. Work is in labels, spans and places looked at."""

    work: int | None = Field(
        1_000_000_000, ge=1, description="Work where the run's budget sets no limit; null samples to the end."
    )
    sweeps: int = Field(100, ge=1, description="Sweeps over the document a chain.")
    chains: int = Field(1, ge=1, description="Independent chains; the best labelling of all is returned.")
    start: Literal["viterbi", "random"] = Field("viterbi", description="Where the first chain starts.")
    temperature: float = Field(1.0, gt=0, description="Temperature c of the first sweep; it falls linearly to 0.")
    cooling: Literal["linear", "none"] = Field("linear", description="'none' keeps the temperature: plain sampling.")
    slot_loss: float = Field(10.0, ge=0, description="Nats a span may cost and still be offered as a whole.")
    hard_weight: float = Field(30.0, gt=0, description="Nats a unit of a hard constraint costs while sampling.")
    sweeps_a_check: int = Field(20, ge=1, description="Sweeps between looks at the best labelling.")
    settle: bool = Field(True, description="Search on from the best labelling seen: each name under each type.")


PROBE = bytes(range(128)) + rb"\ud800 +2AA- .xn--tda"
"""ASCII, and what UTF-7, Python's escapes and IDNA take for something else."""


def _encoding(name: str) -> str:
    """Python's own name of an encoding in which lines, blanks and tabs can be found as in ASCII."""
    try:
        known = codecs.lookup(name).name
        plain = PROBE.decode(known) == PROBE.decode("ascii")
    except LookupError as error:
        raise ValueError(f"no text encoding is called {name!r}; give one such as utf-8, latin-1 or cp1252") from error
    except UnicodeError:
        plain = False
    if not plain:
        raise ValueError(f"{name}: ASCII looks different in it, so no line can be found; convert the file to UTF-8")
    return known


Encoding = Annotated[str, AfterValidator(_encoding)]
Prefix = Annotated[str | None, Field(description="start of document ids; the file's name by default")]
FileEncoding = Annotated[Encoding, Field(description="of the files; latin-1 for CoNLL-2002 and CoNLL-2003's German")]


class ReaderSettings(Settings):
    """Base of every reader's options."""


class ColumnsSettings(ReaderSettings):
    """Column files: one token a line, a blank line after each sentence (CoNLL-2000, CoNLL-2002, WNUT)."""

    columns: tuple[str, ...] = Field(
        ("tokens", "labels"), description="column names in order: tokens, labels where there is gold; '_' skips one"
    )
    separator: Literal["whitespace", "tab"] = Field("whitespace", description="what stands between columns")
    scheme: Literal["bio", "plain"] = Field(
        "bio", description="'bio' takes BIO, IOB1, BIOES and BILOU, which all come out as BIO; 'plain' any label"
    )
    boundary: str | None = Field(
        "-DOCSTART-", pattern=r"^\S([^\r\n]*\S)?$", description="a line that starts with this word opens a document"
    )
    sentences_per_document: int | None = Field(
        1, ge=1, description="sentences a document in a file without such lines; null refuses the file"
    )
    encoding: FileEncoding = "utf-8"
    prefix: Prefix = None

    @field_validator("columns")
    @classmethod
    def _names(cls, columns: tuple[str, ...]) -> tuple[str, ...]:
        named = [c for c in columns if c != "_"]
        wrong = [c for c in named if not c.isidentifier() or c in ("token", "label")]
        if wrong or "tokens" not in named or len(set(named)) != len(named):
            raise ValueError(
                f"{','.join(columns)}: name 'tokens' once, gold 'labels', and no other name twice; names have "
                "letters, digits and '_', and '_' alone skips a column"
            )
        return columns

    @model_validator(mode="after")
    def _documents(self) -> Self:
        if self.boundary is None and self.sentences_per_document is None:
            raise ValueError("give a boundary or sentences_per_document, so that documents end somewhere")
        try:
            (self.boundary or "").encode(self.encoding)
        except UnicodeEncodeError as error:
            raise ValueError(f"boundary {self.boundary!r} cannot be written in {self.encoding}") from error
        return self


class ConllSettings(ColumnsSettings):
    """CoNLL-2003: word, part of speech, chunk and IOB1 tag; ``-DOCSTART-`` opens a document."""

    columns: tuple[str, ...] = Field(
        ("tokens", "pos", "chunk", "labels"), description="column names in order; '_' skips one"
    )
    sentences_per_document: int | None = Field(
        None, ge=1, description="sentences a document in a file without such lines; null refuses the file"
    )


class CitationSettings(ReaderSettings):
    """Citations with fields: a token and its field a line, or a citation a line with inline tags."""

    form: Literal["auto", "columns", "tags"] = Field("auto", description="'auto' looks at the first line with text")
    gold: bool = Field(
        default=True, description="whether the fields are gold labels; off for a file with a dummy column"
    )
    encoding: FileEncoding = "utf-8"
    prefix: Prefix = None


class UmassSettings(ReaderSettings):
    """Citations with nested fields: token, two columns that are not used, and a label a level, joined by ``/``."""

    levels: Literal["all", "outermost"] = Field(
        "all", description="'all' makes every path of fields a type, such as venue/year; 'outermost' its first field"
    )
    encoding: FileEncoding = "utf-8"
    prefix: Prefix = None


class AddressSettings(ReaderSettings):
    """Addresses with fields: ``text |label`` a line, a blank line after each address."""

    split_marks: bool = Field(
        default=True, description="commas before and after words become tokens, with the label of their field"
    )
    encoding: FileEncoding = "utf-8"
    prefix: Prefix = None


class TextSettings(ReaderSettings):
    """Raw text: a Parquet file or folder, or .txt files."""

    id_column: str = Field("doc_id", description="Parquet column of document ids (string)")
    text_column: str = Field("text", description="Parquet column of texts (string)")
    language: str = Field("en", description="ISO 639-1 code of the tokenizer's and sentence splitter's rules")
    sentence_limit: int = Field(500, ge=1, description="longer sentences are cut every so many tokens")
    split_hyphens: bool = Field(
        default=False, description="cut words at hyphens too, for a model of a corpus that is cut so"
    )


class TextReaderSettings(TextSettings):
    """What reading raw text needs beyond what a run does, which reads Parquet only."""

    encoding: Encoding = Field("utf-8", description="of .txt files; Parquet is always UTF-8")


class MarkedTextSettings(ReaderSettings):
    """Texts with spans of characters: how tokens are cut, and what becomes of a span that they do not fit."""

    language: str = Field("en", description="ISO 639-1 code of the tokenizer's rules")
    split_hyphens: bool = Field(
        default=True,
        description="cut words at hyphens too, as spans do (lithium-induced, 3:30-5:00); raw text is labelled so by "
        "--split-hyphens",
    )
    unfit: Literal["widen", "drop"] = Field(
        "widen", description="what becomes of a span that starts or ends inside a token: all of the token, or nothing"
    )
    encoding: FileEncoding = "utf-8"

    @property
    def tokenizer(self) -> TextSettings:
        """What the tokenizer takes."""
        return TextSettings(language=self.language, split_hyphens=self.split_hyphens)


class MailSettings(MarkedTextSettings):
    """Mails with inline tags, one document a file (Freitag's seminar announcements)."""

    sentences: Literal["mail", "lines", "tagged"] = Field(
        "mail", description="what is a sentence: the whole mail, a line, or what the tags of sentences mark"
    )
    prefix: Prefix = None


class PubtatorSettings(MarkedTextSettings):
    """PubTator: title and abstract, then a span of characters a line."""

    sentence_limit: int = Field(500, ge=1, description="longer sentences are cut every so many tokens")

    @property
    def tokenizer(self) -> TextSettings:
        """What the tokenizer takes."""
        return TextSettings(
            language=self.language, sentence_limit=self.sentence_limit, split_hyphens=self.split_hyphens
        )


class IngestSettings(Settings):
    """How a corpus is laid out in Parquet. A run's shards do not depend on it."""

    group_documents: int = Field(64, ge=1, description="documents a row group, at most")
    group_tokens: int = Field(50_000, ge=1, description="a row group ends with the document that reaches this")
    part_bytes: int = Field(64 << 20, ge=1, description="a part file ends with the row group that reaches this")


class Validation(StrEnum):
    """Which documents judge what is chosen while a model is trained: they are not learned from meanwhile."""

    RANDOM = "random"
    """Those that a hash of their ids names: of the same time as the others."""
    LATER = "later"
    """The last ones in the order of the corpus, judged by a model of those before: of another time, if it has dates."""


class TrainerSettings(Settings):
    """Base of every trainer's options.

    ``corpora`` names the options that are a corpus which is read beside the labelled one, ``files`` those that are
    other places that are read: files, or folders.
    """

    corpora: ClassVar[tuple[str, ...]] = ()
    files: ClassVar[tuple[str, ...]] = ()

    @property
    def learning(self) -> str:
        """Whether the model is learned under constraints, and how: Chang et al.'s names, l without."""
        return "l"


class FeatureSettings(TrainerSettings):
    """What a CRF looks at."""

    files: ClassVar[tuple[str, ...]] = ("clusters", "gazetteers")

    features: str = Field(
        "core+pos+mentions+entities",
        description="Feature sets by name, joined by +, see `concord list features`.",
    )
    clusters: str | None = Field(None, description="Cluster file for the feature set clusters.")
    gazetteers: tuple[str, ...] = Field((), description="Files of phrases and types for the feature set gazetteer.")


class CrfSettings(FeatureSettings):
    """How python-crfsuite trains a CRF: its features and the options of CRFsuite's L-BFGS."""

    c1: float = Field(0.0, ge=0, description="Weight of the L1 prior; above 0 it drops features.")
    c2: float = Field(0.1, ge=0, description="Weight of the quadratic prior: c2 · Σ w².")
    max_iterations: int = Field(100, ge=1, description="L-BFGS iterations at most.")
    min_freq: float = Field(0.0, ge=0, description="Features seen fewer times than this are dropped.")
    all_possible_transitions: bool = Field(True, description="Weights also for label pairs never seen.")
    all_possible_states: bool = Field(True, description="Weights also for attribute-label pairs never seen.")


class FittingSettings(FeatureSettings):
    """What the trainers of our own share: which features of a chain have a weight, and where they start."""

    files: ClassVar[tuple[str, ...]] = (*FeatureSettings.files, "start_from")

    min_freq: float = Field(0.0, ge=0, description="Features seen fewer times than this are dropped.")
    all_possible_transitions: bool = Field(True, description="Weights also for label pairs never seen.")
    all_possible_states: bool = Field(True, description="Weights also for attribute-label pairs never seen.")
    start_from: str | None = Field(None, description="Folder of a model whose weights are the start, by name.")


class PerceptronSettings(FittingSettings):
    """How an averaged perceptron is trained, by itself or under constraints."""

    files: ClassVar[tuple[str, ...]] = (*FittingSettings.files, "constraints")

    passes: int = Field(10, ge=1, description="Passes over all sentences.")
    seed: int = Field(0, ge=0, description="Decides in which order sentences, or documents, are taken.")
    constraints: str | None = Field(None, description="Constraint file under which documents are answered meanwhile.")
    learn: Literal["cibt", "wcibt"] = Field(
        "wcibt",
        description="Under constraints: cibt keeps their weights, wcibt learns those of rows, from 0, with the model's "
        "and writes them to constraints.yaml in the model's folder.",
    )
    engine: str = Field("certify", description="Under constraints: what answers, such as certify or beam.")
    relaxed_weight: float = Field(
        50.0, gt=0, description="Under constraints: what hard ones cost where no answer keeps them all."
    )

    @property
    def learning(self) -> str:
        """``cibt`` or ``wcibt`` under constraints."""
        return super().learning if self.constraints is None else self.learn


class PriorSettings(FeatureSettings):
    """The one prior of those that descend an objective of our own."""

    c2: float = Field(0.3, ge=0, description="Weight of the quadratic prior: c2 · Σ w².")

    @model_validator(mode="before")
    @classmethod
    def _no_l1_prior(cls, given: Any) -> Any:
        if isinstance(given, Mapping) and "c1" in given:
            raise ValueError("c1: this trainer has no L1 prior; give --trainer crfsuite, which has one")
        return given


class GradientSettings(FittingSettings, PriorSettings):
    """What those that descend a CRF's objective share."""


class LimitSettings(TrainerSettings):
    """When L-BFGS ends, which looks at all sentences before each step."""

    max_iterations: int = Field(100, ge=1, description="Iterations at most.")
    decrease: float = Field(
        1e-5, ge=0, description="Ends where ten iterations lower the loss by less than this share of it."
    )
    gradient: float = Field(1e-5, ge=0, description="Ends where the gradient is shorter than this share of the point.")


class LbfgsSettings(LimitSettings, GradientSettings):
    """How L-BFGS trains a CRF."""


class SemiCrfSettings(LimitSettings, PriorSettings):
    """How L-BFGS trains a semi-Markov CRF, and what engines are given of it."""

    longest: int = Field(100, ge=1, description="Tokens of a segment at most; longer ones of training are cut.")
    min_whole: int = Field(
        1, ge=1, description="Words and patterns of a whole segment count where so many segments of training have them."
    )
    scores: Literal["best", "marginals"] = Field(
        "best",
        description="What a token's label is worth: what the best segmentation that has it loses against the best of "
        "all, or the logarithm of its probability.",
    )


class SgdSettings(GradientSettings):
    """How stochastic gradient descent trains a CRF: a step a sentence, on one core."""

    c2: float = Field(
        0.03, ge=0, description="Weight of the quadratic prior: c2 · Σ w². Dropout does most of its work."
    )
    passes: int | None = Field(
        None, ge=1, description="Passes over all sentences; by default 30, and more, up to 300, below 67,000 tokens."
    )
    rate: float = Field(0.05, gt=0, description="Length of the steps of the first pass.")
    decay: float | None = Field(
        None,
        gt=0,
        le=1,
        description="What the rate is multiplied by after each pass; by default the last pass has a tenth of the rate.",
    )
    dropout: float = Field(0.3, ge=0, lt=1, description="Share of each token's features that a step does not see.")
    seed: int = Field(0, ge=0, description="Decides in which order sentences are taken, and what is dropped.")


class CountingSettings(TrainerSettings):
    """What trainers share that count."""

    labels: tuple[str, ...] = Field((), description="Labels that it knows besides, where few documents lack some.")


class HmmSettings(CountingSettings):
    """How a hidden Markov model is counted, and learns on from documents without labels."""

    corpora: ClassVar[tuple[str, ...]] = ("pool",)

    pool: str | None = Field(None, description="Corpus whose words it learns from as well, without labels.")
    em: Literal["soft", "hard"] = Field(
        "soft", description="What an unlabelled token counts for: all labels by their probability, or the best one."
    )
    mixing: Literal["models", "counts"] = Field(
        "models", description="What is mixed: probabilities learned from either corpus, or counts of both."
    )
    gamma: float = Field(0.9, ge=0, le=1, description="Mixing models: share of the one of labelled documents.")
    weight: float = Field(0.1, gt=0, le=1, description="Mixing counts: what an unlabelled token counts for.")
    iterations: int = Field(10, ge=1, description="Times that the unlabelled corpus is labelled, at most.")
    change: float = Field(1e-4, ge=0, description="Ends where the loss changes by less, in nats a token.")

    @model_validator(mode="after")
    def _has_what_it_mixes(self) -> Self:
        changed = {name for name, field in HmmSettings.model_fields.items() if getattr(self, name) != field.default}
        if self.pool is None and changed - {"labels"}:
            raise ValueError(f"{', '.join(sorted(changed - {'labels'}))}: give a pool, too")
        return self


class Hmm2Settings(CountingSettings):
    """How a hidden Markov model of the second order is counted."""


class StackedSettings(SgdSettings):
    """How the two CRFs of a two-stage model are trained: each as by `SgdSettings`."""

    folds: int = Field(
        5, ge=2, description="First models that answer for the second to learn from, each without a share of documents."
    )

    @model_validator(mode="after")
    def _begins_anew(self) -> Self:
        if self.start_from is not None:
            raise ValueError("start_from: two stages begin anew, since an earlier model has seen what is held out")
        return self


class ScoresSettings(Settings):
    """What the scores of another tagger are, which stand in a column of the corpus."""

    labels: tuple[Annotated[str, Field(min_length=1)], ...] = Field(
        min_length=1, description="Labels of the scores, in their order."
    )
    column: str = Field("scores", min_length=1, description="Column of the corpus: a list of scores a token.")
    form: Literal["log-probabilities", "logits"] = Field(
        "log-probabilities", description="What the scores are; of logits the log-softmax is taken."
    )
    temperature: float = Field(1.0, ge=0.01, le=100, description="What the scores are divided by.")

    @model_validator(mode="after")
    def _labels_differ(self) -> Self:
        if len(set(self.labels)) != len(self.labels):
            raise ValueError("a label is there twice")
        return self


class CalibrationSettings(Settings):
    """What is learned of a model on labelled documents beside the scales of its label consistency."""

    temperature: Literal["learned", "kept"] = Field("learned", description="The temperature of a model of scores.")
    transitions: Literal["learned", "kept"] = Field("learned", description="The transitions of a model of scores.")
    c2: float = Field(1.0, ge=0, description="Weight of the quadratic prior of transitions: c2 · Σ w².")


class ClusterSettings(Settings):
    """How words are put into clusters."""

    clusters: tuple[int, ...] = Field((50, 200, 1000), min_length=1, description="Sizes: one clustering for each.")
    words: int = Field(60_000, ge=1, description="The most frequent words, at most so many; others have no cluster.")
    seed: int = Field(0, ge=0, description="Of k-means and of the decomposition.")

    @model_validator(mode="after")
    def _sizes_differ(self) -> Self:
        if len(set(self.clusters)) != len(self.clusters) or min(self.clusters) < 2:
            raise ValueError("clusters: give different sizes of at least 2")
        return self


class CoOccurrenceSettings(ClusterSettings):
    """How words are put into clusters by the words that stand around them."""

    least_count: int = Field(5, ge=1, description="Words seen fewer times have no cluster.")
    contexts: int = Field(4_000, ge=1, description="The most frequent words, which are looked for around the others.")
    dimensions: int = Field(100, ge=1, description="Of the vector that stands for a word's contexts.")


class BrownSettings(Settings):
    """How words are put into a tree by the words that stand before and after them."""

    clusters: int = Field(320, ge=2, le=2_000, description="Classes that words are put into, the leaves of the tree.")
    prefixes: tuple[int, ...] = Field(
        (4, 6, 10, 20), min_length=1, description="Lengths of first bits: one clustering for each."
    )
    words: int = Field(60_000, ge=1, description="The most frequent words, at most so many; others have no cluster.")
    least_count: int = Field(5, ge=1, description="Words seen fewer times have no cluster.")

    @model_validator(mode="after")
    def _lengths_differ(self) -> Self:
        if len(set(self.prefixes)) != len(self.prefixes) or not 1 <= min(self.prefixes) <= max(self.prefixes) <= 30:
            raise ValueError("prefixes: give different lengths of 1 to 30")
        return self


class AgreementSettings(Settings):
    """How strong the prior is that a document gets from what a model says elsewhere in the corpus."""

    scale: float = Field(
        0.2, ge=0, le=10, description="What the log odds of a word's labels elsewhere are multiplied by."
    )
    tokens: float = Field(1.0, gt=0, le=1e6, description="Tokens that the shares of labels in the corpus stand for.")


class CpSatSettings(EngineSettings):
    """The whole lattice as one CP-SAT model."""

    deterministic_seconds: float = Field(
        20.0, gt=0, description="Limit of CP-SAT's deterministic time; a work budget overrides it."
    )
    tolerance: float = Field(
        1e-6, gt=0, le=LARGEST_TOLERANCE, description="Nats within which an answer counts as optimal."
    )
    most_tokens: int = Field(
        5_000, ge=1, description="Longer documents are not modelled: the start and the chain's bound come back."
    )


class SearchSettings(EngineSettings):
    """What the search engines share. A run's own budget, of seconds or of work, comes before ``work``."""

    work: int | None = Field(
        1_000_000, ge=1, description="Work where the run's budget sets no limit; null searches to the end."
    )


class DiscrepancySettings(SearchSettings):
    """Limited discrepancy search; defaults of Stokman (2011) table 6. Work is in expanded nodes."""

    branching: int = Field(3, ge=1, description="b: labels tried a token in the first iteration.")
    branching_step: int = Field(1, ge=1, description="δb: how many more in each later iteration.")
    token_multiplier: float = Field(1.3, gt=0, description="α: nats of discrepancy allowed a token.")
    iteration_multiplier: float = Field(1.5, gt=1, description="m: growth of that allowance an iteration.")


class EvolutionSettings(SearchSettings):
    """Evolutionary search; defaults of Stokman (2011) table 6. Work is in labellings evaluated."""

    work: int | None = Field(
        20_000, ge=1, description="Work where the run's budget sets no limit; null breeds without end."
    )
    population: int = Field(30, ge=2, description="μ and λ: individuals, and offspring a generation.")
    mutation: float = Field(0.25, gt=0, le=1, description="β: share of offspring that mutate.")
    shift: float = Field(
        0.9, ge=0, le=1, description="ω: share of mutations that shift a border; others flip a section."
    )
    pressure: float = Field(1.5, ge=1, le=2, description="s: selection pressure; 1 ignores rank.")
    hard_weight: float = Field(2.0, ge=0, description="γs: nats a unit of a hard constraint costs at first.")
    hard_weight_step: float = Field(1.0, ge=0, description="γδ: how much more in each generation.")
    branching: int = Field(3, ge=1, description="Labels tried a token in the best-first start.")
    start_nodes: int = Field(20_000, ge=1, description="Nodes that the best-first start may expand.")


class AnytimeSettings(EngineSettings):
    """Discrepancy search up to a length, evolution above; Stokman (2011) table 6."""

    tokens: int = Field(60, ge=0, description="The longest document that discrepancy search takes.")
    discrepancy: DiscrepancySettings = DiscrepancySettings()
    evolution: EvolutionSettings = EvolutionSettings()


class AstarSettings(SearchSettings):
    """A*. Work is in expanded nodes."""

    nodes: int = Field(4_000_000, ge=1, description="Nodes held in memory (28 bytes each) before the search gives up.")


class BeamSettings(EngineSettings):
    """Beam search. Work is in expanded nodes."""

    width: int = Field(50, ge=1, description="Partial labellings that stay after each token.")


class CertifySettings(EngineSettings):
    """Certified inference: a sampler's answer, then a proof. Work is in what sampler and proof look at."""

    work: int | None = Field(
        1_000_000_000, ge=1, description="Work where the run's budget sets no limit; null proves to the end."
    )
    sampler: GibbsSettings = Field(
        GibbsSettings(sweeps=30, settle=False), description="The sampler that gives the incumbent where none is given."
    )
    rounds: int = Field(16, ge=0, description="Most rounds of relaxing a document and sampling what is left.")
    tolerance: float = Field(
        1e-6, gt=0, le=LARGEST_TOLERANCE, description="Nats of gap up to which a document counts as proven."
    )
    deterministic_seconds: float = Field(
        5.0, gt=0, description="CP-SAT's deterministic time a component; its end leaves a gap."
    )
    nodes: int = Field(20_000, ge=1, description="Nodes a search may expand where there are linear rows alone.")
    most_tokens: int = Field(
        2_500, ge=1, description="A component with more undecided tokens keeps its incumbent and its gap."
    )


class CspSettings(SearchSettings):
    """Weighted constraint satisfaction over candidate labels. Work is in expanded nodes."""

    candidates: int = Field(
        3, ge=1, description="Labels a token may choose from; the paper's three trigrams name three."
    )
    margin: float = Field(10.0, ge=0, description="Nats that the best labelling with a candidate may lose.")


class WindowSettings(EngineSettings):
    """Dynamic programming over windows of labels. Work is in tokens."""

    width: int = Field(3, ge=2, le=8, description="Neighbouring tokens that a row may look at to be searched.")
    states: int = Field(
        100_000,
        ge=1,
        le=10_000_000,
        description="States of a token at most; with more, windows are narrower.",
    )


class TwoStageSettings(CpSatSettings):
    """Fersini et al.'s two stages."""

    tau: float = Field(
        0.99, ge=0, le=1, description="τ: share of the local score, from worst to best, that stage two must keep."
    )
    violations: Literal["degree", "once"] = Field(
        "degree",
        description="What a broken row costs: its weight times its degree, or, however badly it breaks, "
        "once its weight.",
    )
