"""The averaged perceptron under constraints: Chang, Ratinov & Roth (2008), algorithm 1, document by document.

A document is answered by w and ρ together, ŷ = argmax w · f(x, y) − Σ_k ρ_k d_k(x, y), with d the degrees of the
constraints' rows, and moves both towards gold y*:

    w ← w + f(x, y*) − f(x, ŷ),    ρ_k ← max(0, ρ_k + d_k(x, ŷ) − d_k(x, y*)).

As printed, line 9 has the opposite sign; with that, constraints that answers break more than gold would lose weight.
Both are averaged over all documents that were looked at. Weights that are not learned stay as declared, and so do hard
ones and those of agreements. Chang's degree is the number of prefixes that break a constraint; ours is the slack of its
rows, which is the same for a start, a change off punctuation, a listed word and each further run of a field.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from concord.schemas.arrays import Floats, Ids, Mask
from concord.schemas.document import Batch
from concord.schemas.labels import Labels, LabelSet
from concord.schemas.potentials import Potentials
from concord.schemas.problem import Problem
from concord.workers.constraints.constraint_set import ConstraintSet, build_problems
from concord.workers.constraints.rows import selected
from concord.workers.inference.core.prepared import Prepared
from concord.workers.inference.registry import Decoder
from concord.workers.learning.estimation.chains import ChainWeights, TrainingChains, score_tokens
from concord.workers.learning.estimation.perceptron import AveragedWeights, correct


class Point(NamedTuple):
    """Weights of a chain's features, states (C, W) and transitions (W, W), and ``penalty`` (K,) of the constraints."""

    states: Floats
    transitions: Floats
    penalty: Floats


class Pass(NamedTuple):
    """What a pass met: wrong labels, and documents whose answer had to break something hard."""

    wrong: int
    relaxed: int


@dataclass(frozen=True, eq=False)
class Grounded:
    """A document: its id, its sentences (from ``first`` to ``last``, exclusive), its problem without scores, and the
    degrees (K,) of its constraints in gold."""

    doc_id: str
    first: int
    last: int
    problem: Problem
    gold: Floats


@dataclass(frozen=True, eq=False)
class ConstrainedPerceptron:
    """``order`` (W,) are the chains' labels among those of the label set; ``learned`` (K,) whose penalty is."""

    chains: TrainingChains
    labels: LabelSet
    order: Ids
    documents: Sequence[Grounded]
    learned: Mask
    decoder: Decoder
    relaxed_weight: float

    def run(self, point: Point, passes: int, rng: np.random.Generator) -> Iterator[Pass]:
        """Moves ``point`` in place, to the mean after the last pass; ``rng`` decides the order of documents."""
        late = np.zeros_like(point.states), np.zeros_like(point.transitions)
        penalties, count = np.zeros_like(point.penalty), len(self.documents)
        for number in range(passes):
            wrong = relaxed = 0
            for nth, i in enumerate(rng.permutation(count).tolist()):
                step = self._step(self.documents[i], point, late, number * count + nth)
                wrong, relaxed = wrong + step.wrong, relaxed + step.relaxed
                penalties += point.penalty
            if number == passes - 1:
                for part, delayed in zip(point[:2], late, strict=True):
                    part -= delayed / max(1, passes * count)
                point.penalty[self.learned] = penalties[self.learned] / max(1, passes * count)
            yield Pass(wrong, relaxed)

    def _step(self, document: Grounded, point: Point, late: tuple[Floats, Floats], seen: int) -> Pass:
        """One document: the answer under the point, and the point moved towards gold."""
        found, broken = answer(self._scored(document, point), document.doc_id, self.decoder, self.relaxed_weight)
        chains, bounds = self.chains, self.chains.gold.bounds
        answers, begin = self._place[found], bounds[document.first]
        weights = AveragedWeights(ChainWeights(*point[:2]), ChainWeights(*late))
        wrong = 0
        for s in range(document.first, document.last):
            first, last = bounds[s], bounds[s + 1]
            own = answers[first - begin : last - begin]
            wrong += correct(chains.features, chains.gold.labels, own, first, last, chains.allowed, weights, seen)
        stepped(point.penalty, self.learned, degrees(document.problem, found) - document.gold)
        return Pass(wrong, int(broken))

    @cached_property
    def _place(self) -> Ids:
        """(L,) which of the chains' labels each label is; 0 for those that no answer has."""
        place = np.zeros(len(self.labels), np.int32)
        place[self.order] = np.arange(len(self.order))
        return place

    def _scored(self, document: Grounded, point: Point) -> Problem:
        """The problem under the point; labels that were never seen are impossible."""
        empty = document.problem.potentials
        scores = np.zeros((len(empty.unary), len(self.order)))
        chains = self.chains
        first, last = chains.gold.bounds[document.first], chains.gold.bounds[document.last]
        score_tokens(chains.features, point.states, first, last, scores)
        unary = np.full(empty.unary.shape, -np.inf)
        unary[:, self.order] = scores
        transition = np.zeros(empty.transition.shape)
        transition[np.ix_(self.order, self.order)] = point.transitions
        potentials = Potentials(unary, transition, empty.sentence_starts).legal(self.labels)
        return replace(under(document.problem, self.learned, point.penalty), potentials=potentials)


def answer(
    problem: Problem, doc_id: str, decoder: Decoder, relaxed_weight: float, *, incumbent: Labels | None = None
) -> tuple[Labels, bool]:
    """(n,) the answer, and whether nothing that keeps what is hard was found, so that it was relaxed.

    ``incumbent`` (n,) is what the search begins with.
    """
    decoded = decoder(Prepared.of(problem), doc_id, incumbent=incumbent)
    if decoded.objective > -np.inf:
        return decoded.labels, False
    return decoder(Prepared.of(problem.relaxed(relaxed_weight)), doc_id).labels, True


def under(problem: Problem, learned: Mask, penalty: Floats) -> Problem:
    """The problem where rows of what is ``learned`` (K,) cost ``penalty`` (K,), without those that cost nothing."""
    constraint = problem.rows.constraint
    weight = np.where(learned[constraint], penalty[constraint], problem.rows.weight)
    return replace(problem, rows=selected(replace(problem.rows, weight=weight), weight > 0))


def stepped(penalty: Floats, learned: Mask, step: Floats) -> None:
    """Moves those of ``penalty`` (K,) that are learned by ``step`` (K,), in place, to 0 at least."""
    penalty[learned] = np.maximum(0.0, penalty + step)[learned]


def grounded(batch: Batch, constraints: ConstraintSet, labels: LabelSet) -> list[Grounded]:
    """The constraints on every document of a batch with gold labels."""
    assert batch.labels is not None
    gold, bounds = labels.encode(batch.labels.strings()), batch.doc_starts
    nothing = np.zeros((batch.token_count, len(labels)))
    empty = Potentials(nothing, np.zeros((len(labels), len(labels))), batch.sentence_starts)
    sentence = np.searchsorted(batch.sentence_bounds, bounds).tolist()
    return [
        Grounded(
            batch.doc_ids[i], sentence[i], sentence[i + 1], problem, degrees(problem, gold[bounds[i] : bounds[i + 1]])
        )
        for i, problem in enumerate(build_problems(batch, empty, labels, constraints))
    ]


def degrees(problem: Problem, labels: Labels) -> Floats:
    """(K,) the degree of each constraint's rows under a labelling."""
    size = len(problem.constraint_names)
    found: Floats = np.bincount(problem.rows.constraint, problem.rows.degree(labels), size).astype(np.float64)
    return found
