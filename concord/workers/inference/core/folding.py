"""Folding: a problem in which each row of one token or one edge is part of the potentials.

A row whose entries lie at one token, or at two neighbouring tokens of a sentence, is a function of one edge. Its
penalty belongs to the chain, where Viterbi minimises it exactly and no relaxation has to price it:

    unary'[t, b]   = unary[t, b]   − Σ_r ρ_r · degree_r(y_t = b)                  rows r of the token t,
    edge'[t, a, b] = edge[t, a, b] − Σ_r ρ_r · degree_r(y_{t−1} = a, y_t = b)     rows r of the edge into t.

A hard row that is broken gives −inf. Rows that no labelling can break, and rows without weight, are left out. So each
labelling has the same objective in both problems, though less of it is penalty. What engines answer is scored by the
problem as it was, whose Viterbi labels, degrees and penalties stay those of the model alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from concord.schemas.arrays import Floats, Ints
from concord.schemas.decoded import Decoded, Ranking, Status
from concord.schemas.labels import Labels
from concord.schemas.potentials import Potentials
from concord.schemas.problem import ANY, LinearRows, Problem
from concord.workers.compiling.kernel import kernel_in_place
from concord.workers.inference.core.prepared import Prepared
from concord.workers.inference.core.rewriting import solving
from concord.workers.inference.core.row_reach import RowColumns, largest_activity, row_columns, tokens_of_rows

MOST_CELLS = 20_000_000
"""Largest number of edges (N · L²) of a document that gets a matrix for each token.

The matrices take 8 bytes an edge, 160 MB at most, and as much again while max-marginals read a transposed copy. In a
longer document the rows of edges stay rows, and rows have no Lagrangian bound.
"""


@dataclass(frozen=True, eq=False)
class Folded:
    """A problem, and the same problem folded.

    - ``whole``: the problem.
    - ``problem``: the folded one.
    - ``rows`` (R',): the row of the problem for each row of the folded one.
    """

    whole: Prepared
    problem: Prepared
    rows: Ints

    @classmethod
    def of(cls, problem: Problem) -> Folded | None:
        """The problem folded; None for one that has nothing to fold."""
        rows = problem.rows
        if not len(rows):
            return None
        allowed = np.isfinite(problem.potentials.unary)
        binding = (rows.weight > 0) & (largest_activity(rows, allowed) > rows.bound)
        reach = tokens_of_rows(problem)
        fits = allowed.size * allowed.shape[1] <= MOST_CELLS
        local = binding & (reach > 0) & (reach <= (2 if fits else 1))
        rest = np.flatnonzero(binding & ~local)
        if len(rest) == len(rows):
            return None
        folded = replace(
            Prepared.of(problem),
            potentials=_folded(problem.potentials, rows, np.flatnonzero(local), reach),
            rows=rows.part(rest),
        )
        return cls(Prepared.of(problem), folded, rest)

    def there(self, labels: Labels) -> Labels:
        """(N,) the same labelling: both problems have the same ones."""
        return labels

    def answer(self, decoded: Decoded) -> Decoded:
        """An answer for the folded problem as one for the problem, with the same gap.

        The labels of what is infeasible are Viterbi's.
        """
        labels = self.whole.viterbi if decoded.status is Status.INFEASIBLE else decoded.labels
        score = self.whole.score(labels)
        # The two scores are sums of the same terms in another order.
        is_possible = decoded.objective > -np.inf
        return self.whole.decoded(
            labels,
            score=score,
            bound=score.objective + (decoded.bound - decoded.objective) if is_possible else decoded.bound,
            status=decoded.status,
            work=decoded.work,
            seconds=decoded.seconds,
            improvements=decoded.improvements,
        )

    def ranking(self, ranking: Ranking) -> Ranking:
        """A ranking of the folded problem's labellings, scored by the problem, and in the order of these scores.

        Large weights round otherwise when they are part of the chain, so that the order of near ties may differ.
        """
        scores = np.array([self.whole.score(labels).objective for labels in ranking.labels], np.float64)
        order = np.argsort(-scores, kind="stable")
        return replace(ranking, labels=ranking.labels[order], score=scores[order])


def _folded_if_broken(problem: Prepared) -> Folded | None:
    """The problem folded, unless the Viterbi labels break nothing, and so are the best."""
    return Folded.of(problem) if problem.first.objective < problem.top else None


on_folded = solving(_folded_if_broken)
"""Decorator of an engine that solves problems folded."""


def _folded(p: Potentials, rows: LinearRows, local: Ints, reach: Ints) -> Potentials:
    """The potentials with the penalties of the rows ``local`` (n,), each of one token or one edge."""
    columns = row_columns(rows)
    of_token, of_edge = local[reach[local] == 1], local[reach[local] == 2]
    unary, transition = p.unary.copy(), p.transition
    _charge_tokens(columns, of_token, unary, np.empty(unary.shape[1]))
    if len(of_edge):
        transition = p.edges_by_token.copy()
        _charge_edges(columns, of_edge, rows.ends[1][of_edge], transition, np.empty(transition.shape[1:]))
    return Potentials(unary, transition, p.sentence_starts)


@kernel_in_place
def _charge_tokens(rows: RowColumns, chosen: Ints, unary: Floats, activity: Floats) -> None:
    """Takes the penalty of each of the rows ``chosen`` (n,) off its token's scores; ``activity`` (L,) is scratch."""
    for r in chosen:
        activity[:] = 0.0
        t = rows.position[rows.pointer[r]]
        for e in range(rows.pointer[r], rows.pointer[r + 1]):
            activity[rows.label[e]] += rows.coefficient[e]
        for label in range(len(activity)):
            excess = activity[label] - rows.bound[r]
            if excess > rows.slack[r]:
                unary[t, label] -= rows.weight[r] * excess


@kernel_in_place
def _charge_edges(rows: RowColumns, chosen: Ints, last: Ints, edge: Floats, activity: Floats) -> None:
    """Takes the penalty of each of the rows ``chosen`` (n,) off the scores of the edge into its ``last`` (n,) token.

    ``activity`` (L, L) is scratch. Most rows have one entry, and are broken by nothing else.
    """
    width = len(activity)
    for i in range(len(chosen)):
        r, t = chosen[i], last[i]
        first, end = rows.pointer[r], rows.pointer[r + 1]
        if end == first + 1 and rows.bound[r] >= 0.0 and rows.previous[first] != ANY:
            excess = rows.coefficient[first] - rows.bound[r]
            if excess > rows.slack[r]:
                edge[t, rows.previous[first], rows.label[first]] -= rows.weight[r] * excess
            continue
        activity[:] = 0.0
        for e in range(first, end):
            label = rows.label[e]
            if rows.previous[e] != ANY:
                activity[rows.previous[e], label] += rows.coefficient[e]
                continue
            for other in range(width):
                if rows.position[e] == t:
                    activity[other, label] += rows.coefficient[e]
                else:
                    activity[label, other] += rows.coefficient[e]
        for a in range(width):
            for b in range(width):
                excess = activity[a, b] - rows.bound[r]
                if excess > rows.slack[r]:
                    edge[t, a, b] -= rows.weight[r] * excess
