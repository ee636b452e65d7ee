"""`concord constraints`: check and explain over a made-up corpus."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import concord.flows.tracking.tracking
from concord.flows.cli.constraints_cli import app
from concord.flows.tracking.tracking import PENALTIES_FILE, Outcome
from concord.schemas.audit import CheckReport, Explanation, WeighReport
from concord.schemas.columns import table_from_documents
from concord.schemas.document import Document
from concord.workers.constraints.constraint_file import load_constraints
from concord.workers.corpus.ingestion import write_corpus
from concord.workers.corpus.settings import IngestSettings
from concord.workers.learning.trainers import crfsuite, sgd
from concord.workers.models.settings import CrfSettings, SgdSettings
from concord.workers.synthesis.made_up import synthesize
from tests.support.made_tracking import untracked

FILE = """
constraints:
  - template: starts_with
    name: start
    labels: [author, editor]
    weight: 2
  - template: should_be_tagged
    name: title first
    position: 0
    labels: title
    weight: 1
"""


@pytest.fixture(scope="module")
def documents() -> list[Document]:
    return list(synthesize(60, seed=3, kind="citations"))


@pytest.fixture(scope="module")
def corpus(documents: list[Document], tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("corpus") / "citations"
    write_corpus(documents, out, source="made up", layout=IngestSettings(group_documents=25))
    return out


@pytest.fixture(scope="module")
def model(documents: list[Document], tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("model")
    crfsuite.train(documents, settings=CrfSettings(features="fields", max_iterations=5), out=out)
    return out


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "c.yaml"
    path.write_text(FILE)
    return path


def run(*arguments: object, code: int = 0) -> str:
    result = CliRunner().invoke(app, [str(a) for a in arguments])
    assert result.exit_code == code, result.output
    return result.stdout


def test_check_reports_gold_model_and_contradictions(file: Path, corpus: Path, model: Path) -> None:
    out = run("check", file, "--corpus", corpus, "--model", model, "--conflicts", 3, "--json")
    report = CheckReport.model_validate(json.loads(out))
    assert (report.documents, report.with_gold, report.searched) == (60, 60, 3)
    start, title = report.constraints
    assert (start.places, title.places) == (60, 60)
    assert start.gold is not None
    assert title.gold is not None
    assert start.gold.places + title.gold.places >= 60
    assert [c.constraints for c in report.conflicts] == [("start", "title first")]
    text = run("check", file, "--corpus", corpus, "--conflicts", 3)
    assert "contradiction: start + title first cannot hold together in 3 documents" in text
    assert "without constraints" not in text


def test_check_says_what_the_constraints_gain(file: Path, corpus: Path, model: Path) -> None:
    asked = ("check", file, "--corpus", corpus, "--model", model, "--conflicts", 0)
    effect = CheckReport.model_validate(json.loads(run(*asked, "--json"))).effect
    assert effect is not None
    assert effect.documents
    text = run(*asked)
    assert re.search(r"^gain, points +changed +accuracy +f1 +95 % +accuracy$", text, re.MULTILINE)
    assert re.search(rf"^all of them +{effect.documents} ", text, re.MULTILINE)
    (fields,) = [one for one in effect.figures if one.measure == "spans"]
    assert f"f1 of spans: {fields.before:.2%} without constraints, {fields.after:.2%} with them (" in text


def test_check_looks_at_no_more_documents_than_asked_but_knows_all_labels(file: Path, corpus: Path) -> None:
    report = json.loads(run("check", file, "--corpus", corpus, "--documents", 30, "--conflicts", 0, "--json"))
    assert (report["documents"], report["searched"]) == (30, 0)
    assert report["constraints"][0]["model"] is None


def test_explain_shows_a_document(file: Path, corpus: Path, model: Path, documents: list[Document]) -> None:
    document = documents[7]
    arguments = ("explain", file, "--corpus", corpus, "--model", model, "--doc", document.doc_id)
    found = Explanation.model_validate(json.loads(run(*arguments, "--json")))
    assert (found.doc_id, list(found.tokens), found.status) == (document.doc_id, document.tokens, "optimal")
    assert [e.name for e in found.effects] == ["start", "title first"]
    assert sum(e.degree or 0 for e in found.effects) >= 1
    assert document.tokens[0] in run(*arguments)


def test_mistakes_leave_with_a_message_and_a_code(file: Path, corpus: Path, model: Path, tmp_path: Path) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_text(FILE.replace("editor", "edditor"))
    run("check", bad, "--corpus", corpus, code=3)
    run("check", file, "--corpus", corpus, "--engine", "nothing", code=2)
    run("explain", file, "--corpus", corpus, "--model", model, "--doc", "nowhere", code=3)


def test_weights_are_counted_and_written(file: Path, corpus: Path, tmp_path: Path) -> None:
    out = tmp_path / "weighed" / "rules.yaml"
    report = WeighReport.model_validate(json.loads(run("weigh", file, "--corpus", corpus, "--out", out, "--json")))
    assert (report.documents, report.without_gold, report.out) == (60, 0, str(out))
    start, title = report.constraints
    assert (start.rows, start.vacuous, title.rows) == (60, 0, 60)
    assert (start.before, title.weight) == (2.0, 0.0)
    assert start.low <= start.weight <= start.high
    read = load_constraints(out)
    assert read.titles == ("start", "title first")
    assert [t.weight for t in read.templates] == [start.weight, 0.0]  # type: ignore[attr-defined]


def test_weights_are_shown_and_where_they_rest_on_nothing_it_says_so(corpus: Path, tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(
        FILE + "  - {template: begin_end, name: ends, begin: pages, end: date, weight: 1}\n"
        "  - {template: must_appear, name: kept, labels: title, weight: hard}\n"
    )
    said = run("weigh", path, "--corpus", corpus)
    assert "warning: title first: gold breaks it more than it keeps it" in said
    assert "warning: ends: gold never has what it speaks of" in said
    assert "nothing was written; --out FILE keeps these weights" in said
    (kept,) = (line for line in said.splitlines() if line.startswith("kept"))
    assert kept.split()[-5:-3] == ["hard", "hard"]


def test_what_has_no_part_in_the_weights_is_counted(file: Path, documents: list[Document], tmp_path: Path) -> None:
    folder = tmp_path / "corpus"
    folder.mkdir()
    tables = [table_from_documents(documents[:20]), table_from_documents([replace(documents[20], labels=None)])]
    tables.append(pa.concat_tables([tables[0].slice(0, 1), table_from_documents(documents[30:35])]))
    for i, table in enumerate(tables):
        pq.write_table(table, folder / f"{i}.parquet")
    said = run("weigh", file, "--corpus", folder)
    assert "counted on 25 documents with gold labels" in said
    assert "left out: 1 documents without gold labels, 1 rejected rows" in said, "an id that comes twice"


def test_a_corpus_without_gold_labels_cannot_be_weighed_on(
    file: Path, documents: list[Document], tmp_path: Path
) -> None:
    path = tmp_path / "plain.parquet"
    pq.write_table(table_from_documents([replace(documents[0], labels=None)]), path)
    result = CliRunner().invoke(app, ["weigh", str(file), "--corpus", str(path)])
    assert result.exit_code == 3
    assert "has no gold labels; give a labelled corpus" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--penalty", "odd"], "no penalty is called 'odd'; did you mean 'odds'? there are odds, fersini, bayes"),
        (["--set", "held=-1"], "held"),
        (["--penalty", "tuned"], "tuned goes together with --model and --held-out, --penalty learned with --model"),
        (["--penalty", "learned"], "learned with --model alone, and every other one with neither"),
        (["--model", "m"], "learned with --model alone, and every other one with neither"),
        (["--penalty", "tuned", "--set", "base=tuned"], "no penalty that is counted is called 'tuned'"),
        (["--set", "hold=1"], "options of penalty odds: held"),
    ],
)
def test_penalties_that_are_not_there_are_told(arguments: list[str], said: str, file: Path, corpus: Path) -> None:
    result = CliRunner().invoke(app, ["weigh", str(file), "--corpus", str(corpus), *arguments])
    assert result.exit_code == 2
    assert said in result.stderr


def test_weights_are_tuned_on_held_out_documents_and_tracked(
    file: Path, corpus: Path, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: dict[str, object] = {}
    ended: list[Outcome] = []
    monkeypatch.setattr(concord.flows.tracking.tracking, "Tracking", untracked(ended, kept))
    held_out = tmp_path / "held-out"
    write_corpus(synthesize(15, seed=4, kind="citations"), held_out, source="made up", layout=IngestSettings())
    out = tmp_path / "tuned.yaml"
    given = ["weigh", file, "--corpus", corpus, "--penalty", "tuned", "--held-out", held_out, "--model", model]
    report = WeighReport.model_validate(json.loads(run(*given, "--out", out, "--tracking", "x", "--json")))
    tuning = report.tuning
    assert tuning is not None
    assert (tuning.documents, tuning.base, report.mlflow_run) == (15, "odds", "run")
    assert tuning.after >= tuning.before
    assert tuning.factors.keys() == {"starts_with", "should_be_tagged"}
    start = report.constraints[0]
    counted = WeighReport.model_validate(json.loads(run("weigh", file, "--corpus", corpus, "--json"))).constraints[0]
    assert start.factor == tuning.factors["starts_with"]
    assert (start.low, start.high) == pytest.approx((counted.low * start.factor, counted.high * start.factor))
    assert load_constraints(out).templates[0].weight == start.weight  # type: ignore[attr-defined]
    assert kept["penalty"] == "tuned"
    assert json.loads(str(kept[PENALTIES_FILE]))["constraints"][0]["low"] == start.low
    assert ended[0].metrics["held_out/after"] == tuning.after
    assert "times factors, the best of" in run(*given)


def test_a_figure_that_the_measure_has_not_is_told(file: Path, corpus: Path, model: Path) -> None:
    given = ["--penalty", "tuned", "--held-out", str(corpus), "--model", str(model), "--set", "figure=f1"]
    result = CliRunner().invoke(app, ["weigh", str(file), "--corpus", str(corpus), *given])
    assert result.exit_code == 2
    assert "no figure of measure labels is called 'f1'; there are accuracy" in result.stderr


def test_the_rule_of_the_readme_helps_on_the_corpus_that_it_is_shown_with(tmp_path: Path) -> None:
    """As it stands there: made-up citations, 300 to learn from and 100 others."""
    readme = (Path(__file__).parents[1] / "README.md").read_text()
    (text,) = re.findall(r"^```yaml\n(constraints:.*?)^```$", readme, re.MULTILINE | re.DOTALL)
    (tmp_path / "rules.yaml").write_text(text)
    cited = list(synthesize(300, seed=0, kind="citations"))
    write_corpus(synthesize(100, seed=1, kind="citations"), tmp_path / "more", source="test", layout=IngestSettings())
    sgd.train(cited, settings=SgdSettings(features="fields"), out=tmp_path / "model")
    given = ("--corpus", tmp_path / "more", "--model", tmp_path / "model", "--conflicts", 0, "--json")
    (row,) = CheckReport.model_validate_json(run("check", tmp_path / "rules.yaml", *given)).constraints
    assert not row.warnings
    assert row.effect is not None
    (gain,) = (one for one in row.effect.figures if one.measure == "spans")
    assert gain.after > gain.before
    assert gain.low >= 0
    assert f"F1 of fields goes from {gain.before:.2%} to {gain.after:.2%}".replace("%", "") in " ".join(readme.split())
