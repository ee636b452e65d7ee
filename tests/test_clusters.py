"""Word clusters: counts against plain loops, readers of vectors, a table's way through features and a model."""

from __future__ import annotations

import gzip
import hashlib
import json
import pickle
import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from concord.schemas.document import Batch, Document
from concord.workers.features.attributes import AttributeMaker
from concord.workers.features.clustering.vectors import VectorError, read_vectors
from concord.workers.features.clustering.word_clusters import FewWordsError, clustered
from concord.workers.features.clustering.word_counts import WordCounts
from concord.workers.features.clusters import WORD_TABLE, ClusterFileError, Clusters, read_clusters, write_clusters
from concord.workers.features.scorer import Scorer, compile_weights
from concord.workers.features.settings import ClusterSettings
from concord.workers.features.templates import FeatureSetError, feature_set
from concord.workers.learning.trainers import crfsuite, given_features
from concord.workers.learning.trainers.given_features import features_of
from concord.workers.models.folder import ModelError
from concord.workers.models.loaders import load_model
from concord.workers.models.settings import CrfSettings

TABLE = Clusters(
    pa.array(["Paris", "rome", "0000", "said"]), ("2", "3"), np.array([[0, 2], [0, 1], [1, 0], [1, 1]], np.int32)
)

documents = st.lists(
    st.lists(st.lists(st.sampled_from(["a", "b", "c", "1", "2", "d"]), min_size=1, max_size=6), max_size=4),
    min_size=1,
    max_size=3,
)


@settings(max_examples=100, deadline=None)
@given(nested=documents)
def test_counts_are_those_of_plain_loops(nested: list[list[list[str]]]) -> None:
    batches = [Batch.of([Document.build(str(i), d)]) for i, d in enumerate(nested)]
    counts = WordCounts.merge(map(WordCounts.of, batches))
    assert counts.words == Counter(re.sub("[0-9]", "0", w) for d in nested for s in d for w in s)
    assert (counts.documents, counts.tokens) == (len(nested), sum(len(s) for d in nested for s in d))


def test_the_shipped_table_is_what_stands_beside_it() -> None:
    about = json.loads(WORD_TABLE.with_suffix(".json").read_text())
    table = read_clusters(WORD_TABLE)
    words = table.words.to_pylist()
    assert hashlib.sha256(WORD_TABLE.read_bytes()).hexdigest() == about["sha256"][WORD_TABLE.name]
    assert len(words) == about["words"]
    assert table.names == tuple(map(str, about["clusters"]))
    assert (table.codes.max(axis=0) < about["clusters"]).all()
    assert words == sorted(words)
    assert about["licence"] == "PDDL-1.0"
    monday, friday, peter = (table.codes[table.place(word)].tolist() for word in ("Monday", "Friday", "Peter"))
    assert monday == friday != peter


@pytest.mark.parametrize("files", [None, ["glove"], ["c.parquet"], ["glove", "c.parquet"], ["c.parquet", "glove"]])
def test_features_read_the_shipped_table_where_no_file_or_its_name_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: list[str] | None
) -> None:
    monkeypatch.chdir(tmp_path)
    write_clusters(Path("c.parquet"), TABLE)
    read = features_of(CrfSettings(features="core+clusters", clusters=files), [])
    ours = {"glove": len(read_clusters(WORD_TABLE).words), "c.parquet": len(TABLE.words)}
    assert [len(table.words) for table in read.clusters] == [ours[name] for name in files or ["glove"]]


def test_the_default_features_read_nothing_but_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus = [Document.build("d", [["Paris", "said"]], labels=[["B-LOC", "O"]])]
    trained = crfsuite.train(corpus, settings=CrfSettings(max_iterations=3), out=tmp_path / "model")
    assert trained.columns == ("tokens",)
    monkeypatch.setattr(given_features, "WORD_TABLE", tmp_path / "gone")  # a model keeps a copy
    loaded = load_model(tmp_path / "model")
    batch = Batch.of([Document.build("e", [["Madrid", "said"]])])
    np.testing.assert_array_equal(loaded.potentials(batch).unary, trained.potentials(batch).unary)


def test_too_few_words_are_named() -> None:
    with pytest.raises(FewWordsError, match="1 words for 2 clusters"):
        clustered(["a"], np.ones((1, 2)), ClusterSettings(clusters=(2,)))


