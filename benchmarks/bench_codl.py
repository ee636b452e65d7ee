"""Learning on from citations without labels, with constraints and without (Chang, Ratinov & Roth 2008, table 1).

Token accuracy on Cora's 100 development citations of models learned from the first n of each of five random subsets of
25 training citations, or from all 300: alone (Viterbi), under 25 published rules weighed by `odds` on those n
(certify), and the same two after cycles of learning from the 1,000 citations of the pool, labelled by Viterbi or under
the constraints. Intervals are of a paired bootstrap over the development citations, the subsets added up. The paper
measured on another test part. Needs the real citations.

    python benchmarks/bench_codl.py                     # figures of each n and share γ: results/codl.json
    python benchmarks/bench_codl.py --tune              # γ by cross-validation on the n: results/codl_tuned.json
    python benchmarks/bench_codl.py --claim             # both with few against all 300 alone: results/codl_claim.json
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from common import known_figures, save
from problems import CORA, SIZES, SUBSETS, citations, subset

from concord.flows.training.codl_tuning import best_gamma, choose_gamma
from concord.schemas.codl import CodlSettings
from concord.schemas.document import Batch, Document
from concord.schemas.run import RunSettings
from concord.workers.constraints.declared import DeclaredConstraints
from concord.workers.corpus.readers.citations import read_citations
from concord.workers.corpus.settings import CitationSettings
from concord.workers.evaluation.bootstrap import paired_bootstraps
from concord.workers.evaluation.figures import recall
from concord.workers.evaluation.named_counts import Counts
from concord.workers.learning.little_gold.codl import Weights
from concord.workers.learning.little_gold.codl_learners import Learner, learner_of
from concord.workers.learning.trainers.trainer import gold_of
from concord.workers.sweeps.codl import CycleOutcome, label_here, learn_here

PUBLISHED = {
    5: (58.48, 70.85, 64.39, 77.09),
    10: (68.61, 75.11, 70.34, 81.25),
    20: (70.81, 81.31, 75.83, 85.00),
    300: (86.66, 94.08, 87.80, 94.51),
}
"""Accuracy in percent: alone, with constraints, semi-supervised, and both, of their hidden Markov model."""
COLUMNS = ("alone", "constrained", "semi-supervised", "codl")
TRAINING = 300
VITERBI, CERTIFY = RunSettings(engine="viterbi"), RunSettings(engine="certify")


def main() -> None:
    """Measures every size at every share γ of the first model, and adds it to what was measured before."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="+", type=int, default=[*SIZES, TRAINING])
    parser.add_argument("--gamma", nargs="+", type=float, default=[0.5, 0.7, 0.9])
    parser.add_argument("--tune", action="store_true", help="choose γ on the labelled citations instead")
    parser.add_argument(
        "--claim", action="store_true", help="compare what was measured with the model of all 300 alone"
    )
    parser.add_argument("--sample", type=int, default=100, help="tuning: citations of the pool")
    parser.add_argument("--subsets", type=int, default=len(SUBSETS), help="the first so many of them")
    parser.add_argument("--cycles", type=int, default=3)
    parser.add_argument("--engine", default="beam", help="what labels the pool under constraints, as in the paper")
    parser.add_argument("--trainer", default="hmm")
    parser.add_argument("--mixing", default="probabilities")
    parser.add_argument("--penalties", default="learned")
    parser.add_argument("--em", default="hard")
    parser.add_argument("--n-best", type=int, default=0)
    parser.add_argument("--name", default="codl")
    chosen = parser.parse_args()
    if not CORA.is_dir():
        raise SystemExit(f"{CORA}: not there; the table needs the real citations")
    if chosen.claim:
        save(f"{chosen.name}_claim", {"rows": against_all(chosen.name)})
        return
    names = ("cycles", "trainer", "mixing", "penalties", "em", "sample")
    settings = CodlSettings(**{name: getattr(chosen, name) for name in names}, labels=citations().model.labels.names)
    labelling = RunSettings(engine=chosen.engine, n_best=chosen.n_best)
    for size in chosen.sizes:
        if chosen.tune:
            add(f"{chosen.name}_tuned", tuned(size, chosen.subsets, settings, labelling))
        for gamma in [] if chosen.tune else chosen.gamma:
            row = measured(size, chosen.subsets, settings.model_copy(update={"gamma": gamma}), labelling)
            add(chosen.name, row | {"engine": chosen.engine, "n_best": chosen.n_best})


def add(name: str, row: dict[str, Any]) -> None:
    """Adds a row to the figures of a name, in the place of one with the same settings: nothing is lost by an end."""
    others = [
        old
        for old in known_figures(name).get("rows", [])
        if any(old.get(key) != row[key] for key in row if key in KEYS)
    ]
    print(line(row), flush=True)
    save(name, {"rows": sorted([*others, row], key=lambda r: [str(r.get(key)).rjust(20) for key in KEYS])})


KEYS = ("trainer", "citations", "gamma", "mixing", "penalties", "em", "n_best", "sample")
"""What tells rows apart."""


def parts_of(size: int, subsets: int) -> list[list[Document]]:
    """The labelled citations that are learned from, one part after the other."""
    return [citations().train] if size == TRAINING else [subset(k)[:size] for k in range(subsets)]


