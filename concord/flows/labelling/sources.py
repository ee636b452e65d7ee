"""Models, constraints and documents as the user names them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from concord.flows.inputs.model_copies import stored_model
from concord.flows.screen.progress import meter, say
from concord.schemas.columns import LABELS, Reject, gold_fault
from concord.schemas.document import Batch, Document, ScoreColumn
from concord.schemas.errors import CorpusError, UsageError
from concord.schemas.run import REGISTRY
from concord.schemas.run_context import HERE, RunContext
from concord.schemas.secrets import place_of, short_name
from concord.schemas.settings import TextSettings
from concord.workers.constraints.beside_model import joined
from concord.workers.constraints.constraint_file import load_constraints
from concord.workers.constraints.constraint_set import ConstraintSet, Separable
from concord.workers.constraints.rows import ConstraintError
from concord.workers.corpus.plan import plan
from concord.workers.corpus.shards import DEFAULT_TEXT, Shard, open_rows, read_batch
from concord.workers.corpus.tokenizers.registry import pinned
from concord.workers.models.folder import MANIFEST, parse_manifest
from concord.workers.models.loaders import load_model
from concord.workers.models.model import Model, text_tokenizer
from concord.workers.models.saved_consistency import saved_consistency
from concord.workers.storage.storage import URI, FolderStorage, storage_at


class OpenModel(NamedTuple):
    """A model ready for use.

    - ``folder``: the folder it was read from.
    - ``version``: its version in MLflow's registry; None for a model outside of it.
    """

    model: Model
    folder: Path
    version: str | None = None


def open_model(reference: str, context: RunContext = HERE) -> OpenModel:
    """The model of a folder, of a URI in an object store, or of ``models:/NAME@ALIAS`` in MLflow's registry.

    Raises `ModelError`, `StorageError`, `OutputError` where a store cannot be reached, and `TrackingError`. MLflow
    takes seconds to import, and is imported only for the registry.
    """
    if not reference.startswith(REGISTRY):
        folder = _model_folder(reference)
        return OpenModel(load_model(folder), folder)
    from concord.flows.tracking.tracking import Tracking

    found = Tracking(context.tracking).fetch(reference)
    return OpenModel(load_model(found.folder), found.folder, f"{found.name} v{found.version}")


def _model_folder(reference: str) -> Path:
    if not URI.match(reference):
        return Path(reference).expanduser()
    storage = storage_at(reference)
    return storage.root if isinstance(storage, FolderStorage) else stored_model(reference)


def cutting(opened: OpenModel, text: TextSettings) -> TextSettings:
    """Settings of raw text with its tokenizer and the version of that: the one asked for, or else the model's.

    Raises `TokenizerError`, and `UsageError` if a tokenizer is asked for and the model has a function of its own.
    """
    own = text_tokenizer(opened.model)
    if own is None:
        stated = parse_manifest(opened.folder / MANIFEST).tokenizer
        return text.model_copy(update={"tokenizer": pinned(text.tokenizer or stated)})
    if text.tokenizer is not None:
        raise UsageError(f"{opened.folder}: the model cuts raw text by its own {own.name}; leave --tokenizer out")
    return text


def open_constraints(opened: OpenModel, files: Sequence[str], *, consistency: bool) -> Separable:
    """Constraints of a model: its label consistency (unless switched off), and those of files.

    Tells what is both learned and declared, see `joined`. Raises `ConstraintError` and `OSError`.
    """
    for name in files:
        if short_name(name).endswith(".parquet"):
            raise ConstraintError(
                f"{place_of(name)}: no YAML file of constraints; counts of `concord corpus agreement` are no longer "
                "read: leave them out"
            )
    parts = [load_constraints(name).bind(opened.model.labels) for name in files]
    found = joined(saved_consistency(opened.folder) if consistency else None, parts)
    for note in found.notes:
        say(note)
    return found.constraints


def check_there(there: Sequence[str], place: str, *, model: Model, constraints: ConstraintSet, source: str) -> None:
    """Raises `CorpusError` if a column that is read is not among the token columns ``there`` of a place."""
    needs = [
        (
            f"the model {source}",
            model.columns,
            "use a model trained without it, such as with the default features, core+mentions+clusters+entities",
        ),
        ("a constraint", constraints.columns, "leave that constraint out"),
    ]
    for who, columns, remedy in needs:
        missing = [name for name in columns if name not in there]
        if missing:
            raise CorpusError(
                f"{place}: {who} reads the column {', '.join(map(repr, missing))}, which is not there "
                f"(there are {', '.join(there)}); {remedy}, or add the column"
            )


def read_documents(
    shards: Sequence[Shard], *, text: TextSettings = DEFAULT_TEXT, gold: bool = False
) -> tuple[list[Document], int]:
    """Documents of shards, and the number of rejects, of which the first is printed.

    - ``gold``: are gold labels needed?

    Raises `CorpusError` if all documents are rejects, or if gold labels are needed and no file has the column
    of labels; and the errors of reading.
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


def find_document(corpus: str, doc_id: str, *, scores: ScoreColumn | None = None) -> Document:
    """Document with an id. Raises `CorpusError` if there is none, and the errors of reading."""
    ids: list[str] = []
    for shard in plan(corpus, scores=scores):
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


def some_documents(shards: Sequence[Shard], text: TextSettings, model: Model, documents: int) -> list[Document]:
    """The first documents, at most ``documents``, of the first shard that can be read and has one."""
    for shard in shards:
        try:
            batch, _ = read_batch(shard, text=text, tokenizer=text_tokenizer(model))
        except CorpusError:
            continue  # the shard's worker meets it again and reports it
        if len(batch):
            return [batch.document(i) for i in range(min(documents, len(batch)))]
    return []
