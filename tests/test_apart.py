"""No command destroys what it reads: over the command tree, each output against each input, by every way to name it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from concord.flows.apart import check_apart
from concord.flows.cli.app import app
from concord.flows.prefect.private_flow import PrivateFlow
from concord.workers.storage.files import OutputError
from tests.support.writers import OUT, READ, WRITERS, texts
from tests.support.writers import made as made

SAID = {
    *(
        "alias",
        "column",
        "doc",
        "engine",
        "errors_of",
        "feature_function",
        "features",
        "id_column",
        "language",
        "method",
        "month",
        "penalty",
        "set_",
    ),
    *(
        "paper",
        "ray",
        "reader",
        "register_as",
        "table",
        "text_column",
        "tokenizer",
        "tokenizer_function",
        "tracking",
        "trainer",
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
