"""One grammar for the command line, over the tree of commands: names, files of options, help, exit codes."""

from __future__ import annotations

import ast
import re
import shlex
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import typer
import yaml
from rich.cells import cell_len
from typer.testing import CliRunner

from concord.flows.cli import next_steps
from concord.flows.cli.app import app
from concord.flows.cli.failures import MEANINGS, Exit, exit_codes
from concord.flows.cli.tree import CONFIG, HEADINGS, ONE_GROUP, PANELS, SET, Command
from concord.flows.cli.typer_internals import TyperOption, value_kind
from concord.workers.synthesis.made_up import synthesize
from tests.support.writers import made as made

ROOT = Path(__file__).parents[1]
POSITIONAL = {
    "adopt": ["source"],
    "label": ["text"],
    "ingest": ["reader", "source"],
    "clusters import": ["vectors"],
    "clusters paths": ["tree"],
    "gazetteer build": ["lists"],
    "constraints check": ["file"],
    "constraints weigh": ["file"],
    "constraints explain": ["file"],
    "import scores": ["labels"],
    "import crfsuite": ["file"],
    "import onnx": ["folder"],
    "import entities": ["source"],
    "papers": ["paper"],
    "review answers": ["file"],
    "resources add": ["path"],
    "list": ["kind", "name"],
    "sweep run": ["sweep_file"],
    "sweep plan": ["sweep_file"],
}
"""Texts, files of constraints and sweeps, and files of other programs; nothing of concord's own."""
PLACES = {
    "corpus": str,
    "model": str,
    "run": str,
    "out": Path,
    "pool": str,
    "held_out": str,
    "against": str,
    "constraints": list[str],
}
"""What names a place has one type, wherever it stands."""
OTHERWISE = {
    ("export crfsuite", "model"): Path,
    ("gazetteer build", "corpus"): list[str],
    ("adopt", "out"): str,
    ("reprocess", "out"): str,
    ("codl", "constraints"): str,
    ("doctor", "out"): str,
}
"""Many corpora at once, a model of no registry, outputs that may be in an object store, a single file."""


class Leaf(NamedTuple):
    """A command that does something, and its name below ``concord``."""

    name: str
    command: Command

    @property
    def words(self) -> list[str]:
        return self.name.split()


def leaves() -> Iterator[Leaf]:
    def walk(command: Any, name: str) -> Iterator[Leaf]:
        below = getattr(command, "commands", None)
        if below is None:
            yield Leaf(name, command)
            return
        for own, inner in below.items():
            yield from walk(inner, f"{name} {own}".strip())

    return walk(typer.main.get_command(app), "")


LEAVES = {leaf.name: leaf for leaf in leaves()}
every = pytest.mark.parametrize("name", LEAVES)


def test_every_command_is_one_of_the_tree() -> None:
    assert len(LEAVES) > 30
    assert all(type(leaf.command) is Command for leaf in LEAVES.values())


@every
def test_own_things_are_named_and_foreign_ones_stand_by_their_place(name: str) -> None:
    command = LEAVES[name].command
    positional = [part.name for part in command.params if not isinstance(part, TyperOption)]
    assert positional == POSITIONAL.get(name, [])
    for option, kind in PLACES.items():
        if option in command.options:
            assert value_kind(command.options[option]).annotation is not None
            assert _kind(command, option) == OTHERWISE.get((name, option), kind), option


def _kind(command: Command, option: str) -> Any:
    return value_kind(command.options[option]).annotation


def test_the_vocabulary_has_no_name_that_nothing_uses() -> None:
    used = {option for leaf in LEAVES.values() for option in leaf.command.options}
    assert HEADINGS.keys() - used == {"help"}
    assert len(HEADINGS) == sum(map(len, PANELS.values()))


def test_a_second_corpus_and_a_share_have_names_of_their_own() -> None:
    shares = [option for leaf in LEAVES.values() for option in leaf.command.options if option.endswith("_share")]
    assert shares == ["held_out_share"]
    assert [name for name, leaf in LEAVES.items() if "held_out" in leaf.command.options] == [
        "challenge",
        "codl",
        "constraints weigh",
    ]
    assert [name for name, leaf in LEAVES.items() if "pool" in leaf.command.options] == [
        "challenge",
        "codl",
        "train",
    ]


