"""All readers by name: `concord ingest NAME SOURCE`."""

from __future__ import annotations

from concord.schemas.settings import ReaderSettings
from concord.workers.corpus.readers.addresses import read_addresses
from concord.workers.corpus.readers.citations import read_citations
from concord.workers.corpus.readers.columns import read_columns
from concord.workers.corpus.readers.mail import read_mail
from concord.workers.corpus.readers.pubtator import read_pubtator
from concord.workers.corpus.readers.reader import ReaderEntry
from concord.workers.corpus.readers.text import read_text
from concord.workers.corpus.readers.umass import read_umass
from concord.workers.corpus.settings import (
    AddressSettings,
    CitationSettings,
    ColumnsSettings,
    ConllSettings,
    MailSettings,
    PubtatorSettings,
    TextReaderSettings,
    UmassSettings,
)
from concord.workers.parts import Group, Registry, an_entry

OWN: dict[str, ReaderEntry] = {
    "conll": ReaderEntry(read_columns, ConllSettings, "CoNLL-2003: word, pos, chunk, tag; -DOCSTART- opens a document"),
    "columns": ReaderEntry(read_columns, ColumnsSettings, "column files such as CoNLL-2000, CoNLL-2002 and WNUT"),
    "citations": ReaderEntry(read_citations, CitationSettings, "citations with fields: columns, or inline tags"),
    "umass": ReaderEntry(
        read_umass, UmassSettings, "citations with nested fields: one label a token, levels joined by /"
    ),
    "addresses": ReaderEntry(read_addresses, AddressSettings, "addresses with fields: 'text |label' a line"),
    "mail": ReaderEntry(read_mail, MailSettings, "mails with inline tags: stime, etime, speaker, location"),
    "pubtator": ReaderEntry(read_pubtator, PubtatorSettings, "PubTator: abstracts with spans of characters"),
    "text": ReaderEntry(read_text, TextReaderSettings, "raw text: a Parquet column, or .txt files"),
}
"""Concord's own readers. A new one is one file, one settings class, and one line here."""

READERS: Registry[ReaderEntry] = Registry(Group.READERS, OWN, an_entry(ReaderEntry, ReaderSettings))
