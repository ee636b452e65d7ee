"""Attributes by arrays, against those that are spelled out."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from concord.schemas.document import Batch
from concord.workers.features import incidence as module
from concord.workers.features.attributes import AttributeMaker
from concord.workers.features.incidence import Lists, end_to_end, incidence, side_by_side
from concord.workers.features.scorer import Scorer, compile_weights
from concord.workers.features.templates import FEATURE_SETS, FeatureSet, feature_set
from tests.support.made_features import LABELS, Nested, documents, documents_from, example, expected_scores, rows_of


def spelled(nested: Nested, features: FeatureSet) -> list[list[str]]:
    maker = AttributeMaker(features)
    return [row for document in documents_from(nested) for row in maker(document)]


@pytest.mark.parametrize("name", sorted(FEATURE_SETS))
@settings(max_examples=25, deadline=None)
@given(nested=documents)
def test_the_attributes_are_those_that_are_spelled_out(name: str, nested: Nested) -> None:
    features = example(name)
    found = incidence(Batch.of(documents_from(nested)), features)
    assert [sorted(row) for row in rows_of(found)] == [sorted(row) for row in spelled(nested, features)]
    names = found.attributes.names().to_pylist()
    assert len(set(names)) == len(names) == len(found.attributes)
    assert set(names) == {name for row in rows_of(found) for name in row}


@settings(max_examples=15, deadline=None)
@given(nested=documents)
def test_conjunctions_of_too_many_values_for_one_number(nested: Nested) -> None:
    features = feature_set("rich")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "LARGEST_KEY", 2)
        found = incidence(Batch.of(documents_from(nested)), features)
    assert [sorted(row) for row in rows_of(found)] == [sorted(row) for row in spelled(nested, features)]


@pytest.mark.parametrize("name", sorted(FEATURE_SETS))
@settings(max_examples=10, deadline=None)
@given(nested=documents, seed=st.integers(0, 2**32 - 1))
def test_weights_score_as_those_of_the_strings(name: str, nested: Nested, seed: int) -> None:
    features, batch, rng = example(name), Batch.of(documents_from(nested)), np.random.default_rng(seed)
    attributes = incidence(batch, features).attributes
    kept = rng.random(len(attributes)) < 0.8
    some = attributes.only(kept)
    names, table = some.names().to_pylist(), rng.normal(size=(len(some), LABELS))
    start = np.arange(len(some) + 1) * LABELS
    label = np.tile(np.arange(LABELS, dtype=np.int32), len(some))
    unary = Scorer(features, some.weights(features, start, label, table.ravel()), LABELS).unary(batch)
    expected = expected_scores(spelled(nested, features), dict(zip(names, table, strict=True)))
    np.testing.assert_allclose(unary, expected, atol=1e-12)
    source = np.repeat(np.arange(len(some), dtype=np.int32), LABELS)
    strings = compile_weights(features, names, source, label, table.ravel())
    np.testing.assert_allclose(Scorer(features, strings, LABELS).unary(batch), unary, atol=1e-12)


def lists_of(rows: list[list[int]]) -> Lists:
    made = Lists.of_lengths(np.array([len(row) for row in rows], np.int64))
    made.ids[:] = [i for row in rows for i in row]
    return made


def rows(lists: Lists) -> list[list[int]]:
    return [lists.ids[a:b].tolist() for a, b in zip(lists.start, lists.start[1:], strict=False)]


many = st.lists(st.lists(st.integers(0, 5), max_size=4), max_size=6)


@given(outer=many, inner=st.lists(st.lists(st.integers(0, 9), max_size=3), min_size=6, max_size=6))
def test_lists_of_lists(outer: list[list[int]], inner: list[list[int]]) -> None:
    made, parts = lists_of(outer), lists_of(inner)
    assert rows(made.through(parts)) == [[i for k in row for i in inner[k]] for row in outer]
    assert rows(made.turned(6)) == [[t for t, row in enumerate(outer) for k in row if k == i] for i in range(6)]
    kept = np.array([True, False, True, True, False, True])
    number = {0: 0, 2: 1, 3: 2, 5: 3}
    assert rows(made.only(kept)) == [[number[k] for k in row if k in number] for row in outer]
    assert rows(side_by_side([made, made], [6, 6])) == [row + [k + 6 for k in row] for row in outer]
    assert rows(end_to_end([made, parts], [6, 10])) == outer + [[k + 6 for k in row] for row in inner]
