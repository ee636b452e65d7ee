"""Compares the files of predictions of the published run with those of a finished one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from concord.flows.runfolder.layout import STORE
from concord.flows.runfolder.markers import Markers
from concord.flows.runfolder.published import Published
from concord.schemas.arrays import Ints, Mask
from concord.schemas.run import ShardMarker
from concord.workers.labelling.output import PREDICTIONS


class FileDifference(NamedTuple):
    """Files of predictions of two runs, a file a shard, in the order of the corpus of each.

    - ``old`` (F,): SHA-256 of the published ones
    - ``gone`` (F,): mask of those that the next run does not have
    - ``added`` (G,): mask of the next run's files that the published run does not have
    """

    old: NDArray[np.bytes_]
    gone: Mask
    added: Mask

    @classmethod
    def of(cls, last: Published, markers: Markers) -> Self:
        """Compares the published run with one whose shards are done. Raises as `Published.shards`."""
        old, new = _digests(last.files_in(PREDICTIONS)), _digests(written(markers))
        return cls(old, ~np.isin(old, new), ~np.isin(new, old))

    @property
    def are_the_same(self) -> bool:
        """Have both runs the same files?"""
        return not self.gone.any() and not self.added.any()


def places_now(last: Published, markers: Markers, count: int) -> Ints:
    """(F,) index in the next run of each of the ``count`` published shards with equal rows; −1 if none."""
    keys = markers.keys_under(last.manifest.run)
    places = (keys.first(shard.place.key) for shard in last.shards())
    return np.fromiter((-1 if place is None else place for place in places), np.int64, count)


def written(markers: Markers) -> Iterator[tuple[str, str]]:
    """The files of predictions in the store with their SHA-256, in the order of the corpus."""
    return (file for marker in markers for file in written_files(marker))


def written_files(marker: ShardMarker) -> Iterator[tuple[str, str]]:
    """The files of predictions of a shard in the store with their SHA-256: one."""
    files = (file for file in marker.files if file.path.startswith(f"{PREDICTIONS}/"))
    return ((f"{STORE}/{file.path}", file.sha256) for file in files)


def _digests(files: Iterable[tuple[str, str]]) -> NDArray[np.bytes_]:
    """The digests of files: they are millions."""
    data = bytearray()
    for _, digest in files:
        data += bytes.fromhex(digest)
    return np.frombuffer(data, "S32")
