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
        1_000_000_000, ge=1, description="Limit of work, unless the run sets one; null samples to the end."
    )
    sweeps: int = Field(100, ge=1, description="Number of sweeps over the document, for each chain.")
    chains: int = Field(1, ge=1, description="Number of independent chains; the best labelling of all is the answer.")
    start: Literal["viterbi", "random"] = Field("viterbi", description="Labelling that the first chain starts from.")
    temperature: float = Field(1.0, gt=0, description="Temperature c of the first sweep; it falls linearly to 0.")
    cooling: Literal["linear", "none"] = Field(
        "linear", description="Cooling schedule; 'none' keeps the temperature: plain sampling."
    )
    slot_loss: float = Field(10.0, ge=0, description="Largest loss, in nats, at which a span is offered as a whole.")
    hard_weight: float = Field(30.0, gt=0, description="Price of a hard constraint while sampling, in nats a unit.")
    sweeps_a_check: int = Field(20, ge=1, description="Number of sweeps between looks at the best labelling.")
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
Prefix = Annotated[str | None, Field(description="Start of document ids (default: the file's name).")]
FileEncoding = Annotated[
    Encoding, Field(description="Encoding of the files; latin-1 for CoNLL-2002 and CoNLL-2003's German.")
]


TOKENIZER = r"^[^\s=]+(==[^\s=]+)?$"
"""How tokenizers are named: NAME, or NAME==VERSION."""


class ReaderSettings(Settings):
    """Base of every reader's options."""


class ColumnsSettings(ReaderSettings):
    """Column files: one token a line, a blank line after each sentence (CoNLL-2000, CoNLL-2002, WNUT)."""

    columns: tuple[str, ...] = Field(
        ("tokens", "labels"), description="Column names in order: tokens, labels where there is gold; '_' skips one."
    )
    separator: Literal["whitespace", "tab"] = Field("whitespace", description="What stands between columns.")
    scheme: Literal["bio", "plain"] = Field(
        "bio",
        description="Label scheme: 'bio' takes BIO, IOB1, BIOES and BILOU, which all come out as BIO; 'plain' any "
        "label.",
    )
    boundary: str | None = Field(
        "-DOCSTART-", pattern=r"^\S([^\r\n]*\S)?$", description="Word with which a line starts that opens a document."
    )
    sentences_per_document: int | None = Field(
        1, ge=1, description="Number of sentences of a document in a file without such lines; null refuses the file."
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
        ("tokens", "pos", "chunk", "labels"), description="Column names in order; '_' skips one."
    )
    sentences_per_document: int | None = Field(
        None, ge=1, description="Number of sentences of a document in a file without such lines; null refuses the file."
    )


class CitationSettings(ReaderSettings):
    """Citations with fields: a token and its field a line, or a citation a line with inline tags."""

    form: Literal["auto", "columns", "tags"] = Field(
        "auto", description="Form of the file; 'auto' looks at the first line with text."
    )
    gold: bool = Field(
        default=True, description="Whether the fields are gold labels; false for a file with a dummy column."
    )
    encoding: FileEncoding = "utf-8"
    prefix: Prefix = None


class UmassSettings(ReaderSettings):
    """Citations with nested fields: token, two columns that are not used, and a label a level, joined by ``/``."""

    levels: Literal["all", "outermost"] = Field(
        "all",
        description="Levels of fields: 'all' makes every path a type, such as venue/year; 'outermost' its first field.",
    )
    encoding: FileEncoding = "utf-8"
    prefix: Prefix = None


class AddressSettings(ReaderSettings):
    """Addresses with fields: ``text |label`` a line, a blank line after each address."""

    split_marks: bool = Field(
        default=True, description="Make commas before and after words tokens, with the label of their field."
    )
    encoding: FileEncoding = "utf-8"
    prefix: Prefix = None


class TextSettings(ReaderSettings):
    """Raw text: a Parquet file or folder, or .txt files."""

    id_column: str = Field("doc_id", description="Parquet column of document ids (strings).")
    text_column: str = Field("text", description="Parquet column of texts (strings).")
    language: str = Field("en", description="Language of the text (ISO 639-1), for tokenizer and sentence splitter.")
    tokenizer: str | None = Field(
        None,
        pattern=TOKENIZER,
        description="Tokenizer that cuts raw text, as NAME or NAME==VERSION; `concord list tokenizers` has them "
        "(default: the one that the model states, or words).",
    )
    sentence_limit: int = Field(500, ge=1, description="Longest sentence, in tokens; longer ones are cut.")
    split_hyphens: bool = Field(
        default=False, description="Cut words at hyphens too, for a model of a corpus that is cut so."
    )


