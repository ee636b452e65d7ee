"""What a proof costs: every document certified at the tuned penalty scale and at scale 1.

Of each document: CPU seconds of grounding, sampling and proving (scoring apart), the gap, and what the
sampler alone would have answered. The Java reference's Gibbs sampler took 110 s of CPU on testa.

    python benchmarks/bench_certify.py
"""

from __future__ import annotations

import functools
import operator
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from common import batches, consistency_of, draw, figure, options, save, trained_model
from corpora import labelled_corpora
from matplotlib.axes import Axes

from concord.schemas.document import Batch, Document
from concord.schemas.labels import Labels
from concord.schemas.potentials import Potentials
from concord.schemas.problem import Problem
from concord.workers.constraints.consistency import AS_COUNTED, LabelConsistency
from concord.workers.constraints.constraint_set import build_problem
from concord.workers.evaluation.conlleval import EntityCounts
from concord.workers.inference.certify import engine as certify
from concord.workers.inference.core.chain import viterbi
from concord.workers.inference.core.engine import document_rng
from concord.workers.inference.sampling import gibbs
from concord.workers.inference.settings import CertifySettings, GibbsSettings
from concord.workers.models.loaders import load_model
from concord.workers.models.model import Model

FEATURES = "rich"
REFERENCE_SECONDS = 110.0
"""CPU seconds of the Java reference's Gibbs sampler on testa, on such a machine."""
TOLERANCE = 1e-6
WARM_UP = 20
"""Documents decoded once before the clock starts: they compile the kernels."""
ENGINES = ("viterbi", "gibbs", "certify")


class Row(NamedTuple):
    """One document under one scale; seconds are of CPU."""

    doc_id: str
    tokens: int
    seconds: float
    gap: float
    certified: bool
    gain: float
    counts: tuple[EntityCounts, ...]


def main() -> None:
    """Measures both scales and draws."""
    chosen = options(__doc__, features=FEATURES).parse_args()
    corpora = labelled_corpora()
    folder = chosen.model or trained_model(FEATURES, corpora.train)
    model = load_model(folder)
    tuned = consistency_of(folder)
    loaded = [(batch, model.potentials(batch)) for batch in batches(chosen.corpus or corpora.test)]
    figures: dict[str, Any] = {"corpus": chosen.corpus or corpora.name, "model": Path(folder).name}
    rows: dict[str, list[Row]] = {}
    for name, constraints in (("tuned", tuned), ("scale_1", replace(tuned, scales=AS_COUNTED))):
        rows[name] = _certify_all(loaded, model, constraints)
        total = _totals(rows[name])
        if corpora.name.startswith("CoNLL") and not chosen.corpus:
            total["reference_over_certify"] = REFERENCE_SECONDS / total["cpu_seconds"]
        scales = {f"{family}_scale": scale for family, scale in constraints.scales._asdict().items()}
        figures |= {f"{name}_{key}": value for key, value in (scales | total).items()}
    save("certify", figures)
    _draw(rows)


def _certify_all(loaded: list[tuple[Batch, Potentials]], model: Model, constraints: LabelConsistency) -> list[Row]:
    parts = [
        (document, potentials.part(int(batch.doc_starts[i]), int(batch.doc_starts[i + 1])))
        for batch, potentials in loaded
        for i, document in enumerate(batch)
    ]
    for document, potentials in parts[:WARM_UP]:
        _row(document, potentials, model, constraints)
    return [_row(document, potentials, model, constraints) for document, potentials in parts]


def _row(document: Document, potentials: Potentials, model: Model, constraints: LabelConsistency) -> Row:
    """Certifies from the sampler's answer on, which is what the engine does by itself."""
    started = time.process_time()
    problem = build_problem(document, potentials, model.labels, constraints)
    decoded = certify.solve(problem, config=CertifySettings(), rng=document_rng(0, document.doc_id))
    seconds = time.process_time() - started
    sampled = gibbs.solve(problem, config=GibbsSettings(), rng=document_rng(0, document.doc_id))
    return Row(
        document.doc_id,
        len(document),
        seconds,
        decoded.gap,
        decoded.certified,
        decoded.objective - sampled.objective,
        _counts(document, problem, (viterbi(problem.potentials), sampled.labels, decoded.labels)),
    )


def _counts(document: Document, problem: Problem, answers: tuple[Labels, ...]) -> tuple[EntityCounts, ...]:
    if document.labels is None:
        raise SystemExit(f"document {document.doc_id!r} has no gold labels; give another --corpus")
    gold = problem.labels.encode(document.labels.strings())
    return tuple(EntityCounts.of(gold, answer, problem.labels, document.sentence_starts) for answer in answers)


def _totals(rows: list[Row]) -> dict[str, Any]:
    seconds = sum(row.seconds for row in rows)
    scores = [functools.reduce(operator.add, (row.counts[k] for row in rows)).f1() for k in range(len(ENGINES))]
    return {
        "documents": len(rows),
        "tokens": sum(row.tokens for row in rows),
        "certified": sum(row.certified for row in rows),
        "largest_gap_nats": max(row.gap for row in rows),
        "cpu_seconds": seconds,
        "gibbs_had_the_optimum": sum(row.certified and row.gain <= TOLERANCE for row in rows),
        "worse_than_gibbs": sum(row.gain < -TOLERANCE for row in rows),
        **{f"f1_{engine}": score for engine, score in zip(ENGINES, scores, strict=True)},
        "by_length": _by_length(rows),
        "open": [{"doc_id": row.doc_id, "gap": row.gap} for row in rows if not row.certified],
    }


def _by_length(rows: list[Row]) -> list[dict[str, Any]]:
    """Documents, CPU seconds and microseconds a token of each fifth of the documents by length."""
    table = []
    for part in np.array_split(np.array(sorted((row.tokens, row.seconds) for row in rows)), 5):
        if len(part):
            tokens, seconds = part.sum(axis=0).tolist()
            lengths = f"{part[0, 0]:.0f} to {part[-1, 0]:.0f}"
            cost = 1e6 * seconds / tokens
            table.append({"tokens": lengths, "documents": len(part), "seconds": seconds, "microseconds_a_token": cost})
    return table


def _draw(rows: dict[str, list[Row]]) -> None:
    picture = figure(9, 3.4)
    axes: Axes
    for axes, (name, part) in zip(picture.subplots(1, len(rows), sharey=True), rows.items(), strict=True):
        done, left = ([(r.tokens, 1e3 * r.seconds) for r in part if r.certified == sure] for sure in (True, False))
        for points, colour, label in ((done, "#4477aa", "certified"), (left, "#ee6677", "open")):
            if points:
                axes.loglog(*zip(*points, strict=True), ".", color=colour, label=f"{label} ({len(points)})")
        axes.set(xlabel="tokens of the document", title=f"scale: {name.replace('scale_', '')}")
        axes.legend(frameon=False)
    picture.axes[0].set(ylabel="CPU milliseconds beyond scoring")
    draw(picture, "certify")


if __name__ == "__main__":
    main()
