"""Sweeps: cells of a file, what decides them, their results in any order, states, failures and comparisons."""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import yaml
from mlflow import MlflowClient

import concord.flows.cluster.cluster
import concord.flows.sweeping.run_sweep
from concord.flows.commands.requests import WeighRequest
from concord.flows.commands.sweeps import log_of, show_sweep
from concord.flows.commands.weighing import weigh_file
from concord.flows.errors import TrackingError
from concord.flows.sweeping.run_sweep import plan_sweep, run_sweep
from concord.flows.sweeping.sweep_schedule import Schedule
from concord.flows.work.done import Done
from concord.schemas.document import Batch, Document
from concord.schemas.errors import CorpusError, TrainingError, UsageError
from concord.schemas.learning_requests import SweepRequest
from concord.schemas.run import RunSettings
from concord.schemas.run_context import RunContext
from concord.schemas.settings import Validation
from concord.schemas.sweep import Cell, CellState, Setting, SweepReport
from concord.workers.constraints.consistency import AS_PUBLISHED
from concord.workers.constraints.constraint_file import load_constraints
from concord.workers.constraints.declared_weights import declared_weights
from concord.workers.constraints.rows import ConstraintError
from concord.workers.corpus.ingestion import write_corpus
from concord.workers.evaluation.bootstrap import bootstrap_interval
from concord.workers.evaluation.figures import f1
from concord.workers.features.clusters import Clusters, write_clusters
from concord.workers.labelling.labelled import label_batch
from concord.workers.learning.trainers.registry import TRAINERS, trainer_named
from concord.workers.learning.weights.penalties import PENALTIES, OddsSettings
from concord.workers.learning.weights.row_counts import count_rows
from concord.workers.models.folder import MANIFEST, parse_manifest
from concord.workers.models.loaders import load_model
from concord.workers.models.saved_consistency import saved_consistency
from concord.workers.remote.sweep import SWEEP, SweepParts, SweepUnit, TrainingUnit, UnitsDone
from concord.workers.sweeps import judging
from concord.workers.sweeps.cells import cells_of, rules_of
from concord.workers.sweeps.content import digests_of
from concord.workers.sweeps.documents import documents_of
from concord.workers.sweeps.planning import PlannedCell, SweepCells, estimated, keep, kept, listed
from concord.workers.sweeps.results import ResultError, Store
from concord.workers.sweeps.searching import Choice, keep_choice, standing, without_dropped
from concord.workers.sweeps.sweep_file import SweepFileError, read_sweep_file
from concord.workers.sweeps.tables import chosen_on, compared, long_table
from concord.workers.sweeps.training import sample_of
from concord.workers.synthesis.made_up import synthesize
from tests.support.in_process import Here

RULES = {"constraints": [{"template": "appears_once", "name": "once", "labels": ["PER", "LOC"], "weight": "1.5"}]}
MORE = {"constraints": [*RULES["constraints"], {"template": "legality", "name": "legal", "weight": "2.0"}]}
PLAIN: dict[str, Any] = {
    "corpora": {"news": {"train": "train", "test": "test"}},
    "models": {"crf": {"trainer": "perceptron", "options": {"features": "core", "passes": 2}}},
    "constraints": {"none": [], "rules": ["rules.yaml"]},
    "engines": {"viterbi": {}, "beam": {"options": {"width": 4}}},
    "seeds": [0, 1],
}