@pytest.mark.parametrize(("word", "value"), [("Paris", "0"), ("1996", "1"), ("ROME", "0"), ("PARIS", "?"), ("", "?")])
def test_a_word_is_looked_up_as_it_is_then_folded(word: str, value: str) -> None:
    extract = TABLE.extractors["cluster-2"]
    assert extract.values(word) == (value,)
    assert pickle.loads(pickle.dumps(TABLE)).extractors["cluster-2"].values(word) == (value,)


def test_scorer_and_attributes_agree_on_clusters(tmp_path: Path) -> None:
    write_clusters(tmp_path / "c.parquet", TABLE)
    features = feature_set("core+clusters", [tmp_path / "c.parquet"])
    document = Document.build("d", [["Paris", "said", "1996"], ["rome", "Unknown"]])
    rows = AttributeMaker(features)(document)
    assert {"tokens.cluster-3[-1]=2", "tokens.cluster-2[0]=1", "tokens.cluster-2[1]=1"} <= set(rows[1])
    names = sorted({a for row in rows for a in row})
    weight = np.random.default_rng(0).normal(size=len(names))
    ids = np.arange(len(names), dtype=np.int32)
    weights = compile_weights(features, names, ids, ids % 3, weight)
    expected = np.zeros((len(rows), 3))
    for t, row in enumerate(rows):
        for attribute in row:
            expected[t, names.index(attribute) % 3] += weight[names.index(attribute)]
    scorer = Scorer(pickle.loads(pickle.dumps(features)), weights, 3)
    np.testing.assert_allclose(scorer.unary(Batch.of([document])), expected, atol=1e-12)


def test_clusters_and_the_feature_set_go_together(tmp_path: Path) -> None:
    write_clusters(tmp_path / "c.parquet", TABLE)
    for name, files in (("core", [tmp_path / "c.parquet"]), ("core+clusters", [])):
        with pytest.raises(FeatureSetError, match="go together"):
            feature_set(name, files)
    with pytest.raises(FeatureSetError, match=r"c\.parquet is given twice"):
        feature_set("core+clusters", [tmp_path / "c.parquet"] * 2)


def test_a_model_keeps_its_clusters_and_notices_when_they_change(tmp_path: Path) -> None:
    write_clusters(tmp_path / "c.parquet", TABLE)
    chosen = CrfSettings(features="core+clusters", clusters=(str(tmp_path / "c.parquet"),), max_iterations=3)
    corpus = [Document.build("d", [["Paris", "said"]], labels=[["B-LOC", "O"]])]
    trained = crfsuite.train(corpus, settings=chosen, out=tmp_path / "model")
    (tmp_path / "c.parquet").unlink()
    loaded = load_model(tmp_path / "model")
    batch = Batch.of([Document.build("e", [["rome", "said"]])])
    np.testing.assert_array_equal(loaded.potentials(batch).unary, trained.potentials(batch).unary)
    codes = np.array(TABLE.codes)
    codes[0, 0] = 1
    write_clusters(tmp_path / "model" / "clusters.parquet", Clusters(TABLE.words, TABLE.names, codes))
    with pytest.raises(ModelError, match=r"clusters\.parquet: SHA-256 differs"):
        load_model(tmp_path / "model")


def test_clusterings_of_one_name_are_told_apart_by_their_files(tmp_path: Path) -> None:
    write_clusters(tmp_path / "c.parquet", TABLE)
    write_clusters(tmp_path / "d.parquet", Clusters(pa.array(["Paris"]), ("2",), np.array([[7]], np.int32)))
    files = tuple(str(tmp_path / name) for name in ("c.parquet", "d.parquet"))
    alone, both = (feature_set("core+clusters", part) for part in (files[:1], files))
    document = Document.build("d", [["Paris", "said"]])
    more = set(AttributeMaker(both)(document)[0]) - set(AttributeMaker(alone)(document)[0])
    assert more == {
        *("tokens.cluster2-2[-2]=<s>", "tokens.cluster2-2[-1]=<s>", "tokens.cluster2-2[0]=7"),
        *("tokens.cluster2-2[1]=?", "tokens.cluster2-2[2]=</s>"),
    }
    assert [t.name for t in both.templates][: len(alone.templates)] == [t.name for t in alone.templates]
    chosen = CrfSettings(features="core+clusters", clusters=files, max_iterations=3)
    corpus = [Document.build("d", [["Paris", "said"]], labels=[["B-LOC", "O"]])]
    trained = crfsuite.train(corpus, settings=chosen, out=tmp_path / "model")
    for file in files:
        Path(file).unlink()
    loaded = load_model(tmp_path / "model")
    batch = Batch.of([Document.build("e", [["Paris", "rome"]])])
    np.testing.assert_array_equal(loaded.potentials(batch).unary, trained.potentials(batch).unary)
    write_clusters(tmp_path / "model" / "clusters-2.parquet", TABLE)
    with pytest.raises(ModelError, match=r"clusters-2\.parquet: SHA-256 differs"):
        load_model(tmp_path / "model")


