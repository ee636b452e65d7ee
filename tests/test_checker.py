"""The checker alone: what it says of every labelling under made-up prices, how it rounds, and what it refuses."""

from __future__ import annotations

import dataclasses
import itertools
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import pytest

from concord.schemas.arrays import Floats
from concord.schemas.labels import Labels, LabelSet, Scheme
from concord.schemas.potentials import Potentials
from concord.schemas.problem import ANY, SLACK_TOLERANCE, LinearRows, Problem, Relation, SpanAgreement
from concord.testing.problems import EVERY_SET, all_labellings, local_scores, naive_keys, random_problem
from concord.workers.certificates import checker
from concord.workers.certificates.checker import (
    COUNTED,
    MOST,
    Alive,
    CertificateError,
    IntegerProblem,
    Item,
    ProofReader,
    RolePrices,
    check,
)
from tests.support.made_up_proofs import UNIT, accepts, belongs, made_up_stage
from tests.support.oracle import naive_spans
from tests.support.seeds import over_seeds

X = LabelSet(("O", "x"), Scheme.PLAIN)
ALMOST = 1 << 12
"""Units that the sums of floats in an objective may be off: 4e-9 nats."""
NONE: RolePrices = ({}, {})


class Labelling(NamedTuple):
    """A labelling with its objective in units, and the items that it is made of."""

    labels: Labels
    units: int
    items: list[Item]


def has_rows(seed: int) -> bool:
    """Every label set has problems with rows, and twice as many without."""
    return seed // 6 % 3 == 0


def small_problem(seed: int) -> Problem:
    """At most 250 labellings; agreements in most."""
    labels = EVERY_SET[seed % len(EVERY_SET)]
    tokens = {1: 6, 2: 6, 3: 5, 4: 4, 5: 3}[len(labels)]
    return random_problem(np.random.default_rng(seed), labels=labels, tokens=tokens, rows=has_rows(seed))


def labellings_of(problem: Problem) -> list[Labelling]:
    found = all_labellings(len(problem), len(problem.labels))
    starts = problem.potentials.sentence_starts.tolist()
    made = []
    for labels in found[np.isfinite(local_scores(problem.potentials, found))]:
        objective = problem.score(labels).objective
        if objective == -np.inf:
            continue
        items: list[Item] = [(a, b, kind) for a, b, kind in naive_spans(labels, problem.labels, starts)]
        items += [(t, t + 1, -1) for t in np.flatnonzero(problem.labels.type_of[labels] < 0).tolist()]
        made.append(Labelling(labels, int(objective * UNIT), items))
    return made


def survives(ground: IntegerProblem, alive: Alive, labelling: Labelling) -> bool:
    """Are all its items alive, each with the label that it has at its first token?"""
    opens, outside = ground.first[: ground.spans].reshape(ground.ways, -1).T, ground.first[ground.spans :]
    return all(
        ground.cells(alive, item)[(opens[item[2]] if item[2] >= 0 else outside) == labelling.labels[item[0]]].all()
        for item in labelling.items
    )


