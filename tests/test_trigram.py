"""Memory-based n-grams of labels: their constraints and the model, against plain loops and enumeration."""

from __future__ import annotations

import pickle
import sys
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import fields
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from concord.schemas.arrays import Floats, Ints
from concord.schemas.document import Batch, Document
from concord.schemas.errors import TrainingError
from concord.schemas.labels import Labels, LabelSet, Scheme
from concord.schemas.potentials import Potentials
from concord.schemas.problem import LinearRows, Problem
from concord.testing.problems import all_labellings, enumerate_best, random_problem
from concord.workers.constraints.consistency import LabelConsistency, PairCounts
from concord.workers.constraints.constraint_set import Unconstrained
from concord.workers.constraints.rows import ConstraintError, selected
from concord.workers.features.derived import ColumnError
from concord.workers.inference.registry import SOLVERS, Decoder
from concord.workers.learning.weights.unseen import Unseen
from concord.workers.models.folder import ModelError
from concord.workers.models.model import LocalScores, local_scores
from concord.workers.papers.canisius import trigram_trainer as trainer
from concord.workers.papers.canisius.nearest import Nearest
from concord.workers.papers.canisius.neighbourhoods import Neighbourhoods, ranked
from concord.workers.papers.canisius.ngrams import ground, neighbour_grams, predicted_grams, rows_of, summed, voted
from concord.workers.papers.canisius.settings import TrigramSettings, TrigramWindow, Weighting
from concord.workers.papers.canisius.timbl import TimblError
from concord.workers.papers.canisius.trigram import INSTANCES_FILE, VALUES_FILE, TrigramModel, load
from concord.workers.papers.canisius.windows import BEYOND, NUMBER, Windows, gains, sign
from tests.support.made_samples import made_up
from tests.support.model_mutations import mend_hashes

BIO = LabelSet.bio(["PER", "LOC"])
ABC = LabelSet(("a", "b", "c"), Scheme.PLAIN)
LOOSE = LabelSet(BIO.names, Scheme.LOOSE)
OPTIONS: dict[str, dict[str, Any]] = {"window": {"width": 5}, "csp": {"candidates": 3, "margin": 1e9}}
EXACT = [name for name, solver in SOLVERS.items() if solver.exact]


# Weights of features


def test_gains_are_those_of_entropies() -> None:
    values, classes = np.array([0, 0, 1, 1]), np.array([0, 1, 2, 2])
    assert gains(values, classes) == pytest.approx((1.0, 1.0))
    assert gains(np.zeros(4, np.int64), classes) == pytest.approx((0.0, 0.0))


# N-grams


