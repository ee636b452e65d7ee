"""The citation reader: both forms, what it rejects, and that the real corpus reads whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from concord.schemas.columns import Reject
from concord.schemas.document import Document
from concord.schemas.labels import LabelSet, Scheme
from concord.workers.corpus.readers.citations import read_citations
from concord.workers.corpus.readers.registry import READERS
from concord.workers.corpus.settings import CitationSettings

CORA = Path(__file__).parents[2] / "shared" / "data" / "cora"


@pytest.fixture
def cora() -> Path:
    if not CORA.is_dir():
        pytest.skip(f"no citation corpus at {CORA}")
    return CORA


def read(path: Path, **options: object) -> tuple[list[Document], list[Reject]]:
    items = list(read_citations(str(path), CitationSettings.model_validate(options)))
    return [i for i in items if isinstance(i, Document)], [i for i in items if isinstance(i, Reject)]


def write(tmp_path: Path, text: str | bytes, name: str = "refs.txt") -> Path:
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_columns(tmp_path: Path) -> None:
    path = write(tmp_path, "A\tauthor\ta|b\n.\tauthor\tx\n\n\nRain\ttitle\ty\n")
    (first, second), rejects = read(path)
    assert (first.doc_id, second.doc_id, rejects) == ("refs-0001", "refs-0002", [])
    assert first.tokens == ["A", "."]
    assert first.labels is not None
    assert first.labels.strings() == ["author", "author"]
    assert first.sentence_starts.tolist() == [0]
    assert first.text is None


def test_tags_keep_text_and_offsets(tmp_path: Path) -> None:
    path = write(tmp_path, "<author> B. Ann-Lee, </author> <title> On rain's law. </title>\n\n<date> (1990) </date>")
    (first, second), rejects = read(path)
    assert not rejects
    assert first.tokens == ["B", ".", "Ann-Lee", ",", "On", "rain's", "law", "."]
    assert first.labels is not None
    assert first.labels.strings() == ["author"] * 4 + ["title"] * 4
    assert first.text == "B. Ann-Lee, On rain's law."
    assert first.raw is not None
    cut = [first.text[a:b] for a, b in zip(first.raw.start, first.raw.end, strict=True)]
    assert cut == first.tokens
    assert (second.doc_id, second.tokens) == ("refs-0002", ["(", "1990", ")"])


def test_what_cannot_be_read_is_rejected_with_its_line(tmp_path: Path) -> None:
    lines = [
        b"<author> A. </author>",
        b"<author> A. </title>",
        b"loose <author> A. </author>",
        b"<title> x <note> y </note> </title>",
        b"<title> \xff </title>",
        b"<title>   </title>",
        b"<date> 1990 </date>",
    ]
    good, rejects = read(write(tmp_path, b"\n".join(lines)), form="tags")
    assert [d.doc_id for d in good] == ["refs-0001", "refs-0007"]
    assert [(r.row, r.doc_id) for r in rejects] == [(i, f"refs-000{i}") for i in range(2, 7)]
    reasons = [r.reason for r in rejects]
    for reason, part in zip(reasons, ["want all text", "character 0", "nest", "UTF-8", "no tokens"], strict=True):
        assert part in reason


def test_a_bad_line_of_columns_rejects_its_citation(tmp_path: Path) -> None:
    good, rejects = read(write(tmp_path, "A\tauthor\tf\n\nB\tauthor\n\nC\tdate\tf\n"))
    assert [d.tokens for d in good] == [["A"], ["C"]]
    assert [(r.row, r.doc_id) for r in rejects] == [(3, "refs-0002")]


def test_without_gold(tmp_path: Path) -> None:
    (document,), _ = read(write(tmp_path, "A\tdummy\tf\n"), gold=False)
    assert document.labels is None
    (document,), _ = read(write(tmp_path, "<a> x </a>"), gold=False)
    assert document.labels is None


def test_the_form_is_that_of_the_first_line_with_text(tmp_path: Path) -> None:
    write(tmp_path, "", "a.txt")
    write(tmp_path, "\n <date> 1990 </date>\n", "b.txt")
    (document,), (reject,) = read(tmp_path)
    assert (document.doc_id, document.tokens) == ("b-0001", ["1990"])
    assert (Path(reject.source).name, reject.doc_id) == ("a.txt", None)


def test_registered() -> None:
    assert READERS["citations"].read is read_citations


def test_real_corpus_in_both_forms(cora: Path) -> None:
    columns, rejects = read(cora / "citation_dev.txt")
    tagged, tagged_rejects = read(cora / "references.dev.txt")
    assert (len(columns), len(tagged), rejects, tagged_rejects) == (100, 100, [], [])
    assert sum(map(len, columns)) == 3651
    assert len(read(cora / "citation_train.300.txt")[0]) == 300
    names = [n for d in columns if d.labels is not None for n in d.labels.strings()]
    labels = LabelSet.infer(names)
    assert (labels.scheme, len(labels)) == (Scheme.PLAIN, 13)

    def content(document: Document) -> tuple[tuple[str, str], ...]:
        assert document.labels is not None
        return tuple(zip(document.tokens, document.labels.strings(), strict=True))

    same = {content(d) for d in columns} & {content(d) for d in tagged}
    assert len(same) >= 97
