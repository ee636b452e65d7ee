"""Constraint-driven learning: its mixtures against plain counts, and its cycles killed at any change of the disk."""

from __future__ import annotations

import errno
import math
import os
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

import concord.flows.cluster.cluster
import concord.flows.labelling.label_corpus
import concord.flows.tracking.tracking
import concord.flows.training.learn_from_pool
from concord.flows.codl import codl
from concord.flows.errors import NothingLabelledError, RunFolderError
from concord.flows.labelling.label_corpus import label_corpus
from concord.flows.runfolder.published import published
from concord.flows.tracking.tracking import Outcome
from concord.flows.training.codl_tuning import best_gamma, choose_gamma
from concord.flows.training.learn_from_pool import (
    CONSTRAINTS,
    HELD_OUT,
    MARKER,
    MODEL,
    POOL,
    TUNED,
    learn,
)
from concord.schemas.arrays import Floats
from concord.schemas.codl import CodlReport, CodlSettings, GammaTrial
from concord.schemas.columns import PREDICTIONS_LAYOUT
from concord.schemas.document import Batch, Column, Document
from concord.schemas.errors import CorpusError, TrainingError
from concord.schemas.labels import Labels
from concord.schemas.learning_requests import CodlRequest
from concord.schemas.potentials import Potentials
from concord.schemas.run import RunSettings
from concord.workers.constraints.constraint_file import parse_constraints
from concord.workers.constraints.declared_weights import declared_weights
from concord.workers.corpus.ingestion import write_corpus
from concord.workers.inference.core.chain import viterbi
from concord.workers.labelling.output import PREDICTIONS
from concord.workers.learning.estimation.expectation import improved
from concord.workers.learning.estimation.hmm_counts import counted, mixed
from concord.workers.learning.little_gold.codl import Ranked, Weights, changed, counted_weights, ways_of
from concord.workers.learning.little_gold.codl_learners import (
    HmmLearner,
    LearningWay,
    ModelParts,
    PerceptronLearner,
    straight,
)
from concord.workers.learning.search.folds import place_of
from concord.workers.learning.trainers.registry import trainer_named
from concord.workers.models.crf import CrfModel
from concord.workers.models.hmm import HmmModel, Tables
from concord.workers.models.loaders import load_model
from concord.workers.models.settings import HmmSettings, PerceptronSettings
from concord.workers.sweeps.codl import label_here, learn_here
from concord.workers.synthesis.made_up import synthesize
from tests.support.in_process import Here
from tests.support.kills import full_before, killed_before
from tests.support.made_tracking import undrawn, untracked
from tests.support.seeds import blocks

GOLD = list(synthesize(6, seed=1, kind="citations"))
POOLED = [Document(d.doc_id, d.sentence_starts, d.columns) for d in synthesize(15, seed=2, kind="citations")]
RULES = """
constraints:
  - template: starts_with
    name: starts with an author
    labels: [author]
    weight: 1.5
  - template: appears_once
    name: one title
    labels: [title]
    weight: 0.5
"""
CHANGES = 540
"""Changes of a disk in two cycles, but for a few; fewer would leave the second one alone."""
FORBIDDING = """
  - template: only_in
    name: no word is anything but a note
    tokens: {pattern: '.*'}
    labels: [title]
    weight: hard
  - template: must_appear
    name: a date
    labels: [date]
    weight: hard
"""


def learner(**options: object) -> HmmLearner:
    return HmmLearner.of(GOLD, POOLED, CodlSettings.model_validate(options))


@given(st.integers(0, 2**32 - 1), st.floats(0.0, 1.0))
def test_mixtures_are_those_of_the_formula(seed: int, gamma: float) -> None:
    first, new = np.random.default_rng(seed).dirichlet(np.ones(4), size=2)
    shares = mixed(np.log(first), np.log(new), gamma)
    np.testing.assert_allclose(np.exp(shares), gamma * first + (1.0 - gamma) * new, rtol=1e-12, atol=1e-300)
    logs = straight(np.log(first), np.log(new), gamma)
    np.testing.assert_allclose(np.exp(logs), first**gamma * new ** (1.0 - gamma), rtol=1e-12)


def test_without_constraints_a_cycle_is_one_of_hard_em() -> None:
    """Another implementation, which labels the pool itself."""
    one = learner(gamma=0.6)
    read = one.read
    model = HmmSettings(pool="pool", em="hard", mixing="models", gamma=0.6, iterations=2)
    steps = list(
        improved(counted(read.gold, read.word, len(read.words)), read.shape_of, read.unlabelled, one.labels, model)
    )
    tables = one.first
    for step in steps:
        tables = one.learned([way(_best(one, tables))])
        for mine, other in zip(tables, step.tables, strict=True):
            np.testing.assert_allclose(mine, other, rtol=1e-9)


