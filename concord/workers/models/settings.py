"""Options by which models are trained, calibrated and read; a model folder keeps its own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, field_validator, model_validator

from concord.schemas.settings import Settings, TrainerSettings


class FeatureSettings(TrainerSettings):
    """Options of every CRF trainer: the feature sets and the files that they read."""

    files: ClassVar[tuple[str, ...]] = ("clusters", "gazetteers")
    learns_pairs: ClassVar[bool] = False
    """Can features be learned for pairs of labels?"""

    features: str = Field(
        "core+mentions+clusters+entities",
        description="Feature sets, joined by +; `concord list features` has them.",
    )
    clusters: tuple[str, ...] | None = Field(
        None,
        description="Cluster files for the feature set clusters, told apart by their order; glove stands for the table "
        "that comes with concord (default: glove alone).",
    )
    gazetteers: tuple[str, ...] = Field((), description="Files of phrases and types for the feature set gazetteer.")
    layers: tuple[str, ...] = Field(
        (),
        description="Layers of the corpus, see `concord import entities`, whose labels the model learns to read; alone "
        "or beside the features, whichever is better on held-out documents.",
    )

    @property
    def reads_word_table(self) -> bool:
        """Do the features read clusters, of which no file is given? Then these are those that come with concord."""
        return self.clusters is None and "clusters" in self.features.replace("pairs:", "").split("+")

    @field_validator("clusters", mode="before")
    @classmethod
    def _one_is_a_list(cls, files: Any) -> Any:
        return (str(files),) if isinstance(files, str | Path) else files or None


class ChainLabelSettings(FeatureSettings):
    """Option of trainers of linear chains: the labels inside the model."""

    scheme: Literal["corpus", "bilou"] = Field(
        "corpus",
        description="Labels inside the model: the corpus's, or BILOU, which also tell where an entity ends; answers "
        "are BIO either way.",
    )


class CrfSettings(ChainLabelSettings):
    """Options of training a CRF by python-crfsuite: features, and options of CRFsuite's L-BFGS."""

    c1: float = Field(0.0, ge=0, description="Weight of the L1 prior; above 0 it drops features.")
    c2: float = Field(0.1, ge=0, description="Weight of the quadratic prior: c2 · Σ w².")
    max_iterations: int = Field(100, ge=1, description="Largest number of iterations of L-BFGS.")
    min_freq: float = Field(0.0, ge=0, description="Least count of a feature; rarer ones are dropped.")
    all_possible_transitions: bool = Field(
        True, description="Give weights to label pairs that training never saw, too."
    )
    all_possible_states: bool = Field(
        True, description="Give weights to pairs of attribute and label that training never saw, too."
    )


class FittingSettings(ChainLabelSettings):
    """Options shared by concord's own trainers of chains: features that have a weight, and weights to start from."""

    files: ClassVar[tuple[str, ...]] = (*FeatureSettings.files, "start_from")
    learns_pairs: ClassVar[bool] = True

    min_freq: float = Field(0.0, ge=0, description="Least count of a feature; rarer ones are dropped.")
    all_possible_transitions: bool = Field(
        True, description="Give weights to label pairs that training never saw, too."
    )
    all_possible_states: bool = Field(
        True, description="Give weights to pairs of attribute and label that training never saw, too."
    )
    start_from: str | None = Field(
        None, description="Folder of a model whose weights training starts from, matched by the names of features."
    )


