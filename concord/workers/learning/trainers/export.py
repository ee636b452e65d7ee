"""Export of a CRF's model folder as a CRFsuite file."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from concord.workers.learning.trainers.crfsuite import CRFSUITE_FILE
from concord.workers.learning.trainers.crfsuite_writer import write_crfsuite
from concord.workers.models.attribute_names import read_names
from concord.workers.models.crf import CrfModel, load
from concord.workers.models.crfsuite_file import CrfsuiteWeights
from concord.workers.models.folder import ModelError
from concord.workers.storage.files import write_whole


def export_crfsuite(folder: Path, out: Path) -> CrfModel:
    """Writes the CRF of a folder as a CRFsuite file: a copy of CRFsuite's own file if CRFsuite trained the model.

    Its attributes are the strings of `workers.features.attributes`; its labels are those of the chain, BILOU if it was
    trained so. Raises `ModelError` where the folder is not a
    complete CRF or does not keep the names of its attributes, and `OutputError`.
    """
    model = load(folder)
    if model.pairs is not None:
        raise ModelError(
            f"{folder}: the model has features of pairs of labels, which CRFsuite has not; leave out the part pairs:"
        )
    if CRFSUITE_FILE in model.manifest.files:
        write_whole(out, (folder / CRFSUITE_FILE).read_bytes())
        return model
    start, label, weight = model.weights.sparse
    known = np.flatnonzero(~model.missing)
    number = np.zeros(len(model.names), np.int32)
    number[known] = np.arange(len(known))
    weights = CrfsuiteWeights(
        tuple(model.names[i] for i in known.tolist()),
        tuple(read_names(folder, model.manifest, len(start) - 1).to_pylist()),
        np.repeat(np.arange(len(start) - 1, dtype=np.int32), np.diff(start)),
        number[label],
        weight,
        model.transition[np.ix_(known, known)],
    )
    write_crfsuite(out, weights)
    return model
