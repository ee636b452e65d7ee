"""Do Gibbs chains mix? Split R̂, effective samples and flips of several chains from random labellings on each document.

R̂ near 1 means that chains from different starts agree. Chains run at a constant temperature, under the model's label
consistency and the constraints of ``--constraints``; with ``--doc`` the objective of each chain is drawn, too.

    python benchmarks/bench_chains.py --model MODEL --corpus TESTA --doc eng.testa-0012
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from common import options, trained_model
from corpora import labelled_corpora

from concord.flows.labelling.documents import find_document, first_documents, shards_for
from concord.flows.labelling.sources import open_constraints, open_model
from concord.schemas.arrays import Floats
from concord.schemas.document import Batch
from concord.schemas.problem import Problem
from concord.workers.inference.core.engine import document_rng
from concord.workers.inference.core.prepared import Prepared
from concord.workers.inference.sampling.diagnostics import Diagnostic, diagnose
from concord.workers.inference.settings import GibbsSettings
from concord.workers.models.model import local_scores

FEATURES = "rich"
RHAT_LIMIT = 1.05
"""Largest split R̂ of chains that count as mixed."""
PICTURE_WIDTH = 60
LEVELS = "▁▂▃▄▅▆▇█"


def main() -> None:
    """Prints a line for each document, the number of those that mixed, and the picture of one."""
    parser = options(__doc__, features=FEATURES)
    parser.add_argument("--constraints", action="append", default=[], help="YAML file of constraints, may be repeated")
    parser.add_argument("--doc", help="id of the document to look at")
    parser.add_argument("--documents", type=int, default=20, help="number of documents, the first of the corpus")
    parser.add_argument("--chains", type=int, default=4, help="number of chains for each document")
    parser.add_argument("--sweeps", type=int, default=1000, help="sweeps of each chain, of which the later half counts")
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    config = GibbsSettings(sweeps=chosen.sweeps)
    mixed = documents = 0
    print(f"{'document':30}{'tokens':>8}{'R̂':>8}{'samples':>10}{'flips':>8}{'best':>13}{'Viterbi':>13}")
    corpus = chosen.corpus or str(labelled_corpora().test)
    model = chosen.model or trained_model(FEATURES, labelled_corpora().train)
    for doc_id, problem in problems(corpus, str(model), chosen.constraints, chosen.doc, chosen.documents):
        prepared = Prepared.of(problem)
        row = diagnose(prepared, config=config, rng=document_rng(chosen.seed, doc_id), chains=chosen.chains)
        chain_figures = f"{row.split_rhat:8.3f}{row.effective_samples:10,.0f}{row.flips:8.2f}"
        nats = f"{row.best:13,.3f}{prepared.first.objective:13,.3f}"
        print(f"{doc_id:30}{len(problem.potentials.unary):8,}{chain_figures}{nats}")
        mixed += row.split_rhat < RHAT_LIMIT
        documents += 1
        if chosen.doc is not None:
            print(*picture(row), sep="\n")
    print(f"{mixed} of {documents} documents mixed (split R̂ below {RHAT_LIMIT:g})")


def problems(
    corpus: str, folder: str, constraints: list[str], doc: str | None, documents: int
) -> Iterator[tuple[str, Problem]]:
    """Id and problem of one document, or of the first ones of the corpus."""
    opened = open_model(folder)
    declared = open_constraints(opened, constraints, consistency=True)
    shards = shards_for(corpus, opened.model, folder, declared)
    if doc is None:
        batches = first_documents(shards, documents)
    else:
        batches = iter([Batch.of([find_document(corpus, doc, shards)])])
    for batch in batches:
        ground = local_scores(opened.model, batch).problems(batch, opened.model.labels, declared)
        yield from zip(batch.doc_ids, ground, strict=True)


def picture(row: Diagnostic) -> list[str]:
    """Objectives of the chains over their sweeps, a line for each chain, on one scale (nats)."""
    traces = [means(chain) for chain in row.objective]
    low, high = min(float(t.min()) for t in traces), max(float(t.max()) for t in traces)
    steps = max(high - low, 1e-12) / (len(LEVELS) - 1)
    lines = ["".join(LEVELS[round((value - low) / steps)] for value in trace.tolist()) for trace in traces]
    return [*lines, f"{LEVELS[0]} {low:,.2f} to {LEVELS[-1]} {high:,.2f} nats, each the mean of some sweeps"]


def means(chain: Floats) -> Floats:
    """(at most `PICTURE_WIDTH`,) means of equal stretches."""
    bounds = np.linspace(0, len(chain), min(PICTURE_WIDTH, len(chain)) + 1).astype(np.int64)
    of_parts: Floats = np.add.reduceat(chain, bounds[:-1]) / np.diff(bounds)
    return of_parts


if __name__ == "__main__":
    main()
