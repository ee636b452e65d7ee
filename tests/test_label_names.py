"""Label sets as they come: what is read, what is refused by name, and gold labels of Parquet in one scheme."""

from __future__ import annotations

import re
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from concord.flows.cli.app import app
from concord.flows.cli.failures import Exit
from concord.flows.commands import mining
from concord.schemas.columns import (
    LABELS_ARE_PLAIN,
    LABELS_KEY,
    batch_from_table,
    table_from_batch,
    table_from_documents,
)
from concord.schemas.document import Document
from concord.schemas.label_names import read_label_names
from concord.schemas.labels import LabelError, LabelSet, Scheme, broken_span, to_bio
from concord.workers.corpus.plan import plan
from concord.workers.corpus.shards import read_batch
from concord.workers.learning.trainers.perceptron import train
from concord.workers.models.settings import PerceptronSettings
from tests.support.in_process import Here
from tests.support.scored import written

SPANS = {
    ("O", "B-X", "I-X"): ("O", "B-X", "I-X"),
    ("I-X", "O"): ("I-X", "O"),
    ("O", "B-X", "I-X", "E-X", "S-X", "S-A"): ("O", "B-X", "I-X", "I-X", "B-X", "B-A"),
    ("U-X", "L-X", "O"): ("B-X", "I-X", "O"),
    ("B-a/b", "O"): ("B-a/b", "O"),
    ("O",): ("O",),
}
PLAIN_SETS = [
    ("O", "author", "title"),
    ("author/person", "date"),
    ("NN", "NNP", "I", "VB"),
    ("AddressNumber", "StreetName", "U"),
    ("type-I", "type-II", "grade"),
    ("S_name", "first", "O"),
    (),
]
REFUSED = {
    ("O", "B-X", "I-X", "<pad>"): ("<pad>", "no token has such a label, so write 'O' where it stands"),
    ("O", "B-X", "other"): ("other", "write 'B-other' for the first token of a span and 'I-other' for the others"),
    ("O", "B-X", "B_Y"): ("B_Y", "write 'B-Y'"),
    ("O", "B_X", "I_X"): ("B_X", "write 'B-X'"),
    ("O", "B:X", "I:X", "other"): ("B:X", "write 'B-X'"),
    ("O", "b-x", "i-x"): ("b-x", "write 'B-x'"),
    ("O", "X-B", "X-I"): ("X-B", "write 'B-X'"),
    ("O", "X_L", "X_U"): ("X_L", "write 'L-X'"),
    ("B", "I", "L", "O"): ("B", "a prefix alone names no type, so write one behind it, such as 'B-NAME'"),
    ("B", "I", "O", "other"): ("B", "a prefix alone names no type"),
    ("O", "B-X", "I-"): ("I-", "a prefix alone names no type"),
    ("O", "B-X", "o"): ("o", "write 'O'"),
    ("B-X", "PER"): ("PER", "write 'B-PER'"),
}


@pytest.mark.parametrize("names", SPANS, ids=" ".join)
def test_names_with_prefixes_are_of_spans(names: tuple[str, ...]) -> None:
    read = read_label_names(names)
    assert (read.scheme, read.written, read.padding) == (Scheme.BIO, SPANS[names], ())
    assert read.label_set == LabelSet.bio(sorted({name[2:] for name in SPANS[names] if name != "O"}))
    assert read.marks_ends == any(name[:2] in ("E-", "S-", "L-", "U-") for name in names)


@pytest.mark.parametrize("names", PLAIN_SETS, ids=" ".join)
def test_names_without_any_are_plain(names: tuple[str, ...]) -> None:
    read = read_label_names(names)
    assert (read.scheme, read.written) == (Scheme.PLAIN, names)
    assert read.label_set == LabelSet(tuple(sorted(names)), Scheme.PLAIN)


