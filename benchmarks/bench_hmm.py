"""Hidden Markov models of citations: what documents without labels add, and what Stokman's eq. 48 costs.

Token accuracy on Cora's 100 development citations. *Without labels*: models of the first n of each of five random
subsets of 25 training citations, or of all 300, that learn on from the 1,000 unlabelled ones by soft and by hard EM.
What is mixed, and how much, is chosen for each n and each EM by cross-validation over the n labelled citations of all
subsets. *Second order*: first order, the exact Viterbi labels of the second, and its potentials by eq. 48, which
engines take, alone and under the shipped constraints, weighed by `odds` on the citations learned from. Needs the real
citations.

    python benchmarks/bench_hmm.py             # documents without labels
    python benchmarks/bench_hmm.py --orders    # second order
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from bench_little_gold import SIZES, SUBSETS, subset, weighed
from common import save
from problems import CORA, Citations, Task, citation_task, citations, decode

from concord.schemas.document import Batch, Document
from concord.schemas.settings import TrainerSettings
from concord.workers.constraints.constraint_set import Unconstrained
from concord.workers.corpus.ingestion import write_corpus
from concord.workers.corpus.readers.citations import read_citations
from concord.workers.corpus.settings import CitationSettings
from concord.workers.evaluation.bootstrap import paired_bootstrap
from concord.workers.evaluation.named_counts import Counts
from concord.workers.learning.search.folds import fold_of
from concord.workers.learning.trainers.registry import TRAINERS
from concord.workers.learning.weights.penalties import OddsSettings
from concord.workers.models.model import Model, viterbi_labels
from concord.workers.models.settings import HmmSettings
from concord.workers.papers.stokman.hmm2 import Hmm2Model
from concord.workers.papers.stokman.settings import Hmm2Settings

FIRST, EXACT, GIVEN, UNDER = "first", "second, exact", "second, eq. 48", ", constraints"
GAINS = ((FIRST, EXACT), (EXACT, GIVEN), (FIRST, GIVEN), (FIRST + UNDER, GIVEN + UNDER))

FOLDS = 5
GRID: dict[str, tuple[str, tuple[float, ...]]] = {
    "models": ("gamma", (0.5, 0.7, 0.9, 0.95)),
    "counts": ("weight", (0.01, 0.03, 0.1)),
}
"""By what is mixed: the option that says how much, and its values."""

PUBLISHED = {5: (58.48, 64.39), 10: (68.61, 70.34), 20: (70.81, 75.83), 300: (86.66, 87.80)}
"""Chang, Ratinov & Roth (2008) table 2, of their test part: HMM, and semi-supervised HMM, in percent."""

HELD = OddsSettings(held=50.0)
"""As in `bench_little_gold`: rows of each constraint that are imagined to have held."""


def main() -> None:
    """Measures one of the two at every size."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--orders", action="store_true", help="measure the second order, not documents without labels")
    options = parser.parse_args()
    if not CORA.is_dir():
        raise SystemExit(f"{CORA}: not there; the tables need the real citations")
    found = citations()
    sizes = {size: [subset(k)[:size] for k in SUBSETS] for size in SIZES} | {len(found.train): [found.train]}
    if options.orders:
        save("hmm_orders", {"second_order": [second_order(found, size, parts) for size, parts in sizes.items()]})
        return
    with tempfile.TemporaryDirectory() as folder:
        pool = Path(folder) / "pool"
        write_corpus(
            read_citations(str(CORA / "citation_unlabeled.txt"), CitationSettings(gold=False)), pool, source="Cora"
        )
        learned = [without_labels(found, size, parts, str(pool)) for size, parts in sizes.items()]
    save("hmm", {"without_labels": learned})


