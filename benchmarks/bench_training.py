"""The trainer that is the default, on little text and on much: against what it was, and python-crfsuite.

Each is trained on so many documents of the training part of a corpus, those whose ids have the lowest hashes, with the
default features (``fields`` for citations and addresses), and labels the corpus's development part by Viterbi; where
there is none, the last fifth of its documents. Nothing was chosen on these. F1 is that of entities, chunks or fields;
gains are over the old default, with the middle 95 % of a paired bootstrap over documents. CPU seconds are those of a
fit. CRFsuite takes minutes where text or labels are many: it is left out above ``--crfsuite`` tokens times labels.

    python benchmarks/bench_training.py
    python benchmarks/bench_training.py --corpora news --sizes 1000 --ways default lbfgs --features rich --name fits
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from bench_corpora import CORPORA, DEFAULT, Corpus, documents_of
from common import REAL, save

from concord.schemas.document import Batch, Document
from concord.schemas.labels import LabelSet
from concord.schemas.settings import Validation
from concord.workers.evaluation.bootstrap import paired_bootstrap
from concord.workers.evaluation.figures import f1_of_counts
from concord.workers.evaluation.measures import Pair, spans
from concord.workers.evaluation.named_counts import Counts
from concord.workers.learning.search.folds import held_out, place_of
from concord.workers.learning.trainers.registry import DEFAULT as TRAINER
from concord.workers.learning.trainers.registry import TRAINERS
from concord.workers.learning.trainers.trainer import gold_of
from concord.workers.models.crf import load
from concord.workers.models.model import viterbi_labels

WAYS: dict[str, tuple[str, dict[str, Any]]] = {
    "before": ("sgd", {"c2": 0.3, "passes": 10, "decay": 0.85, "dropout": 0.0}),
    "default": (TRAINER, {}),
    "lbfgs": ("lbfgs", {}),
    "crfsuite": ("crfsuite", {}),
}
"""Trainers and the options they are given; ``before`` is what the default was until October 2026."""

SIZES = (50, 300, 1000)


class Found(NamedTuple):
    """Spans (D, 3) gold, predicted and correct of each document, token accuracy, CPU seconds of the fit, its loss."""

    counts: Counts
    accuracy: float
    seconds: float
    loss: float


def parts(name: str, corpus: Corpus) -> tuple[list[Document], list[Document]]:
    """Documents to learn from, in the order of their ids' hashes, and those that are labelled."""
    documents = documents_of(name, corpus)
    if corpus.dev is not None:
        test = documents_of(name, corpus, dev=True)
    else:
        later = held_out(documents, 0.2, Validation.LATER)
        test = [document for document, last in zip(documents, later, strict=True) if last]
        documents = [document for document, last in zip(documents, later, strict=True) if not last]
    return sorted(documents, key=lambda document: place_of(document.doc_id)), test


def features_of(corpus: Corpus) -> str:
    """The default, without tags where there are none; or fields."""
    return {"rich": DEFAULT, "rich-nopos": DEFAULT.replace("+pos", "")}.get(corpus.base, corpus.base)


def measured(way: str, given: list[Document], test: list[Document], features: str, labels: LabelSet) -> Found:
    """One fit, and what it answers; kernels are compiled before."""
    name, options = WAYS[way]
    settings = TRAINERS[name].settings.model_validate({"features": features, **options})
    with tempfile.TemporaryDirectory() as folder:
        quick = {"max_iterations": 1} if "max_iterations" in type(settings).model_fields else {"passes": 1}
        TRAINERS[name].train(given[:2], settings=settings.model_copy(update=quick), out=Path(folder) / "warm")
        began = time.process_time()
        TRAINERS[name].train(given, settings=settings, out=Path(folder) / "model")
        seconds = time.process_time() - began
        model = load(Path(folder) / "model")
        batch = Batch.of(test)
        assert batch.labels is not None
        mine = labels.encode(list(model.labels.names))[viterbi_labels(model, batch)]
    gold = labels.encode(batch.labels.strings())
    counts: Counts = spans(Pair(batch, labels, gold, mine)).by_document().sum(axis=1)
    return Found(counts, float(np.mean(gold == mine)), seconds, float(model.manifest.figures["loss"]))


def rows_of(name: str, corpus: Corpus, chosen: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """A row for each size and way; sizes beyond the corpus are all of it, once."""
    documents, test = parts(name, corpus)
    labels = LabelSet.infer(label for document in (*documents, *test) for label in gold_of(document))
    features = chosen.features or features_of(corpus)
    for size in sorted({min(size, len(documents)) for size in chosen.sizes}):
        given = documents[:size]
        count = sum(map(len, given))
        base: Found | None = None
        for way in chosen.ways:
            if way == "crfsuite" and count * len(labels) > chosen.crfsuite:
                continue
            found = measured(way, given, test, features, labels)
            base = found if base is None else base
            gain = paired_bootstrap(base.counts, found.counts, rng=np.random.default_rng(0))
            yield {
                "corpus": name,
                "documents": size,
                "tokens": count,
                "way": way,
                "f1": float(f1_of_counts(found.counts.sum(axis=0))),
                "gain": list(gain[:3]),
                "accuracy": found.accuracy,
                "loss": found.loss,
                "cpu_seconds": round(found.seconds, 2),
            }


def main() -> None:
    """Trains each way on each size of each corpus that is there, and prints and keeps the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpora", nargs="+", choices=CORPORA, default=list(CORPORA))
    parser.add_argument("--sizes", nargs="+", type=int, default=SIZES, help="documents to learn from")
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=["before", "default", "crfsuite"])
    parser.add_argument("--features", help="feature set for all; otherwise the default, or fields")
    parser.add_argument("--crfsuite", type=int, default=350_000, help="tokens times labels above which it is left out")
    parser.add_argument("--name", default="training", help="of the figures")
    chosen = parser.parse_args()
    there = [name for name in chosen.corpora if (REAL / CORPORA[name].source).exists()]
    if not there:
        raise SystemExit(f"{REAL}: none of the corpora is there")
    rows = []
    for name in there:
        for row in rows_of(name, CORPORA[name], chosen):
            rows.append(row)
            difference, low, high = (100 * figure for figure in row["gain"])
            print(
                f"{name:17}{row['documents']:5}{row['tokens']:8} {row['way']:9}F1 {row['f1']:7.2%}  "
                f"{difference:+.2f} ({low:+.2f} to {high:+.2f})  accuracy {row['accuracy']:7.2%}  "
                f"{row['cpu_seconds']:.1f} CPU s",
                flush=True,
            )
        save(chosen.name, {"rows": rows})


if __name__ == "__main__":
    main()
