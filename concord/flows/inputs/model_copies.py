"""Models that are kept on this machine: copies of those in MLflow's registry or an object store."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable
from pathlib import Path

from concord.flows.environment import home
from concord.schemas.secrets import place_of, short_name
from concord.workers.models.folder import MANIFEST, ModelError, manifest_in
from concord.workers.storage.object_storage import ObjectStorage
from concord.workers.storage.scratch import scratch_folder

KEPT_COPIES = 3
"""Versions of a model that are kept on this machine."""
UNFINISHED = ".unfinished-"
"""Prefix of the folders in which copies are made."""


def kept_copy(source: str, name: str, version: str, fetch: Callable[[Path], Path]) -> Path:
    """The copy of a version of a model, a folder in `home`. The oldest copies of other versions are removed.

    - ``source``: address of the place that has the model
    - ``fetch``: copies the model into an empty folder, and returns that or the one below it that is to be kept

    Raises what ``fetch`` raises, and then keeps nothing.
    """
    folder = copy_place(source, name, version)
    if folder.exists():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with scratch_folder(prefix=UNFINISHED, place=folder.parent) as scratch:
        # The scratch folder is this user's alone; what is kept is readable like any other file.
        partial = scratch / "copy"
        partial.mkdir()
        _put(fetch(partial), folder)
    copies = [path for path in folder.parent.iterdir() if not path.name.startswith(".")]
    for path in sorted(copies, key=lambda path: path.stat().st_mtime)[:-KEPT_COPIES]:
        shutil.rmtree(path, ignore_errors=True)
    return folder


def copy_place(source: str, name: str, version: str) -> Path:
    """Folder of the copy of a version of a model, see `kept_copy`; it may not be there."""
    return home() / "models" / hashlib.sha256(place_of(source).encode()).hexdigest()[:8] / name / version


def _put(copied: Path, folder: Path) -> None:
    try:
        copied.replace(folder)
    except OSError:
        if not folder.exists():
            raise  # otherwise another process has copied the same version


def stored_model(uri: str) -> Path:
    """The copy of a model in an object store. Its version is the digest of its manifest, which lists its files.

    Raises `ModelError` where there is no model or it is damaged, and `OutputError` where the store cannot be reached.
    """
    store = ObjectStorage(uri)
    data = store.read(MANIFEST)
    if data is None:
        raise ModelError(
            f"{store.named(MANIFEST)}: not there, so this is not the folder of a model; copy one there, all its files"
        )
    files = manifest_in(data, store.named(MANIFEST)).files

    def fetch(folder: Path) -> Path:
        for name, digest in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(_file(store, name, digest))
        (folder / MANIFEST).write_bytes(data)
        return folder

    return kept_copy(uri, short_name(uri), hashlib.sha256(data).hexdigest()[:16], fetch)


def _file(store: ObjectStorage, name: str, digest: str) -> bytes:
    found = store.read(name)
    if found is None:
        raise ModelError(f"{store.named(name)}: the model's file is missing; copy the whole folder there")
    if hashlib.sha256(found).hexdigest() != digest:
        raise ModelError(
            f"{store.named(name)}: SHA-256 differs from the manifest's; the file is damaged or foreign: copy the whole "
            "folder there again"
        )
    return found
