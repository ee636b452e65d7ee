"""Documents scored by models that did not see them, and their exact answers under any weights of constraints.

A rule that is kept costs nothing. So if the best labelling under some of the rules keeps all others, it is the best
under all rules: more penalties cannot raise the score of another labelling. The search therefore starts with the rules
that the model's own answer breaks, and adds the rules that each new answer breaks, until there are no further ones
(cutting plane inference, Riedel 2008). Documents in which the model breaks no rule are never decoded. Taking away a
rule that was not part of the search changes nothing.

Grounding all rules of a document takes far longer than a search under the few that matter. So a document keeps the rows
of those alone, the degrees of the few labellings that were ever its answer, and the answers that other weights may have
again (`workers.learning.weights.lasting`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from concord.schemas.arrays import Floats, Ints, Mask
from concord.schemas.document import Batch, Document
from concord.schemas.errors import TrainingError
from concord.schemas.labels import Labels, LabelSet
from concord.schemas.potentials import Potentials
from concord.schemas.problem import Problem
from concord.schemas.settings import TrainerSettings, Validation
from concord.workers.constraints.constraint_set import build_problems
from concord.workers.constraints.declared import DeclaredConstraints
from concord.workers.constraints.rows import selected
from concord.workers.evaluation.measures import MEASURES, Pair
from concord.workers.evaluation.named_counts import Counts
from concord.workers.inference.core.prepared import Prepared
from concord.workers.inference.registry import Decoder
from concord.workers.learning.estimation.constrained import answer, degrees, under
from concord.workers.learning.search.folds import first_answered, parts_of, round_of
from concord.workers.learning.trainers.trainer import Train, gold_of, labels_of
from concord.workers.learning.weights.lasting import Answer, LastingAnswers
from concord.workers.models.model import BringsRows, LocalScores, Model, local_scores
from concord.workers.storage.scratch import scratch_folder

BATCH_DOCUMENTS = 50
"""Documents that are grounded together; the rows of all documents would not fit into memory."""

RELAXED = 50.0
"""Nats per unit of degree of hard constraints, in documents where no answer keeps them all."""

HELD_ENTRIES = 40_000_000
"""Row entries that are kept in memory (28 bytes each); further documents are grounded again at each search."""


@dataclass(frozen=True, eq=False)
class Unseen:
    """Documents with gold labels, each with the scores of a model that did not see it."""

    documents: Sequence[Document]
    potentials: Sequence[Potentials]
    labels: LabelSet

    @classmethod
    def of(
        cls,
        documents: Sequence[Document],
        train: Train,
        settings: TrainerSettings,
        folds: int,
        validation: Validation = Validation.RANDOM,
    ) -> Unseen:
        """Trains a model for each fold, see `round_of`; parts before `first_answered` are left out.

        Raises the errors of `parts_of` and of training, and `TrainingError` for a model with rows of its own.
        """
        labels = labels_of(documents)
        part, scores_of = parts_of(documents, folds, validation), dict[int, Potentials]()
        for mine in range(first_answered(validation), folds):
            inside, outside = round_of(part, mine, validation)
            scores = scored_by_others(
                [documents[i] for i in inside], [documents[i] for i in outside], train, settings, labels
            )
            scores_of |= dict(zip(outside, scores, strict=True))
        scored = sorted(scores_of)
        return cls([documents[i] for i in scored], [scores_of[i] for i in scored], labels)

    def at(self, temperature: float, outside_cost: float) -> Unseen:
        """The documents with scores at temperature and outside cost of the model that the weights are for."""
        scores = (LocalScores(own).costing(outside_cost, self.labels).at(temperature) for own in self.potentials)
        return replace(self, potentials=[own.potentials for own in scores])

    def gold(self, i: int) -> Labels:
        """(n,) gold labels of document i."""
        return self.labels.encode(gold_of(self.documents[i]))


def scored_by_others(
    inside: Sequence[Document], outside: Sequence[Document], train: Train, settings: TrainerSettings, labels: LabelSet
) -> list[Potentials]:
    """Scores of the documents ``outside`` by a model trained on those ``inside``. Raises the errors of `Unseen.of`."""
    with scratch_folder() as folder:
        return scores_among(train(inside, settings=settings, out=folder / "model"), outside, labels)


def scores_among(model: Model, documents: Sequence[Document], labels: LabelSet) -> list[Potentials]:
    """A model's scores of documents over labels that may be more than its own. Raises as `scored_by_others`."""
    check_scores(model)
    scores = (local_scores(model, Batch.of([document])).potentials for document in documents)
    return [_among(own, model.labels, labels) for own in scores]


