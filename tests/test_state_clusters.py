"""Clusters by an encoder: sums against plain loops, and the command against means made by hand."""

from __future__ import annotations

from collections import defaultdict
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as tried
from hypothesis import strategies as st

import concord.flows.commands.clusters
from concord.flows.commands.clusters import learn_from_states
from concord.flows.labelling.sources import read_documents
from concord.flows.work.done import Done
from concord.flows.work.in_process import InProcess
from concord.schemas.document import Batch, Document
from concord.schemas.errors import ShardsError
from concord.workers.corpus.ingestion import write_corpus
from concord.workers.corpus.plan import plan
from concord.workers.features.clustering.word_clusters import FewWordsError, clustered
from concord.workers.features.clustering.word_states import LARGEST_STATE, UNITS, StateSums
from concord.workers.features.clusters import read_clusters, zeros
from concord.workers.features.settings import StateSettings
from concord.workers.models.encoder import encoder_at
from concord.workers.models.folder import ModelError
from concord.workers.remote.states import STATE_SUMS
from concord.workers.synthesis.made_up import synthesize
from tests.support.networks import VOCABULARY, network_folder, use_stubs

SETTINGS = StateSettings(clusters=(3, 7))


@pytest.fixture
def encoder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a stand-in of an encoder; work stays in this process."""
    use_stubs(monkeypatch)
    monkeypatch.setenv("CONCORD_SCORES", "off")
    monkeypatch.setattr(concord.flows.commands.clusters, "cluster", lambda *_, **__: nullcontext(InProcess()))
    table = np.random.default_rng(4).normal(size=(VOCABULARY, 6))
    return network_folder(tmp_path / "encoder", ["a"], table, around=True)


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    write_corpus(list(synthesize(5, seed=2, kind="news")), tmp_path / "corpus", source="made up")
    return tmp_path / "corpus"


words = st.lists(st.sampled_from(["a", "b", "7", "8", "z"]), min_size=1, max_size=9)


@tried(max_examples=60, deadline=None)
@given(texts=st.lists(words, min_size=1, max_size=4), seed=st.integers(0, 9))
def test_sums_are_those_of_a_plain_loop_however_they_are_cut(texts: list[list[str]], seed: int) -> None:
    states = np.random.default_rng(seed).normal(size=(sum(map(len, texts)), 3), scale=900).astype(np.float32)
    numbers, expected, place = {"b": 0, "0": 1, "c": 2}, defaultdict[int, list[np.ndarray]](list), 0
    parts = []
    for number, text in enumerate(texts):
        batch, own = Batch.of([Document.build(str(number), [text])]), states[place : place + len(text)]
        parts.append(StateSums.of(batch, own, numbers, rejected=1))
        for word, state in zip(text, own, strict=True):
            if zeros(word) in numbers:
                units = np.rint(np.clip(state.astype(np.float64), -LARGEST_STATE, LARGEST_STATE) * UNITS)
                expected[numbers[zeros(word)]].append(units)
        place += len(text)
    found = StateSums.merge(parts)
    assert found.word.tolist() == sorted(expected)
    assert found.times.tolist() == [len(expected[word]) for word in sorted(expected)]
    assert found.total.tolist() == [np.sum(expected[word], axis=0).tolist() for word in sorted(expected)]
    assert (found.documents, found.rejected) == (len(texts), len(texts))
    cut = StateSums.merge([StateSums.merge(parts[1:]), StateSums.merge(parts[:1])])
    assert cut.total.tolist() == found.total.tolist()
    twice = StateSums.merge([*parts, *parts])
    assert found.repeated(2).total.tolist() == twice.total.tolist()
    assert found.repeated(2).times.tolist() == twice.times.tolist()
    np.testing.assert_allclose(found.means, twice.means)


def test_the_command_clusters_mean_states_of_all_words(encoder: Path, corpus: Path, tmp_path: Path) -> None:
    report = learn_from_states([str(corpus)], tmp_path / "c.parquet", encoder, SETTINGS)
    documents, _ = read_documents(plan(corpus))
    states = encoder_at(encoder).states(Batch.of(documents)).astype(np.float64)
    seen = defaultdict[str, list[np.ndarray]](list)
    for word, state in zip((w for d in documents for w in d.tokens), states, strict=True):
        seen[zeros(word)].append(state)
    order = sorted(seen, key=lambda word: (-len(seen[word]), word))
    means = np.array([np.mean(np.rint(np.array(seen[word]) * UNITS) / UNITS, axis=0) for word in order])
    expected, found = clustered(order, means, SETTINGS), read_clusters(tmp_path / "c.parquet")
    assert found.words.to_pylist() == order
    assert found.codes.tolist() == expected.codes.tolist()
    assert found.recipe is not None
    assert (found.recipe.way, found.recipe.encoder) == ("states", encoder_at(encoder).files_digest)
    assert (report.tokens, report.words, report.clusterings) == (len(states), len(order), ("3", "7"))


def test_equal_corpora_give_equal_bytes_and_a_corpus_counts_as_often_as_it_is_given(
    encoder: Path, corpus: Path, tmp_path: Path
) -> None:
    for name, corpora in {"once": [corpus], "again": [corpus], "twice": [corpus, corpus]}.items():
        learn_from_states(list(map(str, corpora)), tmp_path / f"{name}.parquet", encoder, SETTINGS)
    assert (tmp_path / "once.parquet").read_bytes() == (tmp_path / "again.parquet").read_bytes()
    once, twice = (read_clusters(tmp_path / f"{name}.parquet") for name in ("once", "twice"))
    assert once.words.equals(twice.words)
    assert once.codes.tolist() == twice.codes.tolist()


def test_what_cannot_be_learned_from_is_told_before_the_work(encoder: Path, corpus: Path, tmp_path: Path) -> None:
    out = tmp_path / "c.parquet"
    with pytest.raises(ModelError, match=r"has no file \.onnx"):
        learn_from_states([str(corpus)], out, corpus, SETTINGS)
    with pytest.raises(FewWordsError, match="for 9999 clusters"):
        learn_from_states([str(corpus)], out, encoder, StateSettings(clusters=(9_999,)))
    assert not out.exists()


def test_a_shard_that_fails_fails_the_command(
    encoder: Path, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Failing(InProcess):
        def run(self, task, shards, parts):  # type: ignore[no-untyped-def]
            for answer in super().run(task, shards, parts):
                yield Done(answer.shard, None, "no memory") if task is STATE_SUMS else answer

    monkeypatch.setattr(concord.flows.commands.clusters, "cluster", lambda *_, **__: nullcontext(Failing()))
    with pytest.raises(ShardsError, match="no memory"):
        learn_from_states([str(corpus)], tmp_path / "c.parquet", encoder, SETTINGS)
