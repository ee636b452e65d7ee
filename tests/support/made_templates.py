"""Templates as a file would have them, alone and mixed."""

from __future__ import annotations

from typing import Any

import numpy as np

from concord.schemas.labels import LabelSet
from concord.workers.constraints.templates.registry import TEMPLATES
from concord.workers.constraints.templates.template import Template
from tests.support.naive_templates import BIO, CASES, PLAIN


def keys(name: str, fields: dict[str, Any]) -> dict[str, Any]:
    """What a file would say of them."""
    if name != "consistent_last_word":
        return fields
    return fields | {"words": {"words": fields["words"], "ignore_case": False}}


def template(name: str, fields: dict[str, Any], weight: float | str = 1.5) -> Template:
    return TEMPLATES[name].model_validate({"weight": weight} | keys(name, fields))


ALL = [
    (labels, name, i)
    for name, (_, *both) in CASES.items()
    for labels, cases in zip((BIO, PLAIN), both, strict=True)
    for i in range(len(cases))
]


def fields_of(labels: LabelSet, name: str, case: int) -> dict[str, Any]:
    _, for_bio, for_plain = CASES[name]
    return (for_bio if labels is BIO else for_plain)[case]


def random_mixture(rng: np.random.Generator, labels: LabelSet) -> tuple[Template, ...]:
    """Two to five templates for `BIO` or `PLAIN`, hard and soft."""
    own = [entry for entry in ALL if entry[0] is labels]
    chosen = rng.choice(len(own), size=int(rng.integers(2, 6)), replace=False)
    mixed = []
    for i in chosen.tolist():
        weight = "hard" if rng.random() < 0.25 else float(rng.uniform(0.1, 3.0))
        mixed.append(template(own[i][1], fields_of(*own[i]) | {"name": f"c{i}"}, weight))
    return tuple(mixed)
