"""A problem that remembers what engines derive from it: each thing is computed once, when it is first asked for.

An engine that runs another engine, or calls a relaxation, passes its `Prepared` problem on with all that is known.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property

import numpy as np

from concord.schemas.arrays import Floats
from concord.schemas.decoded import Score
from concord.schemas.labels import Labels
from concord.schemas.problem import LinearRows, Problem
from concord.workers.inference.core.agreement import AgreementState, Codec, codec, uncounted
from concord.workers.inference.core.chain import best_labels, max_messages

OF_THE_CHAIN = frozenset({"_best", "top", "messages", "max_marginals", "best_marginals", "codec"})
"""The cached properties of a `Prepared` problem that depend on neither rows nor agreements."""


@dataclass(frozen=True, eq=False)
class Prepared(Problem):
    """A problem that caches what is derived from it. The cached arrays are shared: nobody may write to them.

    `dataclasses.replace` makes a new problem with an empty cache.
    """

    @classmethod
    def of(cls, problem: Problem) -> Prepared:
        """The problem as a `Prepared` one; the same object if it is one already."""
        if isinstance(problem, Prepared):
            return problem
        return cls(**{part.name: getattr(problem, part.name) for part in fields(Problem)})

    def with_rows(self, rows: LinearRows) -> Prepared:
        """The same document with other rows; keeps what was derived from its chain and labels alone."""
        other = replace(self, rows=rows)
        vars(other).update({name: value for name, value in vars(self).items() if name in OF_THE_CHAIN})
        return other

    @cached_property
    def _best(self) -> tuple[Labels, Floats]:
        return best_labels(self.potentials)

    @property
    def viterbi(self) -> Labels:
        """(N,) the best labelling under the chain alone; ties go to the lowest label id."""
        return self._best[0]

    @property
    def viterbi_score(self) -> float:
        """V, the upper bound of every score, in nats, summed sentence by sentence; `top` sums token by token."""
        return float(self._best[1].sum())

    @cached_property
    def top(self) -> float:
        """V in nats as `Potentials.score` sums it: the Viterbi labelling's score before any row is charged."""
        return self.potentials.score(self.viterbi)

    @cached_property
    def first(self) -> Score:
        """The score of the Viterbi labelling."""
        return self.score(self.viterbi)

    def better_of(self, incumbent: Labels | None) -> tuple[Labels, Score]:
        """``incumbent`` (N,) if it scores higher than the Viterbi labelling, otherwise that; with its score."""
        score = None if incumbent is None else self.score(incumbent)
        if incumbent is None or score is None or not score.objective > self.first.objective:
            return self.viterbi, self.first
        return incumbent, score

    @cached_property
    def messages(self) -> tuple[Floats, Floats]:
        """Forward and backward max messages, both (N, L), in nats; see `max_messages`."""
        return max_messages(self.potentials)

    @cached_property
    def max_marginals(self) -> Floats:
        """(N, L) the best local score of the token's sentence among labellings with y_t = l, in nats."""
        forward, backward = self.messages
        return forward + backward

    @cached_property
    def best_marginals(self) -> Floats:
        """(N,) the best local score of each token's sentence, in nats."""
        return self.max_marginals.max(axis=1) if len(self) else np.zeros(0)

    @cached_property
    def codec(self) -> Codec:
        """The problem's span codec, as arrays."""
        return codec(self)

    @cached_property
    def uncounted(self) -> AgreementState:
        """The agreements as arrays, with all counts 0 and infinite costs. Shared: nobody may count in it."""
        return uncounted(self)

    def empty_state(self, hard_weight: float) -> AgreementState:
        """A fresh agreement state with all counts 0, which the caller may write to.

        Infinite costs become ``hard_weight`` nats, so that sums stay finite. What an engine returns is scored by
        `Problem.score`, where they cost inf.
        """
        state = self.uncounted
        return state._replace(
            cost=np.where(np.isinf(state.cost), hard_weight, state.cost),
            counts=state.counts.copy(),
            holders=state.holders.copy(),
            total=state.total.copy(),
            left_out=state.left_out.copy(),
        )
