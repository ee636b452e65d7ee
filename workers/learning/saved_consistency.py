"""Label consistency as part of a model folder: counts and scales in the manifest's extras."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError

from workers.constraints.consistency import LabelConsistency, PairCounts
from workers.models.folder import MANIFEST, ModelError

EXTRA = "consistency"


class _Saved(BaseModel):
    model_config = ConfigDict(extra="forbid")

    types: tuple[str, ...]
    exact: list[list[int]]
    subsequence: list[list[int]]
    fold_case: bool
    exact_scale: float
    subsequence_scale: float


def consistency_extra(consistency: LabelConsistency) -> dict[str, Any]:
    """What to put under `EXTRA` in a model's manifest."""
    counts = consistency.counts
    return _Saved(
        types=counts.types,
        exact=counts.exact.tolist(),
        subsequence=counts.subsequence.tolist(),
        fold_case=counts.fold_case,
        exact_scale=consistency.exact_scale,
        subsequence_scale=consistency.subsequence_scale,
    ).model_dump(mode="json")


def saved_consistency(folder: Path) -> LabelConsistency | None:
    """The label consistency saved with a model; None where it was trained without. Raises `ModelError`."""
    path = folder / MANIFEST
    found = json.loads(path.read_bytes()).get("extras", {}).get(EXTRA)
    if found is None:
        return None
    try:
        saved = _Saved.model_validate(found)
    except ValidationError as error:
        first = error.errors()[0]
        raise ModelError(f"{path}: extras.{EXTRA}: {first['msg']}; train the model again") from error
    exact, subsequence = np.array(saved.exact, np.int64), np.array(saved.subsequence, np.int64)
    counts = PairCounts(saved.types, exact, subsequence, saved.fold_case)
    return LabelConsistency(counts, saved.exact_scale, saved.subsequence_scale)