SAID_BY_EACH = {
    **dict.fromkeys(("corpus", "model", "out", "constraints", "held_out"), "a place, and what is there or comes there"),
    "consistency": "label consistency is learned with a model, and used with one",
    "doc": "one is looked at, some are labelled alone",
    "documents": "some are made up, some are looked at",
    "measure": "a measure, or one of its figures",
    "against": "a run, or a value of an axis of a sweep",
    "form": "that of vectors, or of predictions",
    "table": "a published one, or that of a run's answers",
    **dict.fromkeys(("name", "kind", "language"), "those of a resource, or of a layer and of texts"),
}
"""Options whose help differs from command to command, and what it says there."""


def test_an_option_means_the_same_in_every_command() -> None:
    helps: dict[str, set[str]] = defaultdict(set)
    for leaf in LEAVES.values():
        for name, option in leaf.command.options.items():
            helps[name].add(option.help or "")
    assert {name for name, texts in helps.items() if len(texts) > 1} == SAID_BY_EACH.keys()


# Files of options


def given_for(leaf: Leaf) -> dict[str, Any]:
    """A value for every option of a command, as a file has it; none is the default."""
    return {name: _given(name, option) for name, option in leaf.command.options.items() if name != CONFIG}


def _given(name: str, option: TyperOption) -> Any:
    if name == SET:
        return {"sampler": {"sweeps": "7"}, "scales": ["1", "2.50"], "prefix": "a: 'b'", "work": "null"}
    if option.is_flag:
        return "false" if option.default else "true"
    kind = value_kind(option)
    if kind.choices:
        return kind.choices[-1]
    if option.multiple:
        return ["one", "two words"]
    if kind.annotation in (int, float):
        default: Any = option.default
        return str(max(kind.least or 0, default or 0) + 1) if name != "held_out_share" else "0.5"
    return "a place"


def typed(leaf: Leaf, given: dict[str, Any]) -> list[str]:
    """The same on a command line."""
    words = ["x"] * len(POSITIONAL.get(leaf.name, []))
    for name, value in given.items():
        option = leaf.command.options[name]
        if name == SET:
            pairs = ('sampler.sweeps="7"', 'scales=["1", "2.50"]', "prefix=\"a: 'b'\"", "work=null")
            words += [word for pair in pairs for word in ("--set", pair)]
        elif option.is_flag:
            words.append(option.opts[0] if value == "true" else option.secondary_opts[0])
        else:
            words += [word for one in (value if option.multiple else [value]) for word in (option.opts[0], one)]
    return words


def params(leaf: Leaf, words: list[str]) -> dict[str, Any]:
    with leaf.command.make_context(leaf.name, words) as context:
        return {name: value for name, value in context.params.items() if name != CONFIG}


@every
def test_an_empty_value_is_refused_wherever_it_is_given(name: str, tmp_path: Path) -> None:
    leaf, file = LEAVES[name], tmp_path / "options.yaml"
    for field, option in leaf.command.options.items():
        if option.is_flag:
            continue
        typed_name = option.opts[0]
        ways = [[typed_name, ""], [f"{typed_name}="]]
        if field not in (SET, CONFIG):
            file.write_text(yaml.dump({field: [""] if option.multiple else ""}))
            ways.append(["--config", str(file)])
        for words in ways:
            done = CliRunner().invoke(app, [*leaf.words, *words])
            assert (done.exit_code, "is empty; give a value, or leave it out" in done.stderr) == (Exit.USAGE, True), (
                words
            )
            place = field if words[0] == "--config" and words[1] else typed_name
            assert f"{place}: " in done.stderr
    if name in POSITIONAL:
        assert "an argument: is empty" in CliRunner().invoke(app, [*leaf.words, ""]).stderr


@every
def test_a_file_says_what_the_command_line_says(name: str, tmp_path: Path) -> None:
    leaf, file = LEAVES[name], tmp_path / "options.yaml"
    given = given_for(leaf)
    file.write_text(yaml.dump(given, sort_keys=False))
    places = ["x"] * len(POSITIONAL.get(name, []))
    from_file = params(leaf, [*places, "--config", str(file)])
    assert from_file == params(leaf, typed(leaf, given))
    needed = [option for option in leaf.command.options.values() if option.required]
    bare = [word for option in needed for word in (option.opts[0], next(iter(value_kind(option).choices), "here"))]
    assert len(from_file) > len(places)
    if needed:
        assert params(leaf, [*places, *bare, "--config", str(file)]) != from_file, "the command line comes first"


