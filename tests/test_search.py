"""What is special to each search engine; what all engines share is in `test_engines`."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from concord.schemas.arrays import Floats
from concord.schemas.decoded import Budget, Decoded, Status
from concord.schemas.document import Batch, Document
from concord.schemas.labels import Labels, LabelSet, Scheme
from concord.schemas.potentials import Potentials
from concord.schemas.problem import ANY, LinearRows, Problem
from concord.schemas.settings import EngineSettings
from concord.testing.problems import (
    LABEL_SETS,
    all_labellings,
    enumerate_best,
    local_scores,
    naive_keys,
    random_agreement,
    random_labelling,
    random_potentials,
    random_problem,
    random_rows,
    random_words,
)
from concord.workers.constraints.declared import DeclaredConstraints
from concord.workers.constraints.templates.order import PresencePrecedence
from concord.workers.inference.chains import constrained_viterbi
from concord.workers.inference.core.agreement import codec
from concord.workers.inference.core.chain import viterbi
from concord.workers.inference.core.engine import UNLIMITED, document_rng
from concord.workers.inference.core.incumbent import Search
from concord.workers.inference.core.prepared import Prepared
from concord.workers.inference.registry import SOLVERS
from concord.workers.inference.search import astar, beam, discrepancy
from concord.workers.inference.search.partial import Partial, chain_loss, expand, pop, push, start_partial
from concord.workers.inference.settings import (
    AstarSettings,
    BeamSettings,
    DiscrepancySettings,
    TwoStageSettings,
)
from concord.workers.inference.two_stage import engine as two_stage
from concord.workers.inference.two_stage.price import Band
from concord.workers.inference.two_stage.violations import Violations, most_degrees
from concord.workers.papers.canisius import csp
from concord.workers.papers.canisius.settings import CspSettings
from concord.workers.papers.stokman import anytime, evolution
from concord.workers.papers.stokman.incremental_score import evaluate, incremental_score
from concord.workers.papers.stokman.settings import AnytimeSettings, EvolutionSettings
from concord.workers.papers.stokman.variation import DRAWS, breed
from tests.support.made_problems import all_rows
from tests.support.seeds import over_seeds

SEARCHES = ("discrepancy", "evolution", "anytime", "astar", "beam", "csp")


def small(seed: int, *, rows: bool = True, agreements: bool = True) -> Problem:
    return random_problem(np.random.default_rng(seed), labels=LABEL_SETS[seed % 4], rows=rows, agreements=agreements)


def long(seed: int, tokens: int = 80) -> Problem:
    """Like the oracle's random problems, but too long to enumerate."""
    rng = np.random.default_rng(seed)
    labels = LABEL_SETS[seed % 4]
    words, starts = random_words(rng, tokens)
    potentials, kept = random_potentials(rng, labels, starts, tokens)
    rows = LinearRows.join([random_rows(rng, labels, kept, starts, tokens) for _ in range(5)])
    rows = replace(rows, constraint=np.arange(len(rows), dtype=np.int32))
    spans = labels.spans(kept, starts)
    agreement = random_agreement(rng, labels, naive_keys(words, starts.tolist(), 2), len(rows), spans)
    return Problem(potentials, labels, tuple(f"c{i}" for i in range(len(rows) + 1)), rows, (agreement,))


def all_losses(problem: Problem) -> tuple[Labels, Floats]:
    """Every labelling (M, N), and how far its objective is below the local optimum (M,)."""
    labellings = all_labellings(len(problem), len(problem.labels))
    local = local_scores(problem.potentials, labellings)
    loss = np.full(len(labellings), np.inf)
    for i in np.flatnonzero(np.isfinite(local)):
        loss[i] = local.max() - problem.score(labellings[i]).objective
    return labellings, loss


def started(problem: Problem) -> Partial:
    top = problem.potentials.score(viterbi(problem.potentials))
    start = start_partial(Prepared.of(problem), chain_loss(Prepared.of(problem)), top=top, limit=np.inf)
    assert start is not None
    return start


