"""Taggers as witnesses of hidden entities: a hidden Markov model over BIO, learned without gold labels.

The hidden labels are a chain in BIO, with transitions that are estimated. Of a token of a hidden entity of type k a
tagger says one of four things, with a probability of its own for each type:

- *hit*: the type (or a label above it), and the place in the span;
- *wrong*: another type;
- *missed*: nothing;
- *shifted*: the type, but not the place: its span begins elsewhere.

Which labels it says inside one of these is not learned but shared out by how often it says them, and by whether the
place in the span is right (`SAME_PLACE`). Outside all entities it raises a false alarm, with a probability for each of
its labels. These few numbers, and no full table of hidden and observed labels, keep the hidden labels what they are
called.

    score(labels) = Σ log p(y_t | y_t−1) + Σ_t Σ_j weight_j · log p_j(answer_jt | y_t)

Expectation maximisation (Baum & Welch) maximises the log of its sum over all legal labellings, plus the log density of
Dirichlet priors, those of a tagger times its weight, and never lowers that. Real taggers err alike and in whole spans,
which the model does not know; where the prior is weak, the likelihood is highest with hidden labels that mean something
else. So the prior counts for several times the answers (`WitnessLearner`). A tagger's weight is below 1 where it only
repeats what another says, see `independence`: copies of a tagger weigh together what it weighs alone, and their numbers
are the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from concord.schemas.arrays import Floats, Ids, Ints, Mask
from concord.schemas.labels import OUTSIDE, LabelSet
from concord.workers.learning.estimation.expectation import add_expected
from concord.workers.learning.estimation.objective import ChainRoom

EVENTS = ("hit", "wrong", "missed", "shifted")
HIT, WRONG, MISSED, SHIFTED = range(4)
USUAL = np.array([0.82, 0.08, 0.07, 0.03])
"""Means of the prior of the four: a tagger is mostly right."""
USUAL_ALARM = 0.03
"""Mean of the prior of all false alarms together, of a token outside all entities."""
SAME_PLACE = 0.8
"""Share of labels of a wrong type that have the right place in the span: most wrong types have the right borders."""
NO_SYMBOL = -1
"""Code of a token of which the tagger was not asked."""
ALIKE = 0.97
"""Share of equal symbols, among tokens that either of two taggers marks, from which on they count as one."""
TINY = 1e-300
"""Least sum that is divided by."""
STEADY = 1.0
"""Prior count of each legal transition."""


@dataclass(frozen=True)
class Witness:
    """A tagger's alphabet beside T hidden types.

    - ``labels``: its M labels.
    - ``covers`` (M, T): does the label stand for the type, or for one above it?

    Its V = 1 + 2 M symbols are O, then B and I of each label.
    """

    labels: tuple[str, ...]
    covers: Mask

    @cached_property
    def symbols(self) -> tuple[str, ...]:
        """(V,) names of the symbols, as a layer has them."""
        return (OUTSIDE, *(f"{place}-{label}" for label in self.labels for place in "BI"))

    @cached_property
    def event(self) -> NDArray[np.int8]:
        """(2T, V) event of each symbol at B and I of each hidden type."""
        kinds, size = self.covers.shape[1], len(self.labels)
        same = np.where(np.eye(2, dtype=np.bool_), HIT, SHIFTED)  # hidden B and I, by B and I of a right label
        right = np.tile(same[None, :, None, :], (kinds, 1, size, 1))
        labels = np.where(self.covers.T[:, None, :, None], right, WRONG).reshape(2 * kinds, 2 * size)
        event: NDArray[np.int8] = np.concatenate([np.full((2 * kinds, 1), MISSED), labels], axis=1).astype(np.int8)
        return event

    @cached_property
    def possible(self) -> Mask:
        """(T, 4) can each event be? Where no label covers a type, the tagger can only miss it or say another one."""
        some, everyone = self.covers.any(axis=0), self.covers.all(axis=0)
        always = np.ones(self.covers.shape[1], np.bool_)
        return np.stack([some, ~everyone, always, some], axis=1)

    def shares(self, often: Floats) -> Floats:
        """(2T, V) share of each symbol inside its event; ``often`` (V,) counts of the symbols."""
        label = np.repeat(often[1:].reshape(-1, 2).sum(axis=1) + 1.0, 2)
        place = np.where(np.eye(2, dtype=np.bool_), SAME_PLACE, 1.0 - SAME_PLACE)
        wrong = label * np.tile(place, (self.covers.shape[1], len(self.labels)))
        counts = np.concatenate([np.ones((len(wrong), 1)), np.where(self.event[:, 1:] == WRONG, wrong, label)], axis=1)
        shares = np.zeros(counts.shape)
        for kind in range(len(EVENTS)):
            mine = np.where(self.event == kind, counts, 0.0)
            total = mine.sum(axis=1, keepdims=True)
            shares += mine / np.where(total > 0, total, 1.0)
        return shares

    def alarm_shares(self, often: Floats) -> Floats:
        """(V,) share of B and I among the false alarms of each label; 1 for O."""
        pairs = often[1:].reshape(-1, 2) + 1.0
        return np.concatenate([[1.0], (pairs / pairs.sum(axis=1, keepdims=True)).ravel()])


class WitnessAnswers(NamedTuple):
    """What J taggers say of N tokens in S sentences.

    - ``bounds`` (S + 1,): first token of each sentence, and N.
    - ``witnesses``: the taggers.
    - ``codes``: (N,) symbol of each tagger at each token, or `NO_SYMBOL`.
    - ``labels``: the hidden labels, in BIO: O, then B and I of each of the T types.
    """

    bounds: Ints
    witnesses: tuple[Witness, ...]
    codes: tuple[Ids, ...]
    labels: LabelSet


class Reliability(NamedTuple):
    """Probabilities of one tagger.

    - ``events`` (T, 4): of each of `EVENTS` at a token of each type.
    - ``alarms`` (M + 1,): outside all entities, of nothing and of each label.
    """

    events: Floats
    alarms: Floats


class WitnessModel(NamedTuple):
    """The model: log p(y | y before) (L, L), illegal pairs at −inf, and the reliability of each tagger."""

    transition: Floats
    reliabilities: tuple[Reliability, ...]


class WitnessStep(NamedTuple):
    """One iteration.

    - ``model``: the new model.
    - ``loss``: nats; minus the aim of the model before.
    """

    model: WitnessModel
    loss: float


class ExpectedAnswers(NamedTuple):
    """Result of an expectation step.

    - ``pairs`` (L, L): expected pairs of neighbouring hidden labels.
    - ``together``: (L, V) of each tagger: expected tokens by hidden label and symbol.
    - ``score``: log of the sum over all labellings, in nats.
    """

    pairs: Floats
    together: tuple[Floats, ...]
    score: float


class WitnessLearner:
    """Expectation maximisation over some answers.

    - ``weights`` (J,): weight of each tagger.
    - ``prior``: strength of the prior of a tagger's numbers, as a multiple of the tokens that it marks.
    """

    def __init__(self, answers: WitnessAnswers, weights: Sequence[float], prior: float) -> None:
        self.answers, self.weights = answers, tuple(weights)
        often = [
            np.bincount(codes[codes != NO_SYMBOL], minlength=len(witness.symbols)).astype(np.float64)
            for witness, codes in zip(answers.witnesses, answers.codes, strict=True)
        ]
        self._shares = [w.shares(counts) for w, counts in zip(answers.witnesses, often, strict=True)]
        self._alarm_shares = [w.alarm_shares(counts) for w, counts in zip(answers.witnesses, often, strict=True)]
        self._priors = [
            _prior(witness, prior * (1.0 + float(counts[1:].sum())) / max(1, len(answers.labels.types)))
            for witness, counts in zip(answers.witnesses, often, strict=True)
        ]
        self._legal = legal_pairs(answers.labels)

    def start(self) -> WitnessModel:
        """The model of the priors alone."""
        flat = np.where(self._legal, STEADY, 0.0)
        return WitnessModel(_log(_shared(flat)), tuple(_reliability(*prior) for prior in self._priors))

    def steps(self, iterations: int, change: float) -> Iterator[WitnessStep]:
        """The model after each of at most ``iterations``.

        Ends early where the loss falls by less than ``change`` nats a token.
        """
        model, before = self.start(), np.inf
        for _ in range(iterations):
            expected = self.expected(model)[0]
            loss = -self.aim(model, expected.score)
            model = self.likeliest(expected)
            yield WitnessStep(model, loss)
            if before - loss < change * len(self.answers.codes[0]):
                return
            before = loss

    def emissions(self, model: WitnessModel) -> list[Floats]:
        """For each tagger (L, V): weight times log p(symbol | hidden label)."""
        tables = []
        for j, own in enumerate(model.reliabilities):
            event = self.answers.witnesses[j].event.astype(np.int64)
            inside = np.take_along_axis(np.repeat(own.events, 2, axis=0), event, axis=1) * self._shares[j]
            outside = np.append(own.alarms[0], np.repeat(own.alarms[1:], 2)) * self._alarm_shares[j]
            tables.append(self.weights[j] * _log(np.concatenate([outside[None], inside])))
        return tables

    def scores(self, model: WitnessModel) -> Floats:
        """(N, L) weighted log p of all answers to each token, under each hidden label."""
        scores = np.zeros((len(self.answers.codes[0]), len(self.answers.labels)))
        for table, codes in zip(self.emissions(model), self.answers.codes, strict=True):
            # The row after the last symbol is for tokens of which the tagger was not asked.
            scores += np.vstack([table.T, np.zeros(len(table))])[codes]
        return scores

    def expected(self, model: WitnessModel) -> tuple[ExpectedAnswers, Floats]:
        """Expected counts, and p(label | all answers) (N, L). Sentences open with each legal label alike."""
        answers = self.answers
        posterior, bounds = self.scores(model), answers.bounds
        posterior[np.ix_(bounds[:-1], ~answers.labels.legal_start)] = -np.inf
        factors, room = np.exp(model.transition), ChainRoom.of(bounds, len(answers.labels))
        score = add_expected(posterior, factors[None], bounds, room)
        together = []
        for witness, codes in zip(answers.witnesses, answers.codes, strict=True):
            has_answer = codes != NO_SYMBOL
            rows = [np.bincount(codes[has_answer], share, len(witness.symbols)) for share in posterior[has_answer].T]
            together.append(np.stack(rows).astype(np.float64))
        return ExpectedAnswers(room.joint[0] * factors, tuple(together), score), posterior

    def likeliest(self, expected: ExpectedAnswers) -> WitnessModel:
        """The model of the highest aim, given expected counts."""
        reliabilities = []
        for witness, prior, together in zip(self.answers.witnesses, self._priors, expected.together, strict=True):
            counts = _counts(witness, together)
            reliabilities.append(_reliability(prior.events + counts.events, prior.alarms + counts.alarms))
        pairs = expected.pairs + np.where(self._legal, STEADY, 0.0)
        return WitnessModel(_log(_shared(pairs)), tuple(reliabilities))

    def aim(self, model: WitnessModel, score: float) -> float:
        """The quantity that never falls, in nats; ``score`` is the log of the sum over all labellings."""
        total = score + STEADY * float(model.transition[self._legal].sum())
        for weight, prior, own in zip(self.weights, self._priors, model.reliabilities, strict=True):
            total += weight * (_weighed(prior.events, own.events) + _weighed(prior.alarms, own.alarms))
        return total


def _prior(witness: Witness, strength: float) -> Reliability:
    """Prior counts, of ``strength`` tokens for each type and for all outside; 0 for what cannot be."""
    size = len(witness.labels)
    nothing = np.append(1.0 - USUAL_ALARM, np.full(size, USUAL_ALARM / max(1, size)))
    return Reliability(np.where(witness.possible, strength * USUAL, 0.0), strength * nothing)


def _counts(witness: Witness, together: Floats) -> Reliability:
    """Counts of events and of what is said outside, by expected counts (L, V) of hidden label and symbol."""
    inside = together[1:]
    kinds = [np.where(witness.event == kind, inside, 0.0).sum(axis=1) for kind in range(len(EVENTS))]
    events = np.stack([counts.reshape(-1, 2).sum(axis=1) for counts in kinds], axis=1)
    return Reliability(events, np.append(together[0, 0], together[0, 1:].reshape(-1, 2).sum(axis=1)))


def _reliability(events: Floats, alarms: Floats) -> Reliability:
    return Reliability(_shared(events), _shared(alarms))


def _shared(counts: Floats) -> Floats:
    fractions: Floats = counts / counts.sum(axis=-1, keepdims=True)
    return fractions


def _log(chances: Floats) -> Floats:
    with np.errstate(divide="ignore"):  # what cannot be is impossible
        nats: Floats = np.log(chances)
    return nats


def _weighed(counts: Floats, chances: Floats) -> float:
    """Σ counts · log chances over what can be."""
    there = counts > 0
    return float((counts[there] * np.log(chances[there])).sum())


def legal_pairs(labels: LabelSet) -> Mask:
    """(L, L) may label b stand right after label a? Labels in BIO: I of a type only inside a span of it."""
    opens: Mask = labels.legal_start
    pairs: Mask = labels.continues | opens[None, :]
    return pairs


# Taggers that are no witnesses of their own


def equal_shares(answers: WitnessAnswers) -> dict[tuple[int, int], float]:
    """Share of equal symbols of each pair of taggers, among the tokens that either marks and both were asked of."""
    size = len(answers.codes)
    return {(one, other): _equal_share(answers, one, other) for one, other in combinations(range(size), 2)}


def _equal_share(answers: WitnessAnswers, one: int, other: int) -> float:
    codes, others = answers.codes[one], answers.codes[other]
    by_both = (codes != NO_SYMBOL) & (others != NO_SYMBOL)
    marked = by_both & ((codes > 0) | (others > 0))
    return float((codes == _symbols_of(answers, one, other)[others])[marked].mean()) if marked.any() else 0.0


def _symbols_of(answers: WitnessAnswers, one: int, other: int) -> Ids:
    """(V,) symbol of one tagger with the name of each symbol of another; −2 where it has none."""
    place = {symbol: code for code, symbol in enumerate(answers.witnesses[one].symbols)}
    return np.array([place.get(symbol, -2) for symbol in answers.witnesses[other].symbols], np.int32)


def groups_of_one(equal: Mapping[tuple[int, int], float], size: int) -> list[int]:
    """(J,) the first tagger of the group that each belongs to; two that say nearly the same are in one group."""
    group = list(range(size))
    for (one, other), share in equal.items():
        if share >= ALIKE:
            low, high = sorted((group[one], group[other]))
            group = [low if own == high else own for own in group]
    return group


def independence(groups: Sequence[int]) -> list[float]:
    """(J,) weight of each tagger: the taggers of a group share the weight 1."""
    return [1.0 / groups.count(group) for group in groups]


def coinciding_errors(
    learner: WitnessLearner, model: WitnessModel, groups: Sequence[int]
) -> dict[tuple[int, int], float]:
    """Share of the errors of the first taggers of two groups that both make, beyond chance.

    An error is a symbol that is no hit of the hidden label, weighed by the probability of that label; chance is what
    the two would have in common if they erred independently of each other, given the hidden label.
    """
    posterior = learner.expected(model)[1]
    pairs = combinations(sorted(set(groups)), 2)
    return {(one, other): _coinciding(learner.answers, posterior, one, other) for one, other in pairs}


def _coinciding(answers: WitnessAnswers, posterior: Floats, one: int, other: int) -> float:
    by_both = (answers.codes[one] != NO_SYMBOL) & (answers.codes[other] != NO_SYMBOL)
    pair = [answers.witnesses[j] for j in (one, other)]
    codes = [answers.codes[j][by_both] for j in (one, other)]
    same = _symbols_of(answers, one, other)
    shared = same >= 0
    alike = chance = 0.0
    most = np.zeros(2)
    for state, share in enumerate(posterior[by_both].T):
        wrong = [_errors(witness)[state] for witness in pair]
        both = wrong[0][codes[0]] & (codes[0] == same[codes[1]])
        sums = [np.bincount(c, share * w[c], len(w)) for c, w in zip(codes, wrong, strict=True)]
        alike += float(share[both].sum())
        chance += float((sums[0][same[shared]] * sums[1][shared]).sum()) / max(float(share.sum()), TINY)
        most += [total.sum() for total in sums]
    room = float(most.min()) - chance
    return min(max((alike - chance) / room, 0.0), 1.0) if room > 0 else 0.0


def _errors(witness: Witness) -> Mask:
    """(L, V) is a symbol no hit under a hidden label?"""
    wrong: Mask = np.vstack([np.arange(len(witness.symbols)) > 0, witness.event != HIT])
    return wrong
