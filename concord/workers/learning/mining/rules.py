"""Constraints mined from gold: rules about runs that hold more often than by chance (Fersini et al. 2014 §3.1).

A rule binds in n documents, b of which break it; by chance it would hold in a share q of them. The p-value is the
probability that chance alone lets at least n − b hold, by the binomial distribution with the mean share. Documents are
independent but their shares differ; above the mean, the binomial tail is never smaller than the true one (Hoeffding
1956).

A rule is kept if it has enough documents, passes Benjamini & Hochberg (1995) at a false discovery rate, and holds often
enough to be worth writing down. Rules that the label scheme enforces always hold by chance too, and are never kept.

For rules about which runs there are (one run of A, a run of A, a run of B where there is one of A), chance deals the
labelled runs out anew over all documents; each document keeps its number of runs. Two dealt runs of one type may lie
side by side and still count as two. In a plain label set they would be one, so there rules hold by chance a little more
often than computed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Protocol, TypeVar

import numpy as np
from pydantic import Field
from scipy.special import gammaln
from scipy.stats import binom, false_discovery_control

from concord.schemas.arrays import Floats, Mask
from concord.schemas.labels import OUTSIDE, LabelSet
from concord.workers.constraints.declared import DeclaredConstraints
from concord.workers.constraints.templates.order import Adjacency, PresencePrecedence, ShouldNotPrecede
from concord.workers.constraints.templates.presence import MustAppear, StartsWith, TagImpliesTag
from concord.workers.constraints.templates.runs import (
    AppearsOnce,
    AtMostRuns,
    ChangesAt,
    SequenceImpliesSequence,
    TransitionOn,
)
from concord.workers.constraints.templates.template import BELOW, RowTemplate
from concord.workers.constraints.templates.words import ShouldBeTagged
from concord.workers.learning.mining.fields import Fields, fields_of
from concord.workers.learning.mining.judgement import JudgedSettings
from concord.workers.learning.mining.rule_counts import BILLION, CHANGE_SIDES, MARK_SIDES, RuleCounts, RuleKind
from concord.workers.learning.weights.row_counts import RowCounts, wilson

UNWEIGHED = 1.0
"""Weight of a rule, in nats, before its rows are counted."""


class KeptSettings(JudgedSettings):
    """Options of every method: which rules are kept, and how it is judged which of them help."""

    fdr: float = Field(
        0.05,
        gt=0,
        lt=1,
        description="False discovery rate: largest expected fraction of false rules among those that pass.",
    )
    support: int = Field(10, ge=1, description="Least number of documents in which a rule binds.")
    held: float = Field(0.9, ge=0, le=1, description="Least fraction of these documents in which the rule holds.")
    orders: int = Field(32, ge=1, le=10_000, description="Number of shuffled orders of each document's runs.")


class MiningSettings(KeptSettings):
    """Options of mining by counting all rules of some kinds."""

    kinds: tuple[RuleKind, ...] = Field(tuple(RuleKind), description="Kinds of rules to look for.")


class RuleTrial(Protocol):
    """A tested rule.

    - ``name``: its name in files and reports.
    - ``n``: number of documents in which it binds.
    - ``broken``: number of these that break it.
    - ``chance``: share of them in which it would hold by chance.
    - ``p``: probability that chance lets at least as many hold.
    """

    @property
    def name(self) -> str: ...  # noqa: D102

    @property
    def n(self) -> int: ...  # noqa: D102

    @property
    def broken(self) -> int: ...  # noqa: D102

    @property
    def chance(self) -> float: ...  # noqa: D102

    @property
    def p(self) -> float: ...  # noqa: D102


T = TypeVar("T", bound=RuleTrial)


def chance_of(rule: RuleTrial) -> float:
    """Probability that the rule holds in at least as many documents by chance, the p-value."""
    return float(binom.sf(rule.n - rule.broken - 1, rule.n, rule.chance))


def held(rule: RuleTrial) -> float:
    """Fraction of the documents in which the rule binds where it holds."""
    return 1.0 - rule.broken / rule.n


class Rule(NamedTuple):
    """A rule found by counting; see `RuleTrial`.

    - ``kind``: kind of rule.
    - ``first``, ``second``, ``third``: A, B and C of the kind; "" if it has none.
    """

    kind: RuleKind
    first: str
    second: str
    n: int
    broken: int
    chance: float
    third: str = ""

    @property
    def p(self) -> float:
        """Probability that the rule holds in at least as many documents by chance."""
        return chance_of(self)

    @property
    def name(self) -> str:
        """Name in files and reports."""
        return SAYINGS[self.kind].format(self.first or ANY_RUN, self.second, self.third)


ANY_RUN = "any run"
"""Text for A in rules of `RuleKind.STOPS` about runs of any type."""

SAYINGS = {
    RuleKind.STARTS: "starts with {}",
    RuleKind.ENDS: "ends with {}",
    RuleKind.FOLLOWED: "{} is followed by {}",
    RuleKind.CHOICE: "{} is followed by {} or {}",
    RuleKind.APART: "{} is not followed by {}",
    RuleKind.ORDER: "{} all before {}",
    RuleKind.TOGETHER: "{} together",
    RuleKind.CHANGES: "changes at punctuation, {}",
    RuleKind.STOPS: "{} stops at {}, {} the change",
    RuleKind.ONCE: "one {}",
    RuleKind.ONE_OF: "one {} or {}",
    RuleKind.THERE: "a {}",
    RuleKind.EITHER: "a {} or a {}",
    RuleKind.NEEDS: "{} needs {}",
    RuleKind.MATCHED: "as many {} as {}",
}

SYMMETRIC = (RuleKind.EITHER, RuleKind.ONE_OF)
"""Kinds in which A and B can be exchanged."""


def candidates(counts: RuleCounts, labels: LabelSet) -> list[Rule]:
    """All rules that bind in some document; equal counts give them in the same order."""
    if not counts.tables or not labels.types:
        return []
    fields = fields_of(labels)
    absent = {OUTSIDE} - set(labels.names)
    dealt = _Dealt(counts, fields)
    rules = [*_of_tables(counts, fields, dealt), *_of_choices(counts, labels.types), *_of_marks(counts, labels.types)]
    return [rule for rule in rules if absent.isdisjoint((rule.first, rule.second, rule.third))]


def _of_tables(counts: RuleCounts, fields: Fields, dealt: _Dealt) -> Iterator[Rule]:
    """Rules of all kinds except `RuleKind.CHOICE` and `RuleKind.STOPS`."""
    for kind in RuleKind:
        if kind in (RuleKind.CHOICE, RuleKind.STOPS):
            continue
        table = np.moveaxis(counts.tables[kind], 0, -1)
        for place in np.argwhere(table[..., 0] > 0).tolist():
            if kind is RuleKind.CHANGES or _speaks(kind, place, fields):
                n, broken, chance = table[tuple(place)].tolist()
                share = dealt.share(kind, place, n) if kind in DEALT else chance / BILLION / n
                yield Rule(kind, *_named(kind, place, fields.names), n, broken, share)


def _of_choices(counts: RuleCounts, types: Sequence[str]) -> Iterator[Rule]:
    """Rules of `RuleKind.CHOICE`, for each two types that both follow a run of A somewhere.

    Such a rule also holds in documents where only one of the two follows.
    """
    # Types stand first among fields, and outside stands last in both tables.
    own = [*range(len(types)), -1]
    n, broken, chance = (table[np.ix_(own, own)] for table in counts.tables[RuleKind.FOLLOWED])
    alone, (both, by_chance), names = n - broken, counts.tables[RuleKind.CHOICE], [*types, OUTSIDE]
    there = (both > 0) | ((alone[:, :, None] > 0) & (alone[:, None, :] > 0))
    for a, b, c in np.argwhere(np.triu(there, 1)).tolist():
        if a not in (b, c) and a < len(types):
            held = alone[a, b] + alone[a, c] + both[a, b, c]
            share = (chance[a, b] + chance[a, c] + by_chance[a, b, c]) / BILLION / n[a, b]
            yield Rule(
                RuleKind.CHOICE, names[a], names[b], int(n[a, b]), int(n[a, b] - held), min(1.0, share), names[c]
            )


def _of_marks(counts: RuleCounts, types: Sequence[str]) -> Iterator[Rule]:
    """Rules of `RuleKind.STOPS`."""
    for mark, table in counts.marks.items():
        for side, of in np.argwhere(table[0] > 0).tolist():
            n, broken, chance = table[:, side, of].tolist()
            kind = types[of] if of < len(types) else ""
            yield Rule(RuleKind.STOPS, kind, mark, n, broken, chance / BILLION / n, MARK_SIDES[side].value)


def _named(kind: RuleKind, place: Sequence[int], names: Sequence[str]) -> tuple[str, str]:
    if kind is RuleKind.CHANGES:
        return CHANGE_SIDES[place[0]].value, ""
    texts = [names[i] if i < len(names) else OUTSIDE for i in place]
    return texts[0], texts[1] if len(texts) > 1 else ""


def _speaks(kind: RuleKind, place: Sequence[int], fields: Fields) -> bool:
    """Is there such a rule? Not about a field and a part of itself; outside only comes first, last or next."""
    outside, types = len(fields.names), len(fields.types.T)
    if kind is RuleKind.TOGETHER:
        return types <= place[0] < outside
    if kind in (RuleKind.STARTS, RuleKind.ENDS):
        return True
    if place[0] == outside or (kind in SYMMETRIC and place[0] >= place[1]):
        return False
    if place[-1] == outside:
        return kind in (RuleKind.FOLLOWED, RuleKind.APART)
    return len(place) == 1 or _differ(kind, *fields.types[place])


def _differ(kind: RuleKind, first: Mask, second: Mask) -> bool:
    """Does a rule about two such fields say anything? It does if they share no type.

    A rule of `RuleKind.NEEDS` does if some type of the first is not in the second: a type always has its level.
    """
    if kind is RuleKind.NEEDS:
        return bool((first & ~second).any())
    return not bool((first & second).any())


DEALT = (RuleKind.ONCE, RuleKind.ONE_OF, RuleKind.THERE, RuleKind.EITHER, RuleKind.NEEDS, RuleKind.MATCHED)


class _Dealt:
    """Probabilities if all labelled runs are dealt out anew over the documents, each of which keeps its number of runs.

    Arrays (S,) are by the number of runs of a document.
    """

    def __init__(self, counts: RuleCounts, fields: Fields) -> None:
        self._types, self._runs = fields.types, counts.runs
        self._total = int(counts.runs.sum())
        self._sizes = np.array(list(counts.sizes), np.float64)
        rows = np.array(list(counts.sizes.values()), np.float64).reshape(len(self._sizes), -1)
        self._documents, self._has, either = np.split(rows, [1, 1 + len(fields.names)], axis=1)
        self._either = either.reshape(len(rows), len(counts.runs), -1)
        self._known: dict[int, Floats] = {}

    def share(self, kind: RuleKind, place: Sequence[int], n: int) -> float:
        """Expected share of the n documents in which the rule binds where it holds by chance."""
        sets = self._types[place]
        first, union = self._count(sets[0]), self._count(np.logical_or.reduce(sets))
        match kind:
            case RuleKind.THERE | RuleKind.EITHER:
                return self._mean(1.0 - self._none(union), self._documents[:, 0], n)
            case RuleKind.ONCE:
                return self._mean(_ratio(self._one(first), 1.0 - self._none(first)), self._has[:, place[0]], n)
            case RuleKind.ONE_OF:
                shares = _ratio(self._one(union), 1.0 - self._none(union))
                return self._mean(shares, self._either[:, place[0], place[1]], n)
            case RuleKind.NEEDS:
                holding = 1.0 - self._none(first) - self._none(self._count(sets[1])) + self._none(union)
            case _:
                holding = self._as_many(first, self._count(sets[1]))
        return self._mean(_ratio(holding, 1.0 - self._none(first)), self._has[:, place[0]], n)

    def _count(self, types: Mask) -> int:
        return int(self._runs[types].sum())

    def _mean(self, shares: Floats, documents: Floats, n: int) -> float:
        return float(np.clip(shares @ documents / n, 0.0, 1.0))

    def _none(self, of: int) -> Floats:
        """(S,) probability that a document gets none of ``of`` runs."""
        if of not in self._known:
            self._known[of] = self._drawn(of, 0)
        return self._known[of]

    def _one(self, of: int) -> Floats:
        return self._drawn(of, 1)

    def _drawn(self, of: int, count: int | Floats) -> Floats:
        """(S,) probability that a document gets exactly ``count`` of ``of`` runs; (S, M) if ``count`` is (1, M)."""
        sizes = self._sizes if isinstance(count, int) else self._sizes[:, None]
        number = np.asarray(count, np.float64)
        ways = _ways(of, number) + _ways(self._total - of, sizes - number)
        chance: Floats = np.exp(ways - _ways(self._total, sizes))
        return chance

    def _as_many(self, first: int, second: int) -> Floats:
        """(S,) probability that a document gets at least one of ``first`` runs, and as many of ``second`` or more."""
        in_all = np.arange(1.0 + self._sizes.max())[None, :]
        of_first = in_all.T
        fits = (of_first >= 1) & (in_all >= 2 * of_first)
        ways = np.where(fits, _ways(first, of_first) + _ways(second, in_all - of_first), -np.inf)
        possible = np.minimum(in_all, first + second)
        total: Floats = self._drawn(first + second, in_all) @ np.exp(ways - _ways(first + second, possible)).sum(axis=0)
        return total


def _ratio(part: Floats, whole: Floats) -> Floats:
    shares = np.divide(part, whole, out=np.ones_like(whole), where=whole > 0)
    return np.clip(shares, 0.0, 1.0)


def _ways(of: int, sizes: Floats) -> Floats:
    """Logarithm of the binomial coefficient C(of, size); −inf where it is 0."""
    possible = (sizes >= 0) & (sizes <= of)
    size = np.where(possible, sizes, 0.0)
    return np.where(possible, gammaln(of + 1) - gammaln(size + 1) - gammaln(of - size + 1), -np.inf)


def significant(rules: Sequence[Rule], settings: MiningSettings) -> list[Rule]:
    """The significant rules of the kinds in the settings, in their order."""
    return passing([rule for rule in rules if rule.kind in settings.kinds], settings)


def passing(rules: Sequence[T], settings: KeptSettings) -> list[T]:
    """The rules with enough documents that pass Benjamini & Hochberg (1995), in their order."""
    tried = [rule for rule in rules if rule.n >= settings.support]
    adjusted = false_discovery_control([rule.p for rule in tried]) if tried else []
    return [rule for rule, p in zip(tried, adjusted, strict=True) if p <= settings.fdr]


def kept_of(rules: Sequence[Rule], settings: MiningSettings) -> list[Rule]:
    """The significant rules that hold often enough and that no others imply, in their order."""
    return unimplied(rules, settings, lambda others, rule: any_implies(implies, others, rule) or by_two(rule, others))


def unimplied(rules: Sequence[T], settings: KeptSettings, implied: Callable[[list[T], T], bool]) -> list[T]:
    """The rules that hold often enough and that the others of these do not imply, in their order."""
    remaining = [rule for rule in rules if held(rule) >= settings.held]
    # Rules that are broken most often go first, so that of rules that imply each other the surest stays.
    for rule in sorted(remaining, key=lambda rule: (held(rule), -rule.n)):
        others = [other for other in remaining if other is not rule]
        if implied(others, rule):
            remaining = others
    return remaining


def any_implies(implies: Callable[[T, T], bool], others: Sequence[T], rule: T) -> bool:
    """Does one of the others imply the rule without being clearly broken more often?"""
    return any(implies(other, rule) and _as_sure(other, rule) for other in others)


def by_two(rule: Rule, others: Sequence[Rule]) -> bool:
    """Do two of the others imply the rule "A needs C": "A needs B" and "B needs C"?"""
    if rule.kind not in (RuleKind.NEEDS, RuleKind.MATCHED):
        return False
    like = [other for other in others if other.kind is rule.kind and _as_sure(other, rule)]
    between = {other.second for other in like if other.first == rule.first}
    return any(other.first in between for other in like if other.second == rule.second)


def implies(one: Rule, other: Rule) -> bool:
    """Does a document that keeps one rule keep the other?"""
    match one.kind, other.kind:
        case (
            (RuleKind.STARTS, RuleKind.STARTS | RuleKind.THERE)
            | (RuleKind.ENDS, RuleKind.ENDS | RuleKind.THERE)
            | (RuleKind.THERE, RuleKind.THERE)
        ):
            return holds_all(other.first, one.first)
        case RuleKind.STARTS | RuleKind.ENDS | RuleKind.THERE, RuleKind.NEEDS:
            return holds_all(other.second, one.first)
        case RuleKind.STARTS | RuleKind.ENDS | RuleKind.THERE, RuleKind.EITHER:
            return holds_all(other.first, one.first) or holds_all(other.second, one.first)
        case RuleKind.FOLLOWED, RuleKind.FOLLOWED:
            return one.first == other.first and holds_all(other.second, one.second)
        case RuleKind.FOLLOWED, RuleKind.CHOICE:
            return one.first == other.first and one.second in (other.second, other.third)
        case RuleKind.FOLLOWED, RuleKind.APART:
            return one.first == other.first and not _overlap(one.second, other.second)
        case RuleKind.NEEDS, RuleKind.NEEDS:
            return holds_all(one.first, other.first) and holds_all(other.second, one.second)
        case RuleKind.MATCHED, RuleKind.NEEDS:
            return (one.first, one.second) == (other.first, other.second)
        case (RuleKind.APART, RuleKind.APART) | (RuleKind.ORDER, RuleKind.ORDER):
            return holds_all(one.first, other.first) and holds_all(one.second, other.second)
        case RuleKind.ORDER, RuleKind.APART:
            return holds_all(one.first, other.second) and holds_all(one.second, other.first)
        case RuleKind.STOPS, RuleKind.STOPS:
            return not one.first and bool(other.first) and (one.second, one.third) == (other.second, other.third)
        case RuleKind.CHANGES, RuleKind.CHANGES:
            return one.first != other.first and other.first == "either"
        case _:
            return False


def holds_all(field: str, part: str) -> bool:
    """Is every run of ``part`` also one of ``field``, which is a level above it or the same field?"""
    level = field.removesuffix(BELOW)
    return part == field or (level != field and (part == level or part.startswith(f"{level}/")))


def _overlap(one: str, other: str) -> bool:
    return holds_all(one, other) or holds_all(other, one)


def _as_sure(one: RuleTrial, other: RuleTrial) -> bool:
    """Is the first not clearly broken more often? A rule that is surer than one implying it says more."""
    return wilson(one.broken, one.n)[0] <= wilson(other.broken, other.n)[1]


def declared(rules: Sequence[Rule], labels: LabelSet) -> DeclaredConstraints:
    """The rules as constraints of `UNWEIGHED` nats. Raises `ConstraintError` for label names that cannot be used."""
    return DeclaredConstraints(tuple(_template(rule) for rule in rules)).bind(labels)


def _template(rule: Rule) -> RowTemplate:
    return TEMPLATES_OF[rule.kind].model_validate(dict(_fields(rule)) | {"name": rule.name, "weight": UNWEIGHED})


TEMPLATES_OF: dict[RuleKind, type[RowTemplate]] = {
    RuleKind.STARTS: StartsWith,
    RuleKind.ENDS: ShouldBeTagged,
    RuleKind.FOLLOWED: Adjacency,
    RuleKind.CHOICE: Adjacency,
    RuleKind.APART: ShouldNotPrecede,
    RuleKind.ORDER: PresencePrecedence,
    RuleKind.TOGETHER: AppearsOnce,
    RuleKind.CHANGES: TransitionOn,
    RuleKind.STOPS: ChangesAt,
    RuleKind.ONCE: AppearsOnce,
    RuleKind.ONE_OF: AtMostRuns,
    RuleKind.THERE: MustAppear,
    RuleKind.EITHER: MustAppear,
    RuleKind.NEEDS: TagImpliesTag,
    RuleKind.MATCHED: SequenceImpliesSequence,
}


def _fields(rule: Rule) -> Iterator[tuple[str, object]]:
    """Keys of the rule's template, except name and weight."""
    match rule.kind:
        case RuleKind.CHANGES:
            yield "side", rule.first
        case RuleKind.STOPS:
            yield from (("tokens", rule.second), ("side", rule.third))
            yield from [("labels", rule.first)] if rule.first else []
        case RuleKind.NEEDS | RuleKind.MATCHED:
            yield from (("label", rule.first), ("implies", rule.second))
            yield from [("counted", True)] if rule.kind is RuleKind.MATCHED else []
        case RuleKind.ONE_OF | RuleKind.EITHER:
            yield "labels", (rule.first, rule.second)
            yield from [("limit", 1)] if rule.kind is RuleKind.ONE_OF else []
        case RuleKind.FOLLOWED:
            # Tokens of one run of A follow each other, too.
            yield from (("first", rule.first), ("second", (rule.first, rule.second)))
        case RuleKind.CHOICE:
            yield from (("first", rule.first), ("second", (rule.first, rule.second, rule.third)))
        case RuleKind.APART | RuleKind.ORDER:
            yield from (("first", rule.first), ("second", rule.second))
        case _:
            yield "labels", rule.first
            if rule.kind is RuleKind.ENDS:
                yield "position", -1


def in_documents(rule: RuleTrial, degree: float) -> RowCounts:
    """Row counts for a penalty, with documents in place of rows; ``degree`` is the sum over all of them.

    In some templates each token is a row; counting these, a rule would look sure though few documents support it.
    """
    return RowCounts(rule.n, 0, rule.broken, degree)


def comment(rule: RuleTrial, interval: tuple[float, float], *, held_out: bool = False) -> str:
    """Comment above a rule in a constraint file, in one line."""
    low, high = wilson(rule.broken, rule.n)
    return (
        f"binds in {rule.n:,} {'held-out ' if held_out else ''}documents, {rule.broken:,} break it "
        f"({low:.1%} to {high:.1%}); holds by chance in "
        f"{rule.chance:.1%}, p {rule.p:.1e}; {interval[0]:.2f} to {interval[1]:.2f} nats"
    )
