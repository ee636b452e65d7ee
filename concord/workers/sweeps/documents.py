"""Documents of a sweep: corpora known by their content, and the folds of one."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from concord.schemas.document import Document
from concord.schemas.errors import CorpusError
from concord.schemas.settings import TrainerSettings, Validation
from concord.workers.corpus.plan import plan
from concord.workers.corpus.shards import Shard, read_batch
from concord.workers.features.clusters import WORD_TABLE
from concord.workers.features.resources import licences_of, place_of
from concord.workers.features.templates import CLUSTERS
from concord.workers.learning.search.folds import TrainingRound, parts_of, round_of
from concord.workers.models.folder import MANIFEST, parse_manifest
from concord.workers.models.model import Model
from concord.workers.models.settings import FeatureSettings

NAMED_FILES = "named_files"
"""Entry of a manifest's extras: `digests_of_named` of the model's settings."""


class Fold(NamedTuple):
    """One of the folds of a corpus.

    - ``number``: which one of them is judged, from 0
    - ``folds``: number of all
    """

    number: int
    folds: int
    validation: Validation


class Documents(NamedTuple):
    """Documents of a corpus.

    - ``place``: path or URI of the corpus
    - ``digest``: hex digest of its content, see `digest_of`
    - ``fold``: fold that is judged; None for a whole corpus
    """

    place: str
    digest: str
    fold: Fold | None = None


def digest_of(shards: Sequence[Shard]) -> str:
    """Hex digest of a corpus's content in its order, on which the first documents and later folds depend."""
    return hashlib.sha256("".join(shard.id for shard in shards).encode()).hexdigest()


def read_by(settings: TrainerSettings, option: str) -> list[str]:
    """Corpora or files that a trainer reads beside its documents by an option; the name of a resource stands for its
    file. Raises `ResourceError`."""
    if option == CLUSTERS and isinstance(settings, FeatureSettings) and settings.reads_word_table:
        return [str(WORD_TABLE)]
    places = settings.places([option])
    return [str(place_of(option, place)) for place in places] if option in settings.files else places


def digests_beside(settings: TrainerSettings) -> dict[str, str]:
    """Digests of everything that a trainer reads beside its documents, by place. Raises `CorpusError` and `OSError`."""
    corpora = {place: digest_of(plan(place)) for place in settings.places(settings.corpora)}
    return corpora | {
        file: digest_of_files(Path(file)) for option in settings.files for file in read_by(settings, option)
    }


def digests_of_named(settings: TrainerSettings) -> dict[str, str]:
    """Digest of each file or resource that an option of a trainer names, as option=name. Raises `OSError`."""
    pairs = [(option, name) for option in settings.files for name in settings.places([option])]
    return {f"{option}={name}": digest_of_files(place_of(option, name)) for option, name in pairs}


def extras_of_named(settings: TrainerSettings) -> dict[str, dict[str, str]]:
    """What a model keeps of the files and resources that its settings name: digests, and licences of resources.

    Raises `OSError` and `ResourceError`.
    """
    names = {option: settings.places([option]) for option in settings.files}
    extras = {NAMED_FILES: digests_of_named(settings), "licences": licences_of(names)}
    return {name: entry for name, entry in extras.items() if entry}


def model_digest_of(model: Model, folder: Path) -> str:
    """Digest of a folder's model and of what was learned with it, such as label consistency. Raises `ModelError`."""
    extras = parse_manifest(folder / MANIFEST).extras
    return hashlib.sha256(json.dumps([model.digest, extras], sort_keys=True).encode()).hexdigest()


def changed(place: str) -> CorpusError:
    """The error of a worker that finds something else than was planned."""
    return CorpusError(f"{place}: has changed since the sweep was planned; run the same command again")


def round_in(documents: Documents, read: Sequence[Document]) -> TrainingRound:
    """Documents to learn from and to judge in one fold. Raises `TrainingError` for fewer documents than folds."""
    fold = documents.fold
    assert fold is not None
    return round_of(parts_of(read, fold.folds, fold.validation), fold.number, fold.validation)


def documents_of(documents: Documents) -> Sequence[Document]:
    """All documents of the corpus, of whatever fold.

    Raises `CorpusError` where its content is not that of the plan, and for a document that cannot be read.
    """
    return _read(documents.place, documents.digest)


@lru_cache(maxsize=2)
def _read(place: str, digest: str) -> Sequence[Document]:
    shards = plan(place)
    if digest_of(shards) != digest:
        raise changed(place)
    documents = list[Document]()
    for shard in shards:
        batch, rejects = read_batch(shard)
        if rejects:
            raise CorpusError(f"a sweep takes no corpus with rejects; the first: {rejects[0].line}")
        documents += batch
    return documents


def digest_of_files(path: Path) -> str:
    """Digest of a file, or of all files of a folder. Raises `OSError` if it is not there."""
    path.stat()
    files = sorted(path.rglob("*")) if path.is_dir() else [path]
    state = hashlib.sha256()
    for file in files:
        if file.is_file():
            state.update(file.relative_to(path.parent).as_posix().encode() + b"\0" + file.read_bytes())
    return state.hexdigest()
