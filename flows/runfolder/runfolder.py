"""The output folder of a run: one run at a time, what is done, and what readers see.

Two halves. ``.shards`` is the store: the finished work of every shard by its key, which nobody but concord reads.
What readers see (``predictions``, ``manifest.json``, ...) are symbolic links through the one link ``.current`` to a
folder in ``.published``, whose files are hard links into the store. Publishing builds a new such folder and turns
``.current`` to it by one rename, so a reader sees the last whole run or the new one, at every moment and after
every kill. File names there hold the key of their content: a reader that listed the old folder and opens its files
in the new one finds the same bytes or none.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from concord.flows.errors import RunFolderError
from concord.schemas.columns import rejects_table
from concord.schemas.run import (
    SHARD_BYTES,
    FileDigest,
    RuleStrengths,
    RunKey,
    RunManifest,
    ShardMarker,
    ShardPlace,
    ShardReport,
)
from concord.schemas.secrets import place_of
from concord.schemas.settings import Settings
from concord.workers.constraints.constraint_set import NO_RULES
from concord.workers.corpus.parquet import table_bytes
from concord.workers.corpus.shards import Shard
from concord.workers.labelling.output import (
    CERTIFICATES,
    MARKERS,
    NAME_LENGTH,
    PREDICTIONS,
    REJECTS,
    TIMES,
    finished,
    in_place,
    intact,
    remove,
)
from concord.workers.storage.files import TEMPORARY, make_folder, point, second_name, sync, write_whole, writing
from concord.workers.storage.sealed import seal, unseal

LOCK, CORPUS, SOURCES, STORE = ".lock", ".corpus.json", ".sources.json", ".shards"
PUBLISHED, CURRENT = ".published", ".current"
MANIFEST = "manifest.json"
FOLDERS = (PREDICTIONS, REJECTS, TIMES, CERTIFICATES)
SEEN = (*FOLDERS, MANIFEST)
"""What readers see: links through `CURRENT`."""
NUMBER, FILE_NAME = re.compile(r"[0-9]{8}"), re.compile(r"[0-9]{8}-[0-9a-f]{16}\.parquet")
"""What folders in `PUBLISHED`, and the files that readers see, are called."""


@contextmanager
def exclusive(out: Path) -> Iterator[None]:
    """Keeps other runs on this machine out of the folder for the length of the block.

    The lock ends with the process, however it ends. Raises `RunFolderError`, also where something else than a run of
    concord's is in the folder, and `OutputError`.
    """
    make_folder(out)
    _check_own(out)
    with locked(out / LOCK, out):
        yield


@contextmanager
def locked(lock: Path, out: Path) -> Iterator[None]:
    """Holds the lock on ``out``, which is a file in it or beside it, for the length of the block.

    Nothing is written into it. Raises `RunFolderError` where another process holds it or it is a link, which leads to a
    file of somebody else's, and `OutputError`.
    """
    if lock.is_symlink():
        raise RunFolderError(f"{lock}: a symbolic link, where a lock of concord's own has to be; remove it")
    with writing(lock):
        held = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
    try:
        _take(held, out)
        yield
    finally:
        os.close(held)


def is_at_work(out: Path) -> bool:
    """Does a run hold the lock of the folder?"""
    if not (out / LOCK).is_file():
        return False
    try:
        with locked(out / LOCK, out):
            return False
    except RunFolderError:
        return True


def _take(held: int, out: Path) -> None:
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise RunFolderError(f"{out}: another run is writing there; wait for its end or give another --out") from None


def _check_own(out: Path) -> None:
    """Raises `RunFolderError` where there is something in the folder that is not concord's: nobody deletes that."""
    for name in (*SEEN, CURRENT):
        if not (out / name).exists() or (out / name).is_symlink():
            continue
        if (out / STORE).is_dir() and (out / PUBLISHED).is_dir():
            raise RunFolderError(
                f"{out / name}: no link, as if the folder had been copied without its links (cp -rL); delete "
                f"{', '.join((*SEEN, CURRENT))} and {PUBLISHED} there, and the same command makes them anew without "
                f"labelling again, or copy with cp -a"
            )
        raise RunFolderError(
            f"{out / name}: not written by this version of concord; give another --out, or move that away"
        )
    if (out / PUBLISHED).is_symlink():
        raise RunFolderError(f"{out / PUBLISHED}: a symbolic link, where concord makes a folder; remove it")
    strange = [f"{PUBLISHED}/{path.name}" for path in _shown(out / PUBLISHED) if not _is_published(path)]
    strange += [place for place in _in_folders(out) if not FILE_NAME.fullmatch(Path(place).name)]
    if strange:
        raise RunFolderError(
            f"{out / min(strange)}: not written by concord, which would delete it or have readers take it for a part "
            "of the run; move it away, and run the same command again"
        )


