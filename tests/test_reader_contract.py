"""Every reader on bad files: each document comes out whole or as a reject that says where and what to do."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from concord.flows.cli.app import app
from concord.schemas.columns import REJECTS_LAYOUT, Reject
from concord.schemas.document import Document
from concord.schemas.errors import CorpusError
from concord.testing import readers
from concord.testing.readers import (
    READER_CHECKS,
    GoodFile,
    rejects_of,
    whatever_is_in_a_file_is_a_document_or_a_reject,
)
from concord.workers.corpus.ingestion import REJECTS_NAME, ingest
from concord.workers.corpus.parquet import read_tables
from concord.workers.corpus.readers.reader import ReaderEntry
from concord.workers.corpus.readers.registry import READERS
from tests.support.made_runs import rejects_in


class Sample(NamedTuple):
    """A good file of a reader.

    ``word`` occurs once, in a token of the file's second document or its only one.
    """

    reader: str
    name: str
    content: bytes
    word: bytes
    documents: int


SAMPLES = [
    Sample(
        "conll",
        "a.conll",
        b"-DOCSTART- -X- O O\n\nAnn NNP I-NP I-PER\nran VBD I-VP O\n\n-DOCSTART- -X- O O\n\nOslo NNP I-NP I-LOC\n",
        b"Oslo",
        2,
    ),
    Sample("columns", "a.tsv", b"Ann\tS-PER\nran\tO\n\nNew\tB-LOC\nOslo\tE-LOC\n\nso\tO\n", b"Oslo", 3),
    Sample("citations", "a.txt", b"B.\tauthor\tf\nRain\ttitle\tf|g\n\nOslo\tplace\tf\n", b"Oslo", 2),
    Sample("citations", "b.txt", b"<author> B. </author> <title> Rain </title>\n<place> Oslo </place>\n", b"Oslo", 2),
    Sample(
        "umass",
        "a.parsed",
        b"B. d d B-who/U-last\n, d d I-who\n\nOslo d d B-venue/U-place\n. d d I-venue\n",
        b"Oslo",
        2,
    ),
    Sample("addresses", "a.tagged", b"12 |1\nRose Lane, |3\nBergen, |5\n\nHill Street, |3\nOslo, |5\n", b"Oslo", 2),
    Sample(
        "mail",
        "a.txt",
        b"Who: <speaker>Ann Lee</speaker>\n\n<sentence>She comes at <stime>3:30</stime>-<etime>5 p.m</etime>.\n"
        b"</sentence>Where: <location>Oslo Hall</location>\n",
        b"Oslo",
        1,
    ),
    Sample(
        "pubtator",
        "a.txt",
        b"1|t|Salt and rain.\n1|a|Salt-induced rust.\n1\t0\t4\tSalt\tChemical\tD1\n1\t15\t19\tSalt\tChemical\tD1\n"
        b"1\tCID\tD1\tD2\n\n2|t|Oslo fog is\n2|a|blue.\n",
        b"Oslo",
        2,
    ),
    Sample(
        "spans",
        "a.jsonl",
        b'{"text": "Ann ran.", "label": [[0, 3, "PER"]]}\n{"text": "She left Oslo.", "label": [[9, 13, "LOC"]]}\n',
        b"Oslo",
        2,
    ),
    Sample(
        "spans",
        "a.json",
        b'[\n{"text": "To Oslo.", "spans": [{"start": 3, "end": 7, "label": "LOC"}]}\n]\n',
        b"Oslo",
        1,
    ),
    Sample(
        "xml",
        "a.xml",
        b"<dataset>\n<sequence>\n"
        b"<author>Lee, A.</author> <place>Oslo:</place> <date>1999.</date></sequence>\n</dataset>\n",
        b"Oslo",
        1,
    ),
    Sample(
        "conllu",
        "a.conllu",
        b"# newdoc\n1\tAnn\tAnn\tPROPN\t_\t_\t0\troot\t_\tNER=B-PER\n\n# newdoc\n# text = Oslo won\n"
        b"1-2\tOslowon\t_\t_\t_\t_\t_\t_\t_\t_\n1\tOslo\tOslo\tPROPN\t_\t_\t0\troot\t_\tNER=B-LOC\n"
        b"2\twon\twin\tVERB\t_\t_\t0\troot\t_\t_\n",
        b"Oslo",
        2,
    ),
    Sample("text", "a.csv", b'who,text\nx,"Ann ran."\ny,"Then, to Oslo."\n', b"Oslo", 2),
    Sample("text", "a.ndjson", b'{"text": "Ann ran."}\n{"text": "Then to Oslo."}\n', b"Oslo", 2),
    Sample("text", "a.txt", b"Ann ran. She ran to Oslo.\nThere she stayed.\n", b"Oslo", 1),
]
"""Each reader at least once: a new reader adds its own, and is tested as the others are."""
LINED = [sample for sample in SAMPLES if b"\t" in sample.content.split(b"\n")[0] or sample.reader in ("conll", "umass")]
"""Those with columns."""

every = pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: f"{sample.reader}-{sample.name}")


def test_every_reader_has_a_sample() -> None:
    assert {sample.reader for sample in SAMPLES} | {"parquet"} == set(READERS)  # test_parquet_rows.py tries that one


def good(sample: Sample) -> GoodFile:
    """As authors of readers give theirs."""
    return GoodFile(sample.name, sample.content, sample.word, sample.documents)


def read(sample: Sample, content: bytes, folder: Path, **options: Any) -> list[Document | Reject]:
    return readers.read(READERS[sample.reader], good(sample), content, folder, **options)


@pytest.mark.parametrize("check", READER_CHECKS)
@every
def test_every_reader_keeps_each_promise(sample: Sample, check: Callable[[ReaderEntry, GoodFile], None]) -> None:
    options = ONE_SENTENCE.get(sample.reader, {}) if check is whatever_is_in_a_file_is_a_document_or_a_reject else {}
    check(READERS[sample.reader], good(sample)._replace(options=options))


@every
@pytest.mark.parametrize("content", [b"", b"\n \n", b"\xef\xbb\xbf"])
def test_a_file_with_nothing_in_it_is_one_reject(sample: Sample, content: bytes, tmp_path: Path) -> None:
    (reject,) = rejects_of(read(sample, content, tmp_path))
    assert "nothing in this file; take it out" in reject.reason


@every
def test_a_nul_byte_rejects_its_document(sample: Sample, tmp_path: Path) -> None:
    items = read(sample, sample.content.replace(sample.word, b"Os\0o"), tmp_path)
    (reject,) = rejects_of(items)
    assert len(items) == sample.documents
    assert "NUL" in reject.reason


@every
def test_what_is_not_utf_8_is_rejected_with_a_hint_that_helps(sample: Sample, tmp_path: Path) -> None:
    content = sample.content.replace(sample.word, b"Osl\xf8")
    items = read(sample, content, tmp_path)
    (reject,) = rejects_of(items)
    place = content.index(b"\xf8")
    line = content[:place].count(b"\n") + 1
    assert len(items) == sample.documents
    assert reject.row == line
    assert reject.reason == (
        f"line {line}: not UTF-8 at byte {place} of the file; if it is Latin-1: --set encoding=latin-1"
    )
    items = read(sample, content, tmp_path, encoding="latin-1")
    assert (len(items), rejects_of(items)) == (sample.documents, [])
    assert any("Oslø" in item.tokens for item in items if isinstance(item, Document))


@every
def test_another_encoding_that_does_not_fit_is_named(sample: Sample, tmp_path: Path) -> None:
    content = sample.content.replace(sample.word, b"Osl\x81")
    (reject,) = rejects_of(read(sample, content, tmp_path, encoding="windows-1252"))
    assert "not CP1252 at byte" in reject.reason
    assert "--set encoding=NAME" in reject.reason


@every
def test_what_is_no_text_after_a_byte_order_mark_is_where_it_is_in_the_file(sample: Sample, tmp_path: Path) -> None:
    (reject,) = rejects_of(read(sample, b"\xef\xbb\xbf\xff", tmp_path, **ONE_SENTENCE.get(sample.reader, {})))
    assert "line 1: not UTF-8 at byte 3 of the file" in reject.reason


@pytest.mark.parametrize("sample", LINED, ids=lambda sample: f"{sample.reader}-{sample.name}")
@pytest.mark.parametrize("more", [True, False])
def test_other_columns_are_counted_and_shown(sample: Sample, more: bool, tmp_path: Path) -> None:
    def other(line: bytes) -> bytes:
        parts = line.split()
        return (b"\t".join([*parts, b"more"] if more else parts[:1])) if parts else line

    lines = [line if line.startswith(b"-DOCSTART-") else other(line) for line in sample.content.split(b"\n")]
    content = b"\n".join(lines)
    items = read(sample, content, tmp_path)
    assert len(rejects_of(items)) == len(items) == sample.documents
    reject = rejects_of(items)[-1]
    found = lines[(reject.row or 0) - 1].decode().split("\t")
    count = f"{len(found)} columns" if len(found) > 1 else "1 column"
    assert f"line {reject.row}: {count} ({' '.join(map(repr, found))}), want " in reject.reason
    assert "--set columns=tokens" in reject.reason or "the reader 'columns'" in reject.reason


@every
@settings(max_examples=60)
@given(data=st.data())
def test_whatever_is_in_a_file_is_a_document_or_a_reject(sample: Sample, data: st.DataObject) -> None:
    first, last = sorted(data.draw(st.tuples(*[st.integers(0, len(sample.content))] * 2)))
    put_in = data.draw(st.binary(max_size=12) | st.sampled_from(PIECES))
    encoding = data.draw(st.sampled_from(["utf-8", "latin-1", "gb18030", "shift_jis", "iso2022_jp"]))
    content = sample.content[:first] + put_in + sample.content[last:]
    with TemporaryDirectory() as folder:
        items = read(sample, content, Path(folder), encoding=encoding, **ONE_SENTENCE.get(sample.reader, {}))
    ids = [item.doc_id for item in items]
    assert len(set(ids)) == len(ids)


PIECES = [
    *[b"\n\n", b"\t", b"\r", b"-DOCSTART-", b"</", b"<a> x </a>", b"\xc2\x85", b"\xa0", b"\x1c", b"\xef\xbb\xbf"],
    *[b" |", b"|3", b"/I-x", b"U-", b"-", b"<stime>", b"</etime>", b"<sentence>", b"2|t|", b"1\t0\t4\tSalt\tX\n"],
]
"""What lines, columns and documents are cut by, and what looks like it."""
IDS = re.compile(rb"(?m)^([12])(?=[|\t])")
"""Ids that documents have in the file itself: two files must not have the same."""
ONE_SENTENCE = {"conll": {"sentences_per_document": 1}}
"""So that a file whose boundaries are gone is read too."""


@every
def test_what_is_read_is_written_or_rejected(sample: Sample, tmp_path: Path) -> None:
    source = tmp_path / "in"
    source.mkdir()
    (source / sample.name).write_bytes(sample.content)
    bad = IDS.sub(rb"1\1", sample.content.replace(sample.word, b"\xff"))
    (source / f"bad-{sample.name}").write_bytes(bad)
    (source / f"empty-{sample.name}").touch()
    report = ingest(sample.reader, source, tmp_path / "out")
    rejects = rejects_in(next(read_tables(tmp_path / "out" / REJECTS_NAME, REJECTS_LAYOUT)))
    assert report.read == report.written + report.rejected == 2 * sample.documents + 1
    assert [Path(reject.source).name for reject in rejects] == [f"bad-{sample.name}", f"empty-{sample.name}"]


@every
@pytest.mark.parametrize("content", [b"", b"\0" * 50, b"\xff\xfe\n" * 3])
def test_a_file_of_which_nothing_is_left_ends_the_command_with_its_reason(
    sample: Sample, content: bytes, tmp_path: Path
) -> None:
    path = tmp_path / sample.name
    path.write_bytes(content)
    options = [f"--set={k}={v}" for k, v in ONE_SENTENCE.get(sample.reader, {}).items()]
    result = CliRunner().invoke(app, ["ingest", sample.reader, str(path), "--out", str(tmp_path / "out"), *options])
    assert result.exit_code == 3
    assert f"concord: {path}: nothing in it could be read as {sample.reader}; {path}: " in result.stderr
    assert "Traceback" not in result.output


@pytest.mark.parametrize("reader", sorted(READERS.keys() - {"parquet"}))
def test_a_file_name_that_is_no_text_is_named(reader: str, tmp_path: Path) -> None:
    path = os.fsencode(tmp_path) + b"/a\xff.txt"
    Path(os.fsdecode(path)).write_bytes(b"-DOCSTART- O\n\na b\n")
    entry = READERS[reader]
    for source in (os.fsdecode(path), str(tmp_path)):
        with pytest.raises(CorpusError, match=r"file name 'a\\udcff\.txt'.*rename it") as caught:
            list(entry.read(source, entry.settings()))
        assert str(caught.value).encode()


# Parquet of raw text


@pytest.mark.parametrize(
    "damage", [lambda b: b"", lambda b: b"\0" * len(b), lambda b: b[:-9], lambda b: b"\xef\xbb\xbf" + b]
)
def test_a_damaged_parquet_file_is_named(damage: Any, tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"doc_id": ["a"], "text": ["One."]}), path)
    path.write_bytes(damage(path.read_bytes()))
    entry = READERS["text"]
    with pytest.raises(CorpusError, match=r"t\.parquet"):
        list(entry.read(str(path), entry.settings()))
