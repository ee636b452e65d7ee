"""Choosing a model by a ladder of steps: folds, counts, what is tried and kept, and what is expected."""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from concord.flows.training.best_model import LadderJudge, LadderWorkers
from concord.flows.training.trial_file import TrialFile
from concord.flows.work.done import After, Done, no_more
from concord.schemas.document import TOKENS, Batch, Document
from concord.schemas.errors import ShardsError, TrainingError
from concord.schemas.gains import Comparison
from concord.schemas.labels import LabelSet
from concord.schemas.potentials import Potentials
from concord.schemas.settings import Validation
from concord.workers.evaluation.conlleval import EntityCounts
from concord.workers.features.resources import ResourceKind
from concord.workers.inference.core.chain import viterbi
from concord.workers.learning.search.folds import fold_of, held_out, is_held_out, rounds
from concord.workers.learning.trainers import selection
from concord.workers.learning.trainers.entity_counts import viterbi_counts
from concord.workers.learning.trainers.registry import TRAINERS, trainer_named
from concord.workers.learning.trainers.selection import (
    FOLDS,
    RUNGS,
    Climb,
    Judged,
    LadderStep,
    TrainerChoice,
    climb_ladder,
    cross_validated,
    expected,
    is_worth,
)
from concord.workers.learning.trainers.trainer import Progress, Trainer
from concord.workers.models.settings import CrfSettings, EnsembleSettings, PerceptronSettings, SgdSettings
from concord.workers.remote.ladder import LadderTrial
from concord.workers.storage.files import OutputError
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


class Ladder:
    """Judges candidates by a share of tokens that they forget, and remembers which were asked for."""

    def __init__(self, documents: list[Document], share: Callable[[TrainerChoice], float]) -> None:
        self.documents, self.share, self.asked = documents, share, list[TrainerChoice]()

    def judge(self, candidate: TrainerChoice) -> Judged:
        self.asked.append(candidate)
        parrot = Parrot({d.doc_id: d for d in self.documents}, LABELS, self.share(candidate))
        return Judged(viterbi_counts(parrot, self.documents, LABELS), 1.0)

    def climb(self, base: TrainerChoice, **options: Any) -> Climb:
        return climb_ladder(self.documents, base, self.judge, **options)


def best_at(**wanted: Any) -> Callable[[TrainerChoice], float]:
    """Forgets more with every difference from these options."""

    def share(candidate: TrainerChoice) -> float:
        given = candidate.settings.model_dump()
        parts = len(set(given["features"].split("+")) ^ set(wanted["features"].split("+")))
        other = sum(given[name] != value for name, value in wanted.items() if name != "features")
        return float(min(0.9, 0.08 * parts + 0.2 * other))

    return share


BASE = TrainerChoice("sgd", SgdSettings())


@pytest.mark.parametrize(
    "wanted",
    [
        {"features": "core+mentions+clusters+entities"},
        {"features": "core+mentions+clusters+entities+sentence", "scheme": "bilou"},
        {"features": "fields", "dropout": 0.0, "min_freq": 2.0},
        {"features": "fields+mentions+pairs:kinds", "c2": 0.09},
        {"features": "core+mentions+clusters+entities", "dropout": 0.5, "members": 6},
    ],
)
def test_the_ladder_ends_where_it_is_best(documents: list[Document], wanted: dict[str, Any]) -> None:
    ladder = Ladder(documents, lambda candidate: best_at(**wanted)(_with_members(candidate)))
    told: list[LadderStep] = []
    found = ladder.climb(BASE, progress=told.append)
    given = _with_members(found.best).settings.model_dump()
    assert set(given["features"].split("+")) == set(wanted["features"].split("+"))
    assert {name: given[name] for name in wanted if name != "features"} == {
        name: pytest.approx(value) for name, value in wanted.items() if name != "features"
    }
    assert told == list(found.steps)
    assert not found.untried
    assert len(set(ladder.asked)) == len(ladder.asked) == len(found.steps)
    assert not any("pos" in step.name for step in found.steps)  # these documents have no tags
    kept = [step for step in found.steps if step.is_kept]
    assert [step.trial.value for step in kept] == sorted(step.trial.value for step in kept)
    for step in found.steps[1:]:
        assert step.gain is not None
        assert step.is_kept == is_worth(step.gain)


def _with_members(candidate: TrainerChoice) -> TrainerChoice:
    """The candidate with a number of models; one of them has one."""
    members = 6 if candidate.trainer == "ensemble" else 1
    return candidate._replace(
        settings=EnsembleSettings.model_construct(**{**dict(candidate.settings), "members": members})
    )


