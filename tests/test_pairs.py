"""Features of pairs of labels: a matrix a token, in training and in models, against enumeration over strings."""

from __future__ import annotations

import pickle
import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from concord.schemas.arrays import Floats, Mask
from concord.schemas.document import Batch, Document
from concord.schemas.errors import TrainingError
from concord.schemas.labels import LabelSet
from concord.workers.features.attributes import AttributeMaker
from concord.workers.features.incidence import incidence, pair_incidence
from concord.workers.features.templates import FeatureSetError, feature_set
from concord.workers.learning.estimation import perceptron, sgd
from concord.workers.learning.estimation.chains import ChainWeights, FeatureRules, TrainingChains
from concord.workers.learning.estimation.lbfgs import Limits, minimise
from concord.workers.learning.estimation.objective import Objective
from concord.workers.learning.trainers import fit
from concord.workers.learning.trainers.export import export_crfsuite
from concord.workers.learning.trainers.fit import Fitting
from concord.workers.learning.trainers.registry import TRAINERS
from concord.workers.learning.weights.unseen import scored_by_others
from concord.workers.models.arrays_file import read_arrays, write_arrays
from concord.workers.models.attribute_names import PAIR_ATTRIBUTES_FILE, read_names
from concord.workers.models.crf import PAIRS_FILE, CrfModel, load, weight_arrays
from concord.workers.models.end_marks import EndMarks
from concord.workers.models.folder import ModelError, file_digest, read_manifest, write_manifest
from concord.workers.models.settings import (
    FittingSettings,
    LbfgsSettings,
    PerceptronSettings,
    SgdSettings,
)
from concord.workers.verification.plain_crf import plain_potentials
from tests.support.made_chains import EVERYTHING, chains_of
from tests.support.made_corpora import corpus

FEATURES = "finkel-nopos+pairs:fields"
"""Words and shapes for labels; singles, windows, conjunctions and pieces of words for pairs of labels."""
SEEN = FeatureRules(0.0, possible_states=False, possible_transitions=False)
OFTEN = FeatureRules(2.0, possible_states=True, possible_transitions=False)
rules = pytest.mark.parametrize("allowed", [EVERYTHING, SEEN, OFTEN], ids=["everything", "seen", "often"])
LEARNERS: dict[str, FittingSettings] = {
    "sgd": SgdSettings(features=FEATURES, passes=5),
    "lbfgs": LbfgsSettings(features=FEATURES, max_iterations=10),
    "perceptron": PerceptronSettings(features=FEATURES, passes=3),
}


def tiny(seed: int) -> list[Document]:
    """Few words and labels, sentences of one token among them."""
    rng = np.random.default_rng(seed)
    lengths = [int(n) for n in rng.integers(1, 5, 4)] + [1]
    words = [[str(w) for w in rng.choice(["a", "b", "Ab", "1"], n)] for n in lengths]
    labels = [[str(y) for y in rng.choice(["x", "y", "z"], n)] for n in lengths]
    return [Document.build("d", words, labels=labels), Document.build("e", [["q"]], labels=[["x"]])]


class Spelled:
    """Sentences as strings: attributes of labels, of pairs of labels, and gold labels, token by token."""

    def __init__(self, documents: Sequence[Document], features: str = FEATURES) -> None:
        own = feature_set(features)
        assert own.pairs is not None
        makers = AttributeMaker(own), AttributeMaker(own.pairs)
        self.sentences: list[tuple[list[list[str]], list[list[str]], list[str]]] = []
        for document in documents:
            assert document.labels is not None
            rows, pairs = (maker(document) for maker in makers)
            gold, bounds = document.labels.strings(), [*document.sentence_starts.tolist(), len(document)]
            self.sentences += [(rows[a:b], pairs[a:b], gold[a:b]) for a, b in pairwise(bounds)]
        self.names = sorted({name for _, _, gold in self.sentences for name in gold})


Weights = tuple[dict[str, Floats], Floats, dict[str, Floats]]