def way(labels: Labels, share: float = 1.0) -> LearningWay:
    return LearningWay(labels, np.full(len(labels), share))


def _best(one: HmmLearner, parts: ModelParts) -> Labels:
    tables = Tables(*parts)
    words = one.read.unlabelled
    unary = tables.word[words.word]
    unary[words.bounds[:-1]] += tables.initial
    return viterbi(Potentials(unary, tables.transition, words.bounds[:-1]).legal(one.labels))


def test_several_labellings_count_in_equal_parts() -> None:
    one = learner(gamma=0.0)
    rng = np.random.default_rng(0)
    ways = [rng.integers(len(one.labels), size=len(one.read.unlabelled.word)).astype(np.int32) for _ in range(3)]

    def transition(ways: list[Labels]) -> Floats:
        return np.exp(Tables(*one.learned([way(labels, 1.0 / len(ways)) for labels in ways])).transition)

    found = transition([*ways, ways[0]])
    np.testing.assert_allclose(found, transition([*ways, *ways, ways[0], ways[0]]), rtol=1e-12)
    assert not np.allclose(found, transition(ways))


@given(st.integers(0, 2**32 - 1))
def test_labellings_of_documents_become_labellings_of_all(seed: int) -> None:
    """Against a count of every token's share by label, document by document."""
    rng = np.random.default_rng(seed)
    counts, sizes = rng.integers(1, 4, size=3), rng.integers(0, 5, size=3)
    ranked = [
        Ranked(rng.integers(3, size=(k, n), dtype=np.int32), np.sort(rng.normal(size=k))[::-1])
        for k, n in zip(counts, sizes, strict=True)
    ]
    for em in ("hard", "soft"):
        found = np.zeros((sum(sizes), 3))
        for labels, share in ways_of(ranked, em):
            found[np.arange(len(labels)), labels] += share
        wanted, t = np.zeros_like(found), 0
        for labels, score in ranked:
            lacking = max(counts) - len(score)
            weight = np.exp(score) / np.exp(score).sum() if em == "soft" else np.full(len(score), 1.0 / max(counts))
            weight[0] += lacking / max(counts) if em == "hard" else 0.0
            for column in labels.T:
                for label, own in zip(column, weight, strict=True):
                    wanted[t, label] += own
                t += 1
        np.testing.assert_allclose(found, wanted, rtol=1e-12)


def test_a_token_that_counts_by_a_share_counts_that_often() -> None:
    one, rng = learner(gamma=0.0), np.random.default_rng(0)
    first, other = (rng.integers(len(one.labels), size=len(one.read.unlabelled.word), dtype=np.int32) for _ in range(2))
    uneven = one.learned([way(first, 0.75), way(other, 0.25)])
    for mine, wanted in zip(uneven, one.learned([way(x, 0.25) for x in (first, first, other, first)]), strict=True):
        np.testing.assert_allclose(mine, wanted, rtol=1e-12)


def perceptron(**options: object) -> PerceptronLearner:
    return PerceptronLearner.of(GOLD, POOLED, CodlSettings.model_validate({"trainer": "perceptron"} | options))


FEATURES = pytest.mark.parametrize("features", ["fields", "fields+pairs:core"])


