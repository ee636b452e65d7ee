"""Annealed Gibbs sampling over a whole document: Finkel, Grenager & Manning (2005) §2 and §6.

The chain's distribution is p(y) ∝ exp(objective(y) / τ) over labellings; τ falls linearly from the start temperature
towards 0. One sweep visits every token and resamples

- its label from p(y_t | all others) (eq. 1, 2, 4 and 7);
- each slot that starts there, over {no span, one span of each type}: a slot holds several tokens that the local model
  could see as a span, and such a span cannot change its type one label at a time;
- at some sweeps, the labels of the token and the next one together: so the first token of a span can move, which it
  cannot do alone, because the next token would continue nothing;
- at some sweeps, all occurrences of the same words over the types at once (`group_move`).

Invariant: each step draws from p restricted to a set of labellings. This set depends only on the labels that the step
leaves unchanged, so every member leads to the same set. Hence each step keeps p, at a constant τ. The answer is the
best labelling seen; its bound is the local optimum V.

Most sites keep their labels. The weight of all other labels is bounded by the local margin and the present cost of the
labels at the site, which is cached until the counts that it was read from change (`memory`). If a uniform draw falls
above that bound, the labels stay and nothing else is computed (`draws`). This is exact, not an approximation.
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
from concord.workers.inference.core.folding import on_folded
from concord.workers.inference.core.incumbent import Search, limited
from concord.workers.inference.core.prepared import Prepared
from concord.workers.inference.core.rows import row_penalty, row_state
from concord.workers.inference.numerics import ROUNDING
from concord.workers.inference.sampling.drift import check_drift
from concord.workers.inference.sampling.labelling import Labelling
from concord.workers.inference.sampling.memory import UNKNOWN_COST, readers_for
from concord.workers.inference.sampling.names import Sites, sites_of
from concord.workers.inference.sampling.settling import settle
from concord.workers.inference.sampling.state import (
    CHAIN_NOW,
    Chain,
    Slots,
    scratch_for,
    set_margins,
)
from concord.workers.inference.sampling.sweep import anneal, random_labels
from concord.workers.inference.settings import GibbsSettings

STEPS_A_LOOK = 2_000_000
"""Units of work between looks at the clock: some tens of milliseconds."""


class Trace(NamedTuple):
    """The course of one chain.

    - ``objective`` (sweeps,): objective after each sweep, in nats.
    - ``flips``: number of labels that moves changed.
    - ``best`` (N,): best labels seen.
    - ``best_objective``: objective of the best labels, in nats.
    """

    objective: Floats
    flips: int
    best: Labels
    best_objective: float


@on_folded
def solve(
    problem: Problem,
    *,
    config: GibbsSettings,
    rng: np.random.Generator,
    budget: Budget = UNLIMITED,
    incumbent: Labels | None = None,
) -> Decoded:
    """The best labelling that ``config.chains`` annealed chains saw, settled by local search.

    The first chain starts at ``incumbent``, or as ``config.start`` says; the others start at random. Work is the number
    of labels, spans and occurrences visited; where the budget sets no limit, ``config.work`` does. The bound is the
    local optimum V, so a labelling that scores V is proven; if the incumbent does at the start, nothing is sampled.
    Raises `DriftError` if the sampler is at fault.
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
    """The labels at which the first chain starts; None for random ones.

    An incumbent that the potentials forbid is not used: it has no finite score to start from.
    """
    if incumbent is not None and np.isfinite(search.problem.potentials.score(incumbent)):
        return incumbent
    return search.viterbi if config.start == "viterbi" else None


