"""Model folders that are damaged with hashes that fit: an error that names the file, or a model that works."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from concord.workers.constraints.consistency import LabelConsistency, PairCounts
from concord.workers.corpus.parquet import table_bytes
from concord.workers.learning.trainers.crfsuite import train
from concord.workers.models.arrays_file import ArrayKind, ArraysFileError, read_arrays, write_arrays
from concord.workers.models.attribute_names import ATTRIBUTES_FILE, read_names, write_names
from concord.workers.models.crf import ARRAYS, KIND, WEIGHTS_FILE, CrfModel
from concord.workers.models.feature_files import LIST_FILES
from concord.workers.models.folder import MANIFEST, ModelError, update_manifest
from concord.workers.models.loaders import load_model
from concord.workers.models.saved_consistency import EXTRA, consistency_extra, saved_consistency
from concord.workers.models.settings import CrfSettings
from tests.support.made_corpora import corpus
from tests.support.model_mutations import mend_hashes

NAMES = [kind.name for kind in ARRAYS]
MUTANTS = 250


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("models") / "tiny"
    documents = corpus(0, 12)
    model = train(documents, settings=CrfSettings(features="finkel", max_iterations=4, c1=0.01), out=out)
    extra = consistency_extra(LabelConsistency(PairCounts.of(documents, model.labels)))
    update_manifest(out, kind=KIND, extras={EXTRA: extra})
    return out


@pytest.mark.parametrize("seed", [0, 1])
def test_hundreds_of_mutants_are_refused_or_work(folder: Path, tmp_path: Path, seed: int) -> None:
    command = [
        sys.executable,
        "-m",
        "tests.support.model_mutations",
        str(folder),
        str(tmp_path),
        str(seed),
        str(MUTANTS),
    ]
    done = subprocess.run(command, cwd=Path(__file__).parents[1], capture_output=True, text=True, timeout=250)
    assert done.returncode == 0, done.stderr[-2000:]
    outcomes = json.loads(done.stdout)
    assert sum(outcomes.values()) == MUTANTS
    assert {name.split()[1] for name in outcomes} == {"refused", "worked"}
    assert "full_table worked" not in outcomes


def damaged_tables(data: bytes, rng: np.random.Generator) -> Iterator[bytes]:
    """A Parquet file with other bytes, cut off, and other tables in its place."""
    for _ in range(120):
        other = bytearray(data)
        for at in rng.integers(0, len(data), int(rng.integers(1, 4))).tolist():
            other[at] = int(rng.integers(256))
        yield bytes(other)
    yield from (data[: len(data) // 2], b"", b"PAR1")
    for columns in ({"x": ["a"]}, {"attribute": [1]}, {"attribute": [None]}, {"phrase": [["a"]], "type": [None]}):
        yield table_bytes(pa.table(columns))
    yield table_bytes(pa.table({"phrase": [[None]], "type": ["PER"]}))
    twice = pa.table([pa.array(["a"])] * 2, names=["attribute"] * 2)
    yield table_bytes(twice)


def test_damaged_tables_of_a_model_are_refused_or_work(tmp_path: Path) -> None:
    """Lists of names and of attributes whose hashes fit: one line that names the file, and never another error."""
    folder, rng = tmp_path / "model", np.random.default_rng(0)
    settings = CrfSettings(features="finkel+entities", max_iterations=3)
    model = train(corpus(0, 12), settings=settings, out=folder)
    names = [f"a{i}" for i in range(len(model.weights.start) - 1)]
    write_names(folder / ATTRIBUTES_FILE, pa.chunked_array([names]))
    content = json.loads((folder / MANIFEST).read_text())
    content["files"][ATTRIBUTES_FILE] = ""
    (folder / MANIFEST).write_text(json.dumps(content))
    for name in (LIST_FILES["entities"], ATTRIBUTES_FILE):
        said: list[str] = []
        good = (folder / name).read_bytes()
        for data in damaged_tables(good, rng):
            (folder / name).write_bytes(data)
            mend_hashes(folder)
            try:
                loaded = load_model(folder)
                assert isinstance(loaded, CrfModel)
                read_names(folder, loaded.manifest, len(names))
            except ModelError as error:
                said.append(str(error))
        (folder / name).write_bytes(good)
        assert len(said) > 60
        assert all(name in line and "\n" not in line for line in said)


def copied(folder: Path, to: Path) -> Path:
    to.mkdir()
    for file in folder.iterdir():
        (to / file.name).write_bytes(file.read_bytes())
    return to


def alter(array: NDArray[Any], value: object) -> NDArray[Any]:
    changed = array.copy()
    changed.reshape(-1)[0] = value
    return changed


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("start", lambda a: alter(a, 1), "start does not rise"),
        ("start", lambda a: a[::-1], "start does not rise"),
        ("start", lambda a: np.append(a, a[-1] + 9), "start does not rise"),
        ("label", lambda a: alter(a, 7), "label is not one of 7 labels"),
        ("label", lambda a: alter(a, -1), "label is not one of 7 labels"),
        ("label", lambda a: a[1:], "label is not one of 7 labels"),
        ("weight", lambda a: alter(a, np.nan), "a weight is not a number of at most 1e\\+06 nats"),
        ("weight", lambda a: alter(a, 1e300), "a weight is not a number"),
        ("transition", lambda a: alter(a, -np.inf), "'transition' has what is no number"),
        ("transition", lambda a: a[:6, :6], r"'transition' is \(6, 6\), want \(7, 7\)"),
        ("missing", lambda a: a[1:], r"'missing' is \(6,\), want \(7,\)"),
        ("missing", lambda a: np.full(7, 3, np.uint8).view(np.bool_), "'missing' has what is no truth value"),
        ("attribute_rows", lambda a: np.where(a >= 0, 10**6, a), "the table attribute points outside"),
        ("attribute_rows", lambda a: np.where(a >= 0, -2, a), "the table attribute points outside"),
        ("attribute_keys", lambda a: a[1:], "want a power of two"),
        ("conjunction_rows", lambda a: np.maximum(a, 0), "the table conjunction has no free slot"),
        ("value_rows", lambda a: np.maximum(a, 0), "the table value has no free slot"),
    ],
)
def test_what_a_kernel_would_stumble_over_is_named(
    folder: Path, tmp_path: Path, name: str, change: Callable[[NDArray[Any]], NDArray[Any]], message: str
) -> None:
    copy = copied(folder, tmp_path / "copy")
    arrays = read_arrays(copy / WEIGHTS_FILE, ARRAYS)
    i = NAMES.index(name)
    arrays[i] = change(arrays[i]).astype(arrays[i].dtype)
    write_arrays(copy / WEIGHTS_FILE, arrays)
    mend_hashes(copy)
    with pytest.raises(ModelError, match=message) as caught:
        load_model(copy)
    assert str(copy / WEIGHTS_FILE) in str(caught.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"labels": []}, "labels: Tuple should have at least 1 item"),
        ({"labels": ["O", "O"]}, "duplicate label"),
        ({"labels": ["O", "B-PER"]}, "are not O, and B- and I- of each type"),
        ({"labels": ["B-PER", "I-PER"]}, "are not O, and B- and I- of each type"),
        ({"labels": ["O", "NP"]}, "is not BIO"),
        ({"labels": ["O", ""]}, "labels.1: String should have at least 1 character"),
        ({"kind": ["crf"]}, "unknown kind"),
    ],
)
def test_a_manifest_whose_labels_make_no_set_is_refused(
    folder: Path, tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    copy = copied(folder, tmp_path / "copy")
    content = json.loads((copy / MANIFEST).read_text()) | change
    (copy / MANIFEST).write_text(json.dumps(content))
    with pytest.raises(ModelError, match=message):
        load_model(copy)


def test_a_manifest_nested_without_end_is_refused(tmp_path: Path) -> None:
    (tmp_path / MANIFEST).write_text("[" * 200_000)
    with pytest.raises(ModelError, match="no manifest"):
        load_model(tmp_path)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("exact", [[1]], "a table of counts is not of 3 types"),
        ("exact", [[1, 2, 3], [0, 1, 1], [0, 1, 1]], "exact is not symmetric"),
        ("subsequence", [[1, 2, 3], [0, -1, 1], [0, 1, 1]], "greater than or equal to 0"),
        ("unlabelled", [1, 2, 10**30], "less than or equal"),
        ("unlabelled", [1, 2], "a table of counts is not of 3 types"),
        ("exact_scale", 1e300, "less than or equal"),
        ("types", ["A", "B", "C"], "counted for other types"),
    ],
)
def test_damaged_counts_of_label_consistency_are_refused(
    folder: Path, tmp_path: Path, name: str, value: object, message: str
) -> None:
    assert saved_consistency(folder) is not None
    copy = copied(folder, tmp_path / "copy")
    content = json.loads((copy / MANIFEST).read_text())
    content["extras"][EXTRA][name] = value
    (copy / MANIFEST).write_text(json.dumps(content))
    with pytest.raises(ModelError, match=message):
        saved_consistency(copy)


def test_arrays_come_back_and_nothing_else_is_read(tmp_path: Path) -> None:
    path, kinds = (
        tmp_path / "a.bin",
        [ArrayKind("a", "<i8", ("n",)), ArrayKind("b", "<f8", ("m", "k")), ArrayKind("c", "|b1", ("m",))],
    )
    arrays: list[NDArray[Any]] = [np.arange(3), np.ones((2, 0)), np.array([True, False])]
    write_arrays(path, arrays)
    for read, written in zip(read_arrays(path, kinds), arrays, strict=True):
        np.testing.assert_array_equal(read, written)
        assert (read.dtype, read.shape) == (written.dtype, written.shape)
    data = path.read_bytes()
    huge = data.replace(b"(3,), }      ", b"(9999999,), }", 1)
    assert huge != data
    for damaged in (
        data[:-1],
        data + b"x",
        data[64:],
        huge,
        data.replace(b"<i8", b"<i4"),
        data.replace(b"<i8", b"|O8"),
    ):
        path.write_bytes(damaged)
        with pytest.raises(ArraysFileError):
            read_arrays(path, kinds)
