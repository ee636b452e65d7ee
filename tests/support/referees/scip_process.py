"""The process that SCIP has to itself, as `highs_process` has: a problem a line, its solution a line.

python -m tests.support.referees.scip_process
"""

from __future__ import annotations

import time

from ortools.linear_solver import pywraplp

from tests.support.referees.milp import Arrays
from tests.support.referees.served import Solution, serve

PARAMETERS = "limits/gap = 0\nlimits/absgap = 0\nnumerics/feastol = 1e-9\nrandomization/randomseedshift = 1\n"


def solve(arrays: Arrays, seconds: float) -> Solution:
    """The solution or None, whether it is said to be optimal or infeasible, and CPU seconds."""
    began = time.process_time()
    solver = pywraplp.Solver.CreateSolver("SCIP")
    solver.SetTimeLimit(int(1000 * seconds))
    solver.SetSolverSpecificParametersAsString(PARAMETERS)
    columns = [
        solver.Var(0.0, upper, integer, f"x{i}")
        for i, (upper, integer) in enumerate(zip(arrays.upper, arrays.integer, strict=True))
    ]
    for low, high, first, last in zip(arrays.low, arrays.high, arrays.start, arrays.start[1:], strict=False):
        row = solver.Constraint(low, high)
        for entry in range(first, last):
            row.SetCoefficient(columns[arrays.column[entry]], arrays.value[entry])
    for column, cost in zip(columns, arrays.cost, strict=True):
        solver.Objective().SetCoefficient(column, cost)
    solver.Objective().SetMinimization()
    status = solver.Solve()
    finished = status in (pywraplp.Solver.OPTIMAL, pywraplp.Solver.INFEASIBLE)
    found = status in (pywraplp.Solver.OPTIMAL, pywraplp.Solver.FEASIBLE)
    return ([column.solution_value() for column in columns] if found else None), finished, time.process_time() - began


if __name__ == "__main__":
    serve(solve)
