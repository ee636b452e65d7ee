"""The command line: help, exit codes, and what a user reads when something is wrong."""

from __future__ import annotations

import difflib
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import click
import pyarrow.parquet as pq
import pytest
import typer
from pydantic import ValidationError
from typer.testing import CliRunner

from concord.flows.cli.app import app
from concord.flows.cli.list_cli import KINDS
from concord.flows.inputs.given import Flag, beside_flags
from concord.flows.inputs.options import OptionError, option_values, parse_options, with_engine
from concord.flows.runfolder.layout import STORE
from concord.flows.screen.progress import meter
from concord.schemas.codl import CodlSettings
from concord.schemas.errors import UsageError
from concord.schemas.run import RunSettings
from concord.schemas.settings import Settings
from concord.workers.constraints.constraint_file import parse_constraints
from concord.workers.constraints.templates.registry import TEMPLATES
from concord.workers.corpus.ingestion import ingest
from concord.workers.corpus.readers.registry import READERS
from concord.workers.corpus.settings import ColumnsSettings
from concord.workers.corpus.tokenizers.registry import TOKENIZERS
from concord.workers.corpus.writers.registry import WRITERS
from concord.workers.evaluation.measures import MEASURES, check_measures
from concord.workers.features.resources import RESOURCES
from concord.workers.features.settings import ClusterSettings, TreeSettings
from concord.workers.features.templates import FEATURE_SETS, SUMMARIES, feature_set
from concord.workers.inference.registry import SOLVERS, solver_named
from concord.workers.inference.settings import CertifySettings, DiscrepancySettings, GibbsSettings
from concord.workers.labelling.output import MARKERS
from concord.workers.learning.mining.registry import MINERS, miner_named
from concord.workers.learning.trainers.registry import TRAINERS, trainer_named
from concord.workers.learning.weights.penalties import PENALTIES, penalty_named
from concord.workers.models.settings import EnsembleSettings, SgdSettings
from concord.workers.papers.stokman.settings import AnytimeSettings
from concord.workers.storage.files import write_whole
from tests.support.made_predictions import predictions

ROOT = Path(__file__).parents[1]

runner = CliRunner()


def call(*arguments: str, code: int = 0) -> Any:
    """The command's result, after a check of its exit code."""
    result = runner.invoke(app, list(arguments))
    assert result.exit_code == code, result.output
    return result


def commands() -> list[str]:
    group = typer.main.get_command(app)
    assert isinstance(group, click.Group) or hasattr(group, "commands")
    return sorted(group.commands)


@pytest.mark.parametrize("name", commands())
def test_every_command_has_help_with_an_example_or_commands(name: str) -> None:
    text = call(name, "--help").output
    assert f"concord {name}" in text
    assert "Example:" in text or "Commands" in text


def test_help_lists_the_exit_codes_and_waits_for_no_heavy_library() -> None:
    text = " ".join(call("--help").output.split())
    assert "Exit codes: 0 done" in text
    script = "import sys, concord.flows.cli.app; print({'ray', 'prefect', 'mlflow', 'numba'} & set(sys.modules))"
    found = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    assert found.stdout.strip() == "set()"


def test_the_version_is_that_of_the_package() -> None:
    declared = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]["version"]
    assert call("--version").stdout == f"concord {declared}\n"


LISTED: dict[str, dict[str, type[Settings]]] = {
    "engines": {name: solver.settings for name, solver in SOLVERS.items()},
    "trainers": {name: trainer.settings for name, trainer in TRAINERS.items()},
    "features": dict.fromkeys([*SUMMARIES, *(name for name in FEATURE_SETS if name not in SUMMARIES)], Settings),
    "readers": {name: entry.settings for name, entry in READERS.items()},
    "writers": {name: entry.settings for name, entry in WRITERS.items()},
    "tokenizers": dict.fromkeys(TOKENIZERS, Settings),
    "templates": {**TEMPLATES},
    "measures": dict.fromkeys(MEASURES, Settings),
    "penalties": {name: entry.settings for name, entry in PENALTIES.items()},
    "methods": {name: entry.settings for name, entry in MINERS.items()},
    "clusters": {
        "import": ClusterSettings,
        "paths": TreeSettings,
    },
    "resources": {f"{kind}={name}": Settings for kind, named in RESOURCES.items() for name in named},
}


