"""Counts of a corpus against plain loops, and the command that prints them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from itertools import groupby, pairwise
from math import ceil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

import concord.flows.commands.corpus_stats
from concord.flows.cli.app import app
from concord.flows.cli.failures import Exit
from concord.flows.commands.corpus_stats import VocabularyError, corpus_stats
from concord.schemas.document import Batch, Document
from concord.schemas.errors import CorpusError
from concord.schemas.labels import Scheme
from concord.workers.corpus.ingestion import write_corpus
from concord.workers.evaluation.corpus_counts import CorpusCounts, Lengths
from concord.workers.features.templates import FeatureSet, FeatureSetError, feature_set
from concord.workers.learning.trainers import crfsuite
from concord.workers.models.crf import CrfModel
from concord.workers.models.settings import CrfSettings
from tests.support.in_process import Here
from tests.support.made_corpora import corpus as named
from tests.support.made_runs import HashModel

BIO = st.sampled_from(["O", "B-PER", "I-PER", "B-LOC", "I-LOC"])
FIELDS = st.sampled_from(["name", "street", "O"])
WORDS = ("Ada", "Basel", "the", "x")


def documents(labels: st.SearchStrategy[str]) -> st.SearchStrategy[list[Document]]:
    token = st.tuples(st.sampled_from(WORDS), labels)
    sentences = st.lists(st.lists(token, min_size=1, max_size=6), min_size=1, max_size=4)
    return st.lists(sentences, max_size=6).map(
        lambda made: [
            Document.build(
                str(i), [[word for word, _ in row] for row in rows], labels=[[name for _, name in row] for row in rows]
            )
            for i, rows in enumerate(made)
        ]
    )


def of(given: Sequence[Document]) -> CorpusCounts:
    batch = Batch.of(given)
    known = np.array([word[0].islower() for word in batch.columns["tokens"].values], np.bool_)
    return CorpusCounts.of(batch, rejected=0, repeated=0, in_vocabulary=known)


def sentences_of(given: Sequence[Document]) -> list[list[tuple[str, str]]]:
    rows = []
    for document in given:
        assert document.labels is not None
        pairs = list(zip(document.tokens, document.labels.strings(), strict=True))
        bounds = [*document.sentence_starts.tolist(), len(pairs)]
        rows += [pairs[a:b] for a, b in pairwise(bounds)]
    return rows


def spans_by_loop(given: Sequence[Document], *, bio: bool) -> dict[str, dict[str, int]]:
    found: list[list[Any]] = []
    for row in sentences_of(given):
        before = ""
        for _, name in row:
            kind = name[2:] if bio else name
            goes_on = before == kind and not (bio and name[0] == "B")
            if name == "O":
                before = ""
                continue
            if goes_on:
                found[-1][1] += 1
            else:
                found.append([kind, 1])
            before = kind
    by_kind = groupby(sorted(found), key=lambda span: span[0])
    lengths = {kind: [tokens for _, tokens in group] for kind, group in by_kind}
    return {kind: {"spans": len(tokens), "tokens": sum(tokens)} for kind, tokens in lengths.items()}


@given(st.one_of(documents(BIO), documents(FIELDS)), st.integers(0, 6))
def test_counts_are_those_of_a_plain_loop_however_the_documents_are_parted(given: list[Document], at: int) -> None:
    pairs = [pair for row in sentences_of(given) for pair in row]
    names = Counter(name for _, name in pairs)
    plain = bool({"name", "street"} & set(names))
    for counts in (of(given), CorpusCounts.merge([of(given[:at]), of(given[at:])])):
        assert counts.documents == len(given)
        assert counts.tokens == len(pairs)
        assert counts.unknown == sum(word[0].isupper() for word, _ in pairs)
        assert {name: row["tokens"] for name, row in counts.labels.as_dict().items()} == names
        assert counts.scheme == ((Scheme.PLAIN if plain else Scheme.BIO) if names else None)
        assert counts.spans.as_dict() == spans_by_loop(given, bio=not plain)
        sizes = Counter(map(len, given)), Counter(map(len, sentences_of(given)))
        for lengths, wanted in zip((counts.document_tokens, counts.sentence_tokens), sizes, strict=True):
            assert dict(zip(lengths.length.tolist(), lengths.count.tolist(), strict=True)) == wanted


@given(st.lists(st.integers(0, 40)), st.integers(0, 100))
def test_a_percentile_is_the_shortest_length_that_so_many_do_not_exceed(sizes: list[int], percent: int) -> None:
    lengths = Lengths.of(np.array(sizes, np.int64))
    rank = max(1, ceil(percent * len(sizes) / 100))
    assert lengths.percentile(percent) == (sorted(sizes)[rank - 1] if sizes else 0)
    assert lengths.mean() == pytest.approx(sum(sizes) / len(sizes) if sizes else 0.0)


def test_documents_without_gold_are_counted_beside_those_with() -> None:
    bare = Document.build("bare", [["a", "b"]])
    counts = CorpusCounts.merge([of(named(0, 3)), of([bare])])
    assert (counts.documents, counts.with_gold) == (4, 3)
    assert of([bare]).scheme is None


# The words that a model knows


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> CrfModel:
    settings = CrfSettings(features="finkel", max_iterations=3)
    return crfsuite.train(named(0, 12), settings=settings, out=tmp_path_factory.mktemp("model") / "m")


def test_a_crf_knows_the_words_that_it_was_trained_on(model: CrfModel) -> None:
    seen = sorted({word for document in named(0, 12) for word in document.tokens})
    assert model.known(seen).all()
    assert not model.known(["Zürich", "basel", "", "thee"]).any()
    assert model.known([]).shape == (0,)


def test_features_that_read_lower_case_alone_know_words_in_any_case(tmp_path: Path) -> None:
    found = crfsuite.train(named(0, 5), settings=CrfSettings(features="fields", max_iterations=2), out=tmp_path)
    assert found.known(["BASEL", "Basel", "Zürich"]).tolist() == [True, True, False]


def test_features_without_the_word_know_none(model: CrfModel) -> None:
    bare = FeatureSet("bare", tuple(t for t in feature_set("finkel").templates if "shape" in t.name))
    with pytest.raises(FeatureSetError, match="'bare' has no feature of the word itself"):
        replace(model, features=bare).known(["x"])


# The command, its shards counted in this process in the place of Ray's workers


@pytest.fixture
def corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(concord.flows.commands.corpus_stats, "cluster", lambda *_, **__: nullcontext(Here(None)))
    for i in range(3):
        rows = [replace(document, doc_id=f"{i}-{document.doc_id}") for document in named(i, 4)]
        write_corpus(rows, tmp_path / "corpus" / str(i), source="test")
    return tmp_path / "corpus"


def test_the_command_prints_tables_or_one_object(
    corpus: Path, model: CrfModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(concord.flows.commands.corpus_stats, "_vocabulary", lambda *_: model)
    words = ["corpus", "stats", "--corpus", str(corpus), "--model", "m"]
    done = CliRunner().invoke(app, [*words, "--json"])
    assert done.exit_code == 0, done.output
    report = json.loads(done.stdout)
    assert (report["documents"], report["with_gold"], report["scheme"]) == (12, 12, "bio")
    assert report["tokens"] == sum(report["labels"].values())
    assert 0 <= report["unknown"] < 1
    said = CliRunner().invoke(app, words)
    assert "12 documents (12 with gold labels)" in " ".join(said.stdout.split())
    assert all(name in said.stdout for name in [*report["labels"], *report["spans"], "median"])


def test_a_shard_that_fails_is_named_and_the_others_are_counted(corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(concord.flows.commands.corpus_stats, "cluster", lambda *_, **__: nullcontext(Here(1)))
    done = CliRunner().invoke(app, ["corpus", "stats", "--corpus", str(corpus), "--json"])
    assert done.exit_code == Exit.SHARDS
    report = json.loads(done.stdout)
    assert report["documents"] == 8
    assert [error.endswith("it burned") for error in report["errors"]] == [True]
    assert "1 of 3 shards failed" in done.stderr


def test_what_cannot_be_counted_is_one_line(tmp_path: Path, corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CorpusError):
        corpus_stats(str(tmp_path / "nowhere"))
    opened = SimpleNamespace(model=HashModel())
    monkeypatch.setattr(concord.flows.commands.corpus_stats, "open_model", lambda *_: opened)
    with pytest.raises(VocabularyError, match="does not tell which words it knows"):
        corpus_stats(str(corpus), model="m")
