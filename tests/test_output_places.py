"""No command destroys what is there: over the command tree, each output against each input, by every way to name it,
and against a folder of every kind.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from concord.flows.cli.app import app
from concord.flows.inputs.output_places import check_inputs
from concord.flows.prefect.private_flow import PrivateFlow
from concord.flows.runfolder.folder_output import FolderOutput
from concord.flows.runfolder.runfolder import Purpose, claim
from concord.schemas.folders import FolderKind
from concord.schemas.labels import Scheme
from concord.workers.storage.files import OutputError, write_whole
from concord.workers.storage.folder_kinds import MANIFEST, SAYS, say_kind
from concord.workers.storage.sealed import DIGEST, seal
from tests.support.made_folders import made_run
from tests.support.writers import OUT, READ, WRITERS, texts
from tests.support.writers import made as made

SAID = {
    *(
        "alias",
        "certainty",
        "column",
        "doc",
        "engine",
        "error",
        "errors_of",
        "feature_function",
        "features",
        "form",
        "id_column",
        "keep_columns",
        "labels_column",
        "language",
        "layers",
        "map_",
        "method",
        "month",
        "name",
        "penalty",
        "set_",
    ),
    *(
        "package",
        "paper",
        "phrase_column",
        "program",
        "frequencies",
        "ray",
        "reader",
        "register",
        "table",
        "text_column",
        "tokenizer",
        "tokenizer_function",
        "tokens_column",
        "tracking",
        "tasks_file",
        "trainer",
        "version",
        "whole",
    ),
}
"""Parameters that are texts, and no places."""


def test_every_parameter_that_is_a_text_is_a_place_or_none() -> None:
    for writer in WRITERS.values():
        assert [name for name in texts(writer.command) if name not in {OUT, *READ, *SAID}] == [], writer.name
    assert len(WRITERS) >= 14


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


OWN = {
    **dict.fromkeys(("train", "calibrate", "import scores", "import crfsuite", "import onnx"), FolderKind.MODEL),
    **dict.fromkeys(("synthesize", "ingest", "import entities"), FolderKind.CORPUS),
    **dict.fromkeys(("adopt", "reprocess", "doctor"), FolderKind.RUN),
    "sweep run": FolderKind.SWEEP,
    "sweep plan": FolderKind.SWEEP,
    "codl": FolderKind.CYCLES,
    "papers": FolderKind.TABLES,
    "challenge": FolderKind.CHALLENGE,
}
"""The kind of folder that a command makes; others write files, pages, or into an empty folder."""


@pytest.mark.parametrize("name", sorted(WRITERS))
def test_a_folder_of_another_kind_is_never_written_to(
    name: str, made: Path, kinds_made: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CONCORD_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(PrivateFlow, "__call__", lambda self, *args, **kwargs: self.fn(*args, **kwargs))
    before, own = content(kinds_made), OWN.get(name)
    for folder in sorted(kinds_made.iterdir()):
        kind = FolderKind(folder.name.partition(" ")[0])
        inside = [folder / "below.parquet", *(path for path in sorted(folder.iterdir()) if path.is_dir())]
        for out in (*inside, *(() if kind is own else (folder,))):
            result = CliRunner().invoke(app, WRITERS[name].words(made, None, out))
            assert result.exit_code == 3, f"{out}: {result.output} {result.exception!r}"
            assert re.search(rf"--out {out}: {folder}.* is the folder of .*; give a place apart from it", result.stderr)
    assert content(kinds_made) == before


@pytest.fixture(scope="module")
def kinds_made(made: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of each kind, as it is made today, and as versions made it that did not say the kind."""
    folders = tmp_path_factory.mktemp("kinds")
    shutil.copytree(made / "model", folders / "model")
    shutil.copytree(made / "model", folders / "model unsaid")
    unsaid(folders / "model unsaid", lambda content: json.dumps(content).encode())
    run = made_run(tmp_path_factory.mktemp("run"), Scheme.BIO).out
    for name in ("run", "run unsaid", "challenge unsaid/champion"):
        shutil.copytree(run, folders / name, symlinks=True)
    unsaid(folders / "run unsaid", lambda content: seal({k: v for k, v in content.items() if k != DIGEST}))
    claim(FolderOutput(folders / "run unfinished"), Purpose("corpora/news"))
    shutil.copytree(made / "corpus", folders / "corpus")
    for kind in (FolderKind.SWEEP, FolderKind.CYCLES, FolderKind.TABLES, FolderKind.CHALLENGE):
        say_kind(folders / kind, kind)
    write_whole(folders / "sweep unsaid" / "plan.json", b'[{"cell": {}, "model": {}, "content": {}}]')
    write_whole(folders / "codl unsaid" / "cycle-00" / "cycle.json", b"{}")
    for form in ("md", "html"):
        write_whole(folders / "papers unsaid" / f"papers.{form}", b"")
    shutil.copytree(made / "model", folders / "challenge unsaid" / "model")
    assert {FolderKind(path.name.partition(" ")[0]) for path in folders.iterdir()} == set(FolderKind)
    return folders


def unsaid(folder: Path, written: Callable[[dict[str, Any]], bytes]) -> None:
    """Takes from the manifest what kind of folder it is in."""
    path = folder / MANIFEST
    content = json.loads(path.read_bytes())
    del content[SAYS]
    path.write_bytes(written(content))


@pytest.mark.parametrize("name", sorted(name for name, kind in OWN.items() if kind is not FolderKind.CORPUS))
def test_a_manifest_of_something_else_is_not_written_over(
    name: str, made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CONCORD_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(PrivateFlow, "__call__", lambda self, *args, **kwargs: self.fn(*args, **kwargs))
    for text in (b'{"name": "my page", "icons": []}', b"{", b"[]"):
        write_whole(tmp_path / "site" / MANIFEST, text)
        result = CliRunner().invoke(app, WRITERS[name].words(made, None, tmp_path / "site"))
        assert (result.exit_code, "is no manifest of concord's, or a damaged one" in result.stderr) == (3, True)
        assert content(tmp_path / "site") == {MANIFEST: text}


@pytest.mark.parametrize("name", sorted(WRITERS))
def test_a_pipe_is_never_replaced(name: str, made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONCORD_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(PrivateFlow, "__call__", lambda self, *args, **kwargs: self.fn(*args, **kwargs))
    out = tmp_path / "out"
    os.mkfifo(out)
    result = CliRunner().invoke(app, WRITERS[name].words(made, None, out))
    assert (result.exit_code, out.is_fifo()) == (3, True), f"{result.output} {result.exception!r}"
    assert f"--out {out}: is a device or a pipe; give another place\n" in result.stderr


@pytest.mark.parametrize("scheme", ["", "file://"])
def test_a_place_apart_is_taken(tmp_path: Path, scheme: str) -> None:
    news = tmp_path / "corpora" / "news"
    news.mkdir(parents=True)
    (tmp_path / "link").symlink_to(news)
    for out in ("corpora/news", "corpora/news/out", "corpora", "link/out", "corpora/other/../news"):
        with pytest.raises(OutputError, match=r"would overwrite what is read, .*corpora/news; give"):
            check_inputs(tmp_path / out, [f"{scheme}{news}"])
    check_inputs(tmp_path / "corpora" / "news-out", [f"{scheme}{news}", None])
    check_inputs(news, ["s3://bucket/news", "models:/news@champion"])
