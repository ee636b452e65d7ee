"""The best set of another program's candidate spans, by log-odds that are calibrated on gold where there is some.

The log-odds (`workers.models.candidates.Calibration`) are those under which the gold spans are likeliest, of all sets
of candidates that share no token: p(set) ∝ exp Σ log-odds. Of single candidates this is logistic regression (Platt
1999). A span that is no candidate has the odds by which gold spans are none. Where a document lacks gold labels, none
are read: the scores are taken as probabilities; as those of rivals, if no token's candidates have a sum above 1.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from concord.schemas.arrays import Floats, Mask
from concord.schemas.blocks import Remark, Tone
from concord.schemas.document import TOKENS, Batch, Document
from concord.schemas.errors import TrainingError
from concord.schemas.labels import LabelSet, Scheme
from concord.schemas.layers import CANDIDATES_SUFFIX
from concord.workers.evaluation.figures import f1_of_counts
from concord.workers.features.templates import LAYER
from concord.workers.learning.trainers.entity_counts import viterbi_counts
from concord.workers.learning.trainers.layer_names import TypeNames, types_in_gold
from concord.workers.learning.trainers.layers import answer_counts, check_layers
from concord.workers.learning.trainers.taggers import has_answer
from concord.workers.learning.trainers.trainer import Iteration, Progress, TrainingCounts, have_gold, labels_of
from concord.workers.models.candidates import (
    LEAST_DOUBT,
    Calibration,
    CandidatesModel,
    CandidateSpan,
    crowds,
    evidence,
    log_odds,
    read_candidates,
    save,
)
from concord.workers.models.folder import begin
from concord.workers.models.settings import CandidatesSettings

NAME = "candidates"
PRIOR = 1.0
"""Weight of the quadratic prior of slope, offset and rivalry around those of probabilities."""
AS_PROBABILITIES = np.array([1.0, 0.0, 0.0])
"""Slope, offset and rivalry of probabilities that each candidate has for itself."""
LatticeSpan = tuple[int, int, str]
"""First token, token after the last, type."""
LEAST_SLOPE = 0.01
LARGEST_FLOOR = float(log_odds([0.01])[0])
"""Largest log-odds of a span that is no candidate."""
CALIBRATED = ("slope", "offset", "rivalry", "floor")
OF_SETS, OF_ANSWERS = "f1_of_sets", "f1_of_answers"
"""Figures: F1, on the gold that calibrates, of the best sets of candidates, and of the layer's own answers."""
HOST_THRESHOLD = 0.5
"""Score from which a program is taken to give a span."""


def train(
    documents: Iterable[Document], *, settings: CandidatesSettings, out: Path, progress: Progress | None = None
) -> CandidatesModel:
    """See `workers.learning.trainers.trainer.Train`. Raises `TrainingError` unless one layer has candidates."""
    ordered = list(documents)
    layer = _layer(ordered, settings)
    counts = TrainingCounts((TOKENS, layer, layer + CANDIDATES_SUFFIX))
    check_layers(ordered, [layer])
    with_gold = have_gold(ordered)
    for document in ordered:
        counts.gold(document) if with_gold else counts.unlabelled(document)
    training = counts.training(NAME, settings)
    begin(out)
    calibration, labels, figures = _calibrated(ordered, layer, with_gold=with_gold)
    if progress is not None:
        progress(Iteration(1, 1))
    model = save(out, calibration, labels, settings=settings, training=training | figures)
    if not with_gold:
        return model
    figures |= _beside_answers([document for document in ordered if has_answer(document, layer)], model)
    return save(out, calibration, labels, settings=settings, training=training | figures)


def remarks(figures: Mapping[str, float]) -> Iterator[Remark]:
    """What is done with candidates that overlap, and by what they were calibrated."""
    candidates, overlapping, nested = (int(figures[key]) for key in ("candidates", "overlapping", "nested"))
    yield Remark(
        f"{candidates:,} candidates, {overlapping:,} of which share a token with another: a token has one label, so "
        f"the best set is taken; {nested:,} lie within another and both score {HOST_THRESHOLD:g} or more"
        + (": one of each two is left out, where the program may keep both" if nested else "")
    )
    if figures["calibrated"]:
        yield Remark(
            f"log-odds of a candidate: {figures['offset']:.2f} and {figures['slope']:.2f} times those of its score, "
            f"{figures['rivalry']:.2f} times as its rivals leave nothing; of another span: {figures['floor']:.2f}"
        )
    else:
        yield Remark("no gold was read: the scores are taken as probabilities", Tone.NOTICE)
    if figures.get(OF_ANSWERS, 0.0) > figures.get(OF_SETS, 0.0):
        yield Remark(
            f"on these documents the layer's own answers have an F1 of {figures[OF_ANSWERS]:.2%}, the best sets of "
            f"candidates {figures[OF_SETS]:.2%}: train on the layer without --trainer candidates",
            Tone.NOTICE,
        )


