"""Documents of extreme form: each is labelled, or a reject with a reason, and nothing else happens."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from concord.schemas.document import Batch, Document
from concord.schemas.run import RunKey, RunSettings
from concord.workers.constraints.consistency import LabelConsistency, PairCounts
from concord.workers.constraints.constraint_file import parse_constraints
from concord.workers.constraints.constraint_set import ConstraintSet
from concord.workers.constraints.declared import JoinedConstraints
from concord.workers.corpus.plan import plan
from concord.workers.features import scorer
from concord.workers.labelling.labelled import check_settings
from concord.workers.labelling.output import PREDICTIONS
from concord.workers.labelling.shard import label_shard
from concord.workers.learning.trainers.crfsuite import train
from concord.workers.models.crf import CrfModel
from concord.workers.models.settings import CrfSettings
from concord.workers.storage.storage import FolderStorage
from tests.support.made_corpora import corpus

Form = dict[str, Any]

RULES = r"""
constraints:
  - {template: consistent_value, labels: PER, value: time, weight: 1}
  - {template: transition_on, weight: 0.1}
  - {template: lexicon, words: {pattern: '(a+)+b'}, labels: PER, weight: 2}
  - {template: consistent_last_word, labels: PER, weight: 1}
  - {template: should_be_tagged, position: -1, labels: O, weight: 0.5}
