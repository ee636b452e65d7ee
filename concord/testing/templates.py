"""Contract tests of constraint templates, against a plain count of how often a labelling breaks them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from concord.schemas.document import Batch, Document
from concord.schemas.labels import Labels, LabelSet, Scheme
from concord.schemas.potentials import Potentials
from concord.schemas.problem import LinearRows, Problem
from concord.testing.expect import expect, expect_near, expect_same
from concord.workers.constraints.declared import DeclaredConstraints
from concord.workers.constraints.templates.presence import MustAppear
from concord.workers.constraints.templates.template import RowTemplate, Template

BIO = LabelSet.bio(["PER", "ORG"])
PLAIN = LabelSet(("O", "author", "title", "date"), Scheme.PLAIN)
TEMPLATE_WORDS = ("Smith", "smith", "Jones", ",", ".", "3:30", "PM", "3.30", "p.m.", "of")
"""Words of made-up documents."""

Sentences = list[list[tuple[str, str]]]
"""Sentences of (word, label name), the input of a plain count."""

SHAPES = ((1,), (2,), (5,), (1, 1), (3, 1, 4), (7, 6), (12,))
"""Tokens of each sentence."""

WEIGHT = 1.5


class Case(NamedTuple):
    """An entry to be tested.

    - ``fields``: keys of the entry, without its weight
    - ``labels``: label set that fits them: `BIO`, `PLAIN` or another one
    - ``degree``: function that gives the degree by a plain count
    """

    fields: Mapping[str, Any]
    labels: LabelSet
    degree: Callable[[Sentences], float]

    def made(self, template: type[Template], weight: float | str = WEIGHT) -> Template:
        """The entry as a template with a weight."""
        return template.model_validate({"weight": weight} | dict(self.fields))


def check_template(template: type[Template], cases: Sequence[Case]) -> None:
    """Runs all `TEMPLATE_CHECKS` on each case. Raises `AssertionError` at a broken promise.

    For templates of rows and of agreements. Random texts must break the constraints of some cases.
    """
    for check in TEMPLATE_CHECKS:
        check(template, cases)


def random_text(rng: np.random.Generator, labels: LabelSet, lengths: Sequence[int]) -> Sentences:
    """Random words and labels, legal or not; labels often repeat the one before."""
    vocabulary = TEMPLATE_WORDS[: int(rng.integers(2, len(TEMPLATE_WORDS) + 1))]
    text: Sentences = []
    for length in lengths:
        names: list[str] = []
        for _ in range(length):
            keep = names and rng.random() < 0.4
            names.append(names[-1] if keep else labels.names[rng.integers(len(labels))])
        text.append([(vocabulary[rng.integers(len(vocabulary))], name) for name in names])
    return text


def document_of(text: Sentences, doc_id: str = "d") -> Document:
    """A document of these words, without labels."""
    return Document.build(doc_id, [[word for word, _ in sentence] for sentence in text])


def ground(template: Template, text: Sentences, labels: LabelSet) -> tuple[Problem, Labels]:
    """The problem of one entry on a text, with scores of 0, and the text's labels (N,)."""
    document = document_of(text)
    potentials = Potentials(
        np.zeros((len(document), len(labels))), np.zeros((len(labels),) * 2), document.sentence_starts
    )
    ((rows, agreements),) = DeclaredConstraints((template,)).ground(Batch.of([document]), labels)
    names = [label for sentence in text for _, label in sentence]
    return Problem(potentials, labels, ("c",), rows, agreements), labels.encode(names)


def has_antecedent(template: Template, text: Sentences, labels: LabelSet) -> NDArray[np.bool_]:
    """(R,) does the text have the antecedent of each row?"""
    (antecedents,) = DeclaredConstraints((template,)).antecedents(Batch.of([document_of(text)]), labels)
    there: NDArray[np.bool_] = antecedents.degree(labels.encode([label for s in text for _, label in s])) > 0
    return there


def degrees_are_those_of_a_plain_count(template: type[Template], cases: Sequence[Case]) -> None:
    """The degree of random labellings is that of the plain count, and their penalty is the weight times the degree."""
    rng, broken = np.random.default_rng(7), 0
    for case in cases:
        entry = case.made(template)
        for shape in SHAPES * 15:
            text = random_text(rng, case.labels, shape)
            problem, labels = ground(entry, text, case.labels)
            score, degree = problem.score(labels), case.degree(text)
            where = f"of {dict(case.fields)} on {text}"
            expect_near(float(score.degree[0]), degree, 1e-6, f"the degree {where}")
            expect_near(score.penalty, WEIGHT * degree, 1e-6, f"the penalty {where}")
            broken += degree > 0
    expect(broken > 20, "the cases hardly ever break it, so the comparison says nothing: give others")


