"""All writers by name: `concord export predictions --form NAME`."""

from __future__ import annotations

from concord.schemas.settings import WriterSettings
from concord.workers.corpus.settings import ConllWriterSettings, LabelStudioSettings
from concord.workers.corpus.writers.brat_folder import write_brat
from concord.workers.corpus.writers.column_file import write_conll
from concord.workers.corpus.writers.csv_table import write_csv
from concord.workers.corpus.writers.doc_bin_file import write_doc_bin
from concord.workers.corpus.writers.json_lines import write_doccano, write_jsonl, write_label_studio, write_presidio
from concord.workers.corpus.writers.writer import WriterEntry
from concord.workers.parts import Group, Registry, an_entry

OWN: dict[str, WriterEntry] = {
    "conll": WriterEntry(write_conll, ConllWriterSettings, "a token a line between tabs; -DOCSTART- opens a document"),
    "jsonl": WriterEntry(write_jsonl, WriterSettings, "a JSON object a line: text, spans and tokens (Prodigy, spaCy)"),
    "docbin": WriterEntry(write_doc_bin, WriterSettings, "spaCy's .spacy file; needs the extra spacy"),
    "labelstudio": WriterEntry(write_label_studio, LabelStudioSettings, "Label Studio's tasks with predictions"),
    "presidio": WriterEntry(write_presidio, WriterSettings, "a JSON object a line: text, and Presidio's results"),
    "doccano": WriterEntry(write_doccano, WriterSettings, "a JSON object a line: text, and [start, end, label]"),
    "brat": WriterEntry(write_brat, WriterSettings, "a folder of brat's texts and annotations", folder=True),
    "csv": WriterEntry(write_csv, WriterSettings, "a table of spans, one a row"),
}
"""Concord's own writers. A new one is one file, one settings class, and one line here."""

WRITERS: Registry[WriterEntry] = Registry(Group.WRITERS, OWN, an_entry(WriterEntry, WriterSettings))
