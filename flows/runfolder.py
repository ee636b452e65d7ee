"""The output folder of a run as the driver sees it: one run at a time, what is done, what is stale, the manifest."""

from __future__ import annotations

import fcntl
import hashlib
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from schemas.errors import InputError
from schemas.run import FORMAT, RunKey, ShardMarker, ShardReport
from workers.output import (
    MANIFEST,
    MARKERS,
    finished,
    marker_path,
    remove_leftovers,
    remove_shard,
    shard_name,
    write_bytes,
)
from workers.shard_io import Shard

LOCK = ".lock"
CORPUS = "corpus.json"
"""Which corpus the folder's predictions are of; in the markers' folder."""


class RunFolderError(InputError):
    """An output folder that cannot be used: a URI, one where another run writes, or one of another corpus."""


@contextmanager
def exclusive(out: Path) -> Iterator[None]:
    """Keeps other runs on this machine out of the folder for the length of the block.

    The lock ends with the process, however it ends. Raises `RunFolderError`.
    """
    out.mkdir(parents=True, exist_ok=True)
    with (out / LOCK).open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RunFolderError(
                f"{out}: another run is writing there; wait for its end or give another --out"
            ) from None
        yield


def prepare(out: Path, corpus: str, shards: Sequence[Shard], key: RunKey) -> dict[str, ShardMarker]:
    """Clears what killed runs and former versions of the corpus left.

    Gives the markers of the shards that are done, by shard id.

    Raises `RunFolderError` where the folder holds the predictions of another corpus.
    """
    claim = out / MARKERS / CORPUS
    if claim.is_file() and (held := json.loads(claim.read_text())["corpus"]) != corpus:
        raise RunFolderError(f"{out} holds the predictions of {held}; give another --out, or delete that folder")
    write_bytes(json.dumps({"corpus": corpus}).encode() + b"\n", out, f"{MARKERS}/{CORPUS}")
    remove_leftovers(out)
    wanted = {shard_name(shard) for shard in shards}
    for path in (out / MARKERS).glob("*.json"):
        if path.name != CORPUS and path.stem not in wanted:
            remove_shard(out, path.stem)
    done = {shard.id: marker for shard in shards if (marker := finished(shard, key, out)) is not None}
    for shard in shards:
        if shard.id not in done:
            marker_path(out, shard_name(shard)).unlink(missing_ok=True)
    if len(done) < len(shards):
        (out / MANIFEST).unlink(missing_ok=True)
    return done


def write_manifest(
    out: Path, key: RunKey, shards: Sequence[Shard], markers: dict[str, ShardMarker], report: ShardReport
) -> None:
    """Writes the manifest: the run is whole. Nothing in it depends on time, order or workers."""
    content = {
        "format": FORMAT,
        "dataset": dataset_digest(shards),
        "run": key.model_dump(mode="json"),
        "totals": report.model_dump(mode="json"),
        "files": {f.path: f.sha256 for marker in markers.values() for f in marker.files},
        "shards": sorted(marker.shard for marker in markers.values()),
    }
    write_bytes(json.dumps(content, indent=1, sort_keys=True).encode() + b"\n", out, MANIFEST)


def dataset_digest(shards: Sequence[Shard]) -> str:
    """Hex digest of a corpus's content, whatever the order of its shards."""
    state = hashlib.sha256()
    for name in sorted(shard.id for shard in shards):
        state.update(name.encode())
    return state.hexdigest()
