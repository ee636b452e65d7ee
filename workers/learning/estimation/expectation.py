"""Expectation maximisation for a hidden Markov model: it labels what has no labels, and learns from that.

Soft (Baum & Welch; Stokman 2011 eq. 2–5 and 8–16): each label counts by its probability given all words. Hard: the best
labelling counts, and no other. Sums over labellings are scaled at each token, see
`workers.learning.estimation.objective`.

What is labelled takes part in one of two ways. *Counts* (Nigam, McCallum, Thrun & Mitchell 2000): those of either
corpus are added up, the expected ones by a weight, on top of what smoothing imagined of the labelled documents. That is
fixed, so

    weight · log p(unlabelled words) + Σ evidence · log p

never falls: smoothing is a prior here. *Models* (Chang, Ratinov & Roth 2008, algorithm 2 line 8, without constraints):
a model of expected counts alone is smoothed anew and mixed with that of the labelled documents. What is imagined then
changes with every iteration, and the mixture is not the likeliest model of anything: there the likelihood may fall.
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
    """Sentences ``bounds`` (S + 1,) of N tokens without labels, and the row of each token's word (N,), of V."""

    bounds: Ints
    word: Ints


class Expected(NamedTuple):
    """Expected counts, and log p of all words, or of the words and their best labels together, in nats."""

    counts: HmmCounts
    score: float


class ExpectationStep(NamedTuple):
    """A model, and what it was to make small when its words were labelled, in nats."""

    tables: Tables
    loss: float


Expect = Callable[[Tables, ExpectedWords, LabelSet], Expected]


def expected_by_all(tables: Tables, words: ExpectedWords, labels: LabelSet) -> Expected:
    """Counts of every legal labelling by its probability. Raises `ValueError` where a sentence has none."""
    p = _potentials(tables, words, labels)
    scores, factors, room = p.unary.copy(), np.exp(p.transition), ChainRoom.of(words.bounds, len(labels))
    total = add_expected(scores, factors, words.bounds, room)
    if total == np.inf:
        raise ValueError("a sentence has no possible labelling")
    opening = scores[words.bounds[:-1]].sum(axis=0)
    together = np.stack([np.bincount(words.word, share, len(tables.word)) for share in scores.T]).astype(np.float64)
    return Expected(HmmCounts(opening, room.joint * factors, together), total)


def expected_by_best(tables: Tables, words: ExpectedWords, labels: LabelSet) -> Expected:
    """Counts of the best legal labelling."""
    found, scores = best_labels(_potentials(tables, words, labels))
    gold = GoldChains(words.bounds, found, len(labels))
    return Expected(counted(gold, words.word, len(tables.word)), float(scores.sum()))


EXPECT: dict[str, Expect] = {"soft": expected_by_all, "hard": expected_by_best}


def improved(
    labelled: HmmCounts, shape_of: Ints, words: ExpectedWords, labels: LabelSet, settings: HmmSettings
) -> Iterator[ExpectationStep]:
    """Models one better than the other (see above), the first from the model of what is ``labelled``.

    ``shape_of`` (V,) is of the words of both corpora.
    """
    expect, mix = EXPECT[settings.em], MIXTURES[settings.mixing](labelled, shape_of, settings)
    tables, before = estimated(labelled, shape_of), np.inf
    for _ in range(settings.iterations):
        found = expect(tables, words, labels)
        loss = -mix.aim(tables, found.score)
        tables = mix(found.counts)
        yield ExpectationStep(tables, loss)
        if abs(before - loss) < settings.change * len(words.word):
            return
        before = loss


class MixedCounts:
    """Counts of either corpus added up; smoothing stays that of the labelled one."""

    def __init__(self, labelled: HmmCounts, shape_of: Ints, settings: HmmSettings) -> None:
        self._fixed = evidence(labelled, shape_of)
        self._weight = settings.weight

    def __call__(self, counts: HmmCounts) -> Tables:
        """The likeliest model."""
        return added(self._fixed, counts, self._weight)

    def aim(self, tables: Tables, score: float) -> float:
        """What never falls, in nats; ``score`` is of the unlabelled words."""
        emission = np.concatenate([tables.word, tables.shape]).T
        logs = zip(self._fixed, (tables.initial, tables.transition, emission), strict=True)
        return self._weight * score + float(sum((counts * log).sum() for counts, log in logs))


class MixedModels:
    """Probabilities of a model of either corpus, each smoothed by itself."""

    def __init__(self, labelled: HmmCounts, shape_of: Ints, settings: HmmSettings) -> None:
        self._first = estimated(labelled, shape_of)
        self._shape_of = shape_of
        self._gamma = settings.gamma

    def __call__(self, counts: HmmCounts) -> Tables:
        """The mixture."""
        learned = estimated(counts, self._shape_of)
        pairs = zip(self._first, learned, strict=True)
        return Tables(*(mixed(first, new, self._gamma) for first, new in pairs))

    def aim(self, tables: Tables, score: float) -> float:
        """The score itself: no aim is known that every iteration comes nearer to."""
        del tables
        return score


MIXTURES: dict[str, type[MixedCounts | MixedModels]] = {"counts": MixedCounts, "models": MixedModels}


def added(fixed: Evidence, counts: HmmCounts, weight: float) -> Tables:
    """The likeliest model of evidence and of expected counts at a weight."""
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
    """Log of the sum over all labellings of some sentences, in nats; infinite where one has none.

    Turns ``scores`` (N, L) into p(y_t), and adds p(y_t−1, y_t) / factor to the room's joint.
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
