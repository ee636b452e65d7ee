"""A document of a run beside other labellings of it: what a page counts, and what its viewer shows."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import pyarrow as pa

from concord.schemas.columns import MARGIN, PROBABILITY, SENTENCE_STARTS, VITERBI_CONSTRAINTS
from concord.schemas.document import TOKENS
from concord.workers.report.places import PlaceChange, PlaceError, TypedPlaces, changes_between, errors_of

LEAST_NATS = 1e-9
"""Smallest difference of two penalties that is one."""


class ShardTables(NamedTuple):
    """What a run has written of a shard.

    - ``corpus``, ``rows``: file of the corpus, and the row of each document in it; None where they are not known
    - ``path``: file of the predictions
    - ``predictions``, ``times``: its tables; no times where they are gone
    - ``rejects``: file, row, document id and reason of each row without an answer
    """

    corpus: str | None
    rows: Sequence[int] | None
    path: str
    predictions: pa.Table
    times: pa.Table | None
    rejects: Sequence[Mapping[str, Any]]


class Charge(NamedTuple):
    """What a constraint costs a document, in nats: under the labels of the model alone, and under the answer."""

    name: str
    before: float
    after: float


def charges_of(
    constraints: Sequence[Mapping[str, Any]], under_model: Sequence[Mapping[str, Any]] | None
) -> list[Charge]:
    """Constraints that charge a document another price under its answer than under the labels of the model alone.

    Either are objects with name and penalty; None for those of the model where the run did not keep them.
    """
    after = {one["name"]: one["penalty"] for one in constraints}
    both = (
        Charge(one["name"], one["penalty"], after[one["name"]]) for one in under_model or () if one["name"] in after
    )
    return [one for one in both if one.before != one.after and not abs(one.before - one.after) <= LEAST_NATS]


class AnsweredDocument:
    """A document of a shard.

    - ``number``: its row in the predictions
    - ``answer``, ``alone``: places under the answer and by the model alone
    - ``other``, ``gold``: places in the other run and in gold; None where there is none
    - ``seconds``: time that was spent on it; None where it is not known
    """

    def __init__(
        self,
        shard: ShardTables,
        number: int,
        *,
        answer: TypedPlaces,
        alone: TypedPlaces,
        other: TypedPlaces | None,
        gold: TypedPlaces | None,
        seconds: float | None,
    ) -> None:
        self.shard, self.number = shard, number
        self.answer, self.alone, self.other, self.gold, self.seconds = answer, alone, other, gold, seconds

    def value(self, column: str) -> Any:
        """What its row has in a column; None where there is no such column."""
        table = self.shard.predictions
        return table[column][self.number].as_py() if column in table.column_names else None

    @cached_property
    def tokens(self) -> list[str]:
        """Its tokens."""
        words: list[str] = self.value(TOKENS)
        return words

    @cached_property
    def sentence_starts(self) -> list[int]:
        """Tokens that begin a sentence."""
        starts: list[int] = self.value(SENTENCE_STARTS)
        return starts

    @cached_property
    def changes(self) -> list[PlaceChange]:
        """What differs from the labels of the model alone."""
        return changes_between(self.alone, self.answer)

    @cached_property
    def other_changes(self) -> list[PlaceChange]:
        """What differs from the other run."""
        return [] if self.other is None else changes_between(self.other, self.answer)

    @cached_property
    def errors(self) -> list[PlaceError]:
        """What differs from gold."""
        return [] if self.gold is None else errors_of(self.answer, self.gold)

    @cached_property
    def charges(self) -> list[Charge]:
        """Constraints that charge the answer another price than the labels of the model alone."""
        return charges_of(self.value("constraints"), self.value(VITERBI_CONSTRAINTS))

    @property
    def cheaper(self) -> list[str]:
        """Constraints that charge the answer less."""
        return [one.name for one in self.charges if one.after < one.before]

    @cached_property
    def words(self) -> Mapping[str, Counter[str]]:
        """Types of the spans of the answer, by their words."""
        types: dict[str, Counter[str]] = {}
        for place, kind in self.answer.items():
            types.setdefault(self.text(*place), Counter())[kind] += 1
        return types

    @cached_property
    def sureness(self) -> Mapping[tuple[int, int], str]:
        """How sure spans of the answer are, where the run was asked for that: probability, and margin in nats."""
        entities = self.value("entities")
        blank = [None] * len(entities)
        columns = (self.value(PROBABILITY) or blank, self.value(MARGIN) or blank)
        return {
            (entity["start"], entity["end"]): ", ".join(
                text
                for text in (
                    "" if probability is None else f"{probability:.1%}",
                    "" if margin is None else f"margin {margin:.2f} nats",
                )
                if text
            )
            for entity, probability, margin in zip(entities, *columns, strict=True)
        }

    def text(self, start: int, end: int) -> str:
        """The words of a span."""
        return " ".join(self.tokens[start:end])

    def alike(self, change: PlaceChange) -> list[tuple[str, int]]:
        """Types and numbers of the other spans of the answer with the same words as a change, most frequent first."""
        counts = Counter(self.words.get(self.text(change.start, change.end), {}))
        if change.after is not None:
            counts[change.after] -= 1
        return sorted(((kind, n) for kind, n in counts.items() if n), key=lambda item: (-item[1], item[0]))


def plain_nats(value: float) -> float | None:
    """Nats as JSON has them; None for those of a broken hard constraint."""
    return round(value, 3) if math.isfinite(value) else None
