"""Gazetteers as features: matches of a list's phrases (the longest first), and the role of a word in phrases.

Ratinov & Roth (2009) §6.2 describe the use of such lists. A gazetteer is data: a table of phrases and types, of which a
model folder keeps a copy. The features of a token depend only on its document and the list.

A list may be gathered from the training documents. Then, in training, a document does not see the entries that it alone
contributed; otherwise each of its names would be found, which does not happen with new documents.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import repeat
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from concord.schemas.arrays import Ints
from concord.schemas.document import TOKENS, Batch, Column
from concord.workers.features.extractors import same

GAZETTEER, ENTITIES, SEEN_WORDS = PHRASE_SETS = ("gazetteer", "entities", "seen")
"""Lists that features read: from the user's files, of the training corpus's entities, and of its words."""
CASES: dict[str, Callable[[str], str]] = {"": str.lower, "-cased": same}
"""Ways to compare words: in lower case, or as they are written."""
READINGS = {source + case: (source, case) for source in (GAZETTEER, ENTITIES) for case in CASES}
READINGS[SEEN_WORDS] = SEEN_WORDS, "-cased"
"""Ways to look a list up, by the names of their feature sets."""
ROLES = ("-only", "-first", "-inside", "-last")
"""Roles of a word in a phrase, as suffixes of column names."""
NO_PHRASE = ""
"""Value of a token that matches nothing in the list."""
LONGEST = 64
"""Largest number of words of a phrase; nothing longer is a name."""
MANY = -1
"""Stands for the document of an entry that several documents have, or whose document is not known."""

PhraseEntry = tuple[tuple[str, ...], str]
"""The words of a phrase, and its type."""


def column_names(reading: str) -> tuple[str, ...]:
    """The columns of one of `READINGS`: whole matches, then one for each of `ROLES`."""
    return tuple(reading + role for role in ("", *ROLES))


GAZETTEER_COLUMNS = {name: reading for reading in READINGS for name in column_names(reading)}
"""Reading (of `READINGS`) that each column belongs to."""


@dataclass(frozen=True, eq=False)
class Gazetteer:
    """A gazetteer of P entries, each a phrase with a type; no entry occurs twice.

    - ``phrases`` (P,): lists of words.
    - ``types`` (P,): type of each phrase.
    - ``only_in`` (P,): id of the only document that has the entry; null where several have it or it is not known.
    """

    phrases: pa.ListArray
    types: pa.StringArray
    only_in: pa.StringArray

    @classmethod
    def of(cls, entries: Iterable[tuple[PhraseEntry, str | None]]) -> Gazetteer:
        """Gazetteer of entries in any order, each with the id of the document that has it, or None."""
        owner: dict[PhraseEntry, str | None] = {}
        for entry, doc_id in entries:
            owner[entry] = doc_id if owner.get(entry, doc_id) == doc_id else None
        ordered = sorted(owner)
        return cls(
            pa.array([words for words, _ in ordered], pa.list_(pa.string())),
            pa.array([kind for _, kind in ordered], pa.string()),
            pa.array([owner[entry] for entry in ordered], pa.string()),
        )

    @property
    def for_all(self) -> Gazetteer:
        """The list as seen by a document from which it was not gathered: with every entry."""
        return replace(self, only_in=pa.nulls(len(self.types), pa.string()))

    @cached_property
    def _lookups(self) -> dict[str, _Lookup]:
        """Look-up structures made so far, by case; each process makes its own."""
        return {}

    def columns(self, batch: Batch, reading: str) -> dict[str, Column]:
        """`column_names` of a batch. Values are sets of types, after ``B-`` or ``I-`` in a whole match."""
        _, case = READINGS[reading]
        if case not in self._lookups:
            self._lookups[case] = _Lookup.of(self, CASES[case])
        return dict(zip(column_names(reading), self._lookups[case].columns(batch), strict=True))

    def __getstate__(self) -> dict[str, object]:
        return {name: self.__dict__[name] for name in ("phrases", "types", "only_in")}


class _Trie(NamedTuple):
    """Trie of phrases over V words, with the root as node 0.

    - ``edges``: edge i leads from node edges[i] // V by word edges[i] % V to node i + 1. Edges are in ascending order,
      because those of a level follow those of the level before it.
    - ``words``: V.
    """

    edges: Ints
    words: int

    @classmethod
    def of(cls, words: Column, starts: Ints) -> tuple[_Trie, Ints]:
        """Trie of P phrases, and the node (P,) of each; phrase i is words[starts[i]:starts[i + 1]]."""
        size, codes = len(words.values) + 1, words.codes.astype(np.int64)
        length, node = np.diff(starts), np.zeros(len(starts) - 1, np.int64)
        edges, count = [np.zeros(0, np.int64)], 0
        for depth in range(int(length.max(initial=0))):
            inside = np.flatnonzero(length > depth)
            level, number = np.unique(node[inside] * size + codes[starts[inside] + depth], return_inverse=True)
            node[inside] = count + number + 1
            edges.append(level)
            count += len(level)
        return cls(np.concatenate(edges), size), node

    def after(self, nodes: Ints, words: Ints) -> Ints:
        """(n,) node that each word leads to from each node; 0 where no phrase continues with it."""
        wanted = nodes * self.words + words
        place = np.searchsorted(self.edges, wanted)
        place[place == len(self.edges)] = 0
        return np.where(self.edges[place] == wanted, place + 1, 0) if len(self.edges) else np.zeros_like(nodes)


class _Rows(NamedTuple):
    """Entries of a list as numbers: a key has a type.

    - ``key`` (n,), ``kind`` (n,): the key and its type.
    - ``document`` (n,): the only document that has the entry, or `MANY`.
    """

    key: Ints
    kind: Ints
    document: Ints

    def merged(self) -> _Rows:
        """In the order of keys and kinds, no pair twice."""
        order = np.lexsort((self.document, self.kind, self.key))
        key, kind, document = (column[order] for column in self)
        first = np.flatnonzero((np.diff(key, prepend=-1) != 0) | (np.diff(kind, prepend=-1) != 0))
        last = np.append(first, len(key))[1:] - 1
        return _Rows(key[first], kind[first], np.where(document[first] == document[last], document[first], MANY))


class _Sets:
    """Numbers of sets of types; 0 is the empty one."""

    def __init__(self, types: Sequence[str]) -> None:
        self._types = types
        self._known: dict[tuple[int, ...], int] = {(): 0}

    def number(self, kinds: Ints) -> int:
        """Number of a set of types, given as ascending indices in ``types``."""
        return self._known.setdefault(tuple(kinds.tolist()), len(self._known))

    def texts(self) -> list[str]:
        """The sets by number."""
        return [",".join(self._types[kind] for kind in kinds) for kinds in self._known]


class _TypesByKey(NamedTuple):
    """Set of types of each of K keys, with exceptions for documents that are the only source of a type.

    - ``value`` (K,): number of the key's set.
    - ``exceptions``: ascending numbers k · ``documents`` + d, each of a key k and a document d.
    - ``other``: for each exception, number of the set that document d sees instead.
    - ``documents``: number of documents.
    """

    value: Ints
    exceptions: Ints
    other: Ints
    documents: int

    @classmethod
    def of(cls, rows: _Rows, sets: _Sets, keys: int, documents: int) -> _TypesByKey:
        """Sets of the rows' types, for keys below ``keys`` and documents below ``documents``."""
        rows, value = rows.merged(), np.zeros(keys, np.int64)
        bounds = np.searchsorted(rows.key, np.arange(keys + 1))
        for key in np.flatnonzero(np.diff(bounds)).tolist():
            value[key] = sets.number(rows.kind[bounds[key] : bounds[key + 1]])
        alone = rows.document != MANY
        exceptions = np.unique(rows.key[alone] * documents + rows.document[alone])
        other = np.zeros(len(exceptions), np.int64)
        for i, exception in enumerate(exceptions.tolist()):
            key, document = divmod(exception, documents)
            mine = slice(bounds[key], bounds[key + 1])
            other[i] = sets.number(rows.kind[mine][rows.document[mine] != document])
        return cls(value, exceptions, other, documents)

    def at(self, keys: Ints, documents: Ints) -> Ints:
        """(n,) the set of each key for each document."""
        found = self.value[keys]
        if len(self.exceptions):
            wanted = np.where(documents == MANY, -1, keys * self.documents + documents)
            place = np.minimum(np.searchsorted(self.exceptions, wanted), len(self.exceptions) - 1)
            found = np.where(self.exceptions[place] == wanted, self.other[place], found)
        return found


