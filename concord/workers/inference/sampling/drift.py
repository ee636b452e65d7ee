"""A check of a chain's running sums against the score of its labels.

A move that is counted wrongly once shifts every later draw, so a difference is an error of the sampler.
"""

from __future__ import annotations

import numpy as np

from concord.schemas.decoded import Score
from concord.schemas.problem import ANY, LinearRows
from concord.workers.inference.core.prepared import Prepared
from concord.workers.inference.core.rows import RowState
from concord.workers.inference.numerics import RELATIVE_ROUNDING, ROUNDING
from concord.workers.inference.sampling.state import Chain


class DriftError(RuntimeError):
    """A chain's running score is not the score of its labels: a fault of the sampler, not of the document."""


def check_drift(chain: Chain, problem: Prepared, *, hard_weight: float, score: Score | None = None) -> None:
    """Compares a chain's running score with the `Problem.score` of its labels.

    Infinite costs count as ``hard_weight`` nats. ``score`` is the score of the labels, if it was computed before.
    Raises `DriftError` if the two differ by more than the rounding errors of all sums.
    """
    if score is None or score.objective == -np.inf:
        score = problem.relaxed(hard_weight).score(chain.at.labels)
    running, true, flips = float(chain.now["objective"][0]), score.objective, int(chain.now["flips"][0])
    if running == true or abs(running - true) <= _rounding(chain, problem.rows):
        return
    raise DriftError(
        f"a chain's running score is {running!r} nats, its labels score {true!r} after {flips} "
        "changes of label: the sampler counts some move wrongly, so nothing it drew can be believed; please report "
        "the document and its constraints"
    )


def _rounding(chain: Chain, rows: LinearRows) -> float:
    """Largest rounding error of the running score, in nats: of its changes, of the chain's terms and of the rows.

    A row may be broken and mended again while one label is written. Its charges cancel then, but for their rounding,
    and neither the score nor its change shows them.
    """
    at, rewritten = chain.at, int(chain.now["rewritten"][0])
    passes = 1.0 + rewritten / max(1, len(at.labels))
    by_rows = passes * float((chain.rows.weight * rows.slack)[~rows.summed_exactly].sum())
    tables = (at.unary[np.isfinite(at.unary)], at.edge[np.isfinite(at.edge)])
    largest = sum(float(np.abs(table).max(initial=0.0)) for table in tables)
    terms = (len(at.labels) + rewritten) * largest + rewritten * _most_charged(chain.rows)
    return ROUNDING + by_rows + RELATIVE_ROUNDING * (float(chain.now["summed"][0]) + terms)


def _most_charged(rows: RowState) -> float:
    """The most that the charges of all rows can rise or fall while one token's label is written, in nats."""
    amount = rows.weight[rows.row] * np.abs(rows.coefficient)
    tokens = len(rows.pointer) - 1
    at = np.repeat(np.arange(tokens), np.diff(rows.pointer))
    of_edges = rows.previous != ANY  # they change with the label before, too
    by_token = np.bincount(at, amount, tokens) + np.bincount(at[of_edges] - 1, amount[of_edges], tokens)
    return float(by_token.max(initial=0.0))
