"""Candidate spans as a model: the best set by brute force, calibration, the import of scores, windows and samples."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations, pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from concord.flows.cli.app import app
from concord.flows.commands.layering import import_entities
from concord.flows.inputs.options import OptionError
from concord.schemas.decoded import Status
from concord.schemas.document import TOKENS, Batch, Document
from concord.schemas.errors import CorpusError, DocumentError, TrainingError
from concord.schemas.labels import LabelSet
from concord.schemas.layers import candidate_values, candidates_in
from concord.schemas.reports import EntitiesReport
from concord.testing.templates import random_text
from concord.workers.constraints.constraint_set import Unconstrained
from concord.workers.constraints.declared import DeclaredConstraints
from concord.workers.corpus.ingestion import ingest, write_corpus
from concord.workers.corpus.plan import plan
from concord.workers.corpus.shards import read_batch
from concord.workers.corpus.taggers import AT_EDGE, BEYOND, MERGED, Reading
from concord.workers.inference.registry import SOLVERS, Decoder
from concord.workers.learning.trainers.candidates import SpanLattice, fit_odds, remarks, train
from concord.workers.models.candidates import (
    Calibration,
    CandidatesModel,
    CandidateSpan,
    evidence,
    log_odds,
    read_candidates,
)
from concord.workers.models.folder import Manifest
from concord.workers.models.model import local_scores
from concord.workers.models.settings import CandidatesSettings
from tests.support.judged import Enumerated, judge
from tests.support.made_templates import random_mixture
from tests.support.naive_templates import BIO

FLOOR = -6.0


def document(sizes: Sequence[int], spans: Sequence[CandidateSpan], doc_id: str = "d") -> Document:
    """A document of sentences of these sizes, with candidates of a layer ``llm``."""
    values = candidate_values(sum(sizes), spans)
    words = [[f"w{i}" for i in range(size)] for size in sizes]
    starts = np.cumsum([0, *sizes]).tolist()
    column = [values[a:b] for a, b in pairwise(starts)]
    return Document.build(doc_id, words, llm_candidates=column)


def model(types: Sequence[str] = ("A", "B"), *, floor: float = FLOOR) -> CandidatesModel:
    """A model that takes scores as probabilities."""
    labels = LabelSet.bio(types)
    manifest = Manifest(
        kind="candidates", labels=labels.names, scheme=labels.scheme, settings={}, versions={}, training={}, files={}
    )
    return CandidatesModel(labels, Calibration(layer="llm", floor=floor), manifest)


def drawn(rng: np.random.Generator, size: int, count: int, types: Sequence[str] = ("A", "B")) -> list[CandidateSpan]:
    """Candidates of a sentence, with scores 0 and 1 among them; each place and type once."""
    found = dict[tuple[int, int, str], float]()
    for _ in range(count):
        start = int(rng.integers(size))
        place = (start, int(rng.integers(start + 1, size + 1)), types[int(rng.integers(len(types)))])
        found[place] = float(rng.choice([0.0, 1.0, *rng.uniform(0.05, 0.99, 6)]))
    return [CandidateSpan(*place, score) for place, score in sorted(found.items())]


def best_sum(spans: Sequence[CandidateSpan]) -> float:
    """The highest sum of log-odds of spans that share no token, over all sets."""
    weights = log_odds([one.score for one in spans])
    best = 0.0
    for count in range(len(spans) + 1):
        for chosen in combinations(range(len(spans)), count):
            taken = [t for i in chosen for t in range(spans[i].start, spans[i].end)]
            if len(set(taken)) == len(taken):
                best = max(best, float(sum(weights[i] for i in chosen)))
    return best


def solved(own: CandidatesModel, one: Document, engine: str) -> tuple[float, Status, list[tuple[int, int, str]]]:
    """Objective, status and spans of an engine's answer."""
    batch = Batch.of([one])
    (problem,) = local_scores(own, batch).problems(batch, own.labels, Unconstrained())
    decoded = Decoder.of(engine)(problem, one.doc_id)
    spans = own.labels.spans(decoded.labels, one.sentence_starts)
    kinds = [own.labels.types[i] for i in spans.type.tolist()]
    return decoded.objective, decoded.status, list(zip(spans.start.tolist(), spans.end.tolist(), kinds, strict=True))


