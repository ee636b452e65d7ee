"""A CP-SAT model of a ground problem: Fersini et al. (2014) eq. 11–16, with rows and span pairs.

The model has

- a Boolean for every token and label;
- a Boolean for every edge of the lattice if both ends are open (the local polytope, whose linear relaxation is exact
  for chains);
- a slack for every soft row (Stokman 2011, eq. 56);
- a Boolean for every labelled span whose agreement with others matters.

A token with one allowed label needs no variable, so the same builder serves a whole document and the small rest that
pruning leaves of it.

CP-SAT minimises integers: offset − objective, in units of 1/scale nats, each cost rounded down. So the model's optimum
is at most scale · (offset − objective(y)) for every labelling y of the allowed labels, and

    objective(y) ≤ offset − (integer bound) / scale.

Rounding lowers a labelling's cost by less than one unit for each token and edge, and `_scale` makes the sum of these
less than half of the tolerance asked for. Where rows and agreements lose more than the other half, the units are made
smaller (`build_model`). Rows are rounded in such a way that they still hold under every labelling that keeps
them, and never cost more (`_add_row`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from ortools.sat.python import cp_model

from concord.schemas.arrays import Floats
from concord.schemas.labels import Labels, Spans
from concord.schemas.potentials import Potentials
from concord.schemas.problem import ANY, LinearRows, Problem
from concord.workers.inference.core.chain import max_marginals
from concord.workers.inference.cpsat.draft import FALSE, TRUE, CostOverflowError, ModelDraft, Variables
from concord.workers.inference.cpsat.lattice_spans import add_agreements
from concord.workers.inference.numerics import INTEGRAL_DRIFT, TOLERANCE, UNIT_ROUNDING

FINEST = 2.0**42
"""Units into which the sum of a held row's real coefficients is divided: sums stay far inside int64."""

LOCAL_BITS = 50
"""Binary digits for the sum of all local losses, in units: it stays below 2^50, which doubles hold exactly."""


class NoLabellingError(ValueError):
    """The allowed labels leave some sentence without a possible labelling."""


@dataclass(frozen=True, eq=False)
class LatticeModel:
    """A CP-SAT model that minimises ``scale`` · (``offset`` − objective), rounded down.

    - ``model``: the CP-SAT model.
    - ``token`` (N, L): variable of each label of each token; `TRUE` or `FALSE` if it is fixed.
    - ``offset``: nats; bound = offset − integer bound / scale.
    - ``scale``: units per nat.
    - ``local``: the objective's coefficients that come from the potentials, by variable.
    - ``lost``: nats by which rounding the costs of rows and agreements raises the bound, at most.
    """

    model: cp_model.CpModel
    token: Variables
    offset: float
    scale: float
    local: dict[int, int]
    lost: float

    def labels_of(self, value: Callable[[int], bool]) -> Labels:
        """(N,) the labels of a solution; ``value`` gives the value of each Boolean by its index."""
        values = self.token == TRUE
        for t, label in np.argwhere(self.token > TRUE).tolist():
            values[t, label] = value(int(self.token[t, label]))
        labels: Labels = values.argmax(axis=1).astype(np.int32)
        return labels


@dataclass(frozen=True, eq=False)
class _LatticeVariables:
    """The variables of the lattice.

    - ``token`` (N, L): variable of each label of each token.
    - ``edge`` (N, L, L): variable of each edge into a token.
    - ``offset``: best possible local score, in nats.
    """

    token: Variables
    edge: Variables
    offset: float


def build_model(
    problem: Problem,
    *,
    start: Labels,
    allowed: NDArray[np.bool_] | None = None,
    spans: Spans | None = None,
    tolerance: float = TOLERANCE,
    once: bool = False,
) -> LatticeModel:
    """The model of ``problem`` with labels restricted to ``allowed`` (N, L), hinted with ``start`` (N,).

    If ``spans`` is given, only these can cost anything by agreement: leave out those that no better labelling can have.
    Rounding loses less than ``tolerance`` nats over the document unless integers end there (`MOST_COST`), and only ever
    raises the bound. Soft rows cost their weight times their degree or, with ``once``, their weight if they are broken.
    Raises `NoLabellingError`.
    """
    p = problem.potentials
    alive = np.isfinite(p.unary) if allowed is None else allowed & np.isfinite(p.unary)
    alive = max_marginals(p.restricted(alive)) > -np.inf
    if not alive.any(axis=1).all():
        raise NoLabellingError(f"token {int(np.argmin(alive.any(axis=1)))} has no allowed label left")
    scale = _scale(p, alive, tolerance)
    while True:
        try:
            lattice = _build(problem, alive, start, spans, scale, once=once)
            break
        except CostOverflowError:
            scale /= 2.0**4
    if lattice.lost <= tolerance / 2.0:
        return lattice
    finer = scale * 2.0 ** math.ceil(math.log2(2.0 * lattice.lost / tolerance))
    with suppress(CostOverflowError):
        lattice = _build(problem, alive, start, spans, finer, once=once)
    return lattice


