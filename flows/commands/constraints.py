"""A constraint file on a corpus: `concord constraints check` and `explain`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from concord.flows.options import parse_options
from concord.flows.progress import meter
from concord.flows.run_context import RunContext
from concord.flows.sources import find_document, first_documents, open_model
from concord.schemas.audit import CheckReport, Explanation
from concord.schemas.columns import Reject
from concord.schemas.document import Batch
from concord.schemas.errors import CorpusError
from concord.schemas.labels import LabelSet
from concord.workers.audit.auditing import check, explain
from concord.workers.constraints.constraint_file import load_constraints
from concord.workers.corpus.plan import plan
from concord.workers.corpus.shards import Shard, read_batch
from concord.workers.inference.registry import Decoder, solver_named
from concord.workers.models.model import local_scores, score_column


class EngineChoice(NamedTuple):
    """An engine by name.

    ``engine``: its name
    ``options``: its options, as NAME=VALUE
    ``seed``: seed of its random numbers
    """

    engine: str
    options: Sequence[str]
    seed: int

    def decoder(self) -> Decoder:
        """The engine, ready for use. Raises `OptionError`, `EngineError`."""
        settings = parse_options(self.options, solver_named(self.engine).settings, owner=f"engine {self.engine}")
        return Decoder(self.engine, settings, self.seed)


def check_file(
    file: Path,
    corpus: str,
    choice: EngineChoice,
    *,
    model: str | None,
    documents: int,
    conflict_documents: int,
    context: RunContext,
) -> CheckReport:
    """Report of `workers.audit.auditing.check` on the first ``documents`` documents of a corpus.

    Without a model the labels are those of the corpus's gold. Raises `OptionError`, `EngineError`, and the errors of
    reading corpus, model and file.
    """
    decoder = choice.decoder()
    constraints = load_constraints(file)
    opened = None if model is None else open_model(model, context).model
    shards = plan(corpus, scores=None if opened is None else score_column(opened))
    total = min(documents, sum(shard.rows for shard in shards))
    labels = opened.labels if opened is not None else gold_labels(corpus, shards)
    with meter("checking", total) as bar:
        return check(
            first_documents(shards, documents),
            constraints,
            labels,
            model=opened,
            decoder=None if choice.engine == "viterbi" else decoder,
            conflict_documents=conflict_documents,
            progress=bar.advance,
        )


def explain_document(
    file: Path, corpus: str, doc_id: str, choice: EngineChoice, *, model: str, context: RunContext
) -> Explanation:
    """Report of `workers.audit.auditing.explain` on one document of a corpus.

    Raises `CorpusError` where the document is not there, `OptionError`, `EngineError`, and the errors of reading.
    """
    decoder = choice.decoder()
    opened = open_model(model, context).model
    constraints = load_constraints(file).bind(opened.labels)
    document = find_document(corpus, doc_id, scores=score_column(opened))
    return explain(document, local_scores(opened, Batch.of([document])), constraints, opened.labels, decoder=decoder)


def gold_labels(corpus: str, shards: Sequence[Shard]) -> LabelSet:
    """Labels of the whole corpus, since the first documents may lack a rare one. Raises `CorpusError` without gold."""
    names: set[str] = set()
    rejected: list[Reject] = []
    for shard in shards:
        batch, rejects = read_batch(shard)
        rejected += rejects[:1]
        if batch.labels is not None:
            names.update(batch.labels.values[i] for i in np.unique(batch.labels.codes).tolist())
    if not names:
        first = f" the first of its rejects: {rejected[0].told}" if rejected else ""
        raise CorpusError(f"{corpus}: has no gold labels; give a labelled corpus (or, to check, a model){first}")
    return LabelSet.infer(names)
