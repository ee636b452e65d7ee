"""Nights of an output folder, as its record keeps them and `concord history` shows them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import Field

from concord.schemas.blocks import AnyBlock, Headline, Remark, Table, Tone, figure_columns, row, text_columns
from concord.schemas.changes import AddedChanges, ChangeCounts
from concord.schemas.drift import Drift, Movement, Otherwise, listed, otherwise_line
from concord.schemas.run import ShardReport
from concord.schemas.run_report import RunReport
from concord.schemas.shown import Report

DIFFERENCES = ("new", "gone", "other text", "other answer")
"""Heads of the columns of `NightReport.counts`."""

RECORD_FORMAT = 1
"""Version of a line of the record; lines of another version are left out."""


class NightLine(Report):
    """A run, as a line of the record.

    - ``night``: its number; 1 is the first
    - ``time``: when it ended, ISO 8601 in UTC
    - ``user``, ``host``, ``commit``, ``flow_run``: who asked: user, machine, git commit of the folder it was asked
      from, and Prefect's flow run; null where there is none
    - ``asked``: what was asked for and its digests, as MLflow's parameters have it
    - ``documents``, ``labelled``, ``rejected``: documents with an answer, those labelled by this run, and rejects
    - ``reused``: those among ``labelled`` that took an answer of the last run
    - ``unscored``: those among ``labelled`` that kept an answer without being scored
    - ``failed``: shards that failed; nothing is published then
    - ``withheld``: was nothing published because too many documents were gone?
    - ``cancelled``: did a signal end the run? Nothing is published then, and documents are those in finished shards
    - ``stopped``: the error that ended the run before it labelled; nothing is published then, and there are no counts
    - ``certified``: fraction of the documents
    - ``seconds``: wall-clock time
    - ``steps``: seconds of the workers by step, see `schemas.run.Seconds`; empty where all was done before
    - ``changes``: what it, or a rollback, added to the feed of changes, under its number there
    - ``differences``: what decides answers otherwise than in the night that readers had before
    - ``drift``: with the figures beyond their thresholds alone; MLflow has the others
    - ``chart``: normal score and size of each figure, see `workers.drift.chart`; later nights are judged by them
    - ``manifest``: key of the manifest that readers had then; empty where nothing was published
    - ``rolled_back_to``: of a rollback, which labels nothing, the night that readers have again; 0 where that one is
      not known; null of a run
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
    reused: int = 0
    unscored: int = 0
    rejected: int
    failed: int
    withheld: bool = False
    cancelled: bool = False
    stopped: str = ""
    certified: float
    seconds: float
    steps: dict[str, float] = Field(default_factory=dict)
    changes: AddedChanges | None = None
    differences: tuple[str, ...] = ()
    drift: Drift | None = None
    chart: dict[str, tuple[float, float]] = Field(default_factory=dict)
    manifest: str = ""
    rolled_back_to: int | None = None

    @property
    def decoded(self) -> int:
        """Documents that this run labelled without an answer to keep."""
        return self.labelled - self.reused

    @property
    def published(self) -> bool:
        """Do readers see the run, until another one is published?"""
        return not (self.failed or self.withheld or self.cancelled or self.stopped)

    @property
    def end(self) -> str:
        """How the run ended, in a word or two."""
        if self.rolled_back_to is not None:
            return "rolled back"
        if self.cancelled:
            return "cancelled"
        if self.failed:
            return f"{self.failed:,} shards failed"
        if self.withheld:
            return "withheld"
        return "stopped" if self.stopped else "published"

    @classmethod
    def of(cls, night: int, time: str, report: RunReport, *, tags: dict[str, str], asked: dict[str, str]) -> NightLine:
        """The line of a run that ended as ``report`` says, by the tags of its MLflow run."""
        return cls(
            night=night,
            time=time,
            **_who_asked(tags),
            mlflow_run=report.mlflow_run,
            asked=asked,
            documents=report.documents,
            labelled=report.labelled,
            reused=report.reuse.documents,
            unscored=report.reuse.kept + report.reuse.stood,
            rejected=report.rejected,
            failed=report.shards_failed,
            withheld=report.withheld,
            cancelled=report.cancelled,
            certified=report.certified,
            seconds=report.seconds,
            steps=report.steps,
            changes=report.changes,
            differences=() if report.before is None else report.before.differences,
            drift=report.drift,
        )

    @classmethod
    def of_stopped(
        cls, night: int, time: str, message: str, *, tags: Mapping[str, str], withheld: bool, cancelled: bool
    ) -> NightLine:
        """The line of a run that ended before it labelled, with that message of its error."""
        return cls(
            night=night,
            time=time,
            **_who_asked(tags),
            mlflow_run="",
            asked={},
            documents=0,
            labelled=0,
            rejected=0,
            failed=0,
            withheld=withheld,
            cancelled=cancelled,
            stopped=message,
            certified=0.0,
            seconds=0.0,
        )

    @classmethod
    def of_rollback(
        cls,
        night: int,
        time: str,
        run: NightLine | None,
        totals: ShardReport,
        *,
        changes: AddedChanges | None,
        tags: dict[str, str],
        seconds: float,
    ) -> NightLine:
        """The line of a rollback, by its tags, and by the line and the counts of the run that readers have again."""
        return cls(
            night=night,
            time=time,
            **_who_asked(tags),
            mlflow_run="" if run is None else run.mlflow_run,
            asked={} if run is None else run.asked,
            documents=totals.documents,
            labelled=0,
            rejected=totals.rejected,
            failed=0,
            certified=totals.certified / max(totals.documents, 1),
            seconds=seconds,
            changes=changes,
            rolled_back_to=0 if run is None else run.night,
        )