def test_every_kind_is_listed() -> None:
    assert list(KINDS) == list(LISTED)


@pytest.mark.parametrize("kind", KINDS)
def test_what_there_is_can_be_read_by_a_machine(kind: str) -> None:
    known = LISTED[kind]
    entries = {entry["name"]: entry for entry in json.loads(call("list", kind, "--json").stdout)[kind]}
    assert list(entries) == list(known)
    shown = call("list", kind).stdout
    for name, settings in known.items():
        assert entries[name]["summary"]
        assert name in shown
        options = {option["name"]: option for option in entries[name]["options"]}
        assert list(options) == list(settings.model_fields)
        for key, field in settings.model_fields.items():
            assert options[key]["needed"] == field.is_required()
            assert options[key]["meaning"] == field.description or field.description is None
            assert options[key]["values"]
            assert "$ref" not in json.dumps(options[key])
    if kind == "engines":
        sweeps = next(option for option in entries["gibbs"]["options"] if option["name"] == "sweeps")
        assert (sweeps["default"], sweeps["values"]) == (100, {"type": "integer", "minimum": 1})
        assert entries["certify"]["exact"]


def test_the_list_alone_says_the_kinds() -> None:
    assert json.loads(call("list", "--json").stdout) == {"kinds": KINDS}
    lines = call("list").stdout.splitlines()
    assert [line.split()[0] for line in lines if line] == list(KINDS)


def test_one_part_can_be_listed_and_an_unknown_one_is_named() -> None:
    (entry,) = json.loads(call("list", "engines", "certify", "--json").stdout)["engines"]
    assert entry["name"] == "certify"
    assert "evolution" not in call("list", "engines", "gibbs").stdout
    for words, message in ((("engine",), "did you mean 'engines'?"), (("engines", "gibs"), "did you mean 'gibbs'?")):
        result = call("list", *words, code=2)
        assert message in " ".join(result.stderr.split())


def test_parts_for_comparison_stand_below_the_others() -> None:
    for kind in ("engines", "trainers", "features"):
        entries = json.loads(call("list", kind, "--json").stdout)[kind]
        compared = {entry["name"] for entry in entries if entry["comparison"]}
        above, _, below = call("list", kind).stdout.partition("For comparison with papers, or as a check")
        words_above, words_below = ({line.split()[0] for line in part.splitlines() if line} for part in (above, below))
        assert compared
        assert compared <= words_below
        assert {entry["name"] for entry in entries} - compared <= words_above
        assert all(name not in compared for name in words_above)


def test_the_page_of_engines_divides_them_as_the_list_does() -> None:
    _, first, second, *_ = (ROOT / "docs" / "engines.md").read_text().split("| engine | what it guarantees |")
    cells = ["".join(re.findall(r"^\| (`.*?) \|", part.split("\n\n")[0], re.MULTILINE)) for part in (first, second)]
    tables = [set(re.findall(r"`([\w-]+)`", cell)) for cell in cells]
    compared = {name for name, solver in SOLVERS.items() if solver.comparison}
    assert tables == [SOLVERS.keys() - compared, compared]


def test_synthesize_and_ingest_answer_as_json(tmp_path: Path) -> None:
    made = call("synthesize", "--documents", "5", "--out", str(tmp_path / "made"), "--json")
    answer = json.loads(made.stdout)
    assert (answer["read"], answer["written"], answer["rejected"]) == (5, 5, 0)
    assert pq.read_table(tmp_path / "made" / "part-00000.parquet").num_rows == 5
    source = tmp_path / "a.conll"
    source.write_text("-DOCSTART- -X- O O\n\nAlba NNP I-NP I-PER\nruns VBZ I-VP O\n\n")
    read = json.loads(call("ingest", "conll", str(source), "--out", str(tmp_path / "read"), "--json").stdout)
    assert (read["read"], read["tokens"]) == (1, 2)
    assert pq.read_table(tmp_path / "read" / "part-00000.parquet")["labels"].to_pylist() == [["B-PER", "O"]]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("-DOCSTART- -X- O O\n\nAlba NNP\n", "a.conll: line 3: 2 columns ('Alba' 'NNP'), want 4"),
        ("", "a.conll: nothing in"),
    ],
)
def test_an_ingest_that_reads_nothing_says_why(text: str, reason: str, tmp_path: Path) -> None:
    source = tmp_path / "a.conll"
    source.write_text(text)
    said = call("ingest", "conll", str(source), "--out", str(tmp_path / "out"), code=3).stderr
    assert f"concord: {source}: nothing in it could be read as conll" in said
    assert reason in said


