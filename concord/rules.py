"""Constraints, from a YAML file or written in Python."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import yaml

from concord.flows.inputs.in_python import several, speaks_python
from concord.workers.constraints.constraint_file import ROOT_KEY, load_constraints, parse_constraints
from concord.workers.constraints.constraint_writer import constraints_text
from concord.workers.constraints.declared import DeclaredConstraints
from concord.workers.storage.files import write_whole


class Constraints:
    """Declared constraints on labels: hard rules, and soft rules with a price in nats.

    ``entries`` are those of a YAML file, see ``docs/constraints.md``. Each is a mapping with ``template``, ``weight``
    ("hard", or nats) and the template's own keys. Raises `InputError`, which lists all mistakes.

    >>> concord.Constraints([{"template": "starts_with", "labels": ["author", "editor"], "weight": "hard"}])
    Constraints: starts_with(author|editor)
    """

    def __init__(self, entries: Sequence[Mapping[str, Any]]) -> None:
        written = yaml.safe_dump({ROOT_KEY: [dict(entry) for entry in entries]}, sort_keys=False, allow_unicode=True)
        self._declared = parse_constraints(written, file="constraints")

    @classmethod
    @speaks_python
    def from_yaml(cls, path: str | PathLike[str]) -> Constraints:
        """The constraints of a YAML file, a path or URI.

        Raises `InputError` with file, line and entry of each mistake.

        >>> concord.Constraints.from_yaml("rules.yaml").titles
        ('numbers are unlabelled',)
        """
        return cls._of(load_constraints(fspath(path)))

    @classmethod
    def _of(cls, declared: DeclaredConstraints) -> Constraints:
        rules = cls(())
        rules._declared = declared
        return rules

    def __repr__(self) -> str:
        return f"Constraints: {', '.join(self.titles) or 'none'}"

    def __len__(self) -> int:
        return len(self.titles)

    @property
    def titles(self) -> tuple[str, ...]:
        """The name of each entry; the default is made of its template and labels."""
        return self._declared.titles

    def only(self, *titles: str) -> Constraints:
        """Constraints with only these entries."""
        return self._of(self._declared.only(titles))

    def without(self, title: str) -> Constraints:
        """Constraints without one entry. Raises `KeyError` where there is no entry of that title."""
        return self._of(self._declared.without(title))

    def to_yaml(self) -> str:
        """Text of a YAML file with the same constraints."""
        return constraints_text(self._declared, {})

    def save(self, path: str | PathLike[str]) -> None:
        """Writes the text of `to_yaml` to a file. Raises `OSError`."""
        write_whole(Path(path), self.to_yaml().encode())


Rules = Constraints | str | PathLike[str] | Sequence[str | PathLike[str]]
"""`Constraints`, or YAML files: a path, or several."""


@contextmanager
def files_of(rules: Rules) -> Iterator[list[str]]:
    """Paths of YAML files; `Constraints` are written to a file that exists only inside the ``with`` block."""
    if not isinstance(rules, Constraints):
        yield [fspath(path) for path in several(rules)]
        return
    if not len(rules):
        yield []
        return
    with tempfile.TemporaryDirectory(prefix="concord-") as folder:
        path = Path(folder) / "constraints.yaml"
        rules.save(path)
        yield [str(path)]
