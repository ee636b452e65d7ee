"""What the outside cost gains, over draws: F1 of entities with it and without it, on documents that no choice knew.

Each draw trains on some documents of a corpus's training part, in their order, and learns the cost on the last fifth of
them, by a model of the others. The development part judges, by the models' best labels. Corpora without a development
part of their own: the first four fifths, and the last one.

    python benchmarks/bench_outside_cost.py                 # all; draws that are there keep their figures
    python benchmarks/bench_outside_cost.py posts/400 dutch/60
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from bench_efforts import CORPORA
from common import known_figures, save
from corpora import documents_of

from concord.schemas.document import Document
from concord.schemas.settings import Validation
from concord.workers.evaluation.bootstrap import paired_bootstrap
from concord.workers.learning.search.folds import LATER_SHARE, divided
from concord.workers.learning.trainers.entity_counts import viterbi_counts
from concord.workers.learning.trainers.outside_cost import fit_outside_cost
from concord.workers.learning.trainers.sgd import train
from concord.workers.learning.trainers.temperature import fit_temperature
from concord.workers.learning.trainers.trainer import gold_of, without_new_labels
from concord.workers.models.model import Model, costing, tempered
from concord.workers.models.settings import SgdSettings

DRAWS = 3
SIZES = {
    "news": (60, 300),
    "dutch": (60, 200),
    "spanish": (60, 200),
    "posts": (400, 1200),
    "abstracts": (60, 200),
    "mails": (80, 150),
    "chunks": (60, 200),
    "references": (60, 300),
}
"""Documents in a training, by corpus. Citations have no token outside of their fields."""


def main() -> None:
    """Trains, learns costs, and judges."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="CORPUS/DOCUMENTS", help="such as posts/400 (default: all)")
    every = [f"{name}/{size}" for name, sizes in SIZES.items() for size in sizes]
    known: dict[str, Any] = known_figures("outside-cost").get("draws", {})
    for place in parser.parse_args().names or every:
        name, size = place.split("/")
        given, unseen = (documents_of(part) for part in CORPORA[name])
        for draw in range(DRAWS):
            if f"{place}/{draw}" in known:
                continue
            known[f"{place}/{draw}"] = _judged(_drawn(given, int(size), draw), unseen)
            save("outside-cost", {"draws": known})


def _drawn(documents: Sequence[Document], size: int, draw: int) -> list[Document]:
    chosen = np.random.default_rng(draw).choice(len(documents), min(size, len(documents)), replace=False)
    return [documents[i] for i in sorted(chosen.tolist())]


def _judged(documents: Sequence[Document], unseen: Sequence[Document]) -> dict[str, Any]:
    inside, held_out = divided(documents, LATER_SHARE, Validation.LATER)
    outside = without_new_labels(held_out, inside)
    before = _model(inside)
    temperature = fit_temperature(outside, before).temperature
    fit = fit_outside_cost(outside, tempered(before, temperature))
    model = _model(documents)
    judges = [one for one in unseen if model.labels.index.keys() >= set(gold_of(one))]
    counts = [viterbi_counts(costing(model, cost), judges, model.labels) for cost in (0.0, fit.cost)]
    gain = paired_bootstrap(*counts, rng=np.random.default_rng(0))
    return fit._asdict() | {"temperature": temperature, "held_out": len(outside), "gain": gain.model_dump()}


def _model(documents: Sequence[Document]) -> Model:
    with tempfile.TemporaryDirectory() as folder:
        return train(documents, settings=SgdSettings(), out=Path(folder) / "model")


if __name__ == "__main__":
    main()
