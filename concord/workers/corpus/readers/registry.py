"""All readers by name: `concord ingest NAME SOURCE`."""

from __future__ import annotations

from concord.schemas.settings import ReaderSettings
from concord.workers.corpus.readers.addresses import read_addresses
from concord.workers.corpus.readers.citations import read_citations
from concord.workers.corpus.readers.columns import read_columns
from concord.workers.corpus.readers.conllu import read_conllu
from concord.workers.corpus.readers.mail import read_mail
from concord.workers.corpus.readers.parquet_rows import read_parquet_rows
from concord.workers.corpus.readers.pubtator import read_pubtator
from concord.workers.corpus.readers.reader import ReaderEntry, SourceForm
from concord.workers.corpus.readers.span_files import SPAN_SUFFIXES, read_spans
from concord.workers.corpus.readers.tagged_xml import read_xml
from concord.workers.corpus.readers.text import read_text
from concord.workers.corpus.readers.text_tables import TABLE_SUFFIXES
from concord.workers.corpus.readers.umass import read_umass
from concord.workers.corpus.settings import (
    AddressSettings,
    CitationSettings,
    ColumnsSettings,
    ConllSettings,
    ConlluSettings,
    MailSettings,
    ParquetReaderSettings,
    PubtatorSettings,
    SpansSettings,
    TextReaderSettings,
    UmassSettings,
    XmlSettings,
)
from concord.workers.parts import Group, Registry, an_entry

COLUMN_FORMS = frozenset({SourceForm.CONLL, SourceForm.COLUMNS, SourceForm.PLAIN_COLUMNS, SourceForm.TABLE})


def _texts_of_records(form: SourceForm, settings: TextReaderSettings) -> bool:
    """Is the text alone wanted of records that have spans, too? A column that is named says so."""
    marked = form in (SourceForm.SPANS, SourceForm.CSV_LABELS, SourceForm.PARQUET_SPANS)
    return marked and bool({"text_column", "id_column"} & settings.model_fields_set)


def _tokens_of_records(form: SourceForm, settings: ParquetReaderSettings) -> bool:
    """Are the tokens alone wanted of rows that have spans, too? A column that is named, or no gold, says so."""
    named = {"tokens_column", "labels_column", "gold"} & settings.model_fields_set
    return form is SourceForm.PARQUET_SPANS and bool(named)


OWN: dict[str, ReaderEntry] = {
    "conll": ReaderEntry(
        read_columns, ConllSettings, "CoNLL-2003: word, pos, chunk, tag; -DOCSTART- opens a document", COLUMN_FORMS
    ),
    "columns": ReaderEntry(
        read_columns, ColumnsSettings, "column files such as CoNLL-2000, CoNLL-2002 and WNUT", COLUMN_FORMS
    ),
    "conllu": ReaderEntry(
        read_conllu,
        ConlluSettings,
        "CoNLL-U: words in ten columns, labels in the last; # newdoc opens a document",
        frozenset({SourceForm.CONLLU}),
    ),
    "citations": ReaderEntry(
        read_citations,
        CitationSettings,
        "citations with fields: columns, or inline tags",
        frozenset({SourceForm.TAGGED_LINES, SourceForm.TABLE}),
    ),
    "umass": ReaderEntry(
        read_umass,
        UmassSettings,
        "citations with nested fields: one label a token, levels joined by /",
        frozenset({SourceForm.NESTED, SourceForm.COLUMNS}),
    ),
    "addresses": ReaderEntry(
        read_addresses,
        AddressSettings,
        "addresses with fields: 'text |label' a line",
        frozenset({SourceForm.ADDRESSES}),
    ),
    "mail": ReaderEntry(
        read_mail,
        MailSettings,
        "mails with inline tags: stime, etime, speaker, location",
        frozenset({SourceForm.MAIL}),
        finds="tag of a time, a speaker or a location",
    ),
    "pubtator": ReaderEntry(
        read_pubtator,
        PubtatorSettings,
        "PubTator: abstracts with spans of characters",
        frozenset({SourceForm.PUBTATOR}),
    ),
    "spans": ReaderEntry(
        read_spans,
        SpansSettings,
        "texts with spans: JSON of annotation tools and taggers, brat, .spacy",
        frozenset({SourceForm.SPANS, SourceForm.TEXTS, SourceForm.BRAT, SourceForm.DOC_BIN}),
        suffixes=SPAN_SUFFIXES,
        finds="span",
    ),
    "xml": ReaderEntry(
        read_xml,
        XmlSettings,
        "records of tagged fields in XML: AnyStyle, GROBID's TEI, parserator",
        frozenset({SourceForm.XML}),
        suffixes=(".xml",),
    ),
    "parquet": ReaderEntry(
        read_parquet_rows,
        ParquetReaderSettings,
        "Parquet of other programs: tokens, labels and ids under any names, labels as numbers",
        frozenset({SourceForm.PARQUET}),
        suffixes=(".parquet",),
        asked=_tokens_of_records,
    ),
    "text": ReaderEntry(
        read_text,
        TextReaderSettings,
        "raw text: a column of Parquet, CSV or JSON records, or .txt files",
        frozenset({SourceForm.TEXTS, SourceForm.CSV, SourceForm.PARQUET}),
        suffixes=(".txt", *TABLE_SUFFIXES, ".parquet"),
        asked=_texts_of_records,
    ),
}
"""Concord's own readers. A new one is one file, one settings class, and one line here."""

READERS: Registry[ReaderEntry] = Registry(Group.READERS, OWN, an_entry(ReaderEntry, ReaderSettings))
