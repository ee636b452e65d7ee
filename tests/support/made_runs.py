"""Shards labelled in a moment, without Ray: a made-up model, its constraints, and the plain loop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa

from concord.schemas.arrays import Floats
from concord.schemas.columns import Reject
from concord.schemas.document import TOKENS, Batch
from concord.schemas.labels import LabelSet
from concord.schemas.potentials import Potentials
from concord.schemas.run import RunKey, RunSettings, ShardReport
from concord.testing.problems import impossible_rows
from concord.workers.constraints.consistency import LabelConsistency, PairCounts
from concord.workers.constraints.constraint_set import ConstraintSet, GroundConstraints, Unconstrained
from concord.workers.corpus.shards import Shard
from concord.workers.labelling.labelled import check_settings
from concord.workers.labelling.shard import label_shard
from concord.workers.storage.storage import FolderStorage
from concord.workers.synthesis.made_up import synthesize

LABELS = LabelSet.bio(["LOC", "MISC", "ORG", "PER"])


class HashModel:
    """Scores that depend on the word and its place in the sentence: mentions of one name disagree."""

    labels = LABELS
    digest = "hash-model"
    columns: tuple[str, ...] = ("tokens",)

    def potentials(self, batch: Batch) -> Potentials:
        bounds = batch.sentence_bounds
        places = np.arange(batch.token_count) - np.repeat(bounds[:-1], np.diff(bounds))
        words = batch.columns[TOKENS].strings()
        unary = [self._scores(word, int(place) % 3) for word, place in zip(words, places, strict=True)]
        return Potentials(np.array(unary), np.zeros((len(LABELS), len(LABELS))), batch.sentence_starts)

    @staticmethod
    @cache
    def _scores(word: str, place: int) -> Floats:
        return np.random.default_rng([place, *word.encode()]).normal(size=len(LABELS)) * 2


def consistency() -> LabelConsistency:
    return LabelConsistency(PairCounts.of(synthesize(10, seed=5, kind="news"), LABELS))


def key_of(constraints: ConstraintSet, **settings: object) -> RunKey:
    checked = check_settings(RunSettings.model_validate({"engine": "gibbs", "options": {"sweeps": 10}} | settings))
    return RunKey(settings=checked, model=HashModel.digest, constraints=constraints.digest, code="code")


def run(shards: Sequence[Shard], store: Path, key: RunKey, constraints: ConstraintSet) -> list[ShardReport]:
    return [
        label_shard(
            shard, model=HashModel(), constraints=constraints, key=key, store=FolderStorage(store)
        ).marker.report
        for shard in shards
    ]


def rejects_in(table: pa.Table) -> list[Reject]:
    """The inverse of `rejects_table`."""
    return [Reject(**row) for row in table.select(Reject._fields).to_pylist()]


@dataclass(frozen=True)
class Impossible(Unconstrained):
    """Hard rows that no labelling keeps."""

    names: tuple[str, ...] = ("impossible",)

    def ground(self, batch: Batch, labels: LabelSet) -> list[GroundConstraints]:
        return [GroundConstraints(impossible_rows(labels, len(document), 0), ()) for document in batch]