def _who_asked(tags: Mapping[str, str]) -> dict[str, Any]:
    """User, machine, commit and flow run of a line, by the tags of a run."""
    return {
        "user": tags["mlflow.user"],
        "host": tags["host"],
        "commit": tags.get("mlflow.source.git.commit"),
        "flow_run": tags.get("prefect.flow_run"),
    }


class NightReport(Report):
    """A night of `concord history`: its line, and what was asked for otherwise than in the night before."""

    line: NightLine
    changed: Otherwise

    @property
    def counts(self) -> tuple[str, ...]:
        """Documents that are new, gone, with another text and with another answer; blank where nothing is compared."""
        drift = self.line.drift
        return ("",) * 4 if drift is None else tuple(f"{count:,}" for count in drift.counts.values())

    @property
    def breaches(self) -> tuple[Movement, ...]:
        """Figures beyond their thresholds."""
        return () if self.line.drift is None else self.line.drift.breaches

    def blocks(self) -> Iterator[AnyBlock]:
        """What there is to say about the night beside its counts."""
        yield Headline(f"night {self.line.night}: {self.line.labelled:,} of {self.line.documents:,} documents labelled")
        yield from self.lines()

    def lines(self) -> Iterator[Remark]:
        """How it ended before its end, what is gone, what was asked for otherwise than before, and what drifted."""
        line, drift = self.line, self.line.drift
        gone = "" if drift is None else drift.told_gone
        if line.withheld and gone:
            gone += "; nothing was published"
        back = "" if line.rolled_back_to is None else f"readers have {night_name(line.rolled_back_to)} again"
        parts = {
            "rolled back": back,
            "stopped before it labelled": line.stopped,
            "cancelled": f"{line.labelled:,} documents were labelled, nothing was published" if line.cancelled else "",
            "failed": f"{line.failed:,} shards; nothing was published" if line.failed else "",
            "gone": gone,
            "asked for": otherwise_line(self.changed, line.differences),
            "drift": "; ".join(movement.sentence for movement in self.breaches),
        }
        yield from (Remark(f"night {line.night}: {what}: {text}") for what, text in parts.items() if text)


def night_name(night: int) -> str:
    """A night by its number; 0 for one whose number is not known."""
    return f"night {night}" if night else "the run before"


class NightCause(Report):
    """Why two runs differ: ``differs``, in a few words, and ``remedy``, how to have it as it was."""

    differs: str
    remedy: str


class RollbackReport(Report):
    """What ``concord rollback --json`` prints.

    - ``night``, ``time``: the night that readers have again, and when it ended, ISO 8601 in UTC; 0 and null where the
      folder's record does not say
    - ``instead_of``: the night that they had before; 0 where the record does not say
    - ``documents``: documents with an answer
    - ``changes``: what this adds to the feed of changes; null where nothing changed, or all was done before
    - ``version``: version of the Delta table; null where there is none
    - ``again``: was this done before by the same command?
    - ``causes``: what made the two runs differ, and what keeps it from coming back
    """

    out: str
    night: int
    time: str | None = None
    instead_of: int
    documents: int
    changes: AddedChanges | None = None
    version: int | None = None
    again: bool = False
    causes: tuple[NightCause, ...] = ()

    @property
    def headline(self) -> str:
        """Which night readers have."""
        when = "" if self.time is None else f" ({self.time[:16].replace('T', ' ')} UTC)"
        have = f"readers have {night_name(self.night)}{when}"
        if self.again:
            return f"{have} since a rollback; no run before it is kept"
        instead = f", in place of night {self.instead_of}" if self.instead_of else ""
        counts = ChangeCounts() if self.changes is None else self.changes.counts
        return f"{have} again{instead}: {counts.line}"

    def blocks(self) -> Iterator[AnyBlock]:
        """Which night readers have, and what comes next."""
        yield Headline(self.headline)
        if self.changes is not None:
            yield Remark(f"run {self.changes.run} of the feed of changes")
        if self.version is not None:
            yield Remark(f"version {self.version} of the table")
        if self.causes:
            rows = tuple(row(cause.differs, cause.remedy) for cause in self.causes)
            yield Table(text_columns("what made the answers differ", "so that they do not come back"), rows)
            yield Remark(
                "until one of these is changed, the same command publishes nothing and ends with exit code 6; "
                "with --allow-again it gives readers the same answers again"
            )


