"""Every engine on what every template grounds to, and on random mixtures, against brute force."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from concord.schemas.decoded import Status
from concord.schemas.document import Document
from concord.schemas.labels import LabelSet
from concord.schemas.potentials import Potentials
from concord.schemas.problem import Problem
from concord.testing.problems import enumerate_best
from concord.workers.constraints.constraint_set import build_problem
from concord.workers.constraints.declared import DeclaredConstraints
from concord.workers.constraints.templates.template import Template
from concord.workers.inference.registry import SOLVERS
from tests.naive_templates import BIO, CASES, PLAIN
from tests.test_engines import EXACT, check_answer, run
from tests.test_templates import random_text, template

SHAPES = ((1,), (3,), (2, 1), (5,), (3, 2))
ALL = [
    (labels, name, i)
    for name, (_, *both) in CASES.items()
    for labels, cases in zip((BIO, PLAIN), both, strict=True)
    for i in range(len(cases))
]


def fields_of(labels: LabelSet, name: str, case: int) -> dict[str, Any]:
    _, for_bio, for_plain = CASES[name]
    return (for_bio if labels is BIO else for_plain)[case]


def problem_under(
    rng: np.random.Generator, labels: LabelSet, templates: tuple[Template, ...], lengths: tuple[int, ...]
) -> Problem:
    text = random_text(rng, labels, lengths)
    document = Document.build("d", [[word for word, _ in sentence] for sentence in text])
    unary = rng.normal(scale=1.5, size=(len(document), len(labels)))
    unary[rng.random(unary.shape) < 0.1] = -np.inf
    unary[:, 0] = np.where(np.isfinite(unary).any(axis=1), unary[:, 0], 0.0)
    transition = rng.normal(size=(len(labels),) * 2)
    local = Potentials(unary, transition, document.sentence_starts)
    return build_problem(document, local, labels, DeclaredConstraints(templates))


def judge(engine: str, problem: Problem) -> bool:
    """Checks the answer; was there a feasible labelling?"""
    best = enumerate_best(problem)[1]
    decoded = run(engine, problem)
    check_answer(problem, decoded, best)
    if engine in EXACT:
        assert decoded.certified if best > -np.inf else decoded.status is Status.INFEASIBLE
    return best > -np.inf


@pytest.mark.parametrize("engine", list(SOLVERS))
@pytest.mark.parametrize("weight", [0.7, "hard"])
def test_each_template_alone(engine: str, weight: float | str) -> None:
    rng = np.random.default_rng(11)
    for turn, (labels, name, case) in enumerate(ALL):
        declared = template(name, fields_of(labels, name, case), weight)
        judge(engine, problem_under(rng, labels, (declared,), SHAPES[turn % len(SHAPES)]))


def random_mixture(rng: np.random.Generator, labels: LabelSet) -> tuple[Template, ...]:
    """Two to five templates for `BIO` or `PLAIN`, hard and soft."""
    own = [entry for entry in ALL if entry[0] is labels]
    chosen = rng.choice(len(own), size=int(rng.integers(2, 6)), replace=False)
    mixed = []
    for i in chosen.tolist():
        weight = "hard" if rng.random() < 0.25 else float(rng.uniform(0.1, 3.0))
        mixed.append(template(own[i][1], fields_of(*own[i]) | {"name": f"c{i}"}, weight))
    return tuple(mixed)


@pytest.mark.parametrize("engine", list(SOLVERS))
def test_random_mixtures_of_hard_and_soft(engine: str) -> None:
    rng = np.random.default_rng(17)
    outcomes = []
    for turn in range(40):
        labels = (BIO, PLAIN)[turn % 2]
        mixture = random_mixture(rng, labels)
        outcomes.append(judge(engine, problem_under(rng, labels, mixture, SHAPES[turn % len(SHAPES)])))
    assert set(outcomes) == {True, False}
