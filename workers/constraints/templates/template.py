"""What a constraint template is, and what it sees of documents when it grounds.

A template is a settings class: its fields are the keys of a constraint file, and one method turns
it into rows, a span agreement or local scores. A label in a constraint is an exact label name
(``B-PER``) or, in a BIO set, a type (``PER``: both ``B-PER`` and ``I-PER``). Of types that are paths of
fields, ``venue/*`` is a *level*: the type ``venue`` and all below it (``venue/year``).

A *run* of some labels A is a labelled span seen through A: it opens at t where y_t ∈ A does not
continue a token of A (`LabelSet.continues`; tokens outside every span continue each other, and so do
those of one level), and a sentence boundary always ends it.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property, lru_cache
from typing import Annotated, Any, ClassVar, NamedTuple, Self

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

BELOW = "/*"
"""What the name of a level ends in."""

HARD_NAMES = ("hard", "inf", ".inf")
PUNCTUATION = r"[^\w\s]+"

MOST_ENTRIES = 8_000_000
"""Entries one constraint may have in one document (about 250 MB while they are laid out)."""

Location = tuple[str | int, ...]


class TooLarge(NamedTuple):
    """So many entries, more than `MOST_ENTRIES`, that a constraint has in a document."""

    entries: int
    doc_id: str

    @property
    def reason(self) -> str:
        """What a clause says of itself that ends in this constraint."""
        return f"would have {self.entries:,} entries in document {self.doc_id!r}, where {MOST_ENTRIES:,} are the most"


def largest(parts: Iterable[Mapping[str, TooLarge]]) -> dict[str, TooLarge]:
    """The one with most entries of each name, the first of equals."""
    found = dict[str, TooLarge]()
    for name, one in (named for part in parts for named in part.items()):
        if name not in found or one.entries > found[name].entries:
            found[name] = one
    return found


class TooLargeError(DocumentError):
    """A constraint that is `TooLarge` in a document."""

    def __init__(self, found: TooLarge) -> None:
        super().__init__(
            f"{found.entries} entries in one document, more than {MOST_ENTRIES}; narrow the constraint "
            "(scope: sentence, a reach, fewer tokens or labels) or split the document",
            found.doc_id,
        )
        self.found = found


def _listed(value: Any) -> Any:
    """One name, or a list of them; YAML's numbers are names too."""
    if isinstance(value, str | int):
        return (str(value),)
    if isinstance(value, list | tuple):
        return tuple(str(v) if isinstance(v, int) else v for v in value)
    return value


def _in_nats(value: Any) -> float:
    """A weight; only ``hard`` and a written infinity are hard, not a number too large to be one."""
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


Names = Annotated[tuple[str, ...], BeforeValidator(_listed), Field(min_length=1)]
Weight = Annotated[float, Field(allow_inf_nan=True), BeforeValidator(_in_nats)]
"""``hard``, or nats a unit of degree, at most `LARGEST_WEIGHT`."""

Number = Annotated[float, Field(ge=-LARGEST_WEIGHT, le=LARGEST_WEIGHT, allow_inf_nan=False)]
"""A coefficient, a bound, or the nats of a local feature."""

LARGEST_COUNT = 2**31
Count = Annotated[int, Field(ge=-LARGEST_COUNT, le=LARGEST_COUNT)]
"""A number of tokens or runs, or a position: arrays hold no more."""


class Scope(StrEnum):
    """What a constraint speaks of as a whole."""

    DOCUMENT = "document"
    SENTENCE = "sentence"


class TokenTest(Settings):
    """Which tokens: those whose string is one of ``words``, or as a whole matches ``pattern``.

    ``column`` names the token column that is looked at. In a file a plain list stands for ``words``.
    """

    words: Annotated[tuple[str, ...], BeforeValidator(_listed)] = ()
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
        """(V,) which of the strings pass."""
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


Tokens = Annotated[TokenTest, BeforeValidator(_as_test)]


@lru_cache(maxsize=1024)
def label_mask(labels: LabelSet, names: tuple[str, ...]) -> Mask:
    """(L,) the labels that ``names`` stand for. Raises `ConstraintError` for an unknown one."""
    mask = np.zeros(len(labels), np.bool_)
    for name in names:
        if name in labels.index:
            mask[labels.index[name]] = True
        elif name in labels.types:
            mask |= labels.type_of == labels.types.index(name)
        elif types := below(labels, name):
            mask |= np.isin(labels.type_of, types)
        else:
            known = dict.fromkeys([*labels.types, *levels(labels), *labels.names])
            raise ConstraintError(f"unknown label {name!r}{nearest(name, known)}")
    mask.setflags(write=False)
    return mask


