"""`import concord`: light, lazy, and all that is listed is there."""

from __future__ import annotations

import subprocess
import sys

import pytest

import concord
from concord.predictions import PredictedDocument
from concord.schemas.labelled import LabelledText
from concord.schemas.shown import fields_html, fields_text
from concord.schemas.train_report import ConsistencyReport

ANSWER = LabelledText.model_validate(
    {
        "doc_id": "text",
        "text": "Ada <Lovelace> wrote.",
        "tokens": ("Ada", "<Lovelace>", "wrote", "."),
        "sentence_starts": (0,),
        "labels": ("B-PER", "I-PER", "O", "O"),
        "viterbi_labels": ("O", "O", "O", "O"),
        "entities": [
            {"type": "PER", "start": 0, "end": 2, "char_start": 0, "char_end": 14, "text": "Ada <Lovelace>"},
        ],
        "viterbi_entities": [],
        "viterbi_local": 2.0,
        "viterbi_penalty": 3.0,
        "score": 1.0,
        "local": 1.0,
        "penalty": 0.0,
        "bound": 1.0,
        "gap": 0.0,
        "status": "optimal",
        "constraints": [],
    }
)


def test_import_imports_nothing_and_changes_nothing() -> None:
    script = (
        "import os, sys; before = dict(os.environ), set(sys.modules); import concord; "
        "assert dict(os.environ) == before[0]; "
        "print({name.partition('.')[0] for name in set(sys.modules) - before[1]} - set(sys.stdlib_module_names))"
    )
    run = subprocess.run([sys.executable, "-I", "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout == "{'concord'}\n"


def test_all_that_is_listed_is_there_and_described() -> None:
    for name in concord.PLACES:
        assert getattr(concord, name).__doc__, name
    assert set(dir(concord)) == {*concord.PLACES, "__version__"}
    assert concord.__version__ == "0.1.0"


def test_a_report_in_a_report_stays_on_its_line() -> None:
    tuned = ConsistencyReport(exact_scale=1.0, subsequence_scale=0.5, unlabelled_scale=0.0, f1_without=0.8, f1=0.9)
    fields = {"consistency": tuned, "out": "model"}
    line = "exact_scale 1, subsequence_scale 0.5, unlabelled_scale 0, f1_without 0.8, f1 0.9"
    assert fields_text("Report", fields).splitlines() == ["Report", f"  consistency  {line}", "  out          model"]
    assert f"<tr><th>consistency</th><td>{line}</td></tr>" in fields_html("Report", fields)


def test_a_name_that_is_not_there_is_told_with_those_that_are() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'lode'; it has load, Labeller"):
        concord.__getattr__("lode")


def test_options_are_checked_before_anything_is_done() -> None:
    with pytest.raises(ValueError, match="no reader is called 'connl'; there are"):
        concord.ingest("connl", "nowhere", out="nowhere")
    with pytest.raises(ValueError, match=r"options of reader conll: colums: .*there are"):
        concord.ingest("conll", "nowhere", out="nowhere", colums=("tokens",))
    with pytest.raises(ValueError, match=r"options of trainer sgd: passses: .*there are"):
        concord.train("nowhere", out="nowhere", trainer="sgd", passses=3)


def test_an_answer_shows_itself() -> None:
    assert repr(ANSWER).splitlines()[0] == "[Ada <Lovelace> PER] wrote."
    assert str(ANSWER).splitlines()[1] == "optimal: no labelling scores higher"
    assert repr(ANSWER.model_copy(update={"gap": 0.25})).endswith("no labelling scores more than 0.25 nats higher")
    assert "Ada &lt;Lovelace&gt; <small>PER</small></mark> wrote." in ANSWER._repr_html_()
    tokens = ANSWER.model_copy(update={"text": None})
    assert repr(tokens).splitlines()[0] == "[Ada <Lovelace> PER] wrote ."


def test_constraints_in_python_are_those_of_a_file(tmp_path: str) -> None:
    rules = concord.Constraints(
        [
            {"template": "starts_with", "labels": ["author", "editor"], "weight": "hard"},
            {"template": "only_in", "name": "numbers", "tokens": {"pattern": "[0-9]+"}, "labels": ["O"], "weight": 3},
        ]
    )
    rules.save(f"{tmp_path}/rules.yaml")
    again = concord.Constraints.from_yaml(f"{tmp_path}/rules.yaml")
    assert again.to_yaml() == rules.to_yaml()
    assert again.without("numbers").titles == rules.only("starts_with(author|editor)").titles
    with pytest.raises(concord.InputError, match="starts_wit"):
        concord.Constraints([{"template": "starts_wit", "labels": ["author"], "weight": 1}])


def test_a_document_of_a_run_shows_its_text_and_what_is_proven() -> None:
    given = {"type": "PER", "start": 0, "end": 2, "char_start": None, "char_end": None, "text": "Ada <Lovelace>"}
    tokens = ["Ada", "<Lovelace>", "wrote", "."]
    shown = PredictedDocument("a", tokens, [], [given], [], 1.0, 0.25, "feasible", {"tokens": tokens})
    assert repr(shown) == "[Ada <Lovelace> PER] wrote .\na: feasible: no labelling scores more than 0.25 nats higher"
    assert "Ada &lt;Lovelace&gt; <small>PER</small></mark> wrote ." in shown._repr_html_()
