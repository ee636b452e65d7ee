"""Registries: ours and what other packages register, one door for both; entry points here are made up on a path."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from concord.flows.cli.app import app
from concord.flows.cli.commands import COMMANDS, _written, summary_of
from concord.flows.cli.failures import Exit
from concord.flows.cli.typer_internals import command_of
from concord.schemas.distribution import DISTRIBUTION
from concord.testing import check_command
from concord.workers import parts
from concord.workers.compiling.code import ROOT
from concord.workers.compiling.kept_digests import workers_digest
from concord.workers.corpus.readers.registry import READERS
from concord.workers.corpus.tokenizers.registry import TOKENIZERS
from concord.workers.evaluation.measures import MEASURES
from concord.workers.inference.core.engine import Solver
from concord.workers.inference.registry import SOLVERS
from concord.workers.learning.trainers.registry import TRAINERS
from concord.workers.learning.weights.penalties import PENALTIES
from concord.workers.papers.canisius.trigram_trials import SAMPLING
from concord.workers.parts import Group, PartError, Registry, a_class, a_function, an_entry
from concord.workers.remote.actor import CodeMismatchError, check_code
from tests.support.registries import REGISTRIES


def install(
    folder: Path,
    name: str,
    lines: Mapping[str, str],
    code: str = "",
    *,
    module: str = "",
    version: str = "1.0",
    group: Group = Group.ENGINES,
) -> None:
    """A package as an installer leaves it: its metadata, ``lines`` of a group, and one module."""
    info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    entries = "".join(f"{entry} = {value}\n" for entry, value in lines.items())
    (info / "entry_points.txt").write_text(f"[{group}]\n{entries}")
    if module:
        (folder / f"{module}.py").write_text(code)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder on the path; what is installed there is not known any more afterwards."""
    monkeypatch.syspath_prepend(str(tmp_path))
    before = set(sys.modules)
    parts.registered_entries.cache_clear()
    yield tmp_path
    parts.registered_entries.cache_clear()
    for name in set(sys.modules) - before:
        del sys.modules[name]


PAPERS = ["annealed", "anytime", "csp", "evolution"]
"""Concord's own engines with entry points: every registry of engines has them."""


def engines(**own: Any) -> Registry[Any]:
    """A new registry of engines: functions, so that a module of one line has a good one, beside `PAPERS`."""
    function = a_function("a function")
    return Registry(
        Group.ENGINES, own or {"ours": len}, lambda part: None if isinstance(part, Solver) else function(part)
    )


def test_every_kind_of_part_is_registered_and_all_of_ours_pass_their_own_check() -> None:
    assert set(REGISTRIES) == set(Group)
    for group, registry in REGISTRIES.items():
        assert registry.group is group
        assert len(list(registry.items())) == len(registry) > 0
        assert {registry.distribution(name) for name in registry} == {DISTRIBUTION}


def test_what_pyproject_registers_is_installed() -> None:
    """An editable install of before has the entry points of before: `make` renews it."""
    project = tomllib.loads((ROOT.parent / "pyproject.toml").read_text())["project"]
    wanted = {
        (group, name, value)
        for group, entries in project["entry-points"].items()
        for name, value in entries.items()
        if group in set(Group)  # others are those of programs that find concord by them, such as spaCy
    }
    assert {(entry.group, entry.name, entry.value) for entry in parts.own_entries(Group)} == wanted
    places = {
        Group.COMMANDS: "concord.flows.cli.",
        Group.MODELS: "concord.workers.models.",
        Group.PAGES: "concord.flows.labelling.",
        Group.TASKS: "concord.workers.remote.",
    }
    papers = "concord.workers.papers."
    assert all(value.startswith((papers, places.get(Group(group), papers))) for group, _, value in wanted)
    assert sorted(name for group, name, _ in wanted if group == Group.ENGINES) == PAPERS


