"""What `concord verify` computes by itself: chains against enumeration, scores against the models'; and no kernel."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from concord.flows.labelling.sources import OpenModel, open_constraints
from concord.flows.runfolder.folder_output import FolderOutput
from concord.flows.runfolder.layout import STORE
from concord.flows.runfolder.runfolder import Sources, find_done, publish, write_sources
from concord.schemas.document import Batch
from concord.schemas.labels import LabelSet, Scheme
from concord.schemas.potentials import Potentials
from concord.schemas.run import RunKey, RunSettings
from concord.testing.problems import all_labellings, local_scores
from concord.workers.compiling.interpreted import interpreted
from concord.workers.compiling.kept_digests import code_digest
from concord.workers.constraints.consistency import LabelConsistency, PairCounts, span_keys
from concord.workers.corpus.ingestion import write_corpus
from concord.workers.corpus.plan import plan
from concord.workers.labelling.labelled import check_settings
from concord.workers.labelling.shard import label_shard
from concord.workers.learning.trainers.registry import trainer_named
from concord.workers.models.crf import KIND
from concord.workers.models.folder import update_manifest
from concord.workers.models.loaders import load_model
from concord.workers.models.model import local_scores as model_scores
from concord.workers.models.saved_consistency import EXTRA, consistency_extra
from concord.workers.models.settings import CrfSettings, HmmSettings
from concord.workers.storage.storage import FolderStorage
from concord.workers.verification.plain_chain import (
    best_labels,
    best_list,
    best_without,
    changed_once,
    sentences_changed,
    span_probabilities,
)
from concord.workers.verification.second_path import second_path
from tests.support.made_corpora import corpus

TYPES = LabelSet.bio(["X", "Y"])
SETS = (
    TYPES,
    LabelSet(TYPES.names, Scheme.LOOSE),
    LabelSet(("O", "X", "Y"), Scheme.PLAIN),
    LabelSet(("X", "Y"), Scheme.PLAIN),
)
RULES = """
constraints:
  - {template: only_in, name: numbers, tokens: {pattern: '[0-9.,]+'}, labels: [O], weight: 3}
  - {template: at_most_runs, name: runs, labels: [B-PER], limit: 1, weight: 0.5}
"""


def random_chain(rng: np.random.Generator, labels: LabelSet) -> Potentials:
    starts = np.array([0, 2])
    unary, transition = rng.normal(size=(5, len(labels))), rng.normal(size=(len(labels),) * 2)
    unary[rng.random(unary.shape) < 0.1] = -np.inf
    return Potentials(unary, transition, starts).legal(labels)


def test_lists_of_chains_are_those_of_enumeration() -> None:
    rng = np.random.default_rng(1)
    for labels in SETS:
        every = all_labellings(5, len(labels))
        for count in (1, 3, 40, 5000):
            p = random_chain(rng, labels)
            scores = local_scores(p, every)
            found = best_list(p, count)
            assert len({own.tobytes() for own in found}) == len(found) == min(count, int((scores > -np.inf).sum()))
            assert [p.score(own) for own in found] == pytest.approx(
                np.sort(scores)[::-1][: len(found)].tolist(), abs=1e-9
            )
            if not len(found):
                continue
            apart = (every != found[0]).sum(axis=1)
            near = np.sort(scores[(apart == 1) & (scores > -np.inf)])[::-1][:count]
            changed = changed_once(p, found[0], count)
            assert [p.score(own) for own in changed] == pytest.approx(near.tolist(), abs=1e-9)
            assert ((changed != found[0]).sum(axis=1) == 1).all()
            # Two tokens and three: the best lists of both sentences, beside the best labels of the other one.
            others = list(sentences_changed(p, found[0], count))
            assert all((own[:2] == found[0][:2]).all() or (own[2:] == found[0][2:]).all() for own in others)
            assert len(others) == sum(len(best_list(p.part(a, b), count)) for a, b in ((0, 2), (2, 5)))


def test_chains_are_those_of_enumeration() -> None:
    rng, entities = np.random.default_rng(0), 0
    for labels in SETS:
        every = all_labellings(5, len(labels))
        for _ in range(6):
            p = random_chain(rng, labels)
            scores = local_scores(p, every)
            found, top = best_labels(p)
            assert top == pytest.approx(scores.max(), abs=1e-12)
            if top == -np.inf:
                continue
            assert p.score(found) == pytest.approx(top, abs=1e-12)
            shares = np.exp(scores - top)
            spans = labels.spans(found, p.sentence_starts)
            cuts = [labels.spans(y, p.sentence_starts) for y in every]
            sets = [set(zip(s.start.tolist(), s.end.tolist(), s.type.tolist(), strict=True)) for s in cuts]
            probabilities = span_probabilities(p, labels, spans)
            triples = zip(spans.start.tolist(), spans.end.tolist(), spans.type.tolist(), strict=True)
            for triple, probability in zip(triples, probabilities.tolist(), strict=True):
                having = np.array([triple in own for own in sets])
                assert probability == pytest.approx(shares[having].sum() / shares.sum(), abs=1e-12)
                without = best_without(p, labels, *triple)
                rest = scores[~having].max()
                if without is None:
                    assert rest == -np.inf
                    continue
                own = slice(0, 2) if triple[0] < 2 else slice(2, 5)
                rival = found.copy()
                rival[own] = without[own]
                assert p.score(rival) == pytest.approx(rest, abs=1e-12)
                entities += 1
    assert entities > 30


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A trained model of each kind that has a second path."""
    base, documents = tmp_path_factory.mktemp("models"), corpus(0, 30)
    crf = CrfSettings(features="rich+mentions+entities", max_iterations=8)
    settings = {"crfsuite": crf, "hmm": HmmSettings()}
    for name, given in settings.items():
        trainer_named(name).train(documents, settings=given, out=base / name)
    return {name: base / name for name in settings}


