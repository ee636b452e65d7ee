"""Citations learned from little gold: models alone, and under constraints weighed on the same few (Chang et al. 2008).

Token accuracy on Cora's 100 development citations of models learned from the first n of each of five random subsets of
25 training citations, or from all 300; certify decodes under the shipped constraints, weighed by `odds` on those n
alone, with h rows imagined to have held. Chang, Ratinov & Roth (2008), tables 2 and 3, measured on another test part.
Needs the real citations.

    python benchmarks/bench_little_gold.py
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from bench_citations import decode
from common import save
from problems import CORA, Citations, citation_task, citations

from schemas.document import Batch, Document
from schemas.settings import CitationSettings, HmmSettings, PerceptronSettings, TrainerSettings
from workers.corpus.readers.citations import read_citations
from workers.learning.penalties import PenaltySettings, count_rows, odds, with_weights
from workers.learning.trainers.registry import trainer_named

SIZES = (5, 10, 20)
SUBSETS = range(5)
HELD = (0.0, 50.0)
"""Rows imagined to have held."""
PUBLISHED = {
    ("hmm", 5): (58.48, 70.85),
    ("hmm", 10): (68.61, 75.11),
    ("hmm", 20): (70.81, 81.31),
    ("hmm", 300): (86.66, 94.08),
    ("perceptron", 5): (50.14, 66.36),
    ("perceptron", 10): (59.90, 72.91),
    ("perceptron", 20): (68.26, 77.28),
    ("perceptron", 300): (89.83, 91.63),
}
"""Accuracy in percent alone and with constraints: L and L+wCI of the HMM, L and L+CI of the perceptron."""


def main() -> None:
    """Measures both models at every size."""
    if not CORA.is_dir():
        raise SystemExit(f"{CORA}: not there; the table needs the real citations")
    found = citations()
    given: dict[str, TrainerSettings] = {
        "hmm": HmmSettings(labels=found.model.labels.names),
        "perceptron": PerceptronSettings(features="fields"),
    }
    rows = []
    for trainer, settings in given.items():
        for size in (*SIZES, len(found.train)):
            started = time.process_time()
            parts = [found.train] if size > max(SIZES) else [subset(k)[:size] for k in SUBSETS]
            measured = np.array([accuracies(found, part, trainer, settings) for part in parts]).mean(axis=0)
            alone, *constrained = (100.0 * measured).tolist()
            rows.append(
                {
                    "model": trainer,
                    "citations": size,
                    "alone": alone,
                    "constrained": dict(zip(map(str, HELD), constrained, strict=True)),
                    "published": PUBLISHED[trainer, size],
                    "cpu_seconds": time.process_time() - started,
                }
            )
            print(line(rows[-1]), flush=True)
    save("little_gold", {"rows": rows})


def subset(k: int) -> list[Document]:
    """Subset k of 25 training citations."""
    read = read_citations(str(CORA / f"citation_train.25.{k}.txt"), CitationSettings())
    return [document for document in read if isinstance(document, Document)]


def accuracies(found: Citations, train: Sequence[Document], name: str, settings: TrainerSettings) -> list[float]:
    """Of the model alone, and under constraints weighed with each of `HELD`."""
    with tempfile.TemporaryDirectory() as folder:
        model = trainer_named(name).train(train, settings=settings, out=Path(folder) / "model")
    known = set(model.labels.names)
    fits = [
        title
        for title, template in zip(found.constraints.titles, found.constraints.templates, strict=True)
        if {label for _, label in template.named_labels()} <= known
    ]
    constraints = found.constraints.only(fits)
    counts = count_rows(constraints, [Batch.of(train)], model.labels)
    result = []
    for held in (None, *HELD):
        weights = (
            {}
            if held is None
            else {title: count.weight(odds, PenaltySettings(held=held)) for title, count in counts.items()}
        )
        task = citation_task(found._replace(model=model, constraints=with_weights(constraints, weights)))  # type: ignore[arg-type]
        result.append(decode(task, "viterbi" if held is None else "certify").accuracy(task))
    return result


def line(row: dict[str, Any]) -> str:
    """One row for people."""
    held = "  ".join(f"h = {name}: {value:.2f}" for name, value in row["constrained"].items())
    alone, constrained = row["published"]
    return (
        f"{row['model']:12}{row['citations']:>4}  alone {row['alone']:.2f} ({alone:.2f})  "
        f"constrained {held} ({constrained:.2f})  {row['cpu_seconds']:.0f} CPU s"
    )


if __name__ == "__main__":
    main()
