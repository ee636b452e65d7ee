"""What Presidio and Label Studio get from a model: names that are missed sentence by sentence, tasks in order of doubt.

    pip install --target HOSTS --no-deps presidio-analyzer phonenumbers tldextract requests-file filelock regex \
        label-studio-ml label-studio-tools appdirs rq redis lxml
    PYTHONPATH=HOSTS python benchmarks/bench_hosts.py

*News*, the training part alone: a model by default of the first 700 documents, and the last hundred as texts, a line a
sentence. Presidio has the model's recognizer alone: names that it finds where it sees each sentence by itself, and
where it sees the text. Label Studio's scores of the same texts: answers that are wrong, spans missed, wrong or not
gold's, of the twenty lowest and the twenty highest.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import spacy
from common import MADE, concord, save
from corpora import documents_of
from label_studio_ml.api import init_app
from presidio_analyzer import AnalyzerEngine, RecognizerRegistry
from presidio_analyzer.nlp_engine import SpacyNlpEngine

from concord.labelstudio import ConcordBackend
from concord.presidio import NAMES_OF_PRESIDIO, ConcordRecognizer
from concord.schemas.document import Document
from concord.schemas.labels import LabelSet
from concord.workers.corpus.ingestion import write_corpus
from concord.workers.learning.trainers.trainer import gold_of

LEARNED, JUDGED, EXTREME = 700, 100, 20
LINES = "\n"

Names = set[tuple[int, int, str]]
"""First character, the one after the last, and type."""


def main() -> None:
    """Trains the model, asks both hosts, and saves the figures."""
    documents = documents_of("news")
    learned, model = MADE / "hosts" / "corpus", MADE / "hosts" / "model"
    if not model.is_dir():
        write_corpus(documents[:LEARNED], learned, source="the first documents of news")
        concord("train", "--corpus", learned, "--out", model)
    judged = documents[-JUDGED:]
    texts, gold = [LINES.join(_sentences(own)) for own in judged], [_gold(own) for own in judged]
    save("hosts", {"presidio": _presidio(model, judged, texts, gold), "label studio": _studio(model, texts, gold)})


def _sentences(document: Document) -> list[str]:
    return [" ".join(document.tokens[a:b]) for a, b in pairwise(_bounds(document))]


def _bounds(document: Document) -> list[int]:
    return [*document.sentence_starts.tolist(), len(document)]


def _gold(document: Document) -> Names:
    labels = LabelSet.infer(gold_of(document))
    spans = labels.spans(labels.encode(gold_of(document)), document.sentence_starts)
    start = np.array([0, *accumulate(len(token) + 1 for token in document.tokens)])  # a blank or a new line after each
    kinds = [labels.types[kind] for kind in spans.type.tolist()]
    return set(zip(start[spans.start].tolist(), (start[spans.end] - 1).tolist(), kinds, strict=True))


def _presidio(
    model: Path, documents: Sequence[Document], texts: Sequence[str], gold: Sequence[Names]
) -> dict[str, int]:
    """Numbers of names: gold, found and right either way, and added where nothing had been found by sentences."""
    engine, registry = SpacyNlpEngine(), RecognizerRegistry(supported_languages=["en"])
    engine.nlp = {"en": spacy.blank("en")}
    registry.add_recognizer(ConcordRecognizer(str(model)))
    host = AnalyzerEngine(registry=registry, nlp_engine=engine, supported_languages=["en"])
    ours = {theirs: own for own, theirs in NAMES_OF_PRESIDIO.items()}

    def found(text: str, at: int = 0) -> Iterator[tuple[int, int, str]]:
        for one in host.analyze(text, "en"):
            yield at + one.start, at + one.end, ours.get(one.entity_type, one.entity_type)

    counts = dict.fromkeys(("gold", "found apart", "right apart", "found", "right", "added", "added and right"), 0)
    for document, text, names in zip(documents, texts, gold, strict=True):
        starts = accumulate((len(line) + 1 for line in _sentences(document)), initial=0)
        apart = {name for line, at in zip(_sentences(document), starts, strict=False) for name in found(line, at)}
        whole = set(found(text))
        added = {name for name in whole if all(name[1] <= start or end <= name[0] for start, end, _ in apart)}
        sizes = map(len, (names, apart, apart & names, whole, whole & names, added, added & names))
        for what, size in zip(counts, sizes, strict=True):
            counts[what] += size
    return counts


def _studio(model: Path, texts: Sequence[str], gold: Sequence[Names]) -> dict[str, int]:
    """Numbers of wrong answers and of errors in the texts with the lowest and the highest scores, and in all."""
    kinds = "".join(f'<Label value="{kind}"/>' for kind in ("LOC", "MISC", "ORG", "PER"))
    interface = f'<View><Labels name="kind" toName="text">{kinds}</Labels><Text name="text" value="$text"/></View>'
    backend = type("News", (ConcordBackend,), {"model": str(model)})
    client = init_app(model_class=backend, model_dir=str(MADE / "hosts")).test_client()
    tasks = [{"id": number, "data": {"text": text}} for number, text in enumerate(texts)]
    asked = {"tasks": tasks, "project": "1.1", "label_config": interface}
    client.post("/setup", json={"project": "1.1", "schema": interface})
    answers: list[dict[str, Any]] = client.post("/predict", json=asked).json["results"]
    errors = np.array([len(_regions(own) ^ names) for own, names in zip(answers, gold, strict=True)])
    order = np.argsort([own["score"] for own in answers], kind="stable")
    lowest, highest = errors[order[:EXTREME]], errors[order[-EXTREME:]]
    return {
        "lowest with errors": int((lowest > 0).sum()),
        "errors of the lowest": int(lowest.sum()),
        "highest with errors": int((highest > 0).sum()),
        "errors of the highest": int(highest.sum()),
        "errors": int(errors.sum()),
    }


def _regions(answer: dict[str, Any]) -> Names:
    values = [one["value"] for one in answer["result"]]
    return {(value["start"], value["end"], value["labels"][0]) for value in values}


if __name__ == "__main__":
    main()
