"""How sure entities are said to be, and how often they are right: marginals and certified margins on gold.

    python benchmarks/bench_confidence.py --model MODEL --corpus TESTA

The expected calibration error is that of `workers.evaluation.surety`. Times are CPU seconds of
one process, with kernels compiled before.
"""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from common import batches, consistency_of, draw, figure, options, save, trained_model
from corpora import labelled_corpora
from numpy.typing import NDArray

from concord.flows.labelling.documents import first_documents
from concord.schemas.decoded import MarginStatus
from concord.schemas.document import Batch, Document
from concord.schemas.labels import Labels, LabelSet
from concord.schemas.run import ConfidenceKind, RunSettings
from concord.workers.constraints.constraint_set import ConstraintSet, Unconstrained
from concord.workers.corpus.plan import plan
from concord.workers.evaluation.surety import PROBABILITY_BINS, bin_of, surety
from concord.workers.labelling.labelled import Labelled, check_settings, label_batch
from concord.workers.labelling.report import with_gold
from concord.workers.models.loaders import load_model
from concord.workers.models.model import Model

KEPT = (0.5, 0.8, 0.9, 1.0)
"""Shares of the entities, the surest first, of which precision is given."""


class Judged(NamedTuple):
    """Entities of labellings: how sure, and whether gold has them; without margins these are empty."""

    probability: NDArray[np.float64]
    margin: NDArray[np.float64]
    status: list[str | None]
    right: NDArray[np.bool_]


class Bin(NamedTuple):
    """Entities of a bin: how many, how sure on average, and how many of them are right."""

    number: int
    sure: float
    right: float


def main() -> None:
    """Labels the corpus with each kind of confidence, and compares with gold."""
    parser = options(__doc__, features="rich")
    parser.add_argument("--documents", type=int, default=50, help="documents whose margins are proven, at most")
    chosen = parser.parse_args()
    corpora = labelled_corpora() if chosen.corpus is None or chosen.model is None else None
    corpus = chosen.corpus or (corpora.test if corpora else "")
    folder = chosen.model or trained_model("rich", corpora.train if corpora else Path(corpus))
    model = load_model(folder)
    whole, part = list(batches(corpus)), list(first_documents(plan(corpus), chosen.documents))
    figures: dict[str, Any] = {
        "documents": sum(map(len, whole)),
        "tokens": sum(batch.token_count for batch in whole),
        "documents with margins": sum(map(len, part)),
    }
    sets: dict[str, ConstraintSet] = {"viterbi": Unconstrained(), "certify": consistency_of(folder)}
    judged = {}
    for engine, constraints in sets.items():
        run = Run(engine, model, constraints)
        plain, _ = run.timed(whole, "none")
        marginal, found = run.timed(whole, "marginal")
        figures |= _calibration(engine, found, 1e3 * (marginal - plain) / figures["documents"])
        plain, _ = run.timed(part, "none")
        margin, proven = run.timed(part, "margin")
        figures |= _margins(engine, proven, 1e3 * (margin - plain) / figures["documents with margins"])
        judged[engine] = found, proven
    save("confidence", figures)
    _draw(judged)


class Run(NamedTuple):
    """An engine, with what it labels by."""

    engine: str
    model: Model
    constraints: ConstraintSet

    def timed(self, documents: list[Batch], kind: ConfidenceKind) -> tuple[float, Judged]:
        """CPU seconds, and the entities."""
        settings = check_settings(RunSettings(engine=self.engine, confidence=kind))
        answer = partial(label_batch, model=self.model, constraints=self.constraints, settings=settings)
        answer(documents[0].part(0, 1))
        started = time.process_time()
        answers = list(map(answer, documents))
        return time.process_time() - started, _judged(documents, answers, self.model.labels)


def _judged(documents: list[Batch], answers: list[Labelled], labels: LabelSet) -> Judged:
    found = [confidence for labelled in answers for confidence in labelled.confidence]
    both = zip(documents, answers, strict=True)
    pairs = [pair for batch, labelled in both for pair in zip(batch, labelled.decoded, strict=True)]
    return Judged(
        np.concatenate([np.zeros(0), *(c.probability for c in found)]),
        np.concatenate([np.zeros(0), *(c.margin for c in found if c.margin is not None)]),
        [status for c in found for status in c.status],
        np.concatenate([_right(document, answer.labels, labels) for document, answer in pairs]),
    )


def _right(document: Document, found: Labels, labels: LabelSet) -> NDArray[np.bool_]:
    """(M,) which of the entities gold has."""
    joint, gold = with_gold(labels, document)
    wanted, have = (joint.spans(some, document.sentence_starts) for some in (gold, found))
    known = set(zip(wanted.start.tolist(), wanted.end.tolist(), wanted.type.tolist(), strict=True))
    triples = zip(have.start.tolist(), have.end.tolist(), have.type.tolist(), strict=True)
    return np.array([triple in known for triple in triples], np.bool_)


def bins(judged: Judged) -> list[Bin]:
    """The entities by probability, in bins of equal width; those without any are left out."""
    place = bin_of(judged.probability)
    held = [place == b for b in range(PROBABILITY_BINS) if (place == b).any()]
    return [Bin(int(h.sum()), float(judged.probability[h].mean()), float(judged.right[h].mean())) for h in held]


def _calibration(engine: str, judged: Judged, cost: float) -> dict[str, Any]:
    return {
        f"{engine}: entities": len(judged.right),
        f"{engine}: precision": float(judged.right.mean()),
        f"{engine}: mean probability": float(judged.probability.mean()),
        f"{engine}: expected calibration error": surety(judged.probability, judged.right).calibration_error,
        f"{engine}: bins": [b._asdict() for b in bins(judged)],
        f"{engine}: CPU ms a document, marginals": cost,
    }


def _margins(engine: str, judged: Judged, cost: float) -> dict[str, Any]:
    count = len(judged.right)
    figures: dict[str, Any] = {f"{engine}: CPU ms a document, margins": cost}
    figures |= {f"{engine}: margins, {kind}": judged.status.count(kind) / count for kind in MarginStatus}
    for name, values in (("probability", judged.probability), ("margin", judged.margin)):
        surest = np.argsort(-values, kind="stable")
        for share in KEPT:
            kept = judged.right[surest[: int(share * count)]]
            figures[f"{engine}: precision of the surest {share:.0%} by {name}"] = float(kept.mean())
    return figures


def _draw(judged: dict[str, tuple[Judged, Judged]]) -> None:
    picture = figure(7.5, 3.4)
    left, right = picture.subplots(1, 2)
    left.plot([0, 1], [0, 1], color="0.7", linewidth=1)
    for engine, (whole, part) in judged.items():
        own = bins(whole)
        label = f"{engine} (error {surety(whole.probability, whole.right).calibration_error:.3f})"
        left.plot([b.sure for b in own], [b.right for b in own], marker="o", markersize=4, label=label)
        for name, values in (("probability", part.probability), ("margin", part.margin)):
            ordered = part.right[np.argsort(-values, kind="stable")]
            number = np.arange(1, len(ordered) + 1)
            shown = number >= len(ordered) // 10
            precision = np.cumsum(ordered) / number
            right.plot(number[shown] / len(ordered), precision[shown], label=f"{engine}, by {name}")
    left.set(xlabel="marginal probability of an entity", ylabel="share that is right", xlim=(0, 1), ylim=(0, 1))
    right.set(xlabel="share of the entities, surest first", ylabel="precision")
    for axes in (left, right):
        axes.legend(frameon=False)
    draw(picture, "confidence")


if __name__ == "__main__":
    main()
