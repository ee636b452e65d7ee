"""HiGHS and SCIP as referees: `schemas/problem.py` as a mixed integer programme.

A binary for each token and label, products of two of them for edges, and a variable for each span and each pair
that is 1 at least where they stand. Solvers keep a constraint to 1e-9 and an integer to 1e-6 only, so nothing is
believed of their answers but the labelling, which is scored anew. Releases of HiGHS have called optimal what was not
(ERGO-Code/HiGHS issues 2874, 2980, 3043, 3073, 3094), so SCIP reads the same arrays: a referee that misses an optimum
would let a false claim pass.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import ClassVar, NamedTuple, Self

import numpy as np

from concord.schemas.labels import Labels
from concord.schemas.problem import ANY, SLACK_TOLERANCE, Problem, Relation
from tests.support.referees.pairs import Span, left_out_of, pairs_of, spans_of

ROOT = Path(__file__).resolve().parents[3]

Terms = dict[int, float]
Tokens = dict[tuple[int, int], int]
Edges = dict[tuple[int, int, int], int]


class Verdict(NamedTuple):
    """The best labelling (N,) that a referee knows or None, whether it ended by itself, and its CPU seconds."""

    labels: Labels | None
    finished: bool
    cpu: float


class Arrays(NamedTuple):
    """Minimise cost · x with low ≤ A x ≤ high and 0 ≤ x ≤ upper; A by rows: start, column, value."""

    cost: list[float]
    upper: list[float]
    integer: list[bool]
    low: list[float]
    high: list[float]
    start: list[int]
    column: list[int]
    value: list[float]


class _Programme:
    """Minimise cost · x with low ≤ A x ≤ high, 0 ≤ x ≤ upper."""

    def __init__(self) -> None:
        self.cost: list[float] = []
        self.upper: list[float] = []
        self.integer: list[bool] = []
        self.rows: list[tuple[float, float, Terms]] = []

    def column(self, cost: float = 0.0, *, upper: float = 1.0, integer: bool = False) -> int:
        self.cost.append(cost)
        self.upper.append(upper)
        self.integer.append(integer)
        return len(self.cost) - 1

    def row(self, low: float, terms: Terms, high: float = math.inf) -> None:
        self.rows.append((low, high, terms))

    def arrays(self) -> Arrays:
        """As HiGHS takes it, row by row."""
        return Arrays(
            self.cost,
            self.upper,
            self.integer,
            [low for low, _, _ in self.rows],
            [high for _, high, _ in self.rows],
            np.cumsum([0, *(len(terms) for *_, terms in self.rows)]).tolist(),
            [column for *_, terms in self.rows for column in terms],
            [value for *_, terms in self.rows for value in terms.values()],
        )


class Milp:
    """A solver in a process of its own, ``module``.

    A new interpreter rather than a worker of `multiprocessing`, which would import the caller's script first.
    """

    module: ClassVar[str]

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", self.module],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.communicate()

    def referee(self, problem: Problem, *, seconds: float = 10.0) -> Verdict:
        """What the solver makes of a problem within ``seconds`` of wall clock. Raises `RuntimeError` if it died."""
        programme, token = _programme_of(problem)
        values, finished, cpu = self.solve(programme.arrays(), seconds)
        return Verdict(None if values is None else _labels(values, token, len(problem)), finished, cpu)

    def solve(self, arrays: Arrays, seconds: float) -> tuple[list[float] | None, bool, float]:
        """The best solution known or None, whether the solver ended by itself, and its CPU seconds."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps((arrays, seconds)) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.module} ended with {self.process.wait()}")
        values, finished, cpu = json.loads(line)
        return values, finished, cpu


class Highs(Milp):
    """HiGHS. OR-tools brings another library of its name, of which a process loads the first alone."""

    module = "tests.support.referees.highs_process"


class Scip(Milp):
    """SCIP, which OR-tools brings along."""

    module = "tests.support.referees.scip_process"


def _programme_of(problem: Problem) -> tuple[_Programme, Tokens]:
    programme = _Programme()
    token, edge = _chain(programme, problem)
    _rows(programme, problem, token, edge)
    if problem.agreements:
        _agreements(programme, problem, token)
    return programme, token


