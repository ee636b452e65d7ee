"""Faults at every step of a run, replayable by seed: a run, a fault at one of its effects, and the same command again.

Each run is a process of its own, forked from one that has everything imported, so that a cell takes a fraction of a
second; its shards are labelled in it, in the place of Ray's workers. What it does to a disk is met by an audit hook,
what it asks of an object store by a proxy before a real S3 server. Real commands with real Ray, MLflow and Prefect meet
fewer faults, in ``benchmarks/bench_faults.py``.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import random
import shutil
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta, tzinfo
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import concord.flows.nights.record
import concord.workers.labelling.shard
from concord.flows.errors import ShardsFailedError
from concord.flows.runfolder.feed_reader import feed_files, read_changes
from concord.flows.runfolder.layout import FOLDERS, MANIFEST, STAGED, STORE, RunOutput, foreign_files
from concord.flows.runfolder.published import NothingPublishedError, Published, published
from concord.flows.runfolder.runfolder import run_output
from concord.schemas.columns import PREDICTIONS_LAYOUT, REJECTS_LAYOUT
from concord.schemas.errors import InputError, ServiceError
from concord.workers.corpus.ingestion import write_corpus
from concord.workers.labelling.output import MARKERS, PREDICTIONS, REJECTS, TIMES
from concord.workers.storage import object_storage
from concord.workers.storage.files import TEMPORARY
from concord.workers.storage.object_storage import ObjectStorage
from concord.workers.synthesis.made_up import synthesize
from tests.support.kills import is_change
from tests.support.runs_here import label, stay_here

DOCUMENTS = 4
DOCUMENTS_BEFORE = 2
"""Documents of the corpus, and those of it that a run before has labelled."""
CORPUS, WHOLE, BEFORE = "corpus", "whole", "before"
"""Folders: a link to one of the others, the corpus, and what it was in the run before."""
MOST_SECONDS = 60
"""How long a run may take."""
SLOW_SECONDS = 0.05
JUMP = timedelta(days=400)

ON_DISK = ("kill", "disk full", "read-only", "slow", "frozen", "clock")
ON_NETWORK = ("kill", "503", "503 for good", "answer lost", "connection lost", "slow", "frozen", "clock")
NETWORK = {"503": "refused", "503 for good": "refused", "answer lost": "lost", "connection lost": "cut"}
"""Faults that a proxy makes, and what it calls them."""

BY_PATH = {
    f"/{STORE}/{MARKERS}": "mark",
    f"/{STORE}/": "write",
    "/.corpus.json": "claim",
    "/.sources.json": "claim",
    "/.survey/": "claim",
    "/.nights.jsonl": "record",
    "/.markers/": "record",
    "/.changes": "feed",
    "/.published": "publish",
    "/.current": "commit",
    "/manifest.json": "commit",
    f"/{PREDICTIONS}": "publish",
    f"/{REJECTS}": "publish",
    f"/{TIMES}": "publish",
    "/_certificates": "publish",
    "/_manifest": "publish",
    "/changes": "feed",
    "/tracked": "track",
}
"""Steps of a run by what they touch; the first that fits."""
CLEANING = ("os.remove", "os.rmdir")


@dataclass(frozen=True)
class Cell:
    """One fault at one moment.

    - ``storage``: ``folder`` or ``objects``
    - ``step``: step of the run
    - ``fault``: what happens there
    - ``seed``: which effect of the step meets it, and whether a run is published already
    """

    storage: str
    step: str
    fault: str
    seed: int


class Ended(NamedTuple):
    """How a run ended.

    - ``told``: ``done``, a line for the user, or the traceback of an error in concord
    - ``killed``: by a signal
    """

    told: str
    killed: bool

    @property
    def traceback(self) -> bool:
        """Is it an error in concord itself?"""
        return self.told.startswith("Traceback")


class Reached:
    """Counts the effects of each step, and lets one of them meet a fault."""

    def __init__(self, cell: Cell | None, nth: int) -> None:
        """``cell``: None for a run that is only counted; ``nth``: the effect that meets its fault, from 0."""
        self.counts: Counter[str] = Counter()
        self._cell, self._nth = cell, nth
        self._broken: OSError | None = None

    def __call__(self, step: str, *, frees: bool = False) -> None:
        """An effect of a step is about to be; ``frees``: it needs no room on a disk."""
        here = self._cell is not None and step == self._cell.step and self.counts[step] == self._nth
        self.counts[step] += 1
        if here:
            assert self._cell is not None
            self._meet(self._cell.fault)
        if self._broken is not None and not (frees and self._broken.errno == errno.ENOSPC):
            raise OSError(self._broken.errno, self._broken.strerror)

    def _meet(self, fault: str) -> None:
        if fault == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        elif fault == "frozen":
            os.kill(os.getpid(), signal.SIGSTOP)
        elif fault == "slow":
            time.sleep(SLOW_SECONDS)
        elif fault == "clock":
            _jump(JUMP if self._nth % 2 else -JUMP)
        elif fault == "disk full":
            self._broken = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        elif fault == "read-only":
            self._broken = OSError(errno.EROFS, os.strerror(errno.EROFS))


def _jump(by: timedelta) -> None:
    """Sets the process's clock, not that of its disk."""
    real = time.time

    class Jumped(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Jumped:
            return cls.fromtimestamp(real() + by.total_seconds(), tz)

    time.time = lambda: real() + by.total_seconds()
    pytest.MonkeyPatch().setattr(concord.flows.nights.record, "datetime", Jumped)


def step_of(path: str) -> str | None:
    """The step that touches a path or an object; None for one that is no part of a run."""
    return next((step for part, step in BY_PATH.items() if part in path), None)


def _watch_disk(reached: Reached, folders: tuple[str, ...]) -> None:
    """Has ``reached`` told of each change below the folders, for the rest of the process."""

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if not is_change(event, arguments):
            return
        path = next((str(a) for a in reversed(arguments[:2]) if str(a).startswith(folders)), None)
        step = None if path is None else step_of(path)
        if step is not None:
            reached("clean" if event in CLEANING else step, frees=event in ("os.rename", *CLEANING))

    sys.addaudithook(hook)


def _watch_objects(reached: Reached, stack: ExitStack) -> None:
    """Has ``reached`` told of each request that changes the store."""

    def told(method: str, *, of: int, step: str | None = None) -> None:
        real = getattr(ObjectStorage, method)

        def called(self: ObjectStorage, *arguments: Any, **more: Any) -> Any:
            if arguments[of]:
                reached(step or step_of(f"{self.uri.partition('?')[0]}/{arguments[of]}") or "claim")
            return real(self, *arguments, **more)

        stack.enter_context(patch.object(ObjectStorage, method, called))

    told("write", of=0)
    told("replace", of=0)
    told("copy", of=1)
    told("remove", of=0, step="clean")


def _watch_work(reached: Reached, stack: ExitStack) -> None:
    """Has ``reached`` told when a shard is read and when it is decoded."""
    module = concord.workers.labelling.shard
    for name, step in (("read_documents", "read"), ("label_batch", "decode")):
        real = getattr(module, name)

        def called(*arguments: Any, _real: Callable[..., Any] = real, _step: str = step, **more: Any) -> Any:
            reached(_step)
            return _real(*arguments, **more)

        stack.enter_context(patch.object(module, name, called))


@dataclass(frozen=True)
class Bench:
    """Where cells are tried.

    - ``folder``: for corpora, homes and outputs
    - ``objects``: URI of a prefix by its name, straight to the store or through the proxy; None without a store
    - ``plan``: tells the proxy what to do to which request
    """

    folder: Path
    objects: Callable[[str, bool], str] | None = None
    plan: Callable[[Mapping[str, Any]], None] = lambda _: None

    def prepare(self) -> None:
        """Makes the corpora, one of them with a row that is rejected, and the runs that nothing disturbs."""
        documents = list(synthesize(DOCUMENTS, seed=1, kind="news"))
        for name, part in ((WHOLE, documents), (BEFORE, documents[:DOCUMENTS_BEFORE])):
            write_corpus(part, self.folder / name, source="test")
        path = self.folder / WHOLE / "part-00000.parquet"
        table = pq.read_table(path)
        ids = [*table["doc_id"].to_pylist()[:-1], None]
        field = table.schema.field(0).with_nullable(True)
        pq.write_table(table.set_column(0, field, pa.array(ids, pa.string())), path)
        # What a run imports and compiles is there in all processes that are forked from this one.
        with pytest.MonkeyPatch.context() as here:
            here.setenv("CONCORD_HOME", str(self.folder / "home"))
            stay_here(here)
            for name in (BEFORE, WHOLE):
                self._give(name)
                label(self.folder / CORPUS, self.folder / "out" / "first")

    def _give(self, corpus: str) -> None:
        (self.folder / CORPUS).unlink(missing_ok=True)
        (self.folder / CORPUS).symlink_to(corpus)

    def out(self, storage: str, name: str, *, proxied: bool = False) -> str:
        """The output of that name."""
        if storage == "folder":
            return str(self.folder / "out" / name)
        assert self.objects is not None
        return self.objects(name, proxied)

    def run(self, out: str, *, corpus: str = WHOLE, cell: Cell | None = None, nth: int = 0) -> int:
        """Starts a run in a process of its own; its id. The corpus is always called the same."""
        self._give(corpus)
        home = self.folder / "home" / Path(out.partition("?")[0]).name
        home.mkdir(parents=True, exist_ok=True)
        pid = os.fork()
        if pid:
            return pid
        told = f"Traceback: {cell} was left by another door"
        reached = Reached(cell, nth)
        try:
            told = self._run(out, home, reached)
        except BaseException as error:  # noqa: BLE001 — whatever it is, the parent judges it
            import traceback

            told = "Traceback of " + "".join(traceback.format_exception(error))
        finally:
            self._answer(os.getpid()).write_text(json.dumps({"told": told, "counts": reached.counts}))
            os._exit(0)

    def _run(self, out: str, home: Path, reached: Reached) -> str:
        os.environ["CONCORD_HOME"] = str(home)
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115, PTH123 — until the process ends
        with ExitStack() as stack:
            stay_here(stack.enter_context(pytest.MonkeyPatch.context()))
            stack.enter_context(patch.multiple(object_storage, MOST_RETRIES=3, PATIENCE=timedelta(seconds=5)))
            _watch_work(reached, stack)
            if "://" in out:
                _watch_objects(reached, stack)
                _watch_disk(reached, (str(home),))
            else:
                _watch_disk(reached, (out, str(home)))
            try:
                label(self.folder / CORPUS, out)
            except (InputError, ServiceError, ShardsFailedError, OSError) as error:
                return str(error)
        return "done"

    def ended(self, pid: int) -> Ended:
        """Waits for a run."""
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        if code < 0:
            return Ended(f"signal {-code}", killed=True)
        return Ended(str(self._said(pid)["told"]), killed=False)

    def counts(self, storage: str, *, after: bool) -> dict[str, int]:
        """Effects of each step of a run that nothing disturbs, into a new output or after another run."""
        out = self.out(storage, f"counted-{after}")
        if after:
            self.done(out, corpus=BEFORE)
        pid = self.run(out)
        os.waitpid(pid, 0)
        said = self._said(pid)
        assert said["told"] == "done", said["told"]
        return dict(said["counts"])

    def done(self, out: str, *, corpus: str = WHOLE) -> None:
        """A run that has to end well."""
        ended = self.ended(self.run(out, corpus=corpus))
        assert ended.told == "done", ended.told

    def wanted(self, storage: str) -> dict[str, str]:
        """What a run that nothing disturbs holds; see `seen`."""
        out = self.out(storage, "wanted")
        self.done(out)
        return self.seen(out, at_end=True)

    def seen(self, out: str, *, at_end: bool = False) -> dict[str, str]:
        """What the output holds, looked at in a process of its own; see `content`, and ``at_end`` `leftovers`."""
        pid = os.fork()
        if not pid:
            try:
                found = content(run_output(out))
                if at_end:
                    found |= {f"left over: {name}": "" for name in leftovers(run_output(out))}
                self._answer(os.getpid()).write_text(json.dumps(found))
            finally:
                os._exit(0)
        os.waitpid(pid, 0)
        return self._said(pid)

    def _answer(self, pid: int) -> Path:
        return self.folder / f"answer-{pid}"

    def _said(self, pid: int) -> dict[str, Any]:
        said: dict[str, Any] = json.loads(self._answer(pid).read_text())
        self._answer(pid).unlink()
        return said


def content(out: RunOutput) -> dict[str, str]:
    """What readers see of an output, read as they do, with rows of each kind; empty before the first run.

    An answer that starts with ``broken`` is what must not be.
    """
    storage = out.storage
    try:
        run = published(storage.uri)
    except NothingPublishedError:
        return {}
    rows = {folder: sum(map(len, run.tables(folder, layout))) for folder, layout in _LAYOUTS.items()}
    totals = run.manifest.totals
    found = {MANIFEST: hashlib.sha256(storage.read(MANIFEST) or b"").hexdigest(), **run.files()}
    found["documents"] = f"{rows[PREDICTIONS]} written, {rows[REJECTS]} rejected"
    if (rows[PREDICTIONS], rows[REJECTS]) != (totals.documents, totals.rejected):
        found["broken: counts"] = f"{rows} against {totals.documents}, {totals.rejected}"
    if not isinstance(storage, ObjectStorage) and not feed_is_whole(run):
        found["broken: feed"] = "what it comes to is not what the run has"
    return found


def feed_is_whole(run: Published) -> bool:
    """Does the feed of changes, merged from its first file on, come to the answers of the run?"""
    merged = dict[str, Any]()
    for file in feed_files(run.storage):
        for row in (row for table in read_changes(run.storage, file) for row in table.to_pylist()):
            merged[row["doc_id"]] = row["labels"]
    there = (row for table in run.tables(PREDICTIONS, PREDICTIONS_LAYOUT) for row in table.to_pylist())
    return {doc_id: labels for doc_id, labels in merged.items() if labels is not None} == {
        row["doc_id"]: row["labels"] for row in there
    }


_LAYOUTS = {PREDICTIONS: PREDICTIONS_LAYOUT, REJECTS: REJECTS_LAYOUT}


def leftovers(out: RunOutput) -> list[str]:
    """Files that a finished run has no use for: half written, unnamed by the manifest, or published from the store."""
    storage = out.storage
    run = published(storage.uri)
    found = foreign_files(storage, run.files())
    found += [f"{STAGED}/{name}" for name in storage.names(STAGED)] + ([] if feed_is_whole(run) else ["an old feed"])
    if isinstance(storage, ObjectStorage):
        store = storage.below(STORE)
        return found + [f"{STORE}/{folder}/{name}" for folder in FOLDERS for name in store.names(folder)]
    return found + [str(path) for path in Path(storage.uri).rglob(f"{TEMPORARY}*")]


def tried(bench: Bench, cell: Cell, counts: Mapping[bool, Mapping[str, int]], wanted: Mapping[str, str]) -> list[str]:
    """Tries a cell: the promises that were not kept.

    - ``counts``: effects of each step, without and after a run before
    - ``wanted``: what an undisturbed run holds
    """
    chance = random.Random(f"{cell}")
    after = (bool(cell.seed % 2) and counts[True].get(cell.step, 0) > 0) or not counts[False].get(cell.step, 0)
    name = f"{cell.storage}-{cell.step}-{cell.fault}-{cell.seed}".replace(" ", "-")
    out = bench.out(cell.storage, name)
    before = {}
    if after:
        bench.done(out, corpus=BEFORE)
        before = bench.seen(out)
    nth = chance.randrange(counts[after][cell.step])
    if cell.fault in NETWORK:
        # The proxy counts requests of its own, retries among them.
        bench.plan({"step": cell.step, "nth": nth, "kind": NETWORK[cell.fault], "on": cell.fault.endswith("for good")})
    proxied = bench.out(cell.storage, name, proxied=cell.fault in NETWORK)
    broken = _disturbed(bench, cell, proxied, nth)
    bench.plan({})
    seen = bench.seen(out)
    if seen not in ({}, before, dict(wanted)) or (before and not seen):
        broken.append(f"readers see neither the run before nor the new one: {sorted(seen)}")
    again = bench.ended(bench.run(out))
    if again.told != "done":
        broken.append(f"the same command again: {again.told}")
    at_end = bench.seen(out, at_end=True)
    if at_end != dict(wanted):
        broken.append(f"the same command again wrote other bytes: {sorted(at_end.items() ^ wanted.items())}")
    if cell.storage == "folder":
        shutil.rmtree(out)
    return broken


def _disturbed(bench: Bench, cell: Cell, out: str, nth: int) -> list[str]:
    """The run that meets the fault: what was wrong with its end."""
    deadline = time.monotonic() + MOST_SECONDS
    pid = bench.run(out, cell=cell, nth=nth)
    broken = []
    if cell.fault == "frozen":
        _, status = os.waitpid(pid, os.WUNTRACED)
        if not os.WIFSTOPPED(status):
            return ["it was not frozen"]
        other = bench.ended(bench.run(out))
        refused = "another run is writing there" in other.told
        if other.told != "done" and not refused:
            broken.append(f"another run beside the frozen one: {other.told}")
        os.kill(pid, signal.SIGCONT)
    ended = bench.ended(pid)
    if ended.traceback or "\n" in ended.told:
        broken.append(ended.told)
    if cell.fault in ("slow", "clock", "503", "answer lost", "connection lost") and ended.told != "done":
        broken.append(f"did not bear it: {ended.told}")
    if ended.killed != (cell.fault == "kill"):
        broken.append(f"ended by a signal: {ended.killed}")
    if time.monotonic() > deadline:
        broken.append("took too long")
    return broken


def cells(storage: str, steps: Mapping[str, int], seeds: int) -> Iterator[Cell]:
    """Every step crossed with every fault that it can meet, so many times."""
    for step in steps:
        for fault in ON_DISK if storage == "folder" else ON_NETWORK:
            if fault in NETWORK and step in ("read", "decode", "track"):
                continue  # asks nothing of the store
            for seed in range(seeds):
                yield Cell(storage, step, fault, seed)


def shown(cell: Cell) -> str:
    """A cell for messages, as it can be tried again."""
    return " ".join(map(str, asdict(cell).values()))
