"""A hidden Markov model by counting, smoothed by Witten and Bell: learned in no time, and from few documents.

Of counts c(i, ·) of T kinds, C in all, and a coarser distribution q over the same things,

    p(j | i) = (c(i, j) + T · q(j)) / (C + T)

(Witten & Bell 1991): the more kinds of things were seen, the likelier is another. Labels back off to how often each is
there, words to their shape, shapes to one another; a label that was never seen has q alone, so all stays finite. Chang,
Ratinov & Roth (2008) name no smoothing for their HMM, and it decides everything.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from schemas.document import TOKENS, Batch, Document
from schemas.labels import LabelSet
from schemas.potentials import Floats, Ints
from schemas.settings import HmmSettings
from workers.features.extractors import shape
from workers.learning.crf.chains import Gold, transition_counts
from workers.learning.trainers.trainer import Iteration, Progress, Seen
from workers.models.folder import begin
from workers.models.hmm import HmmModel, Tables, save

NAME = "hmm"


class Counts(NamedTuple):
    """How often: ``initial`` (L,) a label opens a sentence, ``transition`` (L, L) follows another, ``word`` (L, V) goes
    with each word."""

    initial: Floats
    transition: Floats
    word: Floats


def train(
    documents: Iterable[Document], *, settings: HmmSettings, out: Path, progress: Progress | None = None
) -> HmmModel:
    """See `workers.learning.trainers.trainer.Train`."""
    seen, kept = Seen((TOKENS,)), []
    for document in documents:
        seen.gold(document)
        kept.append(document)
    training = seen.training(NAME, settings)
    begin(out)
    labels, batch = LabelSet.infer(seen.names.union(settings.labels)), Batch.of(kept)
    assert batch.labels is not None
    words, place = np.unique(batch.columns[TOKENS].strings(), return_inverse=True)
    shapes, kind = np.unique([shape(word) for word in words], return_inverse=True)
    gold = Gold(batch.sentence_bounds, labels.encode(batch.labels.strings()), len(labels))
    tables = estimated(counted(gold, place, len(words)), kind)
    if progress is not None:
        progress(Iteration(1, 1))
    return save(out, labels, words.tolist(), shapes.tolist(), tables, settings=settings, training=training)


def counted(gold: Gold, word: Ints, words: int) -> Counts:
    """Counts of chains of labels, and of their words (N,), of ``words`` kinds."""
    size, labels = gold.width, gold.labels.astype(np.int64)
    together = np.bincount(labels * words + word, minlength=size * words).reshape(size, words)
    opening = np.bincount(labels[gold.bounds[:-1]], minlength=size)
    return Counts(opening.astype(np.float64), transition_counts(gold), together.astype(np.float64))


def estimated(counts: Counts, shape_of: NDArray[np.int64]) -> Tables:
    """The model of these counts; ``shape_of`` (V,) numbers the shape of each word."""
    size, words = counts.word.shape
    often = counts.word.sum(axis=1)
    label = (often + 1.0) / (often.sum() + size)
    shapes = int(shape_of.max(initial=-1)) + 1
    by_shape = np.zeros((size, shapes + 1))
    np.add.at(by_shape.T, shape_of, counts.word.T)
    # Of the words of a shape one was never seen: it stands for all such.
    kinds = np.append(np.bincount(shape_of, minlength=shapes), 0) + 1
    other = witten_bell(by_shape, np.full(shapes + 1, 1.0 / (shapes + 1))) / kinds
    coarser = np.concatenate([other[:, shape_of], other], axis=1)
    seen = witten_bell(np.concatenate([counts.word, np.zeros_like(other)], axis=1), coarser)
    found = np.log(seen.T)
    return Tables(
        np.log(witten_bell(counts.initial[None], label)[0]),
        np.log(witten_bell(counts.transition, label)),
        np.ascontiguousarray(found[:words]),
        np.ascontiguousarray(found[words:]),
    )


def witten_bell(counts: Floats, coarser: Floats) -> Floats:
    """(I, J) p(j | i) of counts (I, J); ``coarser`` is q: (J,), or (I, J) where it differs by row."""
    kinds = np.maximum(np.count_nonzero(counts, axis=1)[:, None], 1)
    smoothed: Floats = (counts + kinds * coarser) / (counts.sum(axis=1)[:, None] + kinds)
    return smoothed
