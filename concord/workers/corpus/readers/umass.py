"""Citations with nested fields: each line has a token, two unused columns, and labels of all levels joined by ``/``.

The form of the UMass citations (Anzaroot & McCallum 2013): ``I-venue/U-year`` is a token inside a venue that is also a
year of one token. Each level is in BIO, BIOES or BILOU.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache, partial
from pathlib import Path

from concord.schemas.columns import LABELS, Reject
from concord.schemas.document import TOKENS, Document
from concord.schemas.labels import OUTSIDE, SPAN_PREFIXES
from concord.workers.corpus.readers.column_guess import ends_in_labels
from concord.workers.corpus.readers.columns import COLUMNS_FORM
from concord.workers.corpus.readers.lines import (
    SKIP,
    Form,
    LabelForm,
    blocks,
    documents,
    id_prefix,
    split_by_count,
)
from concord.workers.corpus.readers.reader import FileStart, ReaderEntry, SourceForm, or_nothing, source_files
from concord.workers.corpus.settings import UmassSettings

COLUMNS = (TOKENS, SKIP, SKIP, LABELS)
OTHER_COLUMNS = "a citation has token, two columns and label; the reader 'columns' takes other layouts"
GOES_ON = ("I-", "E-", "L-")
ENDS = ("E-", "L-", "S-", "U-")


def read_umass(source: str, settings: UmassSettings) -> Iterator[Document | Reject]:
    """Documents ``dev.docs.parsed-0001``, ... of a file or of all files of a folder, one sentence each, in BIO."""
    depth = 1 if settings.levels == "outermost" else None
    labels = LabelForm(partial(nested_to_bio, depth=depth), nested_fault)
    form = Form(COLUMNS, "whitespace", labels, settings.encoding, other_columns=OTHER_COLUMNS)
    files = source_files(source)
    for path, name in files:
        prefix = id_prefix(name, settings.prefix, alone=len(files) == 1)
        yield from or_nothing(path, _citations(path, prefix, form))


def _citations(path: Path, prefix: str, form: Form) -> Iterator[Document | Reject]:
    return documents(split_by_count(blocks(path, form), 1), form, path=path, prefix=prefix)


@lru_cache(maxsize=4096)
def nested_fault(label: str) -> str:
    """Reason why a label is not a valid nested one; empty if it is."""
    wrong = [level for level in label.split("/") if not level.startswith(SPAN_PREFIXES) or len(level) < 3]
    if not wrong or label == OUTSIDE:
        return ""
    return f"label {label!r}: level {wrong[0]!r} is not B-TYPE or I-TYPE, nor BIOES or BILOU; mend it, or write O"


def nested_to_bio(labels: Sequence[str], *, depth: int | None) -> list[str]:
    """BIO labels of one sentence; the type of a token is its whole path of levels, or the first ``depth`` levels.

    A span is a run of tokens with one path in which every level continues. A level that continues nothing opens a span,
    as in IOB1.
    """
    paths = [label.split("/")[:depth] for label in labels]
    return [_bio(before, here) for before, here in zip([[OUTSIDE], *paths], paths, strict=False)]


def _bio(before: Sequence[str], here: Sequence[str]) -> str:
    if here == [OUTSIDE]:
        return OUTSIDE
    path = "/".join(level[2:] for level in here)
    return f"{'I' if len(before) == len(here) and all(map(_goes_on, before, here)) else 'B'}-{path}"


def _goes_on(before: str, level: str) -> bool:
    return level.startswith(GOES_ON) and not before.startswith(ENDS) and before[2:] == level[2:]


def _is_nested(start: FileStart) -> bool:
    """Do lines of four columns end in labels, of which one has levels?"""
    labels = [row[-1] for row in start.rows if len(row) == len(COLUMNS)]
    nested = any(label.startswith(SPAN_PREFIXES) and re.search(r"/[A-Z]-", label) for label in labels)
    return nested and ends_in_labels(start.rows)


UMASS_READER = ReaderEntry(
    read_umass,
    UmassSettings,
    "citations with nested fields: one label a token, levels joined by /",
    forms=(SourceForm("a column file with nested labels", 280, _is_nested),),
    takes=(COLUMNS_FORM,),
)
