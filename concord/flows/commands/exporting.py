"""Models as files of other programs: `concord export`."""

from __future__ import annotations

from pathlib import Path

from concord.flows.inputs.output_places import check_file_place
from concord.workers.learning.trainers.export import export_crfsuite
from concord.workers.models.crf import CrfModel


def export_model(folder: Path, out: Path) -> CrfModel:
    """Writes the CRF of a folder as CRFsuite's file ``out``. Raises the errors of `export_crfsuite`, `OutputError`."""
    check_file_place(out, [folder])
    return export_crfsuite(folder, out)
