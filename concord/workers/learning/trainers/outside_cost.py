"""Cost of a token outside of entities, learned on documents that the model has not seen: answers of the best F1.

The likeliest labelling has the fewest wrong sentences, not the best F1: where entities are hard to find, it names too
few. To name one that is there with probability p raises F1 as soon as p > F/2, for F the best that can be had (Lipton
et al. 2014, theorem 1). In nats, at the temperature T at which the model is as sure as it is right: as soon as the
labelling that names it is no more than

    cost / T = log((1 − F/2) / (F/2)) = log(2/F − 1)

behind the one without it. So ``O`` costs that much at every token. F is that of the labels with the cost, so both
are found in turns. Where fewer entities are named than there are, the cost is kept if it raises F1, or else half of it
if that does, all on these documents; otherwise it is 0.

Probabilities are told of the scores without it (`Problem.likelihoods`).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log
from typing import NamedTuple

from concord.schemas.document import Batch, Document
from concord.schemas.labels import OUTSIDE
from concord.workers.evaluation.figures import GOLD, PREDICTED, f1_of_counts
from concord.workers.evaluation.named_counts import Counts
from concord.workers.inference.core.chain import viterbi
from concord.workers.learning.trainers.entity_counts import entity_counts
from concord.workers.learning.trainers.temperature import LEAST_HELD_OUT
from concord.workers.models.model import BringsRows, HasOutsideCost, Model, temperature_of

TURNS = 5
"""Number of times that the cost follows F1, which then hardly changes any more."""
LEAST_F1 = 0.05
"""F1 below which the cost does not grow any more: of so few entities that are right no F1 can be told."""


class OutsideCostFit(NamedTuple):
    """An outside cost, and what it was judged by.

    - ``cost``: nats before temperature; 0 where ``kept_for`` says why.
    - ``f1_without``: F1 of entities in the documents' best labels without cost; None where it was not judged.
    - ``f1``: the same with the cost; None where there is none.
    """

    cost: float
    f1_without: float | None = None
    f1: float | None = None
    kept_for: str = ""


def fit_outside_cost(documents: Sequence[Document], model: Model) -> OutsideCostFit:
    """The outside cost of a model, at its temperature, by documents with gold labels that it has not seen.

    Raises `LabelError` for gold labels that the model does not have.
    """
    if isinstance(model, BringsRows) or not isinstance(model, HasOutsideCost):
        return OutsideCostFit(0.0, kept_for="the scores are no potentials of a chain")
    if OUTSIDE not in model.labels.index:
        return OutsideCostFit(0.0, kept_for="no label is outside of entities")
    if len(documents) < LEAST_HELD_OUT:
        return OutsideCostFit(0.0, kept_for=f"{len(documents)} held-out documents are too few to learn one")
    scores, outside = model.potentials(Batch.of(documents)).legal(model.labels), model.labels.index[OUTSIDE]

    def counts_at(cost: float) -> Counts:
        answer = viterbi(scores.costing(outside, cost))
        counts: Counts = entity_counts(documents, model.labels, model.labels.names, answer).sum(axis=0)
        return counts

    plain = counts_at(0.0)
    without = f1 = float(f1_of_counts(plain))
    if plain[PREDICTED] >= plain[GOLD]:
        return OutsideCostFit(0.0, without, kept_for="as many entities are named as there are")
    for _ in range(TURNS):
        whole = temperature_of(model) * log(2.0 / max(f1, LEAST_F1) - 1.0)
        cost = _rounded(whole)
        f1 = float(f1_of_counts(counts_at(cost)))
    if f1 <= without:
        cost = _rounded(whole / 2.0)
        f1 = float(f1_of_counts(counts_at(cost)))
    if f1 <= without:
        return OutsideCostFit(0.0, without, kept_for="none raises F1")
    return OutsideCostFit(cost, without, f1)


def _rounded(cost: float) -> float:
    """A cost as the manifest has it, with four digits."""
    return float(f"{cost:.4g}")