"""


def form(tokens: Any, starts: Any = (0,), **others: Any) -> Form:
    return {"tokens": tokens, "sentence_starts": starts} | others


GOOD = {f"good {i}": form(["Ada", "Byron", "in", "Basel", ".", "Byron", str(i)], [0, 5]) for i in range(3)}

LABELLED = {
    "one token": form(["Ada"]),
    "a sentence a token": form(["Ada"] * 50, list(range(50))),
    "tokens of a megabyte": form(["Ada", "x" * 10**6, "9" * 10**6, "é" * 10**6, "a" * 10**6 + "c", "9" * 10**6]),
    "odd Unicode": form(
        ["\u202eRTL", "e\u0301", "👩‍👩‍👧", "\uffff", "\ufeff", "İ", "\U0010ffff", "\x85", "\x1f", "\n", " "]
    ),
    "control characters": form(["\x01", "\x1b[31m", "\x7f", "\r\n", "\u2028", "\u200b"]),
    "id with \n line / and \u202e": form(["Ada", "Byron"]),
    "another word each time": form([f"w{i}" for i in range(3000)], list(range(0, 3000, 30))),
}

REJECTED = {
    "no tokens": (form([]), "document has no tokens"),
    "null tokens": (form(None), "tokens is null"),
    "a null token": (form(["a", None]), "tokens holds a null"),
    "an empty token": (form(["a", ""]), "one of tokens is empty"),
    "a NUL": (form(["a\0b"]), "one of tokens holds a NUL character"),
    "a lone surrogate": (form([b"a", b"\xed\xa0\x80"]), "one of tokens is not valid UTF-8"),
    "starts null": (form(["a"], None), "sentence_starts is null or empty"),
    "starts late": (form(["a", "b"], [1]), "sentence_starts does not start at 0"),
    "starts fall": (form(["a", "b", "c"], [0, 2, 1]), "sentence_starts does not increase"),
    "starts twice": (form(["a", "b", "c"], [0, 1, 1]), "sentence_starts does not increase"),
    "starts below zero": (form(["a", "b", "c"], [0, -1]), "sentence_starts does not increase"),
    "starts outside": (form(["a", "b", "c"], [0, 3]), "sentence_starts goes beyond the last token"),
    "starts far outside": (form(["a", "b", "c"], [0, 2**62]), "sentence_starts goes beyond the last token"),
    "one word too often": (form(["Byron"] * 4000), "more than 8000000; narrow the constraint"),
}


def write(forms: list[tuple[str, Form]], path: Path) -> None:
    """Rows as given, with a column pos; tokens may be bytes that are no UTF-8."""
    lists = [row["tokens"] for _, row in forms]
    raw = [None if t is None else [w.encode() if isinstance(w, str) else w for w in t] for t in lists]
    offsets = np.cumsum([0, *(len(t or ()) for t in raw)])
    words = pa.array([w for t in raw for w in t or ()], pa.binary()).view(pa.string())
    mask = pa.array([t is None for t in raw])
    table = {
        "doc_id": pa.array([name for name, _ in forms], pa.string()),
        "tokens": pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), words, mask=mask),
        "pos": pa.array([None if t is None else ["X"] * len(t) for t in raw], pa.list_(pa.string())),
        "sentence_starts": pa.array([row["sentence_starts"] for _, row in forms], pa.list_(pa.int64())),
    }
    pq.write_table(pa.table(table), path)


def everything() -> list[tuple[str, Form]]:
    """All forms, good documents among them, and one whose id is there already."""
    rows = list(GOOD.items())
    for extreme in (list(LABELLED.items()), [(name, row) for name, (row, _) in REJECTED.items()]):
        for i, one in enumerate(extreme):
            rows.insert(3 * i, one)
    return [*rows, ("good 1", GOOD["good 2"])]


@pytest.fixture(scope="module")
def setting(tmp_path_factory: pytest.TempPathFactory) -> tuple[CrfModel, ConstraintSet]:
    documents = corpus(0, 12)
    settings = CrfSettings(features="rich-nopos", max_iterations=5)
    model = train(documents, settings=settings, out=tmp_path_factory.mktemp("model") / "m")
    trained = LabelConsistency(PairCounts.of(documents, model.labels))
    return model, JoinedConstraints((trained, parse_constraints(RULES, file="rules.yaml").bind(model.labels)))


def label(
    forms: list[tuple[str, Form]], folder: Path, setting: tuple[CrfModel, ConstraintSet]
) -> tuple[dict[str, Any], dict[str, tuple[int, str]]]:
    """Predictions, and row and reason of rejects, by document."""
    folder.mkdir()
    write(forms, folder / "c.parquet")
    model, constraints = setting
    settings = check_settings(RunSettings(engine="viterbi"))
    key = RunKey(settings=settings, model=model.digest, constraints=constraints.digest, code="code")
    predictions: list[dict[str, Any]] = []
    rejects: list[Any] = []
    for shard in plan(folder / "c.parquet"):
        store = folder / f"out-{shard.first_row}"
        marker = label_shard(shard, model=model, constraints=constraints, key=key, store=FolderStorage(store)).marker
        found = pq.read_table(store / PREDICTIONS).to_pylist()
        assert (marker.report.documents, marker.report.rejected) == (len(found), len(marker.rejects))
        assert len(found) + len(marker.rejects) == shard.rows
        predictions += found
        rejects += [(r.doc_id, (shard.first_row + (r.row or 0), r.reason)) for r in marker.rejects]
    return {row["doc_id"]: row for row in predictions}, dict(rejects)


def test_every_form_is_labelled_or_a_reject_and_good_neighbours_are_as_alone(
    tmp_path: Path, setting: tuple[CrfModel, ConstraintSet]
) -> None:
    rows = everything()
    alone, none = label(list(GOOD.items()), tmp_path / "alone", setting)
    among, rejects = label(rows, tmp_path / "among", setting)
    assert none == {}
    assert set(among) == {*GOOD, *LABELLED}
    assert {name: among[name] for name in GOOD} == alone
    for name, row in (LABELLED | GOOD).items():
        assert len(among[name]["labels"]) == len(row["tokens"])
    repeated = rejects.pop("good 1")
    assert repeated == (len(rows) - 1, repeated[1])
    assert "doc_id" in repeated[1]
    assert set(rejects) == set(REJECTED)
    for name, (_, reason) in REJECTED.items():
        assert reason in rejects[name][1]


def test_a_sentence_of_a_hundred_thousand_tokens(tmp_path: Path, setting: tuple[CrfModel, ConstraintSet]) -> None:
    long = form([f"w{i % 5000}" for i in range(100_000)])
    alone, _ = label(list(GOOD.items()), tmp_path / "alone", setting)
    among, rejects = label([*GOOD.items(), ("long", long)], tmp_path / "among", setting)
    assert rejects == {}
    assert len(among.pop("long")["labels"]) == 100_000
    assert among == alone


def test_long_words_do_not_stay_in_memory(
    setting: tuple[CrfModel, ConstraintSet], monkeypatch: pytest.MonkeyPatch
) -> None:
    model, _ = setting
    batches = [Batch.of([Document.build(str(i), [["Ada", f"{i}" * 5000, "in", "Basel"]])]) for i in range(6)]
    wanted = [scorer.Scorer(model.features, model.weights, len(model.labels)).unary(batch) for batch in batches]
    monkeypatch.setattr(scorer, "MAX_CHARACTERS", 12_000)
    tried = scorer.Scorer(model.features, model.weights, len(model.labels))
    for batch, unary in zip(batches, wanted, strict=True):
        np.testing.assert_array_equal(tried.unary(batch), unary)
        assert all(sum(map(len, table.words)) <= 12_000 for table in tried.tables)
