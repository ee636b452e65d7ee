"""A frozen encoder: a network in ONNX that gives a state for each word, and what a word sees of the states around it.

A word's context is four states: its own; the mean of those of the same word, in any letter case, at its other places in
the document (its own where there is none); the previous word's and the next one's in the sentence. The second is what a
document says of a word elsewhere: label consistency (Finkel et al. 2005; Krishnan & Manning 2006) as evidence, without
labels.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from concord.schemas.arrays import Ints
from concord.schemas.document import TOKENS, Batch, TokenizedText
from concord.workers.models.folder import ModelError
from concord.workers.models.score_cache import ScoreCache
from concord.workers.models.subword_network import (
    NETWORK_FILE,
    TOKENIZER_FILE,
    Network,
    OnnxSettings,
    library_versions,
    network_file,
    opened,
    room_of,
    word_table,
)
from concord.workers.models.subwords import Logits

CONFIG_FILE = "config.json"
CONTEXT_PARTS = 4
"""States in a word's context: its own, elsewhere, previous, next."""

COLUMNS_AT_ONCE = 32
"""Numbers of states of which sums are made at once."""

Real = TypeVar("Real", np.float32, np.float64)

WordStates = NDArray[np.float32]
"""(N, D) states of words."""


@dataclass(frozen=True, eq=False)
class Encoder:
    """An encoder, in this process or on its way to another.

    - ``network``, ``tokenizer_file``: bytes of the two files, as arrays that processes share.
    - ``reading``: how it reads sentences.
    """

    network: NDArray[np.uint8]
    tokenizer_file: NDArray[np.uint8]
    reading: OnnxSettings

    @cached_property
    def digest(self) -> str:
        """Hex digest of all that decides the states: both files, the reading, and the libraries' versions."""
        state = hashlib.sha256(self.network.tobytes())
        state.update(hashlib.sha256(self.tokenizer_file.tobytes()).digest())
        state.update("\0".join([self.reading.model_dump_json(), *library_versions().values()]).encode())
        return state.hexdigest()

    @cached_property
    def width(self) -> int:
        """Numbers of a state, D. Raises `ModelError` where the network gives no states."""
        return int(self.rows_of(TokenizedText.of_words(["a"])).shape[1])

    def rows_of(self, sentence: TokenizedText) -> Logits:
        """(n, D) states of the words of a sentence."""
        return self._opened.word_rows(sentence, self.reading).astype(np.float32)

    def states(self, batch: Batch) -> WordStates:
        """(N, D) states of all words of a batch; they are kept on this machine for the next training."""
        return word_table(batch, self.rows_of, ScoreCache(self.digest, self.width))

    @cached_property
    def _opened(self) -> Network:
        return opened(self.network.tobytes(), self.tokenizer_file.tobytes().decode())

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("network", "tokenizer_file", "reading")}


def encoder_at(folder: Path) -> Encoder:
    """The encoder of a folder: a network in ONNX, ``tokenizer.json``, and ``config.json`` if there is one.

    Raises `ModelError` where a file is missing or cannot be read.
    """
    network = network_file(folder)
    if not (folder / TOKENIZER_FILE).is_file():
        raise ModelError(f"{folder}: has no {TOKENIZER_FILE}; an encoder is a network in ONNX and its tokenizer")
    config = folder / CONFIG_FILE
    try:
        room = room_of(json.loads(config.read_bytes())) if config.is_file() else OnnxSettings().room
    except (ValueError, AttributeError) as error:
        raise ModelError(f"{config}: cannot be read ({error})") from error
    rules = np.fromfile(folder / TOKENIZER_FILE, np.uint8)
    return Encoder(np.fromfile(network, np.uint8), rules, mean_reading(room))


def mean_reading(room: int) -> OnnxSettings:
    """A word's state is the mean of those of its sub-words."""
    return OnnxSettings(pooling="mean", room=room, overlap=min(OnnxSettings().overlap, room // 4))


def saved_encoder(folder: Path, reading: OnnxSettings) -> Encoder:
    """The encoder of a model folder, whose hashes were checked."""
    network, tokenizer = (np.fromfile(folder / name, np.uint8) for name in (NETWORK_FILE, TOKENIZER_FILE))
    return Encoder(network, tokenizer, reading)


class WordContext(NamedTuple):
    """Where the states of a word's context are.

    - ``group`` (N,): number of the word in its document: equal for its other places.
    - ``previous``, ``next`` (N,): the word before and the one after in the sentence; −1 for none.
    """

    group: Ints
    previous: Ints
    next: Ints

    @classmethod
    def of(cls, batch: Batch) -> WordContext:
        """The context of each word of a batch."""
        words, size = batch.columns[TOKENS], batch.doc_starts[-1]
        _, word = np.unique([value.lower() for value in words.values], return_inverse=True)
        document = np.repeat(np.arange(len(batch)), np.diff(batch.doc_starts))
        spelled = word[words.codes] if size else np.zeros(0, np.int64)
        _, group = np.unique(document * (len(words.values) + 1) + spelled, return_inverse=True)
        previous = np.arange(-1, size - 1)
        previous[batch.sentence_starts] = -1
        following = np.arange(1, size + 1)
        following[batch.sentence_bounds[1:] - 1] = -1
        return cls(group.astype(np.int64), previous, following)

    def elsewhere(self, rows: NDArray[Real]) -> NDArray[Real]:
        """(N, W) mean of the rows (N, W) at the other places of each word; its own row where there is none."""
        means = rows.copy()
        if not len(rows):
            return means
        times, order = np.bincount(self.group), np.argsort(self.group, kind="stable")
        first, others = np.cumsum(times) - times, times[self.group] - 1
        again = others > 0
        # Sums have 8 bytes a number: some columns at a time, or those of states would take gigabytes.
        for column in range(0, rows.shape[1], COLUMNS_AT_ONCE):
            part = slice(column, column + COLUMNS_AT_ONCE)
            sums = np.add.reduceat(rows[order, part], first, axis=0, dtype=np.float64)
            means[again, part] = (sums[self.group[again]] - rows[again, part]) / others[again, None]
        return means


def row_at(rows: NDArray[Any], place: Ints) -> NDArray[Any]:
    """(n, W) rows at these places; zeros where the place is −1."""
    return np.where(place[:, None] >= 0, rows[place], 0)
