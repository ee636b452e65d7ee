"""The CRF with scikit-learn's interface: against CRFsuite's own tagger, in scikit-learn's tools, and by its checks."""

from __future__ import annotations

import math
import pickle
from typing import Any

import numpy as np
import pycrfsuite
import pytest
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import estimator_checks

from concord.sklearn import CRF
from concord.workers.synthesis.made_up import synthesize


def sequences(documents: int, seed: int) -> tuple[list[list[dict[str, Any]]], list[list[str]]]:
    """Words of made-up documents as features by name, and their labels."""
    items: list[list[dict[str, Any]]] = []
    labels: list[list[str]] = []
    for document in synthesize(documents, seed=seed, kind="news"):
        assert document.labels is not None
        words = document.tokens
        items.append([_features(words, place) for place in range(len(words))])
        labels.append(document.labels.strings())
    return items, labels


def _features(words: list[str], place: int) -> dict[str, Any]:
    word = words[place]
    before = words[place - 1] if place else "-"
    return {"word": word, "last": before, "caps": word[:1].isupper(), "len": len(word) / 10, "ends": [word[-2:]]}


TRAIN, GOLD = sequences(12, 1)
TEST, RIGHT = sequences(4, 2)


def test_it_labels_as_the_tagger_of_crfsuite_does(tmp_path: Any) -> None:
    crf = CRF(c1=0.05, c2=0.1, max_iterations=30).fit(TRAIN, GOLD)
    trainer = pycrfsuite.Trainer(verbose=False)
    trainer.set_params({"c1": 0.05, "c2": 0.1, "max_iterations": 30})
    for items, labels in zip(TRAIN, GOLD, strict=True):
        trainer.append(items, labels)
    trainer.train(str(tmp_path / "m"))
    tagger = pycrfsuite.Tagger()
    tagger.open(str(tmp_path / "m"))
    assert crf.predict(TEST) == [tagger.tag(items) for items in TEST]
    found = crf.predict_marginals(TEST[:1])[0]
    tagger.set(TEST[0])
    for place, row in enumerate(found):
        assert sum(row.values()) == pytest.approx(1)
        for label, probability in row.items():
            assert probability == pytest.approx(tagger.marginal(label, place), abs=1e-6)
    right = [
        said == gold
        for row, wanted in zip(crf.predict(TEST), RIGHT, strict=True)
        for said, gold in zip(row, wanted, strict=True)
    ]
    assert crf.score(TEST, RIGHT) == np.mean(right)


def test_strings_are_features_and_empty_sequences_are_sequences() -> None:
    crf = CRF().fit([["Ann", "ran"], [], [["a", "b"]]], [["PER", "O"], [], ["O"]])
    assert crf.predict([[], ["Ann"]]) == [[], ["PER"]]
    assert crf.predict_marginals([[]]) == [[]]
    assert list(crf.classes_) == ["O", "PER"]


def test_it_works_in_searches_and_pipelines() -> None:
    search = GridSearchCV(CRF(max_iterations=5), {"c2": [0.01, 10.0]}, cv=3).fit(TRAIN, GOLD)
    assert search.best_params_["c2"] in (0.01, 10.0)
    assert search.predict(TEST) == search.best_estimator_.predict(TEST)
    assert len(cross_val_score(CRF(max_iterations=5), TRAIN, GOLD, cv=3)) == 3
    pipeline = make_pipeline(FunctionTransformer(list), CRF(max_iterations=5)).fit(TRAIN, GOLD)
    assert pipeline.predict(TEST) == CRF(max_iterations=5).fit(TRAIN, GOLD).predict(TEST)


