"""A prefix of an object store (S3, Google Cloud Storage, Azure) as the storage of a run.

An object is there whole or not at all, and its key may be written on a condition, which is all that publishing needs:
nothing is renamed. Requests that the store refuses for the moment (errors 5xx, a lost connection) are sent again, and
those whose answer breaks off in its body, too.
Credentials, endpoint and region are those of the environment (``AWS_ACCESS_KEY_ID``, ``AWS_ENDPOINT_URL``, ... on
every machine), or stand in the URI as pyarrow reads them: ``s3://KEY:SECRET@bucket/out?endpoint_override=HOST:PORT&
scheme=http&region=NAME``.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from io import SEEK_SET, BufferedReader, RawIOBase
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, TypeVar
from urllib.parse import parse_qsl, unquote, urlsplit

from concord.schemas.secrets import place_of, redact
from concord.workers.storage.files import OutputError

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer
    from obstore import ObjectMeta, ReadableFile
    from obstore.store import ClientConfig, ObjectStore, RetryConfig, S3Config

T = TypeVar("T")

SCHEMES = ("s3", "s3a", "gs", "az", "abfs", "abfss")
"""Kinds of URIs of object stores."""

MOST_RETRIES = 10
PATIENCE = timedelta(minutes=3)
"""How long a request is sent again for."""
FIRST_WAIT, LONGEST_WAIT = 0.1, 15.0
"""Seconds before the first time that a request is sent again whose answer broke off, and before any; they double."""
BROKEN_OFF = "request or response body error"
"""What obstore says of an answer that breaks off in its body. It asks for the rest of an object itself, but not of a
list, or of the answer to a copy, a removal or an error."""
REQUEST_SECONDS = 120
"""How long one request may take: a shard's predictions on a slow line."""

PART_BYTES = 1 << 18
"""Bytes that are asked for at once where parts of an object are read."""


class StoredFile(NamedTuple):
    """A file that is there.

    - ``size``: bytes
    - ``modified``: when it was written, by the clock of the storage
    """

    size: int
    modified: datetime


class ObjectVersion(NamedTuple):
    """An object as it was read.

    - ``data``: its bytes
    - ``tag``: the store's tag of this version, by which it is known that nobody has written it since
    - ``modified``: when it was written, by the clock of the store
    """

    data: bytes
    tag: str
    modified: datetime


class OvertakenError(OutputError):
    """Somebody else has written an object since it was read."""


@dataclass(frozen=True)
class ObjectStorage:
    """The objects below ``uri``. Errors of the store are `OutputError`, without the secrets of the URI."""

    uri: str

    def below(self, folder: str) -> ObjectStorage:
        """The objects below a longer prefix."""
        base, question, query = self.uri.partition("?")
        return ObjectStorage(f"{base.rstrip('/')}/{folder}{question}{query}")

    def above(self) -> tuple[ObjectStorage, str]:
        """The objects below the prefix without its last part, and that part; the same and "" for a whole bucket."""
        base, question, query = self.uri.partition("?")
        above, _, name = base.rstrip("/").rpartition("/")
        return (ObjectStorage(f"{above}{question}{query}"), name) if not above.endswith("/") else (self, "")

    def read(self, name: str) -> bytes | None:
        """The bytes of an object; None where there is none."""
        version = self.version(name)
        return None if version is None else version.data

    def opened(self, name: str) -> BinaryIO:
        """An object for reading parts of it. Raises `OSError` where it cannot be read, as a file does."""
        import obstore

        with _as_of_a_file():
            reader = _answered(lambda: obstore.open_reader(self._client(), name))
            return BufferedReader(_ObjectReader(reader), PART_BYTES)

    def version(self, name: str) -> ObjectVersion | None:
        """An object and its version; None where there is none."""
        import obstore

        def got() -> ObjectVersion:
            file = obstore.get(self._client(), name)
            return ObjectVersion(bytes(file.bytes()), file.meta["e_tag"] or "", file.meta["last_modified"])

        with self._asking("read", name):
            try:
                return _answered(got)
            except FileNotFoundError:
                return None

    def write(self, name: str, data: bytes) -> None:
        """Writes an object, over one that is there."""
        import obstore

        with self._asking("written", name):
            _answered(lambda: obstore.put(self._client(), name, data, use_multipart=False))

    def replace(self, name: str, data: bytes, *, over: ObjectVersion | None) -> None:
        """Writes an object in place of the version ``over``, or of none.

        An answer that was lost on the way does no harm: an object that has these bytes already is what was asked for.
        Raises `OvertakenError` where another object is there by now.
        """
        import obstore
        from obstore.exceptions import AlreadyExistsError, PreconditionError

        with self._asking("written", name):
            try:
                _answered(
                    lambda: obstore.put(
                        self._client(),
                        name,
                        data,
                        mode="create" if over is None else {"e_tag": over.tag},
                        use_multipart=False,
                    )
                )
            except (AlreadyExistsError, PreconditionError, FileNotFoundError):
                if self.read(name) != data:
                    raise OvertakenError(
                        f"{self.named(name)}: another run has published there since this one began; run the same "
                        "command again, which keeps what is labelled, and let runs into one place follow each other"
                    ) from None

    def copy(self, name: str, other: str) -> None:
        """Copies an object within the store, which sends no bytes through this machine."""
        import obstore

        with self._asking("copied", name):
            _answered(lambda: obstore.copy(self._client(), name, other))

    def names(self, folder: str) -> Iterator[str]:
        """The rest of the names of the objects directly below a longer prefix."""
        return (name for name, _ in self.files(folder))

    def files(self, folder: str) -> Iterator[tuple[str, StoredFile]]:
        """The objects directly below a longer prefix, each with the rest of its name."""
        with self._asking("listed", folder):
            for entry in self._listed(folder):
                above, _, last = entry["path"].rpartition("/")
                if above == folder:
                    yield last, StoredFile(entry["size"], entry["last_modified"])

    def _listed(self, folder: str) -> Iterator[ObjectMeta]:
        """All objects below a longer prefix, by name; a list that breaks off goes on where it did."""
        import obstore
        from obstore.exceptions import GenericError

        last: str | None = None
        parts = obstore.list(self._client(), folder)

        def following() -> Sequence[ObjectMeta]:
            nonlocal parts
            try:
                return next(parts, [])
            except GenericError:
                parts = obstore.list(self._client(), folder, offset=last)
                raise

        while part := _answered(following):
            yield from part
            last = part[-1]["path"]

    def remove(self, names: Sequence[str]) -> None:
        """Removes objects, those that are there."""
        import obstore

        if names:
            with self._asking("removed", names[0]):
                _answered(lambda: obstore.delete(self._client(), list(names)))

    def named(self, name: str) -> str:
        """An object for messages: without secrets and parameters."""
        return f"{place_of(self.uri).partition('?')[0].rstrip('/')}/{name}"

    def _client(self) -> ObjectStore:
        return _client(self.uri)

    @contextmanager
    def _asking(self, done: str, name: str) -> Iterator[None]:
        """Turns an error of the store into an `OutputError`; ``done``: what could not be done with the object."""
        from obstore.exceptions import BaseError

        try:
            yield
        except (BaseError, FileNotFoundError) as error:
            raise OutputError(
                f"{self.named(name)}: cannot be {done} ({_reason(error)}); see to the bucket, its endpoint and region "
                "and the credentials for it, and run the same command again"
            ) from None