def run(engine: str, problem: Problem, budget: Budget) -> Decoded:
    solver = SOLVERS[engine]
    return solver.solve(problem, config=solver.settings(), rng=document_rng(0, "doc"), budget=budget)


@over_seeds()
def test_the_loss_of_a_prefix_is_admissible_and_exact_at_the_end(seed: int) -> None:
    problem = small(seed)
    labellings, loss = all_losses(problem)
    partial = started(problem)
    rng = np.random.default_rng(seed)
    losses = np.zeros(len(problem.labels))
    last = 0.0
    for t in range(len(problem)):
        expand(partial, t, losses)
        for b in range(len(losses)):
            fits = (labellings[:, : t + 1] == [*partial.labels[:t], b]).all(axis=1)
            assert losses[b] <= loss[fits].min() + 1e-9
            assert losses[b] >= last - 1e-9
            if t + 1 == len(problem):
                assert losses[b] == pytest.approx(loss[fits].min(), abs=1e-9)
        open_labels = np.flatnonzero(np.isfinite(losses))
        if not len(open_labels):
            return
        chosen = int(rng.choice(open_labels))
        last = losses[chosen]
        push(partial, t, chosen)


@over_seeds()
def test_taking_a_decision_back_restores_everything(seed: int) -> None:
    problem = small(seed)
    partial = started(problem)
    watched = (partial.activity, partial.cost, partial.spans.counts, partial.spans.holders, partial.spans.total)
    labels = random_labelling(
        np.random.default_rng(seed), problem.labels, problem.potentials.sentence_starts, len(problem)
    )
    states = []
    for t, label in enumerate(labels):
        states.append([a.copy() for a in watched])
        push(partial, t, label)
    for t in reversed(range(len(labels))):
        pop(partial, t)
        for now, then in zip(watched, states[t], strict=True):
            np.testing.assert_array_equal(now, then)


def test_the_row_bound_sees_what_can_no_longer_be_reached() -> None:
    """A label that must appear costs nothing while a token is open, and its weight once none is."""
    labels = LabelSet.infer(["a", "b"])
    at = np.arange(3, dtype=np.int32)
    must = LinearRows(
        np.array([0, 3]), at, np.full(3, ANY, np.int32), np.ones(3, np.int32), -np.ones(3),
        np.array([-1.0]), np.array([2.0]), np.zeros(1, np.int32),
    )  # fmt: skip
    potentials = Potentials(np.zeros((3, 2)), np.zeros((2, 2)), np.array([0]))
    partial = started(Problem(potentials, labels, ("must",), must))
    losses = np.zeros(2)
    for t, wanted in enumerate(([0.0, 0.0], [0.0, 0.0], [2.0, 0.0])):
        expand(partial, t, losses)
        np.testing.assert_allclose(losses, wanted)
        push(partial, t, 0)


@over_seeds()
def test_discrepancy_widens_until_it_is_exact(seed: int) -> None:
    problem = small(seed)
    config = DiscrepancySettings(branching=1, token_multiplier=1e-3, iteration_multiplier=2.0)
    decoded = discrepancy.solve(problem, config=config, rng=document_rng(0, ""))
    assert decoded.certified
    assert decoded.objective == pytest.approx(enumerate_best(problem)[1])


@pytest.mark.parametrize("engine", SEARCHES)
def test_bounds_hold_whenever_the_budget_ends(engine: str) -> None:
    for seed in range(12):
        problem = small(seed)
        best = enumerate_best(problem)[1]
        for work in range(0, 12, 2):
            decoded = run(engine, problem, Budget(work=work))
            assert decoded.bound >= best - 1e-9
            assert decoded.objective <= best + 1e-9


@pytest.mark.parametrize("engine", SEARCHES)
def test_a_work_budget_gives_the_same_bytes_and_is_kept(engine: str) -> None:
    for seed in range(4):
        problem = long(seed)
        first, second = (run(engine, problem, Budget(work=2000)) for _ in range(2))
        assert first.labels.tobytes() == second.labels.tobytes()
        assert (first.bound, first.work, first.status) == (second.bound, second.work, second.status)
        assert [i[1:] for i in first.improvements] == [i[1:] for i in second.improvements]
        # Evolution finishes its start and its generation, a beam its descent.
        assert first.work <= 2000 + 50 + len(problem)
        assert first.objective >= problem.score(viterbi(problem.potentials)).objective


