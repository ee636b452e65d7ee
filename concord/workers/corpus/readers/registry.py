"""All readers by name: `concord ingest NAME SOURCE`."""

from __future__ import annotations

from concord.schemas.settings import ReaderSettings
from concord.workers.corpus.readers.addresses import ADDRESSES_READER
from concord.workers.corpus.readers.citations import CITATIONS_READER
from concord.workers.corpus.readers.columns import COLUMNS_READER, CONLL_READER
from concord.workers.corpus.readers.conllu import CONLLU_READER
from concord.workers.corpus.readers.mail import MAIL_READER
from concord.workers.corpus.readers.parquet_rows import PARQUET_READER
from concord.workers.corpus.readers.pubtator import PUBTATOR_READER
from concord.workers.corpus.readers.raw_text import TEXT_READER
from concord.workers.corpus.readers.reader import ReaderEntry
from concord.workers.corpus.readers.span_files import SPANS_READER
from concord.workers.corpus.readers.tagged_xml import XML_READER
from concord.workers.corpus.readers.umass import UMASS_READER
from concord.workers.parts import Group, Registry, an_entry

OWN: dict[str, ReaderEntry] = {
    "conll": CONLL_READER,
    "columns": COLUMNS_READER,
    "conllu": CONLLU_READER,
    "citations": CITATIONS_READER,
    "umass": UMASS_READER,
    "addresses": ADDRESSES_READER,
    "mail": MAIL_READER,
    "pubtator": PUBTATOR_READER,
    "spans": SPANS_READER,
    "xml": XML_READER,
    "parquet": PARQUET_READER,
    "text": TEXT_READER,
}
"""Concord's own readers. A new one is one file, one settings class, and one line here."""

READERS: Registry[ReaderEntry] = Registry(Group.READERS, OWN, an_entry(ReaderEntry, ReaderSettings))
