"""What every task of the pool has to be, over the registry: pure, pickled, and the same for any sharding."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray
from pydantic import BaseModel

from concord.schemas.labels import LabelSet
from concord.workers.compiling.code import LABELLING_CODE, WORKERS, files_behind, imports_of, with_registered
from concord.workers.constraints.declared import DeclaredConstraints
from concord.workers.constraints.templates.runs import AppearsOnce
from concord.workers.corpus.ingestion import write_corpus
from concord.workers.corpus.parquet import ParquetLocation
from concord.workers.corpus.plan import distinct, plan
from concord.workers.corpus.shards import Shard, split
from concord.workers.learning.mining.logic.clauses import OpeningCounts
from concord.workers.learning.mining.miner import Counting
from concord.workers.models.encoder import Encoder, encoder_at
from concord.workers.parts import Group
from concord.workers.remote.count import CountParts
from concord.workers.remote.label import LabelParts
from concord.workers.remote.mining import HeldOut, MinedParts, RowsParts
from concord.workers.remote.registry import TASKS
from concord.workers.remote.task import AnyTask
from concord.workers.remote.words import WordsParts
from concord.workers.storage.storage import FolderStorage
from concord.workers.synthesis.made_up import synthesize
from tests.support.made_runs import HashModel, consistency, key_of
from tests.support.networks import VOCABULARY, network_folder, use_stubs

NEWS = LabelSet.bio(["LOC", "MISC", "ORG", "PER"])

OTHER_UNITS = {
    "ladder": "tests/integration/test_ladder.py",
    "trials": "tests/test_progressive.py",
    "sweep": "tests/test_sweeps.py",
    "survey": "tests/test_planning.py",
}
"""Tasks that work on no shards, and where they are tried."""
ON_SHARDS = {name: task for name, task in TASKS.items() if name not in OTHER_UNITS}

tasks = pytest.mark.parametrize("task", ON_SHARDS.values(), ids=ON_SHARDS)


class Words:
    """Knows words of an even number of letters."""

    def known(self, words: Sequence[str]) -> NDArray[np.bool_]:
        return np.array([len(word) % 2 == 0 for word in words], np.bool_)


def label_parts(folder: Path) -> LabelParts:
    constraints = consistency()
    key = key_of(constraints, engine="viterbi", options={})
    return LabelParts(HashModel(), constraints, key, FolderStorage(folder / "store"))


def encoder(folder: Path) -> Encoder:
    """One whose states are rows of a table, in a folder beside that one."""
    table, place = np.random.default_rng(5).normal(size=(VOCABULARY, 4)), folder.with_name(f"{folder.name}-encoder")
    return encoder_at(place if place.exists() else network_folder(place, ["a"], table, around=True))


SAMPLING = Counting("counting runs", partial(OpeningCounts.of, labels=NEWS, held_out=0.5), OpeningCounts.merge, 0.5)
PARTS: dict[str, Callable[[Path], Any]] = {
    "label": label_parts,
    "count": lambda _: CountParts(vocabulary=Words()),
    "words": lambda _: WordsParts(),
    "mined": lambda _: MinedParts(SAMPLING, HeldOut(0.5)),
    "rows": lambda _: RowsParts(NEWS, DeclaredConstraints((AppearsOnce(labels=("PER", "LOC"), weight=1.0),))),
}
"""Parts to try each task on; whoever adds a task adds them here."""


@pytest.fixture(autouse=True)
def _stubs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Encoders are stand-ins, and what they say is not kept."""
    use_stubs(monkeypatch)
    monkeypatch.setenv("CONCORD_SCORES", "off")


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Forty documents, of which one has no id and two have an earlier one's."""
    folder = tmp_path_factory.mktemp("corpus")
    write_corpus(synthesize(40, seed=2, kind="news"), folder, source="test")
    path = folder / "part-00000.parquet"
    table = pq.read_table(path)
    ids: list[str | None] = table["doc_id"].to_pylist()
    ids[7], ids[21], ids[33] = None, ids[3], ids[30]
    pq.write_table(table.set_column(0, table.schema.field(0).with_nullable(True), pa.array(ids, pa.string())), path)
    return folder


def plain(counts: object) -> Any:
    """Counts as nested lists and dicts; sums of floats may differ in their last digits."""
    if isinstance(counts, BaseModel):
        return plain(counts.model_dump())
    if is_dataclass(counts):
        return {field.name: plain(getattr(counts, field.name)) for field in fields(counts)}
    if isinstance(counts, dict):
        return {name: plain(value) for name, value in counts.items()}
    if isinstance(counts, np.ndarray):
        return counts.tolist()
    return round(counts, 9) if isinstance(counts, float) else counts


def counted(task: AnyTask, shards: Sequence[Shard], parts: Any) -> list[Any]:
    return [task.counts(task.run(shard, parts)) for shard in shards]