def check_scores(model: Model) -> None:
    """Raises `TrainingError` for a model whose scores are more than potentials."""
    if isinstance(model, BringsRows):
        raise TrainingError(
            "penalties cannot be learned beside a model with constraints of its own, such as the trainer "
            "trigram's, whose answers are not those of potentials; weigh them by --penalty odds or tuned"
        )


def _among(potentials: Potentials, own: LabelSet, labels: LabelSet) -> Potentials:
    """The potentials over a larger label set; labels that the model does not have are impossible."""
    place = labels.encode(own.names)
    unary = np.full((len(potentials.unary), len(labels)), -np.inf)
    unary[:, place] = potentials.unary
    transition = np.zeros((*potentials.transition.shape[:-2], len(labels), len(labels)))
    transition[..., place[:, None], place] = potentials.transition
    return Potentials(unary, transition, potentials.sentence_starts).legal(labels)


class _Looked(NamedTuple):
    """Facts about a document that are computed once.

    - ``alone``: its answer without the weighed constraints.
    - ``gold`` (n,): gold labels.
    - ``gold_degrees`` (K,): degree of each constraint under gold.
    """

    alone: Answer
    gold: Labels
    gold_degrees: Floats


class _NeededRows(NamedTuple):
    """A document's rows that searches needed.

    - ``problem``: the document with these rows alone.
    - ``kinds`` (K,): marks the weighed constraints whose rows they are; those of constraints that are not weighed are
      always there.
    """

    problem: Prepared
    kinds: Mask


