"""The base classes of constraint templates, and the site on which they ground.

A template is a settings class: its fields are the keys of a constraint file, and one method turns it into rows, a span
agreement or local scores. A label in a constraint is an exact label name (``B-PER``) or, in a BIO set, a type (``PER``:
both ``B-PER`` and ``I-PER``). If types are paths of fields, ``venue/*`` is a *level*: the type ``venue`` and all below
it (``venue/year``).

A *run* of some labels A is a labelled span seen through A: it opens at t if y_t ∈ A does not continue a token of A
(`LabelSet.continues`; tokens outside every span continue each other, and so do tokens of one level). A sentence
boundary always ends it.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property, lru_cache
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import BeforeValidator, Field, model_validator

from concord.schemas.arrays import Ints, Mask
from concord.schemas.document import TOKENS, Batch
from concord.schemas.errors import DocumentError
from concord.schemas.labels import LabelSet
from concord.schemas.names import nearest
from concord.schemas.potentials import LARGEST_WEIGHT, Potentials
from concord.schemas.problem import SpanAgreement
from concord.schemas.settings import Settings
from concord.workers.constraints.consistency import LONGEST_NAME, span_keys
from concord.workers.constraints.patterns import Pattern, Strings, matches, translated
from concord.workers.constraints.rows import ConstraintError, Draft, Part, always, edges_in, tokens_in
from concord.workers.storage.lined_yaml import Location

BELOW = "/*"
"""End of the name of a level."""

HARD_NAMES = ("hard", "inf", ".inf")
PUNCTUATION = r"[^\w\s]+"

MOST_ENTRIES = 8_000_000
"""Most entries of one constraint in one document (about 250 MB while they are laid out)."""


class TooLarge(NamedTuple):
    """A constraint with more than `MOST_ENTRIES` entries in a document.

    - ``entries``: number of its entries there.
    - ``doc_id``: the document.
    """

    entries: int
    doc_id: str

    @property
    def reason(self) -> str:
        """The end of a clause whose subject is the constraint."""
        return f"would have {self.entries:,} entries in document {self.doc_id!r}, where {MOST_ENTRIES:,} are the most"


def largest(parts: Iterable[Mapping[str, TooLarge]]) -> dict[str, TooLarge]:
    """For each name the one with the most entries; among equal ones the first."""
    by_name = dict[str, TooLarge]()
    for name, one in (named for part in parts for named in part.items()):
        if name not in by_name or one.entries > by_name[name].entries:
            by_name[name] = one
    return by_name


class TooLargeError(DocumentError):
    """A document in which a constraint is `TooLarge`."""

    def __init__(self, excess: TooLarge) -> None:
        super().__init__(
            f"{excess.entries} entries in one document, more than {MOST_ENTRIES}; narrow the constraint "
            "(scope: sentence, a reach, fewer tokens or labels) or split the document",
            excess.doc_id,
        )
        self.excess = excess


def _listed(value: Any) -> Any:
    """A name or a list of names as a tuple; YAML's numbers are names too."""
    if isinstance(value, str | int):
        return (str(value),)
    if isinstance(value, list | tuple):
        return tuple(str(v) if isinstance(v, int) else v for v in value)
    return value


def _in_nats(value: Any) -> float:
    """A weight in nats; only ``hard`` and a written infinity are hard, not a number that is too large."""
    if value in HARD_NAMES or value == math.inf:
        return math.inf
    try:
        nats = float(value)
    except (TypeError, ValueError, OverflowError):
        raise ValueError("want 'hard' or a number of nats") from None
    if not nats >= 0:
        raise ValueError("a weight is never below zero: want 'hard' or nats from 0 up")
    if nats > LARGEST_WEIGHT:
        raise ValueError(
            f"more than {LARGEST_WEIGHT:,.0f} nats, the largest weight; for what must not be broken 'hard'"
        )
    return nats


WrittenNames = str | int | Annotated[list[str | int], Field(min_length=1)]
"""How a file has names: one, or a list."""
WrittenWeight = Literal["hard"] | Annotated[float, Field(ge=0, le=LARGEST_WEIGHT)]
"""How a file has a weight."""

