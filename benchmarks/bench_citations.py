"""Citations: what constraints do for token accuracy, one by one; certificates and their cost; the path of τ.

A CRF of the feature set ``fields`` is trained on Cora's 300 training citations (or made-up ones) and
measured on the 100 development citations under ``infra/constraints/citations.yaml``.

    python benchmarks/bench_citations.py            # tables, docs/images/tau_path.png
    python benchmarks/bench_citations.py --count    # the counted weights, on the training citations alone
"""

from __future__ import annotations

import argparse
import itertools
import time
from typing import Any, NamedTuple

import common
import numpy as np
from problems import Citations, Task, citation_task, citations

from concord.schemas.decoded import Decoded, Status
from concord.schemas.document import Batch
from concord.workers.inference.core.engine import document_rng
from concord.workers.inference.registry import SOLVERS
from concord.workers.learning.weights.penalties import PENALTIES
from concord.workers.learning.weights.row_counts import count_rows

SHOWN = ("odds", "fersini")
TAUS = (1.0, 0.999, 0.998, 0.995, 0.99, 0.985, 0.98, 0.97, 0.96, 0.95, 0.9, 0.8, 0.5)


class Measured(NamedTuple):
    """Answers of one engine on all citations, and each one's milliseconds."""

    decoded: list[Decoded]
    milliseconds: list[float]

    def accuracy(self, task: Task) -> float:
        """Share of tokens with the right field."""
        right = sum(int((d.labels == g).sum()) for d, g in zip(self.decoded, task.gold, strict=True))
        return right / task.tokens


def decode(task: Task, engine: str, **options: Any) -> Measured:
    """All citations by one engine."""
    solver = SOLVERS[engine]
    config = solver.settings.model_validate(options)
    decoded, milliseconds = [], []
    for problem, doc_id in zip(task.problems, task.doc_ids, strict=True):
        started = time.perf_counter()
        decoded.append(solver.solve(problem, config=config, rng=document_rng(0, doc_id)))
        milliseconds.append(1000.0 * (time.perf_counter() - started))
    return Measured(decoded, milliseconds)


def ablation(found: Citations, full: float) -> list[dict[str, Any]]:
    """Accuracy without each constraint, and with it alone."""
    rows = []
    for title in found.constraints.titles:
        without, alone = (
            citation_task(found, part) for part in (found.constraints.without(title), found.constraints.only([title]))
        )
        accuracies = [decode(task, "certify").accuracy(task) for task in (without, alone)]
        rows.append(
            {"constraint": title, "without": accuracies[0], "lost": full - accuracies[0], "alone": accuracies[1]}
        )
    return rows


def tau_path(task: Task) -> list[dict[str, float]]:
    """Penalty, local score and accuracy of two-stage inference, from Viterbi (τ = 1) down."""
    rows = []
    for tau in TAUS:
        measured = decode(task, "two-stage", tau=tau)
        rows.append(
            {
                "tau": tau,
                "penalty": sum(d.penalty for d in measured.decoded),
                "local": sum(d.local for d in measured.decoded),
                "accuracy": measured.accuracy(task),
                "unfinished": sum(d.status is Status.TIMEOUT for d in measured.decoded),
                "seconds": sum(measured.milliseconds) / 1000.0,
            }
        )
        row = "tau {tau:.3f}: penalty {penalty:8.2f}, local {local:9.2f}, accuracy {accuracy:.4f}, {seconds:.1f} s"
        print(row.format(**rows[-1]))
    return rows


def draw_path(rows: list[dict[str, float]], certified: float, name: str) -> None:
    """Penalty and accuracy against 1 − τ."""
    picture = common.figure(6.5, 3.2)
    left = picture.subplots()
    at = np.arange(len(rows))
    left.plot(at, [r["penalty"] for r in rows], "o-", color="#4477aa")
    left.set(xlabel="τ", ylabel="penalty of all citations, nats", title=f"two-stage inference, {name}")
    left.set_xticks(at, [f"{r['tau']:g}" for r in rows])
    right = left.twinx()
    right.spines["right"].set_visible(True)
    right.plot(at, [100 * r["accuracy"] for r in rows], "s--", color="#ee6677")
    right.axhline(100 * certified, color="#ee6677", lw=0.8, ls=":")
    right.set_ylabel("token accuracy, % (dotted: certify)", color="#ee6677")
    common.draw(picture, "tau_path")


def main() -> None:
    """Prints and saves all figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", action="store_true", help="print the weights counted on the training citations")
    options = parser.parse_args()
    found = citations()
    if options.count:
        for title, counts in count_rows(found.constraints, [Batch.of(found.train)], found.model.labels).items():
            weights = "  ".join(
                f"{name} {counts.weight(PENALTIES[name], PENALTIES[name].settings()):5.2f}" for name in SHOWN
            )
            print(f"{title:28}{counts.rows:>7} rows {counts.vacuous:>6} vacuous {counts.broken:>4} broken  {weights}")
        return
    task = citation_task(found)
    decode(task, "certify")  # compiles the kernels
    viterbi, certify = decode(task, "viterbi"), decode(task, "certify")
    accuracy = certify.accuracy(task)
    rows = ablation(found, accuracy)
    for row in rows:
        print("{constraint:28} without {without:.4f} ({lost:+.4f} lost)  alone {alone:.4f}".format(**row))
    path = tau_path(task)
    exact = [
        (v.labels == d.labels).all()
        for v, d in zip(viterbi.decoded, decode(task, "two-stage", tau=1.0).decoded, strict=True)
    ]
    draw_path(path, accuracy, task.name)
    penalties = [row["penalty"] for row in path]
    common.save(
        "citations",
        {
            "corpus": task.name,
            "citations": len(task.problems),
            "tokens": task.tokens,
            "constraints": len(found.constraints.names),
            "accuracy without constraints": viterbi.accuracy(task),
            "accuracy with constraints": accuracy,
            "certified": sum(d.certified for d in certify.decoded),
            "milliseconds a citation, median": float(np.median(certify.milliseconds)),
            "milliseconds a citation, mean": float(np.mean(certify.milliseconds)),
            "milliseconds a citation, largest": max(certify.milliseconds),
            "two-stage at tau 1 equals Viterbi": sum(map(bool, exact)),
            "penalty never rises as tau falls": all(b <= a + 1e-6 for a, b in itertools.pairwise(penalties)),
            "ablation": rows,
            "tau path": path,
        },
    )


if __name__ == "__main__":
    main()