@pytest.mark.parametrize(
    ("value", "files"),
    [(None, None), ("a.parquet", ("a.parquet",)), (["a.parquet", "b.parquet"], ("a.parquet", "b.parquet")), ([], None)],
)
def test_one_cluster_file_is_a_list_of_one(value: Any, files: tuple[str, ...] | None) -> None:
    assert CrfSettings(clusters=value).clusters == files


def test_equal_tables_give_equal_bytes(tmp_path: Path) -> None:
    for name in "ab":
        write_clusters(tmp_path / name, TABLE)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    read = read_clusters(tmp_path / "a")
    assert (read.words.equals(TABLE.words), read.names) == (True, TABLE.names)
    np.testing.assert_array_equal(read.codes, TABLE.codes)


INT32 = pa.int32()
DAMAGED = {
    "first column": pa.table({"name": ["a"], "2": pa.array([0], INT32)}),
    "of type int32": pa.table({"word": ["a"], "2": [0.5]}),
    "columns of type int32": pa.table({"word": ["a"]}),
    "without a cluster": pa.table({"word": ["a"], "2": pa.array([None], INT32)}),
    "no words": pa.table({"word": pa.array([], pa.string()), "2": pa.array([], INT32)}),
    "twice": pa.table({"word": ["a", "a"], "2": pa.array([0, 1], INT32)}),
}


@pytest.mark.parametrize("fault", DAMAGED)
def test_a_damaged_table_is_one_message(tmp_path: Path, fault: str) -> None:
    pq.write_table(DAMAGED[fault], tmp_path / "c.parquet")
    with pytest.raises(ClusterFileError, match=fault):
        read_clusters(tmp_path / "c.parquet")


def test_a_missing_or_foreign_table_is_one_message(tmp_path: Path) -> None:
    with pytest.raises(ClusterFileError, match="no such"):
        read_clusters(tmp_path / "c.parquet")
    (tmp_path / "c.parquet").write_bytes(b"nothing")
    with pytest.raises(ClusterFileError, match="not a Parquet file"):
        read_clusters(tmp_path / "c.parquet")


WORDS = ["the", "Paris", "new york", "ß"]
POINTS = np.array([[1.0, -2.5], [0.25, 3.0], [4.0, 0.0], [-1.0, 0.5]])


def _write_vectors(path: Path) -> None:
    lines = [f"{w} {a!r} {b!r}\n".encode() for w, (a, b) in zip(WORDS, POINTS.tolist(), strict=True)]
    if path.name.startswith("counted"):
        lines.insert(0, b"4 2\n")
    if path.suffix == ".bin":
        body = b"".join(w.encode() + b" " + p.astype("<f4").tobytes() for w, p in zip(BINARY, POINTS, strict=True))
        path.write_bytes(b"4 2\n" + body)
    elif path.suffix == ".npy":
        np.save(path, POINTS)
        path.with_suffix(".txt").write_text("\n".join(WORDS), encoding="utf-8")
    elif path.suffix == ".parquet":
        pq.write_table(pa.table({"w": WORDS, "v": POINTS.tolist()}), path)
    elif path.suffix == ".gz":
        path.write_bytes(gzip.compress(b"".join(lines)))
    else:
        path.write_bytes(b"".join(lines))


BINARY = ["the", "Paris", "new_york", "ß"]


@pytest.mark.parametrize("name", ["plain.txt", "counted.vec", "plain.txt.gz", "v.bin", "v.npy", "v.parquet"])
def test_every_form_of_vectors_is_read(tmp_path: Path, name: str) -> None:
    _write_vectors(tmp_path / name)
    found = read_vectors(tmp_path / name, 3)
    assert found.words == (BINARY if name == "v.bin" else WORDS)[:3]
    np.testing.assert_array_equal(found.points, POINTS[:3])


