"""All readers by name: `concord ingest NAME SOURCE`."""

from __future__ import annotations

from schemas.settings import CitationSettings, ColumnsSettings, ConllSettings, TextReaderSettings
from workers.corpus.readers.citations import read_citations
from workers.corpus.readers.columns import read_columns
from workers.corpus.readers.reader import ReaderEntry
from workers.corpus.readers.text import read_text

READERS: dict[str, ReaderEntry] = {
    "conll": ReaderEntry(read_columns, ConllSettings, "CoNLL-2003: word, pos, chunk, tag; -DOCSTART- opens a document"),
    "columns": ReaderEntry(read_columns, ColumnsSettings, "column files such as CoNLL-2000, CoNLL-2002 and WNUT"),
    "citations": ReaderEntry(read_citations, CitationSettings, "citations with fields: columns, or inline tags"),
    "text": ReaderEntry(read_text, TextReaderSettings, "raw text: a Parquet column, or .txt files"),
}
"""A new reader is one file, one settings class and one line here."""
