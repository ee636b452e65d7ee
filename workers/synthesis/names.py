"""Invented names: an open vocabulary from syllables, with a long tail, and the draws behind it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import TypeVar

import numpy as np

T = TypeVar("T")

_BLOCK = 256


def words(text: str, separator: str | None = None) -> tuple[str, ...]:
    """A word list as written: split at blanks, or at ``separator``."""
    return tuple(text.split(separator))


class Draws:
    """Uniform draws of one document, taken from its generator in blocks: numpy is slow one by one."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng
        self._block: list[float] = []

    def uniform(self) -> float:
        """A number in [0, 1)."""
        if not self._block:
            self._block = self._rng.random(_BLOCK).tolist()
        return self._block.pop()

    def chance(self, share: float) -> bool:
        """True in ``share`` of all draws."""
        return self.uniform() < share

    def between(self, low: int, high: int) -> int:
        """A whole number from low to high, both included."""
        return low + int(self.uniform() * (high - low + 1))

    def choice(self, options: Sequence[T]) -> T:
        """One of the options, all alike."""
        return options[int(self.uniform() * len(options))]

    def common(self, options: Sequence[T]) -> T:
        """One of the options, the first ones far more often."""
        u = self.uniform()
        return options[int(u * u * len(options))]

    def shuffled(self, options: Sequence[T]) -> list[T]:
        """All options in random order."""
        items = list(options)
        for last in range(len(items) - 1, 0, -1):
            other = int(self.uniform() * (last + 1))
            items[last], items[other] = items[other], items[last]
        return items


_ONSETS = words("B Br C Ch D Dr F Fl G Gr H J K Kr L M N P Pr Qu R S Sh Sk St T Th Tr V W Y Z Bel Mar Kal Tor Ver Al")
_VOWELS = words("a e i o u ai ea ou")
_MIDDLES = words("b d dr g l ll lm lv m mb n nd ng nt p r rd rk rn rr rv s sk ss st t tt v z")
_SHARED_ENDINGS = words("a an ar ard as el en er es et ia ic ik in is ith o on or os ov ow uk um ur us ane ell ett ine")
_NUCLEI = tuple(
    ["".join(p) for p in product(_VOWELS, _MIDDLES)]
    + ["".join(p) for p in product(_VOWELS[:5], _MIDDLES[::2], _VOWELS[:5], "lmnrst")]
)
# Frequent names are drawn from the head of an inventory; 50 keeps any single one below 1%.
_HEAD = 50.0


class Inventory:
    """Names numbered 0, 1, 2, ..., all different; low numbers are drawn more often, in a long tail.

    ``endings`` are used besides those that all inventories share, so that a name's form hints at
    its type without giving it away.
    """

    def __init__(self, endings: str, *, step: int, share: float = 1.0) -> None:
        self._endings = (*_SHARED_ENDINGS, *endings.split())
        self._step = step
        self._size = len(_ONSETS) * len(_NUCLEI) * len(self._endings)
        self._reach = max(2.0, self._size * share / _HEAD)
        if np.gcd(step, self._size) != 1:
            raise ValueError(f"step {step} and {self._size} names share a divisor: names would repeat")

    def __len__(self) -> int:
        return self._size

    def name(self, number: int) -> str:
        """The name with this number; neighbours look nothing alike."""
        rest, ending = divmod(number * self._step % self._size, len(self._endings))
        onset, nucleus = divmod(rest, len(_NUCLEI))
        return _ONSETS[onset] + _NUCLEI[nucleus] + self._endings[ending]

    def draw(self, draws: Draws) -> str:
        """A name; number n comes up about as often as 1 / (n + a constant), as in real text."""
        return self.name(int(_HEAD * self._reach ** draws.uniform()) - int(_HEAD))


PLACES = Inventory("burg dale field ford ham land more port stad ton vik ville", step=7_368_787)
COUNTRIES = Inventory("ania avia ena istan onia ovia", step=5_915_587, share=0.001)
SURNAMES = Inventory("berg ell ez ides ini kov man sen ski son ston wicz", step=6_700_417)
GIVEN = Inventory("ah alia eth ie ina ja y", step=4_256_233, share=0.002)
FIRMS = Inventory("co dyne ex gen max tech tel tron", step=3_628_273)


def adjective(country: str) -> str:
    """The adjective of a country: what it gives to its people and goods."""
    if country.endswith("ia"):
        return country + "n"
    if country.endswith(("a", "e", "o")):
        return country[:-1] + "an"
    return country + "ese" if country.endswith(("n", "l")) else country + "ish"
