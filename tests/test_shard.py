"""The plain loop: what a shard writes, when it is done again, and that nothing depends on how it is cut."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from concord.flows.runfolder.folder_output import intact
from concord.schemas.document import Batch, Document
from concord.schemas.labels import LabelError
from concord.schemas.run import ConstraintFigures, RunKey, RunSettings, ShardMarker, ShardReport
from concord.workers.constraints.constraint_set import Unconstrained
from concord.workers.corpus.ingestion import write_corpus
from concord.workers.corpus.plan import plan
from concord.workers.corpus.settings import IngestSettings
from concord.workers.corpus.shards import Shard
from concord.workers.inference.registry import EngineError
from concord.workers.labelling import problems
from concord.workers.labelling.labelled import check_settings, label_batch
from concord.workers.labelling.output import MARKERS, PREDICTIONS, TIMES, finished, in_place, shard_key, shard_name
from concord.workers.labelling.report import report_of
from concord.workers.storage.files import OutputError
from concord.workers.storage.storage import FolderStorage
from concord.workers.synthesis.made_up import synthesize
from tests.support.made_runs import LABELS, HashModel, consistency, key_of, run


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    items = synthesize(12, seed=1, kind="news")
    write_corpus(items, tmp_path / "corpus", source="test", layout=IngestSettings(group_documents=4))
    return tmp_path / "corpus"


def content(out: Path) -> dict[str, bytes]:
    return {
        p.relative_to(out).as_posix(): p.read_bytes()
        for p in sorted(out.rglob("*"))
        if p.is_file() and TIMES not in p.parts
    }


def test_a_shard_leaves_predictions_a_marker_and_times_and_nothing_half_written(corpus: Path, tmp_path: Path) -> None:
    constraints = consistency()
    shards = plan(corpus, shard_bytes=1)
    assert len(shards) == 12
    key = key_of(constraints)
    reports = run(shards, tmp_path / "out", key, constraints)
    names = sorted(shard_name(shard, key) for shard in shards)
    for folder, suffix in ((PREDICTIONS, ".parquet"), (TIMES, ".parquet"), (MARKERS, ".json")):
        assert sorted(p.name for p in (tmp_path / "out" / folder).iterdir()) == [name + suffix for name in names]
    table = pq.read_table(tmp_path / "out" / PREDICTIONS)
    assert table.num_rows == sum(r.documents for r in reports) == 12
    assert sum(r.tokens for r in reports) == sum(len(d) for d in synthesize(12, seed=1, kind="news"))


def test_output_does_not_depend_on_order_or_on_what_is_scored_together(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    constraints = consistency()
    key = key_of(constraints)
    run(plan(corpus, shard_bytes=1), tmp_path / "a", key, constraints)
    monkeypatch.setattr(problems, "SCORE_TOKENS", 150)
    run(plan(corpus, shard_bytes=1)[::-1], tmp_path / "b", key, constraints)
    assert content(tmp_path / "a") == content(tmp_path / "b")


def known(shard: Shard, key: RunKey, store: Path) -> ShardMarker | None:
    """The marker of a finished shard, its files read and hashed."""
    return finished(shard_key(shard, key), FolderStorage(store), holds=partial(intact, store))


def test_each_document_is_decoded_as_if_it_were_alone() -> None:
    documents = list(synthesize(5, seed=2, kind="news"))
    key, constraints = key_of(consistency()), consistency()
    together = label_batch(Batch.of(documents), model=HashModel(), constraints=constraints, settings=key.settings)
    for document, decoded in zip(documents, together.decoded, strict=True):
        alone = label_batch(Batch.of([document]), model=HashModel(), constraints=constraints, settings=key.settings)
        np.testing.assert_array_equal(alone.decoded[0].labels, decoded.labels)
        assert alone.decoded[0].objective == decoded.objective


def test_a_finished_shard_is_known_again_and_any_change_makes_it_due(corpus: Path, tmp_path: Path) -> None:
    constraints, out = consistency(), tmp_path / "out"
    shard = plan(corpus, shard_bytes=1)[0]
    key = key_of(constraints)
    assert known(shard, key, out) is None
    run([shard], out, key, constraints)
    assert known(shard, key, out) is not None
    changed = (
        key_of(constraints, seed=1),
        key_of(constraints, engine="viterbi", options={}),
        key_of(constraints, options={"sweeps": 11}),
        key_of(constraints, work=10),
        key_of(constraints, text={"sentence_limit": 100}),
        *(key.model_copy(update={name: "other"}) for name in ("model", "constraints", "code")),
    )
    assert len({k.digest for k in (key, *changed)}) == len(changed) + 1
    assert all(known(shard, other, out) is None for other in changed)


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "a flipped bit": lambda data: bytes([*data[:100], data[100] ^ 1, *data[101:]]),
    "a zeroed tail": lambda data: data[:-64] + bytes(64),
    "cut short": lambda data: data[:-2],
    "empty": lambda data: b"",
    "an edited count": lambda data: data.replace(b'"documents": 1', b'"documents": 2'),
}


@pytest.mark.parametrize(
    ("folder", "damage"),
    [
        *((PREDICTIONS, d) for d in ("a flipped bit", "a zeroed tail", "cut short", "empty")),
        *((MARKERS, d) for d in DAMAGES),
    ],
)
def test_a_shard_whose_files_are_damaged_is_due(corpus: Path, tmp_path: Path, folder: str, damage: str) -> None:
    constraints, out = consistency(), tmp_path / "out"
    shard, key = plan(corpus, shard_bytes=1)[0], key_of(constraints)
    run([shard], out, key, constraints)
    (path,) = (out / folder).iterdir()
    good = path.read_bytes()
    assert DAMAGES[damage](good) != good
    path.write_bytes(DAMAGES[damage](good))
    assert known(shard, key, out) is None
    run([shard], out, key, constraints)
    assert path.read_bytes() == good
    assert known(shard, key, out) is not None


def test_writing_that_dies_half_way_leaves_no_marker_and_no_file(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    constraints = consistency()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OutputError, match=r"out/_times/\w+\.parquet: cannot be written \(No space left on device\)"):
        run(plan(corpus, shard_bytes=1)[:1], tmp_path / "out", key_of(constraints), constraints)
    assert [p for p in (tmp_path / "out").rglob("*") if p.is_file()] == []


def test_a_bad_row_is_a_reject_and_the_counts_add_up(tmp_path: Path) -> None:
    documents = list(synthesize(3, seed=1, kind="news"))
    write_corpus(documents, tmp_path / "corpus", source="test")
    path = tmp_path / "corpus" / "part-00000.parquet"
    table = pq.read_table(path)
    starts = table["sentence_starts"].to_pylist()
    starts[1] = [0, 10**6]
    column = table.schema.get_field_index("sentence_starts")
    pq.write_table(table.set_column(column, table.schema.field(column), pa.array(starts, pa.list_(pa.int32()))), path)
    constraints, out = consistency(), tmp_path / "out"
    (shard,) = plan(tmp_path / "corpus")
    key = key_of(constraints)
    report = run([shard], out, key, constraints)[0]
    assert (report.documents, report.rejected) == (2, 1)
    marker = known(shard, key, out)
    assert marker is not None
    assert [(r.source, r.row, r.doc_id) for r in in_place(marker.rejects, shard)] == [
        (str(path), 1, documents[1].doc_id)
    ]
    assert pq.read_table(out / PREDICTIONS)["doc_id"].to_pylist() == [documents[0].doc_id, documents[2].doc_id]


def test_the_report_counts_against_gold_and_against_viterbi(corpus: Path, tmp_path: Path) -> None:
    constraints = consistency()
    report = ShardReport.merge(run(plan(corpus, shard_bytes=1), tmp_path / "out", key_of(constraints), constraints))
    rows = pq.read_table(tmp_path / "out" / PREDICTIONS).to_pylist()
    assert report.relabelled == sum(a != b for r in rows for a, b in zip(r["labels"], r["viterbi_labels"], strict=True))
    assert report.relabelled > 0
    gold = {d.doc_id: d for d in synthesize(12, seed=1, kind="news")}
    wanted = sum(
        a == b
        for r in rows
        for a, b in zip(r["labels"], gold[r["doc_id"]].labels.strings(), strict=True)  # type: ignore[union-attr]
    )
    assert (report.correct_tokens, report.gold_tokens) == (wanted, sum(len(d) for d in gold.values()))
    figures = report.constraints["consistent"]
    assert figures.penalty < figures.penalty_before
    assert figures.penalty == pytest.approx(
        sum(c["penalty"] for r in rows for c in r["constraints"] if c["name"] == "consistent")
    )
    assert sum(report.statuses.values()) == report.documents == report.with_gold == 12
    assert report.gap_max == max(r["gap"] for r in rows)


def test_reports_merge_in_any_order_to_the_same_bytes() -> None:
    parts = [
        ShardReport(
            documents=1,
            gap_sum=0.1 * i,
            gap_max=float(i),
            statuses={"optimal": i},
            measures={"spans": {"PER": {"gold": i, "correct": 1}}} if i else {},
            constraints={"c": ConstraintFigures(degree=0.1 * i, penalty=float("inf") if i == 2 else 0.3)},
        )
        for i in range(6)
    ]
    merged = ShardReport.merge(parts)
    assert merged.model_dump_json() == ShardReport.merge(parts[::-1]).model_dump_json()
    assert merged.measures == {"spans": {"PER": {"correct": 5, "gold": 15}}}
    assert ShardReport.model_validate_json(merged.model_dump_json()) == merged


def test_gold_of_another_scheme_is_an_error_that_names_the_label() -> None:
    document = Document.build("d", [["a", "b"]], labels=[["NP", "NP"]])
    batch = Batch.of([document])
    key = key_of(Unconstrained(), engine="viterbi", options={})
    labelled = label_batch(batch, model=HashModel(), constraints=Unconstrained(), settings=key.settings)
    with pytest.raises(LabelError, match="'NP'"):
        report_of(batch, labelled, labels=LABELS, names=(), rejected=0)


def test_unknown_engines_and_options_are_refused_by_name() -> None:
    with pytest.raises(EngineError, match=r"'gips'; did you mean 'gibbs'\? there are"):
        check_settings(RunSettings(engine="gips"))
    with pytest.raises(EngineError, match=r"swoops.*it has .*sweeps"):
        check_settings(RunSettings(engine="gibbs", options={"swoops": 3}))
    with pytest.raises(EngineError, match="sweeps: Input should be greater"):
        check_settings(RunSettings(engine="gibbs", options={"sweeps": 0}))