def _build(
    problem: Problem, alive: NDArray[np.bool_], start: Labels, spans: Spans | None, scale: float, *, once: bool
) -> LatticeModel:
    draft = ModelDraft(scale)
    lattice = _add_lattice(draft, problem.potentials, alive, start)
    local = dict(draft.costs)
    _add_rows(draft, problem.rows, lattice, problem.rows.degree(start), once=once)
    if problem.agreements:
        add_agreements(draft, problem, lattice.token, lattice.edge, start=start, spans=spans)
    return LatticeModel(draft.finish(), lattice.token, lattice.offset, scale, local, draft.lost / scale)


def _scale(p: Potentials, alive: NDArray[np.bool_], tolerance: float) -> float:
    """Units per nat, a power of two: rounding down all local losses of a labelling loses less than the tolerance.

    It is smaller if the losses would otherwise need more than `LOCAL_BITS`.
    """
    free = alive.sum(axis=1) > 1
    bits = math.ceil(math.log2(4.0 * max(1, int(free.sum())) / tolerance))
    finite = np.where(alive, p.unary, np.nan)[free]
    steps = p.edges[np.isfinite(p.edges)]
    span = float((np.nanmax(finite, axis=1) - np.nanmin(finite, axis=1)).sum()) if len(finite) else 0.0
    span += 2.0 * len(finite) * float(np.ptp(steps)) if len(steps) else 0.0
    return float(2.0 ** min(bits, LOCAL_BITS - math.ceil(math.log2(max(1.0, span)))))


def _add_lattice(draft: ModelDraft, p: Potentials, alive: NDArray[np.bool_], start: Labels) -> _LatticeVariables:
    count = len(alive)
    inner = np.ones(count, np.bool_)
    inner[p.sentence_starts] = False
    fixed = alive.sum(axis=1) == 1
    only = alive.argmax(axis=1)
    gain, edges = np.where(alive, p.unary, -np.inf), p.edges_by_token
    after_fixed = np.flatnonzero(inner & np.roll(fixed, 1))
    gain[after_fixed] += edges[after_fixed, only[after_fixed - 1]]
    into_fixed = np.flatnonzero(inner & fixed & ~np.roll(fixed, 1))
    gain[into_fixed - 1] += edges[into_fixed, :, only[into_fixed]]
    best = gain.max(axis=1)
    token = np.where(alive & fixed[:, None], TRUE, FALSE).astype(np.int32)
    free = alive & ~fixed[:, None]
    where = np.nonzero(free)
    token[where] = draft.booleans(start[where[0]] == where[1], (best[:, None] - gain)[where])
    for row in token[~fixed]:
        draft.exactly_one(row[row > TRUE].tolist())
    edge = np.full(edges.shape, FALSE, np.int32)
    edge[after_fixed, only[after_fixed - 1]] = token[after_fixed]
    edge[into_fixed, :, only[into_fixed]] = token[into_fixed - 1]
    offset = math.fsum(best) + _add_edges(
        draft, p, token, edge, np.flatnonzero(inner & ~fixed & ~np.roll(fixed, 1)), start
    )
    return _LatticeVariables(token, edge, offset)


def _add_edges(
    draft: ModelDraft, p: Potentials, token: Variables, edge: Variables, at: NDArray[np.int64], start: Labels
) -> float:
    """Adds edge variables into the tokens ``at``, where both ends are open; returns their best score in nats."""
    if not len(at):
        return 0.0
    open_ends = (token[at - 1] > TRUE)[:, :, None] & (token[at] > TRUE)[:, None, :]
    scores = p.edges_by_token[at]
    live = open_ends & np.isfinite(scores)
    gain = np.where(live, scores, -np.inf)
    best = gain.max(axis=(1, 2))
    where = np.nonzero(live)
    hints = (start[at - 1][where[0]] == where[1]) & (start[at][where[0]] == where[2])
    block = np.full(live.shape, FALSE, np.int32)
    block[where] = draft.booleans(hints, (best[:, None, None] - gain)[where])
    edge[at] = block
    for t, table in zip(at.tolist(), block, strict=True):
        for side, rows in ((token[t - 1], table), (token[t], table.T)):
            for label in np.flatnonzero(side > TRUE).tolist():
                row = rows[label]
                draft.exactly_one([-1 - int(side[label]), *row[row > TRUE].tolist()])
    return math.fsum(best)


