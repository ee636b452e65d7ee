"""Expectation maximisation: expected counts against enumeration, and what may never fall."""

from __future__ import annotations

import shutil
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from concord.schemas.arrays import Floats
from concord.schemas.document import TOKENS, Batch, Document
from concord.schemas.errors import CorpusError, TrainingError
from concord.schemas.labels import LabelSet, Scheme
from concord.schemas.potentials import Potentials
from concord.testing.problems import all_labellings, local_scores
from concord.workers.corpus.ingestion import write_corpus
from concord.workers.inference.core.chain import viterbi
from concord.workers.learning.estimation.expectation import EXPECT, ExpectedWords, added, improved
from concord.workers.learning.estimation.hmm_counts import Evidence, HmmCounts, evidence, likeliest
from concord.workers.learning.trainers import hmm
from concord.workers.learning.trainers.trainer import Iteration
from concord.workers.models.folder import MANIFEST, parse_manifest
from concord.workers.models.hmm import HmmModel, Tables, load
from concord.workers.models.settings import HmmSettings
from tests.support.seeds import over_seeds

PLAIN = LabelSet(("a", "b", "c"), Scheme.PLAIN)
SETS = (PLAIN, LabelSet.bio(["PER"]))
VOCABULARY = 4


class Small(NamedTuple):
    """A model of four words of two shapes and the words of sentences of 1 to 4 tokens."""

    labels: LabelSet
    tables: Tables
    words: ExpectedWords


def small(seed: int, labels: LabelSet | None = None, *, sentences: int = 3) -> Small:
    rng = np.random.default_rng(seed)
    labels = labels or SETS[seed % 2]
    bounds = np.cumsum([0, *rng.integers(1, 5, sentences)])
    return Small(labels, model(rng, len(labels)), ExpectedWords(bounds, rng.integers(0, VOCABULARY, bounds[-1])))


def model(rng: np.random.Generator, size: int) -> Tables:
    """Label 0 may stand everywhere, others by chance."""

    def rows(*shape: int) -> Floats:
        kept = rng.random(shape) < 0.8
        kept[..., 0] = True
        return np.asarray(rng.random(shape) * kept)

    emission = rng.random((size, VOCABULARY + 3)) * (rng.random((size, VOCABULARY + 3)) < 0.8)
    emission[0] += 0.1
    emission[:, -1] += 0.1
    return likeliest(Evidence(rows(size), rows(size, size), emission), VOCABULARY)


def enumerated(given: Small, *, best: bool) -> tuple[HmmCounts, float]:
    """Counts of every labelling by its probability, or of a best one, and the score, by loops."""
    size = len(given.labels)
    opening, follows, word = np.zeros(size), np.zeros((size, size)), np.zeros((size, VOCABULARY))
    total = 0.0
    for first, last in pairwise(given.words.bounds.tolist()):
        own = given.words.word[first:last]
        unary = given.tables.word[own].copy()
        unary[0] += given.tables.initial
        local = Potentials(unary, given.tables.transition, np.zeros(1, np.int64)).legal(given.labels)
        labellings = all_labellings(last - first, size)
        scores = local_scores(local, labellings)
        score = scores.max() if best else np.logaddexp.reduce(scores)
        total += score
        chance = np.exp(scores - score)
        for labelling, share in zip([viterbi(local)] if best else labellings, [1.0] if best else chance, strict=True):
            opening[labelling[0]] += share
            for a, b in pairwise(labelling):
                follows[a, b] += share
            for label, w in zip(labelling, own, strict=True):
                word[label, w] += share
    return HmmCounts(opening, follows, word), total


@over_seeds()
@pytest.mark.parametrize("em", EXPECT)
def test_expected_counts_equal_enumeration(em: str, seed: int) -> None:
    given = small(seed)
    found = EXPECT[em](given.tables, given.words, given.labels)
    counts, score = enumerated(given, best=em == "hard")
    assert found.score == pytest.approx(score)
    for mine, naive in zip(found.counts, counts, strict=True):
        np.testing.assert_allclose(mine, naive, atol=1e-12)