def test_ours_come_first_and_others_by_name(folder: Path) -> None:
    install(folder, "two", {"b": "two_parts:two", "a": "two_parts:one"}, "one, two = abs, max", module="two_parts")
    registry = engines(z=len, y=sum)
    assert list(registry) == ["z", "y", *PAPERS, "a", "b"]
    assert (len(registry), registry["a"], registry["b"], registry["z"]) == (8, abs, max, len)
    assert [registry.distribution(name) for name in registry] == [*[DISTRIBUTION] * 6, "two", "two"]
    assert ("b" in registry, "c" in registry, registry.get("c")) == (True, False, None)
    assert (registry.name_of(sum), registry.name_of(max)) == ("y", "b")
    with pytest.raises(KeyError):
        registry["c"]
    with pytest.raises(KeyError):
        registry.distribution("c")
    with pytest.raises(PartError, match=r"no entry point of the group concord\.engines leads to it"):
        registry.name_of(min)


def test_a_part_is_imported_when_it_is_asked_for_and_a_broken_one_leaves_the_others(folder: Path) -> None:
    install(folder, "good", {"good": "good_parts:part"}, "part = abs", module="good_parts")
    install(folder, "bad", {"bad": "bad_parts:part"}, "import nowhere_to_be_found", module="bad_parts")
    registry = engines()
    assert list(registry) == ["ours", *PAPERS, "bad", "good"]
    assert "bad" in registry
    assert not {"good_parts", "bad_parts"} & set(sys.modules)
    assert registry["good"] is abs
    assert registry.name_of(abs) == "good"
    with pytest.raises(PartError) as raised:
        registry["bad"]
    assert str(raised.value) == (
        "package bad 1.0, entry point concord.engines 'bad' = bad_parts:part: cannot be imported: "
        "ModuleNotFoundError: No module named 'nowhere_to_be_found'"
    )


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("part = (", "cannot be imported: SyntaxError: "),
        ("other = 1", "cannot be imported: AttributeError: module 'odd_parts' has no attribute 'part'"),
        ("raise ValueError('two\\nlines')", "cannot be imported: ValueError: two lines"),
        ("part = 3", "want a function, not a int"),
        ("class part: pass", "want a function, not the class part"),
    ],
)
def test_what_is_wrong_with_a_part_is_one_line(code: str, said: str, folder: Path) -> None:
    install(folder, "odd", {"odd": "odd_parts:part"}, code, module="odd_parts")
    with pytest.raises(PartError) as raised:
        engines()["odd"]
    assert str(raised.value).startswith(f"package odd 1.0, entry point concord.engines 'odd' = odd_parts:part: {said}")
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    "access",
    [list, len, lambda registry: registry["ours"], lambda registry: "ours" in registry, dict],
    ids=["list", "len", "get", "in", "dict"],
)
def test_a_name_of_ours_is_taken_by_nobody(access: Any, folder: Path) -> None:
    install(folder, "thief", {"ours": "thief_parts:part"})
    with pytest.raises(PartError) as raised:
        access(engines())
    assert str(raised.value) == (
        "package thief 1.0, entry point concord.engines 'ours' = thief_parts:part: concord has a part of that name "
        "itself; give yours another one"
    )


@pytest.mark.parametrize("name", PAPERS)
def test_nor_is_one_of_ours_with_an_entry_point(name: str, folder: Path) -> None:
    install(folder, "a-thief", {name: "thief_parts:part"})
    with pytest.raises(PartError, match=rf"^package a-thief 1\.0, .*'{name}'.*: concord has a part of that name"):
        engines()["ours"]


def test_concord_under_another_name_is_taken_out_first(folder: Path) -> None:
    """An installation of before the distribution had its name has the same parts."""
    install(folder, "concord", {"annealed": "concord.workers.papers.finkel.engines:ANNEALED"})
    with pytest.raises(PartError) as raised:
        list(engines())
    assert str(raised.value) == (
        "package concord 1.0: it is concord under another name than concord-nlp; take it out with "
        "`pip uninstall concord`, and install concord-nlp again"
    )


