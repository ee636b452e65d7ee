"""BILOU labels inside a CRF, and their scores as those of BIO labels.

Ratinov & Roth (2009): a model learns better where spans end if its labels say so. ``B-T`` and ``I-T`` then stand for
tokens whose span goes on, ``U-T`` and ``L-T`` for those whose span ends with them. Which of two a token has is decided
by its BIO label and the next one's. If also

    transition[z, U-T] = transition[z, B-T] + δ(B-T)  and  transition[z, L-T] = transition[z, I-T] + δ(I-T)

for all labels z before them, then the score of a labelling is a sum over pairs of neighbouring BIO labels:

    what token t's label adds, given BIO label y_t+1:  unary[t, z_t] + δ if the span ends + transition[z_t, y_t+1]

(without δ at a sentence's first token, to which no transition leads).

So the chain of BILOU labels has exact potentials of BIO labels, with a matrix for each token. Engines, constraints and
certificates see nothing but BIO. `EndMarks.tied` makes the condition hold: what it loses is said in docs/bilou.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from concord.schemas.arrays import Floats, Ids, Ints, Mask
from concord.schemas.labels import OUTSIDE, LabelError, Labels, LabelSet, Scheme
from concord.schemas.potentials import Potentials
from concord.schemas.settings import Settings

ENDING = {"B-": "U-", "I-": "L-"}
"""Prefixes of BIO, and those of tokens with which a span ends."""


class ChainSettings(Settings):
    """Labels inside a model, in its folder."""

    scheme: Literal["bilou"]


@dataclass(frozen=True)
class EndMarks:
    """The W BILOU labels that stand for a set of L BIO labels."""

    labels: LabelSet

    def __post_init__(self) -> None:
        if self.labels.scheme is not Scheme.BIO:
            raise LabelError("scheme=bilou marks where spans end, and the labels are types of tokens; leave it out")

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the W labels: each BIO label, and after it the one of tokens with which a span ends."""
        return tuple(
            name for own in self.labels.names for name in dict.fromkeys((own, ENDING.get(own[:2], own[:2]) + own[2:]))
        )

    @cached_property
    def going(self) -> Ids:
        """(L,) the label that stands for each BIO label where the span goes on; ``O`` for itself."""
        return np.array([self.names.index(name) for name in self.labels.names], np.int32)

    @cached_property
    def ending(self) -> Ids:
        """(L,) the label that stands for each BIO label where the span ends; ``O`` for itself."""
        ends: Ids = self.going + np.array([name != OUTSIDE for name in self.labels.names], np.int32)
        return ends

    def possible(self, order: Ids) -> Ids:
        """Labels, ascending, that stand for the BIO labels ``order`` in sequences of these alone."""
        goes_on = self.labels.continues[np.ix_(order, order)].any(axis=1)
        return np.unique(np.concatenate([self.ending[order], self.going[order[goes_on]]]))

    def marked(self, labels: Labels, sentence_starts: Ints) -> Labels:
        """(N,) the labels that stand for BIO labels (N,)."""
        goes_on = np.append(self.labels.continues[labels[:-1], labels[1:]], [False] * bool(len(labels)))
        goes_on[sentence_starts[1:] - 1] = False
        return np.where(goes_on, self.going[labels], self.ending[labels]).astype(np.int32)

    def tied(self, transition: Floats, missing: Mask) -> Floats:
        """The transitions (…, W, W) nearest to these, by squares, that meet the module's condition; nats.

        - ``transition`` (…, W, W): of one chain, or of each attribute of pairs.
        - ``missing`` (W,): labels that have no transitions; they take those of the other label of their pair.

        Only transitions between labels that can be neighbours count, and are changed.
        """
        near = transition.copy()
        for label, (going, ending) in enumerate(zip(self.going, self.ending, strict=True)):
            before = self._before(label)
            if missing[going] or missing[ending]:
                other = ending if missing[going] else going
                near[..., before, going] = near[..., before, ending] = near[..., before, other]
                continue
            there = before[~missing[before]]
            half = (near[..., there, ending] - near[..., there, going]).sum(axis=-1, keepdims=True)
            half /= 2.0 * max(1, len(there))
            mean = (near[..., before, ending] + near[..., before, going]) / 2.0
            near[..., before, going], near[..., before, ending] = mean - half, mean + half
        return near

    def _before(self, label: int) -> Ids:
        """Labels that can stand right before BIO label ``label``, ascending."""
        joined = self.labels.continues[:, label]
        apart = self.labels.legal_transition[:, label] & ~joined
        return np.unique(np.concatenate([self.going[joined], self.ending[apart]]))

    def potentials(self, unary: Floats, transition: Floats, sentence_starts: Ints) -> Potentials:
        """Potentials of BIO labels: unary (N, L) and transitions (N, L, L), without the label set's legality.

        - ``unary`` (N, W), ``transition`` (W, W) or (N, W, W): scores of the chain's labels in nats, the transitions
          `tied`.

        A token's unary score is that of the better of the two labels; the next token's transitions take back what the
        other one is worse by.
        """
        goes_on, ends = unary[:, self.going], unary[:, self.ending] + self._extra(transition)
        ends[sentence_starts] = unary[sentence_starts][:, self.ending]  # no transition leads to a first token
        best = np.maximum(goes_on, ends)
        last = np.append(sentence_starts[1:], len(unary)) - 1 if len(unary) else sentence_starts
        best[last] = ends[last]
        # A label that is forbidden has no worse one: −inf − −inf would be no number.
        base = np.where(best == -np.inf, 0.0, best)
        joined = self.labels.continues
        onward, ended = (transition[..., place[:, None], self.going] for place in (self.going, self.ending))
        step = np.where(joined, onward, ended)
        edges = np.zeros((len(unary), *joined.shape))
        edges[1:] = np.where(joined, (goes_on - base)[:-1, :, None], (ends - base)[:-1, :, None])
        edges += step
        edges[sentence_starts] = 0.0
        return Potentials(best, edges, sentence_starts)

    def _extra(self, transition: Floats) -> Floats:
        """(L,), or (N, L) where tokens differ: δ of each BIO label, in nats; 0 for ``O``."""
        place = [int(self._before(label)[0]) for label in range(len(self.labels))]
        extra: Floats = transition[..., place, self.ending] - transition[..., place, self.going]
        return extra
