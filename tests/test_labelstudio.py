"""Label Studio's predictions of a model, through the host's own server: regions, scores, and the way back."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from concord.corpora import ingest
from concord.labelling import load
from concord.schemas.document import Document
from concord.schemas.errors import InputError
from concord.schemas.labels import LabelSet
from concord.workers.corpus.plan import plan
from concord.workers.corpus.shards import read_batch
from tests.support.agreeing_model import OTHERS, agreeing_model, text_of

host = pytest.importorskip("label_studio_ml.api", reason="label-studio-ml is not installed")

from concord.labelstudio import ConcordBackend  # noqa: E402 - where the package is

INTERFACE = """<View><Header value="Names"/><Labels name="kind" toName="body">
<Label value="LOC"/><Label value="Person" predicted_values="PER, HUMAN"/><Label value="ORG"/><Label value="Date"/>
</Labels><Text name="body" value="$note"/><Choices name="good" toName="body"><Choice value="yes"/></Choices></View>"""
LABELS = {"LOC": "LOC", "PER": "Person", "ORG": "ORG"}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return agreeing_model(tmp_path_factory.mktemp("models") / "news")


def backend(folder: Path) -> type[ConcordBackend]:
    return type("News", (ConcordBackend,), {"model": str(folder)})


def predicted(model: Path, texts: list[str], folder: Path) -> list[dict[str, Any]]:
    """What the host's server answers to Label Studio."""
    client = host.init_app(model_class=backend(model), model_dir=str(folder)).test_client()
    made = client.post("/setup", json={"project": "1.1", "schema": INTERFACE})
    assert made.status_code == 200
    tasks = [{"id": number, "data": {"note": text}} for number, text in enumerate(texts)]
    answer = client.post("/predict", json={"tasks": tasks, "project": "1.1", "label_config": INTERFACE})
    assert answer.status_code == 200
    results: list[dict[str, Any]] = answer.json["results"]
    return results


def marked(document: Document) -> set[tuple[int, int, str]]:
    """The spans of a document's gold, by characters of its text."""
    assert document.labels is not None
    assert document.raw is not None
    names = document.labels.strings()
    labels = LabelSet.infer(names)
    spans = labels.spans(labels.encode(names), document.sentence_starts)
    start, end = document.raw.start[spans.start], document.raw.end[spans.end - 1]
    kinds = [labels.types[kind] for kind in spans.type.tolist()]
    return set(zip(start.tolist(), end.tolist(), kinds, strict=True))


def test_the_server_predicts_the_labels_of_the_interface_with_scores(model: Path, tmp_path: Path) -> None:
    texts = [text_of(document) for document in OTHERS[:12]]
    labeller = load(model, confidence="margin", n_best=2)
    predictions = predicted(model, texts, tmp_path)
    for text, prediction in zip(texts, predictions, strict=True):
        answer = labeller.label(text)
        assert prediction["score"] == pytest.approx(1 / (1 + math.exp(-answer.n_best[1].gap)))
        shown = [one for one in answer.entities if one.type in LABELS]
        assert len(shown) == len(prediction["result"])
        for entity, region in zip(shown, prediction["result"], strict=True):
            value = region["value"]
            assert (region["from_name"], region["to_name"], region["type"]) == ("kind", "body", "labels")
            assert text[value["start"] : value["end"]] == value["text"] == entity.text
            assert value["labels"] == [LABELS[entity.type]]
            assert region["score"] == pytest.approx(1 / (1 + math.exp(-(entity.margin or 0.0))))
            assert region["score"] >= prediction["score"] - 1e-6
    assert len({prediction["score"] for prediction in predictions}) == len(texts)


def test_what_it_predicts_comes_back_through_the_reader(model: Path, tmp_path: Path) -> None:
    texts = [f"\U0001f600 {text_of(document)}" for document in OTHERS[:5]] + ["\ufeffMr Fapirik Totol spoke."]
    predictions = predicted(model, texts, tmp_path)
    tasks = [
        {"id": n, "data": {"text": text}, "annotations": [{"result": prediction["result"]}]}
        for n, (text, prediction) in enumerate(zip(texts, predictions, strict=True))
    ]
    (tmp_path / "export.json").write_text(json.dumps(tasks))
    ingest("spans", tmp_path / "export.json", out=tmp_path / "corpus")
    documents = [one for shard in plan(str(tmp_path / "corpus")) for one in read_batch(shard)[0]]
    labeller = load(model)
    assert len(documents) == len(texts)
    for document, text in zip(documents, texts, strict=True):
        expected = {
            (one.char_start, one.char_end, LABELS[one.type])
            for one in labeller.label(text).entities
            if one.type in LABELS
        }
        assert marked(document) == expected
        assert expected


def test_a_text_without_words_is_certain(model: Path, tmp_path: Path) -> None:
    assert predicted(model, ["", "\n"], tmp_path) == [{"result": [], "score": 1.0}] * 2


@pytest.mark.parametrize(
    "interface", ["", "<View><Text name='t' value='$note'/></View>", INTERFACE.replace("Labels", "Choices")]
)
def test_an_interface_without_labels_of_the_model_is_one_message(model: Path, interface: str) -> None:
    with pytest.raises(InputError, match=r"no tag Labels.*LOC, MISC, ORG, PER"):
        backend(model)(label_config=interface).predict([{"id": 7, "data": {"note": "A text."}}])


def test_a_task_without_its_text_is_one_message(model: Path) -> None:
    with pytest.raises(InputError, match=r"task 7: no text under data.note"):
        backend(model)(label_config=INTERFACE).predict([{"id": 7, "data": {"text": "A text."}}])