@pytest.mark.parametrize("seed", range(60))
def test_the_best_labelling_is_the_best_set_of_candidates(seed: int) -> None:
    rng = np.random.default_rng(seed)
    spans = drawn(rng, int(rng.integers(1, 8)), int(rng.integers(0, 10)))
    size = max((one.end for one in spans), default=1)
    objective, status, found = solved(model(), document([size], spans), "certify")
    assert status is Status.OPTIMAL
    assert objective == pytest.approx(best_sum(spans), abs=1e-9)
    weight = {tuple(one[:3]): w for one, w in zip(spans, log_odds([one.score for one in spans]), strict=True)}
    assert sum(weight[place] for place in found) == pytest.approx(objective, abs=1e-9)


@pytest.mark.parametrize("seed", range(25))
def test_no_labelling_scores_more_than_its_spans(seed: int) -> None:
    """Every labelling: a candidate has its log-odds, any other span the floor or less."""
    rng = np.random.default_rng(seed)
    size = int(rng.integers(1, 6))
    spans = [one._replace(type="A") for one in drawn(rng, size, 6)]
    own, one = model(("A",)), document([size], spans)
    batch = Batch.of([one])
    (problem,) = local_scores(own, batch).problems(batch, own.labels, Unconstrained())
    weight = dict[tuple[int, int], float]()
    for span in spans:
        w = max(float(log_odds([span.score])[0]), FLOOR)
        weight[span.start, span.end] = max(w, weight.get((span.start, span.end), FLOOR))
    for labelling in product(range(3), repeat=size):
        labels = np.array(labelling, np.int32)
        score = problem.score(labels).objective
        if score == -np.inf:
            continue
        marked = own.labels.spans(labels, one.sentence_starts)
        places = list(zip(marked.start.tolist(), marked.end.tolist(), strict=True))
        if all(place in weight for place in places):
            assert score == pytest.approx(sum(weight[place] for place in places), abs=1e-9)
        else:
            assert score <= sum(weight.get(place, FLOOR) for place in places) + 1e-9


@pytest.fixture(scope="module")
def problems() -> list[Enumerated]:
    """Problems of candidates under constraints of all kinds."""
    enumerated = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        own, spans = model(BIO.types), drawn(rng, 4, 8, BIO.types)
        columns = {"llm_candidates": [candidate_values(4, spans)]}
        batch = Batch.of([Document.build("d", [[word for word, _ in random_text(rng, BIO, (4,))[0]]], **columns)])
        constraints = DeclaredConstraints(random_mixture(rng, BIO))
        (problem,) = local_scores(own, batch).problems(batch, own.labels, constraints)
        enumerated.append(Enumerated.of(problem))
    return enumerated


@pytest.mark.parametrize("engine", list(SOLVERS))
def test_every_engine_takes_candidates_under_constraints(engine: str, problems: list[Enumerated]) -> None:
    assert True in [judge(engine, enumerated) for enumerated in problems]


def test_sentences_and_documents_stand_by_themselves() -> None:
    spans = [
        CandidateSpan(0, 2, "A", 0.9),
        CandidateSpan(1, 2, "A", 0.8),
        CandidateSpan(2, 4, "A", 0.7),
        CandidateSpan(4, 5, "B", 0.6),
    ]
    one, other = document([2, 3], spans, "one"), document([1], [CandidateSpan(0, 1, "B", 0.9)], "other")
    own = model()
    together = Batch.of([one, other])
    for problem, alone in zip(
        local_scores(own, together).problems(together, own.labels, Unconstrained()), (one, other), strict=True
    ):
        objective, _, _ = solved(own, alone, "certify")
        assert Decoder.of("certify")(problem, alone.doc_id).objective == pytest.approx(objective, abs=1e-9)
    assert solved(own, one, "certify")[2] == [(0, 2, "A"), (2, 4, "A"), (4, 5, "B")]


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        ('[["A", 3, 0.5]]', "token 0: a candidate of 3 tokens leaves its sentence"),
        ('[["A", 0, 0.5]]', "token 0: want .* not "),
        ('[["A", 1, 1.5]]', "token 0: want .* not "),
        ('[["A", 1, NaN]]', "token 0: want .* not "),
        ("[[1, 1, 0.5]]", "token 0: want .* not "),
        ("{", "token 0: "),
        ("7", "token 0: want .* not "),
    ],
)
def test_a_damaged_column_is_a_fault_of_the_document(value: str, fault: str) -> None:
    one = Document.build("d", [["w", "v"], ["u"]], llm_candidates=[[value, "[]"], ["[]"]])
    with pytest.raises(DocumentError, match=f"column 'llm_candidates', {fault}"):
        model().scores(Batch.of([one]))


