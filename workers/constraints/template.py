"""What a constraint template is, and what it sees of a document when it grounds.

A template is a settings class: its fields are the keys of a constraint file, and one method turns
it into rows, a span agreement or local scores. A label in a constraint is an exact label name
(``B-PER``) or, in a BIO set, a type (``PER``: both ``B-PER`` and ``I-PER``).

A *run* of some labels A is a labelled span seen through A: it opens at t where y_t ∈ A does not
continue a token of A (`LabelSet.continues`; tokens outside every span continue each other), and a
sentence boundary always ends it.
"""

from __future__ import annotations

import difflib
import re
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property, lru_cache
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import BeforeValidator, Field, FiniteFloat, model_validator

from schemas.document import TOKENS, Document
from schemas.labels import LabelSet
from schemas.potentials import Potentials
from schemas.problem import LinearRows, SpanAgreement
from schemas.settings import Settings
from workers.constraints.consistency import WIDTH, span_keys
from workers.constraints.rows import ConstraintError, Ints, Mask, Part, edges_in, tokens_in

HARD = "hard"
PUNCTUATION = r"[^\w\s]+"
Location = tuple[str | int, ...]


def nearest(word: str, known: Iterable[str]) -> str:
    """``; did you mean 'x'?`` or the list of what there is."""
    names = list(known)
    lowered = {name.lower(): name for name in reversed(names)}
    close = difflib.get_close_matches(word.lower(), list(lowered), n=1, cutoff=0.6)
    if close:
        return f"; did you mean {lowered[close[0]]!r}?"
    return f"; there are {', '.join(names)}"


def _listed(value: Any) -> Any:
    """One name, or a list of them; YAML's numbers are names too."""
    if isinstance(value, str | int):
        return (str(value),)
    if isinstance(value, list | tuple):
        return tuple(str(v) if isinstance(v, int) else v for v in value)
    return value


def _in_nats(value: Any) -> float:
    try:
        nats = float("inf") if value == HARD else float(value)
    except (TypeError, ValueError):
        raise ValueError("want 'hard' or a number of nats") from None
    if not nats >= 0:
        raise ValueError("a weight is never below zero: want 'hard' or nats from 0 up")
    return nats


Names = Annotated[tuple[str, ...], BeforeValidator(_listed), Field(min_length=1)]
Weight = Annotated[float, BeforeValidator(_in_nats)]
"""``hard``, or nats a unit of degree."""


class Scope(StrEnum):
    """What a constraint speaks of as a whole."""

    DOCUMENT = "document"
    SENTENCE = "sentence"


class TokenTest(Settings):
    """Which tokens: those whose string is one of ``words`` or matches all of ``pattern``.

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
        try:
            re.compile(self.pattern or "")
        except re.error as error:
            raise ValueError(f"pattern {self.pattern!r} is no regular expression: {error}") from None
        return self

    @cached_property
    def _known(self) -> frozenset[str]:
        return frozenset(w.casefold() for w in self.words) if self.ignore_case else frozenset(self.words)

    @cached_property
    def _compiled(self) -> re.Pattern[str]:
        return re.compile(self.pattern or r"(?!)", re.IGNORECASE if self.ignore_case else 0)

    def held(self, strings: Sequence[str], folded: Sequence[str]) -> Mask:
        """(V,) which of the strings pass; ``folded`` are the same without case."""
        passed = np.fromiter(map(self._known.__contains__, folded if self.ignore_case else strings), np.bool_)
        if self.pattern is not None:
            passed |= np.fromiter((self._compiled.fullmatch(s) is not None for s in strings), np.bool_)
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
        else:
            known = dict.fromkeys([*labels.types, *labels.names])
            raise ConstraintError(f"unknown label {name!r}{nearest(name, known)}")
    mask.setflags(write=False)
    return mask


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
    return inside[None, :] & ~(inside[:, None] & same_run(labels))


@lru_cache(maxsize=1024)
def closing_edges(labels: LabelSet, names: tuple[str, ...]) -> Mask:
    """(L, L) edges at whose first token a run of ``names`` ends."""
    inside = label_mask(labels, names)
    return inside[:, None] & ~(inside[None, :] & same_run(labels))


class Used(NamedTuple):
    """Distinct strings (V) of a column, as they are and without case; ``of_token`` (N,) is each token's."""

    strings: list[str]
    folded: list[str]
    of_token: Ints


