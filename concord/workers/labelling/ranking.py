"""The K best labellings of a document that a run asks for, whichever engine labels."""

from __future__ import annotations

import math

from concord.schemas.decoded import Budget, Decoded, Ranking
from concord.schemas.run import RunSettings
from concord.workers.inference.core.prepared import Prepared
from concord.workers.inference.nbest.engine import n_best
from concord.workers.labelling.confidence import margin_decoder


def ranking(problem: Prepared, answer: Decoded, doc_id: str, settings: RunSettings) -> Ranking:
    """The best labellings of ``problem``, listed from an answer to it.

    Where the engine has not proven its answer the list starts from a better one, if there is one: the engine that
    proves margins looks for it.
    """
    if not answer.certified:
        answer = margin_decoder(settings)(problem, doc_id, incumbent=answer.labels)
    if answer.bound == -math.inf:
        return Ranking.none(len(problem))
    return n_best(problem, answer.labels, settings.n_best, budget=Budget(settings.seconds, settings.n_best_work))