Names = Annotated[tuple[str, ...], BeforeValidator(_listed, json_schema_input_type=WrittenNames), Field(min_length=1)]
Weight = Annotated[float, Field(allow_inf_nan=True), BeforeValidator(_in_nats, json_schema_input_type=WrittenWeight)]
"""``hard``, or nats for each unit of degree, at most `LARGEST_WEIGHT`."""

Number = Annotated[float, Field(ge=-LARGEST_WEIGHT, le=LARGEST_WEIGHT, allow_inf_nan=False)]
"""A coefficient, a bound, or the nats of a local feature."""

LARGEST_COUNT = 2**31
Count = Annotated[int, Field(ge=-LARGEST_COUNT, le=LARGEST_COUNT)]
"""A number of tokens or runs, or a position, within the range that arrays hold."""


class Scope(StrEnum):
    """The part of a corpus that a constraint looks at as a whole."""

    DOCUMENT = "document"
    SENTENCE = "sentence"


class TokenTest(Settings):
    """A test of tokens: the string is one of ``words``, or as a whole matches ``pattern``.

    ``column`` is the token column that is tested. In a file a plain list stands for ``words``.
    """

    words: Annotated[tuple[str, ...], BeforeValidator(_listed, json_schema_input_type=WrittenNames)] = ()
    pattern: str | None = None
    column: str = TOKENS
    ignore_case: bool = True

    @model_validator(mode="after")
    def _something_to_match(self) -> TokenTest:
        if not self.words and self.pattern is None:
            raise ValueError("give words, a pattern, or both")
        if self.pattern is not None:
            translated(self.pattern, ignore_case=self.ignore_case)
        return self

    @cached_property
    def _known(self) -> frozenset[str]:
        return frozenset(w.casefold() for w in self.words) if self.ignore_case else frozenset(self.words)

    @cached_property
    def _translated(self) -> Pattern:
        return translated(self.pattern or "", ignore_case=self.ignore_case)

    def held(self, vocabulary: Vocabulary) -> Mask:
        """(V,) mask of the strings that pass."""
        if self.pattern is None:
            passed = np.zeros(len(vocabulary.strings), np.bool_)
        else:
            passed = matches(self._translated, vocabulary.for_patterns)
        if self.ignore_case:
            passed[[place for word in self._known for place in vocabulary.folds.get(word, ())]] = True
        else:
            passed[[vocabulary.index[word] for word in self._known if word in vocabulary.index]] = True
        return passed


def _as_test(value: Any) -> Any:
    return {"words": value} if isinstance(value, str | int | list | tuple) else value


Tokens = Annotated[TokenTest, BeforeValidator(_as_test, json_schema_input_type=WrittenNames | TokenTest)]


@lru_cache(maxsize=1024)
def label_mask(labels: LabelSet, names: tuple[str, ...]) -> Mask:
    """(L,) mask of the labels that ``names`` stand for. Raises `ConstraintError` for an unknown name."""
    mask = np.zeros(len(labels), np.bool_)
    for name in names:
        if name in labels.index:
            mask[labels.index[name]] = True
        elif name in labels.types:
            mask |= labels.type_of == labels.types.index(name)
        elif types := below(labels, name):
            mask |= np.isin(labels.type_of, types)
        else:
            every = dict.fromkeys([*labels.types, *levels(labels), *labels.names])
            raise ConstraintError(f"unknown label {name!r}{nearest(name, every)}")
    mask.setflags(write=False)
    return mask


def levels(labels: LabelSet) -> tuple[str, ...]:
    """Every level with several types, by its name in constraints."""
    paths = (kind.split("/") for kind in labels.types)
    names = sorted({"/".join(path[:depth]) + BELOW for path in paths for depth in range(1, len(path) + 1)})
    return tuple(name for name in names if len(below(labels, name)) > 1)


def below(labels: LabelSet, name: str) -> list[int]:
    """The types of a level; none if ``name`` names no level, or is the name of a type."""
    field = name.removesuffix(BELOW)
    kinds = () if name in (field, *labels.types) else enumerate(labels.types)
    return [i for i, kind in kinds if kind == field or kind.startswith(f"{field}/")]


