"""Readers of fields and of spans of characters: addresses, nested citations, mails and abstracts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from concord.flows.cli.app import app
from concord.flows.labelling.evaluate import evaluate
from concord.schemas.columns import CORPUS_LAYOUT, DOC_ID, LABELS, Misfit, Reject
from concord.schemas.document import Document
from concord.schemas.labels import LabelSet
from concord.workers.corpus.ingestion import ingest
from concord.workers.corpus.parquet import read_tables
from concord.workers.corpus.readers.registry import READERS
from concord.workers.corpus.readers.spans import CUT, EMPTY, OVERLAP, UNFIT, WIDENED, CharSpan, marked_document
from concord.workers.corpus.readers.umass import nested_fault, nested_to_bio
from concord.workers.corpus.settings import PubtatorSettings
from tests.support.made_predictions import predictions

DATA = Path(__file__).parents[1] / ".." / "shared" / "data"


class Read(NamedTuple):
    documents: list[Document]
    rejects: list[Reject]
    misfits: list[Misfit]


def read(reader: str, source: Path | str, **settings: Any) -> Read:
    entry = READERS[reader]
    items = list(entry.read(str(source), entry.settings(**settings)))
    return Read(
        [i for i in items if isinstance(i, Document)],
        [i for i in items if isinstance(i, Reject)],
        [i for i in items if isinstance(i, Misfit)],
    )


def written(folder: Path, text: str) -> Path:
    path = folder / "a.txt"
    path.write_text(text, encoding="utf-8")
    return path


def labels(document: Document) -> list[str]:
    assert document.labels is not None
    return document.labels.strings()


def spans(document: Document) -> list[tuple[str, str]]:
    """Words and type of each span."""
    names = LabelSet.infer(labels(document))
    found = names.spans(names.encode(labels(document)), document.sentence_starts)
    places = zip(found.start.tolist(), found.end.tolist(), found.type.tolist(), strict=True)
    return [(" ".join(document.tokens[a:b]), names.types[kind]) for a, b, kind in places]


# Addresses

ADDRESS = "12 |1\nMill Street, Unit 1,200, |3\nNew  Town, |5\n"


def test_commas_of_an_address_are_tokens_of_their_field(tmp_path: Path) -> None:
    (document,) = read("addresses", written(tmp_path, ADDRESS)).documents
    assert document.doc_id == "a-0001"
    assert document.tokens == ["12", "Mill", "Street", ",", "Unit", "1,200", ",", "New", "Town", ","]
    assert labels(document) == ["1", *"333333", *"555"]
    assert document.sentence_starts.tolist() == [0]
    assert document.text == "12 Mill Street, Unit 1,200, New  Town,"
    assert document.raw is not None
    assert document.raw.start.tolist()[:5] == [0, 3, 8, 14, 16]


def test_commas_stay_where_they_are_if_told_so(tmp_path: Path) -> None:
    (document,) = read("addresses", written(tmp_path, ADDRESS), split_marks=False).documents
    assert document.tokens == ["12", "Mill", "Street,", "Unit", "1,200,", "New", "Town,"]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("Mill Street", "no bar; want a field's text"),
        (" |3", "no text before the bar"),
        ("Mill |", "no label after the bar"),
        ("Mill |3 4", "label '3 4' has blanks"),
    ],
)
def test_a_bad_line_of_an_address_is_named(tmp_path: Path, line: str, words: str) -> None:
    found = read("addresses", written(tmp_path, f"12 |1\n{line}\n\n9 |1\n"))
    assert [document.doc_id for document in found.documents] == ["a-0002"]
    (reject,) = found.rejects
    assert (reject.row, reject.doc_id) == (2, "a-0001")
    assert words in reject.reason


# Nested citations


@pytest.mark.parametrize(
    ("names", "whole", "outermost"),
    [
        (["B-a/U-b", "I-a/B-c", "I-a/L-c"], ["B-a/b", "B-a/c", "I-a/c"], ["B-a", "I-a", "I-a"]),
        (["B-a/B-p/U-f", "I-a/B-p/U-f"], ["B-a/p/f", "B-a/p/f"], ["B-a", "I-a"]),
        (["U-a", "I-a"], ["B-a", "B-a"], ["B-a", "B-a"]),
        (["I-a/I-b", "I-a", "O", "I-a"], ["B-a/b", "B-a", "O", "B-a"], ["B-a", "I-a", "O", "B-a"]),
        (["B-a/B-b", "B-a/I-b"], ["B-a/b", "B-a/b"], ["B-a", "B-a"]),
    ],
)
def test_nested_labels_become_paths(names: list[str], whole: list[str], outermost: list[str]) -> None:
    assert [nested_fault(name) for name in names] == [""] * len(names)
    assert nested_to_bio(names, depth=None) == whole
    assert nested_to_bio(names, depth=1) == outermost


TREES = st.lists(
    st.tuples(st.sampled_from("xy"), st.lists(st.tuples(st.sampled_from("pq"), st.integers(1, 3)), min_size=1)),
    min_size=1,
    max_size=4,
)
"""Outer fields, each of inner fields with a length in tokens."""


def marks(length: int) -> list[str]:
    """A field of so many tokens in BILOU."""
    return ["U"] if length == 1 else ["B", *"I" * (length - 2), "L"]


@given(TREES)
def test_fields_in_fields_come_back_as_spans(tree: list[tuple[str, list[tuple[str, int]]]]) -> None:
    names: list[str] = []
    inner: list[tuple[str, int]] = []
    for outer, fields in tree:
        inside = [f"{mark}-{kind}" for kind, length in fields for mark in marks(length)]
        names += [f"{mark}-{outer}/{name}" for mark, name in zip(marks(len(inside)), inside, strict=True)]
        inner += [(f"{outer}/{kind}", length) for kind, length in fields]
    lengths = [(outer, sum(length for _, length in fields)) for outer, fields in tree]
    for depth, wanted in ((None, inner), (1, lengths)):
        found = [name for kind, length in wanted for name in [f"B-{kind}", *[f"I-{kind}"] * (length - 1)]]
        assert nested_to_bio(names, depth=depth) == found


def test_a_nested_label_that_is_none_is_named(tmp_path: Path) -> None:
    (reject,) = read("umass", written(tmp_path, "Rain d d B-title/x\n")).rejects
    assert reject.reason.startswith("line 1: label 'B-title/x': level 'x' is not B-TYPE")


# Mails

MAIL = (
    "<0.1@host>\nWho: <speaker>Ann Lee</speaker>\n<paragraph><sentence>She speaks at <stime>3:30</stime>-"
    "<etime>5 p.m</etime></sentence>.\n<sentence>Come to <location>Elm\n Hall</location></sentence>.</paragraph>\n"
)


def test_a_mail_is_one_chain_with_spans_and_offsets(tmp_path: Path) -> None:
    found = read("mail", written(tmp_path, MAIL))
    (document,) = found.documents
    assert document.doc_id == "a"
    assert document.sentence_starts.tolist() == [0]
    assert spans(document) == [
        ("Ann Lee", "speaker"),
        ("3:30", "stime"),
        ("5 p.m.", "etime"),
        ("Elm Hall", "location"),
    ]
    assert document.text is not None
    assert "sentence" not in document.text
    assert "<0.1@host>" in document.text
    assert document.raw is not None
    places = zip(document.raw.start.tolist(), document.raw.end.tolist(), strict=True)
    assert [document.text[a:b] for a, b in places] == document.tokens
    assert [(m.row, m.doc_id, m.reason) for m in found.misfits] == [(3, "a", WIDENED)]


@pytest.mark.parametrize(("sentences", "count", "cut"), [("lines", 5, 1), ("tagged", 3, 0), ("mail", 1, 0)])
def test_sentences_of_a_mail(tmp_path: Path, sentences: str, count: int, cut: int) -> None:
    found = read("mail", written(tmp_path, MAIL), sentences=sentences)
    assert len(found.documents[0].sentence_starts) == count
    assert [m.reason for m in found.misfits if m.reason != WIDENED] == [CUT] * cut


def test_times_stick_together_where_hyphens_are_kept(tmp_path: Path) -> None:
    found = read("mail", written(tmp_path, MAIL), split_hyphens=False, unfit="drop")
    assert "3:30-5" in found.documents[0].tokens
    assert [m.reason for m in found.misfits] == [UNFIT, UNFIT]


@pytest.mark.parametrize(
    ("tags", "words"),
    [
        ("a\n<stime>3", "line 2: <stime> is not closed"),
        ("a\n3</stime>", "line 2: </stime> closes nothing"),
        ("<stime>3\n<stime>4</stime></stime>", "line 2: <stime> inside another of its kind"),
    ],
)
def test_tags_that_do_not_pair_reject_the_mail(tmp_path: Path, tags: str, words: str) -> None:
    (reject,) = read("mail", written(tmp_path, tags)).rejects
    assert f"{words}; mend the tags" in reject.reason
    assert reject.row == 2


def test_spans_of_two_kinds_may_cross_but_share_no_token(tmp_path: Path) -> None:
    text = "<speaker>Ann <location>Lee</speaker> Elm Hall</location>\n"
    found = read("mail", written(tmp_path, text))
    assert spans(found.documents[0]) == [("Lee Elm Hall", "location")]
    assert [m.reason for m in found.misfits] == [OVERLAP]


# Abstracts

ABSTRACT = """7|t|Zinc-like rust in zinc.
7|a|Old and new rust. Zinc helps.
7\t0\t4\tZinc\tChemical\tD1
7\t24\t40\tOld and new rust\tDisease\tD2|D3\told rust|new rust
7\t32\t40\tnew rust\tDisease\tD3
7\tCID\tD1\tD2

