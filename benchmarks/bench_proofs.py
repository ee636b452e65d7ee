"""Random problems against independent referees: how many, of which kinds, and how many claims they disprove.

Documents of up to 7 tokens are enumerated; longer ones go to HiGHS (as a mixed integer programme) and, without soft
rows, to toulbar2 (as a cost function network) in turn. A referee's labelling is scored anew, and a claim is disproved
only by a labelling that scores more than it allows. Ends after ``--cpu-seconds``, those of HiGHS's process included,
or after ``--seconds`` of wall clock.

    python benchmarks/bench_proofs.py --cpu-seconds 600
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from typing import Any

import numpy as np
from common import ROOT, save

from schemas.decoded import Status
from schemas.labels import Labels
from schemas.problem import Problem
from workers.inference.core.engine import document_rng
from workers.inference.registry import SOLVERS

sys.path.insert(0, str(ROOT))  # the referees are part of the tests, which are not installed
from tests.oracle import MAX_LABELLINGS, enumerate_best
from tests.referees import network
from tests.referees.judge import disproof
from tests.referees.milp import Highs
from tests.referees.problems import SIZES, problem_of_kind, random_kind

SECONDS = 5
"""A referee's limit for one problem."""
SAID = 1000
"""Problems after which it says how far it is."""


def main() -> None:
    """Tries problems until the budget is spent, and saves the counts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cpu-seconds", type=float, default=120.0)
    parser.add_argument("--seconds", type=float, default=np.inf)
    parser.add_argument("--seed", type=int, default=0, help="the first problem's; each next one has the next")
    parser.add_argument("--engines", nargs="+", default=["certify", "cpsat"])
    parser.add_argument("--sizes", nargs="+", default=list(SIZES), choices=list(SIZES))
    parser.add_argument("--name", default="proofs", help="name of the file of results")
    chosen = parser.parse_args()
    tried, short, open_, wrong = Counter[str](), Counter[str](), Counter[str](), list[dict[str, Any]]()
    elsewhere, seed = 0.0, chosen.seed
    end = time.monotonic() + chosen.seconds
    with Highs() as highs:
        while time.process_time() + elsewhere < chosen.cpu_seconds and time.monotonic() < end:
            rng = np.random.default_rng(seed)
            kind = random_kind(rng, tuple(chosen.sizes))
            problem = problem_of_kind(rng, kind)
            name, labels, finished, cpu = judged_by(problem, seed, highs)
            elsewhere += cpu
            row = f"{kind.parts}, {kind.force}, {kind.size} tokens, {name}"
            tried[row] += 1
            short[row] += not finished
            for engine in chosen.engines:
                solver = SOLVERS[engine]
                answer = solver.solve(problem, config=solver.settings(), rng=document_rng(seed, engine))
                open_[engine] += answer.status not in (Status.OPTIMAL, Status.INFEASIBLE)
                if reason := disproof(problem, answer, labels):
                    wrong.append({"seed": seed, "kind": row, "engine": engine, "reason": reason})
                    print(wrong[-1], flush=True)
            seed += 1
            if (seed - chosen.seed) % SAID == 0:
                print(f"{seed - chosen.seed:,} problems, {len(wrong)} disproofs", flush=True)
    for row in sorted(tried):
        print(f"{tried[row]:8,}  {row}" + (f" ({short[row]} not finished by the referee)" if short[row] else ""))
    print(f"{sum(tried.values()):,} problems, {len(wrong)} disproofs; not proven: {dict(open_)}")
    save(
        chosen.name,
        {
            "engines": chosen.engines,
            "seeds": [chosen.seed, seed],
            "cpu_seconds": time.process_time() + elsewhere,
            "problems": dict(sorted(tried.items())),
            "not_finished_by_the_referee": {row: n for row, n in sorted(short.items()) if n},
            "not_proven_by_the_engine": dict(open_),
            "disproofs": wrong,
        },
    )


def judged_by(problem: Problem, seed: int, highs: Highs) -> tuple[str, Labels | None, bool, float]:
    """The referee's name, its labelling, whether it finished, and CPU seconds of another process."""
    if len(problem.labels) ** len(problem) <= MAX_LABELLINGS:
        labels, best = enumerate_best(problem)
        return "enumeration", labels if best > -np.inf else None, True, 0.0
    if seed % 2 and network.suits(problem):
        verdict = network.referee(problem, seconds=SECONDS)
        return "toulbar2", verdict.labels, verdict.finished, 0.0
    verdict = highs.referee(problem, seconds=SECONDS)
    return "HiGHS", verdict.labels, verdict.finished, verdict.cpu


if __name__ == "__main__":
    main()
