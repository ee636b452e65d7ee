"""Diagnosis of the sampler: several chains on each document, from random labellings, are compared."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from concord.flows.commands.requests import ChainsRequest
from concord.flows.inputs.given import Flag, beside_flags
from concord.flows.inputs.options import OptionError, parse_options
from concord.flows.labelling.sources import find_document, first_documents, open_constraints, open_model
from concord.flows.screen.progress import meter
from concord.schemas.arrays import Floats
from concord.schemas.document import Batch, Document
from concord.schemas.problem import Problem
from concord.schemas.reports import ChainsReport, DocumentChains
from concord.workers.corpus.plan import plan
from concord.workers.inference.core.engine import document_rng
from concord.workers.inference.core.prepared import Prepared
from concord.workers.inference.sampling.diagnostics import LEAST_SWEEPS, diagnose
from concord.workers.inference.settings import GibbsSettings
from concord.workers.models.model import local_scores, score_column

PLAIN_SWEEPS = 1000
"""Default number of sweeps: a diagnosis needs more of them than a good labelling."""

RHAT_LIMIT = 1.05
"""Largest split R̂ of chains that count as mixed."""

PICTURE_WIDTH = 60
LEVELS = "▁▂▃▄▅▆▇█"


def diagnose_chains(
    request: ChainsRequest, options: Sequence[str], constraints: Sequence[str], *, consistency: bool
) -> ChainsReport:
    """Report of `workers.inference.sampling.diagnostics.diagnose` on one document, or on the first ones of a corpus.

    - ``options``: options of the engine gibbs, as NAME=VALUE.
    - ``constraints``: YAML files, added to the label consistency of the model (``consistency``).

    Raises `OptionError`, `CorpusError` where the document is not there, and the errors of reading corpus, model and
    constraints.
    """
    beside_flags(options, {"chains": Flag("--chains", str(request.chains))})
    config = parse_options(options, GibbsSettings, owner="engine gibbs", defaults={"sweeps": PLAIN_SWEEPS})
    if config.sweeps < LEAST_SWEEPS:
        raise OptionError(f"--set sweeps={config.sweeps}: a diagnostic needs at least {LEAST_SWEEPS} sweeps")
    opened = open_model(request.model, request.context)
    declared = open_constraints(opened, constraints, consistency=consistency)
    scores = score_column(opened.model)
    if request.doc is None:
        shards = plan(request.corpus, scores=scores)
        total = min(request.documents, sum(shard.rows for shard in shards))
        batches: Iterator[Batch] = first_documents(shards, request.documents)
    else:
        total, batches = 1, iter([Batch.of([find_document(request.corpus, request.doc, scores=scores)])])
    found: list[DocumentChains] = []
    with meter("sampling", total) as bar:
        for batch in batches:
            problems = local_scores(opened.model, batch).problems(batch, opened.model.labels, declared)
            for document, problem in zip(batch, problems, strict=True):
                found.append(_diagnosed(document, problem, config, request.chains, request.seed))
                bar.advance()
    mixed = sum(row.mixed for row in found)
    return ChainsReport(
        chains=request.chains, sweeps=config.sweeps, rhat_limit=RHAT_LIMIT, mixed=mixed, documents=tuple(found)
    )


def _diagnosed(document: Document, problem: Problem, config: GibbsSettings, chains: int, seed: int) -> DocumentChains:
    rng, prepared = document_rng(seed, document.doc_id), Prepared.of(problem)
    found = diagnose(prepared, config=config, rng=rng, chains=chains)
    return DocumentChains(
        doc_id=document.doc_id,
        tokens=len(document),
        split_rhat=found.split_rhat,
        effective_samples=found.effective_samples,
        flips=found.flips,
        best=found.best,
        viterbi=prepared.first.objective,
        mixed=found.split_rhat < RHAT_LIMIT,
        objective=tuple(tuple(chain.tolist()) for chain in found.objective),
    )


# For people


def picture(row: DocumentChains) -> list[str]:
    """Objectives of the chains over their sweeps, a line for each chain, on one scale (nats)."""
    traces = [_means(np.array(chain)) for chain in row.objective]
    low, high = min(float(t.min()) for t in traces), max(float(t.max()) for t in traces)
    steps = max(high - low, 1e-12) / (len(LEVELS) - 1)
    lines = ["".join(LEVELS[round((value - low) / steps)] for value in trace.tolist()) for trace in traces]
    return [*lines, f"{LEVELS[0]} {low:,.2f} to {LEVELS[-1]} {high:,.2f} nats, each the mean of some sweeps"]


def _means(chain: Floats) -> Floats:
    """(at most `PICTURE_WIDTH`,) means of equal stretches."""
    bounds = np.linspace(0, len(chain), min(PICTURE_WIDTH, len(chain)) + 1).astype(np.int64)
    means: Floats = np.add.reduceat(chain, bounds[:-1]) / np.diff(bounds)
    return means
