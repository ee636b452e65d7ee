"""Training data of a linear chain: the features and the gold label of each token.

Attributes that occur on the same tokens cannot be told apart. Under a quadratic prior their weights are equal at the
optimum and, from equal starts, after every step of a gradient method. So m such attributes become one *class*. Its
coordinate u = √m · w, with the feature value √m, has the same objective, prior, gradients and steps as the m single
weights w. On newswire this leaves fewer than half as many classes as there are attributes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from concord.schemas.arrays import Floats, Ids, Ints, Mask
from concord.workers.compiling.kernel import kernel_in_place
from concord.workers.features.incidence import Incidence, Lists


class FeatureRules(NamedTuple):
    """Rules that decide which features get a weight, as CRFsuite's options of the same names.

    - ``min_freq``: smallest count in gold of a pair (attribute, label) or (label before, label) that gets a weight.
    - ``possible_states``: may pairs of attribute and label that never occur in gold have a weight?
    - ``possible_transitions``: the same for pairs of neighbouring labels.
    """

    min_freq: float
    possible_states: bool
    possible_transitions: bool


class GoldChains(NamedTuple):
    """Gold labels of N tokens in S sentences.

    - ``bounds`` (S + 1,): sentence s has the tokens from bounds[s] to bounds[s + 1], exclusive.
    - ``labels`` (N,): gold label of each token.
    - ``width``: the number of labels L.
    """

    bounds: Ints
    labels: Ids
    width: int


class TokenFeatures(NamedTuple):
    """The classes of each token, with their feature values.

    - ``start`` (N + 1,): token t has the classes ids[start[t]:start[t + 1]].
    - ``ids``: classes of all tokens, one token after the other.
    - ``value`` (C,): feature value of each class.
    """

    start: Ints
    ids: Ids
    value: Floats


class ChainWeights(NamedTuple):
    """Coordinates of a point, in nats.

    - ``states`` (C, L): of each class with each label.
    - ``transitions`` (L, L): of each pair of neighbouring labels, the earlier one first.
    """

    states: Floats
    transitions: Floats


class ChainMasks(NamedTuple):
    """Masks of the coordinates that may differ from 0: states (C, L) and transitions (L, L), as in `ChainWeights`."""

    states: Mask
    transitions: Mask


@dataclass(frozen=True, eq=False)
class TrainingChains:
    """Labelled tokens with their features, and masks of the features that may have a weight; all other weights stay 0.

    - ``groups``: groups of each token, see `Incidence`.
    - ``members``: classes of each group.
    - ``class_of`` (A,): class of each attribute.
    - ``value`` (C,): feature value of each class.
    - ``gold``: gold labels.
    - ``states`` (C, L): may the class have a weight for the label?
    - ``transitions`` (L, L): may the pair of neighbouring labels have a weight?
    """

    groups: Lists
    members: Lists
    class_of: Ids
    value: Floats
    gold: GoldChains
    states: Mask
    transitions: Mask

    @classmethod
    def of(cls, found: Incidence, gold: GoldChains, rules: FeatureRules) -> TrainingChains:
        """Training data of an incidence of tokens and attributes, with the features that the rules allow."""
        class_of, first = _classes(found)
        alone = np.zeros(len(found.attributes), np.bool_)
        alone[first] = True
        members = found.members.only(alone)
        filled = members.lengths > 0
        groups, order = _by_first_token(found.groups.only(filled), int(filled.sum()))
        members = members.at(np.flatnonzero(filled).astype(np.int32)[order])
        return cls(
            groups,
            members,
            class_of,
            np.sqrt(np.bincount(class_of, minlength=len(first)).astype(np.float64)),
            gold,
            _allowed(_state_counts(groups, members, len(first), gold), rules.min_freq, rules.possible_states),
            _allowed(transition_counts(gold), rules.min_freq, rules.possible_transitions),
        )

    @property
    def size(self) -> int:
        """The number of coordinates of a point: C · L of classes, then L · L of transitions."""
        return self.states.size + self.transitions.size

    @cached_property
    def flat(self) -> Lists:
        """The classes of each token."""
        return self.groups.through(self.members)

    @property
    def features(self) -> TokenFeatures:
        """The classes of each token, with their values."""
        return TokenFeatures(*self.flat, self.value)

    @property
    def allowed(self) -> ChainMasks:
        """Masks of the coordinates that may have a weight."""
        return ChainMasks(self.states, self.transitions)

    @cached_property
    def tokens_of(self) -> Lists:
        """The tokens of each group."""
        return self.groups.turned(len(self.members))

    @cached_property
    def groups_of(self) -> Lists:
        """The groups of each class."""
        return self.members.turned(len(self.value))

    def parts(self, point: Floats) -> ChainWeights:
        """The two parts of a point (size,), as views."""
        cut = self.states.size
        return ChainWeights(point[:cut].reshape(self.states.shape), point[cut:].reshape(self.transitions.shape))

    def weights(self, point: Floats) -> tuple[Floats, Floats]:
        """Weights of a point, in nats: of each attribute (A, L), and of the transitions (L, L)."""
        states, transitions = self.parts(point)
        return (states / self.value[:, None])[self.class_of], transitions.copy()

    def point(self, weights: Floats, transitions: Floats) -> Floats:
        """The point (size,) nearest to weights of attributes (A, L) and transitions (L, L).

        Each class gets the mean weight of its attributes; weights that are not allowed become 0.
        """
        states = np.zeros(self.states.shape)
        np.add.at(states, self.class_of, weights)
        states *= self.states / self.value[:, None]
        return np.concatenate([states.ravel(), (transitions * self.transitions).ravel()])


def _classes(found: Incidence) -> tuple[Ids, Ids]:
    """(A,) the class of each attribute, and (C,) the first attribute of each class, ascending.

    Attributes are compared by two hashes, each a sum of 64 random bits per token. Among ten million attributes, the
    probability that any two different ones collide is below 10^−24.
    """
    keys = np.zeros((2, len(found.attributes)), np.uint64)
    for key, seed in zip(keys, (1, 2), strict=True):
        groups = np.zeros(len(found.members), np.uint64)
        _sum_hashes(*found.groups, np.uint64(seed), groups)
        _sum_members(*found.members, groups, key)
    order = np.lexsort(keys)
    is_first = np.ones(len(order), np.bool_)
    is_first[1:] = np.any(keys[:, order[1:]] != keys[:, order[:-1]], axis=0)
    # Sorting is stable, so the first of each class has its lowest id.
    firsts = order[is_first]
    number = np.empty(len(firsts), np.int32)
    number[np.argsort(firsts)] = np.arange(len(firsts), dtype=np.int32)
    class_of = np.empty(len(order), np.int32)
    class_of[order] = number[np.cumsum(is_first) - 1]
    return class_of, np.sort(firsts).astype(np.int32)


def _by_first_token(groups: Lists, count: int) -> tuple[Lists, Ids]:
    """The groups renumbered by the first token that has them, and the old number of each.

    The groups of a token then lie close together in memory, which halves the time of an evaluation.
    """
    first = np.empty(count, np.int64)
    _find_first(*groups, first)
    order = np.argsort(first, kind="stable").astype(np.int32)
    number = np.empty(len(order), np.int32)
    number[order] = np.arange(len(order), dtype=np.int32)
    return Lists(groups.start, number[groups.ids]), order


def _allowed(counts: Floats, least: float, everything: bool) -> Mask:  # noqa: FBT001
    allowed: Mask = (counts >= least) & (everything | (counts > 0))
    return allowed


def _state_counts(groups: Lists, members: Lists, classes: int, gold: GoldChains) -> Floats:
    """(C, L) number of tokens with each class and gold label."""
    by_group, by_class = np.zeros((len(members), gold.width)), np.zeros((classes, gold.width))
    _count_labels(*groups, gold.labels, by_group)
    _count_members(*members, by_group, by_class)
    return by_class


def transition_counts(gold: GoldChains, share: Floats | None = None) -> Floats:
    """(L, L) counts of neighbouring gold labels; each pair counts as the ``share`` (N,) of its second token, or 1."""
    inside = np.ones(len(gold.labels), np.bool_)
    inside[gold.bounds[:-1]] = False
    here = np.flatnonzero(inside)
    counts = np.zeros((gold.width, gold.width))
    np.add.at(counts, (gold.labels[here - 1], gold.labels[here]), 1.0 if share is None else share[here])
    return counts


@kernel_in_place
def score_tokens(features: TokenFeatures, states: Floats, first: int, last: int, scores: Floats) -> None:
    """Writes the scores of the tokens from ``first`` to ``last`` (exclusive) to ``scores`` (n, L), in nats."""
    width = states.shape[1]
    start, ids, value = features
    for t in range(first, last):
        row = scores[t - first]
        row[:] = 0.0
        for k in range(start[t], start[t + 1]):
            c = ids[k]
            for y in range(width):
                row[y] += value[c] * states[c, y]


@kernel_in_place
def _sum_hashes(start: Ints, ids: Ids, seed: np.uint64, sums: NDArray[np.uint64]) -> None:
    """Adds to sums[g], for each token t of group g, 64 random bits that depend on the seed and on t alone."""
    for t in range(len(start) - 1):
        bits = seed + np.uint64(t + 1) * np.uint64(0x9E3779B97F4A7C15)
        bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        bits ^= bits >> np.uint64(31)
        for k in range(start[t], start[t + 1]):
            sums[ids[k]] += bits


@kernel_in_place
def _find_first(start: Ints, ids: Ids, first: Ints) -> None:
    for t in range(len(start) - 2, -1, -1):
        for k in range(start[t], start[t + 1]):
            first[ids[k]] = t


@kernel_in_place
def _sum_members(start: Ints, ids: Ids, sums: NDArray[np.uint64], out: NDArray[np.uint64]) -> None:
    for g in range(len(start) - 1):
        for k in range(start[g], start[g + 1]):
            out[ids[k]] += sums[g]


@kernel_in_place
def _count_labels(start: Ints, ids: Ids, labels: Ids, counts: Floats) -> None:
    for t in range(len(start) - 1):
        for k in range(start[t], start[t + 1]):
            counts[ids[k], labels[t]] += 1.0


@kernel_in_place
def _count_members(start: Ints, ids: Ids, counts: Floats, out: Floats) -> None:
    for g in range(len(start) - 1):
        for k in range(start[g], start[g + 1]):
            for y in range(counts.shape[1]):
                out[ids[k], y] += counts[g, y]
