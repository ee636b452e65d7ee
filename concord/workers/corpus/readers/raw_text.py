"""The reader of raw text, and the forms that it recognises and takes."""

from __future__ import annotations

from concord.workers.corpus.readers.json_forms import SPANS_FORM, TEXTS_FORM
from concord.workers.corpus.readers.parquet_rows import PARQUET_FORM
from concord.workers.corpus.readers.reader import ReaderEntry, SourceForm, as_it_is
from concord.workers.corpus.readers.text import read_text
from concord.workers.corpus.readers.text_tables import TABLE_SUFFIXES
from concord.workers.corpus.readers.unread_forms import CSV_LABELS, PARQUET_SPANS, is_csv
from concord.workers.corpus.settings import TextReaderSettings


def _asked(form: SourceForm, settings: TextReaderSettings) -> bool:
    """Is the text alone wanted of records that have spans, too? A column that is named says so."""
    marked = form in (SPANS_FORM, CSV_LABELS, PARQUET_SPANS)
    return marked and bool({"text_column", "id_column"} & settings.model_fields_set)


TEXT_READER = ReaderEntry(
    read_text,
    TextReaderSettings,
    "raw text: a column of Parquet, CSV or JSON records, or .txt files",
    forms=(TEXTS_FORM, SourceForm("a CSV file", 90, is_csv)),
    takes=(PARQUET_FORM,),
    fits=as_it_is,
    suffixes=(".txt", *TABLE_SUFFIXES, ".parquet"),
    asked=_asked,
)
