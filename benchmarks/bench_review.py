"""How much of a run a review promises after 300 and 600 answers, and how often a promise is false.

    python benchmarks/bench_review.py

Four corpora with gold: a CRF is trained on four fifths of the training part, the last fifth is the labelled data for
the logistic fit and for split-conformal prediction, and the development part is the run that is reviewed. An answer is
right where gold has the entity. Each figure is over draws of the order in which entities are read:

- review: nested sets and betting, `concord.workers.review`
- Clopper-Pearson: a plain sample of a size that is fixed before, the same nested sets, an exact binomial bound each
- split-conformal: a threshold from the labelled data, no answers read, and the errors that are then in what it accepts
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from common import MADE, batches, save
from corpora import corpus, documents_of
from numpy.typing import NDArray

from concord.schemas.document import Batch, Document
from concord.schemas.labels import LabelSet
from concord.schemas.run import RunSettings
from concord.workers.constraints.constraint_set import Unconstrained
from concord.workers.corpus.ingestion import write_corpus
from concord.workers.labelling.labelled import check_settings, label_batch
from concord.workers.labelling.report import with_gold
from concord.workers.learning.trainers.registry import trainer_named
from concord.workers.models.loaders import load_model

CORPORA = {"CoNLL-2003": "news", "Cora": "citations", "UMass": "nested-citations", "BC5CDR": "abstracts"}
"""Training parts by what they are called; their development parts are the runs."""
FEATURES = "core+mentions+entities"
LABELLED = 0.2
"""Share of the training part that the model has not learned from."""


class Judged(NamedTuple):
    """The entities of a labelled corpus: how sure, whether gold has them, and the number of their document."""

    probability: NDArray[np.float64]
    right: NDArray[np.bool_]
    document: NDArray[np.int64]


def judged_corpus(name: str) -> tuple[Judged, Judged]:
    """The entities of the labelled fifth of a training part, and of the development part; kept once labelled."""
    kept = MADE / "review" / f"{name}.npz"
    if not kept.is_file():
        model = MADE / "models" / f"{name}-review"
        documents = documents_of(name)
        cut = int((1 - LABELLED) * len(documents))
        if not (model / "manifest.json").is_file():
            trainer = trainer_named("sgd")
            trainer.train(documents[:cut], settings=trainer.settings(features=FEATURES), out=model)
        labelled = MADE / "corpora" / f"{name}-labelled"
        if not labelled.is_dir():
            write_corpus(documents[cut:], labelled, source=name)
        parts = [_judged(list(batches(path)), model) for path in (labelled, corpus(f"{name}-dev"))]
        kept.parent.mkdir(parents=True, exist_ok=True)
        columns = {f"{field}{n}": value for n, part in enumerate(parts) for field, value in part._asdict().items()}
        np.savez(kept, **columns)
    with np.load(kept) as data:
        first, second = (Judged(*(data[f"{field}{n}"] for field in Judged._fields)) for n in (0, 1))
    return first, second


def _judged(documents: list[Batch], folder: Path) -> Judged:
    model = load_model(folder)
    settings = check_settings(RunSettings(engine="viterbi", confidence="marginal"))
    probability, right, place = [np.zeros(0)], [np.zeros(0, np.bool_)], [np.zeros(0, np.int64)]
    number = 0
    for batch in documents:
        labelled = label_batch(batch, model=model, constraints=Unconstrained(), settings=settings)
        for document, decoded, sure in zip(batch, labelled.decoded, labelled.confidence, strict=True):
            some = _right(document, decoded.labels, model.labels)
            probability.append(sure.probability)
            right.append(some)
            place.append(np.full(len(some), number))
            number += 1
    return Judged(*map(np.concatenate, (probability, right, place)))


def _right(document: Document, answer: NDArray[Any], labels: LabelSet) -> NDArray[np.bool_]:
    """(M,) which of the entities gold has."""
    joint, gold = with_gold(labels, document)
    wanted, have = (joint.spans(some, document.sentence_starts) for some in (gold, answer))
    both = [set(zip(s.start.tolist(), s.end.tolist(), s.type.tolist(), strict=True)) for s in (wanted,)]
    return np.array([t in both[0] for t in zip(have.start.tolist(), have.end.tolist(), have.type.tolist(), strict=True)], np.bool_)


if __name__ == "__main__":
    for one in ("citations", "nested-citations", "abstracts", "news"):
        a, b = judged_corpus(one)
        print(one, len(a.right), a.right.mean(), len(b.right), b.right.mean(), flush=True)
