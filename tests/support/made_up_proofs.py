"""Proofs of the right shape with random prices, boxes and branches: what a checker may not believe."""

from __future__ import annotations

import numpy as np

from concord.schemas.problem import Problem
from concord.workers.certificates.checker import BITS, CertificateError, IntegerProblem, Item, check

UNIT = 1 << BITS
"""Of a nat."""


def accepts(problem: Problem, bound: float, proof: list[int]) -> bool:
    try:
        check(problem, bound, proof)
    except CertificateError:
        return False
    return True


def belongs(ground: IntegerProblem, table: int, key: int, item: Item) -> bool:
    """Has an item a part in a group?"""
    try:
        ground.role(table, key, item)
    except CertificateError:
        return False
    return True


def items_of(ground: IntegerProblem, table: int, key: int) -> list[Item]:
    """All items that have a part in a group."""
    return [
        (start, last + 1, kind)
        for last, first in enumerate(ground.begin.tolist())
        for start in range(first, last + 1)
        for kind in range(-1 if start == last else 0, ground.types)
        if belongs(ground, table, key, (start, last + 1, kind))
    ]


def made_up_boxes(rng: np.random.Generator, roles: int, depth: int) -> list[int]:
    if not roles or depth == 0 or rng.random() < 0.4:
        return [-1, *(int(rng.normal(0.0, 1.5) * UNIT) for _ in range(roles))]
    halves = [n for _ in range(2) for n in made_up_boxes(rng, roles, depth - 1)]
    return [int(rng.integers(roles)), int(rng.integers(3)), *halves]


def made_up_group(rng: np.random.Generator, ground: IntegerProblem) -> list[int]:
    table = int(rng.integers(len(ground.tables)))
    keys = np.unique(ground.tables[table][ground.tables[table] >= 0])
    if not len(keys):
        return []
    key = int(rng.choice(keys))
    items = [item for item in items_of(ground, table, key) if rng.random() < 0.8]
    roles = len({ground.role(table, key, item)[1] for item in items})
    prices = [n for item in items for n in (*item, int(3.0 * rng.random() ** 2 * UNIT))]
    return [table, key, len(items), *prices, *made_up_boxes(rng, roles, 3)]


def made_up_stage(rng: np.random.Generator, ground: IntegerProblem) -> list[int]:
    weights = [min(float(w), 4.0) for w in ground.problem.rows.weight]
    rows = [n for r, w in enumerate(weights) for n in (r, int(rng.random() * w * UNIT))]
    groups = [made_up_group(rng, ground) for _ in range(int(rng.integers(4)) if ground.tables else 0)]
    groups = [group for group in groups if group]
    return [len(weights), *rows, len(groups), *(n for group in groups for n in group)]


def made_up_node(rng: np.random.Generator, ground: IntegerProblem, depth: int = 2) -> list[int]:
    stages = [made_up_stage(rng, ground) for _ in range(int(rng.integers(3)))]
    node = [len(stages), *(n for stage in stages for n in stage)]
    if depth == 0 or rng.random() < 0.7:
        return [*node, int(rng.choice([-1, -2]))]
    token, label = rng.integers(len(ground.problem)), rng.integers(len(ground.problem.labels))
    children = [n for _ in range(2) for n in made_up_node(rng, ground, depth - 1)]
    return [*node, int(token), int(label), *children]


def damaged(rng: np.random.Generator, proof: list[int]) -> list[int]:
    """The proof with a few of its numbers changed, a piece lost, or a piece twice."""
    changed = list(proof)
    for _ in range(int(rng.integers(1, 4))):
        at = int(rng.integers(len(changed)))
        kind = rng.integers(6)
        if kind == 0:
            changed[at] = int(rng.choice([-1, 0, 1, 2, 1 << 40, -(1 << 62), (1 << 63) - 1]))
        elif kind == 1:
            changed[at] += int(rng.choice([-1, 1]))
        elif kind == 2:
            changed[at] = int(changed[at] * rng.random() * 3.0)
        elif kind == 3:
            del changed[at:]
        elif kind == 4:
            changed[at:at] = changed[at : at + int(rng.integers(1, 6))]
        else:
            del changed[at : at + int(rng.integers(1, 6))]
        if not changed:
            return [0]
    return changed