def levels(labels: LabelSet) -> tuple[str, ...]:
    """Every level that has several types, as constraints name it."""
    paths = (kind.split("/") for kind in labels.types)
    names = sorted({"/".join(path[:depth]) + BELOW for path in paths for depth in range(1, len(path) + 1)})
    return tuple(name for name in names if len(below(labels, name)) > 1)


def below(labels: LabelSet, name: str) -> list[int]:
    """The types of a level; none where ``name`` is not the name of one, or that of a type itself."""
    field = name.removesuffix(BELOW)
    kinds = () if name in (field, *labels.types) else enumerate(labels.types)
    return [i for i, kind in kinds if kind == field or kind.startswith(f"{field}/")]


@lru_cache(maxsize=64)
def same_run(labels: LabelSet) -> Mask:
    """(L, L) does label b right after label a belong to a's run?"""
    outside = labels.type_of < 0
    same: Mask = labels.continues | (np.eye(len(labels), dtype=np.bool_) & outside)
    return same


@lru_cache(maxsize=1024)
def opening_edges(labels: LabelSet, names: tuple[str, ...]) -> Mask:
    """(L, L) edges at whose second token a run of ``names`` opens."""
    inside = label_mask(labels, names)
    return inside[None, :] & ~(inside[:, None] & going_on(labels, names))


@lru_cache(maxsize=1024)
def closing_edges(labels: LabelSet, names: tuple[str, ...]) -> Mask:
    """(L, L) edges at whose first token a run of ``names`` ends."""
    inside = label_mask(labels, names)
    return inside[:, None] & ~(inside[None, :] & going_on(labels, names))


def going_on(labels: LabelSet, names: tuple[str, ...]) -> Mask:
    """(L, L) does label b right after label a belong to the same run, of a span or of a level that is named?"""
    same = same_run(labels).copy()
    for name in names:
        if below(labels, name):
            inside = label_mask(labels, (name,))
            same |= np.outer(inside, inside)
    return same


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """Distinct strings (V) of a column; ``of_token`` (N,) is each token's."""

    strings: list[str]
    of_token: Ints

    @cached_property
    def for_patterns(self) -> Strings:
        """(V,) the strings as patterns are matched against them."""
        return Strings.of(self.strings)

    @cached_property
    def index(self) -> dict[str, int]:
        """String → its place."""
        return {string: i for i, string in enumerate(self.strings)}

    @cached_property
    def folds(self) -> dict[str, list[int]]:
        """String without its case → the places of all strings that are it."""
        places: dict[str, list[int]] = {}
        for i, string in enumerate(self.strings):
            places.setdefault(string.casefold(), []).append(i)
        return places


