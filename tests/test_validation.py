"""What later documents judge, wherever documents are held out: training, mining, weighing, learning from a pool."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.main import get_command
from typer.testing import CliRunner

import concord.flows.commands.mining
import concord.flows.training.codl_tuning
from concord.flows.cli.app import app
from concord.flows.cli.failures import Exit
from concord.flows.training.codl_tuning import choose_gamma
from concord.schemas.codl import CodlSettings
from concord.schemas.document import Document
from concord.schemas.learning_requests import TrainRequest
from concord.schemas.run import RunSettings
from concord.schemas.settings import Validation
from concord.workers.constraints.constraint_file import load_constraints
from concord.workers.constraints.declared_weights import declared_weights
from concord.workers.corpus.ingestion import write_corpus
from concord.workers.corpus.parquet import ParquetLocation
from concord.workers.corpus.settings import IngestSettings
from concord.workers.corpus.shards import Shard
from concord.workers.learning.little_gold.codl_learners import learner_of
from concord.workers.learning.mining.judgement import JudgedSettings, WeightSource, judged
from concord.workers.learning.mining.logic.search import LogicSettings
from concord.workers.learning.mining.miner import MinerHere, MiningTask
from concord.workers.learning.mining.registry import miner_named
from concord.workers.learning.search.folds import held_out
from concord.workers.learning.trainers import sgd
from concord.workers.learning.trainers.trainer import Progress
from concord.workers.learning.weights.learned_weights import learn_weights
from concord.workers.learning.weights.penalties import COUNTED_PENALTY as PENALTIES
from concord.workers.learning.weights.penalties import LearnedSettings
from concord.workers.learning.weights.unseen import Unseen
from concord.workers.models.settings import SgdSettings
from concord.workers.remote.mining import HeldOut
from concord.workers.sweeps.training import parted
from concord.workers.synthesis.made_up import synthesize
from tests.support.in_process import Here
from tests.support.made_fields import COUNTED, LABELS, unseen_of
from tests.support.made_sequences import in_order

LATER = Validation.LATER


def ids(documents: Iterable[Document]) -> list[str]:
    return [document.doc_id for document in documents]


def test_documents_are_scored_by_models_of_those_before() -> None:
    documents, trained = list(synthesize(12, seed=1, kind="citations")), list[list[str]]()

    def train(documents: Iterable[Document], *, settings: Any, out: Path, progress: Progress | None = None) -> Any:
        trained.append(ids(documents))
        return sgd.train(documents, settings=settings, out=out, progress=progress)

    unseen = Unseen.of(documents, train, SgdSettings(features="fields", passes=1), 4, LATER)
    assert trained == [ids(documents[:end]) for end in (3, 6, 9)]
    assert ids(unseen.documents) == ids(documents[3:])
    assert [len(scores.unary) for scores in unseen.potentials] == [len(document) for document in documents[3:]]


def second_a(documents: Iterable[int], *, of: int) -> Unseen:
    """Documents whose gold is A B B B; into these the model writes a second A."""
    wrong, likes = set(documents), []
    for i in range(of):
        own = np.array([[2.0, 0.0], [0.0, 2.0], [0.0, 2.0], [0.0, 2.0]])
        if i in wrong:
            own[3] = [0.5, 0.0]
        likes.append(own)
    return unseen_of([["A", "B", "B", "B"]] * of, likes)


def test_weights_that_earlier_documents_say_are_tried_on_later_ones() -> None:
    chosen = LearnedSettings(rates=(0.5,), passes=2, measure="labels", figure="accuracy")
    rules = COUNTED.only(["one A"]).bind(LABELS)
    in_first = second_a(range(20), of=40)
    found = learn_weights(in_first, rules, chosen, validation=LATER)
    assert found.before == 1.0, "the later half alone"
    assert found.weights["one A"] > 0.0, "in the end all documents are learned from"
    assert learn_weights(in_first, rules, chosen).before == 0.875
    in_last = learn_weights(second_a(range(20, 40), of=40), rules, chosen, validation=LATER)
    assert (in_last.before, in_last.after) == (0.75, 0.75), "nothing before says that the rule is broken"
    everywhere = learn_weights(second_a(range(40), of=40), rules, chosen, validation=LATER)
    assert (everywhere.before, everywhere.after) == (0.75, 1.0)


@pytest.mark.parametrize("source", WeightSource)
def test_rules_are_judged_on_later_parts_under_weights_of_those_before(source: WeightSource) -> None:
    """Of four parts nothing answers the first, the second says what rules weigh, and the last two judge."""
    fold, rules = [1] * 20 + [2] * 20 + [3] * 20, COUNTED.only(["one A"])
    chosen = JudgedSettings(measure="labels", figure="accuracy", sources=(source,), level=1.0)
    parts = [rules.only([]), rules.only([]), rules, rules]
    early = judged(second_a(range(20), of=60), fold, rules, parts, chosen, validation=LATER)
    assert (early.before, early.after) == (1.0, 1.0), "what does not judge is not counted"
    both = judged(second_a(range(20, 60), of=60), fold, rules, parts, chosen, validation=LATER)
    assert both.before == 0.75
    if source is WeightSource.COUNTED:
        assert both.after == 1.0
    else:
        assert both.after == 0.875, "the third part has no wrong document before it, the fourth has"
        assert judged(second_a(range(20, 60), of=60), fold, rules, [rules] * 4, chosen).after == 1.0, "at random"


@given(st.lists(st.integers(0, 7), min_size=1, max_size=6), st.floats(0.0, 1.0))
@settings(max_examples=100, deadline=None)
def test_what_is_held_out_does_not_depend_on_shards(sizes: list[int], share: float) -> None:
    documents = [Document.build(str(i), [["w"]]) for i in range(sum(sizes))]
    nowhere = ParquetLocation("", "x.parquet", "x.parquet")
    shards = [Shard(f"{i}", nowhere, 0, size, 0, "") for i, size in enumerate(sizes)]
    found = HeldOut.of(shards, sizes, share, LATER)
    flags = list[bool]()
    for shard, size in zip(shards, sizes, strict=True):
        first = found.place_in(shard)
        assert first is not None
        flags += [i >= first for i in range(size)]
    assert flags == held_out(documents, share, LATER)
    assert all(HeldOut.of(shards, sizes, share, Validation.RANDOM).place_in(shard) is None for shard in shards)


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(concord.flows.commands.mining, "cluster", lambda *_, **__: nullcontext(Here(None)))


def run(*words: str | Path, code: int = 0) -> str:
    done = CliRunner().invoke(app, [*map(str, words)])
    assert done.exit_code == code, done.output
    return done.stdout if "--json" in words else " ".join(done.output.split())


@pytest.mark.usefixtures("here")
def test_clauses_are_tried_on_the_last_documents(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    documents = [in_order(str(i), rng) for i in range(120)]
    write_corpus(documents, tmp_path / "one", source="test")
    for i in range(3):
        write_corpus(documents[40 * i : 40 * (i + 1)], tmp_path / "three" / str(i), source="test")
    words = ("--all", "--method", "logic", "--set", "literals=2", "--set", "mixed=0", "--set", "support=5")
    texts = {}
    for name, validation in (("one", "later"), ("three", "later"), ("one", "random")):
        out = tmp_path / f"{name}-{validation}.yaml"
        run("constraints", "mine", "--corpus", tmp_path / name, "--out", out, *words, "--validation", validation)
        texts[name, validation] = out.read_text()
    assert texts["one", "later"] == texts["three", "later"] != texts["one", "random"]
    chosen = LogicSettings(literals=2, mixed=0, support=5)
    labels = learner_of(documents, [], CodlSettings()).labels
    same = MinerHere(miner_named("logic"), MiningTask(labels, chosen, 0), PENALTIES["odds"], LATER).rules(
        documents, documents
    )
    written = dict(declared_weights(load_constraints(tmp_path / "one-later.yaml")))
    assert written == pytest.approx(dict(declared_weights(same)), abs=1e-3)


@pytest.mark.usefixtures("here")
def test_mined_and_weighed_rules_say_who_judged(tmp_path: Path) -> None:
    documents = list(synthesize(40, seed=4, kind="citations"))
    write_corpus(documents, tmp_path / "corpus", source="made up", layout=IngestSettings())
    sgd.train(documents, settings=SgdSettings(features="fields", passes=1), out=tmp_path / "model")
    places = ("--corpus", tmp_path / "corpus", "--model", tmp_path / "model", "--out", tmp_path / "rules.yaml")
    quick = ("--set", "support=5", "--set", "passes=1", "--set", "folds=4")
    given = ("constraints", "mine", *places, *quick)
    report = json.loads(run(*given, "--json", "--validation", "later"))
    assert report["judgement"]["validation"] == "later"
    assert "by 4 parts in order, each by those before it" in run(*given, "--validation", "later")
    assert json.loads(run(*given, "--json"))["judgement"]["validation"] == "random"
    file = tmp_path / "one.yaml"
    file.write_text("constraints:\n- {template: appears_once, labels: title, weight: 1}\n")
    words = ("--penalty", "learned", "--set", "folds=3", "--set", "passes=1", "--set", "rates=0.1")
    weigh = ("constraints", "weigh", file, *places[:4], *words)
    assert json.loads(run(*weigh, "--validation", "later", "--json"))["learning"]["validation"] == "later"
    assert "on the later half, with weights of the earlier half" in run(*weigh, "--validation", "later")
    assert "on halves, with weights of the other half" in run(*weigh)


def test_gamma_is_chosen_by_later_documents(monkeypatch: pytest.MonkeyPatch) -> None:
    gold = list(synthesize(8, seed=1, kind="citations"))
    learned, judged_by = list[list[str]](), list[list[str]]()

    def recorded(documents: Sequence[Document], *rest: Any) -> Any:
        learned.append(ids(documents))
        return learner_of(documents, *rest)

    right = concord.flows.training.codl_tuning._right

    def counted(*given: Any) -> Any:
        judged_by.append(ids(given[3]))
        return right(*given)

    monkeypatch.setattr(concord.flows.training.codl_tuning, "learner_of", recorded)
    monkeypatch.setattr(concord.flows.training.codl_tuning, "_right", counted)
    chosen = CodlSettings(shares=(0.9, 1.0), folds=4, cycles=1)
    trials = choose_gamma(gold, gold[:2], None, chosen, RunSettings(engine="viterbi"), LATER)
    assert learned == [ids(gold[:4]), ids(gold[:6])]
    assert judged_by == [ids(gold[4:6])] * 2 + [ids(gold[6:])] * 2
    assert all(0.0 < trial.accuracy <= 1.0 for trial in trials), "of the judged documents alone"


COMMANDS = (("train",), ("codl",), ("constraints", "mine"), ("constraints", "weigh"))


def test_training_and_sweeps_tune_on_the_last_documents() -> None:
    assert TrainRequest(corpus="corpus", out="model").validation is LATER
    documents = list(synthesize(20, seed=1, kind="citations"))
    assert [ids(part) for part in parted(documents)] == [ids(documents[:16]), ids(documents[16:])]


def test_the_option_is_the_same_everywhere() -> None:
    helps = []
    for path in COMMANDS:
        command: Any = get_command(app)
        for name in path:
            command = command.commands[name]
        (option,) = (one for one in command.params if one.name == "validation")
        helps.append(option.help)
    assert len(set(helps)) == 1


def test_where_nothing_is_judged_it_is_said(tmp_path: Path) -> None:
    write_corpus(list(synthesize(3, seed=4, kind="citations")), tmp_path / "c", source="made up")
    file, later = tmp_path / "one.yaml", ("--validation", "later")
    file.write_text("constraints:\n- {template: appears_once, labels: title, weight: 1}\n")
    place = ("--corpus", tmp_path / "c")
    mine = ("constraints", "mine", *place, "--out", tmp_path / "x.yaml", "--all", *later)
    assert "give --model FOLDER" in run(*mine, code=Exit.USAGE)
    assert "--validation is for --penalty learned" in run("constraints", "weigh", file, *place, *later, code=Exit.USAGE)
    pool = ("codl", *place, "--pool", tmp_path / "c", "--out", tmp_path / "o", *later)
    assert "give --tune as well" in run(*pool, code=Exit.INPUT)