def test_words_that_no_labelling_has_are_an_error() -> None:
    given = small(0, PLAIN)
    tables = given.tables._replace(word=np.full_like(given.tables.word, -np.inf))
    with pytest.raises(ValueError, match="no possible labelling"):
        EXPECT["soft"](tables, given.words, given.labels)


@over_seeds()
@pytest.mark.parametrize("em", EXPECT)
def test_without_labelled_documents_the_likelihood_never_falls(em: str, seed: int) -> None:
    """Baum and Welch as they are: no smoothing, no labelled part, nothing but the words."""
    given = small(seed, sentences=8)
    nothing = Evidence(*(np.zeros_like(part) for part in evidence_of(given)))
    tables, scores = given.tables, list[float]()
    for _ in range(12):
        found = EXPECT[em](tables, given.words, given.labels)
        scores.append(found.score)
        with np.errstate(invalid="ignore"):
            tables = all_rows(added(nothing, found.counts, 1.0), tables)
    assert all(after >= before - 1e-9 for before, after in pairwise(scores))
    assert scores[-1] > scores[0] + 0.1


def evidence_of(given: Small) -> Evidence:
    size = len(given.labels)
    return Evidence(np.zeros(size), np.zeros((size, size)), np.zeros((size, VOCABULARY + 3)))


def all_rows(found: Tables, before: Tables) -> Tables:
    """A label that no token has any more keeps its row: nothing depends on it."""
    return Tables(*(np.where(np.isnan(new), old, new) for new, old in zip(found, before, strict=True)))


@over_seeds()
@pytest.mark.parametrize("em", EXPECT)
def test_with_counts_mixed_the_aim_never_falls_under_smoothing(em: str, seed: int) -> None:
    given, labelled = small(seed, sentences=8), small(100 + seed, SETS[seed % 2])
    counts, _ = enumerated(labelled, best=True)
    settings = HmmSettings.model_validate(
        {"pool": "u", "em": em, "mixing": "counts", "weight": 0.7, "iterations": 12, "change": 0.0}
    )
    steps = list(improved(counts, np.array([0, 0, 1, 1]), given.words, given.labels, settings))
    losses = [step.loss for step in steps]
    assert all(after <= before + 1e-9 for before, after in pairwise(losses))
    assert losses[-1] < losses[0] - 1e-3


def test_labels_keep_what_they_mean() -> None:
    """Whatever the ids of labels are, the same names get the same counts: nothing but them tells labels apart."""
    given, order = small(4, PLAIN, sentences=6), np.array([2, 0, 1])
    counts, _ = enumerated(small(5, PLAIN), best=True)
    turned = HmmCounts(counts.initial[order], counts.transition[np.ix_(order, order)], counts.word[order])
    names = LabelSet(tuple(PLAIN.names[i] for i in order), Scheme.PLAIN)
    settings = HmmSettings(pool="u", iterations=5)
    shape_of = np.array([0, 0, 1, 1])
    (*_, one), (*_, two) = (
        improved(mine, shape_of, given.words, labels, settings) for mine, labels in ((counts, PLAIN), (turned, names))
    )
    np.testing.assert_allclose(two.tables.initial, one.tables.initial[order])
    np.testing.assert_allclose(two.tables.transition, one.tables.transition[np.ix_(order, order)])
    np.testing.assert_allclose(two.tables.word, one.tables.word[:, order])


@pytest.mark.parametrize("mixing", ["models", "counts"])
def test_probabilities_add_up_and_stay_finite(mixing: str) -> None:
    given = small(2, PLAIN)
    counts, _ = enumerated(small(3, PLAIN), best=True)
    settings = HmmSettings.model_validate({"pool": "u", "mixing": mixing, "iterations": 3})
    for step in improved(counts, np.array([0, 1, 1, 0]), given.words, PLAIN, settings):
        found = step.tables
        assert np.exp(found.word).sum(axis=0) + np.exp(found.shape).sum(axis=0) == pytest.approx(np.ones(3))
        assert np.exp(found.initial).sum() == pytest.approx(1.0)
        assert np.exp(found.transition).sum(axis=1) == pytest.approx(np.ones(3))
        assert all(np.isfinite(table).all() for table in found)