@pytest.mark.parametrize("engine", ["discrepancy", "astar"])
def test_more_work_never_loosens_what_is_proven(engine: str) -> None:
    problem = long(5, tokens=40)
    gaps = [run(engine, problem, Budget(work=work)).gap for work in (10, 100, 1000, 10_000)]
    assert all(b <= a + 1e-9 for a, b in pairwise(gaps))


def test_exact_searches_agree_where_nothing_can_be_enumerated() -> None:
    for seed in range(8):
        problem = long(seed, tokens=14)
        answers = [run(engine, problem, UNLIMITED) for engine in ("discrepancy", "astar", "cpsat")]
        assert [a.status for a in answers] == [Status.OPTIMAL, Status.OPTIMAL, Status.BY_SOLVER]
        assert max(a.objective for a in answers) - min(a.objective for a in answers) < 1e-5


def test_astar_gives_up_when_its_queue_is_full() -> None:
    problem = long(1, tokens=200)
    decoded = astar.solve(problem, config=AstarSettings(nodes=1), rng=document_rng(0, ""))
    wide = astar.solve(problem, config=AstarSettings(work=5000), rng=document_rng(0, ""))
    assert decoded.status is Status.TIMEOUT
    assert decoded.bound >= wide.bound - 1e-9
    assert wide.bound >= wide.objective


def test_a_beam_as_wide_as_the_tree_is_exact() -> None:
    for seed in range(12):
        problem = small(seed)
        decoded = beam.solve(problem, config=BeamSettings(width=20_000), rng=document_rng(0, ""))
        assert decoded.certified
        assert decoded.objective == pytest.approx(enumerate_best(problem)[1])


def test_a_narrow_beam_says_what_it_lost() -> None:
    proofs = []
    for seed in range(40):
        problem = small(seed)
        best = enumerate_best(problem)[1]
        decoded = beam.solve(problem, config=BeamSettings(width=1), rng=document_rng(0, ""))
        assert decoded.bound >= best - 1e-9
        assert (not decoded.certified) or decoded.objective == pytest.approx(best)
        proofs.append(decoded.certified)
    assert 0 < sum(proofs) < len(proofs)


def test_anytime_chooses_by_length() -> None:
    problem = long(2)
    config = AnytimeSettings(tokens=len(problem), evolution=EvolutionSettings(work=900))
    budget = Budget(work=900)
    for tokens, engine in ((len(problem), "discrepancy"), (len(problem) - 1, "evolution")):
        chosen = anytime.solve(
            problem, config=config.model_copy(update={"tokens": tokens}), rng=document_rng(0, "doc"), budget=budget
        )
        same = run(engine, problem, budget)
        assert (chosen.work, chosen.bound) == (same.work, same.bound)
        assert [i[1:] for i in chosen.improvements] == [i[1:] for i in same.improvements]
    assert AnytimeSettings().tokens == 60


@over_seeds()
def test_a_walk_evaluates_as_the_problem_scores(seed: int) -> None:
    problem = small(seed)
    rng = np.random.default_rng(seed)
    starts = problem.potentials.sentence_starts
    current = incremental_score(Prepared.of(problem), random_labelling(rng, problem.labels, starts, len(problem)))
    for _ in range(20):
        labels = random_labelling(rng, problem.labels, starts, len(problem))
        local, soft, hard = evaluate(current, labels)
        score = problem.score(labels)
        assert local == pytest.approx(score.local)
        assert (hard > 0) == np.isinf(score.penalty)
        if hard == 0:
            assert soft == pytest.approx(score.penalty, abs=1e-9)


