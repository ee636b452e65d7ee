"""Hidden Markov model estimated from counts, with Witten-Bell smoothing; expected counts may be fractions.

With T distinct outcomes among the C observations in context i, and a coarser distribution q over the outcomes,

    p(j | i) = (c(i, j) + T · q(j)) / (C + T)

(Witten & Bell 1991): the more distinct outcomes were seen, the likelier is a new one. T · q are the counts that
smoothing adds. The coarser distribution of labels is their overall frequency; of words, their shapes; of shapes, a
uniform one. A context that was never seen has q alone, so all log probabilities stay finite. Chang, Ratinov & Roth
(2008) name no smoothing for their HMM, but results depend on it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from concord.schemas.arrays import Floats, Ints
from concord.workers.learning.estimation.chains import GoldChains, transition_counts
from concord.workers.models.hmm import Tables


class HmmCounts(NamedTuple):
    """Counts, possibly expected ones, for L labels and V words.

    - ``initial`` (L,): sentences that the label opens.
    - ``transition`` (L, L): pairs of neighbouring labels, the earlier one first.
    - ``word`` (L, V): tokens of each word with the label.
    """

    initial: Floats
    transition: Floats
    word: Floats


class Evidence(NamedTuple):
    """Smoothed counts, for L labels, V words and S shapes.

    - ``initial`` (L,), ``transition`` (L, L): as in `HmmCounts`.
    - ``emission`` (L, V + S + 1): of each word, then of an unseen word of each known shape, then of an unknown shape.
    """

    initial: Floats
    transition: Floats
    emission: Floats


def counted(gold: GoldChains, word: Ints, words: int, share: Floats | None = None) -> HmmCounts:
    """Counts of labelled tokens with words (N,) below ``words``; each token counts as its ``share`` (N,), or 1."""
    size, labels, first = gold.width, gold.labels.astype(np.int64), gold.bounds[:-1]
    together = np.bincount(labels * words + word, share, size * words).reshape(size, words)
    opening = np.bincount(labels[first], None if share is None else share[first], size)
    return HmmCounts(opening.astype(np.float64), transition_counts(gold, share), together.astype(np.float64))


def evidence(counts: HmmCounts, shape_of: Ints) -> Evidence:
    """The smoothed counts; ``shape_of`` (V,) numbers the shape of each word."""
    label = label_shares(counts)
    return Evidence(
        witten_bell(counts.initial[None], label)[0], witten_bell(counts.transition, label), _emission(counts, shape_of)
    )


def label_shares(counts: HmmCounts) -> Floats:
    """(L,) relative frequency of each label, with one token of each added."""
    often = counts.word.sum(axis=1) + 1.0
    shares: Floats = often / often.sum()
    return shares


def _emission(counts: HmmCounts, shape_of: Ints) -> Floats:
    size = len(counts.word)
    shapes = int(shape_of.max(initial=-1)) + 1
    by_shape = np.zeros((size, shapes + 1))
    np.add.at(by_shape.T, shape_of, counts.word.T)
    # Each shape has one more word than were seen: it stands for all unseen ones.
    kinds = np.append(np.bincount(shape_of, minlength=shapes), 0) + 1
    other = shares(witten_bell(by_shape, np.full(shapes + 1, 1.0 / (shapes + 1)))) / kinds
    coarser = np.concatenate([other[:, shape_of], other], axis=1)
    return witten_bell(np.concatenate([counts.word, np.zeros_like(other)], axis=1), coarser)


def witten_bell(counts: Floats, coarser: Floats) -> Floats:
    """(I, J) counts plus T · q; ``coarser`` is q, of shape (J,), or (I, J) where it differs by row.

    A count below one adds only that fraction to T, the number of distinct outcomes; T is at least 1.
    """
    kinds = np.maximum(np.minimum(counts, 1.0).sum(axis=1), 1.0)
    smoothed: Floats = counts + kinds[:, None] * coarser
    return smoothed


def shares(counts: Floats) -> Floats:
    """Counts (..., J) divided by the sum of their row."""
    fractions: Floats = counts / counts.sum(axis=-1, keepdims=True)
    return fractions


def likeliest(evidence: Evidence, words: int) -> Tables:
    """The model of maximum likelihood, in log probabilities; ``words`` is V."""
    with np.errstate(divide="ignore"):  # an event without evidence is impossible
        initial, transition, emission = (np.log(shares(counts)) for counts in evidence)
    return Tables(
        initial,
        transition,
        np.ascontiguousarray(emission[:, :words].T),
        np.ascontiguousarray(emission[:, words:].T),
    )


def estimated(counts: HmmCounts, shape_of: Ints) -> Tables:
    """The model of smoothed counts; ``shape_of`` (V,) numbers the shape of each word."""
    return likeliest(evidence(counts, shape_of), len(shape_of))


def mixed(first: Floats, second: Floats, gamma: float) -> Floats:
    """Log probabilities of the mixture γ · first + (1 − γ) · second, of log probabilities."""
    with np.errstate(divide="ignore"):  # either share may be 0
        mixture: Floats = np.logaddexp(np.log(gamma) + first, np.log1p(-gamma) + second)
    return mixture
