"""Local model that is a token classifier of Hugging Face's in ONNX: scores are computed where documents are labelled.

The folder has the network (``model.onnx``), its tokenizer (``tokenizer.json``), and what a model of scores has
(`workers.models.scores`): the labels, the temperature and the transitions of a chain, which `concord calibrate` learns.
Each sentence goes through the network by itself, so that its scores do not depend on what else is in a batch; they are
kept for the next run (`workers.models.score_cache`). Sub-words become words as `workers.models.subwords` says.

onnxruntime and tokenizers are the extra ``onnx``; they are imported when a model is loaded.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from concord.schemas.arrays import Floats
from concord.schemas.document import TOKENS, Batch, TokenizedText
from concord.schemas.labels import LabelSet
from concord.schemas.potentials import Potentials
from concord.schemas.settings import Settings
from concord.workers.models.arrays_file import write_arrays
from concord.workers.models.folder import Manifest, manifest_of, read_manifest, write_manifest
from concord.workers.models.saved_files import saved_content, write_content
from concord.workers.models.score_cache import ScoreCache
from concord.workers.models.scores import SCORES_FILE, TRANSITION_FILE, ScoresModel, label_set, read_scores, unary
from concord.workers.models.settings import ScoresSettings
from concord.workers.models.subword_network import (
    NETWORK_FILE,
    TOKENIZER_FILE,
    Network,
    NetworkWidth,
    OnnxSettings,
    library_versions,
    opened,
    word_table,
)
from concord.workers.models.subwords import Logits, log_softmax
from concord.workers.storage.files import write_whole

KIND = "onnx"
READING_FILE = "onnx.json"
FILES = (NETWORK_FILE, TOKENIZER_FILE, READING_FILE, SCORES_FILE, TRANSITION_FILE)


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
        return word_table(batch, self._scored, self._cache).astype(np.float64)

    @property
    def head(self) -> ScoresModel:
        """Model of the network's scores in ``Batch.scores``: for calibration, which sees each document many times."""
        return ScoresModel(self.labels, self.source, self.transition, self.manifest, self.digest)

    def _scored(self, sentence: TokenizedText) -> Logits:
        return log_softmax(self._opened.word_rows(sentence, self.reading))

    @cached_property
    def _opened(self) -> Network:
        return opened(self.network.tobytes(), self.tokenizer_file.tobytes().decode(), _width(self.source))

    @cached_property
    def _cache(self) -> ScoreCache:
        """Scores of sentences, under the digest of all that decides them."""
        files = [self.manifest.files[name] for name in (NETWORK_FILE, TOKENIZER_FILE)]
        decisive = "\0".join([*files, self.reading.model_dump_json(), *library_versions().values()])
        return ScoreCache(hashlib.sha256(decisive.encode()).hexdigest(), len(self.source.labels))

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in ("_opened", "_cache")}


def _width(source: ScoresSettings) -> NetworkWidth:
    return NetworkWidth(len(source.labels), "a score for each label of config.json")


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
    opened(network, tokenizer.decode(), _width(source)).run(np.zeros(3, np.int64))
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
