"""Judgement of mined rules: which of them help a model on documents unseen by the model and by the mining.

A rule that holds more often than by chance may still be useless beside a model that already knows it. So documents are
cut into folds. Each fold is answered by a model of the other folds, under rules that were mined and weighed on these.
Weights come from three sources, each tried with several scales:

    counted   counted on gold, as in a mined file
    beyond    gold compared with the model: log odds of documents that break the rule among the model's own answers to
              unseen documents, minus those among gold; the penalty that corrects one constraint by itself (Chang et
              al. 2008 §4 count gold alone)
    learned   by the perceptron of `workers.learning.weights.learned_weights`, pass by pass until the figure no longer
              rises

1. Answers under a set of weights come from pools of labellings (`workers.learning.mining.pools`). Exact answers under
   the best set are added to the pools until there are no new ones.
2. From the best set, rules whose absence costs nothing or gains are taken away one after the other, the worst first.
3. The rules that are left are kept if they beat no rules at all by more than luck gives to the best of all sets tried
   (`workers.evaluation.randomization`). Otherwise no rule helps.

The final weights are learned from all documents, with the same source, passes and scale.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from concord.schemas.arrays import Floats, Ints
from concord.schemas.decoded import Budget
from concord.schemas.gains import Comparison
from concord.schemas.settings import Settings, Validation
from concord.workers.constraints.declared import DeclaredConstraints
from concord.workers.constraints.declared_weights import declared_weights
from concord.workers.evaluation.bootstrap import paired_bootstraps
from concord.workers.evaluation.figures import FIGURES, Figure
from concord.workers.evaluation.named_counts import Counts
from concord.workers.evaluation.randomization import chances_of_best
from concord.workers.inference.registry import Decoder
from concord.workers.learning.mining.pools import Pools
from concord.workers.learning.search.folds import first_judged
from concord.workers.learning.weights.learned_weights import Patience, PenaltyPerceptron
from concord.workers.learning.weights.penalties import PRIOR_ROWS
from concord.workers.learning.weights.unseen import Unseen, UnseenAnswers

MACRO_PREFIX = "macro_"
"""Prefix of figures that are means over names."""

WeightScale = Annotated[float, Field(gt=0.0, allow_inf_nan=False)]


class WeightSource(StrEnum):
    """Sources of weights; the module's docstring describes them."""

    COUNTED = "counted"
    BEYOND = "beyond"
    LEARNED = "learned"


class JudgedSettings(Settings):
    """Options of the judgement of rules."""

    folds: int = Field(5, ge=2, description="Number of folds; models and rules of the others answer each.")
    level: float = Field(0.2, gt=0, le=1, description="Largest probability that the best rules' gain is luck.")
    measure: str = Field("spans", description="Measure by which rules are judged; `concord list measures` has them.")
    figure: str = Field("f1", description="Figure of that measure, such as f1 or macro_f1.")
    sources: tuple[WeightSource, ...] = Field(
        (WeightSource.BEYOND, WeightSource.LEARNED), min_length=1, description="Sources of weights to try."
    )
    scales: tuple[WeightScale, ...] = Field((0.5, 1.0, 2.0), min_length=1, description="Factors of weights to try.")
    rate: float = Field(
        0.1, gt=0.0, allow_inf_nan=False, description="Nats by which a unit of degree moves a learned weight."
    )
    passes: int = Field(30, ge=1, description="Largest number of passes over the documents to learn weights.")
    patience: int = Field(
        3, ge=1, description="Number of passes without a rise of the figure after which learning ends."
    )
    rounds: int = Field(4, ge=1, description="Largest number of rounds that add exact answers under the best weights.")
    engine: str = Field("certify", description="Engine that decodes documents during the search.")
    work: int = Field(
        2_000_000,
        ge=1,
        description="Limit of work for an answer, in the engine's unit; an answer that reaches it is the best one "
        "found.",
    )


class RuleGain(NamedTuple):
    """Use of one rule beside the others that help.

    - ``documents``: number of documents whose answer it changes.
    - ``gain``: figure with the rule minus figure without it, on documents that neither mining nor model saw.
    """

    documents: int
    gain: Comparison


