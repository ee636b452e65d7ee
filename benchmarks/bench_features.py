"""Which features to train with: entity F1 of Viterbi by cross-validation over the training documents.

Official test parts are not looked at. Every row is compared with the first by a paired bootstrap over documents. With
``--validation later`` the documents of each of the last three fifths are labelled by models of those before them.

    python benchmarks/bench_features.py --clusters words.parquet
    python benchmarks/bench_features.py --validation later --sets core+pos+mentions+entities rich+mentions+entities
"""

from __future__ import annotations

import time

import numpy as np
from common import batches, labelled_corpora, options, save

from concord.schemas.settings import Validation
from concord.workers.evaluation.bootstrap import paired_bootstrap
from concord.workers.evaluation.figures import f1_of_counts
from concord.workers.features.templates import CLUSTERS
from concord.workers.learning.trainers.registry import trainer_named
from concord.workers.learning.trainers.selection import cross_validated

SETS = (
    "rich",
    "core+pos",
    "core+pos+mentions",
    "core+pos+clusters",
    "core+pos+mentions+clusters",
    "rich+mentions+clusters",
)


def main() -> None:
    """Cross-validates every feature set."""
    parser = options(__doc__, features=SETS[0])
    parser.add_argument("--clusters", help="cluster file; sets that need one are left out without it")
    told = "feature sets, the first the base of comparisons; what follows in FEATURES:NAME=VALUE,… are settings"
    parser.add_argument("--sets", nargs="+", default=SETS, help=told)
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--trainer", default="sgd")
    parser.add_argument("--name", default="features", help="of the figures")
    parser.add_argument("--validation", type=Validation, choices=Validation, default=Validation.RANDOM)
    parser.add_argument("--c2", nargs="+", type=float, default=[None], help="the trainer's default if not given")
    chosen = parser.parse_args()
    corpus = chosen.corpus or labelled_corpora().train
    documents = [document for batch in batches(corpus) for document in batch]
    trainer = trainer_named(chosen.trainer)
    rows, base = [], None
    for name in chosen.sets:
        features, _, further = name.partition(":")
        for c2 in chosen.c2:
            wants = CLUSTERS in features.split("+")
            if wants and chosen.clusters is None:
                continue
            given = {"features": features} | ({} if c2 is None else {"c2": c2})
            given |= dict(option.split("=", 1) for option in further.split(",") if option)
            given |= {"clusters": chosen.clusters} if wants else {}
            started = time.process_time()
            settings = trainer.settings.model_validate(given)
            judged = {"folds": chosen.folds, "validation": chosen.validation}
            counts = cross_validated(documents, trainer.train, settings, **judged)
            base = counts if base is None else base
            gain = paired_bootstrap(base, counts, rng=np.random.default_rng(0))
            row = {
                "features": name,
                "c2": settings.model_dump()["c2"],
                "f1": float(f1_of_counts(counts.sum(axis=0))),
                "gain": [gain.difference, gain.low, gain.high],
                "cpu_seconds": time.process_time() - started,
            }
            rows.append(row)
            interval = f"{gain.difference:+.2%} ({gain.low:+.2%} to {gain.high:+.2%})"
            print(
                f"{name:32} c2 {row['c2']:<5g} F1 {row['f1']:.2%}  {interval}  {row['cpu_seconds']:.0f} CPU s",
                flush=True,
            )
    how = {"trainer": chosen.trainer, "folds": chosen.folds, "validation": str(chosen.validation)}
    save(chosen.name, {"corpus": str(corpus), **how, "rows": rows})


if __name__ == "__main__":
    main()
