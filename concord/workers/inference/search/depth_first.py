"""Depth-first branch and bound over labels from left to right, as a library: each engine chooses its limits.

A node is a prefix y_1 … y_t. Its estimate f (`partial.expand`) is a loss that no completion of it avoids:
f(y_1 … y_t) ≤ loss(y) for every labelling y that begins with it. Children are tried by rising f. A child is cut off

1. where f ≥ the loss of the best labelling known (``loss_to_beat``),
2. where f exceeds M (``most_loss``),
3. where `BRANCHING` of its siblings have a smaller f.

Invariant: a labelling that has not been met yet begins with a child that is still to be tried, or with a child that was
cut off. By rule 1, what was cut off is no better than the best labelling known. By rules 2 and 3, it loses no less than
the least f that these rules cut off (``least_cut``). So every better labelling loses at least the lower of
``least_cut`` and the least f still to be tried (`open_loss`). If nothing is left to try and ``least_cut`` is no lower
than the loss of the best labelling, that one is optimal.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from concord.schemas.arrays import Floats, Records, record_type
from concord.schemas.labels import Labels
from concord.workers.compiling.kernel import inner, kernel
from concord.workers.inference.core.incumbent import Search
from concord.workers.inference.numerics import ROUNDING
from concord.workers.inference.search.partial import (
    Partial,
    complete_loss,
    expand,
    nodes_a_look,
    pop,
    push,
)

UNEXPANDED = -1
"""Number of children of a position that was not expanded yet."""

PROBE_NOW = record_type(
    *((name, "f8") for name in ("loss_to_beat", "most_loss", "least_cut")),
    *((name, "i8") for name in ("position", "branching", "expanded", "at_leaf")),
)
"""Fields of ``now`` of a `Probe`."""


class Probe(NamedTuple):
    """One depth-first search under limits on loss and branching.

    - ``label``, ``loss`` (N, L): the children at each position, by rising loss in nats.
    - ``children`` (N,): how many there are; `UNEXPANDED` before that is known.
    - ``following`` (N,): which child is tried next.
    - ``now`` (1,): in nats ``loss_to_beat``, ``most_loss`` (M) and ``least_cut``, the least loss of what M and the
      branching cut off; then the ``position``, −1 at the end; the ``branching``; nodes ``expanded``; ``at_leaf``: did
      the last call end at a leaf?
    """

    label: Labels
    loss: Floats
    children: NDArray[np.int64]
    following: NDArray[np.int64]
    now: Records


def new_probe(partial: Partial, *, loss: float, most: float, branching: int) -> Probe:
    """A probe at its start: the loss to beat ``loss`` and the limit ``most`` (M), both in nats, and the branching."""
    shape = partial.unary.shape
    count = np.zeros(shape[0], np.int64)
    count[0] = UNEXPANDED
    return Probe(
        np.zeros(shape, np.int32),
        np.full(shape, np.inf),
        count,
        np.zeros(shape[0], np.int64),
        np.array([(loss, most, np.inf, 0, branching, 0, 0)], PROBE_NOW),
    )


def run(search: Search, partial: Partial, probe: Probe) -> bool:
    """Runs the probe to its end (True) or that of the budget (False); offers the search every better labelling."""
    look = nodes_a_look(partial)
    while probe.now["position"][0] >= 0:
        before = int(probe.now["expanded"][0])
        is_leaf = next_leaf(partial, probe, search.remaining(look))
        search.work += int(probe.now["expanded"][0]) - before
        # One that breaks a hard row by a rounding of its sum is no answer, and nothing to beat.
        if is_leaf and search.offer(partial.labels):
            probe.now["loss_to_beat"][0] = min(search.loss, complete_loss(partial))
        if search.spent:
            break
    return bool(probe.now["position"][0] < 0)


def open_loss(probe: Probe) -> float:
    """A lower bound in nats on the loss of every better labelling that the probe has not seen."""
    least = float(probe.now["least_cut"][0])
    for t in range(int(probe.now["position"][0]) + 1):
        if probe.children[t] == UNEXPANDED:
            # Not expanded yet: covered by the loss of the child that leads here.
            least = min(least, float(probe.loss[t - 1, probe.following[t - 1] - 1]) if t else 0.0)
        elif probe.following[t] < probe.children[t]:
            least = min(least, float(probe.loss[t, probe.following[t]]))
    return least


@kernel
def next_leaf(p: Partial, probe: Probe, nodes: int) -> bool:
    """Searches on until a better labelling is complete in `Partial.labels` (True), or nothing is left (False).

    A call expands at most ``nodes`` nodes; it returns False if they are spent, too.
    """
    count = len(p.labels)
    t = probe.now[0].position
    if probe.now[0].at_leaf:
        pop(p, t)
        probe.now[0].at_leaf = 0
    stop = probe.now[0].expanded + nodes
    while t >= 0:
        if probe.children[t] == UNEXPANDED:
            if probe.now[0].expanded >= stop:
                break
            _branch(p, probe, t)
        k = probe.following[t]
        if k >= probe.children[t] or probe.loss[t, k] >= probe.now[0].loss_to_beat - ROUNDING:
            t -= 1
            if t >= 0:
                pop(p, t)
            continue
        push(p, t, probe.label[t, k])
        probe.following[t] = k + 1
        if t == count - 1:
            probe.now[0].position, probe.now[0].at_leaf = t, 1
            return True
        t += 1
        probe.children[t] = UNEXPANDED
        probe.following[t] = 0
    probe.now[0].position = t
    return False


@inner
def _branch(p: Partial, probe: Probe, t: int) -> None:
    """Lists the children of the node at t by rising loss, ties by label; notes what rules 2 and 3 cut off."""
    width = probe.label.shape[1]
    losses = np.empty(width)
    expand(p, t, losses)
    probe.now[0].expanded += 1
    kept = 0
    for b in range(width):
        if losses[b] >= probe.now[0].loss_to_beat - ROUNDING:
            continue
        if losses[b] > probe.now[0].most_loss:
            probe.now[0].least_cut = min(probe.now[0].least_cut, losses[b])
            continue
        j = kept
        while j > 0 and probe.loss[t, j - 1] > losses[b]:
            probe.loss[t, j], probe.label[t, j] = probe.loss[t, j - 1], probe.label[t, j - 1]
            j -= 1
        probe.loss[t, j], probe.label[t, j] = losses[b], b
        kept += 1
    branching = probe.now[0].branching
    if kept > branching:
        probe.now[0].least_cut = min(probe.now[0].least_cut, probe.loss[t, branching])
        kept = branching
    probe.children[t], probe.following[t] = kept, 0