class Judgement(NamedTuple):
    """Result of the judgement; figures are fractions.

    - ``weights``: nats of the rules that help, by name; none if ``p`` is above the level.
    - ``gains``: their gains, by name.
    - ``source``: source of the best set's weights.
    - ``passes``: passes after which they were learned; 0 if they were not learned.
    - ``scale``: factor of the weights.
    - ``tried``: number of sets tried.
    - ``best``: number of rules in the best set.
    - ``before``: figure without rules.
    - ``after``: figure under the best set.
    - ``gain``: their difference; it is optimistic, since the set was chosen by it.
    - ``p``: probability that luck gives the best of all sets as much.
    """

    weights: dict[str, float]
    gains: dict[str, RuleGain]
    source: WeightSource
    passes: int
    scale: float
    tried: int
    best: int
    before: float
    after: float
    gain: Comparison
    p: float


class _RuleSet(NamedTuple):
    """A set of weights and the answers under it.

    - ``source``, ``passes``, ``scale``: as in `Judgement`.
    - ``weights`` (F, K): nats of each rule, by fold.
    - ``rows`` (D,): rows of `Pools` chosen under these weights.
    - ``counts`` (D, R, 3): the measure's counts of these rows.
    """

    source: WeightSource
    passes: int
    scale: float
    weights: Floats
    rows: Ints
    counts: Counts


Announce = Callable[[str], None]


def judged(
    unseen: Unseen,
    fold: Sequence[int],
    whole: DeclaredConstraints,
    parts: Sequence[DeclaredConstraints],
    settings: JudgedSettings,
    *,
    validation: Validation = Validation.RANDOM,
    seed: int = 0,
    progress: Announce | None = None,
    look: Callable[[], None] = lambda: None,
) -> Judgement:
    """The rules that help, with their weights.

    - ``unseen``: the D documents, each scored by a model that did not see its part.
    - ``fold`` (D,): part of each document.
    - ``whole``: weighed rules mined from all documents.
    - ``parts`` (F,): weighed rules mined without each part.

    ``look`` is called before each answer, and may end the judgement by an error of its own.

    With `Validation.LATER`, each part from `first_judged` on is judged under weights of the documents before it. Raises
    `EngineError` and `LabelError`.
    """
    union = {
        title: template.model_copy(update={"name": title})
        for constraints in (whole, *parts)
        for title, template in zip(constraints.titles, constraints.templates, strict=True)
    }
    constraints = DeclaredConstraints(tuple(union.values())).bind(unseen.labels)
    nats = [dict(declared_weights(constraints)) for constraints in (*parts, whole)]
    counted = np.array([[own.get(name, 0.0) for name in constraints.names] for own in nats])
    decoder = Decoder.of(settings.engine, seed=seed, budget=Budget(work=settings.work))
    answers = UnseenAnswers(unseen, constraints, np.ones(len(constraints.names), np.bool_), decoder)
    pools = Pools.of(answers, settings.measure, look)
    return _Judge(pools, np.array(fold), counted, settings, validation, seed, progress).judgement()


