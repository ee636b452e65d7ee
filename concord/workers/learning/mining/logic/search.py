"""Clauses by a sequence of minimum-cost satisfiability problems (Felici & Truemper; Fersini et al. 2014 §3.1).

A class is the samples of type A, or all others. For each class, CP-SAT is asked for the literals of one clause after
the other. The costs of a clause are:

- a price for each literal;
- a price for each sample of another class that the clause covers;
- 1 for each sample of the class that neither it nor an earlier clause covers.

The samples that a clause covers are taken away before the next problem, so each clause covers less than the one before.
The sequence ends when a clause would cost more than it covers.

Samples with the same attributes are one variable. Everything is deterministic: one worker, a seed, and a limit of
deterministic time. Each clause says whether its cost is proven to be the least.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from ortools.sat.python import cp_model
from pydantic import Field

from concord.schemas.arrays import Ints, Mask
from concord.workers.inference.cpsat.draft import ModelDraft
from concord.workers.inference.cpsat.engine import sound_solver
from concord.workers.learning.mining.logic.clauses import Clause, OpeningCounts
from concord.workers.learning.mining.logic.openings import SIDE_OF, Literal, LiteralSide, Openings
from concord.workers.learning.mining.rules import KeptSettings


class LogicSettings(KeptSettings):
    """Options of mining by logic: clauses are learned from one part of the documents and tested on held-out ones."""

    held_out_share: float = Field(
        1 / 3, gt=0, lt=1, description="Fraction of the documents kept apart to test clauses, by their ids."
    )
    literals: int = Field(3, ge=1, le=10, description="Largest number of literals of a clause.")
    literal: int = Field(
        5,
        ge=0,
        le=1_000_000,
        description="Price of a literal, in covered runs; one more for a negated one.",
    )
    mixed: int = Field(
        20,
        ge=0,
        le=1_000_000,
        description="Price of each further side (opening, closing, earlier, document) of a clause, in runs.",
    )
    wrong: int = Field(
        10, ge=1, le=10_000, description="Price of a covered run of the other class, scaled to classes of equal size."
    )
    clauses: int = Field(8, ge=1, description="Largest number of clauses of a class.")
    vectors: int = Field(3_000, ge=1, description="Number of most frequent distinct samples that are learned from.")
    deterministic_seconds: float = Field(
        2.0, gt=0, description="Limit of CP-SAT's deterministic time for a clause, in seconds."
    )


class LearnedClause(NamedTuple):
    """A learned clause.

    - ``covered``: number of samples of its class that it is the first to cover.
    - ``wrong``: number of covered samples of other classes.
    - ``proven``: is its cost proven to be the least?
    """

    clause: Clause
    covered: int
    wrong: int
    proven: bool


class ChosenLiterals(NamedTuple):
    """Literals of a clause.

    - ``literals``: their numbers, below P.
    - ``proven``: is it proven that no clause costs less?
    """

    literals: tuple[int, ...]
    proven: bool


class Samples(NamedTuple):
    """V distinct samples, and the prices of P literals in covered runs.

    - ``truth`` (V, P): which literals hold.
    - ``right`` (V,): number of samples of the class.
    - ``wrong`` (V,): number of samples of other classes.
    - ``costs`` (P,): price of each literal.
    - ``sides`` (P,): number of the `LiteralSide` of each literal.
    - ``price``: price of a covered sample of another class.
    """

    truth: Mask
    right: Ints
    wrong: Ints
    costs: Ints
    sides: Ints
    price: int

    def covered(self, literals: Sequence[int]) -> Mask:
        """(V,) mask of the samples where all of these literals hold."""
        covered: Mask = np.logical_and.reduce(self.truth[:, list(literals)], axis=1)
        return covered

    def cost(self, literals: Sequence[int], settings: LogicSettings) -> int:
        """Cost of a clause: its literals and sides, covered samples of other classes, and its own that it leaves."""
        covered, own = self.covered(literals), list(literals)
        spoken = self.costs[own].sum() + settings.mixed * (len(np.unique(self.sides[own])) - 1)
        return int(spoken + self.price * self.wrong[covered].sum() + self.right[~covered].sum())

    def only(self, literals: Ints) -> Samples:
        """The samples with only these literals."""
        truth, costs, sides = self.truth[:, literals], self.costs[literals], self.sides[literals]
        return self._replace(truth=truth, costs=costs, sides=sides)

    def useful(self, support: int) -> Ints:
        """Numbers of the useful literals, ascending.

        Left out are literals that hold for all samples, or for fewer than ``support`` of the class. Of literals of one
        side that hold for the same samples only the first stays.
        """
        _, first = np.unique(np.vstack([self.truth, self.sides.astype(np.uint8)]), axis=1, return_index=True)
        enough = (self.right @ self.truth >= support) & ~self.truth.all(axis=0)
        places: Ints = np.sort(first[enough[first]])
        return places


def cheapest(samples: Samples, settings: LogicSettings, *, seed: int = 0) -> ChosenLiterals:
    """One to ``settings.literals`` literals with the least `Samples.cost`."""
    truth, weight = samples.truth, samples.right - samples.price * samples.wrong
    start = _greedy(samples, settings)
    hints = np.isin(np.arange(truth.shape[1]), start)
    draft = ModelDraft(scale=1.0)
    literals = draft.booleans(hints, samples.costs.astype(np.float64))
    draft.at_most([(j, 1) for j in literals.tolist()], settings.literals)
    draft.at_most([(j, -1) for j in literals.tolist()], -1)
    for side in np.unique(samples.sides).tolist():
        own = samples.sides == side
        spoken = draft.variable(hint=int(hints[own].any()), cost=float(settings.mixed))
        for j in literals[own].tolist():
            draft.at_most([(j, 1), (spoken, -1)], 0)
    for v in np.flatnonzero(weight).tolist():
        false, covered = literals[~truth[v]].tolist(), not hints[~truth[v]].any()
        if weight[v] > 0:
            reward = draft.variable(hint=int(not covered), cost=float(weight[v]))
            draft.at_most([(reward, -settings.literals), *((j, 1) for j in false)], 0)
        else:
            paid = draft.variable(hint=int(covered), cost=float(-weight[v]))
            draft.at_most([(paid, -1), *((j, -1) for j in false)], -1)
    solver = sound_solver(seed)
    solver.parameters.max_deterministic_time = settings.deterministic_seconds
    status = solver.solve(draft.finish())
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return ChosenLiterals(start, proven=False)
    solution = solver.response_proto.solution
    best = tuple(j for j, variable in enumerate(literals.tolist()) if solution[variable] == 1)
    return ChosenLiterals(best, status == cp_model.OPTIMAL)


def _greedy(samples: Samples, settings: LogicSettings) -> tuple[int, ...]:
    """Literals added one after the other, as long as each makes the clause cheaper."""
    literals: tuple[int, ...] = ()
    while len(literals) < settings.literals:
        covered = samples.covered(literals)
        weight = covered * (samples.right - samples.price * samples.wrong)
        longer = (*literals, int((weight @ samples.truth).argmax()))
        if literals and samples.cost(longer, settings) >= samples.cost(literals, settings):
            break
        literals = longer
    return literals


def clauses_of(
    counts: OpeningCounts, names: Sequence[str], settings: LogicSettings, *, seed: int
) -> Iterator[LearnedClause]:
    """Clauses of all classes; those of one class cover ever fewer samples.

    Types and marks that fewer than ``settings.support`` runs have at a place are not used there.
    """
    if not len(counts.codes):
        return
    frequent = np.sort(np.argsort(-counts.counts, kind="stable")[: settings.vectors])
    codes, count = counts.codes[frequent], counts.counts[frequent]
    # Samples that differ only in their class are one row.
    _, first, row = np.unique(codes[:, 1:], axis=0, return_index=True, return_inverse=True)
    of_type = np.zeros((len(names), len(first)), np.int64)
    np.add.at(of_type, (codes[:, 0], row.ravel()), count)
    every = of_type.sum(axis=0)
    samples = Openings(tuple(names), counts.marks, codes[first])
    common = {one for one in samples.literals() if every[samples.truth(one)].sum() >= settings.support}
    literals = [one for one in samples.literals() if {one, one._replace(holds=True)} <= common]
    if not literals:
        return
    truth = np.stack([samples.truth(one) for one in literals], axis=1)
    costs = np.array([settings.literal + (not one.holds) for one in literals])
    sides = np.array([list(LiteralSide).index(SIDE_OF[one.place]) for one in literals])
    for name, own in zip(names, of_type, strict=True):
        for positive, right in ((True, own), (False, every - own)):
            wrong = every - right
            if right.any() and wrong.any():
                # If other classes have fewer samples, the price of covering one rises in proportion.
                price = math.ceil(settings.wrong * max(1.0, right.sum() / wrong.sum()))
                for step in _sequence(Samples(truth, right, wrong, costs, sides, price), settings, seed):
                    yield step.learned(literals, name, positive=positive)


class _ClauseStep(NamedTuple):
    """A clause as numbers of literals; the other fields are as in `LearnedClause`."""

    literals: Ints
    covered: int
    wrong: int
    proven: bool

    def learned(self, literals: Sequence[Literal], label: str, *, positive: bool) -> LearnedClause:
        """The clause with its literals and label by name."""
        clause = Clause(tuple(literals[j] for j in self.literals.tolist()), label, positive)
        return LearnedClause(clause, self.covered, self.wrong, self.proven)


def _sequence(samples: Samples, settings: LogicSettings, seed: int) -> Iterator[_ClauseStep]:
    """Clauses about the samples that are left, until one covers too few or costs more than it covers."""
    for _ in range(settings.clauses):
        useful = samples.useful(settings.support)
        if not len(useful):
            return
        rest = samples.only(useful)
        literals, proven = cheapest(rest, settings, seed=seed)
        covered = rest.covered(literals)
        right, wrong = int(rest.right[covered].sum()), int(rest.wrong[covered].sum())
        if right < settings.support or rest.cost(literals, settings) >= rest.right.sum():
            return
        yield _ClauseStep(useful[list(literals)], right, wrong, proven)
        samples = samples._replace(right=np.where(covered, 0, samples.right))
