"""Every template, by its name in constraint files."""

from __future__ import annotations

from concord.workers.constraints.templates.features import TokenFeature, TransitionFeature
from concord.workers.constraints.templates.linear import Legality, Linear
from concord.workers.constraints.templates.order import (
    Adjacency,
    Before,
    BeginEnd,
    Precedence,
    PresencePrecedence,
    ShouldNotPrecede,
    StateChange,
)
from concord.workers.constraints.templates.presence import MustAppear, StartsWith, TagImpliesTag
from concord.workers.constraints.templates.repeats import (
    Consistent,
    ConsistentLastWord,
    ConsistentSubsequence,
    ConsistentUnlabelled,
    ConsistentValue,
)
from concord.workers.constraints.templates.runs import (
    AppearsOnce,
    AppearsOnceASide,
    AtLeastRuns,
    AtMostRuns,
    ChangesAt,
    SequenceImpliesSequence,
    TransitionOn,
)
from concord.workers.constraints.templates.template import Template
from concord.workers.constraints.templates.words import Lexicon, OnlyIn, ShouldBeTagged
from concord.workers.parts import Group, Registry, a_class

OWN: dict[str, type[Template]] = {
    "adjacency": Adjacency,
    "precedence": Precedence,
    "state_change": StateChange,
    "begin_end": BeginEnd,
    "presence_precedence": PresencePrecedence,
    "starts_with": StartsWith,
    "appears_once": AppearsOnce,
    "appears_once_a_side": AppearsOnceASide,
    "transition_on": TransitionOn,
    "changes_at": ChangesAt,
    "lexicon": Lexicon,
    "only_in": OnlyIn,
    "must_appear": MustAppear,
    "should_not_precede": ShouldNotPrecede,
    "should_be_tagged": ShouldBeTagged,
    "tag_implies_tag": TagImpliesTag,
    "sequence_implies_sequence": SequenceImpliesSequence,
    "at_most_runs": AtMostRuns,
    "at_least_runs": AtLeastRuns,
    "before": Before,
    "linear": Linear,
    "transition_feature": TransitionFeature,
    "token_feature": TokenFeature,
    "consistent": Consistent,
    "consistent_subsequence": ConsistentSubsequence,
    "consistent_unlabelled": ConsistentUnlabelled,
    "consistent_value": ConsistentValue,
    "consistent_last_word": ConsistentLastWord,
    "legality": Legality,
}
"""Our own templates: a new one is one class and one line here."""

TEMPLATES: Registry[type[Template]] = Registry(Group.TEMPLATES, OWN, a_class(Template))
