"""Penalties by every way to weigh them: Cora's development citations under the shipped constraints.

Counted on the 300 training citations; `tuned` multiplies what was counted by a factor for each template, chosen on a
fifth of the training citations by a model and counts of the others. Token accuracy of certify and its gain over that
of Viterbi, with the middle 95 % of draws of citations. A CRF of the feature set `fields`.

    python benchmarks/bench_tuned.py
"""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from common import save
from problems import Citations, citation_task, citations

from concord.schemas.document import Batch, Document
from concord.schemas.labels import Labels
from concord.workers.constraints.declared import DeclaredConstraints
from concord.workers.constraints.declared_weights import declared_weights, with_weights
from concord.workers.evaluation.bootstrap import paired_bootstraps
from concord.workers.evaluation.figures import recall
from concord.workers.evaluation.measures import Pair, labels
from concord.workers.evaluation.named_counts import Counts
from concord.workers.inference.registry import Decoder
from concord.workers.learning.search.folds import is_held_out
from concord.workers.learning.trainers import crfsuite
from concord.workers.learning.weights.penalties import PENALTIES, TunedSettings
from concord.workers.learning.weights.row_counts import count_rows
from concord.workers.learning.weights.tuned_weights import TunedWeights, tune_weights
from concord.workers.models.settings import CrfSettings

HELD_OUT = 0.2
BASES = ("odds", "fersini")
ALONE = ("odds", "fersini", "bayes", "fixed")


def soft(constraints: DeclaredConstraints) -> DeclaredConstraints:
    """The same, with nothing hard: what is counted decides."""
    return DeclaredConstraints(
        tuple(
            t.model_copy(update={"name": title} | ({"weight": 1.0} if math.isinf(getattr(t, "weight", 0.0)) else {}))
            for t, title in zip(constraints.templates, constraints.titles, strict=True)
        )
    )


def counted(constraints: DeclaredConstraints, documents: Sequence[Document], found: Citations, name: str) -> Any:
    """The constraints weighed on some documents."""
    cost = PENALTIES[name]
    counts = count_rows(constraints, [Batch.of(documents)], found.model.labels)
    return with_weights(constraints, {title: count.weight(cost, cost.settings()) for title, count in counts.items()})


def tuned(constraints: DeclaredConstraints, found: Citations, base: str) -> TunedWeights:
    """Factors from a fifth of the training citations, by a model and counts of the others."""
    held = [is_held_out(document.doc_id, HELD_OUT) for document in found.train]
    inside, outside = ([d for d, out in zip(found.train, held, strict=True) if out == own] for own in (False, True))
    with tempfile.TemporaryDirectory() as folder:
        model = crfsuite.train(inside, settings=CrfSettings(features="fields"), out=Path(folder) / "model")
    weighed = counted(constraints, inside, found, base)
    return tune_weights(Batch.of(outside), model, weighed, TunedSettings(base=base))


def right(found: Citations, constraints: DeclaredConstraints, engine: str) -> Counts:
    """(D, R, 3) tokens of the development citations by label."""
    task, decoder = citation_task(found, constraints), Decoder.of(engine)
    answers: list[Labels] = [decoder(p, d).labels for p, d in zip(task.problems, task.doc_ids, strict=True)]
    pair = Pair(Batch.of(found.dev), task.labels, np.concatenate(task.gold), np.concatenate(answers))
    return labels(pair).by_document()


def main() -> None:
    """Prints and saves all figures."""
    found, started = citations(), time.process_time()
    shipped = found.constraints
    base = right(found, shipped, "viterbi")
    free = soft(shipped)
    sets = {"shipped": shipped} | {name: counted(free, found.train, found, name) for name in ALONE}
    chosen = {name: tuned(free, found, name) for name in BASES}
    sets |= {f"tuned {name}": given.of(sets[name]) for name, given in chosen.items()}
    rows = []
    for name, constraints in sets.items():
        counts = right(found, constraints, "certify")
        gain = paired_bootstraps(base, counts, {"accuracy": recall}, rng=np.random.default_rng(0))["accuracy"]
        accuracy = float(recall(counts.sum(axis=0)))
        rows.append({"weights": name, "accuracy": accuracy, "gain": list(gain[:3])})
        print(f"{name:16} accuracy {accuracy:.2%}  gain {gain.low:+.2%} to {gain.high:+.2%}", flush=True)
    factors = {
        name: {"factors": dict(t.factors), "before": t.base, "after": t.figure, "trials": t.trials}
        for name, t in chosen.items()
    }
    save(
        "tuned",
        {
            "corpus": found.name,
            "accuracy of Viterbi": float(recall(base.sum(axis=0))),
            "rows": rows,
            "tuned": factors,
            "weights": {name: dict(declared_weights(constraints)) for name, constraints in sets.items()},
            "cpu_seconds": time.process_time() - started,
        },
    )


if __name__ == "__main__":
    main()
