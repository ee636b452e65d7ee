"""Random problems against independent referees: how many, of which kinds, and how many claims they disprove.

Documents of up to 7 tokens are enumerated; longer ones go to HiGHS (as a mixed integer programme) and, without soft
rows, to toulbar2 (as a cost function network) in turn. A referee's labelling is scored anew, and a claim is disproved
only by a labelling that scores more than it allows. Ends after ``--cpu-seconds``, those of HiGHS's process included,
or after ``--seconds`` of wall clock.

    python benchmarks/bench_proofs.py --cpu-seconds 600
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import numpy as np
from common import ROOT, save

from concord.schemas.labels import Labels
from concord.schemas.problem import Problem
from concord.workers.inference.core.engine import document_rng
from concord.workers.inference.registry import SOLVERS

sys.path.insert(0, str(ROOT))  # the referees are part of the tests, which are not installed
from concord.testing.problems import MAX_LABELLINGS, enumerate_best
from tests.support.referees import network
from tests.support.referees.judge import disproof
from tests.support.referees.milp import Highs
from tests.support.referees.problems import SIZES, problem_of_kind, random_kind

SECONDS = 5
"""A referee's limit for one problem."""
SAID = 1000
"""Problems after which it says how far it is."""
BLOCK = 2000
"""Problems of one process."""
DIED = "a process died of it"
"""In the place of a kind: a referee's fault, most often, and a problem that says nothing."""


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
    counts, end = Counts(), time.monotonic() + chosen.seconds
    for found in every_problem(chosen.seed, tuple(chosen.sizes), chosen.engines):
        counts.add(found)
        if sum(counts.tried.values()) % SAID == 0:
            counts.say()
        if counts.cpu >= chosen.cpu_seconds or time.monotonic() >= end:
            break
    for row, n in sorted(counts.tried.items()):
        print(f"{n:8,}  {row}" + (f" ({counts.short[row]} not finished by the referee)" if counts.short[row] else ""))
    for status, n in sorted(counts.statuses.items()):
        print(f"{n:8,}  {status}")
    counts.say()
    save(
        chosen.name,
        {
            "engines": chosen.engines,
            "seeds": [chosen.seed, chosen.seed + sum(counts.tried.values())],
            "cpu_seconds": counts.cpu,
            "problems": dict(sorted(counts.tried.items())),
            "not_finished_by_the_referee": {row: n for row, n in sorted(counts.short.items()) if n},
            "statuses": dict(sorted(counts.statuses.items())),
            "disproofs": counts.wrong,
        },
    )


class Found(NamedTuple):
    """What came of one problem; ``cpu`` seconds of all that was done for it."""

    row: str
    finished: bool
    statuses: tuple[str, ...]
    wrong: tuple[dict[str, Any], ...]
    cpu: float


@dataclass
class Counts:
    """What came of all problems so far."""

    tried: Counter[str] = field(default_factory=Counter)
    short: Counter[str] = field(default_factory=Counter)
    statuses: Counter[str] = field(default_factory=Counter)
    wrong: list[dict[str, Any]] = field(default_factory=list)
    cpu: float = 0.0

    def add(self, found: Found) -> None:
        """Counts one more."""
        self.tried[found.row] += 1
        self.short[found.row] += not found.finished
        self.statuses.update(found.statuses)
        self.wrong += found.wrong
        self.cpu += found.cpu
        for wrong in found.wrong:
            print(wrong, flush=True)

    def say(self) -> None:
        """How many there were."""
        every = sum(self.tried.values())
        print(f"{every:,} problems, {len(self.wrong)} disproofs", flush=True)


def every_problem(seed: int, sizes: tuple[str, ...], engines: Sequence[str]) -> Iterator[Found]:
    """Problems from ``seed`` on, tried in processes that may die: compiled referees now and then do."""
    context = multiprocessing.get_context("fork")
    while True:
        here, there = context.Pipe(duplex=False)
        process = context.Process(target=try_block, args=(there, seed, sizes, engines), daemon=True)
        process.start()
        there.close()
        first = seed
        try:
            while True:
                yield here.recv()
                seed += 1
        except EOFError:
            process.join()
        finally:
            process.terminate()
        if seed < first + BLOCK:
            yield Found(DIED, finished=False, statuses=(), wrong=(), cpu=0.0)
            seed += 1


def try_block(there: Connection, seed: int, sizes: tuple[str, ...], engines: Sequence[str]) -> None:
    """Sends what comes of the next `BLOCK` problems, one by one."""
    with Highs() as highs:
        for number in range(seed, seed + BLOCK):
            there.send(try_problem(number, sizes, engines, highs))


def try_problem(seed: int, sizes: tuple[str, ...], engines: Sequence[str], highs: Highs) -> Found:
    """The problem of a seed by a referee and by all engines."""
    began, rng = time.process_time(), np.random.default_rng(seed)
    kind = random_kind(rng, sizes)
    problem = problem_of_kind(rng, kind)
    name, labels, finished, elsewhere = judged_by(problem, seed, highs)
    row = f"{kind.parts}, {kind.force}, {kind.size} tokens, {name}"
    statuses, wrong = [], []
    for engine in engines:
        solver = SOLVERS[engine]
        answer = solver.solve(problem, config=solver.settings(), rng=document_rng(seed, engine))
        statuses.append(f"{engine}: {answer.status}")
        if reason := disproof(problem, answer, labels):
            wrong.append({"seed": seed, "kind": row, "engine": engine, "reason": reason})
    return Found(row, finished, tuple(statuses), tuple(wrong), time.process_time() - began + elsewhere)


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