def test_a_name_that_two_packages_claim_is_nobodys(folder: Path) -> None:
    install(folder, "first", {"same": "first_parts:part"})
    install(folder, "second", {"same": "second_parts:part"}, version="2.5")
    with pytest.raises(PartError, match=r"^package second 2\.5, .*'same'.*: first 1\.0 claims the name, too; take one"):
        list(engines())


def test_checks_say_what_is_wrong() -> None:
    engine: Any = SOLVERS["viterbi"]
    reader: Any = READERS["conll"]
    words: Any = TOKENIZERS["words"]
    good: dict[Group, list[Any]] = {
        Group.ENGINES: [engine],
        Group.READERS: [reader],
        Group.TRAINERS: [TRAINERS["hmm"]],
        Group.MEASURES: [MEASURES["labels"]],
        Group.PENALTIES: [PENALTIES["odds"]._replace(by=PENALTIES["tuned"].by, settings=PENALTIES["tuned"].settings)],
    }
    bad: list[tuple[Group, Any, str]] = [
        (Group.ENGINES, reader, "want a Solver, not a ReaderEntry"),
        (Group.ENGINES, engine._replace(solve=None), "its solve is no function, but a NoneType"),
        (
            Group.ENGINES,
            engine._replace(settings=int),
            "its settings: want a class after EngineSettings",
        ),
        (Group.ENGINES, engine.solve, "want a Solver, not a function"),
        (Group.READERS, reader._replace(settings=3), "its settings: want a class after ReaderSettings, not a int"),
        (Group.TEMPLATES, len, "want a class after Template, not a builtin_function_or_method"),
        (Group.TEMPLATES, int, "want a class after Template, not the class int"),
        (Group.MODELS, "path", "want a function of a folder that loads a model, not a str"),
        (Group.PAGES, "page", "want a function that keeps a page of a run, not a str"),
        (Group.FEATURES, (), "want a tuple of feature templates"),
        (Group.FEATURES, ("word",), "want a tuple of feature templates"),
        (Group.MEASURES, MEASURES["labels"]._replace(figures=("f2",)), "no figure is called 'f2'"),
        (Group.MEASURES, engine, "want a Measure, not a Solver"),
        (Group.PENALTIES, PENALTIES["odds"]._replace(by=PENALTIES["tuned"].by), "want a class after TunedSettings"),
        (Group.PENALTIES, PENALTIES["odds"]._replace(by=PENALTIES["learned"].by), "want a class after LearnedSettings"),
        (Group.TOKENIZERS, len, "want a Tokenizer, not a builtin_function_or_method"),
        (Group.TOKENIZERS, words._replace(open=3), "its open is no function, but a int"),
        (Group.TOKENIZERS, TOKENIZERS["words"]._replace(version=""), "want a version, or a library whose version it"),
        (Group.TOKENIZERS, TOKENIZERS["spacy"]._replace(version="1"), "want a version, or a library whose version it"),
        (Group.TRAINERS, TRAINERS["hmm"]._replace(sampling=SAMPLING), "want a class after TrigramSettings"),
    ]
    for group, entries in good.items():
        for entry in entries:
            assert Registry(group, {"x": entry}, REGISTRIES[group].wrong)["x"] is entry
    for group, part, said in bad:
        with pytest.raises(PartError) as raised:
            Registry(group, {"x": part}, REGISTRIES[group].wrong)["x"]
        assert str(raised.value).startswith(f"{group} 'x': "), said
        assert said in str(raised.value)
    assert a_class(int)(bool) is None
    assert an_entry(type(engine))(engine) is None


