"""Column files: one token a line, a blank line after each sentence; shared by the column readers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Literal, NamedTuple

from concord.schemas.columns import LABELS, Reject
from concord.schemas.document import TOKENS, Document
from concord.schemas.label_names import advice, has_prefix, may_be_type
from concord.schemas.labels import OUTSIDE, SPAN_PREFIXES, broken_span, to_bio
from concord.workers.corpus.readers.reader import BadLineError, decoded

SKIP = "_"
BLANKS = re.compile(r"[ \t]+")
SUFFIXES = (".txt", ".conll", ".tsv", ".iob", ".iob2", ".bio", ".dat")
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
NESTED = re.compile(rf"/(?:{'|'.join(SPAN_PREFIXES)}).")
CR_ENDS = "line ends of CR alone, as old files of Macs have; write LF instead, such as by tr '\\r' '\\n'"
HEADER_ADVICE = "where the first line names the columns: --set header=true"
PLAIN_ADVICE = "where every label is a type by itself: --set scheme=plain"
LINES_LOOKED_AT = 200
"""Lines of a file that are looked at for what its columns are."""
LABELS_LOOKED_AT = 10_000
"""Lines of a file that are looked at for a label with a prefix."""
SHOWN_COLUMNS, SHOWN_CHARACTERS = 6, 20
"""Number of characters of a line with other columns that its reject shows."""


class Line(NamedTuple):
    """A line: its number (from 1), the byte of the file where it starts, and its bytes without the line's end."""

    number: int
    offset: int
    content: bytes


class LineFault(NamedTuple):
    """A fault in a line: the line's number (from 1) and the reason."""

    line: int
    reason: str


class Block(NamedTuple):
    """Lines between two blank ones: a sentence, or a line that opens a document.

    - ``line``: number of the first line.
    - ``rows``: columns of each line.
    - ``fault``: first fault in the lines, if any.
    """

    line: int
    rows: list[list[str]]
    fault: LineFault | None
    opens_document: bool


class DocumentDraft(NamedTuple):
    """The sentences of one document before they are checked; ``line`` is where it starts.

    - ``name``: its id in the file; empty if it has none.
    """

    line: int
    sentences: list[Block]
    name: str = ""


class LabelForm(NamedTuple):
    """Form of the labels in a file; the default takes any label unchanged.

    - ``read``: function from a sentence's labels in the file to the document's labels.
    - ``fault``: function from a label to the reason why it cannot be read; empty if it can.
    - ``broken``: function that finds the first place where the labels of a sentence contradict each other, or None.
    - ``plain``: is each label a type by itself, because the user says so?
    """

    read: Callable[[Sequence[str]], list[str]] = list
    fault: Callable[[str], str] | None = None
    broken: Callable[[Sequence[str]], int | None] | None = None
    plain: bool = False


class Form(NamedTuple):
    """Format of a column file.

    - ``columns``: names of the columns in order, `SKIP` for one that is not kept.
    - ``separator``: separator of columns.
    - ``labels``: form of the labels.
    - ``boundary``: start of a line that opens a document; None: no line does.
    - ``comments``: start of a line that is a comment, see `is_comment`; None: no line is.
    - ``header``: does the first line with text name the columns?
    - ``ids``: does a document's id follow the word that opens it?
    - ``other_columns``: advice in the reject of a line with other columns, where ``columns`` cannot be changed.
    """

    columns: tuple[str, ...]
    separator: Literal["whitespace", "tab"]
    labels: LabelForm
    encoding: str = "utf-8"
    boundary: bytes | None = None
    comments: bytes | None = None
    header: bool = False
    ids: bool = False
    other_columns: str | None = None


def file_lines(path: Path, *, ends: bool = False) -> Iterator[Line]:
    """The lines of a file, streaming, without a byte order mark; with their ``ends`` if these are asked for."""
    end = b"" if ends else b"\r\n"
    offset = 0
    with path.open("rb") as file:
        for number, raw in enumerate(file, 1):
            if number == 1 and raw.startswith(BYTE_ORDER_MARK):
                yield Line(1, len(BYTE_ORDER_MARK), raw[len(BYTE_ORDER_MARK) :].rstrip(end))
            else:
                yield Line(number, offset, raw.rstrip(end))
            offset += len(raw)