def test_the_calibration_finds_the_odds_that_made_the_data() -> None:
    rng = np.random.default_rng(0)
    odds = rng.normal(0, 2, 20_000)
    right = rng.random(20_000) < 1 / (1 + np.exp(-(0.5 * odds - 1.2)))
    places = [(i, i + 1, "A") for i in range(len(odds))]
    features = np.stack([odds, np.ones_like(odds), np.zeros_like(odds)], axis=1)
    assert fit_odds(places, features, right) == pytest.approx([0.5, -1.2, 0.0], abs=0.05)
    assert fit_odds([], np.zeros((0, 3)), np.zeros(0, np.bool_)).tolist() == [1.0, 0.0, 0.0]
    everything = fit_odds(places[:50], np.tile([2.0, 1.0, 0.0], (50, 1)), np.ones(50, np.bool_))
    assert np.isfinite(everything).all()


@pytest.mark.parametrize("exclusive", [True, False])
def test_rivalry_is_learned_from_gold(*, exclusive: bool) -> None:
    """Of two rivals one is right by its probability; or both have a score of their own, and the better one is taken."""
    rng = np.random.default_rng(1)
    places, features, right = list[tuple[int, int, str]](), list[np.ndarray](), list[bool]()
    for i in range(4000):
        one, other = rng.dirichlet([1.0, 1.0, 1.0])[:2]
        spans = [CandidateSpan(0, 1, "A", float(one)), CandidateSpan(0, 2, "A", float(other))]
        outcome = rng.random()
        if exclusive:
            right += [outcome < one, one <= outcome < one + other]
        else:
            weights = np.array([1.0, one / (1 - one), other / (1 - other)])
            taken = int(rng.choice(3, p=weights / weights.sum()))
            right += [taken == 1, taken == 2]
        places += [(2 * i, 2 * i + 1, "A"), (2 * i, 2 * i + 2, "A")]
        features.append(evidence(spans))
    slope, offset, rivalry = fit_odds(places, np.concatenate(features), np.array(right)).tolist()
    assert (slope, offset, rivalry) == pytest.approx((1.0, 0.0, float(exclusive)), abs=0.15)


@pytest.mark.parametrize("seed", range(20))
def test_sums_over_sets_are_those_of_an_enumeration(seed: int) -> None:
    rng = np.random.default_rng(seed)
    spans = drawn(rng, 6, 8)
    weights = rng.normal(0, 2, len(spans))
    mass, inside = 0.0, np.zeros(len(spans))
    for mask in product([False, True], repeat=len(spans)):
        taken = [t for one, held in zip(spans, mask, strict=True) if held for t in range(one.start, one.end)]
        if len(set(taken)) == len(taken):
            share = float(np.exp(weights[list(mask)].sum()))
            mass, inside = mass + share, inside + share * np.array(mask)
    total, marginals = SpanLattice([one[:3] for one in spans]).sums(weights.tolist())
    assert total == pytest.approx(np.log(mass))
    assert marginals == pytest.approx(inside / mass)


def test_recorded_runs_are_one_proven_answer_whatever_their_order(tmp_path: Path) -> None:
    """Two runs give a name, two a longer one, one nothing: there is an entity; what one run gives alone is none."""
    runs = [["Ada Lovelace"], ["Ada Lovelace Byron"], ["Ada Lovelace", "Bo"], ["Ada Lovelace Byron"], []]
    answers = []
    for turn, order in enumerate(([0, 1, 2, 3, 4], [4, 2, 0, 3, 1])):
        folder = tmp_path / str(turn)
        folder.mkdir()
        files = [[{"id": "d", "entities": [span(words, "PER") for words in runs[i]]}] for i in order]
        imported(folder, files, Reading.SAMPLES)
        (one,) = read_batch(plan(str(folder / "out"))[0])[0]
        own = train([one], settings=CandidatesSettings(), out=folder / "model")
        assert own.calibration.rivalry == 1.0
        answers.append(solved(own, one, "certify"))
    objective, status, places = answers[0]
    assert answers[1] == answers[0]
    assert (status, len(places), places[0][0]) == (Status.OPTIMAL, 1, 0)
    assert objective == pytest.approx(np.log(2 / 1.5))


