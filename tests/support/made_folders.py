"""Whole runs over a made-up corpus in a moment: any engine, any label scheme, with every kind of column."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Self
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from concord.flows.commands import verify as flow
from concord.flows.labelling.sources import OpenModel
from concord.flows.runfolder.folder_output import FolderOutput
from concord.flows.runfolder.layout import STORE
from concord.flows.runfolder.runfolder import Sources, find_done, publish, write_sources
from concord.schemas.arrays import Floats
from concord.schemas.columns import table_from_documents
from concord.schemas.document import TOKENS, Batch, Document
from concord.schemas.labels import LabelSet, Scheme
from concord.schemas.potentials import Potentials
from concord.schemas.run import RunKey, RunSettings
from concord.workers.compiling.kept_digests import code_digest
from concord.workers.constraints.consistency import LabelConsistency, PairCounts
from concord.workers.constraints.constraint_set import Separable
from concord.workers.constraints.declared import DeclaredConstraints, JoinedConstraints
from concord.workers.constraints.templates.runs import AtMostRuns
from concord.workers.constraints.templates.template import Template, TokenTest
from concord.workers.constraints.templates.words import Lexicon
from concord.workers.corpus.plan import plan
from concord.workers.labelling.labelled import check_settings
from concord.workers.labelling.shard import label_shard
from concord.workers.storage.storage import FolderStorage

BIO = LabelSet.bio(["PER", "LOC"])
SCHEMES = {
    Scheme.BIO: BIO,
    Scheme.LOOSE: LabelSet(BIO.names, Scheme.LOOSE),
    Scheme.PLAIN: LabelSet(("O", "PER", "LOC"), Scheme.PLAIN),
}
WORDS = ("Ada", "Byron", "Basel", "said", "in", "1996", "the")
QUICK: dict[str, dict[str, object]] = {
    "gibbs": {"sweeps": 5},
    "annealed": {"sweeps": 5},
    "evolution": {"work": 300},
    "discrepancy": {"work": 300},
    "astar": {"work": 300},
    "beam": {"width": 4},
    "certify": {"sampler": {"sweeps": 5}, "rounds": 2},
    "two-stage": {"deterministic_seconds": 0.2},
    "cpsat": {"deterministic_seconds": 0.2},
    "ilp": {"deterministic_seconds": 0.2},
}
"""Options under which engines end soon, proven or not."""


@dataclass(frozen=True)
class WordModel:
    """Scores that depend on the word and its place in the sentence, so that mentions of one name disagree."""

    labels: LabelSet
    digest: str = "word-model"
    columns: tuple[str, ...] = (TOKENS,)

    def potentials(self, batch: Batch) -> Potentials:
        bounds = batch.sentence_bounds
        places = np.arange(batch.token_count) - np.repeat(bounds[:-1], np.diff(bounds))
        words = batch.columns[TOKENS].strings()
        size = len(self.labels)
        unary = [_scores(word, int(place) % 3, size) for word, place in zip(words, places, strict=True)]
        return Potentials(
            np.array(unary).reshape(-1, size), _scores("transition", 0, size * size).reshape(size, size), bounds[:-1]
        )


class FlatModel(WordModel):
    """A model that knows nothing: all labellings are equal."""

    def potentials(self, batch: Batch) -> Potentials:
        before = super().potentials(batch)
        return Potentials(before.unary * 0.0, before.transition * 0.0, before.sentence_starts)


@dataclass(frozen=True)
class CalibratedModel(WordModel):
    """A model with a temperature and an outside cost, as training learns them."""

    digest: str = "calibrated-model"
    temperature: float = 1.7
    outside_cost: float = 0.9

    def at(self, temperature: float) -> Self:
        return replace(self, temperature=temperature)

    def costing(self, outside_cost: float) -> Self:
        return replace(self, outside_cost=outside_cost)


@cache
def _scores(word: str, place: int, size: int) -> Floats:
    return np.random.default_rng([place, *word.encode()]).normal(size=size) * 1.5


def constraints_of(labels: LabelSet, *, impossible: bool = False) -> Separable:
    """Rows, and agreement where the scheme has spans that can be compared; or hard rows that the word 'the' breaks."""
    types = labels.types
    named = tuple(f"B-{kind}" for kind in types) if labels.scheme is not Scheme.PLAIN else types
    templates: list[Template] = [
        Lexicon(words=TokenTest(words=("1996",)), labels=("O",), weight=0.7, name="years are outside"),
        AtMostRuns(labels=named[:1], limit=1, weight=1.3, name="one run"),
    ]
    if impossible:
        templates += [
            Lexicon(words=TokenTest(words=("the",)), labels=(name,), weight=math.inf, name=f"the is {name}")
            for name in ("O", named[0])
        ]
    declared = DeclaredConstraints(tuple(templates)).bind(labels)
    if labels.scheme is Scheme.LOOSE:
        return declared
    counts = PairCounts(types, np.array([[9, 1], [1, 7]]), np.array([[5, 1], [2, 4]]), np.array([2, 3]))
    return JoinedConstraints((LabelConsistency(counts), declared))


def documents(count: int, seed: int) -> list[Document]:
    rng = np.random.default_rng(seed)
    made = []
    for i in range(count):
        words = [[WORDS[k] for k in rng.integers(0, len(WORDS) - 1, n)] for n in rng.integers(1, 6, 3).tolist()]
        gold = [["O"] * len(sentence) for sentence in words]
        made.append(Document.build(f"d{i}", words, labels=gold))
    return made


@dataclass(frozen=True)
class MadeRun:
    """A run's folder, and what it was made from."""

    out: Path
    model: WordModel
    constraints: Separable
    key: RunKey

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Makes `verify` find this model and these constraints, which no folder holds."""
        with (
            patch.object(flow, "open_model", lambda name, registry: OpenModel(self.model, Path(name))),
            patch.object(flow, "open_constraints", lambda opened, files, consistency: self.constraints),
        ):
            yield


def made_run(
    folder: Path,
    scheme: Scheme,
    *,
    model_class: type[WordModel] = WordModel,
    seed: int = 0,
    count: int = 4,
    impossible: bool = False,
    **settings: object,
) -> MadeRun:
    """A run of ``count`` documents in two shards and more, one row of which is a reject, in ``folder``."""
    model, constraints = model_class(SCHEMES[scheme]), constraints_of(SCHEMES[scheme], impossible=impossible)
    corpus, out = folder / "corpus", folder / "out"
    corpus.mkdir(parents=True)
    out.mkdir()
    made = documents(count, seed)
    if impossible:
        made.append(Document.build("hopeless", [["the", "Ada"]], labels=[["O", "O"]]))
    table = table_from_documents(made)
    bad = table.slice(0, 1).set_column(0, "doc_id", pa.array([None], pa.string()))
    half = count // 2
    pq.write_table(pa.concat_tables([table.slice(0, half), bad]), corpus / "a.parquet")
    pq.write_table(table.slice(half), corpus / "b.parquet")
    wanted = RunSettings.model_validate({"options": QUICK.get(str(settings.get("engine")), {})} | settings)
    key = RunKey(
        settings=check_settings(wanted), model=model.digest, constraints=constraints.digest, code=code_digest()
    )
    shards = plan(corpus)
    for shard in shards:
        label_shard(shard, model=model, constraints=constraints, key=key, store=FolderStorage(out / STORE))
    write_sources(FolderStorage(out), Sources(corpus=str(corpus), model="model", constraints=(), consistency=True))
    publish(FolderOutput(out), find_done(FolderOutput(out), shards, key), rules=constraints.strengths)
    return MadeRun(out, model, constraints, key)
