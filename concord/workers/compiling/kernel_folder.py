"""Cache folder of compiled kernels: one for each compiler and processor; a kernel's files are named by its digest.

Numba looks for changes only in the kernel's own file, although a compiled kernel holds the code of all that it calls.
So each kernel is kept under the digest of everything that it can hold, see `definitions`: no kernel is ever stale, and
an edit recompiles only what it touches. Files of other digests stay for `KEPT_DAYS` days, for going back and forth
between versions.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from concord.workers.compiling.code import COMPILERS, ROOT, digest_of_libraries, sources_digest
from concord.workers.compiling.definitions import kernel_digests
from concord.workers.compiling.numba_internals import folder_given, processor_and_settings

PREFIX = "concord-kernels-"

KEPT_DAYS = 30
"""Days after which files of kernels that the code no longer has are removed, at the next change of the code."""

OF_THE_WHEEL = ROOT / "workers" / "compiling" / "kernels"
"""Where a wheel has compiled kernels (`infra/wheel.py`); in a checkout there is nothing."""

LETTERS = 20
"""Number of letters of a kernel's digest in the names of its files."""


class KernelFiles:
    """Cache locator for numba (its setting ``CACHE_LOCATOR_CLASSES``): finds the files of a kernel."""

    def __init__(self, digest: str) -> None:
        self.digest = digest

    @classmethod
    def from_function(cls, function: Callable[..., Any], file: str) -> KernelFiles:
        """The files of a kernel; one of another project is known by its whole file, and all kernels of this one."""
        digests = known_digests(kernel_folder())
        name = f"{function.__module__}.{function.__qualname__}"
        return cls(digests.get(name) or _digest(name, Path(file).read_bytes().hex(), *digests.values()))

    def get_cache_path(self) -> str:
        """The folder."""
        return str(kernel_folder())

    def ensure_cache_path(self) -> None:
        """Makes the folder, where it was removed meanwhile."""
        kernel_folder().mkdir(parents=True, exist_ok=True)

    def get_source_stamp(self) -> str:
        """Stamp that a cached file must have: the kernel's digest."""
        return self.digest

    def get_disambiguator(self) -> str:
        """Part of the file's name that tells apart kernels of one name."""
        return self.digest[:LETTERS]


@cache
def kernel_folder() -> Path:
    """This process's folder for compiled kernels.

    It lies in the first place that can be written: ``NUMBA_CACHE_DIR``, beside the package, or the user's cache. Files
    that a wheel has, and those in a place that can only be read, are copied to it. Where no place can be written, the
    folder is a temporary one, and every process compiles for itself.
    """
    name = PREFIX + _compiler()
    shipped = OF_THE_WHEEL / name
    read_only = [shipped] if shipped.is_dir() else []
    for place in _places():
        folder = place / name
        if _can_be_written(folder):
            for source in read_only:
                _copy(source, folder)
            return folder
        if folder.is_dir():
            read_only.append(folder)
    temporary = Path(tempfile.mkdtemp(prefix=PREFIX))
    atexit.register(shutil.rmtree, temporary, ignore_errors=True)
    return temporary


@cache
def known_digests(folder: Path) -> dict[str, str]:
    """`kernel_digests`, which take half a second to work out and are kept in the folder for the same sources."""
    path = _digests_file(folder)
    with contextlib.suppress(FileNotFoundError, ValueError):
        by_kernel: dict[str, str] = json.loads(path.read_bytes())
        return by_kernel
    digests = kernel_digests()
    _write(path, json.dumps(digests).encode())
    _remove_old(folder.parent, {digest[:LETTERS] for digest in digests.values()})
    return digests


def kept_for_sources(name: str, work: Callable[[], str]) -> str:
    """Text that ``work`` gives for the present sources; it is kept under a name, with a digest, and damage is found."""
    path = kernel_folder() / f"{sources_digest()[:LETTERS]}-{name[:LETTERS]}.txt"
    with contextlib.suppress(FileNotFoundError, ValueError):
        digest, text = path.read_text(encoding="ascii").split()
        if digest == _digest(name, text):
            return text
    text = work()
    _write(path, f"{_digest(name, text)} {text}\n".encode())
    return text


def current_files(folder: Path) -> list[Path]:
    """The files in a folder of compiled kernels that belong to the code as it is."""
    digests = {digest[:LETTERS] for digest in known_digests(folder).values()}
    kernels = [path for path in sorted(folder.glob("*.nb?")) if any(digest in path.name for digest in digests)]
    return [*kernels, _digests_file(folder)]


def _compiler() -> str:
    """Names the compiler, the processor, and how numba is told to compile."""
    return _digest(digest_of_libraries(COMPILERS), processor_and_settings())[:LETTERS]


def _digests_file(folder: Path) -> Path:
    return folder / f"{sources_digest()[:LETTERS]}.json"


def _places() -> Iterator[Path]:
    if folder := folder_given():
        yield Path(folder)
    yield ROOT / "workers" / "__pycache__"
    with contextlib.suppress(RuntimeError):  # nobody's home is known
        yield Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "concord"


def _can_be_written(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError:
        return False
    return True


def _copy(source: Path, folder: Path) -> None:
    """Copies the files that are missing, each whole or not at all; code before the index that names it."""
    with contextlib.suppress(OSError):  # a full disk, or files that go away: what is missing is compiled
        for path in sorted(source.iterdir()):
            if path.is_file() and not (folder / path.name).exists():
                _write(folder / path.name, path.read_bytes())


def _write(path: Path, content: bytes) -> None:
    """Others see the file when it is whole; where it cannot be written the next process works it out again."""
    part = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        part.write_bytes(content)
        part.replace(path)
    except OSError:
        part.unlink(missing_ok=True)


def _remove_old(place: Path, current: set[str]) -> None:
    """Removes files that are `KEPT_DAYS` old, but for those of current digests; who has read one needs it no more."""
    oldest = time.time() - KEPT_DAYS * 24 * 3600
    for path in place.glob(f"{PREFIX}*/*"):
        with contextlib.suppress(OSError):  # another process removed it
            if path.stat().st_mtime < oldest and not any(digest in path.name for digest in current):
                path.unlink()


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()