@pytest.mark.parametrize("names", REFUSED, ids=" ".join)
def test_a_set_of_both_is_refused_by_the_name_that_spoils_it(names: tuple[str, ...]) -> None:
    spoiler, advice = REFUSED[names]
    with pytest.raises(LabelError) as caught:
        read_label_names(names)
    assert str(caught.value).startswith(f"label {spoiler!r}")
    assert advice in str(caught.value)
    assert str(caught.value).endswith("--scheme plain")
    asked = read_label_names(names, plain=True)
    assert (asked.scheme, asked.written) == (Scheme.PLAIN, names)


@pytest.mark.parametrize("name", ["<pad>", "[PAD]", "PAD", "pad", "[CLS]", "<s>", "Padding"])
def test_padding_of_a_model_is_no_label(name: str) -> None:
    read = read_label_names([name, "O", "B-X", "I-X"], padding=True)
    assert (read.padding, read.written, read.label_set) == ((name,), ("", "O", "B-X", "I-X"), LabelSet.bio(["X"]))


# Gold labels of Parquet

TAGS = [f"{mark}-{kind}" for mark in "BIELSU" for kind in ("X", "Y")]
sentence = st.lists(st.sampled_from(["O", "O", "B-X", "I-X", "I-Y", "B-Y", *TAGS]), min_size=1, max_size=5)


@given(st.lists(st.lists(sentence, min_size=1, max_size=3), min_size=1, max_size=5))
def test_gold_labels_come_out_as_the_reader_of_column_files_writes_them(corpus: list[list[list[str]]]) -> None:
    documents = [Document.build(f"d{i}", gold, labels=gold) for i, gold in enumerate(corpus)]
    batch, rejects = batch_from_table(table_from_documents(documents))
    marked = [any(name[:2] in ("E-", "L-", "S-", "U-") for names in gold for name in names) for gold in corpus]
    broken = [marks and any(_broken(names) for names in gold) for gold, marks in zip(corpus, marked, strict=True)]
    assert [reject.row for reject in rejects] == [i for i, bad in enumerate(broken) if bad]
    assert all("does not go with the labels beside it in BIOES or BILOU" in reject.reason for reject in rejects)
    good = [gold for gold, bad in zip(corpus, broken, strict=True) if not bad]
    found = [] if batch.labels is None else batch.labels.strings()
    assert found == [name for gold in good for names in gold for name in to_bio(names)]


def _broken(names: list[str]) -> bool:
    """Whether a sentence of a document that marks ends of spans is broken, though it may have no such mark itself."""
    return broken_span([*names, "S-X"]) is not None


def test_documents_are_judged_one_by_one_and_what_is_plain_stays() -> None:
    rows = [["B-X", "L-X"], ["B_X", "O"], ["I-X", "I-X"], ["author", "U-X"]]
    documents = [Document.build(f"d{i}", [["a", "b"]], labels=[names]) for i, names in enumerate(rows)]
    table = table_from_documents(documents)
    batch, _ = batch_from_table(table)
    assert batch.labels is not None
    assert batch.labels.strings() == ["B-X", "I-X", "B_X", "O", "B-X", "I-X", "author", "U-X"]
    assert set(batch.labels.values) == set(batch.labels.strings())
    asked = table.replace_schema_metadata((table.schema.metadata or {}) | {LABELS_KEY: LABELS_ARE_PLAIN})
    plain, _ = batch_from_table(asked)
    assert plain.labels is not None
    assert plain.labels.strings() == [name for names in rows for name in names]
    assert plain.document(0).labels is not None
    assert (table_from_batch(plain).schema.metadata or {})[LABELS_KEY] == LABELS_ARE_PLAIN


def call(*words: str, code: int = 0) -> Any:
    done = CliRunner().invoke(app, [*words])
    assert done.exit_code == code, done.output
    return done


def corpus_of(folder: Path, gold: list[list[str]], **metadata: str) -> str:
    words = [[f"w{i}x{t}" for t in range(len(names))] for i, names in enumerate(gold)]
    pairs = enumerate(zip(words, gold, strict=True))
    table = table_from_documents([Document.build(f"d{i}", [own], labels=[names]) for i, (own, names) in pairs])
    extra = {key.replace("_", ".").encode(): value.encode() for key, value in metadata.items()}
    return str(written(folder, table.replace_schema_metadata((table.schema.metadata or {}) | extra)))


