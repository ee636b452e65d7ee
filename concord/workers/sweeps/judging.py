"""Judging of a cell: labels its documents with its model, constraints and engine, and counts against gold.

A process that judges many cells reads documents, loads a model and scores with it once for all that follow each other.
"""

from __future__ import annotations

import time
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from concord.schemas.document import Batch, Document
from concord.schemas.errors import CorpusError, DocumentError
from concord.schemas.labels import LabelSet
from concord.schemas.potentials import Potentials
from concord.schemas.run import RunSettings
from concord.workers.constraints.beside_model import joined
from concord.workers.constraints.constraint_file import load_constraints
from concord.workers.constraints.constraint_set import Separable
from concord.workers.constraints.declared import DeclaredConstraints
from concord.workers.constraints.templates.template import Template
from concord.workers.evaluation.measures import Pair, by_document, suggested
from concord.workers.labelling.labelled import Labelled, check_there, label_batch
from concord.workers.labelling.warming import warm
from concord.workers.models.folder import CONSTRAINTS_FILE
from concord.workers.models.loaders import load_model
from concord.workers.models.model import LocalScores, Model, local_scores
from concord.workers.models.saved_consistency import saved_consistency
from concord.workers.sweeps.documents import Documents, changed, documents_of, model_digest_of, round_in
from concord.workers.sweeps.results import CellResult, MeasureCounts


class JudgingJob(NamedTuple):
    """A cell to judge.

    - ``key``: hexadecimal digits that name its content
    - ``model``: folder of its model
    - ``model_digest``: digest of a folder that was there, see `model_digest_of`; None for a model of the sweep
    - ``documents``: the documents, with gold labels
    - ``declared``: declared constraints
    - ``weights``: constraint file with their weights; None for those that they have
    - ``learned``: use the constraints that were learned with the model, in the place of declared ones?
    - ``consistency``: use the label consistency that was learned with the model?
    - ``known_only``: leave out constraints that name a label which the model has not learned?
    - ``settings``: engine, options, seed and budget
    - ``measures``: names of measures; none for those of the label scheme
    """

    key: str
    name: str
    model: Path
    model_digest: str | None
    documents: Documents
    declared: DeclaredConstraints
    weights: Path | None
    learned: bool
    consistency: bool
    known_only: bool
    settings: RunSettings
    measures: tuple[str, ...]


def judge(cell: JudgingJob) -> CellResult:
    """The result of a cell.

    Raises `CorpusError` for documents without gold labels, without a column that is read, or that have changed,
    `DocumentError` for one that cannot be labelled, `ModelError` and `ConstraintError`.
    """
    began = time.process_time()
    batch = _batch(cell.documents)
    model = _loaded(cell.model, cell.model_digest)
    candidates = _constraints_beside(cell.model) if cell.learned else cell.declared
    fitting = candidates.fitting(model.labels) if cell.known_only else candidates
    declared = fitting if cell.weights is None else load_constraints(cell.weights)
    constraints = _constraints(cell, declared, model.labels)
    there, corpus = tuple(batch.columns), cell.documents.place
    check_there(there, corpus, model=model, constraints=constraints, source=f"of {cell.name}")
    # A cold machine compiles for half a minute, which is no cost of the cell that comes first.
    templates = frozenset(map(type, declared.templates))
    needed = Kernels(cell.settings.engine, model.kind, templates, cell.consistency)
    began += _compile(needed, batch.document(0), model, constraints, cell.settings)
    labelled = label_batch(batch, model=model, constraints=constraints, settings=cell.settings)
    for place, reason in labelled.refused.items():
        raise DocumentError(reason, batch.doc_ids[place])
    pair = _pair(batch, labelled, model.labels)
    names = cell.measures or suggested(pair.labels, batch)
    measured = tuple(MeasureCounts(name, *by_document(name, pair)) for name in names)
    return CellResult(
        key=cell.key,
        name=cell.name,
        doc_ids=tuple(batch.doc_ids),
        measured=measured,
        objective=np.array([decoded.score.objective for decoded in labelled.decoded]),
        penalty=np.array([decoded.score.penalty for decoded in labelled.decoded]),
        gap=np.array([decoded.gap for decoded in labelled.decoded]),
        certified=np.array([decoded.certified for decoded in labelled.decoded], np.bool_),
        left_out=tuple(title for title in candidates.titles if title not in fitting.titles),
        cpu_seconds=sum(labelled.cpu_seconds),
        worker_cpu_seconds=time.process_time() - began,
    )


