"""Files to start with, which `concord init` writes: deployments for Prefect, constraints, settings of a run.

They are in the wheel; `infra/` leads to them.
"""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from concord.flows.inputs.output_places import check_output_place
from concord.schemas.errors import InputError
from concord.workers.constraints.file_schema import file_schema_text
from concord.workers.storage.files import write_whole

SCHEMA = "constraints.schema.json"
FILES = ("prefect.yaml", "constraints.yaml", SCHEMA, "night.yaml")
"""Files that are written: those of this package, and the schema of constraints."""

OFFERED, TAKEN = "# constraints: [", "constraints: ["
"""What stands before the deployment's constraints here, and in a folder that has them."""


class TakenError(InputError):
    """A name under which something else is: nothing is written over."""


def write_start(out: Path) -> list[Path]:
    """Writes the files into a folder, beside whatever is in it; those that are there as they are written here stay.

    Raises `TakenError`, before anything is written, and `OutputError`.
    """
    check_output_place(out, [], makes=None)
    contents = {out / name: _content(name) for name in FILES}
    others = [out] if _is_other_than_folder(out) else [path for path in contents if _is_other(path, contents[path])]
    if others:
        raise TakenError(
            f"{others[0]}: there is something else already, and nothing is written over; give another folder"
        )
    for path, content in contents.items():
        if not path.exists():
            write_whole(path, content)
    return list(contents)


def _content(name: str) -> bytes:
    if name == SCHEMA:
        return file_schema_text().encode()
    text = files(__name__).joinpath(name).read_text(encoding="utf-8").replace(OFFERED, TAKEN)
    return text.encode()


def _is_other_than_folder(path: Path) -> bool:
    return (path.is_symlink() or path.exists()) and not path.is_dir()


def _is_other(path: Path, content: bytes) -> bool:
    """Is there anything else than a file of that content under a name? A link is, too: it is the user's."""
    return path.is_symlink() or (path.exists() and not (path.is_file() and path.read_bytes() == content))
