"""Models side by side on a held-out corpus: entity F1 of Viterbi, gibbs and certify, each with its bootstrap interval.

A row is a feature set and, after a colon, its trainer. Every model is trained by `concord train` with its label
consistency, once, and kept. What is compared here must not be chosen here: `bench_features.py` cross-validates.

    python benchmarks/bench_models.py --clusters words.parquet
"""

from __future__ import annotations

import argparse
import resource
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from common import MADE, batches, concord, consistency_of, labelled_corpora, options, save

from concord.schemas.document import Batch
from concord.schemas.labels import Labels
from concord.schemas.problem import Problem
from concord.workers.constraints.constraint_set import build_problems
from concord.workers.evaluation.bootstrap import paired_bootstrap
from concord.workers.evaluation.measures import Pair, spans
from concord.workers.evaluation.named_counts import Counts
from concord.workers.features.templates import CLUSTERS
from concord.workers.inference.certify import engine as certify
from concord.workers.inference.core.chain import viterbi
from concord.workers.inference.core.engine import document_rng
from concord.workers.inference.sampling import gibbs
from concord.workers.inference.settings import CertifySettings, GibbsSettings
from concord.workers.models.loaders import load_model
from concord.workers.models.model import Model

ROWS = (
    "rich",
    "core+pos",
    "core+pos+clusters",
    "core+pos+mentions+clusters",
    "rich+mentions+clusters",
    "rich+mentions+clusters+entities",
    "rich+mentions+clusters+entities:stacked",
)


class Answers(NamedTuple):
    """Labels (N,) of a problem by each engine, and whether certify's are proven."""

    viterbi: Labels
    gibbs: Labels
    certify: Labels
    certified: bool


ENGINES = Answers._fields[:3]


def answers(problem: Problem, doc_id: str) -> Answers:
    """One document by all engines."""
    sampled = gibbs.solve(problem, config=GibbsSettings(), rng=document_rng(0, doc_id))
    proven = certify.solve(problem, config=CertifySettings(), rng=document_rng(0, doc_id))
    return Answers(viterbi(problem.potentials), sampled.labels, proven.labels, proven.certified)


class Scored(NamedTuple):
    """Entities (D, 3) gold, predicted and correct by engine, and how many documents are proven."""

    counts: dict[str, Counts]
    certified: int


def scored(folder: Path, corpus: str | Path) -> Scored:
    """A model on a corpus."""
    model, found = load_model(folder), list[Answers]()
    parts: dict[str, list[Counts]] = {engine: [] for engine in ENGINES}
    for batch in batches(corpus):
        problems = build_problems(batch, model.potentials(batch), model.labels, consistency_of(folder))
        mine = [answers(problem, doc_id) for problem, doc_id in zip(problems, batch.doc_ids, strict=True)]
        found += mine
        for engine in ENGINES:
            parts[engine].append(_counts(batch, model, [getattr(answer, engine) for answer in mine]))
    counts = {engine: np.concatenate(part) for engine, part in parts.items()}
    return Scored(counts, sum(answer.certified for answer in found))


def _counts(batch: Batch, model: Model, labels: list[Labels]) -> Counts:
    if batch.labels is None:
        raise SystemExit("the corpus has documents without gold labels; give another --corpus")
    gold = model.labels.encode(batch.labels.strings())
    counts: Counts = spans(Pair(batch, model.labels, gold, np.concatenate(labels))).by_document().sum(axis=1)
    return counts


def interval(base: Counts, counts: Counts) -> list[float]:
    """The difference in F1 and the middle 95 % of what draws of documents make of it; over nothing found it is F1."""
    return list(paired_bootstrap(base, counts, rng=np.random.default_rng(0))[:3])


def trained(row: str, chosen: argparse.Namespace, train: Path) -> Path:
    """The model of a row, trained by the command line where it is not there yet."""
    features, _, trainer = row.partition(":")
    out: Path = chosen.models / "-".join([train.name, features, trainer or chosen.trainer, chosen.name])
    if not (out / "manifest.json").is_file():
        files = [f"--{name}={getattr(chosen, name)}" for name in _files(features)]
        options = [part for option in (f"c2={chosen.c2}", *chosen.set) for part in ("--set", option)]
        given = ["--features", features, "--trainer", trainer or chosen.trainer, *options, *files]
        concord("train", "--corpus", train, "--out", out, *given)
    return out


def _files(features: str) -> Iterator[str]:
    """The options of files that a feature set needs."""
    return (name for name in (CLUSTERS, "gazetteer") if name in features.split("+"))


def _cpu(work: Callable[[], Path]) -> tuple[Path, float]:
    """What the work makes, and the CPU seconds of the processes that it started."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    made = work()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return made, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    """Trains what is not there yet, and scores every row."""
    parser = options(__doc__, features=ROWS[0])
    parser.add_argument("--train", type=Path, help="labelled corpus to train on")
    parser.add_argument("--rows", nargs="+", default=ROWS, help="FEATURES or FEATURES:TRAINER")
    parser.add_argument("--trainer", default="sgd", help="of rows that name none")
    parser.add_argument("--c2", type=float, default=0.3)
    parser.add_argument("--set", nargs="+", default=[], metavar="NAME=VALUE", help="further settings of the trainer")
    parser.add_argument("--clusters", help="cluster file; rows that need one are left out without it")
    parser.add_argument("--gazetteer", help="file of phrases; rows that need one are left out without it")
    parser.add_argument("--models", type=Path, default=MADE / "models", help="folder where models are kept")
    parser.add_argument("--name", default="models", help="of the figures, and part of the names of models")
    chosen = parser.parse_args()
    corpora = labelled_corpora() if chosen.train is None or chosen.corpus is None else None
    train, test = (
        given or getattr(corpora, name) for given, name in ((chosen.train, "train"), (chosen.corpus, "test"))
    )
    rows: list[dict[str, Any]] = []
    base: Scored | None = None
    for name in chosen.rows:
        if any(getattr(chosen, file) is None for file in _files(name.partition(":")[0])):
            continue
        folder, seconds = _cpu(partial(trained, name, chosen, train))
        found = scored(folder, test)
        base = base or found
        row = {
            "row": name,
            **{engine: interval(np.zeros_like(counts), counts) for engine, counts in found.counts.items()},
            "certify_over_the_first": interval(base.counts["certify"], found.counts["certify"]),
            "documents": len(found.counts["certify"]),
            "certified": found.certified,
            "scales": consistency_of(folder).scales._asdict(),
            "training_cpu_seconds": round(seconds, 1) or None,  # none where the model was kept from before
        }
        rows.append(row)
        print(_line(row), flush=True)
    save(chosen.name, {"train": train.name, "corpus": Path(test).name, "rows": rows})


def _line(row: dict[str, Any]) -> str:
    """A row of the table in `docs/benchmarks.md`."""
    cells = ("{:.2f} ({:.2f} to {:.2f})".format(*(100 * x for x in row[engine])) for engine in ENGINES)
    return " | ".join(["", f"`{row['row']}`", *cells, f"{row['certified']} of {row['documents']}", ""]).strip()


if __name__ == "__main__":
    main()
