"""Constraints mined from gold: which rules about runs hold more often than chance lets them (Fersini et al. 2014 §3.1).

Of n documents in which a rule binds b break it; by chance it would hold in a share q. The p-value is how likely chance
alone lets so many hold, by the binomial distribution of the mean share: documents are independent but their shares
differ, and above the mean the binomial tail is never smaller than theirs (Hoeffding 1956). Of all rules with enough
documents those are kept that Benjamini & Hochberg (1995) let pass at a false discovery rate, and that hold often enough
to be worth writing down. What the label scheme forces holds by chance too, always, and is never kept.

For rules about which runs there are (one run of A, A is there, B is there where A is) chance deals the labelled runs
out anew over all documents, as many to each as it has. Dealt runs may lie side by side and still are two, which real
ones of a plain label set are not: there chance holds a little more often than is reckoned.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from scipy.special import gammaln
from scipy.stats import binom

from schemas.labels import OUTSIDE, LabelSet
from schemas.settings import Settings
from workers.constraints.declared import DeclaredConstraints
from workers.constraints.templates.order import Adjacency, PresencePrecedence, ShouldNotPrecede
from workers.constraints.templates.presence import MustAppear, StartsWith, TagImpliesTag
from workers.constraints.templates.runs import AppearsOnce, TransitionOn
from workers.constraints.templates.template import RowTemplate
from workers.constraints.templates.words import ShouldBeTagged
from workers.learning.penalties import RowCounts, wilson
from workers.learning.rule_counts import BILLION, SIDES, Kind, RuleCounts

UNWEIGHED = 1.0
"""Nats of a rule before its degrees are counted."""


class MiningSettings(Settings):
    """Which rules are kept."""

    fdr: float = Field(0.05, gt=0, lt=1, description="Share of false rules among those that pass, at most.")
    support: int = Field(10, ge=1, description="Documents in which a rule has to bind, at least.")
    held: float = Field(0.9, ge=0, le=1, description="Share of these in which it has to hold, at least.")
    orders: int = Field(32, ge=1, le=10_000, description="Shuffled orders of each document's runs.")
    kinds: tuple[Kind, ...] = Field(tuple(Kind), description="Kinds of rules that are looked for.")


class Rule(NamedTuple):
    """A rule in n documents where it binds, b of which break it; by chance the share ``chance`` holds."""

    kind: Kind
    first: str
    second: str
    n: int
    broken: int
    chance: float

    @property
    def p(self) -> float:
        """How likely chance lets so many documents hold."""
        return float(binom.sf(self.n - self.broken - 1, self.n, self.chance))

    @property
    def held(self) -> float:
        """Share of the n documents."""
        return 1.0 - self.broken / self.n

    @property
    def name(self) -> str:
        """In the file and in reports."""
        return SAYINGS[self.kind].format(self.first, self.second)


SAYINGS = {
    Kind.STARTS: "starts with {}",
    Kind.ENDS: "ends with {}",
    Kind.FOLLOWED: "{} is followed by {}",
    Kind.APART: "{} is not followed by {}",
    Kind.ORDER: "{} all before {}",
    Kind.CHANGES: "changes at punctuation, {}",
    Kind.ONCE: "one {}",
    Kind.THERE: "a {}",
    Kind.NEEDS: "{} needs {}",
}


def candidates(counts: RuleCounts, labels: LabelSet) -> list[Rule]:
    """Every rule that binds anywhere, in one order for the same counts."""
    if not counts.tables:
        return []
    names = [*labels.types, OUTSIDE]
    absent = {OUTSIDE} - set(labels.names)
    dealt = _Dealt(counts)
    rules: list[Rule] = []
    for kind in Kind:
        table = np.moveaxis(counts.tables[kind], 0, -1)
        for place in np.argwhere(table[..., 0] > 0).tolist():
            first, second = _named(kind, place, names)
            if _speaks(kind, first, second) and absent.isdisjoint((first, second)):
                n, broken, chance = table[tuple(place)].tolist()
                share = dealt.share(kind, place) if kind in DEALT else chance / BILLION / n
                rules.append(Rule(kind, first, second, n, broken, share))
    return rules


def _named(kind: Kind, place: Sequence[int], names: Sequence[str]) -> tuple[str, str]:
    if kind is Kind.CHANGES:
        return SIDES[place[0]].value, ""
    return names[place[0]], names[place[1]] if len(place) > 1 else ""


def _speaks(kind: Kind, first: str, second: str) -> bool:
    """Not of a type and itself; of what is outside all spans only as what comes first, last or next."""
    if first == second:
        return False
    if kind in (Kind.STARTS, Kind.ENDS):
        return True
    return first != OUTSIDE and (second != OUTSIDE or kind in (Kind.FOLLOWED, Kind.APART))


DEALT = (Kind.ONCE, Kind.THERE, Kind.NEEDS)


class _Dealt:
    """Chances where N labelled runs are dealt out anew over documents that keep their numbers of runs."""

    def __init__(self, counts: RuleCounts) -> None:
        self._runs = counts.runs
        self._sizes = np.array(list(counts.sizes), np.float64)
        self._documents = np.array(list(counts.sizes.values()), np.float64).reshape(len(self._sizes), -1)

    def share(self, kind: Kind, place: Sequence[int]) -> float:
        """Of the documents where the rule binds, the share in which it then holds."""
        first = self._runs[place[0]]
        there = 1.0 - self._none(first)
        if kind is Kind.THERE:
            return self._mean(there, self._documents[:, 0])
        holding = self._one(first) if kind is Kind.ONCE else self._both(first, self._runs[place[1]])
        shares = np.divide(holding, there, out=np.ones_like(there), where=there > 0)
        return self._mean(np.clip(shares, 0.0, 1.0), self._documents[:, 1 + place[0]])

    def _mean(self, shares: NDArray[np.float64], documents: NDArray[np.float64]) -> float:
        return float(np.clip(shares @ documents / documents.sum(), 0.0, 1.0))

    def _none(self, of: int) -> NDArray[np.float64]:
        """A document of each size gets none of so many of the runs."""
        return np.exp(_ways(self._total - of, self._sizes) - _ways(self._total, self._sizes))

    def _one(self, of: int) -> NDArray[np.float64]:
        return of * np.exp(_ways(self._total - of, self._sizes - 1) - _ways(self._total, self._sizes))

    def _both(self, first: int, second: int) -> NDArray[np.float64]:
        return 1.0 - self._none(first) - self._none(second) + self._none(first + second)

    @property
    def _total(self) -> int:
        return int(self._runs.sum())


def _ways(of: int, sizes: NDArray[np.float64]) -> NDArray[np.float64]:
    """log C(of, size); −inf where there is no way."""
    possible = (sizes >= 0) & (sizes <= of)
    size = np.where(possible, sizes, 0.0)
    return np.where(possible, gammaln(of + 1) - gammaln(size + 1) - gammaln(of - size + 1), -np.inf)


def significant(rules: Sequence[Rule], settings: MiningSettings) -> list[Rule]:
    """Those with enough documents that Benjamini & Hochberg (1995) let pass, in their order."""
    tried = [rule for rule in rules if rule.n >= settings.support and rule.kind in settings.kinds]
    p = np.array([rule.p for rule in tried])
    rising = np.sort(p)
    passing = rising[rising <= settings.fdr * np.arange(1, len(p) + 1) / max(1, len(p))]
    limit = passing[-1] if len(passing) else -1.0
    return [rule for rule, one in zip(tried, p, strict=True) if one <= limit]


def kept_of(rules: Sequence[Rule], settings: MiningSettings) -> list[Rule]:
    """Of significant rules those that hold often enough and that no other one implies, in their order."""
    kept = [rule for rule in rules if rule.held >= settings.held]
    return [rule for rule in kept if not any(implies(other, rule) and _as_sure(other, rule) for other in kept)]


def implies(one: Rule, other: Rule) -> bool:
    """Does a document that keeps one rule keep the other?"""
    match one.kind, other.kind:
        case Kind.FOLLOWED, Kind.APART:
            return one.first == other.first and one.second != other.second
        case Kind.STARTS, Kind.THERE:
            return one.first == other.first
        case Kind.ENDS, Kind.THERE:
            return one.first == other.first
        case Kind.THERE, Kind.NEEDS:
            return one.first == other.second
        case Kind.ORDER, Kind.APART:
            return (one.first, one.second) == (other.second, other.first)
        case Kind.CHANGES, Kind.CHANGES:
            return one.first != other.first and other.first == "either"
        case _:
            return False


def _as_sure(one: Rule, other: Rule) -> bool:
    """Is the first not plainly broken more often? A surer rule says more than the one that implies it."""
    return wilson(one.broken, one.n)[0] <= wilson(other.broken, other.n)[1]


def declared(rules: Sequence[Rule], labels: LabelSet) -> DeclaredConstraints:
    """The rules as constraints that weigh `UNWEIGHED` nats. Raises `ConstraintError` for names of labels that fail."""
    return DeclaredConstraints(tuple(_template(rule) for rule in rules)).bind(labels)


def _template(rule: Rule) -> RowTemplate:
    return TEMPLATES_OF[rule.kind].model_validate(dict(_fields(rule)) | {"name": rule.name, "weight": UNWEIGHED})


TEMPLATES_OF: dict[Kind, type[RowTemplate]] = {
    Kind.STARTS: StartsWith,
    Kind.ENDS: ShouldBeTagged,
    Kind.FOLLOWED: Adjacency,
    Kind.APART: ShouldNotPrecede,
    Kind.ORDER: PresencePrecedence,
    Kind.CHANGES: TransitionOn,
    Kind.ONCE: AppearsOnce,
    Kind.THERE: MustAppear,
    Kind.NEEDS: TagImpliesTag,
}


def _fields(rule: Rule) -> Iterator[tuple[str, object]]:
    """The keys of the rule's template."""
    match rule.kind:
        case Kind.CHANGES:
            yield "side", rule.first
        case Kind.NEEDS:
            yield from (("label", rule.first), ("implies", rule.second))
        case Kind.FOLLOWED:
            # Tokens of the run follow each other.
            yield from (("first", rule.first), ("second", (rule.first, rule.second)))
        case Kind.APART | Kind.ORDER:
            yield from (("first", rule.first), ("second", rule.second))
        case _:
            yield "labels", rule.first
            if rule.kind is Kind.ENDS:
                yield "position", -1


def in_documents(rule: Rule, degree: float) -> RowCounts:
    """What a penalty is made of: documents, and the degree of all that break the rule.

    A row is a token in some templates, so that rows would make a rule look sure that few documents speak of.
    """
    return RowCounts(rule.n, 0, rule.broken, degree)


def comment(rule: Rule, interval: tuple[float, float]) -> str:
    """What a file says above a rule, in one line."""
    low, high = wilson(rule.broken, rule.n)
    return (
        f"binds in {rule.n:,} documents, {rule.broken:,} break it ({low:.1%} to {high:.1%}); holds by chance in "
        f"{rule.chance:.1%}, p {rule.p:.1e}; {interval[0]:.2f} to {interval[1]:.2f} nats"
    )