def _add_rows(draft: ModelDraft, rows: LinearRows, lattice: _LatticeVariables, degrees: Floats, *, once: bool) -> None:
    """Adds every row that can be broken by more than its slack (`LinearRows.slack`); hard rows cannot be lifted."""
    pairs = lattice.edge[rows.position, rows.previous, rows.label]
    variables = np.where(rows.previous == ANY, lattice.token[rows.position, rows.label], pairs)
    for r in np.flatnonzero(rows.weight > 0).tolist():
        part = slice(int(rows.pointer[r]), int(rows.pointer[r + 1]))
        numbers = float(rows.bound[r]), float(rows.slack[r]), float(rows.weight[r])
        row = _VariableRow(variables[part], rows.coefficient[part], *numbers)
        if row.most > row.bound + row.slack:
            add = _add_held_row if once or math.isinf(row.weight) else _add_row
            add(draft, row, float(degrees[r]))


class _VariableRow(NamedTuple):
    """A row Σ coefficient · variable ≤ bound, at a weight in nats; it holds if it is exceeded by at most ``slack``."""

    variables: Variables
    coefficients: Floats
    bound: float
    slack: float
    weight: float

    @property
    def most(self) -> float:
        """Upper bound of Σ coefficient · variable."""
        return float(self.coefficients[(self.variables != FALSE) & (self.coefficients > 0)].sum())

    def terms(self, factor: float) -> list[tuple[int, int]]:
        """Pairs of a variable and its integral coefficient, in units of 1 ÷ ``factor``."""
        units = np.floor(self.coefficients * factor + UNIT_ROUNDING).astype(np.int64)
        return list(zip(self.variables.tolist(), units.tolist(), strict=True))

    @property
    def integral_factor(self) -> float | None:
        """The first of a few factors that makes all numbers integral up to `INTEGRAL_DRIFT`, or None."""
        numbers = np.append(self.coefficients, self.bound)
        for factor in (1.0, 2.0, 4.0, 8.0, 10.0, 16.0, 100.0, 1000.0):
            scaled = numbers * factor
            if np.abs(scaled - np.round(scaled)).sum() <= INTEGRAL_DRIFT * factor:
                return factor
        return None


def _add_held_row(draft: ModelDraft, row: _VariableRow, degree: float) -> None:
    """Adds a row that holds; a soft one may be lifted for its weight (Fersini et al. 2014, eq. 26 and 29)."""
    factor, tolerance = row.integral_factor, 0.0
    if factor is None:
        # Real coefficients: the units are far finer than a row's tolerance.
        factor, tolerance = FINEST / max(1.0, float(np.abs(row.coefficients).sum())), row.slack
    held, terms = math.ceil((row.bound + tolerance) * factor - UNIT_ROUNDING), row.terms(factor)
    if math.isfinite(row.weight):
        lifted = draft.variable(hint=int(degree > 0), cost=row.weight)
        terms.append((lifted, held - math.ceil(row.most * factor)))
    draft.at_most(terms, held)


def _add_row(draft: ModelDraft, row: _VariableRow, degree: float) -> None:
    """Adds a soft row with a slack that costs the weight for each unit."""
    factor, tolerance = row.integral_factor, 0.0
    cost = row.weight / (factor or 1.0)
    if factor is None:
        # Real coefficients: a unit of the slack costs one unit of the objective.
        factor, cost, tolerance = row.weight * draft.scale, 1.0 / draft.scale, row.slack
        draft.lost += len(row.variables) + 1
    terms = row.terms(factor)
    limit, held = (math.ceil(b * factor - UNIT_ROUNDING) for b in (row.bound, row.bound + tolerance))
    largest = max(0, math.ceil(row.most * factor) - limit)
    slack = draft.variable(
        hint=min(largest, max(0, math.ceil(degree * factor - UNIT_ROUNDING))), upper=largest, cost=cost
    )
    if held > limit + 1:
        # Beyond the tolerance the whole excess is charged. Units cannot show a tolerance of less than a unit.
        broken = draft.variable(hint=int(degree > 0))
        draft.at_most([(slack, 1), (broken, -largest)], 0)
        terms.append((broken, held - limit))
    draft.at_most(terms, held, unless=slack)
