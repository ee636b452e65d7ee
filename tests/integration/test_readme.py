"""README and the pages on runs as a newcomer follows them: every command in its order, on made-up files."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from concord.workers.synthesis.made_up import synthesize
from tests.integration.conftest import World
from tests.integration.processes import descendants
from tests.integration.ray_heads import ray_head
from tests.integration.servers import free_port
from tests.support.command_server import SERVER
from tests.support.made_files import conll

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PAGES = ("README.md", *(f"docs/{page}.md" for page in ("rerun", "schedule", "cluster", "tracking", "operations")))
OF_PIPELINES = "texts.parquet"
"""File of the blocks for Ray Data and Spark, which `test_pipelines` runs."""
FOR_MAKE = {"make demo", "make test"}
"""Not run here: the second one runs this test."""


def blocks() -> list[tuple[str, str]]:
    """Language and text of every fenced block, in order."""
    return [found for page in PAGES for found in BLOCK.findall((ROOT / page).read_text())]


def statements(script: str) -> Iterator[str]:
    """The commands of a shell script one by one; a loop is one command."""
    lines: list[str] = []
    for line in script.splitlines():
        lines.append(line)
        text = "\n".join(lines)
        parsed = subprocess.run(["bash", "-n", "-c", text], capture_output=True)
        if parsed.returncode == 0 and not line.endswith("\\"):
            yield text
            lines = []
    assert not lines, f"not a whole command: {lines}"


@dataclass
class Newcomer:
    """A terminal in a folder: what a command exports stays, servers go on beside it."""

    folder: Path
    env: dict[str, str]
    servers: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def run(self, command: str) -> str:
        """What the command prints, after a check that it ended well."""
        kept = shlex.quote(str(self.folder / ".exports"))
        script = f"test ! -e {kept} || source {kept}\n{command}\nexport -p > {kept}"
        # Into a file: a server in the background would hold a pipe open.
        with (self.folder / ".printed").open("w+") as printed:
            code = subprocess.call(
                ["bash", "-euo", "pipefail", "-c", script],
                cwd=self.folder,
                env=self.env,
                stdout=printed,
                stderr=subprocess.STDOUT,
                timeout=600,
            )
            printed.seek(0)
            text = printed.read()
        assert code == 0, f"$ {command}\n{text}"
        return text

    def start(self, command: str) -> int:
        """Starts a server that holds its terminal; returns the number of its process."""
        script = f"source {shlex.quote(str(self.folder / '.exports'))}\n{command}"
        with (self.folder / "servers.log").open("ab") as log:
            started = subprocess.Popen(
                ["bash", "-c", script],
                cwd=self.folder,
                env=self.env,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.servers.append(started)
        return started.pid

    def end(self) -> None:
        """Ends the servers, the last one first."""
        for process in reversed(self.servers):
            for number in (signal.SIGTERM, signal.SIGKILL):
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, number)
                with suppress(subprocess.TimeoutExpired):
                    process.wait(10)
        with suppress(AssertionError):
            self.run(".venv/bin/prefect server stop")


@pytest.fixture
def newcomer(world: World, tmp_path: Path) -> Iterator[Newcomer]:
    made = list(synthesize(52, seed=5, kind="news"))
    (tmp_path / "eng.train").write_text(conll(made[:40]))
    (tmp_path / "eng.testa").write_text(conll(made[40:]))
    (tmp_path / "novels").mkdir()
    texts = pa.table({"doc_id": ["one", "two"], "text": [" ".join(d.tokens) for d in made[:2]]})
    pq.write_table(texts, tmp_path / "novels" / "n.parquet")
    (tmp_path / "infra").symlink_to(ROOT / "infra")
    env = {name: value for name, value in world.env.items() if name != "CONCORD_HOME"}
    env |= {
        "PREFECT_HOME": str(tmp_path / "prefect"),
        "PREFECT_SERVER_API_PORT": str(free_port()),
        "MLFLOW_PORT": str(free_port()),
    }
    served = replace(world, env=env).served().env
    _installed(tmp_path / ".venv", shutil.which("concord", path=served["PATH"]))
    found = Newcomer(tmp_path, env | {SERVER: served[SERVER]})
    try:
        yield found
    finally:
        found.end()


def _installed(venv: Path, concord: str | None) -> None:
    """An environment like that of the tests, but for the console script.

    So commands are forks of one process, until the page sets the address of a server: then modules would read other
    settings, and each command is a process of its own. What schedules and clusters start is, too.
    """
    assert concord is not None
    (venv / "bin").mkdir(parents=True)
    for path in Path(sys.prefix).iterdir():
        if path.name != "bin":
            (venv / path.name).symlink_to(path)
    for path in BIN.iterdir():
        (venv / "bin" / path.name).symlink_to(path if path.name != "concord" else concord)


def answer_of(url: str) -> str:
    """What an address answers; empty where it does not."""
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return str(answer.read().decode())
    except OSError:
        return ""


def wait_for(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 180
    while not condition():
        assert time.monotonic() < deadline, f"{what}: does not answer"
        time.sleep(0.3)


def hand_in(command: str, newcomer: Newcomer) -> None:
    """Runs a job on a cluster that is there for it alone, and sees the folder of the newcomer as all nodes do."""
    port = free_port()
    here = command.replace("HEAD:8265", f"127.0.0.1:{port}").replace("/data/", f"{newcomer.folder}/")
    assert here.count(str(newcomer.folder)) == 3, "the folders of corpus, model and output"
    path = f"{BIN}:{newcomer.env['PATH']}"
    with ray_head(newcomer.env | {"PATH": path}, cpus=2, dashboard=port) as head:
        token = " ".join(f"{name}={value}" for name, value in head.environment.items())
        assert "succeeded" in newcomer.run(f"{token} {here}")


def test_every_command_does_as_it_is_printed(newcomer: Newcomer) -> None:
    prefect, mlflow = (f"http://127.0.0.1:{newcomer.env[name]}" for name in ("PREFECT_SERVER_API_PORT", "MLFLOW_PORT"))
    port = str(free_port())
    servers: dict[str, Callable[[], bool]] = {
        "prefect server start": lambda: answer_of(f"{prefect}/api/health") == "true",
        "prefect worker start": lambda: '"READY"' in answer_of(f"{prefect}/api/work_pools/concord"),
        "mlflow ui": lambda: answer_of(f"{mlflow}/health") == "OK",
        "mlflow models serve": lambda: bool(answer_of(f"http://127.0.0.1:{port}/version")),
    }
    started: dict[str, int] = {}
    printed: list[str] = []
    for language, text in blocks():
        if OF_PIPELINES in text:
            continue
        if language == "yaml":
            (newcomer.folder / "rules.yaml").write_text(text)
            continue
        if language == "python":
            (newcomer.folder / "notebook.py").write_text(text)
            printed.append(newcomer.run("python notebook.py"))
            continue
        if language == "text":
            assert printed[-1] == text, "what a block is said to print"
            continue
        assert language == "bash", f"a block of what? {text}"
        # Other ports, so that a server of the user's own is not in the way.
        for command in statements(text.replace("http://127.0.0.1:4200", prefect).replace("5002", port)):
            if command.partition("#")[0].strip() in FOR_MAKE:
                continue
            if "ray job submit" in command:
                hand_in(command, newcomer)
                continue
            server = next((name for name in servers if name in command), None)
            if server is not None and "--background" not in command:
                started[server] = newcomer.start(command)
            else:
                printed.append(newcomer.run(command))
            if server is not None:
                wait_for(servers[server], command)
    assert len(descendants(started["mlflow ui"])) <= 5, "mlflow ui: a process for each of its jobs"
    assert any('"labels"' in text for text in printed), "what the served model answers"
    outputs = [newcomer.folder / name for name in ("out", "out-job", "out-novels", "out-rules", "out-certify")]
    for out in outputs:
        counts = json.loads((out / "manifest.json").read_text())["totals"]
        documents = {"out-novels": 2, "out-rules": 100}.get(out.name, 12)
        assert (counts["documents"], counts["rejected"]) == (documents, 0)
    whole_corpus, one_document = printed[-2:]
    assert re.search(r"^\d+\.\d% certified; penalty ", whole_corpus, re.MULTILINE)
    assert re.fullmatch(r"\[('[A-Z-]+'(, )?){7}\] -?[\d.]+ [\d.e-]+\n", one_document)
