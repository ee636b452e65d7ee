"""False bounds for the checker, by scheme, relation and template: what they are taken from, and which are accepted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, Self

import numpy as np

from concord.schemas.document import Batch, Document
from concord.schemas.labels import Labels, LabelSet, Scheme
from concord.schemas.potentials import Potentials
from concord.schemas.problem import NO_KEY, LinearRows, NamedSpans, Problem, Relation, SpanAgreement
from concord.testing.problems import (
    LABEL_SETS,
    LOOSE_SETS,
    enumerate_best,
    naive_keys,
    random_potentials,
    random_rows,
    random_words,
)
from concord.workers.certificates.checker import IntegerProblem
from concord.workers.certificates.writer import prove
from concord.workers.constraints.declared import DeclaredConstraints
from tests.support.made_templates import template
from tests.support.made_up_proofs import accepts, damaged, made_up_node
from tests.support.naive_templates import BIO, CASES, PLAIN, TEMPLATE_WORDS

SCHEMES = {
    Scheme.BIO: LABEL_SETS[:2],
    Scheme.PLAIN: LABEL_SETS[2:],
    Scheme.LOOSE: LOOSE_SETS,
}
OF_TEMPLATES = {Scheme.BIO: BIO, Scheme.PLAIN: PLAIN, Scheme.LOOSE: LabelSet(BIO.names, Scheme.LOOSE)}
TOKENS = {2: 6, 3: 5, 4: 4, 5: 4}
"""Of a problem, by its number of labels: at most 625 labellings."""
LESS = (3e-6, 1e-3, 0.2, 2.0)
"""Nats below the optimum that are no bound."""
NODES = 300
UNPRICED = (Relation.DIFFERENT, "consistent_value")
"""Kinds whose penalties no proof can charge, so that it confirms no bound that needs them."""


class Case(NamedTuple):
    """A problem, and which scheme and which relation or template it is of."""

    scheme: Scheme
    kind: str
    problem: Problem


@dataclass(eq=False)
class Tried:
    """How many false bounds were tried, those that were accepted, and what became of true ones."""

    false: int = 0
    proven: int = 0
    infeasible: int = 0
    unproven: list[str] = field(default_factory=list)
    accepted: list[str] = field(default_factory=list)

    def __iadd__(self, other: Tried) -> Self:
        """Both together."""
        self.false, self.proven = self.false + other.false, self.proven + other.proven
        self.infeasible += other.infeasible
        self.unproven += other.unproven
        self.accepted += other.accepted
        return self


def cases(seed: int) -> Iterator[Case]:
    """One problem of each relation, of none, and of each template with all its fields, for every scheme that has it."""
    rng = np.random.default_rng(seed)
    for scheme, sets in SCHEMES.items():
        labels = sets[int(rng.integers(len(sets)))]
        for relation in (None, *Relation):
            yield Case(scheme, relation or "rows", of_relation(rng, labels, relation))
    for scheme, labels in OF_TEMPLATES.items():
        for name, (_, for_bio, for_plain) in CASES.items():
            for fields in for_plain if scheme is Scheme.PLAIN else for_bio:
                weight = "hard" if rng.random() < 0.25 else float(rng.uniform(0.3, 3.0))
                declared = DeclaredConstraints((template(name, fields, weight),))
                yield Case(scheme, name, of_template(rng, labels, declared))


def of_relation(rng: np.random.Generator, labels: LabelSet, relation: Relation | None) -> Problem:
    """An agreement of this relation among few words, some of it hard, beside rows half of the time."""
    n = TOKENS[len(labels)]
    words, starts = random_words(rng, n)
    potentials, kept = random_potentials(rng, labels, starts, n)
    some = random_rows(rng, labels, kept, starts, n) if relation is None or rng.random() < 0.5 else LinearRows.none()
    if relation is None:
        return Problem(potentials, labels, ("row",) * len(some), some)
    key = naive_keys(words, starts.tolist(), int(rng.integers(1, 4)))
    if relation is Relation.DIFFERENT:
        key = np.where(key == NO_KEY, NO_KEY, key % 2).astype(np.int32)
    cost = rng.uniform(0.2, 3.0, (len(labels.types),) * 2)
    cost[rng.random(cost.shape) < 0.15] = np.inf
    if relation is Relation.UNLABELLED:
        cost = cost[:, :1]
    elif relation is not Relation.CONTAINED:
        cost = np.maximum(cost, cost.T)
    if relation is Relation.EXACT:
        np.fill_diagonal(cost, 0.0)
    per_token = relation is not Relation.DIFFERENT and bool(rng.random() < 0.5)
    agreement = SpanAgreement(len(some), relation, key, cost, per_token=per_token)
    if np.isinf(agreement.degree_and_penalty(NamedSpans.of(key, labels.spans(kept, starts)))[1]):
        cost[np.isinf(cost)] = 1.0
    return Problem(potentials, labels, ("row",) * len(some) + ("agreement",), some, (agreement,))


def of_template(rng: np.random.Generator, labels: LabelSet, declared: DeclaredConstraints) -> Problem:
    """What a template grounds to on few words, scored at random; of loose labels agreements, too."""
    vocabulary = rng.choice(TEMPLATE_WORDS, int(rng.integers(2, 4)), replace=False).tolist()
    n = TOKENS[len(labels)]
    cut = int(rng.integers(1, n))
    words = [vocabulary[i] for i in rng.integers(0, len(vocabulary), n).tolist()]
    document = Document.build("d", [words[:cut], words[cut:]])
    unary, transition = rng.normal(0.0, 1.5, (n, len(labels))), rng.normal(size=(len(labels),) * 2)
    local = Potentials(unary, transition, document.sentence_starts).legal(labels)
    ((rows, agreements),) = declared.ground(Batch.of([document]), labels)
    return Problem(local, labels, declared.names, rows, agreements)


def tried(case: Case, seed: int, *, mutated: int) -> Tried:
    """Offers the checker true bounds and false ones, with proofs of several kinds."""
    problem, found = case.problem, Tried()
    labels, best = enumerate_best(problem)
    if best == -np.inf:
        found.infeasible += 1
        return found
    rng, name = np.random.default_rng(seed), f"{case.scheme}, {case.kind}, seed {seed}"
    proof = prove(problem, labels, best, nodes=NODES)
    if proof is not None and accepts(problem, best, proof):
        found.proven += 1
    elif case.kind not in UNPRICED:
        found.unproven.append(name)
    for what, offered in _proofs(rng, problem, proof, mutated):
        for less in (*LESS, *_worse(rng, problem, best)):
            found.false += 1
            if accepts(problem, best - less, offered):
                found.accepted.append(f"{name}: {what}, {less:g} nats too low")
    found.false += 1
    if prove(problem, labels, best - LESS[1], nodes=30) is not None:
        found.accepted.append(f"{name}: the writer's own, {LESS[1]:g} nats too low")
    return found


def _proofs(
    rng: np.random.Generator, problem: Problem, proof: list[int] | None, mutated: int
) -> Iterator[tuple[str, list[int]]]:
    yield "nothing", [0, -1]
    yield "made up", made_up_node(rng, IntegerProblem(problem))
    if proof is not None:
        yield "of the true bound", proof
        for _ in range(mutated):
            yield "mutated", damaged(rng, proof)


def _worse(rng: np.random.Generator, problem: Problem, best: float) -> Iterator[float]:
    """What some other labelling scores less: the bound of an answer that was put in its place."""
    other: Labels = rng.integers(0, len(problem.labels), len(problem)).astype(np.int32)
    less = best - problem.score(other).objective
    if LESS[0] < less < np.inf:
        yield less
