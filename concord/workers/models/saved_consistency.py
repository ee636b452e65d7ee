"""Label consistency saved in a model folder: its counts and scales, in the extras of the manifest."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Self

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from concord.schemas.potentials import LARGEST_WEIGHT
from concord.workers.constraints.consistency import LabelConsistency, PairCounts, Scales
from concord.workers.models.folder import MANIFEST, ModelError, parse_manifest

EXTRA = "consistency"


PairCount = Annotated[int, Field(ge=0, le=10**15)]
SavedScale = Annotated[float, Field(ge=0, le=LARGEST_WEIGHT)]


class _Saved(BaseModel):
    model_config = ConfigDict(extra="forbid")

    types: tuple[str, ...]
    exact: list[list[PairCount]]
    subsequence: list[list[PairCount]]
    unlabelled: list[PairCount]
    fold_case: bool
    exact_scale: SavedScale
    subsequence_scale: SavedScale
    unlabelled_scale: SavedScale

    @model_validator(mode="after")
    def _tables_are_of_the_types(self) -> Self:
        size = len(self.types)
        for table in (self.exact, self.subsequence, [self.unlabelled] * size):
            if [len(row) for row in table] != [size] * size:
                raise ValueError(f"a table of counts is not of {size} types")
        if size == 0 and self.unlabelled:
            raise ValueError("there are counts of no type")
        if self.exact != [list(column) for column in zip(*self.exact, strict=True)]:
            raise ValueError("the table exact is not symmetric")
        return self


def consistency_extra(consistency: LabelConsistency) -> dict[str, Any]:
    """Value of the manifest's extra `EXTRA`, as JSON-able data."""
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
    manifest = parse_manifest(path)
    found = manifest.extras.get(EXTRA)
    if found is None:
        return None
    try:
        saved = _Saved.model_validate(found)
    except ValidationError as error:
        first = error.errors()[0]
        raise ModelError(f"{path}: extras.{EXTRA}: {first['msg']}; train the model again") from error
    if saved.types != manifest.label_set.types:
        raise ModelError(f"{path}: extras.{EXTRA}: counted for other types than the labels'; train the model again")
    size = len(saved.types)
    exact, subsequence = (np.array(counts, np.int64).reshape(size, size) for counts in (saved.exact, saved.subsequence))
    scales = Scales(saved.exact_scale, saved.subsequence_scale, saved.unlabelled_scale)
    counts = PairCounts(saved.types, exact, subsequence, np.array(saved.unlabelled, np.int64), saved.fold_case)
    return LabelConsistency(counts, scales)
