"""What a run has published, as its readers see it: the files that its manifest names, each checked."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import NamedTuple

import pyarrow as pa
from pydantic import ValidationError

from concord.flows.runfolder.layout import MANIFEST, STORE
from concord.schemas.columns import Layout, check
from concord.schemas.errors import InputError
from concord.schemas.run import RunManifest
from concord.workers.labelling.output import MARKERS, marker_name
from concord.workers.storage.sealed import unseal
from concord.workers.storage.storage import Storage, read_if_there, storage_at
from concord.workers.storage.tables import read_unthreaded


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

    def tables(self, folder: str, layout: Layout) -> Iterator[pa.Table]:
        """The tables of one of the run's folders in the order of the corpus.

        Raises `PublishedError` where a file is missing or differs from what was written, and `SchemaError`.
        """
        for path in sorted(self.manifest.files):
            if path.startswith(f"{folder}/"):
                yield self.table(path, layout)

    def table(self, path: str, layout: Layout) -> pa.Table:
        """One of the tables, by its path in the manifest. Raises as `tables`."""
        data = read_if_there(self.storage, path)
        if data is None or hashlib.sha256(data).hexdigest() != self.manifest.files[path]:
            raise PublishedError(
                f"{self.uri}: {path} is {'missing' if data is None else 'damaged'}; run the same "
                "`concord reprocess` again (if a run has just ended there, only this command again)"
            )
        try:
            table = read_unthreaded(data)
            table.validate(full=True)
        except (pa.ArrowException, OSError) as error:
            reason = str(error).partition("\n")[0]
            raise PublishedError(f"{self.uri}: {path} is not a Parquet file, or a damaged one ({reason})") from error
        check(table.schema, layout, source=path)
        return table


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
    keys = {marker_name(shard.key) for shard in manifest.shards}
    there = storage.listed(f"{STORE}/{MARKERS}")
    unfinished = sum(name.endswith(".json") and name not in keys for name in there)
    return Published(uri, storage, manifest, unfinished)
