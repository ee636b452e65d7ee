"""Choosing a trainer's settings by cross-validation: folds, counts, and what is tried."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from concord.schemas.document import TOKENS, Batch, Document
from concord.schemas.errors import TrainingError
from concord.schemas.labels import LabelSet
from concord.schemas.potentials import Potentials
from concord.schemas.settings import TrainerSettings, Validation
from concord.workers.evaluation.conlleval import EntityCounts
from concord.workers.features.clusters import Clusters, write_clusters
from concord.workers.inference.core.chain import viterbi
from concord.workers.learning.search.folds import fold_of, held_out, is_held_out, rounds
from concord.workers.learning.search.trials import Trial, best_of
from concord.workers.learning.trainers.selection import FOLDS, chosen_of, cross_validated, select
from concord.workers.learning.trainers.trainer import Progress
from concord.workers.models.settings import CrfSettings, PerceptronSettings, SgdSettings
from concord.workers.synthesis.made_up import synthesize
from tests.support.made_runs import LABELS

Share = Callable[[Any], float]


class Parrot:
    """Has learned gold labels by heart, but for a share of the tokens, which it leaves outside."""

    digest = "parrot"
    columns: tuple[str, ...] = ("tokens",)

    def __init__(self, gold: dict[str, Document], labels: LabelSet, wrong: float) -> None:
        self.labels, self._gold, self._wrong = labels, gold, wrong

    def potentials(self, batch: Batch) -> Potentials:
        unary = np.zeros((batch.token_count, len(self.labels)))
        for i, (name, start) in enumerate(zip(batch.doc_ids, batch.doc_starts.tolist(), strict=False)):
            gold = batch.document(i).labels
            assert gold is not None
            for t, label in enumerate(gold.strings()):
                forgotten = zlib.crc32(f"{name} {t}".encode()) < self._wrong * 2**32
                if label in self.labels.names and not forgotten:
                    unary[start + t, self.labels.names.index(label)] = 9.0
                else:
                    unary[start + t, self.labels.names.index("O")] = 1.0
        return Potentials(unary, np.zeros((len(self.labels), len(self.labels))), batch.sentence_starts)


class School:
    """Trains parrots, and remembers which documents each training saw; ``share`` says how much they forget."""

    def __init__(self, documents: list[Document], share: Share) -> None:
        self.gold = {document.doc_id: document for document in documents}
        self.share, self.seen = share, list[set[str]]()

    def train(
        self, documents: Iterable[Document], *, settings: CrfSettings, out: Path, progress: Progress | None = None
    ) -> Parrot:
        assert not out.exists()
        assert progress is None
        self.seen.append({document.doc_id for document in documents})
        return Parrot(self.gold, LABELS, self.share(settings))


@pytest.fixture(scope="module")
def documents() -> list[Document]:
    made = synthesize(30, seed=0, kind="news")
    return [replace(document, columns={TOKENS: document.columns[TOKENS]}) for document in made]


def test_each_document_is_judged_by_a_model_that_has_not_seen_it(documents: list[Document]) -> None:
    school = School(documents, lambda _: 0.1)
    counts = cross_validated(documents, school.train, CrfSettings(), folds=FOLDS)
    unseen = [school.gold.keys() - seen for seen in school.seen]
    assert sorted(name for names in unseen for name in names) == sorted(school.gold)
    assert {len(names) for names in unseen} == {len(documents) // FOLDS}
    parrot = Parrot(school.gold, LABELS, 0.1)
    for document, row in zip(documents, counts, strict=True):
        assert document.labels is not None
        gold = LABELS.encode(document.labels.strings())
        found = viterbi(parrot.potentials(Batch.of([document])).legal(LABELS))
        table = EntityCounts.of(gold, found, LABELS, document.sentence_starts).table
        assert row.tolist() == table.sum(axis=0).tolist()


def test_a_label_that_a_fold_lacks_is_an_error_of_that_model_alone(documents: list[Document]) -> None:
    few = LabelSet.bio(["LOC"])
    school = School(documents, lambda _: 0.0)

    def train(
        documents: Iterable[Document], *, settings: CrfSettings, out: Path, progress: Progress | None = None
    ) -> Parrot:
        parrot = school.train(documents, settings=settings, out=out, progress=progress)
        return Parrot(school.gold, few, 0.0) if len(school.seen) == 1 else parrot

    counts = cross_validated(documents, train, CrfSettings(), folds=2)
    first = np.array(fold_of(documents, 2)) == 0
    assert (counts[~first, 0] == counts[~first, 2]).all()
    assert counts[first, 2].sum() < counts[first, 0].sum()


def best_at(features: str, c2: float, min_freq: float) -> Share:
    """Forgets more with every difference from these settings."""

    def share(given: CrfSettings) -> float:
        differ = len(set(given.features.split("+")) ^ set(features.split("+")))
        return min(0.9, 0.1 * differ + 0.1 * abs(math.log(given.c2 / c2)) + 0.05 * abs(given.min_freq - min_freq))

    return share


@pytest.mark.parametrize(("features", "factor", "min_freq"), [("core+mentions", 9.0, 2.0), ("fields", 1 / 3, 0.0)])
def test_the_best_of_what_is_tried_is_chosen(
    documents: list[Document], features: str, factor: float, min_freq: float
) -> None:
    start = CrfSettings()
    school = School(documents, best_at(features, start.c2 * factor, min_freq))
    told: list[Trial[TrainerSettings]] = []
    trials = select(documents, school.train, start, folds=2, progress=told.append)
    assert trials == told
    assert best_of(trials).value == max(trial.value for trial in trials)
    chosen = chosen_of(best_of(trials).setting)
    assert (chosen["features"], chosen["min_freq"]) == (features, min_freq)
    assert chosen["c2"] == pytest.approx(start.c2 * factor)
    assert not any(
        "pos" in str(chosen_of(trial.setting)["features"]) for trial in trials
    )  # these documents have no tags
    assert len({str(chosen_of(trial.setting)) for trial in trials}) == len(trials)


def test_what_is_given_stays(documents: list[Document]) -> None:
    school = School(documents, lambda given: 0.1 + given.c2)
    trials = select(documents, school.train, CrfSettings(features="fields", c2=0.7), folds=2)
    assert [chosen_of(trial.setting) for trial in trials] == [
        {"features": "fields", "c2": 0.7, "min_freq": 0.0},
        {"features": "fields", "c2": 0.7, "min_freq": 2.0},
    ]


@pytest.mark.parametrize(("best", "tried"), [(40, [10, 20, 40, 80]), (10, [10, 20, 5]), (1, [10, 20, 5, 2, 1])])
def test_passes_are_chosen_where_there_is_no_prior(documents: list[Document], best: int, tried: list[int]) -> None:
    def share(given: TrainerSettings) -> float:
        assert isinstance(given, PerceptronSettings)
        return 0.1 + 0.1 * abs(math.log(given.passes / best)) + 0.05 * given.min_freq

    school = School(documents, share)
    trials = select(documents, school.train, PerceptronSettings(features="core"), folds=2)
    assert [chosen_of(trial.setting)["passes"] for trial in trials] == [10, *tried]
    assert chosen_of(best_of(trials).setting) == {"features": "core", "min_freq": 0.0, "passes": best}
    given = select(documents, school.train, PerceptronSettings(features="core", passes=3), folds=2)
    assert {chosen_of(trial.setting)["passes"] for trial in given} == {3}
    with_prior = select(documents, School(documents, lambda _: 0.1).train, SgdSettings(features="core"), folds=2)
    assert not any("passes" in chosen_of(trial.setting) for trial in with_prior)


@pytest.mark.parametrize(("best", "tried"), [(0.3, [0.3, 0.0, 0.5]), (0.0, [0.3, 0.0, 0.5]), (0.5, [0.3, 0.0, 0.5])])
def test_no_dropout_and_more_are_tried(documents: list[Document], best: float, tried: list[float]) -> None:
    def share(given: TrainerSettings) -> float:
        assert isinstance(given, SgdSettings)
        return 0.1 + 0.2 * abs(given.dropout - best) + 0.1 * (given.min_freq > 0) + 0.1 * abs(math.log(given.c2 / 0.03))

    trials = select(documents, School(documents, share).train, SgdSettings(features="core", passes=4), folds=2)
    assert list(dict.fromkeys(chosen_of(trial.setting)["dropout"] for trial in trials)) == tried
    assert best_of(trials).setting == SgdSettings(features="core", passes=4, dropout=best)
    none = select(documents, School(documents, share).train, SgdSettings(features="core", dropout=0), folds=2)
    assert {chosen_of(trial.setting).get("dropout") for trial in none} == {0.0}


def test_later_documents_are_judged_by_models_of_those_before(documents: list[Document]) -> None:
    places = {document.doc_id: i for i, document in enumerate(documents)}
    for folds in (2, 3, 5, 7):
        school = School(documents, lambda _: 0.1)
        counts = cross_validated(documents, school.train, CrfSettings(), folds=folds, validation=Validation.LATER)
        parts = list(rounds(documents, folds, Validation.LATER))
        judged = [i for part in parts for i in part.judged]
        assert judged == list(range(len(documents) - len(judged), len(documents)))
        assert len(counts) == len(judged) >= len(documents) // 2
        assert len(parts) == len(school.seen) == folds - folds // 2
        for part, seen in zip(parts, school.seen, strict=True):
            assert sorted(places[name] for name in seen) == part.learned == list(range(part.judged[0]))
        whole = cross_validated(documents, school.train, CrfSettings(), folds=folds)
        assert counts.tolist() == whole[judged].tolist()  # parrots answer alike, whatever they were taught


class Ages(Parrot):
    """Forgets as much of early documents as ``wrong`` says, and of late ones as ``wrong_later``."""

    def __init__(self, parrot: Parrot, late: set[str], wrong: float, wrong_later: float) -> None:
        super().__init__(parrot._gold, parrot.labels, wrong)
        self._late, self._wrong_later = late, wrong_later

    def potentials(self, batch: Batch) -> Potentials:
        parts = []
        for document in batch:
            wrong = self._wrong_later if document.doc_id in self._late else self._wrong
            parts.append(Parrot(self._gold, self.labels, wrong).potentials(Batch.of([document])).unary)
        return replace(super().potentials(batch), unary=np.concatenate(parts))


def test_the_choice_is_by_later_documents_where_that_is_asked_for(documents: list[Document]) -> None:
    late = {document.doc_id for document in documents[2 * len(documents) // 5 :]}
    school = School(documents, lambda _: 0.0)

    def train(
        documents: Iterable[Document], *, settings: CrfSettings, out: Path, progress: Progress | None = None
    ) -> Parrot:
        parrot = school.train(documents, settings=settings, out=out, progress=progress)
        return Ages(parrot, late, 0.0, 0.5) if settings.features == "core" else Ages(parrot, late, 0.9, 0.4)

    given = CrfSettings(c2=1.0, min_freq=0.0)
    trials = {v: select(documents, train, given, validation=v)[:2] for v in Validation}
    chosen = {v: chosen_of(best_of(found).setting)["features"] for v, found in trials.items()}
    assert chosen == {Validation.RANDOM: "core", Validation.LATER: "fields"}


@pytest.mark.parametrize("share", [0.01, 0.2, 0.34, 0.9])
def test_a_share_is_held_out_by_ids_or_from_the_end(documents: list[Document], share: float) -> None:
    later = held_out(documents, share, Validation.LATER)
    assert later == sorted(later)
    assert sum(later) == round(share * len(documents))
    assert held_out(documents, share, Validation.RANDOM) == [is_held_out(d.doc_id, share) for d in documents]
    turned = held_out(documents[::-1], share, Validation.RANDOM)[::-1]
    assert turned == held_out(documents, share, Validation.RANDOM)


def test_clusters_are_a_family_where_there_is_a_table(documents: list[Document], tmp_path: Path) -> None:
    table = tmp_path / "words.parquet"
    write_clusters(table, Clusters(pa.array(["a"]), ("2",), np.zeros((1, 1), np.int32)))
    school = School(documents, best_at("core+clusters", 0.1, 0.0))
    trials = select(documents, school.train, CrfSettings(clusters=(str(table),)), folds=2)
    assert best_of(trials).setting.model_dump()["clusters"] == (str(table),)
    assert chosen_of(best_of(trials).setting)["features"] == "core+clusters"
    with_table = [trial for trial in trials if trial.setting.model_dump()["clusters"] is not None]
    assert all("clusters" in str(chosen_of(trial.setting)["features"]).split("+") for trial in with_table)


def test_lists_are_families_the_users_where_there_is_a_file(documents: list[Document], tmp_path: Path) -> None:
    phrases = tmp_path / "phrases.tsv"
    phrases.write_text("a\tX\n")
    for files, wanted in (((), "core+entities"), ((str(phrases),), "core+entities+gazetteer")):
        school = School(documents, best_at("core+entities+gazetteer", 0.1, 0.0))
        trials = select(documents, school.train, CrfSettings(gazetteers=files), folds=2)
        assert chosen_of(best_of(trials).setting)["features"] == wanted
        assert best_of(trials).setting.model_dump()["gazetteers"] == files
        with_files = [trial for trial in trials if trial.setting.model_dump()["gazetteers"]]
        assert all("gazetteer" in str(chosen_of(trial.setting)["features"]).split("+") for trial in with_files)


def test_what_cannot_be_searched_is_one_line(documents: list[Document]) -> None:
    school = School(documents, lambda _: 0.0)
    with pytest.raises(TrainingError, match="nothing is left to be chosen: give fewer options"):
        select(documents, school.train, CrfSettings(features="core", c2=1.0, min_freq=0.0))
    with pytest.raises(TrainingError, match="nothing is left to be chosen"):
        select(documents, school.train, TrainerSettings())
    with pytest.raises(TrainingError, match="2 documents are too few for 5 folds"):
        select(documents[:2], school.train, CrfSettings())
    with pytest.raises(TrainingError, match="has no gold labels, and training needs them"):
        select([Document.build(f"d{i}", [["a"]]) for i in range(50)], school.train, CrfSettings())
