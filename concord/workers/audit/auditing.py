"""The effects of constraints on a corpus and in one document: `concord constraints check` and `explain`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from concord.schemas.audit import (
    Breaches,
    CheckReport,
    Conflict,
    ConstraintCheck,
    ConstraintEffect,
    Explanation,
    LabelChange,
    MeasuredEffect,
)
from concord.schemas.document import Batch, Document
from concord.schemas.gains import points_between
from concord.schemas.labels import LabelError, Labels, LabelSet
from concord.schemas.potentials import Potentials
from concord.schemas.problem import LinearRows, Problem
from concord.workers.audit.conflicts import Conflicts
from concord.workers.audit.effects import Effects
from concord.workers.constraints.constraint_set import Separable, Unconstrained, build_problem
from concord.workers.constraints.declared import DeclaredConstraints
from concord.workers.constraints.declared_weights import declared_weights
from concord.workers.inference.core.chain import viterbi
from concord.workers.inference.registry import Decoder
from concord.workers.models.model import LocalScores, Model, local_scores

CONFLICT_DOCUMENTS = 50
"""Number of documents that are searched for conflicts: each takes one or more questions to CP-SAT."""


@dataclass
class _ConstraintTally:
    """Counts of one constraint.

    - ``documents``: number of documents with a place for it.
    - ``places``: number of its places.
    - ``gold``: bearing rows, documents, places, degree and penalty of its breaches in gold labels.
    - ``model``: the same in the model's output.
    """

    documents: int = 0
    places: int = 0
    gold: list[float] = field(default_factory=lambda: [0.0] * 5)
    model: list[float] = field(default_factory=lambda: [0.0] * 5)


def check(
    batches: Iterable[Batch],
    constraints: DeclaredConstraints,
    labels: LabelSet,
    *,
    model: Model | None = None,
    decoder: Decoder | None = None,
    conflict_documents: int = CONFLICT_DOCUMENTS,
    progress: Callable[[int], None] | None = None,
) -> CheckReport:
    """Report on how often each constraint applies, holds and is broken, in gold labels and in the model's output.

    The model's output is Viterbi's, or ``decoder``'s under the constraints. With gold, a model and a decoder the report
    has the effect of all constraints, and of each beside the others, on the measures (`effects`). The first
    ``conflict_documents`` documents are searched for constraints that cannot all hold. ``progress`` is called with the
    number of documents of each batch.

    Raises `ConstraintError` for labels or columns that do not fit, `LabelError` for gold labels that are not among
    ``labels``.
    """
    constraints.bind(labels)
    tallies = [_ConstraintTally() for _ in constraints.names]
    effects = None if model is None or decoder is None else Effects(labels, len(tallies), decoder)
    weights = dict(declared_weights(constraints))
    conflicts = Conflicts(constraints, labels, frozenset(n for n, w in weights.items() if np.isinf(w)))
    documents = tokens = with_gold = 0
    for batch in batches:
        scores = local_scores(model, batch) if model is not None else None
        antecedents = constraints.antecedents(batch, labels)
        for i, document in enumerate(batch):
            local = _local(batch, i, scores, labels)
            problem = build_problem(document, local.potentials, labels, constraints)
            _count_places(tallies, problem)
            gold = _gold(document, labels)
            if gold is not None:
                with_gold += 1
                _count_breaches([t.gold for t in tallies], problem, antecedents[i], gold)
            if model is not None:
                own = None if local.rows is None else local.rows[0]
                own_problem = problem if own is None else problem.with_own_rows(own)
                answer = decoder(own_problem, document.doc_id).labels if decoder else viterbi(problem.potentials)
                _count_breaches([t.model for t in tallies], problem, antecedents[i], answer)
                if effects is not None and gold is not None:
                    effects.look_at(document, problem, own, gold, answer)
            if documents < conflict_documents:
                conflicts.look_at(document)
            documents += 1
        tokens += batch.token_count
        if progress is not None:
            progress(len(batch))
    smallest = conflicts.report()
    checks = [
        _checked(
            *(name, weights[name], tally, smallest, None if effects is None else effects.of(k)),
            gold=with_gold > 0,
            model=model is not None,
        )
        for k, (name, tally) in enumerate(zip(constraints.names, tallies, strict=True))
    ]
    return CheckReport(
        documents=documents,
        tokens=tokens,
        with_gold=with_gold,
        searched=conflicts.searched,
        undecided=conflicts.undecided,
        constraints=tuple(checks),
        conflicts=smallest,
        effect=None if effects is None else effects.whole(),
    )


def _gold(document: Document, labels: LabelSet) -> Labels | None:
    """Gold labels (N,) of a document, if it has some. Raises `LabelError` that names it."""
    if document.labels is None:
        return None
    try:
        return labels.encode(document.labels.strings())
    except LabelError as error:
        raise LabelError(
            f"document {document.doc_id!r}: {error}; take it out, or give a model that was trained on such labels"
        ) from error


def explain(
    document: Document, scores: LocalScores, constraints: Separable, labels: LabelSet, *, decoder: Decoder
) -> Explanation:
    """A document's labels with all constraints and without each of them: its changes and its cost.

    ``scores`` are the model's, without legality. It takes one decoding for each entry, and two more.
    """
    batch = Batch.of([document])
    plain, problem = (next(scores.problems(batch, labels, under)) for under in (Unconstrained(), constraints))
    first = viterbi(plain.potentials)
    answer = decoder(problem, document.doc_id)
    before = problem.score(first).degree
    effects = []
    for title in constraints.titles:
        less = decoder(next(scores.problems(batch, labels, constraints.without(title))), document.doc_id)
        k = constraints.names.index(title) if title in constraints.names else None
        effects.append(
            ConstraintEffect(
                name=title,
                degree_before=None if k is None else float(before[k]),
                degree=None if k is None else float(answer.score.degree[k]),
                penalty=None if k is None else float(answer.score.penalties[k]),
                cost=plain.score(less.labels).local - plain.score(answer.labels).local,
                changes=_changes(document, labels, less.labels, answer.labels),
            )
        )
    return Explanation(
        doc_id=document.doc_id,
        tokens=tuple(document.tokens),
        gold=None if document.labels is None else tuple(document.labels.strings()),
        unconstrained=tuple(labels.decode(first)),
        labels=tuple(labels.decode(answer.labels)),
        local=answer.local,
        penalty=answer.penalty,
        cost=plain.score(first).local - plain.score(answer.labels).local,
        gap=answer.gap,
        status=str(answer.status),
        effects=tuple(effects),
    )


def _local(batch: Batch, i: int, scores: LocalScores | None, labels: LabelSet) -> LocalScores:
    """Document i's local scores; flat ones if there is no model."""
    if scores is not None:
        return scores.document(batch, i)
    size, document = len(labels), batch.document(i)
    return LocalScores(Potentials(np.zeros((len(document), size)), np.zeros((size, size)), document.sentence_starts))


