"""The process that HiGHS has to itself: a problem a line of standard input, its solution a line of standard output.

python -m tests.support.referees.highs_process
"""

from __future__ import annotations

import time
from typing import Any

import highspy

from tests.support.referees.milp import Arrays
from tests.support.referees.served import Solution, serve


def solve(arrays: Arrays, seconds: float) -> Solution:
    """The solution or None, whether it is said to be optimal or infeasible, and CPU seconds."""
    began = time.process_time()
    model = highspy.HighsModel()
    lp = model.lp_
    lp.num_col_, lp.num_row_ = len(arrays.cost), len(arrays.low)
    lp.col_cost_, lp.col_lower_, lp.col_upper_ = arrays.cost, [0.0] * len(arrays.cost), arrays.upper
    lp.row_lower_, lp.row_upper_ = arrays.low, arrays.high
    kinds = (highspy.HighsVarType.kContinuous, highspy.HighsVarType.kInteger)
    lp.integrality_ = [kinds[i] for i in arrays.integer]
    lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    lp.a_matrix_.start_, lp.a_matrix_.index_, lp.a_matrix_.value_ = arrays.start, arrays.column, arrays.value
    highs: Any = highspy.Highs()  # type: ignore[no-untyped-call]
    options = {
        "output_flag": False,
        "threads": 1,
        "time_limit": seconds,
        "mip_rel_gap": 0.0,
        "mip_abs_gap": 1e-9,
        "primal_feasibility_tolerance": 1e-9,
    }
    for name, value in options.items():
        highs.setOptionValue(name, value)
    highs.passModel(model)
    highs.run()
    finished = highs.getModelStatus() in (highspy.HighsModelStatus.kOptimal, highspy.HighsModelStatus.kInfeasible)
    found = highs.getInfo().primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible
    return (list(highs.getSolution().col_value) if found else None), finished, time.process_time() - began


if __name__ == "__main__":
    serve(solve)
