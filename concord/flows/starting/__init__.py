"""Files to start with, which `concord init` writes: deployments for Prefect, constraints, settings of a run.

They are in the wheel; `infra/` leads to them.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path

from concord.flows.inputs.apart import check_apart
from concord.schemas.errors import InputError
from concord.workers.storage.files import TEMPORARY, write_whole

FILES = ("prefect.yaml", "constraints.yaml", "night.yaml")
"""Files of this package."""

OFFERED, TAKEN = "# constraints: [", "constraints: ["
"""What stands before the deployment's constraints here, and in a folder that has them."""


class NotEmptyError(InputError):
    """A folder in which something is: nothing is written over."""


def write_start(out: Path) -> list[Path]:
    """Writes the files into a folder that is empty, not there, or has some of them as they are written here.

    Raises `NotEmptyError` and `OutputError`.
    """
    check_apart(out, [], makes=None)
    contents = {name: _content(name) for name in FILES}
    if out.is_symlink() or (out.exists() and not _is_begun(out, contents)):
        raise NotEmptyError(f"{out}: there is something already, and nothing is written over; give an empty folder")
    for target, content in contents.items():
        write_whole(out / target, content)
    return [out / target for target in contents]


def _content(name: str) -> bytes:
    text = files(__name__).joinpath(name).read_text(encoding="utf-8").replace(OFFERED, TAKEN)
    return text.encode()


def _is_begun(out: Path, contents: Mapping[str, bytes]) -> bool:
    """Whether a folder has nothing but what `write_start` writes, the remains of one that was killed among it."""
    return out.is_dir() and all(
        path.name.startswith(TEMPORARY) or (path.is_file() and path.read_bytes() == contents.get(path.name))
        for path in out.iterdir()
    )
