"""Certified inference: an answer, with a proof that no labelling is better, or by how much one may be.

Penalties are never negative, so the local optimum V bounds every labelling, and an incumbent y* loses D = V −
score(y*). Any better labelling loses less than D, in each sentence too:

1. A Viterbi labelling without penalty is optimal. Most documents end here. In all others the rows of one token or one
   edge become part of the chain (`workers.inference.core.folding`), which lowers V.
2. Rows that reach further are charged to the chain by multipliers (`workers.inference.relaxation.row_dual`). Sentences
   and groups of equal words are solved apart under prices on that chain (`workers.inference.relaxation.relaxation`).
   That finds better incumbents and prunes nearly all labels that can be in no better labelling; on most documents
   bound and incumbent meet. A sampler looks for a better incumbent among the labels that are left, if they do not.
3. A label or span with a max-marginal loss above D is in no better labelling. The remaining ones decide which spans can
   still conflict, and so which sentences have to be solved together. Each connected component is a problem of its own
   with a smaller D, which prunes again, until nothing changes. Sentences in no component keep their Viterbi labels.
4. Each component is branched on (`workers.inference.certify.branching`).
5. CP-SAT solves the rest of each component, hinted with the incumbent. Rounding to integers only raises its bound, so
   the bound in nats holds if CP-SAT's does. That is a solver's word until a certificate confirms it
   (`workers.certificates`).

The objective is Chang et al. (2008) eq. 2; the pruning by max-marginals is ours.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from concord.schemas.decoded import Budget, Decoded, Status
from concord.schemas.labels import Labels, Spans
from concord.schemas.problem import Problem
from concord.workers.inference.certify.branching import relaxed_node, search_branches
from concord.workers.inference.certify.components import Pruned, part_of
from concord.workers.inference.core.effort import Effort
from concord.workers.inference.core.engine import UNLIMITED
from concord.workers.inference.core.folding import on_folded
from concord.workers.inference.core.incumbent import Search, limited
from concord.workers.inference.core.prepared import Prepared
from concord.workers.inference.core.strict_twin import on_strict_twins
from concord.workers.inference.cpsat.effort import UNITS_A_SECOND
from concord.workers.inference.numerics import ROUNDING
from concord.workers.inference.relaxation.relaxation import Relaxed
from concord.workers.inference.relaxation.row_dual import prove_rows
from concord.workers.inference.sampling import gibbs
from concord.workers.inference.settings import CertifySettings

STEPS_A_UNIT = 10_000
"""Steps of work for which a millisecond of CP-SAT's deterministic time counts."""


@on_folded
@on_strict_twins
def solve(
    problem: Problem,
    *,
    config: CertifySettings,
    rng: np.random.Generator,
    budget: Budget = UNLIMITED,
    incumbent: Labels | None = None,
) -> Decoded:
    """The best labelling, proven within ``config.tolerance`` nats, or the best one seen with its gap.

    It starts from ``incumbent``, or from the Viterbi labels. Work is in steps of the sampler (`gibbs.solve`) and in
    things that a relaxation visits (`relax`); a millisecond of CP-SAT's deterministic time counts as `STEPS_A_UNIT`. If
    the budget sets no limit, ``config.work`` does.
    """
    search = Search(problem, budget=limited(budget, config.work), incumbent=incumbent)
    if search.top == -np.inf:
        return problem.decoded(search.labels, bound=search.top, status=Status.INFEASIBLE, score=search.score)
    if search.closed:
        return search.decoded(0.0)
    if search.loss <= config.tolerance:
        return _decoded(search, search.top, config.tolerance, by=Status.OPTIMAL)
    if len(problem.rows) and not problem.agreements:
        return _rows_alone(search, config, rng)
    if search.objective == -np.inf:
        _sample(search, search.problem, config, rng)
    if search.spent:
        return _decoded(search, search.top, config.tolerance, by=Status.OPTIMAL)
    narrowed = _narrowed(search, config, rng)
    search.take(narrowed.labels, narrowed.score)
    bound = min(search.top, max(search.objective, narrowed.bound))
    if bound - search.objective <= config.tolerance or search.spent:
        return _decoded(search, bound, config.tolerance, by=Status.OPTIMAL)
    # Pruned labels are in no better labelling, so a bound of the rest is a bound of all.
    proof = _proven_bound(narrowed.problem, narrowed.problem.viterbi_score, search, config, rng)
    return _decoded(search, min(bound, max(search.objective, proof.bound)), config.tolerance, by=proof.by)


