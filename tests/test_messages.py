"""What a newcomer reads after a mistake: the place, the reason, and what to do; nothing that leads astray."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer
from typer.testing import CliRunner

import concord.flows.cli.tree
from concord.flows.cli.app import app
from concord.flows.cli.catalogue import CLUSTER_COMMANDS
from concord.flows.cli.failures import reported
from concord.flows.commands.calibrating import calibrate_model
from concord.workers.corpus.ingestion import write_corpus
from concord.workers.corpus.settings import IngestSettings
from concord.workers.learning.trainers import crfsuite
from concord.workers.models.settings import CalibrationSettings, CrfSettings
from concord.workers.synthesis.made_up import synthesize
from tests.support.kills import full_disk
from tests.support.writers import WRITERS


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Corpora, good and bad, a model and rules."""
    folder = tmp_path_factory.mktemp("made")
    documents = list(synthesize(12, seed=3, kind="news"))
    write_corpus(documents, folder / "good", source="made up", layout=IngestSettings())
    crfsuite.train(documents, settings=CrfSettings(features="core", max_iterations=2), out=folder / "model")
    good = pq.read_table(folder / "good").replace_schema_metadata()
    pq.write_table(good.drop_columns(["labels"]), folder / "no-labels.parquet")
    labels = good.schema.get_field_index("labels")
    pq.write_table(good.set_column(labels, "label", good["labels"]), folder / "other-name.parquet")
    pq.write_table(
        good.set_column(0, "doc_id", pa.array([i + 0.5 for i in range(len(good))])), folder / "numbers.parquet"
    )
    starts = pa.array([[1]] * len(good), pa.list_(pa.int32()))
    bad = good.set_column(good.schema.get_field_index("sentence_starts"), "sentence_starts", starts)
    pq.write_table(bad, folder / "rejects.parquet")
    texts = {"doc_id": ["a"], "text": ["Ada wrote."]}
    pq.write_table(pa.table(texts), folder / "texts.parquet")
    pq.write_table(pa.table(texts | {"doc_id": [1.5]}), folder / "numbered-texts.parquet")
    pq.write_table(pa.table([["a"], ["b"], ["c"]], names=["doc_id", "text", "text"]), folder / "twice.parquet")
    for name in ("raw.csv", "raw.jsonl", "raw.json", "raw.conll", "raw.zip", "RAW.CSV"):
        (folder / name).write_text('{"id": 1, "text": "Ada wrote."}\n' if "json" in name else "id,text\n1,Ada wrote.\n")
    (folder / "list.yaml").write_text("- template: legality\n  weight: hard\n")
    (folder / "rules.yaml").write_text("constraints: [{template: legality, weight: hard}]\n")
    (folder / "fits.yaml").write_text("constraints: [{template: legalty, weight: hard}]\n")
    (folder / "labels.txt").write_text("O\n")
    return folder


class Case(NamedTuple):
    """A command line, its exit code, and what has to stand, and not to stand, in the one message."""

    line: str
    code: int
    said: tuple[str, ...]
    unsaid: tuple[str, ...] = ()


REJECT = "the first: {0}/rejects.parquet, row 0: sentence_starts does not start at 0"
CASES = [
    Case(
        "calibrate --model {0}/model --corpus {0}/rejects.parquet --out {0}/o", 3, (REJECT, "none of the 12 documents")
    ),
    Case("constraints check {0}/rules.yaml --corpus {0}/rejects.parquet", 3, ("row 0: sentence_starts does not",)),
    Case("constraints weigh {0}/rules.yaml --corpus {0}/rejects.parquet", 3, ("row 0: sentence_starts does not",)),
    Case("calibrate --model {0}/model --corpus {0}/no-labels.parquet --out {0}/o", 3, ("column 'labels' is missing",)),
    Case("calibrate --model {0}/model --corpus {0}/other-name.parquet --out {0}/o", 3, ("did you mean 'label'?",)),
    Case("corpus stats --corpus {0}/texts.parquet --text-column txt", 3, ("'txt'; did you mean 'text'?", "--text-col")),
    Case("corpus stats --corpus {0}/texts.parquet --id-column id", 3, ("column 'id' is missing", "--id-column")),
    Case(
        "corpus stats --corpus {0}/numbered-texts.parquet",
        3,
        ("has type double, want string; write it as", "--id-column"),
    ),
    Case("corpus stats --corpus {0}/numbers.parquet", 3, ("'doc_id' has type double, want string; write the",)),
    Case("corpus stats --corpus {0}/twice.parquet", 3, ("column 'text' is there twice",), ("missing",)),
    Case("ingest text {0}/numbered-texts.parquet --out {0}/o", 3, ("--set id_column=NAME",), ("--id-column",)),
    Case("ingest text {0}/texts.parquet --set text_column=txt --out {0}/o", 3, ("--set text_column=NAME",)),
    Case("ingest text {0}/raw.conll --out {0}/o", 3, ("`concord ingest columns`, or conll",)),
    Case("ingest text {0}/raw.zip --out {0}/o", 3, ("unpack it",)),
    Case("constraints check {0}/list.yaml --corpus {0}/good", 3, ("write 'constraints:' above the entries",)),
    Case("constraints check {0}/fits.yaml --corpus {0}/good", 3, ("did you mean 'legality'?",)),
    Case("constraints check {0}/rules.yaml --corpus {0}/good --engine gibs", 2, ("did you mean 'gibbs'?",)),
    Case("label --model models:/news@champion a", 3, ("models:/news@champion is not in", "--register NAME")),
    Case("label --model models:/news a", 3, ("is no model of a registry; write models:/NAME", "none yet")),
    Case("label --model models:/news/7 a", 3, ("models:/news/7 is not in the registry",)),
    Case("label --model {0}/model --file /dev/zero", 3, ("/dev/zero: more than 256 MiB",)),
    Case(
        "train --corpus {0}/good --out {0}/o --trainer crfsuite --pool {0}/good",
        2,
        ("--pool: trainer", "have it: hmm"),
    ),
    Case("evaluate --run {0}/o --corpus {0}/good --measure span", 2, ("did you mean 'spans'?",)),
    Case("constraints mine --corpus {0}/good --out {0}", 3, ("is",)),
    Case("clusters import {0}/labels.txt --out {0}/o --set cluster=3", 2, ("did you mean 'clusters'?",)),
]


