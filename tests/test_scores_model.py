"""Scores of another tagger: read from the corpus, and labelled as those of a model of our own."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.special import log_softmax, logsumexp
from typer.testing import CliRunner

from concord.flows.cli.app import app
from concord.flows.cli.failures import Exit
from concord.schemas.columns import SchemaError, batch_from_table, table_from_documents
from concord.schemas.document import Batch, Document, ScoreColumn
from concord.schemas.errors import DocumentError
from concord.schemas.labels import LabelError, LabelSet, Scheme
from concord.schemas.run import RunKey, RunSettings, ShardReport
from concord.workers.constraints.consistency import LabelConsistency, PairCounts
from concord.workers.constraints.constraint_set import Unconstrained
from concord.workers.corpus.plan import plan
from concord.workers.corpus.row_digests import row_digests
from concord.workers.corpus.shards import read_batch
from concord.workers.inference.core.chain import viterbi
from concord.workers.labelling.labelled import check_settings, label_batch
from concord.workers.labelling.shard import label_shard
from concord.workers.learning.trainers.sgd import train
from concord.workers.models.folder import ModelError
from concord.workers.models.loaders import load_model
from concord.workers.models.model import ReadsScores, score_column
from concord.workers.models.scores import (
    SCORES_FILE,
    TRANSITION_FILE,
    MissingScoresError,
    ScoresModel,
    label_set,
    placed,
    save,
    unary,
)
from concord.workers.models.settings import ScoresSettings, SgdSettings
from concord.workers.storage.storage import FolderStorage
from concord.workers.synthesis.made_up import synthesize
from tests.support.made_corpora import corpus
from tests.support.made_runs import LABELS, HashModel
from tests.support.model_mutations import mend_hashes
from tests.support.scored import LISTS, scored, with_column, written

WIDTH = len(LABELS)
COLUMN = ScoreColumn("scores", WIDTH)
NOTHING = np.zeros((WIDTH, WIDTH))
SOURCE = ScoresSettings(labels=LABELS.names)
INF = math.inf

KINDS = {
    "lists": LISTS,
    "fixed": pa.list_(pa.list_(pa.float64(), WIDTH)),
    "large": pa.large_list(pa.large_list(pa.float64())),
    "float": pa.list_(pa.list_(pa.float32())),
    "half": pa.list_(pa.list_(pa.float16(), WIDTH)),
}


def scores_of(documents: list[Document], seed: int = 0) -> list[NDArray[np.float64]]:
    """Log-probabilities that a float16 holds."""
    rng = np.random.default_rng(seed)
    tables = [log_softmax(rng.normal(size=(len(d), WIDTH)), axis=1) for d in documents]
    return [table.astype(np.float16).astype(np.float64) for table in tables]


def source_of(names: Sequence[str]) -> ScoresSettings:
    return ScoresSettings(labels=tuple(names))


DOCUMENTS = list(synthesize(8, seed=3, kind="news"))
SCORES = scores_of(DOCUMENTS)


@pytest.mark.parametrize("kind", KINDS)
def test_scores_of_any_float_and_list_are_read_as_they_are(kind: str, tmp_path: Path) -> None:
    table = scored(DOCUMENTS, SCORES, KINDS[kind])
    for part in (table, pa.concat_tables([table.slice(0, 3), table.slice(3)]), table.slice(2, 4)):
        batch, rejects = batch_from_table(part, scores=COLUMN)
        assert rejects == []
        ids = [DOCUMENTS[int(i)].doc_id for i in range(8)]
        for document in batch:
            assert document.scores is not None
            np.testing.assert_array_equal(document.scores, SCORES[ids.index(document.doc_id)])
    shards = plan(written(tmp_path / "corpus", table), shard_bytes=1 << 10, scores=COLUMN)
    assert len(shards) > 2
    read = [document for shard in shards for document in read_batch(shard)[0]]
    np.testing.assert_array_equal(
        np.concatenate([d.scores for d in read if d.scores is not None]), np.concatenate(SCORES)
    )


def test_scores_go_through_parts_of_batches() -> None:
    batch, _ = batch_from_table(scored(DOCUMENTS, SCORES), scores=COLUMN)
    again = Batch.of([*batch.part(2, 5), batch.document(7)])
    assert again.scores is not None
    np.testing.assert_array_equal(again.scores, np.concatenate([*SCORES[2:5], SCORES[7]]))
    assert Batch.of([batch.document(0), DOCUMENTS[1]]).scores is None
    nothing, _ = batch_from_table(scored(DOCUMENTS, SCORES).slice(0, 0), scores=COLUMN)
    assert nothing.scores is not None
    assert nothing.scores.shape == (0, WIDTH)


GOOD = [0.0, -INF, 1.5]
FAULTS = {
    "null row": (None, "scores is null"),
    "no tokens": ([], "scores has 0 values for 2 tokens"),
    "a token too many": ([GOOD] * 3, "scores has 3 values for 2 tokens"),
    "null token": ([GOOD, None], "scores holds a null"),
    "narrow": ([GOOD, GOOD[:2]], "scores has 2 scores for a token, want 3"),
    "empty": ([GOOD, []], "scores has 0 scores for a token, want 3"),
    "wide": ([[*GOOD, 1.0], GOOD], "scores has 4 scores for a token, want 3"),
    "null": ([GOOD, [0.0, None, 1.0]], "scores holds a null"),
    "NaN": ([[0.0, math.nan, 1.0], GOOD], "scores holds NaN"),
    "inf": ([GOOD, [INF, 0.0, 0.0]], "scores holds inf; of the infinite ones -inf alone has a meaning"),
    "mask": ([[-3.4e38, 0.0, 0.0], GOOD], "scores holds a score beyond 1e+06 nats; write -inf for what is forbidden"),
    "nothing allowed": ([GOOD, [-INF] * 3], "scores forbids every label of a token"),
}


def test_what_is_no_score_is_a_reject_and_its_neighbours_are_read() -> None:
    good = [GOOD, GOOD]
    rows = [row for bad, _ in FAULTS.values() for row in (good, bad)] + [good]
    documents = [Document.build(f"d{i}", [["a"], ["b"]]) for i in range(len(rows))]
    batch, rejects = batch_from_table(
        with_column(table_from_documents(documents), rows), scores=ScoreColumn("scores", 3), first_row=100
    )
    assert [(r.row, r.reason) for r in rejects] == [
        (101 + 2 * i, reason) for i, (_, reason) in enumerate(FAULTS.values())
    ]
    assert len(batch) + len(rejects) == len(rows)
    assert batch.scores is not None
    np.testing.assert_array_equal(batch.scores, np.tile(GOOD, (batch.token_count, 1)))


@given(
    widths=st.lists(st.lists(st.integers(0, 4), max_size=4), min_size=1, max_size=6),
    odd=st.sampled_from([math.nan, INF, -INF, 1e7, 0.0]),
    seed=st.integers(0, 9),
)
def test_every_row_is_read_or_rejected(widths: list[list[int]], odd: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    documents = [Document.build(f"d{i}", [["a", "b"]]) for i in range(len(widths))]
    rows = [[[odd if rng.random() < 0.1 else 1.0 for _ in range(w)] for w in row] for row in widths]
    batch, rejects = batch_from_table(
        with_column(table_from_documents(documents), rows), scores=ScoreColumn("scores", 2)
    )

    def good(row: list[list[float]]) -> bool:
        fits = len(row) == 2 and all(len(token) == 2 and max(token) > -INF for token in row)
        return fits and all(x == -INF or abs(x) <= 1e6 for token in row for x in token)

    kept = [i for i, row in enumerate(rows) if good(row)]
    assert [int(i[1:]) for i in batch.doc_ids] == kept
    assert sorted(kept + [r.row for r in rejects if r.row is not None]) == list(range(len(rows)))


@pytest.mark.parametrize(
    ("kind", "rows", "found"),
    [
        (pa.list_(pa.float32()), [[1.0, 2.0]], "has type list<.*float.*>, want list<list<float>>"),
        (pa.list_(pa.list_(pa.int32())), [[[1], [2]]], "has type list<.*int32.*want list<list<float>>"),
        (pa.list_(pa.string()), [["a", "b"]], "has type list<.*string.*want list<list<float>>"),
        (None, None, "is missing; there are .*, and the model reads its scores from it; add it"),
    ],
)
def test_a_column_of_another_type_stops_the_plan(kind: pa.DataType, rows: Any, found: str, tmp_path: Path) -> None:
    table = table_from_documents([Document.build("d", [["a", "b"]])])
    folder = written(tmp_path, table if kind is None else with_column(table, rows, kind))
    with pytest.raises(SchemaError, match=rf"part-00000.parquet: column 'scores' {found}"):
        plan(folder, scores=COLUMN)
    assert len(plan(folder)) == 1  # a model that reads no scores does not mind


def test_raw_text_has_no_scores(tmp_path: Path) -> None:
    folder = written(tmp_path, pa.table({"doc_id": ["a"], "text": ["Ada wrote."]}))
    with pytest.raises(SchemaError, match="column 'tokens' is missing"):
        plan(folder, scores=COLUMN)


def test_a_changed_score_changes_the_digest_of_its_row_and_storage_does_not(tmp_path: Path) -> None:
    whole = scored(DOCUMENTS, SCORES)
    digests = row_digests(whole)
    for kind in KINDS.values():
        assert row_digests(scored(DOCUMENTS, SCORES, kind)) == digests
    assert row_digests(whole.slice(2, 3)) == digests[2:5]
    changed = [rows.copy() for rows in SCORES]
    changed[4][-1, -1] += 1e-3
    other = row_digests(scored(DOCUMENTS, changed))
    assert [i for i in range(8) if digests[i] != other[i]] == [4]
    folder = written(tmp_path, whole)
    before = {shard.id for shard in plan(folder, shard_bytes=1, scores=COLUMN)}
    plain = [shard.id for shard in plan(folder, shard_bytes=1)]
    written(tmp_path, scored(DOCUMENTS, changed))
    after = [shard.id for shard in plan(folder, shard_bytes=1, scores=COLUMN)]
    assert [i for i, found in enumerate(after) if found not in before] == [4]
    assert [shard.id for shard in plan(folder, shard_bytes=1)] == plain


def test_odd_lists_of_scores_have_digests_of_their_own() -> None:
    """Every way to move a boundary between tokens, and null against empty and NaN."""
    rows: list[Any] = [
        None,
        [],
        [[]],
        [[], []],
        [None],
        [None, []],
        [[], None],
        [[0.0]],
        [[0.0], []],
        [[], [0.0]],
        [[0.0, 0.0]],
        [[0.0], [0.0]],
        [[None]],
        [[math.nan]],
        [[0.0, None]],
        [[None, 0.0]],
        [[INF]],
        [[-INF]],
    ]
    for kind in (LISTS, pa.large_list(pa.list_(pa.float16()))):
        table = pa.table({"scores": pa.array(rows, kind)})
        assert len(set(row_digests(table))) == len(rows)
        assert row_digests(table.slice(5, 9)) == row_digests(table)[5:14]


# What becomes of them


def test_log_probabilities_stay_as_they_are_and_logits_become_them() -> None:
    table = np.array([[0.5, -INF, -1.0, *[0.0] * 6], [3.0, 1.0, 2.0, *[-700.0] * 6]])
    np.testing.assert_array_equal(unary(table, LABELS, SOURCE), table)
    half = SOURCE.model_copy(update={"temperature": 0.5})
    np.testing.assert_array_equal(unary(table, LABELS, half), 2 * table)
    logits = half.model_copy(update={"form": "logits"})
    np.testing.assert_allclose(unary(table, LABELS, logits), log_softmax(2 * table, axis=1), atol=1e-12)
    shuffled = SOURCE.model_copy(update={"labels": LABELS.names[::-1]})
    np.testing.assert_array_equal(unary(table[:, ::-1], LABELS, shuffled), table)


@pytest.mark.parametrize(
    ("names", "labels", "scheme"),
    [
        (["O", "B-X", "I-X"], ("O", "B-X", "I-X"), Scheme.BIO),
        (["I-X", "B-X", "B-A"], ("O", "B-A", "I-A", "B-X", "I-X"), Scheme.BIO),
        (["B-X", "I-X", "E-X", "S-X", "O", "S-A"], ("O", "B-A", "I-A", "B-X", "I-X"), Scheme.BIO),
        (["O", "U-X", "B-X", "L-X"], ("O", "B-X", "I-X"), Scheme.BIO),
        (["title", "author/person", "O"], ("O", "author/person", "title"), Scheme.PLAIN),
        (["<pad>", "O", "B-X", "I-X"], ("O", "B-X", "I-X"), Scheme.BIO),
    ],
)
def test_the_labels_of_a_column_make_a_label_set(names: list[str], labels: tuple[str, ...], scheme: Scheme) -> None:
    assert label_set(source_of(names)) == LabelSet(labels, scheme)


def test_a_type_that_nothing_opens_is_refused() -> None:
    with pytest.raises(LabelError, match="no label opens a span of 'X'"):
        label_set(source_of(["O", "I-X"]))
    with pytest.raises(LabelError, match="no label opens a span of 'X'"):
        label_set(source_of(["O", "I-X", "E-X", "B-A"]))


def test_probabilities_of_bioes_add_up_to_those_of_bio_and_what_is_missing_is_forbidden() -> None:
    names = ["S-X", "E-X", "O", "I-X", "B-X", "S-A"]
    labels = label_set(source_of(names))
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(5, 6))
    made = unary(logits, labels, ScoresSettings(labels=tuple(names), form="logits"))
    share = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    wanted = {"O": share[:, 2], "B-X": share[:, 0] + share[:, 4], "I-X": share[:, 1] + share[:, 3], "B-A": share[:, 5]}
    for name, values in wanted.items():
        np.testing.assert_allclose(np.exp(made[:, labels.index[name]]), values, rtol=1e-12)
    assert np.all(made[:, labels.index["I-A"]] == -INF)
    with pytest.raises(LabelError, match="have no equal in BIO"):
        placed(np.zeros((6, 6)), source_of(names))


def test_given_transitions_find_their_places() -> None:
    names = ["I-X", "O", "B-X", "B-A"]
    matrix = np.arange(16.0).reshape(4, 4)
    whole, labels = placed(matrix, source_of(names)), label_set(source_of(names))
    for i, a in enumerate(names):
        for j, b in enumerate(names):
            assert whole[labels.index[a], labels.index[b]] == matrix[i, j]
    assert not whole[labels.index["I-A"]].any()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("scores")
    save(out, SOURCE, np.random.default_rng(5).normal(size=NOTHING.shape))
    return out


def test_a_saved_model_is_loaded_and_its_digest_is_of_all_that_decides(folder: Path, tmp_path: Path) -> None:
    model = load_model(folder)
    assert isinstance(model, ScoresModel)
    assert isinstance(model, ReadsScores)
    assert score_column(model) == COLUMN
    assert score_column(HashModel()) is None
    assert (model.labels, model.source) == (LABELS, SOURCE)
    digests = {model.digest}
    changes: list[dict[str, Any]] = [{"column": "other"}, {"form": "logits"}, {"temperature": 2.0}, {}]
    for number, change in enumerate(changes):
        (tmp_path / str(number)).mkdir()
        transition = model.transition if change else NOTHING
        digests.add(save(tmp_path / str(number), SOURCE.model_copy(update=change), transition).digest)
    assert len(digests) == 5
    with pytest.raises(MissingScoresError, match="read without the 9 scores a token of column 'scores'"):
        model.potentials(Batch.of(DOCUMENTS))


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        (SCORES_FILE, b"{", "Invalid JSON"),
        (SCORES_FILE, json.dumps({"labels": ["O", "O"]}).encode(), "a label is there twice"),
        (SCORES_FILE, json.dumps({"labels": ["O", "I-X"]}).encode(), "no label opens a span of 'X'"),
        (SCORES_FILE, json.dumps({"labels": ["O", "B-X"]}).encode(), "its labels are not those of manifest.json"),
        (SCORES_FILE, json.dumps({"labels": LABELS.names, "temperature": 0}).encode(), "greater than or equal to 0.01"),
        (TRANSITION_FILE, b"nonsense", "damaged \\(array 'transition' has no header"),
    ],
)
def test_a_damaged_folder_is_one_line(folder: Path, tmp_path: Path, file: str, content: bytes, message: str) -> None:
    for path in folder.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / file).write_bytes(content)
    with pytest.raises(ModelError, match="SHA-256 differs"):
        load_model(tmp_path)
    mend_hashes(tmp_path)
    with pytest.raises(ModelError, match=message):
        load_model(tmp_path)


@pytest.mark.parametrize(
    "transition", [np.zeros((3, 3)), np.full((WIDTH, WIDTH), np.nan), np.full((WIDTH, WIDTH), 1e7)]
)
def test_transitions_of_another_size_or_without_a_number_are_refused(
    transition: NDArray[np.float64], tmp_path: Path
) -> None:
    save(tmp_path, SOURCE, transition)
    with pytest.raises(ModelError, match=TRANSITION_FILE):
        load_model(tmp_path)


@pytest.mark.parametrize("engine", ["gibbs", "certify"])
def test_the_answers_are_those_of_a_crf_whose_scores_are_written_down(engine: str, tmp_path: Path) -> None:
    documents, more = corpus(0, 20), corpus(1, 8)
    (tmp_path / "scores").mkdir()
    crf = train(documents, settings=SgdSettings(features="finkel", passes=2), out=tmp_path / "crf")
    potentials = crf.potentials(Batch.of(more))
    bounds = Batch.of(more).doc_starts
    rows = [potentials.unary[a:b] for a, b in pairwise(bounds.tolist())]
    names = crf.labels.names
    source = ScoresSettings(labels=names, column="local", form="logits")
    model = save(tmp_path / "scores", source, placed(crf.transition, source))
    batch, rejects = batch_from_table(scored(more, rows, name="local"), scores=model.score_column)
    assert rejects == []
    agreement = LabelConsistency(PairCounts.of(documents, crf.labels))
    settings = check_settings(RunSettings(engine=engine))
    ours, theirs = (
        label_batch(given, model=made, constraints=agreement, settings=settings)
        for given, made in ((batch, model), (Batch.of(more), crf))
    )
    assert ours.refused == theirs.refused == {}
    for one, other, table in zip(ours.decoded, theirs.decoded, rows, strict=True):
        assert (one.labels.tolist(), one.status) == (other.labels.tolist(), other.status)
        assert one.objective == pytest.approx(other.objective - logsumexp(table, axis=1).sum(), abs=1e-6)
    assert [first.tolist() for first in ours.first] == [first.tolist() for first in theirs.first]


def scored_run(tmp_path: Path, rows: list[Any], **settings: object) -> ShardReport:
    """A shard of two-token documents under these scores of O, B-X and I-X, labelled."""
    documents = [Document.build(f"d{i}", [["a", "b"]]) for i in range(len(rows))]
    folder = written(tmp_path / "corpus", with_column(table_from_documents(documents), rows))
    (tmp_path / "model").mkdir()
    model = save(tmp_path / "model", ScoresSettings(labels=("O", "B-X", "I-X"), form="logits"), np.zeros((3, 3)))
    key = RunKey(
        settings=check_settings(RunSettings.model_validate(settings)), model=model.digest, constraints="", code="code"
    )
    constraints = Unconstrained()
    return ShardReport.merge(
        label_shard(
            shard, model=model, constraints=constraints, key=key, store=FolderStorage(tmp_path / "out")
        ).marker.report
        for shard in plan(folder, scores=model.score_column)
    )


def test_a_shard_with_bad_scores_is_labelled_around_them(tmp_path: Path) -> None:
    rows: list[Any] = [[[0.0, -1.0, -2.0]] * 2] * 3 + [[[math.nan, 0.0, 0.0]] * 2] + [[[0.0, -1.0, -2.0]] * 2]
    report = scored_run(tmp_path, rows)
    assert (report.documents, report.rejected, report.tokens) == (4, 1, 8)


@pytest.mark.parametrize("engine", ["viterbi", "gibbs", "certify", "cpsat"])
def test_scores_under_which_no_legal_labelling_is_left_are_counted(engine: str, tmp_path: Path) -> None:
    only_inside = [[-INF, -INF, 0.0], [0.0, -1.0, -2.0]]
    good = [[0.0, -1.0, -2.0], [-INF, -2.0, 0.0]]
    report = scored_run(tmp_path, [good, only_inside, good], engine=engine)
    assert (report.documents, report.rejected, report.infeasible) == (3, 0, 1)
    rejecting = scored_run(tmp_path / "again", [good, only_inside], engine=engine, on_infeasible="reject")
    assert (rejecting.documents, rejecting.rejected) == (1, 1)


# The command


def call(*words: str, code: int = 0) -> Any:
    done = CliRunner().invoke(app, [*map(str, words)])
    assert done.exit_code == code, done.output
    return done


@pytest.fixture
def labels(tmp_path: Path) -> Path:
    path = tmp_path / "labels.txt"
    path.write_text("\n".join(LABELS.names) + "\n\n")
    return path


def test_a_model_is_imported_and_labels(labels: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "t.npy", np.eye(WIDTH))
    words = (
        "import",
        "scores",
        str(labels),
        "--out",
        str(tmp_path / "model"),
        "--transitions",
        str(tmp_path / "t.npy"),
    )
    report = json.loads(call(*words, "--form", "logits", "--temperature", "2", "--json").stdout)
    assert (report["types"], report["joined"], report["column"]) == (4, [], "scores")
    model = load_model(tmp_path / "model")
    assert isinstance(model, ScoresModel)
    assert (model.digest, model.source.form, model.source.temperature) == (report["model_digest"], "logits", 2.0)
    np.testing.assert_array_equal(model.transition, np.eye(WIDTH))
    batch, _ = batch_from_table(scored(DOCUMENTS, SCORES), scores=model.score_column)
    best = viterbi(model.potentials(batch).legal(model.labels))
    assert LABELS.legal_start[best[batch.sentence_starts]].all()


def test_joined_labels_are_said(tmp_path: Path) -> None:
    (tmp_path / "labels.txt").write_text("O\nB-X\nI-X\nE-X\nS-X")
    said = call("import", "scores", str(tmp_path / "labels.txt"), "--out", str(tmp_path / "model")).stdout
    assert "5 labels in column 'scores', as log-probabilities at temperature 1: 1 types of spans" in said
    assert "E-X, S-X are read as the labels of BIO that they stand for" in said


@pytest.mark.parametrize(
    "text",
    [
        '{"id2label": {"1": "O", "0": "[PAD]", "2": "B-X", "3": "I-X"}, "model_type": "bert"}',
        '{"label2id": {"O": 1, "[PAD]": 0, "B-X": 2, "I-X": 3}}',
        '["[PAD]", "O", "B-X", "I-X"]',
        "[PAD]\nO\nB-X\nI-X",
        "\ufeff[PAD]\r\nO\r\nB-X\r\nI-X",
    ],
)
def test_labels_are_read_from_all_that_names_them_and_padding_is_forbidden(text: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(text, newline="")
    words = ("import", "scores", str(tmp_path / "config.json"), "--form", "logits", "--out", str(tmp_path / "model"))
    assert "[PAD]: padding, which no token gets as its label" in call(*words).stdout
    model = load_model(tmp_path / "model")
    assert (model.labels.names, model.labels.scheme) == (("O", "B-X", "I-X"), Scheme.BIO)
    document = replace(Document.build("d", [["a"]]), scores=np.array([[9.0, 1.0, 2.0, 0.0]]))
    assert viterbi(model.potentials(Batch.of([document])).legal(model.labels)).tolist() == [1]
    padded = replace(document, scores=np.array([[0.0, -INF, -INF, -INF]]))
    with pytest.raises(DocumentError, match="document 'd': scores forbid every label of token 0 but padding"):
        model.potentials(Batch.of([padded]))


def test_labels_without_an_outside_one_are_told_and_plain_ones_are_asked_for(tmp_path: Path) -> None:
    (tmp_path / "labels.txt").write_text("B\nI\nL")
    words = ("import", "scores", str(tmp_path / "labels.txt"), "--scheme", "plain", "--out", str(tmp_path / "model"))
    assert "there is no label 'O', so every token will be part of a span" in call(*words).stdout
    assert load_model(tmp_path / "model").labels == LabelSet(("B", "I", "L"), Scheme.PLAIN)


PROBABILITIES = np.array([[0.7, 0.2, 0.1], [0.1, 0.1, 0.8], [0.3, 0.3, 0.4]])
OTHER_FORMS = {
    "probabilities": (PROBABILITIES, "probabilities, not like log-probabilities: .*; write their natural logarithms"),
    "logits": (np.log(PROBABILITIES) + 3.0, "logits, not like .*: .* is 3 and not 0; import .* logits"),
    "low logits": (np.log(PROBABILITIES) - 3.0, "logits, not like log-probabilities: .* is -3 and not 0"),
    "base 10": (np.log10(PROBABILITIES), "logarithms to base 10, .*; write them times 2.302585"),
    "base 2": (np.log2(PROBABILITIES), "logarithms to base 2, .*; write them times 0.693147"),
    "costs": (-np.log(PROBABILITIES), "costs, which are .*; write them times -1"),
}


@pytest.mark.parametrize("name", OTHER_FORMS)
def test_scores_of_another_form_are_refused_by_what_they_look_like(name: str, tmp_path: Path) -> None:
    table, message = OTHER_FORMS[name]
    document = replace(Document.build("d", [["a", "b", "c"]]), scores=table)
    model = save(tmp_path, source_of(["O", "B-X", "I-X"]), np.zeros((3, 3)))
    good = replace(document, doc_id="good", scores=np.log(PROBABILITIES))
    masked = replace(document, doc_id="masked", scores=np.where(PROBABILITIES == 0.1, -INF, np.log(PROBABILITIES)))
    model.potentials(Batch.of([good, masked]))
    with pytest.raises(DocumentError, match=f"document 'd': the scores of token 0 \\(.*\\) look like {message}"):
        model.potentials(Batch.of([good, document]))


def test_logits_are_taken_for_probabilities_only_where_a_whole_document_has_them(tmp_path: Path) -> None:
    model = save(tmp_path, source_of(["O", "B-X", "I-X"]).model_copy(update={"form": "logits"}), np.zeros((3, 3)))
    document = replace(Document.build("d", [["a", "b", "c"]]), scores=PROBABILITIES)
    with pytest.raises(DocumentError, match="look like probabilities, not like logits: they add up to 1"):
        model.potentials(Batch.of([document]))
    by_chance = PROBABILITIES.copy()
    by_chance[2] += 1.0
    model.potentials(Batch.of([replace(document, scores=by_chance)]))
    model.potentials(Batch.of([replace(Document.build("d", [["a"]]), scores=PROBABILITIES[:1])]))


@pytest.mark.parametrize(
    ("text", "more", "code", "message"),
    [
        (b"", (), Exit.INPUT, "labels.txt: there is no label in it"),
        (b"O\nO", (), Exit.INPUT, "labels.txt: a label is there twice"),
        (b"O", (), Exit.INPUT, "labels.txt: 'O' is its only label, and a tagger has two at least"),
        (b"O B-X I-X", (), Exit.INPUT, "labels.txt: all labels (O, B-X, I-X, ...) are on one line; give each label"),
        (b"O\nB-X\nother", (), Exit.INPUT, "label 'other' beside 'B-X' is of no scheme of spans: write 'B-other' for"),
        (b"O\nB_X\nI_X", (), Exit.INPUT, "label 'B_X' is of no scheme of spans: write 'B-X'; if every label is a type"),
        (b"B\nI\nL\nO", (), Exit.INPUT, "label 'B' is of no scheme of spans: a prefix alone names no type, so write"),
        (b"O\nX-B\nX-I", (), Exit.INPUT, "label 'X-B' is of no scheme of spans: write 'B-X'"),
        (b"O\no\nB-X", (), Exit.INPUT, "label 'o' beside 'B-X' is of no scheme of spans: write 'O'"),
        (b"LABEL_0\nLABEL_1", (), Exit.INPUT, "labels.txt: 'LABEL_0' is a number and no name"),
        (b'{"id2label": {"0": "O", "2": "B-X"}}', (), Exit.INPUT, "id2label has the numbers [0, 2]..., want 0 to 1"),
        (b'{"labels": 3}', (), Exit.INPUT, "labels.txt: has no id2label, which names the labels"),
        (b"{", (), Exit.INPUT, "labels.txt: is no JSON"),
        (b"\xff", (), Exit.INPUT, "labels.txt: is no text in UTF-8"),
        (b"O\nI-X", (), Exit.INPUT, "no label opens a span of 'X'"),
        (b"O\nB-X", ("--transitions", "labels.txt"), Exit.INPUT, "labels.txt: is no matrix of numbers"),
        (b"O\nB-X", ("--transitions", "nowhere.npy"), Exit.INPUT, "nowhere.npy: No such file"),
        (b"O\nA\nC", ("--transitions", "small.npy"), Exit.INPUT, "small.npy: is (2, 2), want (3, 3)"),
        (
            b"O\nB-X",
            ("--transitions", "small.npy"),
            Exit.INPUT,
            "small.npy: has an entry that is no number of at most 1e+06",
        ),
        (b"O", ("--out", "labels.txt"), Exit.INPUT, "labels.txt: would overwrite what is read, labels.txt"),
    ],
)
def test_what_cannot_be_imported_is_one_line(
    text: bytes, more: tuple[str, ...], code: int, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "labels.txt").write_bytes(text)
    np.save(tmp_path / "small.npy", np.full((2, 2), np.inf))
    said = call("import", "scores", "labels.txt", "--out", "model", *more, code=code).stderr
    assert said.startswith("concord: ")
    assert message in said
    assert said.count("\n") == 1
    assert not (tmp_path / "model").exists()


def test_a_temperature_beyond_its_range_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "labels.txt").write_text("O\nB-X")
    told = call("import", "scores", "labels.txt", "--out", "model", "--temperature", "1000", code=Exit.USAGE).stderr
    assert "100" in told