def test_words_of_an_array_are_read_from_an_index_in_parquet(tmp_path: Path) -> None:
    path, index = tmp_path / "v.npy", tmp_path / "words.parquet"
    np.save(path, POINTS)
    turned = [2, 0, 3, 1]
    mixed = {"word": [WORDS[i] for i in turned], "row": pa.array(turned, pa.uint32()), "count": [7, 7, 1, 0]}
    for table in ({"word": WORDS}, {"count": [9, 5, 2, 1], "word": WORDS}, mixed, mixed | {"again": turned}):
        pq.write_table(pa.table(table), index)
        found = read_vectors(path, 3, words=index)
        assert found.words == WORDS[:3]
        np.testing.assert_array_equal(found.points, POINTS[:3])
        assert read_vectors(path, 4).words == WORDS  # it is the only list beside the array
    index.rename(tmp_path / "v.parquet")
    assert read_vectors(path, 4).words == WORDS  # of the array's own name it needs no naming
    (tmp_path / "v.txt").write_text("\n".join("abcd"))
    assert read_vectors(path, 4).words == ["a", "b", "c", "d"]


@pytest.mark.parametrize(
    ("table", "fault"),
    [
        ({"word": WORDS[:3]}, "for the 3 words of .*words.parquet"),
        ({"a": WORDS, "b": WORDS}, "wants one column of strings"),
        ({"row": [0, 1, 2, 3]}, "wants one column of strings"),
        ({"word": [*WORDS[:3], None]}, "without gaps"),
        ({"word": WORDS, "a": [0, 1, 2, 3], "b": [3, 2, 1, 0]}, "two columns could be the rows"),
    ],
)
def test_an_index_that_does_not_fit_is_one_line(tmp_path: Path, table: dict[str, Any], fault: str) -> None:
    path, index = tmp_path / "v.npy", tmp_path / "words.parquet"
    np.save(path, POINTS)
    pq.write_table(pa.table(table), index)
    with pytest.raises(VectorError, match=fault) as raised:
        read_vectors(path, 3, words=index)
    assert "\n" not in str(raised.value)
    index.write_bytes(b"nothing")
    with pytest.raises(VectorError, match="not a Parquet file"):
        read_vectors(path, 3, words=index)
    with pytest.raises(VectorError, match=r"none\.txt: there is no such file"):
        read_vectors(path, 3, words=tmp_path / "none.txt")
    (tmp_path / "other.txt").write_text("a\n")  # two lists are none
    with pytest.raises(VectorError, match=r"v\.npy: an array has no words; .* --words FILE, .* v\.txt or v\.parquet"):
        read_vectors(path, 3)
    (tmp_path / "plain.vec").write_text("a 1\n")
    with pytest.raises(VectorError, match="its words stand in it"):
        read_vectors(tmp_path / "plain.vec", 3, words=index)


@pytest.mark.parametrize("name", ["plain.txt", "counted.vec", "plain.txt.gz", "v.bin", "v.npy", "v.parquet"])
def test_vectors_that_are_cut_are_one_message_or_fewer_vectors(tmp_path: Path, name: str) -> None:
    _write_vectors(tmp_path / name)
    whole = (tmp_path / name).read_bytes()
    for length in range(len(whole)):
        (tmp_path / name).write_bytes(whole[:length])
        try:
            found = read_vectors(tmp_path / name, 10)
        except VectorError:
            continue
        assert len(found.words) == len(found.points) <= 4


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("a 1 2\nb 1\n", "line 2"),
        ("a 1 x\n", "line 1"),
        ("a 1 nan\n", "not finite"),
        ("", "no vectors"),
        ("a\n", "numbers"),
        ("0011\tthe\t20\n", "line 1: .* for a tree of words there is `concord clusters paths`"),
    ],
)
def test_bad_text_names_the_line(tmp_path: Path, text: str, fault: str) -> None:
    (tmp_path / "v.txt").write_text(text)
    with pytest.raises(VectorError, match=fault):
        read_vectors(tmp_path / "v.txt", 10)


def test_vectors_that_are_not_packed_as_their_name_says_are_told(tmp_path: Path) -> None:
    (tmp_path / "v.txt.gz").write_bytes(b"a 1\nb 2\n")
    with pytest.raises(VectorError, match=r"v\.txt\.gz: cannot be unpacked .* was the file cut"):
        read_vectors(tmp_path / "v.txt.gz", 10)


def test_of_a_word_that_comes_again_the_first_counts(tmp_path: Path) -> None:
    (tmp_path / "v.txt").write_text("a 1\nb 2\na 3\n")
    found = read_vectors(tmp_path / "v.txt", 10)
    assert (found.words, found.points.ravel().tolist()) == (["a", "b"], [1.0, 2.0])
