"""What the outside cost gains, over draws: F1 of entities with it and without it, on documents that no choice knew.

Each draw trains on some documents of a corpus's training part, in their order, or once on all of them, and learns the
cost on the last fifth of these, by a model of the others. The development part judges, by the models' best labels.
Corpora without a development part of their own: the first four fifths, and the last one.

    python benchmarks/bench_outside_cost.py                 # all; draws that are there keep their figures
    python benchmarks/bench_outside_cost.py posts/400 dutch/all
    python benchmarks/bench_outside_cost.py --encoder minilm posts/all
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
from concord.workers.evaluation.figures import f1_of_counts
from concord.workers.learning.search.folds import LATER_SHARE, divided
from concord.workers.learning.trainers.entity_counts import viterbi_counts
from concord.workers.learning.trainers.outside_cost import fit_outside_cost
from concord.workers.learning.trainers.registry import trainer_named
from concord.workers.learning.trainers.temperature import fit_temperature
from concord.workers.learning.trainers.trainer import gold_of, without_new_labels
from concord.workers.models.model import Model, costing, tempered
from concord.workers.models.settings import SgdSettings

DRAWS = 3
ALL = "all"
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
    parser.add_argument("--encoder", help="of all models, such as minilm (default: none)")
    chosen = parser.parse_args()
    settings, suffix = SgdSettings(encoder=chosen.encoder), f"/{chosen.encoder}" if chosen.encoder else ""
    every = [f"{name}/{size}" for name, sizes in SIZES.items() for size in (*sizes, ALL)]
    known: dict[str, Any] = known_figures("outside-cost").get("draws", {})
    for place in chosen.names or every:
        name, size = place.split("/")
        given, unseen = (documents_of(part) for part in CORPORA[name])
        for draw in range(1 if size == ALL else DRAWS):
            title = f"{place}{suffix}/{draw}"
            if title not in known:
                part = given if size == ALL else _drawn(given, int(size), draw)
                known[title] = _judged(part, unseen, settings)
                save("outside-cost", {"draws": known})


def _drawn(documents: Sequence[Document], size: int, draw: int) -> list[Document]:
    chosen = np.random.default_rng(draw).choice(len(documents), min(size, len(documents)), replace=False)
    return [documents[i] for i in sorted(chosen.tolist())]


def _judged(documents: Sequence[Document], unseen: Sequence[Document], settings: SgdSettings) -> dict[str, Any]:
    inside, held_out = divided(documents, LATER_SHARE, Validation.LATER)
    outside = without_new_labels(held_out, inside)
    before = _model(inside, settings)
    temperature = fit_temperature(outside, before).temperature
    fit = fit_outside_cost(outside, tempered(before, temperature))
    model = _model(documents, settings)
    judges = [one for one in unseen if model.labels.index.keys() >= set(gold_of(one))]
    counts = [viterbi_counts(costing(model, cost), judges, model.labels) for cost in (0.0, fit.cost)]
    gain = paired_bootstrap(*counts, rng=np.random.default_rng(0))
    f1 = [float(f1_of_counts(part.sum(axis=0))) for part in counts]
    judged = {"held_out": len(outside), "unseen": f1, "gain": gain.model_dump()}
    return fit._asdict() | {"temperature": temperature} | judged


def _model(documents: Sequence[Document], settings: SgdSettings) -> Model:
    with tempfile.TemporaryDirectory() as folder:
        return trainer_named("sgd").train(documents, settings=settings, out=Path(folder) / "model")


if __name__ == "__main__":
    main()
