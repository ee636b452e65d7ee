"""CPU seconds, loss and F1 of every trainer that fits a CRF, with its own defaults, on the same documents.

F1 is Viterbi's on the test part; the optimum of each loss depends on the trainer's own c2.

    python benchmarks/bench_training.py --features rich --trainers sgd lbfgs
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

from common import batches, labelled_corpora, save

from schemas.document import Document
from workers.evaluation.conlleval import EntityCounts
from workers.learning.trainers.registry import TRAINERS
from workers.models.crf import CrfModel, load
from workers.models.model import viterbi_labels

FITS = ("sgd", "lbfgs", "crfsuite")


def fitted(name: str, documents: list[Document], features: str, out: Path) -> tuple[CrfModel, float]:
    """A model and the CPU seconds of its training; kernels are compiled before."""
    entry = TRAINERS[name]
    settings = entry.settings.model_validate({"features": features})
    entry.train(documents[:2], settings=settings, out=out / "warm")
    began = time.process_time()
    entry.train(documents, settings=settings, out=out / name)
    return load(out / name), time.process_time() - began


def f1(model: CrfModel, corpus: Path) -> float:
    """Viterbi's entity F1, a fraction."""
    total: EntityCounts | None = None
    for batch in batches(corpus):
        assert batch.labels is not None
        labels = viterbi_labels(model, batch)
        gold = model.labels.encode(batch.labels.strings())
        counts = EntityCounts.of(gold, labels, model.labels, batch.sentence_starts)
        total = counts if total is None else total + counts
    assert total is not None
    return total.f1()


def main() -> None:
    """Trains with each and scores it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--features", default="rich")
    parser.add_argument("--trainers", nargs="+", default=FITS, choices=FITS)
    chosen = parser.parse_args()
    corpora = labelled_corpora()
    documents = [document for batch in batches(corpora.train) for document in batch]
    figures: dict[str, Any] = {"corpus": corpora.name, "features": chosen.features}
    with tempfile.TemporaryDirectory() as folder:
        for name in chosen.trainers:
            model, seconds = fitted(name, documents, chosen.features, Path(folder))
            figures[f"{name}_cpu_seconds"] = round(seconds, 1)
            figures[f"{name}_loss"] = model.manifest.figures["loss"]
            figures[f"{name}_viterbi_f1"] = f1(model, corpora.test)
    save("training", figures)


if __name__ == "__main__":
    main()
