"""The user's list of own resources, changed: names for files of vectors, clusters, phrases and encoders."""

from __future__ import annotations

from pathlib import Path

from concord.schemas.names import PLAIN_NAME, PLAIN_NAMES, unknown
from concord.workers.features.resources import (
    OWN_RESOURCES,
    RESOURCES,
    OwnResource,
    ResourceError,
    list_of_own,
    own_resources,
)
from concord.workers.storage.files import make_folder, write_whole


def check_own(resource: OwnResource) -> None:
    """Raises `ResourceError` for a name that is taken or is none, or a path that is not there."""
    if not PLAIN_NAME.fullmatch(resource.name):
        raise ResourceError(f"--name {resource.name}: want {PLAIN_NAMES}, such as fasttext-nl")
    if any(resource.name in named for named in RESOURCES.values()):
        raise ResourceError(f"{resource.name}: concord knows something of this name; give another one")
    taken = [one.kind for one in own_resources() if one.name == resource.name and one.kind is not resource.kind]
    if taken:
        raise ResourceError(
            f"{resource.name}: is a name of your {taken[0]}; give another one, or `concord resources remove --name "
            f"{resource.name}`"
        )
    if not Path(resource.path).exists():
        raise ResourceError(f"{resource.path}: no such file or folder")


def add(resource: OwnResource) -> None:
    """Adds what `check_own` lets pass to the user's list, in the place of one of that name. Raises `OutputError`."""
    _keep([*(one for one in own_resources() if one.name != resource.name), resource])


def remove(name: str) -> OwnResource:
    """Takes one off the user's list; its files stay. Raises `ResourceError` for a name that was not added."""
    known = {one.name: one for one in own_resources()}
    if name not in known:
        raise ResourceError(unknown("added resource", name, known))
    _keep([one for one in known.values() if one.name != name])
    return known[name]


def _keep(resources: list[OwnResource]) -> None:
    make_folder(list_of_own().parent)
    write_whole(list_of_own(), OWN_RESOURCES.dump_json(tuple(sorted(resources)), indent=1))
