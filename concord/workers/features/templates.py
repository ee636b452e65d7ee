"""Feature templates and the named feature sets.

A template is pure data, read by two paths that must agree: `workers.features.attributes` spells
its attributes out in Python for training, `workers.features.scorer` sums their weights from
tables. Every feature has the value 1. Most features look at one label; those of the parts ``pairs:…`` look at a token's
label and the one before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations
from pathlib import Path

from concord.schemas.document import TOKENS
from concord.schemas.errors import UsageError
from concord.schemas.layers import layer_columns
from concord.schemas.names import unknown
from concord.workers.features.clusters import Clusters, read_clusters
from concord.workers.features.extractors import EXTRACTORS, Extractor, Pieces
from concord.workers.features.gazetteers import (
    ENTITIES,
    GAZETTEER,
    GAZETTEER_COLUMNS,
    READINGS,
    SEEN_WORDS,
    Gazetteer,
    column_names,
)
from concord.workers.features.mentions import MENTION_COLUMNS
from concord.workers.features.word_vectors import VECTOR_OFFSETS, WordVectors
from concord.workers.parts import Group, Registry

BEFORE, AFTER = "<s>", "</s>"
"""Values of places before and after the sentence, for every extractor that gives exactly one value."""
POS = "pos"
CASE = "case"
"""Derived column: how the sentence is capitalised, see `workers.features.derived`."""
PLACE = "place"
"""Derived column: the token's tenth of its document."""
SIZE = "size"
"""Derived column: the number of tokens of the sentence, up to 12."""
OPENING = "opening"
"""Derived column: the first word of the sentence."""
EDGE = "edge"
"""Derived column: whether the token is the first or last one of its sentence."""
TOPIC = "topic"
"""Derived column: the document's first word in lower case; newswire opens with its desk's name."""


@dataclass(frozen=True)
class Source:
    """An extractor applied to a column."""

    column: str
    extractor: str = "same"
    clusters: Clusters | None = field(default=None, compare=False, repr=False)
    """Cluster file; if it is given, ``extractor`` is one of its clusterings."""

    @property
    def extract(self) -> Extractor:
        """The extractor itself."""
        return EXTRACTORS[self.extractor] if self.clusters is None else self.clusters.extractors[self.extractor]

    def __str__(self) -> str:
        return self.column if self.extractor == "same" else f"{self.column}.{self.extractor}"


@dataclass(frozen=True)
class Single:
    """All values of one column at one offset."""

    source: Source
    offset: int = 0

    @cached_property
    def name(self) -> str:
        """Distinct a template; attributes are ``name=value``."""
        return f"{self.source}[{self.offset}]"


@dataclass(frozen=True)
class Window:
    """The set of values at the offsets from ``first`` to ``last``, inside the sentence."""

    source: Source
    first: int
    last: int

    def __post_init__(self) -> None:
        _require_one_value(self.source)

    @cached_property
    def name(self) -> str:
        """Distinct a template; attributes are ``name=value``."""
        return f"{self.source}[{self.first}:{self.last}]"


@dataclass(frozen=True)
class Conjunction:
    """The values at several places, together."""

    places: tuple[tuple[Source, int], ...]

    def __post_init__(self) -> None:
        for source, _ in self.places:
            _require_one_value(source)

    @cached_property
    def name(self) -> str:
        """Distinct a template; attributes are ``name=value⟨separator⟩value…``."""
        return "|".join(f"{source}[{offset}]" for source, offset in self.places)


AttributeTemplate = Single | Window | Conjunction


def _require_one_value(source: Source) -> None:
    if source.extract.pieces is not Pieces.WHOLE:
        raise ValueError(f"{source}: windows and conjunctions need an extractor with one value")


