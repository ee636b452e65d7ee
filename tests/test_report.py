"""`concord report`: what a page counts, which documents it shows, and that it is one small file that harms nobody."""

from __future__ import annotations

import json
import re
import tomllib
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

import concord
import concord.workers.report
from concord.flows.cli.app import app
from concord.flows.cli.failures import Exit
from concord.flows.commands.reviewing import open_review
from concord.flows.errors import NothingLabelledError
from concord.flows.labelling.evaluate import evaluate
from concord.flows.labelling.run_page import run_page
from concord.flows.nights.record import read_record
from concord.flows.screen.pages import page_of
from concord.schemas.columns import ENTITY, VIOLATION
from concord.schemas.document import Document
from concord.schemas.drift import Drift, Movement
from concord.schemas.nights import NightLine
from concord.schemas.review import ReadAnswer, ReadVerdict
from concord.schemas.run import RunKey, RunManifest, RunSettings, ShardReport
from concord.workers.corpus.plan import plan
from concord.workers.corpus.shards import read_batch
from concord.workers.report import chosen
from concord.workers.report.answered import AnsweredDocument, ShardTables
from concord.workers.report.other_labels import OtherLabels
from concord.workers.report.places import (
    ErrorKind,
    GoldVerdict,
    PlaceChange,
    TypedPlaces,
    changes_between,
    errors_of,
    places_of,
    verdict_on,
)
from concord.workers.report.sections import RunFacts, at_a_glance
from concord.workers.report.viewed import MOST_LETTERS_SHOWN, MOST_TOKENS_SHOWN, viewed
from concord.workers.storage.storage import FolderStorage
from concord.workers.synthesis.made_up import synthesize
from tests.support.made_pages import HOSTILE, corpus_with_a_bad_row, hostile_run, text_of, viewer_of
from tests.support.runs_here import label, stay_here

MADE_UP = tuple(synthesize(9, seed=1, kind="news"))


