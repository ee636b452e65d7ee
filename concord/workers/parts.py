"""Registries of parts by name: concord's own, in one explicit dict for each kind, and those of other packages.

A package that is installed beside concord adds an engine, a reader or any other part of `Group` by an entry point of
that group in its ``pyproject.toml``. Nothing is looked up before a name is asked for, and a part that is registered so
is imported only when that part is asked for. Concord's own parts pass through the same registry and the same check;
those of `workers.papers` come by entry points, too, and are concord's own wherever parts are told apart.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import cache, cached_property
from importlib.metadata import Distribution as Installed
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

from concord.schemas.distribution import DISTRIBUTION, PACKAGE
from concord.schemas.errors import USERS_CODE_RAISES, InputError, error_line

Part = TypeVar("Part")

CACHE_FOLDER = "__pycache__"
"""Folder of files that Python and numba compile; it may change although no source file has."""


class Group(StrEnum):
    """Kinds of parts; the value is the group of their entry points."""

    COMMANDS = "concord.commands"
    ENGINES = "concord.engines"
    FEATURES = "concord.features"
    MEASURES = "concord.measures"
    METHODS = "concord.methods"
    MODELS = "concord.models"
    PAGES = "concord.pages"
    PENALTIES = "concord.penalties"
    READERS = "concord.readers"
    TASKS = "concord.tasks"
    TEMPLATES = "concord.templates"
    TOKENIZERS = "concord.tokenizers"
    TRAINERS = "concord.trainers"
    WRITERS = "concord.writers"


LABELLING_PARTS = (Group.ENGINES, Group.FEATURES, Group.MODELS, Group.TEMPLATES, Group.TOKENIZERS)
"""Kinds of parts that can change an answer. Parts of other kinds only make corpora, trained models or weights, which
are in a run's key themselves."""


class PartError(InputError):
    """A part of another package cannot be used; the message names the package, the entry point, and the fault."""


Check = Callable[[Any], str | None]
"""Function from a part to the reason why it is not valid; None if it is."""


def a_class(base: type) -> Check:
    """Check that a part is a class derived from ``base``."""

    def wrong(part: Any) -> str | None:
        good = isinstance(part, type) and issubclass(part, base)
        return None if good else f"want a class after {base.__name__}, not {_type_name(part)}"

    return wrong


def a_function(what: str) -> Check:
    """Check that a part is a function; ``what`` names its kind in messages."""

    def wrong(part: Any) -> str | None:
        return None if callable(part) and not isinstance(part, type) else f"want {what}, not {_type_name(part)}"

    return wrong


def an_entry(kind: type, settings: type | None = None) -> Check:
    """Check that a part is a named tuple ``kind`` whose first field is a function.

    If ``settings`` is given, its field of that name must be a class derived from it.
    """

    def wrong(part: Any) -> str | None:
        if not isinstance(part, kind):
            return f"want a {kind.__name__}, not {_type_name(part)}"
        entry: Any = part
        if not callable(entry[0]):
            return f"its {entry._fields[0]} is no function, but {_type_name(entry[0])}"
        if settings is None:
            return None
        problem = a_class(settings)(entry.settings)
        return None if problem is None else f"its settings: {problem}"

    return wrong


def _type_name(part: object) -> str:
    return f"the class {part.__name__}" if isinstance(part, type) else f"a {type(part).__name__}"


class Registry(Mapping[str, Part], Generic[Part]):
    """Read-only mapping of all parts of one kind by name.

    Concord's own come first: those of ``own`` in their order, then those with an entry point, sorted by name. Others
    follow, sorted by name.

    - ``group``: the kind.
    - ``own``: concord's own parts, but for those with an entry point.
    - ``wrong``: check of a part.

    Every access raises `PartError` where a package takes the name of one of concord's parts, or two packages claim the
    same name, or concord is installed under another name, too. A
    part that cannot be imported or fails the check raises it when it is asked for; the others stay usable.
    """

    def __init__(self, group: Group, own: Mapping[str, Part], wrong: Check) -> None:
        self.group = group
        self._own = own
        self.wrong = wrong
        self._ready: dict[str, Part] = {}

    def __getitem__(self, name: str) -> Part:
        """The part of that name. Raises `KeyError` if there is none, and `PartError`."""
        if name not in self._ready:
            entry = self._registered.get(name)
            part = self._own[name] if entry is None else _loaded(entry)
            problem = self.wrong(part)
            if problem is not None:
                raise PartError(f"{f'{self.group} {name!r}' if entry is None else label_of(entry)}: {problem}")
            self._ready[name] = part
        return self._ready[name]

    def __contains__(self, name: object) -> bool:
        return name in self._registered or name in self._own

    def __iter__(self) -> Iterator[str]:
        return iter([*self._own, *self._registered])

    def __len__(self) -> int:
        return len(self._own) + len(self._registered)

    def distribution(self, name: str) -> str:
        """Name of the distribution that has the part of that name. Raises `KeyError` if there is no such part."""
        if name in self._registered:
            return distribution_of(self._registered[name]).name
        if name in self._own:
            return DISTRIBUTION
        raise KeyError(name)

    def entry(self, name: str) -> EntryPoint:
        """The entry point of that name. Raises `KeyError` for a part that has none."""
        return self._registered[name]

    def name_of(self, part: Part) -> str:
        """Name of a registered part. Raises `PartError` if it is not registered.

        Loaded parts and parts of its own package are compared first, so that a broken part of another package does no
        harm.
        """
        package = _package(getattr(part, "__module__", ""))
        nearest = sorted(self._registered, key=lambda name: _package(self._registered[name].module) != package)
        for name in (*self._own, *self._ready, *nearest):
            if self[name] is part:
                return name
        raise PartError(f"{_type_name(part)} is not registered: no entry point of the group {self.group} leads to it")

    @cached_property
    def _registered(self) -> dict[str, EntryPoint]:
        """Entry points by name, concord's first."""
        by_name: dict[str, EntryPoint] = {}
        for entry in registered_entries():
            if entry.group != self.group:
                continue
            other = distribution_of(by_name[entry.name]) if entry.name in by_name else None
            if entry.name in self._own or (other is not None and other.name == DISTRIBUTION):
                raise PartError(f"{label_of(entry)}: concord has a part of that name itself; give yours another one")
            if other is not None:
                raise PartError(f"{label_of(entry)}: {other} claims the name, too; take one of both packages out")
            by_name[entry.name] = entry
        return by_name