def unlabelled() -> list[Document]:
    """The pool."""
    read = read_citations(str(CORA / "citation_unlabeled.txt"), CitationSettings(gold=False))
    return [document for document in read if isinstance(document, Document)]


def measured(size: int, subsets: int, settings: CodlSettings, labelling: RunSettings) -> dict[str, Any]:
    """One row: accuracy in each column, and what is gained by going from one to another."""
    started, found, pool, dev = time.process_time(), citations(), unlabelled(), citations().dev
    counts = {name: np.zeros((len(dev), 1, 3), np.int64) for name in COLUMNS}
    moved = []
    for part in parts_of(size, subsets):
        learner = learner_of(part, pool, settings)
        weights = Weights.of(found.constraints, Batch.of(part), learner.labels, settings)
        first = CycleOutcome(learner.first, None, 1.0)
        counts["alone"] += right(learner, first, dev)
        counts["constrained"] += right(learner, first._replace(constraints=weights.begun()), dev)
        hard = replace(learner, settings=settings.model_copy(update={"em": "hard"}))
        counts["semi-supervised"] += right(learner, learn_here(hard, None, pool, VITERBI), dev)
        both = learn_here(learner, weights, pool, labelling)
        counts["codl"] += right(learner, both, dev)
        moved.append(100.0 * both.changed)
    return {
        **settings.model_dump(include={"trainer", "gamma", "mixing", "penalties", "em", "cycles"}),
        "citations": size,
        "published": PUBLISHED[size] if settings.trainer == "hmm" else None,
        "cpu_seconds": time.process_time() - started,
        **{name: 100.0 * float(recall(own.sum(axis=0))) for name, own in counts.items()},
        "changed": float(np.mean(moved)),
        "codl against constrained": gain(counts["constrained"], counts["codl"]),
        "codl against alone": gain(counts["alone"], counts["codl"]),
        "right": {name: own[:, 0, 2].tolist() for name, own in counts.items()},
        "tokens": [len(document) for document in dev],
        "parts": len(moved),
    }


def right(learner: Learner, found: CycleOutcome, dev: Sequence[Document]) -> Counts:
    """(D, 1, 3) tokens of each citation in gold, labelled, and right; certified under constraints."""
    engine = VITERBI if found.constraints is None else CERTIFY
    decoded = label_here(learner, found, Batch.of(dev), engine).decoded
    gold = [learner.labels.encode(gold_of(document)) for document in dev]
    hits = [int((answer.labels == own).sum()) for answer, own in zip(decoded, gold, strict=True)]
    return np.array([[[len(own), len(own), hit]] for own, hit in zip(gold, hits, strict=True)], np.int64)


def gain(base: Counts, other: Counts) -> list[float]:
    """Points of accuracy, and their interval of 95 %."""
    found = paired_bootstraps(base, other, {"accuracy": recall}, rng=np.random.default_rng(0))["accuracy"]
    return [100.0 * x for x in (found.difference, found.low, found.high)]


def against_all(name: str) -> list[dict[str, Any]]:
    """Points of accuracy of each row with few over the model of all, alone, and their interval."""
    rows = known_figures(name)["rows"]
    whole = next(row for row in rows if row["citations"] == TRAINING)
    found = []
    for row in rows:
        if row["citations"] < TRAINING:
            told = {key: row[key] for key in KEYS if key in row}
            base, few = (
                _counts(one, column) * times
                for one, column, times in ((whole, "alone", row["parts"]), (row, "codl", whole["parts"]))
            )
            found.append(told | {"codl against all alone": gain(base, few)})
            print(found[-1])
    return found


def _counts(row: dict[str, Any], column: str) -> Counts:
    """(D, 1, 3) what a row has counted."""
    tokens = np.array(row["tokens"]) * row["parts"]
    return np.stack([tokens, tokens, np.array(row["right"][column])], axis=1)[:, None]


def tuned(size: int, subsets: int, settings: CodlSettings, labelling: RunSettings) -> dict[str, Any]:
    """One row: the share that each part chooses by itself."""
    started, pool, bound = time.process_time(), unlabelled(), constraints()
    trials = [choose_gamma(part, pool, bound, settings, labelling) for part in parts_of(size, subsets)]
    return {
        "trainer": settings.trainer,
        "citations": size,
        "sample": settings.sample,
        "cpu_seconds": time.process_time() - started,
        "chosen": [best_gamma(own) for own in trials],
        "trials": [[trial.model_dump() for trial in own] for own in trials],
    }


def constraints() -> DeclaredConstraints:
    """Those of published tables."""
    return citations().constraints


def line(row: dict[str, Any]) -> str:
    """A row for people."""
    start = f"{row['trainer']} {row['citations']:>4}  {row['cpu_seconds']:.0f} CPU s"
    if "chosen" in row:
        return f"{start}  γ {row['chosen']}"
    shown = "  ".join(f"{name} {row[name]:.2f}" for name in COLUMNS)
    low, high = row["codl against constrained"][1:]
    return f"{start}  γ {row['gamma']}  {shown}  against constrained {low:+.2f} to {high:+.2f}"


if __name__ == "__main__":
    main()
