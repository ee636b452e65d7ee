"""A CRF beside a frozen encoder: a head of softmax regression on the encoder's states adds to the CRF's scores.

    unary[t, y] = CRF's unary[t, y] + share · log p_head(y | context of t)

The folder has the CRF (``crf/``), the encoder's network and tokenizer, and the head. The head is linear, so that its
four parts (`workers.models.encoder`) are computed word by word as soon as a sentence has gone through the network: what
is kept for the next run is four numbers a label and word, not its state.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from concord.schemas.arrays import Floats
from concord.schemas.document import TOKENS, Batch, TokenizedText
from concord.schemas.labels import LabelSet
from concord.schemas.potentials import Potentials
from concord.schemas.settings import Settings, TrainerSettings
from concord.workers.features.templates import state_column
from concord.workers.models import crf
from concord.workers.models.arrays_file import SCORES, ArrayKind, write_arrays
from concord.workers.models.crf import CrfModel
from concord.workers.models.encoder import CONTEXT_PARTS, Encoder, WordContext, WordStates, row_at, saved_encoder
from concord.workers.models.folder import Manifest, ModelError, manifest_of, read_manifest, write_manifest
from concord.workers.models.saved_files import (
    FolderModel,
    check_labels,
    files_inside,
    saved_arrays,
    saved_content,
    write_content,
)
from concord.workers.models.score_cache import ScoreCache
from concord.workers.models.state_clusters import StateClusters, cluster_arrays
from concord.workers.models.subword_network import (
    NETWORK_FILE,
    TOKENIZER_FILE,
    OnnxSettings,
    library_versions,
    word_table,
)
from concord.workers.models.subwords import Logits, log_softmax
from concord.workers.storage.files import write_whole

KIND = "encoded-crf"
CRF_FOLDER, HEAD_FILE, READING_FILE = "crf", "head.bin", "encoder.json"
CLUSTERS_FILE = "state-clusters.bin"
"""Arrays of `StateClusters`, of a model that has them."""
FLOOR = -20.0
"""Least log-probability of the head, in nats: it never forbids a label."""
ARRAYS = (
    ArrayKind("center", "<f4", ("states",), SCORES),
    ArrayKind("scale", "<f4", ("states",), SCORES),
    ArrayKind("weights", "<f4", ("parts", "states", "labels"), SCORES),
    ArrayKind("bias", "<f8", ("labels",), SCORES),
)
"""Arrays of `HEAD_FILE`: those of `Head`."""


class Head(NamedTuple):
    """Softmax regression from a word's context to labels.

    - ``center``, ``scale`` (D,): a state x is read as (x − center) · scale.
    - ``weights`` (`CONTEXT_PARTS`, D, L): of each part of the context, in the order of `workers.models.encoder`.
    - ``bias`` (L,): nats.
    """

    center: NDArray[np.float32]
    scale: NDArray[np.float32]
    weights: NDArray[np.float32]
    bias: Floats

    def read(self, states: WordStates) -> WordStates:
        """(N, D) states as the weights take them."""
        read: WordStates = (states - self.center) * self.scale
        return read

    def parts(self, states: WordStates) -> Logits:
        """(N, `CONTEXT_PARTS` · L) what each part gives for each label, if a word with this state stands there."""
        return np.concatenate([self.read(states) @ weights for weights in self.weights], axis=1)

    def log_probabilities(self, parts: Logits, context: WordContext) -> Floats:
        """(N, L) log-probabilities of the labels, at least `FLOOR`, from the parts of all words."""
        own, elsewhere, previous, following = np.split(parts.astype(np.float64), CONTEXT_PARTS, axis=1)
        total = own + context.elsewhere(elsewhere) + self.bias
        total += row_at(previous, context.previous) + row_at(following, context.next)
        return np.maximum(log_softmax(total).astype(np.float64), FLOOR)


class EncodedSettings(Settings):
    """How a model reads its encoder.

    - ``share``: weight of the head's log-probabilities beside the CRF's scores
    - ``state_clusters``: sizes of the clusterings of its states that the CRF's features read
    """

    reading: OnnxSettings
    share: float = Field(ge=0, le=10, allow_inf_nan=False)
    state_clusters: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False)
class EncodedModel(FolderModel):
    """A CRF, an encoder, and a head whose log-probabilities are added with weight ``share``."""

    inner: CrfModel
    encoder: Encoder
    head: Head
    share: float
    clusters: StateClusters | None
    manifest: Manifest

    @property
    def labels(self) -> LabelSet:
        """The labels (L) of the CRF, which are the head's, too."""
        return self.inner.labels

    @property
    def columns(self) -> tuple[str, ...]:
        """The token columns that a batch must have, sorted."""
        made = set() if self.clusters is None else set(map(state_column, self.clusters.sizes))
        return tuple(sorted({*self.inner.columns, TOKENS} - made))

    @cached_property
    def digest(self) -> str:
        """See `Model.digest`: other versions of the network's libraries may give other scores."""
        versions = "\0".join(f"{name}={version}" for name, version in library_versions().items())
        return hashlib.sha256(f"{self.manifest.digest}\0{versions}".encode()).hexdigest()

    def potentials(self, batch: Batch) -> Potentials:
        """Local scores of a whole batch: unary (N, L) in nats. Raises as `CrfModel.potentials`, and `ModelError`."""
        parts = word_table(batch, self._parts_of, self._cache)
        if self.clusters is not None:
            parts, clusters = np.split(parts, [CONTEXT_PARTS * len(self.labels)], axis=1)
            batch = replace(batch, columns={**batch.columns, **self.clusters.columns(clusters)})
        local = self.inner.potentials(batch)
        local.unary[:] += self.share * self.head.log_probabilities(parts, WordContext.of(batch))
        return local

    def known(self, words: Sequence[str]) -> NDArray[np.bool_]:
        """(V,) which words the CRF has weights for, see `CrfModel.known`."""
        return self.inner.known(words)

    def _parts_of(self, sentence: TokenizedText) -> Logits:
        states = self.encoder.rows_of(sentence)
        parts = self.head.parts(states)
        return parts if self.clusters is None else np.concatenate([parts, self.clusters.of(states)], axis=1)

    @cached_property
    def _cache(self) -> ScoreCache:
        """What the head gives for sentences, under the digest of encoder and head."""
        files = self.manifest.files
        digests = (files[name] for name in (HEAD_FILE, CLUSTERS_FILE) if name in files)
        decisive = "\0".join([self.encoder.digest, *digests])
        clusterings = 0 if self.clusters is None else len(self.clusters.sizes)
        width = CONTEXT_PARTS * len(self.labels) + clusterings
        return ScoreCache(hashlib.sha256(decisive.encode()).hexdigest(), width)