def first_lines(path: Path) -> list[str]:
    """The first `LINES_LOOKED_AT` lines of a file, in which characters that are no UTF-8 are replaced."""
    return [line.content.decode("utf-8", errors="replace") for line in islice(file_lines(path), LINES_LOOKED_AT)]


def line_groups(path: Path) -> Iterator[list[Line]]:
    """Lines of a file without a blank one between them, streaming."""
    group: list[Line] = []
    for line in file_lines(path):
        if line.content.strip(b" \t"):
            group.append(line)
        elif group:
            yield group
            group = []
    if group:
        yield group


def line_text(line: Line, encoding: str) -> str:
    """The text of a line. Raises `BadLineError`."""
    return decoded(line.content, encoding, offset=line.offset)


def opens_document(line: Line, form: Form) -> bool:
    """Does the line start with the form's boundary, followed by a blank or by nothing?"""
    if form.boundary is None or form.boundary not in line.content:
        return False
    content = line.content.lstrip(b" \t")
    return content.startswith(form.boundary) and content[len(form.boundary) :][:1] in (b"", b" ", b"\t")


def blocks(path: Path, form: Form) -> Iterator[Block]:
    """The blocks of a file, streaming; a block with a bad line carries the first fault in it."""
    first = 0
    rows: list[list[str]] = []
    fault: LineFault | None = None
    for line in _content_lines(path, form):
        if is_comment(line, form, inside=bool(first)):
            continue
        opens, blank = opens_document(line, form), not line.content.strip(b" \t")
        if (opens or blank) and first:
            yield _sentence(first, rows, fault, form)
            first, rows, fault = 0, [], None
        if opens:
            yield _opening(line, form)
        elif not blank:
            first = first or line.number
            try:
                rows.append(_row(line, form))
            except BadLineError as error:
                fault = fault or LineFault(line.number, f"line {line.number}: {error}")
    if first:
        yield _sentence(first, rows, fault, form)


def _opening(line: Line, form: Form) -> Block:
    """The block of a line that opens a document; its only row is the id, where the form has ids."""
    if not form.ids:
        return Block(line.number, [], None, opens_document=True)
    try:
        name = line_text(line, form.encoding).strip(" \t").partition(" ")[2].strip()
    except BadLineError as error:
        fault = LineFault(line.number, f"line {line.number}: {error}")
        return Block(line.number, [], fault, opens_document=True)
    return Block(line.number, [[name]] if name else [], None, opens_document=True)


def _content_lines(path: Path, form: Form) -> Iterator[Line]:
    """The lines of a file without the one that names the columns, if the form has one."""
    lines = file_lines(path)
    if form.header:
        next((line for line in lines if line.content.strip()), None)
    return lines


def is_comment(line: Line, form: Form, *, inside: bool) -> bool:
    """Is the line a comment, and no token that begins like one?

    It starts as comments do, and has other columns than a token, or stands before the first token of a sentence
    (not ``inside``) with a blank after the start and no tab that ends a column.
    """
    if form.comments is None or not line.content.startswith(form.comments):
        return False
    try:
        row = _split(line_text(line, form.encoding), form.separator)
    except BadLineError:
        return True
    rest = line.content[len(form.comments) :]
    return len(row) != len(form.columns) or (
        not inside and rest.startswith(b" ") and (form.separator == "whitespace" or b"\t" not in rest)
    )


def _sentence(first: int, rows: list[list[str]], fault: LineFault | None, form: Form) -> Block:
    return Block(first, rows, fault or _broken(first, rows, form), opens_document=False)


