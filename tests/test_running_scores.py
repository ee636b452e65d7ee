"""A chain's running sums and counts against the score of its labels, after many sweeps of all that makes agreements."""

from __future__ import annotations

import sys
from dataclasses import replace
from itertools import combinations_with_replacement, pairwise, product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from concord.schemas.document import Document
from concord.schemas.labels import LabelSet, Scheme
from concord.schemas.potentials import Potentials
from concord.schemas.problem import ANY, NO_KEY, LinearRows, Problem, Relation, SpanAgreement
from concord.testing.problems import EVERY_SET, LABEL_SETS, naive_keys, random_potentials, random_rows
from concord.testing.templates import random_text
from concord.workers.constraints.constraint_file import parse_constraints
from concord.workers.constraints.constraint_set import build_problem
from concord.workers.constraints.declared import DeclaredConstraints
from concord.workers.constraints.rows import ConstraintError
from concord.workers.constraints.templates.registry import TEMPLATES
from concord.workers.constraints.templates.template import AgreementTemplate, Template
from concord.workers.inference.core.agreement import count_labels
from concord.workers.inference.core.prepared import Prepared
from concord.workers.inference.sampling import gibbs, names
from concord.workers.inference.sampling.drift import DriftError
from concord.workers.inference.sampling.names import Groups, sites_of
from concord.workers.inference.sampling.sweep import anneal
from concord.workers.inference.settings import GibbsSettings
from concord.workers.papers.finkel import annealed
from concord.workers.papers.finkel.settings import AnnealedSettings
from tests.support.made_templates import template
from tests.support.naive_templates import BIO, CASES, PLAIN
from tests.support.oracle import enumerate_marginals

LOOSE = LabelSet(BIO.names, Scheme.LOOSE)
STEADY = GibbsSettings(sweeps=600, cooling="none", start="random")
HARD = STEADY.hard_weight

TIMES = """
constraints:
  - {template: consistent_value, labels: [stime], value: time, weight: 2.0}
  - {template: consistent_subsequence, weight: 1.5}
"""


def times() -> Problem:
    """One time in three spellings, of which the shortest is a part of the others."""
    labels = LabelSet.bio(["stime", "etime"])
    document = Document.build("d", [["3:30"], ["3:30", "PM"], ["3:30", "P.M."]])
    unary = np.random.default_rng(0).normal(size=(len(document), len(labels)))
    local = Potentials(unary, np.zeros((len(labels),) * 2), document.sentence_starts)
    return build_problem(document, local, labels, parse_constraints(TIMES, file="times.yaml").bind(labels))


def check_sums(problem: Problem, seed: int, config: GibbsSettings = STEADY) -> int:
    """Runs a chain from anywhere and compares all that it keeps; returns how many labels it changed."""
    prepared = Prepared.of(problem)
    sites, rng = sites_of(prepared, config.slot_loss), np.random.default_rng(seed)
    chain = gibbs.new_chain(prepared, sites, hard_weight=HARD, rng=rng, start=None)
    changed = 0
    for sweep in range(0, config.sweeps, 20):
        before = chain.at.labels.copy()
        anneal(chain, np.full(20, config.temperature), sweep, sys.maxsize)
        changed += int((before != chain.at.labels).sum())
    score = problem.relaxed(HARD).score(chain.at.labels)
    assert chain.now["objective"][0] == pytest.approx(score.objective, abs=1e-9), "the score"
    assert chain.now["row_penalty"][0] + chain.now["span_penalty"][0] == pytest.approx(score.penalty, abs=1e-9), (
        "the penalty"
    )
    counted = prepared.empty_state(HARD)
    count_labels(counted, prepared.codec, chain.at.labels, 0, len(problem), 1)
    for kept, fresh in zip(
        (chain.spans.counts, chain.spans.holders, chain.spans.total, chain.spans.left_out),
        (counted.counts, counted.holders, counted.total, counted.left_out),
        strict=True,
    ):
        np.testing.assert_array_equal(kept, fresh)
    return changed


def test_a_time_in_three_spellings_is_counted_once() -> None:
    problem = times()
    config = STEADY.model_copy(update={"sweeps": 3000})
    assert min(check_sums(problem, seed, config) for seed in range(4)) > 100


