"""What a weekly training comes to: a new model beside the one in use."""

from __future__ import annotations

from collections.abc import Iterator

from concord.schemas.blocks import AnyBlock, Headline, Remark, Table, row, text_columns
from concord.schemas.reports import Difference
from concord.schemas.shown import Report
from concord.schemas.train_report import TrainReport


class ChallengeReport(Report):
    """A challenger and the champion, on documents that neither may have learned from.

    - ``alias``: alias of the champion
    - ``challenger``, ``champion``: versions in the registry; null where there was no champion
    - ``promoted``: whether the alias moved to the challenger
    - ``reason``: why, or why not
    - ``measure``: what was compared by F1
    - ``gain``: the challenger's F1 beside the champion's, on ``documents``; null where nothing was compared
    - ``training``: report of the challenger's training
    """

    name: str
    alias: str
    challenger: str
    champion: str | None
    promoted: bool
    reason: str
    measure: str | None = None
    documents: int = 0
    gain: Difference | None = None
    training: TrainReport

    @property
    def subject(self) -> str:
        """The name in the registry."""
        return self.name

    @property
    def page_tags(self) -> tuple[str, ...]:
        """Whether the alias moved."""
        return ("promoted" if self.promoted else "not promoted",)

    def blocks(self) -> Iterator[AnyBlock]:
        """The gain, what it came to, and where everything is."""
        rows = [
            row("champion before", "none" if self.champion is None else f"v{self.champion}"),
            row("challenger", f"v{self.challenger}"),
            row(f"moved {self.alias}", "yes" if self.promoted else "no"),
            row("why", self.reason),
            row("MLflow run", self.training.mlflow_run),
        ]
        if self.gain is not None:
            there, here = self.gain.other, self.gain.other + self.gain.difference
            yield Remark(
                f"{self.documents:,} held-out documents, F1 of {self.measure}: v{self.champion} {there:.2%}, "
                f"v{self.challenger} {here:.2%}"
            )
            rows += [
                row(f"F1 of {self.measure}", f"{there:.2%} → {here:.2%}"),
                row("p", f"{self.gain.p_value:.3g}"),
                row("held-out documents", f"{self.documents:,}"),
            ]
        yield Headline(self._end)
        yield Table(text_columns("gate", "value"), tuple(rows), detail=True)
        yield Remark(f"model in {self.training.out}, registered as {self.training.registered}")
        if self.training.mlflow_page is not None:
            yield Remark(f"MLflow run {self.training.mlflow_run}", link=self.training.mlflow_page)

    @property
    def _end(self) -> str:
        if self.promoted:
            return f"{self.name} v{self.challenger} is the {self.alias} now: {self.reason}"
        return f"{self.name} v{self.champion} stays the {self.alias} before v{self.challenger}: {self.reason}"