class PerceptronSettings(FittingSettings):
    """Options of training an averaged perceptron, by itself or under constraints."""

    files: ClassVar[tuple[str, ...]] = (*FittingSettings.files, "constraints")

    passes: int = Field(10, ge=1, description="Number of passes over all sentences.")
    seed: int = Field(0, ge=0, description="Seed of the order of sentences, or documents.")
    constraints: str | None = Field(
        None, description="Constraint file under which documents are decoded during training."
    )
    learn: Literal["cibt", "wcibt"] = Field(
        "wcibt",
        description="With constraints: cibt keeps their weights; wcibt learns the weights of rows, from 0, along "
        "with the model, and writes them to constraints.yaml in its folder.",
    )
    engine: str = Field(
        "certify",
        description="With constraints: engine that decodes documents during training, such as certify or beam.",
    )
    known_labels_only: bool = Field(
        default=False,
        description="With constraints: leave out those that name a label which the training documents lack? Otherwise "
        "they are an error.",
    )
    relaxed_weight: float = Field(
        50.0,
        gt=0,
        description="With constraints: price of hard ones in a document that cannot keep them all, in nats a unit.",
    )

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        if self.constraints is not None and self.scheme != "corpus":
            raise ValueError("scheme: under constraints a perceptron learns the corpus's labels; leave out one of both")
        return self

    @property
    def learning(self) -> str:
        """``cibt`` or ``wcibt`` under constraints."""
        return super().learning if self.constraints is None else self.learn


class PriorSettings(FeatureSettings):
    """Option of trainers that minimise concord's own objective: its quadratic prior, which is the only one."""

    c2: float = Field(0.3, ge=0, description="Weight of the quadratic prior: c2 · Σ w².")

    @model_validator(mode="before")
    @classmethod
    def _no_l1_prior(cls, given: Any) -> Any:
        if isinstance(given, Mapping) and "c1" in given:
            raise ValueError("c1: this trainer has no L1 prior; give --trainer crfsuite, which has one")
        return given


class GradientSettings(FittingSettings, PriorSettings):
    """Options shared by the gradient-based trainers of a linear-chain CRF."""


class LimitSettings(TrainerSettings):
    """Stopping rules of L-BFGS, which evaluates all sentences before each step."""

    max_iterations: int = Field(100, ge=1, description="Largest number of iterations.")
    decrease: float = Field(
        1e-5, ge=0, description="Fraction of the loss; training ends when ten iterations lower it by less."
    )
    gradient: float = Field(
        1e-5,
        ge=0,
        description="Fraction of the length of the weight vector; training ends when the gradient is shorter.",
    )


class EncoderSettings(FeatureSettings):
    """Options of a CRF beside a frozen encoder, whose head adds to its scores."""

    encoder: str | None = Field(
        None,
        description="Folder of a transformer in ONNX that gives states of words (model.onnx, tokenizer.json), or a "
        "name of `concord list resources`: what it knows of words from other texts is put beside the features. It is "
        "not trained.",
    )
    share: float | None = Field(
        None,
        ge=0,
        le=10,
        description="With an encoder: weight of what it says (default: chosen on held-out documents).",
    )
    state_clusters: tuple[int, ...] = Field(
        (),
        description="With an encoder: numbers of clusters of its states; each gives features of a word and its "
        "neighbours, such as 50,200,1000.",
    )
    head_c2: float = Field(30.0, ge=0, description="With an encoder: weight of the quadratic prior of its head.")
    head_iterations: int = Field(60, ge=1, description="With an encoder: largest number of iterations of its head.")

    @model_validator(mode="after")
    def _clusters_are_of_states(self) -> Self:
        sizes = self.state_clusters
        if sizes and self.encoder is None:
            raise ValueError("state_clusters: they are of an encoder's states; give an encoder, too")
        if len(set(sizes)) < len(sizes) or min(sizes, default=2) < 2:
            raise ValueError("state_clusters: give different numbers of at least 2")
        return self


class VectorSettings(FeatureSettings):
    """Options of word vectors beside the features."""

    files: ClassVar[tuple[str, ...]] = ("vectors", "vector_index")

    vectors: str | None = Field(
        None,
        description="File of word vectors, such as GloVe's or word2vec's, or a name of `concord list resources`; they "
        "are put beside the features.",
    )
    vector_index: str | None = Field(
        None,
        description="With vectors of NumPy (.npy): file of their words, where it has not the same name as they have.",
    )
    vector_words: int = Field(
        100_000, ge=1, description="With vectors: largest number of words, the first ones of the file."
    )
    vector_scale: float = Field(
        0.2, gt=0, le=100, description="With vectors: standard deviation of their numbers beside features, which are 1."
    )


