"""Two-stage CRF: two linear-chain CRFs, the second of which sees the first one's labels elsewhere in the document.

Krishnan & Manning (2006): non-local features come from the first model's labels, so decoding remains that of a chain.
Label consistency can be added to the second model's scores as to any model's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from concord.schemas.document import Batch
from concord.schemas.labels import Labels, LabelSet
from concord.schemas.potentials import Potentials
from concord.schemas.settings import TrainerSettings
from concord.workers.features.templates import ANSWER_COLUMNS
from concord.workers.models import crf
from concord.workers.models.answers import answer_columns
from concord.workers.models.crf import CrfModel
from concord.workers.models.folder import Manifest, manifest_of, read_manifest, write_manifest
from concord.workers.models.model import viterbi_labels
from concord.workers.models.saved_files import FolderModel, check_labels, files_inside

KIND = "two-stage-crf"
FIRST_STAGE, SECOND_STAGE = STAGES = ("first", "second")
"""Folders of the two models."""


@dataclass(frozen=True, eq=False)
class TwoStageModel(FolderModel):
    """A two-stage model: ``first`` reads columns of the corpus, ``second`` reads `ANSWER_COLUMNS` as well."""

    first: CrfModel
    second: CrfModel
    manifest: Manifest

    @property
    def labels(self) -> LabelSet:
        """The labels (L) of the second model."""
        return self.second.labels

    @property
    def columns(self) -> tuple[str, ...]:
        """The token columns that a corpus must have, sorted."""
        return tuple(sorted({*self.first.columns, *self.second.columns} - set(ANSWER_COLUMNS)))

    def potentials(self, batch: Batch) -> Potentials:
        """Local scores of the second model: unary (N, L), nats, without legality. Raises as `CrfModel.potentials`."""
        return self.second.potentials(answered(batch, self.first.labels, viterbi_labels(self.first, batch)))

    def known(self, words: Sequence[str]) -> NDArray[np.bool_]:
        """(V,) which words the first model has weights for, see `CrfModel.known`."""
        return self.first.known(words)


def answered(batch: Batch, labels: LabelSet, found: Labels) -> Batch:
    """The batch with `ANSWER_COLUMNS` added, which are made from the labels (N,) of the first model."""
    return replace(batch, columns={**batch.columns, **answer_columns(batch, labels, found)})


def save(
    out: Path, stages: tuple[CrfModel, CrfModel], *, settings: TrainerSettings, training: Mapping[str, Any]
) -> TwoStageModel:
    """Writes the manifest of two models that are already saved in the subfolders `STAGES`. Raises `OutputError`."""
    first, second = stages
    files = [file for name, model in zip(STAGES, stages, strict=True) for file in files_inside(name, model.manifest)]
    manifest = manifest_of(
        out,
        KIND,
        second.labels,
        files=files,
        settings=settings,
        training=training,
        libraries=(),
        features=first.manifest.features,
        templates=second.manifest.templates,
    )
    write_manifest(out, manifest)
    return TwoStageModel(first, second, manifest)


def load(folder: Path | str) -> TwoStageModel:
    """Two-stage model of a folder. Raises `ModelError` where it, or one of its two models, is not complete."""
    folder = Path(folder)
    manifest = read_manifest(folder, kind=KIND)
    first, second = (crf.load(folder / name) for name in STAGES)
    check_labels(folder / SECOND_STAGE, second.labels, manifest)
    return TwoStageModel(first, second, manifest)
