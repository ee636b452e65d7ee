"""Sweeps: each cell of a file is trained, labelled and measured once."""

from __future__ import annotations

from concord.flows.inputs.jobs import folder_place
from concord.flows.inputs.output_places import check_output_place
from concord.flows.watched import watched
from concord.schemas.folders import FolderKind
from concord.schemas.learning_requests import SweepRequest
from concord.schemas.sweep import SweepReport


@watched("sweep", SweepRequest, run_name="{file}")
def sweep(request: SweepRequest) -> SweepReport:
    """Does every cell of a sweep file without a result in the folder ``out``, on Ray.

    Cells of one model train it once. A cell that fails is a row with its reason, and the others go on. The same call
    again does only the rest.

    Raises `SweepFileError` with every mistake in the file before anything runs, and `SweepFailedError`, with the
    report, if a cell has failed.
    """
    folder = folder_place(request.out)
    check_output_place(folder, [request.file, request.reuse], makes=FolderKind.SWEEP)

    from concord.flows.sweeping.run_sweep import run_sweep

    return run_sweep(request.model_copy(update={"out": folder}))
