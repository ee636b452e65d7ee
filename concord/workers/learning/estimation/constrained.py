"""Averaged perceptron under constraints: Chang, Ratinov & Roth (2008), algorithm 1, document by document.

The answer to a document maximises the model's score minus the penalties, ŷ = argmax w · f(x, y) − Σ_k ρ_k d_k(x, y),
where d_k is the degree of constraint k: the sum over its rows. Each answer moves w and ρ towards gold y*:

    w ← w + f(x, y*) − f(x, ŷ),    ρ_k ← max(0, ρ_k + d_k(x, ŷ) − d_k(x, y*)).

Line 9 is printed with the opposite sign; then a constraint that answers break more than gold would lose weight. Both w
and ρ are averaged over all documents visited. Weights that are not learned stay as declared, and so do hard ones and
those of agreements. Chang's degree is the number of prefixes that break a constraint. Ours is the excess of its rows,
which is the same for a start, a change off punctuation, a listed word and each further run of a field.
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
from concord.workers.learning.estimation.chains import ChainWeights, Edges, TrainingChains, score_edges, score_tokens
from concord.workers.learning.estimation.perceptron import AveragedWeights, correct


class Point(NamedTuple):
    """Weights that training moves, in nats, for W labels of the chains and K constraints.

    - ``states`` (C, W): coordinates of the classes by label.
    - ``transitions`` (W, W): coordinates of pairs of neighbouring labels.
    - ``pairs`` (P, W · W): coordinates of the classes of pairs.
    - ``penalty`` (K,): weight of each constraint.
    """

    states: Floats
    transitions: Floats
    pairs: Floats
    penalty: Floats

    @property
    def weights(self) -> ChainWeights:
        """The coordinates of the model."""
        return ChainWeights(self.states, self.transitions, self.pairs)


class Pass(NamedTuple):
    """Result of one pass over the documents.

    - ``wrong``: number of wrong labels in the answers.
    - ``relaxed``: number of documents without an answer that keeps all hard constraints.
    """

    wrong: int
    relaxed: int


@dataclass(frozen=True, eq=False)
class Grounded:
    """A document with its constraints grounded.

    - ``doc_id``: its id.
    - ``first``, ``last``: its sentences, ``last`` exclusive.
    - ``problem``: its constraints, with model scores of 0.
    - ``gold`` (K,): degree of each constraint under the gold labels.
    """

    doc_id: str
    first: int
    last: int
    problem: Problem
    gold: Floats


@dataclass(frozen=True, eq=False)
class ConstrainedPerceptron:
    """The learner: training data, constraints and the engine that answers.

    - ``chains``: features and gold labels of all sentences.
    - ``labels``: the label set of L labels.
    - ``order`` (W,): id in the label set of each label of the chains.
    - ``documents``: the documents of these sentences, with their constraints.
    - ``is_learned`` (K,): marks the constraints whose penalty is learned.
    - ``decoder``: engine that answers a document.
    - ``relaxed_weight``: penalty in nats of a broken hard constraint, where nothing keeps all of them.
    """

    chains: TrainingChains
    labels: LabelSet
    order: Ids
    documents: Sequence[Grounded]
    is_learned: Mask
    decoder: Decoder
    relaxed_weight: float

    def run(self, point: Point, passes: int, rng: np.random.Generator) -> Iterator[Pass]:
        """Moves ``point`` in place, one pass after the other; after the last pass it is the mean over all documents.

        ``rng`` decides the order of the documents.
        """
        late = ChainWeights(*map(np.zeros_like, point.weights))
        penalties, count = np.zeros_like(point.penalty), len(self.documents)
        for number in range(passes):
            wrong = relaxed = 0
            for nth, i in enumerate(rng.permutation(count).tolist()):
                step = self._step(self.documents[i], point, late, number * count + nth)
                wrong, relaxed = wrong + step.wrong, relaxed + step.relaxed
                penalties += point.penalty
            if number == passes - 1:
                for part, delayed in zip(point.weights, late, strict=True):
                    part -= delayed / max(1, passes * count)
                point.penalty[self.is_learned] = penalties[self.is_learned] / max(1, passes * count)
            yield Pass(wrong, relaxed)

    def _step(self, document: Grounded, point: Point, late: ChainWeights, earlier: int) -> Pass:
        """Answers one document and moves the point towards gold; ``earlier`` documents came before."""
        labels, broken = answer(self._scored(document, point), document.doc_id, self.decoder, self.relaxed_weight)
        chains, bounds = self.chains, self.chains.gold.bounds
        answers, begin = self._place[labels], bounds[document.first]
        weights = AveragedWeights(point.weights, late)
        wrong = 0
        for s in range(document.first, document.last):
            first, last = bounds[s], bounds[s + 1]
            own = answers[first - begin : last - begin]
            features = chains.features, chains.pairs.features
            wrong += correct(*features, chains.gold.labels, own, first, last, chains.allowed, weights, earlier)
        stepped(point.penalty, self.is_learned, degrees(document.problem, labels) - document.gold)
        return Pass(wrong, int(broken))

    @cached_property
    def _place(self) -> Ids:
        """(L,) the inverse of ``order``: number of each label among the chains' labels; 0 for labels not in gold."""
        place = np.zeros(len(self.labels), np.int32)
        place[self.order] = np.arange(len(self.order))
        return place

    def _scored(self, document: Grounded, point: Point) -> Problem:
        """The problem of a document with scores and penalties of the point; labels not in gold are impossible."""
        empty = document.problem.potentials
        scores = np.zeros((len(empty.unary), len(self.order)))
        chains = self.chains
        first, last = chains.gold.bounds[document.first], chains.gold.bounds[document.last]
        score_tokens(chains.features, point.states, first, last, scores)
        unary = np.full(empty.unary.shape, -np.inf)
        unary[:, self.order] = scores
        edges = Edges.room(chains.pairs.features, point.weights, np.array([first, last]))
        score_edges(edges, first, last)
        transition = np.zeros((len(edges.scores), *empty.transition.shape))
        transition[:, self.order[:, None], self.order] = edges.scores.reshape(edges.factors.shape)
        potentials = Potentials(unary, transition if len(point.pairs) else transition[0], empty.sentence_starts).legal(
            self.labels
        )
        return replace(under(document.problem, self.is_learned, point.penalty), potentials=potentials)


