"""Runs of another program's answers: nights, the gate, corrections, reviews, and what says that nothing is proven."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq
import pytest

import concord
import concord.flows.commands.adopting
import concord.flows.tracking.tracking
from concord.flows.commands.adopting import CUT, NO_PROBABILITY, AnswerSource, adopt
from concord.flows.commands.reviewing import open_review
from concord.flows.commands.verify import verify
from concord.flows.errors import RunFolderError, TakenBackError, WithheldRunError
from concord.flows.inputs.options import OptionError
from concord.flows.labelling.evaluate import evaluate
from concord.flows.labelling.label_corpus import label_corpus
from concord.flows.nights.history import history
from concord.flows.nights.rollback import rollback
from concord.schemas.changes import Why
from concord.schemas.decoded import Status
from concord.schemas.document import Document
from concord.schemas.errors import CorpusError, InputError, UsageError
from concord.schemas.labels import LabelSet
from concord.schemas.layers import LayerError
from concord.schemas.requests import LabelRequest
from concord.schemas.review import ReadAnswer, ReadVerdict
from concord.schemas.run_report import RunReport
from concord.workers.corpus.ingestion import ingest, write_corpus
from concord.workers.corpus.taggers import HIDDEN
from concord.workers.learning.trainers import hmm
from concord.workers.models.adopted import UNANSWERED
from concord.workers.models.settings import HmmSettings
from concord.workers.review.review_items import MARGINAL_ORDER, NO_ORDER
from concord.workers.storage.storage import file_bytes
from concord.workers.synthesis.made_up import synthesize
from tests.support.made_tracking import undrawn, untracked
from tests.support.memory_store import memory_store

MADE = [one for one in synthesize(24, seed=3, kind="news") if isinstance(one, Document)]


@pytest.fixture(autouse=True)
def _without_mlflow(monkeypatch: pytest.MonkeyPatch) -> None:
    undrawn(monkeypatch)
    monkeypatch.setattr(concord.flows.tracking.tracking, "Tracking", untracked([]))


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made") / "corpus"
    write_corpus(MADE, folder, source="made up")
    return folder


class Told(NamedTuple):
    """A span that a program tells: tokens (end exclusive), type and score."""

    start: int
    end: int
    type: str
    score: float | None = 0.9


Answers = dict[str, list[Told]]


def gold(document: Document) -> list[Told]:
    assert document.labels is not None
    names = document.labels.strings()
    labels = LabelSet.infer(names)
    spans = labels.spans(labels.encode(names), document.sentence_starts)
    kinds = [labels.types[kind] for kind in spans.type.tolist()]
    places = zip(spans.start.tolist(), spans.end.tolist(), kinds, strict=True)
    return [Told(*place, score=round(0.5 + 0.5 / (2 + number), 4)) for number, place in enumerate(places)]


TRUTH: Answers = {document.doc_id: gold(document) for document in MADE}


def places(document: Document) -> tuple[str, list[tuple[int, int]]]:
    """A text of the document's words, and the characters of each."""
    text, ends = "", list[tuple[int, int]]()
    for word in document.tokens:
        start = len(text) + bool(text)
        text += f" {word}" if text else word
        ends.append((start, len(text)))
    return text, ends


def records(answers: Answers) -> Iterator[tuple[str, str, list[tuple[int, int, str, float | None]]]]:
    """Id, text and spans of characters of each document that was answered."""
    for document in MADE:
        if document.doc_id in answers:
            text, ends = places(document)
            spans = [(ends[one.start][0], ends[one.end - 1][1], *one[2:]) for one in answers[document.doc_id]]
            yield document.doc_id, text, spans


def gliner(folder: Path, answers: Answers) -> Path:
    lines = [
        {
            "id": doc_id,
            "text": text,
            "entities": [
                {"start": a, "end": b, "text": text[a:b], "label": kind} | ({} if score is None else {"score": score})
                for a, b, kind, score in spans
            ],
        }
        for doc_id, text, spans in records(answers)
    ]
    return written(folder / "gliner.jsonl", lines)


