"""Penalties learned from the errors of a model that stays as it is: Chang et al. (2008) algorithm 1 for ρ alone.

Each document is answered under the present penalties ρ and by a model that never saw it (of the other folds), since on
what a model has seen it makes other errors than it will. From ρ = 0,

    ρ_k ← max(0, ρ_k + η · (d_k(x, ŷ) − d_k(x, y*))),

averaged over all documents looked at, so that a constraint gets weight where answers break it more than gold does, and
none where the model, or other constraints, see to it already. The rate η and the number of passes are those by which
penalties learned on one half of the documents are best on the other, and the other way round.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from schemas.document import Batch, Document
from schemas.labels import Labels, LabelSet
from schemas.potentials import Floats, Ints, Potentials
from schemas.problem import Problem
from schemas.settings import TrainerSettings
from workers.constraints.constraint_set import build_problems
from workers.constraints.declared import DeclaredConstraints
from workers.evaluation.bootstrap import Comparison, paired_bootstraps
from workers.evaluation.figures import FIGURES
from workers.evaluation.measures import MEASURES, Pair
from workers.evaluation.named_counts import Counts
from workers.inference.registry import Decoder
from workers.learning.crf.chains import Bools
from workers.learning.crf.constrained import answer, degrees, stepped, under
from workers.learning.folds import fold_of
from workers.learning.penalties import LearnedSettings, row_weights
from workers.learning.trainers.trainer import Train, TrainingError, gold_of
from workers.models.model import BringsRows

CHUNK = 50
"""Documents that are grounded together: the rows of all would not fit into memory."""

RELAXED = 50.0
"""Nats of a hard constraint where no answer keeps them all."""


class PassDone(NamedTuple):
    """How far learning is: the rate, passes done, and the figure (a fraction) on documents that had no part in it.

    The figure is None where all documents have.
    """

    rate: float
    passes: int
    figure: float | None


class LearnedWeights(NamedTuple):
    """The penalties (nats) of soft rows by name, the rate and passes they come from, and their gain on held-out halves.

    ``gain`` is over no constraint of those that are learned; the rate was chosen by it.
    """

    weights: dict[str, float]
    rate: float
    passes: int
    before: float
    after: float
    gain: Comparison


@dataclass(frozen=True, eq=False)
class Unseen:
    """Documents with gold labels, each scored by a model that did not see it."""

    documents: Sequence[Document]
    potentials: Sequence[Potentials]
    labels: LabelSet

    @classmethod
    def of(cls, documents: Sequence[Document], train: Train, settings: TrainerSettings, folds: int) -> Unseen:
        """Trains a model for each fold. Raises as `fold_of` and training do, and `TrainingError` for one with rows."""
        labels = LabelSet.infer(name for document in documents for name in gold_of(document))
        fold, found = np.array(fold_of(documents, folds)), dict[int, Potentials]()
        for mine in range(folds):
            inside, outside = (np.flatnonzero(chosen).tolist() for chosen in (fold != mine, fold == mine))
            with tempfile.TemporaryDirectory(prefix="concord-fold-") as folder:
                model = train([documents[i] for i in inside], settings=settings, out=Path(folder) / "model")
                if isinstance(model, BringsRows):
                    raise TrainingError(
                        "penalties cannot be learned beside a model with constraints of its own, such as the trainer "
                        "trigram's, whose answers are not those of potentials; weigh them by --penalty odds or tuned"
                    )
                for i in outside:
                    found[i] = _among(model.potentials(Batch.of([documents[i]])), model.labels, labels)
        return cls(documents, [found[i] for i in range(len(documents))], labels)

    def gold(self, i: int) -> Labels:
        """(n,) the labels of document i."""
        return self.labels.encode(gold_of(self.documents[i]))


def _among(potentials: Potentials, own: LabelSet, labels: LabelSet) -> Potentials:
    """The same among more labels: those that a part of the documents lacks are impossible."""
    place = labels.encode(own.names)
    unary = np.full((len(potentials.unary), len(labels)), -np.inf)
    unary[:, place] = potentials.unary
    transition = np.zeros((len(labels), len(labels)))
    transition[np.ix_(place, place)] = potentials.transition
    return Potentials(unary, transition, potentials.sentence_starts).legal(labels)


@dataclass(frozen=True, eq=False)
class PenaltyPerceptron:
    """``learned`` (K,) says whose penalty moves; others cost what they are declared to."""

    unseen: Unseen
    constraints: DeclaredConstraints
    learned: Bools
    decoder: Decoder

    def run(self, chosen: Ints, rate: float, passes: int, rng: np.random.Generator) -> Iterator[Floats]:
        """(K,) the mean penalties after each pass over the chosen documents; ``rng`` decides their order."""
        penalty = np.zeros(len(self.learned))
        total, seen = np.zeros_like(penalty), 0
        for _ in range(passes):
            for i, problem in self._grounded(rng.permutation(chosen)):
                gold = self.unseen.gold(i)
                found = self.answered(i, problem, penalty)
                if (found != gold).any():
                    step = rate * (degrees(problem, found) - degrees(problem, gold))
                    stepped(penalty, self.learned, step)
                total += penalty
                seen += 1
            yield total / max(1, seen)

    def counts(self, chosen: Ints, penalty: Floats, measure: str) -> Counts:
        """(D, R, 3) a measure's counts of the chosen documents, in their order, answered under penalties (K,)."""
        found = [self.answered(i, problem, penalty) for i, problem in self._grounded(chosen)]
        batch = Batch.of([self.unseen.documents[i] for i in chosen.tolist()])
        gold = np.concatenate([self.unseen.gold(i) for i in chosen.tolist()])
        pair = Pair(batch, self.unseen.labels, gold, np.concatenate(found))
        return MEASURES[measure].items(pair).by_document()

    def answered(self, i: int, problem: Problem, penalty: Floats) -> Labels:
        """(n,) the labels of document i."""
        scored = replace(under(problem, self.learned, penalty), potentials=self.unseen.potentials[i])
        return answer(scored, self.unseen.documents[i].doc_id, self.decoder, RELAXED)[0]

    def _grounded(self, order: Ints) -> Iterator[tuple[int, Problem]]:
        """The documents in their order, each with its problem, whose scores are missing."""
        size = len(self.unseen.labels)
        for first in range(0, len(order), CHUNK):
            own = order[first : first + CHUNK].tolist()
            batch = Batch.of([self.unseen.documents[i] for i in own])
            nothing = Potentials(np.zeros((batch.token_count, size)), np.zeros((size, size)), batch.sentence_starts)
            yield from zip(own, build_problems(batch, nothing, self.unseen.labels, self.constraints), strict=True)


