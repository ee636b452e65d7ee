"""The K best labellings of a document under its whole objective, in order, with a proof that these are the K best.

The search starts from a labelling y* of known score, and each round looks deeper below it. A round finds all labellings
y with

    score(y) > τ = score(y*) − depth,

or the K best of them. So every labelling that it does not list scores at most τ, or at most as much as the last of the
K.

1. Prices on agreement and max-marginals leave out labels that no such labelling has (`Narrowing`). With V the local
   optimum of the rest, y loses less than D = V − τ in each sentence, as penalties are never negative.
2. The rest falls into parts that no penalty can join below D (`Pruned.components`): groups of sentences under
   penalties, which a depth first search lists (`depth_first`), and single sentences, which Viterbi lists
   (`list_viterbi`). The loss of a labelling is the sum of the losses of its parts.
3. A part of a labelling y above τ loses at most the part's loss under y* plus depth, if y* is optimal: then all other
   parts lose no less than under y*. That is not taken for granted. The searches find better labellings, and `together`
   uses the proven losses of the parts; so if y* is not optimal, the bound is weaker but never wrong, and the next round
   starts from the best labelling seen.

When the effort is spent, the labellings found are in order, and those above the bound on the rest are proven. Lawler
(1972) lists the K best solutions of any problem that can be solved under forbidden labels, by one solve for each token
of each answer. Here one search lists many answers, since proofs leave little open between the first and the last of
them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from concord.schemas.arrays import Ints
from concord.schemas.decoded import Budget, Ranking
from concord.schemas.labels import Labels
from concord.schemas.problem import Problem
from concord.workers.inference.certify.components import Pruned, part_of
from concord.workers.inference.chains.list_viterbi import list_viterbi
from concord.workers.inference.core.effort import Effort
from concord.workers.inference.core.engine import UNLIMITED
from concord.workers.inference.core.folding import Folded
from concord.workers.inference.core.prepared import Prepared
from concord.workers.inference.core.strict_twin import StrictTwin
from concord.workers.inference.nbest.parts import RankedPart, best_of_part, labellings, together
from concord.workers.inference.numerics import ROUNDING, TOLERANCE
from concord.workers.inference.relaxation.relaxation import UNLIMITED_WORK, Narrowing

_DEPTHS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, math.inf)
"""Depth of each round, in nats below the best labelling."""
EMPTY = np.zeros(0, np.int64)


def n_best(
    problem: Problem, start: Labels, count: int, *, budget: Budget = UNLIMITED, tolerance: float = TOLERANCE
) -> Ranking:
    """The ``count`` best labellings that break no hard constraint, or all of them if there are fewer.

    ``start`` (N,) is the best labelling known: the closer it is to the best, the less there is to search. If it breaks
    a hard constraint, it is no answer, and everything is searched. Two answers differ in at least one label. Work is in
    steps of `relax`; a node of the search counts as `STEPS_A_NODE`. An answer is proven within ``tolerance`` nats.
    """
    other = Folded.of(problem) or StrictTwin.of(problem)
    if other is not None:
        return other.ranking(n_best(other.problem, other.there(start), count, budget=budget, tolerance=tolerance))
    prepared, effort = Prepared.of(problem), Effort(budget)
    top, narrowing = BestFound(prepared, start, count), Narrowing(prepared, effort)
    for depth in _DEPTHS if top.answers else (math.inf,):
        look(top, narrowing, depth, effort)
        if top.complete(tolerance) or effort.spent:
            break
    return top.ranking(tolerance)


class BestFound:
    """The best labellings met so far, at most ``count``.

    ``answers`` holds them, the best first, as (negated objective in nats, is it not the start?, labels).
    """

    def __init__(self, problem: Prepared, start: Labels, count: int) -> None:
        self.problem, self.start, self.count = problem, start, count
        self.answers: list[tuple[float, bool, tuple[int, ...]]] = []
        self._known: set[bytes] = set()
        self._others, self._dropped = problem.viterbi_score, -math.inf
        self.add(start[None, :], self._others)

    @property
    def best(self) -> tuple[Labels, float]:
        """The best labelling (N,) and its score in nats; the start and −inf if none is known."""
        if not self.answers:
            return self.start, -math.inf
        negated, _, labels = self.answers[0]
        return np.array(labels, np.int32), -negated

    @property
    def bound(self) -> float:
        """Upper bound in nats of the labellings that are not among the answers."""
        return max(self._others, self._dropped)

    def add(self, labels: Labels, bound: float) -> None:
        """Adds labellings (M, N); no labelling that was never added scores more than ``bound`` nats."""
        new = [own for own in labels if own.tobytes() not in self._known]
        self._known.update(own.tobytes() for own in new)
        for own in new:
            objective = self.problem.score(own).objective
            if objective > -math.inf:
                self.answers.append((-objective, not np.array_equal(own, self.start), tuple(own.tolist())))
        self.answers.sort()
        self._others = min(self._others, bound)
        self._dropped = max([self._dropped, *(-negated for negated, _, _ in self.answers[self.count :])])
        del self.answers[self.count :]

    def complete(self, tolerance: float) -> bool:
        """Is it proven that the answers are the best ones, and that none is missing?"""
        last = -self.answers[-1][0] if len(self.answers) == self.count else -math.inf
        return self.bound <= last + tolerance

    def ranking(self, tolerance: float) -> Ranking:
        """The answers in order, with the proven ones marked and the bound of all others."""
        labels = np.array([own for _, _, own in self.answers], np.int32).reshape(-1, len(self.problem))
        score = np.array([-negated for negated, _, _ in self.answers], np.float64)
        return Ranking(labels, score, score >= self.bound - tolerance, self.bound)


def look(top: BestFound, narrowing: Narrowing, depth: float, effort: Effort) -> None:
    """One round: adds all labellings that score less than ``depth`` nats below the best known, or the best of them."""
    labels, score = top.best
    lowest = score - depth
    problem = top.problem if depth == math.inf else narrowing.above(lowest)
    loss = problem.viterbi_score - lowest
    parts = list(_parts(problem, labels, top.count, depth, loss + ROUNDING, effort))
    best = together(parts, top.count, loss)
    top.add(labellings(parts, best, labels), problem.viterbi_score - best.rest)


def _parts(
    problem: Prepared, start: Labels, count: int, depth: float, most_loss: float, effort: Effort
) -> Iterator[RankedPart]:
    """The best labellings of each part; labellings of interest lose at most ``most_loss`` nats."""
    joined, sentence = _joined(problem, most_loss)
    for place, sentences in enumerate(joined):
        own, tokens = part_of(problem, sentences, sentence)
        limit = own.viterbi_score - own.score(start[tokens]).objective + depth
        work = effort.remaining(UNLIMITED_WORK) // (len(joined) - place)
        yield best_of_part(own, tokens, start=start[tokens], count=count, most_loss=limit, effort=effort, work=work)
    alone = np.setdiff1d(np.arange(len(problem.potentials.sentence_starts)), np.concatenate([EMPTY, *joined]))
    lists = list_viterbi(problem, count, depth)
    for s in alone.tolist():
        tokens, length = np.flatnonzero(sentence == s), int(lists.found[s])
        rest = float(lists.loss[s, -1]) if length == count else depth
        yield RankedPart(tokens, lists.labels[:length, tokens], lists.loss[s, :length], rest)


def _lumped(problem: Prepared, joined: list[Ints]) -> list[Ints]:
    """The same groups, but those without any choice are one: close to a proven answer that is nearly all of them."""
    choices = np.isfinite(problem.potentials.unary).sum(axis=1)
    open_sentences = np.maximum.reduceat(choices, problem.potentials.sentence_starts) > 1
    is_open = [bool(open_sentences[group].any()) for group in joined]
    closed = [group for group, choice in zip(joined, is_open, strict=True) if not choice]
    rest = [group for group, choice in zip(joined, is_open, strict=True) if choice]
    return [*rest, np.sort(np.concatenate(closed))] if closed else rest


def _joined(problem: Prepared, most_loss: float) -> tuple[list[Ints], Ints]:
    """Groups of sentences that penalties can join, and the sentence (N,) of each token."""
    starts = problem.potentials.sentence_starts
    if most_loss < math.inf:
        pruned = Pruned.of(problem, most_loss)
        return _lumped(problem, pruned.components(np.full(len(starts), most_loss))), pruned.sentence
    sentence = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(problem))))
    return [np.arange(len(starts))] if len(problem.rows) or problem.agreements else [], sentence
