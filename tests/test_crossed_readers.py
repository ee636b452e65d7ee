"""Every reader on files of every other form: read rightly, or refused with the command that reads it."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from concord.flows.cli.app import app
from concord.schemas.errors import InputError
from concord.workers.corpus.ingestion import REJECTS_NAME, IngestReport, ingest
from concord.workers.corpus.readers.reader import SourceForm
from concord.workers.corpus.readers.registry import READERS
from concord.workers.corpus.readers.source_forms import form_of
from concord.workers.corpus.settings import ColumnsSettings, ParquetReaderSettings
from tests.support.made_forms import FOREIGN, UNREAD, MadeForm

CASES = Path("/work/shared/cases")
every_form = pytest.mark.parametrize("made", FOREIGN, ids=lambda made: made.title)


def written(reader: str, path: Path, out: Path) -> IngestReport | str:
    """What the reader made of a file, or why it made nothing."""
    try:
        report = ingest(reader, path, out, overwrite=True)
    except InputError as error:
        return str(error)
    if report.written:
        return report
    reasons: list[str] = pq.read_table(out / REJECTS_NAME)["reason"].to_pylist()
    return reasons[0]


@every_form
def test_a_file_is_read_by_its_own_readers_and_refused_by_all_others(made: MadeForm, tmp_path: Path) -> None:
    path = made.write(tmp_path / "in")
    for reader in READERS:
        found = written(reader, path, tmp_path / "out")
        if reader in made.readers:
            assert isinstance(found, IngestReport), (reader, found)
            assert (found.written, found.rejected) == (made.documents, 0), (reader, found)
        else:
            assert isinstance(found, str), f"{reader} took {made.title}: {found}"


@every_form
def test_a_command_that_is_proposed_works(made: MadeForm, tmp_path: Path) -> None:
    path = made.write(tmp_path / "a place")
    proposed = 0
    for number, reader in enumerate(READERS):
        told = CliRunner().invoke(app, ["ingest", reader, str(path), "--out", str(tmp_path / f"o{number}")])
        for command in re.findall(r"`concord (ingest .*?) --out FOLDER`", told.stderr):
            words = [*shlex.split(command), "--out", str(tmp_path / f"p{number}-{proposed}")]
            again = CliRunner().invoke(app, words)
            assert again.exit_code == 0, (reader, command, again.stderr)
            proposed += 1
    assert proposed or not made.readers


@pytest.mark.parametrize("made", UNREAD, ids=lambda made: made.title)
def test_a_form_that_no_reader_takes_is_told_by_its_name_and_never_as_plain(made: MadeForm, tmp_path: Path) -> None:
    path = made.write(tmp_path / "in")
    for reader in READERS:
        found = str(written(reader, path, tmp_path / "out"))
        assert f"this is {made.form}, which no reader takes; " in found, reader
        assert "scheme=plain" not in found, reader
        assert "\n" not in found, reader


@every_form
def test_the_form_of_a_file_is_known_for_certain(made: MadeForm, tmp_path: Path) -> None:
    path = made.write(tmp_path / "in")
    first = path if path.is_file() else next(file for file in sorted(path.iterdir()))
    assert form_of(first) is made.form


@pytest.mark.parametrize(
    "text",
    [
        "Ann ran. She ran to Oslo.\n",
        "One\ntwo\nthree\n",
        "The US\nThe UK\n",
        "A, B | C\nand so on\n",
        "[1] First, Ann ran.\n[2] Then she fell.\n",
        "{ and so on\n",
        "<0.1.2@x> said: 3 < 4\n",
        "# A title\n\nSome words, and # more\n",
        "O my!\n",
    ],
)
def test_plain_text_is_of_no_form_and_read_as_text(text: str, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text(text)
    assert form_of(path) is None
    assert ingest("text", path, tmp_path / "out").written == 1


def test_a_mail_without_any_tag_is_no_mail(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("Ann comes at noon.\n")
    found = CliRunner().invoke(app, ["ingest", "mail", str(path), "--out", str(tmp_path / "o")])
    assert found.exit_code == 3
    assert "no tag of a time, a speaker or a location in any of its 1 documents" in found.stderr
    assert f"`concord ingest text {path} --out FOLDER` reads it as text" in found.stderr
    assert not (tmp_path / "o").exists()


def test_texts_of_records_with_spans_are_read_where_a_column_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "Ann ran.", "label": [[0, 3, "PER"]]}\n')
    assert isinstance(written("text", path, tmp_path / "o"), str)
    words = ["ingest", "text", str(path), "--text-column", "text", "--out", str(tmp_path / "p"), "--json"]
    assert CliRunner().invoke(app, words).exit_code == 0


@pytest.mark.parametrize("bad", ['{"id": "b", "text": ""}', '{"id": "b", "text": null}', '{"id": "b"}'])
def test_texts_are_read_as_texts_although_one_is_missing(bad: str, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(f'{{"id": "a", "text": "Ann ran."}}\n{bad}\n')
    assert form_of(path) is SourceForm.TEXTS
    report = ingest("text", path, tmp_path / "o")
    assert (report.written, report.rejected) == (1, 1)
    (reject,) = pq.read_table(tmp_path / "o" / REJECTS_NAME).to_pylist()
    assert (reject["source"], reject["row"]) == (str(path), 2)
    assert "text" in reject["reason"]


def test_a_record_of_spans_without_its_text_is_rejected_by_file_row_and_field(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "Ann ran.", "label": [[0, 3, "PER"]]}\n{"text": null, "label": []}\n')
    assert ingest("spans", path, tmp_path / "o").written == 1
    (reject,) = pq.read_table(tmp_path / "o" / REJECTS_NAME).to_pylist()
    assert (reject["source"], reject["row"]) == (str(path), 2)
    assert "line 2: 'text' is null" in reject["reason"]


def test_labels_that_are_all_outside_are_told(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text("Ann\tO\nran\tO\n\nso\tO\n")
    assert "all labels are O, so there is nothing to learn from" in " ".join(
        ingest("columns", path, tmp_path / "o").notices
    )


def test_a_parquet_corpus_is_refused_by_readers_of_text(tmp_path: Path) -> None:
    pq.write_table(pa.table({"doc_id": ["a"], "text": ["Ann ran."]}), tmp_path / "c.parquet")
    assert form_of(tmp_path / "c.parquet") is SourceForm.PARQUET
    assert "`concord ingest text" in str(written("mail", tmp_path / "c.parquet", tmp_path / "o"))


@pytest.mark.skipif(not CASES.exists(), reason="the shared cases are not here")
def test_no_reader_takes_a_case_of_another_form(tmp_path: Path) -> None:
    own = {
        "anystyle_training.xml": {"xml"},
        "grobid_citation_training.tei.xml": {"xml"},
        "brat_folder": {"spans"},
        "doccano_export.jsonl": {"spans"},
        "presidio_results.jsonl": {"spans"},
        "gliner_predictions.jsonl": {"spans"},
        "conllu_ranges_empty_nodes.conllu": {"conllu"},
        "texts.csv": {"text"},
        "spans_start_inside_token.pubtator.txt": {"pubtator"},
    }
    for path in sorted(CASES.iterdir()):
        if path.suffix in (".yaml", ".py", ".md", ".crfsuite"):
            continue
        column_file = path.suffix in (".conll", ".tsv")
        parquet = path.suffix == ".parquet" or any(path.glob("*.parquet"))
        usual = {"conll", "columns", "umass"} if column_file else {"parquet"} if parquet else set()
        mine = own.get(path.name, usual)
        taken = {reader for reader in READERS if not isinstance(written(reader, path, tmp_path / "o"), str)}
        assert taken <= mine, (path.name, taken)
        assert path.name not in own or taken == mine, (path.name, taken)


@pytest.mark.parametrize("beside", ["B-PER", "S-PER", "U-PER"])
def test_plain_types_are_not_proposed_where_other_labels_have_prefixes(beside: str, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text(f"in NAME\n\nAnn {beside}\nran O\n")
    ingest("columns", path, tmp_path / "o")
    (reason,) = pq.read_table(tmp_path / "o" / REJECTS_NAME)["reason"].to_pylist()
    assert "label 'NAME' is not O" in reason
    assert "scheme=plain" not in reason
    path.write_text("in NAME\n\nran O\n")
    ingest("columns", path, tmp_path / "o", overwrite=True)
    (reason,) = pq.read_table(tmp_path / "o" / REJECTS_NAME)["reason"].to_pylist()
    assert reason.endswith("where every label is a type by itself: --set scheme=plain")


@pytest.mark.parametrize(
    ("label", "form", "instead"),
    [("M-ORG", "BMES", "I-ORG"), ("(PER*", "CoNLL-2012's brackets", "B-PER"), ("PER[1]", "WebAnno TSV", "B-PER")],
)
def test_a_label_of_another_form_is_told_by_its_name_and_is_no_plain_type(
    label: str, form: str, instead: str, tmp_path: Path
) -> None:
    lines = tmp_path / "a.txt"
    lines.write_text(f"Ann {label} x\nran O x\n")
    rows = tmp_path / "a.parquet"
    pq.write_table(pa.table({"tokens": [["Ann", "ran"]], "labels": [[label, "O"]]}), rows)
    middle = ColumnsSettings(columns=("tokens", "labels", "_"))
    for reader, path, settings in (("columns", lines, middle), ("parquet", rows, ParquetReaderSettings())):
        ingest(reader, path, tmp_path / reader, settings=settings)
        (reason,) = pq.read_table(tmp_path / reader / REJECTS_NAME)["reason"].to_pylist()
        assert f"it looks like {form}, so write '{instead}'" in reason, reader
        assert "scheme=plain" not in reason, reader
