"""What every method of mining promises, over the registry."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

import pytest

from concord.testing import check_miner
from concord.workers.learning.mining.miner import Counting, MinedRules, Mining, MiningTask
from concord.workers.learning.mining.registry import MINERS, by_counting


@pytest.mark.parametrize("name", MINERS)
def test_a_method_keeps_its_promises(name: str) -> None:
    check_miner(MINERS[name])


def _merged_first(counting: Counting, parts: Iterable[Any]) -> Any:
    return counting.merge(list(parts)[:1])


def _forgets_a_part(task: MiningTask) -> Mining:
    """Counted rules of the first part of a corpus."""
    mining = by_counting(task)
    counting = next(mining)
    counts = yield counting._replace(merge=partial(_merged_first, counting))
    try:
        mining.send(counts)
    except StopIteration as end:
        rules: MinedRules = end.value
        return rules
    raise AssertionError("it counts once")


def test_a_method_that_depends_on_the_parts_of_a_corpus_is_found_out() -> None:
    with pytest.raises(AssertionError, match="in one part and in four"):
        check_miner(MINERS["counting"]._replace(mine=_forgets_a_part))
