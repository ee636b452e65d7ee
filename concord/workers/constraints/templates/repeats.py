"""Agreement of labels over a document: Finkel, Grenager & Manning (2005) §5.1–5.2, with declared weights."""

from __future__ import annotations

import re
from enum import StrEnum
from functools import lru_cache
from typing import Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from concord.schemas.arrays import Floats, Ints
from concord.schemas.labels import LabelSet
from concord.schemas.problem import NO_KEY, Relation, SpanAgreement
from concord.workers.constraints.consistency import LONGEST_NAME
from concord.workers.constraints.rows import Draft, Part, edges_in, tokens_in, wherever
from concord.workers.constraints.templates.template import (
    AgreementTemplate,
    Names,
    RowTemplate,
    Scope,
    Site,
    Tokens,
    TokenTest,
    closing_edges,
)


class Consistent(AgreementTemplate):
    """Spans of the same words have the same type, §5.1; ``labels``: span types, all by default.

    Two spans of the same words with different types among those named cost ``weight`` for each token. Degree: number of
    such pairs, each times its length.
    """

    labels: Names | None = None

    def agreements(self, site: Site, constraint: int) -> tuple[SpanAgreement, ...]:
        """The agreement on pairs of equal words."""
        cost = _unlike(self.weight, site.labels, self.labels)
        return (SpanAgreement(constraint, Relation.EXACT, site.keys, cost),)


class ConsistentSubsequence(AgreementTemplate):
    """A span whose words are a part of a longer one's has the longer one's type, §5.1.

    ``labels`` are span types, all by default. A pair of different types among those named costs ``weight`` for each
    token of the shorter span. Degree: number of such pairs, each times that length.
    """

    labels: Names | None = None

    def agreements(self, site: Site, constraint: int) -> tuple[SpanAgreement, ...]:
        """The agreement on pairs of a span and a part of another."""
        cost = _unlike(self.weight, site.labels, self.labels)
        return (SpanAgreement(constraint, Relation.CONTAINED, site.keys, cost),)


class ConsistentUnlabelled(AgreementTemplate):
    """Words that are a span at one place are not left unlabelled at another; ``labels``: span types, all by default.

    A span of a type named costs ``weight`` for each token and each other place of its words that begins with an outside
    label. Degree: number of such places, each times the span's length. Words that are names only at times (may, May)
    cost as well, so a small weight is best.
    """

    labels: Names | None = None

    def agreements(self, site: Site, constraint: int) -> tuple[SpanAgreement, ...]:
        """The agreement on pairs of a span and a place of its words that is left out."""
        cost = np.where(_named(site.labels, self.labels), self.weight, 0.0)
        return (SpanAgreement(constraint, Relation.UNLABELLED, site.keys, cost[:, None]),)


class Value(StrEnum):
    """Conversion of a span's words into a value."""

    WORDS = "words"
    """The words without their case."""
    TIME = "time"
    """A time of day, without its half: texts often leave that out, so 3:30, 3.30 p.m. and 15:30 are one value.

    Words that are no time are compared as words.
    """


class ConsistentValue(AgreementTemplate):
    """All spans of one type have one value, §5.2 (start time, end time).

    Two spans of one type named in ``labels`` whose values differ cost ``weight``; with ``per_token``, as in the paper,
    they cost it once for each token of the shorter span. Degree: number of such pairs, with ``per_token`` each times
    that length. Spans longer than `LONGEST_NAME` tokens are not compared.
    """

    labels: Names
    value: Value = Value.WORDS
    per_token: bool = False

    def agreements(self, site: Site, constraint: int) -> tuple[SpanAgreement, ...]:
        """The agreement on pairs of different values.

        With ``per_token`` there is one for each length w, on spans of at least w tokens: their sum charges the shorter
        length.
        """
        held = np.isin(site.labels.types, self.labels)
        cost = np.where(np.diag(held), self.weight, 0.0)
        keys = value_keys(site, self.value)
        tables = [_of_length(keys, w) for w in range(1, LONGEST_NAME + 1)] if self.per_token else [keys]
        return tuple(SpanAgreement(constraint, Relation.DIFFERENT, key, cost, per_token=False) for key in tables)

    def to_count(self) -> Self:
        """See `AgreementTemplate`; a pair counts once, whatever its length."""
        return super().to_count().model_copy(update={"per_token": False})


