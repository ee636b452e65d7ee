"""Agreement over the corpus: counts and prior against plain loops, its file, and its place among other constraints."""

from __future__ import annotations

import math
import shlex
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer
from hypothesis import given, settings
from hypothesis import strategies as st

from concord.flows.cli.app import app
from concord.flows.cli.next_steps import after_agreement
from concord.flows.labelling.sources import OpenModel, open_constraints
from concord.schemas.document import Batch, Document
from concord.schemas.labels import LabelSet
from concord.schemas.potentials import Potentials
from concord.workers.audit.auditing import explain
from concord.workers.constraints.constraint_set import PriorAlone, build_problems
from concord.workers.inference.core.chain import viterbi
from concord.workers.inference.registry import Decoder
from concord.workers.models.corpus_agreement import (
    About,
    AgreementFileError,
    AnswerCounts,
    CorpusAgreement,
    read_agreement,
    write_agreement,
)
from concord.workers.models.model import local_scores, viterbi_labels
from concord.workers.models.settings import AgreementSettings
from tests.support.made_runs import HashModel

MODEL = HashModel()
LABELS = MODEL.labels
VITERBI = Decoder.of("viterbi")
ABOUT = About(model=MODEL.digest, types=LABELS.types, settings=AgreementSettings(scale=0.5, tokens=2.0))

corpora = st.lists(
    st.lists(st.lists(st.sampled_from(["Basel", "Rome", "of", "Ann"]), min_size=1, max_size=5), min_size=1, max_size=3),
    min_size=1,
    max_size=5,
)


def _documents(nested: list[list[list[str]]]) -> list[Document]:
    return [Document.build(f"d{i}", sentences) for i, sentences in enumerate(nested)]


def _counts(batch: Batch) -> AnswerCounts:
    return AnswerCounts.of(batch, MODEL.potentials(batch), LABELS)


def _said(document: Document) -> list[tuple[str, int]]:
    """Each token's word, and 0 or 1 more than the type of its Viterbi label."""
    found = viterbi_labels(MODEL, Batch.of([document])).tolist()
    return [(w, int(LABELS.type_of[y]) + 1) for w, y in zip(document.columns["tokens"].strings(), found, strict=True)]


@settings(max_examples=50, deadline=None)
@given(nested=corpora, cut=st.integers(0, 5))
def test_counts_are_those_of_plain_loops_however_the_corpus_is_cut(nested: list[list[list[str]]], cut: int) -> None:
    documents = _documents(nested)
    parts = [_counts(Batch.of(part)) for part in (documents[:cut], documents[cut:]) if part]
    found = AnswerCounts.merge([AnswerCounts.none(LABELS, rejected=2), *parts])
    expected = Counter(said for document in documents for said in _said(document))
    assert (found.documents, found.rejected) == (len(documents), 2)
    assert list(found.words) == sorted({word for word, _ in expected})
    for word, row in zip(found.words, found.counts.tolist(), strict=True):
        assert row == [expected[word, kind] for kind in range(len(LABELS.types) + 1)]


@settings(max_examples=50, deadline=None)
@given(nested=corpora)
def test_the_prior_is_that_of_the_other_documents(nested: list[list[list[str]]]) -> None:
    documents = _documents(nested)
    batch = Batch.of(documents)
    agreement = CorpusAgreement(_counts(batch), ABOUT)
    potentials = MODEL.potentials(batch)
    found = agreement.adjust(batch, potentials, LABELS).unary - potentials.unary
    every = [_said(document) for document in documents]
    kinds = len(LABELS.types) + 1
    total = Counter(kind for said in every for _, kind in said)
    share = [(total[k] + 1) / (sum(total.values()) + kinds) for k in range(kinds)]
    place = 0
    for d, said in enumerate(every):
        elsewhere = Counter(pair for other, pairs in enumerate(every) if other != d for pair in pairs)
        for word, _ in said:
            known = sum(elsewhere[word, k] for k in range(kinds))
            for y in range(len(LABELS)):
                k = int(LABELS.type_of[y]) + 1
                wanted = 0.5 * math.log((elsewhere[word, k] + 2 * share[k]) / (known + 2) / share[k])
                assert found[place, y] == pytest.approx(wanted, abs=1e-9)
                assert known or abs(found[place, y]) < 1e-9
            place += 1


