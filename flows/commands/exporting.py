"""Models as files of other programs: what `concord export` writes."""

from __future__ import annotations

from pathlib import Path

from concord.flows.apart import check_file_place
from concord.workers.learning.trainers.export import export_crfsuite
from concord.workers.models.crf import CrfModel


def export_model(folder: Path, out: Path) -> CrfModel:
    """The CRF in a folder as CRFsuite's file ``out``. Raises as `export_crfsuite`, and `OutputError`."""
    check_file_place(out, [folder])
    return export_crfsuite(folder, out)