class LbfgsSettings(EncoderSettings, LimitSettings, GradientSettings):
    """Options of training a CRF by L-BFGS."""

    files: ClassVar[tuple[str, ...]] = (*GradientSettings.files, "encoder")


class SemiCrfSettings(LimitSettings, PriorSettings):
    """Options of training a semi-Markov CRF by L-BFGS, and of its token scores for engines."""

    longest: int = Field(100, ge=1, description="Longest segment, in tokens; longer training segments are cut.")
    min_whole: int = Field(
        1,
        ge=1,
        description="Least count, in training segments, of a whole segment's words or pattern; rarer ones are dropped.",
    )
    scores: Literal["best", "marginals"] = Field(
        "best",
        description="Token scores given to engines: max-marginals (0 for the best segmentation, negative otherwise), "
        "or logarithms of marginal probabilities.",
    )


class DescentSettings(GradientSettings):
    """Options shared by trainers by stochastic gradient descent: one step for each sentence, on one core."""

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
    dropout: float = Field(0.3, ge=0, lt=1, description="Fraction of each token's features that a step leaves out.")
    seed: int = Field(0, ge=0, description="Seed of the order of sentences and of dropout.")

    @property
    def quick(self) -> Self:
        """Ten passes without dropout, whose place a stronger prior takes."""
        few = {"passes": 10, "dropout": 0.0, "c2": 0.3, "decay": 0.85}
        return self.model_copy(update={name: few[name] for name in few.keys() - self.model_fields_set})


class SgdSettings(EncoderSettings, VectorSettings, DescentSettings):
    """Options of training a CRF by stochastic gradient descent."""

    files: ClassVar[tuple[str, ...]] = (*DescentSettings.files, "encoder", *VectorSettings.files)

    @model_validator(mode="after")
    def _vectors_begin_anew(self) -> Self:
        if self.start_from is not None and self.vectors is not None:
            raise ValueError("start_from: a model's weights do not say those of vectors; leave out one of both")
        return self


class EnsembleSettings(SgdSettings):
    """Options of training several CRFs by stochastic gradient descent, whose weights are averaged."""

    members: int = Field(6, ge=2, description="Number of models that are averaged.")
    dropout: float = Field(0.5, ge=0, lt=1, description="Fraction of each token's features that a step leaves out.")
    seed: int = Field(0, ge=0, description="Seed of the first model; the others have the numbers after it.")


class CountingSettings(TrainerSettings):
    """Options shared by the trainers that count instead of optimising."""

    labels: tuple[str, ...] = Field((), description="Further labels, which the labelled documents may lack.")


class HmmSettings(CountingSettings):
    """Options of counting a hidden Markov model, and of learning further from unlabelled documents."""

    corpora: ClassVar[tuple[str, ...]] = ("pool",)

    pool: str | None = Field(None, description="Second corpus to learn from; its labels, if it has any, are not read.")
    em: Literal["soft", "hard"] = Field(
        "soft",
        description="How an unlabelled token is counted: under all labels by probability, or under the best one.",
    )
    mixing: Literal["models", "counts"] = Field(
        "models", description="Mixture of the corpora: of the probabilities learned from each, or of their counts."
    )
    gamma: float = Field(0.9, ge=0, le=1, description="With mixing=models: share of the model of labelled documents.")
    weight: float = Field(0.1, gt=0, le=1, description="With mixing=counts: weight of an unlabelled token.")
    iterations: int = Field(10, ge=1, description="Largest number of cycles, each of which labels the pool.")
    change: float = Field(
        1e-4, ge=0, description="Change of the loss, in nats a token; learning ends when it is smaller."
    )

    @model_validator(mode="after")
    def _has_what_it_mixes(self) -> Self:
        changed = {name for name, field in HmmSettings.model_fields.items() if getattr(self, name) != field.default}
        if self.pool is None and changed - {"labels"}:
            raise ValueError(f"{', '.join(sorted(changed - {'labels'}))}: give a pool, too")
        return self


