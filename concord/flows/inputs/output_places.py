"""Checks output places: apart from all inputs (not the same, inside or around), and from folders of other kinds."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

from concord.schemas.folders import FolderKind
from concord.schemas.secrets import place_of, redact
from concord.workers.storage.files import OutputError, file_behind, make_folder, writing
from concord.workers.storage.folder_kinds import check_around, check_kind
from concord.workers.storage.storage import URI

OUT = "--out"
ALIASES = {"s3a": "s3", "abfss": "abfs"}
"""Schemes that name the same stores as others."""


def check_output_place(
    out: str | Path, inputs: Iterable[str | Path | None], *, makes: FolderKind | None, option: str = OUT
) -> None:
    """Raises `OutputError` if ``out`` is a folder of another kind than ``makes``, or inside one of any kind; where
    there is a device or a pipe; or where `check_inputs` does.

    - ``makes``: kind of the folder that is made at ``out``; None for a file, or pages
    - ``option``: the one that names it

    Nothing is written here. Folders in object stores are looked at by the run that writes there.
    """
    if not (isinstance(out, str) and _is_uri(out)):
        there, place = Path(out).expanduser(), _resolved(out)
        if there.exists() and not (there.is_file() or there.is_dir()):
            raise OutputError(f"{option} {out}: is a device or a pipe; give another place")
        try:
            check_kind(place, makes)
            check_around(place)
        except OutputError as error:
            raise OutputError(f"{option} {out}: {error}") from None
    check_inputs(out, inputs, option=option)


def check_inputs(out: str | Path, inputs: Iterable[str | Path | None], *, option: str = OUT) -> None:
    """Raises `OutputError` if ``out`` is one of the inputs (also by another name), or is inside or around one.

    - ``inputs``: files, folders and URIs; None for one that is not given.

    Nothing is written here.
    """
    if isinstance(out, str) and _is_uri(out):
        _check_prefix(out, inputs, option)
        return
    place = _resolved(out)
    for given in inputs:
        source = _local(given)
        if source is not None and _meets(place, source):
            raise OutputError(f"{option} {out}: would overwrite what is read, {given}; give a place apart from it")


def _check_prefix(out: str, inputs: Iterable[str | Path | None], option: str) -> None:
    """Raises `OutputError` if a URI is the same as an input's, or one is below the other."""
    place = _parts(out)
    for given in inputs:
        source = _parts(given) if isinstance(given, str) and _is_uri(given) else ()
        if source and all(one == other for one, other in zip(place, source, strict=False)):
            read = redact(str(given))
            raise OutputError(
                f"{option} {redact(out)}: would overwrite what is read, {read}; give a place apart from it"
            )


def _is_uri(given: str) -> bool:
    return URI.match(given) is not None and not given.startswith("file:/")


def _parts(uri: str) -> tuple[str, ...]:
    """Bucket and folders of a URI, without keys and parameters; s3a is S3 by another name."""
    scheme, _, rest = place_of(uri).partition("?")[0].partition("://")
    return (ALIASES.get(scheme.lower(), scheme.lower()), *rest.strip("/").split("/"))


def check_file_place(out: str | Path, inputs: Iterable[str | Path | None], *, option: str = OUT) -> None:
    """Checks, before the work, as `check_output_place` does, and that a file can be written there."""
    check_output_place(out, inputs, makes=None, option=option)
    path = file_behind(Path(out).expanduser())
    make_folder(path.parent)
    with writing(path), tempfile.TemporaryFile(dir=path.parent):
        pass  # a file can be made there


def _resolved(given: str | Path) -> Path:
    """A place on this machine, with links resolved."""
    return Path(os.path.realpath(Path(given).expanduser()))


def _local(given: str | Path | None) -> Path | None:
    """Path of an input on this machine, with links resolved; None for an input elsewhere, such as in a registry."""
    if given is None:
        return None
    if isinstance(given, str) and URI.match(given):
        if _is_uri(given):
            return None
        from concord.workers.corpus.parquet import resolve

        given = resolve(given)[1]
    return _resolved(given)


def _meets(place: Path, source: Path) -> bool:
    if place == source or place in source.parents or source in place.parents:
        return True
    if not place.is_file():
        return False
    # Links into the middle of a folder, and second names.
    files = source.rglob("*") if source.is_dir() else (source,)
    return any(file.is_file() and file.samefile(place) for file in files)
