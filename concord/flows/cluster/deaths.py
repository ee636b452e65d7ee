"""Workers that die: search for the document to blame, and the next work. No Ray here.

A shard that has lost its worker twice is rehearsed in parts: the same work without output, on smaller and smaller parts
while workers go on dying. A row that kills a worker twice by itself is taken out, and the rest is done as one shard.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from concord.flows.screen.progress import say
from concord.schemas.errors import ServiceError
from concord.workers.corpus.plan import Unit
from concord.workers.corpus.shards import Shard

ATTEMPTS = 2
"""Number of workers that a shard, or a row by itself, may lose."""

SHARD_PARTS = 256
"""Number of parts that a shard is cut into. A call costs milliseconds; a death costs the seconds of a new start."""

LETHAL_DOCUMENTS = 20
"""Largest number of lethal documents of a run: if there are more, the documents are not to blame."""


class ClusterError(ServiceError):
    """Ray could not be started or reached, or is gone, or its workers die or cannot run this code."""


class Work(NamedTuple):
    """Work for a worker: a shard (or another unit), or a part of a shard to rehearse.

    - ``rehearsal``: work without output?
    - ``suspect``: may this have killed a worker? It is given to an idle worker: with two calls, this one would be
      blamed for a death in the other if its answer was lost on the way.
    """

    shard: Unit
    rehearsal: bool = False
    suspect: bool = False


class GivenUpError(Exception):
    """A unit that kills every worker; in the case of a shard, although none of its documents does by itself."""


@dataclass
class _ShardDeaths:
    """A shard that has lost workers.

    - ``deaths``: number of workers lost by the whole shard.
    - ``by_row``: number of workers lost by each row alone; rows count from the start of the file.
    - ``lethal``: rows that are taken out.
    - ``rehearsals``: number of rehearsals that have not come back.
    - ``searched``: has the search for lethal rows begun?
    """

    shard: Shard
    deaths: int = 0
    by_row: Counter[int] = field(default_factory=Counter)
    lethal: list[int] = field(default_factory=list)
    rehearsals: int = 0
    searched: bool = False


@dataclass
class Deaths:
    """The units that have lost workers.

    - ``split``: cuts a shard into parts with its id, at most as many as the number.
    """

    split: Callable[[Shard, int], Sequence[Shard]]
    _cases: dict[str, _ShardDeaths] = field(default_factory=dict)
    _others: Counter[str] = field(default_factory=Counter)

    def lost(self, work: Work) -> list[Work]:
        """The next work after a worker died of this.

        Raises `GivenUpError` if the unit is given up, `ClusterError` if too many documents are lethal, and the errors
        of splitting.
        """
        shard = work.shard
        if not isinstance(shard, Shard):
            return self._lost_whole(work)
        case = self._cases.setdefault(shard.id, _ShardDeaths(shard))
        if work.rehearsal:
            return self._lost_rehearsal(case, shard)
        case.deaths += 1
        if case.deaths < ATTEMPTS:
            return [work._replace(suspect=True)]
        if case.searched:
            raise GivenUpError(f"its worker died {ATTEMPTS} times, but no document alone killed one")
        case.searched = True
        if case.shard.rows > 1:
            return self._rehearse(case, case.shard)
        self._take_out(case, shard)
        return [_rest(case)]

    def _lost_whole(self, work: Work) -> list[Work]:
        """The next work for a unit that is no shard: it has no rows to search."""
        self._others[work.shard.id] += 1
        if self._others[work.shard.id] < ATTEMPTS:
            return [work._replace(suspect=True)]
        raise GivenUpError(f"its worker died {ATTEMPTS} times")

    def survived(self, rehearsal: Work) -> list[Work]:
        """The next work after a worker survived this part."""
        return self._rehearsed(self._cases[rehearsal.shard.id])

    def _lost_rehearsal(self, case: _ShardDeaths, shard: Shard) -> list[Work]:
        if shard.rows > 1:
            return self._rehearse(case, shard) + self._rehearsed(case)
        case.by_row[shard.first_row] += 1
        if case.by_row[shard.first_row] < ATTEMPTS:
            return [_rehearsal(shard)]
        self._take_out(case, shard)
        return self._rehearsed(case)

    def _take_out(self, case: _ShardDeaths, row: Shard) -> None:
        case.lethal.append(row.first_row)
        say(f"{row.place}: a worker died {ATTEMPTS} times of this document alone; it is rejected")
        count = sum(len(other.lethal) for other in self._cases.values())
        if count > LETHAL_DOCUMENTS:
            raise ClusterError(
                f"{count} documents have each ended {ATTEMPTS} workers, the last one in {row.place}; give the workers "
                "more memory, and see Ray's logs"
            )

    def _rehearse(self, case: _ShardDeaths, shard: Shard) -> list[Work]:
        parts = self.split(shard, SHARD_PARTS)
        case.rehearsals += len(parts)
        return [_rehearsal(part) for part in parts]

    def _rehearsed(self, case: _ShardDeaths) -> list[Work]:
        """The next work after a rehearsal: after the last one, the shard without its lethal rows."""
        case.rehearsals -= 1
        return [] if case.rehearsals else [_rest(case)]


def _rehearsal(part: Shard) -> Work:
    return Work(part, rehearsal=True, suspect=True)


def _rest(case: _ShardDeaths) -> Work:
    case.deaths = 0
    lethal = tuple(sorted(row - case.shard.first_row for row in case.lethal))
    return Work(case.shard._replace(lethal=lethal), suspect=True)