def test_samples_without_gold_are_odds_against_nothing() -> None:
    """Of five runs two give one span, two another, and one nothing: a span is taken, by odds of 2 to 1."""
    spans = [CandidateSpan(0, 1, "A", 0.4), CandidateSpan(0, 2, "A", 0.4)]
    odds = Calibration(layer="llm", floor=FLOOR, rivalry=1.0).weights(spans)
    assert odds == pytest.approx([np.log(2.0)] * 2)


TEXT = "Ada Lovelace Byron lives in New York City . Bo sees Ada ."


def corpus_of(folder: Path) -> str:
    """A corpus of `TEXT` alone."""
    (folder / "texts.jsonl").write_text(json.dumps({"id": "d", "text": TEXT}) + "\n")
    ingest("text", folder / "texts.jsonl", folder / "corpus")
    return str(folder / "corpus")


def imported(folder: Path, files: Sequence[Sequence[Any]], reading: Reading, form: str = "spans") -> EntitiesReport:
    """The corpus of `TEXT` with the records of some files as the layer ``llm``."""
    place = corpus_of(folder)
    (folder / "answers").mkdir()
    for number, records in enumerate(files):
        lines = "".join(json.dumps(record) + "\n" for record in records)
        (folder / "answers" / f"run-{number}.jsonl").write_text(lines)
    return import_entities(
        str(folder / "answers"), folder / "out", form=form, name="llm", corpus=place, reading=reading
    )


def span(words: str, label: str, score: float | str | None = None, text: str = TEXT) -> dict[str, Any]:
    start = text.index(words)
    own = {} if score is None else {"score": score}
    return {"start": start, "end": start + len(words), "label": label} | own


def candidates_of(folder: Path) -> list[tuple[str, str, float]]:
    """Words, label and score of the candidates in the imported corpus."""
    (row,) = pq.read_table(folder / "out").to_pylist()
    return [
        (" ".join(row["tokens"][t : t + size]), label, round(score, 6))
        for t, value in enumerate(row["llm_candidates"])
        for label, size, score in candidates_in(value)
    ]


def test_all_overlapping_spans_are_candidates_and_the_layer_shows_the_longest(tmp_path: Path) -> None:
    spans = [span("Ada Lovelace", "PER", 0.9), span("Ada Lovelace Byron", "PER", 0.4), span("Ada Lovelace", "LOC", 0.2)]
    imported(tmp_path, [[{"id": "d", "text": TEXT, "entities": spans}]], Reading.CANDIDATES)
    assert candidates_of(tmp_path) == [
        ("Ada Lovelace", "LOC", 0.2),
        ("Ada Lovelace", "PER", 0.9),
        ("Ada Lovelace Byron", "PER", 0.4),
    ]
    (row,) = pq.read_table(tmp_path / "out").to_pylist()
    assert row["llm"][:4] == ["B-PER", "I-PER", "I-PER", "O"]


def test_windows_of_a_text_are_one_answer(tmp_path: Path) -> None:
    """The same span of two windows is one with the higher score; what a window's end cuts gives way to the whole."""
    one, other = TEXT[: TEXT.index(" City")], TEXT[TEXT.index("lives") :]
    assert one.endswith("New York")
    windows = [
        {
            "id": "d",
            "text": one,
            "entities": [span("Ada Lovelace", "PER", 0.8, one), span("New York", "LOC", 0.95, one)],
        },
        {
            "id": "d",
            "text": other,
            "entities": [
                span("New York City", "LOC", 0.7, other),
                span("Ada", "PER", 0.5, other),
                span("Bo", "PER", 0.3, other),
            ],
        },
        {"id": "d", "text": other, "entities": [span("Bo", "PER", 0.6, other)]},
    ]
    report = imported(tmp_path, [windows], Reading.CANDIDATES)
    assert candidates_of(tmp_path) == [
        ("Ada Lovelace", "PER", 0.8),
        ("New York City", "LOC", 0.7),
        ("Bo", "PER", 0.6),
        ("Ada", "PER", 0.5),
    ]
    assert (report.unplaced[AT_EDGE], report.unplaced[MERGED]) == (1, 1)
    assert report.answered == 1


