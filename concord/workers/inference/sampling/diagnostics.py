"""Convergence of Markov chains: split R̂ and effective sample size of sampled traces."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from concord.schemas.arrays import Floats
from concord.schemas.problem import Problem
from concord.workers.inference.core.prepared import Prepared
from concord.workers.inference.sampling import gibbs
from concord.workers.inference.settings import GibbsSettings

LEAST_SWEEPS = 7
"""Fewest sweeps of a diagnostic: the first three are not measured, and each half of the other four has a variance."""


class Diagnostic(NamedTuple):
    """Convergence of several chains at one temperature, measured on the objective after each sweep.

    - ``split_rhat``: potential scale reduction; near 1 (below 1.05, say), halves of chains and different chains agree.
    - ``effective_samples``: number of independent draws that the sweeps are worth.
    - ``flips``: mean number of labels that a sweep changed.
    - ``best``: best objective seen, in nats.
    - ``objective`` (chains, sweeps): objective of each chain after each sweep, in nats, the first half included.
    """

    split_rhat: float
    effective_samples: float
    flips: float
    best: float
    objective: Floats


def diagnose(problem: Problem, *, config: GibbsSettings, rng: np.random.Generator, chains: int = 4) -> Diagnostic:
    """Runs ``chains`` chains from random labellings at a constant temperature; their first halves are not measured.

    The sweeps are those of `gibbs.solve`, which makes the costlier moves in some sweeps only. Raises `ValueError` for
    fewer than `LEAST_SWEEPS` sweeps.
    """
    prepared = Prepared.of(problem)
    steady = config.model_copy(update={"cooling": "none"})
    traces = [gibbs.sample(prepared, config=steady, rng=rng)[0] for _ in range(chains)]
    objective = np.stack([trace.objective for trace in traces])
    second_half = objective[:, config.sweeps // 2 :]
    return Diagnostic(
        split_rhat(second_half),
        effective_samples(second_half),
        float(np.mean([trace.flips for trace in traces])) / config.sweeps,
        max(trace.best_objective for trace in traces),
        objective,
    )


def split_rhat(traces: Floats) -> float:
    """Potential scale reduction of the half chains of ``traces`` (chains, sweeps): Gelman et al. (2013) §11.4.

    It is 1 if nothing varies. Raises `ValueError` for fewer than four sweeps.
    """
    half = traces.shape[1] // 2
    if half < 2:
        raise ValueError(f"{traces.shape[1]} sweeps are too few for a diagnostic: give at least 4")
    halves = np.concatenate([traces[:, :half], traces[:, -half:]])
    within = halves.var(axis=1, ddof=1).mean()
    between = halves.mean(axis=1).var(ddof=1)
    if within == 0.0:
        return 1.0 if between == 0.0 else float(np.inf)
    return float(np.sqrt((half - 1) / half + between / within))


def effective_samples(traces: Floats) -> float:
    """Number of independent draws that correlated ``traces`` (chains, sweeps) are worth.

    The autocorrelations are summed over their initial positive pairs: Geyer (1992).
    """
    chains, sweeps = traces.shape
    centred = traces - traces.mean(axis=1, keepdims=True)
    variance = float((centred**2).mean())
    if variance == 0.0:
        return float(chains * sweeps)
    spectrum = np.abs(np.fft.rfft(centred, 2 * sweeps, axis=1)) ** 2
    correlation = np.fft.irfft(spectrum, axis=1)[:, :sweeps].mean(axis=0) / (variance * sweeps)
    pairs = correlation[: sweeps // 2 * 2].reshape(-1, 2).sum(axis=1)
    negative = np.flatnonzero(pairs <= 0.0)
    positive = pairs[: negative[0]] if len(negative) else pairs
    return float(chains * sweeps / max(1.0, 2.0 * positive.sum() - 1.0))
