"""Models and constraints as the user names them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from shlex import quote
from typing import NamedTuple

from concord.flows.inputs.model_copies import stored_model
from concord.flows.screen.progress import say
from concord.schemas.document import Document
from concord.schemas.errors import CorpusError, UsageError
from concord.schemas.run import REGISTRY
from concord.schemas.run_context import HERE, RunContext
from concord.schemas.secrets import place_of, short_name
from concord.schemas.settings import TextSettings
from concord.workers.constraints.beside_model import joined
from concord.workers.constraints.constraint_file import load_constraints
from concord.workers.constraints.constraint_set import Separable
from concord.workers.constraints.rows import ConstraintError
from concord.workers.corpus.shards import Shard, read_batch
from concord.workers.corpus.tokenizers.registry import pinned
from concord.workers.models.folder import CONSTRAINTS_FILE, MANIFEST, parse_manifest
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


def say_unused_rules(opened: OpenModel, files: Sequence[str]) -> None:
    """Says that there are rules in the model's folder, where no ``files`` of constraints are given."""
    rules = opened.folder / CONSTRAINTS_FILE
    if not files and rules.is_file():
        place = quote(str(rules))
        say(f"the model comes with rules, mined or learned, that are not used: --constraints {place} takes them")


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
