"""Changes of documents between runs: of what kind they are, what made them, and what ``concord changes`` answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import NamedTuple

from pydantic import Field

from concord.schemas.blocks import AnyBlock, Headline, Remark, Table, Tone, row, text_columns
from concord.schemas.shown import Report


class ChangeKind(StrEnum):
    """What happened to a document between two runs."""

    NEW = "new"
    """It has an answer now."""
    GONE = "gone"
    """It has none now: its row is gone, or it is a reject."""
    TEXT = "text"
    """Its words, sentences, or the places of its entities in the text are others."""
    ANSWER = "answer"
    """Its text is the same, and its labels are others."""


class Why(StrEnum):
    """What may have made a change: all that differs between the two runs and can touch the document."""

    ROW = "row"
    """The row of the document in the corpus came, went, or is another one."""
    REJECT = "reject"
    """The document is a reject; the detail is the reason."""
    CORRECTION = "correction"
    """A correction of the document that the last run did not have."""
    MODEL = "model"
    """Another model."""
    ANSWER = "other answer"
    """The program whose answers were adopted gave another one."""
    ADDED, REMOVED, REWEIGHED = "constraint added", "constraint removed", "constraint reweighed"
    """The detail is the constraint's name; the constraint has rows or pairs in the document."""
    REWRITTEN = "constraint changed"
    """A constraint of that name that says something else now, or what constraints add to the local scores."""
    ENGINE = "engine"
    """Another engine; the detail says which was and which is."""
    SETTINGS = "settings"
    """Other settings, named in the detail."""
    CODE = "code"
    """Another version of concord, or of a library that decides answers."""


class ChangeCause(NamedTuple):
    """A reason of a change; ``detail`` as `Why` has it, None where there is none."""

    why: Why
    detail: str | None = None

    @property
    def line(self) -> str:
        """In a few words."""
        return str(self.why) if self.detail is None else f"{self.why}: {self.detail}"


class ChangeCounts(Report):
    """Documents that changed, by `ChangeKind`."""

    new: int = 0
    gone: int = 0
    text: int = 0
    answer: int = 0

    @property
    def documents(self) -> int:
        """All of them."""
        return self.new + self.gone + self.text + self.answer

    @property
    def line(self) -> str:
        """What changed, in words."""
        parts = (
            (self.text, "text changed", "texts changed"),
            (self.new, "document new", "documents new"),
            (self.gone, "document gone", "documents gone"),
            (self.answer, "answer changed", "answers changed"),
        )
        changed = ", ".join(f"{count:,} {one if count == 1 else more}" for count, one, more in parts if count)
        return changed or "no document changed"

    def __add__(self, other: ChangeCounts) -> ChangeCounts:
        return ChangeCounts(**{name: getattr(self, name) + getattr(other, name) for name in ChangeCounts.model_fields})


class AddedChanges(Report):
    """What a run adds to the feed; ``run`` and ``since`` as in `schemas.feed.CHANGES_LAYOUT`."""

    run: int
    since: int
    counts: ChangeCounts


class FeedRun(Report):
    """A run that changed something in its folder.

    - ``run``: its number, as in `schemas.feed.CHANGES_LAYOUT`
    - ``time``: when the run ended, ISO 8601 in UTC; null where the folder's record does not say
    """

    run: int
    time: str | None = None


class DocumentChange(Report):
    """A document that changed: its row in the feed, with entities as ``TYPE text``, those that only one side has."""

    doc_id: str
    run: int
    what: ChangeKind
    entities_before: tuple[str, ...]
    entities: tuple[str, ...]
    why: tuple[str, ...]


LISTED_DOCUMENTS = 20
"""Documents that are shown; a file has all of them."""

SHOWN_ENTITIES = 3
"""Entities of a document that are shown on each side."""


class ChangesReport(Report):
    """What ``concord changes --json`` prints.

    - ``since``: number of the run that all is compared with; 0 for none
    - ``runs``: the runs whose changes are summed, the newest last
    - ``counts``: documents by what happened to them; one that changed and changed back did not change
    - ``causes``: documents by cause, of those whose answer alone changed
    - ``documents``: the first ones by id
    - ``file``: the file with all of them; null where none was asked for
    """

    out: str
    since: int
    runs: tuple[FeedRun, ...]
    counts: ChangeCounts
    causes: dict[str, int] = Field(default_factory=dict)
    documents: tuple[DocumentChange, ...]
    file: str | None = None

    @property
    def headline(self) -> str:
        """What changed, in words."""
        if not self.runs:
            return f"nothing changed since run {self.since}"
        return f"{self._runs}: {self.counts.line}{self._only_cause}"

    @property
    def _only_cause(self) -> str:
        """The cause of all answers that changed, in brackets; empty where there are others."""
        causes = list(self.causes)
        return f" ({causes[0]})" if len(causes) == 1 and self.causes[causes[0]] == self.counts.answer else ""

    @property
    def _runs(self) -> str:
        last = self.runs[-1]
        name = f"run {last.run}" if len(self.runs) == 1 else f"runs {self.runs[0].run} to {last.run}"
        return name if last.time is None else f"{name} ({last.time[:16].replace('T', ' ')} UTC)"

    def blocks(self) -> Iterator[AnyBlock]:
        """What changed in words, its causes, and a table of documents."""
        yield Headline(self.headline)
        if not self._only_cause:
            for cause, count in sorted(self.causes.items(), key=lambda item: (-item[1], item[0])):
                yield Remark(f"{count:,} changed answers, by cause: {cause}")
        if self.documents:
            yield self._table()
        left = self.counts.documents - len(self.documents)
        if left:
            more = "" if self.file is not None else "; --out FILE.parquet has all of them"
            yield Remark(f"{left:,} more documents{more}", Tone.QUIET)
        if self.file is not None:
            yield Remark(f"all documents that changed are in {self.file}")

    def _table(self) -> Table:
        rows = (
            row(one.doc_id, one.what, _few(one.entities_before), _few(one.entities), ", ".join(one.why))
            for one in self.documents
        )
        return Table(text_columns("document", "what", "before", "now", "why"), tuple(rows))


def _few(entities: Sequence[str]) -> str:
    more = len(entities) - SHOWN_ENTITIES
    return ", ".join([*entities[:SHOWN_ENTITIES], *([f"{more:,} more"] if more > 0 else [])])
