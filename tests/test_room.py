"""What workers ask of memory, and whether nodes have it: by hand, without Ray."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from concord.flows.cluster.deaths import ClusterError
from concord.flows.cluster.room import check_room
from concord.workers.papers.canisius.settings import TrigramSettings
from concord.workers.papers.canisius.trigram_trials import REMEMBERED, SAMPLING, Sample
from concord.workers.remote.count import COUNT, CountParts
from concord.workers.remote.memory import BASE, GROWTH, memory_of
from concord.workers.remote.trials import TRIALS, TrialParts
from tests.support.made_samples import DOCUMENTS

MIB = 1 << 20


class Held(NamedTuple):
    """A vocabulary of arrays, which Ray shares, and of text, which it does not."""

    shared: NDArray[np.float64]
    own: bytes

    def known(self, words: Any) -> NDArray[np.bool_]:
        return np.zeros(len(words), np.bool_)


def asked(shared: int, own: int) -> int:
    return memory_of(COUNT, CountParts(vocabulary=Held(np.zeros(shared // 8), bytes(own))))


def test_what_is_not_shared_counts_and_arrays_do_not() -> None:
    assert BASE < asked(0, 0) < BASE + MIB
    assert asked(100 * MIB, 0) == pytest.approx(asked(0, 0), abs=GROWTH * 50)
    assert asked(0, 10 * MIB) - asked(0, 0) == pytest.approx(140 * MIB, abs=GROWTH * 50)


def test_a_trial_counts_by_what_it_builds_of_the_values_it_remembers() -> None:
    sample = Sample.of(DOCUMENTS, TrigramSettings())
    features, tokens = sample.values.shape
    least = memory_of(COUNT, CountParts())
    for learner, size in REMEMBERED.items():
        built = size * features * tokens
        parts = TrialParts(SAMPLING, sample, TrigramSettings.model_validate({"learner": learner}))
        assert memory_of(TRIALS, parts) - least == pytest.approx(built, abs=MIB // 4)
        bounded = memory_of(TRIALS, parts) - memory_of(TRIALS, parts._replace(largest=40))
        assert bounded == pytest.approx(size * features * (tokens - 40), abs=GROWTH * 10)


def test_every_learner_is_measured() -> None:
    learners = TrigramSettings.model_json_schema()["properties"]["learner"]["enum"]
    assert set(REMEMBERED) == set(learners)


def node(cpus: float, mib: float, *, alive: bool = True) -> dict[str, Any]:
    has = {"CPU": cpus, "memory": mib * MIB}
    return {"Alive": alive, "Resources": {name: size for name, size in has.items() if size}}


@pytest.mark.parametrize(
    ("nodes", "fit"),
    [
        ([node(2, 2000)], 2),
        ([node(2, 999)], 1),
        ([node(8, 2000), node(1, 5000)], 5),
        ([node(4, 2000), node(4, 400)], 4),
        ([node(4, 2000), node(4, 0)], 4),
        ([node(4, 2000), node(4, 2000, alive=False)], 4),
        ([node(4, 2000), node(0, 9000)], 4),
        ([node(0, 9000)], 0),
        ([], 0),
    ],
)
def test_workers_fit_by_cpus_and_by_memory(nodes: list[dict[str, Any]], fit: int, capsys: Any) -> None:
    check_room(nodes, fit, 500 * MIB)
    assert capsys.readouterr().err == ""
    check_room(nodes, fit + 1, 500 * MIB)
    said = capsys.readouterr().err
    assert f"room for {fit} of {fit + 1} workers, at a CPU and 500 MiB of memory each" in " ".join(said.split())
    assert said.count("room for") == 1


def test_what_no_node_has_is_said_at_once() -> None:
    nodes = [node(4, 900), node(2, 1200), node(0, 9000), node(2, 9000, alive=False)]
    with pytest.raises(ClusterError, match=r"needs 1,300 MiB of memory .* largest .* has 1,200 MiB .* smaller"):
        check_room(nodes, 1, 1300 * MIB)
    check_room(nodes, 2, 1200 * MIB // 2)
    with pytest.raises(ClusterError, match="has 0 MiB"):
        check_room([node(2, 0)], 1, 1)
