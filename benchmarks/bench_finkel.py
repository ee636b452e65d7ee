"""Finkel, Grenager & Manning (2005) on CoNLL-2003's testa: their costs as printed against tuned ones.

A CRF of the paper's features. As printed, two spans of the same words, or of which one is part of the other, cost what
training documents say of their types (eq. 5, tables 3 and 4), and words are compared as they are written. Tuned are the
scales of both families, and of words that are left unlabelled elsewhere, and whether letter case counts, on a fifth of
the training documents by a model of the others (`concord train`). Entity F1 of Viterbi, gibbs and certify, its gain
over Viterbi's and that of tuned costs over printed ones, each with the middle 95 % of draws of documents.

    python benchmarks/bench_finkel.py
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from common import MADE, batches, concord, consistency_of, save
from corpora import labelled_corpora

from concord.schemas.labels import Labels
from concord.workers.constraints.consistency import LabelConsistency, PairCounts, Scales
from concord.workers.constraints.constraint_set import build_problems
from concord.workers.evaluation.bootstrap import paired_bootstrap
from concord.workers.evaluation.measures import Pair, spans
from concord.workers.evaluation.named_counts import Counts
from concord.workers.inference.registry import Decoder
from concord.workers.learning.weights.known_weights import known_weights
from concord.workers.models.loaders import load_model
from concord.workers.models.model import Model, viterbi_labels

ENGINES = ("gibbs", "certify")
PRINTED = Scales(1.0, 1.0, 0.0)


def trained(train: Path, features: str) -> Path:
    """The model, trained by the command line where it is not there yet."""
    out = MADE / "models" / f"{train.name}-{features}-sgd"
    if not (out / "manifest.json").is_file():
        concord("train", "--corpus", train, "--features", features, "--trainer", "sgd", "--out", out)
    return out


def counts(corpus: Path, model: Model, constraints: LabelConsistency | None, engine: str) -> tuple[Counts, int]:
    """Entities (D, 3) gold, predicted and correct, and how many documents are proven; Viterbi's without constraints."""
    parts, proven = [], 0
    for batch in batches(corpus):
        assert batch.labels is not None
        gold = model.labels.encode(batch.labels.strings())
        found: Labels = viterbi_labels(model, batch)
        if constraints is not None:
            decoder = Decoder.of(engine)
            problems = build_problems(batch, model.potentials(batch), model.labels, constraints)
            answers = [decoder(p, doc_id) for p, doc_id in zip(problems, batch.doc_ids, strict=True)]
            proven += sum(answer.certified for answer in answers)
            found = np.concatenate([answer.labels for answer in answers])
        parts.append(spans(Pair(batch, model.labels, gold, found)).by_document().sum(axis=1))
    return np.concatenate(parts), proven


def interval(base: Counts, other: Counts) -> list[float]:
    """The difference in F1 and the middle 95 % of draws; over nothing found it is F1."""
    return list(paired_bootstrap(base, other, rng=np.random.default_rng(0))[:3])


def rows_of(corpus: Path, model: Model, sets: dict[str, LabelConsistency]) -> Iterator[dict[str, Any]]:
    """Viterbi, then every set of costs by every engine."""
    base, _ = counts(corpus, model, None, "viterbi")
    yield {"costs": "none", "engine": "viterbi", "f1": interval(np.zeros_like(base), base)}
    printed: dict[str, Counts] = {}
    for name, constraints in sets.items():
        for engine in ENGINES:
            started = time.process_time()
            found, proven = counts(corpus, model, constraints, engine)
            yield {
                "costs": name,
                "engine": engine,
                "f1": interval(np.zeros_like(found), found),
                "over Viterbi": interval(base, found),
                "over printed": interval(printed.setdefault(engine, found), found),
                "proven": proven,
                "cpu_seconds": round(time.process_time() - started, 1),
            }


def main() -> None:
    """Trains what is not there yet, and scores every row."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--features", default="finkel")
    chosen = parser.parse_args()
    corpora = labelled_corpora()
    folder = trained(corpora.train, chosen.features)
    model, tuned = load_model(folder), consistency_of(folder)
    documents = [document for batch in batches(corpora.train) for document in batch]
    printed = LabelConsistency(PairCounts.of(documents, model.labels), PRINTED)
    rows = []
    for row in rows_of(corpora.test, model, {"as printed": printed, "tuned": tuned}):
        rows.append(row)
        figures = {key: value for key, value in row.items() if isinstance(value, list)}
        said = "  ".join("{} {:+.2f} ({:+.2f} to {:+.2f})".format(k, *(100 * x for x in v)) for k, v in figures.items())
        print(f"{row['costs']:12}{row['engine']:10}{said}", flush=True)
    save(
        "finkel",
        {
            "corpus": corpora.name,
            "features": chosen.features,
            "scales": tuned.scales._asdict() | {"fold_case": tuned.counts.fold_case},
            "costs as printed": [weight.model_dump() for weight in known_weights(printed)],
            "costs tuned": [weight.model_dump() for weight in known_weights(tuned)],
            "rows": rows,
        },
    )


if __name__ == "__main__":
    main()
