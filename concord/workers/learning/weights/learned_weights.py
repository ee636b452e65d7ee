"""Penalties learned from the errors of a fixed model: Chang et al. (2008) algorithm 1 for ρ alone.

Each document is answered under the current penalties ρ by a model that has not seen it (one of the other folds), since
a model makes other errors on documents it has seen. From ρ = 0,

    ρ_k ← max(0, ρ_k + η · (d_k(x, ŷ) − d_k(x, y*))),

averaged over all documents visited. So a constraint gets weight if answers break it more than gold does, and none if
the model, or other constraints, already prevent that.

Rate η, passes and scale are chosen by two halves of the documents: penalties learned on one half are tried on the
other, and the other way round (with `Validation.LATER`, on the later half only). For each rate, passes go on until the
figure has not risen for some of them; the best rate and pass are taken. While penalties still rise, their mean over all
passes lags behind, so multiples of it (scales) are tried at the best pass too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from concord.schemas.arrays import Floats, Ints, Mask
from concord.schemas.gains import Comparison
from concord.schemas.settings import Validation
from concord.workers.constraints.declared import DeclaredConstraints
from concord.workers.constraints.declared_weights import row_weights
from concord.workers.evaluation.figures import FIGURES
from concord.workers.evaluation.named_counts import Counts
from concord.workers.inference.registry import Decoder
from concord.workers.learning.estimation.constrained import stepped
from concord.workers.learning.search.folds import rounds
from concord.workers.learning.search.trials import SettingsSearch, best_of
from concord.workers.learning.weights.penalties import LearnedSettings
from concord.workers.learning.weights.unseen import Unseen, UnseenAnswers, answered


class PassDone(NamedTuple):
    """Progress of learning.

    - ``rate``: the rate, in nats per unit of degree.
    - ``passes``: passes done.
    - ``figure``: figure (a fraction) on the other half; None while all documents are learned from.
    """

    rate: float
    passes: int
    figure: float | None


class LearnedWeights(NamedTuple):
    """Result of learning.

    - ``weights``: penalties in nats of the soft row constraints, by name.
    - ``rate``, ``passes``, ``scale``: how they were learned.
    - ``stopped``: for each rate, did the figure stop rising before the largest number of passes?
    - ``before``: figure (a fraction) on the other half without the learned constraints.
    - ``after``: figure on the other half with them.
    - ``gain``: their difference; it is optimistic, since rate, passes and scale were chosen by it.
    """

    weights: dict[str, float]
    rate: float
    passes: int
    scale: float
    stopped: bool
    before: float
    after: float
    gain: Comparison


@dataclass(frozen=True, eq=False)
class PenaltyPerceptron:
    """The perceptron over penalties.

    - ``excess``: function of a document's number and penalties (K,): the degrees (K,) of its answer less those of gold;
      None where the answer is right. See `UnseenAnswers.excess`.
    - ``is_learned`` (K,): marks the penalties that are learned; the others stay at 0.
    """

    excess: Callable[[int, Floats], Floats | None]
    is_learned: Mask

    def run(self, documents: Ints, rate: float, rng: np.random.Generator) -> Iterator[Floats]:
        """Mean penalties (K,) after each pass over the chosen documents; ``rng`` decides their order."""
        penalty = np.zeros(len(self.is_learned))
        total, steps = np.zeros_like(penalty), 0
        while True:
            for i in rng.permutation(documents).tolist():
                excess = self.excess(i, penalty)
                if excess is not None:
                    stepped(penalty, self.is_learned, rate * excess)
                total += penalty
                steps += 1
            yield total / max(1, steps)


class Patience:
    """Stopping rule: ends when a figure has not risen for ``passes`` passes."""

    def __init__(self, passes: int) -> None:
        self._allowed, self._best, self._since = passes, -math.inf, 0

    def ends(self, figure: float) -> bool:
        """Is this pass, with this figure, the last one?"""
        if figure > self._best:
            self._best, self._since = figure, 0
        else:
            self._since += 1
        return self._since >= self._allowed


class LearningPoint(NamedTuple):
    """One way to learn penalties; (0, 0, 1) learns none.

    - ``rate``: nats per unit of degree.
    - ``passes``: number of passes.
    - ``scale``: factor of the mean penalties.
    """

    rate: float
    passes: int
    scale: float


def learn_weights(
    unseen: Unseen,
    constraints: DeclaredConstraints,
    settings: LearnedSettings,
    *,
    validation: Validation = Validation.RANDOM,
    seed: int = 0,
    progress: Callable[[PassDone], None] | None = None,
) -> LearnedWeights:
    """Learned penalties of the soft row constraints.

    Raises `LabelError` for labels that no document has, and `EngineError`.
    """
    soft = {name for name, weight in row_weights(constraints) if math.isfinite(weight)}
    is_learned = np.array([name in soft for name in constraints.names], np.bool_)
    answers = UnseenAnswers(unseen, constraints, is_learned, Decoder.of(settings.engine, seed=seed))
    learner = PenaltyPerceptron(answers.excess, is_learned)
    halves = _Halves.of(answers, learner, settings, validation, seed)
    means = {LearningPoint(0.0, 0, 1.0): np.zeros((len(halves.training), len(is_learned)))}
    search = SettingsSearch[LearningPoint](lambda point: halves.counts(means[point]), FIGURES[settings.figure])
    base, stopped = search.trial(*means), True
    for rate in settings.rates:
        patience, ended = Patience(settings.patience), False
        for passes, mean in halves.passes(rate):
            point = LearningPoint(rate, passes, 1.0)
            means[point] = mean
            value = search.trial(point).value
            if progress is not None:
                progress(PassDone(rate, passes, value))
            ended = patience.ends(value)
            if ended:
                break
        stopped &= ended
    # Ties go to the first: the slowest rate, the fewest passes, no scale.
    unscaled = best_of(search.trials[1:]).setting
    means |= {unscaled._replace(scale=scale): means[unscaled] * scale for scale in settings.scales}
    best = search.trial(search.best([unscaled, *(unscaled._replace(scale=scale) for scale in settings.scales)]))
    penalty = np.zeros(len(is_learned))
    rate, passes, scale = best.setting
    run = learner.run(halves.every, rate, np.random.default_rng(seed))
    for done, mean in zip(range(passes), run, strict=False):
        penalty = mean * scale
        if progress is not None:
            progress(PassDone(rate, done + 1, None))
    gain = best.gain(base, seed=seed)
    weights = {n: p for n, p, own in zip(constraints.names, penalty.tolist(), is_learned, strict=True) if own}
    return LearnedWeights(weights, rate, passes, scale, stopped, base.value, best.value, gain)


@dataclass(frozen=True, eq=False)
class _Halves:
    """Two halves of the documents, in H rounds: one half is learned from, the other judged.

    - ``training``: H arrays with the documents to learn from.
    - ``test``: H arrays with the documents to judge.
    """

    answers: UnseenAnswers
    learner: PenaltyPerceptron
    training: Sequence[Ints]
    test: Sequence[Ints]
    settings: LearnedSettings
    seed: int

    @classmethod
    def of(
        cls,
        answers: UnseenAnswers,
        learner: PenaltyPerceptron,
        settings: LearnedSettings,
        validation: Validation,
        seed: int,
    ) -> _Halves:
        halves = rounds(answers.unseen.documents, 2, validation)
        training, test = zip(*((np.array(one.learned), np.array(one.judged)) for one in halves), strict=True)
        return cls(answers, learner, training, test, settings, seed)

    @property
    def every(self) -> Ints:
        """(D,) all documents, one half after the other."""
        return np.concatenate([self.test[0], self.training[0]])

    def passes(self, rate: float) -> Iterator[tuple[int, Floats]]:
        """Number of each pass, and the mean penalties (H, K) of each round after it."""
        runs = [self.learner.run(part, rate, np.random.default_rng(self.seed)) for part in self.training]
        for passes, penalties in enumerate(zip(*runs, strict=True), 1):
            yield passes, np.stack(penalties)
            if passes == self.settings.passes:
                return

    def counts(self, penalties: Floats) -> Counts:
        """(D, R, 3) counts of the judged documents, under the penalties (H, K) of each round."""
        parts = zip(self.test, penalties, strict=True)
        labels = [one for part, own in parts for one in answered(self.answers, part, own)]
        return self.answers.counts(np.concatenate(self.test).tolist(), labels, self.settings.measure)