def test_a_mistake_is_told_with_its_place_and_what_to_do(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CONCORD_HOME", str(tmp_path / "home"))
    for line, code, said, unsaid in CASES:
        result = CliRunner().invoke(app, [word.format(made) for word in line.split()])
        message = " ".join(result.stderr.splitlines()[-1].split()) if result.stderr else ""
        told = f"concord {line}\n{result.output}\n{result.exception!r}"
        assert result.exit_code == code, told
        assert message.startswith("concord: "), told
        assert [part for part in said if part.format(made) not in message] == [], told
        assert [part for part in unsaid if part in message] == [], told
        assert not (made / "o").exists(), told


def test_the_advice_for_other_kinds_of_files_works(made: Path, tmp_path: Path) -> None:
    for name in ("raw.csv", "raw.jsonl"):
        told = CliRunner().invoke(app, ["corpus", "stats", "--corpus", str(made / name)])
        command = re.findall(r"`concord (ingest text .*) --text-column NAME --out FOLDER`", told.stderr)
        words = [*command[0].split(), "--text-column", "text", "--out", str(tmp_path / name)]
        assert CliRunner().invoke(app, words).exit_code == 0, told.stderr


def test_an_ingest_that_read_nothing_does_not_block_the_corrected_command(tmp_path: Path) -> None:
    source = tmp_path / "a.tsv"
    source.write_bytes(b"S\xf3\tB-PER\n")
    command = ["ingest", "columns", str(source), "--out", str(tmp_path / "out")]
    assert CliRunner().invoke(app, command).exit_code == 3
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["_rejects.parquet"]
    again = CliRunner().invoke(app, [*command, "--set", "encoding=latin-1", "--json"])
    assert json.loads(again.stdout)["written"] == 1, again.stderr
    assert "or --overwrite" in CliRunner().invoke(app, command).stderr


def test_some_rejects_are_told_where_documents_are_read(
    made: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    table, other = pq.read_table(made / "good"), pq.read_table(made / "rejects.parquet")
    some = pa.concat_tables([other.slice(0, 1), table.replace_schema_metadata().slice(1)])
    pq.write_table(some, tmp_path / "some.parquet")
    given: dict[str, Any] = {"settings": CalibrationSettings(), "consistency": False}
    calibrate_model(str(made / "model"), str(tmp_path / "some.parquet"), str(tmp_path / "o"), **given)
    said = " ".join(capfd.readouterr().err.split())
    assert f"1 documents are rejects; the first: {tmp_path}/some.parquet, row 0: sentence_starts" in said


def test_calibrating_on_a_full_disk_names_the_target(made: Path, tmp_path: Path) -> None:
    words = ["calibrate", "--model", str(made / "model"), "--corpus", str(made / "good"), "--out", str(tmp_path / "o")]
    for after in (0, 2_000):
        with full_disk(after=after):
            result = CliRunner().invoke(app, [*words, "--no-consistency"])
        assert result.stderr.splitlines()[-1].startswith(f"concord: {tmp_path / 'o'}: cannot be written"), result.stderr
        assert list(tmp_path.iterdir()) == []


RESUMED = {"adopt", "reprocess", "codl", "papers", "sweep run"}


def test_only_what_goes_on_after_an_interruption_says_so(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*, resumes: bool) -> None:
        with reported(resumes=resumes):
            raise KeyboardInterrupt

    monkeypatch.setattr(concord.flows.cli.tree, "reported", interrupted)
    for name, writer in WRITERS.items():
        words = writer.words(made, None, tmp_path / "o")
        said = CliRunner().invoke(app, words).stderr
        assert f"the same command {'goes on where' if name in RESUMED else 'begins anew'}" in said, (name, said)
    wrapped = ["train", "--corpus", "c", "--out", "o", "--effort", "best", "--trainer", "trigram"]
    assert "goes on where this one stopped" in CliRunner().invoke(app, wrapped).stderr
    assert WRITERS.keys() > RESUMED


def test_the_help_of_clusters_lists_what_option_takes() -> None:
    group: Any = typer.main.get_command(app)
    commands = group.commands["clusters"].commands
    assert CLUSTER_COMMANDS.keys() == commands.keys()  # and none is left out of `concord list clusters`
    for name, kind in CLUSTER_COMMANDS.items():
        text = " ".join(commands[name].epilog.split())
        for option, field in kind.model_fields.items():
            default = field.default
            shown = ",".join(map(str, default)) if isinstance(default, tuple) else str(default)
            assert re.search(rf"\b{option}: [^[]*\[{shown}(; from \d+[^]]*)?\]", text), (name, option, text)