@FEATURES
def test_the_first_perceptron_is_the_trainer_s_whatever_the_pool_has(features: str, tmp_path: Path) -> None:
    """In a feature space of both, and under other numbers of features."""
    one = perceptron(features=features, passes=3)
    settings = PerceptronSettings(features=features, passes=3)
    trained = trainer_named("perceptron").train(GOLD, settings=settings, out=tmp_path / "trained")
    found = one.save(one.first, tmp_path / "found")
    batch = Batch.of(list(synthesize(5, seed=4, kind="citations")))
    assert found.labels == trained.labels
    mine, other = found.potentials(batch), trained.potentials(batch)
    np.testing.assert_allclose(mine.unary, other.unary, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(mine.transition, other.transition, rtol=1e-9, atol=1e-9)


@FEATURES
def test_perceptrons_are_mixed_by_weights_in_one_space(features: str, tmp_path: Path) -> None:
    """Against the trainer's model of the pool as it is labelled."""
    one = perceptron(features=features, gamma=0.25, passes=3)
    ids = np.random.default_rng(0).integers(len(one.labels), size=sum(map(len, POOLED)), dtype=np.int32)
    starts = np.cumsum([len(d) for d in POOLED])[:-1]
    columns = [Column(part, one.labels.names) for part in np.split(ids, starts)]
    labelled = [replace(d, labels=own) for d, own in zip(POOLED, columns, strict=True)]
    settings = PerceptronSettings(features=features, passes=3)
    pool = trainer_named("perceptron").train(labelled, settings=settings, out=tmp_path / "pool")
    first, mixed_ = one.save(one.first, tmp_path / "first"), one.save(one.learned([way(ids)]), tmp_path / "mixed")
    batch = Batch.of(list(synthesize(5, seed=4, kind="citations")))
    assert pool.labels == one.labels
    parts = first.potentials(batch), pool.potentials(batch), mixed_.potentials(batch)
    for own, learned, both in zip(*((p.unary, p.transition) for p in parts), strict=True):
        np.testing.assert_allclose(both, 0.25 * own + 0.75 * learned, atol=1e-9)


@pytest.mark.parametrize(
    "options", [{"features": "core"}, {"passes": 3}, {"trainer": "perceptron", "mixing": "logarithms"}]
)
def test_options_of_another_trainer_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(ValidationError, match="alone"):
        CodlSettings.model_validate(options)


def test_penalties_are_mixed_like_the_model() -> None:
    rules, gold = parse_constraints(RULES, file="rules"), Batch.of(GOLD)
    labels = learner(labels=("editor", "note")).labels
    bound = rules.bind(labels)
    labelled = Batch.of(list(synthesize(9, seed=5, kind="citations")))
    first, new = (counted_weights(bound, batch, labels, CodlSettings()) for batch in (gold, labelled))
    assert first != new
    assert labelled.labels is not None
    best, batch = labels.encode(labelled.labels.strings()), replace(labelled, labels=None)
    for penalties, expected in (
        ("learned", {name: 0.8 * first[name] + 0.2 * new[name] for name in first}),
        ("first", first),
        ("hard", dict.fromkeys(first, math.inf)),
    ):
        settings = CodlSettings.model_validate({"gamma": 0.8, "penalties": penalties})
        weights = Weights.of(bound, gold, labels, settings)
        assert dict(declared_weights(weights.learned(best, batch, labels))) == pytest.approx(expected)
        assert dict(declared_weights(weights.begun())) == pytest.approx(expected if penalties == "hard" else first)


def test_changed_is_a_share_of_tokens() -> None:
    assert changed(np.array([0, 1, 1, 2]), np.array([0, 1, 2, 2])) == 0.25
    assert changed(np.zeros(0, np.int32), np.zeros(0, np.int32)) == 0.0


@pytest.fixture
def request_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., CodlRequest]:
    """Has a learning stay in this process; makes what it is asked for."""
    for name, documents in (("gold", GOLD), ("pool", POOLED), ("dev", list(synthesize(4, seed=3, kind="citations")))):
        write_corpus(documents, tmp_path / name, source="test")
    (tmp_path / "rules.yaml").write_text(RULES)
    undrawn(monkeypatch)
    monkeypatch.setattr(concord.flows.training.learn_from_pool, "Tracking", untracked([]))
    monkeypatch.setattr(concord.flows.tracking.tracking, "Tracking", untracked([]))
    monkeypatch.setattr(concord.flows.cluster.cluster, "cluster", lambda *_, **__: nullcontext(Here(None)))
    monkeypatch.setattr(concord.flows.training.learn_from_pool, "label_corpus", label_corpus)

    def made(out: str, *, rules: bool = True, n_best: int = 0, tune: bool = False, **options: object) -> CodlRequest:
        return CodlRequest(
            corpus=str(tmp_path / "gold"),
            pool=str(tmp_path / "pool"),
            out=str(tmp_path / out),
            constraints=str(tmp_path / "rules.yaml") if rules else None,
            held_out=str(tmp_path / "dev"),
            settings=CodlSettings.model_validate({"cycles": 2, "gamma": 0.5} | options),
            tune=tune,
            labelling=RunSettings(engine="beam", n_best=n_best),
        )

    return made


def run(request: CodlRequest) -> CodlReport:
    report: CodlReport = learn(request)
    return report


def content(out: str) -> dict[str, bytes]:
    """All files that hold what was learned, by name."""
    found = {}
    for folder in sorted(Path(out).glob("cycle-*")):
        for place in (folder / POOL, folder / HELD_OUT):
            if place.is_dir():
                for i, table in enumerate(published(str(place)).tables(PREDICTIONS, PREDICTIONS_LAYOUT)):
                    found[f"{place}-{i}"] = str(table.to_pylist()).encode()
        parts = [*(folder / MODEL).iterdir(), folder / CONSTRAINTS, folder / MARKER]
        found |= {str(path): path.read_bytes() for path in parts if path.exists()}
    return {name.replace(out, ""): data for name, data in found.items()}


