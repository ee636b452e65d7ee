"""Boxes of counts and charges of roles that bound what a group gains: how the writer finds them.

Branch and bound on the counts of roles; see `workers.certificates.checker` for the bound of a box. In each
the charges come from the counts that it needs at least, or from subgradient steps of Polyak's length.
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
"""Units of work that a step takes however little it looks at."""
MOST_PROOF_BOXES = 400
"""Boxes a group is split into at most; the last of them are left as they are."""
CLOSE = 256.0
"""Units (2⁻⁴⁰ nats) that a group's bound may be above what it really gains."""
BEYOND = 1 << 50
"""A charge that no price exceeds."""


@dataclass(eq=False)
class Boxes:
    """``prices`` (P, R) of slots by role, −inf where a slot has no such item; ``pairs`` (R, R), symmetric, 0 of a role
    with itself; all in units.

    ``effort`` counts the slots and corners of boxes. ``gained`` is the most that an assignment met so far gains;
    ``found`` the boxes as a proof has them.
    """

    prices: Floats
    pairs: Floats
    effort: Effort
    gained: float = 0.0
    found: list[int] = field(default_factory=list)
    tried: int = 0

    def split(self) -> list[int]:
        """Boxes whose bounds are as low as they get, in the order of a proof."""
        held = np.isfinite(self.prices).sum(axis=0)
        waiting = [(np.zeros(len(held), np.int64), held.astype(np.int64))]
        while waiting:
            low, high = waiting.pop()
            charge, bound = self._charged(low, high)
            self.tried += 1
            role = self._widest(low, high)
            if bound <= self.gained + CLOSE or role < 0 or self.tried > MOST_PROOF_BOXES or self.effort.spent:
                self.found += [LEAF, *np.rint(charge).astype(np.int64).tolist()]
                continue
            count = int(low[role])
            self.found += [role, count]
            more, fewer = low.copy(), high.copy()
            more[role], fewer[role] = count + 1, count
            waiting += [(more, high), (low, fewer)]
        return self.found

    def _widest(self, low: Ints, high: Ints) -> int:
        """The role to split by: the one that clashes most with what else may be there; −1 where none does."""
        clash = (self.pairs * high).sum(axis=1) * (high > low)
        return int(clash.argmax()) if len(clash) and clash.max() > 0 else -1

    def _charged(self, low: Ints, high: Ints) -> tuple[Floats, float]:
        """The best charges found in a box, and its bound."""
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
        """The bound of a box under charges, and a subgradient; notes what its assignment really gains."""
        left = self.prices - charge
        role = left.argmax(axis=1)
        best = left[np.arange(len(left)), role]
        used = role[best > 0]
        counts = np.bincount(used, minlength=len(charge)).astype(np.float64)
        gain = float(best[best > 0].sum())
        self.gained = max(self.gained, gain + float(counts @ charge - counts @ self.pairs @ counts / 2))
        ends = corners @ charge - penalties
        corner = int(ends.argmax())
        return gain + float(ends[corner]), corners[corner] - counts
