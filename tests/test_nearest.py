"""Nearest neighbours: distances and votes against plain loops and TiMBL, and the tree that is searched for them."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from concord.schemas.arrays import Ids, Ints
from concord.workers.papers.canisius import nearest as nearest_module
from concord.workers.papers.canisius import profile_tree
from concord.workers.papers.canisius.ballots import NEAR
from concord.workers.papers.canisius.nearest import Nearest, Vote
from concord.workers.papers.canisius.neighbourhoods import told_once
from concord.workers.papers.canisius.profile_tree import ProfileTree
from concord.workers.papers.canisius.profiles import Profiles
from concord.workers.papers.canisius.settings import Decay, Metric
from concord.workers.papers.canisius.windows import gains


def distances(nearest: Nearest, query: Sequence[int], sizes: Sequence[int]) -> list[float]:
    """Straight from the definitions."""
    shares: list[dict[int, dict[int, float]]] = []
    for row in nearest.values:
        seen: dict[int, Counter[int]] = defaultdict(Counter)
        for value, kind in zip(row.tolist(), nearest.classes.tolist(), strict=True):
            seen[value][kind] += 1
        shares.append({v: {c: n / sum(of.values()) for c, n in of.items()} for v, of in seen.items()})
    total = []
    for i in range(len(nearest.classes)):
        far = 0.0
        for f, weight in enumerate(nearest.weights.tolist()):
            mine, other = query[f], int(nearest.values[f, i])
            if nearest.metric is Metric.OVERLAP:
                far += weight * (mine != other)
            elif mine not in range(sizes[f]):
                far += weight * 2.0
            else:
                p, q = shares[f][mine], shares[f][other]
                far += weight * _differ(nearest.metric, p, q)
        total.append(far)
    return total


def _differ(metric: Metric, p: dict[int, float], q: dict[int, float]) -> float:
    kinds = p.keys() | q.keys()
    if metric is Metric.MVDM:
        return sum(abs(p.get(c, 0.0) - q.get(c, 0.0)) for c in kinds)
    pairs = [(p.get(c, 0.0), q.get(c, 0.0)) for c in kinds]
    return sum(sum(x * math.log2(2.0 * x / (a + b)) for x in (a, b) if x) for a, b in pairs)


def votes(far: Sequence[float], classes: Ints, k: int, decay: Decay) -> dict[int, float]:
    levels = sorted(far)
    kept = [levels[0]]
    for level in levels:
        if level > kept[-1] + 1e-9:
            kept.append(level)
    first, wider = (_voted(far, classes, kept[:size], decay) for size in (k, k + 1))
    return wider if _tied(first) and not _tied(wider) else first


def _tied(votes: dict[int, float]) -> bool:
    return sum(weight > max(votes.values()) - 1e-9 for weight in votes.values()) > 1


def _voted(far: Sequence[float], classes: Ints, kept: Sequence[float], decay: Decay) -> dict[int, float]:
    found: Counter[int] = Counter()
    for d, kind in zip(far, classes.tolist(), strict=True):
        if d <= kept[-1] + 1e-9:
            spread = kept[-1] - kept[0]
            weight = {
                Decay.NONE: 1.0,
                Decay.INVERSE: 1.0 / (d + NEAR),
                Decay.LINEAR: (kept[-1] - d) / spread if spread else 1.0,
                Decay.EXPONENTIAL: math.exp(-d),
            }[decay]
            found[kind] += weight  # type: ignore[assignment]
    total = sum(found.values())
    return {kind: weight / total for kind, weight in found.items() if weight > 1e-12}


def assert_as_loops(nearest: Nearest, queries: Ids) -> None:
    sizes = (nearest.values.max(axis=1) + 1).tolist()
    found = told_once(nearest, queries)
    for q, query in enumerate(queries.tolist()):
        mine = slice(int(found.pointer[q]), int(found.pointer[q + 1]))
        wanted = votes(distances(nearest, query, sizes), nearest.classes.astype(np.int64), *nearest.vote)
        told = dict(zip(found.classes[mine].tolist(), found.share[mine].tolist(), strict=True))
        assert {c: s for c, s in told.items() if s > 1e-12} == pytest.approx(wanted, abs=1e-6)
        assert found.share[mine].sum() == pytest.approx(1.0)
        assert (np.diff(found.share[mine]) <= 0).all()


@pytest.mark.parametrize("metric", list(Metric))
@pytest.mark.parametrize("decay", list(Decay))
def test_neighbours_are_those_of_plain_loops(metric: Metric, decay: Decay) -> None:
    for seed in range(6):
        rng = np.random.default_rng([seed, *metric.encode(), *decay.encode()])
        features, count, kinds = (int(rng.integers(1, high)) for high in (5, 25, 4))
        sizes = rng.integers(1, 4, features)
        values = np.array([rng.permutation(np.arange(count) % n) for n in sizes], np.int32)
        classes = rng.integers(0, kinds, count).astype(np.int32)
        # Weights whose sums differ, so that distances that are equal are so for the same reason.
        vote = Vote(int(rng.integers(1, 5)), decay)
        nearest = Nearest(values, classes, kinds, rng.uniform(0.1, 1.0, features), metric, vote)
        queries = rng.integers(-1, 4, (8, features)).astype(np.int32)
        assert_as_loops(nearest, queries)


@pytest.mark.parametrize("metric", [Metric.MVDM, Metric.JEFFREY])
@pytest.mark.parametrize("most_heads", [1, 8, 2_000])
@pytest.mark.parametrize("kept", [0, 200])
def test_a_tree_of_any_shape_has_the_same_neighbours(
    metric: Metric, most_heads: int, kept: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(profile_tree, "MOST_HEADS", most_heads)
    monkeypatch.setattr(nearest_module, "KEPT_DISTANCES", kept)
    for seed in range(3):
        nearest, queries = related(np.random.default_rng([seed, most_heads, kept]), metric, 200)
        assert_as_loops(nearest, queries)


def related(rng: np.random.Generator, metric: Metric, count: int) -> tuple[Nearest, Ids]:
    """Instances whose features tell much of each other and of the class, one without weight; and queries like them.

    Queries have values that training did not have, below and above those that it had.
    """
    kinds, features = rng.integers(0, 4, count + 10), 5
    values = np.stack([(kinds * 3 + rng.integers(0, 2 + f, count + 10)) % (4 + 3 * f) for f in range(features)])
    values = np.stack([np.unique(row, return_inverse=True)[1] for row in values]).astype(np.int32)
    queries = np.ascontiguousarray(values[:, count:].T)
    queries[rng.random(queries.shape) < 0.1] = -1
    queries[rng.random(queries.shape) < 0.1] = 50
    classes = np.where(rng.random(count) < 0.2, rng.integers(0, 4, count), kinds[:count]).astype(np.int32)
    weights = np.array([1.0, 0.0, 1.0, 0.3, 0.7])
    vote = Vote(int(rng.integers(1, 9)), list(Decay)[int(rng.integers(len(Decay)))])
    return Nearest(values[:, :count], classes, 4, weights, metric, vote), queries


@pytest.mark.parametrize("metric", [Metric.MVDM, Metric.JEFFREY])
def test_rows_of_many_profiles_are_wide(metric: Metric, monkeypatch: pytest.MonkeyPatch) -> None:
    nearest, queries = related(np.random.default_rng(0), metric, 60)
    assert nearest._grown[0].profile.dtype == np.uint16
    monkeypatch.setattr(profile_tree, "NARROW", 0)
    again = Nearest(nearest.values, nearest.classes, 4, nearest.weights, metric, nearest.vote)
    assert again._grown[0].profile.dtype == np.int32
    assert_as_loops(again, queries)


@pytest.mark.parametrize("metric", list(Metric))
@pytest.mark.parametrize("weight", [0.0, 1.0])
@pytest.mark.parametrize("rows", [[[0]], [[0, 0, 0]], [[0, 1, 2, 1]], [[0], [0]], [[0, 1, 1, 0], [0, 1, 1, 0]]])
def test_neighbours_of_few_instances(metric: Metric, weight: float, rows: list[list[int]]) -> None:
    values = np.array(rows, np.int32)
    classes = (np.arange(values.shape[1]) % 3).astype(np.int32)
    for k in (1, 3):
        nearest = Nearest(values, classes, 3, np.full(len(rows), weight), metric, Vote(k, Decay.INVERSE))
        assert_as_loops(nearest, np.array([[v] * len(rows) for v in (-1, 0, 1, 2, 3)], np.int32))


def test_values_share_a_profile_where_their_classes_have_the_same_shares() -> None:
    # Classes of value 0: a, b; of 1: a, a, b, b; of 2 and 3: b alone; of 4: a, b, b. Value 5 never occurs, 6 does.
    values = np.array([[0, 0, 1, 1, 1, 1, 2, 3, 3, 4, 4, 4, 6]], np.int32)
    classes = np.array([0, 1, 0, 1, 0, 1, 1, 1, 1, 0, 1, 1, 2], np.int32)
    profiles = Profiles.of(values, classes, 3)
    told = profiles.codes(np.array([[0], [1], [2], [3], [4], [6], [-1], [7]], np.int32))[:, 0].tolist()
    # The most frequent is the first: of values 0 and 1, then of 2 and 3, which are as frequent as 4.
    assert told == [0, 0, 1, 1, 2, 3, -1, -1]


def test_a_tree_has_every_instance_once() -> None:
    rng = np.random.default_rng(1)
    codes = rng.integers(0, 3, (4, 60)).astype(np.int32)
    classes = np.arange(60, dtype=np.int32)
    tree = ProfileTree.of(codes, classes, np.array([2, 0, 3, 1]))
    row = np.repeat(np.arange(len(tree.profile)), np.diff(tree.start))
    np.testing.assert_array_equal(tree.profile[row], codes[[2, 0, 3, 1]][:, tree.classes].T)
    assert sorted(tree.classes.tolist()) == list(range(60))
    rows = tree.profile.tolist()
    assert rows == sorted(rows)
    for r in range(1, len(rows)):
        assert rows[r][: tree.shared[r]] == rows[r - 1][: tree.shared[r]]
        assert rows[r][tree.shared[r]] != rows[r - 1][tree.shared[r]]
    for r, after in enumerate(tree.after.tolist()):
        assert all(tree.shared[other] >= tree.shared[r] for other in range(r + 1, after))
        assert tree.shared[after] < tree.shared[r] or after == len(rows)


def test_no_instance_has_no_neighbours() -> None:
    vote = Vote(1, Decay.NONE)
    nearest = Nearest(np.zeros((1, 1), np.int32), np.zeros(1, np.int32), 1, np.ones(1), Metric.OVERLAP, vote)
    assert len(told_once(nearest, np.zeros((0, 1), np.int32)).predicted) == 0


def test_neighbours_are_those_of_timbl(tmp_path: Path) -> None:
    timbl = pytest.importorskip("timblapi", reason="the extra memory is not installed: python3-timbl")
    rng = np.random.default_rng(5)
    # Of Jeffrey's divergence TiMBL has another multiple, which decides otherwise where k is widened for a tie.
    for metric, flag, ks in (
        (Metric.OVERLAP, "-mO", (1, 3)),
        (Metric.MVDM, "-mM", (1, 3)),
        (Metric.JEFFREY, "-mJ", (1,)),
    ):
        values = np.stack([rng.integers(0, 3 + 2 * f, 300) for f in range(5)]).astype(np.int32)
        classes = ((values[1] + values[2] * 2 + (rng.random(300) < 0.2)) % 4).astype(np.int32)
        values = np.stack([np.unique(row, return_inverse=True)[1].astype(np.int32) for row in values])
        file = tmp_path / f"{metric}.train"
        rows = zip(values.T.tolist(), classes.tolist(), strict=True)
        file.write_text("".join("\t".join([*(f"v{v}" for v in row), f"c{kind}"]) + "\n" for row, kind in rows))
        weights = np.array([_gain_ratio(row, classes) for row in values])
        for k in ks:
            referee = timbl.TimblAPI(f"-F Tabbed +D +vs+db -a0 -w1 {flag} -k{k}", "referee")
            assert referee.learn(str(file))
            queries = np.stack([rng.integers(0, 3 + 2 * f, 40) for f in range(5)], axis=1).astype(np.int32)
            queries = np.minimum(queries, values.max(axis=1))
            found = told_once(Nearest(values, classes, 4, weights, metric, Vote(k, Decay.NONE)), queries)
            for q, row in enumerate(queries.tolist()):
                line = "\t".join([*(f"v{v}" for v in row), "c0"])
                known, _, told, _ = referee.classify3(line, True, 0)
                mine = slice(int(found.pointer[q]), int(found.pointer[q + 1]))
                named = {f"c{c}": s for c, s in zip(found.classes[mine], found.share[mine], strict=True)}
                assert known
                assert named == pytest.approx(told, abs=1e-6)


def _gain_ratio(values: Ids, classes: Ids) -> float:
    gain, split = gains(values.astype(np.int64), classes.astype(np.int64))
    return gain / split