@pytest.mark.parametrize(("scheme", "kept"), [("bio", 0), ("bilou", 1)])
def test_what_is_foreseen_is_what_is_judged_as_long_as_nothing_is_kept(
    documents: list[Document], scheme: str, kept: int
) -> None:
    """Workers may judge the next steps at once: they are the right ones, in order, until one is kept."""
    ladder = Ladder(documents, lambda candidate: 0.5 - 0.2 * (candidate.settings.model_dump()["scheme"] == scheme))
    foreseen: list[list[TrainerChoice]] = []
    found = ladder.climb(BASE, foresee=lambda candidates: foreseen.append(list(dict.fromkeys(candidates))))
    assert [candidates[0] for candidates in foreseen] == ladder.asked
    assert sum(step.is_kept for step in found.steps) == 1 + kept
    first = next((number for number, step in enumerate(found.steps) if number and step.is_kept), len(found.steps))
    assert foreseen[0][: first + 1] == ladder.asked[: first + 1]
    in_time = [list[TrainerChoice]()]
    ladder.climb(BASE, has_time=lambda _, cost: cost < 2.0, foresee=lambda candidates: in_time.append(list(candidates)))
    assert not any(candidate.trainer == "ensemble" for candidates in in_time for candidate in candidates)


class Failing:
    """Workers, on whom the named candidates fail."""

    def __init__(self, fails: Iterable[TrainerChoice]) -> None:
        self.fails, self.asked = set(fails), list[TrainerChoice]()

    def __call__(
        self, shards: Sequence[LadderTrial], after: After[LadderTrial, Judged] = no_more
    ) -> Iterator[Done[LadderTrial, Judged]]:
        del after
        for trial in shards:
            self.asked.append(trial.candidate)
            answer = Judged(np.ones((1, 3), np.int64), 1.0)
            yield Done(trial, None, "broke") if trial.candidate in self.fails else Done(trial, answer)


def test_a_step_that_fails_before_its_turn_fails_nothing(documents: list[Document], tmp_path: Path) -> None:
    """One process would maybe never have tried it; when its turn comes, it is an error."""
    first, second, third = (TrainerChoice("sgd", SgdSettings(passes=number)) for number in (1, 2, 3))
    work = Failing([second])
    trials = TrialFile(tmp_path / "model", [])
    judge = LadderJudge(documents, Validation.RANDOM, trials, LadderWorkers(work, 2))
    judge.foresee(iter([first, second, third]))
    assert (work.asked, list(trials.results)) == ([first, second], [LadderTrial(first).id])
    judge.foresee(iter([first, third]))
    assert work.asked == [first, second]
    with pytest.raises(ShardsError, match="broke"):
        judge.foresee(iter([second, third]))


@pytest.mark.parametrize("name", [name for name, trainer in TRAINERS.items() if trainer.gold])
def test_a_trial_of_every_trainer_goes_to_workers_and_back(name: str) -> None:
    trial = LadderTrial(TrainerChoice(name, TRAINERS[name].settings()))
    there = pickle.loads(pickle.dumps(trial))
    assert (there, there.id, there.place) == (trial, trial.id, trial.place)


def test_a_step_that_fails_is_left_out_with_its_reason(documents: list[Document]) -> None:
    ladder = Ladder(documents, lambda _: 0.3)
    every = [step.name for step in ladder.climb(BASE).steps]

    def judge(candidate: TrainerChoice) -> Judged:
        if candidate.settings.model_dump()["min_freq"] == 2.0:
            raise TrainingError("too few words")
        return ladder.judge(candidate)

    def foresee(candidates: Iterator[TrainerChoice]) -> None:
        if next(candidates).settings.model_dump()["scheme"] == "bilou":
            raise ShardsError("a worker died")

    found = climb_ladder(documents, BASE, judge, foresee=foresee)
    assert found.failures == {"min_freq 2": "too few words", "scheme bilou": "a worker died"}
    assert [step.name for step in found.steps] == [name for name in every if name not in found.failures]

    def fails(candidate: TrainerChoice) -> Judged:
        if candidate != BASE:
            raise OutputError("no space left")
        return ladder.judge(candidate)

    with pytest.raises(OutputError, match="no space left"):
        climb_ladder(documents, BASE, fails)
    with pytest.raises(OutputError, match="no space left"):
        climb_ladder(documents, BASE._replace(settings=SgdSettings(passes=3)), fails)


