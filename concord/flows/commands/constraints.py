"""A constraint file on a corpus: `concord constraints check` and `explain`."""

from __future__ import annotations

from collections.abc import Sequence

from concord.flows.commands.requests import CheckRequest, ExplainRequest
from concord.flows.inputs.options import parse_options
from concord.flows.labelling.documents import find_document, first_documents, shards_for
from concord.flows.labelling.sources import open_model
from concord.flows.screen.progress import meter
from concord.schemas.audit import CheckReport, Explanation
from concord.schemas.columns import Reject
from concord.schemas.document import Batch
from concord.schemas.errors import CorpusError
from concord.schemas.label_names import gold_label_set
from concord.schemas.labels import LabelSet
from concord.workers.audit.auditing import check, explain
from concord.workers.constraints.constraint_file import load_constraints
from concord.workers.corpus.plan import plan
from concord.workers.corpus.shards import Shard, read_batch
from concord.workers.inference.registry import Decoder, solver_named
from concord.workers.models.model import local_scores


def check_file(file: str, request: CheckRequest, options: Sequence[str]) -> CheckReport:
    """Report of `workers.audit.auditing.check` on the first documents of a corpus.

    - ``options``: options of the engine, as NAME=VALUE

    Without a model the label set is that of the gold labels. Raises `OptionError`, `EngineError`, and
    the errors of reading corpus, model and file.
    """
    model, documents = request.model, request.documents
    decoder = _decoder(request, options)
    constraints = load_constraints(file)
    if model is None:
        opened, shards = None, plan(request.corpus)
        labels = gold_labels(request.corpus, shards)
    else:
        opened = open_model(model, request.context).model
        shards, labels = shards_for(request.corpus, opened, model, constraints), opened.labels
    total = min(documents, sum(shard.rows for shard in shards))
    with meter("checking", total) as bar:
        return check(
            first_documents(shards, documents),
            constraints,
            labels,
            model=opened,
            decoder=None if request.engine == "viterbi" else decoder,
            conflict_documents=request.conflicts,
            progress=bar.advance,
        )


def explain_document(file: str, request: ExplainRequest, options: Sequence[str]) -> Explanation:
    """Report of `workers.audit.auditing.explain` on one document of a corpus; ``options`` as in `check_file`.

    Raises `CorpusError` if the document is not there, `OptionError`, `EngineError`, and the errors of reading.
    """
    decoder = _decoder(request, options)
    opened = open_model(request.model, request.context).model
    constraints = load_constraints(file).bind(opened.labels)
    shards = shards_for(request.corpus, opened, request.model, constraints)
    document = find_document(request.corpus, request.doc, shards)
    return explain(document, local_scores(opened, Batch.of([document])), constraints, opened.labels, decoder=decoder)


def _decoder(request: CheckRequest | ExplainRequest, options: Sequence[str]) -> Decoder:
    settings = parse_options(options, solver_named(request.engine).settings, owner=f"engine {request.engine}")
    return Decoder(request.engine, settings, request.seed)


def gold_labels(corpus: str, shards: Sequence[Shard]) -> LabelSet:
    """Gold labels of the whole corpus: the first documents may lack a rare one. Raises `CorpusError` without gold, and
    `LabelError` where the labels are of no scheme."""
    names: set[str] = set()
    plain = False
    rejected: list[Reject] = []
    for shard in shards:
        batch, rejects = read_batch(shard)
        rejected += rejects[:1]
        if batch.labels is not None:
            plain |= batch.labels.plain
            names.update(batch.labels.used())
    if not names:
        first = f" the first of its rejects: {rejected[0].line}" if rejected else ""
        raise CorpusError(f"{corpus}: has no gold labels; give a labelled corpus (or, to check, a model){first}")
    return gold_label_set(names, plain=plain)
