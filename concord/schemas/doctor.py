"""What ``concord doctor`` finds."""

from __future__ import annotations

from collections.abc import Iterator

from concord.schemas.blocks import AnyBlock, Headline, Remark, Tone
from concord.schemas.shown import Report


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

    def blocks(self) -> Iterator[AnyBlock]:
        """A line for each."""
        for finding in self.findings:
            if finding.remedy is None:
                yield Remark(f"ok     {finding.name}: {finding.told}")
            else:
                yield Remark(f"WRONG  {finding.name}: {finding.told}; {finding.remedy}", Tone.WRONG)
        yield Headline(f"{len(self.findings)} things looked at, {len(self.wrong)} wrong")

    @property
    def wrong(self) -> tuple[Finding, ...]:
        """Those that need a remedy."""
        return tuple(finding for finding in self.findings if finding.remedy is not None)
