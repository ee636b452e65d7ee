"""Exact inference on linear chains, sentence by sentence: best labellings, partition functions, marginals.

Every function takes the `Potentials` of a document or of a whole batch, in nats, and treats −inf as impossible rather
than as a large number. Fersini et al. (2014) eq. 7–9 give the Viterbi recursion; `recursion` holds it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from concord.schemas.arrays import Floats, Ints
from concord.schemas.labels import Labels
from concord.schemas.potentials import Potentials
from concord.workers.inference.core.recursion import (
    BEST,
    SUM,
    best_path,
    chain_of,
    messages_after,
    messages_before,
    sentence_bounds,
)


def viterbi(potentials: Potentials) -> Labels:
    """(N,) the best labelling of every sentence; ties go to the lowest label id.

    If every path of a sentence is −inf, its labels are arbitrary and score −inf.
    """
    return best_labels(potentials)[0]


def best_labels(potentials: Potentials) -> tuple[Labels, Floats]:
    """The labels (N,) of `viterbi`, and the score (S,) of each sentence in nats."""
    best: tuple[Labels, Floats] = best_path(chain_of(potentials))
    return best


def viterbi_score(potentials: Potentials) -> float:
    """The best local score of any labelling, in nats: the sum over sentences."""
    return float(best_labels(potentials)[1].sum())


def log_partition(potentials: Potentials) -> Floats:
    """(S,) log Z of each sentence, in nats; −inf where no labelling is possible."""
    chain = chain_of(potentials)
    return _totals(chain.unary + messages_before(chain, SUM), chain.bounds)


def marginals(potentials: Potentials) -> Floats:
    """(N, L) probability of each label of each token under the chain alone.

    Raises `ValueError` where a sentence has no possible labelling.
    """
    before, after, total = sum_messages(potentials)
    if not np.isfinite(total).all():
        raise ValueError(f"sentence {int(np.flatnonzero(~np.isfinite(total))[0])} has no possible labelling")
    lengths = np.diff(sentence_bounds(potentials))
    result: Floats = np.exp(potentials.unary + before + after - np.repeat(total, lengths)[:, None])
    return result


class SumMessages(NamedTuple):
    """Sum messages of the forward-backward algorithm: log-sums over labellings, in nats.

    - ``before`` (N, L): over the tokens of the sentence before t, given y_t = l.
    - ``after`` (N, L): over the tokens of the sentence after t, given y_t = l.
    - ``total`` (S,): log Z of each sentence; −inf where no labelling is possible.
    """

    before: Floats
    after: Floats
    total: Floats


def sum_messages(potentials: Potentials) -> SumMessages:
    """Forward and backward sum messages."""
    chain = chain_of(potentials)
    before = messages_before(chain, SUM)
    return SumMessages(before, messages_after(chain, SUM), _totals(chain.unary + before, chain.bounds))


def _totals(forward: Floats, bounds: Ints) -> Floats:
    return np.logaddexp.reduce(forward[bounds[1:] - 1], axis=1) if len(bounds) > 1 else np.zeros(0)


def max_marginals(potentials: Potentials) -> Floats:
    """(N, L) the best local score of the token's sentence among labellings with y_t = l, in nats."""
    forward, backward = max_messages(potentials)
    return forward + backward


def max_messages(potentials: Potentials) -> tuple[Floats, Floats]:
    """Forward and backward max messages, both (N, L), in nats.

    - ``forward[t, l]`` is the best score of the sentence up to t with y_t = l, including the unary score of t.
    - ``backward[t, l]`` is the best score of everything after t, given y_t = l.

    Their sum is the max-marginal.
    """
    chain = chain_of(potentials)
    return chain.unary + messages_before(chain, BEST), messages_after(chain, BEST)
