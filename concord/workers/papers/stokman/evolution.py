"""Evolutionary search over whole labellings: Stokman (2011) §4.2.3, table 5.

The population starts from a best-first solution and its mutations. Each generation breeds as many offspring as there
are individuals; parents and offspring are ranked together, and linear ranking with universal sampling (eq. 66) picks
the survivors (μ + λ). The best individual, and the best that breaks no hard constraint, always survive. Hard
constraints weigh γs + i · γδ in generation i (eq. 67). The bound is the local optimum V, since penalties are never
negative.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from concord.schemas.arrays import Floats
from concord.schemas.decoded import Budget, Decoded
from concord.schemas.labels import Labels
from concord.schemas.problem import Problem
from concord.workers.compiling.kernel import kernel
from concord.workers.inference.core.engine import UNLIMITED
from concord.workers.inference.core.incumbent import Search, limited
from concord.workers.inference.numerics import ROUNDING
from concord.workers.inference.search.depth_first import new_probe, next_leaf
from concord.workers.inference.search.partial import ChainLoss, chain_loss, start_partial
from concord.workers.papers.stokman.incremental_score import IncrementalScore, evaluate, incremental_score
from concord.workers.papers.stokman.settings import EvolutionSettings
from concord.workers.papers.stokman.variation import DRAWS, breed, mutate


class Population(NamedTuple):
    """The individuals, μ labellings of N tokens.

    - ``labels`` (μ, N): the labellings.
    - ``soft`` (μ,): local score minus soft penalties, in nats.
    - ``hard`` (μ,): degree of the hard constraints.
    """

    labels: NDArray[np.int32]
    soft: Floats
    hard: Floats


def solve(
    problem: Problem,
    *,
    config: EvolutionSettings,
    rng: np.random.Generator,
    budget: Budget = UNLIMITED,
    incumbent: Labels | None = None,
) -> Decoded:
    """The best labelling bred until the budget is spent, or ``config.work`` if it sets no limit.

    Work is the number of labellings evaluated plus the nodes that the start expanded. The bound is the local optimum,
    which proves a labelling without penalty that reaches it.
    """
    search = Search(problem, budget=limited(budget, config.work), incumbent=incumbent)
    return evolve(search, config=config, rng=rng)


def evolve(search: Search, *, config: EvolutionSettings, rng: np.random.Generator) -> Decoded:
    """Evolves from the search's incumbent."""
    if search.closed:
        return search.decoded(0.0)
    problem = search.problem
    current = incremental_score(problem, search.labels)
    population = _start(search, current, config, rng)
    generation = 0
    while not search.spent and not search.closed:
        offspring = np.empty_like(population.labels)
        draws = rng.random((len(offspring), DRAWS))
        breed(current.codec, population.labels, draws, np.array([config.mutation, config.shift]), offspring)
        search.work += len(offspring)
        population = _joined(population, _evaluated(current, offspring))
        weight = config.hard_weight + generation * config.hard_weight_step
        population = _survivors(search, population, weight=weight, pressure=config.pressure, spin=rng.random())
        generation += 1
    return search.decoded(0.0)


def _start(
    search: Search, current: IncrementalScore, config: EvolutionSettings, rng: np.random.Generator
) -> Population:
    """The first population: the best labelling known, a best-first one, then mutations of both in turn."""
    size = config.population
    first = first_solution(
        search, chain=chain_loss(search.problem), branching=config.branching, nodes=search.remaining(config.start_nodes)
    )
    seeds = [search.labels] if first is None else [search.labels, first]
    if first is not None:
        search.offer(first)
    labels = np.stack([seeds[i % len(seeds)] for i in range(size)]).astype(np.int32)
    draws = rng.random((size, 3))
    for i in range(len(seeds), size):
        mutate(current.codec, labels[i], draws[i, 0], config.shift, draws[i, 1], draws[i, 2])
    search.work += size
    return _evaluated(current, labels)


def first_solution(search: Search, *, chain: ChainLoss, branching: int, nodes: int) -> Labels | None:
    """The first labelling (N,) found by best-first descent that keeps all hard constraints.

    None if ``nodes`` nodes are expanded without one, or there is none.
    """
    start = start_partial(search.problem, chain, top=search.top, limit=np.inf)
    if start is None:
        return None
    probe = new_probe(start, loss=np.inf, most=np.inf, branching=branching)
    is_leaf = next_leaf(start, probe, nodes)
    search.work += int(probe.now["expanded"][0])
    return start.labels.copy() if is_leaf else None


def _evaluated(current: IncrementalScore, labels: NDArray[np.int32]) -> Population:
    population = Population(labels, np.empty(len(labels)), np.empty(len(labels)))
    _evaluate_all(current, labels, population.soft, population.hard)
    return population


def _joined(one: Population, other: Population) -> Population:
    return Population(
        np.concatenate([one.labels, other.labels]),
        np.concatenate([one.soft, other.soft]),
        np.concatenate([one.hard, other.hard]),
    )


def _survivors(search: Search, pool: Population, *, weight: float, pressure: float, spin: float) -> Population:
    """Half of the pool, by rank; led by the best of all and the best that keeps all hard constraints."""
    fitness = pool.soft - weight * pool.hard
    feasible = np.where(pool.hard > 0, -np.inf, pool.soft)
    if feasible.max() > search.objective + ROUNDING:
        search.offer(pool.labels[int(feasible.argmax())])
    survivors = sample_by_rank(fitness, len(fitness) // 2, pressure=pressure, spin=spin)
    survivors[:2] = fitness.argmax(), feasible.argmax()
    return Population(pool.labels[survivors], pool.soft[survivors], pool.hard[survivors])


def sample_by_rank(fitness: Floats, size: int, *, pressure: float, spin: float) -> NDArray[np.int64]:
    """(size,) individuals chosen by linear ranking (eq. 66) with one ``spin`` in [0, 1) of universal sampling."""
    count = len(fitness)
    ranked = np.argsort(fitness, kind="stable")
    rank = np.arange(count)
    share = (2.0 - pressure) / count + 2.0 * rank * (pressure - 1.0) / (count * (count - 1.0))
    arms = (np.arange(size) + spin) / size
    return ranked[np.minimum(np.searchsorted(np.cumsum(share), arms, side="right"), count - 1)]


@kernel
def _evaluate_all(current: IncrementalScore, labels: Labels, soft: Floats, hard: Floats) -> None:
    for i in range(len(labels)):
        local, penalty, degree = evaluate(current, labels[i])
        soft[i], hard[i] = local - penalty, degree
