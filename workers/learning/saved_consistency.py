"""Label consistency as part of a model folder: counts and scales in the manifest's extras."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError

from workers.constraints.consistency import LabelConsistency, PairCounts, Scales
from workers.models.folder import MANIFEST, ModelError

EXTRA = "consistency"


class _Saved(BaseModel):
    model_config = ConfigDict(extra="forbid")

    types: tuple[str, ...]
    exact: list[list[int]]
    subsequence: list[list[int]]
    unlabelled: list[int]
    fold_case: bool
    exact_scale: float
    subsequence_scale: float
    unlabelled_scale: float


def consistency_extra(consistency: LabelConsistency) -> dict[str, Any]:
    """What to put under `EXTRA` in a model's manifest."""
    counts = consistency.counts
    return _Saved(
        types=counts.types,
        exact=counts.exact.tolist(),
        subsequence=counts.subsequence.tolist(),
        unlabelled=counts.unlabelled.tolist(),
        fold_case=counts.fold_case,
        exact_scale=consistency.scales.exact,
        subsequence_scale=consistency.scales.subsequence,
        unlabelled_scale=consistency.scales.unlabelled,
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
    counted = [np.array(counts, np.int64) for counts in (saved.exact, saved.subsequence, saved.unlabelled)]
    scales = Scales(saved.exact_scale, saved.subsequence_scale, saved.unlabelled_scale)
    counts = PairCounts(saved.types, counted[0], counted[1], counted[2], saved.fold_case)
    return LabelConsistency(counts, scales)