def langextract(folder: Path, answers: Answers) -> Path:
    lines = [
        {
            "document_id": doc_id,
            "text": text,
            "extractions": [
                {
                    "extraction_class": kind,
                    "extraction_text": text[a:b],
                    "char_interval": {"start_pos": a, "end_pos": b},
                    "alignment_status": "match_exact",
                }
                for a, b, kind, _ in spans
            ],
        }
        for doc_id, text, spans in records(answers)
    ]
    return written(folder / "langextract.jsonl", lines)


def doc_bin(folder: Path, answers: Answers) -> Path:
    spacy = pytest.importorskip("spacy", reason="the extra spacy is not installed")
    vocab, docs = spacy.blank("en").vocab, []
    for document in MADE:
        doc = spacy.tokens.Doc(vocab, words=list(document.tokens), user_data={})
        doc.set_ents([spacy.tokens.Span(doc, one.start, one.end, label=one.type) for one in answers[document.doc_id]])
        docs.append(doc)
    path = folder / "answers.spacy"
    spacy.tokens.DocBin(docs=docs).to_disk(path)
    return path


def written(path: Path, lines: Sequence[Any]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def run(source: Path, corpus: Path, out: Path | str, **given: Any) -> RunReport:
    """A run of answers, a shard a document."""
    of_source = {name: given.pop(name) for name in AnswerSource._fields if name in given}
    asked = {"corpus": str(corpus), "model": "tagger", "out": str(out), "shard_bytes": 1}
    return adopt(
        AnswerSource(str(source), **({"form": "spans", "program": "tagger"} | of_source)), LabelRequest(**asked | given)
    )


def said(out: Path) -> Answers:
    """What the predictions of a run have."""
    rows = pq.read_table(out / "predictions").to_pylist()
    return {
        row["doc_id"]: [
            Told(one["start"], one["end"], one["type"], score)
            for one, score in zip(row["entities"], row["entity_probability"], strict=True)
        ]
        for row in rows
    }


def without_scores(answers: Answers) -> Answers:
    return {doc_id: [one._replace(score=None) for one in spans] for doc_id, spans in answers.items()}


@pytest.mark.parametrize(
    ("write", "expected"),
    [(gliner, TRUTH), (langextract, without_scores(TRUTH)), (doc_bin, without_scores(TRUTH))],
)
def test_a_run_has_what_the_file_has(
    tmp_path: Path, corpus: Path, write: Callable[[Path, Answers], Path], expected: Answers
) -> None:
    report = run(write(tmp_path, TRUTH), corpus, tmp_path / "out")
    assert said(tmp_path / "out") == expected
    assert (report.documents, report.rejected, report.certified, report.max_gap) == (len(MADE), 0, 0.0, None)
    assert "no bounds" in report.headline
    (row, *_) = pq.read_table(tmp_path / "out" / "predictions").to_pylist()
    assert (row["engine"], row["status"], row["gap"], row["certified"]) == ("adopted", Status.ADOPTED, math.inf, False)
    checked = verify(str(tmp_path / "out"))
    assert (checked.failed, checked.open, checked.documents) == ((), len(MADE), len(MADE))
    assert "nothing is proven" in str(next(iter(concord.read_predictions(tmp_path / "out"))))
    figures = evaluate(str(tmp_path / "out"), str(corpus)).report
    assert figures.measures["spans"].figures["f1"] == 1.0


def test_in_python_it_is_the_same(tmp_path: Path, corpus: Path) -> None:
    source, given = gliner(tmp_path, TRUTH), {"names": {"PER": "PERSON"}, "options": {"spans_key": "entities"}}
    run(source, corpus, tmp_path / "one", names=["PER=PERSON"], options=["spans_key=entities"])
    report = concord.adopt(source, program="tagger", corpus=corpus, out=tmp_path / "two", shard_bytes=1, **given)
    assert report.documents == len(MADE)
    assert said(tmp_path / "two") == said(tmp_path / "one")
    models = [json.loads((tmp_path / name / "manifest.json").read_bytes())["run"]["model"] for name in ("one", "two")]
    assert models[0] == models[1]


def test_the_model_is_what_the_user_names(tmp_path: Path, corpus: Path) -> None:
    source, prompt = gliner(tmp_path, TRUTH), tmp_path / "prompt.txt"
    prompt.write_text("Find names.")

    def digest(**given: Any) -> str:
        run(source, corpus, tmp_path / "out", allow_gone=True, **given)
        return str(json.loads((tmp_path / "out" / "manifest.json").read_bytes())["run"]["model"])

    first = digest()
    gliner(tmp_path, {name: spans[1:] for name, spans in TRUTH.items()})
    assert digest() == first
    others = [digest(program="other"), digest(version="2"), digest(prompt=str(prompt)), digest(names=["PER=ORG"])]
    prompt.write_text("Find all names.")
    assert len({first, *others, digest(prompt=str(prompt))}) == 6


def test_of_nights_with_edits_each_change_is_told_and_nothing_else_is_done(tmp_path: Path, corpus: Path) -> None:
    answers, ids, out = dict(TRUTH), list(TRUTH), tmp_path / "out"
    run(gliner(tmp_path, answers), corpus, out)
    for night in range(3):
        edited = ids[night::5][:2]
        answers |= {doc_id: answers[doc_id][1:] for doc_id in edited}
        report = run(gliner(tmp_path, answers), corpus, out)
        assert (report.shards_done, report.shards_skipped) == (2, len(MADE) - 2)
        assert report.drift is not None
        assert report.drift.changed == 2
        assert said(out) == answers
        told = [row for row in pq.read_table(out / "changes").to_pylist() if row["run"] == night + 2]
        assert {row["doc_id"] for row in told} == set(edited)
        assert {cause["cause"] for row in told for cause in row["why"]} == {Why.ANSWER}
        assert verify(str(out)).failed == ()
    assert run(gliner(tmp_path, answers), corpus, out).shards_done == 0


@pytest.mark.parametrize("lost", ["missing", "empty"])
def test_where_half_is_lost_readers_keep_what_they_had(tmp_path: Path, corpus: Path, lost: str) -> None:
    out, half = tmp_path / "out", list(TRUTH)[::2]
    run(gliner(tmp_path, TRUTH), corpus, out)
    left: Answers = {doc_id: spans for doc_id, spans in TRUTH.items() if doc_id not in half}
    answers = left if lost == "missing" else left | {doc_id: [] for doc_id in half}
    with pytest.raises(WithheldRunError, match="lost all their entities" if lost == "empty" else UNANSWERED):
        run(gliner(tmp_path, answers), corpus, out)
    assert said(out) == TRUTH
    assert verify(str(out)).failed == ()
    report = run(gliner(tmp_path, answers), corpus, out, allow_gone=True)
    assert said(out) == answers
    assert report.rejected == (len(half) if lost == "missing" else 0)
    assert verify(str(out)).failed == ()


def test_a_rollback_gives_back_answers_that_can_be_verified(tmp_path: Path, corpus: Path) -> None:
    out, nights = tmp_path / "out", [{name: spans[n:] for name, spans in TRUTH.items()} for n in (0, 1, 2)]
    for answers in nights:
        run(gliner(tmp_path, answers), corpus, out, allow_gone=True)
    assert len((out / ".adopted" / "names.txt").read_text().split()) == 3
    (cause,) = rollback(str(out)).causes
    assert cause.differs == "the corpus or the answers to it"
    assert f"put {corpus}, or the file of answers, right" in cause.remedy
    assert said(out) == nights[1]
    assert verify(str(out)).failed == ()


def test_a_rollback_to_another_version_says_what_the_user_gave(tmp_path: Path, corpus: Path) -> None:
    source, out = gliner(tmp_path, TRUTH), tmp_path / "out"
    for version in ("1", "2"):
        run(source, corpus, out, version=version)
    back = rollback(str(out))
    (cause,) = back.causes
    assert cause.remedy == "the answers of tagger 1, with --program, --version, --prompt and --map as then"
    assert not any(word in str(back) for word in (".adopted", "--model", "`concord reprocess`"))


@pytest.mark.parametrize("adopted_first", [True, False])
def test_a_rollback_between_adopted_answers_and_a_model_names_the_other_command(
    tmp_path: Path, corpus: Path, adopted_first: bool
) -> None:
    out, model = tmp_path / "out", tmp_path / "model"
    hmm.train(MADE, settings=HmmSettings(), out=model)

    def by_model() -> None:
        asked = {"corpus": str(corpus), "model": str(model), "out": str(out)}
        label_corpus(LabelRequest(**asked, consistency=False, allow_gone=True))

    def adopted(spans: int = 2) -> None:
        answers = {name: own[:spans] for name, own in TRUTH.items()}
        run(gliner(tmp_path, answers), corpus, out, allow_gone=True)

    first, second = (adopted, by_model) if adopted_first else (by_model, adopted)
    first()
    second()
    (cause,) = rollback(str(out)).causes
    back = "adopt the answers of tagger, with --program, --version, --prompt and --map as then"
    assert cause.remedy == (back if adopted_first else f"concord reprocess --model {model}")
    with pytest.raises(TakenBackError, match=rf"\({cause.differs}\)"):
        second()
    *_, back_again, refused = history(str(out)).nights
    assert {**back_again.changed, **refused.changed} == {}, "nobody asked for another thing"
    if not adopted_first:
        adopted(spans=1)  # other answers of the same program are not the same night again
        assert history(str(out)).nights[-1].line.published


def test_of_two_at_once_one_says_so(tmp_path: Path, corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out, other = tmp_path / "out", {name: own[1:] for name, own in TRUTH.items()}

    def after_another(request: LabelRequest) -> RunReport:
        monkeypatch.setattr(concord.flows.commands.adopting, "label_corpus", label_corpus)
        run(gliner(tmp_path, other), corpus, out)
        return label_corpus(request)

    monkeypatch.setattr(concord.flows.commands.adopting, "label_corpus", after_another)
    with pytest.raises(RunFolderError, match="another `concord adopt` has put its answers in the place of these"):
        run(gliner(tmp_path, TRUTH), corpus, out)
    assert said(out) == other


def test_answers_are_taken_over_and_not_decoded(
    tmp_path: Path, corpus: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(gliner(tmp_path, TRUTH), corpus, tmp_path / "out")
    told = capsys.readouterr().err
    assert f"{len(MADE)} to be taken over" in told
    assert "decod" not in told


def test_in_an_object_store_it_is_the_same(tmp_path: Path, corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONCORD_HOME", str(tmp_path / "home"))
    with memory_store() as uri_of:
        out = uri_of("out") + "?region=us-east-1"
        for n in range(4):
            answers = {name: spans[n:] for name, spans in TRUTH.items()}
            run(gliner(tmp_path, answers), corpus, out, allow_gone=True)
            assert verify(out).failed == ()
        rollback(out)
        assert verify(out).failed == ()
        listed = file_bytes(uri_of("out/.adopted/names.txt")).split()
    assert len(listed) == 3


def test_corrections_stay(tmp_path: Path, corpus: Path) -> None:
    out, (doc_id, spans) = tmp_path / "out", next((name, own) for name, own in TRUTH.items() if len(own) > 1)
    first, second = spans[:2]
    rows = [
        {"doc_id": doc_id, "start": first.start, "end": first.end, "type": "FOUND"},
        {"doc_id": doc_id, "start": second.start, "end": second.end, "type": None},
    ]
    given = {"corrections": str(written(tmp_path / "corrections.jsonl", rows))}
    right = [first._replace(type="FOUND", score=1.0), *spans[2:]]
    run(gliner(tmp_path, TRUTH), corpus, out, **given)
    assert said(out) == TRUTH | {doc_id: right}
    run(gliner(tmp_path, TRUTH | {doc_id: [second]}), corpus, out, **given)
    assert said(out)[doc_id] == right[:1]
    assert verify(str(out)).failed == ()


def test_two_runs_are_compared(tmp_path: Path, corpus: Path) -> None:
    run(gliner(tmp_path, TRUTH), corpus, tmp_path / "one")
    run(gliner(tmp_path, {name: spans[1:] for name, spans in TRUTH.items()}), corpus, tmp_path / "two", program="other")
    compared = evaluate(str(tmp_path / "two"), str(corpus), against=str(tmp_path / "one")).report
    assert compared.against is not None
    page = concord.report(tmp_path / "two", out=tmp_path / "page.html", against=tmp_path / "one", corpus=corpus)
    assert page.documents == len(MADE)
    assert "no bound" in (tmp_path / "page.html").read_text()


def read_all(out: Path, folder: Path, **options: Any) -> tuple[str, float]:
    """What a review goes by, and the share that it promises once all that it asks is said to be right."""
    with open_review(str(out), folder, options) as review:
        while review.standing.place is not None:
            thing = review.things[review.standing.place]
            review.add(ReadAnswer(**thing._asdict(), verdict=ReadVerdict.RIGHT, by="me"))
        return review.method.order, review.promised / review.method.size


def test_a_review_goes_by_scores_and_without_them_by_chance(tmp_path: Path, corpus: Path) -> None:
    some = {name: [one._replace(score=None) if n else one for n, one in enumerate(own)] for name, own in TRUTH.items()}
    for name, answers, order in (
        ("scores", TRUTH, MARGINAL_ORDER),
        ("some", some, MARGINAL_ORDER),
        ("none", without_scores(TRUTH), NO_ORDER),
    ):
        run(gliner(tmp_path, answers), corpus, tmp_path / name)
        for by in ("entity",) if name == "some" else ("entity", "document"):
            told = read_all(tmp_path / name, tmp_path / f"{name}-{by}", error=0.2, by=by)
            assert told == (order, 1.0)
    with open_review(str(tmp_path / "some"), tmp_path / "again", {}) as review:
        unscored = [n for n, one in enumerate(review.things) if is_unscored(some, one)]
        assert {float(review.predicted[n]) for n in unscored} == {1.0}
        facts = [review.question(n).facts for n in range(len(review.things))]
    assert [n for n, told in enumerate(facts) if "no score" in told] == unscored
    with (
        pytest.raises(UsageError, match="nothing says how sure its entities are"),
        open_review(str(tmp_path / "none"), tmp_path / "whole", {"whole": 0.1}),
    ):
        pass


def is_unscored(answers: Answers, thing: Any) -> bool:
    return any((one.start, one.score) == (thing.start, None) for one in answers[thing.doc_id])


def test_what_labels_cannot_say_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "Ann met Lee. Bo left Oslo."
    source = written(tmp_path / "texts.jsonl", [{"id": "a", "text": text}, {"id": "b", "text": "Nobody."}])
    ingest("text", source, tmp_path / "corpus")
    entities = [
        {"start": 8, "end": 15, "label": "PAIR", "score": 0.5},
        {"start": 0, "end": 3, "label": "PER", "score": 97},
        {"start": 21, "end": 25, "label": "LOC", "score": "0.25"},
        {"start": 21, "end": 25, "label": "AREA", "score": "low"},
        {"start": 99, "end": 100, "label": "LOC"},
    ]
    answers = written(tmp_path / "answers.jsonl", [{"id": "a", "text": text, "entities": entities}])
    report = run(answers, tmp_path / "corpus", tmp_path / "out", names=["PERSN=PER"])
    pieces = [Told(2, 4, "PAIR", 0.5), Told(4, 5, "PAIR", 0.5)]
    assert said(tmp_path / "out") == {"a": [Told(0, 1, "PER", None), *pieces, Told(6, 7, "LOC", 0.25)]}
    assert [reject.reason for reject in report.rejects] == [UNANSWERED]
    told = capsys.readouterr().err
    assert f"1 of 5 spans {CUT}" in told
    assert f"1 of 5 spans {HIDDEN}" in told
    assert f"1 of 5 spans {NO_PROBABILITY}" in told
    assert "--map: no answer says PERSN; they say AREA, LOC, PAIR, PER" in told
    assert "1 documents of the corpus without an answer" not in told


@pytest.mark.parametrize("marked", [True, False], ids=["marked", "by its labels"])
def test_labels_are_plain_where_the_gold_is(tmp_path: Path, marked: bool) -> None:
    words, fields = ["12", "Main", "Elm", "Rd", "Dover"], ["NUMBER", "STREET", "STREET", "STREET", "PLACE"]
    documents = [Document.build(name, [words[at:]], labels=[fields[at:]]) for name, at in (("a", 0), ("b", 3))]
    golds = [replace(one.labels, plain=marked) for one in documents if one.labels is not None]
    marked_ones = [replace(one, labels=gold) for one, gold in zip(documents, golds, strict=True)]
    write_corpus(marked_ones, tmp_path / "corpus", source="made up")
    spans = [(0, 2, "NUMBER", 0.9), (3, 7, "STREET", 0.8), (8, 11, "STREET", 0.6), (15, 20, "PLACE", None)]
    entities = [{"start": start, "end": end, "label": kind, "score": score} for start, end, kind, score in spans]
    lines = [{"id": "a", "text": "12 Main Elm Rd Dover", "entities": entities}]
    lines += [{"id": "b", "text": "Rd Dover", "entities": []}]
    answers = written(tmp_path / "answers.jsonl", lines)
    said_rd = written(tmp_path / "said.jsonl", [{"doc_id": "a", "start": 3, "end": 4, "type": "STREET"}])
    for given, street in (
        ({}, [Told(1, 3, "STREET", 0.6)]),
        ({"corrections": str(said_rd)}, [Told(1, 4, "STREET", 0.6)]),
    ):
        report = run(answers, tmp_path / "corpus", tmp_path / "out", **given)
        assert (report.documents, report.rejected) == (2, 0)
        whole = [Told(0, 1, "NUMBER", 0.9), *street, Told(4, 5, "PLACE", None)]
        assert said(tmp_path / "out") == {"a": whole, "b": []}
        assert verify(str(tmp_path / "out")).failed == ()
    figures = evaluate(str(tmp_path / "out"), str(tmp_path / "corpus")).report
    assert figures.measures["labels"].figures["accuracy"] == 5 / 7


def test_wrong_use_is_one_line(tmp_path: Path, corpus: Path) -> None:
    source, out = gliner(tmp_path, TRUTH), tmp_path / "out"
    with pytest.raises(OptionError, match="an answer has one type"):
        run(source, corpus, out, names=["PER=PER,ORG"])
    with pytest.raises(OptionError, match="--program: want a name"):
        run(source, corpus, out, program=" ")
    with pytest.raises(CorpusError, match="the reader 'conll' does not take; --form spans does"):
        run(source, corpus, out, form="conll")
    with pytest.raises(LayerError, match="is to a document of"):
        run(written(tmp_path / "none.jsonl", [{"id": "x", "text": "Other.", "entities": []}]), corpus, out)
    run(source, corpus, out)
    (name,) = (out / ".adopted" / "names.txt").read_text().split()
    with pytest.raises(UsageError, match="answers of another program, not a model"):
        label_corpus(LabelRequest(corpus=str(corpus), model=str(out / ".adopted" / name), out=str(tmp_path / "new")))
    with pytest.raises(InputError, match="they score no labels"):
        concord.load(out / ".adopted" / name).label("Ann left.")
