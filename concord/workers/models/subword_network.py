"""A network in ONNX with its tokenizer: what it gives for the words of a sentence.

A sentence is cut into sub-words, these go through the network in windows (`workers.models.subwords`), and what it gives
for sub-words is put together for words. Each sentence goes through by itself, so that what it gets does not depend on
what else is in a batch.

onnxruntime and tokenizers are the extra ``onnx``; they are imported when a network is opened.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from concord.schemas.arrays import Floats
from concord.schemas.document import TOKENS, Batch, TokenizedText
from concord.schemas.settings import Settings
from concord.workers.models.folder import ModelError
from concord.workers.models.score_cache import ScoreCache, sentence_key
from concord.workers.models.subwords import Logits, pooled, windows

NETWORK_FILE, TOKENIZER_FILE = "model.onnx", "tokenizer.json"
INSTALLED_BY = "pip install 'concord-nlp[onnx]'"
INPUTS = ("input_ids", "attention_mask", "token_type_ids", "position_ids")
"""Inputs that a network may have, each (1, T)."""


class OnnxSettings(Settings):
    """How a network reads sentences."""

    pooling: Literal["first", "mean"] = Field(
        "first", description="Scores of a word: those of its first sub-word, or the mean of all."
    )
    room: int = Field(512, ge=8, description="Sub-words that the network reads at once, with the marks of both ends.")
    overlap: int = Field(64, ge=0, description="Sub-words that two windows of a long sentence have in common.")


class NetworkWidth(NamedTuple):
    """Numbers that a network gives for each sub-word, and what they are, for messages."""

    numbers: int
    meaning: str


class Network(NamedTuple):
    """A network and its tokenizer, opened in this process.

    - ``run``: function from sub-words (T,), with the marks of both ends, to a row of W numbers for each (T, W).
    - ``encode``: function from a text to the number of each sub-word, and its first character and the one after it.
    - ``before``, ``after``: marks of both ends of a sentence.
    """

    run: Callable[[NDArray[np.int64]], Logits]
    encode: Callable[[str], Encoded]
    before: tuple[int, ...]
    after: tuple[int, ...]

    def word_rows(self, sentence: TokenizedText, reading: OnnxSettings) -> Floats:
        """(n, W) the row of each word of a sentence, pooled from those of its sub-words."""
        ids, start, end = self.encode(sentence.content)
        room = reading.room - len(self.before) - len(self.after)
        parts: list[Logits] = []
        for first, last, begin, stop in windows(len(ids), room, min(reading.overlap, room // 2)):
            marked = np.array([*self.before, *ids[first:last].tolist(), *self.after], np.int64)
            rows = self.run(marked)[len(self.before) : len(marked) - len(self.after)]
            parts.append(rows[begin - first : stop - first])
        return pooled(np.concatenate(parts), start, end, sentence, reading.pooling)


class Encoded(NamedTuple):
    """Sub-words of a text: numbers (T,), and the characters of each, from ``start`` (T,) to ``end`` (T,)."""

    ids: NDArray[np.int64]
    start: NDArray[np.int64]
    end: NDArray[np.int64]


def sentence_texts(batch: Batch) -> Iterator[TokenizedText]:
    """Text of each sentence: as it stands in the document's text, or else its words with blanks between them."""
    words, raw = batch.columns[TOKENS], batch.raw
    owner = np.searchsorted(batch.doc_starts, batch.sentence_starts, side="right") - 1
    for number, (first, last) in enumerate(pairwise(batch.sentence_bounds.tolist())):
        if raw is None:
            yield TokenizedText.of_words(words[first:last].strings())
        else:
            start, end = (side[first:last] for side in (raw.start, raw.end))
            text = raw.contents[int(owner[number])][int(start[0]) : int(end[-1])]
            yield TokenizedText(text, start - start[0], end - start[0])