def test_a_document_gets_the_same_by_itself_and_among_others() -> None:
    documents = _documents([[["Basel", "of", "Rome"]], [["Ann", "of", "Basel"], ["Rome"]], [["Rome", "Rome"]]])
    batch = Batch.of(documents)
    agreement = CorpusAgreement(_counts(batch), ABOUT)
    together = list(build_problems(batch, MODEL.potentials(batch), LABELS, PriorAlone(agreement)))
    for document, problem in zip(documents, together, strict=True):
        alone = Batch.of([document])
        (own,) = build_problems(alone, MODEL.potentials(alone), LABELS, PriorAlone(agreement))
        np.testing.assert_array_equal(own.potentials.unary, problem.potentials.unary)


def test_many_votes_elsewhere_turn_a_close_call() -> None:
    labels = LabelSet.infer(["B-LOC", "B-PER"])
    close, sure = ([0.0, 5.0, -9.0, 5.1, -9.0], [0.0, 9.0, -9.0, 0.0, -9.0])
    batch = Batch.of(_documents([[["Basel"]], *[[["Basel"]]] * 20]))
    potentials = Potentials(np.array([close, *[sure] * 20]), np.zeros((5, 5)), batch.sentence_starts)
    about = About(model="m", types=labels.types, settings=AgreementSettings())
    agreement = CorpusAgreement(AnswerCounts.of(batch, potentials, labels), about)
    assert labels.names[viterbi(potentials.legal(labels))[0]] == "B-PER"
    assert labels.names[viterbi(agreement.adjust(batch, potentials, labels).legal(labels))[0]] == "B-LOC"


def test_it_can_be_left_out_and_has_a_digest_of_its_own() -> None:
    batch = Batch.of(_documents([[["Basel", "Rome"]], [["Basel"]]]))
    agreement = PriorAlone(CorpusAgreement(_counts(batch), ABOUT))
    assert agreement.titles == ("agreement over the corpus",)
    off = agreement.without("agreement over the corpus")
    potentials = MODEL.potentials(batch)
    assert off.adjust(batch, potentials, LABELS) is potentials
    assert off.titles == ()
    with pytest.raises(KeyError):
        agreement.without("agreement")
    fewer = CorpusAgreement(_counts(Batch.of(_documents([[["Basel"]]]))), ABOUT)
    assert len({agreement.digest, off.digest, fewer.digest}) == 3


def test_a_scale_of_0_adds_nothing() -> None:
    batch = Batch.of(_documents([[["Basel", "Rome"]], [["Basel"]]]))
    none = ABOUT.model_copy(update={"settings": AgreementSettings(scale=0.0)})
    potentials = MODEL.potentials(batch)
    assert CorpusAgreement(_counts(batch), none).adjust(batch, potentials, LABELS) is potentials


def test_the_prior_is_no_set_of_constraints_and_stands_for_one_that_is_empty() -> None:
    documents = _documents([[["Basel", "Rome"]], [["Basel"]]])
    batch = Batch.of(documents)
    agreement = CorpusAgreement(_counts(batch), ABOUT)
    assert not {"names", "titles", "without", "ground"} & set(dir(agreement))
    for problem in build_problems(batch, MODEL.potentials(batch), LABELS, PriorAlone(agreement)):
        assert (problem.constraint_names, len(problem.rows), problem.agreements) == ((), 0, ())
    explained = explain(
        documents[0], local_scores(MODEL, Batch.of(documents[:1])), PriorAlone(agreement), LABELS, decoder=VITERBI
    )
    assert [(e.name, e.degree, e.penalty) for e in explained.effects] == [("agreement over the corpus", None, None)]


