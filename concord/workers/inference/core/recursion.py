"""The recursion along a chain, written once: products of a row of scores with a matrix of edges, in a semiring.

Each exact method on chains here repeats one step,

    reached[b] = ⊕_a before[a] + edge[a, b],

where ⊕ is the maximum (`BEST`: Viterbi, max-marginals) or the log-sum (`SUM`: partition functions, marginals); the
algebra is that of semiring parsing (Goodman 1999). First-order chains take a step a token, with one matrix for all
tokens or one for each; second-order chains a step for each label of a token; semi-Markov chains a step at each end of
a segment. Messages after a token are the same, from the end of its sentence and with transposed matrices.

Four recursions are apart from it. Training sums probabilities scaled token by token, which takes no logarithm an edge.
Lists of the K best merge sorted lists. Windows have states that depend on the token. Sentences over candidate spans
(`relaxation.sentences`) need few labels at most tokens: whole rows cost certify 8 % on novels.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from concord.schemas.arrays import Floats, Ints
from concord.schemas.labels import Labels
from concord.schemas.potentials import Potentials
from concord.workers.compiling.kernel import inner_in_place, kernel

BEST, SUM = 0, 1
"""Semirings: the best labelling, or the log-sum over all labellings."""

FORWARD, BACKWARD = 0, 1
"""Directions of messages."""

FAINT = 45.0
"""Nats: terms this far below the largest are left out of a log-sum; a million of them would change no digit."""


class ScoredChain(NamedTuple):
    """Scores of the S sentences of N tokens, in nats; −inf forbids.

    - ``unary`` (N, L): of each label of a token.
    - ``edge`` (E, L, L): from the label before (row) to the token's label; E is N, or 1 where all tokens share one
      matrix.
    - ``bounds`` (S + 1,): first token of each sentence, and N; the matrix of a first token is not read.
    """

    unary: Floats
    edge: Floats
    bounds: Ints


def chain_of(potentials: Potentials) -> ScoredChain:
    """Chain of a document or of a batch."""
    return ScoredChain(potentials.unary, potentials.edges, sentence_bounds(potentials))


@inner_in_place
def edge_place(edge: NDArray[Any], t: int) -> int:
    """Index in ``edge`` (E, L, L) of the matrix into token t."""
    return min(t, len(edge) - 1)


def sentence_bounds(potentials: Potentials) -> Ints:
    """First token of each sentence, and the number of tokens: (S + 1,)."""
    return np.append(potentials.sentence_starts, len(potentials)).astype(np.int64)


def messages_before(chain: ScoredChain, way: int) -> Floats:
    """Messages (N, L) of everything before a token in its sentence, given its label, in nats; 0 at the start."""
    messages: Floats = _messages(chain, way, FORWARD)
    return messages


def messages_after(chain: ScoredChain, way: int) -> Floats:
    """Messages (N, L) of everything after a token in its sentence, given its label, in nats; 0 at the end."""
    turned = chain._replace(edge=np.ascontiguousarray(chain.edge.transpose(0, 2, 1)))
    messages: Floats = _messages(turned, way, BACKWARD)
    return messages


@kernel
def _messages(chain: ScoredChain, way: int, by: int) -> Floats:
    messages, own = np.empty(chain.unary.shape), np.empty(chain.unary.shape[1])
    for s in range(len(chain.bounds) - 1):
        first, last = chain.bounds[s], chain.bounds[s + 1] - 1
        if by == BACKWARD:
            first, last = last, first
        pass_sentence(chain.unary, chain.edge, first, last, way, messages, own)
    return messages


@kernel
def best_path(chain: ScoredChain) -> tuple[Labels, Floats]:
    """Best labels (N,), ties to the lowest label id, and the score (S,) of each sentence in nats (Viterbi).

    Where every path of a sentence is −inf, its labels are arbitrary.
    """
    before, own = np.empty(chain.unary.shape), np.empty(chain.unary.shape[1])
    labels, scores = np.zeros(len(before), np.int32), np.zeros(len(chain.bounds) - 1)
    for s in range(len(scores)):
        first, last = chain.bounds[s], chain.bounds[s + 1] - 1
        pass_sentence(chain.unary, chain.edge, first, last, BEST, before, own)
        scores[s] = trace_sentence(chain.unary, chain.edge, first, last, before, own, labels)
    return labels, scores


@inner_in_place
def pass_sentence(unary: Floats, edge: Floats, first: int, last: int, way: int, messages: Floats, own: Floats) -> None:
    """Fills ``messages`` (N, L) from the token ``first`` on to the token ``last``, which may come before it.

    - ``edge`` (E, L, L): matrices into the later of two tokens, from the token passed first (row) to the other.
    - ``own`` (L,): scratch.
    """
    step, by = 0 if len(edge) == 1 else 1, 1 if first <= last else -1
    messages[first, :] = 0.0
    for t in range(first, last, by):
        for a in range(len(own)):
            own[a] = messages[t, a] + unary[t, a]
        absorb(own, edge[max(t, t + by) * step], way, messages[t + by])


@inner_in_place
def trace_sentence(
    unary: Floats, edge: Floats, first: int, last: int, before: Floats, own: Floats, labels: Labels
) -> float:
    """Writes the best ``labels`` (N,) of the tokens ``first`` to ``last`` and returns their score in nats.

    - ``before`` (N, L): `BEST` messages.
    - ``own`` (L,): scratch.

    There are no back pointers: the label before is found again by comparing all L candidates. So the forward pass has
    no branch and runs in vector instructions.
    """
    step = 0 if len(edge) == 1 else 1
    top, label = float(before[last, 0] + unary[last, 0]), 0
    for b in range(1, unary.shape[1]):
        value = before[last, b] + unary[last, b]
        if value > top:
            top, label = value, b
    labels[last] = label
    for t in range(last - 1, first - 1, -1):
        for a in range(len(own)):
            own[a] = before[t, a] + unary[t, a]
        label = strongest(own, edge[(t + 1) * step], label)
        labels[t] = label
    return top


@inner_in_place
def strongest(before: Floats, edge: Floats, label: int) -> int:
    """The label before (row of ``edge``) that reaches ``label`` with the best score; ties go to the lowest id."""
    best, source = before[0] + edge[0, label], 0
    for a in range(1, len(before)):
        value = before[a] + edge[a, label]
        if value > best:
            best, source = value, a
    return source


@inner_in_place
def absorb(before: Floats, edge: Floats, way: int, reached: Floats) -> None:
    """Writes the product of ``before`` (A,) and ``edge`` (A, B) to ``reached`` (B,), in nats."""
    for b in range(len(reached)):
        reached[b] = -np.inf
    for a in range(len(before)):
        score, row = before[a], edge[a]
        for b in range(len(reached)):
            value = score + row[b]
            # max() would ask for NaN too, at twice the time.
            reached[b] = value if value > reached[b] else reached[b]  # noqa: FURB136
    if way == SUM:
        _add_up(before, edge, reached)


@inner_in_place
def _add_up(before: Floats, edge: Floats, reached: Floats) -> None:
    """Turns the largest terms in ``reached`` (B,) into log-sums."""
    for b in range(len(reached)):
        top, total = reached[b], 0.0
        if top == -np.inf:
            continue
        for a in range(len(before)):
            term = before[a] + edge[a, b]
            # An exponential takes longer than all else.
            if term > top - FAINT:
                total += np.exp(term - top)
        reached[b] = top + np.log(total)