@pytest.fixture(scope="module")
def corpora(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("corpora")
    documents = list(synthesize(36, seed=5, kind="news"))
    write_corpus(documents[:24], folder / "train", source="made up")
    write_corpus(documents[24:], folder / "test", source="made up")
    write_corpus(list(synthesize(9, seed=77, kind="news")), folder / "other", source="made up")
    (folder / "rules.yaml").write_text(yaml.safe_dump(RULES))
    (folder / "more.yaml").write_text(yaml.safe_dump(MORE))
    return folder


def written(corpora: Path, content: Mapping[str, Any], name: str = "sweep.yaml") -> Path:
    path = corpora / name
    path.write_text(yaml.safe_dump(dict(content), sort_keys=False))
    return path


def planned(corpora: Path, /, **changes: Any) -> SweepCells:
    """The plan of `PLAIN` with other parts."""
    sweep = read_sweep_file(written(corpora, PLAIN | changes))
    return SweepCells.of(sweep, digests_of(sweep))


def work(made: SweepCells, store: Store, *, backwards: bool = False) -> list[UnitsDone]:
    """Trains, weighs and judges every cell in this process, on the way of the schedule."""
    store.make()
    schedule, done = Schedule(made, store, made.cells), list[UnitsDone]()
    queue: deque[SweepUnit] = deque(schedule.ready())
    while queue:
        unit = queue.pop() if backwards else queue.popleft()
        done.append(SWEEP.run(unit, SweepParts(store.folder)))
        queue.extend(schedule.after(Done(unit, done[-1])))
    assert len(done) == schedule.total
    return done


def states(made: SweepCells, store: Store, *, live: bool = False) -> list[CellState]:
    return [row.state for row in listed(made.cells, store, live=live)]


def test_every_combination_is_a_cell_once(corpora: Path) -> None:
    cells = cells_of(planned(corpora).sweep)
    assert len(cells) == len(set(cells)) == 2 * 2 * 2
    assert cells[0] == Cell("news", None, "crf", None, None, "none", "viterbi", 0)
    assert [cell.name for cell in cells[:3]] == [
        "news/crf/none/viterbi/seed=0",
        "news/crf/none/viterbi/seed=1",
        "news/crf/none/beam/seed=0",
    ]


def test_every_trainer_is_swept_with_its_defaults_and_with_resources_by_name(corpora: Path, tmp_path: Path) -> None:
    """What a trainer reads beside its documents where nothing names a file, too."""
    write_clusters(corpora / "own.parquet", Clusters(pa.array(["a"]), ("2",), np.zeros((1, 1), np.int32)))
    few = {"passes": 1, "max_iterations": 1, "members": 2}
    trainers = {name: trainer for name, trainer in TRAINERS.items() if trainer.gold and trainer.sampling is None}
    models: dict[str, Any] = {
        name: {"trainer": name, "options": {key: few[key] for key in few if key in trainer.settings.model_fields}}
        for name, trainer in trainers.items()
    }
    for name, clusters in {"by name": ["glove"], "both": ["glove", "own.parquet"]}.items():
        models[name] = {"trainer": "sgd", "options": {"passes": 1, "clusters": clusters}}
    made = planned(corpora, models=models, constraints={"none": []}, engines={"viterbi": {}}, seeds=[0])
    work(made, store := Store(tmp_path / "sweep"))
    assert states(made, store) == [CellState.DONE] * len(models)
    keys = {cell.cell.model: cell.model.key for cell in made.cells}
    extras = parse_manifest(store.model(str(keys["both"])) / MANIFEST).extras
    assert extras["licences"] == {"clusters=glove": "PDDL-1.0"}
    assert set(extras["named_files"]) == {"clusters=glove", f"clusters={corpora / 'own.parquet'}"}
    assert keys.pop("by name") == keys["sgd"]  # the table that it names is the one that it reads by default
    assert len(set(keys.values())) == len(keys)


def test_crossings_take_lists_each_with_each_or_side_by_side(corpora: Path) -> None:
    each = {"constraints": ["rules"], "engine": ["beam"]}
    beside = {"constraints": ["none", "rules"], "engine": ["viterbi", "beam"], "seed": [7, 7], "zip": True}
    cells = cells_of(planned(corpora, cross=[each, beside, each]).sweep)
    assert [(cell.constraints, cell.engine, cell.seed) for cell in cells] == [
        ("rules", "beam", 0),
        ("rules", "beam", 1),
        ("none", "viterbi", 7),
        ("rules", "beam", 7),
    ]


def test_an_ablation_leaves_out_or_keeps_each_constraint(corpora: Path) -> None:
    rules = {"more": {"files": ["more.yaml"], "each": ["only", "without"]}}
    sweep = planned(corpora, constraints=rules, engines={"viterbi": {}}, seeds=[0]).sweep
    names = [cell.constraints for cell in cells_of(sweep)]
    assert names == ["more", "more only once", "more only legal", "more without once", "more without legal"]
    assert [rules_of(sweep, name).titles for name in names] == [
        ("once", "legal"),
        ("once",),
        ("legal",),
        ("legal",),
        ("once",),
    ]


@pytest.mark.parametrize(("validation", "folds"), [(Validation.RANDOM, [0, 1, 2, 3]), (Validation.LATER, [2, 3])])
def test_folds_are_cells_that_judge_what_they_did_not_learn(
    corpora: Path, validation: Validation, folds: list[int]
) -> None:
    corpus = {"news": {"train": "train", "folds": 4, "validation": validation.value}}
    made = planned(corpora, corpora=corpus, engines={"viterbi": {}}, seeds=[0], constraints={"none": []})
    assert [cell.cell.fold for cell in made.cells] == folds
    for cell in made.cells:
        learned = made.trained(cell)
        assert learned is not None
        inside = {document.doc_id for document in sample_of(learned.part)}
        judged = {document.doc_id for document in documents_of(learned.part.documents)} - inside
        assert len(judged) >= 6
        if validation is Validation.LATER:
            order = [document.doc_id for document in documents_of(learned.part.documents)]
            assert max(map(order.index, inside)) < min(map(order.index, judged))


def test_sizes_are_the_first_documents_or_draws_of_them(corpora: Path) -> None:
    one = {"engines": {"viterbi": {}}, "seeds": [0], "constraints": {"none": []}, "sizes": [5, "all"]}
    first, every = map(planned(corpora, **one).trained, planned(corpora, **one).cells)
    assert first is not None
    assert every is not None
    ids = [document.doc_id for document in documents_of(first.part.documents)]
    assert [document.doc_id for document in sample_of(first.part)] == ids[:5]
    assert [document.doc_id for document in sample_of(every.part)] == ids
    drawn = planned(corpora, **one, subsets=3)
    sets = [[d.doc_id for d in sample_of(one.part)] for one in map(drawn.trained, drawn.cells) if one is not None]
    assert [len(own) for own in sets] == [5, 5, 5, 24], "all documents have no draws"
    assert len({tuple(own) for own in sets}) == 4
    assert all(own == sorted(own, key=ids.index) for own in sets)
    with pytest.raises(CorpusError, match="has 24 documents to learn from, and size 25 wants more"):
        sample_of(first.part._replace(size=25))


@pytest.mark.parametrize(
    ("changes", "line", "told"),
    [
        ({"engines": {"gibs": {}}}, 16, "no engine is called 'gibs'; did you mean 'gibbs'?"),
        ({"engines": {"gibbs": {"options": {"sweeps": "x"}}}}, 16, "options of engine 'gibbs': sweeps: "),
        ({"engines": {"gibbs": {"option": {}}}}, 17, "unknown key 'engines.gibbs.option'; did you mean 'options'?"),
        ({"models": {"crf": {"trainer": "sdg"}}}, 7, "no trainer is called 'sdg'; did you mean 'sgd'?"),
        ({"models": {"crf": {"options": {"epoch": 3}}}}, 8, "unknown key 'epoch'"),
        ({"models": {"crf": {"folder": "m", "trainer": "sgd"}}}, 6, "a model 'folder' is not trained"),
        ({"corpora": {"news": {"train": "train"}}}, 2, "want either 'test', a corpus, or 'folds', a number"),
        ({"corpora": {"a/b": {"test": "test"}}}, 1, "'a/b' is no name"),
        ({"corpora": {"news": {"test": "test"}}}, 5, "corpus 'news' has no 'train'"),
        ({"constraints": {"rules": ["nowhere.yaml"]}}, 12, "constraint file nowhere.yaml: No such file"),
        ({"constraints": {"rules": ["broken.yaml"]}}, 12, "unknown template 'lexico'"),
        ({"measures": ["span"]}, 23, "no measure is called 'span'; did you mean 'spans'?"),
        ({"cross": [{"engine": ["beem"]}]}, 24, "no engine is called 'beem'; did you mean 'beam'?"),
        ({"cross": [{"engine": ["beam"], "seed": [0, 1], "zip": True}]}, 24, "different lengths: engine 1, seed 2"),
        ({"sizes": [0]}, 23, "a size is a number of documents"),
        ({"colour": "red"}, 23, "unknown key 'colour'"),
        ({"engines": {"beam": {"grid": {"widht": [1]}}}}, 16, "widht"),
        ({"models": {"crf": {"grid": {"passes": ["x"]}}}}, 8, "passes: "),
        ({"search": {"kind": "random"}}, 23, "a random search wants 'settings', the number to draw"),
        ({"search": {"kind": "halving"}}, 24, "halving wants 'select', the corpus that chooses"),
        ({"search": {"kind": "halving"}, "sizes": [5, 3]}, 24, "halving wants 'sizes' from small to large"),
        ({"select": {"on": "new"}}, 24, "no corpus is called 'new'; did you mean 'news'?"),
        ({"select": {"on": "news"}}, 23, "corpus 'news' would choose and be reported on"),
        ({"select": {"on": "news", "same_documents": True, "measure": "spans.f3"}}, 26, "want MEASURE.FIGURE"),
        ({"models": {"m": {"trainer": "sgd", "pool": True}}}, 8, "trainer 'sgd' learns from no pool"),
        ({"models": {"m": {"trainer": "hmm", "pool": True}}}, 8, "and corpus 'news' has none"),
        ({"constraints": {"m": {"learned": True, "files": ["rules.yaml"]}}}, 12, "give no 'files' and no 'each'"),
        ({"models": {"m": {"options": {"gazetteers": ["nowhere.txt"]}}}}, 8, "nowhere.txt: no such file"),
        ({"penalties": {"ods": {}}}, 24, "no penalty is called 'ods'; did you mean 'odds'?"),
        ({"penalties": {"odds": {"options": {"hold": 1}}}}, 26, "unknown key 'hold'; did you mean 'held'?"),
        ({"penalties": {"tuned": {"options": {"figure": "f3"}}}}, 25, "figure of measure labels is called 'f3'"),
        ({"penalties": {"declared": {"options": {"held": 1}}}}, 25, "have no options"),
        ({"penalties": {"learned": {}}, "models": {"m": {"folder": "m"}}}, 21, "'m' is not trained here"),
        ({"cross": [{"penalty": ["odds"]}]}, 24, "no penalty is called 'odds'"),
        ({"models": {"m": {"options": {"passes": [1, 2]}}}}, 8, "passes: want one value, not a list"),
        ({"models": {"m": {"options": {"passes": [1, 2]}}}}, 8, "write `grid: {passes: [1, 2]}`"),
        ({"engines": {"beam": {"options": {"width": [2, 4]}}}}, 16, "write `grid: {width: [2, 4]}`"),
        ({"penalties": {"odds": {"options": {"held": [1, 2]}}}}, 26, "write `grid: {held: [1, 2]}`"),
        ({"seeds": "0,1"}, 20, "seeds: want a list, such as [0,1]"),
        ({"constraints": {"consistency": {"consitency": True}}}, 13, "did you mean 'consistency'?"),
        ({"models": {"options": {"optoins": {}}}}, 7, "unknown key 'models.options.optoins'; did you mean 'options'?"),
        ({"select": {"on": "news", "baseline": {"modle": "m"}}}, 26, "did you mean 'model'?"),
        ({"cross": [{"modle": ["m"]}]}, 24, "did you mean 'model'?"),
    ],
)
def test_a_mistake_is_told_with_its_line(corpora: Path, changes: dict[str, Any], line: int, told: str) -> None:
    (corpora / "broken.yaml").write_text("constraints: [{template: lexico}]\n")
    path = written(corpora, PLAIN | changes)
    with pytest.raises(SweepFileError) as caught:
        read_sweep_file(path)
    (message,) = [one for one in str(caught.value).splitlines() if told in one]
    assert message.startswith(f"{path}:{line}: "), f"{message}\n{path.read_text()}"


def test_all_mistakes_are_told_at_once(corpora: Path) -> None:
    wrong = {"engines": {"gibs": {}}, "models": {"crf": {"trainer": "sdg"}}, "constraints": {"rules": ["no.yaml"]}}
    with pytest.raises(SweepFileError) as caught:
        read_sweep_file(written(corpora, PLAIN | wrong))
    assert len(str(caught.value).splitlines()) == 3


FAULTS: dict[str, tuple[str, Any, str]] = {
    "an unknown key": ("engines", {"odd": {"optoins": {}}}, "unknown key 'engines.odd.optoins'"),
    "an unknown part": ("engines", {"gibs": {}}, "gibs"),
    "a bad option": ("models", {"bad": {"trainer": "perceptron", "options": {"passes": "no"}}}, "passes"),
    "a list": ("engines", {"lists": {"engine": "beam", "options": {"width": ["1", "2"]}}}, "grid: {width: [1, 2]}"),
    "a constraint file": ("constraints", {"gone": ["no.yaml"]}, "no.yaml"),
    "a corpus": ("corpora", {"gone": {"train": "nowhere", "test": "test"}}, "nowhere: no such file or folder"),
    "a model": ("models", {"gone": {"folder": "no model"}}, "no model"),
    "labels": ("constraints", {"odd": ["odd.yaml"]}, "constraints 'odd' do not fit the labels"),
    "consistency": ("constraints", {"agree": {"consistency": True}}, "constraints 'agree' use the label consistency"),
}
"""Entries with mistakes of every kind that is told at a step of its own, and what is told."""


@pytest.mark.parametrize(("one", "other"), [*combinations(FAULTS, 2)])
def test_no_mistake_hides_another_of_whatever_kind(one: str, other: str, corpora: Path) -> None:
    odd = {"template": "appears_once", "name": "odd", "labels": ["author"], "weight": "1.5"}
    (corpora / "odd.yaml").write_text(yaml.safe_dump({"constraints": [odd]}))
    content = {name: dict(part) if isinstance(part, dict) else part for name, part in PLAIN.items()}
    for section, entry, _ in (FAULTS[one], FAULTS[other]):
        content[section] |= entry
    with pytest.raises(SweepFileError) as caught:
        plan_sweep(str(written(corpora, content)), str(corpora / "out"))
    lines = str(caught.value).splitlines()
    assert len(lines) == 2, lines
    for _, _, told in (FAULTS[one], FAULTS[other]):
        assert any(told in line for line in lines), (told, lines)


def test_what_crosses_an_entry_with_a_mistake_is_no_mistake(corpora: Path) -> None:
    content = PLAIN | {"models": PLAIN["models"] | {"bad": {"trainer": "sdg"}}}
    content |= {"cross": [{"model": ["bad", "crf"]}, {"model": ["bad"]}]}
    with pytest.raises(SweepFileError) as caught:
        plan_sweep(str(written(corpora, content)), str(corpora / "out"))
    (line,) = str(caught.value).splitlines()
    assert "'sdg'" in line


@pytest.mark.parametrize("text", ["", "- a\n", "corpora: [\n", "seeds: [0]\nseeds: [1]\n"])
def test_what_is_no_sweep_file_is_told_with_a_line(tmp_path: Path, text: str) -> None:
    path = tmp_path / "sweep.yaml"
    path.write_text(text)
    with pytest.raises(SweepFileError, match=rf"{path}:\d+: "):
        read_sweep_file(path)


def keys(made: SweepCells) -> dict[str, str]:
    return {cell.cell.name: cell.key for cell in made.cells}


def test_a_key_is_that_of_the_content_whatever_it_is_called(corpora: Path) -> None:
    (corpora / "same.yaml").write_text("# The same, with a comment.\n" + yaml.safe_dump(RULES))
    one = planned(corpora)
    other = planned(corpora, constraints={"none": [], "regeln": ["same.yaml"]}, engines={"v": {"engine": "viterbi"}})
    assert keys(one)["news/crf/rules/viterbi/seed=0"] == keys(other)["news/crf/regeln/v/seed=0"]


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"measures": ["labels"]}, "measures"),
        ({"engines": {"viterbi": {"work": 9}, "beam": {"work": 9}}}, "engine"),
        ({"constraints": {"none": ["more.yaml"], "rules": ["more.yaml"]}}, "constraints"),
        ({"models": {"crf": {"trainer": "perceptron", "options": {"features": "core", "passes": 3}}}}, "trainer"),
        ({"corpora": {"news": {"train": "train", "test": "train"}}}, "judged documents"),
        ({"corpora": {"news": {"train": "test", "test": "test"}}}, "training documents"),
    ],
)
def test_a_key_changes_with_each_part_of_the_content(corpora: Path, changes: dict[str, Any], part: str) -> None:
    one, other = planned(corpora), planned(corpora, **changes)
    assert not set(keys(one).values()) & set(keys(other).values())
    assert one.cells[0].content.changed(other.cells[0].content.parts) == (part,)


