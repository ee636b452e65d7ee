"""Output of `concord verify`: tolerance, counts and shares, then faults, and what the verification rests on."""

from __future__ import annotations

from concord.flows.screen.progress import show
from concord.schemas.reports import VerifyReport


def show_verified(report: VerifyReport) -> None:
    """Prints a report."""
    show(counts_line(report))
    for fault in report.failed:
        show(f"failed: {fault}", style="red")
    show(f"trusted: {'; '.join(report.trusted)} ({report.cpu_seconds:.1f} CPU seconds)")


def counts_line(report: VerifyReport) -> str:
    """Line with the tolerance, and the number of documents in each state with their share of all answers."""
    kinds = (
        ("proven optimal", report.optimal),
        ("with a proven bound and a gap", report.bounded),
        ("optimal by the engine's word", report.by_engine),
        ("optimal by a solver's word", report.by_solver),
        ("open", report.open),
    )
    parts = [f"{count:,} {what} ({count / max(report.documents, 1):.1%})" for what, count in kinds if count]
    lethal = f" ({report.lethal:,} said to have killed their workers)" if report.lethal else ""
    documents = f"{report.documents:,} documents right" + (f": {', '.join(parts)}" if parts else "")
    rejects = f"{report.rejected:,} rejected{lethal}; {len(report.failed):,} faults"
    return f"tolerance {report.tolerance:g} nats; {documents}; {rejects}"