def test_a_span_at_an_end_of_the_text_itself_is_not_cut(tmp_path: Path) -> None:
    spans = [span("Ada", "PER", 0.6), span("Ada Lovelace", "PER", 0.3)]
    imported(tmp_path, [[{"id": "d", "text": TEXT, "entities": spans}]], Reading.CANDIDATES)
    assert [score for _, _, score in candidates_of(tmp_path)] == [0.6, 0.3]


@pytest.mark.parametrize("text", [True, False], ids=["with-text", "by-id"])
def test_the_score_of_samples_is_the_share_of_runs(tmp_path: Path, *, text: bool) -> None:
    runs = [["Ada Lovelace", "Bo"], ["Ada Lovelace Byron", "Bo"], ["Ada Lovelace"], []]
    files = [
        [{"id": "d"} | ({"text": TEXT} if text else {}) | {"entities": [span(words, "PER") for words in run]}]
        for run in runs
    ]
    imported(tmp_path, files, Reading.SAMPLES)
    assert candidates_of(tmp_path) == [
        ("Ada Lovelace", "PER", round(2 / 4.5, 6)),
        ("Ada Lovelace Byron", "PER", round(1 / 4.5, 6)),
        ("Bo", "PER", round(2 / 4.5, 6)),
    ]


@pytest.mark.parametrize("in_files", [True, False], ids=["a file a run", "one file"])
def test_windows_are_no_runs(in_files: bool, tmp_path: Path) -> None:
    """Each run answers two windows of the text; the first answers one of them once more if runs are files."""
    half = TEXT.index("Bo")
    ada, bo = (
        {"id": "d", "text": text, "entities": [span(words, "PER", text=text)]}
        for text, words in ((TEXT[:half], "Ada"), (TEXT[half:], "Bo"))
    )
    runs = [[ada, bo, ada], [ada, bo], [ada, bo | {"entities": []}]]
    imported(tmp_path, runs if in_files else [[ada, bo, *runs[1], *runs[2]]], Reading.SAMPLES)
    assert candidates_of(tmp_path) == [("Ada", "PER", round(3 / 3.5, 6)), ("Bo", "PER", round(2 / 3.5, 6))]


@pytest.mark.parametrize(
    ("score", "fault"),
    [
        (1.5, "score 1.5"),
        (-0.1, "score -0.1"),
        (float("nan"), "score nan"),
        ("high", "score nan"),
        ("-1", "score -1.0"),
        (None, "no score"),
    ],
)
@pytest.mark.parametrize("text", [True, False], ids=["with-text", "by-id"])
def test_a_score_that_is_no_probability_names_file_row_and_field(
    score: float | str | None, fault: str, tmp_path: Path, *, text: bool
) -> None:
    good = {"id": "d", "text": TEXT, "entities": [span("Bo", "PER", 0.5)]}
    spans = [span("Bo", "PER", 0.5), span("Ada", "PER", score)]
    bad = {"id": "d"} | ({"text": TEXT} if text else {}) | {"entities": spans}
    report = imported(tmp_path, [[good, bad]], Reading.CANDIDATES)
    assert report.unread == 1
    want = f"run-0.jsonl.*line 2: span 2 \\(PER from 0\\) has {fault}; want 'score' from 0 to 1"
    assert report.unread_reason is not None
    assert re.search(want, report.unread_reason), report.unread_reason
    assert candidates_of(tmp_path) == [("Bo", "PER", 0.5)]


def test_unknown_ends_and_borders_of_sentences_are_counted(tmp_path: Path) -> None:
    spans = [
        span("Bo", "PER", 0.5),
        span("York City . Bo", "LOC", 0.5),
        {"start": 3, "end": 999, "label": "PER", "score": 0.5},
    ]
    report = imported(tmp_path, [[{"id": "d", "text": TEXT, "entities": spans}]], Reading.CANDIDATES)
    assert candidates_of(tmp_path) == [("Bo", "PER", 0.5)]
    assert report.unplaced[BEYOND] == 1
    assert sum(report.unplaced.values()) - report.unplaced.get(BEYOND, 0) >= 1


