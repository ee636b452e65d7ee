"""Weights of constraints for a tracked run, with intervals where their counts are known."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from pydantic import TypeAdapter

from concord.schemas.audit import KnownWeight
from concord.workers.constraints.consistency import (
    EXACT_TEMPLATE,
    SUBSEQUENCE_TEMPLATE,
    UNLABELLED_TEMPLATE,
    LabelConsistency,
)
from concord.workers.constraints.constraint_set import ConstraintSet
from concord.workers.constraints.declared import DeclaredConstraints, JoinedConstraints
from concord.workers.constraints.declared_weights import declared_weights
from concord.workers.learning.weights.penalties import PENALTIES
from concord.workers.learning.weights.row_counts import wilson

BAYES = PENALTIES["bayes"]


def known_weights(constraints: ConstraintSet) -> Iterator[KnownWeight]:
    """The weights of a constraint set, part by part; those of declared constraints have no interval."""
    if isinstance(constraints, JoinedConstraints):
        for part in constraints.parts:
            yield from known_weights(part)
    elif isinstance(constraints, LabelConsistency):
        yield from _consistency(constraints)
    elif isinstance(constraints, DeclaredConstraints):
        yield from (KnownWeight(name=name, weight=weight) for name, weight in declared_weights(constraints))


WEIGHTS = TypeAdapter(tuple[KnownWeight, ...])


def known_weights_text(sets: Iterable[ConstraintSet]) -> str:
    """The weights of some constraint sets as JSON: a list of objects with name, weight, low and high."""
    return WEIGHTS.dump_json(tuple(w for one in sets for w in known_weights(one)), indent=1).decode()


def _consistency(constraints: LabelConsistency) -> Iterator[KnownWeight]:
    """Label-consistency costs per token, for every two types; intervals treat the scales as known."""
    counts, scales = constraints.counts, constraints.scales
    exact, parts, left_out = (np.maximum(table, 1) for table in (counts.exact, counts.subsequence, counts.unlabelled))
    pairs = np.argwhere(~np.eye(len(counts.types), dtype=np.bool_)).tolist()
    totals = exact.sum(axis=1)
    for a, b in pairs:
        if a < b and scales.exact:
            shares = [(int(exact[a, b]), int(totals[kind])) for kind in (a, b)]
            yield _weight(f"{EXACT_TEMPLATE}({counts.types[a]}, {counts.types[b]})", scales.exact / 2.0, shares)
    for a, b in pairs:
        if scales.subsequence:
            shares = [(int(parts[a, b]), int(parts[:, b].sum()))]
            yield _weight(f"{SUBSEQUENCE_TEMPLATE}({counts.types[a]}, {counts.types[b]})", scales.subsequence, shares)
    for kind, times in zip(counts.types, left_out.tolist(), strict=True):
        if scales.unlabelled:
            shares = [(times, times + int(totals[counts.types.index(kind)]))]
            yield _weight(f"{UNLABELLED_TEMPLATE}({kind})", scales.unlabelled, shares)


def _weight(name: str, scale: float, shares: Iterable[tuple[int, int]]) -> KnownWeight:
    """A weight: ``scale`` times the summed nats of some shares, each a (count, total).

    Its interval is made of the ends of the shares' intervals in the same way.
    """
    nats = np.zeros(3)
    for count, total in shares:
        least, most = wilson(count, total)
        nats += [_nats(amount, total) for amount in (count, most * total, least * total)]
    weight, low, high = (scale * nats).tolist()
    return KnownWeight(name=name, weight=weight, low=low, high=high)


def _nats(count: float, total: float) -> float:
    return BAYES.nats(total, count, BAYES.settings())
