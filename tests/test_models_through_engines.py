"""Potentials of learned models through every engine: what holds of made-up scores holds of theirs, by enumeration."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from concord.schemas.document import Batch, Document
from concord.schemas.labels import LabelSet
from concord.schemas.problem import Problem
from concord.schemas.settings import TrainerSettings
from concord.testing.templates import random_text
from concord.workers.constraints.declared import DeclaredConstraints
from concord.workers.corpus.ingestion import write_corpus
from concord.workers.inference.registry import SOLVERS
from concord.workers.learning.trainers.registry import TRAINERS
from concord.workers.models.model import Model, local_scores
from concord.workers.models.settings import HmmSettings, PerceptronSettings, SemiCrfSettings
from concord.workers.papers.canisius.settings import TrigramSettings
from concord.workers.papers.stokman.settings import Hmm2Settings
from tests.support.judged import Enumerated, judge
from tests.support.made_templates import random_mixture
from tests.support.naive_templates import BIO, PLAIN

LEARNED: dict[str, Callable[[str], TrainerSettings]] = {
    "hmm": lambda _: HmmSettings(),
    "hmm-soft": lambda pool: HmmSettings(pool=pool, em="soft", mixing="counts", weight=0.5),
    "hmm-hard": lambda pool: HmmSettings(pool=pool, em="hard", gamma=0.5),
    "hmm2": lambda _: Hmm2Settings(),
    "trigram": lambda _: TrigramSettings(k=2),
    "perceptron": lambda _: PerceptronSettings(features="core", passes=3),
    "perceptron-bilou": lambda _: PerceptronSettings(features="core", passes=3, scheme="bilou"),
    "perceptron-pairs": lambda _: PerceptronSettings(features="core+pairs:core", passes=3),
    "semicrf": lambda _: SemiCrfSettings(features="core", max_iterations=10),
    "semicrf-marginals": lambda _: SemiCrfSettings(features="core", max_iterations=10, scores="marginals"),
}
"""Settings, given the folder of a corpus without labels."""

SHAPES = ((4,), (2, 3), (5,), (1, 2))


def made_up(rng: np.random.Generator, labels: LabelSet, name: str, lengths: tuple[int, ...]) -> Document:
    """Random text whose spans begin as they should."""
    text = random_text(rng, labels, lengths)
    fields = [repaired([name for _, name in sentence]) for sentence in text]
    return Document.build(name, [[word for word, _ in sentence] for sentence in text], labels=fields)


def repaired(names: list[str]) -> list[str]:
    """An inside label that goes on with nothing begins a span."""
    fits = [a[1:] == b[1:] or not b.startswith("I-") for a, b in pairwise(["O", *names])]
    return [name if fit else "B" + name[1:] for name, fit in zip(names, fits, strict=True)]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, LabelSet], Model]:
    rng, base = np.random.default_rng(7), tmp_path_factory.mktemp("models")
    found = {}
    for labels in (BIO, PLAIN):
        documents = [made_up(rng, labels, f"d{i}", (5, 3)) for i in range(25)]
        pool = base / f"pool-{labels.scheme.value}"
        write_corpus(documents[15:], pool, source="test")
        for name, settings in LEARNED.items():
            if labels is PLAIN and name.endswith("bilou"):
                continue
            learn = TRAINERS[name.partition("-")[0]].train
            out: Path = base / f"{name}-{labels.scheme.value}"
            found[name, labels] = learn(documents[:15], settings=settings(str(pool)), out=out)
    return found


def problem_of(model: Model, labels: LabelSet, rng: np.random.Generator, lengths: tuple[int, ...]) -> Problem:
    batch = Batch.of([made_up(rng, labels, "d", lengths)])
    constraints = DeclaredConstraints(random_mixture(rng, labels))
    (problem,) = local_scores(model, batch).problems(batch, model.labels, constraints)
    return problem


@pytest.fixture(scope="module")
def problems(models: dict[tuple[str, LabelSet], Model]) -> list[Enumerated]:
    found = []
    for turn, ((_, labels), model) in enumerate(models.items()):
        assert set(model.labels.names) == set(labels.names)
        rng = np.random.default_rng(turn)
        found += [Enumerated.of(problem_of(model, labels, rng, lengths)) for lengths in SHAPES[turn % 2 :: 2]]
    return found


@pytest.mark.parametrize("engine", list(SOLVERS))
def test_every_engine_takes_every_model(engine: str, problems: list[Enumerated]) -> None:
    assert True in [judge(engine, enumerated) for enumerated in problems]
