"""Documents of a corpus as commands read them: whole, the first ones, or one by its id."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from concord.flows.screen.progress import meter, say
from concord.schemas.columns import LABELS, Reject, gold_fault
from concord.schemas.document import Batch, Document
from concord.schemas.errors import CorpusError
from concord.schemas.labels import OUTSIDE
from concord.schemas.settings import TextSettings
from concord.workers.constraints.constraint_set import ConstraintSet, Unconstrained
from concord.workers.corpus.plan import survey
from concord.workers.corpus.shard_table import ShardTable
from concord.workers.corpus.shards import DEFAULT_TEXT, Shard, open_rows, read_batch
from concord.workers.labelling.labelled import check_there
from concord.workers.models.model import Model, score_column

UNCONSTRAINED = Unconstrained()


def shards_for(corpus: str, model: Model, source: str, constraints: ConstraintSet = UNCONSTRAINED) -> ShardTable:
    """Shards of a corpus that has all that the model at ``source`` and constraints read.

    Raises `CorpusError` for a damaged file, and for one without a column that is read.
    """
    shards, damages, columns = survey(corpus, scores=score_column(model))
    if damages:
        raise damages[0]
    for file, there in columns.items():
        check_there(there, file.path, model=model, constraints=constraints, source=source)
    return shards


def read_documents(
    shards: Sequence[Shard], *, text: TextSettings = DEFAULT_TEXT, gold: bool = False
) -> tuple[list[Document], int]:
    """Documents of shards, and the number of rejects, of which the first is printed.

    - ``gold``: are gold labels needed?

    Raises `CorpusError` if all documents are rejects, or if gold labels are needed and no file has the column
    of labels, or no document an entity; and the errors of reading.
    """
    if gold:
        _check_gold(shards, text)
    documents: list[Document] = []
    rejected: list[Reject] = []
    with meter("reading", sum(shard.rows for shard in shards)) as bar:
        for shard in shards:
            batch, rejects = read_batch(shard, text=text)
            documents += batch
            rejected += rejects
            bar.advance(shard.rows, note="documents")
    if rejected and not documents:
        raise CorpusError(f"none of the {len(rejected):,} documents can be read; the first: {rejected[0].line}")
    if rejected:
        say(f"{len(rejected):,} documents are rejects; the first: {rejected[0].line}", style="yellow")
    labels = [document.labels.used() for document in documents if gold and document.labels is not None]
    if set[str]().union(*labels) == {OUTSIDE}:
        raise CorpusError(
            f"{shards[0].file.path}: no document of this corpus has an entity, all labels are {OUTSIDE}: there is "
            "nothing to learn; give a corpus with entities"
        )
    return documents, len(rejected)


def _check_gold(shards: Sequence[Shard], text: TextSettings) -> None:
    """Raises `CorpusError` if no file has a column of gold labels; it names the first file."""
    schemas = {shard.file: open_rows(shard.file, text=text, scores=shard.scores).schema for shard in shards}
    faults = {file: gold_fault(schema) for file, schema in schemas.items()}
    if faults and all(faults.values()):
        file, fault = next(iter(faults.items()))
        raise CorpusError(
            f"{file.path}: {fault}; gold labels are needed: give a corpus with a column {LABELS!r}, one a token"
        )


def check_labels(documents: Sequence[Document], model: Model, corpus: str) -> None:
    """Raises `CorpusError` for gold labels that the model does not have."""
    columns = {document.doc_id: document.labels for document in documents if document.labels is not None}
    odd = [
        (doc_id, name) for doc_id, column in columns.items() for name in column.used() if name not in model.labels.index
    ]
    if odd:
        count, (doc_id, name) = len(dict(odd)), odd[0]
        raise CorpusError(
            f"{corpus}: {count:,} of {len(documents):,} documents have labels that the model does not have, such as "
            f"{name!r} in document {doc_id!r}; take them out, or give a model that was trained on such labels"
        )


def find_document(corpus: str, doc_id: str, shards: Sequence[Shard]) -> Document:
    """Document of the corpus's shards with an id. Raises `CorpusError` if there is none, and the errors of reading."""
    ids: list[str] = []
    for shard in shards:
        batch, _ = read_batch(shard)
        if doc_id in batch.doc_ids:
            return batch.document(batch.doc_ids.index(doc_id))
        ids += batch.doc_ids[: 3 - len(ids)]
    raise CorpusError(f"{corpus}: no document {doc_id!r}; its first are {', '.join(ids) or 'none at all'}")


def first_documents(shards: Sequence[Shard], documents: int) -> Iterator[Batch]:
    """Batches of the first ``documents`` documents of a corpus. Raises the errors of reading."""
    left = documents
    for shard in shards:
        batch, _ = read_batch(shard)
        yield batch if len(batch) <= left else batch.part(0, left)
        left -= len(batch)
        if left <= 0:
            return
