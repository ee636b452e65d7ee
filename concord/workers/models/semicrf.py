"""Semi-Markov CRF: a model that labels the segments of a sentence instead of its tokens (Sarawagi & Cohen 2004).

A segment is one token outside all spans, or up to M tokens of one type. Its score is in `workers.models.segments`, its
features are in `workers.features.segments`. `SemiCrfModel.best` gives the exact answer, by nested Viterbi.

Engines work on labels of tokens, so they are given token scores derived from the model, with transitions of zero:

    best       max-marginals: how far the best segmentation with the label is below the best of all, in nats. The
               labelling of highest score is the one of nested Viterbi, whichever engine looks for it.
    marginals  logarithm of the label's probability

Under constraints both are estimates: they count a change once for each of its tokens, though a segment changes as a
whole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from concord.schemas.arrays import Floats
from concord.schemas.document import Batch
from concord.schemas.labels import OUTSIDE, Labels, LabelSet, Scheme
from concord.schemas.potentials import Potentials
from concord.workers.features.derived import needed_columns
from concord.workers.features.scorer import FeatureError, FeatureWeights, Scorer, known_words
from concord.workers.features.segments import WholeSegments, first_features, last_features
from concord.workers.features.templates import FeatureSet
from concord.workers.models.arrays_file import SCORES, TRUTHS, ArrayKind, write_arrays
from concord.workers.models.crf import weight_arrays
from concord.workers.models.feature_files import read_features, write_features
from concord.workers.models.folder import Manifest, manifest_of, read_manifest, write_manifest
from concord.workers.models.saved_files import FolderModel, parsing, saved_arrays
from concord.workers.models.segments import (
    HOPELESS,
    Segments,
    SegmentScores,
    TokenFigures,
    best_segments,
    marginals,
    max_marginals,
)
from concord.workers.models.settings import SemiCrfSettings

KIND = "semicrf"
WEIGHTS_FILE = "weights.bin"
PARTS = ("inside", "first", "last")
"""Three sets of features: of the tokens inside a segment, of its first token and of its last."""
ARRAYS = (
    *(kind for part in PARTS for kind in weight_arrays(f"{part} ")),
    ArrayKind("length", "<f8", ("sizes", "kinds"), SCORES),
    ArrayKind("transition", "<f8", ("kinds", "kinds"), SCORES),
    ArrayKind("whole", "<f8", ("features", "kinds"), SCORES),
    ArrayKind("whole_keys", "<u8", ("slots",)),
    ArrayKind("whole_rows", "<i4", ("slots",)),
    ArrayKind("marginals", "|b1", ("flags",), TRUTHS),
)
"""Arrays of `WEIGHTS_FILE` in order: those of `FeatureWeights` for each part, those of `LearnedSemiCrf`, and the flag
whether engines are given marginals."""
TIE = 1e-9
"""Least cost, in nats, of a label that is not in the best segmentation; it breaks ties between segmentations."""


class LearnedSemiCrf(NamedTuple):
    """Result of training, by K labels of segments: the types of ``labels`` in order, then outside if it was seen.

    - ``labels``: labels of tokens.
    - ``features``: feature templates.
    - ``parts``: weights of the features of tokens inside, first and last in a segment.
    - ``length`` (M, K), ``transition`` (K, K), ``whole`` (R, K): scores as in `SegmentScores`.
    - ``segments``: the features of whole segments, by row of ``whole``.
    """

    labels: LabelSet
    features: FeatureSet
    parts: tuple[FeatureWeights, ...]
    length: Floats
    transition: Floats
    whole: Floats
    segments: WholeSegments


@dataclass(frozen=True, eq=False)
class SemiCrfModel(FolderModel):
    """A trained semi-Markov CRF; ``gives_marginals`` chooses the token scores for engines: log marginals, otherwise
    max-marginals."""

    learned: LearnedSemiCrf
    gives_marginals: bool
    manifest: Manifest

    @property
    def labels(self) -> LabelSet:
        """The labels (L) of tokens."""
        return self.learned.labels

    @property
    def columns(self) -> tuple[str, ...]:
        """The token columns that the features read, sorted."""
        return needed_columns(self.learned.features)

    def potentials(self, batch: Batch) -> Potentials:
        """Local scores of a whole batch: unary (N, L), nats, at most 0; transitions of zero.

        Raises as `CrfModel.potentials` does.
        """
        unary = self._marginals(batch) if self.gives_marginals else self._best(batch)
        return Potentials(unary, np.zeros((len(self.labels),) * 2), batch.sentence_starts)

    def best(self, batch: Batch) -> Labels:
        """(N,) labels of the best segments of a batch, ids of its label set."""
        return self._labels(best_segments(self.segment_scores(batch), batch.sentence_bounds)[0])

    def segment_scores(self, batch: Batch) -> SegmentScores:
        """Scores of all segments of a batch."""
        learned = self.learned
        inside, first, last = (scorer.unary(batch) for scorer in self.scorers)
        # Copies, since kernels are compiled anew for what cannot be written to.
        length, transition, whole = (table.copy() for table in (learned.length, learned.transition, learned.whole))
        rows = learned.segments.found(batch, len(length))
        return SegmentScores(inside, first, last, length, transition, whole, rows, len(self.labels.types))

    def known(self, words: Sequence[str]) -> NDArray[np.bool_]:
        """(V,) which words the model has weights for, see `CrfModel.known`."""
        return known_words(self.learned.features, self.learned.parts[0], words)

    @cached_property
    def scorers(self) -> tuple[Scorer, ...]:
        """Scorers of tokens inside, first and last in a segment. Their word tables belong to this process and are not
        pickled."""
        learned = self.learned
        features = (learned.features, first_features(learned.features), last_features(learned.features))
        width = learned.length.shape[1]
        return tuple(Scorer(f, w, width) for f, w in zip(features, learned.parts, strict=True))

    def _best(self, batch: Batch) -> Floats:
        """(N, L) max-marginals in nats, less the best score: 0 for labels of the best segments, otherwise ≤ −`TIE`."""
        scores, bounds = self.segment_scores(batch), batch.sentence_bounds
        segments, total = best_segments(scores, bounds)
        found = max_marginals(scores, bounds)
        unary = self._of_labels(found, np.maximum(found.first, found.inside))
        unary -= np.repeat(total, np.diff(bounds))[:, None]
        np.minimum(unary, -TIE, out=unary)
        unary[np.arange(len(unary)), self._labels(segments)] = 0.0
        return unary

    def _marginals(self, batch: Batch) -> Floats:
        """(N, L) log marginal probability of each label, in nats; at least −`HOPELESS`."""
        found = marginals(self.segment_scores(batch), batch.sentence_bounds)
        shares = self._of_labels(found, found.first + found.inside)
        unary: Floats = np.where(shares < 0.0, -np.inf, np.log(np.clip(shares, np.exp(-HOPELESS), 1.0)))
        return unary

    def _of_labels(self, found: TokenFigures, either: Floats) -> Floats:
        """(N, L) figures of segment labels, rearranged by token labels; ``either`` (N, K) joins first and inside.

        −inf for the outside label if training never saw it.
        """
        labels, types = self.labels, len(self.labels.types)
        unary = np.full((len(either), len(labels)), -np.inf)
        if labels.scheme is Scheme.PLAIN:
            unary[:, labels.opening] = either[:, :types]
        else:
            unary[:, labels.opening], unary[:, labels.inside] = found.first[:, :types], found.inside[:, :types]
        if either.shape[1] > types:
            unary[:, labels.index[OUTSIDE]] = found.first[:, types]
        return unary

    def _labels(self, segments: Segments) -> Labels:
        """(N,) token labels of a segmentation."""
        labels = self.labels
        outside = (labels.index[OUTSIDE],) if OUTSIDE in labels.index else ()
        opening, inside = (np.append(ids, outside).astype(np.int32) for ids in (labels.opening, labels.inside))
        return np.where(segments.size > 0, opening[segments.kind], inside[segments.kind])


def save(out: Path, learned: LearnedSemiCrf, *, settings: SemiCrfSettings, training: Mapping[str, Any]) -> SemiCrfModel:
    """Writes the weights and, last, the manifest into a folder that `begin` has made.

    Raises `OSError`, and `OutputError` of the manifest.
    """
    features, lists = write_features(out, learned.features)
    arrays = [array for part in learned.parts for array in vars(part).values()]
    shared = (learned.length, learned.transition, learned.whole, learned.segments.keys, learned.segments.rows)
    gives_marginals = settings.scores == "marginals"
    write_arrays(out / WEIGHTS_FILE, (*arrays, *shared, np.array([gives_marginals])))
    manifest = manifest_of(
        out,
        KIND,
        learned.labels,
        files=(*lists, WEIGHTS_FILE),
        settings=settings,
        training=training,
        libraries=("numpy", "numba"),
        features=features.name,
        templates=[t.name for t in features.templates],
    )
    write_manifest(out, manifest)
    return SemiCrfModel(learned._replace(features=features), gives_marginals, manifest)


def load(folder: Path | str) -> SemiCrfModel:
    """Semi-Markov CRF of a folder; each file's hash is checked before its content is parsed.

    Raises `ModelError` where the folder is not a complete semi-Markov CRF or its features are defined otherwise now.
    """
    folder = Path(folder)
    manifest = read_manifest(folder, kind=KIND, files=(WEIGHTS_FILE,))
    features = read_features(folder, manifest)
    *arrays, length, transition, whole, keys, rows, marked = saved_arrays(folder / WEIGHTS_FILE, ARRAYS, flags=1)
    count = len(arrays) // len(PARTS)
    parts = tuple(FeatureWeights(*arrays[k : k + count]) for k in range(0, len(arrays), count))
    learned = LearnedSemiCrf(manifest.label_set, features, parts, length, transition, whole, WholeSegments(keys, rows))
    with parsing(folder / WEIGHTS_FILE):
        _check(learned)
    return SemiCrfModel(learned, bool(marked[0]), manifest)


def _check(learned: LearnedSemiCrf) -> None:
    """Raises `FeatureError` where an array does not fit the number of labels or holds values that are not allowed."""
    width, types = learned.length.shape[1], len(learned.labels.types)
    known = (types, types + 1) if OUTSIDE in learned.labels.index else (types,)
    if width not in known or not width or not len(learned.length):
        raise FeatureError(f"length is {learned.length.shape} for {types} types")
    for part in learned.parts:
        part.check(width)
    learned.segments.check(len(learned.whole))
