"""Contract tests of engines, on problems that are small enough to try every labelling.

The problems are of every kind: each label set, under each relation of agreements alone, all of them or none, with rows
and without them.
"""

from __future__ import annotations

import warnings
from functools import cache
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from concord.schemas.decoded import Budget, Decoded, Status
from concord.schemas.labels import Labels
from concord.schemas.problem import Problem
from concord.testing.expect import expect, expect_near, expect_same
from concord.testing.problems import EVERY_RELATION, EVERY_SET, enumerate_best, random_labelling, random_problem
from concord.workers.inference.core.chain import viterbi
from concord.workers.inference.core.engine import UNLIMITED, Solver, document_rng
from concord.workers.inference.numerics import ROUNDING, TOLERANCE

MIXTURES = ((), *((relation,) for relation in EVERY_RELATION), EVERY_RELATION)
"""Relations of a problem's agreements: none, each alone, and all of them."""
PROBLEMS = len(EVERY_SET) * len(MIXTURES)
"""Problems of a check: one of each label set and mixture."""


def check_engine(solver: Solver, *, problems: int = PROBLEMS) -> None:
    """Runs all `ENGINE_CHECKS`, on so many random problems each. Raises `AssertionError` at a broken promise."""
    for check in ENGINE_CHECKS:
        check(solver, range(problems))


