"""Every reader on files of every other form: read rightly, or refused with the command that reads it."""

from __future__ import annotations

import gzip
import itertools
import re
import shlex
import subprocess
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import concord.workers.corpus.fitting
from concord.flows.cli.app import app
from concord.schemas.errors import CorpusError, InputError
from concord.workers.corpus.fitting import all_forms, check_form, form_of
from concord.workers.corpus.ingestion import REJECTS_NAME, IngestReport, ingest
from concord.workers.corpus.readers.reader import FileStart, SourceForm
from concord.workers.corpus.readers.registry import READERS
from concord.workers.corpus.readers.unread_forms import UNREAD_FORMS
from concord.workers.corpus.settings import ColumnsSettings, ParquetReaderSettings
from concord.workers.parts import PartError
from tests.support.made_forms import FOREIGN, UNREAD, MadeForm

FORMS_OF_BYTES = {"a Parquet file", "a Parquet file with spans in a column", "a .spacy file", "a packed file"}
"""Forms that no file of text has."""
CASES = Path("/work/shared/cases")
every_form = pytest.mark.parametrize("made", FOREIGN, ids=lambda made: made.title)


PROPOSED = re.compile(r"`concord (ingest .*?) --out FOLDER`")
GOLD_SPANS: dict[str, tuple[set[str], int | None]] = {
    "anystyle_training.xml": ({"xml"}, 11),
    "grobid_citation_training.tei.xml": ({"xml"}, 5),
    "brat_folder": ({"spans"}, 2),
    "brat_crlf": ({"spans"}, 2),
    "doccano_export.jsonl": ({"spans"}, 4),
    "presidio_results.jsonl": ({"spans"}, 2),
    "gliner_predictions.jsonl": ({"spans"}, 2),
    "labelstudio_json_min.json": ({"spans"}, 2),
    "conllu_ranges_empty_nodes.conllu": ({"conllu"}, 2),
    "spans_start_inside_token.pubtator.txt": ({"pubtator"}, 3),
    "texts.csv": ({"text"}, 0),
    "chinese_texts.jsonl": ({"text"}, 0),
    "bilou.conll": ({"columns"}, 2),
    "bom_crlf.conll": ({"columns"}, 2),
    "bom_docstart_crlf.conll": ({"conll"}, 1),
    "docstart_without_blank_line.conll": (set(), 2),
    "labelstudio_conll2003_export.conll": ({"conll"}, 4),
    "io_scheme_no_prefix.conll": (set(), 3),
    "pos_tags_no_prefix.conll": (set(), 5),
    "token_with_blank_inside_tab.conll": (set(), 2),
    "hf_ner_tags_int.parquet": ({"parquet"}, 2),
    "parquet_no_sentence_starts": ({"parquet"}, 2),
    "multiconer.conll": (set(), 2),
    "hipe.tsv": (set(), 2),
    "header_row.tsv": (set(), 1),
    "comment_lines_with_equals.tsv": (set(), 2),
    **dict.fromkeys(
        (
            "webanno_tsv3.tsv",
            "inception_cas.json",
            "i2b2_2010",
            "comprehend_output.jsonl",
            "grobid_output.tei.xml",
            "labelstudio_export.csv",
            "sentence_per_row_lists.csv",
            "deepparse.csv",
            "argilla_nested_struct.parquet",
            "text_with_entity_structs.parquet",
            "texts_without_ids.parquet",
            "train.conll.gz",
            "spans.jsonl.gz",
            "export.zip",
            "libpostal_train.txt",
            "llm_inline_tags.txt",
            "bare_B_I_O.conll",
            "underscore_scheme_B_PER.conll",
        ),
        (set[str](), None),
    ),
}
"""Readers that take each case without options, and its spans of gold; None where none does and no command is told."""


def gold_spans(folder: Path) -> int:
    """Number of spans of a corpus's gold labels; of plain types, the number of tokens with one."""
    labels = [name for row in pq.read_table(folder).to_pylist() for name in row.get("labels") or ()]
    return sum(not name.startswith("I-") and name != "O" for name in labels)


