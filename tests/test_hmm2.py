"""The second-order hidden Markov model: its Viterbi against enumeration, counts and scores against plain loops."""

from __future__ import annotations

import math
from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from concord.schemas.arrays import Floats, Ints
from concord.schemas.document import Batch, Document
from concord.schemas.labels import Labels, LabelSet
from concord.schemas.potentials import Potentials
from concord.testing.problems import LABEL_SETS, all_labellings
from concord.workers.inference.core.chain import best_labels
from concord.workers.learning.estimation.chains import GoldChains
from concord.workers.models.folder import ModelError
from concord.workers.papers.stokman import hmm2_trainer as hmm2
from concord.workers.papers.stokman.hmm2 import SECOND_FILE, Hmm2Model, load, save
from concord.workers.papers.stokman.hmm2_trainer import after_two
from concord.workers.papers.stokman.second_order import best_second_order, earlier
from concord.workers.papers.stokman.settings import Hmm2Settings
from tests.support.model_mutations import mend_hashes
from tests.support.seeds import over_seeds


def scored(unary: Floats, second: Floats, labels: Labels) -> float:
    """A labelling of one sentence, a token at a time."""
    total, size = 0.0, unary.shape[1]
    for t, label in enumerate(labels.tolist()):
        total += unary[t, label]
        if t > 0:
            total += second[labels[t - 2] if t > 1 else size, labels[t - 1], label]
    return total


def random_chain(seed: int, size: int) -> tuple[Floats, Floats, Ints]:
    rng = np.random.default_rng(seed)
    bounds = np.cumsum([0, *rng.integers(1, 6, int(rng.integers(1, 4)))])
    unary, second = rng.normal(size=(bounds[-1], size)), rng.normal(size=(size + 1, size, size))
    for table in (unary, second):
        table[rng.random(table.shape) < 0.15] = -np.inf
    return unary, second, bounds


@over_seeds()
def test_the_best_labelling_of_a_sentence_is_that_of_enumeration(seed: int) -> None:
    size = 2 + seed % 3
    unary, second, bounds = random_chain(seed, size)
    labels, scores = best_second_order(unary, second, bounds)
    for (first, last), found in zip(pairwise(bounds.tolist()), scores, strict=True):
        part = unary[first:last]
        best = max(scored(part, second, labelling) for labelling in all_labellings(last - first, size))
        assert found == pytest.approx(best)
        assert scored(part, second, labels[first:last]) == pytest.approx(best)


@over_seeds()
def test_where_one_label_before_decides_it_is_the_first_order(seed: int) -> None:
    unary, _, bounds = random_chain(seed, 4)
    transition = np.random.default_rng(seed).normal(size=(4, 4))
    labels, scores = best_second_order(unary, np.broadcast_to(transition, (5, 4, 4)), bounds)
    plain, wanted = best_labels(Potentials(unary, transition, bounds[:-1]))
    np.testing.assert_allclose(scores, wanted)
    possible = np.repeat(np.isfinite(wanted), np.diff(bounds))
    np.testing.assert_array_equal(labels[possible], plain[possible])


def test_no_sentence_has_no_labels() -> None:
    labels, scores = best_second_order(np.zeros((0, 2)), np.zeros((3, 2, 2)), np.zeros(1, np.int64))
    assert (len(labels), len(scores)) == (0, 0)


def test_ties_go_to_the_lowest_label() -> None:
    labels, _ = best_second_order(np.zeros((5, 3)), np.zeros((4, 3, 3)), np.array([0, 1, 5]))
    assert labels.tolist() == [0] * 5


def test_what_stands_before_a_token() -> None:
    before = earlier(np.array([2, 0, 1, 1, 0, 2], np.int32), np.array([0, 1, 4, 6]), 3)
    assert before.token.tolist() == [2, 3, 5]
    assert before.one.tolist() == [0, 1, 0]
    assert before.two.tolist() == [3, 0, 3]


