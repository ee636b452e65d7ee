"""A model that ends the process that scores some documents, in a module that Ray's workers can import."""

from __future__ import annotations

import os
from pathlib import Path

from flows.cluster.cluster import Job
from schemas.document import Batch, Document
from schemas.potentials import Potentials
from schemas.run import RunKey, RunSettings
from tests.made_runs import HashModel
from workers.compiling.code import code_digest
from workers.constraints.constraint_set import Unconstrained
from workers.labelling.labelled import check_settings

LETHAL = "lethal"
"""Documents whose id starts so end whoever scores them."""


class LethalModel(HashModel):
    """Its ``potentials`` do not return where a lethal document is among the batch."""

    digest = "lethal"

    def potentials(self, batch: Batch) -> Potentials:
        if any(name.startswith(LETHAL) for name in batch.doc_ids):
            os._exit(1)
        return super().potentials(batch)


def lethal_job(store: Path = Path("nowhere")) -> Job:
    """A job whose warm-up kills its process."""
    settings = check_settings(RunSettings(engine="viterbi"))
    key = RunKey(settings=settings, model="lethal", constraints="none", code=code_digest())
    return Job(LethalModel(), Unconstrained(), key, store, Document.build(LETHAL, [["word"]]))
