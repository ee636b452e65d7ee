"""Looks at what a run needs, one thing after the other: what `concord doctor` does.

Nothing is started and nothing is fetched. Each look ends within `LOOK_SECONDS`, also where a disk or a server hangs.
"""

from __future__ import annotations

import fcntl
import os
import platform
import shutil
import sqlite3
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import partial
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import NamedTuple

from concord.flows.environment import SQLITE, home, ray_address, tracking_uri
from concord.flows.errors import PrefectError
from concord.flows.inputs.output_places import check_output_place
from concord.flows.screen.patience import within
from concord.flows.watched import is_watched
from concord.schemas.distribution import DISTRIBUTION
from concord.schemas.doctor import DoctorReport, Finding
from concord.schemas.errors import ServiceError
from concord.schemas.folders import FolderKind
from concord.schemas.run_context import RunContext
from concord.schemas.secrets import place_of, redact
from concord.workers.storage.files import OutputError
from concord.workers.storage.object_storage import ObjectStorage, ObjectVersion, OvertakenError
from concord.workers.storage.storage import Storage, storage_at

LOOK_SECONDS = 40.0
"""How long one look may take; Ray and Prefect have shorter limits of their own."""
SERVER_SECONDS = 10.0
"""How long a server may take to answer."""
LEAST_FREE = 1 << 30
"""Bytes of a disk that should be free."""
LEAST_SHARED = 256 << 20
"""Bytes of shared memory for Ray's objects: models, mostly. With less, Ray spills objects to disk."""
STORAGE_SKEW, SERVER_SKEW = 2.0, 60.0
"""Seconds by which the clocks of a disk's server, and of any other, may differ from ours."""
OLDEST = datetime(2026, 1, 1, tzinfo=UTC)
"""A clock that shows an earlier time is wrong."""
SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 — that of Linux


class Look(NamedTuple):
    """A thing to look at, and what does it; that raises `WrongError` where something is wrong."""

    name: str
    at: Callable[[], str]


class WrongError(Exception):
    """What is wrong, and what to do."""

    def __init__(self, told: str, remedy: str) -> None:
        super().__init__(told)
        self.remedy = remedy


def doctor(out: str, context: RunContext) -> DoctorReport:
    """Looks at versions, kernels, the places of ``out`` and of concord's own files, clocks, Ray, Prefect and MLflow.

    - ``out``: folder, or URI of an object store

    Raises `OutputError` where no run may write: in a folder of another kind; and `StorageError` for other URIs.
    """
    check_output_place(out, [], makes=FolderKind.RUN)
    storage = storage_at(out)
    uri = tracking_uri(context.tracking)
    looks = [
        Look("versions", _versions),
        Look("kernels", _kernels),
        Look("output", partial(_output, storage)),
        Look("own files", partial(_folder, home())),
        Look("clocks", partial(_clocks, storage, uri)),
        Look("Ray", partial(_ray, context.ray)),
        Look("Prefect", _prefect),
        Look("MLflow", partial(_mlflow, uri)),
    ]
    return DoctorReport(findings=tuple(map(_found, looks)))


def _found(look: Look) -> Finding:
    try:
        return Finding(name=look.name, told=redact(within(LOOK_SECONDS, look.at)))
    except WrongError as wrong:
        return Finding(name=look.name, told=redact(str(wrong)), remedy=redact(wrong.remedy))
    except TimeoutError:
        line = f"no answer within {LOOK_SECONDS:g} s"
        return Finding(name=look.name, told=line, remedy="see whether the disk or the server behind it hangs")


# Versions and kernels


def _versions() -> str:
    from packaging.requirements import Requirement

    unfit = []
    for requirement in map(Requirement, requires(DISTRIBUTION) or ()):
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
            continue
        try:
            there = version(requirement.name)
        except PackageNotFoundError:
            unfit.append(f"{requirement.name} is missing")
            continue
        if not requirement.specifier.contains(there, prereleases=True):
            unfit.append(f"{requirement.name} is {there}, want {requirement.specifier}")
    line = f"concord {version(DISTRIBUTION)}, Python {platform.python_version()}"
    if unfit:
        raise WrongError(f"{line}; {'; '.join(unfit)}", "install concord again, by its lock file")
    shown = ", ".join(f"{name} {version(name)}" for name in ("ray", "prefect", "mlflow", "pyarrow", "numba"))
    return f"{line}, {shown}"