def test_what_tutorials_of_sklearn_crfsuite_use_is_there(tmp_path: Any, capfd: pytest.CaptureFixture[str]) -> None:
    place = str(tmp_path / "m.crfsuite")
    given: dict[str, Any] = {
        "algorithm": "lbfgs",
        "c1": 0.1,
        "c2": 0.1,
        "max_iterations": 20,
        "all_possible_transitions": True,
    }
    crf = CRF(**given, verbose=True, model_filename=place, keep_tempfiles=True).fit(TRAIN, GOLD)
    assert "Feature generation" in capfd.readouterr().out
    tagger = pycrfsuite.Tagger()
    tagger.open(place)
    info = tagger.info()
    for one in (crf, pickle.loads(pickle.dumps(crf))):
        assert one.transition_features_ == info.transitions
        assert one.state_features_ == info.state_features
        assert sorted(one.attributes_) == sorted(info.attributes)
        assert one.tagger_.tag(TEST[0]) == one.predict_single(TEST[0]) == tagger.tag(TEST[0])
        assert one.predict_marginals_single(TEST[0]) == one.predict_marginals(TEST)[0]
    assert clone(crf).get_params() == crf.get_params()
    with pytest.raises(NotFittedError):
        _ = clone(crf).transition_features_


def test_a_copy_by_pickle_says_the_same() -> None:
    crf = CRF(max_iterations=5).fit(TRAIN, GOLD)
    assert pickle.loads(pickle.dumps(crf)).predict(TEST) == crf.predict(TEST)
    assert not hasattr(clone(crf), "classes_")


@pytest.mark.parametrize(
    ("items", "labels", "said"),
    [
        ([["a"]], [["O", "O"]], "sequence 0 has 1 tokens, and 2 labels"),
        ([["a"]], [["O"], ["O"]], "1 sequences, and labels of 2"),
        ([["a"]], [[1]], "label 1 is no string"),
        ([], [], "no sequences"),
        ("abc", ["O"], "want a list of sequences"),
        (["abc"], [["O", "O", "O"]], "want a sequence as a list"),
        ([[3]], [["O"]], "features of a token must be strings"),
        ([["a"]], None, "target y is None"),
        ([[], []], [[], []], "no tokens to learn from"),
        ([[{"a": 1.0, "size": math.nan}]], [["O"]], "feature 'size' has the value nan; give a finite number"),
        ([[{"size": {"of": -math.inf}}]], [["O"]], "feature 'size:of' has the value -inf; give a finite number"),
        ([["a", "b"]], [["x\0y", "x\0z"]], r"'x\\x00y' has a NUL"),
        ([["a\0b", {"a\0c": 1.0}]], [["X", "Y"]], r"'a\\x00b' has a NUL"),
    ],
)
def test_what_is_no_sequence_is_told(items: Any, labels: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        CRF().fit(items, labels)


def test_an_algorithm_that_is_not_there_and_a_model_that_is_not_trained_are_told() -> None:
    with pytest.raises(ValueError, match="algorithm 'lbfs': want one of lbfgs"):
        CRF(algorithm="lbfs").fit(TRAIN, GOLD)
    with pytest.raises(NotFittedError):
        CRF().predict(TEST)


@pytest.mark.parametrize("algorithm", ["lbfgs", "l2sgd", "ap", "pa", "arow"])
def test_every_algorithm_learns(algorithm: str) -> None:
    assert CRF(algorithm=algorithm, max_iterations=20, c2=0.1).fit(TRAIN, GOLD).score(TRAIN, GOLD) > 0.8


APPLY = (
    "check_estimator_cloneable",
    "check_estimator_repr",
    "check_estimator_tags_renamed",
    "check_get_params_invariance",
    "check_mixin_order",
    "check_no_attributes_set_in_init",
    "check_parameters_default_constructible",
    "check_set_params",
    "check_valid_tag_types",
)
"""scikit-learn's checks that give no tables of numbers, which sequences of features are not."""


@pytest.mark.parametrize("check", APPLY)
def test_the_checks_of_scikit_learn_pass_where_they_apply(check: str) -> None:
    crf: BaseEstimator = CRF()
    getattr(estimator_checks, check)("CRF", crf)


def test_what_scikit_learn_itself_applies_passes() -> None:
    """It leaves out what needs tables of numbers, as the estimator's tags say, and warns of that."""
    with pytest.warns(UserWarning, match="Can't test estimator CRF"):
        results = estimator_checks.check_estimator(CRF())
    assert {result["status"] for result in results} == {"passed"}
