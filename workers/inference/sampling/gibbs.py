"""Annealed Gibbs sampling over a whole document: Finkel, Grenager & Manning (2005) §2 and §6.

The chain's distribution is p(y) ∝ exp(objective(y) / τ) over labellings, τ falling linearly from the start temperature
towards 0. One sweep visits every token and resamples

- its label from p(y_t | all others) (eq. 1, 2, 4 and 7);
- each slot that starts there (tokens that the local model could see as a span), over {no span, one span of each
  type}: a span of several tokens cannot change its type one label at a time;
- at some sweeps, it and its neighbour together: so the first token of a span moves, which it cannot alone, since what
  follows would continue nothing;
- at some sweeps, all occurrences of the same words over the types at once (`group_move`).

Invariant: each step draws from p restricted to a set of labellings that depends only on what the step leaves as it is,
so it is the same set from each of its members. Hence each step keeps p, at a constant τ. The answer is the best
labelling seen; its bound is the local optimum V.

Most sites are certain. The mass of all other labels is bounded from the local margin and from what the labels at the
site cost now, which is cached until their words are labelled otherwise somewhere (`memory`); where a uniform draw falls
above that bound nothing can change, and nothing more is computed (`draws`). This is exact, not an approximation.
"""

from __future__ import annotations

import sys
from typing import NamedTuple

import numpy as np

from concord.schemas.arrays import Floats, Ints
from concord.schemas.decoded import Budget, Decoded, Score
from concord.schemas.labels import Labels
from concord.schemas.problem import Problem
from concord.workers.inference.core.agreement import count_labels, labels_cost
from concord.workers.inference.core.engine import UNLIMITED
from concord.workers.inference.core.incumbent import Search, limited
from concord.workers.inference.core.prepared import Prepared
from concord.workers.inference.core.rows import row_penalty, row_state
from concord.workers.inference.numerics import ROUNDING
from concord.workers.inference.sampling.drift import check_drift
from concord.workers.inference.sampling.labelling import Labelling
from concord.workers.inference.sampling.memory import UNKNOWN, readers_for
from concord.workers.inference.sampling.names import Sites, sites_of
from concord.workers.inference.sampling.settling import settle
from concord.workers.inference.sampling.state import BEST, FLIPS, NOW, WORK, Chain, Slots, scratch_for, set_margins
from concord.workers.inference.sampling.sweep import anneal, random_labels
from concord.workers.inference.settings import GibbsSettings

STEPS_A_LOOK = 2_000_000
"""Steps of work between looks at the clock: some tens of milliseconds."""


class Trace(NamedTuple):
    """What a chain did: objective after each sweep (nats), labels flipped, best labels and score."""

    objective: Floats
    flips: int
    best: Labels
    best_objective: float


def solve(
    problem: Problem,
    *,
    config: GibbsSettings,
    rng: np.random.Generator,
    budget: Budget = UNLIMITED,
    incumbent: Labels | None = None,
) -> Decoded:
    """Runs ``config.chains`` annealed chains; the best labelling any of them saw is settled and returned.

    The first chain starts at ``incumbent``, or as ``config.start`` says; the others at random. Work
    is counted in labels, spans and occurrences visited; where the budget sets no limit, ``config.work`` does.
    The bound is the local optimum, so a labelling without penalty at that optimum is proven, and where
    Viterbi's is that nothing is sampled. Raises `DriftError`, of whatever problem, where the sampler is at fault.
    """
    search = Search(problem, budget=limited(budget, config.work), incumbent=incumbent)
    if search.closed:
        return search.decoded(0.0)
    sites = sites_of(search.problem, config.slot_loss)
    for number in range(config.chains):
        if search.spent:
            break
        start = _first(search, config, incumbent) if number == 0 else None
        _run(new_chain(search.problem, sites, hard_weight=config.hard_weight, rng=rng, start=start), search, config)
    if config.settle and not search.spent:
        settle(search, sites, hard_weight=config.hard_weight)
    return search.decoded(0.0)


def _first(search: Search, config: GibbsSettings, incumbent: Labels | None) -> Labels | None:
    """Where the first chain starts; an incumbent that the potentials forbid has no score to start from."""
    if incumbent is not None and np.isfinite(search.problem.potentials.score(incumbent)):
        return incumbent
    return search.viterbi if config.start == "viterbi" else None