def _kernels() -> str:
    from concord.workers.compiling.kernel_folder import LETTERS, kernel_folder, known_digests

    folder = kernel_folder()
    digests = known_digests(folder).values()
    there = {path.name.rpartition("-")[2].partition(".")[0] for path in folder.glob("*.nbi")}
    compiled = sum(digest[:LETTERS] in there for digest in digests)
    if folder.parent == Path(tempfile.gettempdir()):
        raise WrongError(
            f"no place for compiled kernels can be written, so that each process compiles for itself ({folder})",
            "set NUMBA_CACHE_DIR to a folder that can be written and stays",
        )
    later = "" if compiled == len(digests) else "; what a run needs of the others is compiled when it is needed"
    return f"{compiled} of {len(digests)} compiled in {folder}{later}"


# Disks and clocks


def _output(storage: Storage) -> str:
    return _objects(storage) if isinstance(storage, ObjectStorage) else _folder(Path(storage.uri))


def _objects(storage: ObjectStorage) -> str:
    """Tries what publishing needs: objects are written, copied, listed and removed, and written on a condition."""
    with _probe(storage) as (name, first):
        storage.replace(name, b"2", over=first)
        try:
            storage.replace(name, b"3", over=first)
        except OvertakenError:
            return f"{place_of(storage.uri)}: can be written, and writes on a condition work"
    raise WrongError(
        f"{place_of(storage.uri)}: writes over what another run has just written, though told not to",
        "let no two runs write there at once, or use a store that knows If-Match (S3, GCS, Azure, MinIO, R2)",
    )


@contextmanager
def _probe(storage: ObjectStorage) -> Iterator[tuple[str, ObjectVersion]]:
    """An object that is removed at the end, its name and first version. Raises `WrongError`."""
    name = f".concord-doctor-{uuid.uuid4().hex}"
    try:
        storage.replace(name, b"1", over=None)
        storage.copy(name, f"{name}-2")
        first = storage.version(name)
        assert first is not None
        try:
            yield name, first
        finally:
            storage.remove([name, f"{name}-2"])
    except OutputError as error:
        raise WrongError(str(error), "see to its address, keys and rights") from None


def _folder(place: Path) -> str:
    """Whether a run can write there; ``place`` need not exist."""
    folder = _existing(place)
    try:
        with tempfile.TemporaryDirectory(prefix=".concord-doctor-", dir=folder) as made:
            links = _links(Path(made))
    except OSError as error:
        raise WrongError(f"{place}: cannot be written ({error.strerror or error})", "give a folder that can") from None
    free = shutil.disk_usage(folder).free
    room = f"{free / (1 << 30):,.1f} GiB free"
    if free < LEAST_FREE:
        raise WrongError(f"{place}: {room}", "free some space, or give a folder on another disk")
    return f"{place}: can be written, {links}, {room}"


def _links(folder: Path) -> str:
    """Tries what publishing needs. Raises `WrongError` for links and locks, `OSError` for the writing itself."""
    file = folder / "file"
    file.write_bytes(b"x")
    try:
        (folder / "link").symlink_to("file")
        (folder / "link").replace(folder / "turned")
    except OSError as error:
        raise WrongError(
            f"{folder.parent}: no symbolic links ({error.strerror})", "give a folder on a file system that has them"
        ) from None
    try:
        with file.open("rb") as held:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise WrongError(
            f"{folder.parent}: no locks ({error.strerror})", "mount it with locks, or keep two runs apart yourself"
        ) from None
    try:
        os.link(file, folder / "second")
    except OSError:
        return "without hard links, so that output takes twice its room"
    return "links and locks work"


def _existing(place: Path) -> Path:
    """The place, or the nearest folder above it that is there."""
    return next(folder for folder in (place.absolute(), *place.absolute().parents) if folder.is_dir())


def _clocks(out: Storage, uri: str) -> str:
    now = datetime.now(UTC)
    line = f"{now.isoformat(timespec='seconds')} here"
    if now < OLDEST:
        raise WrongError(line, "set this machine's clock; a wrong one breaks schedules and signed requests")
    most = SERVER_SKEW if isinstance(out, ObjectStorage) else STORAGE_SKEW
    skews = {"the output's storage": (_storage_skew(out), most)}
    if uri.startswith("http"):
        skews["MLflow's server"] = (_server_skew(uri), SERVER_SKEW)
    known = {name: skew for name, (skew, _) in skews.items() if skew is not None}
    wrong = [name for name, (skew, most) in skews.items() if skew is not None and abs(skew) > most]
    line = "; ".join([line, *(f"{name} {skew:+.1f} s" for name, skew in known.items())])
    if wrong:
        raise WrongError(line, f"set the clocks by one source (NTP): {', '.join(wrong)}")
    return line


