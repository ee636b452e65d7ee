"""Invented names: a large vocabulary made of syllables, with a long tail, and the random draws behind it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import TypeVar

import numpy as np

T = TypeVar("T")

_BLOCK = 256


def words(text: str, separator: str | None = None) -> tuple[str, ...]:
    """Words of a list that is written as one string, split at blanks or at ``separator``."""
    return tuple(text.split(separator))


class Draws:
    """Random draws of one document, taken from its generator in blocks, since single draws of numpy are slow."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng
        self._block: list[float] = []

    def uniform(self) -> float:
        """A uniform number in [0, 1)."""
        if not self._block:
            self._block = self._rng.random(_BLOCK).tolist()
        return self._block.pop()

    def chance(self, share: float) -> bool:
        """True with probability ``share``."""
        return self.uniform() < share

    def between(self, low: int, high: int) -> int:
        """A uniform whole number from ``low`` to ``high``, both included."""
        return low + int(self.uniform() * (high - low + 1))

    def choice(self, options: Sequence[T]) -> T:
        """One of the options, all equally likely."""
        return options[int(self.uniform() * len(options))]

    def common(self, options: Sequence[T]) -> T:
        """One of the options; the first ones are far more likely."""
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
# Frequent names are drawn from the head of an inventory; 50 keeps the share of any single name below 1 %.
_HEAD = 50.0


class Inventory:
    """Different names with numbers 0, 1, 2, ...; low numbers are drawn more often, in a long tail.

    - ``endings``: endings of this inventory, beside those of all; so a name's form only hints at its type.
    - ``step``: spreads neighbouring numbers over the vocabulary; it shares no divisor with the number of names.
    - ``share``: fraction of the vocabulary that is drawn from.
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
        """The name with this number; names of neighbouring numbers do not resemble each other."""
        rest, ending = divmod(number * self._step % self._size, len(self._endings))
        onset, nucleus = divmod(rest, len(_NUCLEI))
        return _ONSETS[onset] + _NUCLEI[nucleus] + self._endings[ending]

    def draw(self, draws: Draws) -> str:
        """A random name; the probability of number n is about proportional to 1 / (n + constant), as in real text."""
        return self.name(int(_HEAD * self._reach ** draws.uniform()) - int(_HEAD))


PLACE_NAMES = Inventory("burg dale field ford ham land more port stad ton vik ville", step=7_368_787)
COUNTRIES = Inventory("ania avia ena istan onia ovia", step=5_915_587, share=0.001)
SURNAMES = Inventory("berg ell ez ides ini kov man sen ski son ston wicz", step=6_700_417)
GIVEN = Inventory("ah alia eth ie ina ja y", step=4_256_233, share=0.002)
FIRMS = Inventory("co dyne ex gen max tech tel tron", step=3_628_273)


def adjective(country: str) -> str:
    """The adjective of a country, for its people and goods."""
    if country.endswith("ia"):
        return country + "n"
    if country.endswith(("a", "e", "o")):
        return country[:-1] + "an"
    return country + "ese" if country.endswith(("n", "l")) else country + "ish"