def test_equal_counts_give_equal_bytes_and_come_back(tmp_path: Path) -> None:
    agreement = CorpusAgreement(_counts(Batch.of(_documents([[["Basel", "Rome"]]]))), ABOUT)
    for name in ("a.parquet", "b.parquet"):
        write_agreement(tmp_path / name, agreement.counts, ABOUT)
    assert (tmp_path / "a.parquet").read_bytes() == (tmp_path / "b.parquet").read_bytes()
    read = read_agreement(tmp_path / "a.parquet", LABELS)
    assert (read.digest, read.about) == (agreement.digest, ABOUT)
    opened = OpenModel(MODEL, tmp_path)
    assert open_constraints(opened, [str(tmp_path / "a.parquet")], consistency=False).digest == agreement.digest


def test_counts_come_before_declared_features_whatever_is_named_first(tmp_path: Path) -> None:
    write_agreement(tmp_path / "a.parquet", _counts(Batch.of(_documents([[["Basel"]]]))), ABOUT)
    declared = tmp_path / "c.yaml"
    declared.write_text("constraints:\n  - {template: lexicon, labels: LOC, words: [Basel], weight: 1}\n")
    names = [str(declared), str(tmp_path / "a.parquet")]
    given = open_constraints(OpenModel(MODEL, tmp_path), names, consistency=False)
    assert given.titles[0] == "agreement over the corpus"


def _cut(table: pa.Table, column: str, value: object) -> pa.Table:
    place = table.column_names.index(column)
    changed = pa.array([value] * table.num_rows, table.schema.field(column).type)
    return table.set_column(place, table.schema.field(column), changed)


FAULTS: dict[str, Callable[[pa.Table], pa.Table | None]] = {
    "no such file": lambda _: None,
    "no file of": lambda table: table.replace_schema_metadata({}),
    "its columns are not": lambda table: table.drop_columns(["outside"]),
    "a word is there twice": lambda table: _cut(table, "word", "Basel"),
    "below 0": lambda table: _cut(table, "outside", -1),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_damaged_file_is_one_message(tmp_path: Path, fault: str) -> None:
    write_agreement(tmp_path / "a.parquet", _counts(Batch.of(_documents([[["Basel", "Rome"]]]))), ABOUT)
    table = FAULTS[fault](pq.read_table(tmp_path / "a.parquet"))
    if table is None:
        (tmp_path / "a.parquet").unlink()
    else:
        pq.write_table(table, tmp_path / "a.parquet")
    with pytest.raises(AgreementFileError, match=fault):
        read_agreement(tmp_path / "a.parquet", LABELS)


def test_foreign_files_and_other_labels_are_one_message(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(b"nothing")
    with pytest.raises(AgreementFileError, match="not a Parquet file"):
        read_agreement(tmp_path / "a.parquet", LABELS)
    write_agreement(tmp_path / "a.parquet", _counts(Batch.of(_documents([[["Basel"]]]))), ABOUT)
    with pytest.raises(AgreementFileError, match="count again with this model"):
        read_agreement(tmp_path / "a.parquet", LabelSet.infer(["B-GENE"]))


def test_the_next_step_that_is_printed_can_be_typed() -> None:
    typed = shlex.split(shlex.join(after_agreement("corpora/all docs/", "models/news/", "a b/agreement.parquet")))
    command = typer.main.get_command(app).get_command(None, typed[0])  # type: ignore[attr-defined]
    with command.make_context(typed[0], typed[1:]) as context:
        assert context.params["corpus"] == "corpora/all docs/"
        assert context.params["model"] == "models/news/"
        assert list(map(str, context.params["constraints"])) == ["a b/agreement.parquet"]
        assert str(context.params["out"]) == "a b/agreement-out"
