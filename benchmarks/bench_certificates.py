"""What certificates cost, and whether damage is found.

Every document is certified, its certificate written and checked again; then 100 certificates are damaged on purpose.
A damage is found where the checker refuses. Where it accepts, the proof still proves its bound (a price changed by
little often does): then the same damaged proof is offered for a bound below what the labels score, which no proof
may prove.

With ``--false-bounds`` instead: small problems of every scheme, relation and template, each with bounds below its
enumerated optimum and proofs of several kinds, so many seeds of them.

    python benchmarks/bench_certificates.py --false-bounds 20
    python benchmarks/bench_certificates.py --citations
    python benchmarks/bench_certificates.py --corpus TESTA --model MODEL
    python benchmarks/bench_certificates.py --corpus NOVELS --model MODEL --documents 300
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from common import ROOT, consistency_of, known_figures, machine, options, save, trained_model
from corpora import labelled_corpora
from problems import citation_task, citations

from concord.schemas.labels import Scheme
from concord.schemas.problem import Problem
from concord.schemas.settings import TextSettings
from concord.workers.certificates.checker import TOLERANCE, CertificateError, check
from concord.workers.certificates.writer import prove
from concord.workers.constraints.constraint_set import build_problems
from concord.workers.corpus.plan import plan
from concord.workers.corpus.shards import read_batch
from concord.workers.inference.certify import engine as certify
from concord.workers.inference.core.engine import document_rng
from concord.workers.inference.settings import CertifySettings
from concord.workers.models.loaders import load_model

sys.path.insert(0, str(ROOT))  # the false bounds are part of the tests, which are not installed
from tests.support.false_bounds import Tried, cases, tried

FEATURES = "rich"
NODES = 100
DAMAGED = 100
BELOW = 10.0 * TOLERANCE
"""Nats below the labels' score that no proof may prove."""

Kept = list[tuple[Problem, float, float, list[int]]]
"""Problems with what their labels score, their bounds, and their proofs."""


def main() -> None:
    """Measures and saves under the corpus' name."""
    chosen = _options().parse_args()
    if chosen.false_bounds:
        save("false_bounds", false_bounds(chosen.false_bounds) | {"machine": machine()})
        return
    name, found = _citations() if chosen.citations else _documents(chosen)
    figures, kept = measured(itertools.islice(found, chosen.documents))
    all_figures = known_figures("certificates")
    all_figures[name] = figures | {"damage": damage(kept), "machine": machine()}
    print(json.dumps(all_figures[name], indent=1))
    save("certificates", all_figures)


def _options() -> argparse.ArgumentParser:
    parser = options(__doc__, features=FEATURES)
    parser.add_argument("--citations", action="store_true", help="Cora's development citations under declared rows")
    parser.add_argument("--documents", type=int, help="no more documents than this")
    parser.add_argument("--false-bounds", type=int, default=0, help="seeds of small problems to try false bounds on")
    return parser


def _citations() -> tuple[str, Iterator[tuple[str, Problem]]]:
    task = citation_task(citations())
    return task.name, zip(task.doc_ids, task.problems, strict=True)


def _documents(chosen: argparse.Namespace) -> tuple[str, Iterator[tuple[str, Problem]]]:
    if chosen.corpus and chosen.model:
        return Path(chosen.corpus).stem, _problems(Path(chosen.corpus), chosen.model)
    corpora = labelled_corpora()
    return corpora.name, _problems(corpora.test, trained_model(FEATURES, corpora.train))


def _problems(corpus: Path, folder: Path) -> Iterator[tuple[str, Problem]]:
    model, constraints, text = load_model(folder), consistency_of(folder), TextSettings()
    for shard in plan(str(corpus), text=text):
        batch, _ = read_batch(shard, text=text)
        for i in range(len(batch)):
            one = batch.part(i, i + 1)
            problem = next(iter(build_problems(one, model.potentials(one), model.labels, constraints)))
            yield one.doc_ids[0], problem


def measured(found: Iterator[tuple[str, Problem]]) -> tuple[dict[str, Any], Kept]:
    """Figures of documents by name, and the proofs of those that have one."""
    seconds = {"certify": 0.0, "write": 0.0, "check": 0.0}
    kept: Kept = []
    statuses: Counter[str] = Counter()
    documents = tokens = by_solver = 0
    for doc_id, problem in found:
        start = time.process_time()
        answer = certify.solve(problem, config=CertifySettings(), rng=document_rng(0, doc_id))
        solved = time.process_time()
        proof = prove(problem, answer.labels, answer.bound, nodes=NODES)
        written = time.process_time()
        documents, tokens = documents + 1, tokens + len(problem)
        seconds["certify"] += solved - start
        seconds["write"] += written - solved
        statuses[answer.status] += 1
        if proof is None:
            by_solver += answer.certified
            continue
        check(problem, answer.bound, proof)
        seconds["check"] += time.process_time() - written
        kept.append((problem, answer.objective, answer.bound, proof))
    figures = {"documents": documents, "tokens": tokens, "verified": len(kept), "certified_unverified": by_solver}
    return figures | {
        "statuses_before": dict(sorted(statuses.items())),
        "seconds": {name: round(value, 2) for name, value in seconds.items()},
        "numbers": sum(len(proof) for *_, proof in kept),
    }, kept


def false_bounds(seeds: int) -> dict[str, Any]:
    """False bounds offered and accepted, and true ones proven, by scheme, and by relation or template."""
    by_kind: defaultdict[str, Tried] = defaultdict(Tried)
    for seed in range(seeds):
        for case in cases(seed):
            found = tried(case, seed, mutated=3)
            for name in (case.scheme, case.kind):
                by_kind[name] += found
    total = [by_kind[scheme] for scheme in Scheme]
    return {
        "seeds": seeds,
        "false_bounds": sum(found.false for found in total),
        "accepted": [name for found in total for name in found.accepted],
        "true_bounds_proven": sum(found.proven for found in total),
        "by_kind": {name: {"false": found.false, "proven": found.proven} for name, found in sorted(by_kind.items())},
    }


def damage(kept: Kept) -> dict[str, int]:
    """Certificates with one number changed, lost or doubled: refused, still proofs, or proofs of what is false."""
    rng = np.random.default_rng(0)
    longest = sorted(kept, key=lambda entry: -len(entry[3]))[:DAMAGED]
    counts = Counter(damaged=0, refused=0, still_proofs=0, false=0)
    for problem, objective, bound, proof in longest:
        changed, at = list(proof), int(rng.integers(len(proof)))
        kind = int(rng.integers(4))
        if kind == 0:
            changed[at] = int(rng.integers(-(1 << 62), 1 << 62))
        elif kind == 1:
            changed[at] += 1 + changed[at] // 2
        elif kind == 2:
            del changed[at]
        else:
            changed.insert(at, changed[at])
        accepted = _accepts(problem, bound, changed)
        counts["damaged"] += 1
        counts["still_proofs" if accepted else "refused"] += 1
        counts["false"] += accepted and _accepts(problem, objective - BELOW, changed)
    return dict(counts)


def _accepts(problem: Problem, bound: float, proof: list[int]) -> bool:
    try:
        check(problem, bound, proof)
    except CertificateError:
        return False
    return True


if __name__ == "__main__":
    main()
