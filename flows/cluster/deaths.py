"""Workers that die: which document is to blame, and what is to be done next. No Ray here.

A shard that has lost its worker twice is rehearsed in parts, worked on without a trace, smaller and smaller ones
where workers go on dying. A row that kills twice by itself is taken out, and the rest is done as one shard.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from concord.flows.progress import say
from concord.schemas.errors import ServiceError
from concord.workers.corpus.plan import Unit
from concord.workers.corpus.shards import Shard

ATTEMPTS = 2
"""How often a shard, or a row by itself, may lose its worker."""

SHARD_PARTS = 256
"""Into how many parts a shard is cut at once. A call costs milliseconds, a death the seconds of a worker's start."""

LETHAL_DOCUMENTS = 20
"""How many documents of a run may be lethal: more are no matter of single documents."""


class ClusterError(ServiceError):
    """Ray could not be started or reached, is gone, or its workers cannot run this code or do not live."""


class Work(NamedTuple):
    """What a worker is given: a shard or another unit, or a part of a shard to rehearse.

    A ``suspect`` may have ended a worker. It is given to one that has nothing else to do: of two calls it would be
    blamed for the death in the other, where its answer was on its way and got lost.
    """

    shard: Unit
    rehearsal: bool = False
    suspect: bool = False


class GivenUpError(Exception):
    """A unit that no worker lives through; of a shard, though workers do through every document of it."""


@dataclass
class _Case:
    """A shard that has lost workers. Rows count from the start of the file; ``rehearsals`` are still to come back."""

    shard: Shard
    deaths: int = 0
    by_row: Counter[int] = field(default_factory=Counter)
    lethal: list[int] = field(default_factory=list)
    rehearsals: int = 0
    searched: bool = False


@dataclass
class Deaths:
    """The units that have lost workers. ``split`` cuts a shard into at most so many parts, with its id."""

    split: Callable[[Shard, int], Sequence[Shard]]
    _cases: dict[str, _Case] = field(default_factory=dict)
    _others: Counter[str] = field(default_factory=Counter)

    def lost(self, work: Work) -> list[Work]:
        """What is to be done now that a worker died of this.

        Raises `GivenUpError` where the unit has to be given up, `ClusterError` where too many documents are lethal,
        and what splitting raises.
        """
        shard = work.shard
        if not isinstance(shard, Shard):
            return self._lost_whole(work)
        case = self._cases.setdefault(shard.id, _Case(shard))
        if work.rehearsal:
            return self._lost_rehearsal(case, shard)
        case.deaths += 1
        if case.deaths < ATTEMPTS:
            return [work._replace(suspect=True)]
        if case.searched:
            raise GivenUpError(f"its worker died {ATTEMPTS} times, and of none of its documents alone")
        case.searched = True
        if case.shard.rows > 1:
            return self._rehearse(case, case.shard)
        self._take_out(case, shard)
        return [_rest(case)]

    def _lost_whole(self, work: Work) -> list[Work]:
        """What is no shard has no rows of which one may be to blame."""
        self._others[work.shard.id] += 1
        if self._others[work.shard.id] < ATTEMPTS:
            return [work._replace(suspect=True)]
        raise GivenUpError(f"its worker died {ATTEMPTS} times")

    def survived(self, rehearsal: Work) -> list[Work]:
        """What is to be done now that a worker has lived through this part."""
        return self._rehearsed(self._cases[rehearsal.shard.id])

    def _lost_rehearsal(self, case: _Case, shard: Shard) -> list[Work]:
        if shard.rows > 1:
            return self._rehearse(case, shard) + self._rehearsed(case)
        case.by_row[shard.first_row] += 1
        if case.by_row[shard.first_row] < ATTEMPTS:
            return [_rehearsal(shard)]
        self._take_out(case, shard)
        return self._rehearsed(case)

    def _take_out(self, case: _Case, row: Shard) -> None:
        case.lethal.append(row.first_row)
        say(f"{row.place}: a worker died {ATTEMPTS} times of this document alone; it is rejected")
        count = sum(len(other.lethal) for other in self._cases.values())
        if count > LETHAL_DOCUMENTS:
            raise ClusterError(
                f"{count} documents have each ended {ATTEMPTS} workers, the last one in {row.place}; give the workers "
                "more memory, and see Ray's logs"
            )

    def _rehearse(self, case: _Case, shard: Shard) -> list[Work]:
        parts = self.split(shard, SHARD_PARTS)
        case.rehearsals += len(parts)
        return [_rehearsal(part) for part in parts]

    def _rehearsed(self, case: _Case) -> list[Work]:
        """One rehearsal is over; after the last one the shard is done without its lethal rows."""
        case.rehearsals -= 1
        return [] if case.rehearsals else [_rest(case)]


def _rehearsal(part: Shard) -> Work:
    return Work(part, rehearsal=True, suspect=True)


def _rest(case: _Case) -> Work:
    case.deaths = 0
    lethal = tuple(sorted(row - case.shard.first_row for row in case.lethal))
    return Work(case.shard._replace(lethal=lethal), suspect=True)
