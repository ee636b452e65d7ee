"""What a run was asked for otherwise than the last one, told by name and value."""

from __future__ import annotations

import math

import pytest

from concord.schemas.labels import LabelSet
from concord.schemas.run import RuleStrengths, RunKey, RunManifest, RunSettings, ShardReport
from concord.schemas.run_changes import RunChanges, rule_changes
from concord.schemas.settings import TextSettings
from concord.workers.constraints.constraint_set import NO_RULES
from concord.workers.constraints.declared import DeclaredConstraints
from concord.workers.constraints.templates.features import TokenFeature
from concord.workers.constraints.templates.presence import StartsWith
from concord.workers.constraints.templates.runs import AtMostRuns
from concord.workers.constraints.templates.template import Template, TokenTest
from tests.support.made_runs import consistency

BIO = LabelSet.bio(["LOC", "PER"])
FEATURE = TokenFeature(tokens=TokenTest(words=("in",)), labels=("O",), weight=0.3)


def starts(weight: float, *labels: str, name: str = "days are in no name") -> StartsWith:
    return StartsWith(name=name, labels=labels or ("O",), weight=weight)


def strengths(*templates: Template) -> RuleStrengths:
    return DeclaredConstraints(templates).bind(BIO).strengths if templates else NO_RULES


ONE_RUN = AtMostRuns(name="one run", labels=("B-PER",), limit=1, weight=1.5)


@pytest.mark.parametrize(
    ("before", "after", "lines"),
    [
        ([], [starts(3)], ["added: days are in no name (3)"]),
        ([starts(math.inf), ONE_RUN], [ONE_RUN], ["removed: days are in no name (hard)"]),
        ([ONE_RUN, starts(3)], [starts(2), ONE_RUN], ["weight of days are in no name 3 → 2"]),
        ([starts(3)], [starts(math.inf)], ["weight of days are in no name 3 → hard"]),
        ([starts(3)], [starts(3, "O", "B-PER")], ["changed: days are in no name (3)"]),
        ([starts(3)], [starts(3, name="other")], ["added: other (3)", "removed: days are in no name (3)"]),
        ([starts(3)], [starts(3), FEATURE], ["what constraints add to local scores has changed"]),
        ([starts(3), ONE_RUN], [starts(3), ONE_RUN], []),
    ],
)
def test_constraints_that_differ_are_told_by_name_and_weight(
    before: list[Template], after: list[Template], lines: list[str]
) -> None:
    assert [change.line for change in rule_changes(strengths(*before), strengths(*after))] == lines


def test_families_of_agreement_have_many_weights() -> None:
    before = consistency().strengths
    (first, *others) = before.strengths
    after = RuleStrengths(strengths=(first.model_copy(update={"weights": (9.0,) * len(first.weights)}), *others))
    (change,) = rule_changes(before, after)
    assert (change.line, change.before, change.after) == (
        f"weights of {first.name} have changed",
        first.weights,
        (9.0,) * len(first.weights),
    )


def manifest(key: RunKey, rules: RuleStrengths) -> RunManifest:
    return RunManifest(dataset="", run=key, rules=rules, totals=ShardReport(), shards=0, lists={})


KEY = RunKey(settings=RunSettings(options={"sampler": {"sweeps": 3}}), model="a" * 64, constraints="c", code="code")


def test_all_that_decides_answers_is_told_with_its_values() -> None:
    settings = RunSettings(seed=2, options={"sampler": {"sweeps": 4}}, text=TextSettings(text_column="body"))
    other = RunKey(settings=settings, model="b" * 64, constraints="d", code="other")
    changes = RunChanges.between(manifest(KEY, NO_RULES), other, strengths(starts(3)))
    assert changes.causes == ("model", "constraints", "settings", "code")
    assert changes.lines == (
        "model aaaaaaaa → bbbbbbbb",
        "added: days are in no name (3)",
        "sampler.sweeps 3 → 4",
        "seed 0 → 2",
        "text_column text → body",
        "concord's code has changed",
    )


def test_the_options_of_another_engine_are_not_compared() -> None:
    settings = RunSettings(engine="beam", options={"width": 4})
    changes = RunChanges.between(manifest(KEY, NO_RULES), KEY.model_copy(update={"settings": settings}), NO_RULES)
    assert (changes.causes, changes.lines) == (("engine",), ("engine certify → beam",))


def test_the_same_is_told_by_nothing_and_another_order_as_that() -> None:
    assert RunChanges.between(manifest(KEY, NO_RULES), KEY, NO_RULES) == RunChanges()
    other = KEY.model_copy(update={"constraints": "d"})
    changes = RunChanges.between(manifest(KEY, NO_RULES), other, NO_RULES)
    assert (changes.causes, changes.lines) == (("constraints",), ("constraints are in another order",))
