"""Where compiled kernels are kept: a folder for each state of the code, so that none is ever stale.

Numba looks for changes in a kernel's own file only, and a kernel holds the code of all that it calls. So the
folder is named by everything that compiled code depends on, see `kernels_digest`.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from llvmlite.binding import get_host_cpu_name
from numba.core import config

from workers.compiling.code import ROOT, kernels_digest, sources_digest

PREFIX = "concord-kernels-"

USED = "used"
"""A file in the folder: as old as its last use, and locked by every process that uses it."""

KEPT = 4
"""Folders that no process uses and that stay nevertheless: for going back and forth between versions."""

NUMBA: Any = config
"""Numba's settings, those of the environment among them."""

KNOWN = "concord-kernels.txt"
"""A file beside the folders: `sources_digest`, a blank, and the `kernels_digest` of these sources."""

_HELD: list[int] = []
"""Locked files, open until the process ends."""


def kernel_folder() -> Path:
    """This process's folder for compiled kernels, locked against removal as long as the process lives.

    It lies in ``NUMBA_CACHE_DIR``, beside the package, or in the user's cache: in the first of them that can be
    written. What one that can only be read has of it is copied. Where none can be written the folder is a
    temporary one, and every process compiles for itself.
    """
    name, read_only = PREFIX + _state(), None
    for place in _places():
        folder = place / name
        if read_only and not folder.exists():
            _copy(read_only, folder)
        is_new = not folder.exists()
        if _hold(folder):
            if is_new:
                _remove_unused(place)
            return folder
        if folder.is_dir():
            read_only = read_only or folder
    temporary = Path(tempfile.mkdtemp(prefix=PREFIX))
    atexit.register(shutil.rmtree, temporary, ignore_errors=True)
    return temporary


def _state() -> str:
    """Names the code, the compiler, the processor, and how numba is told to compile."""
    kernels = _known_kernels() or _noted(kernels_digest())
    told = (NUMBA.CPU_NAME or get_host_cpu_name(), NUMBA.CPU_FEATURES, NUMBA.OPT, NUMBA.BOUNDSCHECK)
    return hashlib.sha256(repr((kernels, told)).encode()).hexdigest()[:20]


def _known_kernels() -> str | None:
    """`kernels_digest` where another process has worked it out for the same files."""
    for place in _places():
        with contextlib.suppress(OSError):
            sources, _, kernels = (place / KNOWN).read_bytes().partition(b" ")
            if sources == sources_digest().encode():
                return kernels.decode()
    return None


def _noted(kernels: str) -> str:
    """Leaves the digest for other processes, in the first place that can be written."""
    for place in _places():
        with contextlib.suppress(OSError):
            place.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=place, prefix=KNOWN, delete=False) as file:
                file.write(f"{sources_digest()} {kernels}".encode())
            Path(file.name).replace(place / KNOWN)
            break
    return kernels


def _places() -> Iterator[Path]:
    if NUMBA.CACHE_DIR:
        yield Path(NUMBA.CACHE_DIR)
    yield ROOT / "workers" / "__pycache__"
    with contextlib.suppress(RuntimeError):  # nobody's home is known
        yield Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "concord"


def _hold(folder: Path) -> bool:
    """Makes the folder and locks it, until the process ends; False where it cannot be written."""
    while True:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            handle = os.open(folder / USED, os.O_RDWR | os.O_CREAT, 0o644)
            os.utime(handle)
        except FileNotFoundError:  # removed in between
            continue
        except OSError:
            return False
        with contextlib.suppress(OSError):  # a file system without locks: nothing is removed there either
            fcntl.flock(handle, fcntl.LOCK_SH)
        if os.fstat(handle).st_nlink:
            _HELD.append(handle)
            return True
        os.close(handle)


def _copy(source: Path, folder: Path) -> None:
    """A copy that is seen by others when it is whole; none where that cannot be written."""
    with contextlib.suppress(OSError):
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as place:
            copy = Path(place) / "copy"
            for path in [source, *sorted(source.rglob("*"))]:
                target = copy / path.relative_to(source)
                if path.is_dir():
                    target.mkdir()
                else:
                    shutil.copyfile(path, target)
            copy.rename(folder)


def _remove_unused(place: Path) -> None:
    """Removes the folders that no process uses, but for the `KEPT` that were used last."""
    for folder in sorted(place.glob(f"{PREFIX}*"), key=_last_used, reverse=True)[KEPT:]:
        with contextlib.suppress(OSError), (folder / USED).open("r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder.rename(f"{folder}.removed-{os.getpid()}"), ignore_errors=True)


def _last_used(folder: Path) -> float:
    with contextlib.suppress(OSError):
        return (folder / USED).stat().st_mtime
    return 0.0