def test_a_time_in_three_spellings_has_the_enumerated_marginals() -> None:
    problem = times()
    config = STEADY.model_copy(update={"sweeps": 10_000})
    runs = [gibbs.sample(problem, config=config, rng=np.random.default_rng(seed))[1] for seed in range(2)]
    assert np.mean(runs, axis=0) == pytest.approx(enumerate_marginals(problem), abs=0.03)


def test_places_of_a_group_are_apart_and_there_once() -> None:
    rng, several = np.random.default_rng(3), 0
    for _ in range(200):
        problem = with_tables(rng, LABEL_SETS[1], Relation.DIFFERENT, Relation.CONTAINED)
        groups = sites_of(Prepared.of(problem), np.inf).groups
        for first, last, may_leave in zip(groups.pointer, groups.pointer[1:], groups.may_leave, strict=False):
            places = groups.places[first:last].tolist()
            assert len({*map(tuple, places)}) == len(places) > 1
            several += len({end - start for start, end in places}) > 1
            if may_leave:
                assert all(start >= end for (_, end), (start, _) in pairwise(places))
    assert several > 20


def consistencies(labels: LabelSet) -> list[Template]:
    """Every template of the registry that makes agreements, with all fields that it is tried with."""
    made = [name for name, kind in TEMPLATES.items() if issubclass(kind, AgreementTemplate)]
    assert len(made) > 3
    return [template(name, fields) for name in made for fields in fields_of(labels, name)]


def fields_of(labels: LabelSet, name: str) -> list[dict[str, Any]]:
    _, for_bio, for_plain = CASES[name]
    return for_plain if labels is PLAIN else for_bio


def document_problem(rng: np.random.Generator, labels: LabelSet, templates: tuple[Template, ...]) -> Problem:
    text = random_text(rng, labels, (3, 2, 4))
    document = Document.build("d", [[word for word, _ in sentence] for sentence in text])
    unary, transition = rng.normal(size=(len(document), len(labels))), rng.normal(size=(len(labels),) * 2)
    local = Potentials(unary, transition, document.sentence_starts)
    return build_problem(document, local, labels, DeclaredConstraints(templates))


@pytest.mark.parametrize("labels", [BIO, PLAIN], ids=["bio", "plain"])
def test_every_pair_of_templates_that_make_agreements_is_counted_as_it_is_scored(labels: LabelSet) -> None:
    rng, changed = np.random.default_rng(1), 0
    pairs = list(combinations_with_replacement(consistencies(labels), 2))
    others = [name for name in CASES if not issubclass(TEMPLATES[name], AgreementTemplate) and CASES[name][2]]
    for turn, (one, two) in enumerate(pairs):
        name = others[turn % len(others)]
        row = template(name, fields_of(labels, name)[0])
        named = [t.model_copy(update={"name": f"c{i}"}) for i, t in enumerate((one, two, row))]
        changed += check_sums(document_problem(rng, labels, tuple(named)), turn)
    assert changed > 100 * len(pairs)


def test_loose_labels_have_no_agreements_and_rows_are_counted_as_they_are_scored() -> None:
    rng = np.random.default_rng(2)
    for declared in consistencies(LOOSE):
        with pytest.raises(ConstraintError, match="loose labels"):
            document_problem(rng, LOOSE, (declared,))
    for turn, name in enumerate(name for name in CASES if not issubclass(TEMPLATES[name], AgreementTemplate)):
        declared = template(name, fields_of(LOOSE, name)[0])
        assert check_sums(document_problem(rng, LOOSE, (declared,)), turn) > 10


def with_tables(rng: np.random.Generator, labels: LabelSet, *relations: Relation) -> Problem:
    """Eight tokens of few words under agreements of these relations; keys of those that differ name several lengths."""
    n, starts = 8, np.array([0, 3, 5], np.int64)
    key = naive_keys(rng.integers(0, 2, n).tolist(), starts.tolist(), 3)
    values = np.where(key == NO_KEY, NO_KEY, key % 2).astype(np.int32)
    potentials, kept = random_potentials(rng, labels, starts, n, forbid=0.0)
    made = [agreement(rng, labels, relation, i, key, values) for i, relation in enumerate(relations)]
    rows = random_rows(rng, labels, kept, starts, n)
    rows = replace(rows, constraint=rows.constraint + len(made))
    return Problem(potentials, labels, tuple(f"c{i}" for i in range(len(made) + 3)), rows, tuple(made))