class ConsistentLastWord(RowTemplate):
    """A word that ends a run of the labels has them wherever it occurs, §5.2 (the speaker's last name).

    Let O be the n tokens of one word, without its case. There is a row for each t ∈ O: (n − 1) · 1[a run ends at t] −
    Σ_{u ∈ O, u ≠ t} A(u) ≤ 0. It is linear over edges, since the end of a run at t is seen in the edge to t + 1.
    Degree: for the last word of each run, the number of its other occurrences that are not labelled; each counts once,
    not by token. ``words`` (capitalised words of two or more letters by default) keeps stop words out, as the size is
    the sum of n².
    """

    labels: Names
    words: Tokens = Field(default_factory=lambda: TokenTest(pattern=r"[A-Z][\w'’-]+", ignore_case=False))

    def rows(self, site: Site) -> Draft:
        """One row for each occurrence of a word that occurs at least twice."""
        at, word, others = self._repeated(site)
        first = np.asarray(np.searchsorted(word, word), np.int64)
        owner, place = site.ranges(at, first, first + others + 1)
        row, place = owner[place != owner], place[place != owner]
        occurrences = tokens_in(row, at[place], site.mask_of(self.labels), -1.0)
        return Draft(at, np.zeros(len(at)), (*_closings(site, at, self.labels, others), occurrences))

    def antecedent(self, site: Site) -> Draft:
        """Antecedent: a run ends at t."""
        at, _, others = self._repeated(site)
        return wherever(at, _closings(site, at, self.labels, others))

    def _repeated(self, site: Site) -> tuple[Ints, Ints, Ints]:
        """Tokens whose word occurs again in their document, word by word.

        With each come a number of its word and the number of its other occurrences.
        """
        at = np.flatnonzero(site.mask(self.words))
        own = site.document_of[at] * (int(site.folded.max(initial=0)) + 1) + site.folded[at]
        _, word, times = np.unique(own, return_inverse=True, return_counts=True)
        repeated = times[word] > 1
        at, word = at[repeated], word[repeated]
        order = np.lexsort((at, word))
        return at[order], word[order], times[word[order]] - 1


def _closings(site: Site, at: Ints, names: tuple[str, ...], times: Ints) -> tuple[Part, ...]:
    """times · 1[a run of ``names`` ends at the token], in row i for at[i]."""
    row = np.arange(len(at))
    last = np.append(site.starts_sentence, True)[at + 1]
    return (
        tokens_in(row[last], at[last], site.mask_of(names), times[last]),
        edges_in(row[~last], at[~last] + 1, closing_edges(site.labels, names), times[~last]),
    )


def value_keys(site: Site, value: Value) -> NDArray[np.int32]:
    """(N, LONGEST_NAME) id of the value of the span of w tokens at t; `NO_KEY` only if the span leaves its sentence.

    The site is one document.
    """
    keys = _content_ids(site)
    if value is Value.TIME:
        _times_into(keys, site)
    return keys


def _of_length(keys: NDArray[np.int32], shortest: int) -> NDArray[np.int32]:
    """The keys of spans with at least ``shortest`` tokens: min(v, w) = Σ_u 1[v ≥ u] · 1[w ≥ u]."""
    long_keys = keys.copy()
    long_keys[:, : shortest - 1] = NO_KEY
    return long_keys


def _content_ids(site: Site) -> NDArray[np.int32]:
    """(N, LONGEST_NAME) ids of the words of every span, without case; spans of different lengths have different ids."""
    count = len(site)
    ends = site.bounds(Scope.SENTENCE)[1]
    room = ends[site.segment(Scope.SENTENCE)] - site.positions
    keys = np.full((count, LONGEST_NAME), NO_KEY, np.int32)
    parent, fresh = np.zeros(count, np.int64), 0
    for w in range(LONGEST_NAME):
        at = np.flatnonzero(room > w)
        if not len(at):
            break
        pairs = parent[at] * count + site.folded[at + w]
        ids = np.unique(pairs, return_inverse=True)[1]
        keys[at, w] = ids + fresh
        parent[at] = ids
        fresh += int(ids.max()) + 1
    return keys


LONGEST_TIME = 10
"""Length of the longest time, "12midnight", in characters: tokens can be of any length."""

_TIME = re.compile(r"(\d{1,2})(?:[:.](\d\d))?([ap]m)?|(?:12)?(noon|midnight)")


@lru_cache(maxsize=4096)
def minutes(text: str) -> int | None:
    """A time of day in minutes after the last noon or midnight, 0 to 719; None if ``text`` is no time.

    ``text`` is in lower case without spaces. A bare number is an hour only with am or pm.
    """
    bare = re.sub(r"([ap])\.?m\.?$", r"\1m", text)
    match = _TIME.fullmatch(bare)
    if match is None:
        return None
    hour, minute, half, named = match.groups()
    if named:
        return 0
    if minute is None and half is None:
        return None
    if int(hour) > 24 or int(minute or 0) > 59:
        return None
    return int(hour) % 12 * 60 + int(minute or 0)


def _times_into(keys: NDArray[np.int32], site: Site) -> None:
    """Overwrites the keys of spans that are times: all spans of one time get one key."""
    words = site.words
    fresh = int(keys.max(initial=NO_KEY)) + 1
    for start, word in enumerate(words):
        if not (word[:1].isdigit() or word in ("noon", "midnight")):
            continue
        text = ""
        for width in range(1, LONGEST_NAME + 1):
            if keys[start, width - 1] == NO_KEY:
                break
            text += words[start + width - 1]
            if len(text) > LONGEST_TIME:
                break
            time = minutes(text)
            if time is not None:
                keys[start, width - 1] = fresh + time


def _named(labels: LabelSet, names: tuple[str, ...] | None) -> NDArray[np.bool_]:
    """(T,) mask of the types among ``names``; all types if that is None."""
    return np.isin(labels.types, names) if names is not None else np.ones(len(labels.types), np.bool_)


def _unlike(weight: float, labels: LabelSet, names: tuple[str, ...] | None) -> Floats:
    """(T, T) ``weight`` for every two different types among ``names`` (all if that is None), otherwise 0."""
    held = _named(labels, names)
    return np.where(np.outer(held, held) & ~np.eye(len(held), dtype=np.bool_), weight, 0.0)
