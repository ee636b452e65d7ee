"""What tables of Canisius et al. (2011) have that is no measure of labels: table 5, and table 2's oracle.

`concord papers canisius` has the rest. Chunks: CoNLL-2000's training part without its last 1,000 sentences, measured on
those. Names: CoNLL-2003's eng.train, measured on testa. Sentences are documents, as in the paper. Settings are those of
`concord papers`, which wrapped progressive sampling chose on the training sentences. Needs the real corpora.

    python benchmarks/bench_csi.py --task chunks
    python benchmarks/bench_csi.py --task names
    python benchmarks/bench_csi.py --part timbl     # how fast neighbours are found, beside TiMBL's IB1
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from common import MADE, REAL, batches, concord, save
from corpora import labelled_corpora

from concord.schemas.document import Batch, Document
from concord.schemas.labels import Labels, LabelSet
from concord.schemas.problem import Problem
from concord.workers.constraints.constraint_set import Unconstrained
from concord.workers.evaluation.figures import f1_of_counts
from concord.workers.evaluation.measures import Pair, spans
from concord.workers.inference.registry import Decoder
from concord.workers.models.model import LocalScores
from concord.workers.papers.canisius import trigram_trainer as trigram
from concord.workers.papers.canisius.neighbourhoods import Neighbourhoods
from concord.workers.papers.canisius.ngrams import voted
from concord.workers.papers.canisius.settings import TrigramSettings
from concord.workers.papers.canisius.trigram import TrigramModel

HELD_SENTENCES = 1_000
"""Of CoNLL-2000's training part."""
CHECKED = 300
"""Sentences that every engine solves."""
BESIDE = 200
"""Instances that TiMBL's IB1 classifies."""
ENGINES: dict[str, dict[str, Any]] = {
    "window": {"width": 5},
    "certify": {},
    "csp": {"candidates": 100, "margin": 1e9},
    "astar": {},
    "cpsat": {},
}


SETTINGS: dict[str, dict[str, Any]] = {
    "chunks": {"k": 15, "decay": "exponential"},
    "names": {"k": 5, "decay": "linear"},
}
"""Of trigrams, by task; both by Jeffrey's divergence."""


class Told(NamedTuple):
    """A model's answers: its neighbourhoods, scores and problems, and CPU seconds of classifying and of the rest."""

    model: TrigramModel
    batch: Batch
    found: Neighbourhoods
    scores: LocalScores
    problems: list[Problem]
    seconds: dict[str, float]


def main() -> None:
    """Measures a part."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", choices=["chunks", "names"], default="chunks")
    parser.add_argument("--part", choices=PARTS, default="tables")
    parser.add_argument("--measured", type=int, help="sentences of the test part, drawn by chance; by default all")
    chosen = parser.parse_args()
    train, whole = corpora(chosen.task)
    test = [one for document in whole for one in sentences(document)]
    drawn = np.random.default_rng(0).permutation(len(test))[: chosen.measured]
    test = [test[i] for i in np.sort(drawn).tolist()]
    found = PARTS[chosen.part](train, test, {"windows": chosen.task, "legality": "loose"})
    name = "csi" if chosen.part == "tables" else f"csi_{chosen.part}"
    save(f"{name}_{chosen.task}", {"task": chosen.task, "sentences": len(test)} | found)


def tables(train: list[Document], test: list[Document], base: dict[str, Any]) -> dict[str, Any]:
    """F1 of the best labelling among the candidates, and table 5."""
    given = SETTINGS[base["windows"]] | {"metric": "jeffrey", "weighting": "gain-ratio"}
    loose = told(train, test, base | given)
    gold = gold_of(loose.batch, loose.model.labels)
    votes = voted(loose.found, loose.model.classes, loose.batch.sentence_bounds, len(loose.model.labels))
    best = np.where(loose_domain(loose)[np.arange(len(gold)), gold], gold, votes).astype(np.int32)
    found = {
        "oracle": f1_of(loose, best),
        "trigrams_right": float((loose.found.predicted == known_classes(loose, gold)).mean()),
        "seconds": loose.seconds,
        "tokens": loose.batch.token_count,
    }
    return found | sequences(loose) | engines_agree(loose)


def corpora(task: str) -> tuple[list[Document], list[Document]]:
    """Training and test documents; the chunks' are single sentences."""
    if task == "names":
        both = labelled_corpora()
        train, test = ([d for batch in batches(place) for d in batch] for place in (both.train, both.test))
        return train, test
    out = MADE / "corpora" / "chunk-sentences"
    if not out.is_dir():
        options = ("--set=columns=tokens,pos,labels", "--set=sentences_per_document=1")
        concord("ingest", "columns", REAL / "conll2000" / "train.txt", "--out", out, *options)
    every = [document for batch in batches(out) for document in batch]
    return every[:-HELD_SENTENCES], every[-HELD_SENTENCES:]


def sentences(document: Document) -> list[Document]:
    """Each of its sentences as a document."""
    bounds = [*document.sentence_starts.tolist(), len(document)]
    found = []
    for i, (start, end) in enumerate(pairwise(bounds)):
        columns = {name: column[start:end] for name, column in document.columns.items()}
        gold = None if document.labels is None else document.labels[start:end]
        found.append(Document(f"{document.doc_id}-{i}", np.zeros(1, np.int64), columns, gold))
    return found


