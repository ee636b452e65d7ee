"""Documents that cannot be labelled: each is a reject with its reason, and its neighbours never notice."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from concord.schemas.arrays import Floats
from concord.schemas.decoded import Status
from concord.schemas.document import TOKENS, Batch, Document
from concord.schemas.errors import DocumentError
from concord.schemas.labels import LabelSet
from concord.schemas.potentials import Potentials
from concord.schemas.problem import Problem
from concord.schemas.run import RunKey, RunSettings
from concord.workers.constraints.constraint_set import ConstraintSet
from concord.workers.constraints.declared import DeclaredConstraints
from concord.workers.constraints.templates import template
from concord.workers.constraints.templates.order import PresencePrecedence
from concord.workers.constraints.templates.repeats import Consistent
from concord.workers.corpus.ingestion import write_corpus
from concord.workers.corpus.plan import plan
from concord.workers.inference.core.engine import document_rng
from concord.workers.inference.registry import SOLVERS
from concord.workers.labelling.labelled import check_settings, label_batch
from concord.workers.labelling.output import PREDICTIONS, in_place
from concord.workers.labelling.shard import label_shard
from concord.workers.storage.storage import FolderStorage
from concord.workers.synthesis.made_up import synthesize
from tests.support.made_runs import HashModel

FAULTS = (np.nan, -np.nan, np.inf)


def score_table(value: float, *, at: tuple[int, int] = (1, 2)) -> Floats:
    table = np.zeros((3, 3))
    table[at] = value
    return table


@pytest.mark.parametrize("value", FAULTS)
def test_potentials_refuse_what_is_no_number_of_nats(value: float) -> None:
    starts, flat = np.array([0]), np.zeros((3, 3))
    with pytest.raises(DocumentError, match=r"unary score of token 1, label 2 is (nan|inf)"):
        Potentials(score_table(value), flat, starts)
    with pytest.raises(DocumentError, match=r"transition score of previous label 1, label 2 is (nan|inf)"):
        Potentials(flat, score_table(value), starts)
    Potentials(score_table(-np.inf), score_table(-np.inf), starts)
    Potentials(np.zeros((0, 3)), flat, np.zeros(0, np.int64))


class PoisonedModel(HashModel):
    """Scores the word "poison" with ``value``."""

    def __init__(self, value: float) -> None:
        self.value = value

    def potentials(self, batch: Batch) -> Potentials:
        clean = super().potentials(batch)
        poisoned = np.array([word == "poison" for word in batch.columns[TOKENS].strings()])
        unary = clean.unary.copy()
        unary[poisoned, 3] = self.value
        return Potentials(unary, clean.transition, clean.sentence_starts)


def documents(count: int = 4) -> list[Document]:
    return [Document.build(f"d{i}", [["Ada", "Byron", "in", "Basel"], ["Basel", f"w{i}"]]) for i in range(count)]


@pytest.mark.parametrize("value", FAULTS)
@pytest.mark.parametrize("engine", list(SOLVERS))
def test_no_engine_sees_a_score_that_is_no_number(engine: str, value: float) -> None:
    good = documents()
    poison = [Document.build(f"bad{i}", [["Ada"], ["in", "poison"]]) for i in range(2)]
    mixed = [good[0], poison[0], *good[1:], poison[1]]
    settings = check_settings(RunSettings(engine=engine))
    constraints = DeclaredConstraints((Consistent(weight=2.0),))
    given: dict[str, Any] = {"model": PoisonedModel(value), "constraints": constraints, "settings": settings}
    alone = label_batch(Batch.of(good), **given)
    among = label_batch(Batch.of(mixed), **given)
    told = "inf" if value == np.inf else "nan"
    assert set(among.refused) == {1, 5}
    assert set(among.refused.values()) == {
        f"unary score of token 2, label 3 is {told}; want nats, or −inf for what is forbidden"
    }
    assert [d.labels.tolist() for d in among.decoded] == [d.labels.tolist() for d in alone.decoded]
    assert [d.objective for d in among.decoded] == [d.objective for d in alone.decoded]


@pytest.mark.parametrize("engine", list(SOLVERS))
def test_a_token_without_a_possible_label_is_infeasible_and_not_refused(engine: str) -> None:
    labels = LabelSet.bio(["PER"])
    unary = np.zeros((4, 3))
    unary[2] = -np.inf
    problem = Problem(Potentials(unary, np.zeros((3, 3)), np.array([0])).legal(labels), labels)
    solver = SOLVERS[engine]
    decoded = solver.solve(problem, config=solver.settings(), rng=document_rng(0, "d"))
    assert decoded.objective == -np.inf
    assert decoded.status not in (Status.OPTIMAL, Status.FEASIBLE)
    if solver.exact:
        assert decoded.status is Status.INFEASIBLE


QUADRATIC = DeclaredConstraints((PresencePrecedence(first=("PER",), second=("LOC",), weight=1.0),))


def write(found: list[Document], folder: Path) -> Path:
    write_corpus(found, folder, source="test")
    return folder


def label(
    corpus: Path, out: Path, constraints: ConstraintSet, settings: RunSettings
) -> tuple[dict[str, Any], list[Any]]:
    (shard,) = plan(corpus)
    model = PoisonedModel(np.nan)
    key = RunKey(settings=check_settings(settings), model=model.digest, constraints=constraints.digest, code="code")
    marker = label_shard(shard, model=model, constraints=constraints, key=key, store=FolderStorage(out)).marker
    report, rejects = marker.report, [reject._asdict() for reject in in_place(marker.rejects, shard)]
    predictions = pq.read_table(out / PREDICTIONS).to_pylist()
    assert (report.documents, report.rejected) == (len(predictions), len(rejects))
    assert report.with_gold in (0, len(predictions))
    return {row["doc_id"]: row for row in predictions}, rejects


@pytest.mark.parametrize(
    "settings",
    [RunSettings(engine="viterbi"), RunSettings(engine="certify", options={"deterministic_seconds": 0.05})],
    ids=lambda settings: settings.engine,
)
def test_each_faulty_document_is_a_reject_and_its_neighbours_go_out_unchanged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: RunSettings
) -> None:
    monkeypatch.setattr(template, "MOST_ENTRIES", 40_000)
    good = list(synthesize(4, seed=1, kind="news"))
    gold = [["B-PER"], ["O", "O"]]
    bad = [
        Document.build("poison", [["x"], ["in", "poison"]], labels=gold),
        Document.build("foreign", [["x"], ["y", "z"]], labels=[["O"], ["O", "NP"]]),
        Document.build("large", [["x"] * 400], labels=[["O"] * 400]),
        Document.build("unknown type", [["x"], ["y", "z"]], labels=[["B-CAR"], ["I-CAR", "O"]]),
    ]
    plainly = [Document.build(d.doc_id, sentences(d), labels=gold_of(d)) for d in good]
    mixed = [plainly[0], bad[0], bad[1], plainly[1], bad[2], bad[3], *plainly[2:]]
    alone, none = label(write(plainly, tmp_path / "good"), tmp_path / "a", QUADRATIC, settings)
    among, rejects = label(write(mixed, tmp_path / "mixed"), tmp_path / "b", QUADRATIC, settings)
    assert none == []
    assert among.pop("unknown type")  # labelled: the model cannot find a car, and that is its error
    assert among == alone
    assert [(r["row"], r["doc_id"]) for r in rejects] == [(1, "poison"), (2, "foreign"), (4, "large")]
    reasons = [r["reason"] for r in rejects]
    assert reasons[0].startswith("unary score of token 2, label 3 is nan")
    assert reasons[1].startswith("gold label 'NP' of token 2 cannot be counted against a model of BIO labels")
    assert "constraint 1 (presence_precedence): " in reasons[2]
    assert "more than 40000; narrow the constraint" in reasons[2]
    for document, reason in zip(bad, reasons, strict=False):
        _, (only,) = label(write([document], tmp_path / document.doc_id), tmp_path / reason[:9], QUADRATIC, settings)
        assert only["reason"] == reason  # the same whatever the company


def sentences(document: Document) -> list[list[str]]:
    bounds = [*document.sentence_starts.tolist(), len(document)]
    return [document.tokens[a:b] for a, b in pairwise(bounds)]


def gold_of(document: Document) -> list[list[str]]:
    assert document.labels is not None
    bounds, names = [*document.sentence_starts.tolist(), len(document)], document.labels.strings()
    return [names[a:b] for a, b in pairwise(bounds)]
