"""What a run was asked for otherwise than the last one, documents apart: told by name and value, not by digest."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, Self

from pydantic import Field

from concord.schemas.drift import SHOWN_DIGITS
from concord.schemas.run import RuleStrengths, RunKey, RunManifest, RunSettings, Strength
from concord.schemas.shown import Report

RuleChangeKind = Literal["added", "removed", "other weight", "other form", "local"]
Cause = Literal["model", "constraints", "engine", "settings", "code"]


class RuleChange(Report):
    """A constraint that only one of two runs has, or that they have otherwise.

    - ``before``, ``after``: its weights in nats; one of a declared constraint, inf for a hard one, none where it is not
    """

    name: str
    kind: RuleChangeKind
    before: tuple[float, ...] = ()
    after: tuple[float, ...] = ()

    @property
    def line(self) -> str:
        """In a few words, such as ``added: days are in no name (3)``."""
        if self.kind == "local":
            return "what constraints add to local scores has changed"
        if self.kind == "other weight":
            if len(self.before) == len(self.after) == 1:
                return f"weight of {self.name} {_weight(*self.before)} → {_weight(*self.after)}"
            return f"weights of {self.name} have changed"
        verb = {"added": "added", "removed": "removed", "other form": "changed"}[self.kind]
        weights = self.before if self.kind == "removed" else self.after
        return f"{verb}: {self.name}" + (f" ({_weight(*weights)})" if len(weights) == 1 else "")


def rule_changes(before: RuleStrengths, after: RuleStrengths) -> tuple[RuleChange, ...]:
    """The constraints of one run (`RunManifest.rules`) beside those of a later one.

    Those that are added come first, then those that are removed, then those that both have. Where constraints that add
    to local scores differ, one entry without a name says so: of these a manifest has a digest alone.
    """
    old, new = _by_name(before), _by_name(after)
    changes = [RuleChange(name=one.name, kind="added", after=one.weights) for one in _lacking(new, old)]
    changes += [RuleChange(name=one.name, kind="removed", before=one.weights) for one in _lacking(old, new)]
    changes += (_change(old[name], new[name]) for name in new if name in old and old[name] != new[name])
    if before.local != after.local:
        changes.append(RuleChange(name="", kind="local"))
    return tuple(changes)


def _by_name(rules: RuleStrengths) -> dict[str, Strength]:
    return {one.name: one for one in rules.strengths}


def _lacking(here: Mapping[str, Strength], there: Mapping[str, Strength]) -> Iterator[Strength]:
    return (one for name, one in here.items() if name not in there)


def _change(before: Strength, after: Strength) -> RuleChange:
    kind: RuleChangeKind = "other weight" if before.form == after.form else "other form"
    return RuleChange(name=after.name, kind=kind, before=before.weights, after=after.weights)


def _weight(weight: float) -> str:
    return "hard" if math.isinf(weight) else f"{weight:g}"


class RunChanges(Report):
    """What a run was asked for otherwise than the one before, as far as it decides answers.

    - ``model``: digests before and after; null where it is the same
    - ``rules``: constraints that differ
    - ``reordered``: are the constraints the same, in another order?
    - ``engine``: engine before and after; null where it is the same
    - ``settings``: other settings by name, before and after
    - ``code``: is the code another one?
    """

    model: tuple[str, str] | None = None
    rules: tuple[RuleChange, ...] = ()
    reordered: bool = False
    engine: tuple[str, str] | None = None
    settings: dict[str, tuple[Any, Any]] = Field(default_factory=dict)
    code: bool = False

    @classmethod
    def between(cls, last: RunManifest, key: RunKey, rules: RuleStrengths) -> Self:
        """A run with that key and these constraints beside the ``last`` one."""
        before, changed = last.run, rule_changes(last.rules, rules)
        engines = (before.settings.engine, key.settings.engine)
        return cls(
            model=None if before.model == key.model else (before.model, key.model),
            rules=changed,
            reordered=before.constraints != key.constraints and not changed,
            engine=None if engines[0] == engines[1] else engines,
            settings=dict(_other_settings(before.settings, key.settings)),
            code=before.code != key.code,
        )

    @property
    def causes(self) -> tuple[Cause, ...]:
        """What differs, by kind; what is first is the likeliest to have changed an answer."""
        kinds: dict[Cause, bool] = {
            "model": self.model is not None,
            "constraints": bool(self.rules) or self.reordered,
            "engine": self.engine is not None,
            "settings": bool(self.settings),
            "code": self.code,
        }
        return tuple(kind for kind, differs in kinds.items() if differs)

    @property
    def lines(self) -> tuple[str, ...]:
        """What differs, a line each; none where nothing does."""
        lines = list[str]()
        if self.model is not None:
            lines.append(f"model {_arrow([digest[:SHOWN_DIGITS] for digest in self.model])}")
        lines += self.rule_lines
        if self.engine is not None:
            lines.append(f"engine {_arrow(self.engine)}")
        lines += (f"{name} {_arrow(values)}" for name, values in self.settings.items())
        if self.code:
            lines.append("concord's code has changed")
        return tuple(lines)

    @property
    def rule_lines(self) -> tuple[str, ...]:
        """What differs in the constraints, a line each."""
        return (*(change.line for change in self.rules), *(("constraints are in another order",) * self.reordered))


def _other_settings(before: RunSettings, after: RunSettings) -> Iterator[tuple[str, tuple[Any, Any]]]:
    """Settings that differ, each by itself; options of engines are compared where both runs have the same one."""
    apart = {"engine"} if before.engine == after.engine else {"engine", "options"}
    old, new = (dict(_flat(one.model_dump(mode="json", exclude=apart))) for one in (before, after))
    for path in old | new:
        if old.get(path) != new.get(path):
            yield ".".join(name for name in path if name not in ("options", "text")), (old.get(path), new.get(path))


def _flat(settings: Mapping[str, Any], above: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, value in settings.items():
        if isinstance(value, Mapping):
            yield from _flat(value, (*above, name))
        else:
            yield (*above, name), value


def _arrow(values: Sequence[Any]) -> str:
    before, after = ("none" if value is None else str(value) for value in values)
    return f"{before} → {after}"
