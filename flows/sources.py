"""Models and constraints as the user names them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from flows.tracking import Tracking
from workers.constraints.constraint_file import load_constraints
from workers.constraints.constraint_set import ConstraintSet, Unconstrained
from workers.constraints.declared import JoinedConstraints
from workers.learning.saved_consistency import saved_consistency
from workers.models.loaders import load_model
from workers.models.model import Model

REGISTRY = "models:/"


class OpenModel(NamedTuple):
    """A model that is ready, and the folder it was read from."""

    model: Model
    folder: Path


def open_model(reference: str, tracking: Tracking) -> OpenModel:
    """A model folder, or ``models:/NAME@ALIAS`` in the registry. Raises `ModelError`, `TrackingError`."""
    folder = tracking.fetch(reference) if reference.startswith(REGISTRY) else Path(reference).expanduser()
    return OpenModel(load_model(folder), folder)


def open_constraints(opened: OpenModel, files: Sequence[str], *, consistency: bool) -> ConstraintSet:
    """The label consistency trained with the model (unless switched off), and what the files declare.

    Raises `ConstraintError` and `OSError`.
    """
    parts: list[ConstraintSet] = []
    trained = saved_consistency(opened.folder) if consistency else None
    if trained is not None:
        parts.append(trained)
    parts += [load_constraints(Path(name)).bind(opened.model.labels) for name in files]
    if not parts:
        return Unconstrained()
    return parts[0] if len(parts) == 1 else JoinedConstraints(tuple(parts))
