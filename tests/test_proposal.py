"""`concord constraints propose`: the prompt has a model's own errors, and says how rules are written."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from concord.flows.cli.app import app
from concord.flows.cli.failures import Exit
from concord.workers.constraints.file_schema import file_schema
from concord.workers.constraints.templates.registry import TEMPLATES
from concord.workers.corpus.ingestion import write_corpus
from concord.workers.learning.trainers.registry import trainer_named
from concord.workers.models.settings import SgdSettings
from concord.workers.synthesis.made_up import synthesize

LEARNED, OTHERS = 10, 60


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model of few documents, and a corpus of many."""
    folder = tmp_path_factory.mktemp("proposal")
    documents = list(synthesize(LEARNED + OTHERS, seed=0, kind="news"))
    write_corpus(documents[LEARNED:], folder / "corpus", source="test")
    write_corpus(documents[:LEARNED], folder / "learned", source="test")
    settings = SgdSettings(features="core", passes=40, c2=0.01, dropout=0.0)
    (folder / "model").mkdir()
    trainer_named("sgd").train(documents[:LEARNED], settings=settings, out=folder / "model")
    return folder


def proposed(place: Path, out: Path, *more: str, corpus: str = "corpus", code: int = 0) -> str:
    words = ["--corpus", str(place / corpus), "--model", str(place / "model"), "--out", str(out), *more]
    done = CliRunner().invoke(app, ["constraints", "propose", *words])
    assert done.exit_code == code, done.output
    return done.stdout if "--json" in more else done.output


def test_the_prompt_shows_errors_of_the_model_and_says_how_rules_are_written(place: Path, tmp_path: Path) -> None:
    report = json.loads(proposed(place, tmp_path / "all.md", "--errors", "1000", "--json"))
    text = (tmp_path / "all.md").read_text()
    people, model = (re.findall(rf"^  - {who}: (.+)$", text, re.MULTILINE) for who in ("people", "model"))
    assert len(people) == len(model) == report["errors"] == report["shown"] > 3
    for one, other in zip(people, model, strict=True):
        assert one != other
        assert re.sub(r"\[|\ [A-Z]+\]", "", one) == re.sub(r"\[|\ [A-Z]+\]", "", other)
    assert all(f"- `{name}`: " in text for name in TEMPLATES)
    assert json.loads(text.partition("```json\n")[2].partition("\n```")[0]) == file_schema()
    said = proposed(place, tmp_path / "few.md", "--errors", "2")
    assert "concord constraints check RULES" in said
    few = (tmp_path / "few.md").read_text()
    assert re.findall(r"^  - people: (.+)$", few, re.MULTILINE) == people[:2]
    assert proposed(place, tmp_path / "again.md", "--errors", "2")
    assert (tmp_path / "again.md").read_text() == few


def test_a_model_without_an_error_needs_no_rule(place: Path, tmp_path: Path) -> None:
    said = proposed(place, tmp_path / "none.md", corpus="learned", code=Exit.INPUT)
    assert "give documents that it has not learned from" in " ".join(said.split())
    assert not (tmp_path / "none.md").exists()
