"""The best point of a grid, a coordinate and a step at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

SettingsPoint = tuple[float, ...]
"""One value of the grid for each coordinate."""


def alike(grid: Sequence[float], size: int, worth: Callable[[SettingsPoint], tuple[float, ...]]) -> SettingsPoint:
    """The best point with one value for all ``size`` coordinates, tried from the first on until one is worth less.

    Only the first number of ``worth`` ends that: the others choose between equals.
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
    """Goes from ``start`` to the best point beside it until none is worth more; ``worth`` is asked again and again."""
    best = start
    while True:
        better = max([best, *_beside(best, grid)], key=worth)
        if better == best:
            return best
        best = better


def _beside(point: SettingsPoint, grid: Sequence[float]) -> Iterator[SettingsPoint]:
    """The next values of one coordinate after the other, down and up."""
    for i, value in enumerate(point):
        place = grid.index(value)
        for near in grid[max(0, place - 1) : place + 2]:
            if near != value:
                yield (*point[:i], near, *point[i + 1 :])