def test_scores_by_the_second_path_are_the_models_own(folders: dict[str, Path]) -> None:
    batch = Batch.of(corpus(7, 25))
    for name, folder in folders.items():
        model = load_model(folder)
        with interpreted():
            second = second_path(model).scores(batch)
        first = model_scores(model, batch)
        np.testing.assert_allclose(second.potentials.unary, first.potentials.unary, atol=1e-10, err_msg=name)
        np.testing.assert_array_equal(second.potentials.transition, first.potentials.transition)
        assert second_path(model).trusted == ()


def test_kernels_of_grounding_say_the_same_uncompiled() -> None:
    rng = np.random.default_rng(0)
    words, starts = rng.integers(0, 5, 60).astype(np.int32), np.array([0, 7, 31])
    compiled = span_keys(words, starts, 6)
    with interpreted():
        np.testing.assert_array_equal(span_keys(words, starts, 6), compiled)


CHECK = """
import gc, sys
from numba.core.dispatcher import Dispatcher
from concord.flows.commands.verify import verify
report = verify(sys.argv[1])
assert not report.failed, report.failed
called = [d for d in gc.get_objects() if isinstance(d, Dispatcher) and d.overloads]
print(report.documents, [d.py_func.__qualname__ for d in called], report.trusted)
"""


def test_a_crfs_run_is_verified_without_any_kernel(folders: dict[str, Path], tmp_path: Path) -> None:
    folder, out = folders["crfsuite"], tmp_path / "out"
    model, documents = load_model(folder), corpus(3, 12)
    consistency = LabelConsistency(PairCounts.of(corpus(0, 30), model.labels))
    update_manifest(folder, kind=KIND, extras={EXTRA: consistency_extra(consistency)})
    (tmp_path / "rules.yaml").write_text(RULES)
    write_corpus(documents, tmp_path / "corpus", source="made up")
    sources = Sources(
        corpus=str(tmp_path / "corpus"),
        model=str(folder),
        constraints=(str(tmp_path / "rules.yaml"),),
        consistency=True,
    )
    settings = check_settings(RunSettings(engine="gibbs", options={"sweeps": 5}, confidence="marginal"))
    constraints = open_constraints(OpenModel(model, folder), sources.constraints, consistency=True)
    key = RunKey(settings=settings, model=model.digest, constraints=constraints.digest, code=code_digest())
    shards = plan(sources.corpus)
    for shard in shards:
        label_shard(shard, model=model, constraints=constraints, key=key, store=FolderStorage(out / STORE))
    write_sources(FolderStorage(out), sources)
    publish(FolderOutput(out), find_done(FolderOutput(out), shards, key), rules=constraints.strengths)
    command = [sys.executable, "-c", CHECK, str(out)]
    done = subprocess.run(command, cwd=Path(__file__).parents[1], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.startswith("12 [] (")
