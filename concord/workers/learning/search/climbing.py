"""Hill climbing on a grid: one coordinate and one step at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

SettingsPoint = tuple[float, ...]
"""One value of the grid for each coordinate."""


def alike(grid: Sequence[float], size: int, worth: Callable[[SettingsPoint], tuple[float, ...]]) -> SettingsPoint:
    """The best point with one value for all ``size`` coordinates.

    Values are tried in order until one is worth less than the one before. Only the first number of ``worth`` decides
    that; the others break ties.
    """
    tried: list[SettingsPoint] = []
    for value in grid:
        tried.append((value,) * size)
        if len(tried) > 1 and worth(tried[-1])[0] < worth(tried[-2])[0]:
            break
    return max(tried, key=worth)


def climb(
    start: SettingsPoint, grid: Sequence[float], worth: Callable[[SettingsPoint], tuple[float, ...]]
) -> SettingsPoint:
    """The local maximum reached from ``start``, by moving to the best neighbour until none is worth more.

    ``worth`` is called more than once for the same point.
    """
    best = start
    while True:
        better = max([best, *_beside(best, grid)], key=worth)
        if better == best:
            return best
        best = better


def _beside(point: SettingsPoint, grid: Sequence[float]) -> Iterator[SettingsPoint]:
    """Neighbours of a point: one coordinate after the other moved one step down, and up."""
    for i, value in enumerate(point):
        place = grid.index(value)
        for near in grid[max(0, place - 1) : place + 2]:
            if near != value:
                yield (*point[:i], near, *point[i + 1 :])