def _layer(documents: Sequence[Document], settings: CandidatesSettings) -> str:
    """The layer whose candidates are read. Raises `TrainingError`."""
    if not any(map(len, documents)):
        raise TrainingError("there is no token to train on: the corpus is empty")
    there = set.intersection(*(set(document.columns) for document in documents))
    names = sorted(name.removesuffix(CANDIDATES_SUFFIX) for name in there if name.endswith(CANDIDATES_SUFFIX))
    if not names:
        raise TrainingError(
            "the corpus has no layer to learn from with candidates; `concord import entities --candidates` makes one"
        )
    names_asked = settings.layers or names
    if len(names_asked) > 1 or names_asked[0] not in names:
        raise TrainingError(f"--layers: want one layer that has candidates: {' or '.join(names)}")
    return names_asked[0]


def _calibrated(
    documents: Sequence[Document], layer: str, *, with_gold: bool
) -> tuple[Calibration, LabelSet, dict[str, Any]]:
    """Numbers of the calibration, labels of the model, and figures for the manifest."""
    names, gold = _gold(documents, layer) if with_gold else ({}, LabelSet.bio([]))
    batch = Batch.of([document for document in documents if has_answer(document, layer)])
    raw = Calibration(layer=layer, floor=LARGEST_FLOOR, names=dict(names))
    by_document = [read_candidates(batch, i, raw) for i in range(len(batch))]
    types = sorted({one.type for spans in by_document for one in spans}.union(gold.types))
    if not types:
        raise TrainingError(f"layer {layer!r} has no candidate in any document: there is no type to label")
    labels = LabelSet.bio(types)
    calibration = _on_gold(batch, raw, gold, by_document) if with_gold else _as_probabilities(raw, by_document)
    figures = _overlaps(by_document) | {"candidates": sum(map(len, by_document)), "calibrated": int(with_gold)}
    return calibration, labels, figures | {name: getattr(calibration, name) for name in CALIBRATED}


def _beside_answers(documents: Sequence[Document], model: CandidatesModel) -> dict[str, float]:
    """F1 of the best sets, by the chain alone, and of the layer's own answers, which may be better than these."""
    layer, labels = model.calibration.layer, labels_of(documents, model.labels.names)
    answers = answer_counts(documents, labels, f"{LAYER}{layer}", model.calibration.names)
    counts = {OF_SETS: viterbi_counts(model, documents, labels), OF_ANSWERS: answers}
    return {name: float(f1_of_counts(own.sum(axis=0))) for name, own in counts.items()}


def _gold(documents: Sequence[Document], layer: str) -> tuple[TypeNames, LabelSet]:
    """Gold's names for types of the layer, and gold's labels. Raises `TrainingError` where these are in no scheme."""
    labels = labels_of(documents)
    if labels.scheme is Scheme.PLAIN:
        raise TrainingError(
            "gold labels have no prefix B- or I-, so no spans of theirs are candidates; write them in BIO"
        )
    return types_in_gold(documents, labels, layer), labels


def _as_probabilities(raw: Calibration, by_document: Sequence[Sequence[CandidateSpan]]) -> Calibration:
    """Scores as they are; of rivals one is given if the scores of no token's candidates have a sum above 1."""
    scores = [one.score for spans in by_document for one in spans]
    most = max((float(crowds(spans).max(initial=0.0)) for spans in by_document), default=0.0)
    floor = min(LARGEST_FLOOR, float(log_odds(scores).min(initial=LARGEST_FLOOR)))
    return raw.model_copy(update={"rivalry": float(most <= 1.0 + LEAST_DOUBT), "floor": floor})


