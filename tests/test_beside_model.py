"""Label consistency that a model has learned, beside entries of the same kind that a file declares."""

from __future__ import annotations

import numpy as np
import pytest

from concord.schemas.document import Batch, Document
from concord.schemas.labels import LabelSet
from concord.schemas.problem import Relation
from concord.workers.constraints.beside_model import joined
from concord.workers.constraints.consistency import CONSISTENCY_FAMILIES, LabelConsistency, PairCounts, Scales
from concord.workers.constraints.constraint_set import Unconstrained
from concord.workers.constraints.declared import DeclaredConstraints
from concord.workers.constraints.templates.template import Template
from tests.support.made_templates import template

LABELS = LabelSet.bio(["PER", "LOC"])
SMITH = [("Smith", "B-PER"), ("of", "O"), ("Smith", "B-PER"), ("Smith", "B-LOC")]
GOLD = Document.build("gold", [[word for word, _ in SMITH]], labels=[[label for _, label in SMITH]])
LEARNED = LabelConsistency(PairCounts.of([GOLD], LABELS), Scales(0.5, 0.5, 0.5))
BATCH = Batch.of([Document.build("d", [["Smith", "of", "Smith"]])])


def declared(*entries: Template) -> DeclaredConstraints:
    return DeclaredConstraints(entries).bind(LABELS)


def test_without_an_entry_of_its_kinds_the_learned_one_stays_as_it_is() -> None:
    alone = joined(LEARNED, [])
    assert alone.constraints.digest == LEARNED.digest
    beside = joined(LEARNED, [declared(template("legality", {}))])
    assert beside.constraints.names == (*CONSISTENCY_FAMILIES, "legality")
    assert alone.notes == beside.notes == ()
    assert isinstance(joined(None, []).constraints, Unconstrained)


@pytest.mark.parametrize("family", CONSISTENCY_FAMILIES)
def test_a_family_that_is_declared_is_charged_once(family: str) -> None:
    entry = declared(template(family, {}))
    found = joined(LEARNED, [entry])
    assert sorted(found.constraints.names) == sorted(CONSISTENCY_FAMILIES)
    (grounded,) = found.constraints.ground(BATCH, LABELS)
    (own,) = entry.ground(BATCH, LABELS)
    assert sorted(a.relation for a in grounded.agreements) == sorted(
        (Relation.EXACT, Relation.CONTAINED, Relation.UNLABELLED)
    )
    (charged,) = (a for a in grounded.agreements if a.relation is own.agreements[0].relation)
    np.testing.assert_array_equal(charged.cost, own.agreements[0].cost)
    assert found.notes == (
        f"constraint {family!r} replaces the label consistency ({family}) that the model has learned",
    )
    assert found.constraints.digest != joined(LEARNED, []).constraints.digest


def test_all_families_declared_leave_nothing_of_the_learned_ones() -> None:
    entries = declared(*(template(family, {}) for family in CONSISTENCY_FAMILIES))
    found = joined(LEARNED, [entries])
    assert found.constraints is entries
    assert len(found.notes) == 3


def test_an_entry_for_some_types_is_charged_on_top_and_told() -> None:
    found = joined(LEARNED, [declared(template("consistent", {"name": "people", "labels": ("PER",)}))])
    assert found.constraints.names == (*CONSISTENCY_FAMILIES, "people")
    (note,) = found.notes
    assert note.startswith("constraint 'people' is charged on top of the label consistency (consistent)")
    off = LabelConsistency(LEARNED.counts, Scales(0.0, 0.5, 0.5))
    assert joined(off, [declared(template("consistent", {"name": "people"}))]).notes == ()