def _run(chain: Chain, search: Search, config: GibbsSettings) -> None:
    """Runs all sweeps of a chain, or as many as the budget allows, and offers the best labels. Raises `DriftError`."""
    before, sweep = search.work, 0
    while sweep < config.sweeps and not search.spent:
        last = min(config.sweeps, sweep - sweep % config.sweeps_a_check + config.sweeps_a_check)
        limit = int(chain.now["work"][0]) + search.remaining(STEPS_A_LOOK)
        sweep += anneal(chain, _temperatures(config, range(sweep, last)), sweep, limit)
        search.work = before + int(chain.now["work"][0])
        if chain.now["best_objective"][0] > search.objective + ROUNDING:
            search.offer(chain.best)
    score = _score_of(search, chain.at.labels)
    check_drift(chain, search.problem, hard_weight=config.hard_weight, score=score)


def _score_of(search: Search, labels: Labels) -> Score | None:
    """The score of ``labels`` (N,) if they are the incumbent or the Viterbi labels; otherwise None."""
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
    """A chain at the labels ``start`` (N,), or at a random possible labelling if that is None.

    ``hard_weight`` nats stand for infinite costs.
    """
    p, count = problem.potentials, len(problem)
    seed = rng.integers(0, 2**63, dtype=np.uint64)
    arrays = problem.codec
    if start is None:
        start = random_labels(p.unary, p.edges, problem.messages[1], arrays.opens_sentence, seed)
    labels = start.astype(np.int32)
    spans, rows = problem.empty_state(hard_weight), row_state(problem, labels, hard_weight)
    cost = labels_cost(spans, arrays, labels, 0, count)
    count_labels(spans, arrays, labels, 0, count, 1)
    local, paid = p.score(labels), row_penalty(rows)
    objective, summed = local - cost - paid, count * (abs(local) + cost + paid)
    chain = Chain(
        at=Labelling(p.unary, p.edges, labels, arrays),
        best=labels.copy(),
        dirty=np.zeros(count, np.int64),
        is_dirty=np.zeros(count, np.bool_),
        margin=np.zeros(count),
        cost_bound=np.full(count, UNKNOWN_COST),
        readers=readers_for(spans),
        pair_gain=np.full(count, UNKNOWN_COST),
        slots=_slots(sites.places, count),
        groups=sites.groups,
        now=np.array([(objective, objective, paid, cost, summed, seed, 0, 0, 0, 0, 0)], CHAIN_NOW),
        spans=spans,
        rows=rows,
        scratch=scratch_for(problem.labels, count, sites.groups),
    )
    set_margins(chain.at, chain.margin, 0, count)
    return chain


def _slots(places: Ints, count: int) -> Slots:
    """The slots of a document of ``count`` tokens: those of ``places`` (M, 2) with several tokens."""
    longer = places[places[:, 1] - places[:, 0] > 1]
    return Slots(
        pointer=np.searchsorted(longer[:, 0], np.arange(count + 1)).astype(np.int64),
        end=np.ascontiguousarray(longer[:, 1]),
        gain=np.full(len(longer), UNKNOWN_COST),
        reach=np.array([(longer[:, 1] - longer[:, 0]).max(initial=0)]),
    )


def sample(
    problem: Problem, *, config: GibbsSettings, rng: np.random.Generator, start: Labels | None = None
) -> tuple[Trace, Floats]:
    """One chain: its trace, and how often each token had each label, as a fraction of the sweeps (N, L).

    Raises `DriftError` if the sampler is at fault.
    """
    prepared = Prepared.of(problem)
    sites = sites_of(prepared, config.slot_loss)
    chain = new_chain(prepared, sites, hard_weight=config.hard_weight, rng=rng, start=start)
    objective = np.zeros(config.sweeps)
    counts = np.zeros(problem.potentials.unary.shape)
    everywhere = np.arange(len(problem))
    for sweep in range(config.sweeps):
        anneal(chain, _temperatures(config, range(sweep, sweep + 1)), sweep, sys.maxsize)
        objective[sweep] = chain.now["objective"][0]
        counts[everywhere, chain.at.labels] += 1.0
    check_drift(chain, prepared, hard_weight=config.hard_weight)
    return Trace(
        objective, int(chain.now["flips"][0]), chain.best.copy(), float(chain.now["best_objective"][0])
    ), counts / config.sweeps