class TextReaderSettings(TextSettings):
    """What reading raw text needs beyond what a run does, which reads Parquet only."""

    encoding: Encoding = Field("utf-8", description="Encoding of .txt files; Parquet is always UTF-8.")


class MarkedTextSettings(ReaderSettings):
    """Texts with spans of characters: how tokens are cut, and what becomes of a span that they do not fit."""

    language: str = Field("en", description="Language of the text (ISO 639-1), for the tokenizer.")
    tokenizer: str | None = Field(
        None,
        pattern=TOKENIZER,
        description="Tokenizer that cuts raw text, as NAME or NAME==VERSION; `concord list tokenizers` has them "
        "(default: words).",
    )
    split_hyphens: bool = Field(
        default=True,
        description="Cut words at hyphens too, as spans do (lithium-induced, 3:30-5:00); raw text is labelled so by "
        "--split-hyphens.",
    )
    unfit: Literal["widen", "drop"] = Field(
        "widen", description="What becomes of a span that starts or ends inside a token: all of the token, or nothing."
    )
    encoding: FileEncoding = "utf-8"

    @property
    def cutting(self) -> TextSettings:
        """How the texts are cut."""
        return TextSettings(language=self.language, tokenizer=self.tokenizer, split_hyphens=self.split_hyphens)


class MailSettings(MarkedTextSettings):
    """Mails with inline tags, one document a file (Freitag's seminar announcements)."""

    sentences: Literal["mail", "lines", "tagged"] = Field(
        "mail", description="What counts as a sentence: the whole mail, a line, or what the tags of sentences mark."
    )
    prefix: Prefix = None


class PubtatorSettings(MarkedTextSettings):
    """PubTator: title and abstract, then a span of characters a line."""

    sentence_limit: int = Field(500, ge=1, description="Longest sentence, in tokens; longer ones are cut.")

    @property
    def cutting(self) -> TextSettings:
        """How the texts are cut."""
        return super().cutting.model_copy(update={"sentence_limit": self.sentence_limit})


class IngestSettings(Settings):
    """How a corpus is laid out in Parquet. A run's shards do not depend on it."""

    group_documents: int = Field(64, ge=1, description="Largest row group, in documents.")
    group_tokens: int = Field(50_000, ge=1, description="Size at which a row group ends, in tokens.")
    part_bytes: int = Field(64 << 20, ge=1, description="Size at which a part file ends, in bytes.")


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
        description="Feature sets, joined by +; `concord list features` has them.",
    )
    clusters: str | None = Field(None, description="Cluster file for the feature set clusters.")
    gazetteers: tuple[str, ...] = Field((), description="Files of phrases and types for the feature set gazetteer.")


class CrfSettings(FeatureSettings):
    """How python-crfsuite trains a CRF: its features and the options of CRFsuite's L-BFGS."""

    c1: float = Field(0.0, ge=0, description="Weight of the L1 prior; above 0 it drops features.")
    c2: float = Field(0.1, ge=0, description="Weight of the quadratic prior: c2 · Σ w².")
    max_iterations: int = Field(100, ge=1, description="Largest number of iterations of L-BFGS.")
    min_freq: float = Field(0.0, ge=0, description="Least count of a feature; rarer ones are dropped.")
    all_possible_transitions: bool = Field(True, description="Give weights also to label pairs that were never seen.")
    all_possible_states: bool = Field(
        True, description="Give weights also to pairs of attribute and label that were never seen."
    )


class FittingSettings(FeatureSettings):
    """What the trainers of our own share: which features of a chain have a weight, and where they start."""

    files: ClassVar[tuple[str, ...]] = (*FeatureSettings.files, "start_from")

    min_freq: float = Field(0.0, ge=0, description="Least count of a feature; rarer ones are dropped.")
    all_possible_transitions: bool = Field(True, description="Give weights also to label pairs that were never seen.")
    all_possible_states: bool = Field(
        True, description="Give weights also to pairs of attribute and label that were never seen."
    )
    start_from: str | None = Field(None, description="Model folder whose weights, by name, are the start.")


