"""Warm-up: compiles all kernels that a run's engine may need, on a document made for that."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from concord.schemas.decoded import Budget
from concord.schemas.document import Batch, Column, Document
from concord.schemas.labels import LabelSet
from concord.schemas.potentials import Potentials
from concord.schemas.run import ADOPTED, RunSettings
from concord.workers.constraints.constraint_set import ConstraintSet
from concord.workers.inference.core.incumbent import Search
from concord.workers.inference.core.prepared import Prepared
from concord.workers.inference.sampling.names import sites_of
from concord.workers.inference.sampling.settling import settle
from concord.workers.inference.settings import GibbsSettings
from concord.workers.labelling.labelled import label_batch
from concord.workers.models.model import Model, local_scores

MOST_SENTENCES, MOST_TOKENS = 3, 25
"""Largest number of sentences and of tokens taken from the sample; few, so that every proof ends soon."""

COPIES = 2
"""Number of copies of these in the document, so that every span has another to agree with."""

WARM_WORK = 1_000
"""Work limit of an engine on the document; it only has to reach every kernel."""

SAMPLER_WORK = 6_000_000
"""Work limit of engines that count steps of a sampler: it must end before its result is settled or relaxed."""

SAMPLERS = ("gibbs", "certify")


@dataclass(frozen=True)
class _Noise:
    """Model with random scores, so that copies of a sentence get different labels, and constraints are broken."""

    labels: LabelSet
    digest: str = "noise"
    columns: tuple[str, ...] = ()

    def potentials(self, batch: Batch) -> Potentials:
        width = len(self.labels)
        unary = np.random.default_rng(0).normal(size=(batch.token_count, width))
        return Potentials(unary, np.zeros((width, width)), batch.sentence_starts)


def warm(sample: Document, *, model: Model, constraints: ConstraintSet, settings: RunSettings) -> None:
    """Labels the sample, then copies of its first sentences under scores that break the constraints.

    Documents whose Viterbi labelling breaks nothing are done after a fraction of an engine's kernels. The copies have
    no limit of seconds: compiling would use it up, and leave the rest to be compiled in a document's own time. Answers
    that are adopted need no kernel.
    """
    if settings.engine == ADOPTED:
        return
    label_batch(Batch.of([sample]), model=model, constraints=constraints, settings=settings)
    most = SAMPLER_WORK if settings.engine in SAMPLERS else WARM_WORK
    limits = {
        "work": min(most, settings.work or most),
        "margin_work": min(SAMPLER_WORK, settings.margin_work),
        "n_best_work": min(SAMPLER_WORK, settings.n_best_work),
        "seconds": None,
    }
    short = settings.model_copy(update=limits)
    label_batch(Batch.of([_copies(sample)]), model=_Noise(model.labels), constraints=constraints, settings=short)


def warm_local_search(sample: Document, *, model: Model, constraints: ConstraintSet) -> None:
    """Compiles the local search that closes a sampler's run, on the copies of `warm`.

    The sampler is left out: another process compiles that meanwhile.
    """
    batch, config = Batch.of([_copies(sample)]), GibbsSettings()
    (problem,) = local_scores(_Noise(model.labels), batch).problems(batch, model.labels, constraints)
    search = Search(Prepared.of(problem), budget=Budget(work=SAMPLER_WORK), incumbent=None)
    settle(search, sites_of(search.problem, config.slot_loss), hard_weight=config.hard_weight)


def _copies(sample: Document) -> Document:
    """The first sentences several times over, with their gold labels and without text."""
    bounds = [*sample.sentence_starts.tolist(), len(sample)]
    end = max((b for b in bounds[1 : MOST_SENTENCES + 1] if b <= MOST_TOKENS), default=min(bounds[1], MOST_TOKENS))
    starts = sample.sentence_starts[sample.sentence_starts < end]
    columns = {name: _tiled(column, end) for name, column in sample.columns.items()}
    labels = None if sample.labels is None else _tiled(sample.labels, end)
    return Document("warm-up", np.concatenate([starts + end * i for i in range(COPIES)]), columns, labels)


def _tiled(column: Column, end: int) -> Column:
    return Column(np.tile(column.codes[:end], COPIES), column.values)
