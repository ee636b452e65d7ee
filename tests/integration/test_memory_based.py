"""A memory-based model as any other: of the registry, on any number of workers, killed, and with TiMBL's learners."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from concord.flows.labelling.documents import read_documents
from concord.schemas.document import Batch
from concord.workers.constraints.constraint_set import Unconstrained
from concord.workers.corpus.plan import plan
from concord.workers.inference.registry import Decoder
from concord.workers.models.loaders import load_model
from concord.workers.models.model import local_scores
from tests.integration.conftest import World
from tests.integration.interruptions import labelled_through_kills

NEAREST = ("--model", "models:/memory@champion")


def trained(world: World, out: str, *more: str) -> Any:
    command = ("train", "--corpus", "train", "--trainer", "trigram", "--no-consistency", "--out", out)
    return world.run(*command, "--json", *more)


@pytest.fixture(scope="module")
def registered(world: World) -> Any:
    """The answer of `concord train`, which also put the model into the registry."""
    return trained(world, "memory", "--register", "memory")


def test_two_workers_write_what_this_process_says(world: World, registered: Any) -> None:
    assert registered["registered"] == NEAREST[1]
    command = ("reprocess", "--corpus", "test", *NEAREST, "--engine", "window", "--shard-kib", "3")
    run = world.run_on_ray(*command, "--workers", "2", "--out", "window", "--json")
    assert (run["documents"], run["rejected"], run["certified"]) == (48, 0, 1.0)
    table = pq.read_table(world.folder / "window" / "predictions")
    documents, _ = read_documents(plan(world.folder / "test"))
    model, batch = load_model(world.folder / "memory"), Batch.of(documents)
    problems = local_scores(model, batch).problems(batch, model.labels, Unconstrained())
    for document, problem in zip(documents, problems, strict=True):
        (row,) = table.filter(pc.field("doc_id") == document.doc_id).to_pylist()
        answer = Decoder.of("certify")(problem, document.doc_id)
        assert row["objective"] == pytest.approx(answer.objective, abs=1e-6)
        assert problem.score(model.labels.encode(row["labels"])).objective == pytest.approx(row["objective"], abs=1e-6)


@pytest.fixture(scope="module")
def one_worker(world: World, registered: Any) -> Any:
    """The answer of an undisturbed run that takes long enough to be interrupted; its output is in ``one``."""
    assert registered["documents"] == 80
    return world.reprocess("one", "--workers", "1", *NEAREST)


@pytest.mark.slow
@pytest.mark.parametrize("workers", ["2", "4"])
def test_more_workers_write_the_bytes_of_one(world: World, one_worker: Any, workers: str) -> None:
    assert world.reprocess(f"by-{workers}", "--workers", workers, *NEAREST)["shards_done"] == one_worker["shards_done"]
    assert world.content(f"by-{workers}") == world.content("one")


@pytest.mark.slow
def test_kills_change_no_byte(world: World, one_worker: Any) -> None:
    labelled_through_kills(world, "through-kills", one_worker["shards_done"], *NEAREST)
    assert world.content("through-kills") == world.content("one")


@pytest.mark.slow
@pytest.mark.skipif(find_spec("timblapi") is None, reason="the extra memory is not installed: python3-timbl")
def test_two_workers_read_the_same_base_of_timbl(world: World) -> None:
    trained(world, "tree", "--set", "learner=igtree")
    runs = [world.reprocess(f"tree-{workers}", "--workers", workers, "--model", "tree") for workers in ("1", "2")]
    assert [run["documents"] for run in runs] == [48, 48]
    assert world.content("tree-1") == world.content("tree-2")