def foreign_files(out: Path, listed: Collection[str]) -> list[str]:
    """Files in the folders of a run that it does not list, and that readers of those folders read nevertheless."""
    times = {f"{TIMES}/{Path(path).name}" for path in listed if path.startswith(f"{PREDICTIONS}/")}
    return sorted(set(_in_folders(out)) - times - set(listed))


def _in_folders(out: Path) -> list[str]:
    """What is in the folders that readers see, by its path in ``out``."""
    return [f"{name}/{path.name}" for name in FOLDERS for path in _shown(out / name)]


def _shown(folder: Path) -> list[Path]:
    """What is in a folder, but for what readers of Parquet leave out: names that start with a dot or a low line."""
    found = folder.iterdir() if folder.is_dir() else ()
    return [path for path in found if not path.name.startswith((".", "_"))]


def _is_published(path: Path) -> bool:
    return NUMBER.fullmatch(path.name) is not None and path.is_dir() and not path.is_symlink()


def claim(out: Path, corpus: str) -> None:
    """Says which corpus the folder is for, and clears what killed processes left half written.

    Raises `RunFolderError` where the folder holds work on another corpus, and `OutputError`.
    """
    place = place_of(corpus)  # its key may be another one today, and is nobody's business
    held = _held_corpus(out / CORPUS)
    begun = (out / CURRENT).is_symlink() or any((out / STORE / MARKERS).glob("*.json"))
    if held not in (None, place) and begun:
        raise RunFolderError(f"{out} holds the predictions of {held}; give another --out, or delete that folder")
    if held != place:
        write_whole(out / CORPUS, seal({"corpus": place}))
    remove([*out.glob(f"{TEMPORARY}*"), *(out / STORE).glob(f"*/{TEMPORARY}*")])


def _held_corpus(path: Path) -> str | None:
    """The corpus that the folder is for; None where that is not said, or damaged and so not to be believed."""
    try:
        content = unseal(path.read_bytes())
    except OSError:
        return None
    return None if content is None else str(content.get("corpus"))


class Sources(Settings):
    """What a run was made from, as it was named; digests in the manifest tell whether that is still the same."""

    corpus: str
    model: str
    constraints: tuple[str, ...]
    consistency: bool
    shard_bytes: int = SHARD_BYTES


def write_sources(out: Path, sources: Sources) -> None:
    """Keeps what a run was made from, for `concord verify`, without secrets. Raises `OutputError`."""
    named = sources.model_copy(update={"corpus": place_of(sources.corpus), "model": place_of(sources.model)})
    write_whole(out / SOURCES, seal(named.model_dump(mode="json")))


def read_sources(out: Path) -> Sources:
    """What `write_sources` kept. Raises `RunFolderError`."""
    try:
        content = unseal((out / SOURCES).read_bytes())
        return Sources.model_validate(content)
    except (OSError, ValidationError):
        raise RunFolderError(
            f"{out}: no record of what this run was made from ({SOURCES}), or a damaged one; the same "
            "`concord reprocess` again writes it, without labelling again where nothing has changed"
        ) from None


def find_done(out: Path, shards: Sequence[Shard], key: RunKey) -> dict[str, ShardMarker]:
    """The markers of the shards that need not be done again, by shard id; reads and hashes all their files."""
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:  # hashing leaves Python's lock
        found = pool.map(lambda shard: finished(shard, key, out / STORE), shards)
        return {shard.id: marker for shard, marker in zip(shards, found, strict=True) if marker is not None}


# Publishing


def publish(
    out: Path,
    key: RunKey,
    shards: Sequence[Shard],
    markers: Mapping[str, ShardMarker],
    *,
    rules: RuleStrengths = NO_RULES,
) -> None:
    """Shows the run to readers, in one step: all shards are done. Then removes what it no longer names.

    May be killed at any point: the same call again ends in the same state. Raises `OutputError`.
    """
    files = _files(out / STORE, shards, markers)
    manifest = seal(_manifest(key, rules, shards, markers, files))
    if not _is_seen(out, files, manifest):
        number = _number(out)
        _clear_published(out, but=number)
        folder = out / PUBLISHED / f"{number + 1:08d}"
        _fill(folder, files, manifest)
        for name in SEEN:
            point(out / name, f"{CURRENT}/{name}")
        point(out / CURRENT, f"{PUBLISHED}/{folder.name}")
    _clear_published(out, but=_number(out))
    names = {markers[shard.id].key[:NAME_LENGTH] for shard in shards}
    remove([path for path in (out / STORE).glob("*/*") if path.stem not in names])


