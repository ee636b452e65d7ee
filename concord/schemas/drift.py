"""A night beside the last one of its folder: documents that differ, figures that moved, what was asked otherwise."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from concord.schemas.blocks import AnyBlock, Headline, Remark, Table, Tone, figure_columns, row, text_columns
from concord.schemas.shown import Report

MOST_MISSING = 0.1
"""Largest share of the last night's documents that may have no answer in a run that is published without being told so:
they are gone from the corpus, or rejects. As many may lose all their entities."""

MOST_MOVED = 5
"""Documents that are named of a figure that moved."""

FigureUnit = Literal["share", "words", "nats", "nats per 1,000 words", "per 1,000 words"]
"""What a figure of a document is counted in; a share is shown per cent."""

RATES: tuple[FigureUnit, ...] = ("share", "per 1,000 words")
"""Units of figures that say how often something is there."""

THOUSAND = 1_000.0
"""From here on numbers are whole."""

LEAST_FACTOR = 2.0
"""Smaller changes are told per cent."""

ANSWERED = "the answers to the same texts"
NEW_TEXTS = "the new texts"


class Movement(Report):
    """A figure of documents tonight against the last night, see `flows.nights.drift`.

    - ``figure``: its name, such as ``unknown words``
    - ``of``: ``texts`` (new documents against the others) or ``answers`` (other answers to the same documents)
    - ``before``, ``after``: what it was, and is, in the mean over documents
    - ``unit``: what that is counted in
    - ``p_value``: how often chance alone would move some figure of the night as far; adjusted for all figures
    - ``breach``: is it beyond the threshold?
    - ``file``, ``in_file``: file of the corpus in which it moved most, and number of its documents that were compared
    - ``most``: ids of documents in which it moved most

    The last three are given for breaches alone.
    """

    figure: str
    of: Literal["texts", "answers"]
    before: float
    after: float
    unit: FigureUnit | None = None
    p_value: float
    breach: bool
    file: str | None = None
    in_file: int = 0
    most: tuple[str, ...] = ()

    @property
    def line(self) -> str:
        """In a few words."""
        return f"{self.figure} ({self.of}) {self.values}"

    @property
    def values(self) -> str:
        """Before and after, in the figure's unit."""
        if self.unit == "share":
            return f"{100 * self.before:.3g} % → {100 * self.after:.3g} %"
        unit = "" if self.unit is None else f" {self.unit}"
        return f"{_number(self.before)} → {_number(self.after)}{unit}"

    @property
    def sentence(self) -> str:
        """What moved, where, and by how much."""
        where = NEW_TEXTS if self.of == "texts" else ANSWERED
        file = f", most of all in {self.file} ({self.in_file:,} documents)" if self.file else ""
        return f"{self.name}: {self._change} in {where} ({self.values}){file}"

    @property
    def name(self) -> str:
        """The figure's name in a sentence: a label by its own name alone."""
        return self.figure.removeprefix("label ")

    @property
    def _change(self) -> str:
        more, less = ("more frequent", "rarer") if self.unit in RATES else ("higher", "lower")
        word = more if self.after > self.before else less
        if self.before == 0.0 and self.unit in RATES:
            return "none before, some now"
        if min(self.before, self.after) <= 0.0:
            return word
        factor = max(self.before, self.after) / min(self.before, self.after)
        if factor < LEAST_FACTOR:
            return f"{abs(self.after / self.before - 1.0):.0%} {word}"
        return f"{factor:,.0f} times {word}" if factor >= 10.0 else f"{factor:.2g} times {word}"


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= THOUSAND else f"{value:.4g}"


class ChangedDocument(Report):
    """A document with another answer than last night; ``spans`` that only one of the two answers has."""

    doc_id: str
    spans: int