def _answered(ask: Callable[[], T]) -> T:
    """What a request comes to. Where its answer breaks off it is sent again: what was done may be done twice."""
    from obstore.exceptions import GenericError

    wait = FIRST_WAIT
    for _ in range(MOST_RETRIES):
        try:
            return ask()
        except GenericError as error:
            if BROKEN_OFF not in str(error).partition("\n")[0]:
                raise
        time.sleep(wait)
        wait = min(2 * wait, LONGEST_WAIT)
    return ask()


def _reason(error: Exception) -> str:
    """What a store has answered, without the request and the page that came with it."""
    answer = str(error).partition("\n")[0].partition(": <?xml")[0]
    return redact(answer.rpartition(" - ")[2].rstrip(": "))


@contextmanager
def _as_of_a_file() -> Iterator[None]:
    """Turns an error of the store into an `OSError`, which readers of files know."""
    from obstore.exceptions import BaseError

    try:
        yield
    except BaseError as error:
        raise OSError(_reason(error)) from None


class _ObjectReader(RawIOBase):
    """An object as a file of Python's, which reads what is asked for."""

    def __init__(self, reader: ReadableFile) -> None:
        self._reader = reader

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = SEEK_SET) -> int:
        return self._reader.seek(offset, whence)

    def tell(self) -> int:
        return self._reader.tell()

    def readinto(self, buffer: WriteableBuffer) -> int:
        with memoryview(buffer) as view, _as_of_a_file():
            data = self._reader.read(len(view))
            view[: len(data)] = data
            return len(data)


@lru_cache(maxsize=8)
def _client(uri: str) -> ObjectStore:
    """The client of a prefix, one for each process."""
    from obstore.store import from_url

    parts = urlsplit(uri)
    query = dict(parse_qsl(parts.query))
    config: S3Config = {}
    secure = query.get("scheme", "https") == "https"
    if "endpoint_override" in query:
        config["endpoint"] = f"{'https' if secure else 'http'}://{query['endpoint_override']}"
    if "region" in query:
        config["region"] = query["region"]
    if parts.username and parts.password:
        config["access_key_id"], config["secret_access_key"] = unquote(parts.username), unquote(parts.password)
    host = parts.netloc.rpartition("@")[2] if parts.password else parts.netloc
    options: ClientConfig = {
        "allow_http": not secure or _plain_endpoint(os.environ),
        "timeout": f"{REQUEST_SECONDS}s",
    }
    retry: RetryConfig = {"max_retries": MOST_RETRIES, "retry_timeout": PATIENCE}
    client: ObjectStore = from_url(
        f"{parts.scheme}://{host}{parts.path}", config=config, client_options=options, retry_config=retry
    )
    return client


def _plain_endpoint(environment: Mapping[str, str]) -> bool:
    """Does the environment name an endpoint without TLS, such as one inside a cluster?"""
    return environment.get("AWS_ENDPOINT_URL_S3", environment.get("AWS_ENDPOINT_URL", "")).startswith("http://")
