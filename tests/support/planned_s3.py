"""An S3 server and its proxy in a process of their own, which does to one request what a file says.

python -m tests.support.planned_s3 PLAN    # prints the two addresses, and serves until its input ends
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Any

from tests.support.failpoints import step_of
from tests.support.s3 import s3_server, troubled, uri

CHANGING = ("PUT", "POST", "DELETE")


class Planned:
    """Has the request meet what the file says: the ``nth`` one of a ``step``, and with ``on`` all after it."""

    def __init__(self, plan: Path) -> None:
        """``plan``: a file of JSON, written anew for each run."""
        self._plan, self._lock = plan, Lock()
        self._read, self._seen, self._on = "", 0, False

    def next(self, method: str, path: str, /) -> str | None:
        """As `Chance` has it."""
        with self._lock:
            text = self._plan.read_text()
            if text != self._read:
                self._read, self._seen, self._on = text, 0, False
            plan = json.loads(text)
            if self._on:
                return str(plan["kind"])
            if not plan or method not in CHANGING or _step(method, path) != plan["step"]:
                return None
            self._seen += 1
            if self._seen != plan["nth"] + 1:
                return None
            self._on = plan["on"]
            return str(plan["kind"])


def _step(method: str, path: str) -> str | None:
    return "clean" if method in ("POST", "DELETE") else step_of(path)


@contextmanager
def planned_s3(plan: Path) -> Iterator[tuple[Callable[[str, bool], str], Callable[[Mapping[str, Any]], None]]]:
    """Starts it; gives what `Bench` asks for: the URI of a prefix, and what tells the proxy its plan."""
    plan.write_text("{}")
    command = [sys.executable, "-m", "tests.support.planned_s3", str(plan)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None
        addresses = None
        while addresses is None:
            line = process.stdout.readline()
            assert line, "the server did not start"
            addresses = json.loads(line) if line.startswith("[") else None
        number = 0

        def tell(said: Mapping[str, Any]) -> None:
            nonlocal number
            number += 1
            # Another text each time, by which the proxy knows that it starts to count anew.
            plan.with_suffix(".new").write_text(json.dumps(said) + " " * (number % 1000))
            plan.with_suffix(".new").replace(plan)

        try:
            yield lambda name, proxied: uri(addresses[proxied], f"cells/{name}"), tell
        finally:
            process.kill()


if __name__ == "__main__":
    with s3_server() as server, troubled(server, Planned(Path(sys.argv[1]))) as proxy:
        sys.stdout.write(json.dumps([server, proxy]) + "\n")
        sys.stdout.flush()
        sys.stdin.read()
