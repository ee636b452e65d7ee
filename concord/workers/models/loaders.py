"""Registry of model loaders, by the kind of model that a manifest names.

All of them come by entry points, ours too: a run imports the model that it labels with, and reads no other.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from concord.workers.models.folder import ModelError, check_model_folder
from concord.workers.models.model import Model
from concord.workers.parts import Group, Registry, a_function

Loader = Callable[[Path], Model]
"""Reads a model folder. Raises `ModelError`."""

LOADERS: Registry[Loader] = Registry(Group.MODELS, {}, a_function("a function of a folder that loads a model"))


def load_model(folder: Path) -> Model:
    """Loads a model of any kind from its folder. Raises `ModelError`."""
    path = check_model_folder(folder)
    try:
        kind = json.loads(path.read_bytes())["kind"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ModelError(f"{path}: no manifest of a concord model ({error}); train again") from error
    if not isinstance(kind, str) or kind not in LOADERS:
        kinds = ", ".join(sorted(LOADERS))
        raise ModelError(f"{path}: a model of unknown kind {kind!r}; train again (this concord loads {kinds})")
    return LOADERS[kind](folder)
