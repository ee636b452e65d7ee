"""Readers: CoNLL, column files, raw text; and what they say of bad input."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from schemas.columns import Reject, SchemaError
from schemas.document import Document
from schemas.settings import ColumnsSettings
from workers.corpus.parquet import CorpusError
from workers.corpus.readers.registry import READERS
from workers.corpus.readers.tokenizer import RUN_LIMIT, Tokenizer, load_tokenizer

DATA = Path(__file__).parents[1] / ".." / "shared" / "data"

CONLL = b"""-DOCSTART- -X- O O

Ann NNP I-NP I-PER
Lee NNP I-NP I-PER
Bob NNP B-NP B-PER

ran VBD I-VP O

-DOCSTART- -X- O O

Oslo NNP I-NP I-LOC
"""


def corpus(path: str) -> str:
    """A development corpus, which is not part of the project."""
    source = DATA / path
    if not source.exists():
        pytest.skip(f"no {path} in ../shared/data")
    return str(source)


def read(reader: str, source: Path | str, **settings: Any) -> tuple[list[Document], list[Reject]]:
    entry = READERS[reader]
    items = list(entry.read(str(source), entry.settings(**settings)))
    documents = [i for i in items if isinstance(i, Document)]
    return documents, [i for i in items if isinstance(i, Reject)]


def write(path: Path, content: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def labels(document: Document) -> list[str]:
    assert document.labels is not None
    return document.labels.strings()


# Column files


def test_conll_documents_sentences_and_tags(tmp_path: Path) -> None:
    documents, rejects = read("conll", write(tmp_path / "eng.x", CONLL))
    assert rejects == []
    assert [d.doc_id for d in documents] == ["eng.x-0001", "eng.x-0002"]
    assert documents[0].sentence_starts.tolist() == [0, 3]
    assert documents[0].tokens == ["Ann", "Lee", "Bob", "ran"]
    assert labels(documents[0]) == ["B-PER", "I-PER", "B-PER", "O"]
    assert documents[0].columns["pos"].strings() == ["NNP", "NNP", "NNP", "VBD"]
    assert documents[0].columns["chunk"].strings() == ["I-NP", "I-NP", "B-NP", "I-VP"]


@pytest.mark.parametrize("change", [lambda b: b.replace(b"\n", b"\r\n"), lambda b: b"\xef\xbb\xbf" + b, bytes.rstrip])
def test_line_ends_and_byte_order_marks_change_nothing(tmp_path: Path, change: Any) -> None:
    plain, _ = read("conll", write(tmp_path / "a" / "f", CONLL))
    other, rejects = read("conll", write(tmp_path / "b" / "f", change(CONLL)))
    assert rejects == []
    assert [(d.doc_id, d.tokens, labels(d)) for d in other] == [(d.doc_id, d.tokens, labels(d)) for d in plain]


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        (b"Lee NNP I-NP I-PER", b"Lee NNP I-NP", 4, ["line 4", "3 columns", "want 4"]),
        (b"Lee NNP", b"L\xffe NNP", 4, ["line 4", "UTF-8", "byte 40"]),
        (b"Lee NNP", b"L\0e NNP", 4, ["line 4", "NUL", "byte 40"]),
        (b"Lee NNP I-NP I-PER", b"Lee NNP I-NP X-PER", 4, ["line 4", "'X-PER'", "B-TYPE"]),
        (b"Lee NNP I-NP I-PER", b"Lee NNP I-NP I-", 4, ["line 4", "'I-'"]),
    ],
)
def test_a_bad_line_rejects_its_document_only(
    tmp_path: Path, old: bytes, new: bytes, line: int, words: list[str]
) -> None:
    path = write(tmp_path / "eng.x", CONLL.replace(old, new))
    documents, rejects = read("conll", path)
    assert [d.doc_id for d in documents] == ["eng.x-0002"]
    assert [(r.source, r.row, r.doc_id) for r in rejects] == [(str(path), line, "eng.x-0001")]
    assert [w for w in words if w not in rejects[0].reason] == []


def test_a_document_without_tokens_is_rejected(tmp_path: Path) -> None:
    _, rejects = read("conll", write(tmp_path / "f", b"-DOCSTART- -X- O O\n\n" + CONLL + b"\n-DOCSTART- -X- O O\n"))
    assert [(r.row, r.doc_id, r.reason) for r in rejects] == [
        (1, "f-0001", "document has no tokens"),
        (15, "f-0004", "document has no tokens"),
    ]


def test_conll_without_document_lines_needs_a_count(tmp_path: Path) -> None:
    path = write(tmp_path / "f.txt", b"a N I-NP O\n\n" * 5)
    with pytest.raises(CorpusError, match=r"f\.txt: line 1.*sentences_per_document"):
        read("conll", path)
    documents, _ = read("conll", path, sentences_per_document=2, prefix="news")
    assert [(d.doc_id, len(d)) for d in documents] == [("news-0001", 2), ("news-0002", 2), ("news-0003", 1)]


def test_column_files_in_a_folder(tmp_path: Path) -> None:
    write(tmp_path / "in/b.tsv", b"x y\tO\nz\tB-Q\n\t\nw\tO\n")
    write(tmp_path / "in/a/c.tsv", b"v\tI-Q\n")
    write(tmp_path / "in/_note", b"\0")
    documents, rejects = read("columns", tmp_path / "in", separator="tab")
    assert rejects == []
    assert [(d.doc_id, d.tokens, labels(d)) for d in documents] == [
        ("a/c-0001", ["v"], ["B-Q"]),
        ("b-0001", ["x y", "z"], ["O", "B-Q"]),
        ("b-0002", ["w"], ["O"]),
    ]


def test_skipped_columns_and_plain_labels(tmp_path: Path) -> None:
    path = write(tmp_path / "f", b"a  1 author\nb\t2 title\n")
    documents, _ = read("columns", path, columns=("tokens", "_", "labels"), scheme="plain")
    assert labels(documents[0]) == ["author", "title"]
    assert set(documents[0].columns) == {"tokens"}


@pytest.mark.parametrize("columns", [("labels",), ("tokens", "pos", "pos")])
def test_columns_have_to_be_named_once(columns: tuple[str, ...]) -> None:
    with pytest.raises(ValidationError, match="tokens"):
        ColumnsSettings(columns=columns)


def test_a_source_that_is_not_there(tmp_path: Path) -> None:
    for reader in READERS:
        with pytest.raises(CorpusError, match="nowhere"):
            read(reader, tmp_path / "nowhere")


# Raw text


def text_table(ids: list[str | None], texts: list[str | None]) -> pa.Table:
    return pa.table({"doc_id": pa.array(ids, pa.string()), "text": pa.array(texts, pa.string())})


@given(
    st.lists(
        st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from(" .\n“”\"'-A"), max_size=60), max_size=4
    )
)
def test_tokens_are_cut_out_of_the_text_and_nothing_is_lost(texts: list[str]) -> None:
    cut = load_tokenizer("en", 7)(texts)
    strings = cut.tokens.strings()
    for i, text in enumerate(texts):
        part = slice(int(cut.doc_starts[i]), int(cut.doc_starts[i + 1]))
        spans = list(zip(cut.start[part].tolist(), cut.end[part].tolist(), strict=True))
        assert [text[a:b] for a, b in spans] == strings[part]
        assert "".join(strings[part]) == "".join(text.split())
        starts = [s - part.start for s in cut.sentence_starts.tolist() if part.start <= s < part.stop]
        assert starts[:1] == ([0] if strings[part] else [])
        lengths = np.diff([*starts, len(spans)])
        assert np.all((lengths > 0) & (lengths <= 7))


def test_sentences_end_where_a_reader_ends_them() -> None:
    text = 'He met Mr. Dow. "Come!" said he.\n\nI came on Jan. 3 to the well-known\ninn'
    cut = load_tokenizer("en", 500)([text])
    assert [cut.tokens.strings()[s] for s in cut.sentence_starts] == ["He", '"', "I"]
    assert "well-known" in cut.tokens.strings()
    assert "Mr." in cut.tokens.strings()


def test_long_sentences_and_long_runs_are_cut() -> None:
    cut = load_tokenizer("en", 500)(["a " * 1200, "(" * 100_000])
    assert np.diff(np.append(cut.sentence_starts[:3], 1200)).tolist() == [500, 500, 200]
    assert max(map(len, cut.tokens.values)) <= RUN_LIMIT
    assert cut.end[-1] == 100_000


def test_a_tokenizer_made_anew_cuts_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = Tokenizer("en", 500)
    texts = ["She's here, isn't she? Yes—at 5 p.m.", "U.S. towns"]
    before = tokenizer(texts)
    monkeypatch.setattr("workers.corpus.readers.tokenizer.STRING_LIMIT", 0)
    after = tokenizer(texts)
    assert after.tokens.strings() == before.tokens.strings()
    assert after.sentence_starts.tolist() == before.sentence_starts.tolist()


def test_a_language_without_rules() -> None:
    with pytest.raises(ValueError, match="'qq'"):
        Tokenizer("qq", 500)


def test_text_from_parquet_keeps_rows_and_reasons(tmp_path: Path) -> None:
    ids = ["a", "b", None, "d", "e", "f"]
    texts = ["One. Two.", " \n", "x", None, "nu\0l", "Last"]
    path = tmp_path / "t.parquet"
    pq.write_table(text_table(ids, texts), path, row_group_size=4)
    documents, rejects = read("text", path)
    assert [(d.doc_id, d.tokens, d.text) for d in documents] == [
        ("a", ["One", ".", "Two", "."], "One. Two."),
        ("f", ["Last"], "Last"),
    ]
    assert rejects == [
        Reject(str(path), 1, "b", "text is blank"),
        Reject(str(path), 2, None, "doc_id is null"),
        Reject(str(path), 3, "d", "text is null"),
        Reject(str(path), 4, "e", "text holds a NUL character"),
    ]


def test_text_columns_can_be_named(tmp_path: Path) -> None:
    table = text_table(["a"], ["One."]).rename_columns(["key", "body"])
    pq.write_table(table, tmp_path / "t.parquet")
    with pytest.raises(SchemaError, match=r"t\.parquet: column 'doc_id' is missing.*key, body.*id_column"):
        read("text", tmp_path)
    pq.write_table(pa.table({"doc_id": [1], "text": ["x"]}), tmp_path / "t.parquet")
    with pytest.raises(SchemaError, match="has type int64, want string"):
        read("text", tmp_path)
    pq.write_table(table, tmp_path / "t.parquet")
    documents, _ = read("text", tmp_path, id_column="key", text_column="body")
    assert [d.tokens for d in documents] == [["One", "."]]


def test_text_from_txt_files(tmp_path: Path) -> None:
    write(tmp_path / "in/b.txt", "\ufeffÉtat. Two.".encode())
    write(tmp_path / "in/a/c.txt", b"ok \xff")
    write(tmp_path / "in/empty.txt", b"")
    documents, rejects = read("text", tmp_path / "in")
    assert [(d.doc_id, d.tokens) for d in documents] == [("b", ["État", ".", "Two", "."])]
    assert documents[0].token_start is not None
    assert documents[0].token_start.tolist() == [0, 4, 6, 9]
    assert [(r.doc_id, r.reason) for r in rejects] == [
        ("a/c", "not valid UTF-8 at byte 3 of the file"),
        ("empty", "text is empty"),
    ]


def test_a_truncated_parquet_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(text_table(["a"], ["One."]), path)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(CorpusError, match=r"t\.parquet: not a whole Parquet file"):
        read("text", path)


def test_a_document_of_100_000_tokens(tmp_path: Path) -> None:
    documents, _ = read("text", write(tmp_path / "long.txt", b"word. " * 50_000))
    assert (len(documents[0]), len(documents[0].sentence_starts)) == (100_000, 50_000)


# Development corpora


@pytest.mark.parametrize(
    ("name", "documents", "sentences", "tokens", "entities"),
    [
        ("eng.train", 946, 14_041, 203_621, {"LOC": 7140, "MISC": 3438, "ORG": 6321, "PER": 6600}),
        ("eng.testa", 216, 3250, 51_362, None),
    ],
)
def test_counts_of_conll_2003(
    name: str, documents: int, sentences: int, tokens: int, entities: dict[str, int] | None
) -> None:
    found, rejects = read("conll", corpus(f"conll2003/{name}"))
    assert rejects == []
    assert (len(found), sum(len(d.sentence_starts) for d in found), sum(map(len, found))) == (
        documents,
        sentences,
        tokens,
    )
    assert found[0].doc_id == f"{name}-0001"
    types = Counter(label[2:] for d in found for label in labels(d) if label.startswith("B-"))
    assert entities is None or types == entities


def test_counts_of_conll_2000() -> None:
    found, rejects = read("columns", corpus("conll2000/train.txt"), columns=("tokens", "pos", "labels"))
    assert rejects == []
    assert (len(found), sum(map(len, found))) == (8936, 211_727)
    assert sum(label.startswith("B-") for d in found for label in labels(d)) == 106_978


def test_counts_of_wnut_2017() -> None:
    for name, posts in (("wnut17train.conll", 3394), ("emerging.dev.conll", 1009)):
        found, rejects = read("columns", corpus(f"wnut17/{name}"), separator="tab")
        assert (len(found), rejects) == (posts, [])