class _Proven(NamedTuple):
    """An upper bound of all labellings.

    - ``bound``: nats.
    - ``by``: status of an answer that meets it: a proof, or CP-SAT's word.
    """

    bound: float
    by: Status


def _narrowed(search: Search, config: CertifySettings, rng: np.random.Generator) -> Relaxed:
    """Relaxes the problem and samples the rest, in turn, as long as that finds something better.

    Prices come first: they close most documents, and leave the sampler little to choose from in the others.
    """
    relaxed = Relaxed(search.problem, search.top, search.labels, search.score)
    if search.objective == -np.inf:
        return relaxed
    for _ in range(config.rounds):
        relaxed, _ = relaxed_node(
            search.problem, relaxed.problem, relaxed.labels, relaxed.score, search, states=config.states
        )
        search.take(relaxed.labels, relaxed.score)
        if relaxed.bound - relaxed.objective <= config.tolerance or search.spent:
            break
        before = search.objective
        _sample(search, relaxed.problem, config, rng)
        if search.objective <= before + ROUNDING:
            break
        relaxed = relaxed._replace(labels=search.labels, score=search.score)
    return relaxed


def _sample(search: Search, problem: Prepared, config: CertifySettings, rng: np.random.Generator) -> None:
    """Offers the sampler's answer to ``problem``, the search's own with some labels left out, to the search."""
    start = search.labels if search.objective > -np.inf else None
    answer = gibbs.solve(problem, config=config.sampler, rng=rng, budget=search.left, incumbent=start)
    search.work += answer.work
    search.offer(answer.labels)


def _proven_bound(
    problem: Prepared, local_best: float, search: Search, config: CertifySettings, rng: np.random.Generator
) -> _Proven:
    """Upper bound in nats of the labellings of ``problem``, whose local optimum is ``local_best``.

    The best labelling met on the way is offered to the search.
    """
    proof = _DocumentProof(
        problem, config, search.labels.copy(), local_best, search.budget, search.started, rng, search.work
    )
    bound = local_best - proof.run()
    search.work = proof.work
    search.offer(proof.labels)
    return _Proven(bound, Status.BY_SOLVER if proof.by_solver else Status.OPTIMAL)


def _rows_alone(search: Search, config: CertifySettings, rng: np.random.Generator) -> Decoded:
    """The answer for a document without agreements: by its rows' states, then by branches; without the sampler."""
    bound = prove_rows(search, states=config.states, tolerance=config.tolerance)
    if bound == -np.inf or bound - search.objective <= config.tolerance or search.spent:
        return _decoded(search, bound, config.tolerance, by=Status.OPTIMAL)
    proof = _proven_bound(search.problem, search.top, search, config, rng)
    return _decoded(search, min(bound, proof.bound), config.tolerance, by=proof.by)


def _decoded(search: Search, bound: float, tolerance: float, *, by: Status) -> Decoded:
    return search.answer(bound, _status(search.objective, bound, tolerance, by))


def _status(objective: float, bound: float, tolerance: float, by: Status) -> Status:
    if bound == -np.inf:
        return Status.INFEASIBLE
    return by if objective >= bound - tolerance else Status.TIMEOUT


