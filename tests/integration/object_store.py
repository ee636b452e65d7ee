"""As much of S3 as it takes to read a corpus: objects listed, looked at and read in ranges, whoever asks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import formatdate
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

STAMP = 1_700_000_000
"""Seconds since 1970 at which every object was written."""


@contextmanager
def object_store(root: Path) -> Iterator[str]:
    """Serves the folders in ``root`` as buckets; gives HOST:PORT."""

    class Handler(_Objects):
        folder = root

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


class _Objects(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    folder: Path

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 — the base class's name
        """Says nothing."""

    def _answer(self, *, with_body: bool) -> None:
        parts = urlsplit(self.path)
        path = self.folder / unquote(parts.path).strip("/")
        query = parse_qs(parts.query)
        if "list-type" in query:
            self._send(HTTPStatus.OK, self._listing(path, query.get("prefix", [""])[0]), {}, with_body=True)
        elif path.is_file():
            self._object(path.read_bytes(), with_body=with_body)
        else:
            self._send(HTTPStatus.NOT_FOUND, b"", {}, with_body=with_body)

    def _object(self, data: bytes, *, with_body: bool) -> None:
        headers = {"Last-Modified": formatdate(STAMP, usegmt=True), "ETag": '"same"'}
        wanted = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        if wanted is None:
            self._send(HTTPStatus.OK, data, headers, with_body=with_body)
            return
        first, last = int(wanted[1]), min(int(wanted[2]), len(data) - 1)
        headers["Content-Range"] = f"bytes {first}-{last}/{len(data)}"
        self._send(HTTPStatus.PARTIAL_CONTENT, data[first : last + 1], headers, with_body=with_body)

    def _send(self, status: HTTPStatus, body: bytes, headers: dict[str, str], *, with_body: bool) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if with_body:
            self.wfile.write(body)

    def _listing(self, bucket: Path, prefix: str) -> bytes:
        keys = sorted(p.relative_to(bucket).as_posix() for p in bucket.rglob("*") if p.is_file())
        found = [key for key in keys if key.startswith(prefix)]
        entries = "".join(
            f"<Contents><Key>{escape(key)}</Key><LastModified>2023-11-14T22:13:20.000Z</LastModified>"
            f"<ETag>same</ETag><Size>{(bucket / key).stat().st_size}</Size></Contents>"
            for key in found
        )
        return (
            f'<?xml version="1.0" encoding="UTF-8"?><ListBucketResult><Name>{bucket.name}</Name>'
            f"<KeyCount>{len(found)}</KeyCount><IsTruncated>false</IsTruncated>{entries}</ListBucketResult>"
        ).encode()
