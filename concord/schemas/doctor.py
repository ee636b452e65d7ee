"""What ``concord doctor`` finds."""

from __future__ import annotations

from concord.schemas.reports import Report


class Finding(Report):
    """One thing that was looked at.

    - ``name``: what
    - ``told``: what was found
    - ``remedy``: what to do; null where nothing is wrong
    """

    name: str
    told: str
    remedy: str | None = None


class DoctorReport(Report):
    """All findings, in the order in which they were made."""

    findings: tuple[Finding, ...]

    @property
    def wrong(self) -> tuple[Finding, ...]:
        """Those that need a remedy."""
        return tuple(finding for finding in self.findings if finding.remedy is not None)
