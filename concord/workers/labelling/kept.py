"""Answers of the last run that a new run need not look for again.

Documents are known by the digest of their row in the corpus, id and text and all (`row_digests`). What a run may take
of the last one depends on what has changed:

| changed | taken | what is done |
| --- | --- | --- |
| nothing but other documents | every answer (`Reusable.SAME`) | nothing |
| what is added to answers (`schemas.run.ADDITIONS`) | the same | what is added, from scores and the answer |
| constraints | settled answers that stand (`Reusable.RULES`), see below | constraints are grounded, nothing is scored |
| the same, and the answer does not stand | the labels, to start from | scores, and looks near them, see below |
| the model, or the engine | the labels, to start from (`Reusable.LABELS`) | scores, and looks near them, see below |
| how texts are cut | nothing (`Reusable.NOTHING`) | everything |

A settled answer y (`workers.inference.nbest.settled`) scores at least LEAD nats more than every other labelling z under
the old penalties p. It *stands* under the new penalties q if, for each constraint k of both runs,

| constraint k | what is needed |
| --- | --- |
| is the same | nothing: q_k = p_k |
| is new, became hard, or weighs no less: q_k(z) ≥ p_k(z) for all z | the answer costs no more: q_k(y) = p_k(y) |
| is gone, became soft, weighs less or has another form | it has no rows or pairs in the document: q_k = p_k = 0 |

Then score(y) is what it was and no score(z) is more, as local scores are the same: y is still settled. An answer with
an open gap is not settled, whatever its constraints; nor is one that is proven but has an equal.

Under other scores a relaxation starts from the old labels (`settled_near`). Where it ends in a settled answer, no
engine is asked; a run without old labels starts from the Viterbi labels instead, and finds the same one.

So the output is that of a run that decodes everything: a settled answer is the only one that is proven under the
present constraints, and its bound is its objective. The one exception: settling has a limit of work, within which that
run may fail where the last one did not, as it starts from other labels and under other constraints. Then its answer is
the engine's, and this run says more: the answer is settled, and the bound is the objective. Where the engine proves its
answer, the labels are the same, and bound, gap, status and the mark alone differ. So it is with a status that only a
certificate of the last run has proven: it stays proven where the run writes none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from concord.schemas.arrays import Floats
from concord.schemas.columns import (
    DOCUMENT_DIGEST,
    LABELS,
    SETTLED,
    VITERBI_CONSTRAINTS,
    VITERBI_LABELS,
    VITERBI_LOCAL,
    ListColumn,
)
from concord.schemas.decoded import Decoded, Score, Status
from concord.schemas.document import Batch
from concord.schemas.labels import Labels, LabelSet
from concord.schemas.potentials import Potentials
from concord.schemas.problem import NO_KEY, Problem
from concord.schemas.run import RuleStrengths, RunKey
from concord.workers.constraints.constraint_set import ConstraintSet, build_problems
from concord.workers.labelling.problems import each_problem

READ = (DOCUMENT_DIGEST, LABELS, VITERBI_LABELS, "local", VITERBI_LOCAL, "bound", "status", "constraints")
ANSWERED = frozenset({Status.OPTIMAL, Status.BY_SOLVER, Status.FEASIBLE, Status.TIMEOUT})
"""Status of rows that are answers to the document's own constraints."""


class Reusable(StrEnum):
    """What a run may take of the last one."""

    SAME = "same"
    """Every answer."""
    RULES = "rules"
    """Constraints changed: reuse proven answers that are still optimal; search the others from the old labels."""
    LABELS = "labels"
    """Labels to start from."""
    NOTHING = "nothing"
    """No answer."""


def reusable(before: RunKey, after: RunKey, old: RuleStrengths, new: RuleStrengths) -> Reusable:
    """What a run with the key ``after`` may take of one with the key ``before``, with these constraints."""
    before, after = before.of_answers, after.of_answers
    if before == after:
        return Reusable.SAME
    if not after.settings.settle or before.settings.text != after.settings.text:
        return Reusable.NOTHING
    same = before.model_copy(update={"constraints": after.constraints}) == after
    return Reusable.RULES if same and old.local == new.local else Reusable.LABELS


def cheaper(old: RuleStrengths, new: RuleStrengths) -> tuple[str, ...]:
    """Names of the constraints of either run of which some labelling may cost less in the new run."""
    now = {one.name: one for one in new.strengths}
    return tuple(
        one.name
        for one in old.strengths
        if one.name not in now
        or now[one.name].form != one.form
        or any(after < before for before, after in zip(one.weights, now[one.name].weights, strict=True))
    )


class ConstraintCharge(NamedTuple):
    """What one constraint charged the answer and the Viterbi labels: degrees, and penalties in nats.

    - ``grounded``: has it rows or pairs in the document?
    """

    degree: float
    penalty: float
    degree_before: float
    penalty_before: float
    grounded: bool


class LastAnswer(NamedTuple):
    """An answer of the last run.

    - ``digest``: digest of the document
    - ``labels``, ``viterbi`` (N,): the answer, and the Viterbi labels
    - ``local``, ``viterbi_local``: their local scores, in nats
    - ``charged``: by name of the constraint
    - ``settled``: is the answer settled?
    """

    digest: bytes
    labels: Labels
    viterbi: Labels
    local: float
    viterbi_local: float
    bound: float
    status: Status
    charged: Mapping[str, ConstraintCharge]
    settled: bool


