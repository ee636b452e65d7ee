"""What a run has published, as its readers see it: the files that its manifest names, each checked."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
from pydantic import ValidationError

from concord.flows.runfolder.layout import MANIFEST, STORE
from concord.flows.runfolder.lists import ListedShard, read_list
from concord.schemas.columns import DOC_ID, Layout, check
from concord.schemas.errors import InputError
from concord.schemas.run import RunManifest
from concord.workers.labelling.output import MARKERS, marker_name
from concord.workers.storage.sealed import unseal
from concord.workers.storage.storage import Storage, read_if_there, storage_at
from concord.workers.storage.tables import unthreaded_file


class PublishedError(InputError):
    """A folder without a whole run, or one whose files are not what its manifest says."""


class NothingPublishedError(PublishedError):
    """A folder without a whole run."""


class Published(NamedTuple):
    """A whole run at ``uri`` (a path or URI). ``unfinished`` shards of a later run are done and not yet published."""

    uri: str
    storage: Storage
    manifest: RunManifest
    unfinished: int

    def shards(self) -> Iterator[ListedShard]:
        """The shards of the run in the order of the corpus.

        Raises `PublishedError` where a list of them is missing or differs from what was written.
        """
        for path, digest in self.manifest.lists.items():
            listed = read_list(self._read(path, digest))
            if listed is None:
                raise PublishedError(f"{self.uri}: {path} is no list of shards; run the same `concord reprocess` again")
            yield from listed

    def files(self) -> dict[str, str]:
        """SHA-256 by name, of all files that readers see, times and manifest apart. Raises as `shards`."""
        files = dict(self.manifest.lists)
        for shard in self.shards():
            files |= shard.files
        return files

    def files_in(self, folder: str) -> Iterator[tuple[str, str]]:
        """The files of one of the run's folders with their SHA-256, in the order of the corpus. Raises as `shards`."""
        files = (file for shard in self.shards() for file in shard.files.items())
        return (file for file in files if file[0].startswith(f"{folder}/"))

    def tables(self, folder: str, layout: Layout) -> Iterator[pa.Table]:
        """The tables of one of the run's folders in the order of the corpus.

        Raises `PublishedError` where a file is missing or differs from what was written, and `SchemaError`.
        """
        return (self.table(path, digest, layout) for path, digest in self.files_in(folder))

    def table(self, path: str, digest: str, layout: Layout, columns: Sequence[str] | None = None) -> pa.Table:
        """One of the tables, by its path and SHA-256, or those of its columns that are there. Raises as `tables`."""
        data = self._read(path, digest)
        try:
            file = unthreaded_file(data)
            there = None if columns is None else [name for name in columns if name in file.schema_arrow.names]
            table = file.read(columns=there, use_threads=False)
            table.validate(full=True)
        except (pa.ArrowException, OSError) as error:
            reason = str(error).partition("\n")[0]
            raise PublishedError(f"{self.uri}: {path} is not a Parquet file, or a damaged one ({reason})") from error
        check(file.schema_arrow, layout, source=path)
        return table

    def _read(self, path: str, digest: str) -> bytes:
        """The bytes of a file. Raises `PublishedError` where it is missing or differs from what was written."""
        data = read_if_there(self.storage, path)
        if data is None or hashlib.sha256(data).hexdigest() != digest:
            raise PublishedError(
                f"{self.uri}: {path} is {'missing' if data is None else 'damaged'}; run the same "
                "`concord reprocess` again (if a run has just ended there, only this command again)"
            )
        return data


def row_of(table: pa.Table, doc_id: str) -> Mapping[str, Any] | None:
    """The row of a document in a table of predictions; None where it has none."""
    ids: list[str] = table[DOC_ID].to_pylist()
    return table.slice(ids.index(doc_id), 1).to_pylist()[0] if doc_id in ids else None


def published(uri: str) -> Published:
    """The whole run at a path or URI.

    Raises `PublishedError`, `NothingPublishedError` before the first run, `StorageError` for a URI of another kind,
    and `OutputError` where an object store cannot be reached.
    """
    storage = storage_at(uri)
    data = read_if_there(storage, MANIFEST)
    if data is None:
        raise NothingPublishedError(
            f"{uri}: no {MANIFEST}, so there is no whole run in this folder; give the folder that "
            "`concord reprocess` wrote, or run it to its end (the same command goes on where it stopped)"
        )
    try:
        manifest = RunManifest.model_validate(unseal(data))
    except ValidationError:
        raise PublishedError(
            f"{uri}: {MANIFEST} is damaged, or of another version of concord; the same `concord reprocess` again "
            "writes it anew, without labelling again where nothing else has changed"
        ) from None
    run = Published(uri, storage, manifest, 0)
    markers = {name for name in storage.names(f"{STORE}/{MARKERS}") if name.endswith(".json")}
    if markers:
        markers.difference_update(marker_name(shard.place.key) for shard in run.shards())
    return run._replace(unfinished=len(markers))