def _broken(first: int, rows: list[list[str]], form: Form) -> LineFault | None:
    """The first label that contradicts its neighbours; the rows are the lines from ``first`` on."""
    if form.labels.broken is None or LABELS not in form.columns:
        return None
    at = form.columns.index(LABELS)
    position = form.labels.broken([row[at] for row in rows])
    if position is None:
        return None
    return LineFault(
        first + position,
        f"line {first + position}: label {rows[position][at]!r} does not go with the labels beside it in BIOES or "
        "BILOU; mend it, or write the file in BIO",
    )


def _row(line: Line, form: Form) -> list[str]:
    """The columns of a line."""
    text = line_text(line, form.encoding)
    row = _split(text, form.separator)
    if len(row) != len(form.columns) and "\r" in text:
        raise BadLineError(f"{_count(row)} with {CR_ENDS}")
    if len(row) != len(form.columns):
        raise BadLineError(
            f"{_count(row)}, want {len(form.columns)} ({' '.join(form.columns)}); "
            f"{_comment_advice(text, form)}{form.other_columns or _advice(text, row, form)}"
        )
    for name, value in zip(form.columns, row, strict=True):
        if name != SKIP and not value:
            raise BadLineError(f"column {name!r} is empty; give every token a value")
        if name == LABELS and form.labels.fault is not None and (fault := form.labels.fault(value)):
            names = line.number == 1 and not form.header and value.isidentifier() and value.islower()
            raise BadLineError(f"{fault}; {HEADER_ADVICE}" if names and not form.other_columns else fault)
    return row


def _split(text: str, separator: Literal["whitespace", "tab"]) -> list[str]:
    return text.split("\t") if separator == "tab" else BLANKS.split(text.strip(" \t"))


def _count(row: Sequence[str]) -> str:
    """Number of columns of a line with the content of the first ones, for a message."""
    shown = [value if len(value) <= SHOWN_CHARACTERS else value[:SHOWN_CHARACTERS] + "…" for value in row]
    rest = ["…"] if len(shown) > SHOWN_COLUMNS else []
    return f"{len(row)} column{'s' * (len(row) > 1)} ({' '.join([*map(repr, shown[:SHOWN_COLUMNS]), *rest])})"


def _comment_advice(text: str, form: Form) -> str:
    """Advice for a line that looks like a comment, where the form could have comments."""
    looks = text.startswith("#") and form.comments is None and form.other_columns is None
    return "if lines that start with # are comments: --set comments=#; else " if looks else ""


def _advice(text: str, row: Sequence[str], form: Form) -> str:
    """Advice: the option with which a line with these columns could be read."""
    other: Literal["whitespace", "tab"] = "whitespace" if form.separator == "tab" else "tab"
    if len(_split(text, other)) == len(form.columns):
        return f"if they are separated by {other}: --set separator={other}"
    names = [TOKENS, *[SKIP] * (len(row) - 2), LABELS] if len(row) > 1 else [TOKENS]
    return f"if the file has them, name them in order, such as --set columns={','.join(names)} ('_' skips one)"


@lru_cache(maxsize=4096)
def label_fault(label: str) -> str:
    """Reason why a label is not in BIO, IOB1, BIOES or BILOU; empty if it is."""
    typed = has_prefix(label)
    if typed and NESTED.search(label):
        return f"label {label!r} is nested, and only flat ones can be read; the reader 'umass' takes nested ones"
    if typed or label == OUTSIDE:
        return ""
    return f"label {label!r} is not O, B-TYPE or I-TYPE, nor BIOES or BILOU: {advice(label)}"


def lone_label_fault(label: str) -> str:
    """As `label_fault`, for a label that may be a type by itself, since none beside it has a prefix."""
    fault = label_fault(label)
    return f"{fault}; {PLAIN_ADVICE}" if fault and may_be_type(label) else fault


BIO_FORM = LabelForm(to_bio, label_fault, broken_span)
"""BIO, IOB1, BIOES and BILOU, which come out as BIO."""
LONE_FORM = BIO_FORM._replace(fault=lone_label_fault)
"""As `BIO_FORM`, for a file in which no label has a prefix."""
PLAIN_FORM = LabelForm(plain=True)


