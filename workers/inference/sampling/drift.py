"""A chain's running sums against the score of its labels: a move that counts twice moves every draw after it."""

from __future__ import annotations

import numpy as np

from concord.schemas.decoded import Score
from concord.schemas.problem import LinearRows
from concord.workers.inference.core.prepared import Prepared
from concord.workers.inference.numerics import RELATIVE_ROUNDING, ROUNDING
from concord.workers.inference.sampling.state import FLIPS, NOW, SUMMED, Chain


class DriftError(RuntimeError):
    """A chain lost count of what its labels score: a fault of the sampler, whatever the document."""


def check_drift(chain: Chain, problem: Prepared, *, hard_weight: float, known: Score | None = None) -> None:
    """Compares a chain's running score with `Problem.score` of its labels, ``hard_weight`` nats for infinite costs.

    ``known`` is the score of its labels where that is known. Raises `DriftError` where they differ by more than the
    rounding of all that was summed.
    """
    if known is None or known.objective == -np.inf:
        known = problem.relaxed(hard_weight).score(chain.at.labels)
    running, true = float(chain.numbers[NOW]), known.objective
    if running == true or abs(running - true) <= _rounding(chain, problem.rows):
        return
    raise DriftError(
        f"a chain's running score is {running!r} nats, its labels score {true!r} after {int(chain.counters[FLIPS])} "
        "changes of label: the sampler counts some move wrongly, so nothing it drew can be believed; please report "
        "the document and its constraints"
    )


def _rounding(chain: Chain, rows: LinearRows) -> float:
    """Nats that sums of floats may be off: a share of all that was added, terms of the chain and of rows included."""
    at = chain.at
    passes = 1.0 + int(chain.counters[FLIPS]) / max(1, len(at.labels))
    by_rows = passes * float((chain.rows.weight * rows.slack)[~rows.summed_exactly].sum())
    tables = (at.unary[np.isfinite(at.unary)], at.transition[np.isfinite(at.transition)])
    largest = sum(float(np.abs(table).max(initial=0.0)) for table in tables)
    terms = (len(at.labels) + int(chain.counters[FLIPS])) * largest
    return ROUNDING + by_rows + RELATIVE_ROUNDING * (float(chain.numbers[SUMMED]) + terms)
