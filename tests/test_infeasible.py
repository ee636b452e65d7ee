"""Documents whose hard constraints cannot all hold, under each policy; nothing is lost, counts add up."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from concord.schemas.decoded import Status
from concord.schemas.document import Batch, Document
from concord.schemas.labels import LabelSet, Scheme
from concord.schemas.potentials import Potentials
from concord.schemas.run import OnInfeasible, RunKey, RunSettings, ShardReport
from concord.workers.constraints.declared import DeclaredConstraints
from concord.workers.constraints.templates.order import ShouldNotPrecede
from concord.workers.constraints.templates.presence import MustAppear, StartsWith
from concord.workers.constraints.templates.words import Lexicon
from concord.workers.corpus.ingestion import write_corpus
from concord.workers.corpus.plan import plan
from concord.workers.corpus.settings import IngestSettings
from concord.workers.labelling.labelled import check_settings, label_batch
from concord.workers.labelling.output import MARKERS, PREDICTIONS, read_marker
from concord.workers.labelling.shard import label_shard
from concord.workers.storage.storage import FolderStorage

LABELS = LabelSet(("author", "note", "title"), Scheme.PLAIN)
HARD = DeclaredConstraints(
    (
        StartsWith(labels=("author",), weight=math.inf),
        Lexicon(words=("vol",), labels=("note",), weight=math.inf),
        MustAppear(labels=("title",), weight=0.25),
    )
)
"""A document that starts with the word "vol" cannot keep the first two."""

DOCUMENTS = [
    Document.build("fine", [["smith", "on", "vol"]], labels=[["author", "title", "note"]]),
    Document.build("torn", [["vol", "on", "smith"]], labels=[["note", "title", "title"]]),
    Document.build("also fine", [["jones", "on"]], labels=[["author", "title"]]),
]


class FlatModel:
    """Prefers ``title`` by a nat everywhere."""

    labels = LABELS
    digest = "flat-model"
    columns: tuple[str, ...] = ("tokens",)

    def potentials(self, batch: Batch) -> Potentials:
        unary = np.tile([0.0, 0.0, 1.0], (batch.token_count, 1))
        return Potentials(unary, np.zeros((3, 3)), batch.sentence_starts)


def key_of(policy: OnInfeasible, engine: str) -> RunKey:
    settings = check_settings(RunSettings(engine=engine, on_infeasible=policy, relaxed_weight=20.0))
    return RunKey(settings=settings, model=FlatModel.digest, constraints=HARD.digest, code="code")


def labelled(tmp_path: Path, policy: OnInfeasible, engine: str) -> tuple[ShardReport, dict[str, dict[str, object]]]:
    write_corpus(DOCUMENTS, tmp_path / "corpus", source="test", layout=IngestSettings(group_documents=8))
    shard = plan(tmp_path / "corpus")[0]
    key = key_of(policy, engine)
    marker = label_shard(
        shard, model=FlatModel(), constraints=HARD, key=key, store=FolderStorage(tmp_path / "out")
    ).marker
    rows = pq.read_table(tmp_path / "out" / PREDICTIONS).to_pylist()
    return marker.report, {row["doc_id"]: row for row in rows}


@pytest.mark.parametrize("engine", ["certify", "cpsat", "astar"])
def test_viterbi_labels_go_out_marked_infeasible(tmp_path: Path, engine: str) -> None:
    report, rows = labelled(tmp_path, "viterbi", engine)
    assert (report.documents, report.rejected, report.infeasible) == (3, 0, 1)
    proven = report.statuses.get("optimal", 0) + report.statuses.get("optimal-by-solver", 0)
    assert (report.statuses["infeasible"], proven) == (1, 2)
    assert rows["torn"]["labels"] == ["title"] * 3
    assert (rows["torn"]["status"], rows["torn"]["certified"]) == ("infeasible", False)
    assert rows["torn"]["penalty"] == math.inf
    assert rows["fine"]["labels"] == ["author", "title", "note"]


@pytest.mark.parametrize("engine", ["certify", "gibbs", "annealed"])
def test_rejects_name_the_document_and_the_constraints(tmp_path: Path, engine: str) -> None:
    report, rows = labelled(tmp_path, "reject", engine)
    assert (report.documents, report.rejected, report.infeasible, report.infeasible_rejected) == (2, 1, 1, 1)
    assert report.documents + report.rejected == len(DOCUMENTS)
    assert report.tokens == report.gold_tokens == 5
    assert sorted(rows) == ["also fine", "fine"]
    (path,) = (tmp_path / "out" / MARKERS).iterdir()
    marker = read_marker(FolderStorage(tmp_path / "out"), f"{MARKERS}/{path.name}")
    assert marker is not None
    (reject,) = marker.rejects
    assert (reject.row, reject.doc_id) == (1, "torn")
    assert "starts_with(author), lexicon(note)" in reject.reason
    known = "no labelling keeps" if engine != "annealed" else "the engine (timeout) found no labelling"
    assert reject.reason.startswith(known)


def test_a_shard_of_rejects_alone_is_written(tmp_path: Path) -> None:
    write_corpus(DOCUMENTS[1:2], tmp_path / "corpus", source="test")
    shard = plan(tmp_path / "corpus")[0]
    key = key_of("reject", "certify")
    report = label_shard(
        shard, model=FlatModel(), constraints=HARD, key=key, store=FolderStorage(tmp_path / "out")
    ).marker.report
    assert (report.documents, report.tokens, report.rejected) == (0, 0, 1)
    assert pq.read_table(tmp_path / "out" / PREDICTIONS).num_rows == 0


def test_relaxing_makes_hard_constraints_soft_and_says_so(tmp_path: Path) -> None:
    report, rows = labelled(tmp_path, "relax", "certify")
    assert (report.documents, report.infeasible, report.statuses) == (3, 1, {"optimal": 2, "relaxed": 1})
    torn = rows["torn"]
    assert (torn["status"], torn["certified"]) == ("relaxed", False)
    # One of the two rules breaks, at 20 nats; the other tokens keep their best label.
    assert torn["penalty"] == 20.0
    assert torn["labels"] in (["author", "title", "title"], ["note", "title", "title"])
    assert rows["fine"]["labels"] == ["author", "title", "note"]


class ImpossibleModel(FlatModel):
    """Allows ``author`` alone, and nothing after it."""

    def potentials(self, batch: Batch) -> Potentials:
        unary = np.tile([0.0, -np.inf, -np.inf], (batch.token_count, 1))
        transition = np.zeros((3, 3))
        transition[0, :] = -np.inf
        return Potentials(unary, transition, batch.sentence_starts)


@pytest.mark.parametrize("engine", ["viterbi", "gibbs", "certify", "cpsat"])
def test_what_the_model_alone_forbids_no_relaxing_allows(engine: str) -> None:
    settings = check_settings(RunSettings(engine=engine, on_infeasible="relax"))
    found = label_batch(Batch.of(DOCUMENTS), model=ImpossibleModel(), constraints=HARD, settings=settings)
    assert found.infeasible == len(DOCUMENTS)
    assert [answer.status for answer in found.decoded] == [Status.INFEASIBLE] * len(DOCUMENTS)
    assert all(np.array_equal(*pair) for pair in zip((a.labels for a in found.decoded), found.first, strict=True))


def test_relaxing_touches_hard_rows_and_hard_costs_only() -> None:
    declared = DeclaredConstraints((*HARD.templates, ShouldNotPrecede(first=("note",), second=("title",), weight=2.0)))
    settings = check_settings(RunSettings(engine="viterbi"))
    decoded = label_batch(Batch.of(DOCUMENTS), model=FlatModel(), constraints=declared, settings=settings)
    assert decoded.infeasible == 3  # Viterbi knows no constraints: it proves nothing
    from concord.workers.constraints.constraint_set import build_problem

    problem = build_problem(DOCUMENTS[0], FlatModel().potentials(Batch.of(DOCUMENTS[:1])), LABELS, declared)
    soft = problem.relaxed(7.0)
    assert set(problem.rows.weight.tolist()) == {math.inf, 0.25, 2.0}
    np.testing.assert_array_equal(soft.rows.weight, np.where(np.isinf(problem.rows.weight), 7.0, problem.rows.weight))
