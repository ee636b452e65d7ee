"""Annealed Gibbs without constraints against Viterbi: Finkel, Grenager & Manning (2005), table 1.

Without constraints Viterbi is exact, so the sampler can only come near. One chain a seed, from a
random labelling, cooled linearly; `gibbs.solve` would never answer below Viterbi, so the chain's own
best labelling is measured.

    python benchmarks/bench_gibbs_vs_viterbi.py --sweeps 1000 --seeds 10
"""

from __future__ import annotations

import time
from dataclasses import replace

import common
import numpy as np
from problems import Task, news_task

from concord.schemas.labels import Labels
from concord.schemas.problem import LinearRows
from concord.workers.evaluation.conlleval import EntityCounts
from concord.workers.inference.core.chain import viterbi
from concord.workers.inference.core.engine import document_rng
from concord.workers.inference.sampling import gibbs
from concord.workers.inference.settings import GibbsSettings


def f1(task: Task, answers: list[Labels]) -> float:
    """Entity F1 in per cent."""
    counts = EntityCounts.empty()
    for problem, gold, labels in zip(task.problems, task.gold, answers, strict=True):
        counts += EntityCounts.of(gold, labels, task.labels, problem.potentials.sentence_starts)
    return 100.0 * counts.f1()


def main() -> None:
    """Prints and saves F1 by seed, mean and standard deviation."""
    parser = common.options(__doc__, features="rich")
    parser.add_argument("--sweeps", type=int, default=1000)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--temperature", type=float, default=1.0, help="of the first sweep; it falls linearly to 0")
    parser.add_argument("--documents", type=int, help="the first so many documents alone")
    options = parser.parse_args()
    task = news_task(options.model, options.corpus, documents=options.documents)
    alone = [replace(p, constraint_names=(), rows=LinearRows.none(), agreements=()) for p in task.problems]
    best = [viterbi(p.potentials) for p in alone]
    top = sum(p.potentials.score(y) for p, y in zip(alone, best, strict=True))
    config = GibbsSettings(sweeps=options.sweeps, chains=1, start="random", temperature=options.temperature)
    rows = []
    for seed in range(options.seeds):
        started = time.process_time()
        sampled = [
            gibbs.sample(p, config=config, rng=document_rng(seed, doc_id))[0].best
            for p, doc_id in zip(alone, task.doc_ids, strict=True)
        ]
        seconds = time.process_time() - started
        local = sum(p.potentials.score(y) for p, y in zip(alone, sampled, strict=True))
        same = sum(int((a == b).sum()) for a, b in zip(sampled, best, strict=True))
        rows.append(
            {
                "seed": seed,
                "f1": f1(task, sampled),
                "nats below Viterbi": top - local,
                "tokens that differ": task.tokens - same,
                "cpu seconds": seconds,
            }
        )
        print("seed {seed}: F1 {f1:.2f}, {nats below Viterbi:.2f} nats below Viterbi".format(**rows[-1]), flush=True)
    scores = np.array([row["f1"] for row in rows])
    common.save(
        "gibbs_vs_viterbi",
        {
            "corpus": task.name,
            "tokens": task.tokens,
            "sweeps": options.sweeps,
            "temperature of the first sweep": options.temperature,
            "F1 of Viterbi": f1(task, best),
            "F1 of Gibbs, mean": float(scores.mean()),
            "F1 of Gibbs, standard deviation": float(scores.std(ddof=1)) if len(scores) > 1 else 0.0,
            "cpu seconds a seed": float(np.mean([row["cpu seconds"] for row in rows])),
            "seeds": rows,
        },
    )


if __name__ == "__main__":
    main()
