"""The manifest of a run as one object with what its lists say, to be changed and written again with all digests."""

from __future__ import annotations

import hashlib
from dataclasses import asdict
from pathlib import Path
from typing import Any

from concord.flows.runfolder.layout import MANIFEST
from concord.flows.runfolder.lists import ListedShard, list_bytes, list_name
from concord.flows.runfolder.published import published
from concord.schemas.run import ShardPlace
from concord.workers.storage.sealed import seal, unseal

Content = dict[str, Any]


def opened_manifest(out: Path) -> Content:
    """The manifest of a published run, with ``places`` and ``files`` (SHA-256 by path) of its shards for its lists."""
    content = unseal((out / MANIFEST).read_bytes())
    assert content is not None
    del content["lists"]
    shards = list(published(str(out)).shards())
    files = {path: digest for shard in shards for path, digest in shard.files.items()}
    return content | {"places": [asdict(shard.place) for shard in shards], "files": files}


def write_manifest(out: Path, content: Content) -> None:
    """Writes such a manifest, with its lists. A file is listed with the shard of its number, or with the last."""
    places = [ShardPlace(**place) for place in content["places"]]
    listed = [ListedShard(place, {}) for place in places]
    for path, digest in content["files"].items():
        number = path.rpartition("/")[2][:8]
        if listed:
            files = listed[int(number) if number.isdecimal() and int(number) < len(listed) else -1].files
            assert isinstance(files, dict)
            files[path] = digest
    lists = write_lists(out, listed)
    kept = {name: value for name, value in content.items() if name not in ("places", "files")}
    (out / MANIFEST).write_bytes(seal({"lists": lists} | kept))


def write_lists(out: Path, shards: list[ListedShard]) -> dict[str, str]:
    """Writes one list of these shards: its SHA-256 by its name."""
    data = list_bytes(shards)
    digest = hashlib.sha256(data).hexdigest()
    path = out / list_name(0, digest)
    path.parent.mkdir(exist_ok=True)
    for other in path.parent.iterdir():
        other.unlink()
    path.write_bytes(data)
    return {list_name(0, digest): digest}