@dataclass(eq=False)
class _DocumentProof:
    """The proof of one document, component by component.

    - ``problem``: the problem.
    - ``config``: the settings.
    - ``labels`` (N,): the best labelling seen.
    - ``local_best``: local optimum, in nats.
    - ``budget``, ``started``: limits of the run, and its start in seconds of the clock.
    - ``rng``: source of CP-SAT's seeds.
    - ``work``: units of work so far.
    - ``by_solver``: does the proof rest on CP-SAT?
    """

    problem: Prepared
    config: CertifySettings
    labels: Labels
    local_best: float
    budget: Budget
    started: float
    rng: np.random.Generator
    work: int = 0
    by_solver: bool = False

    def run(self) -> float:
        """Improves ``labels``; returns nats that every labelling loses at least, inf if the problem is infeasible."""
        pruned, parts = self._split()
        return sum(self._solve_part(part, pruned) for part in parts)

    def _split(self) -> tuple[Pruned, list[_Component]]:
        """Prunes and splits until no sentence's D falls; sentences in no component get their Viterbi labels."""
        sentences = len(self.problem.potentials.sentence_starts)
        loss = self.local_best - self.problem.score(self.labels).objective
        pruned = Pruned.of(self.problem, loss + ROUNDING)
        most_loss = np.full(sentences, loss + ROUNDING)
        while True:
            parts = [self._part(c, pruned) for c in pruned.components(most_loss)]
            smaller = np.full(sentences, -1.0)
            for part in parts:
                smaller[part.sentences] = part.loss + ROUNDING
            apart = np.isin(pruned.sentence, np.flatnonzero(smaller < 0))
            self.labels[apart] = self.problem.viterbi[apart]
            if not (smaller < most_loss).any():
                return pruned, parts
            most_loss = np.minimum(most_loss, smaller)

    def _part(self, sentences: NDArray[np.int64], pruned: Pruned) -> _Component:
        """One component; its tokens get the Viterbi labels if these are better than the incumbent's."""
        problem, tokens = part_of(self.problem, sentences, pruned.sentence)
        local = self.problem.viterbi[tokens]
        best = problem.potentials.score(local)
        now, other = problem.score(self.labels[tokens]).objective, problem.score(local).objective
        if other > now:
            self.labels[tokens] = local
        return _Component(problem, sentences, tokens, best, best - max(now, other))

    def _solve_part(self, part: _Component, pruned: Pruned) -> float:
        """Solves the rest of a component by CP-SAT; returns the least local loss of any labelling of it, in nats."""
        if part.loss <= ROUNDING or self._seconds_left() == 0.0 or self._deterministic_left() == 0.0:
            return 0.0
        most_loss = np.full(len(self.problem.potentials.sentence_starts), part.loss + ROUNDING)
        allowed = pruned.allowed(most_loss)[part.tokens]
        if np.count_nonzero(allowed.sum(axis=1) > 1) > self.config.most_tokens:
            return 0.0
        effort = Effort(Budget(self._seconds_left(), self._work_left()))
        core = replace(part.problem, potentials=part.problem.potentials.restricted(allowed))
        start = self.labels[part.tokens]
        score = part.problem.score(start)
        branched = search_branches(
            part.problem, core, start, score, effort, nodes=self.config.branches, states=self.config.states
        )
        self.work += effort.work
        self.labels[part.tokens] = branched.labels
        least = part.best - branched.bound
        if branched.bound <= branched.score.objective + self.config.tolerance / 4.0:
            return max(0.0, least)
        # The import takes half a second, and most documents are proven before they need it.
        from concord.workers.inference.cpsat.engine import solve_model
        from concord.workers.inference.cpsat.lattice import build_model

        tolerance = self.config.tolerance / 4.0
        before = self.labels[part.tokens]
        lattice = build_model(
            part.problem,
            start=before,
            allowed=allowed,
            spans=_moved(pruned.alive_spans(most_loss), part.tokens),
            tolerance=tolerance,
        )
        solution = solve_model(
            lattice,
            part.problem,
            tolerance=tolerance,
            deterministic_seconds=self._deterministic_left(),
            seconds=self._seconds_left(),
            seed=int(self.rng.integers(2**31)),
        )
        self.work += solution.work * STEPS_A_UNIT
        self.by_solver = True
        objective = branched.score.objective
        if solution.labels is not None:
            value = part.problem.score(solution.labels).objective
            if value > objective:
                self.labels[part.tokens], objective = solution.labels, value
        # Labellings with pruned labels score no more than the incumbent.
        return max(0.0, least, part.best - max(solution.bound, objective))

    def _work_left(self) -> int | None:
        return None if self.budget.work is None else max(0, self.budget.work - self.work)

    def _seconds_left(self) -> float | None:
        if self.budget.seconds is None:
            return None
        return max(0.0, self.started + self.budget.seconds - time.perf_counter())

    def _deterministic_left(self) -> float:
        if self.budget.work is None:
            return self.config.deterministic_seconds
        rest = max(0, self.budget.work - self.work) / (STEPS_A_UNIT * UNITS_A_SECOND)
        return min(self.config.deterministic_seconds, rest)


@dataclass(frozen=True, eq=False)
class _Component:
    """A component of a document.

    - ``problem``: its own problem.
    - ``sentences``, ``tokens``: its sentences and tokens in the document.
    - ``best``: its local optimum, in nats.
    - ``loss``: its D, in nats.
    """

    problem: Prepared
    sentences: NDArray[np.int64]
    tokens: NDArray[np.int64]
    best: float
    loss: float


def _moved(spans: Spans, tokens: NDArray[np.int64]) -> Spans:
    """The spans that lie in ``tokens``, as indices into ``tokens``."""
    start = np.searchsorted(tokens, spans.start)
    inside = start < len(tokens)
    inside[inside] = tokens[start[inside]] == spans.start[inside]
    length = (spans.end - spans.start)[inside]
    return Spans(start[inside], start[inside] + length, spans.type[inside])
