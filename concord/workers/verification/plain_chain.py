"""Linear chains by numpy alone, token by token: the same results as the compiled ones of
`workers.inference.core.chain`.

It is slow and plain, so that its results rest on no kernel. Scores are in nats; −inf forbids.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from concord.schemas.arrays import Floats
from concord.schemas.labels import Labels, LabelSet, Spans
from concord.schemas.potentials import Potentials

FORBIDDEN = -np.inf


def best_labels(potentials: Potentials) -> tuple[Labels, float]:
    """(N,) a best labelling, and its score in nats, summed over sentences; ties go to the lowest label id."""
    labels, total, edges = np.zeros(len(potentials), np.int32), 0.0, potentials.edges_by_token
    for start, end in _sentences(potentials):
        score, before = potentials.unary[start], []
        for t in range(start + 1, end):
            reached = score[:, None] + edges[t]
            before.append(reached.argmax(axis=0))
            score = reached.max(axis=0) + potentials.unary[t]
        total += float(score.max())
        label = int(score.argmax())
        for t in range(end - 1, start, -1):
            labels[t] = label
            label = int(before[t - 1 - start][label])
        labels[start] = label
    return labels, total


def best_list(potentials: Potentials, count: int) -> Labels:
    """(M, N) the ``count`` best possible labellings, the best first, or all of them if there are fewer."""
    width, starts = potentials.unary.shape[1], set(potentials.sentence_starts.tolist())
    edges = potentials.edges_by_token
    score, steps = potentials.unary[:1].T, []
    for t in range(1, len(potentials)):
        step = np.zeros((width, width)) if t in starts else edges[t]
        # By label and rank before, and label now.
        reached = (score[:, :, None] + step[:, None, :]).reshape(-1, width)
        order = np.argsort(-reached, axis=0, kind="stable")[:count]
        steps.append(np.stack(np.divmod(order, score.shape[1])))
        score = np.take_along_axis(reached, order, axis=0).T + potentials.unary[t][:, None]
    ends = np.argsort(-score, axis=None, kind="stable")[:count]
    ends = ends[score.ravel()[ends] > FORBIDDEN]
    best = np.zeros((len(ends), len(potentials)), np.int32)
    label, rank = np.divmod(ends, score.shape[1])
    for t in range(len(potentials) - 1, 0, -1):
        best[:, t] = label
        label, rank = steps[t - 1][:, rank, label]
    best[:, 0] = label
    return best


def changed_once(potentials: Potentials, labels: Labels, count: int) -> Labels:
    """(M, N) the ``count`` best possible labellings with another label than ``labels`` (N,) at one token."""
    bounds = np.append(potentials.sentence_starts, len(potentials))
    gain, edges = potentials.unary.copy(), potentials.edges_by_token
    after, before = (np.setdiff1d(np.arange(len(potentials)), edge) for edge in (bounds[:-1], bounds[1:] - 1))
    gain[after] += edges[after, labels[after - 1]]
    gain[before] += edges[before + 1, :, labels[before + 1]]
    # Of a possible labelling its own labels have finite scores, so these are comparable.
    gain -= gain[np.arange(len(labels)), labels][:, None]
    gain[np.arange(len(labels)), labels] = FORBIDDEN
    best = np.argsort(-gain, axis=None, kind="stable")[:count]
    token, label = np.unravel_index(best[gain.ravel()[best] > FORBIDDEN], gain.shape)
    labellings = np.repeat(labels[None, :], len(token), axis=0)
    labellings[np.arange(len(token)), token] = label
    return labellings


def sentences_changed(potentials: Potentials, labels: Labels, count: int) -> Iterator[Labels]:
    """Labellings (N,) that are ``labels`` (N,) but for one sentence, which has one of its ``count`` best."""
    for start, end in _sentences(potentials):
        for own in best_list(potentials.part(start, end), count):
            other = labels.copy()
            other[start:end] = own
            yield other


def best_without(potentials: Potentials, labels: LabelSet, start: int, end: int, kind: int) -> Labels | None:
    """(N,) the best labels of a span's sentence without exactly that span, and 0 in other sentences.

    It is None if there are none. Two tables go along the sentence: one of labellings that still agree with the span,
    one of labellings that do not.
    """
    first, last = next((a, b) for a, b in _sentences(potentials) if a <= start < b)
    unary, edges, width = potentials.unary, potentials.edges_by_token, len(labels)
    score = np.full((2, width), FORBIDDEN)  # of labellings that agree with the span, and of those that do not
    on = labels.type_of == kind if start == first else np.ones(width, np.bool_)
    score[0, on], score[1, ~on] = unary[first, on], unary[first, ~on]
    steps = []
    for t in range(first + 1, last):
        on_track = _on_track(labels, t, start, end, kind)
        reached = score[:, :, None] + edges[t]
        stays, leaves = np.where(on_track, reached[0], FORBIDDEN), np.where(on_track, FORBIDDEN, reached[0])
        off = np.concatenate([leaves, reached[1]])
        steps.append((stays.argmax(axis=0), off.argmax(axis=0)))
        score = np.stack([stays.max(axis=0), off.max(axis=0)]) + unary[t]
    if score[1].max() == FORBIDDEN:
        return None
    best, side, label = np.zeros(len(potentials), np.int32), 1, int(score[1].argmax())
    for t in range(last - 1, first, -1):
        best[t] = label
        side, label = divmod(int(steps[t - 1 - first][side][label]), width)
    best[first] = label
    return best


def _on_track(labels: LabelSet, t: int, start: int, end: int, kind: int) -> NDArray[np.bool_]:
    """(L, L) mask of the labels before and at token t that agree with this span."""
    continues: NDArray[np.bool_] = labels.continues
    if start < t < end:
        return continues
    if t == start:
        opens: NDArray[np.bool_] = ~continues & (labels.type_of == kind)
        return opens
    if t == end:
        return ~continues
    everywhere: NDArray[np.bool_] = np.ones_like(continues)
    return everywhere


def span_probabilities(potentials: Potentials, labels: LabelSet, spans: Spans) -> Floats:
    """(M,) probability of exactly each span under the chain; NaN if its sentence has no possible labelling."""
    (forward, backward), edges = _log_sums(potentials), potentials.edges_by_token
    starts = np.append(potentials.sentence_starts, len(potentials))
    probabilities = []
    for start, end, kind in zip(spans.start.tolist(), spans.end.tolist(), spans.type.tolist(), strict=True):
        total = _log_sum(forward[starts[np.searchsorted(starts, start, side="right")] - 1], axis=0)
        opens = start in potentials.sentence_starts
        entering = 0.0 if opens else _step(forward[start - 1], edges[start], ~labels.continues)
        mass = np.where(labels.type_of == kind, potentials.unary[start] + entering, FORBIDDEN)
        for t in range(start + 1, end):
            mass = _step(mass, edges[t], labels.continues) + potentials.unary[t]
        if end not in starts:
            mass = _step(mass, edges[end], ~labels.continues) + potentials.unary[end] + backward[end]
        probabilities.append(np.nan if total == FORBIDDEN else min(1.0, np.exp(_log_sum(mass, axis=0) - total)))
    return np.array(probabilities)


def _log_sums(potentials: Potentials) -> tuple[Floats, Floats]:
    """(N, L) log-sums of a sentence's labellings up to each token, with its label; and (N, L) of all after it."""
    forward, backward = potentials.unary.copy(), np.zeros_like(potentials.unary)
    edges = potentials.edges_by_token
    every = np.ones(edges.shape[1:], np.bool_)
    for start, end in _sentences(potentials):
        for t in range(start + 1, end):
            forward[t] += _step(forward[t - 1], edges[t], every)
        for t in range(end - 2, start - 1, -1):
            backward[t] = _step(potentials.unary[t + 1] + backward[t + 1], edges[t + 1].T, every)
    return forward, backward


def _step(mass: Floats, transition: Floats, allowed: NDArray[np.bool_]) -> Floats:
    """(L,) log-sum over the labels before, along the transitions that are ``allowed`` (L, L)."""
    return _log_sum(np.where(allowed, mass[:, None] + transition, FORBIDDEN), axis=0)


def _log_sum(terms: Floats, *, axis: int) -> Floats:
    sums: Floats = np.logaddexp.reduce(terms, axis=axis)
    return sums


def _sentences(potentials: Potentials) -> Iterator[tuple[int, int]]:
    return pairwise([*potentials.sentence_starts.tolist(), len(potentials)])