def test_seeds_are_of_one_content_where_an_engine_has_no_chance(corpora: Path) -> None:
    found = keys(planned(corpora, engines={"viterbi": {}, "gibbs": {}}, constraints={"none": []}))
    assert found["news/crf/none/viterbi/seed=0"] == found["news/crf/none/viterbi/seed=1"]
    assert found["news/crf/none/gibbs/seed=0"] != found["news/crf/none/gibbs/seed=1"]


def test_results_are_the_same_bytes_in_any_order_and_equal_what_labelling_says(corpora: Path, tmp_path: Path) -> None:
    made = planned(corpora)
    stores = [Store(tmp_path / name) for name in ("one", "two")]
    done = [work(made, store, backwards=backwards) for store, backwards in zip(stores, (False, True), strict=True)]
    assert UnitsDone.merge(done[0]).units == len({cell.key for cell in made.cells}) + 1
    for cell in made.cells:
        assert stores[0].table(cell.key).read_bytes() == stores[1].table(cell.key).read_bytes()
    assert states(made, stores[0]) == [CellState.DONE] * len(made.cells)
    tables = [
        long_table(
            [(c.cell, row) for c, row in zip(made.cells, listed(made.cells, s, live=False), strict=True)], s.markers()
        )
        for s in stores
    ]
    assert tables[0].equals(tables[1])
    cell = made.cells[-1]
    judged = made.judged(cell, stores[0])
    model = load_model(judged.model)
    from concord.workers.sweeps.judging import _batch

    batch = _batch(judged.documents)
    labelled = label_batch(batch, model=model, constraints=judged.declared.bind(model.labels), settings=judged.settings)
    result = stores[0].read(cell.key)
    assert result.penalty.tolist() == [decoded.penalty for decoded in labelled.decoded]
    assert result.gap.tolist() == [decoded.gap for decoded in labelled.decoded]
    assert 0.0 < result.cpu_seconds < result.worker_cpu_seconds
    assert result.penalty.sum() > 0.0, "the rule has something to say"
    gold = batch.labels
    assert gold is not None
    found = result.of("spans")
    starts = sum(name.startswith("B-") for name in np.array(gold.values)[gold.codes])
    assert found.table[:, :, 0].sum() == starts
    value, low, high = result.figures()["spans.f1"]
    assert value == float(f1(found.table.sum(axis=0)))
    assert low <= value <= high


