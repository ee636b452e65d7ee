"""Clark clusters: each exchange against the likelihood counted from nothing, models of letters against all paths."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import sparse

from concord.schemas.arrays import Floats, Ints
from concord.schemas.document import Batch, Document
from concord.workers.features.clustering.clark import (
    SMALLEST_GAIN,
    TABLE_SIZE,
    clark_clusters,
    exchanged,
    first_state,
    log_shares,
)
from concord.workers.features.clustering.letters import (
    LONGEST_SPELLING,
    MOST_LETTERS,
    PSEUDO_COUNT,
    LetterModels,
    Spelling,
    first_models,
    learned_models,
    spelling,
    spelling_scores,
)
from concord.workers.features.clustering.word_pairs import bigrams, bigrams_of
from concord.workers.features.settings import ClarkSettings
from tests.support.seeds import over_seeds

Times = NDArray[np.int64]


def likelihood(times: Times, member: Ints, classes: int) -> float:
    """Σ n(c, d) · log(n(c, d) / (o(c) · i(d))) over classes."""
    one_hot = np.eye(classes, dtype=np.int64)[member]
    table = one_hot.T @ times @ one_hot
    out, into = table.sum(axis=1), table.sum(axis=0)
    return float(sum(n * np.log(n / (out[c] * into[d])) for (c, d), n in np.ndenumerate(table) if n))


def random_words(rng: np.random.Generator, size: int) -> list[str]:
    return ["".join(rng.choice(list("abC0"), rng.integers(0, 5))) for _ in range(size)]


@over_seeds(stay=3, many=40)
def test_each_word_goes_where_likelihood_and_prior_are_highest(seed: int) -> None:
    rng = np.random.default_rng(seed)
    size, classes = int(rng.integers(4, 14)), int(rng.integers(2, 5))
    times = rng.poisson(rng.gamma(0.4, 4.0, (size, size))).astype(np.int64)
    times[0] = 0  # a word that nothing stands after
    times[1, 2] = 3 * TABLE_SIZE  # a count whose logarithm is not looked up
    table = sparse.csr_array(times)
    after, before = bigrams(table), bigrams(sparse.csr_array(table.T))
    spelled = spelling(random_words(rng, size))
    models = first_models(spelled, classes, 2, seed)
    prior = log_shares(rng.integers(0, classes, size), classes) + spelling_scores(spelled, models)
    state = first_state(after, classes)
    member, moved = state.member.copy(), 0
    for _ in range(2):
        for word in range(size):
            scores = []
            for c in range(classes):
                tried = member.copy()
                tried[word] = c
                scores.append(likelihood(times, tried, classes) + prior[word, c])
            best = int(np.argmax(scores))
            if scores[best] > scores[member[word]] + SMALLEST_GAIN:
                member[word] = best
                moved += 1
    shares = prior[0] - spelling_scores(spelled, models)[0]
    assert sum(exchanged(state, after, before, shares, models, spelled) for _ in range(2)) == moved
    np.testing.assert_array_equal(state.member, member)
    one_hot = np.eye(classes, dtype=np.int64)[member]
    np.testing.assert_array_equal(state.times, one_hot.T @ times @ one_hot)
    np.testing.assert_array_equal(state.turned, state.times.T)
    np.testing.assert_array_equal(state.first, state.times.sum(axis=1))
    np.testing.assert_array_equal(state.second, state.times.sum(axis=0))


def paths_of(letters: Ints, c: int, models: LetterModels) -> dict[tuple[int, ...], float]:
    """Probability of a word together with each sequence of states."""
    found = {}
    for path in product(range(models.first.shape[1]), repeat=len(letters)):
        p = models.first[c, path[0]] * models.end[c, path[-1]]
        for t, (letter, state) in enumerate(zip(letters.tolist(), path, strict=True)):
            p *= models.letter[letter, c, state] * (models.next[c, path[t - 1], state] if t else 1.0)
        found[path] = float(p)
    return found


def log_posterior(spelled: Spelling, models: LetterModels, member: Ints) -> float:
    """Log likelihood of all words in their classes, and log density of the pseudo-counts."""
    words = spelling_scores(spelled, models)[np.arange(len(member)), member].sum()
    moves = sum(PSEUDO_COUNT * np.log(p).sum() for p in (models.first, models.next, models.end))
    return float(words + moves + (spelled.share[:, None, None] * np.log(models.letter)).sum())


@over_seeds(stay=2, many=24)
def test_models_of_letters_are_those_of_all_paths(seed: int) -> None:
    rng = np.random.default_rng(seed)
    spelled, classes, states = spelling([*random_words(rng, 6), "a", ""]), 2, 2
    models, member = first_models(spelled, classes, states, seed), rng.integers(0, classes, 8)
    first, end = np.full((classes, states), PSEUDO_COUNT), np.full((classes, states), PSEUDO_COUNT)
    move = np.full((classes, states, states), PSEUDO_COUNT)
    letter = np.repeat(spelled.share[:, None, None], classes, axis=1).repeat(states, axis=2)
    scores = spelling_scores(spelled, models)
    for word, own in enumerate(member.tolist()):
        letters = spelled.letter[spelled.start[word] : spelled.start[word + 1]]
        if len(letters) == 0:
            assert scores[word].tolist() == [0.0] * classes
            continue
        for c in range(classes):
            assert scores[word, c] == pytest.approx(np.log(sum(paths_of(letters, c, models).values())))
        paths = paths_of(letters, own, models)
        for path, p in paths.items():
            share = p / sum(paths.values())
            first[own, path[0]] += share
            end[own, path[-1]] += share
            np.add.at(move[own], (np.array(path[:-1], int), np.array(path[1:], int)), share)
            np.add.at(letter[:, own], (letters, np.array(path)), share)
    found = learned_models(models, spelled, member)
    leaving = move.sum(axis=2) + end
    np.testing.assert_allclose(found.first, first / first.sum(axis=1, keepdims=True))
    np.testing.assert_allclose(found.next, move / leaving[:, :, None])
    np.testing.assert_allclose(found.end, end / leaving)
    np.testing.assert_allclose(found.letter, letter / letter.sum(axis=0))
    assert log_posterior(spelled, found, member) >= log_posterior(spelled, models, member) - 1e-9


def test_long_words_and_rare_letters_are_cut_and_told_together() -> None:
    letters = "".join(chr(0x4E00 + i) for i in range(MOST_LETTERS + 5))
    spelled = spelling(["a" * 99, *letters, letters[:MOST_LETTERS]])
    assert spelled.start[1] == LONGEST_SPELLING
    assert len(spelled.share) == MOST_LETTERS + 1 == spelled.letter.max() + 1
    assert spelled.share.sum() == pytest.approx(1.0)


def _clustered(nested: list[list[str]], settings: ClarkSettings) -> tuple[dict[str, list[int]], list[int]]:
    batch = Batch.of([Document.build("d", nested)])
    words = sorted({word for sentence in nested for word in sentence}, key=lambda w: (-str(nested).count(f"'{w}'"), w))
    pairs, steps = bigrams_of(words), list[int]()
    table = clark_clusters(pairs.count(batch), pairs, settings, steps.append)
    assert table.names == tuple(f"clark-{size}" for size in settings.clusters)
    assert len(steps) <= settings.iterations * len(settings.clusters)
    return dict(zip(words, table.codes.tolist(), strict=True)), steps


def test_words_that_stand_between_the_same_words_come_together() -> None:
    rng = np.random.default_rng(0)
    places, people = ["Rome", "Oslo", "Kyiv", "Lima"], ["Ann", "Bob", "Eve", "Dan"]
    nested = [["in", str(rng.choice(places)), "on", "Monday"] for _ in range(400)]
    nested += [["Mr", str(rng.choice(people)), "said", "so"] for _ in range(400)]
    code, _ = _clustered(nested, ClarkSettings(clusters=(6, 8)))
    assert len({str(code[w]) for w in places}) == len({str(code[w]) for w in people}) == 1
    assert code["Rome"] != code["Ann"]


def test_a_rare_word_follows_its_letters() -> None:
    verbs = [f"{stem}ing" for stem in ("walk", "talk", "look", "cook", "book", "rest")]
    names = ["Anna", "Hanna", "Inna"]
    nested = [["he", "is", verb, "now"] for verb in verbs for _ in range(20)]
    nested += [["he", "met", name, "now"] for name in names for _ in range(40)]
    nested += [["hooking"]]  # no word beside it tells what it is
    settings = ClarkSettings(clusters=(6,), states=2)
    code, _ = _clustered(nested, settings)
    assert code["hooking"] == code["walking"] != code["Anna"]
    assert code == _clustered(nested, settings)[0]


def test_scores_of_an_empty_class_are_finite() -> None:
    spelled = spelling(["ab", "ba"])
    models: LetterModels = first_models(spelled, 3, 2, 0)
    for _ in range(3):
        models = learned_models(models, spelled, np.zeros(2, np.int64))
    scores: Floats = spelling_scores(spelled, models)
    assert np.isfinite(scores).all()
    assert (scores[:, 0] > scores[:, 1]).all()