def random_neighbourhoods(
    rng: np.random.Generator, lengths: Sequence[int], n: int, labels: int
) -> tuple[Neighbourhoods, Ints, Ints]:
    """Neighbourhoods of sentences, the classes' labels, and bounds; classes at edges name what is beyond, or do not."""
    bounds = np.cumsum([0, *lengths])
    classes = rng.integers(-1, labels, (12, n))
    classes[:, n // 2] = rng.integers(0, labels, 12)
    classes = np.unique(classes, axis=0)
    instance = np.repeat(np.arange(bounds[-1]), rng.integers(1, min(3, len(classes)) + 1, bounds[-1]))
    kinds = np.concatenate([rng.permutation(len(classes))[:m] for m in np.bincount(instance)])
    share = rng.uniform(0.1, 1.0, len(instance))
    share /= np.bincount(instance, share)[instance]
    return ranked(instance, kinds, share, int(bounds[-1])), classes, bounds


Run = tuple[int, tuple[int, ...]]


def naive_grams(found: Neighbourhoods, classes: Ints, bounds: Ints) -> dict[Run, float]:
    """Each constraint of Canisius et al. (2011) §5 and its weight, a token at a time."""
    n = classes.shape[1]
    weights: dict[Run, float] = defaultdict(float)
    for first, last in pairwise(bounds.tolist()):
        for t in range(first, last):
            near = range(int(found.pointer[t]), int(found.pointer[t + 1]))
            said = [(tuple(classes[found.classes[i]].tolist()), float(found.share[i])) for i in near]
            best = said[0][0]
            for low, high in product(range(n), range(1, n + 1)):
                places = [t - n // 2 + i for i in range(low, high)]
                inside = bool(places) and all(first <= place < last for place in places)
                if inside and -1 not in best[low:high]:
                    agree = sum(share for kind, share in said if kind[low:high] == best[low:high])
                    weights[places[0], best[low:high]] += agree
    return weights


def kept(weights: dict[Run, float], labels: Labels) -> float:
    return sum(w for (t, run), w in weights.items() if tuple(labels[t : t + len(run)].tolist()) == run)


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("lengths", [(1,), (5,), (2, 3)])
def test_scores_are_rewards_of_what_is_kept_less_a_constant(n: int, lengths: tuple[int, ...]) -> None:
    for seed in range(4):
        problem, weights = problem_of(seed, n, lengths)
        wanted, scores = [], []
        for labels in all_labellings(len(problem), 3):
            score = problem.score(labels)
            assert score.penalty == 0.0
            if score.local > -np.inf:
                wanted.append(kept(weights, labels))
                scores.append(score.local)
        assert 1 <= len(scores) <= 3 ** len(problem)
        differences = np.array(wanted) - np.array(scores)
        np.testing.assert_allclose(differences, differences[0], atol=1e-9)


def problem_of(seed: int, n: int, lengths: tuple[int, ...]) -> tuple[Problem, dict[Run, float]]:
    found, classes, bounds = random_neighbourhoods(np.random.default_rng([seed, n, *lengths]), lengths, n, 3)
    made = ground(predicted_grams(found, classes, bounds), int(bounds[-1]), ABC, legal=True)
    scores = LocalScores(
        Potentials(made.unary, np.zeros((3, 3)), bounds[:-1]), rows_of(made.grams, np.array([0, bounds[-1]]))
    )
    document = Document.build("d", [["w"] * length for length in lengths])
    (problem,) = scores.problems(Batch.of([document]), ABC, Unconstrained())
    return problem, naive_grams(found, classes, bounds)


@pytest.mark.parametrize("engine", [*EXACT, "window", "csp"])
def test_exact_engines_find_the_most_rewarded(engine: str) -> None:
    options = OPTIONS.get(engine, {})
    for n in (2, 3, 4, 5):
        for lengths in ((1,), (4,), (3, 2), (6,)):
            problem, weights = problem_of(7, n, lengths)
            decoded = Decoder.of(engine, options)(problem, "d")
            _, best = enumerate_best(problem)
            assert decoded.certified
            assert decoded.objective == pytest.approx(best)
            possible = [y for y in all_labellings(len(problem), 3) if problem.score(y).local > -np.inf]
            assert kept(weights, decoded.labels) == pytest.approx(max(kept(weights, y) for y in possible))


def test_rows_of_a_document_do_not_depend_on_the_batch() -> None:
    found, classes, bounds = random_neighbourhoods(np.random.default_rng(3), (3, 2, 4), 3, 3)
    grams = ground(predicted_grams(found, classes, bounds), 9, ABC, legal=True).grams
    whole = rows_of(grams, np.array([0, 5, 9]))
    part = found.at(np.arange(5, 9))
    alone = ground(predicted_grams(part, classes, np.array([0, 4])), 4, ABC, legal=True)
    for mine, other in zip(
        vars(whole[1]).values(), vars(rows_of(alone.grams, np.array([0, 4]))[0]).values(), strict=True
    ):
        np.testing.assert_array_equal(mine, other)


def assert_same(one: LinearRows, other: LinearRows) -> None:
    for field in fields(one):
        np.testing.assert_array_equal(getattr(one, field.name), getattr(other, field.name))


def test_votes_count_and_ties_go_to_the_surest() -> None:
    classes = np.array([[-1, 0, 1], [0, 1, 1], [2, 2, -1], [0, 2, 2]])
    # Three tokens: 0 is named once and 1 once for the first; 1, 1 and 2 for the second; 1 and 2 for the last.
    found = ranked(np.array([0, 1, 1, 2]), np.array([0, 1, 3, 2]), np.array([1.0, 0.6, 0.4, 1.0]), 3)
    assert voted(found, classes, np.array([0, 3]), 3).tolist() == [0, 1, 2]


def test_neighbours_widen_the_domain() -> None:
    found, classes, bounds = random_neighbourhoods(np.random.default_rng(2), (4,), 3, 3)
    narrow = ground(predicted_grams(found, classes, bounds), 4, ABC, legal=True).unary
    wide = ground(
        summed([predicted_grams(found, classes, bounds), neighbour_grams(found, classes)]), 4, ABC, legal=True
    )
    assert (np.isfinite(wide.unary) >= np.isfinite(narrow)).all()
    assert np.isfinite(wide.unary).sum() > np.isfinite(narrow).sum()


# Windows of labels


@pytest.mark.parametrize("labels", [BIO, LOOSE], ids=["bio", "loose"])
def test_windows_are_exact_for_rows_that_they_hold_and_bound_the_rest(labels: LabelSet) -> None:
    proven = 0
    for seed in range(60):
        problem = random_problem(np.random.default_rng(seed), labels=labels, agreements=seed % 3 == 0 and labels is BIO)
        _, best = enumerate_best(problem)
        for width in (2, 3, 7):
            decoded = Decoder.of("window", {"width": width})(problem, "d")
            assert decoded.bound >= best - 1e-9
            assert decoded.objective <= best + 1e-9
            if not problem.agreements and width == 7 and len(problem.potentials.sentence_starts) == 1:
                assert decoded.objective == pytest.approx(best)
                assert decoded.certified
                proven += 1
        few = Decoder.of("window", {"width": 7, "states": 1})(problem, "d")
        assert few.bound >= best - 1e-9
    assert proven > 5


@pytest.mark.parametrize("engine", list(SOLVERS))
def test_engines_take_loose_labels_and_rows_of_the_model(engine: str) -> None:
    for seed in range(6):
        given = random_problem(np.random.default_rng(seed), labels=LOOSE, agreements=False)
        soft = random_problem(np.random.default_rng(seed + 100), labels=LOOSE, agreements=False, tokens=len(given)).rows
        inside = np.isfinite(soft.weight) & ~np.isin(
            np.arange(len(soft)), soft.row_of_entry[np.isin(soft.position, given.potentials.sentence_starts)]
        )
        problem = given.with_own_rows(selected(soft, inside))
        _, best = enumerate_best(problem)
        decoded = Decoder.of(engine)(problem, "d")
        assert decoded.bound >= best - 1e-6
        assert decoded.objective <= best + 1e-9
        score = problem.score(decoded.labels)
        plain = given.score(decoded.labels)
        np.testing.assert_array_equal(score.penalties, plain.penalties)
        assert score.local <= plain.local
        assert decoded.local == score.local
        if decoded.certified:
            assert decoded.objective == pytest.approx(best, abs=1e-6)


# The model


DOCUMENTS = [made_up(seed, f"d{seed}") for seed in range(30)]


def trained(out: Path, **options: object) -> TrigramModel:
    return trainer.train(DOCUMENTS, settings=TrigramSettings.model_validate(options), out=out)


@pytest.mark.parametrize("windows", list(TrigramWindow))
@pytest.mark.parametrize("n", [1, 3])
def test_a_model_learns_is_saved_and_read_again(windows: TrigramWindow, n: int, tmp_path: Path) -> None:
    model = trained(tmp_path / "m", windows=windows, n=n, metric="mvdm", k=3)
    again = load(tmp_path / "m")
    batch = Batch.of([made_up(100, "x"), made_up(101, "y")])
    assert again.digest == model.digest
    mine, other = model.scores(batch), again.scores(batch)
    np.testing.assert_array_equal(mine.potentials.unary, other.potentials.unary)
    assert mine.rows is not None
    assert other.rows is not None
    for one, two in zip(mine.rows, other.rows, strict=True):
        np.testing.assert_array_equal(one.weight, two.weight)
    gold = model.labels.encode(batch.labels.strings() if batch.labels else [])
    problems = local_scores(model, batch).problems(batch, model.labels, Unconstrained())
    answers = np.concatenate([Decoder.of("certify")(problem, "d").labels for problem in problems])
    assert (answers == gold).mean() > 0.9
    assert (model.voted(batch) == gold).mean() > 0.9


@pytest.mark.parametrize("learner", ["igtree", "tribl2", "ib1"])
def test_timbl_learns_as_well(learner: str, tmp_path: Path) -> None:
    pytest.importorskip("timblapi", reason="the extra memory is not installed: python3-timbl")
    model = trained(tmp_path / "m", learner=learner, k=2)
    batch = Batch.of([made_up(100, "x"), made_up(101, "y")])
    assert batch.labels is not None
    gold = model.labels.encode(batch.labels.strings())
    assert (model.voted(batch) == gold).mean() > 0.7
    sent = pickle.loads(pickle.dumps(load(tmp_path / "m")))
    np.testing.assert_array_equal(sent.scores(batch).potentials.unary, model.scores(batch).potentials.unary)
    if learner == "ib1":
        own = trained(tmp_path / "own", k=2)
        np.testing.assert_allclose(own.potentials(batch).unary, model.potentials(batch).unary, atol=1e-6)


def test_without_timbl_it_is_said_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "timblapi", None)
    with pytest.raises(TimblError, match=r"pip install 'concord-nlp\[memory\]'"):
        trained(tmp_path / "m", learner="igtree")


def test_equal_trainings_give_equal_files(tmp_path: Path) -> None:
    for name in ("a", "b"):
        trained(tmp_path / name, windows="names")
    for file in sorted((tmp_path / "a").iterdir()):
        assert file.read_bytes() == (tmp_path / "b" / file.name).read_bytes(), file.name


def test_a_document_scores_alike_in_every_batch(tmp_path: Path) -> None:
    model = trained(tmp_path / "m", domain="neighbours")
    documents = [made_up(100, "x"), made_up(101, "y", (3,)), made_up(102, "z")]
    together, alone = model.scores(Batch.of(documents)), model.scores(Batch.of(documents[1:2]))
    assert together.rows is not None
    assert alone.rows is not None
    np.testing.assert_array_equal(together.potentials.unary[11:14], alone.potentials.unary)
    assert_same(together.rows[1], alone.rows[0])


def test_what_is_legal_always_has_a_labelling(tmp_path: Path) -> None:
    model = trained(tmp_path / "m", k=2)
    for seed in range(100, 120):
        document = made_up(seed, "x")
        (problem,) = local_scores(model, batch := Batch.of([document])).problems(batch, model.labels, Unconstrained())
        assert np.isfinite(Decoder.of("viterbi")(problem, "x").objective)


def test_loose_labels_take_no_agreements(tmp_path: Path) -> None:
    model = trained(tmp_path / "m", legality="loose")
    assert model.labels.scheme is Scheme.LOOSE
    assert load(tmp_path / "m").labels == model.labels
    batch = Batch.of([Document.build("x", [["Ada", "met", "Ada"]])])
    consistency = LabelConsistency(PairCounts.of(DOCUMENTS, model.labels))
    with pytest.raises(ConstraintError, match="legality=bio"):
        list(local_scores(model, batch).problems(batch, model.labels, consistency))


def test_no_penalties_are_learned_beside_its_rows() -> None:
    with pytest.raises(TrainingError, match="constraints of its own"):
        Unseen.of(DOCUMENTS[:6], trainer.train, TrigramSettings(), 2)


def test_entities_that_a_document_alone_has_are_not_told_while_training(tmp_path: Path) -> None:
    told = {}
    for held_out in (True, False):
        settings = TrigramSettings(windows=TrigramWindow.NAMES, held_out=held_out)
        entities = trainer.entities_for(DOCUMENTS[:1], settings)
        last = Windows(TrigramWindow.NAMES, entities).features(Batch.of(DOCUMENTS[:1]))[-2]
        told[held_out] = {last.values[i] for i in last.codes.tolist()}
    assert "yes" not in told[True]
    assert "yes" in told[False]


def test_a_missing_column_is_named(tmp_path: Path) -> None:
    model = trained(tmp_path / "m", windows="chunks")
    with pytest.raises(ColumnError, match=r"column 'pos'.*windows=words"):
        model.potentials(Batch.of([Document.build("x", [["Ada"]])]))


def test_damaged_files_are_refused(tmp_path: Path) -> None:
    trained(tmp_path / "m")
    for name in (INSTANCES_FILE, VALUES_FILE):
        data = (tmp_path / "m" / name).read_bytes()
        (tmp_path / "m" / name).write_bytes(data[:-9])
        mend_hashes(tmp_path / "m")
        with pytest.raises(ModelError, match="damaged"):
            load(tmp_path / "m")
        (tmp_path / "m" / name).write_bytes(data)
    mend_hashes(tmp_path / "m")
    load(tmp_path / "m")


def test_classes_are_the_labels_around() -> None:
    classes, which = trainer.label_classes(np.array([0, 1, 1, 2], np.int32), np.array([0, 3, 4]), 3)
    assert [classes[i].tolist() for i in which] == [[-1, 0, 1], [0, 1, 1], [1, 1, -1], [-1, 2, -1]]
    pairs, which = trainer.label_classes(np.array([0, 1], np.int32), np.array([0, 2]), 2)
    assert [pairs[i].tolist() for i in which] == [[-1, 0], [0, 1]]


@given(st.lists(st.integers(0, 4), min_size=1, max_size=6), st.integers(1, 5))
def test_the_most_frequent_class_is_the_first(gold: list[int], n: int) -> None:
    _, which = trainer.label_classes(np.array(gold, np.int32), np.array([0, len(gold)]), n)
    times = np.bincount(which)
    assert (np.diff(times) <= 0).all()


@pytest.mark.parametrize(
    ("word", "wanted"),
    [
        ("3.5", "NUMBER"),
        ("...", "MARK"),
        ("B2B", "DIGITS"),
        ("NATO", "CAPITALS"),
        ("A", "CAPITALISED"),
        ("a", "-a"),
        ("running", "-ng"),
        ("-5", "NUMBER"),
    ],
)
def test_signs(word: str, wanted: str) -> None:
    assert sign(word) == wanted
    assert bool(NUMBER.fullmatch(word)) == (wanted == "NUMBER")


def test_windows_end_with_the_sentence() -> None:
    features = Windows(TrigramWindow.WORDS).features(Batch.of([Document.build("x", [["a", "b"], ["c"]])]))
    words = [[column.values[i] for i in column.codes.tolist()] for column in features[:5]]
    assert list(zip(*words, strict=True)) == [
        (BEYOND, BEYOND, "a", "b", BEYOND),
        (BEYOND, "a", "b", BEYOND, BEYOND),
        (BEYOND, BEYOND, "c", BEYOND, BEYOND),
    ]
    pairs = features[10]
    assert [pairs.values[i] for i in pairs.codes.tolist()] == ["\na", "a\nb", "\nc"]


def test_weightings(tmp_path: Path) -> None:
    found: dict[Weighting, Floats] = {}
    for weighting in Weighting:
        model = trained(tmp_path / weighting, weighting=weighting)
        assert isinstance(model.classifier, Nearest)
        found[weighting] = model.classifier.weights
    assert (found[Weighting.NONE] == 1.0).all()
    assert found[Weighting.GAIN_RATIO].argmax() != found[Weighting.INFORMATION_GAIN].argmin()
    assert (found[Weighting.GAIN_RATIO] <= 1.0 + 1e-12).all()