class TaggersSettings(DescentSettings):
    """Options of learning from layers (taggers' answers) without gold labels."""

    learns_pairs: ClassVar[bool] = False

    features: str = Field("core+mentions", description="Feature sets, joined by +; `concord list features` has them.")
    layers: tuple[str, ...] = Field(
        (), description="Layers of the corpus, see `concord import entities`, to learn from; none given: all of them."
    )
    words: bool = Field(
        default=True, description="Learn from the words what the taggers agree on? Otherwise the layers alone are read."
    )
    evidence: float = Field(
        0.5, ge=0, le=1, description="With words: share of the taggers' own evidence beside what the words say."
    )
    prior: float = Field(
        4.0,
        gt=0,
        description="Strength of the prior that a tagger is mostly right, as a multiple of the tokens that it marks.",
    )
    iterations: int = Field(30, ge=1, description="Largest number of iterations of expectation maximisation.")
    change: float = Field(
        1e-4, ge=0, description="Change of the loss, in nats a token; learning ends when it is smaller."
    )
    passes: int | None = Field(
        5,
        ge=1,
        description="Number of passes over all sentences to learn from the words; few, so that errors stay out.",
    )
    dropout: float = Field(0.7, ge=0, lt=1, description="Fraction of each token's features that a step leaves out.")

    @model_validator(mode="after")
    def _begins_with_the_taggers(self) -> Self:
        if self.scheme != "corpus":
            raise ValueError("scheme: this trainer learns the labels that the taggers give; leave it out")
        if self.start_from is not None:
            raise ValueError("start_from: this trainer begins with what the taggers say; leave it out")
        if self.passes is None:
            raise ValueError("passes: give a number")
        return self


class CandidatesSettings(TrainerSettings):
    """Options of a model of candidate spans."""

    layers: tuple[str, ...] = Field(
        (),
        max_length=1,
        description="Layer of the corpus with candidates, see `concord import entities --candidates` (default: the "
        "only one that has some).",
    )


class ScoresSettings(Settings):
    """Another tagger's scores in a column of the corpus: its name, its labels, and how scores become nats."""

    labels: tuple[Annotated[str, Field(min_length=1)], ...] = Field(
        min_length=1, description="Labels, in the order of the scores."
    )
    column: str = Field(
        "scores", min_length=1, description="Column of the corpus with a list of scores for each token."
    )
    form: Literal["log-probabilities", "logits"] = Field(
        "log-probabilities", description="Kind of the scores; logits are turned into log-probabilities (log-softmax)."
    )
    temperature: float = Field(1.0, ge=0.01, le=100, description="Temperature: the scores are divided by it.")
    scheme: Literal["auto", "plain"] = Field(
        "auto",
        description="Label scheme: 'auto' reads it from the labels' prefixes; 'plain' takes each label as a type.",
    )

    @model_validator(mode="after")
    def _labels_differ(self) -> Self:
        if len(set(self.labels)) != len(self.labels):
            raise ValueError("a label is there twice")
        return self


Fit = Literal["auto", "both", "temperature", "transitions", "neither"]
"""Numbers that calibration learns."""


class CalibrationSettings(Settings):
    """Options of calibration on labelled documents, besides the scales of label consistency."""

    fit: Fit = Field(
        "auto",
        description="The numbers that are learned: of a model of another tagger's scores, 'auto' chooses them by "
        "cross-validation; another model has a temperature alone.",
    )
    c2: float = Field(1.0, ge=0, description="Weight of the quadratic prior of transitions: c2 · Σ w².")

    @property
    def fits_temperature(self) -> bool:
        """Is a temperature learned?"""
        return self.fit in ("auto", "both", "temperature")
