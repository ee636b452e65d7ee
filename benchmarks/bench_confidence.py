"""How sure entities are said to be, and how often they are right: marginals and certified margins on gold.

    python benchmarks/bench_confidence.py --model MODEL --corpus TESTA

The expected calibration error is over ten bins of equal width (Guo et al. 2017): the mean of the differences between
how sure the entities of a bin are and how many of them are right, weighted by their number. Times are CPU seconds of
one process, with kernels compiled before.
"""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import numpy as np
from common import batches, consistency_of, draw, figure, labelled_corpora, options, save, trained_model
from numpy.typing import NDArray

from schemas.decoded import MarginStatus
from schemas.document import Batch, Document
from schemas.labels import Labels, LabelSet
from schemas.run import RunSettings
from workers.constraints.constraint_set import ConstraintSet, Unconstrained
from workers.labelling.labelled import Labelled, check_settings, label_batch
from workers.labelling.report import with_gold
from workers.labelling.warming import warm
from workers.models.loaders import load_model

BINS = 10
KEPT = (0.5, 0.8, 0.9, 1.0)
"""Shares of the entities, the surest first, of which precision is given."""


class Judged(NamedTuple):
    """Entities of a labelling: how sure, and whether gold has them."""

    probability: NDArray[np.float64]
    margin: NDArray[np.float64]
    status: list[str]
    right: NDArray[np.bool_]


class Bin(NamedTuple):
    """Entities of a bin: how many, how sure on average, and how many of them are right."""

    count: int
    sure: float
    right: float


def main() -> None:
    """Labels the corpus with each kind of confidence, and compares with gold."""
    parser = options(__doc__, features="rich")
    chosen = parser.parse_args()
    corpora = None if chosen.corpus and chosen.model else labelled_corpora()
    folder = chosen.model or trained_model("rich", corpora.train if corpora else chosen.corpus)
    model = load_model(folder)
    documents = list(batches(chosen.corpus or (corpora.test if corpora else "")))
    figures: dict[str, Any] = {"model": str(folder), "documents": sum(map(len, documents))}
    sets: dict[str, ConstraintSet] = {"viterbi": Unconstrained(), "certify": consistency_of(folder)}
    judged = {}
    for engine, constraints in sets.items():
        seconds = {}
        for kind in ("none", "marginal", "margin"):
            settings = check_settings(RunSettings(engine=engine, confidence=kind))
            warm(documents[0].document(0), model=model, constraints=constraints, settings=settings)
            started = time.process_time()
            answers = [label_batch(b, model=model, constraints=constraints, settings=settings) for b in documents]
            seconds[kind] = time.process_time() - started
        judged[engine] = _judged(documents, answers, model.labels)
        figures |= _figures(engine, judged[engine], seconds, figures["documents"])
    save("confidence", figures)
    _draw(judged)


def _judged(documents: list[Batch], answers: list[Labelled], labels: LabelSet) -> Judged:
    probability, margin, status, right = [], [], [], []
    for batch, labelled in zip(documents, answers, strict=True):
        for document, answer, found in zip(batch, labelled.decoded, labelled.confidence, strict=True):
            assert found.margin is not None
            probability.append(found.probability)
            margin.append(found.margin)
            status += found.status
            right.append(_right(document, answer.labels, labels))
    return Judged(np.concatenate(probability), np.concatenate(margin), status, np.concatenate(right))


def _right(document: Document, found: Labels, labels: LabelSet) -> NDArray[np.bool_]:
    """(M,) which of the entities gold has."""
    joint, gold = with_gold(labels, document)
    wanted, have = (joint.spans(some, document.sentence_starts) for some in (gold, found))
    known = set(zip(wanted.start.tolist(), wanted.end.tolist(), wanted.type.tolist(), strict=True))
    triples = zip(have.start.tolist(), have.end.tolist(), have.type.tolist(), strict=True)
    return np.array([triple in known for triple in triples], np.bool_)


def bins(judged: Judged) -> list[Bin]:
    """The entities by probability, in bins of equal width; those without any are left out."""
    place = np.minimum((judged.probability * BINS).astype(np.int64), BINS - 1)
    held = [place == b for b in range(BINS) if (place == b).any()]
    return [Bin(int(h.sum()), float(judged.probability[h].mean()), float(judged.right[h].mean())) for h in held]


def calibration_error(found: list[Bin]) -> float:
    """The expected calibration error."""
    return sum(b.count * abs(b.sure - b.right) for b in found) / sum(b.count for b in found)


def _figures(engine: str, judged: Judged, seconds: dict[str, float], documents: int) -> dict[str, Any]:
    count = len(judged.right)
    figures = {
        f"{engine}: entities": count,
        f"{engine}: precision": float(judged.right.mean()),
        f"{engine}: mean probability": float(judged.probability.mean()),
        f"{engine}: expected calibration error": calibration_error(bins(judged)),
        f"{engine}: bins": [b._asdict() for b in bins(judged)],
        **{f"{engine}: CPU s, {kind}": spent for kind, spent in seconds.items()},
        f"{engine}: ms a document, marginals": 1e3 * (seconds["marginal"] - seconds["none"]) / documents,
        f"{engine}: ms a document, margins": 1e3 * (seconds["margin"] - seconds["none"]) / documents,
        **{f"{engine}: margins {kind}": judged.status.count(kind) / count for kind in MarginStatus},
    }
    for name, values in (("probability", judged.probability), ("margin", judged.margin)):
        surest = np.argsort(-values, kind="stable")
        for share in KEPT:
            kept = judged.right[surest[: int(share * count)]]
            figures[f"{engine}: precision of the surest {share:.0%} by {name}"] = float(kept.mean())
    return figures


def _draw(judged: dict[str, Judged]) -> None:
    picture = figure(7.5, 3.4)
    left, right = picture.subplots(1, 2)
    left.plot([0, 1], [0, 1], color="0.7", linewidth=1)
    for engine, found in judged.items():
        own = bins(found)
        error = calibration_error(own)
        label = f"{engine} (error {error:.3f})"
        left.plot([b.sure for b in own], [b.right for b in own], marker="o", markersize=4, label=label)
        surest = np.argsort(-found.margin, kind="stable")
        share = np.arange(1, len(surest) + 1) / len(surest)
        precision = np.cumsum(found.right[surest]) / np.arange(1, len(surest) + 1)
        right.plot(share[len(share) // 20 :], precision[len(share) // 20 :], label=f"{engine}, by margin")
    left.set(xlabel="marginal probability of an entity", ylabel="share that is right", xlim=(0, 1), ylim=(0, 1))
    right.set(xlabel="share of the entities, surest first", ylabel="precision")
    for axes in (left, right):
        axes.legend(frameon=False)
    draw(picture, "confidence")


if __name__ == "__main__":
    main()
