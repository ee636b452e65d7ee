"""Plans of runs against what the runs then did, to the document."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from concord.flows.labelling.planned_run import _clock, _workers
from concord.schemas.run_context import RunContext
from concord.schemas.run_plan import Bounds, PlannedWork
from tests.support.edited_nights import edited_nights
from tests.support.seeds import new_seeds


def _tried(folder: Path, edits: int, seed: int) -> tuple[int, list[str]]:
    """How many nights there were, and the faults of their plans."""
    nights = list(edited_nights(folder, edits, seed))
    faults = [f"night {i}, {night.edit}: {fault}" for i, night in enumerate(nights) for fault in night.faults]
    return len(nights), faults


def test_a_plan_is_what_the_run_then_does(tmp_path: Path) -> None:
    nights, faults = _tried(tmp_path, 8, seed=new_seeds()[0])
    assert (nights, faults) == (9, [])


def test_the_time_of_a_run_in_this_process_is_that_of_one_worker() -> None:
    work = [PlannedWork(kind="decoding", documents=3, seconds=Bounds(2.0, 4.0))]
    assert _clock(work, _workers(RunContext(workers=0)), np.array([2, 1])) == Bounds(2.0, 4.0)


@pytest.mark.slow
@pytest.mark.about("concord/flows/labelling/planned_run.py")
@pytest.mark.parametrize("seed", range(4))
def test_plans_of_fifty_edits_are_right_to_the_document(seed: int, tmp_path: Path) -> None:
    nights, faults = _tried(tmp_path, 50, seed)
    assert (nights, faults) == (51, [])
