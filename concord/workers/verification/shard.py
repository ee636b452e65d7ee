"""Verification of a shard of a finished run, document by document: its answers, rejects and counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from concord.schemas.arrays import Ints
from concord.schemas.columns import DOC_ID, Reject
from concord.schemas.decoded import Decoded, Score, Status
from concord.schemas.document import Batch
from concord.schemas.errors import DocumentError
from concord.schemas.labels import Labels, LabelSet
from concord.schemas.problem import Problem
from concord.schemas.run import ShardReport
from concord.workers.compiling.interpreted import interpreted
from concord.workers.constraints.constraint_set import ConstraintSet
from concord.workers.corpus.shards import LETHAL, ShardDocuments
from concord.workers.labelling.error_analysis import ErrorAnalysis
from concord.workers.labelling.infeasible import is_reason
from concord.workers.labelling.report import check_gold, report_of
from concord.workers.verification.claims import ClaimError, Claims, Promises, Row, Standing, answer_labels, confirm
from concord.workers.verification.plain_chain import best_labels
from concord.workers.verification.second_path import SecondPath


class RunDefinition(NamedTuple):
    """The definition of a run.

    - ``labels``: the label set.
    - ``path``: the second path to the model's scores.
    - ``constraints``: the constraints.
    - ``promises``: the promises about every answer.
    - ``said``: the columns that are the same in every row.
    """

    labels: LabelSet
    path: SecondPath
    constraints: ConstraintSet
    promises: Promises
    said: Row

    def problem(self, document: Batch) -> Problem:
        """The problem of the only document of a batch. Raises `DocumentError` if it has none."""
        check_gold(self.labels, document)
        with interpreted():
            return next(self.path.scores(document).problems(document, self.labels, self.constraints))


class WrittenShard(NamedTuple):
    """The contents of a run's files for one shard.

    - ``rows``: the rows of the predictions.
    - ``rejects``: the rejects.
    - ``proofs``: certificates by document; empty if there are none.
    """

    rows: Sequence[Row]
    rejects: Sequence[Reject]
    proofs: Mapping[str, Ints | None]


class WrongField(NamedTuple):
    """The first wrong field of a document.

    - ``doc_id``: the document.
    - ``field``: the field.
    - ``reason``: the rest of a sentence about it.
    - ``rejected``: is it a field of the document's reject, and not of its answer?
    """

    doc_id: str | None
    field: str
    reason: str
    rejected: bool = False


@dataclass
class Verdict:
    """The result of verifying a shard.

    - ``standings``: number of confirmed answers by standing.
    - ``faults``: the wrong fields.
    - ``rejected``: number of rejects.
    - ``lethal``: number of rejects that ended their worker, which are not checked.
    - ``report``: the shard's counts, computed anew; None if there are faults.
    """

    standings: Counter[Standing] = field(default_factory=Counter)
    faults: list[WrongField] = field(default_factory=list)
    rejected: int = 0
    lethal: int = 0
    report: ShardReport | None = None


@dataclass
class _ConfirmedAnswers:
    """The confirmed answers of a shard, in the form of `workers.labelling.report.LabelledAnswers`."""

    decoded: list[Decoded] = field(default_factory=list)
    first: list[Labels] = field(default_factory=list)
    before: list[Score] = field(default_factory=list)
    errors: ErrorAnalysis = field(default_factory=ErrorAnalysis.nothing)
    infeasible: int = 0
    infeasible_rejected: int = 0

    def add(self, row: Row, problem: Problem) -> None:
        """Adds a confirmed answer."""
        labels, first = answer_labels(problem, row)
        degree, penalties = (np.array([part[name] for part in row["constraints"]]) for name in ("degree", "penalty"))
        status = Status(row["status"])
        self.decoded.append(Decoded(labels, Score(row["local"], degree, penalties), row["bound"], status))
        self.first.append(first)
        self.before.append(problem.score(first))
        self.infeasible += status is Status.RELAXED or row["objective"] == -np.inf


def verify_shard(
    there: ShardDocuments,
    first_row: int,
    written: WrittenShard,
    definition: RunDefinition,
    *,
    progress: Callable[[], None],
) -> Verdict:
    """The verdict on a shard; ``progress`` is called after each document.

    ``there`` is what is read from the shard, whose first row in its file is ``first_row``.
    """
    batch, unread, digests, columns = there
    verdict, answers = Verdict(rejected=len(written.rejects)), _ConfirmedAnswers()
    rows = _rows_by_document(batch, written.rows, verdict)
    refused = set(_refused(batch, unread, first_row, written, definition, verdict, answers))
    for doc_id in batch.doc_ids:
        if (doc_id in rows) + (doc_id in refused) != 1:
            twice = "is answered and rejected" if doc_id in rows else "is neither answered nor rejected"
            verdict.faults.append(WrongField(doc_id, DOC_ID, twice))
    for place, doc_id in enumerate(batch.doc_ids):
        if doc_id in rows:
            document = batch.part(place, place + 1)
            claims = Claims(rows[doc_id], document, digests[place], written.proofs.get(doc_id))
            _judge(claims, definition, verdict, answers)
            verdict.faults += _wrong_kept(claims.row, {name: values[place].as_py() for name, values in columns.items()})
        progress()
    if not verdict.faults:
        answered = Batch.of([batch.document(i) for i, doc_id in enumerate(batch.doc_ids) if doc_id in rows])
        names = definition.constraints.names
        verdict.report = report_of(answered, answers, labels=definition.labels, names=names, rejected=verdict.rejected)
    return verdict


def _judge(claims: Claims, definition: RunDefinition, verdict: Verdict, answers: _ConfirmedAnswers) -> None:
    doc_id = claims.row[DOC_ID]
    try:
        problem = definition.problem(claims.document)
        verdict.standings[confirm(claims, problem, definition.promises, definition.said)] += 1
        answers.add(claims.row, problem)
    except ClaimError as error:
        verdict.faults.append(WrongField(doc_id, error.field, error.reason))
    except DocumentError as error:
        verdict.faults.append(WrongField(doc_id, DOC_ID, f"has an answer, though {error.reason}"))


def _wrong_kept(row: Row, values: Row) -> Iterator[WrongField]:
    """Columns of the corpus that an answer has with another value; by how they are written, as NaN equals nothing."""
    for name, value in values.items():
        if repr(row.get(name)) != repr(value):
            yield WrongField(row[DOC_ID], name, f"is {row.get(name)!r:.40}, and in the corpus {value!r:.40}")


def _rows_by_document(batch: Batch, rows: Sequence[Row], verdict: Verdict) -> dict[str, Row]:
    """The rows by document; rows that cannot be there are faults."""
    place = {doc_id: i for i, doc_id in enumerate(batch.doc_ids)}
    by_document: dict[str, Row] = {}
    last = -1
    for row in rows:
        doc_id = row[DOC_ID]
        if doc_id not in place:
            verdict.faults.append(WrongField(doc_id, DOC_ID, "is no document of these rows of the corpus"))
        elif doc_id in by_document:
            verdict.faults.append(WrongField(doc_id, DOC_ID, "is there twice"))
        else:
            by_document[doc_id] = row
            if place[doc_id] < last:
                verdict.faults.append(WrongField(doc_id, DOC_ID, "is not where the corpus has it"))
            last = place[doc_id]
    return by_document


def _refused(
    batch: Batch,
    unread: Sequence[Reject],
    first_row: int,
    written: WrittenShard,
    definition: RunDefinition,
    verdict: Verdict,
    answers: _ConfirmedAnswers,
) -> Iterator[str]:
    """The documents of the batch that are rejects, each for a reason that it has; other rejects are faults."""
    expected = Counter(unread)
    bad = {reject.row for reject in unread}
    count = len(batch) + len(bad)
    place_of = {row: i for i, row in enumerate(r for r in range(first_row, first_row + count) if r not in bad)}
    rejected_places: set[int] = set()
    for reject in written.rejects:
        place = None if reject.row is None else place_of.get(reject.row)
        if expected[reject]:
            expected[reject] -= 1
        elif place is None or place in rejected_places or batch.doc_ids[place] != reject.doc_id:
            verdict.faults.append(WrongField(reject.doc_id, "row", f"{reject.row} is no such reject", rejected=True))
        else:
            rejected_places.add(place)
            _check_reason(reject, batch.part(place, place + 1), definition, verdict, answers)
            yield batch.doc_ids[place]
    for reject in expected.elements():
        reason = f"{reject.row} is not among the rejects, though {reject.reason}"
        verdict.faults.append(WrongField(reject.doc_id, "row", reason, rejected=True))


def _check_reason(
    reject: Reject, document: Batch, definition: RunDefinition, verdict: Verdict, answers: _ConfirmedAnswers
) -> None:
    """Adds a fault if the document does not have the reason for which it was rejected."""
    if reject.reason == LETHAL:
        verdict.lethal += 1
        return
    try:
        problem = definition.problem(document)
    except DocumentError as error:
        if error.reason != reject.reason:
            verdict.faults.append(WrongField(reject.doc_id, "reason", f"is that {error.reason}", rejected=True))
        return
    labels, _ = best_labels(problem.potentials)
    hopeless = problem.score(labels).objective == -np.inf
    if definition.promises.settings.on_infeasible == "reject" and hopeless and is_reason(reject.reason):
        answers.infeasible += 1
        answers.infeasible_rejected += 1
        return
    verdict.faults.append(WrongField(reject.doc_id, "reason", "is not one that this document has", rejected=True))
