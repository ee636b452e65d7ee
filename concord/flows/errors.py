"""Errors of flows; those of parts stand beside the parts. Importing them imports nothing heavy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import ValidationError

from concord.schemas.errors import DriftedError, InputError, ServiceError, ShardsError, UsageError
from concord.schemas.run_report import RunReport

NAMED = 8
"""Largest number of failed shards that a message names; a report has them all."""


class RunFolderError(InputError):
    """An output folder that cannot be used: a URI, a folder where another run writes, or that of another corpus."""


class ReportingError(Exception):
    """Base of errors after work that was done, at least in part; ``report`` is the result of the call."""

    def __init__(self, message: str, report: Any) -> None:
        super().__init__(message)
        self.report = report


FORESEEN = (UsageError, InputError, ServiceError, DriftedError, ShardsError, ReportingError)
"""Errors whose message says all that is to be known; any other is a fault of concord's own."""


class ShardsFailedError(ReportingError, ShardsError):
    """Some shards failed. The others are done, and the same call tries the failed ones again.

    - ``report``: report of the whole run; its ``errors`` name the rows of each failed shard and the reason.
    """

    def __init__(self, report: RunReport) -> None:
        every = report.shards_done + report.shards_skipped + report.shards_failed
        super().__init__(failed_message(report.errors, every), report)


class DriftedRunError(ReportingError, DriftedError):
    """Figures of a run are beyond their thresholds, and the run was asked to fail then. The output is published."""

    def __init__(self, report: RunReport) -> None:
        assert report.drift is not None
        breaches = "; ".join(movement.line for movement in report.drift.breaches)
        super().__init__(
            f"{report.out} is published, but drifted from night {report.drift.against}: {breaches}", report
        )


class WithheldRunError(ReportingError, DriftedError):
    """More documents than a run may lose have no answer, as they are gone or rejects, or have lost all their entities.
    Readers still have the last run."""

    def __init__(self, report: RunReport) -> None:
        assert report.drift is not None
        first = f" (the first: {report.rejects[0].line})" if report.rejects else ""
        remedy = "see whether all files that were given are there and whole" if report.drift.gone else "look at them"
        super().__init__(
            f"{report.out} is not published: {report.drift.told_gone}{first}; {remedy}, or give --allow-gone", report
        )


class TakenBackError(DriftedError):
    """A run would give what a rollback took back. It has labelled nothing, and readers have what they had."""


class NothingLabelledError(ReportingError, InputError):
    """All documents of a corpus are rejects. They are published with their reasons; ``report`` is the run's report."""

    def __init__(self, reason: str, report: RunReport) -> None:
        super().__init__(f"none of the {report.rejected} documents could be labelled: {reason}", report)


class UntrackedError(ReportingError, ServiceError):
    """MLflow went away during the run. The output is finished; the same call logs the missing figures."""


class TrackingError(ServiceError):
    """MLflow could not be reached, or does not know the run or model that was asked for."""


class PrefectError(ServiceError):
    """Prefect's API could not be reached."""


class UnwatchedError(ReportingError, PrefectError):
    """Prefect's API went away while the flow ran. The work is done."""


def failed_message(errors: Sequence[str], shards: int, *, of: str = "shards") -> str:
    """Message with the number of failed shards (or other units) out of all, and the reasons of the first `NAMED`."""
    more = [f"and {len(errors) - NAMED} more"] if len(errors) > NAMED else []
    return f"{len(errors)} of {shards} {of} failed: {'; '.join([*errors[:NAMED], *more])}"


def faults(error: ValidationError) -> str:
    """Errors of a pydantic validation, in one line."""
    return "; ".join(
        ": ".join(filter(None, (".".join(map(str, e["loc"])), e["msg"].removeprefix("Value error, "))))
        for e in error.errors()
    )