class Made:
    """A run of an engine that makes labels agree, one of the model alone, and their corpus with gold."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.corpus, self.run, self.alone = (str(folder / name) for name in ("corpus", "out", "alone"))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    folder = tmp_path_factory.mktemp("made")
    corpus_with_a_bad_row(MADE_UP, folder)
    with pytest.MonkeyPatch.context() as patched:
        stay_here(patched)
        settings = RunSettings(engine="gibbs", options={"sweeps": 20}, confidence="marginal")
        label(folder / "corpus", folder / "out", settings=settings)
        label(folder / "corpus", folder / "alone")
    return Made(folder)


@pytest.fixture(scope="module")
def page(made: Made) -> bytes:
    return run_page(made.run, against=made.alone, gold=made.corpus).data


# Places of entities


def test_places_are_the_entities_that_the_run_wrote(made: Made) -> None:
    table = concord.read_predictions(made.run).to_arrow()
    found = list(places_of(table["labels"], table["sentence_starts"]))
    assert len(found) == len(table) == len(MADE_UP)
    for places, entities in zip(found, table["entities"].to_pylist(), strict=True):
        assert places == {(one["start"], one["end"]): one["type"] for one in entities}


def some_places() -> st.SearchStrategy[TypedPlaces]:
    """Places that do not overlap, over 12 tokens."""

    def cut(choices: list[tuple[int, str | None]]) -> TypedPlaces:
        places, start = {}, 0
        for length, kind in choices:
            if kind is not None and start + length <= 12:
                places[start, start + length] = kind
            start += length
        return places

    return st.lists(st.tuples(st.integers(1, 3), st.sampled_from([None, "A", "B"])), max_size=8).map(cut)


@given(some_places(), some_places(), some_places())
def test_changes_and_what_gold_says_of_them(before: TypedPlaces, after: TypedPlaces, gold: TypedPlaces) -> None:
    changes = changes_between(before, after)
    assert {(c.start, c.end) for c in changes} == {p for p in {*before, *after} if before.get(p) != after.get(p)}
    again = dict(before)
    for change in changes:
        again.pop((change.start, change.end), None)
        if change.after is not None:
            again[change.start, change.end] = change.after
        verdict = verdict_on(change, gold)
        assert (verdict is GoldVerdict.SPOILED) == (gold.get((change.start, change.end)) == change.before)
        assert (verdict is GoldVerdict.MENDED) == (gold.get((change.start, change.end)) == change.after)
        assert verdict_on(change, None) is GoldVerdict.UNKNOWN
    assert again == after


@given(some_places(), some_places())
def test_errors_are_those_of_a_plain_loop(answer: TypedPlaces, gold: TypedPlaces) -> None:
    def meets(place: tuple[int, int], others: TypedPlaces) -> bool:
        return any(a < place[1] and place[0] < b for a, b in others)

    wanted = [
        (*place, kind, ErrorKind.TYPE if place in gold else ErrorKind.EDGES if meets(place, gold) else ErrorKind.EXTRA)
        for place, kind in answer.items()
        if gold.get(place) != kind
    ]
    wanted += [(*place, kind, ErrorKind.MISSED) for place, kind in gold.items() if not meets(place, answer)]
    assert [tuple(error) for error in errors_of(answer, gold)] == sorted(wanted)


@given(st.permutations([f"d{i}" for i in range(6)]), st.sets(st.integers(0, 5)))
def test_what_stands_beside_is_found_in_any_order(order: list[str], absent: set[int]) -> None:
    there: dict[str, TypedPlaces] = {name: {(0, 1): name} for i, name in enumerate(order) if i not in absent}
    beside = OtherLabels(iter(there.items()))
    for i in range(6):
        assert beside.of(f"d{i}") == there.get(f"d{i}")


# Figures


def test_changes_add_up_to_those_between_the_runs(made: Made, page: bytes) -> None:
    mine, other = concord.read_predictions(made.run), concord.read_predictions(made.alone)
    rows = mine.changes(other).to_pylist()
    kinds = Counter((row["before"] or "no name", row["after"] or "no name") for row in rows)
    assert rows
    text = text_of(page)
    (section,) = re.findall(r"What differs from the other run(.*?)What each constraint did", text)
    for (before, after), count in kinds.items():
        assert re.search(rf" {before} {after} {count:,} ", section), (before, after, count)
    gold = {d.doc_id: spans_of(d) for shard in plan(made.corpus) for d in read_batch(shard)[0]}
    wanted = [(gold[r["doc_id"]].get((r["start"], r["end"])), r["before"], r["after"]) for r in rows]
    verdicts = [sum(right == now for right, _, now in wanted), sum(right == then for right, then, _ in wanted)]
    assert min(verdicts) > 0
    assert f" all all {len(rows):,} {verdicts[0]:,} {verdicts[1]:,} {len(rows) - sum(verdicts):,}" in section


def spans_of(document: Document) -> dict[tuple[int, int], str]:
    """The gold spans of a document, by a plain loop."""
    assert document.labels is not None
    labels, spans, start = [*document.labels.strings(), "O"], {}, -1
    for t, name in enumerate(labels):
        if start >= 0 and (not name.startswith("I-") or t in document.sentence_starts):
            spans[start, t] = labels[start][2:]
            start = -1
        if name.startswith("B-"):
            start = t
    return spans


def test_scores_are_those_of_evaluate(made: Made, page: bytes) -> None:
    text = text_of(page)
    report = evaluate(made.run, made.corpus, against=made.alone).report
    assert report.headline in text
    for name, one in report.measures.items():
        assert one.interval_line(name) in text
    wrong = sum(one.gold - one.correct for one in report.measures["spans"].names.values())
    assert wrong > 0
    assert "Errors" in text


def test_the_first_lines_say_verdict_score_model_date_and_what_changed(made: Made, page: bytes) -> None:
    head = text_of(page.partition(b"</header>")[0])
    report = evaluate(made.run, made.corpus, against=made.alone).report
    spans = report.measures["spans"]
    low, high = (100 * end for end in spans.intervals["f1"])
    (night,) = read_record(FolderStorage(Path(made.run))).nights
    lines = [
        "Verdict look at: 1 row rejected",
        f"Score spans F1 {100 * spans.figures['f1']:.2f} (95 % interval {low:.2f} to {high:.2f})",
        "Model ",
        f"Date {night.time[:16].replace('T', ' ')} UTC, run 1 of the folder",
        "Since the last run this is the first run of the folder",
    ]
    places = [head.find(line) for line in lines]
    assert min(places) >= 0, (head, places)
    assert places == sorted(places)
    assert "Score" not in text_of(run_page(made.run).data.partition(b"</header>")[0])


NIGHT = NightLine(
    night=3, time="2026-11-29T03:04:05+00:00", user="", host="", mlflow_run="", asked={}, documents=9, labelled=9,
    rejected=0, failed=0, certified=1.0, seconds=1.0,
)  # fmt: skip
MOVED = Movement(figure="label B-PER", of="answers", before=0.1, after=0.3, p_value=0.001, breach=True)
MANIFEST = RunManifest(
    dataset="", run=RunKey(settings=RunSettings(), model="m" * 64, constraints="", code=""), totals=ShardReport(),
    shards=1, lists={},
)  # fmt: skip


@pytest.mark.parametrize("rejected", [0, 2])
@pytest.mark.parametrize("gone", [0, 4])
@pytest.mark.parametrize("movements", [(), (MOVED,)])
@pytest.mark.parametrize("end", [None, "failed", "withheld", "cancelled"])
def test_the_verdict_names_all_that_is_to_be_looked_at_and_nothing_else(
    rejected: int, gone: int, movements: tuple[Movement, ...], end: str | None
) -> None:
    drift = Drift(against=2, last=10, new=1, gone=gone, changed=0, movements=movements)
    night = NIGHT.model_copy(update={"drift": drift})
    later = [] if end is None else [NIGHT.model_copy(update={"night": 4, end: 1})]
    manifest = MANIFEST.model_copy(update={"totals": MANIFEST.totals.model_copy(update={"rejected": rejected})})
    facts = RunFacts("out", None, None, {}, manifest, [night, *later], night, None, None)
    lines = dict(at_a_glance(facts))
    verdict = lines["Verdict"]
    parts = {"rejected": rejected, "are gone": gone, "drift in": len(movements), "a later run, 4": len(later)}
    assert {name: name in verdict for name in parts} == {name: bool(is_so) for name, is_so in parts.items()}
    assert (verdict == "all is well") == (not any(parts.values()))
    assert "1 new" in lines["Since the last run"]
    assert lines["Date"] == "2026-11-29 03:04 UTC, run 3 of the folder"


def test_a_reject_has_its_place_and_reason(made: Made, page: bytes) -> None:
    (reject,) = pq.read_table(next(Path(made.run, "_rejects").iterdir())).to_pylist()
    text = text_of(page)
    assert "1 row of the corpus could not be read or labelled" in text
    assert f"1 {reject['reason']} {reject['source']}, row 1" in text


def test_a_document_leads_back_to_its_rows(made: Made, page: bytes) -> None:
    viewer = viewer_of(page)
    assert {one["id"] for one in viewer["documents"]} == {document.doc_id for document in MADE_UP}
    for one in viewer["documents"]:
        file, row = one["row"]
        assert pq.read_table(Path(made.corpus, file))["doc_id"][row].as_py() == one["id"]
        path, number = one["answer"]
        assert pq.read_table(Path(made.run, path))["doc_id"][number].as_py() == one["id"]


def test_the_viewer_has_all_labellings_of_each_part(made: Made, page: bytes) -> None:
    gold = {d.doc_id: d for shard in plan(made.corpus) for d in read_batch(shard)[0]}
    rows = {row["doc_id"]: row for row in concord.read_predictions(made.run).to_arrow().to_pylist()}
    other = {row["doc_id"]: row for row in concord.read_predictions(made.alone).to_arrow().to_pylist()}
    viewer = viewer_of(page)
    assert viewer["layers"] == ["this run", "model alone", "other run", "gold"]
    for one in viewer["documents"]:
        row, document = rows[one["id"]], gold[one["id"]]
        assert document.labels is not None
        labellings = [row["labels"], row["viterbi_labels"], other[one["id"]]["labels"], document.labels.strings()]
        for _, start, words, layers in one["parts"]:
            assert row["tokens"][start : start + len(words)] == words
            for labels, spans in zip(labellings, layers, strict=True):
                for first, last, kind in spans:
                    assert labels[start + first] == f"B-{kind}"
                    assert all(label == f"I-{kind}" for label in labels[start + first + 1 : start + last])
                inside = sum(last - first for first, last, _ in spans)
                assert inside == sum(label != "O" for label in labels[start : start + len(words)])
        charges = {c["name"]: c["penalty"] for c in row["viterbi_constraints"]}
        for name, before, after in one["charges"]:
            assert before == pytest.approx(charges[name], abs=1e-3)
            assert after == pytest.approx({c["name"]: c["penalty"] for c in row["constraints"]}[name], abs=1e-3)


def test_a_change_says_how_sure_it_is_where_the_run_was_asked_for_that(made: Made, page: bytes) -> None:
    rows = {row["doc_id"]: row for row in concord.read_predictions(made.run).to_arrow().to_pylist()}
    compared = 0
    for one in viewer_of(page)["documents"]:
        row = rows[one["id"]]
        sure = zip(row["entities"], row["entity_probability"], strict=True)
        wanted = {(entity["start"], entity["end"]): f"{probability:.1%}" for entity, probability in sure}
        for start, end, *_, text in one["changes"]:
            assert text == wanted.get((start, end), "")
            compared += bool(text)
    assert compared


def test_the_time_of_each_step_is_in_the_record_and_on_the_page(made: Made, page: bytes) -> None:
    (night,) = read_record(FolderStorage(Path(made.run))).nights
    assert list(night.steps) == ["read", "score", "decode", "write"]
    assert "By step" in text_of(page)


def test_the_promise_of_a_review_is_recomputed_and_shown(made: Made, tmp_path: Path) -> None:
    assert "nothing is promised" in text_of(run_page(made.run).data)
    with open_review(made.run, tmp_path / "review", {"error": 0.3}) as review:
        while review.standing.place is not None and not review.promised:
            thing = review.things[review.standing.place]
            review.add(ReadAnswer(**thing._asdict(), verdict=ReadVerdict.RIGHT))
        review.write()
    file, out = tmp_path / "review" / "promise.json", tmp_path / "page.html"
    concord.report(made.run, out=out, promise=file)
    said = r"promise how many of the others are right\. At most 30 % of the [\d,]+ surest"
    assert re.search(said, text_of(out.read_bytes()))
    concord.report(made.alone, out=out, promise=file)
    assert "This promise is void, as the run is another one; review this run: At most" in text_of(out.read_bytes())
    with pytest.raises(concord.InputError, match="is no promise"):
        concord.report(made.run, out=out, promise=tmp_path / "review" / "review.json")


# The page of a run that asks for it


def test_a_run_that_asks_logs_its_page_and_links_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    logged: dict[str, object] = {}
    corpus = corpus_with_a_bad_row(MADE_UP, tmp_path)
    stay_here(monkeypatch, logged=logged)
    silent = label(corpus, tmp_path / "out")
    assert silent.report_page is None
    assert "report.html" not in logged
    for _ in range(2):  # the second time nothing is to be labelled, and the page is made all the same
        logged.clear()
        report = label(corpus, tmp_path / "out", report=True)
        assert report.report_page == "http://mlflow/report.html"
        assert "How good it is" in text_of(logged["report.html"])  # type: ignore[arg-type]
        shown = page_of(report)
        assert shown is not None
        assert "[the page of this run, with its documents](http://mlflow/report.html)" in shown.markdown


def test_a_run_of_a_corpus_without_gold_has_a_page_without_scores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logged: dict[str, object] = {}
    stay_here(monkeypatch, logged=logged)
    table = pq.read_table(corpus_with_a_bad_row(MADE_UP, tmp_path)).drop_columns(["labels"])
    pq.write_table(table, tmp_path / "bare.parquet")
    label(tmp_path / "bare.parquet", tmp_path / "out", report=True)
    text = text_of(logged["report.html"])  # type: ignore[arg-type]
    assert "How good it is" not in text
    assert "What the constraints changed" in text


def test_a_run_of_rejects_alone_has_a_page_that_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stay_here(monkeypatch)
    bad = pq.read_table(corpus_with_a_bad_row(MADE_UP, tmp_path)).slice(1, 1)
    pq.write_table(bad, tmp_path / "bad.parquet")
    with pytest.raises(NothingLabelledError):
        label(tmp_path / "bad.parquet", tmp_path / "out")
    page = run_page(str(tmp_path / "out"))
    assert (page.documents, page.shown) == (0, 0)
    text = text_of(page.data)
    assert "1 row of the corpus could not be read or labelled" in text
    assert b"<script" not in page.data


# One small file that harms nobody


def test_the_same_run_has_the_same_page_and_reads_nothing_but_itself(made: Made, page: bytes) -> None:
    assert run_page(made.run, against=made.alone, gold=made.corpus).data == page
    text = page.decode()
    assert "default-src 'none'" in text
    assert not re.findall(r"(?:src|href|action)=(?!\"data:,\")|url\(|@import|https?:|localStorage", text)


def test_texts_are_no_markup_no_template_and_no_orders(tmp_path: Path) -> None:
    page = run_page(str(hostile_run(tmp_path / "run"))).data
    text = page.decode()
    assert text.count("<script") == text.count("</script>") == 2
    assert "<img" not in text
    assert not re.search("[\x1b\u202e\u2066]", text)
    assert "36108077" not in text_of(page)  # of {{6007*6011}}
    assert "{{6007*6011}}&lt;b&gt;&amp;amp;" in text
    assert len(page) < 60_000
    viewer = viewer_of(page)
    words = viewer["documents"][0]["parts"][0][2]
    assert [len(word) <= MOST_LETTERS_SHOWN for word in words] == [True] * len(HOSTILE)
    assert not re.search("[\x1b\u202e\u2066]", json.dumps(viewer, ensure_ascii=False))


def test_addresses_have_no_secrets(tmp_path: Path, made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    from concord.flows.labelling import run_page as module

    monkeypatch.setattr(module, "_sources", lambda _: {"corpus": "s3://KEY:S3CRET@bucket/c"})
    assert b"S3CRET" not in module.run_page(made.run).data


def test_scripts_are_short_and_every_file_is_in_the_wheel() -> None:
    folder = Path(concord.workers.report.__file__).parent
    scripts = {path.stem: path.read_text().splitlines() for path in folder.glob("*.js")}
    shared = scripts.pop("page")
    assert scripts.keys() == {"viewer", "review"}
    for script in scripts.values():
        assert len(shared) + len(script) <= 100
        assert max(map(len, shared + script)) < 190
    packed = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["tool"]["setuptools"]
    there = {path.name for path in folder.iterdir() if path.suffix not in (".py", "") and path.is_file()}
    assert set(packed["package-data"]["concord.workers.report"]) == there


# Which documents are shown


def shard_of(documents: int, *, tokens: int = 4, words: str = "w") -> ShardTables:
    rows = {
        "doc_id": [f"d{i:06d}" for i in range(documents)],
        "tokens": [[words] * tokens] * documents,
        "sentence_starts": [[0]] * documents,
        "status": ["optimal"] * documents,
        "constraints": pa.array([[]] * documents, pa.list_(VIOLATION)),
        "entities": pa.array([[]] * documents, pa.list_(ENTITY)),
    }
    return ShardTables("c.parquet", range(documents), "p.parquet", pa.table(rows), None, [])


def answered(shard: ShardTables, number: int, answer: TypedPlaces, *, seconds: float = 0.0) -> AnsweredDocument:
    return AnsweredDocument(shard, number, answer=answer, alone={}, other=None, gold=None, seconds=seconds)


def test_the_most_telling_documents_are_shown_whatever_the_order() -> None:
    shard = shard_of(400)
    changed = {i: {(t, t + 1): "A" for t in range(1 + i % 3)} for i in range(0, 400, 4)}
    pages = []
    for order in (range(400), range(399, -1, -1)):
        line = chosen.ShownDocuments()
        for i in order:
            line.offer(answered(shard, i, changed.get(i, {}), seconds=i / 1000), gap=float(i == 7))
        pages.append([one["id"] for one in line.documents()])
    assert pages[0] == pages[1]
    ids = pages[0]
    assert len(ids) == len(set(ids)) <= sum(chosen.ROOM.values()) + chosen.ROOM_OF_A_KIND
    most = {f"d{i:06d}" for i, places in changed.items() if len(places) == 3}
    assert most <= set(ids[: chosen.ROOM[chosen.CHANGED]])
    assert "d000007" in ids
    assert {f"d{i:06d}" for i in range(380, 400)} <= set(ids)


def test_documents_have_no_more_room_than_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chosen, "MOST_DATA", 1500)
    line = chosen.ShownDocuments()
    shard = shard_of(200)
    for i in range(200):
        line.offer(answered(shard, i, {(0, 1): f"T{i}"}), gap=0.0)
    assert 1 <= len(line.documents()) < 60
    assert len(line._lines) <= chosen.MOST_KINDS + len(chosen.ROOM)


def test_of_a_long_document_the_parts_that_differ_are_shown() -> None:
    shard = shard_of(1, tokens=100_000)
    one = viewed(answered(shard, 0, {(50_000, 50_002): "A", (59, 61): "B"}), gap=0.0)
    shown = [(start, len(words)) for _, start, words, _ in one["parts"]]
    assert sum(length for _, length in shown) <= MOST_TOKENS_SHOWN
    assert any(start <= 50_000 < start + length for start, length in shown)
    assert [left for left, *_ in one["parts"]].count(0) == len(shown) - 1
    first, second = (layers[0] for _, start, _, layers in one["parts"] if start in (0, 60))
    assert (first, second) == ([[59, 60, "B"]], [[0, 1, "B"]])


# The command


def test_the_command_writes_the_page_and_says_where(made: Made, tmp_path: Path) -> None:
    out = tmp_path / "report.html"
    done = CliRunner().invoke(app, ["report", "--run", made.run, "--out", str(out)])
    assert done.exit_code == 0, done.stderr
    assert done.stdout.splitlines() == [
        f"{len(MADE_UP)} documents, {len(MADE_UP)} of them to look at; {out.stat().st_size / 1000:.0f} kB",
        f"page in {out}",
    ]
    report = concord.report(made.run, out=out)
    assert report.bytes == out.stat().st_size


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--run", "{run}", "--out", "{run}/report.html"], "out is the folder of a run; give a place apart from it"),
        (["--run", "{corpus}", "--out", "{new}/r.html"], "so there is no whole run in this folder"),
        (["--run", "{run}", "--against", "{corpus}", "--out", "{new}/r.html"], "so there is no whole run"),
        (["--run", "{run}", "--corpus", "{new}/c", "--out", "{new}/r.html"], "/c: "),
        (["--run", "{run}", "--corpus", "{corpus}", "--out", "{corpus}/r.html"], "give a place apart from it"),
    ],
)
def test_what_cannot_be_is_told_in_a_line(made: Made, tmp_path: Path, words: list[str], line: str) -> None:
    places = {"run": made.run, "corpus": made.corpus, "new": str(tmp_path)}
    done = CliRunner().invoke(app, ["report", *(word.format(**places) for word in words)])
    assert done.exit_code == Exit.INPUT
    assert line in done.stderr.splitlines()[-1]
    assert not (tmp_path / "r.html").exists()


def test_a_change_names_its_kind() -> None:
    assert PlaceChange(0, 1, None, "A").kind == ("no name", "A")
