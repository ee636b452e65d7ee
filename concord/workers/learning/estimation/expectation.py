"""Expectation maximisation for a hidden Markov model: it labels unlabelled documents, and learns from those labels.

Soft (Baum & Welch; Stokman 2011 eq. 2–5 and 8–16): each label counts as its probability given all words. Hard: only the
best labelling counts. Sums over labellings are scaled at each token, see `workers.learning.estimation.objective`.

Labelled and unlabelled documents are joined in one of two ways:

- *Counts* (Nigam, McCallum, Thrun & Mitchell 2000): expected counts of the unlabelled documents, times a weight, are
  added to the smoothed counts of the labelled ones. The latter are fixed, so smoothing is a prior, and

      weight · log p(unlabelled words) + Σ evidence · log p

  never falls.
- *Models* (Chang, Ratinov & Roth 2008, algorithm 2 line 8, without constraints): a model of the expected counts alone
  is smoothed by itself, and mixed with the model of the labelled documents. Its smoothing changes with every iteration,
  and the mixture maximises no likelihood, so the likelihood may fall.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from concord.schemas.arrays import Floats, Ints
from concord.schemas.labels import LabelSet
from concord.schemas.potentials import Potentials
from concord.workers.compiling.kernel import kernel_in_place
from concord.workers.inference.core.chain import best_labels
from concord.workers.learning.estimation.chains import GoldChains
from concord.workers.learning.estimation.hmm_counts import (
    Evidence,
    HmmCounts,
    counted,
    estimated,
    evidence,
    likeliest,
    mixed,
)
from concord.workers.learning.estimation.objective import ChainRoom, backward_scaled, forward_scaled
from concord.workers.models.hmm import Tables
from concord.workers.models.settings import HmmSettings


class ExpectedWords(NamedTuple):
    """Unlabelled text: N tokens in S sentences, with V distinct words.

    - ``bounds`` (S + 1,): first token of each sentence, and N.
    - ``word`` (N,): number of each token's word.
    """

    bounds: Ints
    word: Ints


class Expected(NamedTuple):
    """Result of an expectation step.

    - ``counts``: expected counts.
    - ``score``: in nats, log p of all words if soft; log p of the words with their best labels if hard.
    """

    counts: HmmCounts
    score: float


class ExpectationStep(NamedTuple):
    """One iteration.

    - ``tables``: the new model.
    - ``loss``: nats; minus the aim of the model before, whose labels the new one is learned from.
    """

    tables: Tables
    loss: float


Expect = Callable[[Tables, ExpectedWords, LabelSet], Expected]


def expected_by_all(tables: Tables, words: ExpectedWords, labels: LabelSet) -> Expected:
    """Soft counts: each legal labelling counts as its probability. Raises `ValueError` if a sentence has none."""
    p = _potentials(tables, words, labels)
    scores, factors, room = p.unary.copy(), np.exp(p.transition), ChainRoom.of(words.bounds, len(labels))
    total = add_expected(scores, factors[None], words.bounds, room)
    if total == np.inf:
        raise ValueError("a sentence has no possible labelling")
    opening = scores[words.bounds[:-1]].sum(axis=0)
    together = np.stack([np.bincount(words.word, share, len(tables.word)) for share in scores.T]).astype(np.float64)
    return Expected(HmmCounts(opening, room.joint[0] * factors, together), total)


def expected_by_best(tables: Tables, words: ExpectedWords, labels: LabelSet) -> Expected:
    """Hard counts: those of the best legal labelling."""
    best, scores = best_labels(_potentials(tables, words, labels))
    gold = GoldChains(words.bounds, best, len(labels))
    return Expected(counted(gold, words.word, len(tables.word)), float(scores.sum()))


EXPECT: dict[str, Expect] = {"soft": expected_by_all, "hard": expected_by_best}


def improved(
    labelled: HmmCounts, shape_of: Ints, words: ExpectedWords, labels: LabelSet, settings: HmmSettings
) -> Iterator[ExpectationStep]:
    """The model of each of at most ``settings.iterations`` iterations.

    Ends early if the loss changes by less than ``settings.change`` nats per unlabelled token. The first expectation
    uses the model of the ``labelled`` counts alone. ``shape_of`` (V,) numbers the shape of each word of both corpora.
    """
    expect, mix = EXPECT[settings.em], MIXTURES[settings.mixing](labelled, shape_of, settings)
    tables, before = estimated(labelled, shape_of), np.inf
    for _ in range(settings.iterations):
        expectation = expect(tables, words, labels)
        loss = -mix.aim(tables, expectation.score)
        tables = mix(expectation.counts)
        yield ExpectationStep(tables, loss)
        if abs(before - loss) < settings.change * len(words.word):
            return
        before = loss


class MixedCounts:
    """Sum of the smoothed labelled counts and the weighted expected counts; the smoothing is fixed."""

    def __init__(self, labelled: HmmCounts, shape_of: Ints, settings: HmmSettings) -> None:
        self._fixed = evidence(labelled, shape_of)
        self._weight = settings.weight

    def __call__(self, counts: HmmCounts) -> Tables:
        """The model of maximum likelihood, given expected counts."""
        return added(self._fixed, counts, self._weight)

    def aim(self, tables: Tables, score: float) -> float:
        """The quantity that never falls, in nats; ``score`` is log p of the unlabelled words."""
        emission = np.concatenate([tables.word, tables.shape]).T
        logs = zip(self._fixed, (tables.initial, tables.transition, emission), strict=True)
        return self._weight * score + float(sum((counts * log).sum() for counts, log in logs))


class MixedModels:
    """Mixture of two models, one of labelled and one of expected counts, each smoothed by itself."""

    def __init__(self, labelled: HmmCounts, shape_of: Ints, settings: HmmSettings) -> None:
        self._first = estimated(labelled, shape_of)
        self._shape_of = shape_of
        self._gamma = settings.gamma

    def __call__(self, counts: HmmCounts) -> Tables:
        """The mixture, given expected counts."""
        estimate = estimated(counts, self._shape_of)
        pairs = zip(self._first, estimate, strict=True)
        return Tables(*(mixed(first, new, self._gamma) for first, new in pairs))

    def aim(self, tables: Tables, score: float) -> float:
        """The score itself: no quantity is known that every iteration improves."""
        del tables
        return score


MIXTURES: dict[str, type[MixedCounts | MixedModels]] = {"counts": MixedCounts, "models": MixedModels}


def added(fixed: Evidence, counts: HmmCounts, weight: float) -> Tables:
    """The model of maximum likelihood for fixed evidence plus ``weight`` times expected counts."""
    emission = fixed.emission.copy()
    emission[:, : counts.word.shape[1]] += weight * counts.word
    total = Evidence(fixed.initial + weight * counts.initial, fixed.transition + weight * counts.transition, emission)
    return likeliest(total, counts.word.shape[1])


def _potentials(tables: Tables, words: ExpectedWords, labels: LabelSet) -> Potentials:
    unary = tables.word[words.word]
    unary[words.bounds[:-1]] += tables.initial
    return Potentials(unary, tables.transition, words.bounds[:-1]).legal(labels)


@kernel_in_place
def add_expected(scores: Floats, factors: Floats, bounds: Ints, room: ChainRoom) -> float:
    """Log partition function, summed over some sentences, in nats; infinite if a sentence has no possible labelling.

    Turns ``scores`` (N, L) into marginals p(y_t), and adds p(y_t−1, y_t) / factor to the room's joint; all tokens share
    one matrix of ``factors`` (1, L, L).
    """
    total = 0.0
    for s in range(len(bounds) - 1):
        sentence = scores[bounds[s] : bounds[s + 1]]
        found = forward_scaled(sentence, factors, room)
        if found == np.inf:
            return np.inf
        total += found
        backward_scaled(sentence, factors, room)
    return total