class PerceptronSettings(FittingSettings):
    """How an averaged perceptron is trained, by itself or under constraints."""

    files: ClassVar[tuple[str, ...]] = (*FittingSettings.files, "constraints")

    passes: int = Field(10, ge=1, description="Number of passes over all sentences.")
    seed: int = Field(0, ge=0, description="Seed of the order of sentences, or documents.")
    constraints: str | None = Field(
        None, description="Constraint file under which documents are answered during training."
    )
    learn: Literal["cibt", "wcibt"] = Field(
        "wcibt",
        description="With constraints: cibt keeps their weights; wcibt learns those of rows, from 0, with the "
        "model's, and writes them to constraints.yaml in the model's folder.",
    )
    engine: str = Field("certify", description="With constraints: the engine that answers, such as certify or beam.")
    relaxed_weight: float = Field(
        50.0,
        gt=0,
        description="With constraints: price of the hard ones where no answer keeps them all, in nats a unit.",
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

    max_iterations: int = Field(100, ge=1, description="Largest number of iterations.")
    decrease: float = Field(
        1e-5, ge=0, description="Fraction of the loss; training ends where ten iterations lower it by less."
    )
    gradient: float = Field(
        1e-5, ge=0, description="Fraction of the point's length; training ends where the gradient is shorter."
    )


class LbfgsSettings(LimitSettings, GradientSettings):
    """How L-BFGS trains a CRF."""


class SemiCrfSettings(LimitSettings, PriorSettings):
    """How L-BFGS trains a semi-Markov CRF, and what engines are given of it."""

    longest: int = Field(100, ge=1, description="Longest segment, in tokens; longer ones of training are cut.")
    min_whole: int = Field(
        1,
        ge=1,
        description="Least number of training segments with the words or pattern of a whole segment, for these to "
        "count.",
    )
    scores: Literal["best", "marginals"] = Field(
        "best",
        description="Token scores given to engines: max-marginals (0 for the best segmentation, negative otherwise), "
        "or logarithms of marginal probabilities.",
    )


class SgdSettings(GradientSettings):
    """How stochastic gradient descent trains a CRF: a step a sentence, on one core."""

    c2: float = Field(
        0.03, ge=0, description="Weight of the quadratic prior: c2 · Σ w². Dropout does most of its work."
    )
    passes: int | None = Field(
        None,
        ge=1,
        description="Number of passes over all sentences (default: 30, and more, up to 300, below 67,000 tokens).",
    )
    rate: float = Field(0.05, gt=0, description="Length of the steps in the first pass.")
    decay: float | None = Field(
        None,
        gt=0,
        le=1,
        description="Factor of the rate after each pass (default: so that the last pass has a tenth of the rate).",
    )
    dropout: float = Field(0.3, ge=0, lt=1, description="Fraction of each token's features that a step does not see.")
    seed: int = Field(0, ge=0, description="Seed of the order of sentences and of what is dropped.")


class CountingSettings(TrainerSettings):
    """What trainers share that count."""

    labels: tuple[str, ...] = Field((), description="Labels that labelled documents may lack.")


class HmmSettings(CountingSettings):
    """How a hidden Markov model is counted, and learns on from documents without labels."""

    corpora: ClassVar[tuple[str, ...]] = ("pool",)

    pool: str | None = Field(None, description="Corpus whose words are learned from as well, without labels.")
    em: Literal["soft", "hard"] = Field(
        "soft", description="Count of an unlabelled token: all labels by their probability, or the best one."
    )
    mixing: Literal["models", "counts"] = Field(
        "models", description="What is mixed: probabilities learned from either corpus, or counts of both."
    )
    gamma: float = Field(0.9, ge=0, le=1, description="With mixing=models: share of the model of labelled documents.")
    weight: float = Field(0.1, gt=0, le=1, description="With mixing=counts: weight of an unlabelled token.")
    iterations: int = Field(10, ge=1, description="Largest number of times that the pool is labelled.")
    change: float = Field(
        1e-4, ge=0, description="Change of the loss, in nats a token; learning ends where it is smaller."
    )

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
        5,
        ge=2,
        description="Number of first models, each trained without a part of the documents, whose answers the second "
        "learns from.",
    )

    @model_validator(mode="after")
    def _begins_anew(self) -> Self:
        if self.start_from is not None:
            raise ValueError("start_from: two stages begin anew, since an earlier model has seen what is held out")
        return self