def _run(chain: Chain, search: Search, config: GibbsSettings) -> None:
    """All sweeps of a chain, or as many as the budget allows; offers the best labels seen. Raises `DriftError`."""
    before, sweep = search.work, 0
    while sweep < config.sweeps and not search.spent:
        last = min(config.sweeps, sweep - sweep % config.sweeps_a_check + config.sweeps_a_check)
        limit = int(chain.counters[WORK]) + search.remaining(STEPS_A_LOOK)
        sweep += anneal(chain, _temperatures(config, range(sweep, last)), sweep, limit)
        search.work = before + int(chain.counters[WORK])
        if chain.numbers[BEST] > search.objective + ROUNDING:
            search.offer(chain.best)
    known = _known(search, chain.at.labels)
    check_drift(chain, search.problem, hard_weight=config.hard_weight, known=known)


def _known(search: Search, labels: Labels) -> Score | None:
    """The score of labels (N,) that were scored already."""
    if np.array_equal(labels, search.labels):
        return search.score
    return search.problem.first if np.array_equal(labels, search.viterbi) else None


def _temperatures(config: GibbsSettings, steps: range) -> Floats:
    if config.cooling == "none":
        return np.full(len(steps), config.temperature)
    return config.temperature * (1.0 - np.arange(steps.start, steps.stop) / config.sweeps)


def new_chain(
    problem: Prepared, sites: Sites, *, hard_weight: float, rng: np.random.Generator, start: Labels | None
) -> Chain:
    """A chain at ``start`` (N,), or at a random possible labelling where that is None.

    ``hard_weight`` nats stand for infinite costs.
    """
    p, count = problem.potentials, len(problem)
    seed = rng.integers(0, 2**63, dtype=np.uint64)
    arrays = problem.codec
    if start is None:
        start = random_labels(p.unary, p.transition, problem.messages[1], arrays.opens_sentence, seed)
    labels = start.astype(np.int32)
    spans, rows = problem.empty_state(hard_weight), row_state(problem, labels, hard_weight)
    cost = labels_cost(spans, arrays, labels, 0, count)
    count_labels(spans, arrays, labels, 0, count, 1)
    local, paid = p.score(labels), row_penalty(rows)
    chain = Chain(
        at=Labelling(p.unary, p.transition, labels, arrays),
        best=labels.copy(),
        dirty=np.zeros(count, np.int64),
        is_dirty=np.zeros(count, np.bool_),
        margin=np.zeros(count),
        cost_bound=np.full(count, UNKNOWN),
        readers=readers_for(spans),
        pair_gain=np.full(count, UNKNOWN),
        slots=_slots(sites.places, count),
        groups=sites.groups,
        numbers=np.array([*[local - cost - paid] * 2, paid, cost, count * (abs(local) + cost + paid)]),
        counters=np.array([seed, 0, 0, 0, 0], np.uint64),
        spans=spans,
        rows=rows,
        scratch=scratch_for(problem.labels, count, sites.groups),
    )
    set_margins(chain.at, chain.margin, 0, count)
    return chain


def _slots(places: Ints, count: int) -> Slots:
    """Those of the ``places`` (M, 2) of a document of ``count`` tokens that no single label can fill."""
    longer = places[places[:, 1] - places[:, 0] > 1]
    return Slots(
        pointer=np.searchsorted(longer[:, 0], np.arange(count + 1)).astype(np.int64),
        end=np.ascontiguousarray(longer[:, 1]),
        gain=np.full(len(longer), UNKNOWN),
        reach=np.array([(longer[:, 1] - longer[:, 0]).max(initial=0)]),
    )


def sample(
    problem: Problem, *, config: GibbsSettings, rng: np.random.Generator, start: Labels | None = None
) -> tuple[Trace, Floats]:
    """One chain with its trace, and how often each token had each label after a sweep (N, L). Raises `DriftError`."""
    prepared = Prepared.of(problem)
    sites = sites_of(prepared, config.slot_loss)
    chain = new_chain(prepared, sites, hard_weight=config.hard_weight, rng=rng, start=start)
    objective = np.zeros(config.sweeps)
    seen = np.zeros(problem.potentials.unary.shape)
    everywhere = np.arange(len(problem))
    for sweep in range(config.sweeps):
        anneal(chain, _temperatures(config, range(sweep, sweep + 1)), sweep, sys.maxsize)
        objective[sweep] = chain.numbers[NOW]
        seen[everywhere, chain.at.labels] += 1.0
    check_drift(chain, prepared, hard_weight=config.hard_weight)
    return Trace(
        objective, int(chain.counters[FLIPS]), chain.best.copy(), float(chain.numbers[BEST])
    ), seen / config.sweeps