def problem_of(seed: int) -> Problem:
    """Random problem of a seed; any `PROBLEMS` seeds in turn have one of each label set and mixture, every second one
    with rows. In one of five each token has transitions of its own."""
    turn, number = divmod(seed, len(EVERY_SET))
    relations = MIXTURES[(number + turn) % len(MIXTURES)]
    rows = (turn + turn // len(MIXTURES)) % 2 == 0
    return random_problem(
        np.random.default_rng(seed),
        labels=EVERY_SET[number],
        rows=rows,
        agreements=bool(relations),
        relations=relations,
        own_edges=seed % 5 == 4,
    )


UNLIKE_FOLDED = (133, 179, 289)
"""Seeds of problems whose Viterbi labels score more than those of the folded problem (`core.folding`)."""


@cache
def _best_of(seed: int) -> tuple[Labels, float]:
    """`enumerate_best` of the problem of a seed: all checks of all engines try the same problems."""
    return enumerate_best(problem_of(seed))


def run(
    solver: Solver, problem: Problem, *, seed: int = 0, budget: Budget = UNLIMITED, incumbent: Labels | None = None
) -> Decoded:
    """The engine's answer with its default settings."""
    return solver.solve(
        problem, config=solver.settings(), rng=document_rng(seed, "doc"), budget=budget, incumbent=incumbent
    )


def check_answer(problem: Problem, decoded: Decoded, best: float) -> None:
    """Checks what must hold for each answer of any engine under any budget; ``best`` is the best objective in nats."""
    expect_same(decoded.labels.shape, (len(problem),), "a label a token")
    expect_same(decoded.labels.dtype, np.dtype(np.int32), "labels are int32")
    score = problem.score(decoded.labels)
    expect(np.isfinite(problem.potentials.score(decoded.labels)), "the answer is possible under the model")
    expect_same(decoded.local, score.local, "the local score is that of Problem.score")
    expect_same(decoded.penalty, score.penalty, "the penalty is that of Problem.score")
    expect_same(decoded.objective, score.objective, "the objective is that of Problem.score")
    expect_same(decoded.score.degree, score.degree, "degrees are those of Problem.score")
    expect_same(decoded.score.penalties, score.penalties, "penalties are those of Problem.score")
    expect(decoded.objective <= best + ROUNDING, f"an answer of {decoded.objective} nats, and the best has {best}")
    expect(decoded.bound >= best - ROUNDING, f"a bound of {decoded.bound} nats, and a labelling has {best}")
    expect(decoded.bound >= decoded.objective, "the bound is not below the answer")
    expect(decoded.gap >= 0, "the gap is not negative")
    expect(decoded.work >= 0, "work is not negative")
    if decoded.certified:
        expect_near(decoded.objective, best, TOLERANCE, "what is called optimal is the best")
    if decoded.status is Status.FEASIBLE:
        expect(np.isfinite(decoded.objective), "what is called feasible breaks nothing hard")
    if decoded.status is Status.INFEASIBLE:
        expect_same(best, -np.inf, "what is called infeasible has no labelling")
    rising = [improvement.objective for improvement in decoded.improvements]
    expect_same(rising, sorted(set(rising)), "each improvement is better than the one before")
    work = [improvement.work for improvement in decoded.improvements]
    expect_same(work, sorted(work), "work grows with the improvements")


def answers_keep_to_brute_force(solver: Solver, seeds: range) -> None:
    """No answer scores more than the best labelling, and no bound is below it."""
    for seed in seeds:
        problem = problem_of(seed)
        check_answer(problem, run(solver, problem), _best_of(seed)[1])


def exact_engines_prove_the_optimum(solver: Solver, seeds: range) -> None:
    """An exact engine finds the best labelling of each problem and proves it; other engines are not checked."""
    if not solver.exact:
        return
    for seed in seeds:
        problem = problem_of(1000 + seed)
        decoded = run(solver, problem)
        expect(decoded.certified, f"an exact engine proves its answer; not so for problem_of({1000 + seed})")
        expect_near(decoded.objective, _best_of(1000 + seed)[1], TOLERANCE, "an exact engine finds the best")
        expect(decoded.gap <= TOLERANCE, f"an exact engine leaves no gap, not {decoded.gap} nats")


def without_constraints_none_loses_to_viterbi(solver: Solver, seeds: range) -> None:
    """Without constraints, an engine that starts from the model's best labels answers with a best labelling."""
    for seed in seeds[:20]:
        labels = EVERY_SET[seed % len(EVERY_SET)]
        problem = random_problem(np.random.default_rng(seed), labels=labels, rows=False, agreements=False)
        decoded = run(solver, problem, incumbent=viterbi(problem.potentials))
        best = enumerate_best(problem)[1]
        expect_near(decoded.objective, best, TOLERANCE * max(1.0, abs(best)), "the best labels under the model alone")


def none_loses_to_viterbi(solver: Solver, seeds: range) -> None:
    """Whatever it starts from, an engine whose aim is the score answers with one that is no less than Viterbi's."""
    if solver.own_aim:
        return
    for seed in (*seeds, *UNLIKE_FOLDED):
        problem = problem_of(seed)
        least = problem.score(viterbi(problem.potentials)).objective
        rng = np.random.default_rng(seed)
        start = random_labelling(rng, problem.labels, problem.potentials.sentence_starts, len(problem))
        for incumbent, budget in product((None, start), (UNLIMITED, Budget(work=1))):
            nats = run(solver, problem, incumbent=incumbent, budget=budget).objective
            expect(nats >= least - ROUNDING, f"an answer of {nats} nats to problem_of({seed}), Viterbi's has {least}")


def one_token_is_enough(solver: Solver, seeds: range) -> None:
    """Documents of one token, which have no edge, are solved."""
    for seed in seeds[:12]:
        problem = random_problem(np.random.default_rng(seed), tokens=1, labels=EVERY_SET[seed % len(EVERY_SET)])
        check_answer(problem, run(solver, problem), enumerate_best(problem)[1])


def infeasible_sets_are_told(solver: Solver, seeds: range) -> None:
    """If no labelling keeps all hard constraints, no answer is feasible; an exact engine proves it.

    The labels of an exact engine are then those of Viterbi.
    """
    for seed in seeds[:12]:
        labels, rng = EVERY_SET[seed % len(EVERY_SET)], np.random.default_rng(seed)
        problem = random_problem(rng, labels=labels, infeasible=True, tokens=1 + seed % 5)
        decoded = run(solver, problem)
        check_answer(problem, decoded, -np.inf)
        expect_same(decoded.objective, -np.inf, "an answer that breaks what is hard scores −inf")
        expect(decoded.status not in (Status.OPTIMAL, Status.FEASIBLE), f"{decoded.status}, and nothing is feasible")
        if solver.exact:
            expect_same(decoded.status, Status.INFEASIBLE, "an exact engine proves that nothing is feasible")
            expect_same(
                decoded.labels, viterbi(problem.potentials), "the labels of an infeasible problem are Viterbi's"
            )


def the_same_seed_gives_the_same_bytes(solver: Solver, seeds: range) -> None:
    """All random choices come from ``rng``."""
    for seed in seeds[:12]:
        problem = problem_of(seed)
        first, second = run(solver, problem, seed=seed), run(solver, problem, seed=seed)
        expect_same(first.labels.tobytes(), second.labels.tobytes(), "the same labels for the same seed")
        same = [(answer.bound, answer.status, answer.work) for answer in (first, second)]
        expect_same(same[0], same[1], "the same bound, status and work for the same seed")
        steps = [[improvement[1:] for improvement in answer.improvements] for answer in (first, second)]
        expect_same(steps[0], steps[1], "the same improvements for the same seed")


def engines_without_chance_draw_nothing(solver: Solver, seeds: range) -> None:
    """An engine that says it has no ``chance`` leaves ``rng`` as it is, so that every seed gives the same answer."""
    if solver.chance:
        return
    for seed in seeds[:24]:
        for budget in (UNLIMITED, Budget(work=1)):
            rng = document_rng(seed, "doc")
            before = rng.bit_generator.state
            solver.solve(problem_of(seed), config=solver.settings(), rng=rng, budget=budget, incumbent=None)
            expect_same(rng.bit_generator.state, before, "an engine without chance draws no numbers")


def an_incumbent_is_never_made_worse(solver: Solver, seeds: range) -> None:
    """An engine that is given a labelling answers with one that is at least as good, whatever the budget."""
    for seed in seeds[:24]:
        problem = problem_of(seed)
        best, value = _best_of(seed)
        decoded = run(solver, problem, incumbent=best.copy())
        check_answer(problem, decoded, value)
        expect_near(decoded.objective, value, ROUNDING, "given the best labelling, an engine keeps it")
        rng = np.random.default_rng(seed)
        start = random_labelling(rng, problem.labels, problem.potentials.sentence_starts, len(problem))
        decoded = run(solver, problem, incumbent=start, budget=Budget(work=1))
        floor = problem.score(start).objective
        expect(decoded.objective >= floor, f"given a labelling of {floor} nats, an answer of {decoded.objective}")


def a_tiny_budget_still_answers(solver: Solver, seeds: range) -> None:
    """With one unit of work, or hardly any time, there is still an answer, and a bound that holds."""
    for seed in seeds[:24]:
        problem = problem_of(seed)
        best = _best_of(seed)[1]
        check_answer(problem, run(solver, problem, budget=Budget(work=1)), best)
        check_answer(problem, run(solver, problem, budget=Budget(seconds=1e-4)), best)


def inputs_are_left_alone(solver: Solver, seeds: range) -> None:
    """An engine changes no array of its problem, which engines and processes share; warnings are errors."""
    for seed in seeds[3:4]:
        problem = problem_of(seed)
        start = viterbi(problem.potentials)
        arrays: list[NDArray[Any]] = [
            problem.potentials.unary,
            problem.potentials.transition,
            start,
            problem.rows.coefficient,
            problem.rows.bound,
        ]
        arrays += [array for agreement in problem.agreements for array in (agreement.key, agreement.cost)]
        before = [array.tobytes() for array in arrays]
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            run(solver, problem, incumbent=start)
        expect([array.tobytes() for array in arrays] == before, "an engine leaves its problem as it is")


ENGINE_CHECKS = (
    answers_keep_to_brute_force,
    exact_engines_prove_the_optimum,
    without_constraints_none_loses_to_viterbi,
    none_loses_to_viterbi,
    one_token_is_enough,
    infeasible_sets_are_told,
    the_same_seed_gives_the_same_bytes,
    engines_without_chance_draw_nothing,
    an_incumbent_is_never_made_worse,
    a_tiny_budget_still_answers,
    inputs_are_left_alone,
)
"""The single checks, each a function of a `Solver` and the numbers of problems."""
