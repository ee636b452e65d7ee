"""Training of a model of a sweep: on all documents, on the first or on random ones, or on those outside a fold."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from concord.schemas.document import Document
from concord.schemas.errors import CorpusError, TrainingError
from concord.schemas.settings import TrainerSettings, Validation
from concord.workers.constraints.consistency import PairCounts
from concord.workers.learning.search.folds import held_out
from concord.workers.learning.trainers.registry import trainer_named
from concord.workers.learning.weights.consistency_scales import tune_scales
from concord.workers.models.folder import MANIFEST, parse_manifest, update_manifest
from concord.workers.models.saved_consistency import EXTRA, consistency_extra
from concord.workers.storage.files import staged
from concord.workers.storage.scratch import scratch_folder
from concord.workers.sweeps.documents import Documents, documents_of, round_in

HELD_OUT = 0.2
"""Share of the training documents on which label consistency is tuned, by a model of the others."""


class Learned(NamedTuple):
    """A model to train.

    ``key``: hexadecimal digits that name its content
    ``size``: number of documents to learn from; None for all
    ``subset``: number of the random draw; None for the first documents
    ``consistency``: learn label consistency, too?
    """

    key: str
    name: str
    documents: Documents
    size: int | None
    subset: int | None
    trainer: str
    settings: TrainerSettings
    consistency: bool


def train_into(learned: Learned, folder: Path) -> None:
    """Trains a model and saves it as ``folder``, whole or not at all.

    Raises `CorpusError` where the corpus has changed or is too small, `TrainingError`, and `OutputError`.
    """
    documents = chosen(learned)
    train = trainer_named(learned.trainer).train
    with staged(folder) as place:
        model = train(documents, settings=learned.settings, out=place)
        if not learned.consistency:
            return
        out = held_out(documents, HELD_OUT, Validation.RANDOM)
        inside = [d for d, held in zip(documents, out, strict=True) if not held]
        outside = [d for d, held in zip(documents, out, strict=True) if held]
        if not inside or not outside:
            raise TrainingError(f"{len(documents)} documents are too few to tune label consistency on a share of them")
        counted = [PairCounts.of(documents, model.labels, fold_case=fold) for fold in (False, True)]
        with scratch_folder() as scratch:
            unseen = train(inside, settings=learned.settings, out=scratch)
            best, _ = tune_scales(outside, unseen, counted)
        manifest = parse_manifest(place / MANIFEST)
        update_manifest(
            place,
            kind=manifest.kind,
            metrics=manifest.figures,
            extras={EXTRA: consistency_extra(best)},
            tokenizer=manifest.tokenizer,
        )


def chosen(learned: Learned) -> Sequence[Document]:
    """The documents that a model learns from, in the order of the corpus. Raises `CorpusError`."""
    documents = documents_of(learned.documents)
    if learned.documents.fold is not None:
        documents = [documents[i] for i in round_in(learned.documents, documents).learned]
    if learned.size is None:
        return documents
    if learned.size > len(documents):
        raise CorpusError(
            f"{learned.documents.place}: has {len(documents)} documents to learn from, and size {learned.size} wants "
            "more; give smaller sizes"
        )
    if learned.subset is None:
        return documents[: learned.size]
    drawn = sorted(range(len(documents)), key=lambda i: _lot(learned.subset, documents[i].doc_id))[: learned.size]
    return [documents[i] for i in sorted(drawn)]


def _lot(subset: int | None, doc_id: str) -> bytes:
    return hashlib.blake2b(f"{subset}\0{doc_id}".encode("utf-8", "surrogatepass"), digest_size=8).digest()
