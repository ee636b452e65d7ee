"""Wrapped progressive sampling (Van den Bosch 2004): many settings on few instances, then fewer on more.

Sample sizes are a geometric series up to all instances. At each size the range from the lowest accuracy to the highest
is cut into ten equal bins. The settings of the highest bin stay; so do those of the next lower bins, as long as each
has at least as many settings as the bin above it. The search ends with one setting, or with the largest sample. The
most accurate of the remaining settings is chosen; ties go to the first one in the grid, which is the default. (The
paper takes the default if it is left, otherwise any one.)

Settings are numbers here, their places in the grid; 0 is the default. The default is tried at every size, as a
baseline, but once it is eliminated it cannot be chosen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from concord.schemas.document import Document
from concord.schemas.settings import TrainerSettings

SAMPLE_POWERS = 20
"""Sample sizes are the number of all instances to the power i/20."""
LEAST_SAMPLE = 500
"""Instances of the first sample; smaller sizes are left out."""
TESTED = 0.2
"""Test instances for each training instance."""
BINS = 10


class TrialTally(NamedTuple):
    """Result of one setting.

    - ``right``: test instances with the right class.
    - ``tested``: test instances.
    - ``seconds``: CPU time.
    """

    right: int
    tested: int
    seconds: float = 0.0

    @property
    def accuracy(self) -> float:
        """Fraction of test instances with the right class; 0 without any."""
        return self.right / max(self.tested, 1)

    @classmethod
    def merge(cls, parts: Iterable[TrialTally]) -> TrialTally:
        """See `Mergeable`."""
        tallies = list(parts)
        return cls(sum(p.right for p in tallies), sum(p.tested for p in tallies), sum(p.seconds for p in tallies))


class Sampled(Protocol):
    """Training tokens to remember, and others to classify by them."""

    @property
    def tokens(self) -> int:
        """Number of tokens to remember."""
        ...


class Sampling(NamedTuple):
    """Trials of a trainer's settings. Its functions are pickled by name, as they go to workers.

    - ``settings``: class of the settings.
    - ``grid``: settings to try if some options are given, the default first; raises `TrainingError` if none is left.
    - ``chosen_of``: values of the searched settings, by name.
    - ``together``: groups of settings that are tried at once, as they share work.
    - ``sample``: all tokens of documents; raises `TrainingError` where these cannot be used.
    - ``tried``: tally of each setting of a group, by so many remembered tokens.
    - ``warming``: settings that need all kernels of any others.
    - ``token_bytes``: bytes for each remembered token, at the peak of a trial of settings.
    """

    settings: type[TrainerSettings]
    grid: Callable[[Any], Sequence[Any]]
    chosen_of: Callable[[Any], Mapping[str, str | float]]
    together: Callable[[Iterable[Any]], Sequence[Sequence[Any]]]
    sample: Callable[[Sequence[Document], Any], Sampled]
    tried: Callable[[Any, Sequence[Any], int], list[TrialTally]]
    warming: Sequence[TrainerSettings]
    token_bytes: Callable[[Any, Any], int]


class SampleRound(NamedTuple):
    """One sample size.

    - ``size``: instances in the sample.
    - ``tallies``: tally of each setting tried, by its number.
    - ``left``: numbers of the settings that stay.
    """

    size: int
    tallies: Mapping[int, TrialTally]
    left: Sequence[int]

    @property
    def best(self) -> int:
        """The most accurate of the settings that stay; ties go to the first one in the grid."""
        return max(sorted(self.left), key=lambda number: self.tallies[number].right)


Attempt = Callable[[int, Sequence[int]], Mapping[int, TrialTally]]
"""Function of a sample size and the numbers of settings: a tally of each setting, all on the same test instances."""


def rounds(settings: int, sizes: Sequence[int], attempt: Attempt) -> Iterator[SampleRound]:
    """One round for each size until one setting of so many is left; `SampleRound.best` of the last one is chosen."""
    staying: Sequence[int] = range(settings)
    for size in sizes:
        tallies = attempt(size, sorted({0, *staying}))
        staying = [staying[i] for i in survivors([tallies[number].right for number in staying])]
        yield SampleRound(size, tallies, staying)
        if len(staying) == 1:
            return


def sizes_of(instances: int, largest: int | None = None) -> list[int]:
    """Ascending sample sizes for so many ``instances``; none above ``largest``, which is at least `LEAST_SAMPLE`."""
    powers = [round(instances ** (i / SAMPLE_POWERS)) for i in range(1, SAMPLE_POWERS)]
    sizes = [min(LEAST_SAMPLE, instances), *(size for size in powers if LEAST_SAMPLE < size < instances), instances]
    return [size for size in dict.fromkeys(sizes) if largest is None or size <= largest]


def asked_of(size: int, available: int) -> int:
    """Number of the ``available`` test instances that a sample of this size is tested on; at least one."""
    return min(max(round(TESTED * size), 1), available)


def survivors(right: Sequence[int]) -> list[int]:
    """Indices of the settings that stay, given the number of right instances of each."""
    low, width = min(right), max(max(right) - min(right), 1)
    bins = [min(BINS * (count - low) // width, BINS - 1) for count in right]
    if max(right) == low:
        return list(range(len(right)))
    last = BINS - 1
    while last and bins.count(last - 1) >= bins.count(last):
        last -= 1
    return [place for place, mine in enumerate(bins) if mine >= last]
