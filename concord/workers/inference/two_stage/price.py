"""The least penalty near the local optimum where all constraints are rows, by a price on the penalty.

For a price λ > 0 let V(λ) = min_y loss(y) + λ · charge(y), where loss is nats below the local optimum. The charge is
the penalty, or a charge by the degree that is never more than the penalty (`Violations.unit_weights`). A labelling y
with loss(y) ≤ B has

    penalty(y) ≥ (V(λ) − B) / λ,

and V(λ) is the ordinary problem with all weights times λ, which `row_dual` solves fast. Its solution has the least
penalty of all labellings that lose no more, and the least loss of all that cost no more. So the price is raised until
the solution leaves the band of B nats, and then set so that the last solutions on both sides cost the same (the corners
of the lower hull of loss and penalty). If no corner meets the lower bound of the penalty, V(λ) still tells the labels
that a better labelling may have. If the charge is less than the penalty, a corner proves something only where both are
the same.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from concord.schemas.labels import Labels
from concord.schemas.problem import Problem
from concord.workers.inference.core.incumbent import Search
from concord.workers.inference.relaxation.row_dual import dual_bound, prove_rows
from concord.workers.inference.two_stage.violations import Violations

FIRST_PRICE = 1.0
PRICE_STEP = 10.0
HIGHEST_PRICE = 1e4
"""Largest price: above it the penalty alone decides, and sums of multipliers lose digits."""

MOST_PRICES = 30
STATES = 500
"""States of a token that dynamic programming keeps for one price."""

STAGE_STEPS = 200
"""Subgradient steps of the bound that prunes."""


@dataclass
class Corner:
    """The solution for one price.

    - ``labels`` (N,): its labelling.
    - ``loss``: nats below the local optimum.
    - ``penalty``: nats.
    - ``charge``: nats at price 1.
    - ``price``: price for which it was found.
    - ``proven``: is it proven to be the best for that price?
    """

    labels: Labels
    loss: float
    penalty: float
    charge: float
    price: float
    proven: bool

    def at(self, price: float) -> float:
        """loss + ``price`` · charge, in nats."""
        return self.loss + price * self.charge


@dataclass
class Band:
    """The labellings of ``search.problem`` (which has only rows) within ``width`` nats of the local optimum.

    - ``search``: the search, to which work is added.
    - ``violations``: the charges of labellings.
    - ``nearest`` (N,): the labelling with the least loss of all that break nothing hard.
    - ``width``: nats.
    - ``tolerance``: nats.
    - ``best``: the labelling with the least penalty found, at the least loss.
    - ``floor``: lower bound of the penalty of all, in nats.
    - ``price``: the price that proved it.
    """

    search: Search
    violations: Violations
    nearest: Labels
    width: float
    tolerance: float
    best: Corner = field(init=False)
    floor: float = 0.0
    price: float = FIRST_PRICE

    def __post_init__(self) -> None:
        self.best = self._corner(self.nearest, 0.0, bound=np.inf, proven=True)

    @property
    def proven(self) -> bool:
        """Is ``best`` the answer: is no penalty lower, and at that penalty no loss?"""
        return self.best.proven and self.best.penalty <= self.floor + self.tolerance

    def narrow(self) -> None:
        """Tries prices until ``best`` is proven, no further price can prove more, or the budget is spent."""
        inside: Corner = self.best
        outside: Corner | None = None
        price = FIRST_PRICE
        for _ in range(MOST_PRICES):
            corner = self._solve(price)
            near = corner.loss <= self.width + self.tolerance
            if near:
                self._take(corner)
            if self.proven or self.search.spent:
                return
            if outside and corner.at(price) >= min(inside.at(price), outside.at(price)) - self.tolerance:
                return
            inside, outside = (corner, outside) if near else (inside, corner)
            if outside:
                price = _crossing(inside, outside)
            elif price < HIGHEST_PRICE:
                price *= PRICE_STEP
            else:
                return

    def narrow_to(self, labels: Labels) -> None:
        """Narrows the band to labellings that lose and cost no more than ``labels`` (N,)."""
        self.best = self._corner(labels, 0.0, bound=np.inf)
        self.width = self.best.loss

    def allowed(self) -> NDArray[np.bool_]:
        """(N, L) mask of the labels of labellings in the band whose penalty is at most that of ``best``."""
        problem = self._at(self.price)
        most = self.width + self.tolerance + self.price * (self.best.penalty + self.tolerance)
        dual = dual_bound(
            problem,
            np.isfinite(problem.potentials.unary),
            self.best.labels,
            steps=STAGE_STEPS,
            tolerance=self.tolerance,
            least=self.search.top - most,
        )
        self.search.work += dual.steps
        return dual.allowed

    def _solve(self, price: float) -> Corner:
        search = self.search
        run = Search(self._at(price), budget=search.left, incumbent=self.best.labels)
        bound = run.objective if run.closed else prove_rows(run, states=STATES, tolerance=self.tolerance)
        search.work += run.work
        floor = (search.top - bound - self.width) / price
        if floor > self.floor:
            self.floor, self.price = floor, price
        return self._corner(run.labels, price, bound=bound)

    def _take(self, corner: Corner) -> None:
        better = corner.penalty < self.best.penalty - self.tolerance
        level = corner.penalty <= self.best.penalty + self.tolerance and corner.loss <= self.best.loss + self.tolerance
        if better or (level and (corner.loss < self.best.loss or corner.proven)):
            self.best = corner

    def _at(self, price: float) -> Problem:
        problem = self.search.problem
        return problem.with_rows(replace(problem.rows, weight=price * self.violations.unit_weights))

    def _corner(self, labels: Labels, price: float, *, bound: float, proven: bool = False) -> Corner:
        """A labelling as the corner of ``price``; ``bound`` is nats that no local score − price · charge exceeds."""
        local, penalty = self.search.problem.potentials.score(labels), self.violations.penalty(labels)
        charge = self._at(1.0).score(labels).penalty
        proven = proven or bound - (local - price * penalty) <= self.tolerance
        return Corner(labels, self.search.top - local, penalty, charge, price, proven)


def _crossing(inside: Corner, outside: Corner) -> float:
    """The price at which both corners cost the same, or one between their own prices if there is none.

    By rounding to the solver's units, a labelling may break a hard constraint by a little: no price makes up for that.
    """
    if outside.charge < inside.charge < np.inf:
        return (outside.loss - inside.loss) / (inside.charge - outside.charge)
    return outside.price / PRICE_STEP if inside.price == 0.0 else float(np.sqrt(inside.price * outside.price))