def _on_gold(
    batch: Batch, raw: Calibration, gold: LabelSet, by_document: Sequence[Sequence[CandidateSpan]]
) -> Calibration:
    """Numbers of the gold spans among the candidates, and the floor by those that are none."""
    assert batch.labels is not None
    spans = gold.spans(gold.encode(batch.labels.strings()), batch.sentence_starts)
    kinds = [gold.types[i] for i in spans.type.tolist()]
    gold_places = set(zip(spans.start.tolist(), spans.end.tolist(), kinds, strict=True))
    places = [
        (start + one.start, start + one.end, one.type)
        for start, own in zip(batch.doc_starts.tolist(), by_document, strict=False)
        for one in own
    ]
    right = np.array([place in gold_places for place in places], np.bool_)
    slope, offset, rivalry = fit_odds(places, np.concatenate([evidence(own) for own in by_document]), right).tolist()
    missed = len(gold_places.difference(places))
    share = (missed + 0.5) / (batch.token_count * max(len(gold.types), 1) + 1.0)
    floor = min(LARGEST_FLOOR, float(log_odds([share])[0]))
    return raw.model_copy(update={"slope": slope, "offset": offset, "rivalry": rivalry, "floor": floor})


def fit_odds(spans: Sequence[LatticeSpan], features: Floats, right: Mask) -> Floats:
    """(3,) weights of the evidence (C, 3) of candidates under which the set of the right ones is likeliest.

    A prior (`PRIOR`) draws them to 1, 0 and 0, so that they are finite where all candidates are right, or none.
    """
    from scipy.optimize import minimize  # takes half a second to import

    lattice = SpanLattice(spans)

    def loss(point: Floats) -> tuple[float, Floats]:
        weights = features @ point
        total, marginals = lattice.sums(weights.tolist())
        pull = point - AS_PROBABILITIES
        slopes = (marginals - right) @ features + PRIOR * pull
        return total - float(weights[right].sum()) + PRIOR / 2 * float(pull @ pull), slopes

    limits = [(LEAST_SLOPE, 100.0), (-100.0, 100.0), (0.0, 100.0)]
    point: Floats = minimize(loss, AS_PROBABILITIES, jac=True, method="L-BFGS-B", bounds=limits).x
    return point


class SpanLattice:
    """All sets of some spans of which no two share a token."""

    def __init__(self, spans: Sequence[LatticeSpan]) -> None:
        borders = {place: i for i, place in enumerate(sorted({side for span in spans for side in span[:2]}))}
        self._count = len(borders)
        self._edges = [(borders[span[0]], borders[span[1]]) for span in spans]
        self._forward = sorted(range(len(spans)), key=lambda i: self._edges[i][1])
        self._backward = sorted(range(len(spans)), key=lambda i: -self._edges[i][0])

    def sums(self, weights: Sequence[float]) -> tuple[float, Floats]:
        """Log of the sum over sets of exp Σ weights, and (C,) the share of the sum in which each span is."""
        before = self._log_sums(self._forward, weights, self._edges)
        mirrored = [(self._count - 1 - end, self._count - 1 - start) for start, end in self._edges]
        after = self._log_sums(self._backward, weights, mirrored)
        total = before[-1] if before else 0.0
        logs = [before[s] + w + after[self._count - 1 - e] for (s, e), w in zip(self._edges, weights, strict=True)]
        return total, np.exp(np.array(logs, np.float64) - total)

    def _log_sums(
        self, order: Sequence[int], weights: Sequence[float], edges: Sequence[tuple[int, int]]
    ) -> list[float]:
        """Log of the sum over sets of spans before each border; ``order`` goes by the spans' ends."""
        sums, reached = [0.0] * self._count, 0
        for i in order:
            start, end = edges[i]
            sums[reached + 1 : end + 1] = [sums[reached]] * (end - reached)
            reached = end
            one, other = sums[end], sums[start] + weights[i]
            sums[end] = max(one, other) + math.log1p(math.exp(-abs(one - other)))
        return sums


def _overlaps(by_document: Sequence[Sequence[CandidateSpan]]) -> dict[str, int]:
    """Number of candidates that share a token with another, and of those within one, where a program may keep both."""
    overlapping = nested = 0
    for spans in by_document:
        ordered = sorted(spans)
        rival, inner = set[int](), set[int]()
        for i, one in enumerate(ordered):
            for j in range(i + 1, len(ordered)):
                other = ordered[j]
                if other.start >= one.end:
                    break
                rival |= {i, j}
                if min(one.score, other.score) >= HOST_THRESHOLD and one[:2] != other[:2]:
                    if other.end <= one.end:
                        inner.add(j)
                    elif other.start == one.start:
                        inner.add(i)
        overlapping += len(rival)
        nested += len(inner)
    return {"overlapping": overlapping, "nested": nested}
