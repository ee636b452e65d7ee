"""Models of python-crfsuite's with a feature function of others: their own tagger's answers, and no code unasked."""

from __future__ import annotations

import json
import math
import pickle
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pycrfsuite
import pytest
from hypothesis import given
from hypothesis import strategies as st

from concord.flows.cli.failures import Exit
from concord.schemas.document import Batch, Document
from concord.schemas.run import RunSettings
from concord.workers.constraints.constraint_set import Unconstrained
from concord.workers.inference.core.chain import log_partition, viterbi
from concord.workers.labelling.labelled import check_settings, label_batch
from concord.workers.models.crfsuite import FUNCTIONS_FILE, MODEL_FILE, TRUST, CrfsuiteModel, attributes
from concord.workers.models.folder import ModelError
from concord.workers.models.loaders import load_model
from concord.workers.models.model import Model
from tests.support.model_mutations import mend_hashes
from tests.support.word_features import FEATURES, LABELS, SENTENCES, call, features

WORDS = ["Ada", "12", "Main", "St", "é", "x y", "", ":"]


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("crfsuite") / "a.crfsuite"
    trainer = pycrfsuite.Trainer(verbose=False, params={"max_iterations": 20, "feature.possible_transitions": True})
    for words, labels in zip(SENTENCES, LABELS, strict=True):
        trainer.append(features(words), labels)
    trainer.train(str(path))
    return path


@pytest.fixture(scope="module")
def folder(file: Path) -> Path:
    out = file.parent / "model"
    call("import", "crfsuite", str(file), "--feature-function", FEATURES, "--out", str(out))
    return out


@pytest.fixture(scope="module")
def model(folder: Path) -> Model:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(TRUST, f"other:one,{FEATURES}")
        return load_model(folder)


@given(sentences=st.lists(st.lists(st.sampled_from(WORDS), min_size=1, max_size=5), min_size=1, max_size=4))
def test_labels_and_scores_are_those_of_its_own_tagger(file: Path, model: Model, sentences: list[list[str]]) -> None:
    tagger = pycrfsuite.Tagger()
    tagger.open(str(file))
    batch = Batch.of([Document.build("d", sentences)])
    whole = pickle.loads(pickle.dumps(model, protocol=5)).potentials(batch)
    ours = model.labels.decode(viterbi(whole))
    for words, (first, last) in zip(sentences, pairwise(batch.sentence_bounds.tolist()), strict=True):
        tagger.set(features(words))
        best = tagger.tag()
        part = whole.part(first, last)
        score = part.score(model.labels.encode(best))
        # Labels of one score are told apart by their order, which is that of the file there and by name here.
        assert ours[first:last] == best or part.score(model.labels.encode(ours[first:last])) == pytest.approx(score)
        for labels in (best, best[::-1], ["name"] * len(words)):
            logarithm = part.score(model.labels.encode(labels)) - float(log_partition(part).sum())
            assert logarithm == pytest.approx(math.log(tagger.probability(labels)), abs=1e-9)


NAMES = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=3)
VALUES = st.recursive(
    NAMES | st.booleans() | st.floats(-9, 9) | st.integers(-9, 9) | NAMES.map(str.encode),
    lambda inner: st.dictionaries(NAMES, inner, max_size=3) | st.lists(NAMES, max_size=3) | st.sets(NAMES, max_size=3),
    max_leaves=6,
)


@given(item=st.dictionaries(NAMES, VALUES, max_size=4) | st.lists(NAMES | NAMES.map(str.encode), max_size=4))
def test_attributes_are_those_that_python_crfsuite_makes(item: Any) -> None:
    (wanted,) = pycrfsuite.ItemSequence([item]).items()
    assert dict(attributes(item)) == wanted