def without_labels(found: Citations, size: int, parts: Sequence[list[Document]], pool: str) -> dict[str, Any]:
    """Accuracy of the labelled documents' own model, and of what either EM makes of it as cross-validation says."""
    names, started = found.model.labels.names, time.process_time()
    row: dict[str, Any] = {"citations": size, "published": PUBLISHED[size]}
    given = {"labelled": HmmSettings(labels=names)}
    for em in ("soft", "hard"):
        settings = [
            HmmSettings.model_validate({"labels": names, "pool": pool, "em": em, "mixing": mixing, option: value})
            for mixing, (option, values) in GRID.items()
            for value in values
        ]
        tried = [cross_validated(parts, one) for one in settings]
        given[em] = settings[int(np.argmax(tried))]
        row[f"{em} chosen"] = {name: getattr(given[em], name) for name in ("mixing", "gamma", "weight")}
        row[f"{em} tried"] = [
            {"mixing": one.mixing, "share": getattr(one, GRID[one.mixing][0]), "cross-validated": 100.0 * value}
            for one, value in zip(settings, tried, strict=True)
        ]
    for name, one in given.items():
        tasks = [citation_task(found._replace(model=learn("hmm", part, one)), Unconstrained()) for part in parts]
        for engine in ("viterbi", "posterior"):
            row[f"{name}, {engine}"] = 100.0 * float(np.mean([decode(task, engine).accuracy(task) for task in tasks]))
    row["cpu_seconds"] = time.process_time() - started
    print(row, flush=True)
    return row


def cross_validated(parts: Sequence[list[Document]], settings: HmmSettings) -> float:
    """Token accuracy of Viterbi on labelled documents that the model has not learned from; the mean of the parts."""
    return float(np.mean([_held_out(part, settings) for part in parts]))


def _held_out(part: list[Document], settings: HmmSettings) -> float:
    fold, right, tokens = np.array(fold_of(part, FOLDS)), 0, 0
    for mine in range(FOLDS):
        inside, outside = ([part[i] for i in np.flatnonzero(chosen)] for chosen in (fold != mine, fold == mine))
        model, batch = learn("hmm", inside, settings), Batch.of(outside)
        right += hits(model, batch, viterbi_labels(model, batch))
        tokens += batch.token_count
    return right / tokens


def hits(model: Model, batch: Batch, labels: Any) -> int:
    """Tokens with the right field."""
    assert batch.labels is not None
    return int((np.array(model.labels.decode(labels)) == np.array(batch.labels.strings())).sum())


def learn(trainer: str, documents: Sequence[Document], settings: TrainerSettings) -> Any:
    """The model of these documents."""
    with tempfile.TemporaryDirectory() as folder:
        return TRAINERS[trainer].train(documents, settings=settings, out=Path(folder) / "model")


def second_order(found: Citations, size: int, parts: Sequence[list[Document]]) -> dict[str, Any]:
    """Accuracy of both orders, the mean of the parts, and gains with intervals over the development citations."""
    started = time.process_time()
    every = [_orders(found, part) for part in parts]
    right = {name: np.sum([one[name] for one in every], axis=0) for name in every[0]}
    tokens = len(parts) * np.array([len(document) for document in found.dev])
    row: dict[str, Any] = {name: 100.0 * float(hit.sum() / tokens.sum()) for name, hit in right.items()}
    row["gains"] = {f"{new} over {old}": _gain(right[old], right[new], tokens) for old, new in GAINS}
    row |= {"citations": size, "cpu_seconds": time.process_time() - started}
    print(row, flush=True)
    return row


def _gain(old: Counts, new: Counts, tokens: Counts) -> tuple[float, float, float]:
    """Points, and the interval of 95 %; right tokens (D,) of each citation."""
    # As many predicted as there are makes F1 the share of tokens that are right.
    before, after = (np.stack([tokens, tokens, right], axis=1) for right in (old, new))
    found = paired_bootstrap(before, after, rng=np.random.default_rng(0))
    return 100.0 * found.difference, 100.0 * found.low, 100.0 * found.high


def _orders(found: Citations, part: list[Document]) -> dict[str, Counts]:
    """(D,) right tokens of each development citation."""
    names = found.model.labels.names
    one = found._replace(model=learn("hmm", part, HmmSettings(labels=names)))
    model: Hmm2Model = learn("hmm2", part, Hmm2Settings(labels=names))
    two = found._replace(model=model)
    best = [model.best(Batch.of([document])) for document in found.dev]
    figures = {EXACT: np.array([hits(model, Batch.of([d]), mine) for d, mine in zip(found.dev, best, strict=True)])}
    for name, learned in ((FIRST, one), (GIVEN, two)):
        alone, under = citation_task(learned, Unconstrained()), citation_task(learned, weighed(learned, part, HELD))
        figures[name] = _right(alone, "viterbi")
        figures[name + UNDER] = _right(under, "certify")
    return figures


def _right(task: Task, engine: str) -> Counts:
    answers = decode(task, engine).decoded
    return np.array([(answer.labels == gold).sum() for answer, gold in zip(answers, task.gold, strict=True)])


if __name__ == "__main__":
    main()
