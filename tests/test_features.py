"""Feature templates: attribute strings, and the scorer's tables against them."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from concord.schemas.document import Batch, Document
from concord.testing import check_features
from concord.workers.features import scorer as scorer_module
from concord.workers.features.attributes import AttributeMaker
from concord.workers.features.derived import (
    DERIVED,
    document_place,
    document_topic,
    sentence_case,
    sentence_edge,
    sentence_opening,
    sentence_size,
)
from concord.workers.features.extractors import EXTRACTORS, SEPARATOR, Pieces, clean, kind, pattern, shape
from concord.workers.features.scorer import FeatureError, FeatureWeights, Scorer, compile_weights
from concord.workers.features.templates import (
    FEATURE_SETS,
    LOWER,
    SHAPE,
    WORD,
    Conjunction,
    FeatureSet,
    Single,
    Source,
    Window,
    feature_set,
    lists_of,
)
from concord.workers.verification.plain_crf import PlainScorer
from tests.support.made_features import LABELS, LISTED, Nested, documents, documents_from, example, expected_scores


def _weights(
    features: FeatureSet, rows: list[list[str]], rng: np.random.Generator
) -> tuple[FeatureWeights, dict[str, np.ndarray]]:
    """Random weights for most of the attributes that occur, as arrays and as a plain dict."""
    names = sorted({a for row in rows for a in row})
    names = [n for n in names if rng.random() < 0.8]
    table = {n: rng.normal(size=LABELS) * (rng.random(LABELS) < 0.6) for n in names}
    pairs = [(i, y) for i, n in enumerate(names) for y in np.flatnonzero(table[n]).tolist()]
    source = np.array([i for i, _ in pairs], np.int32)
    target = np.array([y for _, y in pairs], np.int32)
    weight = np.array([table[names[i]][y] for i, y in pairs], np.float64)
    return compile_weights(features, names, source, target, weight), table


@pytest.mark.parametrize("name", sorted(FEATURE_SETS))
def test_each_set_keeps_its_promises(name: str) -> None:
    check_features(FEATURE_SETS[name], lists=dict.fromkeys(lists_of(name), LISTED))


@pytest.mark.parametrize("name", sorted(FEATURE_SETS))
@settings(max_examples=25, deadline=None)
@given(nested=documents, seed=st.integers(0, 2**32 - 1))
def test_scorer_sums_the_weights_of_the_attributes(name: str, nested: Nested, seed: int) -> None:
    features, corpus = example(name), documents_from(nested)
    maker = AttributeMaker(features)
    rows = [row for d in corpus for row in maker(d)]
    weights, table = _weights(features, rows, np.random.default_rng(seed))
    unary = Scorer(features, weights, LABELS).unary(Batch.of(corpus))
    np.testing.assert_allclose(unary, expected_scores(rows, table), atol=1e-12)
    plain = PlainScorer(features, weights, LABELS).unary(Batch.of(corpus))
    np.testing.assert_allclose(plain, expected_scores(rows, table), atol=1e-12)


@settings(max_examples=25, deadline=None)
@given(nested=documents, seed=st.integers(0, 2**32 - 1))
def test_scores_do_not_depend_on_what_the_tables_hold(nested: Nested, seed: int) -> None:
    features, corpus = feature_set("rich"), documents_from(nested)
    rows = [row for d in corpus for row in AttributeMaker(features)(d)]
    weights, _ = _weights(features, rows, np.random.default_rng(seed))
    warm = Scorer(features, weights, LABELS)
    warm.unary(Batch.of(corpus[::-1]))
    for document in corpus:
        fresh = Scorer(features, weights, LABELS).unary(Batch.of([document]))
        assert fresh.tobytes() == warm.unary(Batch.of([document])).tobytes()


def test_tables_start_anew_at_their_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    features = feature_set("finkel")
    corpus = documents_from([[[(f"w{i}{j}", "N") for j in range(20)]] for i in range(30)])
    rows = [row for d in corpus for row in AttributeMaker(features)(d)]
    weights, table = _weights(features, rows, np.random.default_rng(0))
    monkeypatch.setattr(scorer_module, "MAX_TABLE_BYTES", 50 * (8 * LABELS * 5 + 64))
    small = Scorer(features, weights, LABELS)
    unary = np.concatenate([small.unary(Batch.of([d])) for d in corpus])
    np.testing.assert_allclose(unary, expected_scores(rows, table), atol=1e-12)


def test_attributes_spelled_out() -> None:
    features = FeatureSet(
        "t",
        (
            Single(WORD, -1),
            Single(Source("tokens", "suffixes"), 1),
            Window(LOWER, 1, 2),
            Conjunction(((SHAPE, 0), (WORD, 2))),
        ),
    )
    document = Document.build("d", [["Ab", "no", "No"], ["x1"]])
    pair = "tokens.shape[0]|tokens[2]"
    assert AttributeMaker(features)(document) == [
        [
            *("tokens[-1]=<s>", "tokens.suffixes[1]=o", "tokens.suffixes[1]=no", "tokens.lower[1:2]=no"),
            f"{pair}=Xx{SEPARATOR}No",
        ],
        [
            *("tokens[-1]=Ab", "tokens.suffixes[1]=o", "tokens.suffixes[1]=No", "tokens.lower[1:2]=no"),
            f"{pair}=xx{SEPARATOR}</s>",
        ],
        ["tokens[-1]=no", f"{pair}=Xx{SEPARATOR}</s>"],
        ["tokens[-1]=<s>", f"{pair}=xd{SEPARATOR}</s>"],
    ]


def test_extractors() -> None:
    assert EXTRACTORS["ngrams"].values("ab") == ("<a", "ab", "b>", "<ab", "ab>", "<ab>")
    assert EXTRACTORS["ngrams"].values("aaa").count("aa") == 1
    assert EXTRACTORS["prefixes"].values("abcdef") == ("a", "ab", "abc", "abcd")
    assert EXTRACTORS["suffixes"].values("ab") == ("b", "ab")
    assert shape("U.S.") == "X.X."
    assert shape("McDonalds") == "XxXxxx"
    assert pattern("1996-08-22") == "d-d-d"
    assert [kind(w) for w in ("IBM", "J", "pp", "Smith", "1996", ",", "--", "eBay")] == [
        *("upper", "initial", "lower", "capitalised", "number4", ",", "mark", "mixed")
    ]
    assert clean("a\x00b\x1fc\ud800") == "a\ufffdb\ufffdc\ufffd"
    assert clean("plain") == "plain"


def test_windows_and_conjunctions_need_one_value() -> None:
    grams = Source("tokens", "ngrams")
    assert grams.extract.pieces is not Pieces.WHOLE
    with pytest.raises(ValueError, match="one value"):
        Window(grams, 1, 4)
    with pytest.raises(ValueError, match="one value"):
        Conjunction(((grams, 0), (WORD, 0)))


@pytest.mark.parametrize(
    "features", [example(name) for name in (*FEATURE_SETS, "rich+core+mentions")], ids=lambda f: f.name
)
def test_template_names_are_distinct_and_end_at_the_equals_sign(features: FeatureSet) -> None:
    names = [t.name for t in features.templates]
    assert len(set(names)) == len(names)
    assert not any("=" in n for n in names)


def test_derived_columns() -> None:
    document = Document.build("d", [["SOCCER", "2", "-"], ["Stocks", "Fall", "Again", "on"], ["he", "SAID", "so"]])
    batch = Batch.of([document, Document.build("e", [[]]), Document.build("f", [["1"]])])
    assert sentence_case(batch).strings() == ["upper"] * 3 + ["title"] * 4 + ["mixed"] * 3 + ["upper"]
    assert document_place(batch).strings() == ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "0"]
    assert sentence_size(batch).strings() == ["3"] * 3 + ["4"] * 4 + ["3"] * 3 + ["1"]
    assert sentence_size(Batch.of([Document.build("g", [["a"] * 20])])).strings() == ["12"] * 20
    assert sentence_opening(batch).strings() == ["SOCCER"] * 3 + ["Stocks"] * 4 + ["he"] * 3 + ["1"]
    assert document_topic(batch).strings() == ["soccer"] * 10 + ["1"]
    ends = ["first", "inside", "last", "first", "inside", "inside", "last", "first", "inside", "last", "only"]
    assert sentence_edge(batch).strings() == ends
    empty = Batch.of([Document.build("e", [])])
    assert all(len(derive(empty)) == 0 for derive in DERIVED.values())


def test_foreign_attributes_are_refused() -> None:
    features, none = feature_set("finkel"), np.zeros(0, np.int32)
    for name in ("nonsense=1", "tokens[0]", f"tokens.shape[-1]|tokens.shape[0]=X{SEPARATOR}X{SEPARATOR}X"):
        with pytest.raises(FeatureError, match="attribute"):
            compile_weights(features, [name], none, none, np.zeros(0))
    with pytest.raises(FeatureError, match="twice"):
        compile_weights(features, ["tokens[0]=a", "tokens[0]=a"], none, none, np.zeros(0))


def test_a_missing_column_is_named() -> None:
    features = feature_set("finkel")
    weights = compile_weights(features, [], np.zeros(0, np.int32), np.zeros(0, np.int32), np.zeros(0))
    with pytest.raises(ValueError, match="'pos'"):
        Scorer(features, weights, LABELS).unary(Batch.of([Document.build("d", [["a"]])]))


def test_weights_stay_read_only_through_pickle() -> None:
    features = feature_set("finkel-nopos")
    weights = compile_weights(features, ["tokens[0]=a"], np.zeros(1, np.int32), np.zeros(1, np.int32), np.ones(1))
    copy = pickle.loads(pickle.dumps(weights, protocol=5))
    for name, array in vars(copy).items():
        assert not array.flags.writeable
        np.testing.assert_array_equal(array, getattr(weights, name))


def test_what_a_published_feature_set_reads() -> None:
    corpus = [Document.build("d", [["Xy", "12", "b"] + ["w"] * 12])]
    rows = AttributeMaker(example("fersini"))(corpus[0])
    assert rows[0] == ["tokens[0]=Xy", "tokens.kind[0]=capitalised", "edge[0]=first", "seen-only[0]="]
    rows = AttributeMaker(example("finkel-tf"))(corpus[0])
    assert "tokens[1:9]=b" in rows[1]
    assert "tokens[-9:-1]=b" in rows[11]
    assert "tokens[-9:-1]=b" not in rows[12]
    assert not any(a.startswith("pos") for row in rows for a in row)
    long = [Document.build("d", [["abcdefghijklmnopqrstuvwxyz" * 2]])]
    grams = {a for a in AttributeMaker(example("finkel-tf-all"))(long[0])[0] if "all-ngrams" in a}
    framed = f"<{long[0].tokens[0][:40]}>"
    assert grams == {f"tokens.all-ngrams[0]={framed[i:j]}" for i in range(42) for j in range(i + 2, 43)}
