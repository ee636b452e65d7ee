"""Every writer: its promises, and that what it writes is read back whole by the reader of the form."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from concord.schemas.document import Document
from concord.schemas.exported import Change, ExportedDocument
from concord.testing.writers import WRITER_CHECKS, made_document, written
from concord.workers.corpus.readers.registry import READERS
from concord.workers.corpus.writers.registry import WRITERS
from concord.workers.corpus.writers.writer import FormError, WriterEntry


@pytest.mark.parametrize("check", WRITER_CHECKS)
@pytest.mark.parametrize("form", WRITERS)
def test_every_writer_keeps_each_promise(form: str, check: Callable[[WriterEntry], None]) -> None:
    check(WRITERS[form])


def read_back(form: str, documents: list[ExportedDocument], folder: Path) -> list[Document]:
    name, reader, options = READ_BY[form]
    for own, content in written(WRITERS[form], documents).items():
        path = folder / (own or name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    entry = READERS[reader]
    items = entry.read(str(folder if WRITERS[form].folder else folder / name), entry.settings(**options))
    return [item for item in items if isinstance(item, Document)]


READ_BY: dict[str, tuple[str, str, dict[str, Any]]] = {
    "conll": ("a.conll", "columns", {"separator": "tab", "columns": ("tokens", "labels", "_", "_"), "ids": True}),
    "jsonl": ("a.jsonl", "spans", {}),
    "docbin": ("a.spacy", "spans", {}),
    "labelstudio": ("a.json", "spans", {"answers": "predictions"}),
    "presidio": ("a.jsonl", "spans", {}),
    "doccano": ("a.jsonl", "spans", {}),
    "brat": ("a.ann", "spans", {}),
}
"""The file, the reader and its options for each form but ``csv``, which is no corpus."""


@pytest.mark.parametrize("form", READ_BY)
@settings(max_examples=25)
@given(seeds=st.lists(st.integers(0, 10_000), min_size=1, max_size=4, unique=True))
def test_what_is_written_is_read_back(form: str, seeds: list[int]) -> None:
    documents = [made_document(seed) for seed in sorted(seeds)]
    with TemporaryDirectory() as folder:
        found = read_back(form, documents, Path(folder))
    found = (
        sorted(found, key=lambda document: [d.doc_id for d in documents].index(document.doc_id))
        if form == "brat"
        else found
    )
    assert len(found) == len(documents)
    for document, again in zip(documents, found, strict=True):
        if form == "conll":
            assert again.tokens == document.tokens
        else:
            assert again.text == document.text
            assert again.source_spans is not None
            spans = {place[1:] for place in again.source_spans.distinct()}
            assert spans == {(span.first, span.last, span.type) for span in document.spans}
        assert again.doc_id == document.doc_id
        if form in ("conll", "docbin") and again.labels is not None:
            assert again.labels.strings() == document.labels
        if form == "docbin":
            assert again.tokens == document.tokens


def test_spacy_converts_a_column_file_without_ids_and_marks(tmp_path: Path) -> None:
    """Its own converter cuts documents at the line of CoNLL-2003, and takes the last column for the label."""
    convert = pytest.importorskip("spacy.cli.convert", reason="spaCy is not installed").convert
    spacy = pytest.importorskip("spacy")
    documents = [
        d for d in map(made_document, range(60)) if not any(set(token) & set(" \xa0\u3000") for token in d.tokens)
    ]
    documents = [d for d in documents if all(len(token.split()) == 1 for token in d.tokens)]
    assert len(documents) > 20
    (content,) = written(WRITERS["conll"], documents, ids=False, marks=False).values()
    (tmp_path / "a.conll").write_bytes(content)
    convert(tmp_path / "a.conll", tmp_path, converter="ner", file_type="spacy")
    docs = list(spacy.tokens.DocBin().from_disk(tmp_path / "a.spacy").get_docs(spacy.blank("xx").vocab))
    assert len(docs) == len(documents)
    for doc, document in zip(docs, documents, strict=True):
        assert [token.text for token in doc] == document.tokens
        assert [token.i for token in doc if token.is_sent_start] == list(document.sentence_starts)
        labels = [f"{token.ent_iob_}-{token.ent_type_}" if token.ent_type_ else "O" for token in doc]
        assert labels == document.labels


def test_places_of_label_studio_may_be_utf_16() -> None:
    document = next(
        d
        for d in map(made_document, range(99))
        if "😀" in d.text and d.spans and d.spans[-1].first > d.text.index("😀")
    )
    (content,) = written(WRITERS["labelstudio"], [document], offsets="utf-16").values()
    value = json.loads(content)[0]["predictions"][0]["result"][-1]["value"]
    raw = document.text.encode("utf-16-le")
    assert raw[2 * value["start"] : 2 * value["end"]].decode("utf-16-le") == value["text"] == document.spans[-1].text


def changed() -> ExportedDocument:
    """A document with a span of each change."""
    documents = (made_document(seed) for seed in range(1000))
    return next(
        d for d in documents if {s.change for s in d.spans} == {Change.KEPT, Change.RETYPED, Change.ADDED} and d.removed
    )


def test_marks_say_what_changed_and_why() -> None:
    document = changed()
    files = {form: b"".join(written(WRITERS[form], [document]).values()).decode(errors="replace") for form in WRITERS}
    why = "names agree 2.5 nats, legal hard"
    for form in ("conll", "labelstudio", "brat", "csv"):
        assert why in files[form], form
    for form in ("jsonl", "doccano", "presidio"):
        line = json.loads(files[form])
        assert line["why"] == [{"constraint": "names agree", "nats": 2.5}, {"constraint": "legal", "nats": None}]
        assert {"removed"} <= {span["change"] for span in line["changes"]}
    marks = [span.get("change", "kept") for span in json.loads(files["jsonl"])["spans"]]
    assert marks == [str(span.change) for span in document.spans]


def test_a_table_has_a_row_for_each_span_and_each_that_was_removed() -> None:
    document = changed()
    (content,) = written(WRITERS["csv"], [document._replace(columns={"url": 'a "b", c'})]).values()
    rows = list(csv.DictReader(io.StringIO(content.decode(), newline="")))
    assert len(rows) == len(document.spans) + len(document.removed)
    assert {row["url"] for row in rows} == {'a "b", c'}
    for row in rows:
        assert document.text[int(row["start"]) : int(row["end"])] == row["text"]
        assert (row["label"] == "") == (row["change"] == "removed")


@pytest.mark.parametrize("form", [form for form in WRITERS if form != "conll"])
def test_columns_are_passed_on(form: str) -> None:
    document = changed()._replace(columns={"url": "http://x/é", "year": 1999})
    content = b"".join(written(WRITERS[form], [document]).values())
    if form == "docbin":
        spacy = pytest.importorskip("spacy", reason="spaCy is not installed")
        (doc,) = spacy.tokens.DocBin(store_user_data=True).from_bytes(content).get_docs(spacy.blank("xx").vocab)
        assert (doc.user_data["url"], doc.user_data["year"]) == ("http://x/é", 1999)
        return
    assert "http://x/é".encode() in content
    assert b"1999" in content


def test_columns_of_tokens_are_columns_of_the_file() -> None:
    document = made_document(3)
    pos = [f"P{i}" for i in range(len(document.tokens))]
    (content,) = written(
        WRITERS["conll"], [document._replace(columns={"pos": pos})], marks=False, boundaries=False
    ).values()
    rows = [line.split("\t") for line in content.decode().splitlines() if line]
    assert rows == [list(row) for row in zip(document.tokens, pos, document.labels, strict=True)]


@pytest.mark.parametrize(
    ("form", "wrong", "said"),
    [
        ("conll", {"tokens": ["a\tb"], "labels": ["O"], "labels_before": ["O"]}, "cannot stand in a column file"),
        ("conll", {"tokens": ["-DOCSTART-"], "labels": ["O"], "labels_before": ["O"]}, "cannot stand in a column file"),
        ("conll", {"columns": {"url": "x"}}, "column 'url' has no value for each token"),
        ("jsonl", {"columns": {"text": "x"}}, "the form has one of that name itself"),
        ("csv", {"columns": {"label": "x"}}, "name of one of the form"),
    ],
)
def test_what_would_be_lost_is_refused(form: str, wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(FormError, match=said):
        written(WRITERS[form], [made_document(1)._replace(**wrong)])


def test_a_type_with_a_blank_is_refused_by_brat() -> None:
    document = changed()
    spans = [span._replace(type="a person") for span in document.spans]
    with pytest.raises(FormError, match="cannot stand in brat"):
        written(WRITERS["brat"], [document._replace(spans=spans)])