def test_gamma_of_one_leaves_the_model_of_the_labelled_documents() -> None:
    given = small(2, PLAIN)
    counts, _ = enumerated(small(3, PLAIN), best=True)
    shape_of = np.array([0, 1, 1, 0])
    settings = HmmSettings(pool="u", gamma=1.0)
    steps = list(improved(counts, shape_of, given.words, PLAIN, settings))
    own = likeliest(evidence(counts, shape_of), VOCABULARY)
    assert len(steps) == 2  # nothing has changed
    for mine, wanted in zip(steps[-1].tables, own, strict=True):
        np.testing.assert_allclose(mine, wanted)


# The trainer

LABELLED = [Document.build("a", [["Ada", "met", "Bob"]], labels=[["n", "o", "n"]])]
OTHERS = [Document.build(f"u{i}", [["Ada", "saw", "Bob"], ["Eve", "saw", "Bob"]]) for i in range(4)]


def test_words_around_it_teach_what_a_word_is(tmp_path: Path) -> None:
    """Nobody labelled "saw", which stands where "met" stood."""
    write_corpus(OTHERS, tmp_path / "pool", source="test")
    seen = list[Iteration]()
    settings = HmmSettings(pool=str(tmp_path / "pool"), iterations=6)
    model = hmm.train(LABELLED, settings=settings, out=tmp_path / "model", progress=seen.append)
    alone = hmm.train(LABELLED, settings=HmmSettings(), out=tmp_path / "alone")
    assert model.known(["saw", "Eve", "Zoe"]).tolist() == [True, True, False]
    assert not alone.known(["saw"]).any()
    o, n = (model.labels.names.index(name) for name in "on")
    gains = [scores[o] - scores[n] for scores in (word_scores(model, "saw"), word_scores(alone, "saw"))]
    assert gains[0] > gains[1]
    assert [iteration.number for iteration in seen] == list(range(1, len(seen) + 1))
    training = parse_manifest(tmp_path / "model" / MANIFEST).training
    assert training["unlabelled_tokens"] == 24
    assert training["tokens"] == 3
    assert training["unlabelled_rejected"] == 0
    assert training["loss"] < training["first_loss"]
    assert load(tmp_path / "model").digest == model.digest


def word_scores(model: HmmModel, word: str) -> Floats:
    """(L,) nats of a word inside a sentence."""
    unary: Floats = model.potentials(Batch.of([Document.build("d", [["Ada", word]])])).unary[1]
    return unary


def test_gold_of_the_other_corpus_is_not_looked_at(tmp_path: Path) -> None:
    wrong = [Document(d.doc_id, d.sentence_starts, d.columns, labels=d.columns[TOKENS]) for d in OTHERS]
    digests = set()
    for name, documents in (("plain", OTHERS), ("gold", wrong)):
        write_corpus(documents, tmp_path / name / "pool", source="test")
        settings = HmmSettings(pool=str(tmp_path / name / "pool"))
        digests.add(hmm.train(LABELLED, settings=settings, out=tmp_path / name / "model").digest)
    assert len(digests) == 1


def test_other_words_are_another_training(tmp_path: Path) -> None:
    digests = set()
    for last in (3, 4):
        shutil.rmtree(tmp_path / "pool", ignore_errors=True)
        write_corpus(OTHERS[:last], tmp_path / "pool", source="test")
        settings = HmmSettings(pool=str(tmp_path / "pool"), gamma=1.0)
        hmm.train(LABELLED, settings=settings, out=tmp_path / "model")
        digests.add(parse_manifest(tmp_path / "model" / MANIFEST).training["digest"])
    assert len(digests) == 2


def test_what_is_not_there_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="nowhere"):
        hmm.train(LABELLED, settings=HmmSettings(pool=str(tmp_path / "nowhere")), out=tmp_path / "model")
    with pytest.raises(ValueError, match="em, gamma: give a pool, too"):
        HmmSettings(em="hard", gamma=0.5)
    write_corpus([Document.build("e", [])], tmp_path / "empty", source="test")
    with pytest.raises(TrainingError, match="no token in the unlabelled corpus"):
        hmm.train(LABELLED, settings=HmmSettings(pool=str(tmp_path / "empty")), out=tmp_path / "model")
