"""BILOU labels inside a CRF: their scores as those of BIO labels, against enumeration; and models that have them."""

from __future__ import annotations

import pickle
from itertools import pairwise, product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st
from pydantic import ValidationError

from concord.schemas.arrays import Floats, Mask
from concord.schemas.document import Batch, Document
from concord.schemas.labels import LabelError, LabelSet, broken_span, to_bio
from concord.workers.learning.trainers.export import export_crfsuite
from concord.workers.learning.trainers.registry import TRAINERS
from concord.workers.models.crf import CHAIN_FILE, CrfModel, load
from concord.workers.models.crfsuite_file import read_crfsuite
from concord.workers.models.end_marks import EndMarks
from concord.workers.models.folder import MANIFEST, ModelError, file_digest, parse_manifest, write_manifest
from concord.workers.models.model import viterbi_labels
from concord.workers.models.settings import (
    LbfgsSettings,
    PerceptronSettings,
    SgdSettings,
    TaggersSettings,
)
from concord.workers.synthesis.made_up import synthesize
from concord.workers.verification.second_path import second_path

LABELS = LabelSet.bio(["X", "Y"])
MARKS = EndMarks(LABELS)
TRAINED = ["sgd", "lbfgs", "perceptron", "crfsuite"]
seeds = st.integers(0, 10_000)


def legal_labellings(lengths: tuple[int, ...]) -> list[list[str]]:
    """All labellings of sentences in BIO, one sentence after the other."""
    single = [[n for n in product(LABELS.names, repeat=size) if to_bio(n) == list(n)] for size in lengths]
    return [[name for sentence in whole for name in sentence] for whole in product(*single)]


def bilou(names: list[str], starts: list[int]) -> list[str]:
    """BILOU of BIO, by its definition."""
    after = [*names[1:], "O"]
    goes_on = [b == "I-" + a[2:] and t + 1 not in starts for t, (a, b) in enumerate(zip(names, after, strict=True))]
    ends = {"B": "U", "I": "L", "O": "O"}
    return [a if on else ends[a[0]] + a[1:] for a, on in zip(names, goes_on, strict=True)]


def drawn(seed: int, lengths: tuple[int, ...]) -> tuple[Floats, Floats, Mask]:
    """Scores (N, W) of tokens, transitions (W, W), and a mask (W,) of labels that are missing."""
    rng, width = np.random.default_rng(seed), len(MARKS.names)
    missing = rng.random(width) < rng.choice([0.0, 0.3])
    unary = rng.normal(size=(sum(lengths), width))
    unary[:, missing] = -np.inf
    return unary, rng.normal(size=(width, width)), missing


def score(unary: Floats, transition: Floats, names: list[str], starts: list[int]) -> float:
    """Score of a labelling by the chain of BILOU labels."""
    ids = [MARKS.names.index(name) for name in bilou(names, starts)]
    pairs = [transition[a, b] for t, (a, b) in enumerate(pairwise(ids), 1) if t not in starts]
    return float(unary[np.arange(len(ids)), ids].sum() + sum(pairs))


def test_the_names_are_the_two_of_each_label() -> None:
    assert MARKS.names == ("O", "B-X", "U-X", "I-X", "L-X", "B-Y", "U-Y", "I-Y", "L-Y")


@given(seed=seeds, lengths=st.sampled_from([(1,), (4,), (1, 3), (2, 2), (3, 1)]))
@examples(max_examples=25, deadline=None)
def test_each_labelling_has_the_chains_score(seed: int, lengths: tuple[int, ...]) -> None:
    unary, loose, missing = drawn(seed, lengths)
    starts = np.cumsum([0, *lengths[:-1]])
    transition = MARKS.tied(loose, missing)
    found = MARKS.potentials(unary, transition, starts).legal(LABELS)
    for names in legal_labellings(lengths):
        ids = LABELS.encode(names)
        assert found.score(ids) == pytest.approx(score(unary, transition, names, starts.tolist()), abs=1e-9)
        assert [MARKS.names[i] for i in MARKS.marked(ids, starts)] == bilou(names, starts.tolist())
        assert broken_span([MARKS.names[i] for i in MARKS.marked(ids[: lengths[0]], starts[:1])]) is None


