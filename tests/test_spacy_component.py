"""The component of spaCy's pipelines: a document as a whole, earlier entities as a layer, to a disk and back."""

from __future__ import annotations

import shutil
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from concord.labelling import load
from concord.schemas.document import Document
from concord.schemas.errors import InputError
from concord.workers.learning.trainers import sgd
from concord.workers.models.settings import SgdSettings
from tests.support.agreeing_model import OTHERS, agreeing_model

spacy = pytest.importorskip("spacy", reason="the extra spacy is not installed")

TEXTS = ["Workers met. They left.", "", "  \n ", "It lies 24 km north of Fapirik. Workers from Fapirik came."]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return agreeing_model(tmp_path_factory.mktemp("models") / "news")


def pipeline(model: Path, **config: Any) -> Any:
    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    nlp.add_pipe("concord", config={"model": str(model), **config})
    return nlp


def given(nlp: Any, document: Document) -> Any:
    """A document of spaCy's with the same words and sentences."""
    starts = set(document.sentence_starts.tolist())
    words = document.tokens
    return spacy.tokens.Doc(nlp.vocab, words=words, sent_starts=[i in starts for i in range(len(words))])


def test_a_hundred_documents_get_the_entities_of_the_labeller_with_proofs(model: Path) -> None:
    nlp, labeller = pipeline(model), load(model, confidence="margin")
    nlp.remove_pipe("sentencizer")
    documents = OTHERS
    docs = list(nlp.pipe([given(nlp, document) for document in documents], batch_size=8))
    for document, doc in zip(documents, docs, strict=True):
        bounds = [*document.sentence_starts.tolist(), len(document)]
        sentences = [document.tokens[a:b] for a, b in pairwise(bounds)]
        answer = labeller.label_tokens(sentences)
        assert [(e.start, e.end, e.label_) for e in doc.ents] == [(e.start, e.end, e.type) for e in answer.entities]
        assert [e._.concord_margin for e in doc.ents] == [e.margin for e in answer.entities]
        assert doc._.concord_gap == answer.gap
    assert sum(doc._.concord_gap <= 1e-6 for doc in docs) == len(docs) == 100
    assert sum(len(doc.ents) for doc in docs) > 300


def test_texts_without_words_and_blanks_between_them_do_no_harm(model: Path) -> None:
    docs = list(pipeline(model).pipe(TEXTS))
    assert [doc.text for doc in docs] == TEXTS
    assert not docs[1].ents
    assert docs[1]._.concord_gap is None
    odd = pipeline(model)("Workers from\n\n  Fapirik  came. ")
    assert all(not token.is_space for ent in odd.ents for token in (ent[0], ent[-1]))


def test_a_pipeline_goes_to_a_disk_and_back_without_its_model(model: Path, tmp_path: Path) -> None:
    copy = tmp_path / "model"
    shutil.copytree(model, copy)
    nlp = pipeline(copy)
    before = [(e.start, e.end, e.label_, e._.concord_margin) for e in nlp(TEXTS[-1]).ents]
    nlp.to_disk(tmp_path / "pipeline")
    shutil.rmtree(copy)
    again = spacy.load(tmp_path / "pipeline")
    assert [(e.start, e.end, e.label_, e._.concord_margin) for e in again(TEXTS[-1]).ents] == before
    again.to_disk(tmp_path / "second")
    assert spacy.load(tmp_path / "second")(TEXTS[-1]).ents


def test_entities_of_the_pipeline_are_the_layer_that_the_model_has_learned(tmp_path: Path) -> None:
    rows = [("Ann", "B-PER"), ("Oslo", "B-LOC"), ("Bob", "B-PER"), ("Rome", "B-LOC"), ("Rain", "O")] * 5
    documents = [
        Document.build(f"d{i}", [[word, "came"]], labels=[[label, "O"]], host=[[label, "O"]], host_grade=[["-", "-"]])
        for i, (word, label) in enumerate(rows)
    ]
    settings = SgdSettings(features="layers:host", passes=20)
    sgd.train(documents, settings=settings, out=tmp_path / "layered")
    nlp = spacy.blank("en")
    ruler = nlp.add_pipe("entity_ruler")
    ruler.add_patterns([{"label": "PER", "pattern": "Zed"}, {"label": "LOC", "pattern": "Ulm"}])
    nlp.add_pipe("concord", config={"model": str(tmp_path / "layered"), "layer": "host"})
    found = {ent.text: ent.label_ for doc in nlp.pipe(["Zed came", "Ulm came", "Nobody came"]) for ent in doc.ents}
    assert found == {"Zed": "PER", "Ulm": "LOC"}


def test_a_model_that_is_not_there_is_one_message(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="gone"):
        pipeline(tmp_path / "gone")("A text.")