def test_cycles_learn_from_the_pool_as_the_last_one_labelled_it(request_of: Callable[..., CodlRequest]) -> None:
    report = run(request_of("out", gamma=0.1))
    assert [cycle.number for cycle in report.cycles] == [0, 1, 2]
    assert report.cycles[0].changed is None
    assert report.cycles[1].changed == 1.0
    assert 0.0 < (report.cycles[2].changed or 0.0) < 1.0
    assert all(cycle.accuracy is not None for cycle in report.cycles)
    assert (report.documents, report.pool, report.rejected) == (len(GOLD), len(POOLED), 0)
    out, one = Path(report.out), learner(gamma=0.1)
    for k in (1, 2):
        (table,) = published(str(out / f"cycle-0{k}" / POOL)).tables(PREDICTIONS, PREDICTIONS_LAYOUT)
        best = one.labels.encode([label for labels in table["labels"].to_pylist() for label in labels])
        saved = load_model(out / f"cycle-0{k}" / MODEL)
        assert isinstance(saved, HmmModel)
        for mine, other in zip(saved.tables, one.learned([way(best)]), strict=True):
            np.testing.assert_array_equal(mine, other)
        assert (out / f"cycle-0{k}" / CONSTRAINTS).read_text() != (out / "cycle-00" / CONSTRAINTS).read_text()


def test_it_ends_where_labels_have_settled(request_of: Callable[..., CodlRequest]) -> None:
    report = run(request_of("out", gamma=1.0, cycles=9, rules=False))
    assert [cycle.changed for cycle in report.cycles] == [None, 1.0, 0.0]
    assert report.settled
    assert not (Path(report.out) / "cycle-01" / CONSTRAINTS).exists()


def test_the_same_again_does_nothing_and_other_settings_begin_anew(request_of: Callable[..., CodlRequest]) -> None:
    request = request_of("out")
    first = run(request)
    before = content(request.out)
    times = {path: path.stat().st_mtime_ns for path in Path(request.out).rglob(MARKER)}
    assert run(request).cycles == first.cycles
    assert {path: path.stat().st_mtime_ns for path in times} == times
    run(request_of("out", gamma=0.9))
    other = content(request.out)
    assert other != before
    run(request_of("fresh", gamma=0.9))
    assert content(request_of("fresh").out) == other


def test_more_cycles_go_on_after_those_that_are_done(request_of: Callable[..., CodlRequest]) -> None:
    first = run(request_of("out", cycles=1))
    marker = Path(first.out) / "cycle-01" / MARKER
    before = marker.stat().st_mtime_ns
    assert run(request_of("out", cycles=2)).cycles[:2] == first.cycles
    assert marker.stat().st_mtime_ns == before
    run(request_of("whole", cycles=2))
    assert content(request_of("out").out) == content(request_of("whole").out)


def test_several_best_labellings_are_learned_from(request_of: Callable[..., CodlRequest]) -> None:
    one, three = (run(request_of(f"out{k}", n_best=k, cycles=1)) for k in (1, 3))
    models = [load_model(Path(report.out) / "cycle-01" / MODEL).digest for report in (one, three)]
    assert models[0] != models[1]
    assert load_model(Path(run(request_of("out", cycles=1)).out) / "cycle-01" / MODEL).digest == models[0]


def test_soft_em_weighs_labellings_by_their_probability(request_of: Callable[..., CodlRequest]) -> None:
    hard, soft = (run(request_of(em, n_best=3, cycles=1, em=em)) for em in ("hard", "soft"))
    models = [load_model(Path(report.out) / "cycle-01" / MODEL).digest for report in (hard, soft)]
    assert models[0] != models[1]
    with pytest.raises(TrainingError, match="--n-best"):
        codl("gold", "pool", "out", settings=CodlSettings(em="soft"))


def test_a_perceptron_learns_from_the_pool_as_well(request_of: Callable[..., CodlRequest]) -> None:
    report = run(request_of("out", trainer="perceptron", gamma=0.3, n_best=2))
    assert [cycle.number for cycle in report.cycles] == [0, 1, 2]
    models = [load_model(Path(report.out) / f"cycle-0{k}" / MODEL) for k in range(3)]
    assert all(isinstance(model, CrfModel) for model in models)
    assert len({model.digest for model in models}) == 3