def told(
    train: Sequence[Document], test: Sequence[Document], settings: dict[str, Any], known: Neighbourhoods | None = None
) -> Told:
    """A model of the training documents on the others; ``known`` are its neighbourhoods where they are."""
    seconds, started = {}, time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        model = trigram.train(train, settings=TrigramSettings.model_validate(settings), out=Path(folder) / "model")
    seconds["train"], started = time.process_time() - started, time.process_time()
    batch = Batch.of(test)
    found = model.neighbourhoods(batch) if known is None else known
    seconds["classify"], started = time.process_time() - started, time.process_time()
    scores = model.scores_of(found, batch)
    problems = list(scores.problems(batch, model.labels, Unconstrained()))
    seconds["ground"] = time.process_time() - started
    return Told(model, batch, found, scores, problems, seconds)


def gold_of(batch: Batch, labels: LabelSet) -> Labels:
    """(N,) the gold labels; names that training lacks are the first label, which is wrong."""
    assert batch.labels is not None
    return np.array([labels.index.get(name, 0) for name in batch.labels.strings()], np.int32)


def loose_domain(made: Told) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """(N, L) which labels are candidates."""
    return np.isfinite(made.scores.potentials.unary)


def f1_of(made: Told, answer: Labels) -> float:
    """Percent, of the sentences that a model was told on."""
    labels = made.model.labels
    counts = spans(Pair(made.batch, labels, gold_of(made.batch, labels), answer)).by_document()
    return 100.0 * float(f1_of_counts(counts.sum(axis=(0, 1))))


def known_classes(made: Told, gold: Labels) -> np.ndarray[Any, np.dtype[np.int64]]:
    """(N,) the class of each token by its gold labels, −1 where training never had it."""
    classes, which = trigram.label_classes(gold, made.batch.sentence_bounds, made.model.classes.shape[1])
    number = {tuple(labels): i for i, labels in enumerate(made.model.classes.tolist())}
    return np.array([number.get(tuple(labels), -1) for labels in classes.tolist()])[which]


def sequences(made: Told) -> dict[str, float]:
    """How many labellings the candidates of a sentence leave (table 5)."""
    sizes = np.log(loose_domain(made).sum(axis=1))
    counts = np.exp(np.add.reduceat(sizes, made.batch.sentence_starts))
    figures = {"mean": counts.mean(), "median": np.median(counts), "largest": counts.max()}
    return {f"sequences_{name}": float(value) for name, value in figures.items()}


def engines_agree(made: Told) -> dict[str, Any]:
    """The first sentences by every exact engine: how many have the same score by all, and tokens a second of each."""
    problems = made.problems[:CHECKED]
    tokens = sum(map(len, problems))
    scores, speed, proven = [], {}, {}
    for name, options in ENGINES.items():
        decoder, started = Decoder.of(name, options), time.process_time()
        answers = [decoder(problem, "sentence") for problem in problems]
        speed[name] = tokens / (time.process_time() - started)
        proven[name] = sum(answer.certified for answer in answers)
        scores.append([answer.objective for answer in answers])
        print(f"{name:10} {speed[name]:10,.0f} tokens a second, {proven[name]} of {len(problems)} proven", flush=True)
    spread = np.ptp(np.array(scores), axis=0)
    return {
        "engines": {"speed": speed, "proven": proven, "sentences": len(problems), "alike": int((spread < 1e-6).sum())}
    }


def beside_timbl(train: list[Document], test: list[Document], base: dict[str, Any]) -> dict[str, Any]:
    """Instances a CPU second of our own neighbours and of TiMBL's, of the same training tokens; and the same shares?"""
    rows = []
    for given in ({}, {"metric": "mvdm", "k": 5, "decay": "inverse"}):
        found, speed = [], []
        for learner in ("nearest", "ib1"):
            with tempfile.TemporaryDirectory() as folder:
                settings = TrigramSettings.model_validate(base | given | {"learner": learner})
                model = trigram.train(train, settings=settings, out=Path(folder) / "model")
            instances = model.instances(Batch.of(test))[:BESIDE]
            model.classifier.neighbourhoods(instances[:1])  # compiled, and read
            started = time.process_time()
            found.append(model.classifier.neighbourhoods(instances))
            speed.append(len(instances) / (time.process_time() - started))
        same = all(np.array_equal(one, other) for one, other in zip(found[0][:2], found[1][:2], strict=True))
        alike = same and bool(np.allclose(found[0].share, found[1].share, atol=1e-6))
        rows.append(
            {"settings": given, "nearest": speed[0], "timbl": speed[1], "ratio": speed[0] / speed[1], "alike": alike}
        )
        print(f"{given}: {speed[0]:,.0f} and TiMBL's {speed[1]:,.1f} a second; equal: {alike}")
    return {"rows": rows}


PARTS: dict[str, Callable[[list[Document], list[Document], dict[str, Any]], dict[str, Any]]] = {
    "tables": tables,
    "timbl": beside_timbl,
}

if __name__ == "__main__":
    main()
