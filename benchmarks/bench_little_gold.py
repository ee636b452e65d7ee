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
from common import save
from problems import CORA, Citations, citation_task, citations, decode

from concord.schemas.document import Batch, Document
from concord.schemas.settings import TrainerSettings
from concord.workers.constraints.declared import DeclaredConstraints
from concord.workers.constraints.declared_weights import with_weights
from concord.workers.corpus.readers.citations import read_citations
from concord.workers.corpus.settings import CitationSettings
from concord.workers.learning.search.folds import fold_of
from concord.workers.learning.trainers.registry import trainer_named
from concord.workers.learning.weights.penalties import PENALTIES, OddsSettings
from concord.workers.learning.weights.row_counts import count_rows
from concord.workers.models.settings import HmmSettings, PerceptronSettings

SIZES = (5, 10, 20)
SUBSETS = range(5)
HELD = (0.0, 50.0)
"""Rows imagined to have held."""
STRENGTHS = (0.0, 0.5, 1.0, 2.0, 3.0, 5.0, 8.0, 12.0)
"""What the counted weights are multiplied by."""
FOLDS = 5
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
    """Measures both models at every size, and how strong constraints should be by the training citations."""
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
    strengths = {trainer: by_strength(found, trainer, settings) for trainer, settings in given.items()}
    print(strengths)
    save("little_gold", {"rows": rows, "accuracy_by_strength": strengths})


def subset(k: int) -> list[Document]:
    """Subset k of 25 training citations."""
    read = read_citations(str(CORA / f"citation_train.25.{k}.txt"), CitationSettings())
    return [document for document in read if isinstance(document, Document)]


def accuracies(found: Citations, train: Sequence[Document], name: str, settings: TrainerSettings) -> list[float]:
    """Of the model alone, and under constraints weighed with each of `HELD`."""
    learned = learned_from(found, train, name, settings)
    alone = citation_task(learned)
    under = [citation_task(learned, weighed(learned, train, OddsSettings(held=held))) for held in HELD]
    return [decode(alone, "viterbi").accuracy(alone), *(decode(task, "certify").accuracy(task) for task in under)]


def learned_from(found: Citations, train: Sequence[Document], name: str, settings: TrainerSettings) -> Citations:
    """The citations with a model of these, and those of the constraints whose labels it knows."""
    with tempfile.TemporaryDirectory() as folder:
        model = trainer_named(name).train(train, settings=settings, out=Path(folder) / "model")
    known = set(model.labels.names)
    entries = zip(found.constraints.titles, found.constraints.templates, strict=True)
    fits = [title for title, entry in entries if {label for _, label in entry.named_labels()} <= known]
    return found._replace(model=model, constraints=found.constraints.only(fits))


def weighed(
    found: Citations, train: Sequence[Document], settings: OddsSettings, *, strength: float = 1.0
) -> DeclaredConstraints:
    """The constraints at so many times the weights that these documents give."""
    counts = count_rows(found.constraints, [Batch.of(train)], found.model.labels)
    return with_weights(
        found.constraints, {t: strength * count.weight(PENALTIES["odds"], settings) for t, count in counts.items()}
    )


def by_strength(found: Citations, name: str, settings: TrainerSettings) -> dict[str, float]:
    """Accuracy in percent at each of `STRENGTHS`, by cross-validation over the 300 training citations."""
    right, tokens = dict.fromkeys(STRENGTHS, 0.0), 0
    fold = fold_of(found.train, FOLDS)
    for k in range(FOLDS):
        inside, outside = ([d for d, f in zip(found.train, fold, strict=True) if (f != k) == w] for w in (True, False))
        learned = learned_from(found._replace(dev=outside), inside, name, settings)
        for strength in STRENGTHS:
            task = citation_task(learned, weighed(learned, inside, OddsSettings(), strength=strength))
            right[strength] += decode(task, "certify").accuracy(task) * task.tokens
        tokens += task.tokens
    return {str(strength): 100.0 * count / tokens for strength, count in right.items()}


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
