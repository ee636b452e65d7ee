"""Boxes of role counts, with charges of roles, that bound the gain of a group: the search of the certificate writer.

It is a branch and bound over the counts of roles; see `workers.certificates.checker` for the bound of a box. The
charges of a box come from its least counts, or from subgradient steps of Polyak's length.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

import numpy as np

from concord.schemas.arrays import Floats, Ints
from concord.workers.certificates.checker import LEAF
from concord.workers.inference.core.effort import Effort

BOX_STEPS = 25
STEP_WORK = 5_000
"""Units of work of a step, in addition to the cells that it visits."""
MOST_PROOF_BOXES = 400
"""Number of boxes of a group after which no box is split."""
CLOSE = 256.0
"""Largest difference between a group's bound and its true gain at which a box is not split, in units of 2⁻⁴⁰ nats."""
BEYOND = 1 << 50
"""A charge that no price exceeds."""


@dataclass(eq=False)
class Boxes:
    """The boxes of one group with P slots and R roles, all numbers in units of 2⁻⁴⁰ nats.

    - ``prices`` (P, R): price of each slot by role, −inf if the slot has no such item.
    - ``pairs`` (R, R): cost of a pair of roles, symmetric, 0 on the diagonal.
    - ``effort``: counts the slots and corners of boxes.
    - ``gained``: greatest gain of an assignment met so far.
    - ``proof``: the boxes as a proof has them.
    - ``tried``: number of boxes so far.
    """

    prices: Floats
    pairs: Floats
    effort: Effort
    gained: float = 0.0
    proof: list[int] = field(default_factory=list)
    tried: int = 0

    def split(self) -> list[int]:
        """The boxes with the lowest bounds found, in the order of a proof."""
        held = np.isfinite(self.prices).sum(axis=0)
        waiting = [(np.zeros(len(held), np.int64), held.astype(np.int64))]
        while waiting:
            low, high = waiting.pop()
            charge, bound = self._charged(low, high)
            self.tried += 1
            role = self._widest(low, high)
            if bound <= self.gained + CLOSE or role < 0 or self.tried > MOST_PROOF_BOXES or self.effort.spent:
                self.proof += [LEAF, *np.rint(charge).astype(np.int64).tolist()]
                continue
            count = int(low[role])
            self.proof += [role, count]
            more, fewer = low.copy(), high.copy()
            more[role], fewer[role] = count + 1, count
            waiting += [(more, high), (low, fewer)]
        return self.proof

    def _widest(self, low: Ints, high: Ints) -> int:
        """The role to split by: the one with the greatest conflicts with possible other roles; −1 if none has any."""
        clash = (self.pairs * high).sum(axis=1) * (high > low)
        return int(clash.argmax()) if len(clash) and clash.max() > 0 else -1

    def _charged(self, low: Ints, high: Ints) -> tuple[Floats, float]:
        """The best charges found for a box, and its bound."""
        corners = np.array(list(itertools.product(*({int(a), int(b)} for a, b in zip(low, high, strict=True)))))
        corners = corners.reshape(len(corners), len(low)).astype(np.float64)
        penalties = (corners @ self.pairs * corners).sum(axis=1) / 2
        charge = self.pairs @ low
        charge[high == 0] = BEYOND
        best, least, short = charge, np.inf, 1.0
        for _ in range(BOX_STEPS):
            self.effort.work += STEP_WORK + self.prices.size + corners.size
            value, slope = self._value(charge, corners, penalties)
            if value < least:
                best, least = charge, value
            else:
                short *= 0.7
            slope[high == 0] = 0.0
            length = float((slope**2).sum())
            if least <= self.gained + CLOSE or length == 0.0:
                break
            charge = charge - short * (value - self.gained) / length * slope
        return best, least

    def _value(self, charge: Floats, corners: Floats, penalties: Floats) -> tuple[float, Floats]:
        """The bound of a box under charges, and a subgradient; updates ``gained`` by the gain of its assignment."""
        rest = self.prices - charge
        role = rest.argmax(axis=1)
        best = rest[np.arange(len(rest)), role]
        used = role[best > 0]
        counts = np.bincount(used, minlength=len(charge)).astype(np.float64)
        gain = float(best[best > 0].sum())
        self.gained = max(self.gained, gain + float(counts @ charge - counts @ self.pairs @ counts / 2))
        ends = corners @ charge - penalties
        corner = int(ends.argmax())
        return gain + float(ends[corner]), corners[corner] - counts
