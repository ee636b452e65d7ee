"""A CP-SAT model under construction: variables with their costs, and their values in a known solution."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from ortools.sat.python import cp_model

Variables = NDArray[np.int32]
"""Array of variables by index; `TRUE` and `FALSE` stand for constants."""

TRUE = 0
"""The variable that is the constant 1."""
FALSE = -1
"""No variable: the constant 0."""

MOST_COST = 2.0**60
"""Largest possible objective, in units: CP-SAT sums objectives in int64."""


class CostOverflowError(ArithmeticError):
    """The scaled objective does not fit CP-SAT's integers; it may with a smaller scale."""


@dataclass(eq=False)
class ModelDraft:
    """A model that minimises Σ cost · variable, each variable in 0 … upper.

    - ``scale``: units of cost per nat.
    - ``model``: the CP-SAT model.
    - ``hints``: value of each variable in the labelling from which the search starts.
    - ``costs``: cost of each variable that has one, in units.
    - ``uppers``: largest value of each variable.
    - ``lost``: units, as a fraction, by which rounding lowers the cost of a labelling at most; those of `booleans` left
      out.

    Costs are given in nats and rounded down to whole units. So the optimum of the integer model is never above the true
    one: its bound is a proof. A variable is named by its index, or is `TRUE` or `FALSE`.
    """

    scale: float
    model: cp_model.CpModel = field(default_factory=cp_model.CpModel)
    hints: list[int] = field(default_factory=list)
    costs: dict[int, int] = field(default_factory=dict)
    uppers: list[int] = field(default_factory=list)
    lost: float = 0.0

    def __post_init__(self) -> None:
        constant = self.model.proto.variables.add()
        constant.domain.extend([1, 1])
        self.hints.append(1)
        self.uppers.append(1)

    def variable(self, *, hint: int, upper: int = 1, cost: float = 0.0) -> int:
        """A new variable in 0 … ``upper``; ``cost`` is in nats a unit, and never negative."""
        index = len(self.uppers)
        self.model.proto.variables.add().domain.extend([0, upper])
        self.uppers.append(upper)
        self.hints.append(hint)
        self.charge(index, cost)
        return index

    def charge(self, variable: int, cost: float) -> None:
        """Adds ``cost`` nats a unit to a variable's cost."""
        units = int(np.floor(cost * self.scale))
        if variable == FALSE:
            return
        self.lost += (cost * self.scale - units) * self.uppers[variable]
        if units:
            self.costs[variable] = self.costs.get(variable, 0) + units

    def booleans(self, hints: NDArray[np.bool_], costs: NDArray[np.float64]) -> Variables:
        """(M,) new Booleans with ``hints`` (M,) and ``costs`` (M,) in nats."""
        first = len(self.uppers)
        variables = self.model.proto.variables
        for _ in range(len(hints)):
            variables.add().domain.extend([0, 1])
        self.uppers += [1] * len(hints)
        self.hints += hints.astype(int).tolist()
        units = np.floor(costs * self.scale).astype(np.int64)
        indices = np.arange(first, first + len(hints), dtype=np.int32)
        charged = np.flatnonzero(units)
        self.costs.update(zip(indices[charged].tolist(), units[charged].tolist(), strict=True))
        return indices

    def exactly_one(self, literals: Sequence[int]) -> None:
        """Requires exactly one of the literals to hold; −1 − v is the negation of v."""
        self.model.proto.constraints.add().exactly_one.literals.extend(literals)

    def at_most(self, terms: Iterable[tuple[int, int]], bound: int, *, unless: int = FALSE, when: int = TRUE) -> None:
        """Requires Σ coefficient · variable − ``unless`` ≤ ``bound`` if ``when`` holds.

        ``terms`` are pairs (variable, coefficient); a variable may come twice.
        """
        sums: dict[int, int] = {}
        for variable, coefficient in [*terms, (unless, -1)]:
            if variable == TRUE:
                bound -= coefficient
            elif variable != FALSE:
                sums[variable] = sums.get(variable, 0) + coefficient
        coefficients = {v: c for v, c in sums.items() if c}
        if when == FALSE or sum(c * self.uppers[v] for v, c in coefficients.items() if c > 0) <= bound:
            return
        constraint = self.model.proto.constraints.add()
        if when != TRUE:
            constraint.enforcement_literal.append(when)
        least = sum(c * self.uppers[v] for v, c in coefficients.items() if c < 0)
        constraint.linear.vars.extend(list(coefficients))
        constraint.linear.coeffs.extend(list(coefficients.values()))
        constraint.linear.domain.extend([min(least, bound), bound])

    def finish(self) -> cp_model.CpModel:
        """The model with its objective and hints. Raises `CostOverflowError`."""
        if sum(c * self.uppers[v] for v, c in self.costs.items()) > MOST_COST:
            raise CostOverflowError(f"the objective overflows at scale {self.scale:g}")
        proto = self.model.proto
        proto.objective.vars.extend(list(self.costs))
        proto.objective.coeffs.extend(list(self.costs.values()))
        proto.solution_hint.vars.extend(list(range(len(self.hints))))
        proto.solution_hint.values.extend(self.hints)
        return self.model
