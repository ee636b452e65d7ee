"""Answers of `concord label`, and of the same function in Python."""

from __future__ import annotations

from typing import Any

from concord.schemas.audit import Explanation
from concord.schemas.run import Figures
from concord.schemas.shown import broken_lines, lines_html, marked_html, marked_text, marked_tokens, proven


class LabelledEntity(Figures):
    """A span of one type.

    - ``start``, ``end``: its tokens, end exclusive.
    - ``char_start``, ``char_end``: its characters in the text, end exclusive; None for a document given in tokens.
    - ``text``: its text; of a document given in tokens, these with blanks between them.
    - ``probability``, ``margin``, ``margin_status``: see `schemas.decoded.Confidence`; None if not asked for.
    """

    type: str
    start: int
    end: int
    char_start: int | None
    char_end: int | None
    text: str
    probability: float | None = None
    margin: float | None = None
    margin_status: str | None = None


class RankedLabels(Figures):
    """One of the best labellings of a text, see `schemas.decoded.Ranking`.

    - ``score``: nats.
    - ``gap``: nats below the first.
    - ``proven``: is its rank proven?
    - ``labels``: one for each token.
    """

    score: float
    gap: float
    proven: bool
    labels: tuple[str, ...]


class ConstraintPenalty(Figures):
    """Degree to which an answer breaks a constraint, and its penalty in nats."""

    name: str
    degree: float
    penalty: float


class LabelledText(Figures):
    """A text with its labels: ``concord label --json`` prints one such object for each document. Scores are in nats.

    There are two labellings: the answer under the constraints, and that of the model alone (fields ``viterbi_``).

    - ``sentence_starts``: first token of each sentence.
    - ``labels``, ``viterbi_labels``: one for each token.
    - ``viterbi_local``, ``viterbi_penalty``: local score of the model's own labelling, and its penalty.
    - ``local``, ``penalty``, ``score``: local score and penalty of the answer, and their difference.
    - ``bound``, ``gap``: upper bound of the score of any labelling, and its distance from ``score``.
    - ``n_best``, ``n_best_bound``: the best labellings, best first, and an upper bound for all others, if asked for.
    - ``explanation``: effects of the constraints, if asked for.
    """

    doc_id: str
    text: str | None
    tokens: tuple[str, ...]
    sentence_starts: tuple[int, ...]
    labels: tuple[str, ...]
    viterbi_labels: tuple[str, ...]
    entities: tuple[LabelledEntity, ...]
    viterbi_entities: tuple[LabelledEntity, ...]
    viterbi_local: float
    viterbi_penalty: float
    score: float
    local: float
    penalty: float
    bound: float
    gap: float
    status: str
    constraints: tuple[ConstraintPenalty, ...]
    n_best: tuple[RankedLabels, ...] = ()
    n_best_bound: float | None = None
    explanation: Explanation | None = None

    def __repr__(self) -> str:
        return "\n".join([marked_text(*self._marked()), *self._lines()])

    def _repr_html_(self) -> str:
        return f"{marked_html(*self._marked())}{lines_html(self._lines())}"

    def _lines(self) -> list[str]:
        """What is proven of the answer, and what it breaks."""
        return [proven(self.status, self.gap), *broken_lines(map(dict, self.constraints))]

    def _marked(self) -> tuple[str, list[dict[str, Any]]]:
        """The text and its entities by characters. Without a text: the tokens with blanks between them."""
        entities = [entity.model_dump() for entity in self.entities]
        return marked_tokens(self.tokens, entities) if self.text is None else (self.text, entities)