def save(
    out: Path,
    inner: CrfModel,
    encoder: Encoder,
    head: Head,
    *,
    share: float,
    clusters: StateClusters | None,
    settings: TrainerSettings,
    training: Mapping[str, Any],
) -> EncodedModel:
    """Writes a model whose CRF is already saved in `CRF_FOLDER`, the manifest last. Raises `OutputError`."""
    write_whole(out / NETWORK_FILE, encoder.network.tobytes())
    write_whole(out / TOKENIZER_FILE, encoder.tokenizer_file.tobytes())
    sizes = () if clusters is None else clusters.sizes
    write_content(out / READING_FILE, EncodedSettings(reading=encoder.reading, share=share, state_clusters=sizes))
    write_arrays(out / HEAD_FILE, head)
    made: tuple[str, ...] = ()
    if clusters is not None:
        made = (CLUSTERS_FILE,)
        write_arrays(out / CLUSTERS_FILE, (clusters.mean, *clusters.centers))
    files = (*made, NETWORK_FILE, TOKENIZER_FILE, READING_FILE, HEAD_FILE, *files_inside(CRF_FOLDER, inner.manifest))
    manifest = manifest_of(
        out,
        KIND,
        inner.labels,
        files=files,
        settings=settings,
        training=training,
        libraries=("numpy", "scipy"),
        features=inner.manifest.features,
        templates=inner.manifest.templates,
    )
    manifest = manifest.model_copy(update={"versions": manifest.versions | library_versions()})
    write_manifest(out, manifest)
    return EncodedModel(inner, encoder, head, share, clusters, manifest)


def load(folder: Path | str) -> EncodedModel:
    """The model of a folder. Raises `ModelError`, also where onnxruntime or tokenizers is not installed."""
    folder = Path(folder)
    manifest = read_manifest(folder, kind=KIND, files=(NETWORK_FILE, TOKENIZER_FILE, READING_FILE, HEAD_FILE))
    content = saved_content(folder / READING_FILE, EncodedSettings)
    inner = crf.load(folder / CRF_FOLDER)
    check_labels(folder / CRF_FOLDER, inner.labels, manifest)
    arrays = saved_arrays(folder / HEAD_FILE, ARRAYS, labels=len(inner.labels), parts=CONTEXT_PARTS)
    encoder = saved_encoder(folder, content.reading)
    if encoder.width != len(arrays[0]):
        raise ModelError(f"{folder / HEAD_FILE}: reads states of {len(arrays[0])} numbers, not of {encoder.width}")
    clusters = _saved_clusters(folder, manifest, content.state_clusters, encoder.width)
    return EncodedModel(inner, encoder, Head(*arrays), content.share, clusters, manifest)


def _saved_clusters(folder: Path, manifest: Manifest, sizes: tuple[int, ...], width: int) -> StateClusters | None:
    if bool(sizes) != (CLUSTERS_FILE in manifest.files):
        raise ModelError(f"{folder / READING_FILE}: clusters of states and {CLUSTERS_FILE} go together; train again")
    if not sizes:
        return None
    counts = {f"clusters {size}": size for size in sizes}
    mean, *centers = saved_arrays(folder / CLUSTERS_FILE, cluster_arrays(sizes), states=width, **counts)
    return StateClusters(mean, tuple(centers))