class KeptRange(Report):
    """Versions of an output's Delta table that can be read, or its runs whose feed of changes is there.

    - ``first``, ``last``: their numbers.
    - ``removed``: number of files that only earlier ones had, and that were removed.
    """

    first: int
    last: int
    removed: int


class HistoryReport(Report):
    """What ``concord history --json`` prints: nights of an output folder, the newest last.

    - ``kept``: nights in the record
    - ``unread``: its lines that cannot be read
    - ``table``, ``feed``: versions of the folder's Delta table, and files of its feed of changes, where it was said
      how many stay
    """

    out: str
    kept: int
    unread: int
    nights: tuple[NightReport, ...]
    table: KeptRange | None = None
    feed: KeptRange | None = None

    def blocks(self) -> Iterator[AnyBlock]:
        """A table of nights, the newest last, and below it what there is to say about each."""
        yield self._table()
        for night in self.nights:
            yield from night.lines()
        tracked = [night.line.mlflow_run for night in self.nights if night.line.mlflow_run]
        last = f"; MLflow's run of the last: {tracked[-1]}" if tracked else ""
        yield Headline(f"{len(self.nights):,} of {self.kept:,} nights{last}")
        if self.unread:
            unread = f"{self.unread:,} lines of the record cannot be read: cut off, or of another version"
            yield Remark(unread, Tone.NOTICE)
        if self.table is not None:
            stays = f"versions {self.table.first} to {self.table.last} of the table stay"
            yield Remark(f"{stays}; {self.table.removed:,} files of earlier ones are removed")
        if self.feed is not None:
            stays = f"changes of runs {self.feed.first} to {self.feed.last} stay"
            yield Remark(f"{stays}; {self.feed.removed:,} files of earlier ones are removed")

    def _table(self) -> Table:
        heads = ("night", "ended (UTC)", "who", "documents", "labelled", *DIFFERENCES, "rejects", "drift")
        rows = []
        for night in self.nights:
            line, breaches = night.line, len(night.breaches)
            looked_at = breaches or not line.published
            rows.append(
                row(
                    *(f"{line.night}", line.time[:16].replace("T", " "), line.user),
                    *(f"{count:,}" for count in (line.documents, line.decoded)),
                    *night.counts,
                    *(f"{line.rejected:,}", f"{breaches}" if breaches else ""),
                    tone=Tone.NOTICE if looked_at else Tone.PLAIN,
                )
            )
        return Table(figure_columns(*heads), tuple(rows))


class MonthReport(Report):
    """A month of an output folder.

    - ``nights``: runs that ended in it
    - ``published``, ``cancelled``, ``withheld``, ``failed``: by how they ended, the last one with failed shards, or
      before they labelled
    - ``rolled_back``: rollbacks, which are no runs
    - ``drifted``: those with drift
    - ``labelled``: documents that were labelled
    - ``differences``: documents by what was different from what readers had before, summed over the published nights
      and the rollbacks
    - ``page``: the file with the page; the same in HTML is beside it
    - ``markdown``: the page
    """

    out: str
    month: str
    nights: int
    published: int
    cancelled: int
    withheld: int
    failed: int
    rolled_back: int
    drifted: int
    labelled: int
    differences: Mapping[str, int]
    page: str
    markdown: str = ""

    @property
    def page_tags(self) -> tuple[str, ...]:
        """Whether any night drifted."""
        return ("drift",) if self.drifted else ()

    def blocks(self) -> Iterator[AnyBlock]:
        """What the runs of the month came to, and where the page is."""
        yield Headline(self.runs)
        yield Remark(self.sums)
        yield Remark(f"page in {self.page}, and as HTML beside it")

    @property
    def runs(self) -> str:
        """How many runs ended in the month, and how."""
        ends = {
            "published": self.published,
            "failed": self.failed,
            "cancelled": self.cancelled,
            "withheld": self.withheld,
        }
        by_end = ", ".join(f"{count:,} {end}" for end, count in ends.items() if count)
        back = f"; {self.rolled_back:,} rolled back" if self.rolled_back else ""
        ends_of_runs = f" ({by_end})" if by_end else ""
        return f"{self.month}: {self.nights:,} runs{ends_of_runs}; {self.drifted:,} with drift{back}"

    @property
    def sums(self) -> str:
        """What they did, and what changed for readers."""
        changed = listed(self.differences) or "none"
        return f"documents labelled: {self.labelled:,}; different from the night before: {changed}"