def _count_places(tallies: Sequence[_ConstraintTally], problem: Problem) -> None:
    for tally, count in zip(tallies, _places(problem, problem.rows.constraint, len(tallies)).tolist(), strict=True):
        tally.places += count
        tally.documents += count > 0


def _places(problem: Problem, constraint: NDArray[np.int32], count: int) -> NDArray[np.int64]:
    """(K,) number of each constraint's entries in ``constraint``, and of its agreements with anything to compare."""
    places = np.bincount(constraint, minlength=count)
    for agreement in problem.agreements:
        places[agreement.constraint] += bool((agreement.key >= 0).any())
    return places


def _count_breaches(tallies: Sequence[list[float]], problem: Problem, antecedents: LinearRows, labels: Labels) -> None:
    """Adds the bearing rows, documents, places, degree and penalty of a labelling to the tallies."""
    score = problem.score(labels)
    bearing = _places(problem, problem.rows.constraint[antecedents.degree(labels) > 0], len(tallies))
    broken = problem.rows.constraint[problem.rows.degree(labels) > 0]
    places = np.bincount(broken, minlength=len(tallies))
    for agreement in problem.agreements:
        places[agreement.constraint] += score.degree[agreement.constraint] > 0
    for k, tally in enumerate(tallies):
        for i, amount in enumerate((bearing[k], places[k] > 0, places[k], score.degree[k], score.penalties[k])):
            tally[i] += float(amount)


def _checked(
    name: str,
    weight: float,
    tally: _ConstraintTally,
    conflicts: Sequence[Conflict],
    effect: MeasuredEffect | None,
    *,
    gold: bool,
    model: bool,
) -> ConstraintCheck:
    in_gold, in_model = (_breaches(t) if there else None for t, there in ((tally.gold, gold), (tally.model, model)))
    return ConstraintCheck(
        name=name,
        weight=weight,
        documents=tally.documents,
        places=tally.places,
        gold=in_gold,
        model=in_model,
        effect=effect,
        warnings=(*_warnings(name, weight, tally.documents, in_gold, in_model, effect, conflicts), *_harm(effect)),
    )


def _breaches(tally: Sequence[float]) -> Breaches:
    bearing, documents, places = map(int, tally[:3])
    return Breaches(bearing=bearing, documents=documents, places=places, degree=tally[3], penalty=tally[4])


def _warnings(
    name: str,
    weight: float,
    documents: int,
    gold: Breaches | None,
    model: Breaches | None,
    effect: MeasuredEffect | None,
    conflicts: Sequence[Conflict],
) -> Iterable[str]:
    if documents == 0:
        yield "never applies: no document has a place for it"
        return
    # The output is that under the constraints: one that is kept there may well be what changed it.
    if model is not None and model.documents == 0 and not (effect and effect.documents):
        yield "always holds in the model's output: it changes nothing there"
    if gold is not None and gold.bearing == 0:
        yield "says nothing in gold: no row has what it speaks of"
    elif model is None and gold is not None and gold.documents == 0:
        yield "always holds in gold: only a model's output can show whether it does anything"
    if gold is not None and gold.documents and np.isinf(weight):
        yield f"hard, but the gold labels of {gold.documents} documents break it"
    if gold is not None and model is not None and gold.degree > model.degree:
        yield "gold breaks it more than the model's output: it pushes the wrong way"
    for conflict in conflicts:
        others = [other for other in conflict.constraints if other != name]
        if len(others) == len(conflict.constraints):
            continue
        with_whom = ", ".join(others) if others else "the label set alone"
        yield f"contradicts {with_whom} in {conflict.documents} documents, first {conflict.doc_id!r}"


def _harm(effect: MeasuredEffect | None) -> Iterable[str]:
    """Warnings of figures that are lower with the constraint, by more than the choice of documents explains."""
    for figure in () if effect is None else effect.figures:
        if figure.high < 0:
            yield (
                f"{figure.figure} of {figure.measure} is {figure.after:.2%} with it and {figure.before:.2%} without it "
                f"({points_between(figure.low, figure.high)} points): leave it out"
            )


def _changes(document: Document, labels: LabelSet, without: Labels, answer: Labels) -> tuple[LabelChange, ...]:
    tokens = document.tokens
    return tuple(
        LabelChange(position=t, token=tokens[t], without=labels.names[without[t]], label=labels.names[answer[t]])
        for t in np.flatnonzero(without != answer).tolist()
    )