def agreement(
    rng: np.random.Generator,
    labels: LabelSet,
    relation: Relation,
    number: int,
    key: NDArray[np.int32],
    values: NDArray[np.int32],
) -> SpanAgreement:
    cost = rng.uniform(0.0, 1.5, (len(labels.types),) * 2)
    if relation is Relation.UNLABELLED:
        cost = cost[:, :1]
    elif relation is not Relation.CONTAINED:
        cost = (cost + cost.T) / 2.0
    different = relation is Relation.DIFFERENT
    per_token = not different and bool(rng.random() < 0.5)
    return SpanAgreement(number, relation, values if different else key, cost, per_token=per_token)


@pytest.mark.parametrize("labels", EVERY_SET, ids=lambda labels: f"{labels.scheme} {','.join(labels.names)}")
def test_every_pair_of_relations_is_counted_as_it_is_scored(labels: LabelSet) -> None:
    rng = np.random.default_rng(4)
    for turn, relations in enumerate(product(Relation, Relation)):
        check_sums(with_tables(rng, labels, *relations), turn)


def test_a_sampler_that_counts_twice_is_no_sampler(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every chain looks at its end, in whatever engine it runs."""

    def doubled(problem: Prepared, places: NDArray[np.int64]) -> Groups:
        groups = found(problem, places)
        sizes = np.diff(groups.pointer)
        place = np.repeat(groups.places, 2, axis=0)
        return Groups(place, np.append(0, np.cumsum(2 * sizes)), groups.may_leave)

    found = names._groups
    monkeypatch.setattr(names, "_groups", doubled)
    problem, config = times(), STEADY.model_copy(update={"temperature": 3.0, "chains": 2})
    with pytest.raises(DriftError, match="the sampler counts some move wrongly"):
        gibbs.sample(problem, config=config, rng=np.random.default_rng(0))
    with pytest.raises(DriftError, match="running score is"):
        gibbs.solve(problem, config=config, rng=np.random.default_rng(0))


def balanced(weight: float, tokens: int = 3) -> Problem:
    """Each token has label A or B, and a heavy row that both keep: 8.59375 · A + (1.3125 + 5 + 2.28125) · B ≤ 8.59375.

    While a token goes from A to B, the row is broken by each entry of B in turn, and holds again when A's is taken out.
    Its numbers have exact sums, but their products with the weight do not.
    """
    labels = LabelSet(("A", "B"), Scheme.PLAIN)
    unary = np.tile([0.3, 0.0], (tokens, 1))
    rows = LinearRows(
        np.arange(tokens + 1, dtype=np.int64) * 4,
        np.repeat(np.arange(tokens, dtype=np.int32), 4),
        np.full(4 * tokens, ANY, np.int32),
        np.tile(np.array([1, 1, 1, 0], np.int32), tokens),
        np.tile([1.3125, 5.0, 2.28125, 8.59375], tokens),
        np.full(tokens, 8.59375),
        np.full(tokens, weight),
        np.zeros(tokens, np.int32),
    )
    return Problem(Potentials(unary, np.zeros((2, 2)), np.zeros(1, np.int64)), labels, ("heavy",), rows)


def test_what_rounding_leaves_of_heavy_rows_is_no_drift() -> None:
    """A row that is broken and mended within one move leaves the running score off by more than the score shows."""
    for weight in np.random.default_rng(0).uniform(1e4, 1e6 / 8.59375, 12).tolist():
        problem = balanced(weight)
        assert problem.rows.summed_exactly.all()
        annealed.solve(problem, config=AnnealedSettings(), rng=np.random.default_rng(0))
        gibbs.sample(problem, config=STEADY, rng=np.random.default_rng(0))


def test_an_incumbent_that_is_impossible_starts_no_chain() -> None:
    problem = times()
    labels = np.full(len(problem), problem.labels.index["I-stime"], np.int32)
    rng = np.random.default_rng(0)
    decoded = gibbs.solve(problem, config=GibbsSettings(sweeps=50), rng=rng, incumbent=labels)
    assert np.isfinite(decoded.objective)