@dataclass(frozen=True, eq=False)
class UnseenAnswers:
    """Exact answers to unseen documents under given weights.

    - ``unseen``: the documents with their scores.
    - ``constraints``: the K constraints.
    - ``weighed`` (K,): marks the constraints whose weights are given with each question; others have their declared
      ones.
    - ``decoder``: engine that answers.

    Raises `LabelError` for labels that no document has, and `EngineError`.
    """

    unseen: Unseen
    constraints: DeclaredConstraints
    weighed: Mask
    decoder: Decoder

    def __len__(self) -> int:
        return len(self.unseen.documents)

    def under(self, i: int, weights: Floats, *, start: Labels | None = None) -> Answer:
        """Answer to document i if the weighed constraints cost ``weights`` (K,), in nats per unit of degree.

        ``start`` (n,) is a labelling from which the search starts.
        """
        positive, alone = self.weighed & (weights > 0), self._looked[i].alone
        active = positive & (alone.degrees > 0)
        if not active.any():
            return alone
        lasting = self._lasting[i]
        again = lasting.under(np.where(positive, weights, 0.0))
        if again is not None:
            return again
        while True:
            charged = np.where(active, weights, 0.0)
            labels = self._answer(i, under(self._problem(i, active), self.weighed, charged), start)
            broken = self._degrees(i, labels, active)
            missed = positive & (broken > 0) & ~active
            if not missed.any():
                return lasting.add(charged, Answer(labels, broken, active))
            active |= missed

    def gold_degrees(self, i: int) -> Floats:
        """(K,) degree of each constraint under the gold labels of document i."""
        return self._looked[i].gold_degrees

    def alone(self, i: int) -> Answer:
        """Answer to document i without the weighed constraints."""
        return self._looked[i].alone

    def is_right(self, i: int, labels: Labels) -> bool:
        """Are these labels (n,) the gold labels of document i?"""
        return bool((self._looked[i].gold == labels).all())

    def excess(self, i: int, weights: Floats) -> Floats | None:
        """(K,) degrees of the answer to document i under ``weights`` (K,), less those of gold; None if it is right."""
        answer = self.under(i, weights)
        return None if self.is_right(i, answer.labels) else answer.degrees - self.gold_degrees(i)

    def counts(self, documents: Sequence[int], labels: Sequence[Labels], measure: str) -> Counts:
        """(D, R, 3) a measure's counts of the chosen documents, given their answers."""
        batch = Batch.of([self.unseen.documents[i] for i in documents])
        gold = np.concatenate([self._looked[i].gold for i in documents])
        pair = Pair(batch, self.unseen.labels, gold, np.concatenate(labels))
        return MEASURES[measure].items(pair).by_document()

    def local(self, i: int, labels: Labels) -> float:
        """Score of a labelling (n,) of document i without the weighed constraints, in nats."""
        nothing = np.zeros(len(self.weighed))
        return under(self._problem(i, nothing > 0), self.weighed, nothing).score(labels).objective

    def _answer(self, i: int, problem: Problem, start: Labels | None) -> Labels:
        return answer(problem, self.unseen.documents[i].doc_id, self.decoder, RELAXED, incumbent=start)[0]

    @cached_property
    def _looked(self) -> list[_Looked]:
        nothing, looks = np.zeros(len(self.weighed)), list[_Looked]()
        for i, problem in enumerate(self._grounded(range(len(self)))):
            gold = self.unseen.gold(i)
            labels = self._answer(i, under(problem, self.weighed, nothing), None)
            alone = Answer(labels, degrees(problem, labels), np.zeros(len(self.weighed), np.bool_))
            looks.append(_Looked(alone, gold, degrees(problem, gold)))
            broken = self.weighed & (alone.degrees > 0)
            if broken.any():
                self._hold(i, problem, broken)
        return looks

    def _degrees(self, i: int, labels: Labels, active: Mask) -> Floats:
        """(K,) degrees of document i's ``labels`` (n,), remembered; the rows of what they break are held with others.

        - ``active`` (K,): marks the weighed constraints of the search so far.
        """
        remembered = self._lasting[i].degrees
        name = labels.tobytes()
        if name not in remembered:
            problem = next(self._grounded([i]))
            remembered[name] = degrees(problem, labels)
            self._hold(i, problem, active | (remembered[name] > 0))
        return remembered[name]

    @cached_property
    def _lasting(self) -> list[LastingAnswers]:
        return [LastingAnswers() for _ in range(len(self))]

    @cached_property
    def _held(self) -> dict[int, _NeededRows]:
        return {}

    def _hold(self, i: int, problem: Problem, kinds: Mask) -> _NeededRows:
        """Keeps document i's rows of the constraints ``kinds`` (K,) and of those held before, if there is room."""
        before = self._held.get(i)
        kinds = (kinds if before is None else kinds | before.kinds) & self.weighed
        rows = problem.rows
        own = Prepared.of(problem).with_rows(selected(rows, (~self.weighed | kinds)[rows.constraint]))
        held = _NeededRows(own, kinds)
        room = HELD_ENTRIES - sum(len(other.problem.rows.position) for j, other in self._held.items() if j != i)
        if len(own.rows.position) <= room:
            self._held[i] = held
        return held

    def _problem(self, i: int, active: Mask) -> Prepared:
        """Document i with the rows of at least the ``active`` (K,) constraints, and of all that are not weighed."""
        held = self._held.get(i)
        if held is None or (active & ~held.kinds).any():
            held = self._hold(i, next(self._grounded([i])), active)
        return held.problem

    def _grounded(self, order: Sequence[int]) -> Iterator[Problem]:
        """The problem of each document, with its scores."""
        size = len(self.unseen.labels)
        for first in range(0, len(order), BATCH_DOCUMENTS):
            own = order[first : first + BATCH_DOCUMENTS]
            batch = Batch.of([self.unseen.documents[i] for i in own])
            nothing = Potentials(np.zeros((batch.token_count, size)), np.zeros((size, size)), batch.sentence_starts)
            problems = build_problems(batch, nothing, self.unseen.labels, self.constraints)
            for i, problem in zip(own, problems, strict=True):
                # The problem's own scores hold nothing but declared local features.
                yield replace(problem, potentials=_summed(self.unseen.potentials[i], problem.potentials))


def _summed(one: Potentials, other: Potentials) -> Potentials:
    return Potentials(one.unary + other.unary, one.transition + other.transition, one.sentence_starts)


def answered(answers: UnseenAnswers, documents: Ints, weights: Floats) -> list[Labels]:
    """Answered labels of the chosen documents under weights (K,)."""
    return [answers.under(i, weights).labels for i in documents.tolist()]
