"""What commands print: no text, label or id of a corpus steers the terminal, or is taken for markup."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.table import Table
from rich.text import Text
from typer.testing import CliRunner

from concord.flows.cli.app import app
from concord.flows.screen.progress import Terminal, say, show
from concord.flows.screen.terminal import show_report
from concord.schemas.document import Document
from concord.schemas.reports import ClusterReport, CorpusReport, LengthFigures, SpanFigures
from concord.schemas.visible import visible
from concord.workers.corpus.ingestion import write_corpus
from concord.workers.corpus.settings import IngestSettings
from concord.workers.learning.trainers import crfsuite
from concord.workers.models.settings import CrfSettings

HOSTILE = "\x1b[31mred\x1b]0;title\x07\x9b1m\x7f\u202egnp.\x08\r[/bold][link=x]"
"""Colours, a title, a bell, an eight-bit sequence, a turn of direction, and what would be markup."""
STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
WRITERS = ("print", "Console", "typer.echo", "click.echo", "sys.stdout.write", "sys.stderr.write")
FLOWS = Path(__file__).parents[1] / "concord" / "flows"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus, a model and constraints, all of whose words, labels, types, ids and names are hostile."""
    folder = tmp_path_factory.mktemp("hostile")
    word = kind = HOSTILE.replace("\r", "")
    documents = [
        Document.build(
            f"{kind}{i}", [["Ada", word, "left", word]], labels=[["O", f"B-{kind}", "O", f"B-{kind}{i % 2}"]]
        )
        for i in range(6)
    ]
    write_corpus(documents, folder / "corpus", source="made up", layout=IngestSettings())
    crfsuite.train(documents, settings=CrfSettings(features="core", max_iterations=5), out=folder / "model")
    rule = {
        "template": "only_in",
        "tokens": {"pattern": "A.*"},
        "labels": ["O"],
        "weight": 2,
        "name": "[/bold]rule[red",
    }
    (folder / "rules.yaml").write_text(json.dumps({"constraints": [rule | {"name": "[/bold]rule[red"}]}))
    (folder / "text.txt").write_text(f"Ada {word} left. {word}\r\n")
    return folder


COMMANDS = {
    "label": "label --model {0}/model --file {0}/text.txt --constraints {0}/rules.yaml --explain --n-best 2 "
    "--confidence marginal",
    "check": "constraints check {0}/rules.yaml --corpus {0}/corpus --model {0}/model",
    "weigh": "constraints weigh {0}/rules.yaml --corpus {0}/corpus",
    "explain": "constraints explain {0}/rules.yaml --corpus {0}/corpus --model {0}/model --doc {1}0",
    "no document": "constraints explain {0}/rules.yaml --corpus {0}/corpus --model {0}/model --doc {1}",
    "no option": "label --model {0}/model --file {0}/text.txt --set {1}=8",
}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_prints_nothing_that_steers_the_terminal(name: str, made: Path) -> None:
    words = [word.format(made, HOSTILE.replace("\r", "")) for word in COMMANDS[name].split()]
    result = CliRunner().invoke(app, words)
    assert result.exception is None or isinstance(result.exception, SystemExit), repr(result.exception)
    assert (result.exit_code == 0) != name.startswith("no "), result.output
    assert not STEERING.findall(result.output)
    assert "␛" in result.output or name in ("check", "weigh")
    if "␛" not in result.output:
        assert "[/bold]rule[red" in "".join(result.output.split())


def test_what_ray_counts_is_shown_by_the_same_console(capsys: pytest.CaptureFixture[str]) -> None:
    lengths = LengthFigures(mean=1.0, shortest=1, p25=1, median=1, p75=1, p95=1, p99=1, longest=1)
    counted = CorpusReport(
        corpus=HOSTILE,
        documents=1,
        with_gold=1,
        rejected=0,
        repeated=0,
        sentences=1,
        tokens=1,
        unknown_tokens=1,
        unknown=1.0,
        scheme="bio",
        labels={f"B-{HOSTILE}": 1},
        spans={HOSTILE: SpanFigures(spans=1, tokens=1)},
        document_tokens=lengths,
        sentence_tokens=lengths,
    )
    show_report(counted)
    out = Terminal()
    tables = [Table("a"), Table(HOSTILE)]
    tables[0].add_row(HOSTILE)
    tables[0].add_row(Text(HOSTILE, style="bold"))
    for table in tables:
        out.print(table)
    show(HOSTILE)
    say(HOSTILE)
    show_report(ClusterReport(words=2, clusterings=(HOSTILE,), examples=[[HOSTILE]], out=HOSTILE))
    shown = capsys.readouterr()
    assert not STEERING.findall(shown.out + shown.err)
    assert shown.out.count("␛") == 2 * (2 + 3 + 1 + 4)
    assert shown.err.count("␛") == 2


def test_json_says_the_same_and_holds_nothing_that_steers(made: Path) -> None:
    result = CliRunner().invoke(app, ["label", "--model", str(made / "model"), "--json", HOSTILE])
    assert not STEERING.findall(result.stdout)
    assert json.loads(result.stdout)["text"] == HOSTILE


def test_a_sign_stands_for_each_character_that_steers() -> None:
    every = "".join(map(chr, range(0x250))) + "".join(map(chr, range(0x2000, 0x2070)))
    shown = visible(every)
    assert len(shown) == len(every)
    assert [a for a, b in zip(every, shown, strict=True) if a != b] == [
        a for a in every if STEERING.match(a) or a in "\u200e\u200f\x0b"
    ]


def written() -> Iterator[tuple[str, str]]:
    """Every place in `flows` that writes to standard output or error by itself: file and call."""
    for path in sorted(FLOWS.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in WRITERS:
                yield path.relative_to(FLOWS).as_posix(), ast.unparse(node)


def test_nothing_else_writes_to_the_terminal() -> None:
    others = [place for place in written() if "visible" not in place[1]]
    assert [file for file, _ in others] == ["cli/app.py"]
    assert "version(" in others[0][1]
