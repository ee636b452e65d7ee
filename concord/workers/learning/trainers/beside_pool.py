"""A chain that learns from unlabelled documents beside labelled ones, for trainers with `PoolSettings` (self-training).

A model of the labelled documents answers the pool. A sentence is learned from, with that answer for its labels, where
every other labelling of it is proven to score less by a margin, in nats. The margin is chosen by entity F1 on the last
fifth of the labelled documents, by models of those before and of the pool. A pool whose gain there is no larger than
its standard error is left out: nothing is learned from it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import wraps
from itertools import pairwise
from pathlib import Path

import numpy as np

from concord.schemas.arrays import Floats, Mask
from concord.schemas.blocks import Remark
from concord.schemas.document import Batch, Column, Document
from concord.schemas.errors import TrainingError
from concord.schemas.labels import Scheme
from concord.schemas.potentials import Potentials
from concord.schemas.settings import Validation
from concord.workers.evaluation.figures import f1_of_counts
from concord.workers.features.derived import needed_columns
from concord.workers.inference.core.chain import max_marginals, viterbi
from concord.workers.learning.search.folds import LATER_SHARE, held_out
from concord.workers.learning.search.trials import Trial, best_of
from concord.workers.learning.trainers.entity_counts import viterbi_counts
from concord.workers.learning.trainers.fit_stages import fit_stages
from concord.workers.learning.trainers.given_features import features_of
from concord.workers.learning.trainers.pool import unlabelled
from concord.workers.learning.trainers.trainer import Progress, Train, TrainingCounts, labels_of
from concord.workers.models.crf import CrfModel, load
from concord.workers.models.folder import begin, write_manifest
from concord.workers.models.model import Model
from concord.workers.models.settings import PoolSettings
from concord.workers.storage.scratch import scratch_folder

NOTHING = np.inf
"""The margin of which no sentence is sure enough."""

MARGINS = (NOTHING, 4.0, 2.0, 1.0)
"""Margins in nats that are tried."""

ONE_ERROR = 0.32
"""Two-sided p-value of a gain as large as its standard error."""

DOCUMENTS_AT_ONCE = 256
"""Documents of the pool that are answered together."""


def beside_pool(train: Train) -> Train:
    """The trainer; where its settings name a pool, it learns from that, too."""

    @wraps(train)
    def trained(
        documents: Iterable[Document], *, settings: PoolSettings, out: Path, progress: Progress | None = None
    ) -> Model:
        if settings.pool is None:
            return train(documents, settings=settings, out=out, progress=progress)
        return _train(train, list(documents), settings, out, progress)

    return trained


def _train(
    train: Train, documents: list[Document], settings: PoolSettings, out: Path, progress: Progress | None
) -> Model:
    pool, rejected = unlabelled(str(settings.pool))
    plain = settings.model_copy(update={"pool": None, "pool_margin": None})
    pool = _read_by(needed_columns(features_of(plain, documents)), pool)
    begin(out)
    count = 2 + len(MARGINS) * (settings.pool_margin is None)
    fits = _PoolFits(train, plain, fit_stages(progress, count, loss_of=count - 1))
    trials = [] if settings.pool_margin is not None else _tried(fits, documents, pool)
    best = best_margin(trials) if trials else None
    margin = settings.pool_margin if best is None else best.setting
    assert margin is not None  # it is given, or margins were tried
    sure = fits.sure_of(documents, pool, margin)
    model = fits.fit([*documents, *sure], out)
    figures = {
        **{f"pool_{name}": number for name, number in counted(pool).items()},
        "pool_rejected": rejected,
        "pool_margin": None if margin == NOTHING else margin,
        **{f"learned_{name}": number for name, number in counted(sure).items()},
        **({} if best is None else {"pool_f1": best.value, "pool_f1_without": trials[0].value}),
    }
    training = model.manifest.training | counted(documents) | figures
    update = {"training": training, "settings": settings.model_dump(mode="json")}
    write_manifest(out, model.manifest.model_copy(update=update))
    return load(out)


def _read_by(columns: tuple[str, ...], documents: Sequence[Document]) -> list[Document]:
    """Documents without labels, with the columns that the features read. Raises `TrainingError` for a missing one."""
    counts = TrainingCounts(columns)
    for document in documents:
        counts.unlabelled(document)
    return [
        replace(document, columns={name: document.columns[name] for name in columns}, labels=None)
        for document in documents
    ]


def best_margin(trials: Sequence[Trial[float]]) -> Trial[float]:
    """The trial of highest F1 whose gain over the first, of nothing, is beyond its standard error; else the first."""
    alone = trials[0]
    better = (trial for trial in trials if trial.value > alone.value)
    return best_of([alone, *(trial for trial in better if trial.gain(alone).p_value < ONE_ERROR)])


class _PoolFits:
    """Trainings of several models with the same settings."""

    def __init__(self, train: Train, settings: PoolSettings, stages: Iterator[Progress]) -> None:
        self._train, self._settings, self._stages = train, settings, stages

    def fit(self, documents: Sequence[Document], out: Path) -> CrfModel:
        """The model of some documents, saved as a folder."""
        model = self._train(documents, settings=self._settings, out=out, progress=next(self._stages))
        assert isinstance(model, CrfModel), "trainers with a pool make CRFs"
        return model

    def sure_of(self, documents: Sequence[Document], pool: Sequence[Document], margin: float) -> list[Document]:
        """The sentences of a pool that the model of some documents is sure of by a margin."""
        if margin == NOTHING:
            next(self._stages)  # of the model that is not needed
            return []
        with scratch_folder() as folder:
            return sure_sentences(self.fit(documents, folder / "first"), pool, margin)


def counted(documents: Sequence[Document]) -> dict[str, int]:
    """Numbers of documents, sentences and tokens."""
    sentences, tokens = sum(len(document.sentence_starts) for document in documents), sum(map(len, documents))
    return {"documents": len(documents), "sentences": sentences, "tokens": tokens}


def _tried(fits: _PoolFits, documents: Sequence[Document], pool: Sequence[Document]) -> list[Trial[float]]:
    """Each margin on the last documents, nothing first. Raises `TrainingError` where there are too few documents."""
    outside = held_out(documents, LATER_SHARE, Validation.LATER)
    inside = [document for document, out in zip(documents, outside, strict=True) if not out]
    judged = [document for document, out in zip(documents, outside, strict=True) if out]
    if not inside or not judged:
        raise TrainingError(f"{len(documents)} documents are too few to choose a margin; give --set pool_margin=2")
    labels, trials = labels_of(documents), list[Trial[float]]()
    with scratch_folder() as folder:
        first = fits.fit(inside, folder / "first")
        trials.append(Trial(NOTHING, viterbi_counts(first, judged, labels), f1_of_counts))
        for margin in MARGINS[1:]:
            sure = sure_sentences(first, pool, margin)
            model = fits.fit([*inside, *sure], folder / f"{margin:g}")
            trials.append(Trial(margin, viterbi_counts(model, judged, labels), f1_of_counts))
    return trials


def sure_sentences(model: CrfModel, pool: Sequence[Document], margin: float) -> list[Document]:
    """The sentences of a pool that the model answers with a proven margin, in nats.

    They are documents, in the order of the pool's, with the answers for gold labels.
    """
    sure = list[Document]()
    for start in range(0, len(pool), DOCUMENTS_AT_ONCE):
        batch = Batch.of(pool[start : start + DOCUMENTS_AT_ONCE])
        scores = model.potentials(batch).legal(model.labels)
        chosen = np.repeat(sentence_margins(scores) >= margin, np.diff(batch.sentence_bounds))
        answers = Column(viterbi(scores), model.labels.names, plain=model.labels.scheme is Scheme.PLAIN)
        ends = batch.doc_starts.tolist()
        parts = (slice(first, end) for first, end in pairwise(ends))
        sure += [
            _part(document, chosen[part], answers[part])
            for document, part in zip(batch, parts, strict=True)
            if chosen[part].any()
        ]
    return sure


def sentence_margins(scores: Potentials) -> Floats:
    """(S,) nats by which the best labelling of each sentence beats every other one; inf where there is no other.

    Another labelling differs at some token, and scores at most the max-marginal of its label there.
    """
    best_two = np.sort(max_marginals(scores), axis=1)[:, -2:]
    token = best_two[:, 1] - best_two[:, 0] if best_two.shape[1] == 2 else np.full(len(best_two), np.inf)
    return np.minimum.reduceat(token, scores.sentence_starts)


def _part(document: Document, chosen: Mask, labels: Column) -> Document:
    """The chosen tokens of a document, which are whole sentences, with labels of all its tokens."""
    starts = np.cumsum(chosen) - 1
    columns = {name: _column(column, chosen) for name, column in document.columns.items()}
    return Document(
        document.doc_id,
        starts[document.sentence_starts][chosen[document.sentence_starts]].astype(document.sentence_starts.dtype),
        columns,
        _column(labels, chosen),
    )


def _column(column: Column, chosen: Mask) -> Column:
    return Column(column.codes[chosen], column.values, column.plain)


def remarks(figures: Mapping[str, float]) -> Iterator[Remark]:
    """What was learned from a pool; nothing without one."""
    if "pool_sentences" not in figures:
        return
    sentences = f"pool: learned {figures['learned_sentences']:,.0f} of {figures['pool_sentences']:,.0f} sentences"
    margin = f", whose answers are proven by {figures['pool_margin']:g} nats" if "pool_margin" in figures else ""
    f1 = (
        f"; F1 on the last fifth of the documents {figures['pool_f1_without']:.2%} → {figures['pool_f1']:.2%}"
        if "pool_f1" in figures
        else ""
    )
    yield Remark(f"{sentences}{margin}{f1}")
