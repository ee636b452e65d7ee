"""Nights of an output folder, as its record keeps them and `concord history` shows them."""

from __future__ import annotations

from pydantic import Field

from concord.schemas.run import Drift, Figures, RunReport

RECORD_FORMAT = 1
"""Version of a line of the record; lines of another version are left out."""


class NightLine(Figures):
    """A run, as a line of the record.

    - ``night``: its number; 1 is the first
    - ``time``: when it ended, ISO 8601 in UTC
    - ``user``, ``host``, ``commit``, ``flow_run``: who asked: user, machine, git commit of the folder it was asked
      from, and Prefect's flow run; null where there is none
    - ``asked``: what was asked for and its digests, as MLflow's parameters have it
    - ``documents``, ``labelled``, ``rejected``: documents with an answer, those labelled by this run, and rejects
    - ``failed``: shards that failed; nothing is published then
    - ``withheld``: was nothing published because too many documents were gone?
    - ``cancelled``: did a signal end the run? Nothing is published then, and documents are those in finished shards
    - ``certified``: fraction of the documents
    - ``seconds``: wall-clock time
    - ``drift``: with the figures beyond their thresholds alone; MLflow has the others
    - ``chart``: normal score and size of each figure, see `workers.drift.chart`; later nights are judged by them
    """

    format: int = RECORD_FORMAT
    night: int
    time: str
    user: str
    host: str
    commit: str | None = None
    flow_run: str | None = None
    mlflow_run: str
    asked: dict[str, str]
    documents: int
    labelled: int
    rejected: int
    failed: int
    withheld: bool = False
    cancelled: bool = False
    certified: float
    seconds: float
    drift: Drift | None = None
    chart: dict[str, tuple[float, float]] = Field(default_factory=dict)

    @classmethod
    def of(cls, night: int, time: str, report: RunReport, *, tags: dict[str, str], asked: dict[str, str]) -> NightLine:
        """The line of a run that ended as ``report`` says, by the tags of its MLflow run."""
        return cls(
            night=night,
            time=time,
            user=tags["mlflow.user"],
            host=tags["host"],
            commit=tags.get("mlflow.source.git.commit"),
            flow_run=tags.get("prefect.flow_run"),
            mlflow_run=report.mlflow_run,
            asked=asked,
            documents=report.documents,
            labelled=report.labelled,
            rejected=report.rejected,
            failed=report.shards_failed,
            withheld=report.withheld,
            cancelled=report.cancelled,
            certified=report.certified,
            seconds=report.seconds,
            drift=report.drift,
        )


class NightReport(Figures):
    """A night of `concord history`: its line, and what was asked for otherwise than in the night before."""

    line: NightLine
    changed: dict[str, tuple[str | None, str | None]]


class HistoryReport(Figures):
    """What ``concord history --json`` prints: nights of an output folder, the newest last.

    - ``kept``: nights in the record
    - ``unread``: its lines that cannot be read
    """

    out: str
    kept: int
    unread: int
    nights: tuple[NightReport, ...]


class MonthReport(Figures):
    """A month of an output folder.

    - ``nights``: runs that ended in it
    - ``failed``, ``drifted``: those with failed shards, and with drift
    - ``labelled``: documents that were labelled
    - ``page``: the file with the page; the same in HTML is beside it
    - ``markdown``: the page
    """

    out: str
    month: str
    nights: int
    failed: int
    drifted: int
    labelled: int
    page: str
    markdown: str
