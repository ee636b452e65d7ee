"""Tokens a second, and overhead, as a made-up corpus grows to 10 and to 100 times its size.

Every corpus goes through `concord reprocess` with one worker. The overhead of a shard is what the
workers' own clocks do not cover of the time they were at it, over the number of shards.

    python benchmarks/bench_growth.py --documents 100
"""

from __future__ import annotations

import os
import shutil
from typing import Any

from common import MADE, concord, draw, environment, figure, options, save, trained_model
from corpora import TRAINING, made_up

FEATURES = "finkel"
TIMES = (1, 10, 100)


def main() -> None:
    """Runs the three sizes and draws."""
    parser = options(__doc__, features=FEATURES)
    parser.add_argument("--documents", type=int, default=20, help="documents of the smallest corpus")
    parser.add_argument("--engine", default="certify")
    chosen = parser.parse_args()
    if chosen.corpus:
        parser.error("this benchmark makes its own corpora; give --documents")
    model = chosen.model or trained_model(FEATURES, made_up(TRAINING))
    rows: list[dict[str, Any]] = []
    for times in TIMES:
        corpus, out = made_up(chosen.documents * times, seed=2), MADE / "out" / f"growth-{times}"
        shutil.rmtree(out, ignore_errors=True)
        report = concord(
            "reprocess", "--corpus", corpus, "--model", model, "--out", out, "--engine", chosen.engine, "--workers", "1"
        )
        work = report["tokens"] / report["tokens_per_second"]
        rows.append(
            {
                "documents": report["documents"],
                "tokens": report["tokens"],
                "shards": report["shards_done"],
                "tokens_per_second": report["tokens_per_second"],
                "tokens_per_second_of_the_worker": report["tokens"] / worker_seconds(report["mlflow_run"]),
                "overhead_seconds": work - worker_seconds(report["mlflow_run"]),
                "seconds_before_and_after": report["seconds"] - work,
            }
        )
    first, last = rows[0], rows[-1]
    overhead = (last["overhead_seconds"] - first["overhead_seconds"]) / (last["shards"] - first["shards"])
    ratio = last["tokens_per_second_of_the_worker"] / first["tokens_per_second_of_the_worker"]
    save(
        "growth",
        {"engine": chosen.engine, "overhead_seconds_a_shard": overhead, "last_over_first": ratio, "sizes": rows},
    )
    picture = figure(4.5, 3.2)
    axes = picture.subplots()
    for name, label in (("tokens_per_second", "run"), ("tokens_per_second_of_the_worker", "worker alone")):
        axes.semilogx([row["tokens"] for row in rows], [row[name] for row in rows], "o-", label=label)
    axes.set(xlabel="tokens of the corpus", ylabel="tokens a second", ylim=(0, None))
    axes.legend(frameon=False)
    draw(picture, "growth")


def worker_seconds(run: str) -> float:
    """Seconds by the workers' own clocks, as the run tracked them."""
    os.environ |= environment()
    import mlflow

    from concord.flows.tracking.tracking import Tracking

    metrics = mlflow.MlflowClient(Tracking(None).uri).get_run(run).data.metrics
    return sum(value for name, value in metrics.items() if name.startswith("worker_seconds/"))


if __name__ == "__main__":
    main()
