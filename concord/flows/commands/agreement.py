"""Labels of each word of a corpus by a model, counted on Ray: `concord corpus agreement`."""

from __future__ import annotations

from pathlib import Path

from concord.flows.cluster.cluster import cluster
from concord.flows.cluster.counting import count_all
from concord.flows.inputs.apart import check_file_place
from concord.flows.inputs.jobs import folder_place, source_place
from concord.flows.labelling.sources import check_columns, cutting, first_document, open_model
from concord.schemas.errors import UsageError
from concord.schemas.reports import AgreementReport
from concord.schemas.run_context import HERE, RunContext
from concord.schemas.settings import TextSettings
from concord.workers.constraints.constraint_set import Unconstrained
from concord.workers.corpus.plan import plan
from concord.workers.corpus.shards import DEFAULT_TEXT
from concord.workers.models.corpus_agreement import SUFFIX, About, AnswerCounts, write_agreement
from concord.workers.models.model import score_column
from concord.workers.models.settings import AgreementSettings
from concord.workers.remote.answers import ANSWERS, AnswersParts


def agreement(
    corpus: str,
    model: str,
    out: Path,
    settings: AgreementSettings,
    *,
    text: TextSettings = DEFAULT_TEXT,
    context: RunContext = HERE,
) -> AgreementReport:
    """Counts the labels that a model gives to each word, and writes the counts to the file ``out``.

    The counts do not depend on the number of workers. Raises `ShardsError` if a shard failed, `ClusterError`, and the
    errors of reading corpus and model and of writing.
    """
    folder_place(str(out))
    check_file_place(out, [corpus, model])
    if out.suffix != SUFFIX:
        raise UsageError(f"{out}: the file's name has to end with {SUFFIX}, by which `--constraints` knows it")
    opened = open_model(model, context)
    text = cutting(opened, text)
    shards = plan(source_place(corpus), text=text, scores=score_column(opened.model))
    check_columns(shards, text, model=opened.model, constraints=Unconstrained(), source=model)
    parts = AnswersParts(opened.model, text, first_document(shards, text, opened.model))
    with cluster(context.ray, workers=context.workers) as running:
        found = count_all(running, ANSWERS, shards, parts, title="labelling")
    counts = AnswerCounts.merge([AnswerCounts.none(opened.model.labels), *found])
    out.parent.mkdir(parents=True, exist_ok=True)
    write_agreement(out, counts, About(model=opened.model.digest, types=opened.model.labels.types, settings=settings))
    return AgreementReport(
        documents=counts.documents,
        rejected=counts.rejected,
        tokens=int(counts.counts.sum()),
        words=len(counts.words),
        words_in_spans=int(counts.counts[:, 1:].any(axis=1).sum()),
        model_digest=opened.model.digest,
        out=str(out),
    )
