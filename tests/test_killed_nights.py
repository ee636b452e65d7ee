"""Nights and rollbacks that are killed before any change of their storage, in a folder and in an object store.

Whatever the moment: readers have the run before or the new one, whole; the merged feed and the table are its
predictions; the way back leads to the run before it; the same command again leaves the bytes of an undisturbed one.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from typing import NamedTuple

import pyarrow.parquet as pq
import pytest

from concord.flows.errors import RunFolderError
from concord.flows.nights.record import RECORD
from concord.flows.nights.rollback import rollback
from concord.flows.runfolder import delta_table
from concord.flows.runfolder.delta_table import LOG, NOTES_FOLDER, TABLE_FOLDER, commit_run, table_state
from concord.flows.runfolder.folder_output import CURRENT, PUBLISHED
from concord.flows.runfolder.layout import FOLDERS, MANIFEST, STAGED, STORE, foreign_files
from concord.flows.runfolder.locks import LOCK
from concord.flows.runfolder.markers import KEPT_MARKERS
from concord.flows.runfolder.published import NothingPublishedError, published
from concord.flows.runfolder.runfolder import Purpose, claim, run_output
from concord.workers.constraints.consistency import LabelConsistency, PairCounts
from concord.workers.labelling.output import MARKERS, TIMES
from concord.workers.storage.files import TEMPORARY
from concord.workers.storage.object_storage import ObjectStorage
from concord.workers.synthesis.made_up import synthesize
from tests.support.kills import killed_before_request, killed_here
from tests.support.made_runs import LABELS
from tests.support.memory_store import copy_objects, memory_store, objects_below
from tests.support.seeds import blocks
from tests.support.small_nights import Files, Night, State, answers, in_table, merged, predicted, rows_of, seen

PARTS = 16
"""Parts of the moments; one is tried at each commit, all of them by the slow tests."""

REJECT = ("doc-8", list[str]())
OTHER_CONSTRAINTS = LabelConsistency(PairCounts.of(synthesize(10, seed=6, kind="news"), LABELS))
ZERO = Night([*rows_of(1, 2), *rows_of(6)], shard_bytes=60)
FIRST = Night([*rows_of(1, 2, 3), REJECT], shard_bytes=60)
OTHER_ROWS = Night([*rows_of(2), *rows_of(3, words=1), *rows_of(4), REJECT], shard_bytes=60)
ALL_OTHER = Night([*rows_of(2), ("doc-3", []), *rows_of(4)], 1, constraints=OTHER_CONSTRAINTS, shard_bytes=60)
LATER = Night(rows_of(3, 5), model=1, shard_bytes=60)
"""A night that comes after a kill, in the place of the same again."""


@dataclass(frozen=True, eq=False)
class Killing:
    """What is killed.

    - ``nights``: those before it, the last of which readers have
    - ``night``: the night that it publishes; None for a rollback
    """

    nights: Sequence[Night]
    night: Night | None

    def run(self, uri: str, folder: Path) -> None:
        """Does it."""
        if self.night is None:
            rollback(uri)
        else:
            label(self.night, uri, folder)


KILLINGS = {
    "the first night": Killing((), ZERO),
    "other rows": Killing((ZERO, FIRST), OTHER_ROWS),
    "other rows, model and constraints": Killing((ZERO, FIRST), ALL_OTHER),
    "rollback": Killing((ZERO, FIRST, ALL_OTHER), None),
}


def label(night: Night, uri: str, folder: Path) -> None:
    """What `concord reprocess --table delta` does to its output."""
    out = run_output(uri)
    with out.exclusive():
        claim(out, Purpose.of("corpus"))
        night.into(out, folder)
        commit_run(out)


def seen_at(uri: str) -> Files:
    """What readers see; nothing before the first night."""
    with suppress(NothingPublishedError):
        return seen(run_output(uri))
    return {}


def table_rows(uri: str) -> State:
    """What readers of the table have."""
    storage = run_output(uri).storage
    rows: State = {}
    for name in table_state(storage).files:
        with storage.opened(f"{TABLE_FOLDER}/{name}") as file:
            rows |= {row["doc_id"]: row for row in pq.ParquetFile(file).read(use_threads=False).to_pylist()}
    return rows


def copy_output(uri: str, other: str) -> None:
    """Copies an output, one that is not there yet, too."""
    if "://" in uri:
        copy_objects(uri, other)
    elif Path(uri).exists():
        shutil.copytree(uri, other, symlinks=True)


def content(uri: str) -> Files:
    """All that must not depend on how the nights went.

    Not times, what was known of files at a time, numbers of published folders, and logs of tables, which have the time
    of each commit. Markers of the last run may stay in an object store, for some days.
    """
    if "://" in uri:
        files: Files = dict(objects_below(uri))
        apart = {TIMES, KEPT_MARKERS, NOTES_FOLDER, f"{STORE}/{MARKERS}"}
    else:
        files = {path.relative_to(uri).as_posix(): path.read_bytes() for path in Path(uri).rglob("*") if path.is_file()}
        apart = {TIMES, KEPT_MARKERS, NOTES_FOLDER, PUBLISHED, CURRENT}
    return {
        name: data
        for name, data in files.items()
        if name not in (RECORD, LOCK) and f"/{LOG}/" not in name and not any(f"{one}/" in name for one in apart)
    }


def leftovers(uri: str) -> list[str]:
    """What a finished night has no use for."""
    storage = run_output(uri).storage
    names = [*foreign_files(storage, published(uri).files()), *storage.names(STAGED)]
    if isinstance(storage, ObjectStorage):
        return [*names, *(name for folder in FOLDERS for name in storage.names(f"{STORE}/{folder}"))]
    folders = list((Path(uri) / PUBLISHED).iterdir())
    return [*names, *map(str, folders[1:]), *map(str, Path(uri).rglob(f"{TEMPORARY}*"))]


class Undisturbed(NamedTuple):
    """Outputs where nothing was killed.

    - ``start``, ``end``: URIs of the output before and after what is killed
    - ``runs``: what readers have after each night before that, oldest first; at first nothing
    - ``after``, ``content``: what readers have at the end, and all files
    - ``rows``: predictions of what readers have, by its manifest
    """

    start: str
    end: str
    runs: list[Files]
    after: Files
    content: Files
    rows: dict[bytes | None, State]


class Bench(NamedTuple):
    """Where outputs are.

    - ``uri``: URI of the output of a name
    - ``folder``: for the corpus
    - ``known``: what each killing comes to undisturbed
    """

    uri: Callable[[str], str]
    folder: Path
    known: dict[Killing, Undisturbed]

    def undisturbed(self, killing: Killing) -> Undisturbed:
        """What it comes to where nothing kills it."""
        if killing not in self.known:
            number, runs, rows = len(self.known), [Files()], dict[bytes | None, State]()
            start, end = (self.uri(f"{place}-{number}") for place in ("start", "end"))
            for night in killing.nights:
                label(night, start, self.folder)
                runs.append(seen_at(start))
                rows[runs[-1][MANIFEST]] = predicted(run_output(start))
            copy_output(start, end)
            killing.run(end, self.folder)
            after = seen_at(end)
            rows[after[MANIFEST]] = predicted(run_output(end))
            self.known[killing] = Undisturbed(start, end, runs, after, content(end), rows)
        return self.known[killing]

    def killed(self, killing: Killing, step: int, uri: str) -> bool:
        """Kills it before a change of the output: was it?"""
        work = partial(killing.run, uri, self.folder)
        return killed_before_request(step, work) if "://" in uri else killed_here(step, work, Path(uri))


@pytest.fixture(scope="module", params=["folder", "objects"])
def bench(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    folder = tmp_path_factory.mktemp("nights")
    with pytest.MonkeyPatch.context() as patched, memory_store() as uri:
        patched.setattr(os, "fsync", lambda _: None)  # these kills leave the power on
        patched.setattr(delta_table, "CHECKPOINT_EVERY", 2)
        yield Bench(uri if request.param == "objects" else lambda name: str(folder / name), folder, {})


@pytest.mark.parametrize("part", blocks(PARTS))
@pytest.mark.parametrize("name", KILLINGS)
def test_a_kill_before_any_change_leaves_one_run_or_the_other_and_all_that_follows_it(
    bench: Bench, name: str, part: int
) -> None:
    killing, moments, shards = KILLINGS[name], 0, 0
    start = bench.undisturbed(killing).start
    for step in count(part + 1, PARTS):
        uri = bench.uri(f"killed-{name.replace(' ', '-')}-{step}")
        copy_output(start, uri)
        if not bench.killed(killing, step, uri):
            break
        moments += 1
        try:
            shards, shards_before = finished_shards(bench, killing, uri), shards
            assert shards >= shards_before, "what is labelled is lost"
            check_killed(bench, killing, uri, later=moments % 2 == 0)
        except Exception as error:
            error.add_note(f"killed before change {step}")
            raise
    assert moments, "nothing was killed"


@pytest.mark.parametrize("name", KILLINGS)
def test_what_nothing_kills_has_its_way_back(bench: Bench, name: str) -> None:
    """With the same bytes what is killed has it, too, once it was done again."""
    undisturbed = bench.undisturbed(KILLINGS[name])
    check_followers(undisturbed.end, undisturbed, runs=(undisturbed.after,))
    beside = bench.uri(f"back-{name.replace(' ', '-')}")
    copy_output(undisturbed.end, beside)
    check_way_back(bench, KILLINGS[name], beside, undisturbed.after, later=True)


def finished_shards(bench: Bench, killing: Killing, uri: str) -> int:
    """Number of shards of a night that need not be labelled again; 0 for a rollback."""
    return 0 if killing.night is None else int(killing.night.found_in(run_output(uri), bench.folder).done.sum())


def check_killed(bench: Bench, killing: Killing, uri: str, *, later: bool) -> None:
    """Checks an output as a kill has left it, and what comes next: the way back, or the same again."""
    undisturbed, seen_by_readers, beside = bench.undisturbed(killing), seen_at(uri), f"{uri}-beside"
    assert seen_by_readers in (undisturbed.runs[-1], undisturbed.after), "readers see neither run, whole"
    check_followers(uri, undisturbed, runs=(undisturbed.runs[-1], undisturbed.after))
    copy_output(uri, beside)
    check_way_back(bench, killing, beside, seen_by_readers, later=later)
    killing.run(uri, bench.folder)
    assert content(uri) == undisturbed.content, "the same again leaves other bytes"
    assert leftovers(uri) == []
    check_followers(uri, undisturbed, runs=(undisturbed.after,))


def check_followers(uri: str, undisturbed: Undisturbed, *, runs: Sequence[Files]) -> None:
    """Checks that feed and table have the predictions of one of some runs.

    In a folder the feed has those of the run that readers see; in an object store it may come after.
    """
    rows = [undisturbed.rows.get(run.get(MANIFEST), {}) for run in runs]
    assert table_rows(uri) in map(in_table, rows)
    if not seen_at(uri):
        return
    out = run_output(uri)
    feed = merged(out)
    assert feed == answers(predicted(out)) or ("://" in uri and feed in map(answers, rows))


def check_way_back(bench: Bench, killing: Killing, uri: str, seen_by_readers: Files, *, later: bool) -> None:
    """Checks that the way back leads to the run before the one that readers see; ``later``: and that nights go on."""
    undisturbed = bench.undisturbed(killing)
    forwards = seen_by_readers == undisturbed.after and killing.night is not None
    runs = undisturbed.runs if forwards else undisturbed.runs[:-1]
    if len(runs) < 2:
        with pytest.raises((RunFolderError, NothingPublishedError)):
            rollback(uri)
    else:
        rollback(uri)
        seen_by_readers = runs[-1]
        assert seen_at(uri) == seen_by_readers, "the way back"
        night = killing.nights[len(runs) - 2]
        assert night.found_in(run_output(uri), bench.folder).done.all(), "its work is there"
        check_followers(uri, undisturbed, runs=(seen_by_readers,))
    if not later:
        return
    label(LATER, uri, bench.folder)
    out = run_output(uri)
    now = predicted(out)
    assert answers(now) == merged(out)
    assert table_rows(uri) == in_table(now)
    if seen_by_readers:
        rollback(uri)
        assert seen_at(uri) == seen_by_readers, "the way back from a later night"