def has_prefixes(path: Path, form: Form) -> bool:
    """Does a label at the start of the file have a prefix?"""
    if LABELS not in form.columns:
        return False
    at = form.columns.index(LABELS)
    for line in islice(file_lines(path), LABELS_LOOKED_AT):
        row = _split(line.content.decode(form.encoding, errors="replace"), form.separator)
        if len(row) == len(form.columns) and has_prefix(row[at]):
            return True
    return False


def has_boundary(path: Path, form: Form) -> bool:
    """Does a line of the file open a document?"""
    if form.boundary is None:
        return False
    with path.open("rb") as file:
        # Most files without such a line do not have the word at all, which is quickly seen.
        if not any(form.boundary in raw for raw in file):
            return False
    return any(opens_document(line, form) for line in file_lines(path))


def split_at_boundaries(stream: Iterator[Block]) -> Iterator[DocumentDraft]:
    """Cuts a file into documents at each line that opens one; sentences before the first such line are one as well.

    Such a line at the end of the file makes no document.
    """
    draft = DocumentDraft(1, [])
    opened = False
    for block in stream:
        if not block.opens_document:
            draft.sentences.append(block)
            continue
        if opened or draft.sentences:
            yield draft
        draft, opened = _opened(block), True
    if draft.sentences:
        yield draft


def _opened(block: Block) -> DocumentDraft:
    """The draft that a line opens; a fault of the line is one of the document."""
    return DocumentDraft(block.line, [block] if block.fault else [], block.rows[0][0] if block.rows else "")


def split_by_count(stream: Iterator[Block], count: int) -> Iterator[DocumentDraft]:
    """A document from every ``count`` sentences; the last may have fewer."""
    sentences: list[Block] = []
    for block in stream:
        sentences.append(block)
        if len(sentences) == count:
            yield DocumentDraft(sentences[0].line, sentences)
            sentences = []
    if sentences:
        yield DocumentDraft(sentences[0].line, sentences)


def documents(drafts: Iterator[DocumentDraft], form: Form, *, path: Path, prefix: str) -> Iterator[Document | Reject]:
    """Drafts as documents of their own ids, or ``prefix-0001``, ``prefix-0002``, ...; rejects keep their number."""
    seen: set[str] = set()
    for number, draft in enumerate(drafts, 1):
        doc_id = draft.name if draft.name and draft.name not in seen else f"{prefix}-{number:04d}"
        faults = [block.fault for block in draft.sentences if block.fault]
        if draft.name in seen:
            again = f"line {draft.line}: document {draft.name!r} was there before; take out one of the two"
            faults.append(LineFault(draft.line, again))
        seen.add(doc_id)
        if faults:
            yield Reject(str(path), faults[0].line, doc_id, faults[0].reason)
        elif not draft.sentences:
            yield Reject(str(path), draft.line, doc_id, "document has no tokens")
        else:
            yield _document(doc_id, draft.sentences, form)


def _document(doc_id: str, sentences: Sequence[Block], form: Form) -> Document:
    nested = {
        name: [[row[i] for row in block.rows] for block in sentences]
        for i, name in enumerate(form.columns)
        if name != SKIP
    }
    gold = nested.pop(LABELS, None)
    if gold is not None:
        gold = [form.labels.read(labels) for labels in gold]
    document = Document.build(doc_id, nested.pop(TOKENS), labels=gold, **nested)
    if document.labels is None or not form.labels.plain:
        return document
    return replace(document, labels=replace(document.labels, plain=True))


def id_prefix(name: str, given: str | None, *, alone: bool) -> str:
    """The start of a file's document ids: its name below the source, without a text suffix.

    A ``given`` prefix replaces it for a file that is ``alone``, and goes before it otherwise.
    """
    path = PurePosixPath(name)
    own = str(path.with_suffix("")) if path.suffix in SUFFIXES else name
    if given is None:
        return own
    return given if alone else given + own
