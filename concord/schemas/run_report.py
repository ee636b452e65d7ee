"""What a run over a corpus answers: its report."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field

from concord.schemas.blocks import (
    AnyBlock,
    Headline,
    Remark,
    Table,
    TableColumn,
    Tone,
    per_cent,
    row,
    text_columns,
)
from concord.schemas.changes import AddedChanges
from concord.schemas.drift import Drift, NightBefore, otherwise_line
from concord.schemas.run import Reuse
from concord.schemas.shown import Report

MOST_ERRORS = 20
"""Reasons of failed shards on a page."""

MOST_BREACHES = 2
"""Figures beyond their thresholds in the line of a run; its page has all of them."""

MOST_REJECTS = 5
"""Rejects that a report names: the first ones, in the order of the corpus."""


class RejectedRow(Report):
    """A reject: the place of its row in the corpus, its document id if it has one, and why there is no answer."""

    place: str
    doc_id: str | None
    reason: str

    @property
    def line(self) -> str:
        """Place and reason, for messages."""
        return f"{self.place}: {self.reason}"


TELLING_SECONDS = 10.0
"""Least total time of workers, in seconds, for which their speed is reported; below it, loading dominates."""


class RunReport(Report):
    """Report of ``concord reprocess --json``.

    - ``labelled``: number of documents that were labelled now; the others were done before.
    - ``reuse``: number of these that took the answer of the last run.
    - ``infeasible``: number of documents without an answer that keeps the hard constraints, including rejected ones.
    - ``shards_done``, ``shards_skipped``, ``shards_failed``: number of shards done now, done before, and failed.
    - ``seconds``: wall-clock time from start to end.
    - ``tokens_per_second``: tokens of the shards done now, per second from the start of the workers to their end; 0 if
      all shards were skipped.
    - ``worker_seconds``: time that workers spent on shards, summed over workers.
    - ``worker_speed``: tokens per second of that time.
    - ``certified``: share of documents whose gap is closed.
    - ``by_solver``: share of documents whose gap is closed by CP-SAT's word alone; a part of ``certified``.
    - ``max_gap``: largest gap of a document, in nats; null if a document has no bound.
    - ``violations_before``, ``violations``: total degree under the Viterbi labels, and under the answers.
    - ``penalty_before``, ``penalty``: total penalty under these, in nats.
    - ``search_errors``, ``search_documents``: errors of the examined engine by kind, see
      `workers.evaluation.search_errors`; empty without gold or proofs.
    - ``mlflow_page``: address of the run's page, if MLflow is a server.
    - ``report_page``: address of the page that ``--report`` makes, if MLflow is a server; null without that.
    - ``before``: the night that readers had before; null for the first one.
    - ``drift``: differences to that night; null if there was none, if its answers are the same, or if shards failed.
    - ``changes``: what the run adds to the folder's feed of changes; null where nothing changed or nothing is published
    - ``rejects``: the first `MOST_REJECTS` rejects; for some of them ``rejected`` counts more.
    - ``withheld``: was nothing published because of what `Drift.gone` counts?
    - ``cancelled``: did a signal end the run before its end? Nothing is published then.
    - ``steps``: seconds of the workers by step; not in the JSON.
    """

    documents: int
    labelled: int
    reuse: Reuse = Reuse()
    tokens: int
    rejected: int
    infeasible: int
    shards_done: int
    shards_skipped: int
    shards_failed: int
    seconds: float
    tokens_per_second: float
    worker_seconds: float
    worker_speed: float
    certified: float
    by_solver: float
    max_gap: float | None
    violations_before: float
    violations: float
    penalty_before: float
    penalty: float
    search_errors: dict[str, int]
    search_documents: dict[str, int]
    out: str
    mlflow_run: str
    mlflow_page: str | None = None
    report_page: str | None = None
    before: NightBefore | None = None
    drift: Drift | None = None
    changes: AddedChanges | None = None
    withheld: bool = False
    cancelled: bool = False
    rejects: tuple[RejectedRow, ...] = ()
    errors: tuple[str, ...] = ()
    steps: dict[str, float] = Field(default_factory=dict, exclude=True)

    @property
    def skipped(self) -> int:
        """Documents that were labelled before."""
        return self.documents - self.labelled

    @property
    def published(self) -> bool:
        """Do readers see this run?"""
        return not (self.cancelled or self.shards_failed or self.withheld)

    @property
    def has_bounds(self) -> bool:
        """Is anything known of how good the answers are? Not of those that were adopted."""
        return self.certified > 0 or self.max_gap is not None

    @property
    def decoded(self) -> int:
        """Documents among ``labelled`` that took no answer of the last run."""
        return self.labelled - self.reuse.documents

    @property
    def headline(self) -> str:
        """What the run came to, in a line."""
        if self.cancelled:
            left = "the same again does the rest"
            return f"cancelled: {self.labelled:,} documents labelled, nothing published; {left}{self._readers}"
        if self.shards_failed:
            every = self.shards_done + self.shards_skipped + self.shards_failed
            failed = f"{self.shards_failed:,} of {every:,} shards failed"
            return f"{failed}; {self.labelled:,} documents labelled, nothing published{self._readers}"
        gone = "" if self.drift is None else self.drift.told_gone
        if self.withheld:
            return f"nothing published: {gone}{self._readers}"
        parts = [self._what, "" if self.drift is None else self.drift.line]
        if self.shards_done:
            parts.append(f"{per_cent(self.certified)} certified" if self.has_bounds else "no bounds")
            parts.append(f"{self.rejected:,} rejected" if self.rejected else "")
        if self.drift is not None and self.drift.breaches:
            lines = [movement.line for movement in self.drift.breaches]
            more = f" and {len(lines) - MOST_BREACHES} more" if len(lines) > MOST_BREACHES else ""
            parts.append(f"DRIFT: {', '.join(lines[:MOST_BREACHES])}{more}")
        return "; ".join(filter(None, parts))

    @property
    def _what(self) -> str:
        """What the run did that published its answers."""
        if not self.shards_done:
            return f"nothing new: 0 of {self.documents:,} documents"
        left = 0 if self.before is None else self.documents - self.decoded
        return f"labelled {self.decoded:,} of {self.documents:,} documents{f', kept {left:,} answers' if left else ''}"

    @property
    def title(self) -> str:
        """What the run came to, in the few words that tell it from other nights in a list."""
        if self._end not in ("labelled", "nothing new"):
            return self._end
        if self.before is None:
            return "first night"
        return "nothing new" if self.drift is None else self.drift.differences

    @property
    def _readers(self) -> str:
        """What readers have where this run published nothing."""
        return "" if self.before is None else f"; readers still have {self.before.name}"

    @property
    def counts(self) -> list[tuple[str, str, str]]:
        """Rows of a table: what is counted, its meaning, and the number."""
        change = "by the model alone → now"
        return [
            ("documents", "in all" if self.before else "in all, in the first night", f"{self.documents:,}"),
            *self._differences(),
            ("labelled", "by this run, without an answer to keep", f"{self.decoded:,}"),
            ("kept", "answers of the last run, which still hold", f"{self.reuse.documents:,}"),
            ("skipped", "labelled before, nothing has changed", f"{self.skipped:,}"),
            ("rejected", "cannot be read or labelled; see _rejects", f"{self.rejected:,}"),
            ("failed", "shards; tried again by the next run", f"{self.shards_failed:,}"),
            ("certified", "nothing scores higher, by proof", per_cent(self.certified, 2)),
            ("infeasible", "no answer keeps the hard constraints", f"{self.infeasible:,}"),
            ("violations", change, f"{self.violations_before:,.0f} → {self.violations:,.0f}"),
            ("penalty in nats", change, f"{self.penalty_before:,.1f} → {self.penalty:,.1f}"),
        ]

    def _differences(self) -> list[tuple[str, str, str]]:
        if self.drift is None or self.before is None:
            return []
        return [(what, f"compared with {self.before.name}", f"{n:,}") for what, n in self.drift.counts.items()]

    @property
    def page_tags(self) -> tuple[str, ...]:
        """How it ended, and what there is to look at."""
        looked_at = {
            "rejects": self.rejected,
            "gone": self.drift is not None and self.drift.gone,
            "drift": self.drift is not None and self.drift.breaches,
        }
        return self._end, *(tag for tag, there in looked_at.items() if there)

    @property
    def _end(self) -> str:
        if self.cancelled:
            return "cancelled"
        if self.shards_failed:
            return "failed shards"
        if self.withheld:
            return "withheld"
        return "labelled" if self.shards_done else "nothing new"

    def blocks(self) -> Iterator[AnyBlock]:
        """What was labelled, how long it took, what is proven and broken, what is different, and where all of it is."""
        yield Headline(self.headline)
        yield from self._beside()
        if self.drift is not None:
            yield from self.drift.sentences()
        yield Remark(
            f"{self.documents:,} documents, {self.tokens:,} tokens, {self.rejected:,} rejected; shards: "
            f"{self.shards_done} done, {self.shards_skipped} skipped, {self.shards_failed} failed"
        )
        if self.reuse.documents:
            yield Remark(self.reuse.line)
        yield Remark(f"{self.seconds:.1f} s in all; {self.pace}")
        proven = f"{per_cent(self.certified)} of documents certified, {self.by_solver:.1%} on a solver's word"
        yield Remark(proven if self.has_bounds else "nothing is proven: these answers have no bounds")
        yield Remark(
            f"violations {self.violations_before:,.0f} → {self.violations:,.0f}, "
            f"penalty {self.penalty_before:,.1f} → {self.penalty:,.1f} nats"
        )
        if self.infeasible:
            broken = f"{self.infeasible:,} documents cannot keep all hard constraints; their status says so"
            yield Remark(broken, Tone.NOTICE)
        if self.search_errors:
            yield Remark(self._search_line)
        yield Table(
            (*text_columns("what", ""), TableColumn("documents", figures=True)),
            tuple(row(*cells) for cells in self.counts),
            detail=True,
        )
        if self.drift is not None:
            yield from self.drift.details()
        if self.rejects:
            rejects = (row(reject.place, reject.doc_id or "", reject.reason) for reject in self.rejects)
            yield Table(text_columns("row", "document", "reason"), tuple(rejects), "First rejects", detail=True)
        if self.errors:
            yield Table(text_columns("reason"), tuple(map(row, self.errors[:MOST_ERRORS])), "Failed", detail=True)
        yield Remark(f"predictions in {self.out}")
        yield Remark(f"MLflow run {self.mlflow_run}", link=self.mlflow_page)
        if self.report_page is not None:
            yield Remark("the page of this run, with its documents", link=self.report_page)

    def _beside(self) -> Iterator[Remark]:
        """The night that readers had before, and what was asked for otherwise."""
        if self.before is None:
            return
        if self.published and self.drift is None:
            yield Remark(f"the same documents and answers as {self.before.name}")
        line = otherwise_line(self.before.otherwise, self.before.differences)
        if line:
            yield Remark(f"asked for otherwise than in {self.before.name}: {line}")

    @property
    def _search_line(self) -> str:
        errors = self.search_errors
        return (
            f"of the {errors['search'] + errors['model'] + errors['open']:,} wrong entities of the examined engine "
            f"{errors['search']:,} are search errors, {errors['model']:,} model errors and {errors['open']:,} open"
        )

    @property
    def pace(self) -> str:
        """Sentence about the time of the workers, without their start, and about their speed if the run was long
        enough."""
        line = f"workers labelled for {self.worker_seconds:.1f} s"
        if self.worker_seconds < TELLING_SECONDS:
            return line
        return f"{line}, {self.worker_speed:,.0f} tokens a second each"
