"""Column files: one token a line, named columns, a blank line after each sentence."""

from __future__ import annotations

from collections.abc import Iterator

from schemas.columns import Reject
from schemas.document import Document
from schemas.settings import ColumnsSettings
from workers.corpus.readers.lines import Form, blocks, documents, id_prefix, split_by_count
from workers.corpus.readers.reader import source_files


def read_columns(source: str, settings: ColumnsSettings) -> Iterator[Document | Reject]:
    """Documents of ``sentences_per_document`` sentences each, of a file or of all files of a folder."""
    form = Form(settings.columns, settings.separator, settings.scheme)
    files = source_files(source)
    for path, name in files:
        prefix = id_prefix(name, settings.prefix, alone=len(files) == 1)
        drafts = split_by_count(blocks(path, form), settings.sentences_per_document)
        yield from documents(drafts, form, path=path, prefix=prefix)
