"""No proof proves what is false, for each scheme, relation and template, and the writer proves what is true."""

from __future__ import annotations

import numpy as np

from concord.schemas.labels import LabelSet, Scheme
from concord.schemas.potentials import Potentials
from concord.schemas.problem import Problem, Relation
from concord.workers.certificates.checker import check
from concord.workers.certificates.writer import prove
from concord.workers.constraints.templates.registry import TEMPLATES
from concord.workers.constraints.templates.template import FeatureTemplate
from tests.support.false_bounds import SCHEMES, Case, Tried, cases, tried
from tests.support.made_up_proofs import accepts
from tests.support.seeds import over_seeds

MOST_UNPROVEN = 8
"""Of the 140 problems of a seed."""

PERSON = LabelSet(("O", "B-PER", "I-PER"), Scheme.LOOSE)


def test_a_span_that_begins_with_its_inner_label_is_seen() -> None:
    unary = np.array([[1.0, 0.0, 5.0]])
    problem = Problem(Potentials(unary, np.zeros((3, 3)), np.zeros(1, np.int64)), PERSON)
    assert accepts(problem, 5.0, [0, -1])
    assert not accepts(problem, 1.0, [0, -1])
    assert not accepts(problem, 5.0 - 1e-5, [0, -1])


def test_loose_labels_of_either_kind_follow_each_other() -> None:
    """I-PER after I-PER goes on with a span, after O it opens one: whatever a token's neighbours, one of them is it."""
    for best in ([2, 2, 0, 2], [1, 2, 1, 2], [2, 1, 1, 2], [0, 2, 2, 2]):
        unary = np.zeros((4, 3))
        unary[np.arange(4), best] = 2.0
        problem = Problem(Potentials(unary, np.zeros((3, 3)), np.zeros(1, np.int64)), PERSON)
        labels = np.array(best, np.int32)
        proof = prove(problem, labels, 8.0, nodes=1)
        assert proof == [0, -1]
        check(problem, 8.0, proof)
        assert not accepts(problem, 8.0 - 1e-5, proof)


def key_of(case: Case) -> tuple[Scheme, str]:
    return case.scheme, case.kind


def test_every_scheme_relation_and_template_is_there() -> None:
    found = {key_of(case) for case in cases(0)}
    templates = {name for name, kind in TEMPLATES.items() if not issubclass(kind, FeatureTemplate)}
    # A plain label set has no sequence that is illegal.
    wanted = {(scheme, name) for scheme in SCHEMES for name in templates} - {(Scheme.PLAIN, "legality")}
    assert set(SCHEMES) == set(Scheme)
    assert found == wanted | {(scheme, kind) for scheme in SCHEMES for kind in ("rows", *Relation)}


@over_seeds(stay=1, many=6)
def test_false_bounds_are_refused_and_true_ones_proven(seed: int) -> None:
    total = Tried()
    for case in cases(seed):
        total += tried(case, seed, mutated=2)
    assert total.accepted == []
    # A strict twin prices a span once for each label that opens it, a proof once: sometimes that is not enough. A true
    # bound without a proof is no error, but the writer gives up on few: over eighty seeds on one of 140 in the mean,
    # and nowhere on more than four.
    assert len(total.unproven) <= MOST_UNPROVEN
    assert total.false > 2500
    assert total.proven > 5 * total.infeasible