@pytest.mark.parametrize("labels", LABEL_SETS, ids=lambda s: "-".join(s.names))
def test_offspring_stay_legal_and_differ(labels: LabelSet) -> None:
    rng = np.random.default_rng(0)
    words, starts = random_words(rng, 30)
    problem = Problem(Potentials(np.zeros((len(words), len(labels))), np.zeros((len(labels),) * 2), starts), labels)
    legal = problem.potentials.legal(labels)
    population = np.stack([random_labelling(rng, labels, starts, len(words)) for _ in range(30)])
    for _ in range(20):
        offspring = np.empty_like(population)
        breed(codec(problem), population, rng.random((30, DRAWS)), np.array([0.5, 0.5]), offspring)
        assert np.isfinite([legal.score(child) for child in offspring]).all()
        assert (offspring[:, None] != population[None]).any(axis=2).all(axis=1).any()
        population = offspring


def test_linear_ranking_prefers_the_fit_by_the_pressure() -> None:
    """Eq. 66: with pressure s the best of μ is expected s times as often as by chance, the worst 2 − s times."""
    fitness = np.array([3.0, -np.inf, 7.0, 5.0])
    spins = (np.arange(1000) + 0.5) / 1000
    for pressure in (1.0, 1.5, 2.0):
        drawn = np.concatenate([evolution.sample_by_rank(fitness, 4, pressure=pressure, spin=float(s)) for s in spins])
        share = np.bincount(drawn, minlength=4) / 1000
        rank = np.array([1, 0, 3, 2])
        np.testing.assert_allclose(share, 2 - pressure + 2 * rank * (pressure - 1) / 3, atol=0.01)


def test_evolution_finds_what_takes_a_hard_constraint_to_leave() -> None:
    found = 0
    for seed in range(20):
        problem = small(seed)
        decoded = evolution.solve(problem, config=EvolutionSettings(work=3000), rng=document_rng(0, ""))
        found += decoded.objective >= enumerate_best(problem)[1] - 1e-9
    assert found >= 16


def fixed_rows(position: int, label: int, *, must: bool) -> LinearRows:
    sign = -1.0 if must else 1.0
    one = np.zeros(1, np.int32)
    return LinearRows(
        np.array([0, 1]), one + np.int32(position), one + np.int32(ANY), one + np.int32(label), np.array([sign]),
        np.array([min(0.0, sign)]), np.array([np.inf]), one,
    )  # fmt: skip


@over_seeds()
def test_constrained_viterbi_is_exact_with_fixed_and_forbidden_labels(seed: int) -> None:
    rng = np.random.default_rng(seed)
    plain = random_problem(rng, labels=LABEL_SETS[seed % 4], tokens=4, rows=False, agreements=False)
    size = len(plain.labels)
    rows = LinearRows.join(
        [
            fixed_rows(1, int(rng.integers(size)), must=True),
            fixed_rows(3, int(rng.integers(size)), must=False),
        ]
    )
    problem = Problem(plain.potentials, plain.labels, ("fixed",), rows)
    best = enumerate_best(problem)[1]
    decoded = constrained_viterbi.solve(problem, config=EngineSettings(), rng=rng)
    assert decoded.objective == pytest.approx(best)
    assert decoded.status is (Status.OPTIMAL if np.isfinite(best) else Status.INFEASIBLE)


@over_seeds()
def test_nothing_that_keeps_the_hard_rows_is_struck_out(seed: int) -> None:
    problem = small(seed, agreements=False)
    edges = constrained_viterbi.allowed_edges(problem)
    labellings, _ = all_losses(problem)
    for labels in labellings:
        if np.isfinite(problem.score(labels).objective):
            before = np.concatenate([[0], labels[:-1]])
            assert edges[np.arange(len(labels)), before, labels].all()


def test_a_row_strikes_once_its_other_positions_are_decided() -> None:
    """y_0 must be b; at most one b in all: so y_1 and y_2 cannot be b."""
    labels = LabelSet.infer(["a", "b"])
    at = np.arange(3, dtype=np.int32)
    one = LinearRows(
        np.array([0, 3]), at, np.full(3, ANY, np.int32), np.ones(3, np.int32), np.ones(3),
        np.array([1.0]), np.array([np.inf]), np.zeros(1, np.int32),
    )  # fmt: skip
    unary = np.array([[0.0, -1.0], [0.0, 2.0], [0.0, 3.0]])
    problem = Problem(
        Potentials(unary, np.zeros((2, 2)), np.array([0])),
        labels,
        ("rows",),
        LinearRows.join([one, fixed_rows(0, 1, must=True)]),
    )
    decoded = constrained_viterbi.solve(problem, config=EngineSettings(), rng=document_rng(0, ""))
    assert decoded.labels.tolist() == [1, 0, 0]
    assert decoded.certified


