"""Brown clusters: each merge against the likelihood of the class model counted from nothing."""

from __future__ import annotations

from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from concord.schemas.document import Batch, Document
from concord.workers.features.clustering.brown import brown_clusters, merged
from concord.workers.features.clustering.word_pairs import bigrams, bigrams_of
from concord.workers.features.settings import BrownSettings
from tests.support.seeds import over_seeds

Parts = list[list[int]]
Times = NDArray[np.int64]


def likelihood(times: Times, classes: Parts) -> float:
    """Σ n(c, d) · log(n(c, d) / (o(c) · i(d))) over classes; words that are in none count in o and i alone."""
    first, second = np.maximum(1, times.sum(axis=1)), np.maximum(1, times.sum(axis=0))
    total = 0.0
    for c in classes:
        for d in classes:
            n = times[np.ix_(c, d)].sum()
            if n:
                total += n * np.log(n / (first[c].sum() * second[d].sum()))
    return total


def best_merge(times: Times, classes: Parts) -> Parts:
    def after(pair: tuple[int, int]) -> Parts:
        rest = [part for i, part in enumerate(classes) if i not in pair]
        return [*rest, sorted(classes[pair[0]] + classes[pair[1]])]

    return max((after(pair) for pair in combinations(range(len(classes)), 2)), key=lambda p: likelihood(times, p))


def naive(times: Times, clusters: int) -> list[Parts]:
    """The classes when all words are in, and after each further merge."""
    classes: Parts = []
    for word in range(len(times)):
        classes = [*classes, [word]]
        if len(classes) > clusters:
            classes = best_merge(times, classes)
    found = [sorted(classes)]
    while len(classes) > 1:
        classes = best_merge(times, classes)
        found.append(sorted(classes))
    return found


@over_seeds(stay=1, many=24)
def test_merges_are_those_that_lose_least(seed: int) -> None:
    rng = np.random.default_rng(seed)
    size, clusters = int(rng.integers(5, 12)), int(rng.integers(2, 5))
    times = rng.poisson(rng.gamma(0.4, 4.0, (size, size))).astype(np.int64)
    times[0] = 0  # a word that nothing stands after
    table = sparse.csr_array(times)
    member, merges = merged(bigrams(table), bigrams(sparse.csr_array(table.T)), clusters)
    parts = {slot: np.flatnonzero(member == slot).tolist() for slot in set(member.tolist())}
    found = [sorted(parts.values())]
    for kept, gone in merges.tolist():
        parts[kept] = sorted(parts[kept] + parts.pop(gone))
        found.append(sorted(parts.values()))
    assert found == naive(times, clusters)


def test_words_that_stand_between_the_same_words_share_their_first_bits() -> None:
    rng = np.random.default_rng(0)
    places, people = ["Rome", "Oslo", "Kyiv", "Lima"], ["Ann", "Bob", "Eve", "Dan"]
    nested = [["in", str(rng.choice(places)), "on", "Monday"] for _ in range(400)]
    nested += [["Mr", str(rng.choice(people)), "said", "so"] for _ in range(400)]
    batch = Batch.of([Document.build("d", nested)])
    words = sorted({word for sentence in nested for word in sentence})
    pairs, told = bigrams_of(words), list[int]()
    settings = BrownSettings(clusters=8, prefixes=(1, 30))
    table = brown_clusters(pairs.count(batch), pairs, settings, told.append)
    assert (table.names, sum(told)) == (("brown-1", "brown-30"), len(words))
    code = dict(zip(words, table.codes.tolist(), strict=True))
    whole = {word: bits for word, (_, bits) in code.items()}
    assert len({whole[w] for w in places}) == len({whole[w] for w in people}) == 1
    assert whole["Rome"] != whole["Ann"]
    assert all(f"{bits:b}".startswith(f"{first:b}") for first, bits in code.values())
