"""Ground problems for benchmarks of engines: citations and news, scored and grounded once."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import common
import numpy as np
from corpora import documents_of, labelled_corpora

from concord.flows.labelling.sources import open_constraints, open_model
from concord.schemas.decoded import Decoded
from concord.schemas.document import Batch, Document
from concord.schemas.labels import Labels, LabelSet
from concord.schemas.problem import Problem
from concord.workers.constraints.constraint_file import load_constraints
from concord.workers.constraints.constraint_set import ConstraintSet, build_problems
from concord.workers.constraints.declared import DeclaredConstraints
from concord.workers.corpus.readers.citations import read_citations
from concord.workers.corpus.settings import CitationSettings
from concord.workers.inference.core.engine import document_rng
from concord.workers.inference.registry import SOLVERS
from concord.workers.labelling.report import with_gold
from concord.workers.learning.trainers import crfsuite
from concord.workers.models import crf
from concord.workers.models.model import Model
from concord.workers.models.settings import CrfSettings
from concord.workers.synthesis.made_up import synthesize

CORA = common.REAL / "cora"
SIZES, SUBSETS = (5, 10, 20), range(5)
"""Numbers of citations to learn from, and of subsets of 25 whose first they are."""
CITATION_CONSTRAINTS = common.ROOT / "concord" / "workers" / "published" / "tables" / "constraints" / "citations.yaml"
"""Rules of published tables: what is shipped are those of them that help."""


class Task(NamedTuple):
    """Documents with gold labels, ready to be decoded; ``labels`` may hold more names than the model's.

    ``score_seconds`` and ``ground_seconds`` are the CPU seconds that the model and the constraints took for all.
    """

    name: str
    problems: list[Problem]
    doc_ids: list[str]
    gold: list[Labels]
    labels: LabelSet
    score_seconds: float
    ground_seconds: float

    @property
    def tokens(self) -> int:
        """Tokens in all documents."""
        return sum(len(problem) for problem in self.problems)


class Measured(NamedTuple):
    """Answers of one engine on all citations, and each one's milliseconds."""

    decoded: list[Decoded]
    milliseconds: list[float]

    def accuracy(self, task: Task) -> float:
        """Share of tokens with the right field."""
        right = sum(int((d.labels == g).sum()) for d, g in zip(self.decoded, task.gold, strict=True))
        return right / task.tokens


def decode(task: Task, engine: str, **options: Any) -> Measured:
    """All citations by one engine."""
    solver = SOLVERS[engine]
    config = solver.settings.model_validate(options)
    decoded, milliseconds = [], []
    for problem, doc_id in zip(task.problems, task.doc_ids, strict=True):
        started = time.perf_counter()
        decoded.append(solver.solve(problem, config=config, rng=document_rng(0, doc_id)))
        milliseconds.append(1000.0 * (time.perf_counter() - started))
    return Measured(decoded, milliseconds)


class Citations(NamedTuple):
    """Training and development citations, and the model of the former."""

    name: str
    train: list[Document]
    dev: list[Document]
    model: Model
    constraints: DeclaredConstraints


def citations() -> Citations:
    """Cora's 300 and 100 where they are there, or made-up ones, with a CRF of the feature set ``fields``."""
    real = CORA.is_dir()
    if real:
        train, dev = documents_of("citations"), documents_of("citations-dev")
    else:
        train, dev = (list(synthesize(n, seed=seed, kind="citations")) for n, seed in ((300, 0), (100, 1)))
    folder = common.MADE / "models" / f"citations-{'cora' if real else 'made-up'}"
    if not (folder / "manifest.json").is_file():
        folder.parent.mkdir(parents=True, exist_ok=True)
        crfsuite.train(train, settings=CrfSettings(features="fields"), out=folder)
    model = crf.load(folder)
    constraints = load_constraints(CITATION_CONSTRAINTS).bind(model.labels)
    return Citations("Cora dev" if real else "made-up citations", train, dev, model, constraints)


def subset(k: int) -> list[Document]:
    """Subset k of 25 of Cora's training citations."""
    read = read_citations(str(CORA / f"citation_train.25.{k}.txt"), CitationSettings())
    return [document for document in read if isinstance(document, Document)]


def citation_task(found: Citations, constraints: ConstraintSet | None = None) -> Task:
    """The development citations under the rules of published tables, or others."""
    return ground(found.name, found.model, found.dev, found.constraints if constraints is None else constraints)


def news_task(model: Path | None, corpus: str | None, *, documents: int | None = None) -> Task:
    """testa (or made-up news) under the label consistency of the model; the first ``documents`` of it."""
    corpora = labelled_corpora() if corpus is None or model is None else None
    folder = common.trained_model("rich", corpora.train) if model is None and corpora else Path(str(model))
    opened = open_model(str(folder))
    place = corpora.test if corpus is None and corpora else str(corpus)
    found = [document for batch in common.batches(place) for document in batch][:documents]
    name = corpora.name if corpus is None and corpora else Path(str(place)).name
    return ground(name, opened.model, found, open_constraints(opened, [], consistency=True))


def ground(name: str, model: Model, documents: Sequence[Document], constraints: ConstraintSet) -> Task:
    """Scores and grounds documents, after a first time that loads kernels and fills word tables."""
    batch = Batch.of(documents)
    for _ in build_problems(batch, model.potentials(batch), model.labels, constraints):
        pass
    started = time.process_time()
    potentials = model.potentials(batch)
    scored = time.process_time()
    problems = list(build_problems(batch, potentials, model.labels, constraints))
    grounded = time.process_time()
    labels, gold = with_gold(model.labels, batch)
    golds = np.split(gold, batch.doc_starts[1:-1])
    return Task(name, problems, list(batch.doc_ids), golds, labels, scored - started, grounded - scored)
