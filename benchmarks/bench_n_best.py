"""The K best labellings of every document: how many are proven, and what that costs.

    python benchmarks/bench_n_best.py --model MODEL --corpus TESTA --count 50

With the model's own label consistency, and without constraints. Times are CPU seconds of one process, with kernels
compiled before; those of the answer itself are apart.
"""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from common import batches, consistency_of, options, save, trained_model
from corpora import labelled_corpora

from concord.schemas.decoded import Ranking
from concord.schemas.document import Batch
from concord.schemas.run import RunSettings
from concord.workers.constraints.constraint_set import ConstraintSet, Unconstrained
from concord.workers.labelling.labelled import Labelled, check_settings, label_batch
from concord.workers.models.loaders import load_model
from concord.workers.models.model import Model


def main() -> None:
    """Lists the best labellings of the corpus."""
    parser = options(__doc__, features="rich")
    parser.add_argument("--count", type=int, default=50, help="labellings a document")
    chosen = parser.parse_args()
    corpora = labelled_corpora() if chosen.corpus is None or chosen.model is None else None
    corpus = chosen.corpus or (corpora.test if corpora else "")
    folder = chosen.model or trained_model("rich", corpora.train if corpora else Path(corpus))
    model, whole = load_model(folder), list(batches(corpus))
    figures: dict[str, Any] = {"documents": sum(map(len, whole)), "labellings a document": chosen.count}
    sets: dict[str, ConstraintSet] = {"viterbi": Unconstrained(), "certify": consistency_of(folder)}
    for engine, constraints in sets.items():
        plain, _ = _timed(whole, model, constraints, RunSettings(engine=engine))
        listed, answers = _timed(whole, model, constraints, RunSettings(engine=engine, n_best=chosen.count))
        found = [ranking for labelled in answers for ranking in labelled.rankings]
        figures |= _figures(engine, found, 1e3 * (listed - plain) / len(found), 1e3 * plain / len(found))
    save("n_best", figures)


def _timed(
    documents: list[Batch], model: Model, constraints: ConstraintSet, settings: RunSettings
) -> tuple[float, list[Labelled]]:
    """CPU seconds, and the answers."""
    answer = partial(label_batch, model=model, constraints=constraints, settings=check_settings(settings))
    answer(documents[0].part(0, 2))
    started = time.process_time()
    answers = list(map(answer, documents))
    return time.process_time() - started, answers


def _figures(engine: str, found: list[Ranking], cost: float, answer: float) -> dict[str, Any]:
    proven = np.concatenate([ranking.proven for ranking in found])
    return {
        f"{engine}: labellings": len(proven),
        f"{engine}: proven": float(proven.mean()),
        f"{engine}: documents with all of them proven": float(np.mean([ranking.proven.all() for ranking in found])),
        f"{engine}: median nats of the last below the first": float(np.median([r.gap[-1] for r in found])),
        f"{engine}: CPU ms a document, the list": cost,
        f"{engine}: CPU ms a document, the answer": answer,
    }


if __name__ == "__main__":
    main()