@dataclass(frozen=True, eq=False)
class _Lookup:
    """Look-up structure of a list.

    - ``fold``: function that makes words comparable, such as lower case.
    - ``words``: number of each word.
    - ``documents``: number of each document that is the only source of an entry.
    - ``trie``: the phrases.
    - ``whole``: types by node of the trie.
    - ``parts``: types by word, one for each of `ROLES`.
    - ``texts``: sets of types as strings, by number.
    """

    fold: Callable[[str], str]
    words: dict[str, int]
    documents: dict[str, int]
    trie: _Trie
    whole: _TypesByKey
    parts: tuple[_TypesByKey, ...]
    texts: tuple[str, ...]

    @classmethod
    def of(cls, gazetteer: Gazetteer, fold: Callable[[str], str]) -> _Lookup:
        words = Column.encode([fold(word) for word in gazetteer.phrases.flatten().to_pylist()])
        starts = np.concatenate([[0], np.cumsum(gazetteer.phrases.value_lengths().to_numpy())]).astype(np.int64)
        trie, node = _Trie.of(words, starts)
        types, owners = Column.encode(sorted(gazetteer.types.to_pylist())).values, gazetteer.only_in.to_pylist()
        place = {kind: i for i, kind in enumerate(types)}
        documents = {name: i for i, name in enumerate(sorted({name for name in owners if name is not None}))}
        kind = np.array([place[kind] for kind in gazetteer.types.to_pylist()], np.int64)
        owner = np.array([MANY if name is None else documents[name] for name in owners], np.int64)
        sets, phrase = _Sets(types), np.repeat(np.arange(len(kind)), np.diff(starts))
        whole = _TypesByKey.of(_Rows(node, kind, owner), sets, len(trie.edges) + 1, len(documents))
        roles, codes = _roles(starts), words.codes.astype(np.int64)
        parts = tuple(
            _TypesByKey.of(
                _Rows(codes[roles == r], kind[phrase[roles == r]], owner[phrase[roles == r]]),
                sets,
                trie.words,
                len(documents),
            )
            for r in range(len(ROLES))
        )
        vocabulary = dict(zip(words.values, range(len(words.values)), strict=True))
        return cls(fold, vocabulary, documents, trie, whole, parts, tuple(sets.texts()))

    def columns(self, batch: Batch) -> Iterator[Column]:
        """The columns of a batch, in the order of `column_names`."""
        column, unknown = batch.columns[TOKENS], len(self.words)
        known = map(self.words.get, map(self.fold, column.values), repeat(unknown))
        numbers = np.fromiter(known, np.int64, len(column.values))
        words, document = numbers[column.codes], self._documents(batch)
        yield self._whole(words, self._roots(numbers)[column.codes], batch.sentence_bounds, document)
        for part in self.parts:
            yield Column(part.at(words, document).astype(np.int32), self.texts)

    def _documents(self, batch: Batch) -> Ints:
        """(N,) the number of each token's document."""
        numbers = np.array([self.documents.get(name, MANY) for name in batch.doc_ids], np.int64)
        return np.repeat(numbers, np.diff(batch.doc_starts))

    def _roots(self, words: Ints) -> Ints:
        """(n,) the node of the phrases that start with each word."""
        return self.trie.after(np.zeros_like(words), words)

    def _whole(self, words: Ints, node: Ints, bounds: Ints, document: Ints) -> Column:
        """Matches from left to right, each the longest where it starts; ``node`` (N,) is that of the first word."""
        ends = np.repeat(bounds[1:], np.diff(bounds))
        length, value = np.zeros_like(words), np.zeros_like(words)
        at, size = np.flatnonzero(node), 1
        node = node[at]
        while len(at):
            said = self.whole.at(node, document[at])
            length[at[said > 0]], value[at[said > 0]] = size, said[said > 0]
            inside = at + size < ends[at]
            at, node = at[inside], self.trie.after(node[inside], words[at[inside] + size])
            at, node, size = at[node > 0], node[node > 0], size + 1
        start = _apart(np.flatnonzero(length), length)
        code, sizes = np.zeros(len(words), np.int32), length[start]
        within = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        code[np.repeat(start, sizes) + within] = np.repeat(2 * value[start], sizes)
        code[start] -= 1
        return Column(code, [NO_PHRASE, *(prefix + text for text in self.texts[1:] for prefix in ("B-", "I-"))])


def _roles(starts: Ints) -> Ints:
    """Role of each word of all phrases, as an index of `ROLES`."""
    only, first, inside, last = range(len(ROLES))
    roles = np.full(starts[-1], inside)
    roles[starts[:-1]], roles[starts[1:] - 1] = first, last
    roles[starts[:-1][np.diff(starts) == 1]] = only
    return roles


def _apart(start: Ints, length: Ints) -> Ints:
    """Starts of matches that overlap no earlier one that was kept; ``length`` (N,) is that of the match at a token."""
    kept, free = [], 0
    for t, size in zip(start.tolist(), length[start].tolist(), strict=True):
        if t >= free:
            free = t + size
            kept.append(t)
    return np.array(kept, np.int64)
