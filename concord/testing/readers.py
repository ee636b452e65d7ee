"""Contract tests of readers, on a good file and on the same file broken in many ways."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from concord.schemas.columns import Misfit, Notice, Reject, batch_from_table, table_from_documents
from concord.schemas.document import Document
from concord.schemas.errors import CorpusError
from concord.testing.expect import expect, expect_same
from concord.workers.corpus.ingestion import write_corpus
from concord.workers.corpus.readers.reader import ReaderEntry

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
PIECES = (b"\n\n", b"\t", b"\r", b"</", b"|", b"\xc2\x85", b"\xa0", b"\x1c", b"\0", b"\xff", BYTE_ORDER_MARK)
"""Bytes that are put into files: separators of lines and columns, and bytes that are no text."""


class GoodFile(NamedTuple):
    """A file without a fault.

    - ``name``: file name
    - ``content``: its bytes
    - ``word``: a token that occurs once, in the second document or in the only one
    - ``documents``: number of documents
    - ``options``: options of the reader
    """

    name: str
    content: bytes
    word: bytes
    documents: int
    options: Mapping[str, Any] = MappingProxyType({})


def check_reader(entry: ReaderEntry, sample: GoodFile) -> None:
    """Runs all `READER_CHECKS`. Raises `AssertionError` at a broken promise."""
    for check in READER_CHECKS:
        check(entry, sample)


def read(entry: ReaderEntry, sample: GoodFile, content: bytes, folder: Path, **options: Any) -> list[Document | Reject]:
    """Documents and rejects that the reader makes of a file, after checks of what it promises for any content."""
    path = folder / sample.name
    path.write_bytes(content)
    read_items = entry.read(str(path), entry.settings(**{**sample.options, **options}))
    content_items = [item for item in read_items if not isinstance(item, Notice)]
    items = [item for item in content_items if not isinstance(item, Misfit)]
    expect(items, "a file gives something, if only a reject")
    for before, after in pairwise(content_items):
        if isinstance(after, Misfit):
            expect_same(after.doc_id, before.doc_id, "a misfit follows its document")
            expect(not isinstance(before, Reject), "a misfit is of a document that was read")
    documents = [item for item in items if isinstance(item, Document)]
    expect_same(batch_from_table(table_from_documents(documents))[1], [], "what is read can be stored")
    ids = [item.doc_id for item in items if item.doc_id is not None]
    expect_same(len(set(ids)), len(ids), "document ids that differ")
    for reject in rejects_of(items):
        expect_same(reject.source, str(path), "a reject names its file")
        expect(reject.reason, "a reject has a reason")
        if reject.row is not None:
            expect(1 <= reject.row <= content.count(b"\n") + 1, f"a reject's line is in the file, not {reject.row}")
            expect(reject.doc_id is not None, "a reject with a line is of a document")
    return items


def rejects_of(items: list[Document | Reject]) -> list[Reject]:
    """The rejects among some items."""
    return [item for item in items if isinstance(item, Reject)]


def facts(item: Document | Reject) -> Any:
    """Content of a document or reject, in a form that can be compared."""
    if isinstance(item, Reject):
        return item
    columns = {name: column.strings() for name, column in item.columns.items()}
    return item.doc_id, item.sentence_starts.tolist(), columns, item.labels and item.labels.strings(), item.text


def a_good_file_is_read_whole(entry: ReaderEntry, sample: GoodFile) -> None:
    """A good file gives all its documents, with the word in one of them, and no reject."""
    with _folder() as folder:
        items = read(entry, sample, sample.content, folder)
    expect_same(len(items), sample.documents, "documents of a good file")
    expect_same(rejects_of(items), [], "rejects of a good file")
    with_word = sum(sample.word.decode() in item.tokens for item in items if isinstance(item, Document))
    expect_same(with_word, 1, f"documents with the word {sample.word!r}")


def the_same_file_gives_the_same_documents(entry: ReaderEntry, sample: GoodFile) -> None:
    """A file gives the same documents a second time, and with a byte order mark in front."""
    with _folder() as folder:
        contents = (sample.content, sample.content, BYTE_ORDER_MARK + sample.content)
        first, *others = ([facts(item) for item in read(entry, sample, content, folder)] for content in contents)
    for other in others:
        expect_same(other, first, "the documents of the same file")


def a_file_with_nothing_in_it_is_one_reject(entry: ReaderEntry, sample: GoodFile) -> None:
    """A file is one reject if it has no bytes, only blank lines, or only a byte order mark."""
    with _folder() as folder:
        for content in (b"", b"\n \n", BYTE_ORDER_MARK):
            items = read(entry, sample, content, folder)
            expect_same((len(items), len(rejects_of(items))), (1, 1), f"items and rejects of {content!r}")


def what_is_no_text_rejects_its_document_alone(entry: ReaderEntry, sample: GoodFile) -> None:
    """A NUL byte, or bytes of another encoding, reject one document; the line is named and the others are read."""
    with _folder() as folder:
        for bad in (b"Os\0o", b"Osl\xf8"):
            content = sample.content.replace(sample.word, bad)
            items = read(entry, sample, content, folder)
            rejects = rejects_of(items)
            expect_same((len(items), len(rejects)), (sample.documents, 1), f"items and rejects with {bad!r}")
            line = content[: content.index(bad)].count(b"\n") + 1
            expect_same(rejects[0].row, line, f"the line of {bad!r}")


def a_file_that_is_cut_off_keeps_all_but_its_last_document(entry: ReaderEntry, sample: GoodFile) -> None:
    """A file that is cut anywhere after its first line gives the same documents, except the last one."""
    with _folder() as folder:
        whole = [facts(item) for item in read(entry, sample, sample.content, folder)]
        for end in range(sample.content.index(b"\n") + 1, len(sample.content)):
            cut = [facts(item) for item in read(entry, sample, sample.content[:end], folder)]
            expect_same(cut[:-1], whole[: len(cut) - 1], f"the documents before the last of the first {end} bytes")


def whatever_is_in_a_file_is_a_document_or_a_reject(entry: ReaderEntry, sample: GoodFile) -> None:
    """Bytes that are removed, inserted or changed at random cause no other error."""
    rng = np.random.default_rng(0)
    with _folder() as folder:
        for _ in range(80):
            first, last = sorted(rng.integers(0, len(sample.content) + 1, 2).tolist())
            put_in = rng.bytes(6) if rng.random() < 0.5 else PIECES[rng.integers(len(PIECES))]
            read(entry, sample, sample.content[:first] + put_in + sample.content[last:], folder)


def what_is_read_is_written_or_rejected(entry: ReaderEntry, sample: GoodFile) -> None:
    """In a folder with a good, a bad and an empty file, every document is written or counted as a reject."""
    with _folder() as folder:
        source = folder / "in"
        source.mkdir()
        (source / sample.name).write_bytes(sample.content)
        (source / f"bad-{sample.name}").write_bytes(sample.content.replace(sample.word, b"\xff"))
        (source / f"empty-{sample.name}").touch()
        items = entry.read(str(source), entry.settings(**sample.options))
        report = write_corpus(items, folder / "out", source=str(source))
    expect_same(report.read, report.written + report.rejected, "documents read, and those written or rejected")
    expect_same(report.read, 2 * sample.documents + 1, "documents of two files, and a file without any")


def a_source_that_is_not_there_is_named(entry: ReaderEntry, sample: GoodFile) -> None:
    """A missing source is a `CorpusError` of one line with its path."""
    with _folder() as folder:
        path = folder / "nowhere"
        try:
            list(entry.read(str(path), entry.settings(**sample.options)))
        except CorpusError as error:
            expect(str(path) in str(error) and "\n" not in str(error), f"one line with the path, not {error}")
        else:
            expect(None, "a source that is not there is a CorpusError")


@contextmanager
def _folder() -> Iterator[Path]:
    """A temporary folder."""
    with TemporaryDirectory(prefix="concord-testing-") as name:
        yield Path(name)


READER_CHECKS: tuple[Callable[[ReaderEntry, GoodFile], None], ...] = (
    a_good_file_is_read_whole,
    the_same_file_gives_the_same_documents,
    a_file_with_nothing_in_it_is_one_reject,
    what_is_no_text_rejects_its_document_alone,
    a_file_that_is_cut_off_keeps_all_but_its_last_document,
    whatever_is_in_a_file_is_a_document_or_a_reject,
    what_is_read_is_written_or_rejected,
    a_source_that_is_not_there_is_named,
)
"""The single checks, each a function of an entry and a good file."""
