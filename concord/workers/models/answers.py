"""Feature columns for a second-stage model, made from a first model's labels elsewhere in the same document.

Krishnan & Manning (2006) §3. Each token gets the majority label of the other occurrences of its word ("token
majority"), of the other mentions of its entity ("entity majority"), and of longer entities that contain it
("superentity majority"). The token's own label, or that of its own entity, is never counted, and each document is
counted by itself.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from concord.schemas.arrays import Ints
from concord.schemas.document import Batch, Column
from concord.schemas.labels import OUTSIDE, Labels, LabelSet, Spans
from concord.schemas.problem import NO_KEY
from concord.workers.constraints.consistency import span_keys
from concord.workers.features.mentions import NO_VALUE, Mentions
from concord.workers.features.templates import ANSWER_COLUMNS

LONGEST_ENTITY = 6
"""Longest entity that is compared as a whole, in tokens; of a longer one only the single words are compared."""


class Answered(NamedTuple):
    """A batch of N tokens with the M entities that the first model found in it.

    - ``word`` (N,): id of each token's word in lower case, numbered per document.
    - ``keys`` (N, LONGEST_ENTITY): id of the word sequence of each length from this token on, if the document repeats
      it.
    - ``spans``: the M entities.
    - ``type`` (N,): type given to each token; T (the number of types) outside all entities.
    - ``types``: names of the T types.
    """

    word: Ints
    keys: NDArray[np.int32]
    spans: Spans
    type: Ints
    types: tuple[str, ...]

    @classmethod
    def of(cls, batch: Batch, labels: LabelSet, found: Labels) -> Answered:
        """Takes the labels (N,) that the first model found, ids of ``labels``."""
        word = Mentions(batch).word
        keys = span_keys(word.astype(np.int32), batch.sentence_starts, LONGEST_ENTITY)
        kind = labels.type_of[found].astype(np.int64)
        kind[kind < 0] = len(labels.types)
        return cls(word, keys, labels.spans(found, batch.sentence_starts), kind, labels.types)

    def entity_keys(self) -> Ints:
        """(M,) the key of each entity's words; `NO_KEY` if it is longer than `LONGEST_ENTITY` or occurs only once."""
        size = self.spans.end - self.spans.start
        short = size <= LONGEST_ENTITY
        keys = np.full(len(self.spans), NO_KEY, np.int64)
        keys[short] = self.keys[self.spans.start[short], size[short] - 1]
        return keys


def answer_columns(batch: Batch, labels: LabelSet, found: Labels) -> dict[str, Column]:
    """The columns `ANSWER_COLUMNS` of a batch, from the labels (N,) that the first model gave it."""
    a = Answered.of(batch, labels, found)
    types = len(a.types)
    by_word = _counted(a.word, a.type, int(a.word.max(initial=-1)) + 1, types + 1)[a.word]
    by_word[np.arange(len(a.word)), a.type] -= 1
    every, inside = _majority(by_word), _majority(by_word[:, :types])
    entity, longer = _of_entities(a)
    values = (NO_VALUE, *a.types, OUTSIDE)
    columns = [Column((kind + 1).astype(np.int32), values) for kind in (every, inside, entity, longer)]
    return dict(zip(ANSWER_COLUMNS, columns, strict=True))


def _of_entities(a: Answered) -> tuple[Ints, Ints]:
    """Two arrays (N,): the majority type of the other mentions of each token's entity, and of longer entities that
    contain its words.

    A token outside all entities is looked up by its single word. −1 where nothing was counted.
    """
    types, size = len(a.types), int(a.keys.max(initial=-1)) + 1
    keys, kind = a.entity_keys(), a.spans.type.astype(np.int64)
    again = keys != NO_KEY
    same = np.zeros((len(keys), types), np.int64)
    same[again] = _counted(keys[again], kind[again], size, types)[keys[again]]
    same[again, kind[again]] -= 1
    around = _parts(a, size)
    held = np.zeros((len(keys), types), np.int64)
    held[again] = around[keys[again]]
    alone = np.zeros((len(a.word), types), np.int64)
    single = a.keys[:, 0] != NO_KEY
    alone[single] = around[a.keys[single, 0]]
    entity, longer = np.full(len(a.word), -1, np.int64), _majority(alone)
    member = np.repeat(np.arange(len(keys)), a.spans.end - a.spans.start)
    place = a.spans.start[member] + np.arange(len(member)) - np.searchsorted(member, member)
    entity[place], longer[place] = _majority(same)[member], _majority(held)[member]
    return entity, longer


def _parts(a: Answered, size: int) -> Ints:
    """(K, T) how often each word sequence is a proper part of an entity of each type; twice in one counts twice."""
    counts = np.zeros((size, len(a.types)), np.int64)
    length = a.spans.end - a.spans.start
    for width in range(1, LONGEST_ENTITY + 1):
        for first in range(int(length.max(initial=0)) - width + 1):
            inside = (first + width <= length) & (width < length)
            keys = a.keys[a.spans.start[inside] + first, width - 1]
            kept = keys != NO_KEY
            np.add.at(counts, (keys[kept], a.spans.type[inside][kept]), 1)
    return counts


def _counted(rows: Ints, columns: Ints, count: int, width: int) -> Ints:
    """Contingency table (count, width): how often each row id occurs with each column id."""
    table: Ints = np.bincount(rows * width + columns, minlength=count * width).reshape(count, width)
    return table


def _majority(counts: Ints) -> Ints:
    """(n,) the column with the highest count, the first of equals; −1 where all are 0."""
    if not counts.shape[1]:
        return np.full(len(counts), -1, np.int64)
    best = counts.argmax(axis=1).astype(np.int64)
    return np.where(counts[np.arange(len(counts)), best] > 0, best, -1)
