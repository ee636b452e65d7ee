"""One home, one Prefect server, one Ray and one small model for all integration tests that end none of them; everything
is local and offline."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.integration.ray_heads import Head, ray_head
from tests.integration.servers import prefect_server
from tests.support.command_server import REAL, SERVER, CommandServers

PYTHON = sys.executable
CONCORD = list(REAL)
"""The console script, whatever way the project is installed."""

LONGEST = ("test_next_steps", "test_tutorials", "test_notebook", "test_readme", "test_papers")
"""Files of slow tests that go first: at the end no processor waits for one of them."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    items.sort(key=lambda item: item.path.stem not in LONGEST)
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.integration)
            item.add_marker(pytest.mark.timeout(900))


SWEEPS = ("--engine", "gibbs", "--set", "sweeps=2000", "--shard-kib", "3")
"""Enough sampling, in shards small enough, for a run to be interrupted in its midst."""

SHARDS = 13
"""Number of shards of the test corpus at that size."""


@dataclass(frozen=True)
class World:
    """A folder with corpora and a model, and the environment in which commands run."""

    folder: Path
    env: dict[str, str]
    prefect: str | None = None
    """The API of the Prefect server that watches runs."""
    ray: Head | None = None
    """The cluster that runs may share; without one each has a Ray of its own."""
    servers: CommandServers | None = None
    """What runs commands of which the start of a process is not the point."""

    def watched(self, api: str) -> World:
        """The same, whose runs a Prefect server watches."""
        return replace(self, env=self.env | {"PREFECT_API_URL": api}, prefect=api)

    def unwatched(self) -> World:
        """The same, whose runs nobody watches: each is seconds shorter."""
        env = {name: value for name, value in self.env.items() if name != "PREFECT_API_URL"}
        return replace(self, env=env, prefect=None)

    def shared(self) -> World:
        """The same, whose runs are on the shared cluster: with a Ray of its own each takes seconds more."""
        assert self.ray is not None
        return replace(self, env=self.env | self.ray.environment | {"RAY_ADDRESS": self.ray.address})

    def quick(self) -> World:
        """The same for commands of which neither Prefect nor the start of Ray is the point: unwatched, and shared."""
        return self.unwatched().shared()

    def served(self) -> World:
        """The same, whose commands are forks of a process that has imported what they import."""
        assert self.servers is not None
        return replace(self, env=self.servers.within(self.env))

    def typed(self, *arguments: str) -> list[str]:
        """The words of a command."""
        return ["concord", *arguments] if SERVER in self.env else [*CONCORD, *arguments]

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """A command of the user, running in the folder."""
        return subprocess.Popen(
            self.typed(*arguments),
            cwd=self.folder,
            env=self.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *arguments: str, code: int = 0) -> Any:
        """The command's JSON answer (None without one), after a check of its exit code."""
        process = self.start(*arguments)
        answer, said = process.communicate(timeout=600)
        assert process.returncode == code, said
        return json.loads(answer) if answer.strip() else None

    def run_on_ray(self, *arguments: str, code: int = 0) -> Any:
        """`run` of a command that takes ``--ray``, on the cluster that runs share, if there is one."""
        return (self if self.ray is None else self.shared()).run(*arguments, code=code)

    def reprocess(self, out: str, *more: str, code: int = 0) -> Any:
        """`concord reprocess` of the test corpus with the model, by enough Gibbs sampling to be interrupted."""
        return self.run_on_ray(*self.reprocess_command(out, *more), code=code)

    def reprocess_command(self, out: str, *more: str) -> list[str]:
        """The arguments of that command."""
        return ["reprocess", "--corpus", "test", "--model", "model", "--out", out, "--json", *SWEEPS, *more]

    def content(self, out: str) -> dict[str, bytes]:
        """Every file of an output folder that must not depend on how the run went."""
        root = self.folder / out
        found = {p.relative_to(root).as_posix(): p.read_bytes() for p in root.rglob("*") if p.is_file()}
        # What a run was made from is named there as its user named it: a folder, or a model of the registry. The record
        # of nights says who ran it, and when, the survey when files of the corpus were written, the markers when
        # those of the output were, and digests are kept by a second run.
        own = ("_times/", "sources.json", ".nights.jsonl", ".survey/", ".markers/")
        return {name: data for name, data in found.items() if not any(part in name for part in own)}