def by_name(documents: Sequence[Document], weights: ChainWeights, features: str = FEATURES) -> Weights:
    """Weights by the names of attributes; those of pairs as (L, L)."""
    batch, own = Batch.of(documents), feature_set(features)
    names = (found.attributes.names().to_pylist() for found in (incidence(batch, own), pair_incidence(batch, own)))
    width = len(weights.transitions)
    return (
        dict(zip(next(names), weights.states, strict=True)),
        weights.transitions,
        dict(zip(next(names), weights.pairs.reshape(-1, width, width), strict=True)),
    )


def scored(rows: list[list[str]], pairs: list[list[str]], ids: Sequence[int], weights: Weights) -> float:
    """Score of a sentence's labels by its definition."""
    states, transitions, of_pairs = weights
    total = sum(states[a][y] for row, y in zip(rows, ids, strict=True) for a in row)
    for t, (x, y) in enumerate(pairwise(ids), 1):
        total += transitions[x, y] + sum(of_pairs[a][x, y] for a in pairs[t])
    return float(total)


@examples(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_the_objective_is_the_enumerated_one(seed: int) -> None:
    documents, rng = tiny(seed), np.random.default_rng(seed)
    chains, spelled = chains_of(documents, EVERYTHING, FEATURES), Spelled(documents)
    point = rng.normal(size=chains.size)
    weights = chains.weights(point)
    named = by_name(documents, weights)
    expected = 0.3 * sum(float((part**2).sum()) for part in weights)
    for rows, pairs, gold in spelled.sentences:
        every = [scored(rows, pairs, ids, named) for ids in product(range(len(spelled.names)), repeat=len(rows))]
        expected += np.logaddexp.reduce(every) - scored(rows, pairs, [spelled.names.index(y) for y in gold], named)
    assert Objective(chains, 0.3)(point)[0] == pytest.approx(expected, rel=1e-10)
    np.testing.assert_allclose(chains.point(weights), point, atol=1e-12)


def free_of(chains: TrainingChains) -> Mask:
    """(size,) the coordinates that may differ from 0."""
    return np.concatenate([mask.ravel() for mask in chains.allowed])


@rules
def test_the_gradient_is_the_objectives(allowed: FeatureRules) -> None:
    chains = chains_of(tiny(3), allowed, FEATURES)
    objective, rng, free = Objective(chains, 0.2), np.random.default_rng(0), free_of(chains)
    point = rng.normal(size=chains.size) * free
    gradient = objective(point)[1]
    assert not gradient[~free].any()
    first = chains.states.size
    for i in [*np.flatnonzero(free)[:first:9], *(first + np.flatnonzero(free[first:])[::5])]:
        step = np.zeros(chains.size)
        step[i] = 1e-5
        slope = (objective(point + step)[0] - objective(point - step)[0]) / 2e-5
        assert gradient[i] == pytest.approx(slope, abs=1e-6)


def test_scores_beyond_all_numbers_are_an_infinite_loss() -> None:
    chains = chains_of(tiny(0), EVERYTHING, FEATURES)
    point = np.zeros(chains.size)
    chains.parts(point).pairs[:] = -1000.0
    assert Objective(chains, 0.0)(point)[0] == np.inf


@rules
def test_a_step_of_sgd_is_along_the_gradient(allowed: FeatureRules) -> None:
    document = Document.build("d", [["a", "Ab", "b", "1"]], labels=[["x", "z", "x", "y"]])
    chains, rng = chains_of([document], allowed, FEATURES), np.random.default_rng(0)
    start = rng.normal(size=chains.size) * free_of(chains) * 0.1
    point = start.copy()
    (loss,) = sgd.run_passes(chains, 0.0, point, sgd.Rates(0.1, 1.0, 1, 0.0), np.random.default_rng(0))
    wanted, gradient = Objective(chains, 0.0)(start)
    assert loss == pytest.approx(wanted, rel=1e-12)
    np.testing.assert_allclose(point, start - 0.1 * gradient, atol=1e-12)


def test_sgd_goes_where_the_optimum_is() -> None:
    chains = chains_of(corpus(3, 40), SEEN, FEATURES)
    *_, best = minimise(Objective(chains, 0.3), np.zeros(chains.size), Limits(1000, 1e-7, 1e-9))
    point = np.zeros(chains.size)
    losses = list(sgd.run_passes(chains, 0.3, point, sgd.Rates(0.1, 0.97, 100, 0.0), np.random.default_rng(0)))
    assert losses[-1] < losses[0] / 2
    assert best.value <= Objective(chains, 0.3)(point)[0] <= best.value * 1.02
    assert not point[~free_of(chains)].any()
    plain = chains_of(corpus(3, 40), SEEN)
    *_, without = minimise(Objective(plain, 0.3), np.zeros(plain.size), Limits(1000, 1e-7, 1e-9))
    assert best.value < without.value * 0.99


def test_dropout_leaves_out_features_of_pairs_too() -> None:
    chains = chains_of(corpus(3, 20), SEEN, FEATURES)
    point, rates = np.zeros(chains.size), sgd.Rates(0.1, 1.0, 1, 0.4)
    list(sgd.run_passes(chains, 0.0, point, rates, np.random.default_rng(5)))
    moved = chains.parts(point).pairs.any(axis=1)
    whole = np.zeros(chains.size)
    list(sgd.run_passes(chains, 0.0, whole, rates._replace(dropout=0.0), np.random.default_rng(5)))
    assert 0.4 < moved.sum() / chains.parts(whole).pairs.any(axis=1).sum() < 0.95


def test_the_perceptron_is_the_plain_one() -> None:
    rows = [["Ada", "of", "Ems"], ["Ems", "won"], ["Ada"], ["of", "Ada", "Ems"]]
    gold = [["P", "O", "L"], ["L", "O"], ["P"], ["O", "P", "L"]]
    documents = [Document.build(str(i), [r], labels=[g]) for i, (r, g) in enumerate(zip(rows, gold, strict=True))]
    chains, spelled, passes = chains_of(documents, EVERYTHING, FEATURES), Spelled(documents), 3
    point = np.zeros(chains.size)
    list(perceptron.run_passes(chains, point, passes, np.random.default_rng(3)))
    rng, width = np.random.default_rng(3), len(spelled.names)
    current: Counter[tuple[object, ...]] = Counter()
    sums, looked_at = Counter(current), 0

    def parts(sentence: int, ids: Sequence[int]) -> list[tuple[object, ...]]:
        own, pairs, _ = spelled.sentences[sentence]
        found: list[tuple[object, ...]] = [(a, y) for row, y in zip(own, ids, strict=True) for a in row]
        for t, pair in enumerate(pairwise(ids), 1):
            found += [pair, *(("pair", a, *pair) for a in pairs[t])]
        return found

    for _ in range(passes):
        for s in rng.permutation(len(rows)).tolist():
            labels = [spelled.names.index(name) for name in spelled.sentences[s][2]]
            # The first of equals by its last label, and so on backwards, as Viterbi finds it.
            ways = sorted(product(range(width), repeat=len(labels)), key=lambda way: way[::-1])
            best = max(ways, key=lambda way: round(sum(current[part] for part in parts(s, way)), 9))
            for sign, ids in ((1, labels), (-1, best)):
                for part in parts(s, ids):
                    current[part] += sign
            sums.update(current)
            looked_at += 1
    states, transitions, pairs = by_name(documents, chains.weights(point))
    for x, y in product(range(width), repeat=2):
        assert transitions[x, y] == pytest.approx(sums[x, y] / looked_at, abs=1e-9)
        for a, weights in pairs.items():
            assert weights[x, y] == pytest.approx(sums["pair", a, x, y] / looked_at, abs=1e-9), a
    for a, weights in states.items():
        assert weights == pytest.approx([sums[a, y] / looked_at for y in range(width)], abs=1e-9), a


@pytest.fixture(scope="module", params=LEARNERS)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out: Path = tmp_path_factory.mktemp("models") / request.param
    TRAINERS[request.param].train(corpus(0, 25), settings=LEARNERS[request.param], out=out)
    return out


def saved_pairs(folder: Path, model: CrfModel) -> dict[str, Floats]:
    """Weights (W, W) of each attribute of pairs, as the folder has them."""
    assert model.pairs is not None
    start, label, weight = model.pairs.sparse
    names = read_names(folder, model.manifest, len(start) - 1, PAIR_ATTRIBUTES_FILE).to_pylist()
    width = len(model.names)
    dense = np.zeros((len(names), width * width))
    dense[np.repeat(np.arange(len(names)), np.diff(start)), label] = weight
    return dict(zip(names, dense.reshape(-1, width, width), strict=True))


def test_transitions_are_the_sums_over_attribute_strings(folder: Path) -> None:
    model, documents = load(folder), corpus(4, 10)
    batch, weights = Batch.of(documents), saved_pairs(folder, model)
    assert model.features.pairs is not None
    maker = AttributeMaker(model.features.pairs)
    rows = [row for document in documents for row in maker(document)]
    got = model.potentials(batch)
    assert got.transition.shape == (batch.token_count, len(model.labels), len(model.labels))
    none = np.zeros(model.transition.shape)
    for t in np.setdiff1d(np.arange(batch.token_count), batch.sentence_starts).tolist():
        wanted = model.transition + sum((weights.get(a, none) for a in rows[t]), none)
        np.testing.assert_allclose(got.transition[t], wanted, atol=1e-9)
    again = plain_potentials(model)(batch)
    np.testing.assert_allclose(again.transition, got.transition, atol=1e-9)
    np.testing.assert_allclose(again.unary, got.unary, atol=1e-9)


def test_a_model_is_the_same_after_saving_pickling_and_in_other_batches(folder: Path, tmp_path: Path) -> None:
    name, documents = folder.name, corpus(4, 6)
    TRAINERS[name].train(corpus(0, 25), settings=LEARNERS[name], out=tmp_path / "again")
    for file in folder.iterdir():
        assert file.read_bytes() == (tmp_path / "again" / file.name).read_bytes(), file.name
    model = load(folder)
    whole, last = model.potentials(Batch.of(documents)), model.potentials(Batch.of(documents[-1:]))
    other = pickle.loads(pickle.dumps(model)).potentials(Batch.of(documents))
    assert other.transition.tobytes() == whole.transition.tobytes()
    assert whole.transition[-len(last.unary) :].tobytes() == last.transition.tobytes()


def test_a_start_from_an_earlier_model_is_its_weights_by_name(folder: Path, tmp_path: Path) -> None:
    settings = LEARNERS[folder.name].model_copy(update={"start_from": str(folder)})
    fitting = Fitting.of(corpus(0, 26)[::-1], settings=settings, trainer=folder.name)
    weights = fitting.chains.weights(fitting.start(tmp_path / "other"))
    earlier, width = saved_pairs(folder, load(folder)), len(fitting.order)
    mine = fitting.pair_attributes.names().to_pylist()
    place = np.ix_(fitting.order, fitting.order)
    known = [i for i, name in enumerate(mine) if name in earlier]
    wanted = np.array([earlier[mine[i]][place] for i in known])
    gap = np.abs(weights.pairs.reshape(-1, width, width)[known] - wanted).max(axis=(1, 2))
    # A class of attributes has one weight: those of the earlier model, where new documents did not part it.
    assert len(known) > 50
    assert np.mean(gap < 1e-9) > 0.9


def test_a_start_from_a_model_without_pairs_has_none(tmp_path: Path) -> None:
    plain = SgdSettings(features="finkel-nopos", passes=2)
    TRAINERS["sgd"].train(corpus(0, 5), settings=plain, out=tmp_path / "first")
    settings = SgdSettings(features=FEATURES, start_from=str(tmp_path / "first"))
    fitting = Fitting.of(corpus(0, 5), settings=settings, trainer="sgd")
    weights = fitting.chains.weights(fitting.start(tmp_path / "other"))
    assert weights.states.any()
    assert not weights.pairs.any()


def test_the_weights_sum_as_strings_with_labels_inside_that_tell_ends(tmp_path: Path) -> None:
    """BILOU: each token's matrix is tied, so that labellings of BIO keep their scores."""
    settings = SgdSettings(features=FEATURES, passes=3, scheme="bilou")
    model = TRAINERS["sgd"].train(corpus(0, 25), settings=settings, out=tmp_path / "model")
    assert isinstance(model, CrfModel)
    assert model.marks is not None
    batch = Batch.of(corpus(4, 3))
    pairs = model.pair_scorer
    assert pairs is not None
    edges = pairs.unary(batch).reshape(batch.token_count, len(model.names), -1) + model.transition
    unary = model.scorer.unary(batch)
    unary[:, model.missing] = -np.inf
    found = model.potentials(batch).legal(model.labels)
    rng = np.random.default_rng(0)
    for _ in range(20):
        names = [model.labels.names[i] for i in rng.integers(len(model.labels), size=batch.token_count)]
        starts = set(batch.sentence_starts.tolist())
        for t, name in enumerate(names):
            before = "O" if t in starts else names[t - 1]
            if name.startswith("I-") and before[2:] != name[2:]:
                names[t] = "B-" + name[2:]
        ids = model.marks.marked(model.labels.encode(names), batch.sentence_starts)
        inner = [t for t in range(1, len(ids)) if t not in starts]
        wanted = unary[np.arange(len(ids)), ids].sum() + sum(edges[t, ids[t - 1], ids[t]] for t in inner)
        assert found.score(model.labels.encode(names)) == pytest.approx(wanted, abs=1e-7)


@given(seed=st.integers(0, 10_000), lengths=st.sampled_from([(1,), (4,), (1, 3), (2, 2)]))
@examples(max_examples=15, deadline=None)
def test_end_marks_of_a_matrix_a_token_are_those_of_each_matrix(seed: int, lengths: tuple[int, ...]) -> None:
    marks, rng = EndMarks(LabelSet.bio(["X", "Y"])), np.random.default_rng(seed)
    width, count = len(marks.names), sum(lengths)
    missing = rng.random(width) < rng.choice([0.0, 0.3])
    loose = rng.normal(size=(count, width, width))
    tied = marks.tied(loose, missing)
    for one, own in zip(loose, tied, strict=True):
        np.testing.assert_allclose(marks.tied(one, missing), own, atol=1e-12)
    unary, starts = rng.normal(size=(count, width)), np.cumsum([0, *lengths[:-1]])
    same = np.repeat(tied[:1], count, axis=0)
    one, other = (marks.potentials(unary, transition, starts) for transition in (tied[0], same))
    np.testing.assert_allclose(one.unary, other.unary, atol=1e-12)
    np.testing.assert_allclose(one.transition, other.transition, atol=1e-12)


def forged(folder: Path, out: Path, change: Callable[[dict[str, Any]], None]) -> Path:
    """A copy of a model whose arrays of pairs are changed, with hashes that fit."""
    shutil.copytree(folder, out)
    kinds = weight_arrays()
    arrays = {kind.name: array for kind, array in zip(kinds, read_arrays(out / PAIRS_FILE, kinds), strict=True)}
    change(arrays)
    write_arrays(out / PAIRS_FILE, arrays.values())
    manifest = read_manifest(folder, kind="crf")
    files = dict(manifest.files) | {PAIRS_FILE: file_digest(out / PAIRS_FILE)}
    write_manifest(out, manifest.model_copy(update={"files": files}))
    return out


def one_label_more(arrays: dict[str, Any]) -> None:
    arrays["label"][-1] = 7 * 7


def no_number(arrays: dict[str, Any]) -> None:
    arrays["weight"][0] = np.nan


def beyond_the_end(arrays: dict[str, Any]) -> None:
    arrays["start"][-1] += 1


@pytest.mark.parametrize("change", [one_label_more, no_number, beyond_the_end])
def test_forged_weights_of_pairs_are_refused(
    folder: Path, tmp_path: Path, change: Callable[[dict[str, Any]], None]
) -> None:
    with pytest.raises(ModelError, match=PAIRS_FILE):
        load(forged(folder, tmp_path / "forged", change))


def test_a_folder_without_the_weights_of_its_pairs_is_refused(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "model")
    (tmp_path / "model" / PAIRS_FILE).unlink()
    with pytest.raises(ModelError, match=PAIRS_FILE):
        load(tmp_path / "model")
    manifest = read_manifest(folder, kind="crf")
    left = {name: digest for name, digest in manifest.files.items() if name != PAIRS_FILE}
    write_manifest(tmp_path / "model", manifest.model_copy(update={"files": left}))
    with pytest.raises(ModelError, match=f"{PAIRS_FILE} and features of pairs go together"):
        load(tmp_path / "model")


def test_models_of_part_of_the_labels_score_under_all(tmp_path: Path) -> None:
    """Penalties are learned on scores of held-out documents, whose labels a model may lack."""
    documents = corpus(0, 12)
    labels = LabelSet.bio(["ABC", "LOC", "ORG", "PER"])
    for scheme in ("corpus", "bilou"):
        settings = SgdSettings(features=FEATURES, passes=2, scheme=scheme)
        (scores,) = scored_by_others(documents[:10], documents[10:11], TRAINERS["sgd"].train, settings, labels)
        model = TRAINERS["sgd"].train(documents[:10], settings=settings, out=tmp_path / scheme)
        own = model.potentials(Batch.of(documents[10:11])).legal(model.labels)
        place = labels.encode(model.labels.names)
        answer = np.zeros(len(own.unary), np.int32)
        assert scores.score(place[answer]) == pytest.approx(own.score(answer))
        assert np.isneginf(scores.unary[:, labels.index["B-ABC"]]).all()


@pytest.mark.parametrize("name", ["crfsuite", "semicrf", "taggers"])
def test_trainers_without_features_of_pairs_say_so_before_they_learn(name: str, tmp_path: Path) -> None:
    settings = TRAINERS[name].settings.model_validate({"features": "core+pairs:pos"})
    documents = corpus(0, 4)
    with pytest.raises(FeatureSetError, match=r"'pairs:pos': this trainer learns no features of pairs"):
        TRAINERS[name].train(documents, settings=settings, out=tmp_path / "model")


@pytest.mark.parametrize("name", LEARNERS)
def test_sentences_of_one_token_have_no_pairs(name: str, tmp_path: Path) -> None:
    documents = [Document.build(str(i), [["Ada"], ["won"]], labels=[["B-PER"], ["O"]]) for i in range(3)]
    TRAINERS[name].train(documents, settings=LEARNERS[name], out=tmp_path / "model")
    model = load(tmp_path / "model")
    assert not saved_pairs(tmp_path / "model", model)
    longer = Batch.of([Document.build("e", [["Ada", "won"]])])
    np.testing.assert_array_equal(model.potentials(longer).transition[1], model.transition)


def test_pairs_that_cannot_be_learned_are_named() -> None:
    for name in ("pairs:pos", "pairs:pos+pairs:core"):
        with pytest.raises(FeatureSetError, match="is learned beside others; give --features core"):
            feature_set(name)
    with pytest.raises(FeatureSetError, match="pss"):
        feature_set("core+pairs:pss")
    with pytest.raises(FeatureSetError, match="cluster file go together"):
        feature_set("core+pairs:clusters")
    with pytest.raises(FeatureSetError, match="vectors are for single labels"):
        feature_set("core+pairs:vectors")


def test_too_many_weights_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fit, "MOST_PAIR_WEIGHTS", 1000)
    with pytest.raises(TrainingError, match="1,000 is the most"):
        Fitting.of(corpus(0, 4), settings=LEARNERS["sgd"], trainer="sgd")


def test_crfsuites_form_has_no_place_for_them(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="features of pairs of labels, which CRFsuite has not"):
        export_crfsuite(folder, tmp_path / "out")