class Drift(Report):
    """What is different from the last night of an output folder, in documents.

    - ``against``: number of that night
    - ``last``: documents of that night
    - ``new``, ``gone``: documents by id that only one of the two nights has
    - ``texts``: documents that both nights have, under another text
    - ``missing``: the ones among ``gone`` that are not among the rejects either
    - ``changed``: documents that both have with the same text, with another answer
    - ``emptied``: documents that both have with the same text, whose entities are all gone, less those that got some
    - ``movements``: the figures that were compared, the least likely one first
    - ``most_changed``: the ones among ``changed`` with the most changes
    - ``sampled``: were documents drawn, and the counts estimated from them?
    """

    against: int
    last: int = 0
    new: int
    gone: int
    texts: int = 0
    missing: int = 0
    changed: int
    emptied: int = 0
    sampled: bool = False
    movements: tuple[Movement, ...] = ()
    most_changed: tuple[ChangedDocument, ...] = ()

    @property
    def differences(self) -> str:
        """Documents by what is different; what none has is left out."""
        return listed(self.counts) or "no document differs"

    @property
    def line(self) -> str:
        """The same with those that are gone first, and of how many."""
        if not self.gone:
            return self.differences
        return "; ".join(filter(None, [self.told_gone, listed(self.counts | {"gone": 0})]))

    @property
    def counts(self) -> dict[str, int]:
        """Documents by what is different."""
        return counts_by_difference(new=self.new, gone=self.gone, texts=self.texts, changed=self.changed)

    def blocks(self) -> Iterator[AnyBlock]:
        """The documents that differ, and the figures that moved."""
        yield Headline(f"against night {self.against}: {self.differences}")
        yield from self.sentences()
        yield from self.details()

    def sentences(self) -> Iterator[Remark]:
        """A sentence for each figure beyond its threshold."""
        yield from (Remark(movement.sentence, Tone.NOTICE) for movement in self.breaches)

    def details(self) -> Iterator[Remark | Table]:
        """The figures beyond their thresholds in a table, and documents with other answers."""
        if self.breaches:
            columns = text_columns("figure", "of", "last → now", "p", "most of all in")
            rows = (row(m.figure, m.of, m.values, f"{m.p_value:.1g}", ", ".join(m.most)) for m in self.breaches)
            yield Table(columns, tuple(rows), "What moved", detail=True)
        elif self.movements:
            yield Remark(f"none of {len(self.movements):,} figures moved beyond its threshold since the last night")
        if self.most_changed:
            changed = tuple(row(document.doc_id, f"{document.spans:,}") for document in self.most_changed)
            yield Table(figure_columns("document", "spans"), changed, "Answers that changed most", detail=True)

    @property
    def breaches(self) -> tuple[Movement, ...]:
        """Movements beyond their threshold."""
        return tuple(movement for movement in self.movements if movement.breach)

    @property
    def loses(self) -> bool:
        """Is more gone or emptied than `MOST_MISSING`?"""
        return max(self.gone, self.emptied) > MOST_MISSING * self.last

    @property
    def told_gone(self) -> str:
        """What is gone, and how many documents are emptied where that is much, in a few words; empty for nothing."""
        about = "about " if self.sampled else ""
        parts = [gone_of(self.gone, self.last, rejects=self.gone - self.missing)] if self.gone else []
        if self.emptied > MOST_MISSING * self.last:
            parts.append(f"{self.emptied:,} of the last {self.last:,} documents have lost all their entities")
        return "; ".join(about + part for part in parts)


def counts_by_difference(*, new: int, gone: int, texts: int, changed: int) -> dict[str, int]:
    """Documents by what is different, in the words of a sentence."""
    return {"new": new, "gone": gone, "with another text": texts, "with another answer": changed}


def gone_of(gone: int, last: int, *, rejects: int) -> str:
    """How many documents of the last night have no answer, and how many of these are rejects."""
    among = f", {rejects:,} of them as rejects" if rejects else ""
    return f"{gone:,} of the last {last:,} documents are gone{among}"


def listed(counts: Mapping[str, int]) -> str:
    """Documents by what is different, those that there are."""
    return ", ".join(f"{count:,} {what}" for what, count in counts.items() if count)


Otherwise = Mapping[str, tuple[str | None, str | None]]
"""What was asked for otherwise than in a night before, by name: before and now; None where it was not given."""

DIGEST = re.compile(r"[0-9a-f]{40,}")
SHOWN_DIGITS = 8
"""Hex digits of a digest that are shown."""


class NightBefore(Report):
    """The night that readers of a folder had before a run.

    - ``night``: its number
    - ``time``: when it ended, ISO 8601 in UTC
    - ``otherwise``: what this run was asked for otherwise
    - ``differences``: what of it decides answers, a line each (`schemas.run_changes`)
    """

    night: int
    time: str
    otherwise: Otherwise
    differences: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Number and time."""
        return f"night {self.night} ({self.time[:16].replace('T', ' ')} UTC)"


MODEL_NAMES = {"model", "model_version"}
"""Names of what a model is asked for by."""

PLACES = ("corpus", "only", "model", "model_version", "constraints", "corrections")
"""What is asked for by name; what these come to is in the differences."""


def otherwise_line(otherwise: Otherwise, differences: Sequence[str] = ()) -> str:
    """What was asked for otherwise, in a line; digests are cut short, and left out where differences say what is in
    them."""
    shown = [name for name in otherwise if name in PLACES] if differences else list(otherwise)
    if MODEL_NAMES & set(shown):
        differences = [line for line in differences if not line.startswith("model ")]  # its digest
    named = [f"{name} {_short(otherwise[name][0])} → {_short(otherwise[name][1])}" for name in shown]
    return ", ".join([*named, *differences])


def _short(value: str | None) -> str:
    return "none" if value is None else DIGEST.sub(lambda match: match[0][:SHOWN_DIGITS], value)
