"""Nights beside each other: documents matched and figures counted as plain loops do, and whole runs that drift."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from concord.flows.errors import DriftedRunError, WithheldRunError
from concord.flows.nights import drift
from concord.flows.nights.record import read_record
from concord.flows.runfolder.published import Published
from concord.flows.screen.pages import page_of
from concord.flows.tracking.tracking import DESCRIPTION, RUN_NAME, Outcome
from concord.schemas.columns import PREDICTIONS_LAYOUT, batch_from_table, table_from_documents
from concord.schemas.document import Batch, Document
from concord.schemas.drift import Drift
from concord.schemas.run_report import RunReport
from concord.workers.constraints.constraint_file import parse_constraints
from concord.workers.corpus.ingestion import write_corpus
from concord.workers.drift.chart import NightScore
from concord.workers.drift.figures import DocumentFigures, DriftWatch
from concord.workers.drift.nights import Night, compare
from concord.workers.storage.storage import FolderStorage
from concord.workers.synthesis.made_up import synthesize
from tests.support.made_runs import HashModel
from tests.support.runs_here import label, stay_here

NEWS = list(synthesize(60, seed=1, kind="news"))


class OfNight(HashModel):
    """A model that knows the words of a few documents; other ``night``, other answers."""

    def __init__(self, night: int = 0) -> None:
        self.words = {word for document in NEWS[:40] for word in document.columns["tokens"].strings()}
        self.night = night
        self.digest = f"model of night {night}"

    def known(self, words: Sequence[str]) -> np.ndarray[Any, np.dtype[np.bool_]]:
        return np.array([word in self.words for word in words], np.bool_)

    def potentials(self, batch: Batch) -> Any:
        found = super().potentials(batch)
        found.unary[:, 1:] += 1.5 * self.night
        return found


def corpus_of(documents: Sequence[Document], folder: Path) -> Path:
    write_corpus(documents, folder, source="test", overwrite=True)
    return folder


def renamed(documents: Sequence[Document], start: str, words: str = "") -> list[Document]:
    """The documents under other names, with ``words`` added to each of their words."""
    table = table_from_documents(documents)
    ids = pa.array([f"{start}{name}" for name in table["doc_id"].to_pylist()])
    tokens = pa.array([[f"{word}{words}" for word in row] for row in table["tokens"].to_pylist()])
    found = table.set_column(0, "doc_id", ids).set_column(1, "tokens", tokens)
    return documents_of(found)


def documents_of(table: pa.Table) -> list[Document]:
    batch, rejects = batch_from_table(table, source="test")
    assert not rejects
    return [batch.document(i) for i in range(len(batch))]


def tables(out: Path) -> list[pa.Table]:
    return [pq.read_table(path) for path in sorted((out / "predictions").iterdir())]


def night(folder: Path, monkeypatch: pytest.MonkeyPatch, documents: Sequence[Document], model: HashModel) -> RunReport:
    stay_here(monkeypatch, model)
    return label(corpus_of(documents, folder / "corpus"), folder / "out", shard_bytes=4 << 10)


def test_figures_are_those_of_a_plain_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = OfNight()
    report = night(tmp_path, monkeypatch, NEWS, model)
    read = tables(tmp_path / "out")
    shown = {row["name"] for table in read for rows in table["constraints"].to_pylist() for row in rows}
    watched = [*sorted(shown)[:2], "no such constraint"]
    found = DocumentFigures.joined(DocumentFigures.of(table, DriftWatch(model.known, watched)) for table in read)
    rows = [row for table in read for row in table.to_pylist()]
    assert len(found) == len(rows) == report.documents
    for i, row in enumerate(rows):
        count = len(row["tokens"])
        assert found.ids[i] == row["doc_id"]
        expected = {
            "tokens": count,
            "unknown words": sum(word not in model.words for word in row["tokens"]) / count,
            "label PER": sum(name[2:] == "PER" for name in row["labels"]) / count,
            "certified": float(row["certified"]),
            "gap": row["gap"],
            "penalty": 1000 * row["penalty"] / count,
            "penalty of the model alone": 1000 * row["viterbi_penalty"] / count,
            "nats given up": 1000 * (row["viterbi_local"] - row["local"]) / count,
        }
        degrees = {violation["name"]: violation["degree"] for violation in row["constraints"]}
        expected |= {f"violations {name}": 1000 * degrees.get(name, 0.0) / count for name in watched}
        assert {name: found.figure(name)[i] for name in expected} == pytest.approx(expected)
    spans = [
        (i, entity["type"], entity["start"], entity["end"]) for i, row in enumerate(rows) for entity in row["entities"]
    ]
    assert [(d, found.types[kind], a, b) for d, kind, a, b in found.spans.tolist()] == spans


def figures(documents: dict[str, tuple[str, str]]) -> DocumentFigures:
    """Documents by id: their words, and their labels."""
    rows = [
        {
            "doc_id": name,
            "tokens": words.split(),
            "sentence_starts": [0],
            "labels": labels.split(),
            "entities": [
                {"type": label[2:], "start": i, "end": i + 1} for i, label in enumerate(labels.split()) if label != "O"
            ],
            "engine": "",
            **dict.fromkeys(("local", "penalty", "objective", "bound", "gap"), 0.0),
            "status": "",
            "certified": True,
            "constraints": [],
            "model_digest": "",
            "constraint_digest": "",
        }
        for name, (words, labels) in documents.items()
    ]
    return DocumentFigures.of(pa.Table.from_pylist(rows, schema=PREDICTIONS_LAYOUT.required), DriftWatch())


def test_documents_are_matched_by_id_and_text_wherever_they_stand() -> None:
    before = figures({"a": ("x y", "O B-PER"), "b": ("x", "O"), "c": ("x y z", "B-PER O B-LOC"), "d": ("z", "O")})
    after = figures(
        {
            "c": ("x y z", "B-ORG O B-LOC"),
            "e": ("w", "O"),
            "a": ("x y", "B-LOC B-ORG"),
            "b": ("xx", "O"),
            "d": ("z", "O"),
        }
    )
    found = compare(Night(before, after, DocumentFigures(), same_run=False), against=7, earlier=[]).drift
    assert (found.against, found.new, found.gone, found.texts, found.changed) == (7, 1, 0, 1, 2)
    assert found.differences == "1 new, 1 with another text, 2 with another answer"
    assert [(document.doc_id, document.spans) for document in found.most_changed] == [("a", 3), ("c", 2)]


def test_texts_differ_where_words_or_sentences_do() -> None:
    found = figures({"a": ("x yz", "O O"), "b": ("xy z", "O O"), "c": ("x yz", "O B-PER")})
    assert found.texts[0] == found.texts[2] != found.texts[1]
    assert found.answers[0] == found.answers[1] != found.answers[2]


def test_nothing_to_compare_is_no_drift() -> None:
    empty = DocumentFigures()
    for before, after in ((empty, empty), (figures({"a": ("x", "O")}), empty), (empty, figures({"a": ("x", "O")}))):
        assert compare(Night(before, after, empty, same_run=True), against=1, earlier=[]).drift.breaches == ()


def test_a_run_is_compared_with_the_last_of_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    first = night(tmp_path, monkeypatch, NEWS[:30], OfNight())
    assert first.drift is None
    again = night(tmp_path, monkeypatch, NEWS[:30], OfNight())
    assert (again.labelled, again.drift) == (0, None)
    usual = night(tmp_path, monkeypatch, NEWS[1:40], OfNight()).drift
    assert usual is not None
    assert (usual.against, usual.new, usual.gone, usual.changed, usual.breaches) == (2, 10, 1, 0, ())

    strange = [*NEWS[1:40], *renamed(NEWS[:20], "strange ", "q")]
    odd = night(tmp_path, monkeypatch, strange, OfNight()).drift
    assert odd is not None
    assert [(move.figure, move.of) for move in odd.breaches if move.figure == "unknown words"] == [
        ("unknown words", "texts")
    ]
    moved = {move.figure: move for move in odd.movements if move.of == "texts"}["unknown words"]
    assert moved.after == 1.0
    assert moved.before < 0.1
    assert (moved.unit, moved.file, len(moved.most)) == ("share", "part-00000.parquet", 5)
    assert all(name.startswith("strange ") for name in moved.most)
    assert moved.sentence.startswith("unknown words: none before, some now in the new texts (0 % → 100 %)")
    assert moved.sentence.endswith("most of all in part-00000.parquet (20 documents)")

    other = night(tmp_path, monkeypatch, strange, OfNight(1)).drift
    assert other is not None
    assert (other.new, other.gone, other.against) == (0, 0, 4)
    assert other.changed > 40
    assert {move.of for move in other.breaches} == {"answers"}
    assert len(other.most_changed) == 10
    (tmp_path / "out" / "manifest.json").write_text("{}")
    assert night(tmp_path, monkeypatch, strange, OfNight()).drift is None
    assert "not compared with the last night" in capfd.readouterr().err


def test_drift_is_told_to_mlflow_and_fails_where_that_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus, out = tmp_path / "corpus", tmp_path / "out"
    stay_here(monkeypatch, OfNight())
    label(corpus_of(NEWS[:30], corpus), out, fail_on_drift=True)
    outcomes: list[Outcome] = stay_here(monkeypatch, OfNight(1))
    with pytest.raises(DriftedRunError) as raised:
        label(corpus, out, fail_on_drift=True)
    assert "is published, but drifted from night 1: " in str(raised.value)
    assert outcomes[-1].status == "FINISHED"
    assert set(outcomes[-1].tags) == {"drift", DESCRIPTION, RUN_NAME}
    assert " with another answer · " in outcomes[-1].tags[RUN_NAME]
    assert outcomes[-1].tags["drift"].splitlines()[0] in str(raised.value)
    assert label(corpus, out, fail_on_drift=True).drift is None  # nothing new


def night_named(out: Path, number: int) -> str:
    """A night of an output as sentences name it."""
    line = read_record(FolderStorage(out)).nights[number - 1]
    return f"night {number} ({line.time[:16].replace('T', ' ')} UTC)"


def tags_of(report: RunReport) -> tuple[str, ...]:
    """Prefect's tags of a run."""
    page = page_of(report)
    assert page is not None
    return page.tags