@dataclass(frozen=True)
class FeatureSet:
    """A named list of templates."""

    name: str
    templates: tuple[AttributeTemplate, ...]
    clusters: tuple[Clusters, ...] = ()
    """The tables that templates of words' clusters read."""
    lists: Mapping[str, Gazetteer] = field(default_factory=dict)
    """Phrase lists that the templates read, by their names in `PHRASE_SETS`."""
    vectors: WordVectors | None = None
    """Word vectors that templates read."""
    pair_templates: tuple[AttributeTemplate, ...] = ()
    """Templates of attributes that are learned for pairs of neighbouring labels, not for single ones."""

    @cached_property
    def pairs(self) -> FeatureSet | None:
        """The feature set of pairs of neighbouring labels; None if there is none."""
        if not self.pair_templates:
            return None
        return FeatureSet(self.name, self.pair_templates, self.clusters, self.lists)

    @cached_property
    def template_names(self) -> tuple[str, ...]:
        """Names of all templates, in order; those of pairs begin with `OF_PAIRS`."""
        return (*(t.name for t in self.templates), *(OF_PAIRS + t.name for t in self.pair_templates))

    @cached_property
    def without_vectors(self) -> FeatureSet:
        """The set without templates of word vectors: those of features that have the value 1."""
        if self.vectors is None:
            return self
        table = self.vectors.table
        return replace(self, templates=tuple(t for t in self.templates if not _reads(t, table)), vectors=None)

    @cached_property
    def singles(self) -> tuple[Single, ...]:
        """The single templates, in order."""
        return tuple(t for t in self.templates if isinstance(t, Single))

    @cached_property
    def windows(self) -> tuple[Window, ...]:
        """The window templates, in order."""
        return tuple(t for t in self.templates if isinstance(t, Window))

    @cached_property
    def conjunctions(self) -> tuple[Conjunction, ...]:
        """The conjunctions, in order."""
        return tuple(t for t in self.templates if isinstance(t, Conjunction))

    @cached_property
    def conjoined(self) -> tuple[Source, ...]:
        """The distinct sources of all conjunctions, in order of first use."""
        return tuple(dict.fromkeys(source for c in self.conjunctions for source, _ in c.places))

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The columns the set reads for single labels, derived ones included, sorted."""
        sources = [*(t.source for t in self.singles), *(t.source for t in self.windows), *self.conjoined]
        return tuple(sorted({s.column for s in sources}))


def _reads(template: AttributeTemplate, table: Clusters) -> bool:
    return isinstance(template, Single) and template.source.clusters is table


WORD, LOWER = Source(TOKENS), Source(TOKENS, "lower")
SHAPE, PATTERN, DIGITS, KIND = (Source(TOKENS, e) for e in ("shape", "pattern", "digits", "kind"))
POS_TAG = Source(POS)


def _singles(source: Source, *offsets: int) -> tuple[AttributeTemplate, ...]:
    return tuple(Single(source, o) for o in offsets)


def _sequence(source: Source, *offsets: int) -> Conjunction:
    return Conjunction(tuple((source, o) for o in offsets))


def _pair(first: Source, offset: int, second: Source, other: int) -> Conjunction:
    return Conjunction(((first, offset), (second, other)))


def _sequences(source: Source, offsets: Sequence[tuple[int, ...]]) -> tuple[AttributeTemplate, ...]:
    return tuple(_sequence(source, *o) for o in offsets)


_NEIGHBOURS = ((-1, 0), (0, 1), (-1, 0, 1))
_NGRAMS, _ALL_NGRAMS = Source(TOKENS, "ngrams"), Source(TOKENS, "all-ngrams")


def _finkel(ngrams: Source, window: int) -> tuple[AttributeTemplate, ...]:
    """Finkel et al. (2005) table 2 without the tags: which substrings, and how many words of either side count.

    "Surrounding sequence" is read as the pairs and the triple around the current token.
    """
    return (
        *_singles(WORD, -1, 0, 1),
        Single(ngrams),
        *_singles(SHAPE, -1, 0, 1),
        *_sequences(SHAPE, _NEIGHBOURS),
        Window(WORD, -window, -1),
        Window(WORD, 1, window),
    )


FINKEL_WORDS = _finkel(_NGRAMS, 4)
"""The column of named entities; the paper takes substrings of all lengths there, these have 2 to 6 characters."""

FINKEL_TF = _finkel(_NGRAMS, 9)
"""The column of templates to fill, such as seminars: no tags, and nine words of either side."""

FINKEL_TAGS: tuple[AttributeTemplate, ...] = (*_singles(POS_TAG, -1, 0, 1), *_sequences(POS_TAG, _NEIGHBOURS))

CORE: tuple[AttributeTemplate, ...] = (
    *FINKEL_WORDS,
    *_singles(LOWER, -1, 0, 1),
    *_singles(PATTERN, -1, 0, 1),
    *_singles(DIGITS, -2, -1, 0, 1, 2),
)
"""Finkel's features of words, and the words in lower case, by their pattern and by their digits."""

SENTENCE: tuple[AttributeTemplate, ...] = (
    Single(Source(CASE)),
    _pair(Source(CASE), 0, SHAPE, 0),
    _pair(Source(CASE), 0, LOWER, 0),
    Single(Source(TOPIC)),
    _pair(Source(TOPIC), 0, SHAPE, 0),
    _pair(Source(TOPIC), 0, LOWER, 0),
    Conjunction(((Source(TOPIC), 0), (Source(CASE), 0), (PATTERN, 0))),
    _pair(Source(SIZE), 0, SHAPE, 0),
    _pair(Source(SIZE), 0, Source(CASE), 0),
    Conjunction(((Source(SIZE), 0), (Source(CASE), 0), (PATTERN, 0))),
    Single(Source(OPENING)),
    _pair(Source(OPENING), 0, PATTERN, 0),
)
"""Features of the token's sentence and document: capitals, length and first word tell sports tables, headlines and
datelines apart."""