def new_world(folder: Path) -> World:
    """A world in an empty folder, whose runs nobody watches."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("PREFECT_", "MLFLOW_", "RAY_"))}
    env |= {
        "CONCORD_HOME": str(folder / "home"),
        "PREFECT_HOME": str(folder / "prefect"),
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "DO_NOT_TRACK": "1",
        "COLUMNS": "200",
    }
    made = World(folder, env)
    made.run("synthesize", "--documents", "80", "--out", "train", "--json")
    _small_groups(made)
    return made


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    made = new_world(tmp_path_factory.mktemp("world"))
    # Workers are as nice as those of a run's own Ray are.
    head = ray_head(made.env | {"RAY_worker_niceness": "0"}, cpus=2)
    with prefect_server(made.folder, made.env) as server, head as ray, CommandServers() as servers:
        yield replace(made.watched(server.api), ray=ray, servers=servers)


def flow_runs(world: World) -> list[Any]:
    """What Prefect's server knows of every run of the flow."""
    query = json.dumps({"flows": {"name": {"any_": ["reprocess"]}}}).encode()
    request = urllib.request.Request(
        f"{world.prefect}/flow_runs/filter", query, {"Content-Type": "application/json"}, method="POST"
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        runs: list[Any] = json.load(answer)
    return runs


def asked(world: World, kind: str, flow_run: str) -> list[Any]:
    """Artifacts or logs of a flow run."""
    query = json.dumps({kind: {"flow_run_id": {"any_": [flow_run]}}}).encode()
    request = urllib.request.Request(f"{world.prefect}/{kind}/filter", query, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        found: list[Any] = json.load(answer)
    return found


def damage_a_copy(world: World) -> None:
    """The corpus "hurt" is the test corpus, of which row group 3 cannot be read."""
    source, copy = (world.folder / name / "part-00000.parquet" for name in ("test", "hurt"))
    data = bytearray(source.read_bytes())
    place = pq.ParquetFile(source).metadata.row_group(3).column(1).data_page_offset + 40
    data[place : place + 8] = b"\xff" * 8
    copy.parent.mkdir()
    copy.write_bytes(data)


def markers(world: World, out: str) -> int:
    """How many shards are done: those that wait with a marker each, and those that are published."""
    waiting, published = (world.folder / out / ".shards" / "_shards").glob("*.json"), world.folder / out / "predictions"
    return len(list(waiting)) + len(list(published.glob("*.parquet")))


def _small_groups(world: World) -> None:
    """The test corpus in many row groups, one of which will be damaged."""
    script = (
        "from concord.flows.commands.corpora import synthesize_corpus; "
        "from concord.workers.corpus.settings import IngestSettings; "
        "from pathlib import Path; "
        "synthesize_corpus(Path('test'), documents=48, seed=1, kind='news', "
        "layout=IngestSettings(group_documents=4), overwrite=False)"
    )
    subprocess.run([PYTHON, "-c", script], cwd=world.folder, env=world.env, check=True, capture_output=True)


@pytest.fixture(scope="session")
def trained(world: World) -> Any:
    """The answer of `concord train`, which also put the model into the registry."""
    return world.run(
        *("train", "--corpus", "train", "--features", "finkel"),
        *("--out", "model", "--register", "news", "--json"),
    )


@pytest.fixture(scope="session")
def reference(world: World, trained: Any) -> Any:
    """The answer of an undisturbed run on one worker; its output is in ``reference``."""
    assert trained["registered"] == "models:/news@champion"
    return world.reprocess("reference", "--workers", "1")
