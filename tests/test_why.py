"""`concord why`: rivals and margins against all labellings, sums, the same words elsewhere, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from concord.flows.commands import why as flow
from concord.flows.commands.why import Moved, MovedError, parsed_span, why
from concord.flows.labelling.sources import OpenModel
from concord.flows.runfolder.delta_table import TABLE_FOLDER, commit_run, table_state
from concord.flows.runfolder.folder_output import FolderOutput
from concord.flows.screen.terminal import show_report
from concord.schemas.document import Document
from concord.schemas.errors import UnknownDocumentError, UsageError
from concord.schemas.labels import Labels, LabelSet
from concord.schemas.potentials import Potentials
from concord.schemas.problem import Problem, Relation, SpanAgreement
from concord.schemas.run import RunSettings
from concord.testing.problems import EVERY_SET, all_labellings, naive_keys, random_problem
from concord.workers.corpus.ingestion import write_corpus
from concord.workers.inference.core.prepared import Prepared
from concord.workers.inference.registry import Decoder
from concord.workers.labelling.reasons import AnsweredProblem, changed_spans, reason_of
from tests.support.made_runs import HashModel, consistency
from tests.support.runs_here import label, stay_here


def answered(problem: Problem) -> AnsweredProblem:
    prepared = Prepared.of(problem)
    words = [f"w{t}" for t in range(len(problem))]
    return AnsweredProblem(prepared, Decoder.of("certify")(prepared, "a"), words, "a", RunSettings())


def best_by_type(problem: Problem, start: int, end: int) -> tuple[dict[str | None, float], float]:
    """Best objective with exactly each type at the span (None: nothing at its tokens), and without the type."""
    best: dict[str | None, float] = {}
    for ids in all_labellings(len(problem), len(problem.labels)):
        spans = problem.labels.spans(ids, problem.potentials.sentence_starts)
        places = zip(spans.start, spans.end, spans.type, strict=True)
        touching = [place for place in places if place[0] < end and start < place[1]]
        exact = [problem.labels.types[kind] for s, e, kind in touching if (s, e) == (start, end)]
        score = problem.score(ids).objective
        for kind in exact or ([] if touching else [None]):
            best[kind] = max(best.get(kind, -np.inf), score)
        other = exact[0] if exact else "else"
        best[f"not {other}"] = max(best.get(f"not {other}", -np.inf), score)
    return best, max(best.values())


@pytest.mark.parametrize("seed", range(12))
def test_rivals_are_the_best_of_all_labellings_and_reasons_add_up(seed: int) -> None:
    labels = EVERY_SET[seed % 4]
    problem = random_problem(np.random.default_rng(seed), labels=labels, rows=True, agreements=True)
    case = answered(problem)
    if not np.isfinite(case.answer.objective) or len(problem) > 6:
        pytest.skip("no labelling keeps what is hard, or too many labellings")
    best, top = best_by_type(problem, 0, 1)
    reason = reason_of(case, 0, 1)
    assert case.answer.objective == pytest.approx(top, abs=1e-6)
    assert {rival.type: rival.nats for rival in reason.rivals} == {
        kind: pytest.approx(top - score, abs=1e-6)
        for kind, score in best.items()
        if (kind is None or kind in labels.types) and kind != reason.type and np.isfinite(score)
    }
    assert [rival.nats for rival in reason.rivals] == sorted(rival.nats for rival in reason.rivals)
    assert all(rival.proven for rival in reason.rivals)
    if reason.rivals:
        total = reason.local + sum(pull.nats for pull in reason.constraints)
        assert total == pytest.approx(reason.rivals[0].nats, abs=1e-6)
    if reason.type is not None:
        without = max((score for kind, score in best.items() if kind not in (reason.type, f"not {reason.type}")))
        assert reason.margin == pytest.approx(top - without, abs=1e-6)


@pytest.mark.parametrize("seed", range(12))
def test_the_labelling_that_sets_the_margin_is_named_and_scores_that_much_less(seed: int) -> None:
    labels = EVERY_SET[seed % 4]
    problem = random_problem(np.random.default_rng(seed), labels=labels, rows=True, agreements=True)
    case = answered(problem)
    if not np.isfinite(case.answer.objective) or len(problem) > 6:
        pytest.skip("no labelling keeps what is hard, or too many labellings")
    best: dict[frozenset[tuple[int, int, str | None]], float] = {}
    for ids in all_labellings(len(problem), len(problem.labels)):
        spans = entities_of(problem, ids)
        best[spans] = max(best.get(spans, -np.inf), problem.score(ids).objective)
    given = entities_of(problem, case.answer.labels)
    two_words = {(0, 2)} if len(problem) > 1 and 1 not in problem.potentials.sentence_starts else set()
    for start, end in {(0, 1), *two_words, *((s, e) for s, e, _ in given)}:
        reason = reason_of(case, start, end)
        assert bool(reason.nearest) == np.isfinite(reason.margin)
        if not reason.nearest:
            continue
        gone = {(one.start, one.end, one.type) for one in reason.nearest if one.type is not None}
        new = {(one.start, one.end, one.other) for one in reason.nearest if one.other is not None}
        assert gone <= given
        assert not new & given
        asked = (start, end, reason.type)
        assert asked in gone if reason.type is not None else any((s, e) == (start, end) for s, e, _ in new)
        assert best[(given - gone) | new] == pytest.approx(case.answer.objective - reason.margin, abs=1e-6)


def entities_of(problem: Problem, ids: Labels) -> frozenset[tuple[int, int, str | None]]:
    spans = problem.labels.spans(ids, problem.potentials.sentence_starts)
    places = zip(spans.start.tolist(), spans.end.tolist(), spans.type.tolist(), strict=True)
    return frozenset((start, end, problem.labels.types[kind]) for start, end, kind in places)


def test_the_same_words_pull_by_what_they_are() -> None:
    """Three places of one word: two that the model knows as B decide about the third, which it takes for A."""
    labels = LabelSet.bio(["A", "B"])
    unary = np.zeros((3, 5))
    unary[0, labels.index["B-A"]], unary[0, labels.index["B-B"]] = 1.0, 0.5
    unary[1:, labels.index["B-B"]] = 9.0
    starts = np.arange(3)
    keys = naive_keys([7, 7, 7], starts.tolist(), 2)
    cost = 2.0 * (1 - np.eye(2))
    local = Potentials(unary, np.zeros((5, 5)), starts).legal(labels)
    problem = Problem(local, labels, ("same",), agreements=(SpanAgreement(0, Relation.EXACT, keys, cost),))
    case = answered(problem)
    assert changed_spans(case) == [(0, 1)]
    reason = reason_of(case, 0, 1)
    assert (reason.type, reason.viterbi_type, reason.rivals[0].type) == ("B", "A", None)
    assert [(m.start, m.type, m.nats) for m in reason.mentions] == [(1, "B", 0.0), (2, "B", 0.0)]
    kept = reason_of(case, 1, 2)
    assert (kept.rivals[0].type, kept.rivals[0].nats) == (None, 9.0)
    against = next(rival for rival in reason.rivals if rival.type == "A")
    assert against.nats == pytest.approx(2 * 2.0 - 0.5)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    stay_here(monkeypatch)
    monkeypatch.setattr(flow, "open_model", lambda name, _: OpenModel(HashModel(), Path(name)))
    monkeypatch.setattr(flow, "open_constraints", lambda *_, **__: consistency())
    documents = [Document.build(f"d{i}", [["Ada", "met", "Bob"], ["Bob", "left"]]) for i in range(3)]
    write_corpus(documents, tmp_path / "corpus", source="test")
    label(tmp_path / "corpus", tmp_path / "out", settings=RunSettings(engine="certify"))
    return tmp_path / "out"


def test_a_run_says_why(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = why(str(run), "d1", span=(0, 1))
    (reason,) = report.spans
    assert (reason.start, reason.end, reason.text, report.doc_id) == (0, 1, "Ada", "d1")
    show_report(report)
    printed = capsys.readouterr().out
    assert f"Ada (0:1): {reason.type or 'no entity'}" in printed
    assert "nats behind" in printed
    assert "the margin's labelling differs at" in printed
    assert "d1: optimal, gap" in printed


def test_what_is_not_there_or_has_moved_is_told(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UnknownDocumentError, match="no answer to a document 'd9'"):
        why(str(run), "d9")
    with pytest.raises(UsageError, match=r"--span 2:4: document 'd1': .* goes beyond its sentence"):
        why(str(run), "d1", span=(2, 4))
    with pytest.raises(UsageError, match="want A:B"):
        parsed_span("5:3")
    write_corpus([Document.build("d1", [["Ada", "left"]])], tmp_path / "other", source="test")
    with pytest.raises(MovedError, match=r"document 'd1' of .*other .* is not what this run was made from"):
        why(str(run), "d1", moved=Moved(corpus=str(tmp_path / "other")))
    monkeypatch.setattr(HashModel, "digest", "another")
    with pytest.raises(MovedError, match=r"the model made up is not what this run was made from; .* --model"):
        why(str(run), "d1", moved=Moved(model="made up"))


def test_what_it_was_in_earlier_versions_is_told(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for engine, last in (("viterbi", "left"), ("certify", "left"), ("certify", "came"), ("certify", "left")):
        documents = [Document.build(f"d{i}", [["Ada", "met", "Bob"], ["Bob", last]]) for i in range(3)]
        write_corpus(documents, tmp_path / "corpus", source="test", overwrite=True)
        label(tmp_path / "corpus", run, settings=RunSettings(engine=engine))
        commit_run(FolderOutput(run))
    (reason,) = why(str(run), "d1", span=(0, 1)).spans
    assert [one.same_text for one in reason.past][-2:] == [False, True]
    assert reason.past[-1].type == reason.type
    assert reason.past[0].type == first_type(run, "d1", 0, 1)
    show_report(why(str(run), "d1", span=(0, 1)))
    assert "another text" in capsys.readouterr().out


def first_type(run: Path, doc_id: str, start: int, end: int) -> str | None:
    """Type of a span in the table's first version."""
    state = table_state(FolderOutput(run).storage, 0)
    rows = [row for path in state.files for row in pq.read_table(run / TABLE_FOLDER / path).to_pylist()]
    entities = next(row["entities"] for row in rows if row["doc_id"] == doc_id)
    return next((one["type"] for one in entities if (one["start"], one["end"]) == (start, end)), None)
