"""The hidden Markov model: what it counts, against plain loops, and what it makes of what it has not seen."""

from __future__ import annotations

import json
import math
from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from concord.schemas.document import Batch, Document
from concord.workers.features.extractors import shape
from concord.workers.learning.estimation.chains import GoldChains
from concord.workers.learning.estimation.hmm_counts import counted, estimated
from concord.workers.learning.trainers import hmm
from concord.workers.models.folder import MANIFEST, ModelError
from concord.workers.models.hmm import STRINGS_FILE, HmmModel, load, save
from concord.workers.models.settings import HmmSettings
from tests.support.model_mutations import mend_hashes

SENTENCES = [["Ada", "wrote", "to", "Bob"], ["7", "Main"], ["Ada"]]
FIELDS = [["n", "o", "o", "n"], ["d", "n"], ["o"]]


def learned(out: Path, *, labels: tuple[str, ...] = ()) -> HmmModel:
    documents = [
        Document.build("a", SENTENCES[:2], labels=FIELDS[:2]),
        Document.build("b", SENTENCES[2:], labels=FIELDS[2:]),
    ]
    return hmm.train(documents, settings=HmmSettings(labels=labels), out=out)


def smoothed(count: float, total: float, kinds: int, coarser: float) -> float:
    return (count + max(kinds, 1) * coarser) / (total + max(kinds, 1))


def naive_word(word: str, label: str) -> float:
    """p(word | label), by loops over what was seen."""
    pairs = [pair for s, f in zip(SENTENCES, FIELDS, strict=True) for pair in zip(s, f, strict=True)]
    mine = Counter(w for w, name in pairs if name == label)
    vocabulary = {w for w, _ in pairs}
    shapes = {shape(w) for w in vocabulary}
    own = Counter(shape(w) for w, name in pairs if name == label)
    form = shape(word) if shape(word) in shapes else None
    by_shape = smoothed(own[form] if form else 0, sum(own.values()), len(own), 1 / (len(shapes) + 1))
    alike = sum(shape(w) == form for w in vocabulary) + 1
    return smoothed(mine[word], sum(mine.values()), len(mine), by_shape / alike)


def test_words_are_as_likely_as_loops_say(tmp_path: Path) -> None:
    model = learned(tmp_path, labels=("never",))
    words = ["Ada", "wrote", "Bob", "7", "Eve", "9", "xyz", "?!"]
    unary = model.potentials(Batch.of([Document.build("d", [["Ada", *words]])])).unary[1:]
    for name in ("n", "o", "d", "never"):
        column = model.labels.names.index(name)
        assert unary[:, column] == pytest.approx([math.log(naive_word(word, name)) for word in words])


def test_labels_follow_each_other_as_loops_say(tmp_path: Path) -> None:
    model = learned(tmp_path, labels=("never",))
    names, flat = model.labels.names, [name for row in FIELDS for name in row]
    often = {name: (flat.count(name) + 1) / (len(flat) + len(names)) for name in names}
    after = Counter(pair for row in FIELDS for pair in pairwise(row))
    opens = Counter(row[0] for row in FIELDS)
    for i, a in enumerate(names):
        followers = [pair for pair in after if pair[0] == a]
        total = sum(after[pair] for pair in followers)
        for j, b in enumerate(names):
            wanted = smoothed(after[a, b], total, len(followers), often[b])
            assert model.tables.transition[i, j] == pytest.approx(math.log(wanted))
        wanted = smoothed(opens[a], sum(opens.values()), len(opens), often[a])
        assert model.tables.initial[i] == pytest.approx(math.log(wanted))


def test_a_sentence_opens_with_the_initial_scores(tmp_path: Path) -> None:
    model = learned(tmp_path)
    one, two = (
        model.potentials(Batch.of([Document.build("d", rows)])).unary for rows in ([["x", "x"]], [["x"], ["x"]])
    )
    assert one[1] + model.tables.initial == pytest.approx(two[1])
    assert one[0] == pytest.approx(two[1])


TEXT = st.lists(
    st.lists(st.tuples(st.sampled_from(["a", "B", "cc", "Dd", "7", "77"]), st.integers(0, 2)), min_size=1, max_size=6),
    min_size=1,
    max_size=5,
)


@given(TEXT)
def test_probabilities_add_up_to_one(text: list[list[tuple[str, int]]]) -> None:
    words, place = np.unique([word for row in text for word, _ in row], return_inverse=True)
    _, kind = np.unique([shape(word) for word in words], return_inverse=True)
    labels = np.array([label for row in text for _, label in row], np.int32)
    bounds = np.cumsum([0, *map(len, text)])
    found = estimated(counted(GoldChains(bounds, labels, 4), place, len(words)), kind)
    emitted = np.exp(found.word).sum(axis=0) + np.exp(found.shape).sum(axis=0)
    assert emitted == pytest.approx(np.ones(4))
    assert np.exp(found.initial).sum() == pytest.approx(1.0)
    assert np.exp(found.transition).sum(axis=1) == pytest.approx(np.ones(4))
    assert all(np.isfinite(table).all() for table in found)


def test_it_knows_the_words_it_has_seen(tmp_path: Path) -> None:
    assert learned(tmp_path).known(["Ada", "Eve", ""]).tolist() == [True, False, False]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"{", "damaged"),
        (b"[]", "damaged"),
        (b'{"words": ["a"]}', "damaged"),
        (b'{"words": ["a", "a"], "shapes": []}', "each of them once"),
        (b'{"words": [1], "shapes": []}', "are strings"),
        (b'{"words": [], "shapes": []}', r"array 'word' is \(6, 3\), want \(0, 3\)"),
    ],
)
def test_strings_that_do_not_fit_are_one_line(content: bytes, said: str, tmp_path: Path) -> None:
    learned(tmp_path)
    (tmp_path / STRINGS_FILE).write_bytes(content)
    mend_hashes(tmp_path)
    with pytest.raises(ModelError, match=said):
        load(tmp_path)


def test_tables_of_more_than_log_probabilities_are_refused(tmp_path: Path) -> None:
    model = learned(tmp_path)
    for bad in (0.5, np.nan, -np.inf):
        model.tables.transition[0, 0] = bad
        save(tmp_path, model.labels, model.words, model.shapes, model.tables, settings=HmmSettings(), training={})
        with pytest.raises(ModelError, match="'transition' has what is no log probability"):
            load(tmp_path)


def test_a_folder_that_lists_less_is_refused(tmp_path: Path) -> None:
    learned(tmp_path)
    manifest = json.loads((tmp_path / MANIFEST).read_text())
    del manifest["files"][STRINGS_FILE]
    (tmp_path / MANIFEST).write_text(json.dumps(manifest))
    with pytest.raises(ModelError, match=f"lists no {STRINGS_FILE}"):
        load(tmp_path)