def test_transitions_that_are_not_tied_have_other_scores() -> None:
    unary, loose, missing = drawn(3, (4,))
    assert not missing.any()
    found = MARKS.potentials(unary, loose, np.zeros(1, np.int64)).legal(LABELS)
    off = [abs(found.score(LABELS.encode(n)) - score(unary, loose, n, [0])) for n in legal_labellings((4,))]
    assert max(off) > 0.1


@given(seed=seeds)
@examples(max_examples=20, deadline=None)
def test_tied_transitions_are_the_nearest(seed: int) -> None:
    """By least squares over all a and δ of: transition[z, z'] = a[z, BIO label of z'] + δ where z' ends a span."""
    _, loose, _ = drawn(seed, (1,))
    none = np.zeros(len(MARKS.names), np.bool_)
    own = np.repeat(np.arange(len(LABELS)), np.where(MARKS.going == MARKS.ending, 1, 2))
    goes_on = np.array([name[0] in "BI" for name in MARKS.names])
    inside = np.array([name[0] in "IL" for name in MARKS.names])
    joined = inside[None, :] & (LABELS.type_of[own][:, None] == LABELS.type_of[own][None, :])
    pairs = np.argwhere(np.where(goes_on[:, None], joined, ~inside[None, :]))
    design = np.zeros((len(pairs), len(own) * len(LABELS) + len(own)))
    design[np.arange(len(pairs)), pairs[:, 0] * len(LABELS) + own[pairs[:, 1]]] = 1.0
    ends = ~goes_on[pairs[:, 1]]
    design[np.flatnonzero(ends), len(own) * len(LABELS) + pairs[ends, 1]] = 1.0
    wanted = design @ np.linalg.lstsq(design, loose[tuple(pairs.T)], rcond=None)[0]
    near = MARKS.tied(loose, none)
    np.testing.assert_allclose(near[tuple(pairs.T)], wanted, atol=1e-9)
    np.testing.assert_allclose(MARKS.tied(near, none), near, atol=1e-12)


@pytest.fixture(scope="module")
def documents() -> list[Document]:
    return list(synthesize(40, seed=0, kind="news"))


