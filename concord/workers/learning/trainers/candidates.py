"""The best set of another program's candidate spans, by log-odds that are calibrated on gold where there is some.

The log-odds of a candidate are offset + slope · ln p/(1 − p) for its score p, by logistic regression on whether gold
has the span (Platt 1999). A span that is no candidate has the odds by which gold spans are none. Where a document lacks
gold labels, none are read: the scores are taken as probabilities, and a span that is no candidate has the lowest.
"""

from __future__ import annotations

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
from concord.workers.learning.trainers.layer_names import TypeNames, types_in_gold
from concord.workers.learning.trainers.layers import check_layers
from concord.workers.learning.trainers.taggers import has_answer
from concord.workers.learning.trainers.trainer import Iteration, Progress, TrainingCounts, have_gold, labels_of
from concord.workers.models.candidates import (
    Calibration,
    CandidatesModel,
    CandidateSpan,
    log_odds,
    read_candidates,
    save,
)
from concord.workers.models.folder import begin
from concord.workers.models.settings import CandidatesSettings

NAME = "candidates"
PRIOR = 1.0
"""Weight of the quadratic prior of slope and offset around those of probabilities, 1 and 0."""
LEAST_SLOPE = 0.01
LARGEST_FLOOR = float(log_odds([0.01])[0])
"""Largest log-odds of a span that is no candidate."""
KEPT = 0.5
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
    return save(out, calibration, labels, settings=settings, training=training | figures)


def remarks(figures: Mapping[str, float]) -> Iterator[Remark]:
    """What is done with candidates that overlap, and by what they were calibrated."""
    candidates, overlapping, nested = (int(figures[key]) for key in ("candidates", "overlapping", "nested"))
    yield Remark(
        f"{candidates:,} candidates, {overlapping:,} of which share a token with another: a token has one label, so "
        f"the best set is taken; {nested:,} lie within another and both score {KEPT:g} or more"
        + (": one of each two is left out, where the program may keep both" if nested else "")
    )
    if figures["calibrated"]:
        yield Remark(
            f"log-odds of a candidate: {figures['offset']:+.2f} {figures['slope']:+.2f} times those of its score; "
            f"of a span that is none: {figures['floor']:.2f}"
        )
    else:
        yield Remark("no gold was read: the scores are taken as probabilities", Tone.NOTICE)


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
    scores = [one.score for spans in by_document for one in spans]
    calibration = (
        _on_gold(batch, raw, gold, by_document) if with_gold else raw.model_copy(update={"floor": _lowest(scores)})
    )
    figures = _overlaps(by_document) | {"candidates": len(scores), "calibrated": int(with_gold)}
    return calibration, labels, figures | {name: getattr(calibration, name) for name in ("slope", "offset", "floor")}


def _gold(documents: Sequence[Document], layer: str) -> tuple[TypeNames, LabelSet]:
    """Gold's names for types of the layer, and gold's labels. Raises `TrainingError` where these are in no scheme."""
    labels = labels_of(documents)
    if labels.scheme is Scheme.PLAIN:
        raise TrainingError(
            "gold labels have no prefix B- or I-, so no spans of theirs are candidates; write them in BIO"
        )
    return types_in_gold(documents, labels, layer), labels


def _lowest(scores: Sequence[float]) -> float:
    return min(LARGEST_FLOOR, float(log_odds(scores).min(initial=LARGEST_FLOOR)))


def _on_gold(
    batch: Batch, raw: Calibration, gold: LabelSet, by_document: Sequence[Sequence[CandidateSpan]]
) -> Calibration:
    """Slope and offset by logistic regression; the floor by the gold spans that are no candidates."""
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
    slope, offset = fit_logistic(log_odds([one.score for own in by_document for one in own]), right)
    missed = len(gold_places.difference(places))
    share = (missed + 0.5) / (batch.token_count * max(len(gold.types), 1) + 1.0)
    floor = min(LARGEST_FLOOR, float(log_odds([share])[0]))
    return raw.model_copy(update={"slope": slope, "offset": offset, "floor": floor})


def fit_logistic(odds: Floats, right: Mask) -> tuple[float, float]:
    """Slope and offset (nats) of the least −Σ log p(right) for log-odds (C,).

    A prior (`PRIOR`) draws them to 1 and 0, so that they are finite where all candidates are right, or none.
    """
    from scipy.optimize import minimize  # takes half a second to import

    start, sign = np.array([1.0, 0.0]), np.where(right, -1.0, 1.0)

    def loss(point: Floats) -> tuple[float, Floats]:
        wrong = sign * (point[0] * odds + point[1])
        pull = np.exp(wrong - np.logaddexp(0.0, wrong)) * sign
        slopes = np.array([pull @ odds, pull.sum()]) + PRIOR * (point - start)
        return float(np.logaddexp(0.0, wrong).sum() + PRIOR / 2 * ((point - start) ** 2).sum()), slopes

    slope, offset = minimize(loss, start, jac=True, method="L-BFGS-B").x.tolist()
    return max(slope, LEAST_SLOPE), offset


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
                if min(one.score, other.score) >= KEPT and one[:2] != other[:2]:
                    if other.end <= one.end:
                        inner.add(j)
                    elif other.start == one.start:
                        inner.add(i)
        overlapping += len(rival)
        nested += len(inner)
    return {"overlapping": overlapping, "nested": nested}
