"""Readers: CoNLL, column files, raw text; and what they say of bad input."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pydantic import ValidationError

from concord.schemas.columns import Reject, SchemaError
from concord.schemas.document import Document
from concord.schemas.errors import CorpusError, UsageError
from concord.workers.corpus.ingestion import ingest
from concord.workers.corpus.readers.reader import EMPTY_FILE
from concord.workers.corpus.readers.registry import READERS
from concord.workers.corpus.settings import ColumnsSettings

DATA = Path(__file__).parents[1] / ".." / "shared" / "data"

CONLL = b"""-DOCSTART- -X- O O

Ann NNP I-NP I-PER
Lee NNP I-NP I-PER
Bob NNP B-NP B-PER

ran VBD I-VP O

-DOCSTART- -X- O O

Oslo NNP I-NP I-LOC
"""


OF_TEXT = [entry for entry in READERS.values() if "encoding" in entry.settings.model_fields]
"""Readers of files of text; Parquet has an encoding of its own."""


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
    _, rejects = read("conll", write(tmp_path / "f", b"-DOCSTART- -X- O O\n\n" + CONLL))
    assert [(r.row, r.doc_id, r.reason) for r in rejects] == [(1, "f-0001", "document has no tokens")]


def test_a_line_at_the_end_opens_no_document(tmp_path: Path) -> None:
    documents, rejects = read("conll", write(tmp_path / "f", CONLL))
    ended = read("conll", write(tmp_path / "f", CONLL + b"\n-DOCSTART- -X- O O\n\n"))
    assert ([d.doc_id for d in ended[0]], ended[1]) == ([d.doc_id for d in documents], rejects)
    _, (nothing,) = read("conll", write(tmp_path / "f", b"-DOCSTART- -X- O O\n"))
    assert (nothing.doc_id, nothing.reason) == (None, EMPTY_FILE)


def test_conll_without_document_lines_needs_a_count(tmp_path: Path) -> None:
    path = write(tmp_path / "f.txt", b"a N I-NP O\n\n" * 5)
    with pytest.raises(CorpusError, match=r"f\.txt: no line opens.*'-DOCSTART-'.*sentences_per_document"):
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


def test_a_line_that_opens_a_document_ends_the_one_before(tmp_path: Path) -> None:
    path = write(tmp_path / "f", b"a O\n\nb O\n-DOCSTART- O\n\nc O\n\nd O\n\n  -DOCSTART-\n-DOCSTART-x O\n")
    documents, rejects = read("columns", path)
    assert rejects == []
    assert [d.tokens for d in documents] == [["a", "b"], ["c", "d"], ["-DOCSTART-x"]]
    assert [len(d.sentence_starts) for d in documents] == [2, 2, 1]
    assert [d.tokens for d in read("columns", path, sentences_per_document=3)[0]] == [d.tokens for d in documents]


def test_the_line_that_opens_a_document_can_be_another_or_none(tmp_path: Path) -> None:
    path = write(tmp_path / "f", "# nýtt 1\na O\n\nb O\n\n# nýtt\nc O\n".encode("latin-1"))
    documents, rejects = read("columns", path, boundary="# nýtt", encoding="latin-1")
    assert ([d.tokens for d in documents], rejects) == ([["a", "b"], ["c"]], [])
    documents, _ = read("columns", write(tmp_path / "g", b"-DOCSTART- O\n\na O\n"), boundary=None)
    assert [d.tokens for d in documents] == [["-DOCSTART-"], ["a"]]


def test_conll_with_other_columns_in_another_encoding(tmp_path: Path) -> None:
    path = write(tmp_path / "deu", "-DOCSTART- -X- -X- -X- O\n\nMüller Müller NE I-NC I-PER\n".encode("latin-1"))
    columns = ("tokens", "lemma", "pos", "chunk", "labels")
    (document,), rejects = read("conll", path, columns=columns, encoding="latin-1")
    assert rejects == []
    assert {name: column.strings() for name, column in document.columns.items()} == {
        "tokens": ["Müller"],
        "lemma": ["Müller"],
        "pos": ["NE"],
        "chunk": ["I-NC"],
    }
    assert labels(document) == ["B-PER"]


def test_both_options_that_a_file_needs_are_named_at_once(tmp_path: Path) -> None:
    path = write(tmp_path / "f", b"Ann NN B-NP\n")
    with pytest.raises(
        CorpusError, match=r"sentences_per_document.*line 1: 3 columns \('Ann' 'NN' 'B-NP'\), want 4.*_,"
    ):
        read("conll", path)


def test_the_other_separator_is_advised_where_it_would_do(tmp_path: Path) -> None:
    _, (blank,) = read("columns", write(tmp_path / "f", b"New York\tB-LOC\n"))
    assert blank.reason.endswith(
        "3 columns ('New' 'York' 'B-LOC'), want 2 (tokens labels); if they are separated by tab: --set separator=tab"
    )
    _, (tab,) = read("columns", write(tmp_path / "f", b"York B-LOC\n"), separator="tab")
    assert tab.reason.endswith("--set separator=whitespace")


def test_a_line_of_many_or_long_columns_is_shown_in_part(tmp_path: Path) -> None:
    _, (reject,) = read("columns", write(tmp_path / "f", b"x" * 99 + b" b c d e f g\n"))
    assert f"7 columns ('{'x' * 20}…' 'b' 'c' 'd' 'e' 'f' …), want 2" in reject.reason
    assert "--set columns=tokens,_,_,_,_,_,labels" in reject.reason


def test_labels_of_other_schemes_are_read_as_bio_or_rejected(tmp_path: Path) -> None:
    good = b"a B-X\nb E-X\nc U-Y\n\nd I-X\ne B-X\n\n"
    bad = [b"f O\ng E-X\n\n", b"h B-a/B-b\n\n", b"i X\n\n", b"j B-\n\n"]
    documents, rejects = read("columns", write(tmp_path / "f", good + b"".join(bad)))
    assert [labels(d) for d in documents] == [["B-X", "I-X", "B-Y"], ["B-X", "B-X"]]
    assert [(r.row, r.doc_id) for r in rejects] == [(9, "f-0003"), (11, "f-0004"), (13, "f-0005"), (15, "f-0006")]
    parts = ["'E-X' does not go with", "nested", "BIOES or BILOU: write 'B-X'", "BIOES or BILOU: a prefix alone"]
    assert [part for part, reject in zip(parts, rejects, strict=True) if part not in reject.reason] == []
    documents, rejects = read("columns", write(tmp_path / "f", bad[1] + bad[2] + b"k E-X\n"), scheme="plain")
    assert ([labels(d) for d in documents], rejects) == ([["B-a/B-b"], ["X"], ["E-X"]], [])


def test_skipped_columns_and_plain_labels(tmp_path: Path) -> None:
    path = write(tmp_path / "f", b"a  1 author\nb\t2 title\n")
    documents, _ = read("columns", path, columns=("tokens", "_", "labels"), scheme="plain")
    assert labels(documents[0]) == ["author", "title"]
    assert set(documents[0].columns) == {"tokens"}


@pytest.mark.parametrize(
    "columns",
    [
        ("labels",),
        ("tokens", "pos", "pos"),
        ("token", "tokens"),
        ("tokens", "label"),
        ("tokens", ""),
        ("tokens", "a,b"),
    ],
)
def test_columns_have_to_be_named_once(columns: tuple[str, ...]) -> None:
    with pytest.raises(ValidationError, match="name 'tokens' once"):
        ColumnsSettings(columns=columns)


@pytest.mark.parametrize("name", ["doc_id", "sentence_starts", "text", "token_start", "token_end"])
def test_columns_of_the_layout_cannot_be_token_columns(name: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=f"'{name}' of its own"):
        read("columns", write(tmp_path / "f", b"a b\n"), columns=("tokens", name))


@pytest.mark.parametrize("name", ["sentences", "cls"])
def test_any_other_name_will_do(name: str, tmp_path: Path) -> None:
    (document,), _ = read("columns", write(tmp_path / "f", b"a b\n"), columns=("tokens", name))
    assert document.columns[name].strings() == ["b"]


@pytest.mark.parametrize("name", ["latin1337", "hex", "rot13", ""])
def test_an_encoding_that_is_none_is_refused(name: str) -> None:
    for entry in OF_TEXT:
        with pytest.raises(ValidationError, match="no text encoding is called"):
            entry.settings.model_validate({"encoding": name})


@pytest.mark.parametrize("name", ["utf-16", "utf-32-le", "utf-7", "cp500", "raw_unicode_escape", "idna", "punycode"])
def test_an_encoding_without_ascii_is_refused(name: str) -> None:
    for entry in OF_TEXT:
        with pytest.raises(ValidationError, match="convert the file to UTF-8"):
            entry.settings.model_validate({"encoding": name})


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"boundary": None, "sentences_per_document": None}, "give a boundary or sentences_per_document"),
        ({"boundary": "\u2014", "encoding": "latin-1"}, "cannot be written in iso8859-1"),
        ({"boundary": ""}, "should match pattern"),
        ({"boundary": " x"}, "should match pattern"),
        ({"boundary": "x\ny"}, "should match pattern"),
    ],
)
def test_documents_have_to_end_somewhere(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        ColumnsSettings(**options)


def test_a_source_that_is_not_there(tmp_path: Path) -> None:
    for reader in READERS:
        with pytest.raises(CorpusError, match="nowhere"):
            read(reader, tmp_path / "nowhere")


# Raw text


def text_table(ids: list[str | None], texts: list[str | None]) -> pa.Table:
    return pa.table({"doc_id": pa.array(ids, pa.string()), "text": pa.array(texts, pa.string())})


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
    pq.write_table(pa.table({"doc_id": [1.5], "text": ["x"]}), tmp_path / "t.parquet")
    with pytest.raises(SchemaError, match="has type double, want string"):
        read("text", tmp_path)
    pq.write_table(table, tmp_path / "t.parquet")
    documents, _ = read("text", tmp_path, id_column="key", text_column="body")
    assert [d.tokens for d in documents] == [["One", "."]]


def test_texts_of_parquet_without_ids_have_those_of_file_and_row(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"text": ["One.", "", "Two."], "n": [1, 2, 3]}), path, row_group_size=2)
    documents, rejects = read("text", path)
    assert [(d.doc_id, d.text) for d in documents] == [("t-000000", "One."), ("t-000002", "Two.")]
    assert [reject.doc_id for reject in rejects] == ["t-000001"]
    told = "no column doc_id or id, so ids are of the file and the row; --set id_column=NAME names one"
    assert told in " ".join(ingest("text", path, tmp_path / "out").notices)
    with pytest.raises(SchemaError, match="column 'key' is missing"):
        read("text", path, id_column="key")


@pytest.mark.parametrize("ids", [["a", "b"], [1, 2]])
def test_a_column_id_of_parquet_has_the_ids_of_texts(ids: list[Any], tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": ids, "text": ["One.", "Two."]}), tmp_path / "t.parquet")
    documents, rejects = read("text", tmp_path)
    assert ([d.doc_id for d in documents], rejects) == ([str(i) for i in ids], [])


def test_text_from_txt_files(tmp_path: Path) -> None:
    write(tmp_path / "in/b.txt", "\ufeffÉtat. Two.".encode())
    write(tmp_path / "in/a/c.txt", b"ok \xff")
    write(tmp_path / "in/empty.txt", b"")
    documents, rejects = read("text", tmp_path / "in")
    assert [(d.doc_id, d.tokens) for d in documents] == [("b", ["État", ".", "Two", "."])]
    assert documents[0].raw is not None
    assert documents[0].raw.start.tolist() == [0, 4, 6, 9]
    assert [(r.doc_id, r.reason) for r in rejects] == [
        ("a/c", "line 1: not UTF-8 at byte 3 of the file; if it is Latin-1: --set encoding=latin-1"),
        ("empty", "nothing in this file; take it out, or write it again"),
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


def test_both_column_readers_read_conll_2003_alike() -> None:
    source = corpus("conll2003/eng.testa")
    named, rejects = read("columns", source, columns=("tokens", "pos", "chunk", "labels"))
    assert rejects == []
    assert [(d.doc_id, d.tokens, labels(d)) for d in named] == [
        (d.doc_id, d.tokens, labels(d)) for d in read("conll", source)[0]
    ]


def test_nested_labels_are_rejected() -> None:
    found, rejects = read("columns", corpus("umass/dev.docs.parsed"), columns=("tokens", "_", "_", "labels"))
    assert (found, len(rejects)) == ([], 655)
    assert "nested" in rejects[0].reason


def test_counts_of_conll_2000() -> None:
    found, rejects = read("columns", corpus("conll2000/train.txt"), columns=("tokens", "pos", "labels"))
    assert rejects == []
    assert (len(found), sum(map(len, found))) == (8936, 211_727)
    assert sum(label.startswith("B-") for d in found for label in labels(d)) == 106_978


def test_counts_of_wnut_2017() -> None:
    for name, posts in (("wnut17train.conll", 3394), ("emerging.dev.conll", 1009)):
        found, rejects = read("columns", corpus(f"wnut17/{name}"), separator="tab")
        assert (len(found), rejects) == (posts, [])