class ScoresSettings(Settings):
    """What the scores of another tagger are, which stand in a column of the corpus."""

    labels: tuple[Annotated[str, Field(min_length=1)], ...] = Field(
        min_length=1, description="Labels, in the order of the scores."
    )
    column: str = Field(
        "scores", min_length=1, description="Column of the corpus that has a list of scores for each token."
    )
    form: Literal["log-probabilities", "logits"] = Field(
        "log-probabilities", description="Kind of the scores; of logits the log-softmax is taken."
    )
    temperature: float = Field(1.0, ge=0.01, le=100, description="Number that the scores are divided by.")

    @model_validator(mode="after")
    def _labels_differ(self) -> Self:
        if len(set(self.labels)) != len(self.labels):
            raise ValueError("a label is there twice")
        return self


class CalibrationSettings(Settings):
    """What is learned of a model on labelled documents beside the scales of its label consistency."""

    temperature: Literal["learned", "kept"] = Field("learned", description="Temperature of a model of scores.")
    transitions: Literal["learned", "kept"] = Field("learned", description="Transitions of a model of scores.")
    c2: float = Field(1.0, ge=0, description="Weight of the quadratic prior of transitions: c2 · Σ w².")


class ClusterSettings(Settings):
    """How words are put into clusters."""

    clusters: tuple[int, ...] = Field(
        (50, 200, 1000), min_length=1, description="Numbers of clusters: one clustering for each."
    )
    words: int = Field(
        60_000, ge=1, description="Largest number of words, the most frequent ones; others have no cluster."
    )
    seed: int = Field(0, ge=0, description="Seed of k-means and of the decomposition.")

    @model_validator(mode="after")
    def _sizes_differ(self) -> Self:
        if len(set(self.clusters)) != len(self.clusters) or min(self.clusters) < 2:
            raise ValueError("clusters: give different sizes of at least 2")
        return self


class CoOccurrenceSettings(ClusterSettings):
    """How words are put into clusters by the words that stand around them."""

    least_count: int = Field(5, ge=1, description="Least count of a word; rarer ones have no cluster.")
    contexts: int = Field(
        4_000, ge=1, description="Number of words, the most frequent ones, that are looked for around the others."
    )
    dimensions: int = Field(100, ge=1, description="Dimensions of the vector that stands for a word's contexts.")


class BrownSettings(Settings):
    """How words are put into a tree by the words that stand before and after them."""

    clusters: int = Field(
        320, ge=2, le=2_000, description="Number of classes that words are put into, the leaves of the tree."
    )
    prefixes: tuple[int, ...] = Field(
        (4, 6, 10, 20), min_length=1, description="Numbers of first bits: one clustering for each."
    )
    words: int = Field(
        60_000, ge=1, description="Largest number of words, the most frequent ones; others have no cluster."
    )
    least_count: int = Field(5, ge=1, description="Least count of a word; rarer ones have no cluster.")

    @model_validator(mode="after")
    def _lengths_differ(self) -> Self:
        if len(set(self.prefixes)) != len(self.prefixes) or not 1 <= min(self.prefixes) <= max(self.prefixes) <= 30:
            raise ValueError("prefixes: give different lengths of 1 to 30")
        return self


class AgreementSettings(Settings):
    """How strong the prior is that a document gets from what a model says elsewhere in the corpus."""

    scale: float = Field(0.2, ge=0, le=10, description="Factor of the log odds of a word's labels elsewhere.")
    tokens: float = Field(
        1.0, gt=0, le=1e6, description="Number of tokens that the shares of labels in the corpus stand for."
    )


class CpSatSettings(EngineSettings):
    """The whole lattice as one CP-SAT model."""

    deterministic_seconds: float = Field(
        20.0, gt=0, description="Limit of CP-SAT's deterministic time; a limit of work comes before it."
    )
    tolerance: float = Field(
        1e-6, gt=0, le=LARGEST_TOLERANCE, description="Largest gap, in nats, at which an answer counts as optimal."
    )
    most_tokens: int = Field(
        5_000,
        ge=1,
        description="Longest document that is modelled, in tokens; of longer ones the start and the chain's bound "
        "come back.",
    )


class SearchSettings(EngineSettings):
    """What the search engines share. A run's own budget, of seconds or of work, comes before ``work``."""

    work: int | None = Field(
        1_000_000, ge=1, description="Limit of work, unless the run sets one; null searches to the end."
    )


class DiscrepancySettings(SearchSettings):
    """Limited discrepancy search; defaults of Stokman (2011) table 6. Work is in expanded nodes."""

    branching: int = Field(3, ge=1, description="b: number of labels tried for a token in the first iteration.")
    branching_step: int = Field(1, ge=1, description="δb: how many labels more in each later iteration.")
    token_multiplier: float = Field(1.3, gt=0, description="α: discrepancy allowed for each token, in nats.")
    iteration_multiplier: float = Field(
        1.5, gt=1, description="m: factor by which that allowance grows with each iteration."
    )


