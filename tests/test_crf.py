"""The CRF model: training, its folder, and its scores and labels against python-crfsuite."""

from __future__ import annotations

import json
import math
import pickle
from itertools import pairwise
from pathlib import Path

import numpy as np
import pycrfsuite
import pytest

from concord.schemas.document import Batch, Document
from concord.schemas.labels import Scheme
from concord.schemas.potentials import Potentials
from concord.workers.corpus.readers.columns import read_columns
from concord.workers.corpus.settings import ConllSettings
from concord.workers.features.attributes import AttributeMaker
from concord.workers.inference.core.chain import log_partition, viterbi
from concord.workers.learning.trainers.crfsuite import CRFSUITE_FILE, train
from concord.workers.learning.trainers.trainer import Iteration
from concord.workers.models.crf import KIND, WEIGHTS_FILE, CrfModel, load
from concord.workers.models.crfsuite_file import read_crfsuite
from concord.workers.models.folder import MANIFEST, ModelError, update_manifest
from concord.workers.models.settings import CrfSettings
from tests.support.made_corpora import corpus


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("models") / "tiny"
    train(corpus(0, 40), settings=CrfSettings(features="rich", max_iterations=15), out=out)
    return out


def _sentences(model: CrfModel, documents: list[Document]) -> list[list[list[str]]]:
    maker, nested = AttributeMaker(model.features), []
    for document in documents:
        rows = maker(document)
        bounds = [*document.sentence_starts.tolist(), len(document)]
        nested += [rows[a:b] for a, b in pairwise(bounds)]
    return nested


def assert_equals_tagger(model: CrfModel, folder: Path, documents: list[Document]) -> None:
    """Labels token for token; log-probability of each tagged sequence; unary marginals of a sample."""
    batch = Batch.of(documents)
    potentials = model.potentials(batch)
    labels, partition = viterbi(potentials), log_partition(potentials)
    tagger = pycrfsuite.Tagger()
    tagger.open(str(folder / CRFSUITE_FILE))
    bounds = [*batch.sentence_starts.tolist(), batch.token_count]
    for s, (rows, (start, end)) in enumerate(zip(_sentences(model, documents), pairwise(bounds), strict=True)):
        tagged = tagger.tag(rows)
        assert model.labels.decode(labels[start:end]) == tagged
        mine = potentials.part(start, end).score(labels[start:end]) - partition[s]
        probability = tagger.probability(tagged)
        assert mine == pytest.approx(math.log(probability), abs=1e-6)


def test_labels_and_scores_equal_the_taggers(folder: Path) -> None:
    assert_equals_tagger(load(folder), folder, corpus(1, 60))


@pytest.mark.parametrize("features", ["finkel-nopos", "fields"])
def test_other_feature_sets_too(features: str, tmp_path: Path) -> None:
    model = train(corpus(2, 20), settings=CrfSettings(features=features, max_iterations=8, c1=0.01), out=tmp_path)
    assert_equals_tagger(model, tmp_path, corpus(3, 20))


def test_unary_is_the_sum_of_the_exact_weights(folder: Path) -> None:
    model, documents = load(folder), corpus(4, 10)
    raw = read_crfsuite(folder / CRFSUITE_FILE)
    row_of = {name: i for i, name in enumerate(raw.attributes)}
    dense = np.zeros((len(raw.attributes), len(model.labels)))
    dense[raw.source, model.labels.encode(raw.labels)[raw.target]] = raw.weight
    rows = [row for sentence in _sentences(model, documents) for row in sentence]
    expected = [dense[[row_of[a] for a in row if a in row_of]].sum(axis=0) for row in rows]
    got = model.potentials(Batch.of(documents)).unary
    known = np.isfinite(got)
    np.testing.assert_allclose(got[known], np.array(expected)[known], atol=1e-9)


def test_training_learns_its_task(folder: Path) -> None:
    model, held_out = load(folder), Batch.of(corpus(5, 20))
    assert held_out.labels is not None
    labels = model.labels.decode(viterbi(model.potentials(held_out)))
    right = sum(a == b for a, b in zip(labels, held_out.labels.strings(), strict=True))
    assert right / held_out.token_count > 0.98


def test_labels_never_seen_are_impossible(folder: Path) -> None:
    """``I-LOC`` completes the label set, but every LOC of the corpus is one token long."""
    model = load(folder)
    assert model.labels.names == ("O", "B-LOC", "I-LOC", "B-ORG", "I-ORG", "B-PER", "I-PER")
    assert model.missing.tolist() == [n == "I-LOC" for n in model.labels.names]
    potentials = model.potentials(Batch.of(corpus(6, 3)))
    assert np.isneginf(potentials.unary[:, 2]).all()
    assert np.isfinite(np.delete(potentials.unary, 2, axis=1)).all()
    legal = potentials.legal(model.labels)
    assert np.isfinite(legal.score(viterbi(legal)))


def test_equal_input_gives_equal_files(folder: Path, tmp_path: Path) -> None:
    train(corpus(0, 40), settings=CrfSettings(features="rich", max_iterations=15), out=tmp_path)
    for name in (CRFSUITE_FILE, WEIGHTS_FILE, MANIFEST):
        assert (tmp_path / name).read_bytes() == (folder / name).read_bytes()


def test_progress_reports_iterations(tmp_path: Path) -> None:
    seen: list[Iteration] = []
    model = train(
        corpus(0, 5),
        settings=CrfSettings(features="finkel", max_iterations=4),
        out=tmp_path,
        progress=seen.append,
    )
    assert [i.number for i in seen] == [1, 2, 3, 4]
    assert seen[-1].total == 4
    first, last = seen[0].loss, seen[-1].loss
    assert first is not None
    assert last is not None
    assert last < first
    assert model.manifest.training["iterations"] == 4
    assert model.manifest.training["documents"] == 5