def test_the_first_of_some_rejects_is_shown(tmp_path: Path) -> None:
    source = tmp_path / "a.tsv"
    source.write_bytes(b"so\tO\n\nS\xf3\tB-PER\n")
    said = call("ingest", "columns", str(source), "--out", str(tmp_path / "out")).output
    assert "2 documents read, 1 written" in said
    assert "line 3: not UTF-8 at byte 7 of the file; if it is Latin-1: --set encoding=latin-1" in said
    again = ("ingest", "columns", str(source), "--out", str(tmp_path / "out"), "--overwrite")
    assert "2 written" in call(*again, "--set", "encoding=latin-1").output
    assert json.loads(call(*again, "--json").stdout)["rejected"] == 1


def test_a_corpus_is_added_to_or_replaced_but_not_both(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.tsv").write_text("Ann\tB-PER\n")
    add = ("--out", str(tmp_path / "out"), "--append")
    for name in ("a", "b"):
        assert "1 documents read, 1 written" in call("ingest", "columns", str(tmp_path / f"{name}.tsv"), *add).output
    assert len(list((tmp_path / "out").glob("part-*.parquet"))) == 2
    said = call("ingest", "columns", str(tmp_path / "a.tsv"), *add, "--overwrite", code=2).stderr
    assert "give one of the two" in said


def test_the_same_seed_gives_the_same_corpus(tmp_path: Path) -> None:
    for name in ("a", "b"):
        call("synthesize", "--documents", "3", "--seed", "7", "--out", str(tmp_path / name))
    a, b = ((tmp_path / name / "part-00000.parquet").read_bytes() for name in ("a", "b"))
    assert a == b


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("ingest", "excel", "x", "--out", "o"), 2, "no reader is called 'excel'; there are conll"),
        (("ingest", "conl", "x", "--out", "o"), 2, "no reader is called 'conl'; did you mean 'conll'? there are conll"),
        (("ingest", "conll", "nowhere", "--out", "o"), 3, "nowhere"),
        (
            ("ingest", "columns", "x", "--out", "o", "--set", "column=a"),
            2,
            "did you mean 'columns'? options of",
        ),
        (("evaluate", "--run", "nowhere", "--corpus", "nowhere"), 3, "there is no whole run in this folder"),
        (
            ("reprocess", "--corpus", ".", "--model", "m", "--out", "o", "--engine", "gips"),
            2,
            "'gibbs'? there",
        ),
        (("reprocess", "--corpus", ".", "--model", "m", "--out", "o", "--set", "swoops=3"), 2, "of engine certify"),
        (("reprocess", "--corpus", "c"), 2, "Missing option"),
        (("synthesize", "--out", "o", "--documents", "0"), 2, "--documents"),
    ],
)
def test_wrong_use_is_one_message_and_an_exit_code(
    arguments: tuple[str, ...], code: int, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_whole(tmp_path / "m" / "manifest.json", b"{}")  # what may be a model
    result = call(*arguments, code=code)
    said = " ".join((result.stderr + result.output).split())
    assert message in said
    assert "Traceback" not in said


def test_an_existing_corpus_is_not_overwritten_unasked(tmp_path: Path) -> None:
    call("synthesize", "--documents", "2", "--out", str(tmp_path / "c"))
    assert "is not empty" in call("synthesize", "--documents", "2", "--out", str(tmp_path / "c"), code=3).stderr
    call("synthesize", "--documents", "2", "--out", str(tmp_path / "c"), "--overwrite")


# Evaluation, on small files made here


@pytest.fixture
def gold(tmp_path: Path) -> Path:
    source = tmp_path / "g.conll"
    source.write_text(
        "-DOCSTART- -X- O O\n\nAlba N X I-PER\nruns V X O\n\nin P X O\nOslo N X I-LOC\n\n"
        "-DOCSTART- -X- O O\n\nOslo N X I-LOC\n\n"
    )
    call("ingest", "conll", str(source), "--out", str(tmp_path / "gold"))
    return tmp_path / "gold"


def test_evaluate_counts_by_document_id_and_shows_what_changed(gold: Path, tmp_path: Path) -> None:
    first, second = pq.read_table(gold)["doc_id"].to_pylist()
    rows = {second: ["B-LOC"], first: ["B-PER", "O", "O", "B-ORG"], "stranger": ["O"]}
    viterbi = {second: ["B-LOC"], first: ["O", "O", "O", "B-ORG"], "stranger": ["O"]}
    predictions(tmp_path / "p", rows, viterbi=viterbi)
    options = ("--run", str(tmp_path / "p"), "--corpus", str(gold))
    answer = json.loads(call("evaluate", *options, "--json").stdout)
    assert (answer["documents"], answer["tokens"], answer["token_accuracy"]) == (2, 5, 0.8)
    assert list(answer["measures"]) == ["spans"]
    assert answer["measures"]["spans"]["names"]["LOC"] == {
        "precision": 1.0,
        "recall": 0.5,
        "f1": pytest.approx(2 / 3),
        "gold": 2,
        "predicted": 1,
        "correct": 1,
    }
    assert (answer["certified"], answer["by_solver"], answer["max_gap"]) == (0.5, 0.5, 0.5)
    text = call("evaluate", *options)
    assert "1 entities fixed, 0 broken" in text.stdout
    assert "1 tokens fixed, 0 broken, 0 changed and still wrong" in text.stdout
    assert "certified 50.0% (50.0% on a solver's word)" in text.stdout
    assert "PER" in text.stdout


def test_evaluate_names_the_document_that_does_not_fit(gold: Path, tmp_path: Path) -> None:
    first, second = pq.read_table(gold)["doc_id"].to_pylist()
    rows = {first: ["O"] * 4}
    predictions(tmp_path / "few", rows, viterbi=rows)
    said = call("evaluate", "--run", str(tmp_path / "few"), "--corpus", str(gold), code=3).stderr
    assert f"no prediction for document '{second}'" in said
    rows = {first: ["O"] * 3, second: ["O"]}
    predictions(tmp_path / "short", rows, viterbi=rows)
    said = call("evaluate", "--run", str(tmp_path / "short"), "--corpus", str(gold), code=3).stderr
    assert f"'{first}' has 4 tokens" in said
    assert "cut both into tokens in the same way" in said


def test_the_help_names_every_measure() -> None:
    text = call("evaluate", "--help").stdout
    assert [name for name in MEASURES if name not in text] == []


def test_measures_are_chosen_by_name_or_by_the_labels(gold: Path, tmp_path: Path) -> None:
    first, second = pq.read_table(gold)["doc_id"].to_pylist()
    rows = {second: ["B-LOC"], first: ["B-PER", "O", "O", "B-ORG"]}
    predictions(tmp_path / "p", rows, viterbi=rows)
    options = ("--run", str(tmp_path / "p"), "--corpus", str(gold))
    chosen = ("--measure", "documents", "--measure", "labels", "--measure", "documents")
    found = json.loads(call("evaluate", *options, *chosen, "--json").stdout)["measures"]
    assert list(found) == ["documents", "labels"]
    assert (found["documents"]["figures"], found["labels"]["figures"]["accuracy"]) == ({"accuracy": 0.5}, 0.8)
    assert "accuracy" in call("evaluate", *options, *chosen).stdout
    said = call("evaluate", *options, "--measure", "lenght", code=2).stderr
    assert "no measure is called 'lenght'; there are labels," in said


def test_a_run_is_compared_with_another_on_the_documents_of_both(gold: Path, tmp_path: Path) -> None:
    first, second = pq.read_table(gold)["doc_id"].to_pylist()
    good, bad = ["B-PER", "O", "O", "B-LOC"], ["O", "O", "O", "B-ORG"]
    for name, rows in (("good", {first: good, second: ["B-LOC"]}), ("bad", {first: bad}), ("none", {"x": ["O"]})):
        predictions(tmp_path / name, rows, viterbi=rows)
    options = ("--run", str(tmp_path / "good"), "--corpus", str(gold), "--against")
    answer = json.loads(call("evaluate", *options, str(tmp_path / "bad"), "--json").stdout)
    assert answer["documents"] == 1
    against = answer["against"]
    assert (against["only_here"], against["only_there"]) == ([second], [])
    f1 = against["measures"]["spans"]["f1"]
    assert (f1["other"], f1["difference"], f1["low"], f1["high"]) == (0.0, 1.0, 1.0, 1.0)
    assert f1["p_value"] == pytest.approx(1 / 1001)
    shown = call("evaluate", *options, str(tmp_path / "bad"))
    assert f"1 gold documents not in that run, left out; the first is '{second}'" in shown.stdout
    assert "a later run is not finished" not in shown.stderr
    (tmp_path / "bad" / STORE / MARKERS).mkdir(parents=True)
    (tmp_path / "bad" / STORE / MARKERS / "x.json").touch()
    said = call("evaluate", *options, str(tmp_path / "bad")).stderr
    assert f"{tmp_path / 'bad'}: a later run is not finished (1 of its shards are done)" in said
    assert "spans macro F1" in " ".join(shown.stdout.split())
    said = call("evaluate", *options, str(tmp_path / "none"), code=3).stderr
    assert "have no gold document in common" in said
    turned = ("--run", str(tmp_path / "bad"), "--corpus", str(gold), "--against", str(tmp_path / "good"))
    assert json.loads(call("evaluate", *turned, "--json").stdout)["against"]["only_there"] == [second]


# Options and progress


def test_options_are_parsed_into_settings() -> None:
    settings = parse_options(["sweeps=7", "hard-weight=2.5", "start=random"], GibbsSettings, owner="gibbs")
    assert (settings.sweeps, settings.hard_weight, settings.start) == (7, 2.5, "random")
    columns = parse_options(["columns=tokens, _,labels"], ColumnsSettings, owner="columns")
    assert columns.columns == ("tokens", "_", "labels")
    assert parse_options(["work=null"], DiscrepancySettings, owner="discrepancy").work is None
    with pytest.raises(OptionError, match="--set sweeps: want NAME=VALUE, such as --set sweeps=VALUE"):
        option_values(["sweeps"], GibbsSettings, owner="gibbs")
    with pytest.raises(OptionError, match=r"sweep=3: gibbs has no option 'sweep'; did you mean 'sweeps'\? options of"):
        option_values(["sweep=3"], GibbsSettings, owner="gibbs")
    with pytest.raises(OptionError, match="zzz=3: gibbs has no option 'zzz'; options of gibbs: work, sweeps"):
        option_values(["zzz=3"], GibbsSettings, owner="gibbs")
    with pytest.raises(OptionError, match="slot-loss=4: 'slot_loss' is given twice; give it once"):
        option_values(["slot_loss=3", "slot-loss=4"], GibbsSettings, owner="gibbs")
    with pytest.raises(OptionError, match="'sweeps' is given twice"):
        option_values(["sampler.sweeps=3", "sampler.sweeps=3"], CertifySettings, owner="certify")
    with pytest.raises(OptionError, match="sweeps: Input should be a valid integer"):
        parse_options(["sweeps=many"], GibbsSettings, owner="gibbs")
    with pytest.raises(OptionError, match=r"^options of columns: columns: token: name 'tokens' once"):
        parse_options(["columns=token"], ColumnsSettings, owner="columns")
    with pytest.raises(OptionError, match=r"^options of columns: give a boundary or"):
        parse_options(["boundary=null", "sentences_per_document=null"], ColumnsSettings, owner="columns")


def test_options_inside_of_options_keep_what_stands_beside_them() -> None:
    values = option_values(["sampler.sweeps=7", "rounds=2"], CertifySettings, owner="certify")
    assert values == {"sampler": {"sweeps": "7"}, "rounds": "2"}
    given = CertifySettings.model_validate(values)
    assert given == CertifySettings(rounds=2, sampler=CertifySettings().sampler.model_copy(update={"sweeps": 7}))
    assert given.sampler.settle != GibbsSettings().settle
    assert CertifySettings.model_validate(given.model_dump(mode="json")) == given
    two = parse_options(["evolution.work=null", "discrepancy.branching=4"], AnytimeSettings, owner="anytime")
    assert (two.evolution.work, two.evolution.population, two.discrepancy.branching) == (None, 30, 4)
    for wrong, reason in {
        "sampler=7": r"'sampler' has options of its own; want sampler\.NAME=VALUE, NAME one of work, sweeps",
        "sampler": r"'sampler' has options of its own; want sampler\.NAME=VALUE, NAME one of work, sweeps",
        "samplers.sweeps=7": r"'samplers'; did you mean 'sampler'\? options of certify: work, sampler\.…, rounds",
        "rounds.sweeps=7": "'rounds' of certify has no options of its own; give rounds=VALUE",
        "sampler.sweeps": r"want NAME=VALUE, such as --set sampler\.sweeps=VALUE",
        "sampler.sweep=7": r"'sweep'; did you mean 'sweeps'\? options of certify, sampler: work, sweeps",
        "sampler.=7": "certify, sampler has no option ''; options of certify, sampler: work, sweeps",
        "sampler.sweeps.most=7": "'sweeps' of certify, sampler has no options of its own; give sweeps=VALUE",
    }.items():
        with pytest.raises(OptionError, match=reason):
            option_values([wrong], CertifySettings, owner="certify")
    with pytest.raises(OptionError, match=r"options of certify: sampler\.sweeps: Input should be greater"):
        parse_options(["sampler.sweeps=0"], CertifySettings, owner="certify")


def test_lists_are_read_as_yaml_writes_them_or_with_commas() -> None:
    for kind, name, spellings, wanted in (
        (ClusterSettings, "clusters", ("[100, 2000]", "[100,2000]", " [ '100', \"2000\" ]", "100,2000"), (100, 2000)),
        (ColumnsSettings, "columns", ("[tokens, _, labels]", "tokens,_, labels"), ("tokens", "_", "labels")),
        (CodlSettings, "shares", ("[0.5, 1]", "0.5,1.0"), (0.5, 1.0)),
    ):
        for text in spellings:
            assert getattr(parse_options([f"{name}={text}"], kind, owner="this"), name) == wanted
    for wrong in ("[100, 2000", "[100], 3", "[[100]]", "[{a: 1}]"):
        with pytest.raises(OptionError, match=r"want a list such as \[a, b\], or a,b"):
            parse_options([f"clusters={wrong}"], ClusterSettings, owner="this")


def test_a_value_is_what_yaml_says_for_its_field() -> None:
    for text, wanted in (("'a: b'", "a: b"), ('"# x"', "# x"), ("a: b", "a: b"), ("#", "#"), ("[x", "[x"), ("0", "0")):
        assert parse_options([f"boundary={text}"], ColumnsSettings, owner="columns").boundary == wanted
    for text in ("null", "~", " null "):
        assert parse_options([f"boundary={text}"], ColumnsSettings, owner="columns").boundary is None
    assert parse_options(["boundary='null'"], ColumnsSettings, owner="columns").boundary == "null"
    assert parse_options(["separator=null"], Named, owner="this").separator == "null"
    for text, truth in (("true", True), ("false", False), ("yes", True), ("off", False)):
        assert parse_options([f"settle={text}"], GibbsSettings, owner="gibbs").settle is truth


class Named(Settings):
    """A text that cannot be left out."""

    separator: str


def test_settings_of_an_engine_stand_beside_those_of_what_runs_it() -> None:
    pairs = ["cycles=3", "engine.sampler.sweeps=7", "engine.work=null"]
    settings, of_engine = with_engine(pairs, CodlSettings, "certify", owner="codl")
    assert settings == CodlSettings(cycles=3)
    assert of_engine == {"sampler": {"sweeps": "7"}, "work": None}
    with pytest.raises(OptionError, match="codl, engine has no option 'swoops'; did you mean"):
        with_engine(["engine.swoops=7"], CodlSettings, "gibbs", owner="codl")
    with pytest.raises(OptionError, match="'engine' has options of its own"):
        with_engine(["engine=gibbs"], CodlSettings, "gibbs", owner="codl")


def test_a_flag_and_a_setting_do_not_say_the_same_thing() -> None:
    flags = {"features": Flag("--features", "core"), "gazetteers": Flag("--gazetteer", ["a,b", "c"])}
    assert beside_flags(["c2=1"], flags) == ['features="core"', 'gazetteers=["a,b", "c"]', "c2=1"]
    settings = parse_options(beside_flags([], flags), SgdSettings, owner="sgd")
    assert (settings.features, settings.gazetteers) == ("core", ("a,b", "c"))
    with pytest.raises(UsageError, match=r"^--set features=rich: --features says the same thing; give one of them"):
        beside_flags(["features=rich"], flags)
    assert beside_flags(["features=rich"], {"features": Flag("--features", None)}) == ["features=rich"]


def test_a_number_is_the_same_however_it_is_written() -> None:
    zeros: tuple[object, ...] = (0, 0.0, "0", "0.0", "0.00", "-0", "0e3", " 0 ", "+0.000")
    for kind in (SgdSettings, EnsembleSettings):
        assert {kind.model_validate({"dropout": zero}) for zero in zeros} == {kind(dropout=0.0)}
        for share in (0.5, "0.5", ".50", "5e-1"):
            assert kind.model_validate({"dropout": share}) == kind(dropout=0.5)


def test_no_setting_is_infinite_or_no_number() -> None:
    kinds = [*(entry.settings for registry in (SOLVERS, TRAINERS, READERS) for entry in registry.values()), RunSettings]
    numbers = [(kind, name) for kind in kinds for name, field in kind.model_fields.items() if field.annotation is float]
    assert len(numbers) > 20
    for kind, name in numbers:
        for odd in ("inf", "nan", "-inf", "1e999"):
            with pytest.raises(ValidationError):
                kind.model_validate({name: odd})


def registries() -> Iterator[tuple[Callable[[str], object], Iterable[str]]]:
    """What finds an entry by its name, and all names: whoever misspells one of them is told of it."""
    yield solver_named, SOLVERS
    yield trainer_named, TRAINERS
    yield penalty_named, PENALTIES
    yield miner_named, MINERS
    yield lambda name: check_measures([name]), MEASURES
    yield feature_set, FEATURE_SETS
    yield lambda name: ingest(name, "source", "out"), READERS
    yield lambda name: parse_constraints(f"constraints: [{{template: {name}}}]", file="f"), TEMPLATES
    for kind in [entry.settings for registry in (SOLVERS, TRAINERS, READERS) for entry in registry.values()]:
        if kind.model_fields:
            yield partial(_option, kind), kind.model_fields


def _option(kind: type[Settings], name: str) -> object:
    return option_values([f"{name}=1"], kind, owner="this")


def test_whoever_misspells_a_name_is_told_the_right_one() -> None:
    tried = 0
    for find, names in registries():
        for name in names:
            for wrong in (f"{name}x", name[:-1] if len(name) > 3 else f"{name}{name[-1]}"):
                if wrong in names:
                    continue
                with pytest.raises(ValueError, match="did you mean") as told:
                    find(wrong)
                meant = re.findall("did you mean '([^']*)'", str(told.value))
                assert meant == [name] or difflib.SequenceMatcher(None, wrong, meant[0]).ratio() > 0.6, (wrong, meant)
                tried += meant == [name]
    assert tried > 300


def test_progress_without_a_terminal_ends_with_the_total(capsys: pytest.CaptureFixture[str]) -> None:
    with meter("working", 3) as bar:
        for _ in range(3):
            bar.advance(note="things")
    assert capsys.readouterr().err == "working: 3 of 3 things\n"


def test_a_value_that_an_option_does_not_take_is_told_by_its_name() -> None:
    told = call("corpus", "stats", "--corpus", "c", "--tokenizer", "a=", code=2)
    assert "concord: --tokenizer a=: String should match pattern" in " ".join(told.stderr.split())
