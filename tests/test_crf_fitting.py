"""The objective and the ways down it: against enumeration, finite differences and python-crfsuite."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise, product
from pathlib import Path

import numpy as np
import pycrfsuite
import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from concord.schemas.arrays import Floats
from concord.schemas.document import Batch, Document
from concord.schemas.settings import ReaderSettings
from concord.workers.corpus.readers.registry import READERS
from concord.workers.corpus.settings import CitationSettings, ColumnsSettings, ConllSettings
from concord.workers.evaluation.figures import f1_of_counts
from concord.workers.features.attributes import AttributeMaker
from concord.workers.features.incidence import Lists, incidence
from concord.workers.features.templates import feature_set
from concord.workers.learning.estimation import objective as module
from concord.workers.learning.estimation import perceptron, sgd
from concord.workers.learning.estimation.chains import FeatureRules, TrainingChains
from concord.workers.learning.estimation.lbfgs import LbfgsStep, Limits, minimise
from concord.workers.learning.estimation.objective import Objective
from concord.workers.learning.trainers.fit import Fitting
from concord.workers.learning.trainers.registry import TRAINERS
from concord.workers.learning.trainers.selection import cross_validated
from concord.workers.learning.trainers.trainer import Iteration
from concord.workers.models.attribute_names import read_names
from concord.workers.models.crf import load
from concord.workers.models.folder import MANIFEST, parse_manifest
from concord.workers.models.settings import FittingSettings, LbfgsSettings, SgdSettings
from tests.support.made_chains import EVERYTHING, chains_of
from tests.support.made_corpora import corpus

CORA = Path(__file__).parents[2] / "shared" / "data" / "cora" / "citation_train.300.txt"
SEEN = FeatureRules(0.0, possible_states=False, possible_transitions=False)
OFTEN = FeatureRules(2.0, possible_states=True, possible_transitions=False)
rules = pytest.mark.parametrize("allowed", [EVERYTHING, SEEN, OFTEN], ids=["everything", "seen", "often"])


def spelled(documents: list[Document], features: str = "finkel-nopos") -> list[tuple[list[list[str]], list[str]]]:
    """Sentences as attribute strings and labels."""
    maker, sentences = AttributeMaker(feature_set(features)), []
    for document in documents:
        assert document.labels is not None
        rows, gold = maker(document), document.labels.strings()
        bounds = [*document.sentence_starts.tolist(), len(document)]
        sentences += [(rows[a:b], gold[a:b]) for a, b in pairwise(bounds)]
    return sentences


def enumerated(documents: list[Document], weights: dict[str, Floats], transitions: Floats, c2: float) -> float:
    """The objective by its definition; weights are of all attributes by name."""
    sentences = spelled(documents)
    names = sorted({name for _, gold in sentences for name in gold})
    loss = c2 * (sum((w**2).sum() for w in weights.values()) + (transitions**2).sum())
    for rows, gold in sentences:
        unary = np.array([sum(weights[a] for a in row) for row in rows])

        def score(labels: tuple[int, ...], unary: Floats = unary) -> float:
            return float(
                sum(unary[t, y] for t, y in enumerate(labels)) + sum(transitions[a, b] for a, b in pairwise(labels))
            )

        every = [score(labels) for labels in product(range(len(names)), repeat=len(rows))]
        loss += np.logaddexp.reduce(every) - score(tuple(names.index(name) for name in gold))
    return float(loss)


def tiny(seed: int) -> list[Document]:
    """Few words and labels, sentences of one token among them."""
    rng = np.random.default_rng(seed)
    lengths = [int(n) for n in rng.integers(1, 5, 4)] + [1]
    words = [[str(w) for w in rng.choice(["a", "b", "Ab", "1"], n)] for n in lengths]
    labels = [[str(y) for y in rng.choice(["x", "y", "z"], n)] for n in lengths]
    return [Document.build("d", words, labels=labels), Document.build("e", [["q"]], labels=[["x"]])]


@examples(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_the_objective_is_the_enumerated_one(seed: int) -> None:
    documents, rng = tiny(seed), np.random.default_rng(seed)
    chains = chains_of(documents, EVERYTHING)
    found = incidence(Batch.of(documents), feature_set("finkel-nopos"))
    point = rng.normal(size=chains.size)
    weights, transitions, _ = chains.weights(point)
    by_name = dict(zip(found.attributes.names().to_pylist(), weights, strict=True))
    expected = enumerated(documents, by_name, transitions, 0.3)
    assert Objective(chains, 0.3)(point)[0] == pytest.approx(expected, rel=1e-10)
    np.testing.assert_allclose(chains.point(chains.weights(point)), point, atol=1e-12)


@rules
def test_the_gradient_is_the_objectives(allowed: FeatureRules) -> None:
    chains = chains_of(tiny(3), allowed)
    objective, rng = Objective(chains, 0.2), np.random.default_rng(0)
    free = np.concatenate([chains.states.ravel(), chains.transitions.ravel()])
    point = rng.normal(size=chains.size) * free
    gradient = objective(point)[1]
    assert not gradient[~free].any()
    for i in np.flatnonzero(free)[::3].tolist():
        step = np.zeros(chains.size)
        step[i] = 1e-5
        slope = (objective(point + step)[0] - objective(point - step)[0]) / 2e-5
        assert gradient[i] == pytest.approx(slope, abs=1e-6)


@rules
def test_features_are_those_of_crfsuite(allowed: FeatureRules, tmp_path: Path) -> None:
    documents = corpus(0, 6)
    chains, tagger = chains_of(documents, allowed), crfsuite(documents, allowed, tmp_path, iterations=1)[1]
    info = tagger.info()
    assert chains.states[chains.class_of].sum() == len(info.state_features)
    assert chains.transitions.sum() == len(info.transitions)


def crfsuite(
    documents: list[Document], allowed: FeatureRules, folder: Path, *, iterations: int, features: str = "finkel-nopos"
) -> tuple[float, pycrfsuite.Tagger]:
    """The loss at which CRFsuite ends, and its model."""
    trainer = pycrfsuite.Trainer(verbose=False)
    for rows, gold in spelled(documents, features):
        trainer.append(pycrfsuite.ItemSequence(rows), gold)
    trainer.set_params(
        {
            "c2": 0.3,
            "max_iterations": iterations,
            "epsilon": 1e-7,
            "delta": 1e-9,
            "feature.minfreq": allowed.min_freq,
            "feature.possible_states": allowed.possible_states,
            "feature.possible_transitions": allowed.possible_transitions,
        }
    )
    trainer.train(str(folder / "model"))
    tagger = pycrfsuite.Tagger()
    tagger.open(str(folder / "model"))
    return trainer.logparser.last_iteration["loss"], tagger


def optimum(chains: TrainingChains) -> LbfgsStep:
    *_, last = minimise(Objective(chains, 0.3), np.zeros(chains.size), Limits(1000, 1e-7, 1e-9))
    return last


@rules
def test_the_optimum_is_crfsuites(allowed: FeatureRules, tmp_path: Path) -> None:
    documents = corpus(1, 25)
    expected, _ = crfsuite(documents, allowed, tmp_path, iterations=1000)
    assert optimum(chains_of(documents, allowed)).value == pytest.approx(expected, rel=1e-6)


CORPORA: dict[str, tuple[str, ReaderSettings, str, int]] = {
    "conll2003/eng.testa": ("conll", ConllSettings(), "finkel", 6),
    "conll2000/train.txt": ("columns", ColumnsSettings(columns=("tokens", "pos", "labels")), "rich", 12),
    "cora/citation_dev.txt": ("citations", CitationSettings(form="columns"), "fields", 20),
    "wnut17/wnut17train.conll": ("columns", ColumnsSettings(separator="tab"), "rich-nopos", 30),
}


@pytest.mark.parametrize("name", CORPORA)
def test_the_optimum_of_real_corpora_is_crfsuites(name: str, tmp_path: Path) -> None:
    path = Path(__file__).parents[2] / "shared" / "data" / name
    if not path.exists():
        pytest.skip(f"no {path}")
    kind, options, features, count = CORPORA[name]
    documents = [d for d in READERS[kind].read(str(path), options) if isinstance(d, Document)][:count]
    expected, _ = crfsuite(documents, EVERYTHING, tmp_path, iterations=1000, features=features)
    assert optimum(chains_of(documents, EVERYTHING, features)).value == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("features", ["finkel-nopos", "finkel-nopos+pairs:fields"])
def test_any_number_of_threads_makes_the_same_bytes(features: str) -> None:
    chains = chains_of(corpus(2, 30), EVERYTHING, features)
    point = np.random.default_rng(0).normal(size=chains.size)
    (loss, gradient), *others = [Objective(chains, 0.1, threads=threads)(point) for threads in (1, 2, 7)]
    for other, slopes in others:
        assert other == loss
        assert slopes.tobytes() == gradient.tobytes()


def test_more_blocks_than_sentences() -> None:
    chains = chains_of([Document.build("d", [["a"]], labels=[["x"]])], EVERYTHING)
    assert Objective(chains, 0.0)(np.zeros(chains.size))[0] == 0.0
    assert module.SENTENCE_BLOCKS > 1


def test_scores_beyond_all_numbers_are_an_infinite_loss() -> None:
    chains = chains_of(tiny(0), EVERYTHING)
    point = np.zeros(chains.size)
    chains.parts(point)[1][:] = -1000.0
    assert Objective(chains, 0.0)(point)[0] == np.inf


def test_sgd_goes_where_the_optimum_is() -> None:
    chains = chains_of(corpus(3, 40), SEEN)
    best = optimum(chains)
    point = np.zeros(chains.size)
    losses = list(sgd.run_passes(chains, 0.3, point, sgd.Rates(0.1, 0.97, 150, 0.0), np.random.default_rng(0)))
    assert losses[-1] < losses[0] / 2
    assert best.value <= Objective(chains, 0.3)(point)[0] <= best.value * 1.02
    assert not point[~np.concatenate([chains.states.ravel(), chains.transitions.ravel()])].any()


def test_a_descent_from_the_optimum_stays_there() -> None:
    chains = chains_of(corpus(4, 10), EVERYTHING)
    best = optimum(chains)
    steps = list(minimise(Objective(chains, 0.3), best.point, Limits(50)))
    assert len(steps) <= 2
    assert steps[-1].value == pytest.approx(best.value, rel=1e-6)


def test_a_start_from_an_earlier_model_is_its_weights_by_name(tmp_path: Path) -> None:
    entry = TRAINERS["lbfgs"]
    first = entry.train(corpus(0, 30), settings=LbfgsSettings(features="finkel"), out=tmp_path / "first")
    options = LbfgsSettings(features="finkel", start_from=str(tmp_path / "first"))
    seen: list[Iteration] = []
    entry.train(corpus(0, 30), settings=options, out=tmp_path / "again", progress=seen.append)
    assert len(seen) < parse_manifest(tmp_path / "first" / MANIFEST).figures["iterations"] / 2
    fitting = Fitting.of(corpus(0, 31)[::-1], settings=options, trainer="lbfgs")
    start = fitting.start(tmp_path / "other")
    assert fitting.training["start_from"] == first.digest
    count = len(load(tmp_path / "first").weights.start) - 1
    names = read_names(tmp_path / "first", parse_manifest(tmp_path / "first" / MANIFEST), count).to_pylist()
    model = load(tmp_path / "first")
    weights, transitions, _ = fitting.chains.weights(start)
    np.testing.assert_allclose(transitions, model.transition[np.ix_(fitting.order, fitting.order)])
    dense = np.zeros((len(names), len(model.labels)))
    begin, label, weight = model.weights.sparse
    dense[np.repeat(np.arange(len(names)), np.diff(begin)), label] = weight
    known = {name: row for row, name in enumerate(names)}
    mine = fitting.attributes.names().to_pylist()
    same = [(i, known[name]) for i, name in enumerate(mine) if name in known]
    # A class of attributes has one weight: those of the earlier model, where new documents did not part it.
    gap = np.abs(weights[[i for i, _ in same]] - dense[[r for _, r in same]][:, fitting.order]).max(axis=1)
    assert np.mean(gap < 1e-9) > 0.95


def test_an_l1_prior_names_the_trainer_that_has_one() -> None:
    with pytest.raises(ValueError, match="--trainer crfsuite"):
        LbfgsSettings.model_validate({"c1": 0.1})


def plain_perceptron(
    sentences: list[tuple[list[list[str]], list[str]]], names: list[str], orders: list[list[int]]
) -> tuple[dict[tuple[str, str], float], dict[tuple[str, str], float]]:
    """Averaged weights by attribute and label, and by pair of labels; all labellings are tried."""
    states: Counter[tuple[str, str]] = Counter()
    pairs: Counter[tuple[str, str]] = Counter()
    state_sums, pair_sums = Counter(states), Counter(pairs)

    def score(rows: list[list[str]], labels: Sequence[str]) -> float:
        local = sum(states[a, y] for row, y in zip(rows, labels, strict=True) for a in row)
        return local + sum(pairs[pair] for pair in pairwise(labels))

    looked_at = 0
    for order in orders:
        for s in order:
            rows, gold = sentences[s]
            # The first of equals by its last label, and so on backwards, as Viterbi finds it.
            ways = sorted(product(names, repeat=len(gold)), key=lambda way: [names.index(y) for y in reversed(way)])
            found = max(ways, key=lambda way: score(rows, way))
            for sign, labels in ((1, gold), (-1, found)):
                for row, label in zip(rows, labels, strict=True):
                    states.update({(a, label): sign for a in row})
                pairs.update(dict.fromkeys(pairwise(labels), 0))
                for pair in pairwise(labels):
                    pairs[pair] += sign
            state_sums.update(states)
            pair_sums.update(pairs)
            looked_at += 1
    return ({k: v / looked_at for k, v in sums.items()} for sums in (state_sums, pair_sums))  # type: ignore[return-value]


def test_the_perceptron_is_the_plain_one() -> None:
    rows = [["Ada", "of", "Ems"], ["Ems", "won"], ["Ada"], ["of", "Ada", "Ems"]]
    gold = [["P", "O", "L"], ["L", "O"], ["P"], ["O", "P", "L"]]
    documents = [Document.build(str(i), [r], labels=[g]) for i, (r, g) in enumerate(zip(rows, gold, strict=True))]
    chains = chains_of(documents, EVERYTHING)
    names, passes = ["L", "O", "P"], 4
    point = np.zeros(chains.size)
    wrong = list(perceptron.run_passes(chains, point, passes, np.random.default_rng(3)))
    assert wrong[0] > 0
    assert wrong[-1] == 0
    rng = np.random.default_rng(3)
    orders = [rng.permutation(len(rows)).tolist() for _ in range(passes)]
    states, pairs = plain_perceptron(spelled(documents), names, orders)
    weights, transitions, _ = chains.weights(point)
    found = incidence(Batch.of(documents), feature_set("finkel-nopos"))
    for a, attribute in enumerate(found.attributes.names().to_pylist()):
        wanted = [states.get((attribute, name), 0.0) for name in names]
        assert weights[a] == pytest.approx(wanted, abs=1e-9), attribute
    assert transitions == pytest.approx(np.array([[pairs.get((x, y), 0.0) for y in names] for x in names]), abs=1e-9)


@rules
def test_the_perceptron_moves_no_weight_that_may_not_be(allowed: FeatureRules) -> None:
    chains = chains_of(corpus(0, 6), allowed)
    point = np.zeros(chains.size)
    assert len(list(perceptron.run_passes(chains, point, 2, np.random.default_rng(0)))) == 2
    states, transitions, _ = chains.parts(point)
    assert states[chains.states].any()
    assert not states[~chains.states].any()
    assert not transitions[~chains.transitions].any()


def test_dropout_is_a_descent_on_what_is_left_of_the_features() -> None:
    chains, share = chains_of(corpus(3, 20), SEEN), 0.4
    point, plain = np.zeros(chains.size), np.zeros(chains.size)
    (loss,) = sgd.run_passes(chains, 0.3, point, sgd.Rates(0.1, 1.0, 1, share), np.random.default_rng(5))
    draws = iter(np.random.default_rng(5).spawn(1)[0].random(len(chains.flat.ids), np.float32).tolist())
    start, ids = chains.flat
    left = [[c for c in ids[a:b].tolist() if next(draws) >= share] for a, b in pairwise(start.tolist())]
    assert 0.5 < sum(map(len, left)) / len(ids) < 0.7
    thin = replace(chains, value=chains.value / (1.0 - share))
    lists = Lists(np.cumsum([0, *map(len, left)]), np.array([c for found in left for c in found], np.int32))
    vars(thin)["flat"] = lists
    (other,) = sgd.run_passes(thin, 0.3, plain, sgd.Rates(0.1, 1.0, 1, 0.0), np.random.default_rng(5))
    assert (loss, point.tolist()) == (other, plain.tolist())


def test_passes_go_by_the_number_of_tokens_unless_they_are_given() -> None:
    def rates(tokens: int, **given: object) -> sgd.Rates:
        return sgd.Rates.of(SgdSettings.model_validate(given), tokens)

    counts = {0: 300, 100: 300, 6_666: 300, 10_000: 200, 20_000: 100, 40_000: 50, 67_000: 30, 80_000: 30, 10**8: 30}
    assert {tokens: rates(tokens).passes for tokens in counts} == counts
    for tokens in (1, 12_345, 10**6):
        assert rates(tokens).decay ** rates(tokens).passes == pytest.approx(sgd.LAST)
    assert rates(10, passes=5, decay=0.9, rate=0.2, dropout=0) == (0.2, 0.9, 5, 0.0)


@pytest.mark.skipif(not CORA.is_file(), reason="needs the citations of ../shared/data/cora")
def test_few_sentences_are_learned_as_well_as_by_descending_to_the_optimum() -> None:
    """Ten passes of so few steps, the default of old, end far from where L-BFGS gets."""
    citations = [d for d in READERS["citations"].read(str(CORA), CitationSettings()) if isinstance(d, Document)]

    def f1(name: str, settings: FittingSettings) -> float:
        counts = cross_validated(citations, TRAINERS[name].train, settings, folds=2)
        return float(f1_of_counts(counts.sum(axis=0)))

    best = f1("lbfgs", LbfgsSettings(features="fields"))
    assert f1("sgd", SgdSettings(features="fields")) > best - 0.005
    assert f1("sgd", SgdSettings(features="fields", passes=10, decay=0.85, dropout=0)) < best - 0.03