@dataclass(frozen=True, eq=False)
class Site:
    """A document about to be grounded on, with what several templates need of it."""

    document: Document
    labels: LabelSet

    def __len__(self) -> int:
        return len(self.document)

    @cached_property
    def positions(self) -> Ints:
        """(N,) all positions."""
        return np.arange(len(self.document))

    @cached_property
    def starts_sentence(self) -> Mask:
        """(N,) is this the first token of its sentence?"""
        starts = np.zeros(len(self.document), np.bool_)
        starts[self.document.sentence_starts] = True
        return starts

    @cached_property
    def inner(self) -> Ints:
        """Positions that have an edge: all but the sentences' first tokens."""
        return np.flatnonzero(~self.starts_sentence)

    def bounds(self, scope: Scope) -> tuple[Ints, Ints]:
        """First positions and ends (exclusive) of what the scope speaks of: sentences, or the document."""
        if scope is Scope.SENTENCE:
            starts = self.document.sentence_starts
            return starts, np.append(starts[1:], len(self)) if len(starts) else starts
        size = len(self)
        return np.zeros(min(size, 1), np.int64), np.full(min(size, 1), size, np.int64)

    def segment(self, scope: Scope) -> Ints:
        """(N,) index of the sentence (or of the one document) each token lies in."""
        starts, ends = self.bounds(scope)
        return np.repeat(np.arange(len(starts)), ends - starts)

    def mask(self, test: TokenTest | None) -> Mask:
        """(N,) tokens that pass; all where there is no test. Raises `ConstraintError` without the column."""
        if test is None:
            return np.ones(len(self), np.bool_)
        used = self._used(test.column)
        return test.held(used.strings, used.folded)[used.of_token]

    def _used(self, column: str) -> Used:
        """What this document uses of a column's dictionary."""
        if column in self._columns:
            return self._columns[column]
        if column not in self.document.columns:
            raise ConstraintError(
                f"document {self.document.doc_id!r} has no column {column!r}{nearest(column, self.document.columns)}"
            )
        encoded = self.document.columns[column]
        codes, local = np.unique(encoded.codes, return_inverse=True)
        strings = [encoded.values[i] for i in codes.tolist()]
        self._columns[column] = Used(strings, [s.casefold() for s in strings], local)
        return self._columns[column]

    @cached_property
    def _columns(self) -> dict[str, Used]:
        return {}

    @cached_property
    def folded(self) -> Ints:
        """(N,) an id of each word without its case."""
        used = self._used(TOKENS)
        ids: dict[str, int] = {}
        table = np.fromiter((ids.setdefault(word, len(ids)) for word in used.folded), np.int64, len(used.folded))
        return table[used.of_token]

    @cached_property
    def words(self) -> list[str]:
        """(N,) the words without their case."""
        used = self._used(TOKENS)
        return [used.folded[i] for i in used.of_token.tolist()]

    @cached_property
    def keys(self) -> NDArray[np.int32]:
        """(N, WIDTH) one table of span contents for all agreements that compare by words."""
        return span_keys(self.document.columns[TOKENS].codes, self.document.sentence_starts, WIDTH)

    def mask_of(self, names: tuple[str, ...]) -> Mask:
        """(L,) see `label_mask`."""
        return label_mask(self.labels, names)

    def openings(
        self, row: Ints, position: Ints, names: tuple[str, ...], coefficient: float | Ints = 1.0
    ) -> list[Part]:
        """coefficient · 1[a run of ``names`` opens at the position] for each (row, position)."""
        first = self.starts_sentence[position]
        inner = ~first
        at_first = coefficient[first] if isinstance(coefficient, np.ndarray) else coefficient
        at_inner = coefficient[inner] if isinstance(coefficient, np.ndarray) else coefficient
        return [
            tokens_in(row[first], position[first], self.mask_of(names), at_first),
            edges_in(row[inner], position[inner], opening_edges(self.labels, names), at_inner),
        ]


class Template(Settings):
    """Base of everything a constraint file can declare. ``label_fields`` are the fields that name labels."""

    name: Annotated[str, Field(min_length=1)] | None = None
    label_fields: ClassVar[tuple[str, ...]] = ("labels",)

    def named_labels(self) -> Iterator[tuple[Location, str]]:
        """Every label this entry names, with where it stands in the entry."""
        for field in self.label_fields:
            names: Sequence[str] = getattr(self, field) or ()
            yield from (((field, i), name) for i, name in enumerate(names))

    def check(self, labels: LabelSet) -> Iterator[tuple[Location, str]]:
        """What does not fit the label set: (where in the entry, what is wrong)."""
        for place, name in self.named_labels():
            try:
                label_mask(labels, (name,))
            except ConstraintError as error:
                yield place, str(error)


class RowTemplate(Template):
    """A constraint that grounds to linear rows; ``weight`` is ``hard`` or nats a unit of degree."""

    weight: Weight

    @abstractmethod
    def rows(self, site: Site) -> LinearRows:
        """The rows on one document, with weight 1 and constraint 0."""


class AgreementTemplate(Template):
    """A constraint over pairs of labelled spans; it names span types, not labels."""

    weight: Weight

    @abstractmethod
    def agreement(self, site: Site, constraint: int) -> SpanAgreement:
        """The span agreement on one document, with its cost in nats."""

    def check(self, labels: LabelSet) -> Iterator[tuple[Location, str]]:
        """Names that are no span type."""
        for place, name in self.named_labels():
            if name not in labels.types:
                yield place, f"unknown span type {name!r}{nearest(name, labels.types)}"


class FeatureTemplate(Template):
    """A local feature: ``weight`` nats, of either sign, added to the potentials. No constraint."""

    weight: FiniteFloat

    @abstractmethod
    def adjust(self, site: Site, potentials: Potentials) -> Potentials:
        """The potentials with this feature added."""