def test_states_are_told_apart(corpora: Path, tmp_path: Path) -> None:
    made, store = planned(corpora), Store(tmp_path / "sweep")
    store.make()
    assert set(states(made, store)) == {CellState.PLANNED}
    first = made.cells[0].key
    store.running(first).write_text("")
    assert states(made, store, live=True)[0] is CellState.RUNNING
    assert states(made, store, live=False)[0] is CellState.PLANNED, "a run that was killed is at nothing"
    work(made, store)
    assert set(states(made, store)) == {CellState.DONE}
    assert not list((store.folder / "running").iterdir())
    other = planned(corpora, constraints={"none": [], "rules": ["more.yaml"]})
    rows = listed(other.cells, store, live=False)
    assert [row.state for row in rows] == [CellState.DONE] * 4 + [CellState.STALE] * 4, "the seeds that were copied too"
    assert {row.changed for row in rows[4:]} == {("constraints",)}
    report = estimated(other.cells, store, rows)
    assert (report.models, report.count(CellState.STALE)) == (0, 4)
    assert report.cpu_seconds is not None
    assert report.cpu_seconds > 0.0


def test_a_failure_is_kept_with_its_traceback_and_the_next_success_is_none(corpora: Path, tmp_path: Path) -> None:
    few = planned(corpora, sizes=[99], engines={"viterbi": {}}, seeds=[0])
    store = Store(tmp_path / "sweep")
    store.make()
    learned = few.trained(few.cells[0])
    assert learned is not None
    with pytest.raises(CorpusError, match="size 99 wants more"):
        SWEEP.run(TrainingUnit(learned), SweepParts(store.folder))
    failure = store.failures()[learned.key]
    assert (failure.name, "size 99 wants more" in failure.reason) == ("news/crf/size=99", True)
    assert "Traceback" in failure.log
    assert not store.running(learned.key).exists()
    assert set(states(few, store)) == {CellState.FAILED}, "cells of a model that failed"
    assert not store.model(learned.key).exists()


def test_a_corpus_that_changes_after_planning_is_an_error_of_the_cell(corpora: Path, tmp_path: Path) -> None:
    made = planned(corpora)
    learned = made.trained(made.cells[0])
    assert learned is not None
    changed = learned.part._replace(documents=learned.part.documents._replace(digest="another"))
    with pytest.raises(CorpusError, match="has changed since the sweep was planned"):
        sample_of(changed)


def test_a_model_folder_is_used_as_it_is(corpora: Path, tmp_path: Path) -> None:
    trainer = trainer_named("perceptron")
    documents = list(synthesize(10, seed=6, kind="news"))
    settings = trainer.settings.model_validate({"features": "core", "passes": 1})
    trainer.train(documents, settings=settings, out=tmp_path / "model")
    made = planned(corpora, models={"old": {"folder": str(tmp_path / "model")}}, sizes=[3, 5])
    assert len(made.cells) == 8, "what is not trained has no sizes"
    assert [made.trained(cell) for cell in made.cells] == [None] * 8
    store = Store(tmp_path / "sweep")
    work(made, store)
    assert set(states(made, store)) == {CellState.DONE}


def test_a_column_that_judged_documents_lack_is_a_failure_that_says_so(corpora: Path, tmp_path: Path) -> None:
    tagged = Document.build("a", [["Ada", "wrote"]], labels=[["B-PER", "O"]], pos=[["NNP", "VBD"]])
    trainer = trainer_named("perceptron")
    settings = trainer.settings.model_validate({"features": "core+pos", "passes": 1})
    trainer.train([tagged], settings=settings, out=tmp_path / "model")
    bare = Document.build("a", [["Ada", "wrote"]], labels=[["B-PER", "O"]])
    write_corpus([bare], tmp_path / "bare", source="made up")
    places = {"corpora": {"bare": {"test": str(tmp_path / "bare")}}, "constraints": {"none": []}}
    made = planned(corpora, models={"old": {"folder": str(tmp_path / "model")}}, **places)
    with pytest.raises(CorpusError, match=r"bare: the model of bare/old.*reads the column .pos., which is not there"):
        work(made, Store(tmp_path / "sweep"))


def test_label_consistency_is_learned_and_used_where_asked_for(corpora: Path, tmp_path: Path) -> None:
    weak = {"trainer": "perceptron", "options": {"features": "core", "passes": 1}}  # agreement can mend its answers
    models = {"crf": weak | {"consistency": True}}
    entry = {"none": [], "agree": {"consistency": True}}
    made = planned(corpora, models=models, constraints=entry, engines={"beam": {}}, seeds=[0])
    store = Store(tmp_path / "sweep")
    work(made, store)
    none, agree = (store.read(cell.key) for cell in made.cells)
    assert none.penalty.sum() == 0.0
    assert agree.penalty.sum() > 0.0
    without = planned(corpora, constraints=entry, engines={"beam": {}}, seeds=[0])
    with pytest.raises(CorpusError, match="no label consistency was learned with this model"):
        work(without, Store(tmp_path / "other"))


def test_label_consistency_is_learned_where_the_last_document_alone_has_a_label(corpora: Path, tmp_path: Path) -> None:
    odd = Document.build("odd", [["Ada", "wrote"]], labels=[["B-AUTHOR", "O"]], pos=[["N", "V"]])
    write_corpus([*synthesize(12, seed=5, kind="news"), odd], tmp_path / "odd", source="made up")
    models = {"agreeing": PLAIN["models"]["crf"] | {"consistency": True}}
    places = {"corpora": {"news": {"train": str(tmp_path / "odd"), "test": "test"}}, "seeds": [0]}
    made = planned(corpora, models=models, constraints={"agree": {"consistency": True}}, **places)
    work(made, Store(tmp_path / "sweep"))
    assert set(states(made, Store(tmp_path / "sweep"))) == {CellState.DONE}


def test_an_answer_that_breaks_a_hard_constraint_is_a_result(corpora: Path, tmp_path: Path) -> None:
    hard = {"constraints": [RULES["constraints"][0] | {"weight": "hard"}]}
    (corpora / "hard.yaml").write_text(yaml.safe_dump(hard))
    made, store = planned(corpora, constraints={"hard": ["hard.yaml"]}, seeds=[0]), Store(tmp_path / "sweep")
    work(made, store)
    assert set(states(made, store)) == {CellState.DONE}
    told = {cell.cell.engine: (store.read_marker(cell.key), store.read(cell.key)) for cell in made.cells}
    marker, result = told["viterbi"]
    assert np.isinf(result.penalty).any(), "Viterbi knows no constraints"
    assert marker.sums["penalty"] is None
    assert marker.sums["largest_gap"] is None


def test_label_consistency_can_stay_as_published(corpora: Path, tmp_path: Path) -> None:
    models = {"scaled": PLAIN["models"]["crf"] | {"consistency": True}}
    models["printed"] = PLAIN["models"]["crf"] | {"consistency": "published"}
    made, store = planned(corpora, models=models, constraints={"all": {"consistency": True}}), Store(tmp_path / "sweep")
    work(made, store)
    found = {cell.cell.model: saved_consistency(store.model(cell.model.key)) for cell in made.cells}
    printed, scaled = found["printed"], found["scaled"]
    assert printed is not None
    assert scaled is not None
    assert printed.scales == AS_PUBLISHED
    assert not printed.counts.fold_case
    if not scaled.counts.fold_case:
        assert printed.counts.exact.tolist() == scaled.counts.exact.tolist()
    assert len({cell.model.key for cell in made.cells}) == 2