def test_a_reader_without_scores_and_documents_without_candidates_are_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="--candidates: reader conll gives no scores"):
        imported(tmp_path, [[{}]], Reading.CANDIDATES, form="conll")
    one = Document.build("d", [["w"]])
    with pytest.raises(TrainingError, match="no layer to learn from with candidates"):
        train([one], settings=CandidatesSettings(), out=tmp_path / "model")


def test_samples_and_candidates_are_not_asked_for_at_once(tmp_path: Path) -> None:
    typed = ["import", "entities", "runs", "--name", "llm", "--corpus", "c", "--out", str(tmp_path / "out")]
    ended = CliRunner().invoke(app, [*typed, "--samples", "--candidates"])
    assert (ended.exit_code, "leave --candidates out" in ended.stderr) == (2, True)


def test_a_group_of_spans_of_spacy_comes_with_its_scores(tmp_path: Path) -> None:
    spacy = pytest.importorskip("spacy", reason="spaCy is not installed")
    from spacy.tokens import DocBin, SpanGroup

    doc = spacy.blank("en")(TEXT)
    doc.user_data["doc_id"] = "d"
    group = SpanGroup(doc, name="sc", spans=[doc.char_span(0, 12, "PER"), doc.char_span(0, 18, "PER")])
    group.attrs["scores"] = np.array([0.75, 0.25], np.float32)
    doc.spans["sc"] = group
    place = corpus_of(tmp_path)
    DocBin(docs=[doc], store_user_data=True).to_disk(tmp_path / "a.spacy")
    given: dict[str, Any] = {"form": "spans", "name": "llm", "corpus": place, "reading": Reading.CANDIDATES}
    import_entities(str(tmp_path / "a.spacy"), tmp_path / "out", options=["spans_key=sc"], **given)
    assert candidates_of(tmp_path) == [("Ada Lovelace", "PER", 0.75), ("Ada Lovelace Byron", "PER", 0.25)]
    doc.ents = [doc.char_span(0, 12, "PER")]
    DocBin(docs=[doc], store_user_data=True).to_disk(tmp_path / "a.spacy")
    with pytest.raises(CorpusError, match=r"a\.spacy, .*span 1 \(PER from 0\) has no score"):
        import_entities(str(tmp_path / "a.spacy"), tmp_path / "two", options=["spans_key=ents"], **given)


def test_a_layer_keeps_its_columns_when_it_grows_and_loses_them_when_it_is_replaced(tmp_path: Path) -> None:
    record = {"id": "d", "text": TEXT, "entities": [span("Bo", "PER", 0.5)]}
    imported(tmp_path, [[record]], Reading.CANDIDATES)
    (tmp_path / "more.jsonl").write_text(json.dumps({"id": "e", "text": "Ada went ."}) + "\n")
    ingest("text", tmp_path / "more.jsonl", tmp_path / "out", append=True)
    rows = pq.read_table(tmp_path / "out").to_pylist()
    assert {row["doc_id"]: set(row["llm_candidates"]) for row in rows}["e"] == {"?"}
    batches = [read_batch(shard)[0] for shard in plan(str(tmp_path / "out"))]
    own = model(("PER",))
    found = {
        doc: read_candidates(batch, i, own.calibration) for batch in batches for i, doc in enumerate(batch.doc_ids)
    }
    documents = [document for batch in batches for document in batch]
    assert "1 of the first 2 documents have no answer in layer 'llm'" in own.misfit(documents)
    assert own.misfit([one for one in documents if one.doc_id == "d"]) == ""
    assert found == {"d": [CandidateSpan(9, 10, "PER", 0.5)], "e": []}
    import_entities(
        str(tmp_path / "answers"), tmp_path / "plain", form="spans", name="llm", corpus=str(tmp_path / "out")
    )
    assert "llm_candidates" not in pq.read_table(tmp_path / "plain").column_names
    assert "llm_candidates" not in read_batch(plan(str(tmp_path / "plain"))[0])[0].columns


def labelled(count: int, *, gold: bool) -> list[Document]:
    """Documents in which a score of 0.9 is right half of the time; persons are called HUMAN."""
    documents = []
    for i in range(count):
        right = i % 2 == 0
        values = candidate_values(3, [(0, 2, "HUMAN", 0.9), (0, 1, "HUMAN", 0.3)])
        labels = [["B-PER", "I-PER", "O"] if right else ["O", "O", "O"]] if gold else None
        layer = {"llm": [["B-HUMAN", "I-HUMAN", "O"]], "llm_grade": [["-"] * 3], "llm_candidates": [values]}
        documents.append(Document.build(f"d{i}", [["Ada", "B", "."]], labels=labels, **layer))
    return documents


