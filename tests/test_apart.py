"""No command destroys what it reads: over the command tree, each output against each input, by every way to name it."""

from __future__ import annotations

import inspect
import os
import shutil
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import typer
from typer.testing import CliRunner

from concord.flows.apart import check_apart
from concord.flows.cli.app import app
from concord.flows.prefect.private_flow import PrivateFlow
from concord.schemas.settings import CrfSettings, IngestSettings
from concord.workers.corpus.ingestion import write_corpus
from concord.workers.features.clusters import Clusters, write_clusters
from concord.workers.learning.trainers import crfsuite
from concord.workers.storage.files import OutputError
from concord.workers.synthesis.made_up import synthesize

OUT = "out"
READ = {
    "clusters": "clusters.parquet",
    "config": "options.yaml",
    "constraints": "rules.yaml",
    "corpus": "corpus",
    "file": "rules.yaml",
    "gazetteer": "list.tsv",
    "held_out": "other",
    "labels": "labels.txt",
    "model": "model",
    "source": "source",
    "start_from": "model",
    "transitions": "matrix.npy",
    "pool": "pool",
    "vectors": "vectors.txt",
    "words": "labels.txt",
}
"""What commands read, by the parameter that names it: a file or folder of the good ones."""
SAID = {
    *("alias", "column", "engine", "errors_of", "features", "id_column", "language", "method", "penalty", "set_"),
    *("ray", "reader", "register", "text_column", "tokenizer", "tracking", "trainer"),
}
"""Parameters that are texts, and no places."""
NEEDED = {"reader": "text", "features": "usaddress:tokens2features"}
GIVEN: dict[tuple[str, str], list[str]] = {
    ("train", "start_from"): ["--features", "core"],
    ("train", "clusters"): ["--features", "core+clusters"],
    ("train", "gazetteer"): ["--features", "core+gazetteer"],
    ("train", "pool"): ["--trainer", "hmm"],
    ("constraints weigh", "model"): ["--penalty", "learned"],
    ("constraints weigh", "held_out"): ["--penalty", "tuned", "--model", "{good}/model"],
}
"""What else has to be said so that an input is read."""


class Writer(NamedTuple):
    """A command with an output, and the parameters that name what it reads."""

    name: str
    command: Any
    inputs: tuple[str, ...]

    def words(self, good: Path, read: str | None, out: Path) -> list[str]:
        """A command line with everything that is needed, and the parameter ``read``."""
        words, named = self.name.split(), [] if read is None else GIVEN.get((self.name, read), [])
        for part in self.command.params:
            value = NEEDED.get(part.name, str(good / READ[part.name]) if part.name in READ else None)
            if part.name == OUT:
                value = str(out)
            if value is not None and (part.required or part.name in (OUT, read)) and part.opts[0] not in named:
                words += [value] if part.param_type_name == "argument" else [part.opts[0], value]
        return [*words, *(word.format(good=good) for word in named)]


def texts(command: Any) -> list[str]:
    """The parameters of a command that are texts or paths, or lists of them."""
    parameters = inspect.signature(command.callback, eval_str=True).parameters
    return [name for name, given in parameters.items() if {str, Path} & set(kinds(given.annotation))]


def kinds(annotation: Any) -> Iterator[Any]:
    """The annotation and everything in it."""
    yield annotation
    for part in typing.get_args(annotation):
        yield from kinds(part)


def writers() -> Iterator[Writer]:
    def walk(command: Any, name: str) -> Iterator[Writer]:
        for below, inner in getattr(command, "commands", {}).items():
            yield from walk(inner, f"{name} {below}".strip())
        named = [part for part in command.params if part.name == OUT and part.param_type_name == "option"]
        if named:
            yield Writer(name, command, tuple(part for part in texts(command) if part in READ))

    return walk(typer.main.get_command(app), "")


WRITERS = {writer.name: writer for writer in writers()}


def test_every_parameter_that_is_a_text_is_a_place_or_none() -> None:
    for writer in WRITERS.values():
        assert [name for name in texts(writer.command) if name not in {OUT, *READ, *SAID}] == [], writer.name
    assert len(WRITERS) >= 14


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    documents = list(synthesize(12, seed=3, kind="news"))
    for name in ("corpus", "other", "pool"):
        write_corpus(documents, folder / name, source="made up", layout=IngestSettings())
    crfsuite.train(documents, settings=CrfSettings(features="core", max_iterations=2), out=folder / "model")
    (folder / "source").mkdir()
    (folder / "source" / "a.txt").write_text("Ada wrote.")
    (folder / "options.yaml").write_text("json: true\n")
    (folder / "rules.yaml").write_text("constraints: [{template: legality, weight: hard}]\n")
    (folder / "list.tsv").write_text("Ada\tPER\n")
    (folder / "labels.txt").write_text("O\nB-PER\nI-PER\n")
    (folder / "vectors.txt").write_text("Ada 1 2\nwrote 2 1\n")
    (folder / "matrix.npy").write_bytes(b"no matrix")
    write_clusters(folder / "clusters.parquet", _clusters())
    return folder


