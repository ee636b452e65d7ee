"""Local model that is a token classifier of Hugging Face's in ONNX: scores are computed where documents are labelled.

The folder has the network (``model.onnx``), its tokenizer (``tokenizer.json``), and what a model of scores has
(`workers.models.scores`): the labels, the temperature and the transitions of a chain, which `concord calibrate` learns.
Each sentence goes through the network by itself, so that its scores do not depend on what else is in a batch; they are
kept for the next run (`workers.models.score_cache`). Sub-words become words as `workers.models.subwords` says.

onnxruntime and tokenizers are the extra ``onnx``; they are imported when a model is loaded.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from concord.schemas.arrays import Floats
from concord.schemas.document import TOKENS, Batch, TokenizedText
from concord.schemas.labels import LabelSet
from concord.schemas.potentials import Potentials
from concord.schemas.settings import Settings
from concord.workers.models.arrays_file import write_arrays
from concord.workers.models.folder import Manifest, ModelError, manifest_of, read_manifest, write_manifest
from concord.workers.models.saved_files import saved_content, write_content
from concord.workers.models.score_cache import ScoreCache, sentence_key
from concord.workers.models.scores import SCORES_FILE, TRANSITION_FILE, ScoresModel, label_set, read_scores, unary
from concord.workers.models.settings import ScoresSettings
from concord.workers.models.subwords import Logits, windows, word_scores
from concord.workers.storage.files import write_whole

KIND = "onnx"
NETWORK_FILE, TOKENIZER_FILE, READING_FILE = "model.onnx", "tokenizer.json", "onnx.json"
FILES = (NETWORK_FILE, TOKENIZER_FILE, READING_FILE, SCORES_FILE, TRANSITION_FILE)
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


class Network(NamedTuple):
    """A network and its tokenizer, opened in this process.

    - ``run``: function from sub-words (T,), with the marks of both ends, to their logits (T, W).
    - ``encode``: function from a text to the number of each sub-word, and its first character and the one after it.
    - ``before``, ``after``: marks of both ends of a sentence.
    """

    run: Callable[[NDArray[np.int64]], Logits]
    encode: Callable[[str], Encoded]
    before: tuple[int, ...]
    after: tuple[int, ...]


class Encoded(NamedTuple):
    """Sub-words of a text: numbers (T,), and the characters of each, from ``start`` (T,) to ``end`` (T,)."""

    ids: NDArray[np.int64]
    start: NDArray[np.int64]
    end: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class OnnxModel:
    """A token classifier in ONNX.

    - ``source``: labels of the network, temperature and label scheme.
    - ``transition`` (L, L): nats, row: the previous label; without the label set's legality.
    - ``reading``: how the network reads sentences.
    - ``network``, ``tokenizer``: bytes of the two files, as arrays that processes share.
    """

    labels: LabelSet
    source: ScoresSettings
    transition: Floats
    reading: OnnxSettings
    network: NDArray[np.uint8]
    tokenizer_file: NDArray[np.uint8]
    manifest: Manifest
    digest: str
    columns: tuple[str, ...] = (TOKENS,)

    def potentials(self, batch: Batch) -> Potentials:
        """Local scores of a whole batch: unary (N, L), nats, without the label set's legality."""
        table = unary(self.log_probabilities(batch), self.labels, self.source)
        return Potentials(table, self.transition.copy(), batch.sentence_starts)

    def log_probabilities(self, batch: Batch) -> Floats:
        """(N, W) log-probabilities of the network's labels for each token."""
        sentences = list(sentence_texts(batch))
        keys = [sentence_key(sentence.content, sentence.start.tolist()) for sentence in sentences]
        found = self._cache.find(list(dict.fromkeys(keys)))
        new: dict[bytes, Logits] = {}
        for key, sentence in zip(keys, sentences, strict=True):
            if key not in found:
                found[key] = new[key] = self._scored(sentence)
        self._cache.keep(new)
        none = np.zeros((0, len(self.source.labels)), np.float32)
        return np.concatenate([none, *(found[key] for key in keys)]).astype(np.float64)

    @property
    def head(self) -> ScoresModel:
        """Model of the network's scores in ``Batch.scores``: for calibration, which sees each document many times."""
        return ScoresModel(self.labels, self.source, self.transition, self.manifest, self.digest)

    def _scored(self, sentence: TokenizedText) -> Logits:
        network = self._opened
        ids, start, end = network.encode(sentence.content)
        logits = np.zeros((len(ids), len(self.source.labels)), np.float32)
        room = self.reading.room - len(network.before) - len(network.after)
        for first, last, begin, stop in windows(len(ids), room, min(self.reading.overlap, room // 2)):
            marked = np.array([*network.before, *ids[first:last].tolist(), *network.after], np.int64)
            rows = network.run(marked)[len(network.before) : len(marked) - len(network.after)]
            logits[begin:stop] = rows[begin - first : stop - first]
        return word_scores(logits, start, end, sentence, self.reading.pooling)

    @cached_property
    def _opened(self) -> Network:
        return opened(self.network.tobytes(), self.tokenizer_file.tobytes().decode(), len(self.source.labels))

    @cached_property
    def _cache(self) -> ScoreCache:
        """Scores of sentences, under the digest of all that decides them."""
        files = [self.manifest.files[name] for name in (NETWORK_FILE, TOKENIZER_FILE)]
        decisive = "\0".join([*files, self.reading.model_dump_json(), *library_versions().values()])
        return ScoreCache(hashlib.sha256(decisive.encode()).hexdigest(), len(self.source.labels))

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in ("_opened", "_cache")}


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


def opened(network: bytes, tokenizer: str, width: int) -> Network:
    """Opens a network and its tokenizer.

    Raises `ModelError` where a library or an input is missing, or the file is no network of ``width`` labels.
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
        logits: Logits = session.run(None, {name: every[name] for name in names})[0]
        if logits.shape != (1, len(ids), width):
            raise ModelError(
                f"{NETWORK_FILE}: gives {logits.shape} for {len(ids)} sub-words, want (1, {len(ids)}, {width}): a "
                "score for each label of config.json"
            )
        row: Logits = logits[0].astype(np.float32, copy=False)
        return row

    def encode(text: str) -> Encoded:
        found = subwords.encode(text, add_special_tokens=False)
        offsets = np.array(found.offsets, np.int64).reshape(-1, 2)
        return Encoded(np.array(found.ids, np.int64), offsets[:, 0], offsets[:, 1])

    return Network(run, encode, *_marks(subwords))


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


def save(
    out: Path,
    network: bytes,
    tokenizer: bytes,
    source: ScoresSettings,
    reading: OnnxSettings,
    *,
    transition: Floats | None = None,
    settings: Settings | None = None,
    training: Mapping[str, Any] | None = None,
) -> OnnxModel:
    """Writes a model into an existing folder, the manifest last.

    - ``transition`` (L, L): nats; None: zeros.
    - ``settings``, ``training``: of the calibration that learned temperature and transitions, for the manifest.

    Raises `LabelError`, `ModelError` where the network cannot be run, and `OutputError`.
    """
    labels = label_set(source)
    whole = np.zeros((len(labels), len(labels))) if transition is None else transition
    opened(network, tokenizer.decode(), len(source.labels)).run(np.zeros(3, np.int64))
    write_whole(out / NETWORK_FILE, network)
    write_whole(out / TOKENIZER_FILE, tokenizer)
    write_content(out / READING_FILE, reading)
    write_content(out / SCORES_FILE, source)
    write_arrays(out / TRANSITION_FILE, [whole])
    manifest = manifest_of(out, KIND, labels, files=FILES, settings=settings, training=training)
    manifest = manifest.model_copy(update={"versions": manifest.versions | library_versions()})
    write_manifest(out, manifest)
    return _model(out, manifest, source, whole, reading)


def _model(
    folder: Path, manifest: Manifest, source: ScoresSettings, transition: Floats, reading: OnnxSettings
) -> OnnxModel:
    network, tokenizer = (np.fromfile(folder / name, np.uint8) for name in (NETWORK_FILE, TOKENIZER_FILE))
    # Other versions of the libraries may give other scores, so they are in the digest, and in the key of a run.
    versions = "\0".join(f"{name}={version}" for name, version in library_versions().items())
    digest = hashlib.sha256(f"{manifest.digest}\0{versions}".encode()).hexdigest()
    return OnnxModel(manifest.label_set, source, transition, reading, network, tokenizer, manifest, digest)


def load(folder: Path | str) -> OnnxModel:
    """The model saved in a folder; no file is opened before its hash was checked. Raises `ModelError`, also where
    onnxruntime or tokenizers is not installed."""
    folder = Path(folder)
    manifest = read_manifest(folder, kind=KIND, files=FILES)
    source, transition = read_scores(folder, manifest)
    reading = saved_content(folder / READING_FILE, OnnxSettings)
    return _model(folder, manifest, source, transition, reading)