@over_seeds()
def test_csp_is_exact_over_its_candidates(seed: int) -> None:
    problem = small(seed)
    config = CspSettings(candidates=2, margin=6.0)
    best = viterbi(problem.potentials)
    domain = csp.candidates(chain_loss(Prepared.of(problem)).loss, best, most=2, margin=6.0)
    labellings, loss = all_losses(problem)
    inside = domain[np.arange(len(problem)), labellings].all(axis=1)
    decoded = csp.solve(problem, config=config, rng=document_rng(0, ""))
    assert domain.sum(axis=1).max() <= 3
    top = problem.potentials.score(best)
    assert top - decoded.objective == pytest.approx(loss[inside].min(), abs=1e-9)
    assert top - decoded.bound <= loss.min() + 1e-9


def charged_once(problem: Problem, labellings: Labels) -> Floats:
    """What labellings (M, N) cost where a broken row costs its weight however badly it breaks, an entry at a time."""
    rows, alone = problem.rows, replace(problem, rows=LinearRows.none())
    activity = np.zeros((len(labellings), len(rows)))
    for e, r in enumerate(rows.row_of_entry.tolist()):
        t = rows.position[e]
        before = rows.previous[e] == ANY or labellings[:, t - 1] == rows.previous[e]
        activity[:, r] += rows.coefficient[e] * (before & (labellings[:, t] == rows.label[e]))
    costs = np.where(activity > rows.bound + 1e-6, rows.weight, 0.0).sum(axis=1)
    others: list[float] = [alone.score(y).penalty for y in labellings] if problem.agreements else [0.0]
    return np.asarray(costs + others)


def by_degree(problem: Problem, labellings: Labels) -> Floats:
    return np.array([problem.score(y).penalty for y in labellings])


READINGS = {"degree": by_degree, "once": charged_once}
readings = pytest.mark.parametrize("reading", READINGS)


def near_best(problem: Problem, tau: float, reading: str) -> tuple[float, float]:
    """Least penalty near the local optimum, and the best local score with it, by enumeration."""
    labellings = all_labellings(len(problem), len(problem.labels))
    local = local_scores(problem.potentials, labellings)
    possible = np.isfinite(local)
    penalty = np.full(len(local), np.inf)
    penalty[possible] = READINGS[reading](problem, labellings[possible])
    allowance = (1.0 - tau) * (local.max() - local[possible].min())
    loss = local.max() - local
    near = loss <= max(allowance, loss[np.isfinite(penalty)].min()) + 1e-9
    least = float(penalty[near].min())
    return least, float(local[near & (penalty <= least + 1e-9)].max())


@readings
@over_seeds()
def test_two_stage_solves_its_programme_and_penalty_never_rises_as_tau_falls(seed: int, reading: str) -> None:
    problem = small(seed)
    penalties = []
    for tau in (1.0, 0.95, 0.7, 0.0):
        config = TwoStageSettings.model_validate({"tau": tau, "violations": reading})
        decoded = two_stage.solve(problem, config=config, rng=document_rng(0, ""))
        penalty, local = near_best(problem, tau, reading)
        charged = float(READINGS[reading](problem, decoded.labels[None])[0])
        assert charged == pytest.approx(penalty, abs=1e-5)
        assert decoded.local == pytest.approx(local, abs=1e-5)
        assert decoded.status in (Status.OPTIMAL, Status.FEASIBLE)
        penalties.append(charged)
    assert all(b <= a + 1e-6 for a, b in pairwise(penalties))


