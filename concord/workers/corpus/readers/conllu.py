"""CoNLL-U: a word a line in ten columns, comments before each sentence; labels stand in the last column (MISC).

Words are those with a whole number. Ranges (``3-4``, a written word of several words) and empty nodes (``4.1``) are no
words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from concord.schemas.columns import LABELS, Notice, Reject
from concord.schemas.document import Document
from concord.schemas.labels import OUTSIDE, broken_span, to_bio
from concord.workers.corpus.readers.column_guess import conllu_labels
from concord.workers.corpus.readers.columns import EACH_SENTENCE
from concord.workers.corpus.readers.lines import (
    Line,
    LineFault,
    first_lines,
    id_prefix,
    label_fault,
    line_groups,
    line_text,
)
from concord.workers.corpus.readers.reader import (
    BadLineError,
    Likelihood,
    ReaderEntry,
    ReaderItem,
    SourceForm,
    in_text,
    or_nothing,
    source_files,
)
from concord.workers.corpus.settings import ConlluSettings

CONLLU_COLUMNS = 10
NUMBER, FORM, TAG, MISC = 0, 1, 3, 9
WORD_NUMBER, OTHER_NUMBER = re.compile(r"[0-9]+"), re.compile(r"[0-9]+-[0-9]+|[0-9]+\.[0-9]+")
OPENS = re.compile(r"#\s*newdoc\b(?:\s+id\s*=\s*(.*))?")
CONLLU_SUFFIXES = (".conllu", ".conllup")


class _ConlluSentence(NamedTuple):
    """A sentence; ``opens`` says whether a document begins with it, and ``name`` is this one's id, where it has one."""

    line: int
    words: list[str]
    tags: list[str]
    labels: list[str]
    fault: LineFault | None
    opens: bool
    name: str


def read_conllu(source: str, settings: ConlluSettings) -> Iterator[ReaderItem]:
    """Documents of a file or of all files of a folder, with the universal tags as ``pos``.

    They are cut at ``# newdoc`` and have its ids; a file without is cut after every ``sentences_per_document``
    sentences. There is gold if a word of the source has ``settings.labels`` in its last column; words without are
    outside of spans then.
    """
    files = source_files(source)
    gold = settings.labels is not None and any(_has_key(path, settings.labels) for path, _ in files)
    seen: set[str] = set()
    for path, name in files:
        stem = next((name.removesuffix(end) for end in CONLLU_SUFFIXES if name.endswith(end)), name)
        prefix = id_prefix(stem, settings.prefix, alone=len(files) == 1)
        yield from or_nothing(path, _documents(path, prefix, settings, seen, gold=gold))
    if settings.labels is not None and not gold:
        key = next(filter(None, (_labels_of(path) for path, _ in files)), "NAME")
        yield Notice(
            source,
            f"no word has {settings.labels}= in its last column, so there is no gold; --set labels={key} names it",
        )


def _labels_of(path: Path) -> str:
    """The name under which the first words of a file have labels of spans; empty where they have none."""
    return conllu_labels(first_lines(path))


def _has_key(path: Path, key: str) -> bool:
    wanted = re.compile(rb"[\t|]" + re.escape(key.encode()) + b"=")
    with path.open("rb") as file:
        return any(wanted.search(line) is not None for line in file)


def _documents(
    path: Path, prefix: str, settings: ConlluSettings, seen: set[str], *, gold: bool
) -> Iterator[ReaderItem]:
    opened = any(OPENS.match(line) for line in _comments(path))
    found = 0
    for number, sentences in enumerate(_cut(path, settings, opened=opened), 1):
        placed, found = f"{prefix}-{number:04d}", found + 1
        name, line = sentences[0].name, sentences[0].line
        fault = next((sentence.fault for sentence in sentences if sentence.fault), None)
        if fault is None and name in seen:
            fault = LineFault(line, f"line {line}: document {name!r} was there before; take out one of the two")
        doc_id = placed if not name or name in seen else name
        seen.add(doc_id)
        if fault is None:
            yield _document(doc_id, sentences, gold=gold)
        else:
            yield Reject(str(path), fault.line, doc_id, fault.reason)
    if not opened and found > 1 and "sentences_per_document" not in settings.model_fields_set:
        yield Notice(str(path), EACH_SENTENCE)


