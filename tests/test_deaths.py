"""Who is to blame for workers that die, tried on workers that are only pretended."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Collection
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from concord.flows.cluster.deaths import (
    ATTEMPTS,
    LETHAL_DOCUMENTS,
    SHARD_PARTS,
    ClusterError,
    Deaths,
    GivenUpError,
    Work,
)
from concord.workers.corpus.shards import Shard
from tests.support.cut_shards import FIRST_ROW, cut, shard_of


def rows_of(work: Work) -> set[int]:
    """Rows that would be labelled."""
    assert isinstance(work.shard, Shard)
    first = work.shard.first_row
    return set(range(first, first + work.shard.rows)) - {first + row for row in work.shard.lethal}


def play(rows: int, lethal: Collection[int], order: random.Random) -> tuple[list[Work], int]:
    """Work on one shard whose ``lethal`` rows kill, done in any order: the shards labelled, and the deaths."""
    deaths, queue = Deaths(cut), [Work(shard_of(rows))]
    labelled, died = [], 0
    while queue:
        work = queue.pop(order.randrange(len(queue)))
        if rows_of(work) & {FIRST_ROW + row for row in lethal}:
            died += 1
            queue += deaths.lost(work)
        elif work.rehearsal:
            queue += deaths.survived(work)
        else:
            labelled.append(work)
    return labelled, died


@given(st.integers(1, 3 * SHARD_PARTS), st.sets(st.integers(0, 10**9), max_size=LETHAL_DOCUMENTS), st.randoms())
def test_the_lethal_rows_are_taken_out_and_no_others(rows: int, chosen: set[int], order: random.Random) -> None:
    lethal = sorted({row % rows for row in chosen})
    labelled, died = play(rows, lethal, order)
    assert [work.shard for work in labelled] == [shard_of(rows)._replace(lethal=tuple(lethal))]
    steps = 0 if rows == 1 else 1 if rows <= SHARD_PARTS else 2
    assert died <= (ATTEMPTS if lethal else 0) + len(lethal) * (steps - 1 + ATTEMPTS if steps else 0)


def test_a_worker_that_was_killed_by_others_blames_no_document() -> None:
    deaths, whole = Deaths(cut), Work(shard_of(4))
    alone = whole._replace(suspect=True)
    assert deaths.lost(whole) == [alone]
    parts = deque(deaths.lost(whole))
    assert [rows_of(part) for part in parts] == [{FIRST_ROW + row} for row in range(4)]
    assert deaths.lost(parts[0]) == [parts[0]]  # once is no proof
    again = [work for part in parts for work in deaths.survived(part)]
    assert again == [alone]
    assert deaths.lost(alone) == [alone]
    with pytest.raises(GivenUpError, match="no document alone killed one"):
        deaths.lost(whole)


class Other(NamedTuple):
    """A unit without rows."""

    id: str
    size: int = 0
    place: str = "a trial"


def test_what_is_no_shard_is_tried_again_and_then_given_up() -> None:
    deaths, trials = Deaths(cut), [Work(Other("a")), Work(Other("b"))]
    assert [deaths.lost(trial) for trial in trials] == [[trial._replace(suspect=True)] for trial in trials]
    with pytest.raises(GivenUpError, match="its worker died 2 times"):
        deaths.lost(trials[0])


def test_more_than_so_many_lethal_documents_end_the_run() -> None:
    order = random.Random(0)
    play(LETHAL_DOCUMENTS, range(LETHAL_DOCUMENTS), order)
    with pytest.raises(ClusterError, match=f"{LETHAL_DOCUMENTS + 1} documents .* corpus.parquet, rows"):
        play(LETHAL_DOCUMENTS + 1, range(LETHAL_DOCUMENTS + 1), order)