class EvolutionSettings(SearchSettings):
    """Evolutionary search; defaults of Stokman (2011) table 6. Work is in labellings evaluated."""

    work: int | None = Field(
        20_000, ge=1, description="Limit of work, unless the run sets one; null breeds without end."
    )
    population: int = Field(30, ge=2, description="μ and λ: number of individuals, and of offspring in a generation.")
    mutation: float = Field(0.25, gt=0, le=1, description="β: fraction of offspring that mutate.")
    shift: float = Field(
        0.9, ge=0, le=1, description="ω: fraction of mutations that shift a border; the others flip a section."
    )
    pressure: float = Field(1.5, ge=1, le=2, description="s: selection pressure; 1 ignores rank.")
    hard_weight: float = Field(2.0, ge=0, description="γs: price of a hard constraint at first, in nats a unit.")
    hard_weight_step: float = Field(1.0, ge=0, description="γδ: how much that price rises in each generation.")
    branching: int = Field(3, ge=1, description="Number of labels tried for a token in the best-first start.")
    start_nodes: int = Field(20_000, ge=1, description="Largest number of nodes that the best-first start expands.")


class AnytimeSettings(EngineSettings):
    """Discrepancy search up to a length, evolution above; Stokman (2011) table 6."""

    tokens: int = Field(
        60, ge=0, description="Longest document for discrepancy search, in tokens; evolution takes longer ones."
    )
    discrepancy: DiscrepancySettings = DiscrepancySettings()
    evolution: EvolutionSettings = EvolutionSettings()


class AstarSettings(SearchSettings):
    """A*. Work is in expanded nodes."""

    nodes: int = Field(
        4_000_000, ge=1, description="Largest number of nodes in memory (28 bytes each); then the search gives up."
    )


class BeamSettings(EngineSettings):
    """Beam search. Work is in expanded nodes."""

    width: int = Field(50, ge=1, description="Number of partial labellings that are kept after each token.")


class CertifySettings(EngineSettings):
    """Certified inference: a sampler's answer, then a proof. Work is in what sampler and proof look at."""

    work: int | None = Field(
        1_000_000_000, ge=1, description="Limit of work, unless the run sets one; null proves to the end."
    )
    sampler: GibbsSettings = Field(
        GibbsSettings(sweeps=30, settle=False), description="Sampler of the first answer, where none is given."
    )
    rounds: int = Field(
        16, ge=0, description="Largest number of rounds of relaxing a document and sampling what is left."
    )
    tolerance: float = Field(
        1e-6, gt=0, le=LARGEST_TOLERANCE, description="Largest gap, in nats, at which a document counts as proven."
    )
    deterministic_seconds: float = Field(
        5.0, gt=0, description="Limit of CP-SAT's deterministic time for a component; where it ends, a gap is left."
    )
    nodes: int = Field(
        20_000, ge=1, description="Largest number of nodes of a search, where there are linear rows alone."
    )
    most_tokens: int = Field(
        2_500,
        ge=1,
        description="Largest component to be proven, in undecided tokens; a larger one keeps its answer and its gap.",
    )


class CspSettings(SearchSettings):
    """Weighted constraint satisfaction over candidate labels. Work is in expanded nodes."""

    candidates: int = Field(
        3, ge=1, description="Number of labels that a token may choose from; the paper's three trigrams name three."
    )
    margin: float = Field(10.0, ge=0, description="Largest loss, in nats, of the best labelling with a candidate.")


class WindowSettings(EngineSettings):
    """Dynamic programming over windows of labels. Work is in tokens."""

    width: int = Field(3, ge=2, le=8, description="Number of neighbouring tokens that a row may span to be searched.")
    states: int = Field(
        100_000,
        ge=1,
        le=10_000_000,
        description="Largest number of states of a token; beyond it windows are narrower.",
    )


class TwoStageSettings(CpSatSettings):
    """Fersini et al.'s two stages."""

    tau: float = Field(
        0.99, ge=0, le=1, description="τ: fraction of the local score, from worst to best, that stage two must keep."
    )
    violations: Literal["degree", "once"] = Field(
        "degree",
        description="Price of a broken row: its weight times its degree, or, however badly it breaks, once its weight.",
    )
