"""Every command with paths that cannot be used: one line that names the path, an exit code, no traceback."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer
from typer.testing import CliRunner

import concord.flows.labelling.label_corpus
import concord.flows.tracking.tracking
import concord.flows.training.train_model
from concord.flows.cli.app import app
from concord.flows.cli.failures import Exit, reported
from concord.schemas.requests import LabelRequest
from concord.schemas.run import RunSettings
from concord.workers.corpus.ingestion import write_corpus
from concord.workers.corpus.settings import IngestSettings
from concord.workers.learning.trainers import crfsuite
from concord.workers.models.settings import CrfSettings
from concord.workers.storage.files import naming, staged
from concord.workers.synthesis.made_up import synthesize
from tests.support.kills import full_disk
from tests.support.made_tracking import untracked

CONSTRAINTS = "constraints: [{template: legality, weight: hard}]\n"


class Places(NamedTuple):
    """Paths that can be used."""

    corpus: Path
    model: Path
    file: Path
    predictions: Path
    source: Path


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Places:
    folder = tmp_path_factory.mktemp("good")
    documents = list(synthesize(12, seed=3, kind="news"))
    write_corpus(documents, folder / "corpus", source="made up", layout=IngestSettings())
    crfsuite.train(documents, settings=CrfSettings(max_iterations=3), out=folder / "model")
    (folder / "c.yaml").write_text(CONSTRAINTS)
    (folder / "s.conll").write_text("-DOCSTART- -X- O O\n\nAlba N X I-PER\n")
    return Places(folder / "corpus", folder / "model", folder / "c.yaml", folder / "corpus", folder / "s.conll")


# Paths that cannot be used, by what is wrong


def missing(folder: Path) -> Path:
    return folder / "nowhere" / "at-all"


def below_a_file(folder: Path) -> Path:
    (folder / "plain").write_text("words\n")
    return folder / "plain" / "below"


def plain_file(folder: Path) -> Path:
    below_a_file(folder)
    return folder / "plain"


def empty_folder(folder: Path) -> Path:
    (folder / "empty").mkdir()
    return folder / "empty"


def circle(folder: Path) -> Path:
    (folder / "round").symlink_to(folder / "about")
    (folder / "about").symlink_to(folder / "round")
    return folder / "round"


def too_long(folder: Path) -> Path:
    return folder / ("n" * 300)


def unreadable(_folder: Path) -> Path:
    """A file whose reading fails, also for root, who may read everything."""
    return Path("/proc/self/mem")


def cut_off(folder: Path) -> Path:
    path = folder / "cut.parquet"
    pq.write_table(pa.table({"doc_id": ["a"], "tokens": [["b"]], "sentence_starts": [[0]]}), path)
    path.write_bytes(path.read_bytes()[:-40])
    return path


def other_columns(folder: Path) -> Path:
    path = folder / "other.parquet"
    pq.write_table(pa.table({"name": ["a"], "words": [["b"]]}), path)
    return path


def no_rows(folder: Path) -> Path:
    path = folder / "no-rows.parquet"
    table = pa.table({"doc_id": ["a"], "tokens": [["b"]], "sentence_starts": pa.array([[0]], pa.list_(pa.int32()))})
    pq.write_table(table.slice(0, 0), path)
    return path


Wrong = Callable[[Path], Path]
ANY = (missing, below_a_file, circle, too_long)
OF: dict[str, tuple[Wrong, ...]] = {
    "source": (*ANY, unreadable),
    "corpus": (*ANY, plain_file, empty_folder, unreadable, cut_off, other_columns),
    "predictions": (*ANY, plain_file, empty_folder, unreadable, cut_off, other_columns),
    "model": (*ANY, plain_file, empty_folder, cut_off),
    "file": (*ANY, empty_folder, unreadable),
    "out": (below_a_file, plain_file, circle, too_long),
}


# Commands, each with its paths by kind


Paths = dict[str, Path]
Run = Callable[[Paths, pytest.CaptureFixture[str]], tuple[int, str]]
"""Gives the exit code and what stands on standard error."""


def command(*arguments: str) -> Run:
    """Runs a command line with paths put in."""

    def run(paths: Paths, _: pytest.CaptureFixture[str]) -> tuple[int, str]:
        result = CliRunner().invoke(app, [argument.format(**paths) for argument in arguments])
        assert result.exception is None or isinstance(result.exception, SystemExit), repr(result.exception)
        return result.exit_code, result.stderr

    return run


def train(paths: Paths) -> None:
    concord.flows.training.train_model.train_model(
        concord.flows.training.train_model.TrainJob(
            corpus=str(paths["corpus"]),
            out=str(paths["out"]),
            trainer=crfsuite.NAME,
            settings=CrfSettings(max_iterations=2),
            consistency=False,
        )
    )


def reprocess(paths: Paths) -> None:
    concord.flows.labelling.label_corpus.label_corpus(
        LabelRequest(
            corpus=str(paths["corpus"]),
            model=str(paths["model"]),
            out=str(paths["out"]),
            constraints=(str(paths["file"]),),
            settings=RunSettings(engine="viterbi"),
        )
    )


def job(work: Callable[[Paths], None]) -> Run:
    """Runs what a flow's command runs, without Prefect."""

    def run(paths: Paths, capfd: pytest.CaptureFixture[str]) -> tuple[int, str]:
        capfd.readouterr()
        with pytest.raises(typer.Exit) as left, reported():
            work(paths)
        return left.value.exit_code, capfd.readouterr().err

    return run


