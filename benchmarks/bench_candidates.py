"""Candidate spans of a weak tagger: its answers alone, the best set of candidates, and the best under agreement.

    python benchmarks/bench_candidates.py

*News*, the training part alone: a CRF of the first 40 documents is the tagger, whose candidates are all spans of up to
six tokens with a marginal probability of 0.02 or more. The next 200 documents calibrate, and the last 300 judge.
*Greedy* is what a host makes of such scores: the highest first, from 0.5 on, or from the threshold that is best for the
calibrating documents, without overlap; *answers* are the tagger's own best labels. Entity F1 with the 95 % interval of
a paired bootstrap over documents against the better greedy set; and for how many documents that set is not the best
under the model, by how many nats.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from common import save
from corpora import documents_of

from concord.flows.training.tuning import pair_counts, tune_consistency
from concord.schemas.arrays import Floats
from concord.schemas.document import Batch, Column, Document
from concord.schemas.labels import Labels, LabelSet, Spans
from concord.schemas.layers import CANDIDATES_SUFFIX, NO_GRADE, candidate_values, layer_columns, layer_labels
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
LAYER = "weak"


class Answers(NamedTuple):
    """Labels of each document, with what the engine says of them."""

    labels: list[Labels]
    objective: list[float]
    proven: int


def main() -> None:
    """Measures all of it."""
    started = time.process_time()
    news = documents_of("news")
    with scratch_folder() as folder:
        weak = sgd.train(news[TAGGER], settings=SgdSettings(features="core").quick, out=folder / "weak")
        calibrating, judged = (list(_with_candidates(news[part], weak)) for part in (CALIBRATING, JUDGED))
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
    own = [model.labels.encode(weak.labels.decode(viterbi_labels(weak, Batch.of([one])))) for one in judged]
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
    figures = {"documents": len(judged), "training": model.manifest.figures, "rows": rows}
    save("candidates", figures | {"cpu_seconds": time.process_time() - started})


def _with_candidates(documents: Sequence[Document], weak: Model) -> Iterator[Document]:
    """The documents with the tagger's candidates as a layer."""
    labels = weak.labels
    for document in documents:
        batch = Batch.of([document])
        (problem,) = local_scores(weak, batch).problems(batch, labels, Unconstrained())
        ends = np.append(document.sentence_starts[1:], len(document))
        places = [
            (start, end, kind)
            for first, last in zip(document.sentence_starts.tolist(), ends.tolist(), strict=True)
            for start in range(first, last)
            for end in range(start + 1, min(start + LONGEST, last) + 1)
            for kind in range(len(labels.types))
        ]
        start, end, kind = (np.array(side, np.int64) for side in zip(*places, strict=True))
        marginals = span_marginals(Prepared.of(problem), Spans(start, end, kind.astype(np.int32)))
        kept = [(s, e, labels.types[k], float(p)) for (s, e, k), p in zip(places, marginals, strict=True) if p >= LEAST]
        shown, grades, _ = layer_labels(len(document), [(s, e, k, NO_GRADE) for s, e, k, p in kept if p >= TAKEN])
        name, grade, _ = layer_columns(LAYER)
        values = {name: shown, grade: grades, LAYER + CANDIDATES_SUFFIX: candidate_values(len(document), kept)}
        columns = {key: Column.encode(value) for key, value in values.items()}
        yield replace(document, columns={**document.columns, **columns})


def _greedy(document: Document, model: CandidatesModel, threshold: float) -> Labels:
    """The spans with the highest scores first, from a threshold on, of which none shares a token."""
    found = read_candidates(Batch.of([document]), 0, model.calibration)
    taken = list[CandidateSpan]()
    for one in sorted(found, key=lambda span: (-span.score, span)):
        if one.score >= threshold and all(one.end <= other.start or other.end <= one.start for other in taken):
            taken.append(one)
    names, _, _ = layer_labels(len(document), [(one.start, one.end, one.type, NO_GRADE) for one in taken])
    labels: Labels = model.labels.encode(names)
    return labels


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