def test_names_and_settings_are_known_without_kernels_and_nothing_is_looked_up_before() -> None:
    script = """
import sys
import concord.flows.cli.app
from concord.workers import parts
from concord.workers.inference.registry import SOLVERS
assert parts.registered_entries.cache_info().misses == 0
assert not {"numba", "ortools"} & set(sys.modules), "after the import"
for name, solver in SOLVERS.items():
    solver.settings()
assert parts.registered_entries.cache_info().misses == 1
assert not {"numba", "ortools"} & set(sys.modules), "after the listing"
"""
    subprocess.run([sys.executable, "-c", script], check=True)


# Digests


DIGESTS = """
import os, sys
from concord.workers.compiling import code, kept_digests
code.files_behind((*code.LABELLING_CODE, *code.WORKERS))  # read once
for path in ["", *sys.argv[1:]]:
    if not os.fork():
        sys.path[:0] = [path] if path else []
        print(kept_digests.code_digest(), kept_digests.workers_digest(), flush=True)
        os._exit(0)
    assert os.wait()[1] == 0
"""
"""Each folder is on the path of a process of its own, which has looked for no package yet; before them none is."""


def digests(*paths: Path) -> list[tuple[str, str]]:
    """Of labelling and of workers: without a folder more on the path, and with each alone."""
    command = [sys.executable, "-c", DIGESTS, *map(str, paths)]
    run = subprocess.run(command, capture_output=True, text=True, check=True, env={"PATH": ""})
    code, workers = zip(*(line.split() for line in run.stdout.splitlines()), strict=True)
    return list(zip(code, workers, strict=True))


def test_the_key_holds_packages_that_label_and_workers_all_that_register_parts(tmp_path: Path) -> None:
    engine, same, newer, edited, reader, other = (tmp_path / name for name in "abcdef")
    install(engine, "odd", {"odd": "odd_parts:part"}, "part = 3", module="odd_parts")
    install(same, "odd", {"odd": "odd_parts:part"}, "part = 3", module="odd_parts")
    install(newer, "odd", {"odd": "odd_parts:part"}, "part = 3", module="odd_parts", version="1.1")
    install(edited, "odd", {"odd": "odd_parts:part"}, "part = 4", module="odd_parts")
    install(reader, "odd", {"odd": "odd_parts:part"}, "part = 3", module="odd_parts")
    entries = reader / "odd-1.0.dist-info" / "entry_points.txt"
    entries.write_text(entries.read_text().replace(Group.ENGINES, Group.READERS))
    install(other, "odd", {"odd": "odd_parts:part"}, "part = 3", module="odd_parts")
    again = tmp_path / "g"
    install(again, "odd", {"odd": "odd_parts:other"}, "part = 3", module="odd_parts")
    entries = other / "odd-1.0.dist-info" / "entry_points.txt"
    entries.write_text("[console_scripts]\nodd = odd_parts:part\n")
    none, *each = digests(engine, same, newer, edited, reader, other, again)
    found = dict(zip("abcdefg", each, strict=True))
    assert found["a"] == found["b"]
    assert len({none[0], *(found[name][0] for name in "acdg")}) == 5
    assert len({none[1], *(found[name][1] for name in "acdeg")}) == 6
    assert found["e"][0] == none[0], "a reader changes no answer"
    assert found["f"] == none


def test_the_digest_is_of_all_files_of_a_package_but_compiled_ones(folder: Path) -> None:
    install(folder, "whole", {"x": "whole_parts.deep.module:part"})
    deep = folder / "whole_parts" / "deep"
    deep.mkdir(parents=True)
    (deep / "module.py").write_text("part = abs")
    seen = [parts.foreign_code(parts.LABELLING_PARTS)]
    (deep / "__pycache__").mkdir()
    (deep / "__pycache__" / "module.pyc").write_bytes(b"x")
    assert parts.foreign_code(parts.LABELLING_PARTS) == seen[0]
    for name, content in (("table.json", b"1"), ("table.json", b"2"), ("other.json", b"2")):
        (deep / name).write_bytes(content)
        seen.append(parts.foreign_code(parts.LABELLING_PARTS))
    assert len({str(one) for one in seen}) == 4
    assert all(one[0].startswith("whole 1.0=") for one in seen)
    assert parts.foreign_code([Group.READERS]) == []
    assert "whole_parts" not in sys.modules