8|t|Nothing here.
8|a|
"""


def test_spans_of_an_abstract_and_those_that_do_not_fit(tmp_path: Path) -> None:
    found = read("pubtator", written(tmp_path, ABSTRACT))
    first, second = found.documents
    assert (first.doc_id, second.doc_id) == ("7", "8")
    assert spans(first) == [("Zinc", "Chemical"), ("Old and new rust", "Disease")]
    assert first.text == "Zinc-like rust in zinc. Old and new rust. Zinc helps."
    assert [(m.row, m.reason.split(";")[0]) for m in found.misfits] == [
        (4, "have several parts"),
        (5, "share a token with another"),
    ]
    kept = read("pubtator", written(tmp_path, ABSTRACT), split_hyphens=False)
    assert spans(kept.documents[0])[0] == ("Zinc-like", "Chemical")
    assert kept.misfits[0].reason == WIDENED
    for document in (first, kept.documents[0]):
        assert document.source_spans is not None
        wanted = {(0, 0, 4, "Chemical"), (0, 24, 40, "Disease"), (0, 32, 40, "Disease")}
        assert document.source_spans.distinct() == wanted


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("7|t|", "7|a|", "line 1: no title"),
        ("7|a|", "9|a|", "line 2: document '9' inside '7'"),
        ("7|a|", "7|t|", "line 2: a second title or abstract"),
        ("\t0\t4\tZinc", "\t1\t5\tZinc", "line 3: characters 1 to 5 are 'inc-' and not 'Zinc'"),
        ("7\t0\t4\tZinc\tChemical", "7\t0\t4", "line 3: no span"),
        ("7\t0\t4\tZinc", "7\tzero\t4\tZinc", "line 3: no span"),
        ("Zinc\tChemical", "Zinc\tA B", "line 3: no span"),
        ("7|t|Zinc-like rust in zinc.\n7|a|Old and new rust. Zinc helps.\n", "7|t| \n", "line 2: characters 0 to 4"),
    ],
)
def test_a_bad_line_of_an_abstract_is_named(tmp_path: Path, old: str, new: str, words: str) -> None:
    found = read("pubtator", written(tmp_path, ABSTRACT.replace(old, new, 1)))
    assert [document.doc_id for document in found.documents] == ["8"]
    assert found.rejects[0].reason.startswith(words)


def test_an_abstract_that_was_there_before_is_rejected_in_its_place(tmp_path: Path) -> None:
    found = read("pubtator", written(tmp_path, ABSTRACT.replace("8|", "7|")))
    assert [document.doc_id for document in found.documents] == ["7"]
    (reject,) = found.rejects
    assert (reject.row, reject.doc_id) == (8, "a-0002")
    assert "document '7' was there before" in reject.reason


def test_misfits_are_counted_and_shown(tmp_path: Path) -> None:
    report = ingest("pubtator", written(tmp_path, ABSTRACT), tmp_path / "out")
    assert sorted(report.misfits.values()) == [1, 1]
    given_ = ["ingest", "pubtator", str(tmp_path / "a.txt"), "--out", str(tmp_path / "again")]
    result = CliRunner().invoke(app, given_)
    assert result.exit_code == 0
    assert "1 gold spans share a token with another; left out" in result.stdout
    result = CliRunner().invoke(app, [*given_, "--overwrite", "--json"])
    assert f'"{OVERLAP}": 1' in result.stdout


@pytest.mark.parametrize(("split", "right"), [(True, 2), (False, 1)])
def test_the_ceiling_is_what_perfect_labels_score(tmp_path: Path, split: bool, right: int) -> None:
    """Of three spans of the source labels say two, one of them too long where hyphens are kept."""
    place = tmp_path / "out"
    arguments = ["ingest", "pubtator", str(written(tmp_path, ABSTRACT)), "--out", str(place)]
    said = CliRunner().invoke(app, [*arguments, "--set", f"split_hyphens={split}"]).stdout
    assert f"ceiling: perfect labels of these tokens have F1 {100 * 2 * right / 5:.2f}" in said
    again = CliRunner().invoke(app, [*arguments, "--set", f"split_hyphens={split}", "--overwrite", "--json"])
    assert json.loads(again.stdout)["ceiling"] == 2 * right / 5
    (table,) = read_tables(place / "part-00000.parquet", CORPUS_LAYOUT)
    perfect = dict(zip(table[DOC_ID].to_pylist(), table[LABELS].to_pylist(), strict=True))
    predictions(tmp_path / "perfect", perfect, viterbi=perfect)
    report = evaluate(str(tmp_path / "perfect"), str(place)).report
    assert {name: figures.figures["f1"] for name, figures in report.measures.items()} == {
        "spans": 1.0,
        "offsets": 2 * right / 5,
    }


def test_labels_that_are_the_sources_own_have_no_ceiling(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("Ann B-PER\nran O\n")
    said = CliRunner().invoke(app, ["ingest", "columns", str(path), "--out", str(tmp_path / "c")]).stdout
    assert "ceiling: perfect labels of these tokens have F1 100.00" in said
    path.write_text("Ann ran.\n")
    said = CliRunner().invoke(app, ["ingest", "text", str(path), "--out", str(tmp_path / "t")]).stdout
    assert "ceiling" not in said


# Characters to tokens, against a character by character way

SETTINGS = PubtatorSettings(split_hyphens=True, unfit="drop")


@given(
    st.lists(st.sampled_from(["ab", "-", " ", "c", "  "]), min_size=1, max_size=12).map("".join).filter(str.strip),
    st.data(),
)
def test_spans_that_fit_come_back_from_the_labels(text: str, data: st.DataObject) -> None:
    place = st.integers(0, len(text))
    bounds = data.draw(st.lists(st.tuples(place, place).map(sorted), max_size=4))
    given_ = [CharSpan(a, b, f"T{i}", i) for i, (a, b) in enumerate(bounds)]
    document, faults = marked_document("d", text, given_, SETTINGS, breaks=[])
    assert document.raw is not None
    owner = {
        character: i
        for i, (a, b) in enumerate(zip(document.raw.start.tolist(), document.raw.end.tolist(), strict=True))
        for character in range(a, b)
    }
    taken: dict[int, str] = {}
    wrong: dict[str, str] = {}
    for span in sorted(given_, key=lambda span: (-(span.end - span.start), span.start)):
        inside = {c for c in range(span.start, span.end) if c in owner}
        tokens = {owner[c] for c in inside}
        if not tokens:
            wrong[span.type] = EMPTY
        elif {c for c, token in owner.items() if token in tokens} != inside:
            wrong[span.type] = UNFIT
        elif tokens & set(taken):
            wrong[span.type] = OVERLAP
        else:
            taken |= dict.fromkeys(tokens, span.type)
    assert {fault.span.type: fault.reason for fault in faults} == wrong
    assert [name[2:] for name in labels(document)] == [taken.get(i, "") for i in range(len(document))]
    assert sum(name.startswith("B-") for name in labels(document)) == len(set(taken.values()))


# The corpora that these readers are for


@pytest.mark.parametrize(
    ("reader", "path", "documents", "tokens"),
    [
        ("addresses", "us50/us50.dev.tagged", 200, 1_718),
        ("umass", "umass/dev.docs.parsed", 655, 15_506),
        ("mail", "seminars/cmu.andrew.org.epp-21_0", 1, None),
    ],
)
def test_a_corpus_is_read_whole(reader: str, path: str, documents: int, tokens: int | None) -> None:
    source = DATA / path
    if not source.exists():
        pytest.skip(f"no {path} in ../shared/data")
    found = read(reader, source)
    assert (len(found.documents), found.rejects, found.misfits) == (documents, [], [])
    assert tokens is None or sum(map(len, found.documents)) == tokens


def test_labels_of_the_addresses_are_those_of_the_paper() -> None:
    source = DATA / "us50" / "us50.train.tagged"
    if not source.exists():
        pytest.skip("no us50 in ../shared/data")
    found = read("addresses", source)
    assert len(found.documents) == 51
    assert {name for document in found.documents for name in labels(document)} == set("13567")
