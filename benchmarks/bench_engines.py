"""Every engine under one objective: how far from the certified optimum, how soon, and how fast.

Stokman (2011) could not say how far his anytime searches stay from the optimum. Here `certify` proves
it first; every engine then gets 800 ms a document with his parameters (table 6, the defaults), and
its improvements are compared with the proof. Citations: Cora dev under the rules of published tables;
news: testa under trained label consistency. All clocks here count CPU seconds of one core, so that other
work on the machine takes nothing from an engine; only CP-SAT's own clock, in `cpsat` and `two-stage`, is the wall's.

    python benchmarks/bench_engines.py --model models/news --corpus corpora/testa
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple
from unittest.mock import patch

import common
import numpy as np
from numpy.typing import NDArray
from problems import Task, citation_task, citations, news_task

from concord.schemas.decoded import Budget, Decoded, Improvement
from concord.workers.inference.core.chain import viterbi
from concord.workers.inference.core.engine import document_rng
from concord.workers.inference.registry import SOLVERS

RESULT = "engines"
TASKS = ("citations", "news")
ENGINES = [engine for engine in SOLVERS if engine != "ilp"]
"""`ilp` is `cpsat`."""
NOT_RACED = ("two-stage",)
"""It has an objective of its own."""
ENDS = ("viterbi", "constrained-viterbi", "gibbs", "certify")
WARM = 3
"""Documents that every engine labels before it is timed: its kernels are loaded then."""
CLOSE = 1e-6
TIMES = np.geomspace(1e-4, 0.8, 60)
COLOURS = ("#4477aa", "#66ccee", "#228833", "#ccbb44", "#ee6677", "#aa3377", "#bbbbbb", "#000000", "#999933", "#882255")


class Race(NamedTuple):
    """One engine on all documents of a task: its answers, and gaps (D, times) in nats to the optimum."""

    decoded: list[Decoded]
    gaps: NDArray[np.float64]
    cpu_seconds: float


def certified(task: Task) -> list[Decoded]:
    """The reference: certify without a clock."""
    solver = SOLVERS["certify"]
    return [
        solver.solve(p, config=solver.settings(), rng=document_rng(0, doc_id))
        for p, doc_id in zip(task.problems, task.doc_ids, strict=True)
    ]


def race(task: Task, engine: str, best: list[float], *, seconds: float | None) -> Race:
    """One engine on all documents, ``seconds`` each (None: the engine's own limits)."""
    solver = SOLVERS[engine]
    config = solver.settings()
    costly = (p for p in task.problems if p.score(viterbi(p.potentials)).penalty > 0)
    for problem in itertools.islice(costly, WARM):
        solver.solve(problem, config=config, rng=document_rng(0, "warm"), budget=Budget(work=10))
    decoded, gaps, cpu = [], [], 0.0
    for problem, doc_id, top in zip(task.problems, task.doc_ids, best, strict=True):
        started = time.process_time()
        answer = solver.solve(problem, config=config, rng=document_rng(0, doc_id), budget=Budget(seconds=seconds))
        cpu += time.process_time() - started
        decoded.append(answer)
        final = Improvement(answer.seconds, answer.work, answer.objective)
        gaps.append(curve((*answer.improvements, final), top))
    return Race(decoded, np.array(gaps), cpu)


def curve(improvements: tuple[Improvement, ...], best: float) -> NDArray[np.float64]:
    """(times,) nats below the optimum of the best labelling known at each of `TIMES`; inf before the first."""
    gap = np.full(len(TIMES), np.inf)
    for step in improvements:
        late = step.seconds <= TIMES
        gap[late] = np.minimum(gap[late], best - step.objective)
    floored: NDArray[np.float64] = np.maximum(gap, 0.0)
    return floored


def anytime(
    task: Task, best: list[float], proven: list[bool], *, engines: Sequence[str], seconds: float
) -> dict[str, Any]:
    """Table of the engines within the clock, and their curves."""
    print(f"\n{task.name}: {len(task.problems)} documents, {sum(proven)} proven; {seconds * 1000:.0f} ms a document")
    print(f"{'engine':22}{'optimum':>9}{'mean gap':>10}{'largest':>10}{'proves':>8}{'ms, mean':>10}")
    rows: dict[str, Any] = {}
    for engine in engines:
        if engine in NOT_RACED:
            continue
        run = race(task, engine, best, seconds=seconds)
        gaps = np.array([max(0.0, top - d.objective) for top, d in zip(best, run.decoded, strict=True)])
        finite = gaps[np.isfinite(gaps)]
        rows[engine] = {
            "optimum": float((gaps <= CLOSE).mean()),
            "mean gap": float(finite.mean()),
            "largest gap": float(gaps.max()),
            "proves": float(np.mean([d.certified for d in run.decoded])),
            "milliseconds, mean": 1000 * float(np.mean([d.seconds for d in run.decoded])),
            "tokens per second": task.tokens / run.cpu_seconds,
            "mean gap at times": np.where(np.isfinite(run.gaps), run.gaps, np.nan).mean(axis=0).tolist(),
            "optimum at times": (run.gaps <= CLOSE).mean(axis=0).tolist(),
        }
        print(
            f"{engine:22}{rows[engine]['optimum']:>9.1%}{rows[engine]['mean gap']:>10.3f}"
            f"{rows[engine]['largest gap']:>10.2f}{rows[engine]['proves']:>8.1%}"
            f"{rows[engine]['milliseconds, mean']:>10.1f}",
            flush=True,
        )
    return rows


def throughput(
    task: Task, short: Task, raced: dict[str, Any], *, engines: Sequence[str], seconds: float
) -> dict[str, Any]:
    """Tokens a CPU second of each engine, and what grounding takes of certify's time.

    Engines that end by themselves run over all documents without a clock; the others' figure is
    that of the race, in which the clock ends most documents.
    """
    print(f"\n{task.name}: tokens a second on one core")
    rows: dict[str, Any] = {}
    for engine in engines:
        if engine in ENDS:
            run = race(task, engine, [np.inf] * len(task.problems), seconds=None)
            rows[engine] = {"tokens per second": task.tokens / run.cpu_seconds, "clock": None}
        elif engine == "two-stage":
            run = race(short, engine, [np.inf] * len(short.problems), seconds=seconds)
            rows[engine] = {"tokens per second": short.tokens / run.cpu_seconds, "clock": seconds}
        else:
            rows[engine] = {"tokens per second": raced[engine]["tokens per second"], "clock": seconds}
        if engine == "certify":
            rows["grounding"] = grounding(task, run.cpu_seconds)
        note = "" if rows[engine]["clock"] is None else f"  (clock: {1000 * seconds:.0f} ms a document)"
        print(f"{engine:22}{rows[engine]['tokens per second']:>14,.0f}{note}", flush=True)
    return rows


def grounding(task: Task, certify: float) -> dict[str, float]:
    """What grounding alone takes, and its share of the CPU seconds that `certify` took."""
    spent = task.ground_seconds
    print(f"{'grounding alone':22}{task.tokens / spent:>14,.0f}  ({spent / certify:.0%} of certify's time)")
    return {
        "tokens per second": task.tokens / spent,
        "share of certify": spent / certify,
        "milliseconds a document": 1000 * spent / len(task.problems),
    }


def draw(tables: dict[str, dict[str, Any]]) -> None:
    """Gap against time, and share of documents at the optimum, one row a task."""
    picture = common.figure(10.0, 3.4 * len(tables))
    grid = picture.subplots(len(tables), 2, squeeze=False)
    for (left, right), (name, rows) in zip(grid, tables.items(), strict=True):
        for (engine, row), colour in zip(rows.items(), COLOURS * 2, strict=False):
            style = "-" if list(rows).index(engine) < len(COLOURS) else "--"
            left.plot(1000 * TIMES, row["mean gap at times"], style, color=colour, lw=1.3)
            share = 100 * np.array(row["optimum at times"])
            right.plot(1000 * TIMES, share, style, color=colour, label=engine, lw=1.3)
        left.set(
            xscale="log",
            yscale="symlog",
            xlabel="CPU ms a document",
            ylabel="mean gap to the optimum, nats",
            title=name,
        )
        left.set_yscale("symlog", linthresh=0.01)
        left.set_ylim(bottom=0.0)
        right.set(xscale="log", xlabel="CPU ms a document", ylabel="documents at the optimum, %", ylim=(0, 102))
    grid[0][1].legend(frameon=False, fontsize=7, ncols=2, loc="lower right")
    common.draw(picture, "anytime")


def main() -> None:
    """Prints and saves the tables and draws the picture."""
    parser = common.options(__doc__, features="rich")
    parser.add_argument("--news", type=int, help="news documents of the race, the first of the corpus; all by default")
    parser.add_argument("--seconds", type=float, default=0.8, help="clock of a document")
    parser.add_argument("--only", choices=TASKS, help="measure one of the two tasks, and keep the figures of the other")
    parser.add_argument(
        "--engine", action="append", choices=ENGINES, help="measure these engines alone, and keep the others' figures"
    )
    options = parser.parse_args()
    makers: dict[str, Callable[[], Task]] = {
        "citations": lambda: citation_task(citations()),
        "news": lambda: news_task(options.model, options.corpus),
    }
    figures = earlier() if options.only or options.engine else {}
    for kind, make in makers.items():
        if options.only not in (None, kind):
            continue
        task = make()
        most = options.news if kind == "news" else None
        short = task._replace(problems=task.problems[:most], doc_ids=task.doc_ids[:most], gold=task.gold[:most])
        part = measured(task, short, engines=options.engine or ENGINES, seconds=options.seconds)
        for table in ("anytime", "throughput") if options.engine and kind in figures else ():
            part[table] = figures[kind][table] | part[table]
        figures[kind] = part
    draw({part["corpus"]: part["anytime"] for part in figures.values()})
    common.save(RESULT, figures)


def measured(task: Task, short: Task, *, engines: Sequence[str], seconds: float) -> dict[str, Any]:
    """The race on the documents of ``short`` and the throughput on all, with the machine's load around them."""
    before = os.getloadavg()
    reference = certified(short)
    best, proven = [d.objective for d in reference], [d.certified for d in reference]
    with patch("time.perf_counter", time.process_time):
        raced = anytime(short, best, proven, engines=engines, seconds=seconds)
        rates = throughput(task, short, raced, engines=engines, seconds=seconds)
    return {
        "corpus": task.name,
        "documents": len(task.problems),
        "documents of the race": len(short.problems),
        "proven": sum(proven),
        "seconds": seconds,
        "load before and after": [before, os.getloadavg()],
        "anytime": raced,
        "throughput": rates,
    }


def earlier() -> dict[str, Any]:
    """The figures of the last run, of which a part is measured again; none where there was no run."""
    saved = common.known_figures(RESULT)
    return {kind: saved[kind] for kind in TASKS if kind in saved}


if __name__ == "__main__":
    main()
