"""Chain inference against enumeration of all labellings."""

from __future__ import annotations

import numpy as np
import pytest

from concord.schemas.labels import LabelSet
from concord.schemas.potentials import Potentials
from concord.testing.problems import all_labellings, local_scores, random_potentials
from concord.workers.inference.core.chain import log_partition, marginals, max_marginals, viterbi, viterbi_score
from tests.support.seeds import over_seeds

LABELS = LabelSet.bio(["PER", "LOC"])


def random_chain(seed: int) -> Potentials:
    rng = np.random.default_rng(seed)
    count = int(rng.integers(1, 6))
    starts = np.unique(np.append(0, rng.integers(0, count, 1))).astype(np.int64)
    return random_potentials(rng, LABELS, starts, count)[0]


@over_seeds()
def test_viterbi_and_marginals_equal_enumeration(seed: int) -> None:
    chain = random_chain(seed)
    labellings = all_labellings(len(chain), len(LABELS))
    scores = local_scores(chain, labellings)
    assert chain.score(viterbi(chain)) == pytest.approx(scores.max())
    assert viterbi_score(chain) == pytest.approx(scores.max())
    assert log_partition(chain).sum() == pytest.approx(np.logaddexp.reduce(scores))
    probability = np.exp(scores - np.logaddexp.reduce(scores))
    expected = np.stack([np.bincount(labellings[:, t], probability, len(LABELS)) for t in range(len(chain))])
    np.testing.assert_allclose(marginals(chain), expected, atol=1e-9)


@over_seeds()
def test_max_marginals_are_the_best_scores_of_the_sentence(seed: int) -> None:
    chain = random_chain(seed)
    labellings = all_labellings(len(chain), len(LABELS))
    scores = local_scores(chain, labellings)
    reached = max_marginals(chain)
    sentence_best = reached.max(axis=1)
    for t in range(len(chain)):
        for label in range(len(LABELS)):
            best = scores[labellings[:, t] == label].max()
            assert reached[t, label] - sentence_best[t] == pytest.approx(best - scores.max())


def test_a_sentence_without_any_labelling_is_told_apart() -> None:
    impossible = Potentials(np.full((2, 2), -np.inf), np.zeros((2, 2)), np.zeros(1, np.int64))
    assert viterbi_score(impossible) == -np.inf
    assert log_partition(impossible)[0] == -np.inf
    with pytest.raises(ValueError, match="sentence 0 has no possible labelling"):
        marginals(impossible)


def test_ties_go_to_the_lowest_label() -> None:
    flat = Potentials(np.zeros((3, 4)), np.zeros((4, 4)), np.zeros(1, np.int64))
    assert viterbi(flat).tolist() == [0, 0, 0]