def test_gamma_is_chosen_by_documents_that_were_not_learned_from(
    request_of: Callable[..., CodlRequest], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each share against a plain loop over the documents, each left out once; a call again chooses nothing anew."""
    request = request_of("out", tune=True, folds=9, sample=5, shares=(0.2, 0.6, 1.0), cycles=1)
    ended: list[Outcome] = []
    monkeypatch.setattr(concord.flows.training.learn_from_pool, "Tracking", untracked(ended))
    report = run(request)
    pool = sorted(POOLED, key=lambda d: place_of(d.doc_id))[:5]
    names = {label for d in GOLD if d.labels is not None for label in d.labels.strings()}
    for trial in report.tuned:
        settings = CodlSettings(gamma=trial.gamma, labels=tuple(names), cycles=1)
        right = []
        for one in GOLD:
            own = HmmLearner.of([d for d in GOLD if d is not one], pool, settings)
            bound = parse_constraints(RULES, file="rules").bind(own.labels)
            weights = Weights.of(bound, Batch.of([d for d in GOLD if d is not one]), own.labels, settings)
            found = learn_here(own, weights, pool, request.labelling)
            (answer,) = label_here(own, found, Batch.of([one]), request.labelling).decoded
            assert one.labels is not None
            right += (answer.labels == own.labels.encode(one.labels.strings())).tolist()
        assert trial.accuracy == pytest.approx(np.mean(right))
        assert ended[-1].metrics[f"gamma/{trial.gamma:g}/accuracy"] == trial.accuracy
    best = max(report.tuned, key=lambda trial: (trial.accuracy, trial.gamma))
    assert report.gamma == best.gamma
    fixed = run(request_of("fixed", gamma=best.gamma, cycles=1))
    assert fixed.cycles == report.cycles
    assert content(fixed.out) == content(report.out)
    before = (Path(report.out) / TUNED).stat().st_mtime_ns
    assert run(request).tuned == report.tuned
    assert (Path(report.out) / TUNED).stat().st_mtime_ns == before


def test_of_shares_that_are_equally_good_the_largest_is_chosen() -> None:
    def trial(gamma: float, accuracy: float) -> GammaTrial:
        return GammaTrial(gamma=gamma, accuracy=accuracy, gain=0.0, low=0.0, high=0.0)

    assert best_gamma([trial(0.5, 0.8), trial(0.9, 0.8), trial(0.7, 0.8), trial(1.0, 0.7)]) == 0.9


def test_one_document_cannot_be_held_out() -> None:
    with pytest.raises(TrainingError, match="give more"):
        choose_gamma(GOLD[:1], POOLED, None, CodlSettings(), RunSettings(engine="viterbi"))


@pytest.mark.parametrize("block", blocks(2))
def test_a_full_disk_is_said_and_the_same_again_goes_on(
    request_of: Callable[..., CodlRequest], monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: None)  # the power stays on
    whole = request_of("whole")
    run(whole)
    for step in np.random.default_rng(block).integers(1, CHANGES, size=2).tolist():
        request = request_of(f"full-{step}")
        said = full_before(step, partial(run, request))
        assert os.strerror(errno.ENOSPC) in said
        run(request)
        assert content(request.out) == content(whole.out)


@pytest.mark.parametrize("block", blocks(4))
def test_killed_anywhere_and_resumed_it_has_the_same_bytes(
    request_of: Callable[..., CodlRequest], monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: None)  # these kills leave the power on
    whole = request_of("whole")
    run(whole)
    wanted = content(whole.out)
    for step in np.random.default_rng(block).integers(1, CHANGES, size=3).tolist():
        request = request_of(f"out-{step}")
        assert killed_before(step, partial(run, request))
        run(request)
        assert content(request.out) == wanted


def test_a_pool_of_nothing_is_an_error(request_of: Callable[..., CodlRequest], tmp_path: Path) -> None:
    for file in (tmp_path / "pool").glob("part-*.parquet"):
        table = pq.read_table(file)
        place = table.schema.get_field_index("tokens")
        nothing = pa.nulls(len(table), table.schema.field(place).type)
        pq.write_table(table.set_column(place, table.schema.field(place), nothing), file)
    with pytest.raises(CorpusError, match=r"none of the 15 documents can be read; the first: .*row 0: tokens is null"):
        run(request_of("out"))


def test_a_document_that_was_rejected_is_named(request_of: Callable[..., CodlRequest], tmp_path: Path) -> None:
    (tmp_path / "rules.yaml").write_text(RULES.replace("1.5", "hard").replace("0.5", "hard") + FORBIDDING)
    request = request_of("out")
    labelling = request.labelling.model_copy(update={"on_infeasible": "reject"})
    with pytest.raises((RunFolderError, NothingLabelledError), match=r"may break what is hard|none of the"):
        run(request.model_copy(update={"labelling": labelling}))