def check_bound(ground: IntegerProblem, alive: Alive, prices: RolePrices, labellings: list[Labelling]) -> None:
    """No labelling scores more than the bound, and none is struck out by a limit that it exceeds."""
    units = sorted({labelling.units for labelling in labellings})
    for limit in (score - 1 - ALMOST for score in units[:: max(1, len(units) // 3)]):
        total, left = ground.narrowed(alive, prices, limit)
        for labelling in labellings:
            assert total >= labelling.units - ALMOST
            assert survives(ground, left, labelling) or labelling.units <= limit + ALMOST, labelling.labels


def one_labelling(unary: Floats, transition: float = 0.0, *, rows: LinearRows | None = None) -> Problem:
    """All tokens are x; nothing else is possible."""
    scores = np.stack([np.full(len(unary), -np.inf), unary], axis=1)
    potentials = Potentials(scores, np.full((2, 2), transition), np.zeros(1, np.int64))
    return Problem(potentials, X, ("row",), rows or LinearRows.none())


def one_row(coefficients: Floats, bound: float, weight: float) -> LinearRows:
    """Σ coefficient · 1[y_t = x] ≤ bound."""
    n = len(coefficients)
    return LinearRows(
        np.array([0, n], np.int64),
        np.arange(n, dtype=np.int32),
        np.full(n, ANY, np.int32),
        np.ones(n, np.int32),
        coefficients,
        np.array([bound]),
        np.array([weight]),
        np.zeros(1, np.int32),
    )


def exactly(*nats: float) -> Fraction:
    """The sum in units, without rounding."""
    return sum((Fraction(x) for x in nats), Fraction(0)) * UNIT


@over_seeds()
def test_scores_are_rounded_up_and_by_less_than_a_unit_each(seed: int) -> None:
    rng = np.random.default_rng(seed)
    unary, transition = rng.normal(0.0, 3.0, 6), float(rng.normal())
    ground = IntegerProblem(one_labelling(unary, transition))
    total, _ = ground.narrowed(ground.everything, NONE, 0)
    assert 0 <= total - exactly(*unary.tolist(), *[transition] * 5) < 11


@over_seeds()
def test_rows_are_rounded_in_favour_of_every_labelling(seed: int) -> None:
    rng = np.random.default_rng(seed)
    unary, coefficients, bound = np.zeros(6), rng.normal(0.0, 1.0, 6), float(rng.normal())
    ground = IntegerProblem(one_labelling(unary, rows=one_row(coefficients, bound, 5.0)))
    # So few units that the row's tolerance is far less than one.
    for multiplier in rng.integers(1, 1000, 10).tolist():
        total, _ = ground.narrowed(ground.everything, ({0: multiplier}, {}), 0)
        excess = sum(map(Fraction, coefficients.tolist()), Fraction(0)) - Fraction(bound)
        assert 0 <= total + multiplier * excess < 8


@pytest.mark.parametrize("multiplier", [1, 2, 3, 1001])
def test_the_bound_of_a_row_is_rounded_up(multiplier: int) -> None:
    ground = IntegerProblem(one_labelling(np.zeros(6), rows=one_row(np.ones(6), 0.5, 5.0)))
    total, _ = ground.narrowed(ground.everything, ({0: multiplier}, {}), 0)
    assert 0 <= total + multiplier * Fraction(11, 2) < 1


def test_a_row_within_its_tolerance_costs_nothing() -> None:
    thirds = np.full(3, (1.0 + 0.9 * SLACK_TOLERANCE) / 3.0)
    problem = one_labelling(np.zeros(3), rows=one_row(thirds, 1.0, np.inf))
    assert problem.score(np.ones(3, np.int32)).objective == 0.0
    ground = IntegerProblem(problem)
    assert ground.narrowed(ground.everything, ({0: MOST}, {}), 0)[0] >= 0


@over_seeds(stay=20, many=600)
def test_rows_counted_exactly_bound_every_labelling_and_prove_the_best(seed: int) -> None:
    """Whatever the multipliers and prices; without agreement the bound is the best labelling's score."""
    rng, labels = np.random.default_rng(seed), EVERY_SET[seed % len(EVERY_SET)]
    problem = random_problem(
        rng,
        labels=labels,
        tokens={1: 6, 2: 6, 3: 5, 4: 4, 5: 3}[len(labels)],
        agreements=seed // 6 % 3 == 0,
        infeasible=seed % 11 == 0,
        own_edges=seed % 4 == 0,
    )
    ground, labellings = IntegerProblem(problem), labellings_of(problem)
    best = max((labelling.units for labelling in labellings), default=-MOST)
    prices = ground.repriced(ProofReader(made_up_stage(rng, ground)), NONE)
    bound = ground.counted(ground.everything, prices, -MOST)
    assert bound >= best - ALMOST
    if not labellings or problem.agreements:
        assert labellings or problem.agreements or bound == -MOST
        return
    assert bound <= best + ALMOST
    for limit in (best - UNIT, best - 1 - ALMOST, best + ALMOST):
        assert (
            max(limit, best) - ALMOST <= ground.counted(ground.everything, prices, limit) <= max(limit, best + ALMOST)
        )
    assert accepts(problem, best / UNIT, [0, COUNTED])
    assert not accepts(problem, best / UNIT - 1e-4, [0, COUNTED])


def test_a_row_without_entries_is_counted_too() -> None:
    problem = one_labelling(np.zeros(3), rows=one_row(np.zeros(0), -2.0, 1.5))
    assert problem.score(np.ones(3, np.int32)).objective == -3.0
    assert accepts(problem, -3.0, [0, COUNTED])
    assert not accepts(problem, -3.1, [0, COUNTED])


def test_a_walk_of_too_many_states_proves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checker, "MOST_STATES", 1)
    refused = 0
    for seed in range(6):
        ground = IntegerProblem(random_problem(np.random.default_rng(seed), tokens=4, agreements=False))
        try:
            ground.counted(ground.everything, NONE, -MOST)
        except CertificateError as error:
            refused += "states" in str(error)
    assert refused > 0


@over_seeds()
def test_penalties_are_rounded_down(seed: int) -> None:
    rng = np.random.default_rng(seed)
    labels = LabelSet.bio(["PER", "ORG"])
    cost = float(rng.uniform(0.1, 2.0))
    starts = np.array([0, 1], np.int64)
    unary = np.full((2, 5), -np.inf)
    unary[0, labels.opening[0]] = unary[1, labels.opening[1]] = 0.0
    agreement = SpanAgreement(0, Relation.EXACT, naive_keys([4, 4], [0, 1], 1), cost * (1.0 - np.eye(2)))
    problem = Problem(
        Potentials(unary, np.zeros((5, 5)), starts).legal(labels), labels, ("e",), LinearRows.none(), (agreement,)
    )
    ground, units = IntegerProblem(problem), int(exactly(cost))
    # At most none of the first role; or one, and the second role is charged a unit more than they cost.
    boxes = [0, 0, -1, 1 << 50, 0, -1, 0, units + 1]
    group = [0, 0, 2, 0, 1, 0, 4 * UNIT, 1, 2, 1, 4 * UNIT, *boxes]
    total, _ = ground.narrowed(ground.everything, ground.repriced(ProofReader([0, 1, *group]), NONE), 0)
    assert 0 <= total + exactly(cost) < 2


def grown(weight: float) -> Problem:
    """Two tokens that are x for 3 nats each, or one of them for 3 nats, under Σ x ≤ 1."""
    unary = np.array([[0.0, 3.0], [0.0, 3.0]])
    potentials = Potentials(unary, np.zeros((2, 2)), np.zeros(1, np.int64))
    return Problem(potentials, X, ("row",), one_row(np.ones(2), 1.0, weight))


def test_a_multiplier_is_within_its_rows_weight() -> None:
    # The best is 5 nats, both tokens x; a multiplier of 3 would bound it by 3.
    assert accepts(grown(1.0), 5.0, [1, 1, 0, UNIT, 0, -1])
    with pytest.raises(CertificateError, match="multiplier above its weight"):
        check(grown(1.0), 3.0, [1, 1, 0, 3 * UNIT, 0, -1])
    with pytest.raises(CertificateError, match="multiplier above its weight"):
        check(grown(1.0), 5.0, [1, 1, 0, UNIT + 1, 0, -1])


def test_a_multiplier_is_not_below_zero() -> None:
    # At least one of two tokens that each lose 3 nats as x: nothing may be gained by a row that holds by far.
    problem = grown(1.0)
    with pytest.raises(CertificateError, match="not one of 0 to"):
        check(problem, 6.0, [1, 1, 0, -UNIT, 0, -1])


def test_both_branches_are_asked_for() -> None:
    # Without x at the first token the best is 3 nats, and 5 with it.
    without, having = [0, -1], [1, 1, 0, UNIT, 0, -1]
    assert accepts(grown(1.0), 5.0, [0, 0, 1, *without, *having])
    assert accepts(grown(1.0), 5.0, [0, 0, 0, *having, *without])
    for label in (0, 1):
        assert not accepts(grown(1.0), 3.0, [0, 0, label, *without])


@pytest.mark.parametrize("beyond", [1e-5, 1e-4, 1e-3])
def test_a_bound_just_below_the_optimum_is_refused(beyond: float) -> None:
    problem = one_labelling(np.array([1.0, 2.0]))
    assert accepts(problem, 3.0, [0, -1])
    assert not accepts(problem, 3.0 - beyond, [0, -1])


def test_scores_of_any_size_are_summed_without_rounding() -> None:
    assert accepts(one_labelling(np.full(5, 2.0**17)), 5.0 * 2.0**17, [0, -1])
    assert not accepts(one_labelling(np.full(5, 2.0**17)), 5.0 * 2.0**17 - 1e-5, [0, -1])
    with pytest.raises(CertificateError, match="too large"):
        check(one_labelling(np.full(1, 1e10)), 1e6, [0, -1])
    rows = one_row(np.array([1e9, -1e9]), 0.0, np.inf)
    assert accepts(one_labelling(np.zeros(2), rows=rows), 0.0, [1, 1, 0, MOST, 0, -1])
    assert not accepts(one_labelling(np.zeros(2), rows=rows), -1e-5, [1, 1, 0, MOST, 0, -1])


def test_problems_that_the_bound_does_not_cover_are_refused() -> None:
    labels, starts = LabelSet.bio(["PER"]), np.array([0], np.int64)
    unary = np.zeros((2, 3))
    key = naive_keys([1, 1], [0], 1)
    legal = Potentials(unary, np.zeros((3, 3)), starts).legal(labels)
    forbidden = Potentials(unary, np.zeros((3, 3)), starts)
    below = SpanAgreement(0, Relation.EXACT, key, np.full((1, 1), -1.0))
    paid = one_row(np.ones(2), 1.0, -1.0)
    before = one_row(np.ones(2), 1.0, 1.0)
    before.previous[:] = 0
    none = LinearRows.none()
    for problem, fault in (
        (Problem(legal, labels, ("c",), none, (below,)), "a penalty below 0"),
        (Problem(legal, labels, ("c",), paid), "a penalty below 0"),
        (Problem(legal, labels, ("c",), before), "a label before a sentence"),
        (Problem(forbidden, labels, ("c",)), "what the label set forbids"),
    ):
        with pytest.raises(CertificateError, match=fault):
            check(problem, 0.0, [0, -1])


def test_what_is_charged_once_is_charged_once() -> None:
    """Places left out for sure are charged to sentences, all others to groups; see that no labelling pays twice."""
    labels, words = LabelSet.bio(["PER"]), [1, 2, 1, 2, 1, 2]
    starts = np.array([0, 2, 4], np.int64)
    key = naive_keys(words, starts.tolist(), 2)
    for per_token, open_ in itertools.product((False, True), repeat=2):
        unary = np.zeros((6, 3))
        unary[4:, 1:] = 0.0 if open_ else -np.inf
        agreement = SpanAgreement(0, Relation.UNLABELLED, key, np.full((1, 1), 0.7), per_token=per_token)
        potentials = Potentials(unary, np.zeros((3, 3)), starts).legal(labels)
        problem = Problem(potentials, labels, ("left out",), LinearRows.none(), (agreement,))
        ground, rng = IntegerProblem(problem), np.random.default_rng(0)
        labellings = labellings_of(problem)
        for _ in range(20):
            prices = ground.repriced(ProofReader(made_up_stage(rng, ground)), NONE)
            check_bound(ground, ground.everything, prices, labellings)


def test_a_place_that_is_left_out_for_sure_is_not_charged_by_its_group_again() -> None:
    # One word twice: a PER for sure, and left out for sure, which costs 0.7 nats.
    labels, key = LabelSet.bio(["PER"]), naive_keys([0, 0], [0, 1], 1)
    unary = np.array([[-np.inf, 0.0, -np.inf], [0.0, -np.inf, -np.inf]])
    potentials = Potentials(unary, np.zeros((3, 3)), np.array([0, 1], np.int64)).legal(labels)
    agreement = SpanAgreement(0, Relation.UNLABELLED, key, np.full((1, 1), 0.7))
    problem = Problem(potentials, labels, ("left out",), LinearRows.none(), (agreement,))
    members = [2, 0, 1, 0, 2 * UNIT, 1, 2, -1, 2 * UNIT]
    boxes = [1, 0, -1, 0, 2 * UNIT, -1, int(exactly(0.7)), 2 * UNIT]
    proof = [1, 0, 1, 0, int(key[0, 0]), *members, *boxes, -1]
    assert accepts(problem, -0.7, proof)
    assert not accepts(problem, -0.8, proof)


def test_a_bound_that_is_no_number_is_refused() -> None:
    with pytest.raises(CertificateError, match="a bound of nan nats"):
        check(grown(1.0), float("nan"), [0, -1])


def faulty(**changes: list[int]) -> list[int]:
    """A proof for two tokens of one word with one fault."""
    whole = {
        "stages": [1],
        "rows": [0],
        "head": [1, 0, 0],
        "members": [2, 0, 1, 0, UNIT, 1, 2, 1, UNIT],
        "boxes": [-1, 0, 0],
        "end": [-1],
    }
    return [n for part in (whole | changes).values() for n in part]


@pytest.mark.parametrize(
    ("proof", "fault"),
    [
        ([], "ends after 0 numbers"),
        (faulty(end=[]), "ends after"),
        (faulty(end=[-1, 0]), "1 numbers too many"),
        (faulty(end=[5, 0, 0, -1, 0, -1]), "is 5, not one of -2 to 1"),
        (faulty(stages=[-1]), "is -1, not one of 0 to"),
        (faulty(head=[1, 7, 0]), "is 7, not one of 0 to 0"),
        (faulty(head=[1, 0, 3]), "no part in group 3"),
        (faulty(rows=[1, 0, 5]), "number"),
        (faulty(members=[2, 0, 1, 0, UNIT, 0, 1, 0, UNIT]), "is there twice"),
        (faulty(members=[2, 0, 1, 0, UNIT, 9, 10, 1, UNIT]), "no part in group"),
        (faulty(members=[2, 0, 2, 0, UNIT, 1, 2, 1, UNIT]), "no part in group"),
        (faulty(members=[2, 0, 1, 0, 1 << 62, 1, 2, 1, UNIT]), "not one of 0 to"),
        (faulty(members=[2, 0, 1, 0, -1, 1, 2, 1, UNIT]), "not one of 0 to"),
        (faulty(boxes=[2, 0]), "is 2, not one of -1 to 1"),
    ],
)
def test_a_faulty_proof_is_named(proof: list[int], fault: str) -> None:
    labels = LabelSet.bio(["PER", "ORG"])
    starts = np.array([0, 1], np.int64)
    key = naive_keys([4, 4], starts.tolist(), 1)
    potentials = Potentials(np.array([[0.0, 2.0, 0, 1, 0], [0.0, 1, 0, 2.0, 0]]), np.zeros((5, 5)), starts)
    agreement = SpanAgreement(0, Relation.EXACT, key, 3.0 * (1.0 - np.eye(2)))
    problem = Problem(potentials.legal(labels), labels, ("exact",), LinearRows.none(), (agreement,))
    with pytest.raises(CertificateError, match=fault):
        check(problem, 4.0, proof)
    with pytest.raises(CertificateError, match="too high"):
        check(problem, 2.0, faulty())


def taken(ground: IntegerProblem, items: list[Item]) -> list[int]:
    """A stage with prices so high that every group takes all of the items, and bounds of that which are exact."""
    price, groups = 1 << 58, list[list[int]]()
    for table, keys in enumerate(ground.tables):
        for key in np.unique(keys[keys >= 0]).tolist():
            roles = {item: ground.role(table, key, item)[1] for item in items if belongs(ground, table, key, item)}
            places, boxes = sorted(set(roles.values())), list[int]()
            for place, role in enumerate(places):
                fewer = [price if other == role else 0 for other in places]
                boxes += [place, list(roles.values()).count(role) - 1, -1, *fewer]
            members = [n for item in roles for n in (*item, price)]
            groups.append([table, key, len(roles), *members, *boxes, -1, *[0] * len(places)])
    return [0, len(groups), *itertools.chain(*groups)]


def test_groups_that_take_a_labelling_charge_no_more_than_it_pays() -> None:
    tight = tried = 0
    for seed in range(90):
        if has_rows(seed):
            continue
        problem = small_problem(seed)
        for labelling in labellings_of(problem)[::60]:
            unary = np.full_like(problem.potentials.unary, -np.inf)
            chosen = np.arange(len(problem)), labelling.labels
            unary[chosen] = problem.potentials.unary[chosen]
            only = dataclasses.replace(problem, potentials=dataclasses.replace(problem.potentials, unary=unary))
            ground = IntegerProblem(only)
            prices = ground.repriced(ProofReader(taken(ground, labelling.items)), NONE)
            total, _ = ground.narrowed(ground.everything, prices, 0)
            assert total >= labelling.units - ALMOST
            tight, tried = tight + (total <= labelling.units + ALMOST), tried + 1
    assert tight > 0.5 * tried > 40, (tight, tried)


@pytest.mark.parametrize("per_token", [False, True])
def test_two_words_pay_once_for_their_pair_or_once_a_token(per_token: bool) -> None:
    labels, starts = LabelSet.bio(["PER", "ORG"]), np.array([0, 2], np.int64)
    unary = np.full((4, 5), -np.inf)
    unary[np.arange(4), [1, 2, 3, 4]] = 0.0
    agreement = SpanAgreement(
        0, Relation.EXACT, naive_keys([4, 5, 4, 5], [0, 2], 2), 1.0 - np.eye(2), per_token=per_token
    )
    potentials = Potentials(unary, np.zeros((5, 5)), starts).legal(labels)
    problem = Problem(potentials, labels, ("e",), LinearRows.none(), (agreement,))
    ground = IntegerProblem(problem)
    prices = ground.repriced(ProofReader(taken(ground, [(0, 2, 0), (2, 4, 1)])), NONE)
    assert ground.narrowed(ground.everything, prices, 0)[0] == -UNIT * (2 if per_token else 1)


@pytest.mark.parametrize("longer", [0, 1])
def test_a_part_pays_by_its_own_type_and_that_of_the_span_around_it(longer: int) -> None:
    # Two words are a span of one type, and the first of them elsewhere one of the other: 0.25 or 0.75 nats.
    labels, starts = LabelSet.bio(["PER", "ORG"]), np.array([0, 2], np.int64)
    shorter, unary = 1 - longer, np.full((3, 5), -np.inf)
    unary[np.arange(3), [labels.opening[longer], labels.inside[longer], labels.opening[shorter]]] = 0.0
    cost = np.array([[0.0, 0.25], [0.75, 0.0]])
    agreement = SpanAgreement(0, Relation.CONTAINED, naive_keys([4, 5, 4], [0, 2], 2), cost, per_token=False)
    potentials = Potentials(unary, np.zeros((5, 5)), starts).legal(labels)
    problem = Problem(potentials, labels, ("c",), LinearRows.none(), (agreement,))
    ground = IntegerProblem(problem)
    prices = ground.repriced(ProofReader(taken(ground, [(0, 2, longer), (2, 3, shorter)])), NONE)
    assert ground.narrowed(ground.everything, prices, 0)[0] == int(-cost[longer, shorter] * UNIT)


@over_seeds(stay=40, many=150)
def test_under_any_prices_the_bound_holds_of_each_item_and_of_what_is_left(seed: int) -> None:
    problem = small_problem(seed)
    labellings = labellings_of(problem)
    rng, ground = np.random.default_rng(seed), IntegerProblem(problem)
    alive, prices = ground.everything, NONE
    for _ in range(3):
        if not labellings:
            return
        check_bound(ground, alive, prices, labellings)
        limit = int(rng.choice([labelling.units for labelling in labellings])) - 1
        _, alive = ground.narrowed(alive, prices, limit)
        labellings = [labelling for labelling in labellings if labelling.units > limit + ALMOST]
        assert all(survives(ground, alive, labelling) for labelling in labellings)
        prices = ground.repriced(ProofReader(made_up_stage(rng, ground)), prices)
        check_bound(ground, alive, prices, labellings)
    token, label = int(rng.integers(len(problem))), int(rng.integers(len(problem.labels)))
    for has in (True, False):
        branch = ground.branched(alive, token, label, has=has)
        kept = [labelling for labelling in labellings if (labelling.labels[token] == label) == has]
        assert all(survives(ground, branch, labelling) for labelling in kept)
        check_bound(ground, branch, prices, kept)