def proposals(path: Path, folder: Path) -> dict[str, IngestReport | str]:
    """What each reader makes of a source, in a folder of its name, or what the command line says where it refuses."""
    made: dict[str, IngestReport | str] = {}
    for reader in READERS:
        made[reader] = written(reader, path, folder / reader)
        if isinstance(made[reader], str):
            words = ["ingest", reader, str(path), "--out", str(folder / reader), "--overwrite"]
            made[reader] = CliRunner().invoke(app, words).stderr
    return made


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
        assert "scheme=plain" not in found or made.form == "a text of words with a slash and a label, as libpostal's", (
            reader
        )  # whose labels are types
        assert "\n" not in found, reader


@pytest.mark.parametrize("reader", [name for name in READERS if READERS[name].suffixes])
def test_a_packed_file_of_a_folder_is_not_left_out_without_a_word(reader: str, tmp_path: Path) -> None:
    suffix = READERS[reader].suffixes[0]
    for name in ("one", "two"):
        (tmp_path / f"{name}{suffix}.gz").write_bytes(gzip.compress(b"some"))
    (tmp_path / f"one{suffix}").write_text("some")  # packed and not: that is no loss
    with pytest.raises(
        CorpusError, match=rf"two\{suffix}\.gz: this is a packed file, which no reader takes; unpack it"
    ):
        check_form(reader, str(tmp_path), READERS[reader].settings())


REMEDIES = {form.title: form.remedy for form in UNREAD_FORMS}
BY_SED = [made for made in UNREAD if "such as by `sed" in REMEDIES[made.form]]


@pytest.mark.parametrize("made", BY_SED, ids=lambda made: made.title)
def test_a_file_that_is_rewritten_as_proposed_keeps_its_gold(made: MadeForm, tmp_path: Path) -> None:
    path, advice = made.write(tmp_path / "in"), REMEDIES[made.form]
    rewrite = advice.partition("such as by `")[2].partition("`")[0]
    (reader, options), *_ = re.findall(r"`concord ingest (\w+)(.*?)`", advice)
    again = tmp_path / "again.xml"
    again.write_bytes(subprocess.run(["bash", "-c", f"{rewrite} {path}"], capture_output=True, check=True).stdout)
    words = ["ingest", reader, str(again), *shlex.split(options), "--out", str(tmp_path / "out")]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.stderr
    assert gold_spans(tmp_path / "out") == made.spans


def test_there_are_such_forms() -> None:
    assert len(BY_SED) > 2


def test_the_page_lists_all_forms_that_no_reader_takes_with_what_to_do() -> None:
    page = (Path(__file__).parents[1] / "docs" / "readers.md").read_text()
    rows = [line for line in page.partition("| no reader takes | what to do |")[2].splitlines()[2:] if line]
    listed = list(itertools.takewhile(lambda line: line.startswith("|"), rows))
    assert listed == [f"| {form} | {remedy} |" for form, remedy in REMEDIES.items()]


@every_form
def test_the_form_of_a_file_is_known_for_certain(made: MadeForm, tmp_path: Path) -> None:
    path = made.write(tmp_path / "in")
    first = path if path.is_file() else next(file for file in sorted(path.iterdir()))
    assert str(form_of(first)) == made.form


def test_each_form_is_one_readers_and_tried_in_an_order_of_its_own() -> None:
    forms = all_forms()
    assert len({form.rank for form in forms}) == len({form.title for form in forms}) == len(forms)
    assert {made.form for made in FOREIGN} | FORMS_OF_BYTES == {form.title for form in forms}
    for name, entry in READERS.items():
        own = {form.title for form in entry.forms}
        assert own
        assert own <= FORMS_OF_BYTES | {made.form for made in FOREIGN if name in made.readers or not made.readers}
        others = {form for other, entry in READERS.items() if other != name for form in entry.forms}
        assert set(entry.takes) <= others


def test_a_form_that_cannot_be_told_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    odd = SourceForm("an odd file", 0, lambda start: bool(start.rows[0][7]))
    monkeypatch.setattr(concord.workers.corpus.fitting, "UNREAD_FORMS", (odd,))
    (tmp_path / "file").write_text("a b")
    with pytest.raises(
        PartError, match=r"file: whether it is an odd file cannot be told, .*: IndexError: .*; mend the"
    ):
        check_form("text", str(tmp_path / "file"), READERS["text"].settings())