def test_scores_are_calibrated_on_gold_and_taken_as_they_are_without(tmp_path: Path) -> None:
    own = train(labelled(400, gold=True), settings=CandidatesSettings(), out=tmp_path / "gold")
    assert own.labels.types == ("PER",)
    (odds,) = own.calibration.weights([CandidateSpan(0, 2, "PER", 0.9)])
    assert odds == pytest.approx(0.0, abs=0.1)
    plain = train(labelled(400, gold=False), settings=CandidatesSettings(), out=tmp_path / "none")
    assert (plain.calibration.slope, plain.calibration.offset) == (1.0, 0.0)
    assert plain.labels.types == ("HUMAN",)
    assert own.manifest.figures["overlapping"] == 800
    assert (own.manifest.figures["calibrated"], plain.manifest.figures["calibrated"]) == (1, 0)


COMMANDS = {
    "propose": "constraints propose --corpus {tmp}/bare --model {tmp}/model --out {tmp}/prompt.md",
    "check": "constraints check {tmp}/r.yaml --corpus {tmp}/bare --model {tmp}/model",
    "explain": "constraints explain {tmp}/r.yaml --corpus {tmp}/bare --model {tmp}/model --doc d0",
    "calibrate": "calibrate --corpus {tmp}/bare --model {tmp}/model --out {tmp}/out",
    "weigh": "constraints weigh {tmp}/r.yaml --corpus {tmp}/bare --penalty tuned --model {tmp}/model "
    "--held-out {tmp}/bare --out {tmp}/w.yaml",
}
"""Commands that read a model and a corpus, beside those that label."""


@pytest.mark.parametrize("command", COMMANDS)
def test_a_corpus_without_the_layer_is_told_of_what_adds_it(command: str, tmp_path: Path) -> None:
    documents = labelled(8, gold=True)
    train(documents, settings=CandidatesSettings(), out=tmp_path / "model")
    bare = [replace(one, columns={TOKENS: one.columns[TOKENS]}) for one in documents]
    write_corpus(bare, tmp_path / "bare", source="made up")
    (tmp_path / "r.yaml").write_text("constraints:\n- {template: starts_with, labels: [PER], weight: 1}\n")
    ended = CliRunner().invoke(app, COMMANDS[command].format(tmp=tmp_path).split())
    said = ended.stderr.splitlines()[-1]
    assert (ended.exit_code, type(ended.exception)) == (3, SystemExit)
    assert "model reads the column 'llm_candidates', which is not there (there are tokens)" in said
    assert said.endswith("or add it with `concord import entities --candidates --name llm`")


def test_where_the_answers_are_better_than_the_candidates_it_is_said(tmp_path: Path) -> None:
    """Of two candidates with one score gold has now the one, now the other, and the tagger knows which."""
    values, documents = candidate_values(3, [(0, 2, "PER", 0.7), (0, 1, "PER", 0.7)]), []
    for i in range(40):
        gold = [["B-PER", "I-PER" if i % 2 else "O", "O"]]
        layer = {"llm": gold, "llm_grade": [["-"] * 3], "llm_candidates": [values]}
        documents.append(Document.build(f"d{i}", [["Ada", "B", "."]], labels=gold, **layer))
    blind = train(documents, settings=CandidatesSettings(), out=tmp_path / "blind").manifest.figures
    assert (blind["f1_of_answers"], blind["f1_of_sets"] < 0.6) == (1.0, True)
    (line,) = (one.text for one in remarks(blind) if "own answers" in one.text)
    assert "own answers have an F1 of 100.00%, the best sets of candidates" in line
    sure = train(labelled(40, gold=True), settings=CandidatesSettings(), out=tmp_path / "sure").manifest.figures
    assert not any("own answers" in one.text for one in remarks(sure | {"f1_of_sets": sure["f1_of_answers"]}))
    plain = train(labelled(40, gold=False), settings=CandidatesSettings(), out=tmp_path / "plain").manifest.figures
    assert not any("own answers" in one.text for one in remarks(plain))