def _clusters() -> Clusters:
    import numpy as np
    import pyarrow as pa

    return Clusters(pa.array(["Ada"]), ("2",), np.array([[1]], np.int32))


def content(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else b""
        for path in sorted(folder.rglob("*"))
    }


def same(place: Path) -> Path:
    return place


def inside(place: Path) -> Path:
    return place / "new.parquet"


def around(place: Path) -> Path:
    return place.parent


def linked(place: Path) -> Path:
    link = place.parent.parent / "link.parquet"
    link.symlink_to(place)
    return link


def second_name(place: Path) -> Path:
    """A hard link to the file, or to one in the folder."""
    file = place if place.is_file() else max(path for path in place.rglob("*") if path.is_file())
    link = place.parent.parent / "second.parquet"
    os.link(file, link)
    return link


def turned(place: Path) -> Path:
    return place.parent / "corpus" / ".." / place.name


WAYS: tuple[Callable[[Path], Path], ...] = (same, inside, around, linked, second_name, turned)


@pytest.mark.parametrize("name", sorted(WRITERS))
def test_an_output_that_would_destroy_an_input_is_refused(
    name: str, made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CONCORD_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(PrivateFlow, "__call__", lambda self, *args, **kwargs: self.fn(*args, **kwargs))
    writer, tried = WRITERS[name], 0
    for read in writer.inputs:
        for way in WAYS:
            good = tmp_path / f"{read}-{way.__name__}" / "good"
            shutil.copytree(made, good)
            place = good / READ[read]
            if way is inside and place.is_file():
                continue
            out = way(place)
            before = content(good.parent)
            result = CliRunner().invoke(app, writer.words(good, read, out))
            told = f"{name} {read} {way.__name__}: {result.exit_code} {result.output} {result.exception!r}"
            assert result.exit_code == 3, told
            assert f"--out {out}: " in result.stderr, told
            assert content(good.parent) == before, told
            tried += 1
    assert tried >= 5 * len(writer.inputs)


def test_what_is_read_by_an_option_is_an_input_too(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PrivateFlow, "__call__", lambda self, *args, **kwargs: self.fn(*args, **kwargs))
    rules = made / "rules.yaml"
    given = ["--corpus", str(made / "corpus"), "--trainer", "perceptron", "--set", f"constraints={rules}"]
    result = CliRunner().invoke(app, ["train", *given, "--out", str(rules)])
    assert (result.exit_code, "would overwrite what is read" in result.stderr) == (3, True), result.output


@pytest.mark.parametrize("name", sorted(WRITERS))
def test_nothing_is_written_into_the_folder_of_a_model(
    name: str, made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CONCORD_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(PrivateFlow, "__call__", lambda self, *args, **kwargs: self.fn(*args, **kwargs))
    shutil.copytree(made / "model", tmp_path / "mine")
    before = content(tmp_path / "mine")
    replaces = name in ("train", "calibrate", "import scores", "import crfsuite")
    for out in (tmp_path / "mine" / "below.parquet", *(() if replaces else (tmp_path / "mine",))):
        result = CliRunner().invoke(app, WRITERS[name].words(made, None, out))
        assert result.exit_code == 3, result.output
        assert "the folder of a model; give a place apart from it" in result.stderr
        assert content(tmp_path / "mine") == before


@pytest.mark.parametrize("scheme", ["", "file://"])
def test_a_place_apart_is_taken(tmp_path: Path, scheme: str) -> None:
    news = tmp_path / "corpora" / "news"
    news.mkdir(parents=True)
    (tmp_path / "link").symlink_to(news)
    for out in ("corpora/news", "corpora/news/out", "corpora", "link/out", "corpora/other/../news"):
        with pytest.raises(OutputError, match=r"would overwrite what is read, .*corpora/news; give"):
            check_apart(tmp_path / out, [f"{scheme}{news}"])
    check_apart(tmp_path / "corpora" / "news-out", [f"{scheme}{news}", None])
    check_apart(news, ["s3://bucket/news", "models:/news@champion"])