@dataclass(eq=False)
class _Judge:
    """The computation of a judgement.

    - ``pools``: answers of all documents.
    - ``fold`` (D,): part of each document.
    - ``counted`` (F + 1, K): nats of the rules mined for each part, 0 for rules not mined there; last, from all
      documents.
    """

    pools: Pools
    fold: Ints
    counted: Floats
    settings: JudgedSettings
    validation: Validation
    seed: int
    progress: Announce | None
    tried: dict[bytes, Counts] = field(default_factory=dict)
    """Counts of all sets tried, by digest; equal counts are kept once."""

    def judgement(self) -> Judgement:
        """See `judged`."""
        none = self._set(WeightSource.BEYOND, 0, 1.0, np.zeros_like(self.counted[:-1]))
        best = self._best(none)
        best, gains = self._eliminated(best)
        rng = np.random.default_rng(self.seed)
        base = self._narrow(none.counts)
        p = float(chances_of_best(base, [*self.tried.values(), self._narrow(best.counts)], self._figure, rng=rng)[-1])
        compared = paired_bootstraps(base, self._narrow(best.counts), {"": self._figure}, rng=rng)[""]
        nats = self._final(best) if gains and p <= self.settings.level else np.zeros(len(self._names))
        gaining = [k for k in sorted(gains) if nats[k] > 0]
        return Judgement(
            {self._names[k]: float(nats[k]) for k in gaining},
            {self._names[k]: gains[k] for k in gaining},
            best.source,
            best.passes,
            best.scale,
            len(self.tried),
            len(gains),
            self._figured(none.counts),
            self._figured(best.counts),
            compared,
            p,
        )

    def _best(self, none: _RuleSet) -> _RuleSet:
        """The best of all sets, with exact answers; ties go to the first."""
        best = none
        beyond = np.array([self._beyond(f) for f in self._parts])
        for scale in self.settings.scales:
            # Learning needs pools with answers under other weights than none.
            self.pools.grown((beyond * scale)[self.fold])
        for _ in range(self.settings.rounds):
            best = none
            for one in self._sources(beyond):
                self._try(one.counts)
                best = max(best, one, key=lambda own: self._figured(own.counts))
            new = self.pools.grown(best.weights[self.fold])
            best = self._again(best)
            line = f"{best.source} × {best.scale:g}: {self._figured(best.counts):.2%}"
            self._say(f"{line}, {self._figured(none.counts):.2%} without; {new} new answers")
            if not new:
                break
        return max(none, best, key=lambda own: self._figured(own.counts))

    def _sources(self, beyond: Floats) -> Iterator[_RuleSet]:
        for source in self.settings.sources:
            match source:
                case WeightSource.LEARNED:
                    yield from self._by_perceptron()
                case WeightSource.BEYOND:
                    yield from self._scaled(source, beyond)
                case WeightSource.COUNTED:
                    for scale in self.settings.scales:
                        self.pools.grown((self.counted[:-1] * scale)[self.fold])
                    yield from self._scaled(source, self.counted[:-1])

    def _scaled(self, source: WeightSource, weights: Floats) -> Iterator[_RuleSet]:
        for scale in self.settings.scales:
            yield self._set(source, 0, scale, weights * scale)

    def _beyond(self, part: int) -> Floats:
        """(K,) nats `WeightSource.BEYOND` of a part's rules, from the documents outside it; the last part is empty."""
        outside, answers, none = self._outside(part), self.pools.answers, np.zeros((0, len(self._names)))
        answered = np.array([answers.alone(i).degrees for i in outside]) if len(outside) else none
        gold = np.array([answers.gold_degrees(i) for i in outside]) if len(outside) else none
        broken = (answered > 0).sum(axis=0)
        nats = _log_odds(broken, len(outside)) - _log_odds((gold > 0).sum(axis=0), len(outside))
        units = np.where(broken > 0, answered.sum(axis=0) / np.maximum(broken, 1), 1.0)
        excess: Floats = np.where(self.counted[part] > 0, np.maximum(0.0, nats) / units, 0.0)
        return excess

    def _by_perceptron(self) -> Iterator[_RuleSet]:
        """The set after each pass, and the set of the best pass times each scale."""
        runs = [self._perceptron(f) for f in self._parts]
        patience, best = Patience(self.settings.patience), None
        for passes in range(1, self.settings.passes + 1):
            one = self._set(WeightSource.LEARNED, passes, 1.0, np.array([next(run) for run in runs]))
            yield one
            figure = self._figured(one.counts)
            best = one if best is None or figure > self._figured(best.counts) else best
            if patience.ends(figure):
                break
        for scale in self.settings.scales:
            if best is not None and scale != 1.0:
                yield self._set(WeightSource.LEARNED, best.passes, scale, best.weights * scale)

    def _perceptron(self, part: int) -> Iterator[Floats]:
        """Mean penalties (K,) of a part's rules, after each pass over the documents outside the part."""
        learner = PenaltyPerceptron(self.pools.excess, self.counted[part] > 0)
        return learner.run(self._outside(part), self.settings.rate, np.random.default_rng(self.seed))

    def _final(self, best: _RuleSet) -> Floats:
        """(K,) nats of the rules of all documents, with the same source, passes and scale."""
        last = len(self.counted) - 1
        match best.source:
            case WeightSource.COUNTED:
                nats = self.counted[last]
            case WeightSource.BEYOND:
                nats = self._beyond(last)
            case WeightSource.LEARNED:
                run = self._perceptron(last)
                nats = [next(run) for _ in range(best.passes)][-1]
        scaled: Floats = nats * best.scale
        return scaled

    def _eliminated(self, best: _RuleSet) -> tuple[_RuleSet, dict[int, RuleGain]]:
        """The set without the rules that gain nothing, by exact answers; and the gain of each rule that is left."""
        for _ in range(self.settings.rounds):
            smaller, gains = self._greedily(best)
            new = self.pools.grown(smaller.weights[self.fold])
            smaller = self._again(smaller)
            if not new:
                break
            best = self._again(best)
        return smaller, gains

    def _greedily(self, best: _RuleSet) -> tuple[_RuleSet, dict[int, RuleGain]]:
        """The same as `_eliminated`, by the answers in the pools."""
        there = {rule: self.pools.spoken_of(rule) for rule in _ruling(best)}
        idle = [rule for rule, documents in there.items() if not len(documents)]
        weights = best.weights.copy()
        weights[:, idle] = 0.0
        best = best._replace(weights=weights)
        while True:
            self.pools.look()
            for rule in _ruling(best):
                # Of two rules, each may change no answer only because the other is there, so they go one at a time.
                one = self._without(best, rule, there[rule])
                best = one if (one.rows == best.rows).all() else best
            sets = {rule: self._without(best, rule, there[rule]) for rule in _ruling(best)}
            figures = {rule: self._figured(one.counts) for rule, one in sets.items()}
            worst = max(figures, key=lambda rule: figures[rule], default=None)
            if worst is None or figures[worst] < self._figured(best.counts):
                return best, {rule: self._gain(one, best) for rule, one in sets.items()}
            best = sets[worst]

    def _without(self, best: _RuleSet, rule: int, documents: Ints) -> _RuleSet:
        """The set without a rule, which can change answers only in these documents."""
        weights, rows, counts = best.weights.copy(), best.rows.copy(), best.counts.copy()
        weights[:, rule] = 0.0
        rows[documents] = [self.pools.best(i, weights[self.fold[i]]) for i in documents.tolist()]
        counts[documents] = self._counted(documents, rows[documents])
        self._try(counts)
        return best._replace(weights=weights, rows=rows, counts=counts)

    def _gain(self, without: _RuleSet, best: _RuleSet) -> RuleGain:
        before, after = self._narrow(without.counts), self._narrow(best.counts)
        gain = paired_bootstraps(before, after, {"": self._figure}, rng=np.random.default_rng(self.seed))[""]
        return RuleGain(int((without.rows != best.rows).sum()), gain)

    def _try(self, counts: Counts) -> None:
        """Records the counts of a set that was tried."""
        narrow = self._narrow(counts)
        self.tried.setdefault(hashlib.sha256(narrow.tobytes()).digest(), narrow)

    def _set(self, source: WeightSource, passes: int, scale: float, weights: Floats) -> _RuleSet:
        rows = self.pools.chosen(weights[self.fold])
        return _RuleSet(source, passes, scale, weights, rows, self._counted(np.arange(len(rows)), rows))

    def _counted(self, documents: Ints, rows: Ints) -> Counts:
        """(D, R, 3) counts of the pools' rows (D,) of some documents; 0 for documents that are not judged."""
        is_judged = self.fold[documents] >= first_judged(len(self._parts), self.validation)
        counts: Counts = np.where(is_judged[:, None, None], self.pools.counts(rows), 0)
        return counts

    def _again(self, one: _RuleSet) -> _RuleSet:
        """The set of the same weights, with answers from the pools as they are now."""
        return self._set(one.source, one.passes, one.scale, one.weights)

    @property
    def _names(self) -> tuple[str, ...]:
        return self.pools.answers.constraints.names

    @property
    def _parts(self) -> range:
        return range(len(self.counted) - 1)

    def _outside(self, part: int) -> Ints:
        """Documents from which the rules of a part are weighed: all outside the part, or those before it."""
        return np.flatnonzero(self.fold != part if self.validation is Validation.RANDOM else self.fold < part)

    @property
    def _figure(self) -> Figure:
        return FIGURES[self.settings.figure]

    def _figured(self, counts: Counts) -> float:
        return float(self._figure(counts.sum(axis=0)))

    def _narrow(self, counts: Counts) -> Counts:
        """Counts (D, R, 3); (D, 1, 3), summed over names, if the figure does not tell names apart."""
        return counts if self.settings.figure.startswith(MACRO_PREFIX) else counts.sum(axis=1, keepdims=True)

    def _say(self, what: str) -> None:
        if self.progress is not None:
            self.progress(what)


def _ruling(one: _RuleSet) -> list[int]:
    """The rules with a weight in some fold."""
    ruling: list[int] = np.flatnonzero(one.weights.any(axis=0)).tolist()
    return ruling


def _log_odds(broken: NDArray[np.int64], documents: int) -> Floats:
    odds: Floats = np.log((broken + PRIOR_ROWS) / (documents - broken + PRIOR_ROWS))
    return odds
