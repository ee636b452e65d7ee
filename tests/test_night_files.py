"""What MLflow keeps of a run: its files, and figures by names that tell them apart."""

from __future__ import annotations

import math
from pathlib import Path

import pyarrow.csv as csv
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mlflow.utils import validation

from concord.flows.nights.files import write_files
from concord.flows.tracking import tracking
from concord.schemas.drift import ChangedDocument, Drift
from concord.schemas.run import ConstraintFigures, ShardReport
from concord.workers.constraints.declared import DeclaredConstraints, JoinedConstraints
from concord.workers.constraints.templates.presence import StartsWith
from concord.workers.learning.weights.known_weights import known_weights
from tests.support.made_reports import run_report
from tests.support.made_runs import consistency

TOTALS = ShardReport(
    documents=3,
    statuses={"optimal": 2, "feasible": 1},
    constraints={
        "Wörter, $5 (alle)": ConstraintFigures(degree_before=4, degree=1, penalty_before=12.5, penalty=2.5),
        "漢字": ConstraintFigures(),
    },
)


def test_tables_have_every_constraint_by_its_own_name(tmp_path: Path) -> None:
    (tmp_path / "files").mkdir()
    drift = Drift(against=1, new=0, gone=0, changed=1, most_changed=(ChangedDocument(doc_id="a", spans=2),))
    report = run_report(documents=3, labelled=3, shards_done=1, out=str(tmp_path / "out"), drift=drift)
    declared = DeclaredConstraints(
        (StartsWith(name="s", labels=("O",), weight=1.5), StartsWith(name="h", labels=("O",), weight=math.inf))
    )
    weights = [*known_weights(JoinedConstraints((consistency(), declared)))]
    write_files(tmp_path / "files", report, TOTALS, manifest=b"{}", weights=weights)
    kept = csv.read_csv(tmp_path / "files" / "tables" / "weights.csv").to_pylist()
    assert [(row["name"], row["weight"], row["low"]) for row in kept] == [(w.name, w.weight, w.low) for w in weights]
    assert {row["name"]: row["weight"] for row in kept}["s"] == 1.5
    table = csv.read_csv(tmp_path / "files" / "tables" / "constraints.csv").to_pylist()
    assert [(row["constraint"], row["degree_before"], row["penalty"]) for row in table] == [
        ("Wörter, $5 (alle)", 4, 2.5),
        ("漢字", 0, 0),
    ]
    assert csv.read_csv(tmp_path / "files" / "tables" / "documents changed most.csv").to_pylist() == [
        {"doc_id": "a", "spans": 2}
    ]
    assert (tmp_path / "files" / "report.md").read_text().startswith("# out\n\nlabelled 3 of 3 documents")
    assert (tmp_path / "files" / "plots" / "constraints.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "files" / "manifest.json").is_file()
    assert not (tmp_path / "files" / "tables" / "counts against gold.csv").exists()


@pytest.mark.parametrize("name", ["f1/Wörter: 漢字", "f1/PER", "penalty/a-b.c d/low"])
def test_names_that_mlflow_takes_stay_as_they_are(name: str) -> None:
    assert tracking._names([name]) == {name: name}


# Odd paths among them: letters alone rarely make one.
@given(st.lists(st.text(max_size=20) | st.text("./a", max_size=300), unique=True, max_size=6))
def test_figures_have_names_that_mlflow_takes_and_no_two_the_same(names: list[str]) -> None:
    found = tracking._names(names)
    assert list(found) == names
    assert len(set(found.values())) == len(names)
    for called in found.values():
        validation._validate_metric_name(called)  # type: ignore[no-untyped-call]
        assert len(called) <= validation.MAX_ENTITY_KEY_LENGTH
