"""A real S3 server on this machine, and a proxy before it that has the troubles of a network."""

from __future__ import annotations

import http.client
import random
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock, Thread
from typing import Protocol

from moto.server import ThreadedMotoServer

from concord.workers.storage.object_storage import ObjectStorage

BUCKET = "bucket"
KEYS = {"AWS_ACCESS_KEY_ID": "ada", "AWS_SECRET_ACCESS_KEY": "s3cret", "AWS_DEFAULT_REGION": "us-east-1"}
SLOW_SECONDS = 0.2


@contextmanager
def s3_server() -> Iterator[str]:
    """Serves an empty bucket `BUCKET`; gives HOST:PORT."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        with urllib.request.urlopen(urllib.request.Request(f"http://{host}:{port}/{BUCKET}", method="PUT")):
            pass
        yield f"{host}:{port}"
    finally:
        server.stop()


def uri(server: str, prefix: str) -> str:
    """The URI of a prefix of the bucket; keys are those of the environment."""
    return f"s3://{BUCKET}/{prefix}?endpoint_override={server}&scheme=http&region=us-east-1"


def upload(folder: Path, place: str) -> None:
    """Puts the files of a folder below a URI."""
    storage = ObjectStorage(place)
    for path in folder.rglob("*"):
        if path.is_file():
            storage.write(path.relative_to(folder).as_posix(), path.read_bytes())


@dataclass
class Troubles:
    """What a proxy does to requests, drawn by a seed.

    - ``share``: share of the requests that meet a trouble
    - ``kinds``: what they meet: ``refused`` (an error 503, and nothing is done), ``lost`` (it is done, and the answer
      does not come back), ``broken`` (it is done, and the answer breaks off in its body), ``cut`` (no answer, and
      nothing is done), ``slow``
    - ``met``: how many met each
    """

    share: float
    kinds: tuple[str, ...] = ("refused", "lost", "broken", "cut", "slow")
    seed: int = 0
    met: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._chance = random.Random(self.seed)
        self._lock = Lock()

    def next(self, _method: str, _path: str) -> str | None:
        """What the next request meets."""
        with self._lock:
            if self._chance.random() >= self.share:
                return None
            kind = self._chance.choice(self.kinds)
            self.met[kind] = self.met.get(kind, 0) + 1
            return kind


class Chance(Protocol):
    """Decides what requests meet."""

    def next(self, method: str, path: str, /) -> str | None:
        """What the next request meets, see `Troubles`; None for nothing."""


@contextmanager
def troubled(server: str, troubles: Chance) -> Iterator[str]:
    """A proxy before an S3 server; gives its HOST:PORT."""

    class Handler(_Proxy):
        behind = server
        chance = troubles

    proxy = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=proxy.serve_forever, daemon=True).start()
    try:
        yield f"127.0.0.1:{proxy.server_port}"
    finally:
        proxy.shutdown()
        proxy.server_close()


class _Proxy(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    behind: str
    chance: Chance

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 — the base class's name
        """Says nothing."""

    def _pass(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        trouble = self.chance.next(self.command, self.path)
        if trouble == "cut":
            self.close_connection = True
            return
        if trouble == "refused":
            self._answer(503, {}, b"<Error><Code>SlowDown</Code><Message>later</Message></Error>")
            return
        status, headers, data = self._forwarded(body)
        if trouble == "slow":
            time.sleep(SLOW_SECONDS)
        if trouble == "lost":
            self.close_connection = True
            return
        self._answer(status, headers, data, sent=len(data) // 2 if trouble == "broken" else len(data))

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _pass  # noqa: N815 — the base class's names

    def _forwarded(self, body: bytes) -> tuple[int, dict[str, str], bytes]:
        connection = http.client.HTTPConnection(self.behind, timeout=60)
        try:
            # The host is signed, so it goes on as the client has named it.
            connection.request(self.command, self.path, body, dict(self.headers))
            answer = connection.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read()
        finally:
            connection.close()

    def _answer(self, status: int, headers: dict[str, str], data: bytes, *, sent: int | None = None) -> None:
        """Answers with the first bytes that are ``sent`` of a body (None: all), and closes where some are missing."""
        self.send_response(status)
        kept = {
            k: v for k, v in headers.items() if k.lower() not in ("connection", "transfer-encoding", "date", "server")
        }
        if "content-length" not in {name.lower() for name in kept}:
            kept["Content-Length"] = str(len(data))
        for name, value in kept.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data[:sent])
            self.close_connection |= sent is not None and sent < len(data)