@readings
def test_prices_prove_answers_of_two_stages_and_bound_the_rest(reading: str) -> None:
    proven = pruned = 0
    for seed in range(40):
        problem = all_rows(seed)
        labellings = all_labellings(len(problem), len(problem.labels))
        local = local_scores(problem.potentials, labellings)
        search = Search(problem, budget=UNLIMITED, incumbent=None)
        if search.objective == -np.inf or search.closed:
            continue
        labellings, local = labellings[local >= local.max() - 25.0], local[local >= local.max() - 25.0]
        penalty = READINGS[reading](problem, labellings)
        for width in (1.0, 5.0, 25.0):
            violations = Violations(search.problem, once=reading == "once")
            band = Band(search, violations, search.viterbi, width, 1e-6)
            band.narrow()
            near = np.flatnonzero(local >= local.max() - width)
            least = penalty[near].min()
            assert band.floor <= least + 1e-6
            assert band.best.loss <= width + 1e-6
            assert band.best.penalty >= least - 1e-6
            if band.proven:
                proven += 1
                best = local[near[penalty[near] <= least + 1e-6]].max()
                assert band.best.penalty == pytest.approx(least, abs=1e-5)
                assert local.max() - band.best.loss == pytest.approx(best, abs=1e-5)
                continue
            allowed = band.allowed()
            pruned += not allowed[np.isfinite(problem.potentials.unary)].all()
            for y in labellings[near[penalty[near] <= band.best.penalty]]:
                assert allowed[np.arange(len(y)), y].all()
    assert proven > 4
    assert pruned > 5


@readings
@over_seeds()
def test_two_stage_solves_its_programme_over_rows_alone(seed: int, reading: str) -> None:
    problem = all_rows(100 + seed)
    for tau in (0.97, 0.9, 0.6, 0.0):
        config = TwoStageSettings.model_validate({"tau": tau, "violations": reading})
        decoded = two_stage.solve(problem, config=config, rng=document_rng(0, ""))
        penalty, local = near_best(problem, tau, reading)
        assert READINGS[reading](problem, decoded.labels[None]) == pytest.approx(penalty, abs=1e-5)
        assert decoded.local == pytest.approx(local, abs=1e-5)
        assert decoded.status in (Status.OPTIMAL, Status.FEASIBLE)


def test_a_row_that_breaks_badly_costs_once_or_by_its_degree() -> None:
    """Three B before two A: once two nats, by degree six."""
    labels = LabelSet(("A", "B"), Scheme.PLAIN)
    batch = Batch.of([Document.build("d", [["x"] * 5])])
    declared = DeclaredConstraints((PresencePrecedence(first=("A",), second=("B",), weight=1.0),))
    ground = declared.ground(batch, labels)[0]
    potentials = Potentials(np.zeros((5, 2)), np.zeros((2, 2)), np.array([0]))
    problem = Prepared(potentials, labels, declared.names, ground.rows, ground.agreements)
    y = np.array([1, 1, 1, 0, 0], np.int32)
    assert Violations(problem, once=False).penalty(y) == 6.0
    assert Violations(problem, once=True).penalty(y) == 2.0


@over_seeds()
def test_no_labelling_has_a_higher_degree_than_is_reckoned(seed: int) -> None:
    problem = all_rows(300 + seed)
    most = most_degrees(problem.rows)
    for y in all_labellings(len(problem), len(problem.labels)):
        assert (problem.rows.degree(y) <= np.maximum(most, 0.0) + 1e-9).all()


def test_two_stage_at_one_is_viterbi_whatever_the_sign_of_the_scores() -> None:
    costly = 0
    for seed in range(25):
        problem = small(seed)
        best = viterbi(problem.potentials)
        if np.isinf(problem.score(best).penalty):
            continue
        costly += problem.score(best).penalty > 0
        for shift in (-50.0, 0.0, 50.0):
            p = problem.potentials
            shifted = Problem(
                Potentials(p.unary + shift, p.transition, p.sentence_starts),
                problem.labels,
                problem.constraint_names,
                problem.rows,
                problem.agreements,
            )
            decoded = two_stage.solve(shifted, config=TwoStageSettings(tau=1.0), rng=document_rng(0, ""))
            np.testing.assert_array_equal(decoded.labels, best)
    assert costly >= 5