def answer(
    problem: Problem, doc_id: str, decoder: Decoder, relaxed_weight: float, *, incumbent: Labels | None = None
) -> tuple[Labels, bool]:
    """(n,) the answer, and whether hard constraints were relaxed because no labelling that keeps them was found.

    ``incumbent`` (n,) is the labelling that the search starts from.
    """
    decoded = decoder(Prepared.of(problem), doc_id, incumbent=incumbent)
    if decoded.objective > -np.inf:
        return decoded.labels, False
    return decoder(Prepared.of(problem.relaxed(relaxed_weight)), doc_id).labels, True


def under(problem: Problem, is_learned: Mask, penalty: Floats) -> Prepared:
    """The problem with ``penalty`` (K,) as weight where ``is_learned`` (K,); rows of weight 0 are dropped."""
    constraint = problem.rows.constraint
    weight = np.where(is_learned[constraint], penalty[constraint], problem.rows.weight)
    return Prepared.of(problem).with_rows(selected(replace(problem.rows, weight=weight), weight > 0))


def stepped(penalty: Floats, is_learned: Mask, step: Floats) -> None:
    """Adds ``step`` (K,) to the learned penalties (K,), in place; none falls below 0."""
    penalty[is_learned] = np.maximum(0.0, penalty + step)[is_learned]


def grounded(batch: Batch, constraints: ConstraintSet, labels: LabelSet) -> list[Grounded]:
    """The documents of a batch with gold labels, with their constraints grounded."""
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
    """(K,) degree of each constraint under a labelling, summed over its rows."""
    size = len(problem.constraint_names)
    sums: Floats = np.bincount(problem.rows.constraint, problem.rows.degree(labels), size).astype(np.float64)
    return sums
