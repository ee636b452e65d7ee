"""Figures of a run that labels: what MLflow gets, and the report that the run gives back."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from concord.flows.environment import page_of_run, tracking_uri
from concord.schemas.decoded import Status
from concord.schemas.drift import NightBefore
from concord.schemas.requests import LabelRequest
from concord.schemas.run import CountsByName, Reuse, Seconds, ShardReport, ShardResult
from concord.schemas.run_report import MOST_REJECTS, RejectedRow, RunReport
from concord.schemas.secrets import redact
from concord.workers.evaluation.measures import MEASURES
from concord.workers.evaluation.measures import figures as measure_figures
from concord.workers.evaluation.named_counts import MatchCounts

if TYPE_CHECKING:
    from concord.schemas.columns import Reject


class LabelWork(NamedTuple):
    """What this call did.

    - ``done``, ``skipped``: shards that were labelled now, and before
    - ``documents``, ``tokens``: documents and tokens that were labelled now
    - ``reuse``: documents among these that took the answer of the last run
    - ``wall``: wall-clock seconds of the labelling
    - ``seconds``: seconds of the workers, by step
    - ``errors``: messages of the failed shards
    """

    done: int = 0
    skipped: int = 0
    documents: int = 0
    tokens: int = 0
    reuse: Reuse = Reuse()
    wall: float = 0.0
    seconds: Seconds = Seconds()
    errors: tuple[str, ...] = ()


@dataclass
class LabelProgress:
    """What a call has done so far."""

    work: LabelWork
    certified: int = 0

    @property
    def certified_share(self) -> float:
        """Share of the documents labelled now whose answer is proven."""
        return _share(self.certified, self.work.documents)

    def add(self, done: ShardResult, wall: float) -> None:
        """Counts a shard; ``wall``: seconds since labelling began."""
        report, work = done.marker.report, self.work
        self.certified += report.certified
        self.work = work._replace(
            done=work.done + 1,
            documents=work.documents + report.documents,
            tokens=work.tokens + report.tokens,
            reuse=work.reuse + done.reuse,
            wall=wall,
            seconds=work.seconds.plus(done.seconds),
        )


def metrics_of(report: ShardReport, answer: RunReport) -> dict[str, float]:
    """MLflow's figures by name: what one compares between runs; scores against gold only where there is gold.

    What a run has of each constraint is in its tables (`flows.nights.files`).
    """
    figures: dict[str, float] = {
        "documents": report.documents,
        "tokens": report.tokens,
        "rejected": report.rejected,
        "infeasible": report.infeasible,
        "relabelled_tokens": report.relabelled,
        "certified": answer.certified,
        "by_solver": answer.by_solver,
        "gap/max": report.gap_max,
        "gap/mean": report.gap_sum / max(report.documents, 1),
        "violations/before": answer.violations_before,
        "violations/after": answer.violations,
        "penalty/before": answer.penalty_before,
        "penalty/after": answer.penalty,
    }
    if answer.drift is not None:
        figures |= {f"documents/{what}": count for what, count in answer.drift.counts.items()}
    if report.with_gold:
        figures["token_accuracy"] = _share(report.correct_tokens, report.gold_tokens)
        for name, counts in report.measures.items():
            figures |= _scores("", name, counts) | _scores("viterbi/", name, report.measures_before[name])
    figures |= {f"search_errors/entities/{kind}": n for kind, n in answer.search_errors.items()}
    figures |= {f"search_errors/documents/{kind}": n for kind, n in answer.search_documents.items()}
    return figures


def totals(counts: CountsByName) -> dict[str, int]:
    """Sums of the counts over their names, by kind."""
    kinds = sorted({kind for row in counts.values() for kind in row})
    return {kind: sum(row.get(kind, 0) for row in counts.values()) for kind in kinds}


def _scores(prefix: str, measure: str, rows: CountsByName) -> dict[str, float]:
    """Figures of a measure and F1 of each name, under the measure's name; spans, which every run has, without it."""
    counts = MatchCounts.from_dict(rows)
    start = prefix if measure == "spans" else f"{prefix}{measure}/"
    scores = {f"{start}{name}": value for name, value in measure_figures(measure, counts).items()}
    by_name = counts.names if "macro_f1" in MEASURES[measure].figures else ()
    return scores | {f"{start}f1/{name}": counts.f1(name) for name in by_name}


def speed_of(work: LabelWork) -> dict[str, float]:
    """Figures of this call alone; none where every shard was skipped."""
    if not work.done:
        return {"shards/skipped": work.skipped}
    parts = {f"worker_seconds/{name}": value for name, value in work.seconds._asdict().items()}
    return parts | {
        "shards/done": work.done,
        "shards/skipped": work.skipped,
        "shards/failed": len(work.errors),
        "tokens_per_second": work.tokens / work.wall,
    }


def report_of(
    request: LabelRequest,
    report: ShardReport,
    work: LabelWork,
    run_id: str,
    *,
    before: NightBefore | None,
    rejects: Iterable[Reject],
    seconds: float,
) -> RunReport:
    """What a run says of itself; ``run_id`` is MLflow's, ``seconds`` are those of the whole call."""
    figures = report.constraints.values()
    return RunReport(
        documents=report.documents,
        labelled=work.documents,
        reuse=work.reuse,
        tokens=report.tokens,
        rejected=report.rejected,
        infeasible=report.infeasible,
        shards_done=work.done,
        shards_skipped=work.skipped,
        shards_failed=len(work.errors),
        seconds=round(seconds, 3),
        tokens_per_second=round(work.tokens / work.wall, 1) if work.wall else 0.0,
        worker_seconds=round(work.seconds.total, 3),
        worker_speed=round(work.tokens / work.seconds.total, 1) if work.seconds.total else 0.0,
        certified=_share(report.certified, report.documents),
        by_solver=_share(report.statuses.get(Status.BY_SOLVER, 0), report.documents),
        max_gap=report.gap_max if report.gap_max < float("inf") else None,
        violations_before=sum(f.degree_before for f in figures),
        violations=sum(f.degree for f in figures),
        penalty_before=sum(f.penalty_before for f in figures),
        penalty=sum(f.penalty for f in figures),
        search_errors=totals(report.search_errors),
        search_documents=totals(report.search_documents),
        out=redact(request.out),
        mlflow_run=run_id,
        before=before,
        rejects=tuple(_rejected(reject) for reject in islice(rejects, MOST_REJECTS)),
        mlflow_page=page_of_run(tracking_uri(request.context.tracking), run_id),
        errors=work.errors,
        steps={step: round(value, 3) for step, value in work.seconds._asdict().items()} if work.done else {},
    )


def _rejected(reject: Reject) -> RejectedRow:
    row = "a row" if reject.row is None else f"row {reject.row}"
    return RejectedRow(place=f"{redact(reject.source)}, {row}", doc_id=reject.doc_id, reason=redact(reject.reason))


def drift_tags(report: RunReport) -> dict[str, str]:
    """MLflow's tags of a run with figures beyond their threshold, and of one from whose corpus documents are gone."""
    if report.drift is None:
        return {}
    breaches = "\n".join(movement.line for movement in report.drift.breaches)
    gone = report.drift.told_gone
    return {name: text for name, text in {"drift": breaches, "gone": gone}.items() if text}


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0
