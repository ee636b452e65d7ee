"""Corrections of a run: the file, and whether its documents, tokens and types are there."""

from __future__ import annotations

from concord.schemas.corrections import CorrectionError
from concord.schemas.settings import TextSettings
from concord.workers.constraints.correction_mask import check_corrections
from concord.workers.corpus.correction_file import NO_FILE, CorrectionFile, read_corrections
from concord.workers.corpus.shard_table import ShardTable
from concord.workers.corpus.shards import read_batch
from concord.workers.models.model import Model, text_tokenizer


def correction_file(place: str | None) -> CorrectionFile:
    """The corrections of a run. Raises `CorrectionError` and `OSError`."""
    return NO_FILE if place is None else read_corrections(place)


def check_documents(file: CorrectionFile, shards: ShardTable, text: TextSettings, model: Model) -> None:
    """Reads the corrected documents, and checks that tokens and labels can be as the corrections say.

    Raises `CorrectionError` that names the file and the row, and what reading raises.
    """
    for place in sorted(shards.corrections):
        shard = shards[place]
        batch, rejects = read_batch(shard, text=text, tokenizer=text_tokenizer(model))
        documents = {document.doc_id: document for document in batch}
        for doc_id, corrections in shard.corrections:
            document = documents.get(doc_id)
            if document is None:
                reason = next((reject.reason for reject in rejects if reject.doc_id == doc_id), "its row is bad")
                raise file.error(f"row {corrections[0].row}: document {doc_id!r} cannot be read: {reason}")
            try:
                check_corrections(
                    corrections, model.labels, document.sentence_starts, len(document), doc_id=document.doc_id
                )
            except CorrectionError as error:
                raise file.error(str(error)) from None