@lru_cache(maxsize=64)
def same_run(labels: LabelSet) -> Mask:
    """(L, L) does label b, right after label a, belong to a's run?"""
    outside = labels.type_of < 0
    same: Mask = labels.continues | (np.eye(len(labels), dtype=np.bool_) & outside)
    return same


@lru_cache(maxsize=1024)
def opening_edges(labels: LabelSet, names: tuple[str, ...]) -> Mask:
    """(L, L) mask of the edges at whose second token a run of ``names`` opens."""
    inside = label_mask(labels, names)
    return inside[None, :] & ~(inside[:, None] & going_on(labels, names))


@lru_cache(maxsize=1024)
def closing_edges(labels: LabelSet, names: tuple[str, ...]) -> Mask:
    """(L, L) mask of the edges at whose first token a run of ``names`` ends."""
    inside = label_mask(labels, names)
    return inside[:, None] & ~(inside[None, :] & going_on(labels, names))


def going_on(labels: LabelSet, names: tuple[str, ...]) -> Mask:
    """(L, L) does label b, right after label a, belong to the same run: of a span, or of a level in ``names``?"""
    same = same_run(labels).copy()
    for name in names:
        if below(labels, name):
            inside = label_mask(labels, (name,))
            same |= np.outer(inside, inside)
    return same


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """The distinct strings of a column.

    - ``strings`` (V,): the strings.
    - ``of_token`` (N,): index of each token's string.
    """

    strings: list[str]
    of_token: Ints

    @cached_property
    def for_patterns(self) -> Strings:
        """(V,) the strings in the form that patterns are matched against."""
        return Strings.of(self.strings)

    @cached_property
    def index(self) -> dict[str, int]:
        """Index of each string."""
        return {string: i for i, string in enumerate(self.strings)}

    @cached_property
    def folds(self) -> dict[str, list[int]]:
        """Indices of all strings with the same case-folded form, by that form."""
        places: dict[str, list[int]] = {}
        for i, string in enumerate(self.strings):
            places.setdefault(string.casefold(), []).append(i)
        return places


