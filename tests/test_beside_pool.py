"""Learning from a pool: margins and chosen sentences against plain loops, the whole contract, and what is refused."""

from __future__ import annotations

from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from concord.flows.cli.trainer_flags import TrainerFlags, trainer_pairs
from concord.schemas.document import TOKENS, Batch, Column, Document
from concord.schemas.errors import CorpusError, TrainingError
from concord.schemas.potentials import Potentials
from concord.testing.trainers import check_trainer, made_up
from concord.workers.corpus.ingestion import write_corpus
from concord.workers.evaluation.figures import f1_of_counts
from concord.workers.learning.search.trials import Trial
from concord.workers.learning.trainers import beside_pool as beside
from concord.workers.learning.trainers.registry import TRAINERS
from concord.workers.learning.trainers.trainer import Iteration
from concord.workers.models import crf
from concord.workers.models.loaders import load_model
from concord.workers.models.model import viterbi_labels
from concord.workers.models.settings import EnsembleSettings, LbfgsSettings, SgdSettings

FEATURES = "core+entities"
NATS = st.one_of(st.floats(-4, 4), st.just(-np.inf))


def settings(pool: Path, **given: Any) -> SgdSettings:
    return SgdSettings(features=FEATURES, passes=3, pool=str(pool), **given)


@pytest.fixture
def pool(tmp_path: Path) -> Path:
    """A corpus whose labels are wrong, and must not be read."""
    documents = [
        Document(
            f"pool {own.doc_id}",
            own.sentence_starts,
            {TOKENS: own.columns[TOKENS]},
            Column.encode(["B-WRONG"] * len(own)),
        )
        for own in made_up(9, seed=5)
    ]
    write_corpus(documents, tmp_path / "pool", source="test")
    return tmp_path / "pool"


@given(st.data(), st.lists(st.integers(1, 4), min_size=1, max_size=3), st.integers(1, 3))
def test_a_margin_is_what_enumeration_finds(data: st.DataObject, lengths: list[int], size: int) -> None:
    count = sum(lengths)
    unary, transition = (data.draw(arrays(float, shape, elements=NATS)) for shape in ((count, size), (size, size)))
    unary[:, 0], transition[0, :] = np.maximum(unary[:, 0], -9.0), np.maximum(transition[0, :], -9.0)  # one way is free
    starts = np.cumsum([0, *lengths[:-1]])
    found = beside.sentence_margins(Potentials(unary, transition, starts))
    for margin, start, length in zip(found.tolist(), starts.tolist(), lengths, strict=True):
        scores = sorted(
            (
                sum(unary[start + t, label] for t, label in enumerate(path))
                + sum(transition[one, other] for one, other in pairwise(path))
                for path in product(range(size), repeat=length)
            ),
            reverse=True,
        )
        wanted = scores[0] - scores[1] if len(scores) > 1 else np.inf
        assert margin == pytest.approx(wanted, abs=1e-9)


