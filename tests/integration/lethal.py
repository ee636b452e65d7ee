"""A model and a vocabulary that end the process that uses them on some documents, where Ray's workers import them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from concord.schemas.document import Batch, Document
from concord.schemas.potentials import Potentials
from concord.schemas.run import RunKey, RunSettings
from concord.workers.compiling.kept_digests import code_digest
from concord.workers.constraints.constraint_set import Unconstrained
from concord.workers.labelling.labelled import check_settings
from concord.workers.models import crf
from concord.workers.models.crf import CrfModel, load
from concord.workers.remote.label import LabelParts
from concord.workers.storage.storage import FolderStorage
from tests.support.made_runs import HashModel

LETHAL = "lethal"
"""Documents whose id starts so end whoever scores them."""


class LethalModel(HashModel):
    """Its ``potentials`` do not return where a lethal document is among the batch."""

    digest = "lethal"

    def potentials(self, batch: Batch) -> Potentials:
        if any(name.startswith(LETHAL) for name in batch.doc_ids):
            os._exit(1)
        return super().potentials(batch)


def lethal_job(store: Path = Path("nowhere")) -> LabelParts:
    """A job whose warm-up kills its process."""
    settings = check_settings(RunSettings(engine="viterbi"))
    key = RunKey(settings=settings, model="lethal", constraints="none", code=code_digest())
    return LabelParts(LethalModel(), Unconstrained(), key, FolderStorage(store), Document.build(LETHAL, [["word"]]))


class LethalWords:
    """Knows no word, and does not return where a lethal one is among them."""

    def known(self, words: Sequence[str]) -> NDArray[np.bool_]:
        if any(word.startswith(LETHAL) for word in words):
            os._exit(1)
        return np.zeros(len(words), np.bool_)


LETHAL_DOCUMENTS = "LETHAL_DOCUMENTS"
"""The variable that names the documents which `lethal_app` cannot live with, with commas between them."""


@dataclass(frozen=True, eq=False)
class LethalCrf(CrfModel):
    """A trained CRF whose ``potentials`` do not return where one of these documents is among the batch."""

    lethal: frozenset[str] = frozenset()

    def potentials(self, batch: Batch) -> Potentials:
        if not self.lethal.isdisjoint(batch.doc_ids):
            os._exit(1)
        return super().potentials(batch)


def lethal_app() -> None:
    """The command line, whose CRFs are lethal."""
    from concord.flows.cli.app import app

    names = frozenset(os.environ[LETHAL_DOCUMENTS].split(","))
    vars(crf)["load"] = lambda folder: LethalCrf(**vars(load(folder)), lethal=names)  # to which the entry point leads
    app()
