"""Files to start with, which `concord init` writes: deployments for Prefect, constraints, settings of a run.

They are in the wheel; `infra/` leads to them.
"""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from concord.flows.apart import check_apart
from concord.schemas.errors import InputError
from concord.workers.storage.files import make_folder, write_whole

FILES = {"prefect.yaml": "prefect.yaml", "constraints/news.yaml": "constraints.yaml", "night.yaml": "night.yaml"}
"""Files of this package, and what they are called in the user's folder."""

OFFERED, TAKEN = "# constraints: [", "constraints: ["
"""What stands before the deployment's constraints here, and in a folder that has them."""


class NotEmptyError(InputError):
    """A folder in which something is: nothing is written over."""


def write_start(out: Path) -> list[Path]:
    """Writes the files into a folder that is empty or not there. Raises `NotEmptyError` and `OutputError`."""
    check_apart(out, [])
    if out.is_symlink() or (out.exists() and (not out.is_dir() or any(out.iterdir()))):
        raise NotEmptyError(f"{out}: there is something already, and nothing is written over; give an empty folder")
    make_folder(out)
    for name, target in FILES.items():
        text = files(__name__).joinpath(name).read_text(encoding="utf-8").replace(OFFERED, TAKEN)
        write_whole(out / target, text.encode())
    return [out / target for target in FILES.values()]