@every
def test_a_key_that_is_no_option_is_told_with_file_key_and_what_was_meant(name: str, tmp_path: Path) -> None:
    file = tmp_path / "options.yaml"
    file.write_text("jsn: true\n")
    told = CliRunner().invoke(app, [*LEAVES[name].words, "--config", str(file)])
    assert told.exit_code == Exit.USAGE, told.output
    assert f"concord: {file}: 'jsn' is no option of concord {name}" in told.stderr.replace("\n", " ").replace("  ", " ")
    assert "did you mean 'json'?" in told.stderr


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("corpus: [a, b]\n", "corpus: want one value"),
        ("model: {a: b}\n", "model: want one value"),
        ("constraints: {a: b}\n", "constraints: want a list"),
        ("set: sweeps\n", "set: want a mapping of names to values"),
        ("- corpus\n", "want a mapping of options to values"),
        ("a: [\n", "is no YAML"),
        ("config: other.yaml\n", "'config' is no option of"),
        ("workers: many\n", "Invalid value for '--workers'"),
    ],
)
def test_a_file_of_another_form_is_told(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "o.yaml").write_text(text)
    needed = ["--corpus", "c", "--model", "m", "--out", "o"]
    told = CliRunner().invoke(app, ["reprocess", *needed, "--config", str(tmp_path / "o.yaml")])
    assert told.exit_code == Exit.USAGE
    assert said in told.stderr


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    told = CliRunner().invoke(app, ["reprocess", "--config", str(tmp_path / "nowhere.yaml")])
    assert (told.exit_code, "nowhere.yaml: No such file" in told.stderr) == (Exit.INPUT, True)


def test_of_settings_the_command_line_comes_first_and_the_file_is_named(tmp_path: Path) -> None:
    file, leaf = tmp_path / "o.yaml", LEAVES["reprocess"]
    file.write_text("set: {sampler: {sweeps: 7}, work: null, most-tokens: 9}\n")
    words = ["--corpus", "c", "--model", "m", "--out", "o", "--config", str(file)]
    assert params(leaf, [*words, "--set", "most_tokens=5"])["set_"] == [
        "most_tokens=5",
        'sampler.sweeps="7"',
        "work=null",
    ]
    trained, learned = ["--corpus", "c", "--out", "o", "--config", str(file)], LEAVES["train"]
    file.write_text("set: {features: rich}\n")
    assert params(learned, [*trained, "--features", "core"])["set_"] == []
    assert params(learned, [*trained])["set_"] == ['features="rich"']
    file.write_text("features: rich\n")
    found = params(learned, [*trained, "--set", "features=core"])
    assert (found["features"], found["set_"]) == (None, ["features=core"])
    file.write_text("set: {swoops: 3}\n")
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "manifest.json").write_text("{}")
    there = ["--corpus", str(tmp_path), "--model", str(tmp_path / "m"), "--out", "o", "--config", str(file)]
    told = CliRunner().invoke(app, ["reprocess", *there])
    assert told.exit_code == Exit.USAGE
    assert f"concord: {file}: set: swoops=" in told.stderr
    assert "engine certify has no option 'swoops'" in told.stderr


# Help


