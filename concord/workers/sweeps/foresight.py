"""What a sweep file, its constraints and its corpora tell of cells that would fail: said before anything is trained."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from concord.schemas.document import Batch
from concord.schemas.labels import LabelSet
from concord.schemas.sweep import Cell
from concord.workers.constraints.rows import ConstraintError
from concord.workers.corpus.plan import plan
from concord.workers.corpus.shards import read_batch
from concord.workers.evaluation.measures import MEASURES, MeasureError, Pair
from concord.workers.models.folder import CONSTRAINTS_FILE, MANIFEST, parse_manifest
from concord.workers.models.saved_consistency import saved_consistency
from concord.workers.sweeps.cells import entry_of, rules_of
from concord.workers.sweeps.sweep_file import Sweep

UNDER_CROSS = "or say under `cross` which models and constraints go together"


class GoldLabels(NamedTuple):
    """Names of all gold labels of a corpus, and its first document with some; None where no document has any."""

    names: frozenset[str]
    first: Batch | None


def cell_mistakes(file: str, sweep: Sweep, cells: Sequence[Cell], digests: Mapping[str, str]) -> list[str]:
    """A line for each reason why cells of a sweep cannot be done.

    ``digests`` are those of the corpora, see `digests_of`. Raises `CorpusError` and `ModelError`.
    """
    gold = {name: gold_labels(place, digests[place]) for name, place in _judging(sweep).items()}
    gold_by_corpus = {name: gold_labels(c.train, digests[c.train]) for name, c in sweep.file.corpora.items() if c.train}
    mistakes = [
        *_unjudged(sweep, cells, gold),
        *_without_consistency(sweep, cells),
        *_unlearned(sweep, cells),
        *_unknown_labels(sweep, cells, gold_by_corpus),
    ]
    return [f"{file}: {mistake}" for mistake in mistakes]


def _judging(sweep: Sweep) -> dict[str, str]:
    """Place of the documents that judge, by corpus."""
    return {name: place for name, corpus in sweep.file.corpora.items() if (place := corpus.test or corpus.train)}


def _unjudged(sweep: Sweep, cells: Sequence[Cell], gold: Mapping[str, GoldLabels]) -> Iterator[str]:
    """Corpora that cannot judge: without gold labels, or without what a measure counts."""
    for name in dict.fromkeys(cell.corpus for cell in cells):
        first = gold[name].first
        if first is None or first.labels is None:
            yield f"corpus {name!r} has no gold labels to judge by: {_judging(sweep)[name]}"
            continue
        labels = LabelSet.infer(first.labels.values)
        right = labels.encode(first.labels.values)[first.labels.codes]
        for measure in sweep.file.measures:
            try:
                MEASURES[measure].items(Pair(first, labels, right, right))
            except MeasureError as error:
                yield f"corpus {name!r} cannot be judged by measure {measure!r}: {error}"


def _without_consistency(sweep: Sweep, cells: Sequence[Cell]) -> Iterator[str]:
    """Constraints that use a model's label consistency, on a model that has none."""
    for model, constraints in _pairs(sweep, cells):
        if sweep.file.constraints[constraints].consistency and not _is_consistent(sweep, model):
            there = sweep.file.models[model].folder is not None
            mend = "train it with label consistency" if there else "give the model `consistency: true`"
            yield (
                f"constraints {constraints!r} use the label consistency of their model, and model {model!r} learns "
                f"none: {mend}, {UNDER_CROSS}"
            )


def _is_consistent(sweep: Sweep, model: str) -> bool:
    entry = sweep.file.models[model]
    return bool(entry.consistency) if entry.folder is None else saved_consistency(Path(entry.folder)) is not None


def _unlearned(sweep: Sweep, cells: Sequence[Cell]) -> Iterator[str]:
    """Constraints that are those of a model, on a model that was learned without any."""
    for model, constraints in _pairs(sweep, cells):
        if sweep.file.constraints[constraints].learned and not _has_constraints(sweep, model):
            yield (
                f"constraints {constraints!r} are those that their model was learned under, and model {model!r} has "
                f"none: give its option `constraints` (trainers perceptron and codl), {UNDER_CROSS}"
            )


def _has_constraints(sweep: Sweep, model: str) -> bool:
    folder = sweep.file.models[model].folder
    if folder is None:
        return bool(getattr(sweep.trainers[model], "constraints", None))
    return (Path(folder) / CONSTRAINTS_FILE).is_file()


def _pairs(sweep: Sweep, cells: Sequence[Cell]) -> list[tuple[str, str]]:
    """Each model, and each entry of constraints that some cell puts on it."""
    return list(dict.fromkeys((cell.model, entry_of(sweep, cell.constraints)) for cell in cells))


def _unknown_labels(sweep: Sweep, cells: Sequence[Cell], gold_by_corpus: Mapping[str, GoldLabels]) -> Iterator[str]:
    """Constraints that name a label which their model cannot know; a cell of few documents may lack more of them."""
    for corpus, model, constraints in dict.fromkeys((cell.corpus, cell.model, cell.constraints) for cell in cells):
        declared = rules_of(sweep, constraints)
        if not declared.templates or sweep.file.constraints[entry_of(sweep, constraints)].known_labels_only:
            continue
        try:
            declared.bind(_labels_of(sweep, model, gold_by_corpus.get(corpus)))
        except ConstraintError as error:
            fault = "; ".join(str(error).splitlines())
            yield (
                f"constraints {constraints!r} do not fit the labels of model {model!r} on corpus {corpus!r}: {fault}; "
                f"mend them, say `known_labels_only: true`, {UNDER_CROSS}"
            )


def _labels_of(sweep: Sweep, model: str, gold: GoldLabels | None) -> LabelSet:
    """The labels that a model has, or learns from all documents of a corpus with the gold labels ``gold``."""
    folder = sweep.file.models[model].folder
    if folder is not None:
        return parse_manifest(Path(folder) / MANIFEST).label_set
    assert gold is not None, "the cells of a model that is trained have documents to learn from"
    further: tuple[str, ...] = getattr(sweep.trainers[model], "labels", ())
    return LabelSet.infer([*gold.names, *further])


@cache
def gold_labels(place: str, _digest: str) -> GoldLabels:
    """What a corpus of that digest has of gold labels. Raises `CorpusError`."""
    names, first = set[str](), None
    for shard in plan(place):
        batch, _ = read_batch(shard)
        if len(batch) and batch.labels is not None:
            names |= {batch.labels.values[code] for code in np.unique(batch.labels.codes)}
            first = first or Batch.of([batch.document(0)])
    return GoldLabels(frozenset(names), first)
