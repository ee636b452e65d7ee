"""A model that takes its time, and no processor, where Ray's workers import it."""

from __future__ import annotations

import time
from pathlib import Path

from concord.schemas.document import Batch, Document
from concord.schemas.potentials import Potentials
from concord.schemas.run import RunKey, RunSettings
from concord.workers.compiling.kept_digests import code_digest
from concord.workers.constraints.constraint_set import Unconstrained
from concord.workers.labelling.labelled import check_settings
from concord.workers.remote.label import LabelParts
from concord.workers.storage.storage import FolderStorage
from tests.support.made_runs import HashModel


class SlowModel(HashModel):
    """Its scores come some seconds late."""

    digest = "slow"

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def potentials(self, batch: Batch) -> Potentials:
        time.sleep(self.seconds)
        return super().potentials(batch)


def slow_job(store: Path, *, seconds: float) -> LabelParts:
    """A job with kernels to warm up."""
    settings = check_settings(RunSettings(engine="viterbi"))
    key = RunKey(settings=settings, model="slow", constraints="none", code=code_digest())
    return LabelParts(SlowModel(seconds), Unconstrained(), key, FolderStorage(store), Document.build("d", [["word"]]))