def test_a_corpus_that_loses_half_of_its_files_is_not_published(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two of four files are missing, as after a copy that broke off: no shard is new, half of them are gone."""
    corpus, out = tmp_path / "corpus", tmp_path / "out"
    for number in range(4):
        corpus_of(NEWS[10 * number : 10 * number + 10], corpus / f"{number}")
    outcomes = stay_here(monkeypatch, OfNight())
    label(corpus, out)
    before = {path: path.read_bytes() for path in (out / "predictions").iterdir()}
    for number in (1, 2):
        (corpus / f"{number}").rename(tmp_path / f"{number}")
    for _ in range(2):
        with pytest.raises(WithheldRunError, match=r"is not published: 20 of the last 40 documents are gone") as raised:
            label(corpus, out)
        report = raised.value.report
        assert (
            report.headline
            == "nothing published: 20 of the last 40 documents are gone; readers still have " + night_named(out, 1)
        )
        assert tags_of(report) == ("withheld", "gone")
        assert (outcomes[-1].status, outcomes[-1].tags["gone"]) == ("FAILED", "20 of the last 40 documents are gone")
        assert {path: path.read_bytes() for path in (out / "predictions").iterdir()} == before
    assert [night.withheld for night in read_record(FolderStorage(out)).nights] == [False, True, True]
    report = label(corpus, out, allow_gone=True)
    assert report.headline == "nothing new: 0 of 20 documents; 20 of the last 40 documents are gone"
    assert tags_of(report) == ("nothing new", "gone")
    assert outcomes[-1].status == "FINISHED"
    assert len(list((out / "predictions").iterdir())) == len(before) // 2


@pytest.mark.parametrize(("lost", "published"), [(4, True), (5, False)])
def test_a_tenth_of_the_documents_may_be_gone(
    lost: int, published: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    night(tmp_path, monkeypatch, NEWS[:40], OfNight())
    if not published:
        with pytest.raises(WithheldRunError, match="5 of the last 40"):
            night(tmp_path, monkeypatch, NEWS[lost:40], OfNight())
        return
    report = night(tmp_path, monkeypatch, NEWS[lost:40], OfNight())
    assert report.headline.endswith("; 4 of the last 40 documents are gone")
    assert "gone" in tags_of(report)


def without(table: pa.Table, name: str, value: Any) -> pa.Table:
    """The table with another value of a column from the tenth row on."""
    place, column = table.schema.get_field_index(name), table[name]
    rows = [value if row >= 10 else given for row, given in enumerate(column.to_pylist())]
    return table.set_column(place, table.schema.field(name).with_nullable(True), pa.array(rows, column.type))


LOSSES: dict[str, Callable[[pa.Table], pa.Table]] = {
    "files that are not there": lambda table: table[:10],
    "texts that are empty": lambda table: without(table, "tokens", []),
    "texts that are null": lambda table: without(table, "tokens", None),
    "a column that is null in all rows": lambda table: table.set_column(
        1, "tokens", pa.nulls(20, table["tokens"].type)
    ),
    "sentences that start beyond the end": lambda table: without(table, "sentence_starts", [10**6]),
    "ids that are null": lambda table: without(table, "doc_id", None),
    "ids that all are one": lambda table: without(table, "doc_id", "one"),
    "ids of another form": lambda table: table.set_column(
        0, "doc_id", pa.array([f"v2/{name}" for name in table["doc_id"].to_pylist()])
    ),
}
"""Ways in which readers would lose the answers to half of twenty documents, or to all."""


@pytest.mark.parametrize("loss", LOSSES)
def test_a_night_that_takes_answers_away_is_not_published(
    loss: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    night(tmp_path, monkeypatch, NEWS[:20], OfNight())
    corpus, out = tmp_path / "corpus", tmp_path / "out"
    before = {path: path.read_bytes() for path in (out / "predictions").iterdir()}
    part = corpus / "part-00000.parquet"
    pq.write_table(LOSSES[loss](pq.read_table(part)), part)
    outcomes = stay_here(monkeypatch, OfNight())
    with pytest.raises(WithheldRunError, match=r"is not published: [12]0 of the last 20 documents are gone") as raised:
        label(corpus, out, shard_bytes=4 << 10)
    report = raised.value.report
    assert report.drift is not None
    assert report.headline.startswith(f"nothing published: {report.drift.told_gone}; readers still have")
    assert {"withheld", "gone"} <= set(tags_of(report))
    assert outcomes[-1].tags["gone"] == report.drift.told_gone
    assert {path: path.read_bytes() for path in (out / "predictions").iterdir()} == before
    assert "too many documents are gone to publish" in capsys.readouterr().err
    lost = report.drift.gone
    if report.rejected < 20:
        report = label(corpus, out, shard_bytes=4 << 10, allow_gone=True)
        assert report.drift is not None
        assert report.drift.gone == lost
        assert f"{lost} of the last 20 documents are gone" in report.headline


def test_documents_with_another_text_are_not_gone_and_rejects_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    night(tmp_path, monkeypatch, NEWS[:20], OfNight())
    part = tmp_path / "corpus" / "part-00000.parquet"
    edited = pa.concat_tables([table_from_documents(renamed(NEWS[:18], "", "x")), table_from_documents(NEWS[18:20])])
    tokens = pa.array([[] if row >= 18 else words for row, words in enumerate(edited["tokens"].to_pylist())])
    pq.write_table(edited.set_column(1, "tokens", tokens.cast(edited["tokens"].type)), part)
    stay_here(monkeypatch, OfNight())
    report = label(tmp_path / "corpus", tmp_path / "out", shard_bytes=4 << 10)
    assert report.drift is not None
    assert (report.drift.gone, report.drift.missing, report.rejected) == (2, 0, 2)
    assert (report.drift.new, report.drift.texts) == (0, 18)
    assert "; 2 of the last 20 documents are gone, 2 of them as rejects; " in report.headline
    assert "gone" in tags_of(report)


LEXICON = "- {{template: lexicon, name: {name}, words: [{words}], labels: [O], weight: {weight}}}"


def under_rules(monkeypatch: pytest.MonkeyPatch, model: OfNight, *rules: tuple[str, str, float]) -> None:
    """Runs under lexicons that have a name, words and a weight."""
    stay_here(monkeypatch, model)
    entries = [LEXICON.format(name=name, words=words, weight=weight) for name, words, weight in rules]
    declared = parse_constraints("\n".join(["constraints:", *entries]), file="rules.yaml")
    bound = declared.bind(model.labels)
    monkeypatch.setattr("concord.flows.labelling.label_job.open_constraints", lambda *_, **__: bound)


EDITS: dict[str, tuple[tuple[str, str, float], ...]] = {
    "another weight": (("words", "the, of, in", 8.0), ("signs", "'.'", 1.0)),
    "other words": (("words", "the, of, in, a, from, on", 2.0), ("signs", "'.'", 1.0)),
    "one more": (("words", "the, of, in", 2.0), ("signs", "'.'", 1.0), ("more", "a, from, on, at", 5.0)),
    "one less": (("signs", "'.'", 1.0),),
}
"""Rules of a second night, whose first had the words at 2 nats, and the signs."""


@pytest.mark.parametrize("edit", EDITS)
def test_an_edit_of_rules_that_changes_no_answer_is_no_drift(
    edit: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine viterbi: penalties are counted, and decide nothing."""
    corpus = corpus_of(NEWS[:40], tmp_path / "corpus")
    under_rules(monkeypatch, OfNight(), ("words", "the, of, in", 2.0), ("signs", "'.'", 1.0))
    assert label(corpus, tmp_path / "out", shard_bytes=4 << 10).penalty > 0.0
    under_rules(monkeypatch, OfNight(), *EDITS[edit])
    report = label(corpus, tmp_path / "out", shard_bytes=4 << 10, fail_on_drift=True)
    assert report.drift is not None
    assert (report.drift.differences, report.drift.breaches) == ("no document differs", ())


@pytest.mark.parametrize("edit", EDITS)
def test_penalties_are_those_of_rules_that_both_nights_have_at_the_weights_of_the_second(
    edit: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus, out = corpus_of(NEWS[:40], tmp_path / "corpus"), tmp_path / "out"
    under_rules(monkeypatch, OfNight(), ("words", "the, of, in", 2.0), ("signs", "'.'", 1.0))
    label(corpus, out, shard_bytes=4 << 10)
    first = degrees(out)
    under_rules(monkeypatch, OfNight(1), *EDITS[edit])
    report = label(corpus, out, shard_bytes=4 << 10)
    assert report.drift is not None
    weights = {"signs": 1.0} | ({"words": EDITS[edit][0][2]} if edit in ("another weight", "one more") else {})
    (moved,) = [one for one in report.drift.movements if (one.of, one.figure) == ("answers", "penalty")]
    now = [
        np.mean([sum(w * row.get(name, 0.0) for name, w in weights.items()) for row in rows])
        for rows in (first, degrees(out))
    ]
    assert (moved.before, moved.after) == pytest.approx(now)
    assert not [
        one for one in report.drift.movements if one.figure in ("violations more", "penalty of the model alone")
    ]


def degrees(out: Path) -> list[dict[str, float]]:
    """Violations of each document per 1,000 words, by constraint."""
    rows = [row for table in tables(out) for row in table.to_pylist()]
    return [{v["name"]: 1000 * v["degree"] / len(row["tokens"]) for v in row["constraints"]} for row in rows]


def test_nights_are_judged_by_those_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    night(tmp_path, monkeypatch, NEWS[:30], OfNight())
    night(tmp_path, monkeypatch, NEWS[:30], OfNight(1))
    record = read_record(FolderStorage(tmp_path / "out"))
    (scores,) = record.charts()
    assert {name.partition(": ")[0] for name in scores} == {"answers"}
    last = record.nights[-1]
    assert isinstance(last.drift, Drift)
    usual = [{name: NightScore(score.z, score.size) for name, score in scores.items()}] * 30
    monkeypatch.setattr(type(record), "charts", lambda _: usual)
    again = night(tmp_path, monkeypatch, NEWS[:30], OfNight())
    assert again.drift is not None
    assert again.drift.changed == last.drift.changed
    assert again.drift.breaches == ()


def test_of_very_many_documents_some_are_drawn_the_same_in_both_nights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    night(tmp_path, monkeypatch, NEWS, OfNight())
    monkeypatch.setattr(drift, "MOST_DOCUMENTS", 20)
    found = night(tmp_path, monkeypatch, NEWS[5:], OfNight(1)).drift
    assert found is not None
    assert found.sampled
    assert (found.new, found.gone % 3) == (0, 0)
    assert 20 < found.changed <= 90


OF_DRIFT = 4
"""Arguments by which whole tables are read; the feed of changes reads some columns, of all shards that differ."""


@pytest.mark.parametrize("most_documents", [1000, 20])
def test_of_very_many_shards_some_are_read_the_same_of_both_nights(
    most_documents: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Documents that are new or gone are all counted: their shards are read."""
    read = dict.fromkeys(("before", "after"), 0)

    def reading(documents: Sequence[Document], model: HashModel) -> Drift:
        read.update(before=0, after=0)
        stay_here(monkeypatch, model)
        found = label(corpus_of(documents, tmp_path / "corpus"), tmp_path / "out").drift
        assert found is not None
        return found

    stay_here(monkeypatch, OfNight())
    label(corpus_of(NEWS[:50], tmp_path / "corpus"), tmp_path / "out")
    monkeypatch.setattr(drift, "MOST_SHARDS", 8)
    monkeypatch.setattr(drift, "MOST_DOCUMENTS", most_documents)
    old, new = Published.table, drift._table

    def old_table(*given: Any) -> pa.Table:
        read["before"] += len(given) == OF_DRIFT
        return old(*given)

    def new_table(*given: Any) -> pa.Table:
        read["after"] += 1
        return new(*given)

    monkeypatch.setattr(Published, "table", old_table)
    monkeypatch.setattr(drift, "_table", new_table)
    found = reading(NEWS[:50], OfNight(1))
    assert found.sampled
    assert (found.new, found.gone) == (0, 0), "the same shards of both nights"
    assert 0 < read["before"] == read["after"] < 20
    assert 10 <= found.changed <= 150
    monkeypatch.setattr(drift, "MOST_DOCUMENTS", 1000)
    found = reading([*NEWS[:10], *NEWS[50:], *NEWS[10:45]], OfNight())
    assert (found.new, found.gone) == (10, 5)
    assert read["after"] == read["before"] + 5 < 30
