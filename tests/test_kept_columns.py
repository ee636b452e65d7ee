"""Columns of the corpus that predictions have, too: every type, what cannot be kept, and what a changed value does."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import concord
from concord.flows.commands import verify as verifying
from concord.flows.commands.verify import verify
from concord.flows.labelling.sources import OpenModel
from concord.flows.runfolder.delta_table import TABLE_FOLDER
from concord.schemas.columns import PREDICTION_COLUMNS, SchemaError
from concord.schemas.requests import TableForm
from concord.schemas.run import RunSettings
from concord.schemas.settings import TextSettings
from concord.workers.corpus.kept_columns import MOMENT, kept_type
from concord.workers.corpus.plan import plan
from concord.workers.corpus.row_digests import row_digests
from concord.workers.corpus.shards import read_documents
from concord.workers.verification.shard import _wrong_kept
from tests.support.made_runs import HashModel
from tests.support.runs_here import CONSTRAINTS, label, stay_here

NOON = datetime(2024, 5, 1, 12, 0, 0, 250, UTC)
DAY = date(2024, 5, 1)
COLUMNS: dict[str, tuple[pa.Array, list[Any]]] = {
    "string": (pa.array(["a", None, "", "b\n"]), ["a", None, "", "b\n"]),
    "large_string": (pa.array(["a", None, "", "b"], pa.large_string()), ["a", None, "", "b"]),
    "string_view": (pa.array(["a", None, "", "b"], pa.string_view()), ["a", None, "", "b"]),
    "categories": (pa.array(["a", None, "a", "b"]).dictionary_encode(), ["a", None, "a", "b"]),
    "int8": (pa.array([1, None, -3, 4], pa.int8()), [1, None, -3, 4]),
    "uint32": (pa.array([1, None, 2**32 - 1, 4], pa.uint32()), [1, None, 2**32 - 1, 4]),
    "numbered": (pa.array([7, None, 7, 9]).dictionary_encode(), [7, None, 7, 9]),
    "float32": (pa.array([0.5, None, -1.0, 4.0], pa.float32()), [0.5, None, -1.0, 4.0]),
    "bool": (pa.array([True, None, False, True]), [True, None, False, True]),
    "date32": (pa.array([DAY, None, DAY, DAY], pa.date32()), [DAY, None, DAY, DAY]),
    "date64": (pa.array([DAY, None, DAY, DAY], pa.date64()), [DAY, None, DAY, DAY]),
    "nanoseconds": (
        pa.array([NOON.replace(tzinfo=None), None, None, None], pa.timestamp("ns")),
        [NOON, None, None, None],
    ),
    "zone": (pa.array([NOON, None, None, None], pa.timestamp("us", "Europe/Berlin")), [NOON, None, None, None]),
    "nothing": (pa.nulls(4), [None] * 4),
}
IDS = ["doc-0", "doc-1", "doc-2", "doc-3"]


def settings(*names: str) -> RunSettings:
    return RunSettings(engine="viterbi", text=TextSettings(keep_columns=names))


def write(folder: Path, columns: dict[str, Any], *, raw: bool = True, name: str = "part", ids: Any = None) -> Path:
    """A corpus of four documents with these columns beside their texts."""
    words = [["Ada", "met", "Babbage"], ["no"], ["in", "London"], ["again"]]
    texts = {"text": [" ".join(part) for part in words]}
    tokens = {"tokens": words, "sentence_starts": pa.array([[0]] * 4, pa.list_(pa.int32()))}
    folder.mkdir(exist_ok=True)
    pq.write_table(pa.table({"doc_id": ids or IDS} | (texts if raw else tokens) | columns), folder / f"{name}.parquet")
    return folder


def predicted(out: Path) -> dict[str, list[Any]]:
    """The predictions by column, in the order of ids."""
    found: dict[str, list[Any]] = concord.read_predictions(out).to_arrow().sort_by("doc_id").to_pydict()
    return found


@pytest.mark.parametrize("raw", [True, False])
def test_a_column_of_any_plain_type_is_in_predictions_as_it_was(
    raw: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stay_here(monkeypatch)
    corpus = write(tmp_path / "corpus", {name: column for name, (column, _) in COLUMNS.items()}, raw=raw)
    report = label(corpus, tmp_path / "out", settings=settings(*COLUMNS))
    assert report.documents == 4
    table = concord.read_predictions(tmp_path / "out").to_arrow()
    assert {name: table.schema.field(name).type for name in COLUMNS} == {
        name: kept_type(column.type) for name, (column, _) in COLUMNS.items()
    }
    found = predicted(tmp_path / "out")
    assert {name: found[name] for name in COLUMNS} == {name: values for name, (_, values) in COLUMNS.items()}
    label(corpus, tmp_path / "without", settings=settings())
    assert set(predicted(tmp_path / "without")) == set(found) - set(COLUMNS)


def test_values_stay_with_their_documents_where_others_are_rejects(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stay_here(monkeypatch)
    bad = pa.array([b"a", b"b", b"\xff", b"d"]).view(pa.string())
    corpus = write(tmp_path / "corpus", {"source": bad, "n": [0, 1, 2, 3]}, ids=["doc-0", None, "doc-2", "doc-3"])
    report = label(corpus, tmp_path / "out", settings=settings("source", "n"), shard_bytes=1 << 20)
    assert (report.documents, report.rejected) == (2, 2)
    assert {reject.reason for reject in report.rejects} == {"doc_id is null", "source is not valid UTF-8"}
    found = predicted(tmp_path / "out")
    assert (found["doc_id"], found["source"], found["n"]) == (["doc-0", "doc-3"], ["a", "d"], [0, 3])


def test_a_changed_value_reaches_predictions_and_is_no_change_of_an_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stay_here(monkeypatch)
    corpus, out = tmp_path / "corpus", tmp_path / "out"
    given: dict[str, Any] = {"settings": settings("source"), "table": TableForm.DELTA}
    write(corpus, {"source": ["a", "b", "c", "d"], "other": [1, 2, 3, 4]})
    label(corpus, out, **given)
    write(corpus, {"source": ["a", "b", "C", "d"], "other": [9, 9, 9, 9]})
    report = label(corpus, out, **given)
    assert report.labelled == 1, "no document else differs in what the run reads"
    assert predicted(out)["source"] == ["a", "b", "C", "d"]
    assert concord.read_predictions(out).changes_since(1).num_rows == 0


def test_a_delta_table_has_the_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deltalake = pytest.importorskip("deltalake", reason="deltalake is not installed")
    stay_here(monkeypatch)
    corpus = write(tmp_path / "corpus", {name: column for name, (column, _) in COLUMNS.items()})
    label(corpus, tmp_path / "out", settings=settings(*COLUMNS), table=TableForm.DELTA)
    table = pa.table(deltalake.DeltaTable(str(tmp_path / "out" / TABLE_FOLDER)).to_pyarrow_table()).sort_by("doc_id")
    for name, (_, values) in COLUMNS.items():
        assert table[name].to_pylist() == values


LISTS = pa.array([["x"]] * 4)
WRONG: dict[str, tuple[dict[str, Any], str, str]] = {
    "missing": ({"source": list("abcd")}, "sorce", "part.parquet: --keep-columns sorce: .*'source'"),
    "lists": ({"source": LISTS}, "source", "type list<.*> cannot be kept; strings, numbers, booleans"),
    "bytes": ({"source": pa.array([b"x"] * 4)}, "source", "type binary cannot be kept"),
    "too large": ({"source": pa.array([1] * 4, pa.uint64())}, "source", "type uint64 cannot be kept"),
    "own": ({"status": list("abcd")}, "status", "predictions have a column of that name; rename it"),
}


@pytest.mark.parametrize("kind", WRONG)
def test_a_column_that_cannot_be_kept_is_named_before_anything_is_labelled(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    columns, name, words = WRONG[kind]
    stay_here(monkeypatch)
    with pytest.raises(SchemaError, match=words):
        label(write(tmp_path / "corpus", columns), tmp_path / "out", settings=settings(name))


def test_a_column_has_one_type_in_all_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stay_here(monkeypatch)
    corpus = write(tmp_path / "corpus", {"n": pa.array([1, 2, 3, 4], pa.int8())}, name="a")
    write(corpus, {"n": [5, 6, 7, 8]}, name="b", ids=["e", "f", "g", "h"])
    assert label(corpus, tmp_path / "out", settings=settings("n")).documents == 8, "width is no matter"
    write(corpus, {"n": list("5678")}, name="b", ids=["e", "f", "g", "h"])
    with pytest.raises(SchemaError, match=r"b\.parquet: n \(string\) are kept, but of .*a\.parquet n \(int64\)"):
        label(corpus, tmp_path / "out", settings=settings("n"))


@pytest.mark.parametrize(
    ("given", "names"),
    [("a,b", ("a", "b")), (["a,b", "c"], ("a", "b", "c")), ((), ()), ("a,", None), ("a,a", None), ([1], None)],
)
def test_names_are_joined_by_commas(given: Any, names: tuple[str, ...] | None) -> None:
    if names is None:
        with pytest.raises(ValueError, match="keep_columns"):
            TextSettings(keep_columns=given)
    else:
        assert TextSettings(keep_columns=given).keep_columns == names


STORED: list[Callable[[pa.Array], pa.Array]] = [
    lambda array: array,
    lambda array: array.slice(0),
    lambda array: array.cast(pa.timestamp("ns")) if array.type == pa.timestamp("us") else array.dictionary_encode(),
]


@pytest.mark.parametrize(
    "values",
    [
        pa.array([1.5, None, float("nan")]),
        pa.array([True, None, False]),
        pa.array([DAY, None, DAY]),
        pa.array([NOON.replace(tzinfo=None), None, None], pa.timestamp("us")),
        pa.array([1, None, 2]),
        pa.array(["x", None, "y"]),
    ],
    ids=lambda values: str(values.type),
)
def test_a_digest_is_of_the_value_however_it_is_stored(values: pa.Array) -> None:
    digests = [row_digests(pa.table({"a": pa.chunked_array([stored(values)])})) for stored in STORED]
    assert digests == [digests[0]] * len(STORED)
    assert len(set(digests[0])) == len(set(map(str, values.to_pylist())))


def test_all_columns_of_predictions_are_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stay_here(monkeypatch)
    corpus = write(tmp_path / "corpus", {})
    rich = RunSettings(engine="certify", confidence="margin", n_best=2, settle=True)
    label(corpus, tmp_path / "out", settings=rich)
    assert set(predicted(tmp_path / "out")) == PREDICTION_COLUMNS


def test_verify_knows_the_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stay_here(monkeypatch)
    corpus = write(tmp_path / "corpus", {"source": list("abcd"), "x": [1.0, None, float("nan"), 2.0]})
    label(corpus, tmp_path / "out", settings=settings("source", "x"))
    with (
        patch.object(verifying, "open_model", lambda name, registry: OpenModel(HashModel(), Path(name))),
        patch.object(verifying, "open_constraints", lambda opened, files, consistency: CONSTRAINTS),
    ):
        assert not verify(str(tmp_path / "out")).failed
    (shard,) = plan(corpus, text=settings("source", "x").text)
    columns = read_documents(shard, text=settings("source", "x").text).columns
    values = pa.table(dict(columns)).to_pylist()
    right = {"doc_id": "doc-2", "source": "c", "x": float("nan")}
    assert not list(_wrong_kept(right, values[2]))
    (fault,) = _wrong_kept(right | {"source": "C"}, values[2])
    assert (fault.doc_id, fault.field, fault.reason) == ("doc-2", "source", "is 'C', and in the corpus 'c'")
    assert [fault.field for fault in _wrong_kept({"doc_id": "doc-2"}, values[2])] == ["source", "x"]


def test_moments_are_in_one_zone() -> None:
    assert kept_type(pa.timestamp("s")) == kept_type(pa.timestamp("ns", "Asia/Tokyo")) == MOMENT