RICH_WORDS: tuple[AttributeTemplate, ...] = CORE + SENTENCE

RICH_TAGS: tuple[AttributeTemplate, ...] = (*FINKEL_TAGS, *_singles(POS_TAG, -2, 2))

MENTIONS: tuple[AttributeTemplate, ...] = tuple(Single(Source(name)) for name in MENTION_COLUMNS)
"""Features of the word's other mentions in the document, see `workers.features.mentions`."""

FIELDS: tuple[AttributeTemplate, ...] = (
    *_singles(LOWER, -2, -1, 0, 1, 2),
    *_singles(DIGITS, -1, 0, 1),
    *_singles(SHAPE, -1, 0, 1),
    *_singles(KIND, -2, -1, 0, 1, 2),
    *_singles(Source(TOKENS, "prefixes"), 0),
    *_singles(Source(TOKENS, "suffixes"), -1, 0, 1),
    *_sequences(KIND, (*_NEIGHBOURS, (-2, -1, 0), (0, 1, 2))),
    *_sequences(LOWER, ((-1, 0), (0, 1))),
    _pair(LOWER, -1, KIND, 0),
    _pair(LOWER, 1, KIND, 0),
    Window(LOWER, -4, -1),
    Window(LOWER, 1, 4),
    Single(Source(PLACE)),
    Conjunction(((Source(PLACE), 0), (KIND, 0))),
)
"""Templates for citations and addresses: short documents of ordered fields, where marks and numbers are informative."""

KINDS: tuple[AttributeTemplate, ...] = (*_singles(KIND, -1, 0, 1), *_sequences(KIND, _NEIGHBOURS))
"""Classes of words at and beside the token. There are few, so that they tell well where one label follows another."""

FERSINI: tuple[AttributeTemplate, ...] = (*map(Single, (WORD, KIND, Source(EDGE), Source(f"{SEEN_WORDS}-only"))),)
"""Templates of Fersini et al. (2014) §4: word, class of the word, start and end of the text, and the word's counts by
label in the training documents (none: an unknown word). The paper's counts are values of features; here features are 0
or 1, so counts are once, twice, and three times or more. Its edges are a CRF's transitions."""

OWN: dict[str, tuple[AttributeTemplate, ...]] = {
    "finkel": FINKEL_WORDS + FINKEL_TAGS,
    "finkel-nopos": FINKEL_WORDS,
    "finkel-all": _finkel(_ALL_NGRAMS, 4) + FINKEL_TAGS,
    "finkel-tf": FINKEL_TF,
    "finkel-tf-all": _finkel(_ALL_NGRAMS, 9),
    "fersini": FERSINI,
    SEEN_WORDS: (Single(Source(f"{SEEN_WORDS}-only")),),
    "rich": RICH_WORDS + RICH_TAGS,
    "rich-nopos": RICH_WORDS,
    "fields": FIELDS,
    "core": CORE,
    "pos": RICH_TAGS,
    "kinds": KINDS,
    "sentence": SENTENCE,
    "mentions": MENTIONS,
}
"""Ours."""


def _wrong(part: object) -> str | None:
    """Reason why a feature set is not valid; None if it is."""
    if isinstance(part, tuple) and part and all(isinstance(one, AttributeTemplate) for one in part):
        return None
    return "want a tuple of feature templates: Single, Window or Conjunction"


FEATURE_SETS: Registry[tuple[AttributeTemplate, ...]] = Registry(Group.FEATURES, OWN, _wrong)
"""Feature sets by name; ``--features`` takes names joined by ``+``. A template of several sets is used once."""


OF_PAIRS = "pairs:"
"""Beginning of a part whose attributes, those of the part named behind it, are learned for pairs of labels."""
CLUSTERS = "clusters"
"""The part of a name that stands for `cluster_templates`."""
CLUSTER_OFFSETS = (-2, -1, 0, 1, 2)
VECTORS = "vectors"
"""The part of a name that stands for `vector_templates`."""


