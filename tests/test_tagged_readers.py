"""Records of tagged fields in XML, CoNLL-U, texts in tables, and the options of column files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from concord.schemas.columns import Notice, Reject
from concord.schemas.document import Document
from concord.workers.corpus.ingestion import ingest
from concord.workers.corpus.readers.registry import READERS

ANYSTYLE = """<?xml version="1.0" encoding="UTF-8"?>
<dataset>
  <sequence>
    <author>Lee, A. &amp; B&#246;, C.</author>
    <title>On   Rain.</title>
  </sequence>
  <sequence><author>Ib.</author><date>2001.</date></sequence>
</dataset>
"""
TEI = """<TEI xmlns="http://www.tei-c.org/ns/1.0"><teiHeader><title>Made</title></teiHeader><text><listBibl>
<bibl><author><persName><forename>A.</forename> <surname>Lee</surname></persName></author>,
<title level="j">Rain</title>.<lb/></bibl></listBibl></text></TEI>"""


def read(reader: str, path: Path, content: str | bytes, **options: Any) -> list[Any]:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    entry = READERS[reader]
    return list(entry.read(str(path), entry.settings(**options)))


def test_fields_of_records_are_spans_of_their_text(tmp_path: Path) -> None:
    first, second, told = read("xml", tmp_path / "core.xml", ANYSTYLE)
    assert (first.doc_id, second.doc_id) == ("core-0001", "core-0002")
    assert first.text == "Lee, A. & Bö, C. On Rain."
    assert second.text == "Ib. 2001."
    assert first.labels.strings()[-3:] == ["B-title", "I-title", "I-title"]
    assert "records are <sequence>, and the labels of their fields author, title, date" in told.reason


def test_what_stands_between_fields_has_no_label(tmp_path: Path) -> None:
    document, told = read("xml", tmp_path / "a.tei.xml", TEI)
    assert document.doc_id == "a-0001"
    assert document.text == "A. Lee, Rain."
    assert document.labels.strings() == ["B-author", "I-author", "O", "B-title", "O"]
    assert "--set attributes=level" in told.reason
    document, _ = read("xml", tmp_path / "a.tei.xml", TEI, attributes=("level",), scheme="plain")
    assert document.labels.strings() == ["author", "author", "O", "title/j", "O"]


@pytest.mark.parametrize(
    ("field", "text"),
    [
        ("<p><f>Ann</f><s>Lee</s></p>", "Ann Lee"),
        ("<p><f>Ann</f>\n<s>Lee</s></p>", "Ann Lee"),
        ("<p><q><f>Ann</f></q><s><t>Lee</t><t>Day</t></s></p>", "Ann Lee Day"),
        ("H<sub>2</sub>O", "H2O"),
        ("<f>Ann</f><e/><s>Lee</s><e>,</e> B.", "Ann Lee, B."),
        ("<f>Lee-</f><s>Day</s>", "Lee-Day"),
    ],
)
def test_elements_inside_a_field_are_parted_by_blanks(field: str, text: str, tmp_path: Path) -> None:
    document, _ = read("xml", tmp_path / "a.xml", f"<L><R><a>{field}</a><b>12</b></R></L>", record="R")
    assert document.text == f"{text} 12"


def test_fields_without_a_blank_between_them_are_words_of_their_own(tmp_path: Path) -> None:
    content = "<L><R><a>12</a><b>Hill</b><c>,</c><d>Oslo</d><e>(1)</e></R></L>"
    document, _ = read("xml", tmp_path / "a.xml", content)
    assert document.text == "12 Hill, Oslo(1)"
    assert document.labels.strings() == ["B-a", "B-b", "B-c", "B-d", *["B-e", "I-e", "I-e"]]


@pytest.mark.parametrize("mark", ["lb", "pb", "cb", "br"])
@pytest.mark.parametrize(
    ("written", "text"),
    [
        ("<a>On<{}/>Lakes</a>", "On Lakes"),
        ("<a>On <{}/> Lakes</a>", "On Lakes"),
        ("<a><b>On</b><{}/><b>Lakes</b></a>", "On Lakes"),
        ("<a>On</a><{}/><c>Lakes</c>", "On Lakes"),
        ("<a>On</a> by<{}/>Lee", "On by Lee"),
        ("<a>La-<{}/>kes</a>", "La-kes"),
        ('<a>La<{} break="no"/>kes</a>', "Lakes"),
        ("<a>On Lakes</a><{}/>", "On Lakes"),
    ],
)
def test_a_line_that_begins_inside_a_record_parts_words(written: str, text: str, mark: str, tmp_path: Path) -> None:
    document, _ = read("xml", tmp_path / "a.xml", f"<all><bibl>{written.format(mark)}</bibl></all>")
    assert document.text == text
    spans = {text[start:end] for _, start, end, _ in document.source_spans.distinct()}
    assert spans <= {"On", "Lakes", text}


def test_the_record_is_found_or_named(tmp_path: Path) -> None:
    content = "<all><note><p>So.</p></note><ref><a>X</a><b>Y</b></ref><ref><a>Z</a></ref></all>"
    assert len(read("xml", tmp_path / "a.xml", content)) == 3
    document, _ = read("xml", tmp_path / "a.xml", content, record="note")
    assert document.labels.strings() == ["B-p", "I-p"]
    (reject,) = read("xml", tmp_path / "a.xml", content, record="reff")
    assert "called 'reff'; did you mean 'ref'?" in reject.reason
    (reject,) = read("xml", tmp_path / "a.xml", "<a/>")
    assert "no records of fields; name the element" in reject.reason


def test_records_before_a_fault_are_kept_and_the_rest_is_told(tmp_path: Path) -> None:
    cut = ANYSTYLE[: ANYSTYLE.index("<date>")]
    first, told, reject = read("xml", tmp_path / "a.xml", cut)
    assert isinstance(first, Document)
    assert isinstance(told, Notice)
    assert (reject.row, reject.doc_id) == (7, "a-0002")
    assert "no record from there on can be read" in reject.reason


def test_the_declared_encoding_is_read(tmp_path: Path) -> None:
    content = "<?xml version='1.0' encoding='ISO-8859-1'?><l><r><a>Bø</a></r></l>".encode("latin-1")
    assert read("xml", tmp_path / "a.xml", content)[0].text == "Bø"


@pytest.mark.parametrize("bomb", ["<!DOCTYPE l [<!ENTITY a 'x'><!ENTITY b '&a;&a;'>]><l><r><f>&b;</f></r></l>"])
def test_own_entities_are_decoded(bomb: str, tmp_path: Path) -> None:
    assert read("xml", tmp_path / "a.xml", bomb)[0].text == "xx"


# CoNLL-U


def word(number: str, form: str, misc: str = "_") -> str:
    return f"{number}\t{form}\t{form}\tX\t_\t_\t0\troot\t_\t{misc}"


def conllu(*lines: str) -> str:
    return "\n".join(lines) + "\n"


def test_ranges_and_empty_nodes_are_no_words(tmp_path: Path) -> None:
    content = conllu(
        "# newdoc id = d1",
        word("1-2", "du"),
        word("1", "de", "NER=I-LOC|SpaceAfter=No"),
        word("2", "le"),
        word("2.1", "x"),
    )
    (document,) = read("conllu", tmp_path / "a.conllu", content)
    assert (document.doc_id, document.tokens) == ("d1", ["de", "le"])
    assert document.labels.strings() == ["B-LOC", "O"]
    assert document.columns["pos"].strings() == ["X", "X"]


def test_documents_open_where_the_file_says(tmp_path: Path) -> None:
    content = conllu(
        "# newdoc id = d1",
        word("1", "a"),
        "",
        word("1", "b"),
        "",
        "# newdoc",
        word("1", "c"),
        "",
        "# newdoc id = d1",
        word("1", "e"),
    )
    first, second, third = read("conllu", tmp_path / "a.conllu", content, labels=None)
    assert (first.doc_id, first.sentence_starts.tolist(), second.doc_id) == ("d1", [0, 1], "a-0002")
    assert first.labels is None
    assert isinstance(third, Reject)


def test_the_name_of_labels_that_a_file_has_is_proposed_and_reads_them(tmp_path: Path) -> None:
    rows = "1\tAnn\tann\tPROPN\t_\t_\t0\troot\t_\tSpaceAfter=No|Tag=B-PER\n2\tran\trun\tVERB\t_\t_\t1\tdep\t_\tTag=O\n"
    *_, told = read("conllu", tmp_path / "a.conllu", rows)
    option = told.reason.partition("--set labels=")[2].partition(" ")[0]
    assert option == "Tag"
    document, *_ = read("conllu", tmp_path / "a.conllu", rows, labels=option)
    assert document.labels.strings() == ["B-PER", "O"]


def test_a_file_without_labels_or_boundaries_says_so(tmp_path: Path) -> None:
    items = read("conllu", tmp_path / "a.conllu", conllu(word("1", "a"), "", word("1", "b")))
    assert [item.labels for item in items[:2]] == [None, None]
    assert ["no line opens a document" in items[2].reason, "no word has NER=" in items[3].reason] == [True, True]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("1\ta", "2 columns between tabs, want 10"),
        (word("x", "a"), "no number of a word, but 'x'"),
        (word("1", "a", "NER=LOC"), "label 'LOC' is not O"),
        (word("1", ""), "word or tag is empty"),
    ],
)
def test_a_bad_line_rejects_its_document(line: str, said: str, tmp_path: Path) -> None:
    good = word("1", "b", "NER=O")
    reject, document, *_ = read("conllu", tmp_path / "a.conllu", conllu(line, "", good))
    assert (reject.row, isinstance(document, Document)) == (1, True)
    assert said in reject.reason


# Column files


def columns(tmp_path: Path, content: str, **options: Any) -> list[Any]:
    return read("columns", tmp_path / "a.tsv", content, **options)


def test_comments_are_lines_that_are_no_tokens(tmp_path: Path) -> None:
    content = "# id = 1\n# no B-X\n#win\tO\n#\tO\nOslo\tB-LOC\n# 5\tO\n\n#\tO\n"
    options = {"comments": "#", "separator": "tab"}
    first, second = [item for item in columns(tmp_path, content, **options) if isinstance(item, Document)]
    assert first.tokens == ["#win", "#", "Oslo", "# 5"]
    assert second.tokens == ["#"]
    blank = [item for item in columns(tmp_path, "# so on\n# no\na O\n", comments="#") if isinstance(item, Document)]
    assert blank[0].tokens == ["a"]


def test_ids_may_follow_the_word_that_opens_a_document(tmp_path: Path) -> None:
    content = "-DOCSTART- a 1\n\nAnn O\n\n-DOCSTART- a 1\n\nran O\n\n-DOCSTART-\n\nso O\n"
    first, second, third = columns(tmp_path, content, ids=True)[:3]
    assert (first.doc_id, second.doc_id, third.doc_id) == ("a 1", "a-0002", "a-0003")
    assert "document 'a 1' was there before" in second.reason
    assert [item.doc_id for item in columns(tmp_path, content)[:2]] == ["a-0001", "a-0002"]


def test_comments_and_a_header_are_proposed(tmp_path: Path) -> None:
    assert "--set comments=#" in columns(tmp_path, "# id = 1\nAnn\tO\n")[0].reason
    assert "--set header=true" in columns(tmp_path, "word\tlabel\nAnn\tO\n")[0].reason
    document, _ = columns(tmp_path, "word\tlabel\nAnn\tO\nran\tO\n", header=True)
    assert document.tokens == ["Ann", "ran"]


def test_where_sentences_and_documents_end_is_told(tmp_path: Path) -> None:
    *_, told = columns(tmp_path, "a O\nb O\n")
    assert "no blank line ends a sentence, so the whole file is one, of 2 tokens" in told.reason
    *_, told = columns(tmp_path, "a O\n\nb O\n")
    assert "each sentence is one" in told.reason
    assert not any(isinstance(item, Notice) for item in columns(tmp_path, "a O\n\nb O\n", sentences_per_document=1))


def test_sentences_and_tokens_of_unusual_length_are_told(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("a B-X\n" * 1000)
    assert "the longest sentence has 1,000 tokens (document a-0001)" in " ".join(
        ingest("columns", tmp_path / "a.tsv", tmp_path / "o").notices
    )
    (tmp_path / "b.tsv").write_text("Ann_ran_to_Oslo,_where_she_stayed. B-X\n")
    told = ingest("columns", tmp_path / "b.tsv", tmp_path / "p").notices
    assert told == (
        "tokens have 34 characters on average, as lines of text have; if they are no words, `concord ingest "
        "text` cuts texts into words",
    )


def test_lines_that_end_with_cr_alone_are_told(tmp_path: Path) -> None:
    (reject,) = read("columns", tmp_path / "a.conll", "Mira\rB-PER\rcame\rO\r")
    assert "line 1: 1 column" in reject.reason
    assert "with line ends of CR alone, as old files of Macs have; write LF instead" in reject.reason
    assert "--set columns" not in reject.reason


# Tables of texts


def test_a_column_of_a_csv_is_read_as_text(tmp_path: Path) -> None:
    content = 'id,body\n1,"Ann said ""so"",\nand left."\n,Bob ran.\n1,again\n'
    first, second, third = read("text", tmp_path / "a.csv", content, text_column="body")
    assert (first.doc_id, first.text) == ("1", 'Ann said "so",\nand left.')
    assert (second.doc_id, second.text) == ("a-0002", "Bob ran.")
    assert (third.row, third.doc_id) == (5, "a-0003")


@pytest.mark.parametrize(
    ("content", "options", "said"),
    [
        ("id;text\n1;Ann\n", {}, "--set delimiter=;"),
        ("id\ttext\n1\tAnn\n", {}, "--set delimiter=tab"),
        ("id,body\n1,Ann\n", {}, "no column 'text' (it has id, body); name it with --set text_column=NAME"),
        ("id,text\n1,Ann,so\n", {}, "line 2: 3 columns, want 2 (id, text)"),
        ("id,text\n1, \n", {}, "its text is blank"),
        ("id,text\n1,Ann\n", {"id_column": "key"}, "no column 'key'"),
    ],
)
def test_a_csv_that_cannot_be_read_says_what_to_do(content: str, options: Any, said: str, tmp_path: Path) -> None:
    (reject,) = read("text", tmp_path / "a.csv", content, **options)
    assert said in reject.reason


def test_records_without_a_text_are_rejected_alone(tmp_path: Path) -> None:
    content = '{"id": 1, "text": "Ann ran."}\n{"id": 2}\n{"id": 3, "text": 4}\n[]\n{"id": 5, "text": "So."}\n'
    items = read("text", tmp_path / "a.jsonl", content)
    assert [isinstance(item, Document) for item in items] == [True, False, False, False, True]
    assert [item.row for item in items if isinstance(item, Reject)] == [2, 3, 4]