def learn_weights(
    unseen: Unseen,
    constraints: DeclaredConstraints,
    settings: LearnedSettings,
    *,
    seed: int = 0,
    progress: Callable[[PassDone], None] | None = None,
) -> LearnedWeights:
    """The penalties of soft rows. Raises `LabelError` for labels that no document has, and `EngineError`."""
    soft = {name for name, weight in row_weights(constraints) if math.isfinite(weight)}
    learned = np.array([name in soft for name in constraints.names], np.bool_)
    learner = PenaltyPerceptron(unseen, constraints, learned, Decoder.of(settings.engine, seed=seed))
    halves = np.array(fold_of(unseen.documents, 2))
    every = np.argsort(halves, kind="stable")
    tried = dict[tuple[float, int], Counts]()
    for rate in settings.rates:
        for passes, counts in enumerate(_crossed(learner, halves, rate, settings, seed), 1):
            tried[rate, passes] = counts
            if progress is not None:
                progress(PassDone(rate, passes, _figure(counts, settings)))
    # Of those that are as good the first: the slowest rate, and fewest passes.
    rate, passes = max(tried, key=lambda at: _figure(tried[at], settings))
    base = learner.counts(every, np.zeros(len(learned)), settings.measure)
    penalty = np.zeros(len(learned))
    for done, mean in enumerate(learner.run(every, rate, passes, np.random.default_rng(seed)), 1):
        penalty = mean
        if progress is not None:
            progress(PassDone(rate, done, None))
    best = tried[rate, passes]
    chosen = {settings.figure: FIGURES[settings.figure]}
    gain = paired_bootstraps(base, best, chosen, rng=np.random.default_rng(seed))[settings.figure]
    weights = {n: p for n, p, own in zip(constraints.names, penalty.tolist(), learned, strict=True) if own}
    return LearnedWeights(weights, rate, passes, _figure(base, settings), _figure(best, settings), gain)


def _crossed(
    learner: PenaltyPerceptron, halves: Ints, rate: float, settings: LearnedSettings, seed: int
) -> Iterator[Counts]:
    """(D, R, 3) counts of each half under penalties of the other one, after each pass; half by half."""
    parts = [np.flatnonzero(halves == half) for half in (0, 1)]
    runs = [learner.run(part, rate, settings.passes, np.random.default_rng(seed)) for part in parts]
    for penalties in zip(*runs, strict=True):
        found = (learner.counts(part, p, settings.measure) for part, p in zip(parts[::-1], penalties, strict=True))
        first, second = found
        yield np.concatenate([second, first])


def _figure(counts: Counts, settings: LearnedSettings) -> float:
    return float(FIGURES[settings.figure](counts.sum(axis=0)))
