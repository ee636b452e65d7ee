"""Training data of a linear chain: the features and the gold label of each token.

A feature may also look at a pair of neighbouring labels: the transition into a token then depends on the attributes
that the token has for pairs, and each token has a matrix of its own,

    transition into t [x, y] = transition[x, y] + Σ_a weight[a, x, y]   over the attributes a of t.

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


class Edges(NamedTuple):
    """Transitions of one sentence of at most n tokens, and what they are made of; E is n, or 1 where P is 0.

    - ``features``: classes of pairs of each token.
    - ``pairs`` (P, L · L): coordinates of classes of pairs.
    - ``transitions`` (L, L): coordinates of pairs of labels, which all tokens share.
    - ``scores`` (E, L · L): scores of the transitions into each token, in nats.
    - ``factors`` (E, L, L): e^score.
    """

    features: TokenFeatures
    pairs: Floats
    transitions: Floats
    scores: Floats
    factors: Floats

    @classmethod
    def shared(cls, transitions: Floats) -> Edges:
        """Transitions (L, L) that all tokens share, in nats; their scores and factors stand already."""
        width = len(transitions)
        nothing = TokenFeatures(np.zeros(1, np.int64), np.zeros(0, np.int32), np.zeros(0))
        scores = transitions.reshape(1, width * width)
        return cls(nothing, np.zeros((0, width * width)), transitions, scores, np.exp(transitions)[None])

    @classmethod
    def room(cls, features: TokenFeatures, weights: ChainWeights, bounds: Ints) -> Edges:
        """Transitions of the longest of some sentences, to be scored by `score_edges`."""
        width = len(weights.transitions)
        count = longest_of(bounds) if len(weights.pairs) else 1
        scores, factors = np.zeros((count, width * width)), np.zeros((count, width, width))
        return cls(features, weights.pairs, weights.transitions, scores, factors)


class ChainWeights(NamedTuple):
    """Coordinates of a point, or weights, in nats.

    - ``states`` (C, L): of each class (or attribute) with each label.
    - ``transitions`` (L, L): of each pair of neighbouring labels, the earlier one first.
    - ``pairs`` (P, L · L): of each class (or attribute) of pairs with each pair of labels, in the order of
      ``transitions``; P is 0 where transitions do not depend on the text.
    """

    states: Floats
    transitions: Floats
    pairs: Floats


class ChainMasks(NamedTuple):
    """Masks of the coordinates that may differ from 0, of the shapes of `ChainWeights`."""

    states: Mask
    transitions: Mask
    pairs: Mask


@dataclass(frozen=True, eq=False)
class FeatureClasses:
    """Classes of attributes at tokens, and masks of the features that may have a weight.

    - ``groups``: groups of each token, see `Incidence`.
    - ``members``: classes of each group.
    - ``class_of`` (A,): class of each attribute.
    - ``value`` (C,): feature value of each class.
    - ``states`` (C, L): may the class have a weight for the label (or pair of labels)?
    """

    groups: Lists
    members: Lists
    class_of: Ids
    value: Floats
    states: Mask

    @classmethod
    def of_classes(cls, tokens: Incidence, gold: GoldChains, least: float, *, everything: bool) -> FeatureClasses:
        """Classes of an incidence of tokens and attributes.

        A feature may have a weight if gold has it ``least`` times; ``everything``: even if gold does not have it.
        """
        class_of, first = _classes(tokens)
        alone = np.zeros(len(tokens.attributes), np.bool_)
        alone[first] = True
        members = tokens.members.only(alone)
        filled = members.lengths > 0
        groups, order = _by_first_token(tokens.groups.only(filled), int(filled.sum()))
        members = members.at(np.flatnonzero(filled).astype(np.int32)[order])
        return FeatureClasses(
            groups,
            members,
            class_of,
            np.sqrt(np.bincount(class_of, minlength=len(first)).astype(np.float64)),
            _allowed(_state_counts(groups, members, len(first), gold), least, everything),
        )

    @cached_property
    def flat(self) -> Lists:
        """The classes of each token."""
        return self.groups.through(self.members)

    @property
    def features(self) -> TokenFeatures:
        """The classes of each token, with their values."""
        return TokenFeatures(*self.flat, self.value)

    @cached_property
    def tokens_of(self) -> Lists:
        """The tokens of each group."""
        return self.groups.turned(len(self.members))

    @cached_property
    def groups_of(self) -> Lists:
        """The groups of each class."""
        return self.members.turned(len(self.value))

    def weights_of(self, states: Floats) -> Floats:
        """Weights (A, L) of the attributes, in nats, from coordinates (C, L) of the classes."""
        weights: Floats = (states / self.value[:, None])[self.class_of]
        return weights

    def states_of(self, weights: Floats) -> Floats:
        """Coordinates (C, L) nearest to weights of attributes (A, L).

        Each class gets the mean weight of its attributes; weights that are not allowed become 0.
        """
        states = np.zeros(self.states.shape)
        np.add.at(states, self.class_of, weights)
        states *= self.states / self.value[:, None]
        return states


@dataclass(frozen=True, eq=False)
class TrainingChains(FeatureClasses):
    """Labelled tokens with their features, and masks of the features that may have a weight; all other weights stay 0.

    - ``gold``: gold labels.
    - ``transitions`` (L, L): may the pair of neighbouring labels have a weight?
    - ``pairs``: classes of attributes of pairs of labels (its "label" is a pair, of L · L); a sentence's first token
      has none, since no pair ends there. No classes where transitions do not depend on the text.
    """

    gold: GoldChains
    transitions: Mask
    pairs: FeatureClasses

    @classmethod
    def of(
        cls, features: Incidence, gold: GoldChains, rules: FeatureRules, pairs: Incidence | None = None
    ) -> TrainingChains:
        """Training data of an incidence of tokens and attributes, with the features that the rules allow.

        ``pairs`` are attributes whose features look at pairs of labels, see `pair_incidence`; None: there are none.
        """
        own = cls.of_classes(features, gold, rules.min_freq, everything=rules.possible_states)
        edges = Incidence.none(len(gold.labels)) if pairs is None else pairs
        return cls(
            **vars(own),
            gold=gold,
            transitions=_allowed(transition_counts(gold), rules.min_freq, rules.possible_transitions),
            pairs=cls.of_classes(edges, _pairs_of(gold), rules.min_freq, everything=rules.possible_transitions),
        )

    @property
    def size(self) -> int:
        """The number of coordinates of a point: C · L of classes, L · L of transitions, P · L · L of pairs."""
        return self.states.size + self.transitions.size + self.pairs.states.size

    @property
    def allowed(self) -> ChainMasks:
        """Masks of the coordinates that may have a weight."""
        return ChainMasks(self.states, self.transitions, self.pairs.states)

    def parts(self, point: Floats) -> ChainWeights:
        """The parts of a point (size,), as views."""
        cut = self.states.size
        end = cut + self.transitions.size
        return ChainWeights(
            point[:cut].reshape(self.states.shape),
            point[cut:end].reshape(self.transitions.shape),
            point[end:].reshape(self.pairs.states.shape),
        )

    def of_states(self, states: Floats) -> ChainWeights:
        """Weights (A, L) of attributes, in nats, and none of pairs of labels."""
        classes, width = len(self.pairs.class_of), self.gold.width
        return ChainWeights(states, np.zeros((width, width)), np.zeros((classes, width * width)))

    def weights(self, point: Floats) -> ChainWeights:
        """Weights of a point, in nats: of attributes (A, L), of transitions (L, L) and of attributes of pairs."""
        states, transitions, pairs = self.parts(point)
        return ChainWeights(self.weights_of(states), transitions.copy(), self.pairs.weights_of(pairs))

    def point(self, weights: ChainWeights) -> Floats:
        """The point (size,) nearest to weights of attributes, see `FeatureClasses.states_of`."""
        states, pairs = self.states_of(weights.states), self.pairs.states_of(weights.pairs)
        return np.concatenate([states.ravel(), (weights.transitions * self.transitions).ravel(), pairs.ravel()])


def _classes(features: Incidence) -> tuple[Ids, Ids]:
    """(A,) the class of each attribute, and (C,) the first attribute of each class, ascending.

    Attributes are compared by two hashes, each a sum of 64 random bits per token. Among ten million attributes, the
    probability that any two different ones collide is below 10^−24.
    """
    keys = np.zeros((2, len(features.attributes)), np.uint64)
    for key, seed in zip(keys, (1, 2), strict=True):
        groups = np.zeros(len(features.members), np.uint64)
        _sum_hashes(*features.groups, np.uint64(seed), groups)
        _sum_members(*features.members, groups, key)
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


def _pairs_of(gold: GoldChains) -> GoldChains:
    """Gold pairs of labels: of each token, that of the token before it and its own; a first token's has no meaning."""
    before = np.concatenate([gold.labels[:1], gold.labels[:-1]])
    return GoldChains(gold.bounds, (before * gold.width + gold.labels).astype(np.int32), gold.width * gold.width)


def longest_of(bounds: Ints) -> int:
    """Number of tokens of the longest sentence; 0 where there is none."""
    return int(np.diff(bounds).max(initial=0))


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
    """Writes the scores of the tokens from ``first`` to ``last`` (exclusive) to ``scores`` (n, L), in nats.

    With features of pairs, L is the number of pairs of labels.
    """
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
def score_edges(edges: Edges, first: int, last: int) -> None:
    """Writes the scores of the transitions into the tokens from ``first`` to ``last`` (exclusive), in nats."""
    features, pairs, transitions, scores, _ = edges
    width = len(transitions)
    if len(pairs):
        score_tokens(features, pairs, first, last, scores)
    else:
        scores[:] = 0.0
    for t in range(min(last - first, len(scores))):
        for x in range(width):
            for y in range(width):
                scores[t, x * width + y] += transitions[x, y]


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