@dataclass(frozen=True, eq=False)
class Site:
    """Documents to be grounded on, with arrays that several templates need.

    - ``batch``: the documents, with N tokens in all.
    - ``labels``: the label set.

    Positions are those of the batch.
    """

    batch: Batch
    labels: LabelSet

    def __len__(self) -> int:
        return self.batch.token_count

    def alone(self, i: int) -> Site:
        """Document i by itself."""
        return Site(self.batch.part(i, i + 1), self.labels)

    @cached_property
    def positions(self) -> Ints:
        """(N,) all positions."""
        return np.arange(len(self))

    @cached_property
    def document_of(self) -> Ints:
        """(N,) the document of each token."""
        return np.repeat(np.arange(len(self.batch)), np.diff(self.batch.doc_starts))

    @cached_property
    def starts_sentence(self) -> Mask:
        """(N,) mask of the first tokens of sentences."""
        starts = np.zeros(len(self), np.bool_)
        starts[self.batch.sentence_starts] = True
        return starts

    @cached_property
    def inner(self) -> Ints:
        """Positions with an edge into them: all but the first tokens of sentences."""
        return np.flatnonzero(~self.starts_sentence)

    def bounds(self, scope: Scope) -> tuple[Ints, Ints]:
        """First positions and exclusive ends of sentences, or of documents with tokens."""
        return self._bounds[scope]

    @cached_property
    def _bounds(self) -> dict[Scope, tuple[Ints, Ints]]:
        first, last = self.batch.doc_starts[:-1], self.batch.doc_starts[1:]
        filled = last > first
        starts = self.batch.sentence_starts
        return {
            Scope.DOCUMENT: (first[filled], last[filled]),
            Scope.SENTENCE: (starts, np.append(starts[1:], len(self))[: len(starts)]),
        }

    def segment(self, scope: Scope) -> Ints:
        """(N,) the sentence or document of each token, as an index into `bounds`."""
        return self._segments[scope]

    @cached_property
    def _segments(self) -> dict[Scope, Ints]:
        return {
            scope: np.repeat(np.arange(len(starts)), ends - starts) for scope, (starts, ends) in self._bounds.items()
        }

    def times(self, scope: Scope, *, counted: bool) -> Ints:
        """(N,) number of occurrences of ``label`` that one of ``implies`` makes up for, at each token.

        It is 1 if occurrences are ``counted`` against each other. Otherwise it is the number of tokens of the sentence
        or document, so that a single occurrence is enough.
        """
        starts, ends = self.bounds(scope)
        return np.ones(len(self), np.int64) if counted else (ends - starts)[self.segment(scope)]

    def ranges(self, home: Ints, low: Ints, high: Ints) -> tuple[Ints, Ints]:
        """All integers z with low[i] ≤ z < high[i], range by range: (K,) the range i of each, and (K,) z itself.

        Range i belongs to the document of token home[i]. Raises the errors of `check_size`.
        """
        length = np.maximum(high - low, 0)
        self._guard(home, length)
        owner = np.repeat(np.arange(len(low)), length)
        first = np.cumsum(length) - length
        return owner, np.arange(len(owner)) - first[owner] + low[owner]

    def check_size(self, draft: Draft) -> Draft:
        """The draft. Raises `TooLargeError` if it has more than `MOST_ENTRIES` entries in one document."""
        if sum(len(part.row) * len(part.after) for part in draft.parts) > MOST_ENTRIES:
            homes = [draft.home[part.row] for part in draft.parts]
            entries = [np.full(len(part.row), len(part.after)) for part in draft.parts]
            self._guard(np.concatenate(homes), np.concatenate(entries))
        return draft

    def _guard(self, home: Ints, entries: Ints) -> None:
        if entries.sum() <= MOST_ENTRIES:
            return
        totals = np.bincount(self.document_of[home], entries, len(self.batch))
        largest = int(totals.argmax())
        if totals[largest] > MOST_ENTRIES:
            raise TooLargeError(TooLarge(int(totals[largest]), self.batch.doc_ids[largest]))

    def mask(self, test: TokenTest | None) -> Mask:
        """(N,) mask of the tokens that pass; all if there is no test. Raises `ConstraintError` without the column."""
        if test is None:
            return np.ones(len(self), np.bool_)
        vocabulary = self._vocabulary(test.column)
        return test.held(vocabulary)[vocabulary.of_token]

    def _vocabulary(self, column: str) -> Vocabulary:
        """The part of a column's dictionary that these documents use."""
        if column in self._vocabularies:
            return self._vocabularies[column]
        columns = self.batch.columns
        if column not in columns:
            raise ConstraintError(f"document {self.batch.doc_ids[0]!r}: no column {column!r}{nearest(column, columns)}")
        codes, local = np.unique(columns[column].codes, return_inverse=True)
        values = columns[column].values
        self._vocabularies[column] = Vocabulary([values[i] for i in codes.tolist()], local)
        return self._vocabularies[column]

    @cached_property
    def _vocabularies(self) -> dict[str, Vocabulary]:
        return {}

    @cached_property
    def folded(self) -> Ints:
        """(N,) id of each token's word without case."""
        vocabulary = self._vocabulary(TOKENS)
        ids = np.empty(len(vocabulary.strings), np.int64)
        for i, places in enumerate(vocabulary.folds.values()):
            ids[places] = i
        return ids[vocabulary.of_token]

    @cached_property
    def words(self) -> list[str]:
        """(N,) the words without case."""
        folded = list(self._vocabulary(TOKENS).folds)
        return [folded[i] for i in self.folded.tolist()]

    @cached_property
    def keys(self) -> NDArray[np.int32]:
        """(N, LONGEST_NAME) span keys of one document, for all agreements that compare by words."""
        return span_keys(self.batch.columns[TOKENS].codes, self.batch.sentence_starts, LONGEST_NAME)

    def mask_of(self, names: tuple[str, ...]) -> Mask:
        """(L,) see `label_mask`."""
        return label_mask(self.labels, names)

    def openings(self, row: Ints, names: tuple[str, ...], coefficient: float | Ints = 1.0) -> tuple[Part, ...]:
        """coefficient · 1[a run of ``names`` opens at t] in row[t], for every token t; both are (N,)."""
        return self.opened(row, self.mask_of(names), opening_edges(self.labels, names), coefficient)

    def opened(self, row: Ints, labels: Mask, pairs: Mask, coefficient: float | Ints) -> tuple[Part, ...]:
        """The same for ``labels`` (L,) at the first tokens of sentences, and ``pairs`` (L, L) at all others."""
        return self.opened_at(row, self.positions, labels, pairs, coefficient)

    def opened_at(
        self, row: Ints, position: Ints, labels: Mask, pairs: Mask, coefficient: float | Ints
    ) -> tuple[Part, ...]:
        """The same at M positions: ``row``, ``position`` and a coefficient that is an array are (M,)."""
        starts = self.starts_sentence[position]
        first, inner = np.flatnonzero(starts), np.flatnonzero(~starts)
        return (
            tokens_in(row[first], position[first], labels, _of(coefficient, first)),
            edges_in(row[inner], position[inner], pairs, _of(coefficient, inner)),
        )