class Kernels(NamedTuple):
    """What decides which kernels a cell needs: engine, model, templates of its constraints, and label consistency."""

    engine: str
    model: type[Model]
    templates: frozenset[type[Template]]
    consistency: bool


COMPILED: set[Kernels] = set()
"""Kernels that this process has compiled, or loaded."""


def _compile(needed: Kernels, sample: Document, model: Model, constraints: Separable, settings: RunSettings) -> float:
    """Compiles kernels that this process has not; returns the CPU seconds of that."""
    if needed in COMPILED:
        return 0.0
    began = time.process_time()
    warm(sample, model=model, constraints=constraints, settings=settings)
    COMPILED.add(needed)
    return time.process_time() - began


def _pair(batch: Batch, labelled: Labelled, labels: LabelSet) -> Pair:
    """Gold labels, and those of the answers, as ids of one label set: gold may have labels that the model has not."""
    assert batch.labels is not None
    gold = batch.labels
    every = LabelSet.infer([*labels.names, *gold.values], plain=gold.plain)
    answers = np.concatenate([np.zeros(0, np.int32), *(decoded.labels for decoded in labelled.decoded)])
    return Pair(batch, every, every.encode(gold.values)[gold.codes], every.encode(labels.names)[answers])


@lru_cache(maxsize=2)
def _batch(documents: Documents) -> Batch:
    """The judged documents. Raises `CorpusError`."""
    read = documents_of(documents)
    if documents.fold is not None:
        read = [read[i] for i in round_in(documents, read).judged]
    batch = Batch.of(read)
    if not len(batch) or batch.labels is None:
        raise CorpusError(f"{documents.place}: no documents with gold labels to judge by")
    return batch


def _constraints(cell: JudgingJob, declared: DeclaredConstraints, labels: LabelSet) -> Separable:
    """The cell's constraints, bound to the labels of its model. Raises `ConstraintError`."""
    trained = saved_consistency(cell.model) if cell.consistency else None
    if cell.consistency and trained is None:
        raise CorpusError(f"{cell.model}: no label consistency was learned with this model; set 'consistency' on it")
    return joined(trained, [declared.bind(labels)] if declared.templates else []).constraints


def _constraints_beside(folder: Path) -> DeclaredConstraints:
    """The constraints of a model's folder, with their learned weights. Raises `CorpusError` where it has none."""
    if not (folder / CONSTRAINTS_FILE).is_file():
        raise CorpusError(f"{folder}: this model was not learned under constraints; use constraints with 'files'")
    return load_constraints(folder / CONSTRAINTS_FILE)


@lru_cache(maxsize=2)
def _loaded(folder: Path, digest: str | None) -> _ScoreMemory:
    """The model of a folder. Raises `ModelError`, and `CorpusError` where it has another digest than was planned."""
    model = load_model(folder)
    if digest is not None and model_digest_of(model, folder) != digest:
        raise changed(str(folder))
    return _ScoreMemory(model)


class _ScoreMemory:
    """A model that remembers the scores of the last batch, whose parts come again with every cell."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._scores: dict[tuple[str, str, int], LocalScores] = {}

    @property
    def kind(self) -> type[Model]:
        return type(self._model)

    @property
    def labels(self) -> LabelSet:
        return self._model.labels

    @property
    def digest(self) -> str:
        return self._model.digest

    @property
    def columns(self) -> tuple[str, ...]:
        return self._model.columns

    def potentials(self, batch: Batch) -> Potentials:
        return self.scores(batch).potentials

    def scores(self, batch: Batch) -> LocalScores:
        part = batch.doc_ids[0], batch.doc_ids[-1], batch.token_count
        if part not in self._scores:
            self._scores[part] = local_scores(self._model, batch)
        return self._scores[part]