@pytest.mark.parametrize("margin", [0.0, 0.5, 3.0, 1e9])
def test_the_sentences_of_a_pool_are_those_that_a_plain_loop_chooses(
    margin: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(beside, "DOCUMENTS_AT_ONCE", 4)
    model = crf.load(trained(tmp_path))
    documents = [Document(own.doc_id, own.sentence_starts, own.columns) for own in made_up(9, seed=5)]
    wanted = []
    for document in documents:
        batch = Batch.of([document])
        margins = beside.sentence_margins(model.potentials(batch).legal(model.labels)).tolist()
        names = [model.labels.names[i] for i in viterbi_labels(model, batch).tolist()]
        bounds = batch.sentence_bounds.tolist()
        rows = [
            (document.tokens[first:end], names[first:end])
            for own, first, end in zip(margins, bounds, bounds[1:], strict=False)
            if own >= margin
        ]
        if rows:
            wanted.append((document.doc_id, rows))
    found = beside.sure_sentences(model, documents, margin)
    assert [(own.doc_id, sentences(own)) for own in found] == wanted
    assert all(own.columns.keys() == documents[0].columns.keys() for own in found)
    if not margin:
        assert beside.counted(found) == beside.counted(documents)
    assert bool(found) == (margin < 1e9)


def sentences(document: Document) -> list[tuple[list[str], list[str]]]:
    assert document.labels is not None
    bounds, labels = [*document.sentence_starts.tolist(), len(document)], document.labels.strings()
    return [(list(document.tokens[first:end]), labels[first:end]) for first, end in pairwise(bounds)]


def trained(folder: Path) -> Path:
    TRAINERS["sgd"].train(made_up(12, seed=0), settings=SgdSettings(features=FEATURES, passes=4), out=folder / "first")
    return folder / "first"


@pytest.mark.parametrize(
    ("name", "base"), [("sgd", SgdSettings), ("lbfgs", LbfgsSettings), ("ensemble", EnsembleSettings)]
)
def test_a_trainer_with_a_pool_keeps_every_promise(name: str, base: Any, pool: Path) -> None:
    few = {
        SgdSettings: {"passes": 3},
        LbfgsSettings: {"max_iterations": 4},
        EnsembleSettings: {"passes": 2, "members": 2},
    }[base]
    by_default = {"features": FEATURES, "pool": str(pool), "pool_margin": 0.1, **few}

    class WithPool(base):  # type: ignore[misc]
        def __init__(self, **given: Any) -> None:
            super().__init__(**{**by_default, **given})

    check_trainer(name, TRAINERS[name]._replace(settings=WithPool), load_model)


def test_a_margin_is_chosen_on_later_documents_and_nothing_is_a_candidate(
    pool: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    documents, seen = made_up(30, seed=0), list[Iteration]()
    model = TRAINERS["sgd"].train(documents, settings=settings(pool), out=tmp_path / "model", progress=seen.append)
    assert isinstance(model, crf.CrfModel)
    training = model.manifest.training
    assert training["pool_f1"] >= training["pool_f1_without"] > 0
    assert (training["documents"], training["pool_documents"], training["pool_rejected"]) == (30, 9, 0)
    assert training["learned_sentences"] <= training["pool_sentences"]
    assert "WRONG" not in "".join(model.labels.names)
    assert model.manifest.settings["pool"] == str(pool)
    assert [own.number for own in seen] == sorted({own.number for own in seen})
    assert seen[-1].number == seen[-1].total
    monkeypatch.setattr(beside, "MARGINS", (beside.NOTHING,))
    alone = TRAINERS["sgd"].train(documents, settings=settings(pool), out=tmp_path / "alone")
    plain = TRAINERS["sgd"].train(documents, settings=SgdSettings(features=FEATURES, passes=3), out=tmp_path / "plain")
    assert alone.digest == plain.digest, "a pool of which nothing is learned changes no score"


def test_a_gain_within_its_error_is_none() -> None:
    def trial(margin: float, *right: int) -> Trial[float]:
        return Trial(margin, np.array([[10, 10, count] for count in right]), f1_of_counts)

    alone = trial(beside.NOTHING, *[5] * 20)
    for others, wanted in (
        ([trial(4.0, *[6] * 20), trial(1.0, *[7] * 20)], 1.0),
        ([trial(4.0, *[4] * 20)], beside.NOTHING),
        ([trial(4.0, 6, *[5] * 19)], beside.NOTHING),
        ([trial(4.0, *[9, 2] * 10)], beside.NOTHING),
        ([], beside.NOTHING),
    ):
        assert beside.best_margin([alone, *others]).setting == wanted


def test_a_pool_that_cannot_be_learned_from_is_one_line(pool: Path, tmp_path: Path) -> None:
    train, out = TRAINERS["sgd"].train, tmp_path / "model"
    with pytest.raises(TrainingError, match="1 documents are too few to choose a margin; give --set pool_margin=2"):
        train(made_up(1, seed=0), settings=settings(pool), out=out)
    with pytest.raises(CorpusError):
        train(made_up(4, seed=0), settings=settings(tmp_path / "nowhere", pool_margin=1.0), out=out)
    no_tags = settings(pool, pool_margin=1.0).model_copy(update={"features": "core+pos"})
    with pytest.raises(TrainingError, match=r"pool .* has no column 'pos'"):
        train(with_tags(made_up(4, seed=0)), settings=no_tags, out=out)


def with_tags(documents: list[Document]) -> list[Document]:
    tagged = ({**own.columns, "pos": Column.encode(["NN"] * len(own))} for own in documents)
    return [
        Document(own.doc_id, own.sentence_starts, columns, own.labels)
        for own, columns in zip(documents, tagged, strict=True)
    ]


def test_the_report_says_what_was_learned() -> None:
    figures = {"learned_sentences": 6724.0, "pool_sentences": 9688.0, "pool_margin": 2.0}
    (said,) = beside.remarks(figures)
    assert said.text == "pool: learned 6,724 of 9,688 sentences, whose answers are proven by 2 nats"
    (said,) = beside.remarks({"learned_sentences": 0.0, "pool_sentences": 5.0, "pool_f1": 0.8, "pool_f1_without": 0.8})
    assert said.text == "pool: learned 0 of 5 sentences; F1 on the last fifth of the documents 80.00% → 80.00%"
    assert not list(beside.remarks({"tokens": 3.0}))


def test_the_command_names_a_pool_by_its_flag() -> None:
    assert trainer_pairs("sgd", TrainerFlags(pool="corpora/all"), []) == ['pool="corpora/all"']
