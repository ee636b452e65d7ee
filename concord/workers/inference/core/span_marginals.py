"""The marginal probability of a span: the share of the chain's distribution in which exactly this span is labelled.

For a span of one type from s to e (exclusive) with labels l_s … l_{e−1},

    P(span) = enter(s) · Π exp(unary + transition inside) · leave(e) / Z,

where enter sums over the labellings of the sentence before the span, and leave over those after it, without labels that
would make the span longer. If a span can begin with several labels (`LabelSet.first_labels`), their masses add up.
All sums are logarithms, from the messages of the forward-backward algorithm (Rabiner 1989).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from concord.schemas.arrays import Floats, Ints
from concord.schemas.labels import Labels, Spans
from concord.workers.compiling.kernel import inner_in_place, kernel_in_place
from concord.workers.inference.core.agreement import Codec
from concord.workers.inference.core.chain import SumMessages, sum_messages
from concord.workers.inference.core.prepared import Prepared
from concord.workers.inference.core.recursion import edge_place, sentence_bounds


def span_marginals(problem: Prepared, spans: Spans) -> Floats:
    """(M,) the probability of each span under the local scores alone; NaN in a sentence without possible labelling."""
    p = problem.likelihoods
    messages = sum_messages(p)
    mass = np.full(len(spans), -np.inf)
    for first in problem.labels.first_labels.T:
        own = np.empty(len(spans))
        labelled = LabelledSpans(spans.start, spans.end, first[spans.type], problem.labels.inside[spans.type])
        _log_masses(p.unary, p.edges, messages, problem.codec, labelled, own)
        mass = np.logaddexp(mass, own)
    total = messages.total[np.searchsorted(sentence_bounds(p), spans.start, side="right") - 1]
    with np.errstate(invalid="ignore"):
        probability: Floats = np.minimum(np.exp(mass - total), 1.0)
    return probability


class LabelledSpans(NamedTuple):
    """M spans with their labels.

    - ``start`` (M,): first token.
    - ``end`` (M,): token after the last.
    - ``first`` (M,): label of the first token.
    - ``inside`` (M,): label of the other tokens.
    """

    start: Ints
    end: Ints
    first: Labels
    inside: Labels


@kernel_in_place
def _log_masses(
    unary: Floats,
    edge: Floats,
    messages: SumMessages,
    codec: Codec,
    spans: LabelledSpans,
    mass: Floats,
) -> None:
    """Writes to ``mass`` (M,) the log-sum of all labellings of the sentence that have exactly each span."""
    start, end, first, inside = spans
    for i in range(len(mass)):
        label = first[i]
        total = unary[start[i], label] + _entering(unary, edge, messages.before, codec, start[i], label)
        for t in range(start[i] + 1, end[i]):
            following = inside[i]
            total += edge[edge_place(edge, t), label, following] + unary[t, following]
            label = following
        mass[i] = total + _leaving(unary, edge, messages.after, codec, end[i], label)


@kernel_in_place
def _entering(unary: Floats, edge: Floats, before: Floats, codec: Codec, start: int, opening: int) -> float:
    """Log-sum over the labellings of everything before a span that opens at ``start``."""
    if codec.opens_sentence[start]:
        return 0.0
    entering, barred = edge[edge_place(edge, start), :, opening], codec.continues[:, opening]
    return _log_sum(before[start - 1], unary[start - 1], entering, barred)


@kernel_in_place
def _leaving(unary: Floats, edge: Floats, after: Floats, codec: Codec, end: int, last: int) -> float:
    """Log-sum over the labellings of everything from ``end`` on, after a span whose last label is ``last``."""
    if codec.opens_sentence[end]:
        return 0.0
    return _log_sum(edge[edge_place(edge, end), last], unary[end], after[end], codec.continues[last])


@inner_in_place
def _log_sum(one: Floats, two: Floats, three: Floats, barred: NDArray[np.bool_]) -> float:
    """log Σ_l e^(one_l + two_l + three_l) over the labels l that are not ``barred``; all arrays are (L,)."""
    top, total = -np.inf, 0.0
    for label in range(len(barred)):
        if not barred[label]:
            top = max(top, one[label] + two[label] + three[label])
    if top == -np.inf:
        return top
    for label in range(len(barred)):
        if not barred[label]:
            total += np.exp(one[label] + two[label] + three[label] - top)
    return float(top + np.log(total))