SUMMARIES = {
    "core": "the word, its substrings, shape, case and digits, and the words around it",
    "pos": "part-of-speech tags; needs the column pos",
    "sentence": "how the sentence is capitalised, its length and first word, the document's first word; for newswire",
    "mentions": "what the document says of the word elsewhere; for names",
    CLUSTERS: "groups of words that are used alike, from other texts; --clusters FILE names others than ours",
    VECTORS: "vectors of words, which others have learned from other texts; needs --vectors FILE",
    GAZETTEER: "phrases of lists that you have; needs --gazetteer FILE",
    f"{GAZETTEER}-cased": "the same where letters have the same case; needs --gazetteer FILE",
    ENTITIES: "names that are labelled in the training documents; for names",
    f"{ENTITIES}-cased": "the same where letters have the same case",
    "rich": "core+sentence+pos",
    "rich-nopos": "core+sentence",
    "finkel": "the features of Finkel et al. (2005); needs the column pos",
    "finkel-nopos": "the same without tags",
    "finkel-all": "the same as finkel, with substrings of all lengths",
    "finkel-tf": "the features of Finkel et al. (2005) for filling templates: no tags, nine words of either side",
    "finkel-tf-all": "the same with substrings of all lengths",
    "fersini": "the features of Fersini et al. (2014): the word, its class, its counts by label, the ends of sentences",
    SEEN_WORDS: "with which labels, and how often, the training documents have the word",
    "fields": "for citations and addresses: short documents of ordered fields",
    "kinds": "whether the word and its neighbours are capitalised, numbers or marks; for pairs:kinds",
    f"{OF_PAIRS}NAME": "the features of a set for pairs of labels: pairs:pos for chunks, pairs:kinds for citations",
}
"""Summaries of the feature sets, in the order in which users might try them."""
PAPER_SETS = frozenset({"finkel", "finkel-nopos", "finkel-all", "finkel-tf", "finkel-tf-all", "fersini"})
"""Feature sets that stand beside a paper's figures; users would choose another."""


class FeatureSetError(UsageError):
    """A feature set does not exist, or lacks a file or list that it needs."""


def cluster_templates(clusters: Sequence[Clusters]) -> tuple[AttributeTemplate, ...]:
    """Every clustering of every table, of the words around the token."""
    sources = [Source(TOKENS, extractor, table) for table in clusters for extractor in table.extractors]
    return tuple(Single(source, offset) for source in sources for offset in CLUSTER_OFFSETS)


def vector_templates(vectors: WordVectors) -> tuple[Single, ...]:
    """A feature of the row of each word at and beside the token, in the order of `VECTOR_OFFSETS`."""
    (extractor,) = vectors.table.extractors
    return tuple(Single(Source(TOKENS, extractor, vectors.table), offset) for offset in VECTOR_OFFSETS)


def list_templates(reading: str) -> tuple[AttributeTemplate, ...]:
    """Templates of a reading of a list: whole matches at and beside the token, and the roles of its word in phrases."""
    whole, *parts = map(Source, column_names(reading))
    return (*_singles(whole, -1, 0, 1), *map(Single, parts))


STATE_CLUSTERS = "states:"
"""Beginning of a part that reads clusters of an encoder's states, by their sizes."""


def state_column(size: int) -> str:
    """Name of the column of clusters of states, of so many clusters."""
    return f"state-{size}"


def state_templates(sizes: str) -> tuple[AttributeTemplate, ...]:
    """Every clustering of states, of the words around the token. Raises `FeatureSetError`."""
    numbers = sizes.split(",")
    if not all(number.isdecimal() for number in numbers):
        raise FeatureSetError(
            f"the feature set {STATE_CLUSTERS + sizes!r}: want numbers of clusters, such as states:50,200"
        )
    sources = (Source(state_column(int(number))) for number in numbers)
    return tuple(Single(source, offset) for source in sources for offset in CLUSTER_OFFSETS)


LAYER, LAYERS = "layer:", "layers:"
"""Beginnings of parts that read layers of the corpus: the labels of one alone, or what labels of several may mean."""
COPIED = "copied:"
"""Beginning of a part that reads the labels of one layer, copied as `workers.features.copies` says, and of the derived
column of them."""


def layers_part(names: Sequence[str]) -> str:
    """The part of a feature set's name that learns what the labels of these layers mean."""
    return LAYERS + ",".join(names)


def layer_templates(names: Sequence[str]) -> tuple[AttributeTemplate, ...]:
    """What the labels of layers at and beside the token may mean: with its shape and word, the tagger's grade of them,
    and the labels that other layers have there."""
    own: list[AttributeTemplate] = []
    for name in names:
        label, grade = Source(name), Source(layer_columns(name)[1])
        own += _singles(label, -1, 0, 1)
        own += _sequences(label, _NEIGHBOURS)
        own += (_pair(label, 0, other, 0) for other in (grade, KIND, SHAPE, LOWER))
    pairs = (_pair(Source(one), 0, Source(other), 0) for one, other in combinations(names, 2))
    return (*own, *pairs, *_singles(KIND, -1, 0, 1))