COMMANDS = {
    "ingest": (command("ingest", "conll", "{source}", "--out", "{out}"), ("source", "out")),
    "synthesize": (command("synthesize", "--documents", "3", "--out", "{out}"), ("out",)),
    "evaluate": (command("evaluate", "--run", "{predictions}", "--corpus", "{corpus}"), ("predictions",)),
    "stats": (command("corpus", "stats", "--corpus", "{corpus}", "--model", "{model}"), ("corpus", "model")),
    "check": (command("constraints", "check", "{file}", "--corpus", "{corpus}"), ("file", "corpus")),
    "explain": (
        command("constraints", "explain", "{file}", "--corpus", "{corpus}", "--model", "{model}", "--doc", "d"),
        ("file", "corpus", "model"),
    ),
    "label": (command("label", "--model", "{model}", "--file", "{source}"), ("source", "model")),
    "train": (job(train), ("corpus", "out")),
    "reprocess": (job(reprocess), ("corpus", "model", "file", "out")),
}
CASES = [
    pytest.param(name, kind, wrong, id=f"{name}-{kind}-{wrong.__name__}")
    for name, (_, kinds) in COMMANDS.items()
    for kind in kinds
    for wrong in OF[kind]
]


@pytest.mark.parametrize(("name", "kind", "wrong"), CASES)
def test_a_path_that_cannot_be_used_is_one_line(
    name: str,
    kind: str,
    wrong: Wrong,
    good: Places,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    for module in (concord.flows.training.train_model, concord.flows.tracking.tracking):
        monkeypatch.setattr(module, "Tracking", untracked([]))
    bad = wrong(tmp_path)
    paths = good._asdict() | {"out": tmp_path / "out"} | {kind: bad}
    before = set(tmp_path.rglob("*"))
    run = COMMANDS[name][0]
    code, said = run(paths, capfd)
    assert code == Exit.INPUT, said
    last = said.splitlines()[-1]
    assert last.startswith("concord: ")
    assert said.count("concord: ") == 1
    assert str(bad) in last or str(bad.parent) in last
    assert "Traceback" not in said
    left = set(tmp_path.rglob("*")) - before
    assert not any(path.is_file() and path.suffix != ".lock" and path.name != ".lock" for path in left), left


@pytest.mark.parametrize("after", [0, 5_000])
def test_a_disk_that_fills_up_leaves_nothing(tmp_path: Path, after: int, capfd: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "s.conll"
    source.write_text("-DOCSTART- -X- O O\n\n" + "".join(f"w{i} N X O\n" for i in range(3_000)))
    out = tmp_path / "out"
    for run in (
        command("synthesize", "--documents", "100", "--out", "{out}"),
        command("ingest", "conll", "{source}", "--out", "{out}"),
    ):
        with full_disk(after=after):
            code, said = run({"out": out, "source": source}, capfd)
        assert (code, said.splitlines()[-1].startswith(f"concord: {out}: ")) == (Exit.INPUT, True), said
        assert [path.name for path in tmp_path.iterdir()] == ["s.conll"]


@pytest.mark.parametrize("after", [0, 5_000])
def test_training_on_a_full_disk_keeps_the_model_that_was_there(
    good: Places, tmp_path: Path, after: int, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "model"
    out.mkdir()
    for path in good.model.iterdir():
        (out / path.name).write_bytes(path.read_bytes())
    documents = list(synthesize(12, seed=3, kind="news"))
    with pytest.raises(typer.Exit) as left, reported(), full_disk(after=after), staged(out) as folder:
        crfsuite.train(documents, settings=CrfSettings(max_iterations=2), out=folder)
    assert left.value.exit_code == Exit.INPUT
    said = capfd.readouterr().err
    assert said.startswith("concord: ")
    assert said.count("\n") == 1
    assert {path.name: path.read_bytes() for path in out.iterdir()} == {
        path.name: path.read_bytes() for path in good.model.iterdir()
    }
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_a_write_to_a_full_device_names_the_path(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit) as left, reported(), naming(tmp_path / "there"):
        Path("/dev/full").write_bytes(b"x" * 100)
    assert left.value.exit_code == Exit.INPUT
    assert capfd.readouterr().err == (
        f"concord: {tmp_path / 'there'}: No space left on device; free some space or give another path\n"
    )