def _of(coefficient: float | Ints, position: Ints) -> float | Ints:
    return coefficient[position] if isinstance(coefficient, np.ndarray) else coefficient


class Template(Settings):
    """Base class of everything that a constraint file can declare.

    - ``name``: name in reports.
    - ``label_fields``: the fields that name labels.
    """

    name: Annotated[str, Field(min_length=1)] | None = None
    label_fields: ClassVar[tuple[str, ...]] = ("labels",)

    def named_labels(self) -> Iterator[tuple[Location, str]]:
        """Every label that this entry names, with its place in the entry."""
        for field in self.label_fields:
            names: Sequence[str] = getattr(self, field) or ()
            yield from (((field, i), name) for i, name in enumerate(names))

    def token_tests(self) -> Iterator[TokenTest]:
        """Every test of tokens in this entry."""
        yield from _tests_in(self)

    def check(self, labels: LabelSet) -> Iterator[tuple[Location, str]]:
        """Mistakes against the label set: place in the entry, and message."""
        for place, name in self.named_labels():
            try:
                label_mask(labels, (name,))
            except ConstraintError as error:
                yield place, str(error)


def _tests_in(value: object) -> Iterator[TokenTest]:
    if isinstance(value, TokenTest):
        yield value
    elif isinstance(value, tuple):
        for part in value:
            yield from _tests_in(part)
    elif isinstance(value, Settings):
        for _, part in value:
            yield from _tests_in(part)


class RowTemplate(Template):
    """A constraint that grounds to linear rows; ``weight`` is ``hard`` or nats for each unit of degree."""

    weight: Weight

    @abstractmethod
    def rows(self, site: Site) -> Draft:
        """The rows on all documents of the site."""

    def antecedent(self, site: Site) -> Draft:
        """The antecedents of `rows`, as rows of the same homes: a labelling has one if its Σ exceeds the bound.

        A row holds if its antecedent is missing ("pages are followed by a date" in a document without pages), but that
        is no evidence for it. By default the antecedent is the text itself, which every labelling has.
        """
        return always(self.rows(site).home)


class AgreementTemplate(Template):
    """A constraint over pairs of labelled spans; it names span types, not labels."""

    weight: Weight

    @abstractmethod
    def agreements(self, site: Site, constraint: int) -> tuple[SpanAgreement, ...]:
        """The span agreements on a site of one document, with their costs in nats; their degrees add up."""

    def to_count(self) -> Self:
        """The same constraint at 1 nat for each pair of spans that breaks it, so that breaches can be counted."""
        return self.model_copy(update={"weight": 1.0})

    def check(self, labels: LabelSet) -> Iterator[tuple[Location, str]]:
        """Mistakes against the label set: names that are no span types."""
        for place, name in self.named_labels():
            if name not in labels.types:
                yield place, f"unknown span type {name!r}{nearest(name, labels.types)}"


class FeatureTemplate(Template):
    """A local feature: ``weight`` nats, of either sign, are added to the potentials. It is no constraint."""

    weight: Number

    @abstractmethod
    def adjust(self, site: Site, potentials: Potentials) -> Potentials:
        """The potentials with this feature added."""