@over_seeds()
def test_what_follows_two_labels_is_as_loops_say(seed: int) -> None:
    rng = np.random.default_rng(seed)
    bounds, size = np.cumsum([0, *rng.integers(1, 8, 6)]), 3
    labels = rng.integers(0, size, bounds[-1]).astype(np.int32)
    one = rng.dirichlet(np.ones(size), size)
    found = np.exp(after_two(GoldChains(bounds, labels, size), one))
    triples = Counter[tuple[int, int, int]]()
    for first, last in pairwise(bounds.tolist()):
        row = [size, *labels[first:last].tolist()]
        triples.update(zip(row, row[1:], row[2:], strict=False))
    for a in range(size + 1):
        for b in range(size):
            after = [triples[a, b, c] for c in range(size)]
            kinds = max(sum(count > 0 for count in after), 1)
            wanted = [(count + kinds * one[b, c]) / (sum(after) + kinds) for c, count in enumerate(after)]
            assert found[a, b] == pytest.approx(wanted)


# The model

SENTENCES = [["Ada", "wrote", "to", "Bob"], ["7", "Main"], ["Ada"]]
FIELDS = [["n", "o", "o", "n"], ["d", "n"], ["o"]]
TEXT = [["Ada", "to", "7", "Eve", "wrote"], ["Main"], ["to", "Ada"]]


def learned(out: Path, fields: list[list[str]] = FIELDS) -> Hmm2Model:
    documents = [
        Document.build("a", SENTENCES[:2], labels=fields[:2]),
        Document.build("b", SENTENCES[2:], labels=fields[2:]),
    ]
    return hmm2.train(documents, settings=Hmm2Settings(), out=out)


@pytest.mark.parametrize("fields", [FIELDS, [["B-P", "O", "O", "B-P"], ["O", "B-P"], ["B-P"]]])
def test_tokens_are_scored_given_the_best_labels_before_them(fields: list[list[str]], tmp_path: Path) -> None:
    """Stokman eq. 47-48, token by token."""
    model, batch = learned(tmp_path, fields), Batch.of([Document.build("d", TEXT)])
    best, found, size = model.best(batch), model.potentials(batch), len(model.labels)
    tables, start = model.first.tables, 0
    for sentence in TEXT:
        for i, word in enumerate(sentence):
            at = start + i
            emitted = model.first.potentials(Batch.of([Document.build("w", [["Ada", word]])])).unary[1]
            two = best[at - 2] if i > 1 else size
            wanted = tables.initial if i == 0 else model.second[two, best[at - 1]]
            assert found.unary[at] == pytest.approx(emitted + wanted)
        start += len(sentence)
    assert not found.transition.any()
    assert model.labels.legal_transition[best[:-1], best[1:]][[0, 1, 2, 3, 6]].all()
    assert model.labels.legal_start[best[[0, 5, 6]]].all()


def test_its_best_labels_are_the_likeliest_of_all(tmp_path: Path) -> None:
    model, batch = learned(tmp_path), Batch.of([Document.build("d", TEXT[:1])])
    unary = model.first.potentials(batch).unary
    best = max(scored(unary, model.second, one) for one in all_labellings(5, len(model.labels)))
    assert scored(unary, model.second, model.best(batch)) == pytest.approx(best)


def test_probabilities_add_up_to_one(tmp_path: Path) -> None:
    second = learned(tmp_path).second
    assert np.exp(second).sum(axis=2) == pytest.approx(np.ones(second.shape[:2]))


def test_arrays_that_do_not_fit_are_one_line(tmp_path: Path) -> None:
    model = learned(tmp_path)
    for bad in (model.second[1:], np.where(model.second < -1, math.nan, model.second), model.second + 9.0):
        save(tmp_path, model.first, np.ascontiguousarray(bad), settings=Hmm2Settings(), training={})
        with pytest.raises(ModelError, match=r"'second' (is .* want|has what is no log probability)"):
            load(tmp_path)
    (tmp_path / SECOND_FILE).write_bytes(b"?")
    mend_hashes(tmp_path)
    with pytest.raises(ModelError, match="damaged"):
        load(tmp_path)


def test_a_first_model_of_other_labels_is_refused(tmp_path: Path) -> None:
    model = learned(tmp_path)
    other = LABEL_SETS[3]
    renamed = Hmm2Model(model.first, model.second, model.manifest.model_copy(update={"labels": other.names}))
    assert LabelSet(renamed.manifest.labels, other.scheme) != model.labels
    (tmp_path / "manifest.json").write_text(renamed.manifest.model_dump_json())
    with pytest.raises(ModelError, match="its labels are not those of"):
        load(tmp_path)
