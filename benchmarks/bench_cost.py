"""How the cost of one document grows with its length, in CPU seconds, for each engine and kind of document.

*ordinary*: documents of the test corpus, and where these end of the training corpus, as one document.
*repeated*: one word, a sentence each time, that could be of any type. *run*: the same word 400 times a
sentence. *name*: a name of two words, whose first also stands alone.

The exponent is fitted to the two longest documents that end within the limit; the engine is not tried on longer ones
where that is exceeded.

    python benchmarks/bench_cost.py --engines gibbs certify --most 200000
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from common import batches, consistency_of, labelled_corpora, options, save, trained_model

from concord.schemas.decoded import Budget, Decoded
from concord.schemas.document import Batch, Document
from concord.schemas.labels import LabelSet
from concord.schemas.potentials import Potentials
from concord.schemas.problem import Problem
from concord.workers.constraints.consistency import LabelConsistency, PairCounts
from concord.workers.constraints.constraint_set import build_problem
from concord.workers.inference.core.engine import document_rng
from concord.workers.inference.registry import SOLVERS
from concord.workers.models.crf import load

FEATURES = "rich"
LABELS = LabelSet.bio(["PER", "ORG", "LOC", "MISC"])
INSIDE = -3.0
"""Nats of a label inside a span where one could begin: repeated words are mostly names of one token."""


def main() -> None:
    """Measures every engine on every kind of document, each twice as long as the one before."""
    parser = options(__doc__, features=FEATURES)
    parser.add_argument("--engines", nargs="+", default=["gibbs", "certify"], choices=list(SOLVERS))
    parser.add_argument("--kinds", nargs="+", default=[*MADE_UP, "ordinary"], choices=[*MADE_UP, "ordinary"])
    parser.add_argument("--least", type=int, default=500, help="tokens of the shortest document")
    parser.add_argument("--most", type=int, default=32_000, help="tokens of the longest document")
    parser.add_argument("--seconds", type=float, default=60.0, help="CPU seconds after which no longer ones are tried")
    parser.add_argument("--work", type=int, help="limit of work; by default the engine's own")
    chosen = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for kind in chosen.kinds:
        make = ordinary(chosen.model, chosen.corpus) if kind == "ordinary" else MADE_UP[kind]
        for engine in chosen.engines:
            label(engine, make(100), None)
            rows += list(grown(kind, engine, make, chosen.least, chosen.most, chosen.seconds, chosen.work))
    save("cost", {"work": chosen.work, "rows": rows})


def grown(
    kind: str, engine: str, make: Callable[[int], Problem], least: int, most: int, seconds: float, work: int | None
) -> Iterator[dict[str, Any]]:
    """A row a length, with the exponent from the length before."""
    before, tokens = 0.0, least
    while tokens <= most:
        problem = make(tokens)
        began = time.process_time()
        decoded = label(engine, problem, work)
        spent = time.process_time() - began
        exponent = math.log2(spent / before) if before else math.nan
        print(
            f"{kind:10}{engine:12}{tokens:9,} tokens{spent:9.2f} CPU s   exponent {exponent:5.2f}   "
            f"{decoded.status:9} work {decoded.work:13,}  objective {decoded.objective:14.3f}  gap {decoded.gap:.3f}",
            flush=True,
        )
        yield {"kind": kind, "engine": engine, "tokens": tokens, "cpu_seconds": spent, "status": decoded.status.value}
        if spent > seconds:
            return
        before, tokens = spent, 2 * tokens


def label(engine: str, problem: Problem, work: int | None) -> Decoded:
    """The engine's answer under its default options."""
    solver = SOLVERS[engine]
    return solver.solve(problem, config=solver.settings(), rng=document_rng(0, "cost"), budget=Budget(None, work))


def repeated(tokens: int) -> Problem:
    """One word, a sentence each time."""
    return made_of([["Jordan"]] * tokens)


def run(tokens: int) -> Problem:
    """One word, 400 times a sentence."""
    return made_of([["Jordan"] * 400] * max(1, tokens // 400))


def name(tokens: int) -> Problem:
    """A name of two words, and its first alone."""
    return made_of([["Jordan", "Jones"], ["Jordan"], ["and"]] * max(1, tokens // 4))


def made_of(sentences: list[list[str]]) -> Problem:
    """A document of these words, each as likely of every type, under costs of label consistency."""
    document = Document.build("cost", sentences)
    unary = np.random.default_rng(0).normal(size=(len(document), len(LABELS)))
    unary[:, LABELS.inside] += INSIDE
    transition = np.where(LABELS.legal_transition, 0.0, -np.inf)
    unary[np.ix_(document.sentence_starts, ~LABELS.legal_start)] = -np.inf
    types = len(LABELS.types)
    pairs = np.full((types, types), 5) + 1000 * np.eye(types, dtype=np.int64)
    constraints = LabelConsistency(PairCounts(LABELS.types, pairs, pairs, np.full(types, 200)))
    return build_problem(document, Potentials(unary, transition, document.sentence_starts), LABELS, constraints)


MADE_UP: dict[str, Callable[[int], Problem]] = {"repeated": repeated, "run": run, "name": name}


def ordinary(folder: Path | None, corpus: str | None) -> Callable[[int], Problem]:
    """Makes documents of a length out of documents of the corpora."""
    corpora = labelled_corpora()
    model_folder = folder or trained_model(FEATURES, corpora.train)
    model, consistency = load(model_folder), consistency_of(model_folder)
    parts = chain(batches(corpus or corpora.test), batches(corpora.train))
    found = [document for batch in parts for document in batch]

    def make(tokens: int) -> Problem:
        document = joined(found, tokens)
        return build_problem(document, model.potentials(Batch.of([document])), model.labels, consistency)

    return make


def joined(documents: list[Document], tokens: int) -> Document:
    """The first so many tokens of all documents as one."""
    ends = np.cumsum([len(document) for document in documents])
    batch = Batch.of(documents[: int(np.searchsorted(ends, tokens)) + 1])
    starts = batch.sentence_starts[batch.sentence_starts < tokens]
    return Document("cost", starts, {column: values[:tokens] for column, values in batch.columns.items()})


if __name__ == "__main__":
    main()