@pytest.mark.parametrize("item", [[1], [None], {"a": None}, {"a": ("b",)}, {"a": [["b"]]}, {"a": b"\xff"}, 3])
def test_what_python_crfsuite_refuses_is_refused(item: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        list(attributes(item))


def test_a_folder_alone_has_nothing_imported(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "evil.py").write_text("import pathlib\npathlib.Path('ran').touch()\nfeatures = list\n")
    copy = tmp_path / "model"
    copy.mkdir()
    for path in folder.iterdir():
        (copy / path.name).write_bytes(path.read_bytes())
    content = json.loads((copy / FUNCTIONS_FILE).read_text())
    (copy / FUNCTIONS_FILE).write_text(
        json.dumps({"features": content["features"] | {"name": "evil:features", "package": "evil"}})
    )
    mend_hashes(copy)
    script = (
        "from pathlib import Path; from concord.workers.models.loaders import load_model; load_model(Path('model'))"
    )
    root = str(Path(__file__).parents[1])
    for trust in ("", FEATURES, "evil", "evil:feature", "evil:features "):
        done = subprocess.run(
            [sys.executable, "-c", script],
            cwd=tmp_path,
            env={"PYTHONPATH": root, TRUST: trust},
            capture_output=True,
            text=True,
        )
        assert "if you trust it, set CONCORD_TRUST=evil:features" in done.stderr.splitlines()[-1]
        assert not (tmp_path / "ran").exists()
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        env={"PYTHONPATH": root, TRUST: "evil:features"},
        capture_output=True,
        text=True,
    )
    assert "made with evil" in done.stderr.splitlines()[-1]


def test_another_release_of_the_function_is_refused(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(TRUST, FEATURES)
    for path in folder.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    text = (tmp_path / FUNCTIONS_FILE).read_text()
    content = json.loads(text)
    assert content["features"]["name"] == FEATURES
    before = load_model(tmp_path).digest
    (tmp_path / FUNCTIONS_FILE).write_text(json.dumps(content | {"features": content["features"] | {"release": "0.0"}}))
    mend_hashes(tmp_path)
    with pytest.raises(ModelError, match=r"0\.0, but there is .*; install that release, or import the model again"):
        load_model(tmp_path)
    (tmp_path / FUNCTIONS_FILE).write_text(text)
    mend_hashes(tmp_path)
    assert load_model(tmp_path).digest == before
    (tmp_path / MODEL_FILE).write_bytes((tmp_path / MODEL_FILE).read_bytes()[:-9])
    mend_hashes(tmp_path)
    with pytest.raises(ModelError, match="was the file cut"):
        load_model(tmp_path)
    monkeypatch.delenv(TRUST)
    package = content["features"]["package"]
    said = call("label", "--model", str(folder), "a text", code=Exit.INPUT).stderr
    assert said == (
        f"concord: {folder}: the model calls {FEATURES} of {package}, code that concord does not know; "
        f"if you trust it, set {TRUST}={FEATURES}\n"
    )


def test_a_document_that_the_function_cannot_take_is_refused_and_its_neighbours_are_labelled(model: Model) -> None:
    words = [["12", "Main"], ["refused"], ["Ada"], ["short", "St"], ["St"]]
    batch = Batch.of([Document.build(f"d{i}", [sentence]) for i, sentence in enumerate(words)])
    settings = check_settings(RunSettings(engine="viterbi"))
    labelled = label_batch(batch, model=model, constraints=Unconstrained(), settings=settings)
    assert len(labelled.decoded) == 3
    assert labelled.refused == {
        1: f"{FEATURES} cannot take it: KeyError: 'refused'",
        3: f"{FEATURES} gave 0 sets of features for 2 tokens",
    }


def test_the_shape_is_that_of_the_label_set(model: Model) -> None:
    assert isinstance(model, CrfsuiteModel)
    found = model.potentials(Batch.of([Document.build("d", [["Ada", "Main"]])]))
    assert found.unary.shape == (2, len(model.labels))
    assert np.isfinite(found.unary).all()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (FEATURES, b"no model", "are too few for a CRFsuite model"),
        (
            "nowhere_at_all:f",
            None,
            "no module 'nowhere_at_all'; install its package, or, for a file of your own,",
        ),
        ("nowhere_at_all.below:f", None, "there is no module 'nowhere_at_all'"),
        ("json:nothing", None, "json:nothing: cannot be imported"),
        ("json", None, "json: want MODULE:FUNCTION, such as"),
        ("tests.test_crfsuite_model:WORDS", None, "is no function"),
    ],
)
def test_what_cannot_be_imported_is_one_line(
    file: Path, name: str, content: bytes | None, message: str, tmp_path: Path
) -> None:
    source = tmp_path / "a.crfsuite"
    source.write_bytes(file.read_bytes() if content is None else content)
    words = ("import", "crfsuite", str(source), "--feature-function", name, "--out", str(tmp_path / "out"))
    said = call(*words, code=Exit.INPUT).stderr
    assert message in said
    assert said.count("\n") == 1
    assert not (tmp_path / "out").exists()
