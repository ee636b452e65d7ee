"""What form numbers of a tagger have: log-probabilities, logits, probabilities, or logarithms to another base."""

from __future__ import annotations

from typing import Literal

import numpy as np

from concord.schemas.arrays import Floats, Mask
from concord.schemas.document import Batch
from concord.schemas.errors import DocumentError

ScoreForm = Literal["log-probabilities", "logits"]

SUM_TOLERANCE = 0.05
"""Largest distance from 1 of probabilities that add up to 1, as floats of 16 bits can be off."""
TOLD_TOKENS = 3
"""Least number of tokens of a document whose logits are taken for probabilities: a few may look so by chance."""
REMEDIES = {
    "probabilities": "write their natural logarithms",
    "costs, which are logarithms with the other sign": "write them times -1",
    "logarithms to base 10": "write them times 2.302585",
    "logarithms to base 2": "write them times 0.693147",
    "logits": "import the labels again with --form logits",
}
"""What to do with numbers of each form."""


def check_form(batch: Batch, form: ScoreForm) -> None:
    """Raises `DocumentError` for the first document whose scores look like those of another form.

    Log-probabilities of a token have to add up to 1 as probabilities, or to less where some labels are forbidden.
    Logits may be any numbers, so only a document of probabilities alone is noticed.
    """
    assert batch.scores is not None
    wrong = _not_normal(batch.scores) if form == "log-probabilities" else _all_probabilities(batch)
    tokens = np.flatnonzero(wrong)
    if not len(tokens):
        return
    place = int(np.searchsorted(batch.doc_starts, tokens[0], side="right")) - 1
    row, token = batch.scores[tokens[0]], int(tokens[0] - batch.doc_starts[place])
    looks = looks_like(row)
    numbers = ", ".join(f"{number:.4g}" for number in row[:4].tolist()) + (", ..." if len(row) > 4 else "")
    total = float(np.logaddexp.reduce(row))
    why = f"log Σ e^score is {total:.3g} and not 0" if form == "log-probabilities" else "they add up to 1"
    raise DocumentError(
        f"the scores of token {token} ({numbers}) look like {looks}, not like {form}: {why}; {REMEDIES[looks]}",
        batch.doc_ids[place],
    )


def looks_like(row: Floats) -> str:
    """Form, a key of `REMEDIES`, of the scores (W,) of a token that are no log-probabilities."""
    if _probabilities(row[None])[0]:
        return "probabilities"
    with np.errstate(over="ignore"):
        for name, base in (
            ("costs, which are logarithms with the other sign", np.exp(-1.0)),
            ("logarithms to base 10", 10.0),
            ("logarithms to base 2", 2.0),
        ):
            if abs(float(np.power(base, row).sum()) - 1.0) <= SUM_TOLERANCE:
                return name
    return "logits"


def _not_normal(scores: Floats) -> Mask:
    """(N,) mask of tokens whose scores are no log-probabilities."""
    total = np.logaddexp.reduce(scores, axis=1)
    forbidden = (scores == -np.inf).any(axis=1)
    found: Mask = (total > SUM_TOLERANCE) | ((total < -SUM_TOLERANCE) & ~forbidden)
    return found


def _all_probabilities(batch: Batch) -> Mask:
    """(N,) mask of the tokens of documents in which every token has probabilities."""
    assert batch.scores is not None
    lengths = np.diff(batch.doc_starts)
    found = _probabilities(batch.scores)
    if not found.any():
        return found
    counts = np.add.reduceat(found, batch.doc_starts[:-1])
    return np.repeat((counts == lengths) & (lengths >= TOLD_TOKENS), lengths)


def _probabilities(scores: Floats) -> Mask:
    inside = ((scores >= 0.0) & (scores <= 1.0 + SUM_TOLERANCE)).all(axis=1)
    found: Mask = inside & (np.abs(scores.sum(axis=1) - 1.0) <= SUM_TOLERANCE)
    return found
