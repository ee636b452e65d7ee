"""What a folder is: a model, a run, a sweep and so on. A command writes into folders of its own kind alone.

A folder says what it is in its manifest, under the key `SAYS`; a corpus has no manifest, and is known by the table of
its rejects, which every corpus of concord's has. Folders of versions that did not say it are known by what they have.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from concord.schemas.folders import FolderKind
from concord.workers.storage.files import OutputError, write_whole

MANIFEST = "manifest.json"
SAYS = "folder"
"""Key of the manifest that says which kind of folder it is in."""

REJECTS_NAME = "_rejects.parquet"
"""Table of a corpus's rejects; readers of a corpus skip names that start with an underscore."""
PURPOSE = ".corpus.json"
"""File by which a run says, before it has a manifest, which corpus it is of."""

UNSAID = {
    FolderKind.MODEL: {"kind", "labels", "files"},
    FolderKind.RUN: {"dataset", "run", "totals"},
}
"""Keys of manifests that do not say yet which kind they are of."""


def kind_said(manifest: bytes) -> FolderKind | None:
    """Kind of the folder that has these bytes as its manifest; None where it is none of concord's, or damaged."""
    content = _json(manifest)
    if not isinstance(content, dict):
        return None
    if content.get(SAYS) in set(FolderKind):
        return FolderKind(content[SAYS])
    return next((kind for kind, keys in UNSAID.items() if keys <= content.keys()), None)


def kind_of(folder: Path) -> FolderKind | None:
    """Kind of a folder; None for one that is not there, or is none of concord's."""
    manifest = _content(folder / MANIFEST)
    kind_there = None if manifest is None else kind_said(manifest)
    return kind_there or next((kind for kind, shows in SIGNS.items() if shows(folder)), None)


def check_kind(folder: Path, makes: FolderKind | None) -> None:
    """Checks that a folder of the kind ``makes`` (None: a file, or pages) may be made or go on at a place.

    Raises `OutputError` where the folder is of another kind, or has a manifest that is not concord's.
    """
    there = kind_of(folder)
    if there is not None and there is not makes:
        raise OutputError(f"{folder} is {there.phrase}; give a place apart from it")
    if there is None and makes is not None and _content(folder / MANIFEST) is not None:
        raise OutputError(
            f"{folder / MANIFEST} is no manifest of concord's, or a damaged one; give a place apart from it, or delete "
            "that folder"
        )


def check_around(place: Path) -> None:
    """Raises `OutputError` where a place, whose links are resolved, is inside a folder of any kind."""
    for folder in place.parents:
        check_kind(folder, None)


def say_kind(folder: Path, kind: FolderKind) -> None:
    """Writes the manifest of a folder that has no other use for one. Raises `OutputError`."""
    manifest = json.dumps({SAYS: kind}).encode() + b"\n"
    if _content(folder / MANIFEST) != manifest:
        write_whole(folder / MANIFEST, manifest)


def _is_sweep(folder: Path) -> bool:
    plan = _content(folder / "plan.json")
    cells = None if plan is None else _json(plan)
    return isinstance(cells, list) and all(isinstance(cell, dict) and "cell" in cell for cell in cells)


def _is_challenge(folder: Path) -> bool:
    parts = {name: _content(folder / name / MANIFEST) for name in ("model", "champion", "challenger")}
    kinds = {name: kind_said(manifest) for name, manifest in parts.items() if manifest is not None}
    return kinds.get("model") is FolderKind.MODEL and FolderKind.RUN in kinds.values()


SIGNS: dict[FolderKind, Callable[[Path], bool]] = {
    FolderKind.RUN: lambda folder: _content(folder / PURPOSE) is not None,
    FolderKind.CORPUS: lambda folder: _content(folder / REJECTS_NAME, 0) is not None,
    FolderKind.SWEEP: _is_sweep,
    FolderKind.CYCLES: lambda folder: _content(folder / "cycle-00" / "cycle.json") is not None,
    FolderKind.TABLES: lambda folder: all(_content(folder / f"papers.{form}") is not None for form in ("md", "html")),
    FolderKind.CHALLENGE: _is_challenge,
}
"""What shows the kind of a folder whose manifest does not say it."""


def _json(data: bytes) -> Any:
    """The object that JSON stands for; None for what is no JSON."""
    try:
        return json.loads(data)
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError):
        return None


def _content(path: Path, most: int = -1) -> bytes | None:
    """The first bytes of a file, all of them without ``most``; None where there is none that can be read."""
    try:
        with path.open("rb") as file:
            return file.read(most)
    except OSError:
        return None
