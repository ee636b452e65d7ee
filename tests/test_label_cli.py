"""`concord label`: texts labelled in this process, from the command line and from Python."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from concord.flows.cli.app import app
from concord.flows.cli.label_cli import _texts
from concord.flows.commands.label import open_labeller
from concord.schemas.document import Batch, Document
from concord.schemas.errors import CorpusError, DocumentError
from concord.schemas.labelled import LabelledText
from concord.schemas.run import RunSettings
from concord.workers.constraints.consistency import LabelConsistency, PairCounts
from concord.workers.corpus.settings import TextReaderSettings
from concord.workers.labelling.labelled import check_settings, label_batch
from concord.workers.learning.trainers import crfsuite
from concord.workers.models.crf import KIND
from concord.workers.models.folder import update_manifest
from concord.workers.models.saved_consistency import EXTRA, consistency_extra
from concord.workers.models.settings import CrfSettings
from concord.workers.synthesis.made_up import synthesize

MADE = list(synthesize(30, seed=2, kind="news"))
TEXT = " ".join(MADE[0].tokens[:60]) + "\n\nÉtude — naïve."
RULES = """
constraints:
  - template: only_in
    name: nothing is a name
    tokens: {pattern: '.*'}
    labels: [O]
    weight: 30
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of few iterations, with label consistency."""
    folder = tmp_path_factory.mktemp("nopos")
    model = crfsuite.train(MADE, settings=CrfSettings(features="rich-nopos", max_iterations=12), out=folder)
    extra = consistency_extra(LabelConsistency(PairCounts.of(MADE, model.labels)))
    update_manifest(folder, kind=KIND, extras={EXTRA: extra})
    return folder


def call(*arguments: object, code: int = 0, given: bytes | None = None) -> Any:
    result = CliRunner().invoke(app, ["label", *map(str, arguments)], input=given)
    assert result.exit_code == code, result.output
    return result


class Terminal(io.TextIOWrapper):
    def isatty(self) -> bool:
        return True


def test_each_line_of_a_terminal_is_a_text(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal(io.BytesIO(b"Ada wrote.\n \nShe left London.\n")))
    labeller, settings = open_labeller(str(model)), TextReaderSettings()
    texts = _texts(None, [])
    read = [labeller.read(raw, settings) for raw in texts]
    assert [(one.doc_id, one.tokens) for one in read] == [
        ("line 1", ["Ada", "wrote", "."]),
        ("line 3", ["She", "left", "London", "."]),
    ]


def test_a_text_is_the_same_from_an_argument_a_file_standard_input_and_python(model: Path, tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text(TEXT)
    answers = [
        call("--model", model, "--json", TEXT),
        call("--model", model, "--json", "--file", file),
        call("--model", model, "--json", given=TEXT.encode()),
    ]
    found = [LabelledText.model_validate_json(answer.stdout) for answer in answers]
    assert [one.doc_id for one in found] == ["text", str(file), "standard input"]
    same = [one.model_copy(update={"doc_id": "text"}) for one in found]
    assert same == [open_labeller(str(model))(TEXT)] * 3
    assert found[0].text == TEXT
    assert found[0].status == "optimal"
    assert len(found[0].tokens) == len(found[0].labels) == len(found[0].viterbi_labels)
    assert len(found[0].entities) > 3
    assert all(TEXT[e.char_start : e.char_end] == e.text for e in found[0].entities)


def test_a_mark_of_byte_order_is_no_word_but_has_a_place_in_the_text(model: Path) -> None:
    label = open_labeller(str(model))
    plain, marked = label(TEXT), label(f"\ufeff{TEXT}")
    assert marked.text == f"\ufeff{TEXT}"
    assert (marked.tokens, marked.labels) == (plain.tokens, plain.labels)
    places = [(one.char_start, one.char_end) for one in plain.entities]
    assert [(one.char_start, one.char_end) for one in marked.entities] == [
        (a + 1, b + 1) for a, b in places if a is not None and b is not None
    ]
    assert places


def test_an_answer_is_what_a_run_gives(model: Path) -> None:
    labeller = open_labeller(str(model), settings=RunSettings(engine="gibbs", seed=3))
    document = MADE[1]
    (answer,) = label_batch(
        Batch.of([document]),
        model=labeller.model,
        constraints=labeller.constraints,
        settings=check_settings(RunSettings(engine="gibbs", seed=3)),
    ).decoded
    found = labeller.document(document)
    assert list(found.labels) == labeller.model.labels.decode(answer.labels)
    assert (found.score, found.bound, found.gap) == (answer.objective, answer.bound, answer.gap)
    assert {entity.char_start for entity in found.entities} == {None}


def test_several_files_are_an_object_each(model: Path, tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).write_text(f"This is {name}.")
    lines = call("--model", model, "--json", "--file", tmp_path / "a", "--file", tmp_path / "b").stdout.splitlines()
    assert [json.loads(line)["text"] for line in lines] == ["This is a.", "This is b."]


def test_people_see_the_text_with_its_entities(model: Path) -> None:
    result = call("--model", model, TEXT)
    found = open_labeller(str(model))(TEXT)
    first = found.entities[0]
    assert f"[{first.text} {first.type}]" in result.stdout
    bare = result.stdout.rpartition("\ntext:")[0].replace("[", "")
    for kind in {entity.type for entity in found.entities}:
        bare = bare.replace(f" {kind}]", "")
    assert bare.split() == TEXT.split()
    assert f"{len(found.entities)} entities in {len(found.tokens)} tokens; optimal, score" in result.stdout


def test_explanations_show_what_constraints_change(model: Path, tmp_path: Path) -> None:
    rules = tmp_path / "rules.yaml"
    rules.write_text(RULES)
    given = ("--model", model, "--constraints", rules, "--explain", TEXT)
    found = LabelledText.model_validate_json(call(*given, "--json").stdout)
    assert found.entities == ()
    assert found.explanation is not None
    effects = {effect.name: effect for effect in found.explanation.effects}
    consistency = {"consistent", "consistent_subsequence", "consistent_unlabelled"}
    assert set(effects) == {"nothing is a name", *consistency}
    rule = effects["nothing is a name"]
    assert rule.cost > 0
    assert {change.label for change in rule.changes} == {"O"}
    assert not any(effects[name].changes for name in consistency)
    shown = call(*given)
    assert "nothing is a name" in shown.stdout
    alone = LabelledText.model_validate_json(call("--model", model, "--no-consistency", "--json", TEXT).stdout)
    assert (found.viterbi_labels, found.viterbi_entities) == (alone.labels, alone.entities)
    assert found.viterbi_local == pytest.approx(alone.score)
    apart = found.viterbi_local - found.local
    assert apart > 0
    assert found.viterbi_local - found.viterbi_penalty < found.score
    assert f"the model alone: {call('--model', model, '--no-consistency', TEXT).stdout[:40]}" in shown.stdout
    assert f"better by {apart:.4f} nats under the model" in shown.stdout
    assert "labels that the constraints changed: " in shown.stdout
    unasked = call("--model", model, "--explain", "--no-consistency", TEXT)
    assert "labels that the constraints changed: none" in unasked.stdout


def test_nothing_that_takes_long_to_import_is_imported_without_need(model: Path) -> None:
    script = (
        "import sys; from concord.flows.cli.app import app\n"
        f"try: app(['label', '--model', {str(model)!r}, '--explain', 'Ada wrote to Charles.'])\n"
        "except SystemExit as left: assert not left.code\n"
        "print({'ray', 'prefect', 'mlflow', 'ortools', 'sklearn', 'matplotlib'} & set(sys.modules))"
    )
    found = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    assert found.stdout.splitlines()[-1] == "set()"


@pytest.mark.parametrize(
    ("arguments", "given", "code", "message"),
    [
        (("--model", "{model}", "  \n"), None, 3, "text: nothing in this file"),
        (("--model", "{model}"), b"", 3, "standard input: nothing in this file"),
        (("--model", "{model}", "--file", "{tmp}/nowhere"), None, 3, "nowhere: No such file"),
        (
            ("--model", "{model}"),
            b"a\nS\xf3",
            3,
            "line 2: not UTF-8 at byte 3 of the file; if it is Latin-1: --encoding",
        ),
        (("--model", "{model}"), b"a\0", 3, "NUL byte"),
        (("--model", "{model}", "--encoding", "utf-99"), b"a", 2, "no text encoding is called 'utf-99'"),
        (("--model", "{model}", "--language", "xx-yy", "a"), None, 2, "language 'xx-yy': is no code of a language"),
        (("--model", "{model}", "--file", "{tmp}/x", "a"), None, 2, "give a text or --file, not both"),
        (("--model", "{model}", "--engine", "gips", "a"), None, 2, "no engine is called 'gips'"),
        (("--model", "{model}", "--set", "swoops=3", "a"), None, 2, "of engine certify"),
        (("--model", "{tmp}/no-model", "a"), None, 3, "is not a model folder"),
        (("a",), None, 2, "Missing option"),
    ],
)
def test_bad_input_is_one_line_and_its_exit_code(
    arguments: tuple[str, ...], given: bytes | None, code: int, message: str, model: Path, tmp_path: Path
) -> None:
    typed = [argument.format(model=model, tmp=tmp_path) for argument in arguments]
    said = " ".join(call(*typed, code=code, given=given).stderr.split())
    assert message in said
    assert "Traceback" not in said


def test_latin_1_is_read_where_it_is_named(model: Path) -> None:
    answer = call("--model", model, "--json", "--encoding", "latin-1", given="Só".encode("latin-1"))
    assert json.loads(answer.stdout)["text"] == "Só"
    answer = call("--model", model, "--json", "--encoding", "latin-1", "Só")
    assert json.loads(answer.stdout)["text"] == "Só"


def test_a_model_that_needs_parts_of_speech_says_so_of_raw_text(tmp_path: Path) -> None:
    model = tmp_path / "model"
    crfsuite.train(MADE[:2], settings=CrfSettings(features="rich", max_iterations=1), out=model)
    said = call("--model", model, "Ada wrote.", code=3).stderr
    assert said.count("\n") == 1
    assert "text: the model" in said
    assert "reads the column 'pos', which is not there (there are tokens)" in said
    assert "core+mentions+clusters+entities" in said
    with pytest.raises(CorpusError, match="'pos'"):
        open_labeller(str(model)).explain(Document.build("d", [["Ada"]]))


def test_a_text_whose_hard_constraints_cannot_hold_can_be_refused(model: Path, tmp_path: Path) -> None:
    rules = tmp_path / "rules.yaml"
    rules.write_text(
        RULES.replace("30", "hard")
        + RULES.partition("constraints:\n")[2]
        .replace("[O]", "[B-PER]")
        .replace("nothing is a name", "all are")
        .replace("30", "hard")
    )
    settings = RunSettings(engine="certify", on_infeasible="reject")
    labeller = open_labeller(str(model), constraints=[str(rules)], settings=settings)
    with pytest.raises(DocumentError, match="document 'text': no labelling keeps all hard constraints"):
        labeller("Ada wrote.")


def test_how_sure_entities_are_is_shown_where_it_is_asked_for(model: Path) -> None:
    found = LabelledText.model_validate_json(call("--model", model, "--json", "--confidence", "margin", TEXT).stdout)
    assert all(0 < (entity.probability or 0) <= 1 for entity in found.entities)
    assert {entity.margin_status for entity in found.entities} <= {"exact", "exact-by-solver", "bound"}
    first = found.entities[0]
    shown = call("--model", model, "--confidence", "margin", TEXT).stdout
    assert f"{first.probability:.4f}" in shown
    assert f"{first.margin:.3f}" in shown
    unasked = LabelledText.model_validate_json(call("--model", model, "--json", TEXT).stdout)
    assert {(e.probability, e.margin, e.margin_status) for e in unasked.entities} == {(None, None, None)}


def test_the_best_labellings_are_shown_where_they_are_asked_for(model: Path) -> None:
    found = LabelledText.model_validate_json(call("--model", model, "--json", "--n-best", "3", TEXT).stdout)
    assert found.n_best[0].labels == found.labels
    assert [one.proven for one in found.n_best] == [True] * 3
    changed = [t for t, both in enumerate(zip(found.labels, found.n_best[1].labels, strict=True)) if len(set(both)) > 1]
    result = call("--model", model, "--n-best", "3", TEXT)
    assert f"{found.n_best[1].gap:.4f} yes" in " ".join(result.stdout.split())
    assert f"{found.tokens[changed[0]]}" in result.stdout.partition("differs from the first")[2]
    assert "3 of 3 labellings proven to have their rank; no other scores more than" in result.stdout
    everything = call("--model", model, "--n-best", "300", "Ada").stdout
    assert "which are all that break nothing hard" in everything


def test_settings_of_corpora_are_no_options() -> None:
    shown = call("--help").output
    for option in ("--certificates", "--errors-of", "--id-column", "--text-column"):
        assert option not in shown
    for option in ("--engine", "--seed", "--language", "--sentence-limit", "--on-infeasible"):
        assert option in shown