def lists_of(name: str) -> set[str]:
    """Names in `PHRASE_SETS` that the parts of a name read."""
    parts = [part.removeprefix(OF_PAIRS) for part in name.split("+")]
    columns = {c for part in parts for c in FeatureSet(part, FEATURE_SETS.get(part, ())).columns}
    readings = {GAZETTEER_COLUMNS[c] for c in columns if c in GAZETTEER_COLUMNS} | (READINGS.keys() & set(parts))
    return {READINGS[reading][0] for reading in readings}


def feature_set(
    name: str,
    clusters: Iterable[Path | str] = (),
    lists: Mapping[str, Gazetteer] | None = None,
    vectors: WordVectors | None = None,
) -> FeatureSet:
    """Templates of all parts of a name such as ``core+pos+mentions``, in order.

    - ``clusters``: cluster files of the part ``clusters``.
    - ``lists``: phrase lists, by the names of their parts in `PHRASE_SETS`.
    - ``vectors``: word vectors of the part ``vectors``.

    Raises `FeatureSetError`, and `ClusterFileError`.
    """
    parts, files = name.split("+"), list(clusters)
    own = [part for part in parts if not part.startswith(OF_PAIRS)]
    of_pairs = [part.removeprefix(OF_PAIRS) for part in parts if part.startswith(OF_PAIRS)]
    if not own:
        raise FeatureSetError(f"the feature set {name!r} is learned beside others; give --features core+{name}")
    if (CLUSTERS in (*own, *of_pairs)) != bool(files):
        raise FeatureSetError(
            f"the feature set {CLUSTERS!r} and a cluster file go together: give --features …+{CLUSTERS} and --clusters "
            "FILE, or none of both"
        )
    if VECTORS in of_pairs:
        raise FeatureSetError(f"the feature set {OF_PAIRS + VECTORS!r}: vectors are for single labels; leave it out")
    if (VECTORS in parts) != (vectors is not None):
        raise FeatureSetError(f"the feature set {VECTORS!r} and word vectors go together: give --vectors FILE")
    if twice := [file for place, file in enumerate(files) if file in files[:place]]:
        raise FeatureSetError(f"cluster file {twice[0]} is given twice; give it once")
    tables = tuple(read_clusters(Path(file), file=number) for number, file in enumerate(files, 1))
    given = lists or {}
    if odd := lists_of(name) ^ given.keys():
        raise FeatureSetError(f"the feature set {min(odd)!r} and its list of phrases go together: give both or none")
    own_templates, pair_templates = (_templates(some, tables, vectors) for some in (own, of_pairs))
    return FeatureSet(name, own_templates, tables, given, vectors, pair_templates)


def _templates(
    parts: Iterable[str], tables: Sequence[Clusters], vectors: WordVectors | None
) -> tuple[AttributeTemplate, ...]:
    return tuple(dict.fromkeys(template for part in parts for template in _part(part, tables, vectors)))


def _part(name: str, clusters: Sequence[Clusters], vectors: WordVectors | None) -> tuple[AttributeTemplate, ...]:
    if name == CLUSTERS and clusters:
        return cluster_templates(clusters)
    if name == VECTORS and vectors is not None:
        return vector_templates(vectors)
    if name not in FEATURE_SETS and name in READINGS:
        return list_templates(name)
    if name.startswith(STATE_CLUSTERS):
        return state_templates(name.removeprefix(STATE_CLUSTERS))
    if name.startswith((LAYER, LAYERS, COPIED)):
        return _layers(name)
    if name not in FEATURE_SETS:
        known = sorted({*FEATURE_SETS, CLUSTERS, VECTORS, *READINGS})
        raise FeatureSetError(f"{unknown('feature set', name, known)}; join several by +")
    return FEATURE_SETS[name]


def _layers(name: str) -> tuple[AttributeTemplate, ...]:
    """Templates of a part that names layers. Raises `FeatureSetError`."""
    rest = name.partition(":")[2]
    names, one = rest.split(","), not name.startswith(LAYERS)
    if not all(names) or len(set(names)) < len(names) or (one and len(names) > 1):
        raise FeatureSetError(
            f"the feature set {name!r}: want names of layers, each once, such as layers:spacy-sm,other"
        )
    if name.startswith(COPIED):
        return (Single(Source(name)),)
    return (Single(Source(names[0])),) if one else layer_templates(names)