class KeptAnswer(NamedTuple):
    """An answer that needs no search, with the score of the Viterbi labels.

    - ``grounded`` (K,): mask of the constraints that have rows or pairs in the document
    """

    decoded: Decoded
    viterbi: Labels
    before: Score
    grounded: NDArray[np.bool_]
    settled: bool


def as_it_was(answer: LastAnswer, names: Sequence[str]) -> KeptAnswer:
    """An answer of the last run under the same constraints ``names`` (K,)."""
    charged = [answer.charged[name] for name in names]
    score = Score(answer.local, _floats(c.degree for c in charged), _floats(c.penalty for c in charged))
    before = Score(
        answer.viterbi_local, _floats(c.degree_before for c in charged), _floats(c.penalty_before for c in charged)
    )
    grounded = np.array([c.grounded for c in charged], np.bool_)
    decoded = Decoded(answer.labels, score, answer.bound, answer.status)
    return KeptAnswer(decoded, answer.viterbi, before, grounded, answer.settled)


def standing(
    answers: Mapping[int, LastAnswer],
    batch: Batch,
    labels: LabelSet,
    constraints: ConstraintSet,
    cheaper_now: Sequence[str],
) -> dict[int, KeptAnswer]:
    """The settled answers, by place in the batch, that stand under other constraints, see above.

    A document on which the constraints cannot be grounded has none: it is refused when it is labelled.
    """
    places = [place for place, answer in answers.items() if answer.settled]
    if not places:
        return {}
    part = Batch.of([batch.document(place) for place in places])
    problems = each_problem(part, lambda run: build_problems(run, _unscored(run, len(labels)), labels, constraints))
    by_place = {
        place: _standing(answers[place], problem, cheaper_now)
        for place, problem in zip(places, problems, strict=True)
        if isinstance(problem, Problem)
    }
    return {place: answer for place, answer in by_place.items() if answer is not None}


def _unscored(batch: Batch, width: int) -> Potentials:
    """Potentials of 0 nats for a batch."""
    return Potentials(np.zeros((int(batch.doc_starts[-1]), width)), np.zeros((width, width)), batch.sentence_starts)


def _standing(answer: LastAnswer, problem: Problem, cheaper_now: Sequence[str]) -> KeptAnswer | None:
    grounded = grounded_constraints(problem)
    names = problem.constraint_names
    touched = {name for name, there in zip(names, grounded.tolist(), strict=True) if there}
    touched |= {name for name, charged in answer.charged.items() if charged.grounded}
    score = problem.score(answer.labels)
    old = _floats(answer.charged[name].penalty if name in answer.charged else 0.0 for name in names)
    if touched.intersection(cheaper_now) or not np.array_equal(score.penalties, old):
        return None
    first = problem.score(answer.viterbi)
    decoded = problem.decoded(
        answer.labels,
        bound=answer.local - score.penalty,
        status=Status.OPTIMAL,
        score=Score(answer.local, score.degree, score.penalties),
    )
    before = Score(answer.viterbi_local, first.degree, first.penalties)
    return KeptAnswer(decoded, answer.viterbi, before, grounded, settled=True)


def grounded_constraints(problem: Problem) -> NDArray[np.bool_]:
    """(K,) mask of the constraints that have rows or pairs in the document; others cost nothing there."""
    mask = np.zeros(len(problem.constraint_names) + 1, np.bool_)
    mask[problem.rows.constraint] = True
    for agreement in problem.agreements:
        mask[agreement.constraint] |= bool((agreement.key != NO_KEY).any())
    return mask[:-1]


def _floats(values: Any) -> Floats:
    return np.array(list(values), np.float64)


# Rows of predictions


def answers_of(table: pa.Table, labels: LabelSet) -> list[LastAnswer | None]:
    """The answer of each row; None where it is none, or has a label that ``labels`` lacks."""
    answers, first = (_label_ids(table[name], labels) for name in (LABELS, VITERBI_LABELS))
    named = [name for name in READ if name not in (LABELS, VITERBI_LABELS)]
    named += [name for name in (VITERBI_CONSTRAINTS, SETTLED) if name in table.column_names]
    rows = table.select(named).to_pylist()
    return [_answer(row, *ids) for row, *ids in zip(rows, answers, first, strict=True)]


def _answer(row: Mapping[str, Any], labels: Labels, viterbi: Labels) -> LastAnswer | None:
    if row["status"] not in ANSWERED or row["bound"] == -np.inf or (np.append(labels, viterbi) < 0).any():
        return None
    pairs = zip(row["constraints"], row[VITERBI_CONSTRAINTS], strict=True)
    charged = {
        now["name"]: ConstraintCharge(
            now["degree"], now["penalty"], before["degree"], before["penalty"], grounded=before["grounded"]
        )
        for now, before in pairs
    }
    if any(np.isinf(c.penalty) for c in charged.values()):
        return None
    return LastAnswer(
        row[DOCUMENT_DIGEST],
        labels,
        viterbi,
        row["local"],
        row[VITERBI_LOCAL],
        row["bound"],
        Status(row["status"]),
        charged,
        bool(row.get(SETTLED)),
    )


def _label_ids(column: pa.ChunkedArray, labels: LabelSet) -> list[Labels]:
    """Labels of each row as ids; −1 for those that the label set lacks."""
    lists = ListColumn.of(column)
    flat = lists.encoded()
    id_of = {name: i for i, name in enumerate(labels.names)}
    ids = np.array([id_of.get(name, -1) for name in flat.dictionary.to_pylist()], np.int32)
    codes = ids[flat.indices.to_numpy()]
    return [codes[start:end] for start, end in pairwise(lists.starts.tolist())]
