"""Gibbs sampling with 100 sweeps and all families of label consistency, against python-crfsuite without any.

Both start from the same batches in memory, on one core, one after the other. The sampler's time
has scoring and grounding in it; the plain path builds its features in Python and tags.

    python benchmarks/bench_gibbs.py
"""

from __future__ import annotations

import time

import pycrfsuite
from bench_scoring import tagged, warm_up
from common import batches, consistency_of, options, save, trained_model
from corpora import labelled_corpora

from concord.schemas.document import Batch
from concord.workers.constraints.consistency import LabelConsistency
from concord.workers.constraints.constraint_set import build_problem
from concord.workers.features.attributes import AttributeMaker
from concord.workers.inference.core.engine import document_rng
from concord.workers.inference.sampling import gibbs
from concord.workers.inference.settings import GibbsSettings
from concord.workers.learning.trainers.crfsuite import CRFSUITE_FILE
from concord.workers.models.crf import CrfModel, load

FEATURES = "rich"
SWEEPS = 100


def main() -> None:
    """Measures both on the same documents."""
    chosen = options(__doc__, features=FEATURES).parse_args()
    corpora = labelled_corpora()
    folder = chosen.model or trained_model(FEATURES, corpora.train)
    model = load(folder)
    consistency = consistency_of(folder)
    parts = list(batches(chosen.corpus or corpora.test))
    sample(model, consistency, Batch.of([parts[0].document(0)]))
    warm_up(model, parts[0])
    tagger, maker = pycrfsuite.Tagger(), AttributeMaker(model.features)
    tagger.open(str(folder / CRFSUITE_FILE))
    began = time.process_time()
    for part in parts:
        sample(model, consistency, part)
    middle = time.process_time()
    for part in parts:
        tagged(tagger, maker, part)
    seconds = middle - began, time.process_time() - middle
    tokens = sum(part.token_count for part in parts)
    save(
        "gibbs",
        {
            "corpus": chosen.corpus or corpora.name,
            "tokens": tokens,
            "sweeps": SWEEPS,
            "gibbs_tokens_per_second": round(tokens / seconds[0]),
            "crfsuite_tokens_per_second": round(tokens / seconds[1]),
            "gibbs_over_crfsuite": seconds[1] / seconds[0],
        },
    )


def sample(model: CrfModel, consistency: LabelConsistency, batch: Batch) -> None:
    """Scores a batch and samples every document of it."""
    potentials = model.potentials(batch)
    for i, document in enumerate(batch):
        part = potentials.part(int(batch.doc_starts[i]), int(batch.doc_starts[i + 1]))
        problem = build_problem(document, part, model.labels, consistency)
        gibbs.solve(problem, config=GibbsSettings(sweeps=SWEEPS), rng=document_rng(0, document.doc_id))


if __name__ == "__main__":
    main()
