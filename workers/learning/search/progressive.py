"""Wrapped progressive sampling (Van den Bosch 2004): many settings on few instances, then fewer on more.

Sizes of samples are a geometric series up to all that there is. At each size the range from the lowest accuracy to the
highest is cut into ten equal bins; the settings of the highest bin stay, and those of the next ones as long as each has
at least as many as the one above it. That ends with one setting, or with the largest sample. Of those that are left the
most accurate one is chosen; ties go to the first of the grid, which is the default. (The paper takes the default where
it is left, otherwise any one.)

Settings are numbers here, their places in the grid; 0 is the default. It is tried at every size, to be compared with;
once it is out it does not come back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

SAMPLE_POWERS = 20
"""Sizes are the powers i/20 of all instances."""
LEAST = 500
"""Instances of the first sample; smaller powers are left out."""
TESTED = 0.2
"""Test instances for each training instance."""
BINS = 10


class TrialTally(NamedTuple):
    """Of so many test instances, how many had the right class, and what it took (CPU seconds)."""

    right: int
    tested: int
    seconds: float = 0.0

    @property
    def accuracy(self) -> float:
        """A fraction; 0 of nothing."""
        return self.right / max(self.tested, 1)

    @classmethod
    def merge(cls, parts: Iterable[TrialTally]) -> TrialTally:
        """See `Mergeable`."""
        given = list(parts)
        return cls(sum(p.right for p in given), sum(p.tested for p in given), sum(p.seconds for p in given))


class SampleRound(NamedTuple):
    """A size with the tallies of the settings that were tried, by number, and the numbers of those that are left."""

    size: int
    tallies: Mapping[int, TrialTally]
    left: Sequence[int]

    @property
    def best(self) -> int:
        """The most accurate of those that are left, the first in the grid among equals."""
        return max(sorted(self.left), key=lambda number: self.tallies[number].right)


Attempt = Callable[[int, Sequence[int]], Mapping[int, TrialTally]]
"""The tallies of some settings, by number, on a sample of so many instances; all are tested on the same ones."""


def rounds(settings: int, sizes: Sequence[int], attempt: Attempt) -> Iterator[SampleRound]:
    """Each size in turn, of so many ``settings``, until one is left; the `SampleRound.best` of the last is chosen."""
    left: Sequence[int] = range(settings)
    for size in sizes:
        tallies = attempt(size, sorted({0, *left}))
        left = [left[i] for i in survivors([tallies[number].right for number in left])]
        yield SampleRound(size, tallies, left)
        if len(left) == 1:
            return


def sizes_of(instances: int, largest: int | None = None) -> list[int]:
    """The sizes of samples of so many ``instances``, at most ``largest``, which is at least `LEAST`."""
    powers = [round(instances ** (i / SAMPLE_POWERS)) for i in range(1, SAMPLE_POWERS)]
    found = [min(LEAST, instances), *(size for size in powers if LEAST < size < instances), instances]
    return [size for size in dict.fromkeys(found) if largest is None or size <= largest]


def asked_of(size: int, available: int) -> int:
    """How many of the ``available`` test instances a sample of this size is measured on; one at least."""
    return min(max(round(TESTED * size), 1), available)


def survivors(right: Sequence[int]) -> list[int]:
    """Places of the settings that stay, of those that had so many instances right."""
    low, width = min(right), max(max(right) - min(right), 1)
    bins = [min(BINS * (count - low) // width, BINS - 1) for count in right]
    if max(right) == low:
        return list(range(len(right)))
    last = BINS - 1
    while last and bins.count(last - 1) >= bins.count(last):
        last -= 1
    return [place for place, mine in enumerate(bins) if mine >= last]
