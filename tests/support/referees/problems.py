"""Random problems of every size and kind for the referees: rows, agreements or both, hard and soft, any magnitude."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from concord.schemas.labels import Labels, LabelSet, Spans
from concord.schemas.problem import LinearRows, Problem, SpanAgreement
from concord.testing.problems import (
    LABEL_SETS,
    impossible_rows,
    naive_keys,
    random_agreement,
    random_potentials,
    random_rows,
)
from tests.support.oracle import real_rows

SIZES = {"1": (1, 1), "2-7": (2, 7), "8-15": (8, 15), "16-30": (16, 30), "31-60": (31, 60)}
"""Tokens of a problem, by the name of its class."""

PARTS = ("rows", "agreements", "both")
FORCES = ("hard", "soft", "mixed")
WIDEST_KEY = 4
LIGHTEST, HEAVIEST = -9.0, 6.0
"""Decimal exponents of weights that are not ordinary."""


@dataclass(frozen=True)
class Kind:
    """What a random problem is made of: names of `SIZES`, `PARTS` and `FORCES`, and whether nothing keeps it."""

    size: str
    parts: str
    force: str
    infeasible: bool = False


def random_kind(rng: np.random.Generator, sizes: tuple[str, ...] = tuple(SIZES)) -> Kind:
    """Any of them; one in twenty is infeasible."""
    size, parts, force = (str(rng.choice(names)) for names in (sizes, PARTS, FORCES))
    return Kind(size, parts, force, bool(rng.random() < 0.05))


def problem_of_kind(rng: np.random.Generator, kind: Kind) -> Problem:
    """A random problem; some labelling breaks nothing hard unless the kind says so."""
    n = int(rng.integers(SIZES[kind.size][0], SIZES[kind.size][1] + 1))
    labels = LABEL_SETS[int(rng.integers(len(LABEL_SETS)))]
    starts = _sentence_starts(rng, n)
    potentials, kept = random_potentials(rng, labels, starts, n, forbid=float(rng.choice([0.0, 0.1])))
    parts = [_rows(rng, labels, kept, starts, n, kind.force)] if kind.parts != "agreements" else []
    count = sum(len(p) for p in parts)
    if kind.infeasible:
        parts.append(impossible_rows(labels, n, count))
        count += 1
    agreements: tuple[SpanAgreement, ...] = ()
    if kind.parts != "rows":
        agreements = _agreements(rng, labels, starts, n, count, labels.spans(kept, starts), kind.force)
    names = tuple(f"c{i}" for i in range(count + len(agreements)))
    return Problem(potentials, labels, names, LinearRows.join(parts), agreements)


def _sentence_starts(rng: np.random.Generator, n: int) -> NDArray[np.int64]:
    """One to three sentences in short documents, about one for 8 tokens in long ones."""
    cuts = rng.permutation(np.arange(1, n))[: int(rng.integers(0, 3 + n // 8))]
    return np.array([0, *sorted(cuts.tolist())], np.int64)


def _weights(rng: np.random.Generator, size: int) -> NDArray[np.float64]:
    """Ordinary weights in nats, or some of any magnitude."""
    if rng.random() < 0.7:
        return rng.uniform(0.1, 4.0, size)
    return np.asarray(10.0 ** rng.uniform(LIGHTEST, HEAVIEST, size))


def _rows(
    rng: np.random.Generator, labels: LabelSet, kept: Labels, starts: NDArray[np.int64], n: int, force: str
) -> LinearRows:
    hard_share = {"hard": 1.0, "soft": 0.0, "mixed": 0.4}[force]
    if rng.random() < 0.5:
        count = int(rng.integers(2, 14))
        rows = real_rows(rng, labels, kept, starts, n, count=count, hard_share=hard_share)
    else:
        rows = random_rows(rng, labels, kept, starts, n, hard_share=hard_share)
    soft = np.isfinite(rows.weight)
    rows.weight[soft] = _weights(rng, int(soft.sum()))
    return rows


def _agreements(
    rng: np.random.Generator,
    labels: LabelSet,
    starts: NDArray[np.int64],
    n: int,
    first: int,
    kept: Spans,
    force: str,
) -> tuple[SpanAgreement, ...]:
    """One to four agreements over one to three key tables, some of which are equal without being one."""
    tables: list[NDArray[np.int32]] = []
    for _ in range(int(rng.integers(1, 4))):
        if tables and rng.random() < 0.3:
            tables.append(tables[-1].copy())
            continue
        words = rng.integers(0, int(rng.integers(1, max(3, n // 3) + 1)), n).tolist()
        tables.append(naive_keys(words, starts.tolist(), int(rng.integers(1, WIDEST_KEY + 1))))
    made = []
    for i in range(int(rng.integers(1, 5))):
        table = tables[int(rng.integers(len(tables)))]
        agreement = random_agreement(rng, labels, table, first + i, kept)
        made.append(_reweighted(rng, agreement, force))
    return tuple(made)


def _reweighted(rng: np.random.Generator, agreement: SpanAgreement, force: str) -> SpanAgreement:
    """Costs of another magnitude, in place; ``force`` "soft" leaves none that is infinite."""
    cost = agreement.cost
    if force == "soft":
        cost[np.isinf(cost)] = 2.0
    if rng.random() < 0.3:
        cost *= float(_weights(rng, 1)[0])
    return agreement
