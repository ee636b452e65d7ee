"""Inference over your own arrays, without a model, a corpus or a file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from concord.schemas.decoded import Decoded
from concord.schemas.problem import Problem
from concord.workers.inference.registry import Decoder


def solve(
    problem: Problem,
    *,
    engine: str = "certify",
    options: Mapping[str, Any] | None = None,
    seed: int = 0,
    doc_id: str = "",
) -> Decoded:
    """Solves a `Problem`: the engine's best labelling (N,), with its scores in nats, bound, gap and status.

    - ``engine``: name of the engine, see ``concord list engines``
    - ``options``: options of the engine
    - ``seed``, ``doc_id``: all that random choices depend on

    Raises `InputError` for an unknown engine or option.

    >>> import numpy as np
    >>> labels = concord.LabelSet.bio(["PER"])
    >>> unary = np.array([[0.0, 2.0, -1.0], [0.5, 0.0, 1.0]])
    >>> potentials = concord.Potentials(unary, np.zeros((3, 3)), np.array([0])).legal(labels)
    >>> answer = concord.solve(concord.Problem(potentials, labels))
    >>> [labels.names[i] for i in answer.labels], answer.gap
    (['B-PER', 'I-PER'], 0.0)
    """
    return Decoder.of(engine, options, seed=seed)(problem.binding(), doc_id)
