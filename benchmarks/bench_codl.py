"""Learning on from citations without labels, with constraints and without (Chang, Ratinov & Roth 2008, table 1).

Token accuracy on Cora's 100 development citations of hidden Markov models learned from the first n of each of five
random subsets of 25 training citations, or from all 300: alone (Viterbi), under the shipped constraints weighed by
`odds` on those n (certify), and the same two after cycles of learning from the 1,000 citations of the pool, labelled by
Viterbi or under the constraints. The paper measured on another test part. Needs the real citations.

    python benchmarks/bench_codl.py
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from bench_citations import decode
from bench_little_gold import SIZES, SUBSETS, subset
from common import save
from problems import CORA, Citations, Task, citation_task, citations

from schemas.codl import CodlSettings
from schemas.document import Batch, Column, Document
from schemas.settings import CitationSettings
from workers.constraints.constraint_set import Unconstrained, build_problems
from workers.constraints.declared import DeclaredConstraints
from workers.corpus.readers.citations import read_citations
from workers.learning.codl import Learner, Weights, changed
from workers.models.hmm import HmmModel, Tables

PUBLISHED = {
    5: (58.48, 70.85, 64.39, 77.09),
    10: (68.61, 75.11, 70.34, 81.25),
    20: (70.81, 81.31, 75.83, 85.00),
    300: (86.66, 94.08, 87.80, 94.51),
}
"""Accuracy in percent: alone, with constraints, semi-supervised, and both."""


def main() -> None:
    """Measures every size at every share γ of the first model."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gamma", nargs="+", type=float, default=[0.5, 0.7, 0.9])
    parser.add_argument("--cycles", type=int, default=3)
    parser.add_argument("--engine", default="beam", help="what labels the pool under constraints, as in the paper")
    parser.add_argument("--mixing", default="probabilities")
    parser.add_argument("--penalties", default="learned")
    parser.add_argument("--name", default="codl")
    chosen = parser.parse_args()
    if not CORA.is_dir():
        raise SystemExit(f"{CORA}: not there; the table needs the real citations")
    found = citations()
    pool = _read("citation_unlabeled.txt")
    rows = []
    for size in (*SIZES, len(found.train)):
        parts = [found.train] if size > max(SIZES) else [subset(k)[:size] for k in SUBSETS]
        for gamma in chosen.gamma:
            settings = CodlSettings(
                gamma=gamma,
                labels=found.model.labels.names,
                mixing=chosen.mixing,
                penalties=chosen.penalties,
                cycles=chosen.cycles,
            )
            started = time.process_time()
            measured = [_measured(found, part, pool, settings, chosen.engine) for part in parts]
            row = {name: 100.0 * float(np.mean([m[name] for m in measured])) for name in measured[0]}
            cpu = time.process_time() - started
            rows.append({"citations": size, "gamma": gamma, "published": PUBLISHED[size], "cpu_seconds": cpu} | row)
            print(_line(rows[-1]), flush=True)
    save(chosen.name, {"engine": chosen.engine, "mixing": chosen.mixing, "penalties": chosen.penalties, "rows": rows})


def _read(name: str) -> list[Document]:
    settings = CitationSettings(gold=False)
    return [d for d in read_citations(str(CORA / name), settings) if isinstance(d, Document)]


def _measured(
    found: Citations, train: Sequence[Document], pool: Sequence[Document], settings: CodlSettings, engine: str
) -> dict[str, float]:
    """Shares of development tokens that are right, and of the pool's labels that changed in the last cycle."""
    learner = Learner.of(train, pool, settings)
    weights = Weights.of(found.constraints, Batch.of(train), learner.labels, settings)
    row = {
        "alone": _accuracy(found, learner, learner.first, None),
        "constrained": _accuracy(found, learner, learner.first, weights.begun()),
    }
    tables, _, _ = _cycles(learner, None, pool, "viterbi")
    row["semi-supervised"] = _accuracy(found, learner, tables, None)
    tables, constraints, moved = _cycles(learner, weights, pool, engine)
    return row | {"codl": _accuracy(found, learner, tables, constraints), "changed": moved}


def _cycles(
    learner: Learner, weights: Weights | None, pool: Sequence[Document], engine: str
) -> tuple[Tables, DeclaredConstraints | None, float]:
    """Model, constraints, and how much the labels still changed after the last cycle, at most `CodlSettings.cycles`."""
    batch, tables, constraints = Batch.of(pool), learner.first, None if weights is None else weights.begun()
    before, moved = None, 1.0
    for _ in range(learner.settings.cycles):
        answers = decode(_pool(learner, tables, constraints, batch), engine).decoded
        labels = np.concatenate([answer.labels for answer in answers])
        tables = learner.learned([labels])
        if weights is not None:
            column = Column(labels.astype(np.int32), learner.labels.names)
            constraints = weights.learned(_with_labels(batch, column), learner.labels)
        moved = 1.0 if before is None else changed(before, labels)
        if moved < learner.settings.change:
            break
        before = labels
    return tables, constraints, moved


def _with_labels(batch: Batch, labels: Column) -> Batch:
    return Batch(batch.doc_ids, batch.doc_starts, batch.sentence_starts, batch.columns, labels=labels)


def _accuracy(found: Citations, learner: Learner, tables: Tables, constraints: DeclaredConstraints | None) -> float:
    task = citation_task(found._replace(model=_model(learner, tables)), constraints or Unconstrained())
    return decode(task, "viterbi" if constraints is None else "certify").accuracy(task)


def _pool(learner: Learner, tables: Tables, constraints: DeclaredConstraints | None, pool: Batch) -> Task:
    """The pool as a task without gold."""
    model = _model(learner, tables)
    problems = list(build_problems(pool, model.potentials(pool), model.labels, constraints or Unconstrained()))
    return Task("pool", problems, list(pool.doc_ids), [], model.labels, 0.0, 0.0)


def _model(learner: Learner, tables: Tables) -> HmmModel:
    with tempfile.TemporaryDirectory() as folder:
        return learner.save(tables, Path(folder))


def _line(row: dict[str, Any]) -> str:
    names = ("alone", "constrained", "semi-supervised", "codl")
    shown = (f"{name} {row[name]:.2f} ({there:.2f})" for name, there in zip(names, row["published"], strict=True))
    return (
        f"{row['citations']:>4}  γ {row['gamma']}  {'  '.join(shown)}  {row['changed']:.2f} % changed  "
        f"{row['cpu_seconds']:.0f} CPU s"
    )


if __name__ == "__main__":
    main()