@pytest.mark.parametrize("words", [[], *sorted({tuple(name.split()[:-1]) for name in LEAVES} - {()})])
def test_help_of_groups_fits_eighty_columns(words: Sequence[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert max(map(cell_len, CliRunner().invoke(app, [*words, "--help"]).stdout.splitlines())) <= 80


@every
def test_help_fits_eighty_columns_and_cuts_no_name(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    leaf = LEAVES[name]
    text = CliRunner().invoke(app, [*leaf.words, "--help"]).stdout
    assert max(map(cell_len, text.splitlines())) <= 80
    shown = set(re.findall(r"--[a-z0-9-]+", text))
    for option in leaf.command.options.values():
        assert {*option.opts, *option.secondary_opts} <= shown
    headings = [heading for heading in PANELS if f"─ {heading} ─" in text]
    grouped = len(leaf.command.options) > ONE_GROUP
    assert bool(headings) == grouped
    assert not grouped or "─ Options ─" not in text


def test_commands_can_be_completed() -> None:
    assert "--install-completion" in CliRunner().invoke(app, ["--help"]).stdout


def test_exit_codes_are_told_alike() -> None:
    assert list(MEANINGS) == list(Exit)
    shown = CliRunner().invoke(app, ["--help"]).stdout
    assert exit_codes() in " ".join(shown.split())
    rows = "\n".join(f"| {code.value} | {meaning} |" for code, meaning in MEANINGS.items())
    assert f"\n{rows}\n\n" in (ROOT / "docs" / "operations.md").read_text()


# Results

RESULTS = {
    "synthesize --documents 3 --out {out}": "corpus in ",
    "ingest text {made}/source --out {out}": "1 documents read, 1 written",
    "label --model {made}/model --explain Ada": "labels that the constraints changed",
    "constraints check {made}/rules.yaml --corpus {made}/corpus": "searched 12 documents for contradictions",
    "constraints weigh {made}/rules.yaml --corpus {made}/corpus": "nothing was written; --out FILE keeps",
    "constraints explain {made}/rules.yaml --corpus {made}/corpus --model {made}/model --doc {doc}": "constraints hold",
    "calibrate --model {made}/model --corpus {made}/other --out {out} --no-consistency": "model in ",
    "export crfsuite --model {made}/model --out {out}": " attributes, ",
    "import scores {made}/labels.txt --out {out}": "model in ",
    "clusters import {made}/vectors.txt --out {out} --set clusters=2": "clusters in ",
    "clusters paths {made}/paths.txt --out {out}": "clusters in ",
    "list engines": "certify",
}
"""Commands, and what stands in the last of their results."""
NOTICES = re.compile(r"[a-z, ]+: \d+( of \d+)?( .*)?|next:|concord .*")
"""What stands on standard error: progress, and what could be done next."""


@pytest.mark.parametrize("line", RESULTS)
def test_results_are_on_standard_output_and_nothing_else_is(line: str, made: Path, tmp_path: Path) -> None:
    doc = next(iter(synthesize(1, seed=3, kind="news"))).doc_id
    words = [word.format(made=made, out=tmp_path / "new", doc=doc) for word in line.split()]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    assert RESULTS[line] in done.stdout
    assert [told for told in done.stderr.splitlines() if not NOTICES.fullmatch(told)] == []


# What is proposed


PROPOSED = {
    "after_clusters": [next_steps.after_clusters("a b/words.parquet")],
    "after_proposal": [next_steps.after_proposal("a b", "models/m")],
    "after_gazetteer": [next_steps.after_gazetteer("a b/phrases.tsv")],
    "after_demo": next_steps.after_demo(),
    "after_sweep": [next_steps.after_sweep("sweeps/all of them/")],
}
"""The next steps that commands print, by the function that gives them."""


def shown_by_the_demo() -> Iterator[list[str]]:
    """Each command that `make demo` prints, with 1 in the place of what is known when it runs."""
    tree = ast.parse((ROOT / "concord" / "flows" / "cli" / "demo.py").read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "_step":
            for typed in node.args[1:]:
                assert isinstance(typed, ast.JoinedStr)
                parts = (str(part.value) if isinstance(part, ast.Constant) else "1" for part in typed.values)
                yield shlex.split("".join(parts))


def test_every_next_step_is_a_command() -> None:
    assert {name for name in vars(next_steps) if name.startswith("after_")} == PROPOSED.keys()
    shown = list(shown_by_the_demo())
    assert len(shown) == 5
    for words in [*(words for steps in PROPOSED.values() for words in steps), *shown]:
        typed = shlex.split(shlex.join(words))
        leaf = LEAVES[typed[0]] if typed[0] in LEAVES else LEAVES[" ".join(typed[:2])]
        with leaf.command.make_context(leaf.name, typed[len(leaf.words) :]) as context:
            assert context.params


def messages() -> Iterator[tuple[str, str]]:
    """Every command in backquotes in a text of the package, and the file that it stands in."""
    for path in sorted((ROOT / "concord").glob("**/*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                for line in re.findall(r"``?concord ([a-z][^`]*)``?|Example: concord (.*)", node.value):
                    yield str(path.relative_to(ROOT)), " ".join("".join(line).split())


def test_every_command_that_a_text_names_is_there() -> None:
    groups = {" ".join(name.split()[:-1]) for name in LEAVES} - {""}
    found = 0
    for place, line in messages():
        names = [name for name in (*LEAVES, *groups) if f"{line} ".startswith(f"{name} ")]
        assert names, f"{place}: concord {line}"
        name = max(names, key=len)
        if name in LEAVES:
            known = {text for o in LEAVES[name].command.options.values() for text in (*o.opts, *o.secondary_opts)}
            assert set(re.findall(r"(?<!\S)--[a-z-]+", line)) <= known | {"--help"}, f"{place}: concord {line}"
        found += 1
    assert found > 60


def test_a_flag_shows_no_value_and_no_option_the_name_of_a_python_type() -> None:
    for leaf in leaves():
        for option in leaf.command.options.values():
            shown = option.display_type_rich(typer.Context(leaf.command))
            assert shown == "" if option.is_flag else shown, (leaf.name, option.name)
            assert not re.search(r"\b(bool|str|int|float|list)\b", str(shown)), (leaf.name, option.name)


def test_line_breaks_of_a_docstring_are_none_in_a_help() -> None:
    for leaf in leaves():
        assert not re.search(r"(?<!\n)\n(?!\n)", leaf.command.help or ""), leaf.name
