"""Tasks of mining constraints from gold: what a method counts, and the rows of the rules that it finds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from concord.schemas.labels import LabelSet
from concord.schemas.settings import TextSettings, Validation
from concord.workers.constraints.declared import DeclaredConstraints
from concord.workers.constraints.templates.template import TooLarge, largest
from concord.workers.corpus.shards import DEFAULT_TEXT, Shard, read_batch
from concord.workers.learning.mining.logic.openings import part_of
from concord.workers.learning.mining.miner import Counting
from concord.workers.learning.search.folds import first_held_out
from concord.workers.learning.weights.row_counts import RowCounts, count_rows
from concord.workers.remote.task import Task, itself, nothing


class HeldOut(NamedTuple):
    """A held-out part of all documents.

    - ``share``: its fraction of the documents.
    - ``first``: place in each shard, by the shard's id, from which on documents are held out; None: a hash of the
      document id decides.

    Shards of one id have the same rows, so the same documents of both are held out.
    """

    share: float
    first: Mapping[str, int] | None = None

    @classmethod
    def of(cls, shards: Sequence[Shard], documents: Sequence[int], share: float, validation: Validation) -> HeldOut:
        """Held-out part of a corpus whose shards have these numbers of documents."""
        if validation is Validation.RANDOM:
            return cls(share)
        place, first = first_held_out(sum(documents), share), dict[str, int]()
        for shard, size in zip(shards, documents, strict=True):
            first[shard.id] = max(0, place)
            place -= size
        return cls(share, first)

    def place_in(self, shard: Shard) -> int | None:
        """Place of the first held-out document of a shard; None where order does not decide."""
        return None if self.first is None else self.first[shard.id]


EVERY = HeldOut(1.0)


class MinedParts(NamedTuple):
    """What a method of mining counts, the documents that are held out, and how raw text is read."""

    counting: Counting
    held_out: HeldOut
    text: TextSettings = DEFAULT_TEXT


class RowsParts(NamedTuple):
    """Shared parts: constraints whose rows are counted, the documents to count in, and how raw text is read."""

    labels: LabelSet
    constraints: DeclaredConstraints
    held_out: HeldOut = EVERY
    text: TextSettings = DEFAULT_TEXT


@dataclass(frozen=True)
class RowsCounted:
    """Counts of the rows of every constraint, by name.

    Degrees of mined templates are whole numbers, so sums are exact. A constraint that is ``too_large`` for some
    document, held out or not, has no rows of that document's shard in the counts.
    """

    documents: int
    rejected: int
    rows: dict[str, RowCounts]
    too_large: dict[str, TooLarge]

    @classmethod
    def merge(cls, parts: Iterable[RowsCounted]) -> RowsCounted:
        """The counts of all parts together."""
        shards = list(parts)
        names = dict.fromkeys(name for part in shards for name in part.rows)
        rows = {name: [part.rows[name] for part in shards if name in part.rows] for name in names}
        return cls(
            sum(part.documents for part in shards),
            sum(part.rejected for part in shards),
            {name: RowCounts(*map(sum, zip(*counts, strict=True))) for name, counts in rows.items()},
            largest(part.too_large for part in shards),
        )


def _count_mined(shard: Shard, parts: MinedParts) -> Any:
    batch, rejects = read_batch(shard, text=parts.text)
    return parts.counting.of_batch(batch, first=parts.held_out.place_in(shard), rejected=len(rejects))


def _count_rows(shard: Shard, parts: RowsParts) -> RowsCounted:
    batch, rejects = read_batch(shard, text=parts.text)
    held_out = part_of(batch, parts.held_out.share, held_out=True, first=parts.held_out.place_in(shard))
    batches = [] if held_out.labels is None else [held_out]
    too_large = parts.constraints.too_large(batch, parts.labels)
    fitting = parts.constraints.only(set(parts.constraints.titles) - set(too_large))
    return RowsCounted(len(batch), len(rejects), count_rows(fitting, batches, parts.labels), too_large)


COUNTED_RULES = Task("mined", MinedParts, run=_count_mined, counts=itself, rehearse=_count_mined, warm=nothing)
ROWS = Task("rows", RowsParts, run=_count_rows, counts=itself, rehearse=_count_rows, warm=nothing)
