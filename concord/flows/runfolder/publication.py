"""The files of a finished run as readers get them, worked out shard by shard."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from concord.flows.runfolder.layout import FILE_NAME, FOLDERS, PublishedFile
from concord.flows.runfolder.lists import LISTED_AT_ONCE, ListedShard, list_bytes, list_name
from concord.flows.runfolder.markers import Markers
from concord.schemas.columns import rejects_table
from concord.schemas.run import FileDigest, ReportSum, RuleStrengths, RunManifest, ShardMarker, ShardPlace
from concord.workers.corpus.parquet import table_bytes
from concord.workers.corpus.shards import Shard
from concord.workers.labelling.output import PREDICTIONS, REJECTS, TIMES, in_place
from concord.workers.storage.sealed import seal

KEY_DIGITS = 16
"""Hex digits of a shard's key in the names of files that readers see."""


class RunPublication:
    """The files of a run as readers get them, and its manifest: a `layout.Publication`.

    Of a shard nothing is held but in which folders it has files; those are worked out anew whenever they are asked for.
    """

    def __init__(self, markers: Markers, rules: RuleStrengths, dataset: str) -> None:
        """Works out the manifest."""
        self._markers = markers
        self._folders = np.zeros((len(markers.shards), len(FOLDERS)), np.bool_)
        self._rejects: dict[int, str] = {}
        total, lists = ReportSum(), dict[str, str]()
        for number, start in enumerate(self._starts):
            listed = []
            for shard in self._part(start):
                total.add(shard.marker.report)
                listed.append(shard.listed)
                self._note(shard)
            digest = hashlib.sha256(list_bytes(listed)).hexdigest()
            lists[list_name(number, digest)] = digest
        self.totals = total.report()
        self._lists = lists
        manifest = RunManifest(
            dataset=dataset, run=markers.key, rules=rules, totals=self.totals, shards=len(markers.shards), lists=lists
        )
        self.manifest = seal(manifest.model_dump(mode="json"))

    def files(self) -> Iterator[PublishedFile]:
        """The files in the order of the corpus, and each list of shards behind the shards that it lists."""
        for start, (name, digest) in zip(self._starts, self._lists.items(), strict=True):
            listed = []
            for shard in self._part(start):
                listed.append(shard.listed)
                yield from shard.files
            data = list_bytes(listed)
            yield PublishedFile(FileDigest(path=name, bytes=len(data), sha256=digest), None, data)

    def shows(self, path: str) -> bool:
        """Is this one of the files, or the times of one?"""
        folder, _, name = path.partition("/")
        if path in self._lists:
            return True
        if FILE_NAME.fullmatch(name) is None or int(name[:8]) >= len(self._folders):
            return False
        number = int(name[:8])
        if folder == REJECTS:
            return self._rejects.get(number) == path
        column = FOLDERS.index(PREDICTIONS if folder == TIMES else folder)
        return bool(self._folders[number, column]) and name == _file_name(number, self._markers.keys[number])

    def keeps(self, name: str) -> bool:
        """Are these files of the store, by the start of their names, those of a shard of the run?"""
        return bool(self._markers.keys.places(name))

    @property
    def _starts(self) -> range:
        return range(0, len(self._markers.shards), LISTED_AT_ONCE)

    def _part(self, start: int) -> Iterator[_PublishedShard]:
        """The shards of a list."""
        shards = self._markers.shards[start : start + LISTED_AT_ONCE]
        for place, shard in enumerate(shards, start):
            marker = self._markers[place]
            yield _PublishedShard(place, shard, marker, tuple(_published_files(place, shard, marker)))

    def _note(self, shard: _PublishedShard) -> None:
        for file in shard.files:
            folder = file.entry.path.partition("/")[0]
            self._folders[shard.number, FOLDERS.index(folder)] = True
            if folder == REJECTS:
                self._rejects[shard.number] = file.entry.path


class _PublishedShard(NamedTuple):
    """A shard, its number in the corpus, its marker, and its published files."""

    number: int
    shard: Shard
    marker: ShardMarker
    files: tuple[PublishedFile, ...]

    @property
    def listed(self) -> ListedShard:
        shard = self.shard
        place = ShardPlace(self.marker.key, shard.file.name, shard.first_row, shard.rows)
        return ListedShard(place, {file.entry.path: file.entry.sha256 for file in self.files})


def _published_files(number: int, shard: Shard, marker: ShardMarker) -> Iterator[PublishedFile]:
    """The files of a shard, by its number in the corpus; their names sort as the corpus does."""
    for entry in marker.files:
        folder = entry.path.partition("/")[0]
        yield PublishedFile(replace(entry, path=f"{folder}/{_file_name(number, marker.key)}"), entry.path)
    if marker.rejects:
        data = table_bytes(rejects_table(in_place(marker.rejects, shard)))
        digest = hashlib.sha256(data).hexdigest()
        # Places are no part of the key, so the name is that of the bytes.
        entry = FileDigest(path=f"{REJECTS}/{_file_name(number, digest)}", bytes=len(data), sha256=digest)
        yield PublishedFile(entry, None, data)


def _file_name(number: int, digest: str) -> str:
    return f"{number:08d}-{digest[:KEY_DIGITS]}.parquet"
