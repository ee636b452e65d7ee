"""Every engine on what every template grounds to, and on random mixtures, against brute force."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from concord.schemas.document import Document
from concord.schemas.labels import LabelSet
from concord.schemas.potentials import Potentials
from concord.schemas.problem import Problem
from concord.testing.templates import random_text
from concord.workers.constraints.constraint_set import build_problem
from concord.workers.constraints.declared import DeclaredConstraints
from concord.workers.constraints.templates.template import Template
from concord.workers.inference.registry import SOLVERS
from tests.support.judged import Enumerated, judge
from tests.support.made_templates import ALL, fields_of, random_mixture, template
from tests.support.naive_templates import BIO, PLAIN

SHAPES = ((1,), (3,), (2, 1), (5,), (3, 2))


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


@cache
def alone(weight: float | str) -> list[Enumerated]:
    rng, found = np.random.default_rng(11), []
    for turn, (labels, name, case) in enumerate(ALL):
        declared = template(name, fields_of(labels, name, case), weight)
        found.append(Enumerated.of(problem_under(rng, labels, (declared,), SHAPES[turn % len(SHAPES)])))
    return found


@cache
def mixed() -> list[Enumerated]:
    rng, found = np.random.default_rng(17), []
    for turn in range(40):
        labels = (BIO, PLAIN)[turn % 2]
        mixture = random_mixture(rng, labels)
        found.append(Enumerated.of(problem_under(rng, labels, mixture, SHAPES[turn % len(SHAPES)])))
    return found


@pytest.mark.parametrize("engine", list(SOLVERS))
@pytest.mark.parametrize("weight", [0.7, "hard"])
def test_each_template_alone(engine: str, weight: float | str) -> None:
    for enumerated in alone(weight):
        judge(engine, enumerated)


@pytest.mark.parametrize("engine", list(SOLVERS))
def test_random_mixtures_of_hard_and_soft(engine: str) -> None:
    assert {judge(engine, enumerated) for enumerated in mixed()} == {True, False}