@pytest.mark.parametrize(
    "base",
    [
        TrainerChoice("perceptron", PerceptronSettings(constraints="rules.yaml")),
        TrainerChoice("sgd", SgdSettings(start_from="models/old")),
        TrainerChoice("sgd", SgdSettings(features="core+gazetteer", gazetteers=("places.tsv",))),
    ],
    ids=["constraints", "start_from", "gazetteer"],
)
def test_no_step_leads_to_settings_that_do_not_go_together(
    documents: list[Document], monkeypatch: pytest.MonkeyPatch, base: TrainerChoice
) -> None:
    monkeypatch.setattr(selection, "available", lambda kind: ["other"] if kind is ResourceKind.VECTORS else [])
    ladder = Ladder(
        documents, lambda candidate: 0.3 - 0.2 * (candidate.settings.model_dump().get("vectors") is not None)
    )
    ladder.climb(base)
    assert len(ladder.asked) > 2
    for candidate in ladder.asked:
        settings = candidate.settings
        assert type(settings).model_validate(settings.model_dump()) == settings
        assert ("gazetteer" in settings.model_dump()["features"]) == bool(settings.model_dump()["gazetteers"])


@pytest.mark.parametrize(("copies", "sizes"), [(1, (50,)), (4, (50, 200)), (20, (50, 200, 1000))])
def test_an_encoders_states_have_clusters_that_the_words_fill(
    documents: list[Document], monkeypatch: pytest.MonkeyPatch, copies: int, sizes: tuple[int, ...]
) -> None:
    monkeypatch.setattr(selection, "available", lambda kind: ["some"] if kind is ResourceKind.ENCODER else [])
    monkeypatch.setattr(selection, "find_spec", lambda _: True)
    some = documents[: -(-600 // (sum(map(len, documents)) // len(documents)))]
    (step,) = RUNGS["encoders"].changes(BASE, some * copies)
    assert step[1](BASE).settings.model_dump()["state_clusters"] == sizes


def test_where_nothing_gains_the_base_stays(documents: list[Document]) -> None:
    ladder = Ladder(documents, lambda _: 0.3)
    found = ladder.climb(BASE)
    assert found.best == BASE
    assert len(found.steps) > 8
    assert [step.name for step in found.steps if step.is_kept] == ["base"]


@pytest.mark.parametrize(
    ("gain", "low", "high", "worth"),
    [(0.01, 0.001, 0.02, True), (0.01, -0.01, 0.03, True), (0.01, -0.02, 0.04, False), (0.0, 0.0, 0.0, False)],
)
def test_a_gain_counts_from_its_standard_error_on(gain: float, low: float, high: float, *, worth: bool) -> None:
    assert is_worth(Comparison(difference=gain, low=low, high=high, p_value=0.5)) == worth


def test_options_that_are_given_stay(documents: list[Document]) -> None:
    given = SgdSettings(features="core", c2=0.7, dropout=0.1)
    ladder = Ladder(
        documents, lambda candidate: 0.1 * (candidate.trainer == "sgd") + 0.2 * candidate.settings.model_dump()["c2"]
    )
    found = ladder.climb(TrainerChoice("sgd", given))
    assert found.best.trainer == "ensemble"
    for candidate in ladder.asked:
        options = candidate.settings.model_dump()
        assert (options["features"], options["c2"], options["dropout"]) == ("core", 0.7, 0.1)
    assert {step.name for step in found.steps} == {"base", "min_freq 2", "scheme bilou", "models averaged"}


@pytest.mark.parametrize(("name", "trainer"), list(TRAINERS.items()))
def test_every_trainer_that_reads_gold_has_a_ladder(documents: list[Document], name: str, trainer: Trainer) -> None:
    if not trainer.gold or trainer.sampling is not None:
        pytest.skip("has another way to be chosen, or none")
    ladder = Ladder(documents, lambda _: 0.3)
    ladder.climb(TrainerChoice(name, trainer.settings()))
    for candidate in ladder.asked:
        own = trainer_named(candidate.trainer).settings
        assert own.model_validate(candidate.settings.model_dump()) == candidate.settings
    assert all(candidate.trainer in (name, "ensemble") for candidate in ladder.asked)


@pytest.mark.parametrize("most", [0.0, 1.0, 1.4, 3.0, 9.0])
def test_a_step_without_time_is_named_and_not_tried(documents: list[Document], most: float) -> None:
    ladder = Ladder(documents, lambda _: 0.3)
    found = ladder.climb(BASE, has_time=lambda _, cost: cost <= most)
    every = [step.name for step in Ladder(documents, lambda _: 0.3).climb(BASE).steps]
    assert [step.name for step in found.steps] == [name for name in every if name not in found.untried]
    assert set(found.untried) <= set(every)
    assert bool(found.untried) == (most < 6.0)


def test_a_step_costs_a_multiple_of_the_best_candidate_before_it(documents: list[Document]) -> None:
    ladder, costs = Ladder(documents, best_at(features="fields", members=1)), dict[str, float]()

    def judge(candidate: TrainerChoice) -> Judged:
        is_best = candidate.settings.model_dump()["features"] == "fields"
        return ladder.judge(_with_members(candidate))._replace(cpu_seconds=5.0 if is_best else 2.0)

    def has_time(candidate: TrainerChoice, cost: float) -> bool:
        costs[candidate.trainer] = cost
        return True

    found = climb_ladder(documents, BASE, judge, has_time=has_time)
    assert found.best.settings.model_dump()["features"] == "fields"
    assert found.cost == 2.5
    assert costs["ensemble"] == RUNGS["averages"].cost * 2.5


def test_pairs_of_many_labels_cost_more() -> None:
    def cost_of_pairs(names: list[str]) -> float:
        labelled = [Document.build(f"{i}", [names], labels=[names]) for i in range(5)]
        costs = dict[str, float]()

        def has_time(candidate: TrainerChoice, cost: float) -> bool:
            costs[candidate.settings.model_dump()["features"]] = cost
            return True

        climb_ladder(labelled, BASE, lambda _: Judged(np.ones((5, 3), np.int64), 1.0), has_time=has_time)
        return next(cost for features, cost in costs.items() if "pairs:" in features)

    few, many = (cost_of_pairs([f"field-{i}" for i in range(count)]) for count in (3, 8))
    assert RUNGS["pairs"].label_cost > 0.0
    assert many - few == pytest.approx(5 * RUNGS["pairs"].label_cost)


def test_plain_labels_have_no_bilou(documents: list[Document]) -> None:
    plain = [Document.build(f"p{i}", [["a", "b"]], labels=[["X", "Y"]]) for i in range(5)]
    found = climb_ladder(plain, BASE, lambda _: Judged(np.ones((5, 3), np.int64), 1.0))
    assert not any("bilou" in step.name for step in found.steps)
    assert any("bilou" in step.name for step in Ladder(documents, lambda _: 0.3).climb(BASE).steps)


def test_lists_that_are_worth_nothing_are_left_out(documents: list[Document]) -> None:
    base = TrainerChoice("sgd", SgdSettings(gazetteers=("phrases.tsv",)))
    for better, files in ((0.1, ()), (-0.1, ("phrases.tsv",))):
        ladder = Ladder(documents, partial(_forgets_with_lists, better))
        assert ladder.climb(base).best.settings.model_dump()["gazetteers"] == files


def _forgets_with_lists(more: float, candidate: TrainerChoice) -> float:
    return 0.3 + more * bool(candidate.settings.model_dump()["gazetteers"])


def test_what_is_expected_is_of_documents_that_chose_nothing(documents: list[Document]) -> None:
    inside, outside = documents[:24], documents[24:]
    school = School(documents, lambda settings: 0.4 if settings.features == "fields" else 0.1)
    base, chosen = (TrainerChoice("sgd", SgdSettings(features=name)) for name in ("fields", "core"))
    figures = expected(inside, outside, base, chosen, lambda _: school.train)
    assert school.seen == [{document.doc_id for document in inside}] * 2
    assert len(figures.base.counts) == len(figures.chosen.counts) == len(outside)
    assert figures.gain.difference == figures.chosen.value - figures.base.value > 0
    assert figures.tokens_a_second > 0
    same = expected(inside, outside, base, base, lambda _: school.train)
    assert (same.gain.difference, same.gain.low, same.gain.high) == (0.0, 0.0, 0.0)
    assert len(school.seen) == 3


def test_documents_without_gold_are_one_line() -> None:
    with pytest.raises(TrainingError, match="has no gold labels, and training needs them"):
        climb_ladder([Document.build("d", [["a"]])], BASE, lambda _: Judged(np.ones((1, 3), np.int64), 1.0))


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


@pytest.mark.parametrize("share", [0.01, 0.2, 0.34, 0.9])
def test_a_share_is_held_out_by_ids_or_from_the_end(documents: list[Document], share: float) -> None:
    later = held_out(documents, share, Validation.LATER)
    assert later == sorted(later)
    assert sum(later) == round(share * len(documents))
    assert held_out(documents, share, Validation.RANDOM) == [is_held_out(d.doc_id, share) for d in documents]
    turned = held_out(documents[::-1], share, Validation.RANDOM)[::-1]
    assert turned == held_out(documents, share, Validation.RANDOM)
