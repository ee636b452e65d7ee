"""The semi-Markov CRF: against enumeration of all segmentations, finite differences, and the chain it is at M = 1."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise, product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from concord.schemas.arrays import Floats, Ints
from concord.schemas.document import Batch, Document
from concord.schemas.labels import Labels, LabelSet
from concord.schemas.potentials import Potentials
from concord.workers.features.extractors import pattern
from concord.workers.features.incidence import Attributes, incidence
from concord.workers.features.segments import WholeSegments, first_features, last_features
from concord.workers.features.templates import PATTERN, FeatureSet, Single
from concord.workers.inference.core import chain
from concord.workers.learning.estimation.chains import FeatureRules, GoldChains, TrainingChains
from concord.workers.learning.estimation.objective import Objective
from concord.workers.learning.estimation.segments import GoldSegments, SegmentChains, SegmentObjective
from concord.workers.learning.trainers import semicrf
from concord.workers.learning.trainers.fit import TrainingBatch
from concord.workers.models.arrays_file import read_arrays, write_arrays
from concord.workers.models.folder import ModelError
from concord.workers.models.model import viterbi_labels
from concord.workers.models.segments import (
    SegmentCounts,
    Segments,
    SegmentScores,
    add_segments,
    best_segments,
    marginals,
    max_marginals,
)
from concord.workers.models.semicrf import ARRAYS, WEIGHTS_FILE, SemiCrfModel, load
from concord.workers.models.settings import SemiCrfSettings
from tests.support.made_corpora import corpus
from tests.support.model_mutations import mend_hashes
from tests.support.seeds import over_seeds

Segmentation = list[tuple[int, int, int]]
"""First token, end (exclusive) and label of each segment."""

seeds = examples(max_examples=60, deadline=None)(given(seed=st.integers(0, 2**32 - 1)))


def segmentations(first: int, end: int, scores: SegmentScores) -> Iterator[Segmentation]:
    """Every segmentation of a sentence."""
    if first == end:
        yield []
        return
    most, width = scores.length.shape
    for label in range(width):
        for stop in range(first + 1, min(end, first + (most if label < scores.spanning else 1)) + 1):
            for rest in segmentations(stop, end, scores):
                yield [(first, stop, label), *rest]


def scored(segmentation: Segmentation, s: SegmentScores) -> float:
    """A segmentation, one score after another."""
    total = 0.0
    for first, end, y in segmentation:
        total += s.inside[first:end, y].sum() + s.first[first, y] + s.last[end - 1, y] + s.length[end - first - 1, y]
        total += sum(s.whole[row, y] for row in s.rows[:, first, end - first - 1].tolist() if row >= 0)
    return float(total + sum(s.transition[a[2], b[2]] for a, b in pairwise(segmentation)))


def random_scores(seed: int, forbidden: float = 0.0) -> tuple[SegmentScores, Ints]:
    rng = np.random.default_rng(seed)
    bounds = np.cumsum([0, *rng.integers(1, 5, int(rng.integers(1, 4)))])
    count, width, most = int(bounds[-1]), int(rng.integers(1, 4)), int(rng.integers(1, 5))
    sizes = ((count, width), (count, width), (count, width), (most, width), (width, width), (3, width))
    tables = [rng.normal(size=size) * 2 for size in sizes]
    for table in tables:
        table[rng.random(table.shape) < forbidden] = -np.inf
    rows = rng.integers(-1, 3, (2, count, most)).astype(np.int32)
    inside, first, last, length, transition, whole = tables
    spanning = int(rng.integers(max(width - 1, 1), width + 1))
    return SegmentScores(inside, first, last, length, transition, whole, rows, spanning), bounds


def segments_in(found: Segments, first: int, end: int) -> Segmentation:
    starts = [t for t in range(first, end) if found.size[t]]
    return [(t, t + int(found.size[t]), int(found.kind[t])) for t in starts]


@seeds
def test_the_best_segments_are_those_of_enumeration(seed: int) -> None:
    scores, bounds = random_scores(seed, forbidden=0.1)
    found, best = best_segments(scores, bounds)
    for (first, end), nats in zip(pairwise(bounds.tolist()), best, strict=True):
        assert nats == pytest.approx(max(scored(one, scores) for one in segmentations(first, end, scores)))
        mine = segments_in(found, first, end)
        assert [t for a, b, _ in mine for t in range(a, b)] == list(range(first, end))
        assert all(found.kind[t] == y for a, b, y in mine for t in range(a, b))
        assert scored(mine, scores) == pytest.approx(nats)


@seeds
def test_marginals_and_max_marginals_are_those_of_enumeration(seed: int) -> None:
    scores, bounds = random_scores(seed, forbidden=0.1)
    best, share = max_marginals(scores, bounds), marginals(scores, bounds)
    wanted = [np.full(scores.inside.shape, -np.inf) for _ in range(2)]
    mass = [np.zeros(scores.inside.shape) for _ in range(2)]
    for first, end in pairwise(bounds.tolist()):
        every = [(scored(one, scores), one) for one in segmentations(first, end, scores)]
        total = np.logaddexp.reduce([nats for nats, _ in every])
        for nats, one in every:
            for a, b, y in one:
                for t in range(a, b):
                    k = int(t > a)
                    wanted[k][t, y] = max(wanted[k][t, y], nats)
                    mass[k][t, y] += np.exp(nats - total) if np.isfinite(total) else 0.0
    for k in range(2):
        np.testing.assert_allclose(best[k], wanted[k], atol=1e-9)
        np.testing.assert_allclose(share[k], mass[k], atol=1e-9)


@seeds
def test_loss_and_counts_are_those_of_enumeration(seed: int) -> None:
    scores, bounds = random_scores(seed)
    rng = np.random.default_rng(seed)
    wanted = [np.zeros(table.shape) for table in scores[:6]]
    gold = Segments(*(np.zeros(int(bounds[-1]), np.int32) for _ in range(2)))
    loss = 0.0
    for first, end in pairwise(bounds.tolist()):
        every = list(segmentations(first, end, scores))
        nats = np.array([scored(one, scores) for one in every])
        total, mine = np.logaddexp.reduce(nats), int(rng.integers(len(every)))
        loss += total - nats[mine]
        for a, b, y in every[mine]:
            gold.size[a], gold.kind[a:b] = b - a, y
        for i, one in enumerate(every):
            share = np.exp(nats[i] - total) - (i == mine)
            for a, b, y in one:
                wanted[0][a + 1 : b, y] += share
                for table, at in ((wanted[1], a), (wanted[2], b - 1), (wanted[3], b - a - 1)):
                    table[at, y] += share
                for row in scores.rows[:, a, b - a - 1].tolist():
                    wanted[5][row, y] += share if row >= 0 else 0.0
            for before, after in pairwise(one):
                wanted[4][before[2], after[2]] += share
    counts = SegmentCounts(*(np.zeros(table.shape) for table in scores[:6]))
    assert add_segments(scores, bounds, gold, counts) == pytest.approx(loss)
    for found, expected in zip(counts, wanted, strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-9)


def test_no_sentence_has_no_segments_and_one_that_is_forbidden_an_infinite_loss() -> None:
    scores, bounds = random_scores(3)
    none = np.zeros(1, np.int64)
    assert len(best_segments(scores, none)[1]) == 0
    scores.first[:] = -np.inf
    gold = Segments(np.ones(len(scores.first), np.int32), np.zeros(len(scores.first), np.int32))
    counts = SegmentCounts(*(np.zeros(table.shape) for table in scores[:6]))
    assert add_segments(scores, bounds, gold, counts) == np.inf
    assert not marginals(scores, bounds).first.any()
    assert best_segments(scores, bounds)[1].max() == -np.inf


# What is learned from


@pytest.mark.parametrize(
    ("names", "starts", "most", "size", "kind", "figures"),
    [
        ("B-P I-P B-P O O I-L", [0], 9, [2, 0, 1, 1, 1, 1], [1, 1, 1, 2, 2, 0], (3, 2, 0)),
        ("B-P I-P I-P I-P I-P O", [0], 2, [2, 0, 2, 0, 1, 1], [0, 0, 0, 0, 0, 1], (2, 2, 1)),
        ("B-P I-P I-P B-P I-P", [0, 2], 9, [2, 0, 1, 2, 0], [0] * 5, (1, 2, 0)),
        ("O O", [0], 9, [1, 1], [0, 0], (1, 1, 0)),
        ("x x y x", [0, 1], 9, [1, 1, 1, 1], [0, 0, 1, 0], (2, 1, 0)),
        ("x x O O y", [0], 9, [2, 0, 1, 1, 1], [0, 0, 2, 2, 1], (3, 2, 0)),
    ],
)
def test_gold_segments(
    names: str, starts: list[int], most: int, size: list[int], kind: list[int], figures: tuple[int, int, int]
) -> None:
    labels = LabelSet.infer(names.split())
    found = GoldSegments.of(labels, labels.encode(names.split()), np.array(starts), most)
    assert found.segments.size.tolist() == size
    assert found.segments.kind.tolist() == kind
    assert found[1:] == figures


@pytest.mark.parametrize("least", [1, 2])
def test_whole_segments_are_found_by_their_words_and_by_their_pattern(least: int) -> None:
    words = [["Ada", "Byron", "of", "Ems"], ["Ada", "Bob", "of", "of"], ["Eve"]]
    batch = Batch.of([Document.build("d", words)])
    start, size = np.array([0, 3, 4, 6, 7, 8]), np.array([2, 1, 2, 1, 1, 1])
    table = WholeSegments.of(batch, start, size, least)

    def told(part: list[str]) -> list[tuple[str, ...]]:
        shapes = list(map(pattern, part))
        runs = [s for i, s in enumerate(shapes) if i == 0 or s != shapes[i - 1]]
        return [tuple(part), tuple(runs)]

    flat = [word for sentence in words for word in sentence]
    kept = [told(flat[a : a + n]) for a, n in zip(start.tolist(), size.tolist(), strict=True)]
    known = [Counter(one[k] for one in kept) for k in range(2)]
    rows = table.found(batch, 3)
    names: dict[int, tuple[str, ...]] = {}
    for k, (first, end) in product(range(2), [(0, 4), (4, 8), (8, 9)]):
        for t, n in product(range(first, end), range(3)):
            row = int(rows[k, t, n])
            text = told(flat[t : t + n + 1])[k]
            assert (row >= 0) == (t + n < end and known[k][text] >= least)
            if row >= 0:
                assert names.setdefault(row, (str(k), *text)) == (str(k), *text)
    assert len(set(names.values())) == len(names) == len(table)


# The objective


def chains_of(
    documents: list[Document], longest: int, features: str = "finkel-nopos"
) -> tuple[SegmentChains, TrainingBatch]:
    settings = SemiCrfSettings(features=features, longest=longest)
    told = TrainingBatch.of(documents, settings=settings, trainer="semicrf")
    gold = semicrf.gold_of(told, longest)
    found = [incidence(told.batch, part) for part in all_features(told.features)]
    return semicrf.chains_of(told, gold, found, semicrf.segments_of(told, gold, 1)), told


def all_features(features: FeatureSet) -> tuple[FeatureSet, FeatureSet, FeatureSet]:
    return features, first_features(features), last_features(features)


def tiny(seed: int) -> list[Document]:
    """Few words and labels, sentences of one token among them."""
    rng = np.random.default_rng(seed)
    lengths = [int(n) for n in rng.integers(1, 6, 4)] + [1]
    words = [[str(w) for w in rng.choice(["a", "b", "Ab", "1"], n)] for n in lengths]
    labels = [[str(y) for y in rng.choice(["x", "x", "y", "O"], n)] for n in lengths]
    return [Document.build("d", words, labels=labels), Document.build("e", [["q"]], labels=[["x"]])]


@pytest.mark.parametrize("longest", [1, 2, 9])
def test_the_gradient_is_the_objectives(longest: int) -> None:
    chains, _ = chains_of(tiny(3), longest)
    objective, rng = SegmentObjective(chains, 0.2), np.random.default_rng(0)
    point = rng.normal(size=chains.size)
    gradient = objective(point)[1].copy()
    for i in range(0, chains.size, 13):
        step = np.zeros(chains.size)
        step[i] = 1e-5
        slope = (objective(point + step)[0] - objective(point - step)[0]) / 2e-5
        assert gradient[i] == pytest.approx(slope, abs=1e-6)


@over_seeds(stay=1, many=15)
def test_with_segments_of_one_token_it_is_the_linear_chain_of_its_features(seed: int) -> None:
    """Log-likelihood, gradient and labels, to 1e-6: a token is then inside, first, last and whole at once."""
    documents = tiny(seed)
    chains, told = chains_of(documents, 1)
    point = np.random.default_rng(seed).normal(size=chains.size)
    views = chains.views(point)
    parts = all_features(told.features)
    templates = dict.fromkeys(template for part in parts for template in (*part.templates, Single(PATTERN)))
    found = incidence(told.batch, FeatureSet("all", tuple(templates)))
    names = {name: row for row, name in enumerate(found.attributes.names().to_pylist())}
    weights = np.zeros((len(names), chains.gold.width))
    placed = []
    for k, part in enumerate(parts):
        own = incidence(told.batch, part).attributes.names().to_pylist()
        placed.append([names[name] for name in own])
        np.add.at(weights, placed[k], (views[k] / chains.parts[k].value[:, None])[chains.parts[k].class_of])
    whole = {}
    for t, word in enumerate(told.batch.columns["tokens"].strings()):
        for k, name in enumerate((f"tokens[0]={word}", f"tokens.pattern[0]={pattern(word)}")):
            whole[int(chains.rows[k, t, 0])] = name
    np.add.at(weights, [names[name] for name in whole.values()], views.whole[list(whole)])
    words = [row for name, row in names.items() if name.startswith("tokens[0]=")]
    weights[words] += views.length[0]
    gold = GoldChains(told.batch.sentence_bounds, chains.gold.segments.kind, chains.gold.width)
    linear = TrainingChains.of(found, gold, FeatureRules(0.0, possible_states=True, possible_transitions=True))
    # A class has one weight for all of its attributes: their sum is what counts.
    states = np.zeros(linear.states.shape)
    np.add.at(states, linear.class_of, weights)
    there = np.concatenate([(states / linear.value[:, None]).ravel(), views.transition.ravel()])
    loss, gradient = Objective(linear, 0.0)(there)
    mine, slope = SegmentObjective(chains, 0.0)(point)
    assert mine == pytest.approx(loss, abs=1e-6)
    by_name, transitions, _ = linear.parts(gradient)
    by_name = (by_name / linear.value[:, None])[linear.class_of]
    found_slopes = chains.views(slope)
    for k, one in enumerate(chains.parts):
        own = (found_slopes[k] / one.value[:, None])[one.class_of]
        np.testing.assert_allclose(own, by_name[placed[k]], atol=1e-6)
    np.testing.assert_allclose(found_slopes.transition, transitions, atol=1e-6)
    np.testing.assert_allclose(found_slopes.whole[list(whole)], by_name[[names[n] for n in whole.values()]], atol=1e-6)


@pytest.mark.parametrize("threads", [1, 3])
def test_any_number_of_threads_gives_the_same_bytes(threads: int) -> None:
    chains, _ = chains_of(corpus(0, 30), 3)
    point = np.random.default_rng(1).normal(size=chains.size)
    loss, gradient = SegmentObjective(chains, 0.1, threads=2)(point)
    other, same = SegmentObjective(chains, 0.1, threads=threads)(point)
    assert (other, same.tobytes()) == (loss, gradient.tobytes())


# The model


def learned(out: Path, documents: list[Document], **options: object) -> SemiCrfModel:
    given = {"features": "finkel-nopos", "max_iterations": 8} | options
    return semicrf.train(documents, settings=SemiCrfSettings.model_validate(given), out=out)


@pytest.mark.parametrize("documents", [corpus(0, 20), tiny(1)], ids=["bio", "plain"])
def test_a_saved_model_scores_what_training_scored(documents: list[Document], tmp_path: Path) -> None:
    """Training reads incidences, a model hashes."""
    chains, told = chains_of(documents, 4)
    point = np.random.default_rng(0).normal(size=chains.size)
    features, gold = all_features(told.features), chains.gold
    attributes: list[Attributes] = [incidence(told.batch, part).attributes for part in features]
    segments = semicrf.segments_of(told, gold, 1)
    model = learned(tmp_path, documents)
    model = SemiCrfModel(semicrf.learned_of(told, chains, features, attributes, segments, point), False, model.manifest)
    bounds = told.batch.sentence_bounds
    scores = model.segment_scores(told.batch)
    counts = SegmentCounts(*(np.zeros(table.shape) for table in scores[:6]))
    loss = add_segments(scores, bounds, gold.segments, counts)
    assert loss == pytest.approx(SegmentObjective(chains, 0.0)(point)[0], rel=1e-9)


@pytest.mark.parametrize("longest", [1, 2, 100])
@pytest.mark.parametrize("documents", [corpus(0, 20), tiny(1)], ids=["bio", "plain"])
def test_engines_find_the_best_segments_without_knowing_of_them(
    documents: list[Document], longest: int, tmp_path: Path
) -> None:
    model = learned(tmp_path, documents, longest=longest)
    new = [Document(d.doc_id, d.sentence_starts, {"tokens": d.columns["tokens"]}) for d in corpus(7, 12)]
    batch = Batch.of([*new, *tiny(5)])
    np.testing.assert_array_equal(viterbi_labels(model, batch), model.best(batch))
    assert model.potentials(batch).score(model.best(batch)) == 0.0


def flat(documents: list[Document], out: Path) -> SemiCrfModel:
    """A model whose weights are all 0: every segmentation is as good as any."""
    learned(out, documents)
    arrays = read_arrays(out / WEIGHTS_FILE, ARRAYS)
    write_arrays(out / WEIGHTS_FILE, [np.zeros_like(a) if a.dtype == np.float64 else a for a in arrays])
    mend_hashes(out)
    return load(out)


@pytest.mark.parametrize("documents", [corpus(0, 8), tiny(1)], ids=["bio", "plain"])
def test_of_segments_that_score_the_same_engines_find_those_of_the_model(
    documents: list[Document], tmp_path: Path
) -> None:
    model, batch = flat(documents, tmp_path), Batch.of(documents)
    np.testing.assert_array_equal(viterbi_labels(model, batch), model.best(batch))


@pytest.mark.parametrize("documents", [corpus(0, 20), tiny(1)], ids=["bio", "plain"])
def test_probabilities_of_labels_add_up_to_one_and_leave_a_legal_labelling(
    documents: list[Document], tmp_path: Path
) -> None:
    model, batch = learned(tmp_path, documents, scores="marginals"), Batch.of(documents)
    potentials = model.potentials(batch)
    assert np.exp(potentials.unary).sum(axis=1) == pytest.approx(np.ones(batch.token_count))
    labels = viterbi_labels(model, batch)
    assert np.isfinite(potentials.legal(model.labels).score(labels))
    assert load(tmp_path).potentials(batch).unary.tobytes() == potentials.unary.tobytes()
    assert learned(tmp_path / "other", documents).digest != model.digest


@pytest.mark.parametrize("seed", range(3))
def test_a_model_of_segments_of_one_token_is_a_chain(seed: int, tmp_path: Path) -> None:
    documents = tiny(seed)
    model, batch = learned(tmp_path, documents, longest=1, scores="marginals"), Batch.of(tiny(seed + 9))
    s = model.segment_scores(batch)
    unary: Floats = s.inside + s.first + s.last + s.length[0]
    for rows in s.rows[:, :, 0]:
        unary += np.where(rows[:, None] >= 0, s.whole[rows], 0.0)
    linear = Potentials(unary, s.transition, batch.sentence_starts)
    outside = [model.labels.index[name] for name in model.labels.names if name == "O"]
    order = [*model.labels.opening.tolist(), *outside]
    np.testing.assert_allclose(np.exp(model.potentials(batch).unary)[:, order], chain.marginals(linear), atol=1e-6)
    labels: Labels = np.array(order, np.int32)[chain.viterbi(linear)]
    np.testing.assert_array_equal(model.best(batch), labels)
    np.testing.assert_allclose(best_segments(s, batch.sentence_bounds)[1], chain.best_labels(linear)[1], atol=1e-6)


def only(name: str) -> list[Document]:
    return [Document.build("d", [["a", "B"], ["a"]], labels=[[name, name], [name]])]


@pytest.mark.parametrize("name", ["O", "B-P", "x"])
def test_labels_that_are_all_there_is(name: str, tmp_path: Path) -> None:
    model, batch = learned(tmp_path, only(name)), Batch.of([Document.build("e", [["a", "C", "d"], ["q"]])])
    assert set(model.labels.decode(viterbi_labels(load(tmp_path), batch))) <= {name, "I-P"}
    unary = model.potentials(batch).unary
    if name == "B-P":
        assert (unary[:, model.labels.index["O"]] == -np.inf).all()


def test_a_document_without_tokens_has_no_labels(tmp_path: Path) -> None:
    model = learned(tmp_path, tiny(0))
    for documents in ([], [Document.build("e", [])]):
        batch = Batch.of(documents)
        assert model.potentials(batch).unary.shape == (0, len(model.labels))
        assert len(model.best(batch)) == 0


def test_what_was_cut_is_counted(tmp_path: Path) -> None:
    document = Document.build("d", [list("abcdefg")], labels=[["x"] * 5 + ["y"] * 2])
    figures = learned(tmp_path, [document], longest=2).manifest.figures
    assert (figures["longest"], figures["cut_segments"]) == (2, 1)
    figures = learned(tmp_path, [document]).manifest.figures
    assert (figures["longest"], figures["cut_segments"]) == (5, 0)


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("length", lambda a: a[:, 2:], r"'transition' is \(3, 3\), want \(1, 1\)"),
        ("length", lambda a: a[:0], "for 2 types"),
        ("length", lambda a: a * np.nan, "'length' has what is no number"),
        ("transition", lambda a: a[1:], r"'transition' is \(2, 3\), want \(3, 3\)"),
        ("whole", lambda a: a[:, 1:], r"'whole' is .*, want \(\d+, 3\)"),
        ("whole", lambda a: a[1:], "the table whole points outside"),
        ("whole", lambda a: np.concatenate([a, a]), "the table whole has"),
        ("whole_rows", lambda a: np.maximum(a, 0), "the table whole has no free slot"),
        ("marginals", lambda a: a[:0], r"'marginals' is \(0,\), want \(1,\)"),
        ("last label", lambda a: a + 9, "label is not one of 3 labels"),
    ],
)
def test_what_a_kernel_would_stumble_over_is_named(name: str, change: object, message: str, tmp_path: Path) -> None:
    learned(tmp_path, tiny(1), max_iterations=1)
    arrays = read_arrays(tmp_path / WEIGHTS_FILE, ARRAYS)
    i = [kind.name for kind in ARRAYS].index(name)
    assert callable(change)
    arrays[i] = change(arrays[i]).astype(arrays[i].dtype)
    write_arrays(tmp_path / WEIGHTS_FILE, arrays)
    mend_hashes(tmp_path)
    with pytest.raises(ModelError, match=message):
        load(tmp_path)