def test_kernels_are_compiled_before_a_cell_is_timed(
    corpora: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compiling takes two CPU seconds here, once for each engine and kind of constraints; no cell's time holds them."""
    warmed = list[tuple[str, int]]()

    def slow(sample: Document, *, model: Any, constraints: Any, settings: RunSettings) -> None:
        warmed.append((settings.engine, len(constraints.names)))
        assert sample.doc_id
        assert model.labels
        until = time.process_time() + 2.0
        while time.process_time() < until:
            pass

    monkeypatch.setattr(judging, "warm", slow)
    monkeypatch.setattr(judging, "COMPILED", set())
    few = {"trainer": "perceptron", "options": {"features": "core", "passes": 1}}
    made, store = planned(corpora, models=PLAIN["models"] | {"few": few}), Store(tmp_path / "sweep")
    work(made, store)
    assert sorted(warmed) == [("beam", 0), ("beam", 1), ("viterbi", 0), ("viterbi", 1)]
    markers = store.markers().values()
    assert len(markers) > len(warmed)
    assert max(marker.worker_cpu_seconds for marker in markers) < 2.0
    assert max(marker.cpu_seconds for marker in markers) < 2.0


def test_constraints_on_labels_that_a_model_lacks_are_left_out_where_asked_for(corpora: Path, tmp_path: Path) -> None:
    other = {"constraints": [*MORE["constraints"], {"template": "starts_with", "labels": ["NOWHERE"], "weight": "1"}]}
    (corpora / "other.yaml").write_text(yaml.safe_dump(other))
    one = {"engines": {"beam": {}}, "seeds": [0]}
    made = planned(corpora, constraints={"some": {"files": ["other.yaml"], "known_labels_only": True}}, **one)
    more = planned(corpora, constraints={"some": ["more.yaml"]}, **one)
    store = Store(tmp_path / "sweep")
    work(made, store)
    work(more, store)
    found, wanted = store.read(made.cells[0].key), store.read(more.cells[0].key)
    assert found.left_out == ("starts_with(NOWHERE)",)
    assert found.penalty.tolist() == wanted.penalty.tolist()
    assert found.penalty.sum() > 0.0
    table = long_table(told(made, store), store.markers()).to_pylist()
    assert [row["value"] for row in table if row["measure"] == "constraints_left_out"] == [1.0]
    with pytest.raises(ConstraintError, match="unknown label 'NOWHERE'"):
        work(planned(corpora, constraints={"some": ["other.yaml"]}, **one), store)


def test_a_plan_is_kept_and_read(corpora: Path, tmp_path: Path) -> None:
    made, store = planned(corpora), Store(tmp_path / "sweep")
    store.make()
    keep(made.cells, store)
    again: list[PlannedCell] = kept(store)
    assert [cell.key for cell in again] == [cell.key for cell in made.cells]
    assert [cell.cell for cell in again] == [cell.cell for cell in made.cells]
    with pytest.raises(ResultError, match="no folder of a sweep"):
        kept(Store(tmp_path))


def test_a_marker_or_table_that_is_damaged_is_named(corpora: Path, tmp_path: Path) -> None:
    made, store = planned(corpora, engines={"viterbi": {}}, seeds=[0]), Store(tmp_path / "sweep")
    work(made, store)
    key = made.cells[0].key
    store.table(key).write_bytes(b"no table")
    with pytest.raises(ResultError, match=str(store.table(key))):
        store.read(key)
    store.marker(key).write_text("{}")
    with pytest.raises(ResultError, match=str(store.marker(key))):
        listed(made.cells, store, live=False)


def told(made: SweepCells, store: Store) -> list[Any]:
    return [(cell.cell, row) for cell, row in zip(made.cells, listed(made.cells, store, live=False), strict=True)]


def test_a_comparison_is_paired_and_takes_seeds_together(corpora: Path, tmp_path: Path) -> None:
    made, store = planned(corpora), Store(tmp_path / "sweep")
    work(made, store)
    rows = compared(told(made, store), store, figure="spans.f1", by="constraints", against="none")
    assert [(row.value, row.cells, row.documents) for row in rows] == [
        ("none", 2, 12),
        ("rules", 2, 12),
        ("none", 2, 12),
        ("rules", 2, 12),
    ]
    assert [dict(row.others) for row in rows[::2]] == [{"engine": "viterbi"}, {"engine": "beam"}]
    assert [row.adjusted is None for row in rows] == [True, False, True, False]
    for base, row in ((rows[0], rows[1]), (rows[2], rows[3])):
        assert row.difference is not None
        assert row.difference.difference == pytest.approx(row.interval.value - base.interval.value, abs=1e-12)
    assert rows[1].difference is not None
    assert rows[1].difference.difference == 0.0, "viterbi reads no constraints"
    assert {row.spread for row in rows} == {0.0}, "engines without chance give the same for every seed"
    keyed = {cell.cell.name: cell.key for cell in made.cells}
    assert len(set(keyed.values())) == len(keyed) // 2
    for figure, by, against, message in (
        ("spans.f2", "engine", None, "no figure is called 'f2'"),
        ("spans.f1", "colour", None, "no axis is called 'colour'"),
        ("spans.f1", "engine", "gibbs", "no engine is called 'gibbs'"),
    ):
        with pytest.raises(UsageError, match=message):
            compared(told(made, store), store, figure=figure, by=by, against=against)
    with pytest.raises(ResultError, match="has no measure 'lines'"):
        compared(told(made, store), store, figure="lines.f1", by="engine", against=None)


def test_the_best_of_many_is_chosen_on_other_documents_than_it_is_reported_on(corpora: Path, tmp_path: Path) -> None:
    parts = {name: {"train": "train", "test": test} for name, test in (("dev", "test"), ("late", "other"))}
    sizes = {"sizes": [2, 6, 24], "engines": {"viterbi": {}}, "seeds": [0], "constraints": {"none": []}}
    made, store = planned(corpora, corpora=parts, **sizes), Store(tmp_path / "sweep")
    work(made, store)
    given = {"figure": "spans.f1", "by": "size"}
    on_dev = {cell.cell.size: store.read(cell.key).figures()["spans.f1"].value for cell in made.cells[:3]}
    best = max(on_dev, key=lambda size: on_dev[size])
    found = chosen_on(told(made, store), store, **given, corpus="dev", against="2")
    assert [(cell.corpus, cell.size) for cell, _ in found] == [("late", size) for size in (2, best)]
    (base, row) = compared(found, store, **given, against="2")
    assert (base.value, row.value, row.documents) == (2, best, 9)
    assert row.adjusted is not None
    assert row.difference is not None
    assert row.adjusted == row.difference.p_value, "one difference is looked at"
    same = planned(corpora, corpora=parts | {"again": parts["dev"]}, **sizes)
    with pytest.raises(ResultError, match="12 documents would choose and be reported on, the first '"):
        chosen_on(told(same, store), store, **given, corpus="dev", against=None)
    with pytest.raises(UsageError, match="no corpus with results is called 'test'"):
        chosen_on(told(made, store), store, **given, corpus="test", against=None)


def test_options_of_a_grid_are_entries_of_their_own(corpora: Path) -> None:
    models = {"crf": {"trainer": "perceptron", "options": {"features": "core"}, "grid": {"passes": [1, 3]}}}
    engines = {"viterbi": {}, "beam": {"grid": {"width": [2, 4]}}}
    made = planned(corpora, models=models, engines=engines, cross=[{"model": ["crf"], "engine": ["beam"]}])
    assert {cell.cell.model for cell in made.cells} == {"crf passes=1", "crf passes=3"}
    assert {cell.cell.engine for cell in made.cells} == {"beam width=2", "beam width=4"}
    assert len({cell.model.key for cell in made.cells}) == 2


def test_a_random_search_draws_settings_and_keeps_the_baseline(corpora: Path) -> None:
    baseline = {"model": "crf", "constraints": "none", "engine": "viterbi"}
    given: dict[str, Any] = {"engines": {"viterbi": {}, "beam": {"grid": {"width": [1, 2, 3, 4, 5]}}}}
    chosen = {"on": "news", "same_documents": True, "baseline": baseline}
    first, same, other = (
        {Setting.of(cell.cell) for cell in planned(corpora, **given, search=search, **more).cells}
        for search, more in (
            ({"kind": "random", "settings": 3}, {}),
            (
                {"kind": "random", "settings": 3},
                {"select": chosen},
            ),
            ({"kind": "random", "settings": 3, "seed": 1}, {}),
        )
    )
    assert len(first) == len(other) == 3
    assert first != other
    assert same == first | {Setting(**baseline)}


def searched(made: SweepCells, store: Store) -> list[list[Cell]]:
    """Does a search in this process; returns the cells of each stage."""
    store.make()
    stages, choice = list[list[Cell]](), Choice.of(made.sweep.file)
    while True:
        may = standing(told(made, store), store, choice).open
        todo = [c for c in made.cells if c.cell in may and not store.marker(c.key).exists()]
        if not todo:
            return stages
        work(SweepCells(made.sweep, made.digests, todo), store)
        stages.append([cell.cell for cell in todo])


def test_a_setting_is_chosen_on_one_corpus_and_only_it_is_done_on_the_others(corpora: Path, tmp_path: Path) -> None:
    parts = {name: {"train": "train", "test": test} for name, test in (("dev", "test"), ("late", "other"))}
    models = {"crf": {"trainer": "perceptron", "grid": {"passes": [1, 2]}, "options": {"features": "core"}}}
    base = {"model": "crf passes=1", "constraints": "none", "engine": "viterbi"}
    one: dict[str, Any] = {"corpora": parts, "models": models, "engines": {"viterbi": {}}, "seeds": [0]}
    made = planned(corpora, **one, select={"on": "dev", "baseline": base, "measure": "spans.f1"})
    store, choice = Store(tmp_path / "sweep"), Choice.of(made.sweep.file)
    stages = searched(made, store)
    found = standing(told(made, store), store, choice)
    assert [{cell.corpus for cell in stage} for stage in stages] == [{"dev"}, {"late"}]
    by_figure = {Setting.of(c.cell): value_on(made, store, c.cell) for c in made.cells if c.cell.corpus == "dev"}
    assert found.chosen == max(by_figure, key=lambda setting: by_figure[setting])
    assert dict(found.worth) == pytest.approx(by_figure)
    assert {Setting.of(cell) for cell in stages[1]} == {found.chosen, Setting(**base)}
    rows = without_dropped([row for _, row in told(made, store)], [c.cell for c in made.cells], found)
    assert sum(row.state is CellState.DROPPED for row in rows) == 4 - len(stages[1])
    keep(made.cells, store)
    keep_choice(choice, store)
    shown = show_sweep(str(store.folder))
    assert {row.value for row in shown.rows} == {Setting.of(cell).name for cell in stages[1]}
    assert all(row.documents == 9 for row in shown.rows)


def test_halving_keeps_the_better_settings_for_more_documents(corpora: Path, tmp_path: Path) -> None:
    parts = {name: {"train": "train", "test": test} for name, test in (("dev", "test"), ("late", "other"))}
    models = {"crf": {"trainer": "perceptron", "grid": {"passes": [1, 2, 3, 4]}, "options": {"features": "core"}}}
    made = planned(
        corpora, corpora=parts, models=models, engines={"viterbi": {}}, constraints={"none": []}, seeds=[0],
        sizes=[4, 12, "all"], search={"kind": "halving"}, select={"on": "dev"},
    )  # fmt: skip
    store = Store(tmp_path / "sweep")
    stages = searched(made, store)
    assert [(len(stage), {(cell.corpus, cell.size) for cell in stage}) for stage in stages] == [
        (4, {("dev", 4)}),
        (2, {("dev", 12)}),
        (1, {("dev", None)}),
        (1, {("late", None)}),
    ]
    few = {cell.model: value_on(made, store, cell) for cell in stages[0]}
    assert {cell.model for cell in stages[1]} == set(sorted(few, key=lambda name: -few[name])[:2])
    found = standing(told(made, store), store, Choice.of(made.sweep.file))
    assert found.chosen == Setting.of(stages[3][0]) == Setting.of(stages[2][0])
    assert (len(found.open), len(found.dropped)) == (8, 24 - 8)


def value_on(made: SweepCells, store: Store, cell: Cell) -> float:
    key = next(one.key for one in made.cells if one.cell == cell)
    return store.read(key).figures()["spans.f1"].value


def test_folds_are_other_documents_of_one_figure(corpora: Path, tmp_path: Path) -> None:
    corpus = {"news": {"train": "train", "folds": 3}}
    made = planned(corpora, corpora=corpus, engines={"viterbi": {}}, seeds=[0], constraints={"none": []})
    store = Store(tmp_path / "sweep")
    work(made, store)
    (row,) = compared(told(made, store), store, figure="spans.f1", by="engine", against=None)
    assert (row.cells, row.documents) == (3, 24)


def test_an_interval_narrows_with_documents_and_holds_the_figure() -> None:
    rng = np.random.default_rng(0)
    wide, narrow = (rng.integers(1, 9, (size, 2, 3)).cumsum(axis=2)[:, :, ::-1].copy() for size in (10, 1000))
    one, other = (bootstrap_interval(counts, f1, rng=np.random.default_rng(1)) for counts in (wide, narrow))
    assert one.low <= one.value <= one.high
    assert other.high - other.low < one.high - one.low
    with pytest.raises(ValueError, match="a bootstrap needs documents"):
        bootstrap_interval(np.zeros((0, 1, 3), np.int64), f1, rng=rng)


def test_the_content_of_a_cell_is_json(corpora: Path) -> None:
    for cell in planned(corpora).cells:
        assert json.loads(json.dumps(cell.content.parts)) == cell.content.parts


WEIGHED: dict[str, Any] = {
    "constraints": {"none": [], "more": ["more.yaml"]},
    "penalties": {"declared": {}, "odds": {"options": {"held": 500}}, "flat": {"penalty": "fixed"}},
    "engines": {"viterbi": {}, "beam": {}},
    "seeds": [0],
}


def weights_of(made: SweepCells, store: Store, penalty: str) -> dict[str, float]:
    """Weights that the cells of a penalty are judged with."""
    (path,) = {made.judged(cell, store).weights for cell in made.cells if cell.cell.penalty == penalty}
    assert path is not None
    return dict(declared_weights(load_constraints(path)))


def test_penalties_are_cells_of_constraints_that_have_soft_weights(corpora: Path) -> None:
    made = planned(corpora, **WEIGHED)
    names = [cell.cell.name for cell in made.cells if cell.cell.engine == "beam"]
    assert names == [
        "news/crf/none/beam/seed=0",
        "news/crf/more/beam/seed=0",
        "news/crf/more/odds/beam/seed=0",
        "news/crf/more/flat/beam/seed=0",
    ]
    weights = {cell.cell.penalty: cell.weights.key for cell in made.cells if cell.weights is not None}
    assert list(weights) == ["odds", "flat"]
    assert all(cell.weights is None or cell.weights.key == weights[cell.cell.penalty] for cell in made.cells)
    assert len({cell.key for cell in made.cells}) == len(made.cells)
    grid = {"fixed": {"grid": {"nats": [0.5, 2.0]}}}
    other = planned(corpora, **WEIGHED | {"penalties": grid, "cross": [{"penalty": ["fixed"], "engine": ["beam"]}]})
    assert [cell.cell.penalty for cell in other.cells] == ["declared", "fixed nats=0.5", "fixed nats=2.0"]


def test_counted_and_learned_weights_are_those_of_constraints_weigh(corpora: Path, tmp_path: Path) -> None:
    penalties = WEIGHED["penalties"] | {"learned": {"options": {"folds": 2, "passes": 2, "engine": "beam"}}}
    made, store = planned(corpora, **WEIGHED | {"penalties": penalties}), Store(tmp_path / "sweep")
    work(made, store)
    model = store.model(made.cells[0].model.key)
    for penalty, given, options in (
        ("odds", None, ["held=500"]),
        ("learned", str(model), ["folds=2", "passes=2", "engine=beam"]),
    ):
        request = WeighRequest(corpus=str(corpora / "train"), penalty=penalty, model=given, out=tmp_path / "out.yaml")
        weigh_file(str(corpora / "more.yaml"), request, options)
        wanted = dict(declared_weights(load_constraints(tmp_path / "out.yaml")))
        assert weights_of(made, store, penalty) == wanted
    assert weights_of(made, store, "flat")["legal"] == 1.0
    judged = [store.read(cell.key).penalty.sum() for cell in made.cells if cell.cell[5:7] == ("more", "beam")]
    assert len(set(judged)) == len(judged) == 4, "each is judged with its own"


def test_tuned_weights_are_counts_times_factors(corpora: Path, tmp_path: Path) -> None:
    options = {"factors": [0.0, 1.0, 3.0], "engine": "beam"}
    penalties = {"odds": {}, "tuned": {"options": options}}
    made, store = planned(corpora, **WEIGHED | {"penalties": penalties, "engines": {"beam": {}}}), Store(tmp_path / "s")
    work(made, store)
    counted, tuned = (weights_of(made, store, penalty) for penalty in penalties)
    assert set(tuned) <= set(counted), "a factor of 0 leaves a constraint out"
    assert all(round(nats / counted[name]) in (1, 3) for name, nats in tuned.items())


def test_weights_are_counted_on_what_the_model_of_the_cell_learns_from(corpora: Path, tmp_path: Path) -> None:
    parts = {
        "corpora": {"news": {"train": "train", "folds": 2}},
        "engines": {"beam": {}},
        "constraints": {"m": ["more.yaml"]},
    }
    made, store = (
        planned(corpora, **WEIGHED | parts | {"penalties": {"odds": {}}, "sizes": [6, "all"]}),
        Store(tmp_path),
    )
    work(made, store)
    for cell in made.cells:
        given = made.to_weigh(cell, store)
        assert given is not None
        counts = count_rows(given.declared, [Batch.of(sample_of(given.part))], load_model(given.model).labels)
        wanted = {n: round(c.weight(PENALTIES["odds"], OddsSettings()), 3) for n, c in counts.items()}
        found = dict(declared_weights(load_constraints(store.weights(given.key))))
        assert found == {name: nats for name, nats in wanted.items() if nats}
    assert len({cell.weights.key for cell in made.cells if cell.weights is not None}) == 4


def test_weights_that_fail_are_a_failure_of_their_cells_alone(corpora: Path, tmp_path: Path) -> None:
    penalties = {"declared": {}, "learned": {"options": {"folds": 20}}}
    made, store = planned(corpora, **WEIGHED | {"penalties": penalties, "sizes": [12]}), Store(tmp_path)
    with pytest.raises(TrainingError, match="12 documents are too few for 20 folds"):
        work(made, store)
    rows = {row.name: row for row in listed(made.cells, store, live=False)}
    assert {name for name, row in rows.items() if row.state is CellState.FAILED} == {n for n in rows if "learned" in n}
    keep(made.cells, store)
    assert "too few" in log_of(str(tmp_path), next(name for name in rows if "learned" in name)).log


def test_a_pool_is_learned_from_without_its_labels(corpora: Path, tmp_path: Path) -> None:
    documents = [replace(d, labels=None) for d in synthesize(8, seed=78, kind="news")]
    for name in ("pool", "same"):
        write_corpus(documents, tmp_path / name, source="made up")
    parts = {"train": "train", "test": "test", "pool": str(tmp_path / "pool")}
    models = {
        "hmm": {"trainer": "hmm"},
        "em": {"trainer": "hmm", "pool": True, "options": {"iterations": 2}},
        "codl": {"trainer": "codl", "pool": True, "options": {"constraints": "more.yaml", "held": 500}},
    }
    given: dict[str, Any] = {"models": models, "engines": {"beam": {}}, "seeds": [0]}
    given["constraints"] = {"none": [], "learned": {"learned": True}}
    given["cross"] = [{"constraints": ["none"]}, {"model": ["codl"], "constraints": ["learned"]}]
    made, store = planned(corpora, **given, corpora={"news": parts}), Store(tmp_path / "sweep")
    work(made, store)
    assert [cell.cell.name for cell in made.cells] == [
        "news/hmm/none/beam/seed=0",
        "news/em/none/beam/seed=0",
        "news/codl/none/beam/seed=0",
        "news/codl/learned/beam/seed=0",
    ]
    plain, em, codl, learned = (store.read(cell.key) for cell in made.cells)
    assert len({tuple(result.objective) for result in (plain, em, codl)}) == 3
    assert learned.penalty.sum() > 0.0 == codl.penalty.sum()
    folder = store.model(made.cells[3].model.key)
    assert dict(declared_weights(load_constraints(folder / "constraints.yaml"))).keys() == {"once", "legal"}
    other = planned(corpora, **given, corpora={"news": parts | {"pool": str(tmp_path / "same")}})
    assert keys(other) == keys(made), "the content counts, not the place"
    write_corpus(documents[1:], tmp_path / "less", source="made up")
    changed = planned(corpora, **given, corpora={"news": parts | {"pool": str(tmp_path / "less")}})
    assert [one.key == two.key for one, two in zip(made.cells, changed.cells, strict=True)] == [True] + 3 * [False]
    assert made.cells[1].content.changed(changed.cells[1].content.parts) == ("read by the trainer",)
    given["cross"] = [{"model": ["hmm"], "constraints": ["learned"]}]
    unlearned = planned(corpora, **given, corpora={"news": parts})
    with pytest.raises(CorpusError, match="was not learned under constraints"):
        work(unlearned, Store(tmp_path / "other"))


def test_what_a_trainer_reads_may_not_change_while_a_sweep_runs(corpora: Path, tmp_path: Path) -> None:
    file = tmp_path / "rules.yaml"
    file.write_text(yaml.safe_dump(RULES))
    options = {"features": "core", "passes": 1, "constraints": str(file)}
    models = {"crf": {"trainer": "perceptron", "options": options}}
    made = planned(corpora, models=models, engines={"viterbi": {}}, seeds=[0], constraints={"none": []})
    file.write_text(yaml.safe_dump(MORE))
    with pytest.raises(CorpusError, match=rf"{file}: has changed since the sweep was planned"):
        work(made, Store(tmp_path / "sweep"))
    assert planned(corpora, models=models).cells[0].model.key != made.cells[0].model.key, "of one process, too"


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """No Ray."""
    monkeypatch.setattr(concord.flows.cluster.cluster, "cluster", lambda *_, **__: nullcontext(Here(None)))


def test_what_is_damaged_in_another_sweep_is_told_and_done_again(
    corpora: Path, tmp_path: Path, here: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(concord.flows.sweeping.run_sweep, "_tracked", lambda _, request, report, *__: report)
    monkeypatch.setattr(concord.flows.sweeping.run_sweep, "_tracker", lambda _: None)
    parts = {
        "constraints": {"rules": ["more.yaml"]},
        "penalties": {"declared": {}, "odds": {}},
        "engines": {"beam": {}},
    }

    def run(out: str, reuse: str | None = None) -> SweepReport:
        file = written(corpora, PLAIN | parts | {"seeds": [0, 1, 2]})
        given = None if reuse is None else str(tmp_path / reuse)
        return run_sweep(SweepRequest(file=str(file), out=str(tmp_path / out), reuse=given))

    first, store = run("one"), Store(tmp_path / "one")
    assert (first.made, first.models, first.weights) == (6, 1, 1), "seeds of an engine without chance are done once"
    again = run("two", "one")
    assert (again.reused, again.made, again.models, again.weights) == (6, 0, 0, 0)
    key = next(iter(store.markers()))
    store.table(key).write_bytes(store.table(key).read_bytes()[:-9])
    (model,) = (path for path in (tmp_path / "one" / "models").iterdir() if path.is_dir())
    next(path for path in sorted(model.iterdir()) if path.name != MANIFEST).write_bytes(b"")
    third = run("three", "one")
    assert (third.reused, third.made, third.models) == (3, 3, 1)
    told = capsys.readouterr().err
    assert f"not used again: {store.table(key)}: no whole result" in told
    assert f"not used again: {model}" in told
    Store(tmp_path / "two").table(key).unlink()
    assert run("two").made == 3, "a result without its table is none"


def test_a_model_folder_that_changes_during_a_sweep_is_an_error_of_its_cells(corpora: Path, tmp_path: Path) -> None:
    trainer, documents = trainer_named("perceptron"), list(synthesize(10, seed=6, kind="news"))
    settings = trainer.settings.model_validate({"features": "core", "passes": 1})
    trainer.train(documents, settings=settings, out=tmp_path / "model")
    made = planned(corpora, models={"old": {"folder": str(tmp_path / "model")}}, engines={"viterbi": {}}, seeds=[0])
    trainer.train(documents[1:], settings=settings, out=tmp_path / "model")
    with pytest.raises(CorpusError, match="model: has changed since the sweep was planned"):
        work(made, Store(tmp_path / "sweep"))


def test_a_wrong_address_of_mlflow_is_told_before_the_work(corpora: Path, tmp_path: Path, here: None) -> None:
    (tmp_path / "damaged.db").write_text("no database")
    file = written(corpora, PLAIN | {"engines": {"viterbi": {}}, "seeds": [0], "constraints": {"none": []}})
    context = RunContext(tracking=f"sqlite:///{tmp_path / 'damaged.db'}")
    with pytest.raises(TrackingError, match="a damaged file may be moved away"):
        run_sweep(SweepRequest(file=str(file), out=str(tmp_path / "sweep"), context=context))
    assert Store(tmp_path / "sweep").markers() == {}


@pytest.mark.slow
def test_each_new_cell_is_a_run_in_mlflow_unless_there_are_many(corpora: Path, tmp_path: Path, here: None) -> None:
    context = RunContext(tracking=f"sqlite:///{tmp_path / 'mlflow.db'}")
    few: dict[str, Any] = {"engines": {"viterbi": {}, "beam": {}}, "seeds": [0], "constraints": {"none": []}}

    def children(**changes: Any) -> list[Any]:
        file = written(corpora, PLAIN | few | changes)
        report = run_sweep(SweepRequest(file=str(file), out=str(tmp_path / "sweep"), context=context))
        client = MlflowClient(tracking_uri=context.tracking)
        parent = f"tags.mlflow.parentRunId = '{report.mlflow_run}'"
        return sorted(client.search_runs(["1"], parent), key=lambda run: str(run.info.run_name))

    beam, viterbi = children()
    assert (beam.info.run_name, beam.info.status) == ("news/crf/none/beam/seed=0", "FINISHED")
    assert (beam.data.params["engine"], "fold" in beam.data.params) == ("beam", False)
    marker = Store(tmp_path / "sweep").read_marker(viterbi.data.params["key"])
    assert viterbi.data.metrics["spans.f1"] == marker.figures["spans.f1"][0]
    (other,) = children(constraints={"none": [], "rules": ["rules.yaml"]}, cross=[{"engine": ["viterbi"]}])
    assert other.info.run_name == "news/crf/rules/viterbi/seed=0"
    assert children(seeds=[0, 1], engines={"gibbs": {}}, tracking="table") == []


HOPELESS: dict[str, tuple[dict[str, Any], str]] = {
    "a measure of text that a corpus lacks": (
        {"measures": ["spans", "offsets"]},
        "corpus 'news' cannot be judged by measure 'offsets': ",
    ),
    "consistency of a model that has none": (
        {"constraints": {"none": [], "agree": {"consistency": True}}},
        "constraints 'agree' use the label consistency of their model, and model 'crf' learns none",
    ),
    "constraints of a model that has none": (
        {"constraints": {"none": [], "own": {"learned": True}}},
        "constraints 'own' are those that their model was learned under, and model 'crf' has none",
    ),
    "a label that no document has": (
        {"constraints": {"none": [], "odd": ["odd.yaml"]}},
        "constraints 'odd' do not fit the labels of model 'crf' on corpus 'news': ",
    ),
    "documents without gold labels": (
        {"corpora": {"news": {"train": "train", "test": "bare"}}},
        "corpus 'news' has no gold labels to judge by: ",
    ),
}


@pytest.mark.parametrize("name", HOPELESS)
def test_cells_that_must_fail_are_told_before_anything_runs(corpora: Path, name: str) -> None:
    changes, told = HOPELESS[name]
    odd = {"template": "appears_once", "name": "odd", "labels": ["author"], "weight": "1.5"}
    (corpora / "odd.yaml").write_text(yaml.safe_dump({"constraints": [odd]}))
    if not (corpora / "bare").exists():
        bare = [replace(document, labels=None) for document in synthesize(3, seed=6, kind="news")]
        write_corpus(bare, corpora / "bare", source="made up")
    path, out = written(corpora, PLAIN | changes), corpora / "out"
    for act in (
        partial(plan_sweep, str(path), str(out)),
        partial(run_sweep, SweepRequest(file=str(path), out=str(out))),
    ):
        with pytest.raises(SweepFileError) as caught:
            act()
        (line,) = str(caught.value).splitlines()
        assert line.startswith(f"{path}: {told}")
    assert not out.exists()


def test_everything_that_must_fail_is_told_at_once_and_cells_beside_it_can_be_named(corpora: Path) -> None:
    models = {"crf": PLAIN["models"]["crf"], "agreeing": PLAIN["models"]["crf"] | {"consistency": True}}
    wanted = {"models": models, "constraints": {"none": [], "agree": {"consistency": True}, "odd": ["odd.yaml"]}}
    odd = {"template": "appears_once", "name": "odd", "labels": ["author"], "weight": "1.5"}
    (corpora / "odd.yaml").write_text(yaml.safe_dump({"constraints": [odd]}))
    path = written(corpora, PLAIN | wanted | {"measures": ["offsets"]})
    with pytest.raises(SweepFileError) as caught:
        plan_sweep(str(path), str(corpora / "out"))
    assert len(str(caught.value).splitlines()) == 4
    fitting = [{"constraints": ["none"]}, {"model": ["agreeing"], "constraints": ["agree"]}]
    path = written(corpora, PLAIN | wanted | {"cross": fitting})
    assert len(plan_sweep(str(path), str(corpora / "out")).cells) == 12
