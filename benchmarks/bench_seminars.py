"""Announcements of talks: what the consistency of times and speakers is worth (Finkel et al. 2005, table 6).

F1 of tokens by field, averaged over fields, by five folds of the 259 mails that are here (a hash of the file's name;
the paper had 485, and folds that are not to be had). A mail is labelled by Viterbi, by Gibbs sampling with 100 sweeps
of linear cooling under ten seeds, and with a proof. The paper's constraints, `infra/constraints/seminars.yaml`, at
several strengths: 1 is as printed. Needs the real mails.

    python benchmarks/bench_seminars.py
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from common import ROOT, save
from corpora import documents_of

from concord.schemas.document import Batch, Document
from concord.schemas.labels import Labels, LabelSet
from concord.schemas.problem import Problem
from concord.workers.constraints.constraint_file import load_constraints
from concord.workers.constraints.constraint_set import build_problems
from concord.workers.constraints.declared import DeclaredConstraints
from concord.workers.evaluation.bootstrap import paired_bootstraps
from concord.workers.evaluation.figures import f1, macro
from concord.workers.evaluation.measures import Pair, tokens
from concord.workers.evaluation.named_counts import Counts
from concord.workers.inference.core.prepared import Prepared
from concord.workers.inference.registry import Decoder
from concord.workers.learning.search.folds import fold_of
from concord.workers.learning.trainers.registry import trainer_named

FOLDS, SEEDS, SWEEPS = 5, range(10), 100
STRENGTHS = (0.25, 0.5, 1.0)
FILE = ROOT / "infra" / "constraints" / "seminars.yaml"
PUBLISHED = {"viterbi": (96.67, 97.36, 83.39, 89.98, 91.85), "gibbs": (97.11, 97.89, 84.16, 90.00, 92.29)}
"""Start time, end time, speaker, location, and their mean, in percent."""
FIELDS = ("stime", "etime", "speaker", "location")


class Fold(NamedTuple):
    """Held-out mails, their gold labels (N,), and the problems of each strength."""

    batch: Batch
    gold: Labels
    labels: LabelSet
    problems: dict[float, list[Problem]]


def folds_of(documents: Sequence[Document], features: str) -> Iterator[Fold]:
    """A model of the other folds for each fold."""
    trainer, declared, fold = trainer_named("sgd"), load_constraints(FILE), fold_of(documents, FOLDS)
    settings = trainer.settings.model_validate({"features": features})
    for mine in range(FOLDS):
        inside, outside = (
            [d for d, f in zip(documents, fold, strict=True) if (f == mine) == own] for own in (False, True)
        )
        with tempfile.TemporaryDirectory() as folder:
            model = trainer.train(inside, settings=settings, out=Path(folder) / "model")
        batch = Batch.of(outside)
        assert batch.labels is not None
        potentials, bound = model.potentials(batch), declared.bind(model.labels)
        problems = {
            strength: list(build_problems(batch, potentials, model.labels, times(bound, strength)))
            for strength in STRENGTHS
        }
        yield Fold(batch, model.labels.encode(batch.labels.strings()), model.labels, problems)


def times(constraints: DeclaredConstraints, strength: float) -> DeclaredConstraints:
    """The constraints at so many times their weights."""
    return DeclaredConstraints(
        tuple(t.model_copy(update={"weight": strength * vars(t)["weight"]}) for t in constraints.templates)
    )


def counts(fold: Fold, answers: Sequence[Labels]) -> Counts:
    """(D, R, 3) tokens of each mail by field, in the order of `FIELDS`."""
    items = tokens(Pair(fold.batch, fold.labels, fold.gold, np.concatenate(answers)))
    found: Counts = items.by_document()[:, [items.names.index(name) for name in FIELDS]]
    return found


def decoded(fold: Fold, strength: float, engine: str, seed: int) -> tuple[Counts, int]:
    """The counts of an engine's answers, and how many of them are proven."""
    options = {"sweeps": SWEEPS} if engine == "gibbs" else {}
    decoder = Decoder.of(engine, options, seed=seed)
    pairs = zip(fold.problems[strength], fold.batch.doc_ids, strict=True)
    answers = [decoder(Prepared.of(problem), doc_id) for problem, doc_id in pairs]
    return counts(fold, [answer.labels for answer in answers]), sum(answer.certified for answer in answers)


def main() -> None:
    """Measures Viterbi, gibbs and certify on all folds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--features", default="core+mentions+entities")
    chosen = parser.parse_args()
    started = time.process_time()
    folds = list(folds_of(documents_of("mails"), chosen.features))
    base = np.concatenate([decoded(fold, STRENGTHS[0], "viterbi", 0)[0] for fold in folds])
    rows = [row_of("viterbi", None, [base], base, 0)]
    for strength in STRENGTHS:
        for engine, seeds in (("gibbs", SEEDS), ("certify", range(1))):
            found = [[decoded(fold, strength, engine, seed) for fold in folds] for seed in seeds]
            parts = [np.concatenate([part for part, _ in run]) for run in found]
            rows.append(row_of(engine, strength, parts, base, sum(proven for _, proven in found[0])))
    seconds = time.process_time() - started
    save("seminars", {"features": chosen.features, "published": PUBLISHED, "rows": rows, "cpu_seconds": seconds})


def row_of(engine: str, strength: float | None, runs: Sequence[Counts], base: Counts, proven: int) -> dict[str, object]:
    """One row, printed: fields of the first seed, and the mean over fields of all seeds."""
    means = [100.0 * float(macro(f1)(run.sum(axis=0))) for run in runs]
    fields = (100.0 * f1(runs[0].sum(axis=0)[:, None])).tolist()
    gain = paired_bootstraps(base, runs[0], {"mean": macro(f1)}, rng=np.random.default_rng(0))["mean"]
    mean, deviation, lowest = float(np.mean(means)), float(np.std(means)), min(means)
    row: dict[str, object] = {
        "engine": engine,
        "strength": strength,
        "fields": dict(zip(FIELDS, fields, strict=True)),
        "mean": mean,
        "deviation": deviation,
        "lowest": lowest,
        "gain": [100.0 * part for part in gain[:3]],
        "proven": proven,
    }
    shown = "  ".join(f"{name} {value:.2f}" for name, value in zip(FIELDS, fields, strict=True))
    spread = f"mean {mean:.2f} ± {deviation:.3f}, lowest {lowest:.2f}"
    low, high = (100.0 * part for part in gain[1:3])
    print(f"{engine:8} {strength}  {shown}  {spread}  gain {low:+.2f} to {high:+.2f}  proven {proven}", flush=True)
    return row


if __name__ == "__main__":
    main()
