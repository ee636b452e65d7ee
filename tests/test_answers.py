"""What a second model reads of the first one's answers, against plain loops; and the two as one model."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from concord.schemas.document import TOKENS, Batch, Document
from concord.schemas.labels import OUTSIDE, LabelSet
from concord.workers.features.mentions import NO_VALUE
from concord.workers.features.templates import ANSWER_COLUMNS
from concord.workers.learning.trainers import sgd, stacked
from concord.workers.learning.trainers.stacked import train
from concord.workers.models.answers import LONGEST_ENTITY, answer_columns
from concord.workers.models.folder import MANIFEST, ModelError
from concord.workers.models.loaders import load_model
from concord.workers.models.model import viterbi_labels
from concord.workers.models.settings import StackedSettings
from concord.workers.models.two_stage_crf import SECOND_STAGE, TwoStageModel
from tests.support.made_corpora import corpus

BIO = LabelSet.bio(["LOC", "PER"])
PLAIN = LabelSet.infer(["city", "road"])

Sentences = list[list[tuple[str, int]]]


class Entity(NamedTuple):
    start: int
    end: int
    type: int
    words: tuple[str, ...]


def sentences_of(labels: LabelSet) -> st.SearchStrategy[Sentences]:
    token = st.tuples(st.sampled_from(["a", "A", "b", "C"]), st.integers(0, len(labels) - 1))
    return st.lists(st.lists(token, min_size=1, max_size=9), max_size=4)


def naive(sentences: Sentences, labels: LabelSet) -> list[tuple[str, str, str, str]]:
    """The four values of each token of one document."""
    words = [word.lower() for sentence in sentences for word, _ in sentence]
    found = np.array([label for sentence in sentences for _, label in sentence], np.int32)
    starts = np.cumsum([0, *map(len, sentences)])
    spans = labels.spans(found, starts[:-1].astype(np.int64))
    entities = [
        Entity(a, b, t, tuple(words[a:b]))
        for a, b, t in zip(spans.start.tolist(), spans.end.tolist(), spans.type.tolist(), strict=True)
    ]
    kinds = [int(labels.type_of[label]) for label in found]
    return [_values(t, words, kinds, entities, labels.types) for t in range(len(words))]


def _values(
    t: int, words: list[str], kinds: list[int], entities: list[Entity], types: tuple[str, ...]
) -> tuple[str, str, str, str]:
    others = [kinds[u] for u in range(len(words)) if u != t and words[u] == words[t]]
    mine = next((e for e in entities if e.start <= t < e.end), None)
    same = [] if mine is None else [e.type for e in entities if e != mine and e.words == mine.words]
    part = (words[t],) if mine is None else mine.words
    around = [
        e.type
        for e in entities
        for at in range(len(e.words) - len(part) + 1)
        if len(e.words) > len(part) and e.words[at : at + len(part)] == part
    ]
    long = mine is not None and len(mine.words) > LONGEST_ENTITY
    return (
        _most(others, (*types, OUTSIDE)),
        _most([kind for kind in others if kind >= 0], types),
        NO_VALUE if long else _most(same, types),
        NO_VALUE if long else _most(around, types),
    )


def _most(kinds: list[int], names: tuple[str, ...]) -> str:
    """The most frequent one, the first by number of equals, outside last."""
    counts = Counter(kind % len(names) if kind < 0 else kind for kind in kinds)
    return NO_VALUE if not counts else names[min(counts, key=lambda kind: (-counts[kind], kind))]


@pytest.mark.parametrize("labels", [BIO, PLAIN], ids=["bio", "plain"])
@given(data=st.data())
def test_columns_are_those_of_plain_loops(labels: LabelSet, data: st.DataObject) -> None:
    made = data.draw(st.lists(sentences_of(labels), min_size=1, max_size=3))
    documents = [
        Document.build(str(i), [[word for word, _ in sentence] for sentence in sentences])
        for i, sentences in enumerate(made)
    ]
    found = np.array([label for sentences in made for sentence in sentences for _, label in sentence], np.int32)
    columns = answer_columns(Batch.of(documents), labels, found)
    expected = [row for sentences in made for row in naive(sentences, labels)]
    assert list(zip(*(columns[name].strings() for name in ANSWER_COLUMNS), strict=True)) == expected


def test_entities_too_long_to_compare_and_one_that_holds_another() -> None:
    words = ["a", "b", "c", "d", "e", "f", "g"]
    long = [(word, BIO.index["I-LOC" if i else "B-LOC"]) for i, word in enumerate(words)]
    short = [("c", BIO.index["B-PER"]), ("x", BIO.index["O"])]
    made = [long, short, long]
    found = np.array([label for sentence in made for _, label in sentence], np.int32)
    document = Document.build("d", [[word for word, _ in sentence] for sentence in made])
    columns = answer_columns(Batch.of([document]), BIO, found)
    assert list(zip(*(columns[name].strings() for name in ANSWER_COLUMNS), strict=True)) == naive(made, BIO)
    assert columns["answer-longer"].strings()[len(long)] == "LOC"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("models") / "two"
    train(corpus(0, 20), settings=StackedSettings(features="finkel", passes=2, folds=3), out=out)
    return out


def test_a_document_scores_the_same_alone_and_among_others(folder: Path) -> None:
    model, documents = load_model(folder), corpus(7, 6)
    together = model.potentials(Batch.of(documents)).unary
    alone = [model.potentials(Batch.of([document])).unary for document in documents]
    np.testing.assert_array_equal(together, np.concatenate(alone))


def test_it_wants_of_a_corpus_what_the_first_stage_wants(folder: Path) -> None:
    model = load_model(folder)
    assert isinstance(model, TwoStageModel)
    assert set(model.columns) == {TOKENS, "pos"}
    assert set(model.second.columns) == {TOKENS, "pos", *ANSWER_COLUMNS}


def test_the_second_stage_learns_from_answers_to_unseen_documents(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[set[str]] = []
    given: list[set[str]] = []

    def watched(documents: list[Document], **rest: object) -> object:
        seen.append({document.doc_id for document in documents})
        return learn(documents, **rest)  # type: ignore[arg-type]

    def answers(model: object, batch: Batch) -> object:
        given.append(set(batch.doc_ids))
        return real(model, batch)  # type: ignore[arg-type]

    learn, real = sgd.train, viterbi_labels
    monkeypatch.setattr(sgd, "train", watched)
    monkeypatch.setattr(stacked, "viterbi_labels", answers)
    documents = corpus(0, 10)
    train(documents, settings=StackedSettings(features="finkel", passes=1, folds=4), out=tmp_path)
    every = {document.doc_id for document in documents}
    assert [inside | outside for inside, outside in zip(seen[:4], given, strict=True)] == [every] * 4
    assert not any(inside & outside for inside, outside in zip(seen[:4], given, strict=True))
    assert seen[4:] == [every, every]


@pytest.mark.parametrize("file", ["weights.bin", MANIFEST])
def test_a_damaged_stage_is_named(folder: Path, tmp_path: Path, file: str) -> None:
    for path in (path for path in folder.rglob("*") if path.is_file()):
        copy = tmp_path / path.relative_to(folder)
        copy.parent.mkdir(exist_ok=True)
        copy.write_bytes(path.read_bytes())
    damaged = tmp_path / SECOND_STAGE / file
    damaged.write_bytes(damaged.read_bytes()[:-1] + b" ")
    with pytest.raises(ModelError, match=f"{SECOND_STAGE}/{file}: SHA-256 differs"):
        load_model(tmp_path)


def test_a_start_from_another_model_is_refused() -> None:
    with pytest.raises(ValueError, match="two stages begin anew"):
        StackedSettings(start_from="model")
