"""A run leaves its Ray to the next one of a block: which run takes it, and what ends it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest

from concord.flows.inputs.left_ray import LeftRay, left_ray, one_ray
from concord.schemas.errors import ServiceError, UsageError


class Rays:
    """Starts things called by number; the log has each start and end."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.started = 0

    def __call__(self) -> AbstractContextManager[int]:
        return self._one()

    @contextmanager
    def _one(self) -> Iterator[int]:
        self.started += 1
        number = self.started
        self.log.append(f"start {number}")
        try:
            yield number
        finally:
            self.log.append(f"end {number}")


def left() -> LeftRay[int]:
    found = left_ray()
    assert found is not None
    return found


def test_runs_that_ask_for_the_same_have_one_ray_which_ends_with_the_block() -> None:
    rays = Rays()
    with one_ray():
        assert rays.log == []
        for _ in range(3):
            with left().at_work((None, 2), rays) as running:
                assert running == 1
        assert rays.log == ["start 1"]
    assert rays.log == ["start 1", "end 1"]
    assert left_ray() is None


@pytest.mark.parametrize("other", [(None, 3), (None, None), ("auto", 2)])
def test_a_run_that_asks_for_another_ends_that_of_the_last(other: tuple[str | None, int | None]) -> None:
    rays = Rays()
    with one_ray():
        for asked in ((None, 2), other, other):
            with left().at_work(asked, rays):
                pass
    assert rays.log == ["start 1", "end 1", "start 2", "end 2"]


@pytest.mark.parametrize("error", [ServiceError, ValueError, KeyboardInterrupt])
def test_one_of_a_run_that_was_ended_by_an_error_is_not_used_again(error: type[BaseException]) -> None:
    """Actors that are at work then end with their Ray alone, and would keep their place from those of the next run."""
    rays = Rays()
    with one_ray():
        with pytest.raises(error), left().at_work((None, 2), rays):
            raise error
        assert rays.log == ["start 1", "end 1"]
        with left().at_work((None, 2), rays) as running:
            assert running == 2


def test_one_that_does_not_start_leaves_nothing() -> None:
    rays = Rays()

    @contextmanager
    def broken() -> Iterator[int]:
        raise ServiceError("Ray does not start")
        yield 0

    with one_ray():
        with pytest.raises(ServiceError), left().at_work((None, 2), broken):
            pass
        with left().at_work((None, 2), rays) as running:
            assert running == 1


def test_two_runs_at_once_are_refused_and_the_first_goes_on() -> None:
    rays = Rays()
    with one_ray(), left().at_work((None, 2), rays):
        with pytest.raises(UsageError, match="another run of this process"), left().at_work((None, 2), rays):
            pass
        assert rays.log == ["start 1"]


def test_an_error_ends_it_with_the_block() -> None:
    rays = Rays()

    def block() -> None:
        with one_ray():
            with left().at_work((None, 2), rays):
                pass
            raise ValueError("of the block")

    with pytest.raises(ValueError, match="of the block"):
        block()
    assert rays.log == ["start 1", "end 1"]


def test_a_block_in_a_block_has_a_ray_of_its_own() -> None:
    rays = Rays()
    with one_ray():
        outer = left()
        with one_ray():
            assert left() is not outer
        assert left() is outer
    assert rays.log == []
