"""Corrections: what they leave against all labellings, the answers of engines, runs over a corpus, and errors."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from concord.flows.commands.run_plan import plan_run
from concord.flows.commands.verify import VerifyError, verify
from concord.flows.labelling.sources import OpenModel
from concord.flows.runfolder.published import PublishedError, published
from concord.schemas.columns import PREDICTIONS_LAYOUT
from concord.schemas.corrections import Correction, CorrectionError, clamped, corrections_digest, parsed_clamp
from concord.schemas.decoded import Decoded, Status
from concord.schemas.document import Document
from concord.schemas.errors import DocumentError
from concord.schemas.labels import LabelSet, Scheme
from concord.schemas.potentials import Potentials
from concord.schemas.requests import LabelRequest
from concord.schemas.run import RunSettings
from concord.testing.problems import EVERY_SET, all_labellings, enumerate_best, local_scores, random_problem
from concord.workers.certificates.checker import check
from concord.workers.certificates.writer import prove
from concord.workers.constraints.correction_mask import check_corrections, with_corrections
from concord.workers.corpus.correction_file import read_corrections
from concord.workers.corpus.ingestion import write_corpus
from concord.workers.inference.core.prepared import Prepared
from concord.workers.inference.registry import SOLVERS, Decoder
from concord.workers.labelling.confidence import confidence
from concord.workers.labelling.labelled import check_settings
from concord.workers.labelling.output import PREDICTIONS
from concord.workers.synthesis.made_up import synthesize
from tests.support.made_runs import HashModel, consistency
from tests.support.runs_here import label, stay_here

TOKENS = 5
NEWS = list(synthesize(6, seed=3, kind="news"))


# What they leave


def spans_of(labels: LabelSet, ids: np.ndarray, starts: np.ndarray) -> set[tuple[int, int, str]]:
    found = labels.spans(ids, starts)
    return {(s, e, labels.types[t]) for s, e, t in zip(found.start, found.end, found.type, strict=True)}


@cache
def all_spans(labels: LabelSet, starts: tuple[int, ...]) -> list[set[tuple[int, int, str]]]:
    """The spans of every labelling of `TOKENS` tokens."""
    return [spans_of(labels, ids, np.array(starts, np.int64)) for ids in all_labellings(TOKENS, len(labels))]


def keeps(spans: set[tuple[int, int, str]], corrections: tuple[Correction, ...]) -> bool:
    """Whether a labelling has each corrected span, and no entity at tokens that have none."""
    return all(
        (one.start, one.end, one.type) in spans
        if one.type is not None
        else not any(start < one.end and one.start < end for start, end, _ in spans)
        for one in corrections
    )


@st.composite
def corrected(draw: st.DrawFn) -> tuple[LabelSet, np.ndarray, tuple[Correction, ...]]:
    """A label set, the sentences of `TOKENS` tokens, and corrections that fit them."""
    labels = draw(st.sampled_from([*EVERY_SET, LabelSet(("A", "B", "O"), Scheme.PLAIN)]))
    starts = np.array([0, *draw(st.sampled_from([(), (2,), (1, 4)]))], np.int64)
    cuts = sorted(draw(st.sets(st.integers(0, TOKENS), min_size=2)))
    kinds = [None, *labels.types]
    found = tuple(
        Correction(start, end, draw(st.sampled_from(kinds))) for start, end in pairwise(cuts) if draw(st.booleans())
    )
    fitting: list[Correction] = []
    for one in found:
        try:
            check_corrections([*fitting, one], labels, starts, TOKENS, doc_id="a")
        except CorrectionError:
            continue
        fitting.append(one)
    return labels, starts, tuple(fitting)


@given(corrected(), st.integers(0, 1000))
def test_exactly_the_labellings_that_keep_the_corrections_are_left_with_their_scores(
    case: tuple[LabelSet, np.ndarray, tuple[Correction, ...]], seed: int
) -> None:
    labels, starts, corrections = case
    rng, width = np.random.default_rng(seed), len(labels)
    whole = Potentials(rng.normal(size=(TOKENS, width)), rng.normal(size=(width, width)), starts).legal(labels)
    every = all_labellings(TOKENS, width)
    before = local_scores(whole, every)
    wanted = np.array([keeps(spans, corrections) for spans in all_spans(labels, tuple(starts.tolist()))])
    assert (wanted & np.isfinite(before)).any() or labels.types == labels.names
    try:
        left = with_corrections(whole, labels, corrections)
    except DocumentError:
        assert not (wanted & np.isfinite(before)).any()
        return
    np.testing.assert_array_equal(local_scores(left, every), np.where(wanted, before, -np.inf))


@pytest.mark.parametrize("engine", ["certify", "viterbi", "gibbs", "cpsat"])
@pytest.mark.parametrize("number", range(len(EVERY_SET)))
def test_engines_answer_within_the_corrections(engine: str, number: int) -> None:
    """Answers, bounds, certificates and margins are those of the labellings that are left, by brute force."""
    labels = EVERY_SET[number]
    agreeing = labels.scheme is not Scheme.LOOSE
    for seed in range(3):
        problem = random_problem(np.random.default_rng(seed), labels=labels, rows=True, agreements=agreeing)
        starts, tokens = problem.potentials.sentence_starts, len(problem)
        end = 1 if len(labels) > 1 else int([*starts, tokens][1])  # one label makes one span of a sentence
        corrections = clamped([(0, end, labels.types[seed % len(labels.types)])])
        check_corrections(corrections, labels, starts, tokens, doc_id="a")
        kept = replace(problem, potentials=with_corrections(problem.potentials, labels, corrections))
        best = enumerate_best(kept)[1]
        answer = Decoder.of(engine)(kept, "a")
        assert answer.objective <= best + 1e-9 <= answer.bound + 2e-9
        if best == -np.inf:
            continue
        assert keeps(spans_of(labels, answer.labels, starts), corrections)
        if SOLVERS[engine].exact:
            assert answer.objective == pytest.approx(best, abs=1e-6)
        if engine == "certify":
            _is_proven(Prepared.of(kept), answer)


def _is_proven(problem: Prepared, answer: Decoded) -> None:
    proof = prove(problem, answer.labels, answer.bound, nodes=100)
    if proof is not None and answer.status is Status.OPTIMAL:
        check(problem, answer.bound, proof)
    figures = confidence(problem, answer, "a", RunSettings(confidence="margin"))
    assert figures.probability[0] == pytest.approx(1.0)
    assert figures.margin is not None
    assert figures.margin[0] == np.inf, "no labelling is without what is certain"


def test_a_document_without_a_labelling_is_told() -> None:
    labels = LabelSet(("author",), Scheme.PLAIN)
    flat = Potentials(np.zeros((3, 1)), np.zeros((1, 1)), np.zeros(1, np.int64))
    with pytest.raises(DocumentError, match="no labelling of the model keeps the corrections"):
        with_corrections(flat, labels, clamped([(0, 1, "author")]))


# What does not fit


@pytest.mark.parametrize(
    ("clamp", "fault"),
    [
        ([(2, 9, "PER")], "document 'a': 2:9=PER ends after the document's 6 tokens"),
        ([(2, 4, "PER")], "2:4=PER goes beyond its sentence, which ends at token 3; an entity is in one sentence"),
        ([(0, 1, "PRE")], "0:1=PRE is of a type that the model does not have; did you mean 'PER'?"),
        ([(3, 3, "PER")], "3:3=PER is no span; want 0 <= start < end, in tokens, end exclusive"),
        ([(0, 2, "PER"), (1, 3, None)], "1:3 overlaps 0:2=PER; leave one of them out"),
    ],
)
def test_what_does_not_fit_is_told(clamp: list[tuple[int, int, str | None]], fault: str) -> None:
    with pytest.raises(CorrectionError) as told:
        check_corrections(clamped(clamp), LabelSet.bio(["PER", "ORG"]), np.array([0, 3]), 6, doc_id="a")
    assert fault in str(told.value)


def test_plain_labels_have_no_neighbours_of_one_type_and_perhaps_no_outside() -> None:
    plain = LabelSet(("author", "title"), Scheme.PLAIN)
    with pytest.raises(CorrectionError, match="2:3=author touches another author"):
        check_corrections(clamped([(0, 2, "author"), (2, 3, "author")]), plain, np.array([0]), 6, doc_id="a")
    check_corrections(clamped([(0, 2, "author"), (2, 3, "author")]), plain, np.array([0, 2]), 6, doc_id="a")
    with pytest.raises(CorrectionError, match="0:2 says no entity, and the model has no label 'O'"):
        check_corrections(clamped([(0, 2, None)]), plain, np.array([0]), 6, doc_id="a")


def test_a_clamp_is_parsed() -> None:
    assert parsed_clamp("3:5=PER") == Correction(3, 5, "PER")
    assert parsed_clamp("3:5") == Correction(3, 5, None)
    for wrong in ("3", "a:5=PER", "3:5=", "3-5=PER", "-1:5=PER"):
        with pytest.raises(CorrectionError, match="want START:END=TYPE"):
            parsed_clamp(wrong)


# Files

ROWS = [
    {"doc_id": "b", "start": 4, "end": 5, "type": None, "by": "Ada"},
    {"doc_id": "a", "start": 0, "end": 2, "type": "PER", "by": "Ada"},
    {"doc_id": "b", "start": 0, "end": 1, "type": "ORG", "by": "Bob"},
    {"doc_id": "a", "start": 0, "end": 2, "type": "PER", "by": "Bob"},
]


def written(place: Path, rows: list[dict[str, object]]) -> Path:
    place.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return place


def test_both_forms_of_a_file_say_the_same(tmp_path: Path) -> None:
    pq.write_table(pa.Table.from_pylist(ROWS), tmp_path / "c.parquet")
    table, lines = (
        read_corrections(str(place)) for place in (tmp_path / "c.parquet", written(tmp_path / "c.jsonl", ROWS))
    )
    assert table.corrections == lines.corrections
    assert dict(lines.corrections) == {
        "b": (Correction(0, 1, "ORG", 3), Correction(4, 5, None, 1)),
        "a": (Correction(0, 2, "PER", 2),),
    }


def test_a_number_is_an_id_by_its_text(tmp_path: Path) -> None:
    row = {"doc_id": 7, "start": 0, "end": 1, "type": "ORG"}
    pq.write_table(pa.Table.from_pylist([row]), tmp_path / "c.parquet")
    for place in (tmp_path / "c.parquet", written(tmp_path / "c.jsonl", [row])):
        assert read_corrections(str(place)).corrections == {"7": (Correction(0, 1, "ORG", 1),)}


def test_a_digest_is_of_what_is_said_wherever_it_stands() -> None:
    one = corrections_digest([Correction(0, 1, "ORG", 3)])
    assert one == corrections_digest([Correction(0, 1, "ORG", 7)])
    assert len({one, corrections_digest([Correction(0, 1, None)]), corrections_digest([Correction(0, 2, "ORG")])}) == 3


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("{", "row 1: is no JSON"),
        ("\n[1]", "row 2: is no object"),
        ('{"doc_id": "a", "start": 0, "end": 2}', "row 1: there is no field 'type'"),
        ('{"doc_id": 7.0, "start": 0, "end": 2, "type": null}', "row 1: doc_id is 7.0, want a text or a whole number"),
        ('{"doc_id": "a", "start": true, "end": 2, "type": null}', "row 1: start is True, want the number of a token"),
        ('{"doc_id": "a", "start": 0, "end": 2.5, "type": null}', "row 1: end is 2.5, want the number of a token"),
        ('{"doc_id": "a", "start": 0, "end": 2, "type": ""}', "row 1: type is '', want a type of the model"),
        ('{"doc_id": "a", "start": 2, "end": 2, "type": null}', "row 1: 2:2 is no span"),
        (
            '{"doc_id": "a", "start": 0, "end": 3, "type": null}\n{"doc_id": "a", "start": 1, "end": 2, "type": "PER"}',
            "document 'a': 1:2=PER overlaps 0:3 of row 1",
        ),
    ],
)
def test_a_row_that_is_wrong_is_named(tmp_path: Path, text: str, fault: str) -> None:
    (tmp_path / "c.jsonl").write_text(text)
    with pytest.raises(CorrectionError) as told:
        read_corrections(str(tmp_path / "c.jsonl"))
    assert str(told.value).startswith(f"{tmp_path / 'c.jsonl'}, ")
    assert fault in str(told.value)


def test_a_table_that_is_wrong_is_named(tmp_path: Path) -> None:
    pq.write_table(pa.table({"doc_id": ["a"]}), tmp_path / "c.parquet")
    with pytest.raises(CorrectionError, match=r"c\.parquet: there is no column 'start'"):
        read_corrections(str(tmp_path / "c.parquet"))
    (tmp_path / "c.parquet").write_bytes(b"no table")
    with pytest.raises(CorrectionError, match=r"c\.parquet: is no Parquet file, or a damaged one"):
        read_corrections(str(tmp_path / "c.parquet"))


# Runs


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    write_corpus(NEWS, tmp_path / "corpus", source="test")
    return tmp_path / "corpus"


CERTIFY = check_settings(RunSettings(engine="certify"))


def rows(out: Path) -> dict[str, dict[str, Any]]:
    tables = published(str(out)).tables(PREDICTIONS, PREDICTIONS_LAYOUT)
    return {row["doc_id"]: row for table in tables for row in table.to_pylist()}


def made(tmp_path: Path, doc_id: str, start: int, end: int, kind: str | None) -> str:
    row = {"doc_id": doc_id, "start": start, "end": end, "type": kind}
    return str(written(tmp_path / "corrections.jsonl", [row]))


@pytest.mark.parametrize("shard_bytes", [1, 1 << 20])
def test_the_next_night_keeps_a_correction_and_decodes_that_document_alone(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shard_bytes: int
) -> None:
    stay_here(monkeypatch)
    out, types = tmp_path / "out", HashModel().labels.types
    given = {"shard_bytes": shard_bytes, "settings": CERTIFY}
    label(corpus, out, **given)
    before, doc = rows(out), NEWS[5].doc_id
    file = made(tmp_path, doc, 0, 2, types[1])
    asked = LabelRequest(corpus=str(corpus), model="made up", out=str(out), corrections=file, **given)
    monkeypatch.setattr("concord.flows.commands.run_plan.checked_places", lambda *_, **__: [str(corpus)])
    assert plan_run(asked).decoded == 1
    report = label(corpus, out, corrections=file, **given)
    after = rows(out)
    first = after[doc]["entities"][0]
    assert (first["start"], first["end"], first["type"]) == (0, 2, types[1])
    assert after[doc]["status"] == "optimal"
    assert after[doc]["document_digest"] != before[doc]["document_digest"]
    assert {name: row for name, row in after.items() if name != doc} == {
        name: row for name, row in before.items() if name != doc
    }
    assert report.shards_done == 1
    assert report.reuse.kept == (0 if shard_bytes == 1 else len(NEWS) - 1)
    again = label(corpus, out, corrections=file, **given)
    assert again.shards_done == 0
    label(corpus, out, **given)
    assert rows(out) == before


def test_other_corrections_are_another_run_and_verify_knows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stay_here(monkeypatch)
    news, corpus = NEWS[4:], tmp_path / "corpus"
    write_corpus(news, corpus, source="test")
    out, (first, second, *_) = tmp_path / "out", HashModel().labels.types
    doc = NEWS[5].doc_id
    monkeypatch.setattr("concord.flows.commands.verify.open_model", lambda name, _: OpenModel(HashModel(), Path(name)))
    monkeypatch.setattr("concord.flows.commands.verify.open_constraints", lambda *_, **__: consistency())
    settings = CERTIFY.model_copy(update={"certificates": True})
    label(corpus, out, corrections=made(tmp_path, doc, 0, 2, first), settings=settings)
    found = verify(str(out))
    assert (found.failed, found.documents) == ((), len(news))
    made(tmp_path, doc, 0, 2, second)
    with pytest.raises(VerifyError, match=r"the corpus \(or its corrections, .*\) .* is not what this run"):
        verify(str(out))
    assert label(corpus, out, corrections=str(tmp_path / "corrections.jsonl"), settings=settings).shards_done == 1
    assert rows(out)[doc]["entities"][0]["type"] == second


def test_corrections_of_documents_left_out_are_not_asked_for(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stay_here(monkeypatch)
    file = made(tmp_path, NEWS[5].doc_id, 0, 2, None)
    label(corpus, tmp_path / "out", corrections=file, only=(NEWS[1].doc_id,))
    assert list(rows(tmp_path / "out")) == [NEWS[1].doc_id]


def test_raw_text_is_corrected_by_its_tokens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stay_here(monkeypatch)
    texts = ["Ada wrote to Bob.", "Bob wrote to Ada."]
    pq.write_table(pa.table({"doc_id": ["a", "b"], "text": texts}), tmp_path / "raw.parquet")
    kind = HashModel().labels.types[0]
    file = made(tmp_path, "b", 3, 4, kind)
    label(tmp_path / "raw.parquet", tmp_path / "out", corrections=file)
    found = rows(tmp_path / "out")["b"]["entities"]
    assert (3, 4, kind) in {(one["start"], one["end"], one["type"]) for one in found}


@pytest.mark.parametrize(
    ("row", "fault"),
    [
        (("nobody", 0, 1, None), "row 1: the corpus has no document 'nobody'"),
        ((NEWS[5].doc_id, 0, 9999, None), "ends after the document's"),
        ((NEWS[5].doc_id, 0, 1, "COLOUR"), "is of a type that the model does not have"),
    ],
)
def test_a_correction_that_does_not_fit_ends_the_run_before_it_begins(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, row: tuple[str, int, int, str | None], fault: str
) -> None:
    stay_here(monkeypatch)
    file = made(tmp_path, *row)
    with pytest.raises(CorrectionError) as told:
        label(corpus, tmp_path / "out", corrections=file)
    assert str(told.value).startswith(f"{file}, row 1: ")
    assert fault in str(told.value)
    with pytest.raises(PublishedError):
        published(str(tmp_path / "out"))


def test_a_document_that_cannot_be_read_cannot_be_corrected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stay_here(monkeypatch)
    pq.write_table(pa.table({"doc_id": ["a", "b"], "text": ["Ada wrote.", None]}), tmp_path / "raw.parquet")
    with pytest.raises(CorrectionError, match="row 1: document 'b' cannot be read: "):
        label(tmp_path / "raw.parquet", tmp_path / "out", corrections=made(tmp_path, "b", 0, 1, None))


def test_documents_keep_their_corrections_in_a_batch() -> None:
    from concord.schemas.document import Batch

    one = replace(Document.build("a", [["Ada"]]), corrections=clamped([(0, 1, None)]))
    batch = Batch.of([one, Document.build("b", [["Bob"]])])
    assert [document.corrections for document in batch] == [one.corrections, ()]
    assert batch.part(0, 1).document(0).corrections == one.corrections