def _comments(path: Path) -> Iterator[str]:
    with path.open("rb") as file:
        yield from (line.decode("latin-1") for line in file if line.startswith(b"#"))


def _cut(path: Path, settings: ConlluSettings, *, opened: bool) -> Iterator[list[_ConlluSentence]]:
    """The sentences of each document."""
    document: list[_ConlluSentence] = []
    for sentence in (_sentence(lines, settings) for lines in line_groups(path)):
        full = len(document) == settings.sentences_per_document
        if document and (sentence.opens if opened else full):
            yield document
            document = []
        document.append(sentence)
    if document:
        yield document


def _sentence(lines: Sequence[Line], settings: ConlluSettings) -> _ConlluSentence:
    words: list[str] = []
    tags: list[str] = []
    labels: list[str] = []
    fault: LineFault | None = None
    name, opens = "", False
    for line in lines:
        try:
            text = line_text(line, settings.encoding)
            if text.startswith("#"):
                opening = OPENS.match(text)
                opens, name = opens or opening is not None, name or ((opening and opening[1]) or "").strip()
            elif (row := _row(text)) is not None:
                words.append(row[FORM])
                tags.append(row[TAG])
                labels.append(_label(row[MISC], settings.labels))
        except BadLineError as error:
            fault = fault or LineFault(line.number, f"line {line.number}: {error}")
    first = lines[0].number
    if fault is None and not words:
        fault = LineFault(first, f"line {first}: sentence without words; take it out")
    if fault is None and (at := broken_span(labels)) is not None:
        reason = (
            f"line {first}: label {labels[at]!r} of word {at + 1} does not go with the labels beside it in BIOES or "
            "BILOU; mend it, or write the file in BIO"
        )
        fault = LineFault(first, reason)
    return _ConlluSentence(first, words, tags, labels, fault, opens, name)


def _row(text: str) -> list[str] | None:
    """The columns of a word; None for a range or an empty node. Raises `BadLineError`."""
    row = text.split("\t")
    if len(row) != CONLLU_COLUMNS:
        raise BadLineError(
            f"{len(row)} columns between tabs, want {CONLLU_COLUMNS}; the reader 'columns' takes other layouts"
        )
    if OTHER_NUMBER.fullmatch(row[NUMBER]):
        return None
    if not WORD_NUMBER.fullmatch(row[NUMBER]):
        raise BadLineError(f"no number of a word, but {row[NUMBER][:20]!r}; the reader 'columns' takes other layouts")
    if not row[FORM] or not row[TAG]:
        raise BadLineError("word or tag is empty; write _ for a tag that is not known")
    return row


def _label(misc: str, key: str | None) -> str:
    """The label in the last column of a word. Raises `BadLineError`."""
    if key is None:
        return OUTSIDE
    found = [value for name, _, value in (part.partition("=") for part in misc.split("|")) if name == key]
    if not found:
        return OUTSIDE
    if fault := label_fault(found[0]):
        raise BadLineError(fault)
    return found[0]


def _document(doc_id: str, sentences: Sequence[_ConlluSentence], *, gold: bool) -> Document:
    labels = {LABELS: [to_bio(sentence.labels) for sentence in sentences]} if gold else {}
    return Document.build(doc_id, [s.words for s in sentences], pos=[s.tags for s in sentences], **labels)


def _is_conllu(text: str) -> bool:
    rows = [line.split("\t") for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return bool(rows) and len(rows[0]) == 10 and re.fullmatch(r"[0-9]+(-[0-9]+)?", rows[0][0]) is not None


def _fits(_form: SourceForm, path: Path) -> Iterator[tuple[Likelihood, Mapping[str, Any]]]:
    if key := _labels_of(path):
        yield Likelihood.ASKED, {"labels": key}
    yield Likelihood.USUAL, {}


CONLLU_READER = ReaderEntry(
    read_conllu,
    ConlluSettings,
    "CoNLL-U: words in ten columns, labels in the last; # newdoc opens a document",
    forms=(SourceForm("CoNLL-U", 210, in_text(_is_conllu)),),
    fits=_fits,
)