def test_a_worker_with_other_packages_says_which_it_has(folder: Path) -> None:
    check_code(workers_digest())
    with pytest.raises(CodeMismatchError, match=r"the same packages with parts for it: here none$"):
        check_code("f" * 64)
    install(folder, "here", {"x": "here_parts:part"}, version="1.2")
    parts.registered_entries.cache_clear()
    with pytest.raises(CodeMismatchError, match=r"the same packages with parts for it: here here 1\.2$"):
        check_code("f" * 64)


# Commands


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The commands are looked up anew, now and afterwards."""
    vars(COMMANDS).pop("_registered", None)
    yield
    vars(COMMANDS).pop("_registered", None)


def asked(*words: str) -> tuple[int, str]:
    """Exit code of a command, and what it says of errors."""
    ended = CliRunner().invoke(app, list(words))
    return ended.exit_code, ended.stderr


@pytest.mark.usefixtures("commands")
def test_a_command_of_no_use_is_one_line_and_leaves_the_others(folder: Path) -> None:
    lines = {"gone": "bad_commands:tree", "wrong": "wrong_commands:tree"}
    install(folder, "bad", lines, "import nowhere_to_be_found", module="bad_commands", group=Group.COMMANDS)
    (folder / "wrong_commands.py").write_text("tree = 7")
    place = "package bad 1.0, entry point concord.commands"
    code, said = asked("gone", "--x")
    assert (code, said.count("\n")) == (Exit.INPUT, 1)
    assert f"{place} 'gone' = bad_commands:tree: cannot be imported: ModuleNotFoundError" in said
    code, said = asked("wrong")
    assert (code, said.count("\n")) == (Exit.INPUT, 1)
    assert "want a CommandTree, not a int" in said
    listed = CliRunner().invoke(app, ["--help"])
    assert listed.exit_code == 0
    assert "cannot be imported" in listed.output
    assert "reprocess" in listed.output
    assert asked("list", "--help") == (0, "")


@pytest.mark.usefixtures("commands")
@pytest.mark.parametrize("words", [["label"], ["list"], ["--help"]], ids=" ".join)
def test_a_command_that_takes_the_name_of_ours_is_one_line(folder: Path, words: list[str]) -> None:
    install(folder, "other", {"label": "other_commands:tree"}, "", module="other_commands", group=Group.COMMANDS)
    code, said = asked(*words)
    assert (code, said.count("\n")) == (Exit.INPUT, 1)
    assert "package other 1.0, entry point concord.commands 'label' = other_commands:tree: concord has a part" in said


@pytest.mark.usefixtures("commands")
def test_an_installation_of_before_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("concord.flows.cli.commands.own_entries", lambda _groups: [])
    code, said = asked("label")
    assert (code, said.count("\n")) == (Exit.INPUT, 1)
    assert "install it again" in said


@pytest.mark.parametrize("name", COMMANDS)
def test_ours_are_listed_as_their_help_says_and_keep_the_contract(name: str) -> None:
    check_command(name, COMMANDS[name])
    first = str(command_of(COMMANDS[name], name).help).strip().partition("\n\n")[0]
    assert _written(name) is not None, "read without an import"
    assert summary_of(name) == " ".join(first.split())


def test_the_list_of_commands_imports_none_of_them() -> None:
    script = (
        "import sys; sys.argv = ['concord', '--help']\n"
        "from concord.flows.cli.app import app\n"
        "try: app()\nexcept SystemExit: pass\n"
        "print([name for name in sys.modules if name.endswith('_cli') or name in ('numpy', 'pydantic')])"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout.splitlines()[-1] == "[]"