def first_reject(shards: Sequence[Shard], markers: Mapping[str, ShardMarker]) -> str | None:
    """Where the first reject of finished shards stands, in the order of the corpus, and why it is one."""
    for shard in shards:
        for reject in in_place(markers[shard.id].rejects, shard):
            return f"{reject.source}, {f'row {reject.row}' if reject.row is not None else 'a row'}: {reject.reason}"
    return None


class _File(NamedTuple):
    """A file that readers shall see: a second name of one in the store, or bytes of its own."""

    entry: FileDigest
    source: Path | None
    data: bytes = b""


def _files(store: Path, shards: Sequence[Shard], markers: Mapping[str, ShardMarker]) -> list[_File]:
    """The files of all shards; their names sort as the corpus does."""
    found = []
    for number, shard in enumerate(shards):
        marker = markers[shard.id]
        name = f"{number:08d}-{marker.key[:16]}"
        for entry in marker.files:
            stored = Path(entry.path)
            seen = f"{stored.parent.name}/{name}{stored.suffix}"
            found.append(_File(entry.model_copy(update={"path": seen}), store / stored))
        if marker.rejects:
            data = table_bytes(rejects_table(in_place(marker.rejects, shard)))
            digest = hashlib.sha256(data).hexdigest()
            # Places are no part of the key, so the name is that of the bytes.
            entry = FileDigest(path=f"{REJECTS}/{number:08d}-{digest[:16]}.parquet", bytes=len(data), sha256=digest)
            found.append(_File(entry, None, data))
    return found


def _manifest(
    key: RunKey,
    rules: RuleStrengths,
    shards: Sequence[Shard],
    markers: Mapping[str, ShardMarker],
    files: Sequence[_File],
) -> dict[str, Any]:
    places = (ShardPlace(key=markers[s.id].key, file=s.file.name, first_row=s.first_row, rows=s.rows) for s in shards)
    manifest = RunManifest(
        dataset=dataset_digest(shards),
        run=key,
        rules=rules,
        totals=ShardReport.merge(markers[shard.id].report for shard in shards),
        files={file.entry.path: file.entry.sha256 for file in files},
        shards=tuple(places),
    )
    return manifest.model_dump(mode="json")


def _is_seen(out: Path, files: Sequence[_File], manifest: bytes) -> bool:
    """Is this what readers see, undamaged? The files in the store are known to be whole."""
    try:
        if (out / MANIFEST).read_bytes() != manifest:
            return False
    except OSError:
        return False
    if foreign_files(out, [file.entry.path for file in files]):
        return False
    return all(_is_second_name(file, out) or intact(out / file.entry.path, file.entry) for file in files)


def _is_second_name(file: _File, out: Path) -> bool:
    try:
        return file.source is not None and file.source.samefile(out / file.entry.path)
    except OSError:
        return False


def _number(out: Path) -> int:
    """The number of the folder that readers see, or the last there is where the link is damaged; 0 for none."""
    current = out / CURRENT
    target = current.readlink() if current.is_symlink() else Path()
    if target.parent == Path(PUBLISHED) and NUMBER.fullmatch(target.name):
        return int(target.name)
    return max((int(path.name) for path in _shown(out / PUBLISHED) if _is_published(path)), default=0)


def _fill(folder: Path, files: Sequence[_File], manifest: bytes) -> None:
    for name in FOLDERS:
        make_folder(folder / name)
    for file in files:
        place = folder / file.entry.path
        if file.source is None:
            write_whole(place, file.data)
            continue
        second_name(file.source, place)
        times = file.source.parent.parent / TIMES / file.source.name
        if file.source.parent.name == PREDICTIONS and times.is_file():
            second_name(times, folder / TIMES / place.name)
    write_whole(folder / MANIFEST, manifest)
    with writing(folder):
        for name in FOLDERS:
            sync(folder / name)
        sync(folder.parent)


def _clear_published(out: Path, *, but: int) -> None:
    for path in _shown(out / PUBLISHED):
        if path.name != f"{but:08d}" and _is_published(path):
            with writing(path):
                shutil.rmtree(path)


def dataset_digest(shards: Sequence[Shard]) -> str:
    """Hex digest of a corpus's content, whatever the order of its shards."""
    state = hashlib.sha256()
    for name in sorted(shard.id for shard in shards):
        state.update(name.encode())
    return state.hexdigest()
