"""Errors of sweeps that are done in part."""

from __future__ import annotations

from concord.flows.errors import ReportingError
from concord.schemas.errors import ShardsError
from concord.schemas.published import PapersReport
from concord.schemas.sweep import SweepReport, reasons_told


class SweepFailedError(ReportingError, ShardsError):
    """Some cells of a sweep failed; the others are done, and `report` has the reasons."""

    def __init__(self, report: SweepReport) -> None:
        reasons = reasons_told(report.failed)
        super().__init__(f"{len(report.failed)} of {report.cells} cells failed: {'; '.join(reasons)}", report)


class PapersFailedError(ReportingError, ShardsError):
    """Some cells of papers' tables failed; the page is written, and rows without a figure say why."""

    def __init__(self, report: PapersReport) -> None:
        reasons = reasons_told(report.failed)
        super().__init__(f"{len(report.failed)} cells of published tables failed: {'; '.join(reasons)}", report)
