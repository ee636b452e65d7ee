"""Predictions of a run in other forms: joined with the corpus, with what constraints changed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import concord
from concord.flows.cli.app import app
from concord.flows.commands.export_predictions import exported
from concord.flows.runfolder.published import published
from concord.schemas.exported import Change
from concord.schemas.labels import LabelSet
from concord.workers.corpus.ingestion import write_corpus
from concord.workers.corpus.plan import plan
from concord.workers.corpus.shards import read_batch
from concord.workers.corpus.writers.registry import WRITERS
from concord.workers.synthesis.made_up import synthesize
from tests.support.runs_here import label, stay_here


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """Made-up documents, of which one cannot be read, with two columns of their own."""
    write_corpus(synthesize(5, seed=1, kind="news"), tmp_path / "made", source="made up")
    table = pa.concat_tables([pq.read_table(path) for path in sorted((tmp_path / "made").glob("part-*.parquet"))])
    table = table.append_column("url", pa.array([f"http://x/{i}" for i in range(len(table))]))
    bad = table.slice(1, 1).set_column(0, "doc_id", pa.array(["bad"]))
    bad = bad.set_column(
        bad.schema.get_field_index("sentence_starts"), "sentence_starts", pa.array([[7]], pa.list_(pa.int32()))
    )
    (tmp_path / "corpus").mkdir()
    pq.write_table(pa.concat_tables([table.slice(0, 2), bad, table.slice(2)]), tmp_path / "corpus" / "c.parquet")
    return tmp_path / "corpus"


@pytest.fixture
def run(corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    from concord.schemas.run import RunSettings

    stay_here(monkeypatch)
    settings = RunSettings(engine="gibbs", options={"sweeps": 20}, confidence="marginal")
    label(corpus, tmp_path / "out", settings=settings)
    return tmp_path / "out"


def test_documents_have_the_texts_and_columns_of_the_corpus(run: Path, corpus: Path) -> None:
    texts = {d.doc_id: d for shard in plan(corpus) for d in read_batch(shard)[0]}
    documents = list(exported(published(str(run)), str(corpus), ["url"]))
    assert [document.doc_id for document in documents] == list(texts)
    assert [document.columns["url"][-1] for document in documents] == list("01234")
    for document in documents:
        own = texts[document.doc_id]
        assert document.tokens == own.tokens
        if own.raw is not None:
            assert document.text == own.text
        for span in document.spans:
            assert document.text[span.first : span.last] == span.text
            assert span.score is not None


def test_changes_are_those_between_the_two_labellings(run: Path) -> None:
    changes = 0
    for document in exported(published(str(run)), None):
        names = LabelSet.infer([*document.labels, *document.labels_before])
        after, before = (
            _types(names, labels, document.sentence_starts) for labels in (document.labels, document.labels_before)
        )
        assert {(span.start, span.end): span.type for span in document.spans} == after
        assert {(span.start, span.end): span.before for span in document.removed} == {
            place: kind for place, kind in before.items() if place not in after
        }
        for span in document.spans:
            assert span.before == before.get((span.start, span.end))
            assert (span.change is Change.KEPT) == (span.before == span.type)
        assert all(reason.nats > 0 for reason in document.reasons)
        changes += document.labels != document.labels_before
        assert document.labels != document.labels_before or not document.reasons
    assert changes


def _types(names: LabelSet, labels: Sequence[str], starts: Sequence[int]) -> dict[tuple[int, int], str]:
    found = names.spans(names.encode(labels), np.array(starts))
    places = zip(found.start.tolist(), found.end.tolist(), strict=True)
    return dict(zip(places, (names.types[kind] for kind in found.type.tolist()), strict=True))


@pytest.mark.parametrize("form", WRITERS)
def test_each_form_is_a_command_and_a_method(form: str, run: Path, corpus: Path, tmp_path: Path) -> None:
    out = tmp_path / f"typed-{form}"
    words = [
        "export",
        "predictions",
        "--run",
        str(run),
        "--form",
        form,
        "--out",
        str(out),
        "--corpus",
        str(corpus),
        "--json",
    ]
    told = CliRunner().invoke(app, words)
    assert told.exit_code == 0, told.stderr
    found = concord.read_predictions(run)
    report = getattr(found, f"to_{form}")(tmp_path / f"called-{form}", corpus=corpus)
    assert report.documents == json.loads(told.stdout)["documents"] == len(found)
    assert _content(out) == _content(tmp_path / f"called-{form}")


def _content(place: Path) -> list[bytes]:
    paths = sorted(place.rglob("*")) if place.is_dir() else [place]
    return [path.read_bytes() for path in paths if path.is_file()]


def test_what_is_exported_is_a_corpus_again(run: Path, corpus: Path, tmp_path: Path) -> None:
    found = concord.read_predictions(run)
    found.to_jsonl(tmp_path / "a.jsonl", corpus=corpus, keep_columns=["url"])
    assert json.loads((tmp_path / "a.jsonl").read_text().splitlines()[0])["url"] == "http://x/0"
    assert concord.ingest("spans", tmp_path / "a.jsonl", out=tmp_path / "again").written == len(found)


def test_another_corpus_and_columns_that_are_not_there_are_told(run: Path, corpus: Path, tmp_path: Path) -> None:
    write_corpus(synthesize(3, seed=9, kind="news"), tmp_path / "other", source="made up")

    def told(*words: str) -> str:
        start = ["export", "predictions", "--run", str(run), "--form", "jsonl", "--out", str(tmp_path / "o")]
        result = CliRunner().invoke(app, [*start, *words])
        assert result.exit_code in (2, 3), result.stderr
        assert not (tmp_path / "o").exists()
        return result.stderr

    assert "give the corpus that was labelled, as it was" in told("--corpus", str(tmp_path / "other"))
    assert "has no such column; did you mean 'url'?" in told("--corpus", str(corpus), "--keep-columns", "urls")
    assert "name the corpus, too: --corpus" in told("--keep-columns", "url")
    assert "did you mean 'jsonl'?" in told("--form", "jsnl")