@pytest.fixture(scope="module")
def folders(documents: list[Document], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    base = tmp_path_factory.mktemp("bilou")
    for name in TRAINED:
        trainer = TRAINERS[name]
        few = {"crfsuite": {"max_iterations": 15}, "lbfgs": {"max_iterations": 15}}.get(name, {"passes": 4})
        settings = trainer.settings.model_validate({"features": "core", "scheme": "bilou", **few})
        trainer.train(documents, settings=settings, out=base / name)
    return {name: base / name for name in TRAINED}


@pytest.mark.parametrize("name", TRAINED)
def test_each_trainers_model_answers_in_bio(name: str, folders: dict[str, Path], documents: list[Document]) -> None:
    model, batch = load(folders[name]), Batch.of(documents)
    assert CHAIN_FILE in model.manifest.files
    assert all(label[0] in "BIO" for label in model.labels.names)
    assert {label[0] for label in model.names} == set("BILOU")
    assert batch.labels is not None
    gold = model.labels.encode(batch.labels.strings())
    assert (viterbi_labels(model, batch) == gold).mean() > 0.9
    again: CrfModel = pickle.loads(pickle.dumps(model))
    local, other = model.potentials(batch), second_path(again).scores(batch).potentials
    np.testing.assert_allclose(local.unary, other.unary, atol=1e-9)
    np.testing.assert_allclose(local.transition, other.transition, atol=1e-9)


def test_its_weights_are_those_of_a_chain_of_bilou_labels(folders: dict[str, Path], tmp_path: Path) -> None:
    for name in ("sgd", "crfsuite"):
        export_crfsuite(folders[name], tmp_path / name)
        assert {label[0] for label in read_crfsuite(tmp_path / name).labels} == set("BILOU")


def test_a_longer_name_than_any_that_was_seen_is_possible(tmp_path: Path) -> None:
    texts = [(["Ann", "Lee", "ran"], ["B-PER", "I-PER", "O"]), (["Bo", "ran", "home"], ["B-PER", "O", "O"])]
    seen = [Document.build(f"d{i}", [words], labels=[gold]) for i, (words, gold) in enumerate(texts)]
    model = TRAINERS["lbfgs"].train(
        seen, settings=LbfgsSettings(features="core", scheme="bilou", max_iterations=5), out=tmp_path / "m"
    )
    local = model.potentials(Batch.of([Document.build("d", [["Ann", "Lee", "Lee"]])])).legal(model.labels)
    assert np.isfinite(local.score(model.labels.encode(["B-PER", "I-PER", "I-PER"])))


def test_a_type_of_single_words_stays_one(tmp_path: Path) -> None:
    seen = [Document.build("d", [["In", "Oslo", "Bonn", "."]], labels=[["O", "B-LOC", "B-LOC", "O"]])]
    model = TRAINERS["sgd"].train(seen, settings=SgdSettings(features="core", scheme="bilou"), out=tmp_path / "m")
    assert model.labels.decode(viterbi_labels(model, Batch.of(seen))) == ["O", "B-LOC", "B-LOC", "O"]
    assert (model.potentials(Batch.of(seen)).unary[:, model.labels.index["I-LOC"]] == -np.inf).all()


def test_training_starts_from_either_kind_of_model(
    folders: dict[str, Path], documents: list[Document], tmp_path: Path
) -> None:
    start = SgdSettings(features="core", scheme="bilou", start_from=str(folders["sgd"]), passes=1, rate=1e-9, dropout=0)
    again = TRAINERS["sgd"].train(documents, settings=start, out=tmp_path / "again")
    batch, earlier = Batch.of(documents), load(folders["sgd"])
    np.testing.assert_allclose(again.potentials(batch).unary, earlier.potentials(batch).unary, atol=1e-3)
    back = start.model_copy(update={"scheme": "corpus"})
    assert TRAINERS["sgd"].train(documents, settings=back, out=tmp_path / "bio").labels == earlier.labels


def test_labels_that_are_no_spans_are_refused(tmp_path: Path) -> None:
    plain = [Document.build("d", [["a", "b"]], labels=[["title", "author"]])]
    for name in TRAINED:
        settings = TRAINERS[name].settings.model_validate({"features": "core", "scheme": "bilou"})
        with pytest.raises(LabelError, match="scheme=bilou marks where spans end"):
            TRAINERS[name].train(plain, settings=settings, out=tmp_path / name)


def test_what_learns_otherwise_says_so() -> None:
    with pytest.raises(ValidationError, match="under constraints a perceptron learns the corpus's labels"):
        PerceptronSettings(scheme="bilou", constraints="rules.yaml")
    with pytest.raises(ValidationError, match="learns the labels that the taggers give"):
        TaggersSettings(scheme="bilou")


def test_a_folder_of_another_scheme_is_refused(folders: dict[str, Path]) -> None:
    folder = folders["perceptron"]
    (folder / CHAIN_FILE).write_text('{"scheme": "bmewo"}')
    manifest = parse_manifest(folder / MANIFEST)
    files = manifest.files | {CHAIN_FILE: file_digest(folder / CHAIN_FILE)}
    write_manifest(folder, manifest.model_copy(update={"files": files}))
    with pytest.raises(ModelError, match=r"chain\.json"):
        load(folder)