def merged(counts: Sequence[Any]) -> Any:
    return type(counts[0]).merge(counts)


def test_every_task_is_tried_here_under_its_own_name() -> None:
    assert set(PARTS) == set(ON_SHARDS)
    assert all(task.name == name for name, task in TASKS.items())


@tasks
def test_parts_results_and_shards_are_pickled(task: AnyTask, corpus: Path, tmp_path: Path) -> None:
    parts, shard = PARTS[task.name](tmp_path), plan(corpus)[0]
    assert isinstance(parts, task.parts)
    for function in (task.run, task.rehearse, task.warm):
        assert pickle.loads(pickle.dumps(function)) is function
    there, sent = pickle.loads(pickle.dumps((parts, shard), protocol=5))
    assert there.text == parts.text
    result = pickle.loads(pickle.dumps(task.run(sent, there), protocol=5))
    assert plain(task.counts(result)) == plain(task.counts(task.run(shard, parts)))


@tasks
def test_the_same_for_any_sharding_and_any_order(task: AnyTask, corpus: Path, tmp_path: Path) -> None:
    parts = PARTS[task.name](tmp_path)
    (whole,) = counted(task, plan(corpus), parts)
    for size in (1, 4_000, 9_000):
        shards = plan(corpus, shard_bytes=size)
        assert len(shards) > 1
        counts = counted(task, shards[::-1], parts)
        assert plain(merged(counts)) == plain(merged(counts[::-1])) == plain(whole)


@tasks
def test_merging_is_associative_and_nothing_is_neutral(task: AnyTask, corpus: Path, tmp_path: Path) -> None:
    counts = counted(task, plan(corpus, shard_bytes=4_000), PARTS[task.name](tmp_path))
    wanted, nothing = plain(merged(counts)), type(counts[0]).merge([])
    for at in range(len(counts) + 1):
        left, right = type(counts[0]).merge(counts[:at]), type(counts[0]).merge(counts[at:])
        assert plain(merged([left, right])) == plain(merged([left, nothing, right])) == wanted


@tasks
def test_every_row_is_a_document_or_a_reject_lethal_ones_too(task: AnyTask, corpus: Path, tmp_path: Path) -> None:
    parts = PARTS[task.name](tmp_path)
    for shard in plan(corpus, shard_bytes=9_000):
        alive, dead = counted(task, [shard, shard._replace(lethal=(1, 2))], parts)
        assert alive.documents + alive.rejected == dead.documents + dead.rejected == shard.rows
        assert dead.rejected > alive.rejected


@tasks
def test_a_rehearsal_of_every_part_leaves_nothing(task: AnyTask, corpus: Path, tmp_path: Path) -> None:
    parts = PARTS[task.name](tmp_path)
    for shard in plan(corpus):
        for part in split(shard, 4, text=parts.text):
            task.rehearse(part, parts)
    assert list(tmp_path.iterdir()) == []


@tasks
def test_a_warm_up_leaves_nothing(task: AnyTask, tmp_path: Path) -> None:
    task.warm(PARTS[task.name](tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_the_code_of_every_task_is_compared_with_the_drivers() -> None:
    files = set(files_behind(with_registered((*LABELLING_CODE, *WORKERS), tuple(Group))))
    for task in TASKS.values():
        assert set(files_behind([task.run.__module__])) <= files


MOST_FILES, MOST_LINES = 307, 42_665
"""Bounds of what a nightly run can reach. Who adds to it looks whether that has to be read by everybody."""


def test_the_nightly_run_reaches_no_learning_no_sweeps_and_no_pages() -> None:
    files = files_behind(["concord.flows.reprocess"])
    assert not {part for path in files for part in path.parts} & {"trainers", "mining", "sweeps", "sweeping", "report"}
    assert len(files) <= MOST_FILES
    assert sum(path.read_bytes().count(b"\n") for path in files) <= MOST_LINES


def test_ray_is_imported_by_the_actor_alone() -> None:
    root = Path(__file__).parents[1]
    found = {
        path.relative_to(root).as_posix()
        for path in (root / "concord" / "workers").rglob("*.py")
        if any(name == "ray" or name.startswith("ray.") for name in imports_of(path))
    }
    assert found == {"concord/workers/remote/actor.py"}


def test_no_task_but_those_that_train_imports_what_only_learning_needs() -> None:
    for task in (task for name, task in TASKS.items() if name not in ("sweep", "ladder")):
        imported = {name for path in files_behind([task.run.__module__]) for name in imports_of(path)}
        assert not {name for name in imported if name.partition(".")[0] in ("sklearn", "matplotlib", "pandas")}


def test_shards_of_equal_rows_are_one() -> None:
    file = ParquetLocation("", "c.parquet", "c.parquet")
    shards = [Shard(name, file, i, 1, 1, "") for i, name in enumerate("abab")]
    assert [shard.id for shard in distinct(shards)] == ["a", "b"]