class Distribution(NamedTuple):
    """An installed package, under the name by which it was installed."""

    name: str
    version: str

    def __str__(self) -> str:
        return f"{self.name} {self.version}"


@cache
def registered_entries() -> tuple[EntryPoint, ...]:
    """All installed entry points of concord's groups: concord's first, each part sorted by name, then by package.

    Raises `PartError` where another distribution registers modules of concord: one of before it had its name.
    """
    everything = entry_points()
    entries = [entry for group in Group for entry in everything.select(group=group)]
    for entry in entries:
        if _package(entry.module) == PACKAGE and not is_ours(entry):
            other = distribution_of(entry)
            raise PartError(
                f"package {other}: it is concord under another name than {DISTRIBUTION}; take it out with "
                f"`pip uninstall {other.name}`, and install {DISTRIBUTION} again"
            )
    return tuple(sorted(entries, key=lambda entry: (not is_ours(entry), entry.name, distribution_of(entry))))


def is_ours(entry: EntryPoint) -> bool:
    """Does an entry point lead to a part of concord itself? Raises `PartError` if it is of no installed package."""
    return distribution_of(entry).name == DISTRIBUTION


def distribution_of(entry: EntryPoint) -> Distribution:
    """The package of an entry point. Raises `PartError` if it is of no installed package."""
    if entry.dist is None:
        raise PartError(f"entry point {entry.group} {entry.name!r}: is of no installed package")
    return _named(entry.dist)


@cache
def _named(installed: Installed) -> Distribution:
    """Name and version of what is installed; each look at them reads its metadata again, half a millisecond."""
    return Distribution(installed.name, installed.version)


def label_of(entry: EntryPoint) -> str:
    """Text that names an entry point in messages."""
    return f"package {distribution_of(entry)}, entry point {entry.group} {entry.name!r} = {entry.value}"


def _package(module: str) -> str:
    """Top-level package of a module."""
    return module.partition(".")[0]


def _loaded(entry: EntryPoint) -> Any:
    try:
        return entry.load()
    except (ImportError, SyntaxError, *USERS_CODE_RAISES) as error:
        raise PartError(f"{label_of(entry)}: cannot be imported: {error_line(error)}") from error


# Parts with an entry point in keys


def own_entries(groups: Iterable[Group]) -> list[EntryPoint]:
    """The entry points of concord's own parts in these groups, in the order of `registered_entries`."""
    chosen_groups = set(groups)
    return [entry for entry in registered_entries() if entry.group in chosen_groups and is_ours(entry)]


def foreign_packages() -> list[Distribution]:
    """Installed packages that register parts of any kind, sorted."""
    return sorted({distribution_of(entry) for entry in registered_entries() if not is_ours(entry)})


def foreign_code(groups: Iterable[Group]) -> list[str]:
    """Name, version and digest of each package that registers a part in one of the groups; sorted.

    The digest covers these entry points and all files, except compiled ones, of the importable packages that they point
    into. Nothing is imported for it. Modules that those packages import from elsewhere are not covered.
    """
    chosen_groups, packages = set(groups), dict[Distribution, list[EntryPoint]]()
    for entry in registered_entries():
        if entry.group in chosen_groups and not is_ours(entry):
            packages.setdefault(distribution_of(entry), []).append(entry)
    return [f"{distribution}={_digest(entries)}" for distribution, entries in sorted(packages.items())]


def _digest(entries: Sequence[EntryPoint]) -> str:
    state = hashlib.sha256()
    for entry in sorted(entries, key=lambda entry: (entry.group, entry.name)):
        state.update(f"{entry.group}\0{entry.name}\0{entry.value}\0".encode())
    for package in sorted({_package(entry.module) for entry in entries}):
        for name, path in _files(package):
            content = path.read_bytes()
            state.update(f"{package}\0{name}\0{len(content)}\0".encode() + content)
    return state.hexdigest()


def _files(package: str) -> list[tuple[str, Path]]:
    """The files of a package or module, with their names in it; editable installs are found too.

    Empty for a package that is missing: the error comes when one of its parts is asked for.
    """
    spec = find_spec(package)
    if spec is None:
        return []
    if spec.submodule_search_locations is None:
        return [] if spec.origin is None else [(Path(spec.origin).name, Path(spec.origin))]
    folders = [Path(folder) for folder in spec.submodule_search_locations]
    files = ((path.relative_to(folder), path) for folder in folders for path in folder.rglob("*") if path.is_file())
    return sorted((name.as_posix(), path) for name, path in files if CACHE_FOLDER not in name.parts)