@every_form
def test_no_reader_but_that_of_a_files_form_recognises_it_first(made: MadeForm, tmp_path: Path) -> None:
    path = made.write(tmp_path / "in")
    start = FileStart(path if path.is_file() else min(path.iterdir()))
    ranks = [form.rank for form in all_forms() if form.recognises(start)]
    (own,) = [form for form in all_forms() if form.title == made.form]
    assert min(ranks) == own.rank
    claims = {name for name, entry in READERS.items() if own in entry.forms}
    assert len(claims) == (not own.remedy and own.title != "a list of labels, one a line")
    assert claims <= made.readers or not made.readers


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
        "He/she ran and/or fell.\n",
        "and/or\n",
        "Ann <b>ran</b> to <i>Oslo</i>.\n",
        "Ann <em>saw</em> <city>Oslo</city>.\n",
        "if a <b and c> d</b\n",
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
    assert str(form_of(path)) == "JSON of texts"
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
    assert str(form_of(tmp_path / "c.parquet")) == "a Parquet file"
    assert "`concord ingest text" in str(written("mail", tmp_path / "c.parquet", tmp_path / "o"))


@pytest.mark.skipif(not CASES.exists(), reason="the shared cases are not here")
@pytest.mark.parametrize("name", GOLD_SPANS)
def test_readers_and_proposed_commands_keep_the_gold_of_a_case(name: str, tmp_path: Path) -> None:
    if not (CASES / name).exists():
        pytest.skip("the case is not here")
    own, spans = GOLD_SPANS[name]
    refused, taken = proposals(CASES / name, tmp_path), set[str]()
    for reader, told in refused.items():
        if not isinstance(told, str):
            taken.add(reader)
            assert gold_spans(tmp_path / reader) == spans, reader
    assert taken == own
    commands = {command for told in refused.values() if isinstance(told, str) for command in PROPOSED.findall(told)}
    assert commands or spans is None
    for number, command in enumerate(sorted(commands)):
        out = tmp_path / f"again-{number}"
        again = CliRunner().invoke(app, [*shlex.split(command), "--out", str(out)])
        assert again.exit_code == 0, (command, again.stderr)
        assert gold_spans(out) == spans, command


@every_form
def test_a_proposed_command_keeps_the_gold_of_a_form(made: MadeForm, tmp_path: Path) -> None:
    path = made.write(tmp_path / "in")
    refused = proposals(path, tmp_path)
    commands = {command for told in refused.values() if isinstance(told, str) for command in PROPOSED.findall(told)}
    for number, command in enumerate(sorted(commands)):
        out = tmp_path / f"again-{number}"
        assert CliRunner().invoke(app, [*shlex.split(command), "--out", str(out)]).exit_code == 0
        assert gold_spans(out) == made.spans, command


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


@pytest.mark.parametrize(
    ("text", "options"),
    [
        (
            "# id 7\tdomain=en\nann _ _ B-PER\nran _ _ O\n\n# id 8\tdomain=en\noslo _ _ B-LOC\n",
            "--set columns=tokens,_,_,labels --set comments=#",
        ),
        (
            "TOKEN\tNE\tMETO\tMISC\n# document = 1\nAnn\tB-pers\tO\t_\nran\tO\tO\t_\n# next\nOslo\tB-loc\tO\t_\n",
            "--set columns=tokens,labels,_,_ --set header=true --set comments=#",
        ),
        ("word\tlabel\nAnn\tB-PER\nOslo\tB-LOC\n", "--set header=true"),
    ],
)
def test_a_reader_that_reads_nothing_of_its_form_tells_the_options_that_do(
    text: str, options: str, tmp_path: Path
) -> None:
    path = tmp_path / "a.txt"
    path.write_text(text)
    told = CliRunner().invoke(app, ["ingest", "columns", str(path), "--out", str(tmp_path / "o")])
    assert told.exit_code == 3
    (command,) = PROPOSED.findall(told.stderr)
    assert command == f"ingest columns {path} {options}"
    again = CliRunner().invoke(app, [*shlex.split(command), "--out", str(tmp_path / "p")])
    assert again.exit_code == 0, again.stderr
    assert gold_spans(tmp_path / "p") == 2


def test_the_name_of_labels_in_conllu_is_proposed(tmp_path: Path) -> None:
    path = tmp_path / "a.conllu"
    path.write_text("1\tAnn\tAnn\tPROPN\t_\t_\t0\troot\t_\tSpaceAfter=No|Tag=B-PER\n")
    told = str(written("spans", path, tmp_path / "o"))
    assert f"`concord ingest conllu {path} --set labels=Tag --out FOLDER` does" in told