def rows_are_well_formed(template: type[Template], cases: Sequence[Case]) -> None:
    """Positions lie in the document, no edge leads into a sentence, and no edge is in a row twice."""
    rng = np.random.default_rng(1)
    for case in cases:
        problem, _ = ground(case.made(template), random_text(rng, case.labels, (4, 1, 9)), case.labels)
        rows, starts = problem.rows, problem.potentials.sentence_starts
        expect((rows.previous[np.isin(rows.position, starts)] == -1).all(), "no edge leads into a sentence")
        expect(((rows.position >= 0) & (rows.position < len(problem))).all(), "positions are tokens of the document")
        expect((rows.weight == WEIGHT).all(), "a row has the weight of its entry")
        entries = list(zip(rows.row_of_entry, rows.position, rows.previous, rows.label, strict=True))
        expect(len(set(entries)) == len(entries), "an edge is in a row once")


def no_row_breaks_without_its_antecedent(template: type[Template], cases: Sequence[Case]) -> None:
    """Where a row is broken, its antecedent is there."""
    rng = np.random.default_rng(11)
    for case in cases:
        entry = case.made(template)
        if not isinstance(entry, RowTemplate):
            continue
        for shape in [(1,), (2,), (5,), (3, 1, 4), (12,)] * 8:
            text = random_text(rng, case.labels, shape)
            problem, labels = ground(entry, text, case.labels)
            there = has_antecedent(entry, text, case.labels)
            expect_same(len(there), len(problem.rows), "an antecedent a row")
            broken = problem.rows.degree(labels) > 0
            expect(there[broken].all(), f"a row of {dict(case.fields)} breaks without its antecedent on {text}")


def hard_is_infinite(template: type[Template], cases: Sequence[Case]) -> None:
    """With the weight ``hard``, a labelling that breaks the constraint costs inf, any other one nothing."""
    rng, breaches = np.random.default_rng(3), set()
    for case in cases[:1]:
        entry = case.made(template, "hard")
        for _ in range(150):
            text = random_text(rng, case.labels, (3, 4))
            problem, labels = ground(entry, text, case.labels)
            is_broken = case.degree(text) > 0
            expect_same(problem.score(labels).penalty, np.inf if is_broken else 0.0, f"the hard penalty on {text}")
            breaches.add(is_broken)
    expect_same(breaches, {True, False}, "the first case is kept here and broken there")


def an_empty_document_has_no_rows(template: type[Template], cases: Sequence[Case]) -> None:
    """A document without tokens gives no rows, and no error."""
    for case in cases:
        batch = Batch.of([Document.build("empty", [])])
        ((rows, _),) = DeclaredConstraints((case.made(template),)).ground(batch, case.labels)
        expect_same(len(rows.position), 0, "entries of a document without tokens")


def a_batch_grounds_as_its_documents_do(template: type[Template], cases: Sequence[Case]) -> None:
    """Documents of a batch, empty ones included, get the same rows as alone."""
    rng = np.random.default_rng(5)
    for case in cases:
        # The rows of a second template stand between those of two documents.
        other = MustAppear(labels=(case.labels.names[0],), weight=0.5)
        declared = DeclaredConstraints((case.made(template), other))
        for _ in range(10):
            texts = [random_text(rng, case.labels, shape) for shape in [(4, 1), (), (1,), (6, 3, 2), (12,), ()]]
            batch = Batch.of([document_of(text, f"d{i}") for i, text in enumerate(texts)])
            together = declared.ground(batch, case.labels)
            for document, own in zip(batch, together, strict=True):
                (alone,) = declared.ground(Batch.of([document]), case.labels)
                for name, actual, expected in _fields(own.rows, alone.rows):
                    expect_same(actual, expected, f"{name} of the rows of a batch")
                    expect_same(actual.dtype, expected.dtype, f"the type of {name} of the rows of a batch")
                for mine, its in zip(own.agreements, alone.agreements, strict=True):
                    expect_same(mine.key, its.key, "the keys of a batch")
                    expect_same(mine.cost, its.cost, "the costs of a batch")


def _fields(first: LinearRows, second: LinearRows) -> Iterator[tuple[str, NDArray[Any], NDArray[Any]]]:
    for field in dataclasses.fields(LinearRows):
        yield field.name, getattr(first, field.name), getattr(second, field.name)


TEMPLATE_CHECKS = (
    degrees_are_those_of_a_plain_count,
    rows_are_well_formed,
    no_row_breaks_without_its_antecedent,
    hard_is_infinite,
    an_empty_document_has_no_rows,
    a_batch_grounds_as_its_documents_do,
)
"""The single checks, each a function of a template and its cases."""