def _storage_skew(storage: Storage) -> float | None:
    """Seconds by which the clock of the output's storage is ahead of ours; None where nothing can be written."""
    if not isinstance(storage, ObjectStorage):
        return _disk_skew(_existing(Path(storage.uri)))
    try:
        with _probe(storage) as (_, version):
            return (version.modified - datetime.now(UTC)).total_seconds()
    except WrongError:
        return None  # told of the storage itself


def _disk_skew(folder: Path) -> float | None:
    """Seconds by which the time stamps of a disk are ahead of this machine; None where nothing can be written."""
    try:
        with tempfile.NamedTemporaryFile(prefix=".concord-doctor-", dir=folder) as file:
            file.write(b"x")
            file.flush()
            return os.fstat(file.fileno()).st_mtime - time.time()
    except OSError:
        return None  # told of the disk itself


def _server_skew(uri: str) -> float | None:
    """Seconds by which a server's clock is ahead of ours; None where it does not answer."""
    import httpx

    try:
        said = httpx.get(f"{uri.rstrip('/')}/health", timeout=SERVER_SECONDS).headers.get("date", "")
        return (parsedate_to_datetime(said) - datetime.now(UTC)).total_seconds()
    except (httpx.HTTPError, ValueError):
        return None


# Services


def _ray(given: str | None) -> str:
    address = ray_address(given)
    if address is not None:
        from concord.flows.cluster.reaching import reach

        try:
            mode = reach(address)
        except ServiceError as error:
            raise WrongError(str(error), "start the cluster, or take --ray local") from None
        return f"a cluster answers at {address}" + (" and takes the token" if mode == "token" else "")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    line = f"none is asked for, so that a run starts one here; {cores} CPUs"
    if SHARED_MEMORY.is_dir():
        free = shutil.disk_usage(SHARED_MEMORY).free
        line += f", {free / (1 << 20):,.0f} MiB of shared memory"
        if free < LEAST_SHARED:
            raise WrongError(
                line, f"give more ({SHARED_MEMORY}; for a container --shm-size=1g): Ray uses the disk else"
            )
    return line


def _prefect() -> str:
    if not is_watched():
        return "no API is configured, so that nobody watches runs; PREFECT_API_URL changes that"
    from concord.flows.prefect.api import api_url, check_api

    try:
        check_api()
    except PrefectError as error:
        raise WrongError(str(error), "start the server, or unset PREFECT_API_URL") from None
    return f"the API at {api_url()} answers"


def _mlflow(uri: str) -> str:
    if uri.startswith(SQLITE):
        return _sqlite(Path(uri.removeprefix(SQLITE).partition("?")[0]))
    if not uri.startswith("http"):
        return f"{uri}: not looked at"
    import httpx

    try:
        answer = httpx.get(f"{uri.rstrip('/')}/health", timeout=SERVER_SECONDS)
    except httpx.HTTPError as error:
        reason = str(error) or type(error).__name__
        raise WrongError(f"{uri}: no answer ({reason})", "start the server, or give another --tracking") from None
    if not answer.is_success:
        raise WrongError(
            f"{uri}: answers with {answer.status_code}", "give the address of an MLflow server, with its password"
        )
    return f"the server at {uri} answers"


def _sqlite(path: Path) -> str:
    if not path.is_file():
        return f"{path}: not there yet, the first run makes it"
    try:
        size = path.stat().st_size
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=SERVER_SECONDS)) as file:
            runs = dict(_counts(file))
    except (sqlite3.Error, OSError) as error:
        raise WrongError(
            f"{path}: cannot be read ({error})", "move it away, and the next run makes a new one"
        ) from None
    return f"{path}: {runs['runs']:,} runs, {runs['model_versions']:,} versions of models, {size / (1 << 20):,.1f} MiB"


def _counts(file: sqlite3.Connection) -> Iterator[tuple[str, int]]:
    for table in ("runs", "model_versions"):
        yield table, file.execute(f"SELECT count(*) FROM {table}").fetchone()[0]  # noqa: S608 — names of ours
