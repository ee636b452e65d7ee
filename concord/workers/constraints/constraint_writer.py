"""Writer of constraint files, which `constraint_file` reads back as the same constraints."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from concord.workers.constraints.constraint_file import ROOT_KEY
from concord.workers.constraints.declared import DeclaredConstraints
from concord.workers.constraints.templates.registry import TEMPLATES
from concord.workers.constraints.templates.template import HARD_NAMES, Template


def constraints_text(constraints: DeclaredConstraints, comments: Mapping[str, str], remarks: Sequence[str] = ()) -> str:
    """The constraints as YAML, each with its name.

    ``comments`` are lines above the constraints, by name; ``remarks`` are lines above all of them.
    """
    entries = zip(constraints.titles, constraints.templates, strict=True)
    above = "".join(f"{_commented(remark)}\n" for remark in remarks)
    written = "\n".join(_entry(title, template, comments.get(title)) for title, template in entries)
    return f"{above}{ROOT_KEY}:\n{written}" if written else f"{above}{ROOT_KEY}: []\n"


def _entry(title: str, template: Template, comment: str | None) -> str:
    content: dict[str, Any] = {"template": TEMPLATES.name_of(type(template)), "name": title}
    content |= template.model_dump(mode="json", exclude_defaults=True, exclude={"name"})
    if content["weight"] == math.inf:
        content["weight"] = HARD_NAMES[0]
    lines = yaml.safe_dump([content], sort_keys=False, allow_unicode=True, width=100).splitlines()
    above = [] if comment is None else [_commented(comment)]
    return "".join(f"  {line}\n" for line in [*above, *lines])


def _commented(text: str) -> str:
    """Text as a comment line of YAML; a name may hold characters that a comment cannot, and these are escaped."""
    return f"# {text if text.isprintable() else ascii(text)}"
