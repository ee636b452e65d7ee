"""Commands that are killed or meet a full disk, over the command tree: the same command again ends what was begun.

What it writes then are the bytes of a command that nothing disturbed, and nothing is left beside them. Readers see its
output whole or not at all. Moments are other ones each day. Of `reprocess` all this is tried in `test_failpoints`.
"""

from __future__ import annotations

import errno
import hashlib
import os
import random
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest
import sklearn.cluster  # noqa: F401 — so that its threads are limited, too
from threadpoolctl import threadpool_limits
from typer.testing import CliRunner

import concord.flows.cluster.cluster
import concord.flows.training.train_model
from concord.flows.cli.app import app
from concord.flows.commands import corpus_stats, mining
from concord.schemas.errors import InputError
from tests.support.in_process import Here
from tests.support.kills import changes_of, full_before, killed_before
from tests.support.made_tracking import untracked
from tests.support.seeds import blocks
from tests.support.writers import WRITERS
from tests.support.writers import made as made

GIVEN: dict[str, tuple[str, ...]] = {
    "init": (),
    "synthesize": ("--documents", "12"),
    "ingest": (),
    "train": ("--trainer", "hmm"),
    "calibrate": (),
    "clusters import": ("--set", "clusters=[2]"),
    "clusters paths": (),
    "constraints weigh": (),
    "constraints schema": (),
    "constraints propose": (),
    "constraints mine": ("--all",),
    "export crfsuite": (),
    "import scores": (),
}
"""Commands that are tried, and what else they are given."""
APART = {
    "reprocess": "test_failpoints",
    "adopt": "needs answers of somebody else's tagger; ends as `reprocess` does",
    "codl": "test_codl, test_killed_anywhere_and_resumed_it_has_the_same_bytes",
    "challenge": "trains, labels and registers by what stands here; the same command again does all of it again",
    "sweep run": "integration/test_sweep",
    "sweep plan": "writes nothing",
    "papers": "sweeps",
    **dict.fromkeys(
        ("review read", "review tasks", "review answers"),
        "need a run; an answer is a line that is on the disk; test_review",
    ),
    "monthly": "test_month; writes one file after the other, each whole",
    "doctor": "writes nothing that stays",
    "export predictions": "needs a run; test_export_predictions",
    "gazetteer build": "needs lists; one file, written whole; test_gazetteer_build",
    "changes": "needs a run; one file, written whole; test_feed",
    "report": "needs a run; one file, written whole; test_report",
    "import entities": "needs answers of somebody else's tagger; ends as `ingest` does",
    "import onnx": "needs a network of somebody else's; ends as `import scores` does",
    "import crfsuite": "needs a model of somebody else's; ends as `import scores` does",
}
"""Commands that are not, and why."""
REFUSES = ("synthesize", "ingest")
"""Commands that write over nothing without being told to."""
IN_PARTS = ("init",)
"""Commands whose files are whole one by one."""
WITH_CLUSTERS = (corpus_stats, mining, concord.flows.cluster.cluster)
"""Modules by which a command starts Ray, which outlives no fork."""
FAULTS = ("kill", "disk full")
"""A block has a half of the commands meet each."""
MOMENTS = 3


def content(out: Path) -> dict[str, str]:
    files = sorted(path for path in (out, *out.rglob("*")) if path.is_file())
    return {str(path.relative_to(out)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def run(words: list[str]) -> None:
    """Runs a command. Raises `InputError` where it ends with one of its lines."""
    ended = CliRunner().invoke(app, words, catch_exceptions=False)
    if ended.exit_code:
        raise InputError(ended.stderr)


@pytest.fixture
def command(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Iterator[Callable[[Path], None]]:
    """Runs the command of a test into a place."""
    name = request.node.callspec.params["name"]
    monkeypatch.setenv("CONCORD_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(concord.flows.training.train_model, "Tracking", untracked([]))
    for module in WITH_CLUSTERS:
        monkeypatch.setattr(module, "cluster", lambda *_, **__: nullcontext(Here(None)))
    monkeypatch.setattr(os, "fsync", lambda _: None)  # the power stays on
    with threadpool_limits(1):  # threads of OpenMP are gone in a process that is forked, and would be waited for
        yield lambda out: run([*WRITERS[name].words(made, None, out), *GIVEN[name]])


def test_every_command_that_writes_is_tried_or_known() -> None:
    assert set(WRITERS) == set(GIVEN) | set(APART)
    assert not set(GIVEN) & set(APART)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("block", blocks(len(FAULTS)))
@pytest.mark.parametrize("name", GIVEN)
def test_the_same_command_ends_what_a_fault_has_left(
    name: str, block: int, command: Callable[[Path], None], tmp_path: Path
) -> None:
    fault = FAULTS[(list(GIVEN).index(name) + block) % len(FAULTS)]

    def place(folder: str) -> Path:
        (tmp_path / folder).mkdir()
        return tmp_path / folder / "out"

    whole = place("whole")
    command(whole)  # here, so that what it imports and compiles is there
    wanted = content(whole)
    beside = {path.name for path in whole.parent.iterdir()}
    counted = place("counted")
    met = changes_of(partial(command, counted), counted.parent)
    assert content(counted) == wanted
    in_place = {change.path for change in met if change.event == "open"} & {str(counted / file) for file in wanted}
    assert not in_place, "a file is written under another name, and renamed when it is whole"
    changes = len(met)
    chance = random.Random(f"{name} {fault} {datetime.now(UTC).toordinal()}")
    for step in sorted({1, *chance.choices(range(1, changes + 1), k=MOMENTS)}):
        out = place(f"at-{step}")
        work, told = partial(command, out), f"{name}, {fault} before change {step} of {changes}"
        if fault == "kill":
            assert killed_before(step, work, out.parent), told
        else:
            said = full_before(step, work, out.parent)
            assert os.strerror(errno.ENOSPC) in said or content(out) == wanted, f"{told}: {said}"
        left = content(out)
        assert left in ({}, wanted) or name in IN_PARTS, told
        if left != wanted or name not in REFUSES:
            command(out)
        assert content(out) == wanted, told
        assert {path.name for path in out.parent.iterdir()} == beside, told
