"""The plan of a run: what is different, why, and what work that is, before anything runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

from concord.schemas.blocks import AnyBlock, Headline, Remark, Table, TableColumn, TableRow, Tone, row, text_columns
from concord.schemas.drift import gone_of, listed
from concord.schemas.run_changes import RunChanges
from concord.schemas.shown import Report

FIRST_IDS = 5
"""Documents of a kind that a plan names."""

SECONDS_A_MINUTE = 60

LEAST_TIME = 0.1
"""Seconds that are not told more precisely."""

MINUTES_FROM = 120
"""Seconds from which a time is told in minutes."""

PlannedWorkKind = Literal[
    "reading and writing", "proving again", "searching near the old answer", "decoding", "taking over"
]


class Bounds(NamedTuple):
    """What a quantity is at least and at most, where a run alone finds out."""

    least: float
    most: float

    def plus(self, other: Bounds) -> Bounds:
        """Both together."""
        return Bounds(self.least + other.least, self.most + other.most)

    def over(self, divisor: float) -> Bounds:
        """A part of it."""
        return Bounds(self.least / divisor, self.most / divisor)


class NamedDocuments(Report):
    """Documents of a kind: how many there are, and the ids of the first `FIRST_IDS`."""

    count: int = 0
    first: tuple[str, ...] = ()

    @property
    def line(self) -> str:
        """In a line."""
        names = ", ".join(self.first)
        more = f" and {self.count - len(self.first):,} more" if self.count > len(self.first) else ""
        return f"{self.count:,}: {names}{more}" if self.count else "0"


class PlannedDifferences(Report):
    """Documents that differ from the run that readers have.

    - ``last``: documents of that run
    - ``new``, ``gone``: documents by id that only one of both has
    - ``changed``: documents that both have, with another row or other corrections
    - ``corrected``: the ones among ``changed`` of which there are corrections
    - ``missing``: the ones among ``gone`` that are not among the rejects either
    - ``withheld``: will nothing be published because so many are gone?
    """

    last: int
    new: NamedDocuments
    changed: NamedDocuments
    gone: NamedDocuments
    corrected: int = 0
    missing: int = 0
    withheld: bool = False

    @property
    def line(self) -> str:
        """In a few words."""
        counts = {"new": self.new.count, "changed": self.changed.count, "gone": self.gone.count}
        return listed(counts) or "no document differs"


class PlannedWork(Report):
    """Work of one kind: documents, and CPU seconds of workers; null where no run has measured that yet."""

    kind: PlannedWorkKind
    documents: int
    seconds: Bounds | None


class RunPlan(Report):
    """What ``concord reprocess --dry-run`` prints: what is different, why, and what a run would do.

    - ``rows``: rows of the corpus; ``documents`` of them get an answer and ``rejected`` cannot be read
    - ``repeated``: the ones among ``rejected`` in shards to do that have the document id of an earlier row
    - ``skipped``: documents in shards that are done
    - ``kept``: documents in shards to do whose answer is that of the last run
    - ``checked``: with a settled answer, which is kept if it is proven to stand under the new constraints
    - ``guessed``: with an answer of the last run, near which the best one is looked for
    - ``decoded``: without an answer that can be taken
    - ``refusing``: do some of the last three become rejects where every labelling breaks a hard constraint?
    - ``shards``: shards to do
    - ``first_run``: have readers no whole run yet?
    - ``differences``: documents that differ from what readers have; null for a first run, and where too much differs
      to be counted
    - ``changes``: what is asked for otherwise
    - ``why``: documents in shards to do without a kept answer, by cause
    - ``work``: by kind
    - ``workers``: number of workers; null for those of a cluster elsewhere
    - ``clock``: seconds from the start of the workers to their end; null where a part of it is not known
    - ``damages``: parts of the corpus that cannot be read; with these nothing is published
    - ``sampled``: were only some shards read, so that ``documents`` to ``decoded``, ``why`` and ``work`` are estimates?
    """

    out: str
    rows: int
    documents: int
    rejected: int
    repeated: int = 0
    skipped: int
    kept: int
    checked: int
    guessed: int
    decoded: int
    refusing: bool = False
    shards: int
    first_run: bool
    differences: PlannedDifferences | None
    changes: RunChanges
    why: dict[str, int]
    work: tuple[PlannedWork, ...]
    workers: int | None
    clock: Bounds | None
    damages: tuple[str, ...] = ()
    sampled: bool = False

    @property
    def line(self) -> str:
        """What a run begins with."""
        differs = "first run" if self.first_run else "" if self.differences is None else self.differences.line
        about = "about " if self.sampled else ""
        answers = f"{about}{listed(self._answers) or 'no answer to give'}"
        parts = [differs, answers, *self.changes.lines[:FIRST_IDS]]
        if self.shards and self.clock is not None:
            parts.append(f"{_time(self.clock)} on {self.workers:,} workers")
        if self.damages:
            parts.append(f"{len(self.damages):,} parts of the corpus cannot be read, so nothing will be published")
        if self.differences is not None and self.differences.withheld:
            parts.append("too many documents are gone to publish")
        return "plan: " + "; ".join(filter(None, parts))

    @property
    def _answers(self) -> dict[str, int]:
        return {
            "answers stand": self.skipped + self.kept,
            "to be proven again": self.checked + self.guessed,
            self._to_answer: self.decoded,
        }

    @property
    def _to_answer(self) -> str:
        """What is to be done for a document without a kept answer, by the kind of this work."""
        return "to be taken over" if self.work[-1].kind == "taking over" else "to be decoded"

    def blocks(self) -> Iterator[AnyBlock]:
        """What differs and why, what happens to documents, what that takes, and what will be wrong."""
        yield from self._differences()
        yield from (Remark(f"otherwise than the last run: {line}") for line in self.changes.lines)
        about = "about " if self.sampled else ""
        if self.why:
            yield Remark(f"why: {'; '.join(f'{about}{count:,} {cause}' for cause, count in self.why.items())}")
        heads = (*text_columns("what happens"), TableColumn("documents", figures=True), *text_columns("CPU time"))
        yield Table(heads, tuple(self._rows()))
        yield Remark(self._clock_line)
        yield from self._notices()
        yield Headline(
            f"{self.rows:,} rows: {about}{self.skipped + self.kept:,} answers stand, "
            f"{self.checked + self.guessed:,} are to be proven again, {self.decoded:,} {self._to_answer}, "
            f"{self.rejected:,} rejected; shards to do: {self.shards:,}"
        )

    def _differences(self) -> Iterator[Remark]:
        if self.first_run:
            yield Remark("first run: readers have no whole run yet")
            return
        if self.differences is None:
            yield Remark("too many shards differ from the last run to count its documents one by one")
            return
        yield Remark(f"new      {self.differences.new.line}")
        yield Remark(f"changed  {self.differences.changed.line}")
        yield Remark(f"gone     {self.differences.gone.line}")

    def _rows(self) -> Iterator[TableRow]:
        about = "about " if self.sampled else ""
        yield row("answers stand as they are", f"{about}{self.skipped + self.kept:,}", "")
        for work in self.work:
            if work.documents:
                yield row(work.kind, f"{about}{work.documents:,}", _time_if_known(work.seconds))
        if self.rejected:
            repeated = f", {self.repeated:,} with the id of an earlier row" if self.repeated else ""
            yield row(f"rejected{repeated}", f"{about}{self.rejected:,}", "")

    @property
    def _clock_line(self) -> str:
        if not self.shards:
            return "nothing is to be done"
        if self.workers is None:
            return "how long that takes is not known: the workers are those of a cluster"
        if self.clock is None:
            return "how long that takes is not known: no run with this engine is recorded yet"
        return f"on {self.workers:,} workers: {_time(self.clock)}"

    def _notices(self) -> Iterator[Remark]:
        if self.refusing:
            text = "documents in which every labelling breaks a hard constraint become rejects; the run finds out which"
            yield Remark(text, Tone.NOTICE)
        if self.differences is not None and self.differences.withheld:
            gone, last = self.differences.gone.count, self.differences.last
            loss = gone_of(gone, last, rejects=gone - self.differences.missing)
            yield Remark(f"{loss}: nothing would be published; see --allow-gone", Tone.NOTICE)
        for damage in self.damages:
            yield Remark(f"cannot be read, so nothing would be published: {damage}", Tone.WRONG)


def _time_if_known(seconds: Bounds | None) -> str:
    return "not known" if seconds is None else _time(seconds)


def _time(seconds: Bounds) -> str:
    """Seconds, or minutes of so many, with the range where there is one."""
    if seconds.most < LEAST_TIME:
        return f"less than {LEAST_TIME} s"
    unit, size = ("min", SECONDS_A_MINUTE) if seconds.most >= MINUTES_FROM else ("s", 1)
    least, most = (f"{value / size:,.1f}" for value in seconds)
    return f"{most} {unit}" if least == most else f"{least} to {most} {unit}"
