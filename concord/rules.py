"""Constraints from a YAML file, or written in Python."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any

import yaml

from concord.workers.constraints.constraint_file import ROOT, load_constraints, parse_constraints
from concord.workers.constraints.constraint_writer import constraints_text
from concord.workers.constraints.declared import DeclaredConstraints
from concord.workers.storage.files import write_whole


class Constraints:
    """What is known of the labels beforehand: hard rules, and rules that cost something to break.

    ``entries`` are those of a YAML file, see ``docs/constraints.md``: a mapping each, with ``template``, ``weight``
    ("hard", or nats) and the template's own keys. Raises `InputError` with every mistake.

    >>> concord.Constraints([{"template": "starts_with", "labels": ["author", "editor"], "weight": "hard"}])
    Constraints: starts_with(author|editor)
    """

    def __init__(self, entries: Sequence[Mapping[str, Any]]) -> None:
        written = yaml.safe_dump({ROOT: [dict(entry) for entry in entries]}, sort_keys=False, allow_unicode=True)
        self._declared = parse_constraints(written, file="constraints")

    @classmethod
    def from_yaml(cls, path: str | PathLike[str]) -> Constraints:
        """Those of a file. Raises `InputError` with every mistake's file, line and entry, and `OSError`.

        >>> concord.Constraints.from_yaml("rules.yaml").titles
        ('numbers are unlabelled',)
        """
        return cls._of(load_constraints(Path(path)))

    @classmethod
    def _of(cls, declared: DeclaredConstraints) -> Constraints:
        made = cls(())
        made._declared = declared
        return made

    def __repr__(self) -> str:
        return f"Constraints: {', '.join(self.titles) or 'none'}"

    def __len__(self) -> int:
        return len(self.titles)

    @property
    def titles(self) -> tuple[str, ...]:
        """The name of each entry; one without a name is called by its template and labels."""
        return self._declared.titles

    def only(self, *titles: str) -> Constraints:
        """These entries alone."""
        return self._of(self._declared.only(titles))

    def without(self, title: str) -> Constraints:
        """All but one entry. Raises `KeyError` where there is none of that title."""
        return self._of(self._declared.without(title))

    def to_yaml(self) -> str:
        """A file's text that gives the same constraints."""
        return constraints_text(self._declared, {})

    def save(self, path: str | PathLike[str]) -> None:
        """Writes `to_yaml` into a file. Raises `OSError`."""
        write_whole(Path(path), self.to_yaml().encode())


Rules = Constraints | Sequence[str | PathLike[str]]
"""`Constraints`, or paths of YAML files."""


@contextmanager
def files_of(rules: Rules) -> Iterator[list[str]]:
    """Paths of YAML files; those of `Constraints` are there for the length of the block."""
    if not isinstance(rules, Constraints):
        yield [str(path) for path in rules]
        return
    if not len(rules):
        yield []
        return
    with tempfile.TemporaryDirectory(prefix="concord-") as folder:
        path = Path(folder) / "constraints.yaml"
        rules.save(path)
        yield [str(path)]