def test_training_stops_when_progress_raises(tmp_path: Path) -> None:
    """So Ctrl-C ends training at the next iteration, and no half model is left that loads."""
    seen: list[int] = []

    def interrupt(iteration: Iteration) -> None:
        seen.append(iteration.number)
        if iteration.number == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(corpus(0, 5), settings=CrfSettings(features="finkel"), out=tmp_path, progress=interrupt)
    assert seen == [1, 2]
    with pytest.raises(ModelError, match="not there"):
        load(tmp_path)


def test_newswire_labels_and_scores_equal_the_taggers(tmp_path: Path) -> None:
    """All of testa, token for token."""
    folder = Path(__file__).parents[2] / "shared" / "data" / "conll2003"
    if not folder.is_dir():
        pytest.skip(f"no {folder}")
    training = [d for d in read_columns(str(folder / "eng.train"), ConllSettings()) if isinstance(d, Document)]
    held_out = [d for d in read_columns(str(folder / "eng.testa"), ConllSettings()) if isinstance(d, Document)]
    model = train(training[:40], settings=CrfSettings(features="finkel", max_iterations=8), out=tmp_path)
    assert sum(map(len, held_out)) == 51_362
    assert_equals_tagger(model, tmp_path, held_out)


def test_plain_labels(tmp_path: Path) -> None:
    documents = [
        Document.build("d", [["12", "Main", "St"], ["7"]], labels=[["number", "street", "street"], ["number"]])
    ]
    model = train(documents, settings=CrfSettings(features="fields", max_iterations=5), out=tmp_path)
    assert model.labels.scheme is Scheme.PLAIN
    assert model.labels.decode(viterbi(model.potentials(Batch.of(documents)))) == [
        "number",
        "street",
        "street",
        "number",
    ]


def test_pickled_model_scores_alike(folder: Path) -> None:
    model, batch = load(folder), Batch.of(corpus(7, 5))
    first = model.potentials(batch)
    copy: CrfModel = pickle.loads(pickle.dumps(model, protocol=5))
    second: Potentials = copy.potentials(batch)
    assert first.unary.tobytes() == second.unary.tobytes()
    assert copy.digest == model.digest


def test_empty_batch(folder: Path) -> None:
    assert load(folder).potentials(Batch.of([Document.build("d", [], pos=[])])).unary.shape == (0, 7)


def test_metrics_and_extras_leave_the_digest(folder: Path, tmp_path: Path) -> None:
    copy = _copy(folder, tmp_path / "copy")
    before = load(copy).digest
    update_manifest(copy, kind=KIND, metrics={"f1": 0.5}, extras={"consistency": {"scale": 0.25}})
    update_manifest(copy, kind=KIND, metrics={"recall": 0.4})
    after = load(copy)
    assert after.manifest.metrics == {"f1": 0.5, "recall": 0.4}
    assert after.manifest.extras == {"consistency": {"scale": 0.25}}
    assert after.digest == before


def test_a_damaged_folder_is_refused_before_it_is_opened(folder: Path, tmp_path: Path) -> None:
    for name in (CRFSUITE_FILE, WEIGHTS_FILE):
        copy = _copy(folder, tmp_path / f"changed-{name}")
        data = bytearray((copy / name).read_bytes())
        data[len(data) // 2] ^= 1
        (copy / name).write_bytes(data)
        with pytest.raises(ModelError, match=f"{name}: SHA-256 differs"):
            load(copy)
        (copy / name).unlink()
        with pytest.raises(ModelError, match=f"{name}: the model's file is missing"):
            load(copy)


def test_a_foreign_folder_is_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"manifest\.json: not there"):
        load(tmp_path)
    changes = {
        "kind 'hmm'": {"kind": "hmm"},
        "another definition": {"templates": ["tokens[0]"]},
        "no feature set is called 'mine'": {"features": "mine"},
        "labels": {"labels": 3},
        "is not in the model.s folder": {"files": {"../elsewhere": "0"}},
    }
    for i, (message, change) in enumerate(changes.items()):
        copy = _copy(folder, tmp_path / str(i))
        content = json.loads((copy / MANIFEST).read_text()) | change
        (copy / MANIFEST).write_text(json.dumps(content))
        with pytest.raises(ModelError, match=message):
            load(copy)
    (copy / MANIFEST).write_text("not json")
    with pytest.raises(ModelError, match="no manifest of a concord model"):
        load(copy)


def test_training_refuses_what_it_cannot_use(tmp_path: Path) -> None:
    unlabelled = Document.build("u", [["a"]], pos=[["X"]])
    with pytest.raises(ValueError, match="'u' has no gold labels"):
        train([unlabelled], settings=CrfSettings(), out=tmp_path)
    with pytest.raises(ValueError, match="corpus is empty"):
        train([], settings=CrfSettings(), out=tmp_path)
    with pytest.raises(ValueError, match="no feature set is called 'nope'"):
        train([], settings=CrfSettings(features="nope"), out=tmp_path)
    with pytest.raises(ValueError, match="'pos'"):
        train([Document.build("n", [["a"]], labels=[["O"]])], settings=CrfSettings(features="rich"), out=tmp_path)


def _copy(folder: Path, to: Path) -> Path:
    to.mkdir()
    for file in folder.iterdir():
        (to / file.name).write_bytes(file.read_bytes())
    return to
