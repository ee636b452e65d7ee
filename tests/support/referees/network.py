"""toulbar2 as a referee: `schemas/problem.py` as a cost function network.

A variable for each token, whose values are its labels; a Boolean for each span that can cost something and for each
edge that a row names; rows in integers, with a slack of bits. Costs are kept to six decimals, and a soft row's slack
to a millionth of its range, so nothing is believed of the answer but the labelling, which is scored anew.
"""

from __future__ import annotations

import itertools
import math
import time

import numpy as np
import pytoulbar2

from concord.schemas.problem import ANY, SLACK_TOLERANCE, Problem, Relation
from tests.support.referees.milp import Verdict
from tests.support.referees.pairs import Span, left_out_of, pairs_of, spans_of

DECIMALS = 6
UNITS = 2**30
"""Integers in which a row's coefficients and bound are written."""
SLACK_BITS = 20


def suits(problem: Problem) -> bool:
    """Are all rows hard? Soft rows of real coefficients make a search over the bits of their slacks."""
    return bool((np.isinf(problem.rows.weight) | (problem.rows.weight == 0)).all())


def referee(problem: Problem, *, seconds: int = 10) -> Verdict:
    """What toulbar2 makes of a problem within ``seconds`` of CPU."""
    began = time.process_time()
    network = pytoulbar2.CFN(resolution=DECIMALS)
    for t in range(len(problem)):
        network.AddVariable(f"y{t}", range(len(problem.labels)))
    _chain(network, problem)
    _rows(network, problem)
    _agreements(network, problem)
    try:
        answer = network.Solve(timeLimit=seconds)
    except network.SolverOut:
        return Verdict(None, False, time.process_time() - began)
    cpu = time.process_time() - began
    if answer is None:
        return Verdict(None, True, cpu)
    labels = np.array(answer[0][: len(problem)], np.int32)
    # Now and then a variable of its answer has no value (the largest integer): that is no labelling.
    whole = bool((labels < len(problem.labels)).all())
    return Verdict(labels if whole else None, whole, cpu)


def _chain(network: pytoulbar2.CFN, problem: Problem) -> None:
    p, starts = problem.potentials, set(problem.potentials.sentence_starts.tolist())
    step = [float(-v) for v in p.transition.ravel()]
    for t in range(len(p)):
        network.AddFunction([f"y{t}"], [float(-v) for v in p.unary[t]])
        if t not in starts:
            network.AddFunction([f"y{t - 1}", f"y{t}"], step)


def _rows(network: pytoulbar2.CFN, problem: Problem) -> None:
    rows, edges = problem.rows, set()
    for r in range(len(rows)):
        weight, bound = float(rows.weight[r]), float(rows.bound[r])
        if weight == 0:
            continue
        terms: dict[tuple[str, int], float] = {}
        for e in range(int(rows.pointer[r]), int(rows.pointer[r + 1])):
            t, a, b = int(rows.position[e]), int(rows.previous[e]), int(rows.label[e])
            where = (f"y{t}", b) if a == ANY else (f"e{t}_{a}_{b}", 1)
            if a != ANY and where not in edges:
                edges.add(where)
                _edge(network, problem, t, a, b)
            terms[where] = terms.get(where, 0.0) + float(rows.coefficient[e])
        most = sum(max(0.0, c) for c in terms.values())
        if most <= bound + SLACK_TOLERANCE:
            continue
        unit = max(1.0, most, abs(bound)) / UNITS
        whole = [(name, value, math.floor(c / unit)) for (name, value), c in terms.items()]
        if not math.isinf(weight):
            whole += _slack(network, f"s{r}", (most - bound) / unit, weight * unit)
        limit = math.ceil((bound + SLACK_TOLERANCE) / unit)
        network.AddGeneralizedLinearConstraint(whole, "<=", limit)


def _edge(network: pytoulbar2.CFN, problem: Problem, t: int, a: int, b: int) -> None:
    """A Boolean that is 1 just where the labels before and at t are a and b."""
    name, width = f"e{t}_{a}_{b}", len(problem.labels)
    network.AddVariable(name, range(2))
    wrong = [
        0.0 if held == ((x, y) == (a, b)) else math.inf
        for x, y, held in itertools.product(range(width), range(width), (0, 1))
    ]
    network.AddFunction([f"y{t - 1}", f"y{t}", name], wrong)


def _slack(network: pytoulbar2.CFN, name: str, most: float, cost: float) -> list[tuple[str, int, int]]:
    """Bits that together reach ``most`` units and cost ``cost`` nats a unit."""
    step = max(1, math.ceil(most / 2**SLACK_BITS))
    bits = max(1, math.ceil(math.log2(most / step + 1)))
    for bit in range(bits):
        network.AddVariable(f"{name}_{bit}", range(2))
        network.AddFunction([f"{name}_{bit}"], [0.0, cost * step * 2**bit])
    return [(f"{name}_{bit}", 1, -step * 2**bit) for bit in range(bits)]


def _agreements(network: pytoulbar2.CFN, problem: Problem) -> None:
    spans = spans_of(problem)
    made: set[int] = set()

    def stands(i: int) -> str:
        if i not in made:
            made.add(i)
            _stand(network, problem, spans[i], f"z{i}")
        return f"z{i}"

    inside = [kind >= 0 for kind in problem.labels.type_of.tolist()]
    for agreement in problem.agreements:
        if agreement.relation is Relation.UNLABELLED:
            for i, t, cost in left_out_of(agreement, spans):
                costs = [0.0] * len(inside) + [0.0 if labelled else cost for labelled in inside]
                network.AddFunction([stands(i), f"y{t}"], costs)
            continue
        for i, j, cost in pairs_of(agreement, spans):
            network.AddFunction([stands(i), stands(j)], [0.0, 0.0, 0.0, cost])


def _stand(network: pytoulbar2.CFN, problem: Problem, span: Span, name: str) -> None:
    """A Boolean that may be 0 only where the labelling does not have the span."""
    network.AddVariable(name, range(2))
    width = len(problem.labels)
    others = [[label for label in range(width) if label != bar] for _, bar in span.bars]
    needed = [label for _, label in span.needs]
    tuples = [[*needed, *ends, 0] for ends in itertools.product(*others)]
    scope = [f"y{t}" for t, _ in (*span.needs, *span.bars)]
    network.AddCompactFunction([*scope, name], 0.0, tuples, [math.inf] * len(tuples))
