"""Training of a model of a sweep: on all documents, on the first or on random ones, or on those outside a fold."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from concord.schemas.document import Document
from concord.schemas.errors import CorpusError, TrainingError
from concord.schemas.labels import LabelSet
from concord.schemas.settings import TrainerSettings, Validation
from concord.schemas.sweep import Consistency
from concord.workers.constraints.consistency import AS_PUBLISHED, LabelConsistency, PairCounts
from concord.workers.learning.search.folds import LATER_SHARE, divided
from concord.workers.learning.trainers.trainer import without_new_labels
from concord.workers.learning.weights.consistency_scales import assumed_consistency, tune_scales
from concord.workers.models.folder import MANIFEST, parse_manifest, update_manifest
from concord.workers.models.model import Model
from concord.workers.models.saved_consistency import EXTRA, consistency_extra
from concord.workers.storage.files import staged
from concord.workers.storage.scratch import scratch_folder
from concord.workers.sweeps.codl import trainer_of
from concord.workers.sweeps.documents import Documents, changed, digests_beside, documents_of, extras_of_named, round_in


class TrainingPart(NamedTuple):
    """Documents to learn from: some of a corpus.

    - ``size``: their number; None for all
    - ``subset``: number of the random draw; None for the first documents
    """

    documents: Documents
    size: int | None
    subset: int | None


class TrainingJob(NamedTuple):
    """A model to train.

    - ``key``: hexadecimal digits that name its content
    - ``beside``: digests of what the trainer reads beside the documents, by place
    - ``consistency``: label consistency that is learned, too
    """

    key: str
    name: str
    part: TrainingPart
    trainer: str
    settings: TrainerSettings
    beside: Mapping[str, str]
    consistency: Consistency


def train_into(job: TrainingJob, folder: Path) -> None:
    """Trains a model and saves it as ``folder``, whole or not at all.

    Raises `CorpusError` where the corpus has changed or is too small, `TrainingError`, and `OutputError`.
    """
    documents = sample_of(job.part)
    beside = digests_beside(job.settings)
    if different := [place for place in beside if beside[place] != job.beside.get(place)]:
        raise changed(different[0])
    train = trainer_of(job.trainer).train
    with staged(folder) as place:
        model = train(documents, settings=job.settings, out=place)
        extras: dict[str, Any] = dict(extras_of_named(job.settings))
        if job.consistency:
            extras[EXTRA] = consistency_extra(_consistency(job, documents, model))
        manifest = parse_manifest(place / MANIFEST)
        update_manifest(place, kind=manifest.kind, metrics=manifest.figures, extras=extras)


def _consistency(job: TrainingJob, documents: Sequence[Document], model: Model) -> LabelConsistency:
    """Label consistency as it is asked for; of a trainer that reads no gold, what the model's own answers give."""
    if not trainer_of(job.trainer).gold:
        return assumed_consistency(documents, model)
    if job.consistency == "published":
        return _as_published(documents, model.labels)
    return _scaled(job, documents, model.labels)


def _as_published(documents: Sequence[Document], labels: LabelSet) -> LabelConsistency:
    return LabelConsistency(PairCounts.of(documents, labels), AS_PUBLISHED)


def _scaled(job: TrainingJob, documents: Sequence[Document], labels: LabelSet) -> LabelConsistency:
    """Costs of all documents, scaled on a share of them, which a model of the others has not seen."""
    inside, outside = parted(documents)
    counted = [PairCounts.of(documents, labels, fold_case=fold) for fold in (False, True)]
    with scratch_folder() as scratch:
        unseen = trainer_of(job.trainer).train(inside, settings=job.settings, out=scratch)
        best, _ = tune_scales(outside, unseen, counted)
    return best


def parted(documents: Sequence[Document]) -> tuple[list[Document], list[Document]]:
    """Documents to learn from, and the last ones, to tune on, as `concord train` does it: without labels of their own.

    Raises `TrainingError` where either is none.
    """
    inside, held_out = divided(documents, LATER_SHARE, Validation.LATER)
    outside = without_new_labels(held_out, inside)
    if not outside:
        raise TrainingError(
            f"of {len(documents):,} documents none can be held out to tune constraints on: they are too few, or the "
            "last ones have labels that no other has"
        )
    return inside, outside


def sample_of(part: TrainingPart) -> Sequence[Document]:
    """The documents of a part, in the order of the corpus. Raises `CorpusError`."""
    documents = documents_of(part.documents)
    if part.documents.fold is not None:
        documents = [documents[i] for i in round_in(part.documents, documents).learned]
    if part.size is None:
        return documents
    if part.size > len(documents):
        raise CorpusError(
            f"{part.documents.place}: has {len(documents)} documents to learn from, and size {part.size} wants more; "
            "give smaller sizes"
        )
    if part.subset is None:
        return documents[: part.size]
    drawn = sorted(range(len(documents)), key=lambda i: _lot(part.subset, documents[i].doc_id))[: part.size]
    return [documents[i] for i in sorted(drawn)]


def _lot(subset: int | None, doc_id: str) -> bytes:
    return hashlib.blake2b(f"{subset}\0{doc_id}".encode("utf-8", "surrogatepass"), digest_size=8).digest()