@dataclass(frozen=True, eq=False)
class Site:
    """Documents about to be grounded on, with what several templates need of them.

    Positions are those of the batch, N tokens in all.
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
        """(N,) is this the first token of its sentence?"""
        starts = np.zeros(len(self), np.bool_)
        starts[self.batch.sentence_starts] = True
        return starts

    @cached_property
    def inner(self) -> Ints:
        """Positions that have an edge: all but the sentences' first tokens."""
        return np.flatnonzero(~self.starts_sentence)

    def bounds(self, scope: Scope) -> tuple[Ints, Ints]:
        """First positions and ends (exclusive) of what the scope speaks of: sentences, or documents with tokens."""
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
        """(N,) index of the sentence or document each token lies in, among those of `bounds`."""
        return self._segments[scope]

    @cached_property
    def _segments(self) -> dict[Scope, Ints]:
        return {
            scope: np.repeat(np.arange(len(starts)), ends - starts) for scope, (starts, ends) in self._bounds.items()
        }

    def times(self, scope: Scope, *, counted: bool) -> Ints:
        """(N,) how many occurrences of ``label`` one of ``implies`` at each token makes up for, in rows that imply.

        One where occurrences are ``counted`` against each other; else as many as its sentence or document has tokens,
        so that a single one is enough.
        """
        starts, ends = self.bounds(scope)
        return np.ones(len(self), np.int64) if counted else (ends - starts)[self.segment(scope)]

    def ranges(self, home: Ints, low: Ints, high: Ints) -> tuple[Ints, Ints]:
        """All integers z with low[i] ≤ z < high[i], range by range: (K,) the range i of each, and (K,) z itself.

        Range i is of the document of token home[i]. Raises as `check_size` does.
        """
        length = np.maximum(high - low, 0)
        self._guard(home, length)
        owner = np.repeat(np.arange(len(low)), length)
        first = np.cumsum(length) - length
        return owner, np.arange(len(owner)) - first[owner] + low[owner]

    def check_size(self, draft: Draft) -> Draft:
        """The draft; raises `TooLargeError` where it has more than `MOST_ENTRIES` entries in one document."""
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
        """(N,) tokens that pass; all where there is no test. Raises `ConstraintError` without the column."""
        if test is None:
            return np.ones(len(self), np.bool_)
        vocabulary = self._vocabulary(test.column)
        return test.held(vocabulary)[vocabulary.of_token]

    def _vocabulary(self, column: str) -> Vocabulary:
        """What these documents use of a column's dictionary."""
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
        """(N,) an id of each word without its case."""
        vocabulary = self._vocabulary(TOKENS)
        ids = np.empty(len(vocabulary.strings), np.int64)
        for i, places in enumerate(vocabulary.folds.values()):
            ids[places] = i
        return ids[vocabulary.of_token]

    @cached_property
    def words(self) -> list[str]:
        """(N,) the words without their case."""
        folded = list(self._vocabulary(TOKENS).folds)
        return [folded[i] for i in self.folded.tolist()]

    @cached_property
    def keys(self) -> NDArray[np.int32]:
        """(N, LONGEST_NAME) span contents of one document, for all agreements that compare by words."""
        return span_keys(self.batch.columns[TOKENS].codes, self.batch.sentence_starts, LONGEST_NAME)

    def mask_of(self, names: tuple[str, ...]) -> Mask:
        """(L,) see `label_mask`."""
        return label_mask(self.labels, names)

    def openings(self, row: Ints, names: tuple[str, ...], coefficient: float | Ints = 1.0) -> tuple[Part, ...]:
        """coefficient · 1[a run of ``names`` opens at t] in row[t], for every token t; both (N,)."""
        return self.opened(row, self.mask_of(names), opening_edges(self.labels, names), coefficient)

    def opened(self, row: Ints, labels: Mask, pairs: Mask, coefficient: float | Ints) -> tuple[Part, ...]:
        """The same for labels (L,) at sentences' first tokens, and edges (L, L) at all others."""
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
    """Base of everything a constraint file can declare. ``label_fields`` are the fields that name labels."""

    name: Annotated[str, Field(min_length=1)] | None = None
    label_fields: ClassVar[tuple[str, ...]] = ("labels",)

    def named_labels(self) -> Iterator[tuple[Location, str]]:
        """Every label this entry names, with where it stands in the entry."""
        for field in self.label_fields:
            names: Sequence[str] = getattr(self, field) or ()
            yield from (((field, i), name) for i, name in enumerate(names))

    def token_tests(self) -> Iterator[TokenTest]:
        """Every test of tokens in this entry."""
        yield from _tests_in(self)

    def check(self, labels: LabelSet) -> Iterator[tuple[Location, str]]:
        """What does not fit the label set: (where in the entry, what is wrong)."""
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
    """A constraint that grounds to linear rows; ``weight`` is ``hard`` or nats a unit of degree."""

    weight: Weight

    @abstractmethod
    def rows(self, site: Site) -> Draft:
        """The rows on all documents of the site."""

    def antecedent(self, site: Site) -> Draft:
        """What each of `rows` speaks of, as a row of the same home: a labelling has it where Σ is beyond the bound.

        A row holds where its antecedent is missing ("pages are followed by a date" in a document without pages), but
        that says nothing for it. Here every labelling has it: what rows speak of by default is the text.
        """
        return always(self.rows(site).home)


class AgreementTemplate(Template):
    """A constraint over pairs of labelled spans; it names span types, not labels."""

    weight: Weight

    @abstractmethod
    def agreements(self, site: Site, constraint: int) -> tuple[SpanAgreement, ...]:
        """The span agreements, with their costs in nats, on a site of one document; degrees add up."""

    def to_count(self) -> Self:
        """The same constraint where a pair of spans that breaks it costs 1 nat, so that one sees what breaks it."""
        return self.model_copy(update={"weight": 1.0})

    def check(self, labels: LabelSet) -> Iterator[tuple[Location, str]]:
        """Names that are no span type."""
        for place, name in self.named_labels():
            if name not in labels.types:
                yield place, f"unknown span type {name!r}{nearest(name, labels.types)}"


class FeatureTemplate(Template):
    """A local feature: ``weight`` nats, of either sign, added to the potentials. No constraint."""

    weight: Number

    @abstractmethod
    def adjust(self, site: Site, potentials: Potentials) -> Potentials:
        """The potentials with this feature added."""