def _labels(values: list[float], token: Tokens, count: int) -> Labels:
    """(N,) at each token the label whose variable is largest: integers hold only nearly."""
    labels, best = np.zeros(count, np.int32), [-1.0] * count
    for (t, label), column in token.items():
        if values[column] > best[t]:
            best[t], labels[t] = values[column], label
    return labels


def _chain(programme: _Programme, problem: Problem) -> tuple[Tokens, Edges]:
    p, width = problem.potentials, len(problem.labels)
    starts = set(p.sentence_starts.tolist())
    token = {
        (t, label): programme.column(-float(p.unary[t, label]), integer=True)
        for t in range(len(p))
        for label in range(width)
        if p.unary[t, label] > -np.inf
    }
    edge = {}
    for t in range(len(p)):
        programme.row(1.0, {token[t, b]: 1.0 for b in range(width) if (t, b) in token}, 1.0)
        if t in starts:
            continue
        for a in range(width):
            for b in range(width):
                if p.transition[a, b] > -np.inf and (t - 1, a) in token and (t, b) in token:
                    edge[t, a, b] = programme.column(-float(p.transition[a, b]))
        for a in range(width):
            if (t - 1, a) in token:
                out = {edge[t, a, b]: 1.0 for b in range(width) if (t, a, b) in edge}
                programme.row(0.0, out | {token[t - 1, a]: -1.0}, 0.0)
        for b in range(width):
            if (t, b) in token:
                into = {edge[t, a, b]: 1.0 for a in range(width) if (t, a, b) in edge}
                programme.row(0.0, into | {token[t, b]: -1.0}, 0.0)
    return token, edge


def _rows(programme: _Programme, problem: Problem, token: Tokens, edge: Edges) -> None:
    rows = problem.rows
    for r in range(len(rows)):
        terms: Terms = {}
        for e in range(int(rows.pointer[r]), int(rows.pointer[r + 1])):
            t, a, b = int(rows.position[e]), int(rows.previous[e]), int(rows.label[e])
            column = token.get((t, b)) if a == ANY else edge.get((t, a, b))
            if column is not None:
                terms[column] = terms.get(column, 0.0) + float(rows.coefficient[e])
        bound = float(rows.bound[r])
        if math.isinf(rows.weight[r]):
            bound += SLACK_TOLERANCE
        elif rows.weight[r] > 0:
            terms[programme.column(float(rows.weight[r]), upper=math.inf)] = -1.0
        else:
            continue
        programme.row(-math.inf, terms, bound)


def _agreements(programme: _Programme, problem: Problem, token: Tokens) -> None:
    spans = spans_of(problem)
    columns: dict[int, int] = {}

    def stands(i: int) -> int:
        if i not in columns:
            columns[i] = _stand(programme, spans[i], token)
        return columns[i]

    outside = [label for label, kind in enumerate(problem.labels.type_of.tolist()) if kind < 0]
    for agreement in problem.agreements:
        if agreement.relation is Relation.UNLABELLED:
            for i, t, cost in left_out_of(agreement, spans):
                left = {token[t, b]: 1.0 for b in outside if (t, b) in token}
                _together(programme, {stands(i): 1.0} | left, cost)
            continue
        for i, j, cost in pairs_of(agreement, spans):
            if all(need in token for need in (*spans[i].needs, *spans[j].needs)):
                _together(programme, {stands(i): 1.0, stands(j): 1.0}, cost)


def _stand(programme: _Programme, span: Span, token: Tokens) -> int:
    """A variable that is 1 where the labelling has the span, and costs nothing by itself."""
    column = programme.column()
    if all(need in token for need in span.needs):
        terms = {token[need]: -1.0 for need in span.needs} | {token[bar]: 1.0 for bar in span.bars if bar in token}
        programme.row(1.0 - len(span.needs), terms | {column: 1.0})
    return column


def _together(programme: _Programme, terms: Terms, cost: float) -> None:
    """Costs ``cost`` nats where two things of value 0 or 1 are both 1; forbids that where it is inf."""
    if math.isinf(cost):
        programme.row(-math.inf, terms, 1.0)
        return
    programme.row(-1.0, {column: -value for column, value in terms.items()} | {programme.column(cost): 1.0})