SETTINGS = PerceptronSettings(features="core", passes=2)
BILOU = [["B-X", "L-X", "O"], ["U-X", "O", "O"], ["O", "B-Y", "I-Y", "L-Y"]] * 3


def read(corpus: str) -> list[Document]:
    return [document for shard in plan(corpus) for document in read_batch(shard)[0]]


def test_a_model_learns_spans_from_bilou_in_parquet(tmp_path: Path) -> None:
    documents = read(corpus_of(tmp_path / "bilou", BILOU))
    model = train(documents, settings=SETTINGS, out=tmp_path / "model")
    assert model.labels == LabelSet.bio(["X", "Y"])


@pytest.mark.parametrize(
    ("gold", "message"),
    [
        ([["B-X", "I-X", "<pad>"], ["O"]], "label '<pad>' beside 'B-X' is of no scheme of spans"),
        ([["B_X", "I_X", "O"], ["O"]], "label 'B_X' is of no scheme of spans: write 'B-X'"),
        ([["B", "I", "O"], ["O"]], "label 'B' is of no scheme of spans: a prefix alone names no type"),
        ([["B-X", "I-X", "O"], ["other"]], "label 'other' beside 'B-X' is of no scheme of spans"),
    ],
)
def test_a_corpus_of_a_mixed_set_is_refused_wherever_its_labels_count(
    gold: list[list[str]], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mining, "cluster", lambda *_, **__: nullcontext(Here(None)))
    corpus = corpus_of(tmp_path / "corpus", gold)
    said = call("constraints", "mine", "--all", "--corpus", corpus, "--out", str(tmp_path / "a.yaml"), code=Exit.INPUT)
    assert message in said.stderr
    assert "concord.labels=plain of the Parquet file" in said.stderr
    with pytest.raises(LabelError, match=re.escape(message)):
        train(read(corpus), settings=SETTINGS, out=tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_a_corpus_may_say_that_its_labels_are_plain(tmp_path: Path) -> None:
    corpus = corpus_of(tmp_path / "corpus", [["B", "I", "O"], ["O", "B", "I"]] * 3, concord_labels="plain")
    model = train(read(corpus), settings=SETTINGS, out=tmp_path / "model")
    assert model.labels == LabelSet(("B", "I", "O"), Scheme.PLAIN)


def test_labels_of_a_column_file_that_are_asked_for_as_plain_stay_plain(tmp_path: Path) -> None:
    (tmp_path / "a.conll").write_text("the O\nold B\nMira I\n\nLarvik B\n")
    words = ("--set", "columns=tokens,labels", "--set", "sentences_per_document=1")
    call("ingest", "columns", str(tmp_path / "a.conll"), *words, "--set", "scheme=plain", "--out", str(tmp_path / "c"))
    (shard,) = plan(str(tmp_path / "c"))
    batch, _ = read_batch(shard)
    assert batch.labels is not None
    assert (batch.labels.plain, batch.labels.strings()) == (True, ["O", "B", "I", "B"])
    assert pq.read_schema(tmp_path / "c" / "part-00000.parquet").metadata[LABELS_KEY] == LABELS_ARE_PLAIN


CASES = Path(__file__).parents[2] / "shared" / "cases"


@pytest.mark.skipif(not CASES.exists(), reason="the small inputs of users are not here")
def test_bilou_of_another_program(tmp_path: Path) -> None:
    table = pq.read_table(CASES / "parquet_bilou_labels" / "p.parquet")
    batch, rejects = batch_from_table(table)
    assert not rejects
    assert batch.labels is not None
    assert set(batch.labels.strings()) <= {"O", "B-PER", "I-PER"}
    assert isinstance(table, pa.Table)