def opened(network: bytes, tokenizer: str, width: NetworkWidth | None = None) -> Network:
    """Opens a network and its tokenizer; it may be of any ``width`` if none is given.

    Raises `ModelError` where a library or an input is missing, or the file is no network of that width.
    """
    runtime, cutter = _libraries()
    try:
        subwords = cutter.Tokenizer.from_str(tokenizer)
    except Exception as error:  # what the library raises for a bad file is Exception itself
        raise ModelError(f"{TOKENIZER_FILE}: cannot be read by tokenizers ({error})") from error
    # Nothing is cut off or filled up: windows are made here.
    subwords.no_truncation()
    subwords.no_padding()
    options = runtime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    try:
        session = runtime.InferenceSession(network, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # each of onnxruntime's errors derives from Exception alone
        raise ModelError(f"{NETWORK_FILE}: cannot be read by onnxruntime ({_one_line(error)})") from error
    names = [given.name for given in session.get_inputs()]
    foreign = [name for name in names if name not in INPUTS]
    if foreign:
        raise ModelError(f"{NETWORK_FILE}: has the input {foreign[0]!r}; a token classifier has {', '.join(INPUTS)}")

    def run(ids: NDArray[np.int64]) -> Logits:
        given = ids[None]
        every = {
            "input_ids": given,
            "attention_mask": np.ones_like(given),
            "token_type_ids": np.zeros_like(given),
            "position_ids": np.arange(len(ids))[None],
        }
        table: Logits = session.run(None, {name: every[name] for name in names})[0]
        if table.ndim != 3 or table.shape[:2] != (1, len(ids)) or (width and table.shape[2] != width.numbers):
            wanted, meaning = width or NetworkWidth(384, "such as 384: the state of each")
            shapes = f"gives {table.shape} for {len(ids)} sub-words, want (1, {len(ids)}, {wanted})"
            raise ModelError(f"{NETWORK_FILE}: {shapes}: {meaning}")
        rows: Logits = table[0].astype(np.float32, copy=False)
        return rows

    def encode(text: str) -> Encoded:
        found = subwords.encode(text, add_special_tokens=False)
        offsets = np.array(found.offsets, np.int64).reshape(-1, 2)
        return Encoded(np.array(found.ids, np.int64), offsets[:, 0], offsets[:, 1])

    return Network(run, encode, *_marks(subwords))


def word_table(batch: Batch, rows_of: Callable[[TokenizedText], Logits], cache: ScoreCache) -> Logits:
    """(N, W) numbers of all words of a batch: those of sentences that are not in the cache are computed, and kept."""
    sentences = list(sentence_texts(batch))
    keys = [sentence_key(sentence.content, sentence.start.tolist()) for sentence in sentences]
    tables = cache.find(list(dict.fromkeys(keys)))
    new: dict[bytes, Logits] = {}
    for key, sentence in zip(keys, sentences, strict=True):
        if key not in tables:
            tables[key] = new[key] = rows_of(sentence)
    cache.keep(new)
    return np.concatenate([np.zeros((0, cache.width), np.float32), *(tables[key] for key in keys)])


def network_file(folder: Path, hint: str = "call one of them model.onnx") -> Path:
    """The network of a folder. Raises `ModelError` where there is none, or several; ``hint``: what to do then."""
    files = sorted([*folder.glob("*.onnx"), *folder.glob("onnx/*.onnx")])
    named = [path for path in files if path.name == NETWORK_FILE]
    if len(named) == 1 or len(files) == 1:
        return (named or files)[0]
    if files:
        names = ", ".join(str(path.relative_to(folder)) for path in files[:4])
        raise ModelError(f"{folder}: has several networks, {names}; {hint}")
    raise ModelError(f"{folder}: has no file .onnx; export the network, as by `optimum-cli export onnx`")


def _marks(subwords: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Numbers of the marks that the tokenizer puts before a text and after it."""
    plain = subwords.encode("a", add_special_tokens=False).ids
    marked = subwords.encode("a", add_special_tokens=True)
    inner = [place for place, mark in enumerate(marked.special_tokens_mask) if not mark]
    if not inner or [marked.ids[place] for place in inner] != plain:
        return (), ()
    return tuple(marked.ids[: inner[0]]), tuple(marked.ids[inner[-1] + 1 :])


def _libraries() -> tuple[Any, Any]:
    try:
        import onnxruntime
        import tokenizers
    except ImportError as error:
        raise ModelError(f"a model in ONNX needs onnxruntime and tokenizers ({error}): {INSTALLED_BY}") from error
    return onnxruntime, tokenizers


def library_versions() -> dict[str, str]:
    """Versions of onnxruntime and tokenizers, which decide scores. Raises `ModelError` where one is not installed."""
    return {library.__name__: str(library.__version__) for library in _libraries()}


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]


def room_of(config: Mapping[str, Any]) -> int:
    """Sub-words that a network with this ``config.json`` reads at once."""
    positions = config.get("max_position_embeddings")
    if not isinstance(positions, int) or positions < 8:
        return 512
    # Models of RoBERTa's kind count positions from behind that of padding.
    padding = config.get("pad_token_id")
    counted = str(config.get("model_type", "")) in ("roberta", "xlm-roberta", "camembert", "xlm-roberta-xl")
    return positions - padding - 1 if counted and isinstance(padding, int) else positions
