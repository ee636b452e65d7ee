"""Problems of loose labels, written with labels of which one alone opens each kind of span.

A loose span begins with ``B-T``, or with an ``I-T`` that continues nothing. Relaxations, max-marginals of spans and
CP-SAT's lattice know one label that opens a type. So engines that compare spans solve a *twin* of the problem, whose
types are kinds of spans: one for each label that opens a type T.

    label of the problem    labels of the twin
    O                       O
    B-T                     B-(B-T)
    I-T                     I-(B-T) and I-(I-T), which continue a span of that kind; B-(I-T), which opens one

Two labels of the twin may stand side by side only if they join there just where they join in the problem: ``B-(I-T)``
follows no label of type T. So each labelling has exactly one twin, of the same score: a row counts every twin of its
labels, and two kinds cost what their types cost.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from concord.schemas.arrays import Ints
from concord.schemas.decoded import Decoded, Ranking, Status
from concord.schemas.labels import OUTSIDE, Labels, LabelSet, Scheme
from concord.schemas.potentials import Potentials
from concord.schemas.problem import ANY, LinearRows, Problem, Relation, SpanAgreement
from concord.workers.inference.core.prepared import Prepared
from concord.workers.inference.core.rewriting import solving
from concord.workers.inference.numerics import ROUNDING


@dataclass(frozen=True, eq=False)
class StrictTwin:
    """A problem of loose labels, and its twin.

    - ``whole``: the problem.
    - ``problem``: its twin, of the scheme BIO.
    - ``origin`` (L',): the problem's label for each label of the twin.
    - ``type_of_kind`` (T',): the problem's type for each type of the twin.
    """

    whole: Prepared
    problem: Prepared
    origin: Labels
    type_of_kind: Ints

    @classmethod
    def of(cls, problem: Problem) -> StrictTwin | None:
        """The twin of a problem whose loose spans are compared; None for any other, which needs none."""
        if problem.labels.scheme is not Scheme.LOOSE or not problem.agreements:
            return None
        names, origin = _twin_names(problem.labels)
        labels = LabelSet(names, Scheme.BIO)
        kinds = problem.labels.type_of[[problem.labels.index[kind] for kind in labels.types]].astype(np.int64)
        joins = problem.labels.continues[np.ix_(origin, origin)]
        allowed = labels.legal_transition & (labels.continues == joins)
        p = problem.potentials
        transition = np.where(allowed, p.transition[..., origin[:, None], origin], -np.inf)
        potentials = Potentials(p.unary[:, origin], transition, p.sentence_starts).legal(labels)
        rows = _twin_rows(problem.rows, origin, allowed)
        agreements = tuple(_twin_agreement(agreement, kinds) for agreement in problem.agreements)
        twin = Prepared(potentials, labels, problem.constraint_names, rows, agreements)
        return cls(Prepared.of(problem), twin, origin, kinds)

    def there(self, labels: Labels) -> Labels:
        """(N,) the twin of a labelling."""
        own, twin = self.whole.labels, self.problem.labels
        twins = np.full(len(labels), twin.index.get(OUTSIDE, 0), np.int32)
        spans = own.spans(labels, self.whole.potentials.sentence_starts)
        for start, end in zip(spans.start.tolist(), spans.end.tolist(), strict=True):
            kind = own.names[labels[start]]
            twins[start], twins[start + 1 : end] = twin.index[f"B-{kind}"], twin.index[f"I-{kind}"]
        return twins

    def back(self, labels: Labels) -> Labels:
        """The labelling, or labellings, of which ``labels`` are the twins; of the same shape."""
        originals: Labels = self.origin[labels]
        return originals

    def items(self, items: Ints) -> Ints:
        """(K, 3) start, end and type of each span of the twin as a span of the problem; type −1 stays."""
        kind = items[:, 2]
        return np.column_stack([items[:, :2], np.where(kind < 0, kind, self.type_of_kind[kind])])

    def answer(self, decoded: Decoded) -> Decoded:
        """An answer for the twin as one for the problem. The labels of what is infeasible are Viterbi's.

        A sum of more entries is rounded more, so the twin's rows have a slack that may be greater; where a labelling
        holds by that alone, its status is `Status.TIMEOUT`.
        """
        infeasible = decoded.status is Status.INFEASIBLE
        labels = self.whole.viterbi if infeasible else self.back(decoded.labels)
        score = self.whole.score(labels)
        same = infeasible or score.objective >= decoded.objective - ROUNDING
        return self.whole.decoded(
            labels,
            bound=decoded.bound,
            status=decoded.status if same else Status.TIMEOUT,
            work=decoded.work,
            seconds=decoded.seconds,
            improvements=decoded.improvements,
            score=score,
        )

    def ranking(self, ranking: Ranking) -> Ranking:
        """A ranking of the twin's labellings as one of the problem's."""
        return replace(ranking, labels=self.back(ranking.labels))


on_strict_twins = solving(StrictTwin.of)
"""Decorator of an engine that solves the twins of problems that have one."""


def _twin_names(labels: LabelSet) -> tuple[tuple[str, ...], Labels]:
    """The labels of the twin, type by type, and (L',) the label that each stands for."""
    pairs = [(OUTSIDE, labels.index[OUTSIDE])] if OUTSIDE in labels.index else []
    for firsts, inside in zip(labels.first_labels.tolist(), labels.inside.tolist(), strict=True):
        for first in firsts:
            kind = labels.names[first]
            pairs += [(f"B-{kind}", first), (f"I-{kind}", inside)]
    return tuple(name for name, _ in pairs), np.array([origin for _, origin in pairs], np.int32)


def _twin_rows(rows: LinearRows, origin: Labels, allowed: NDArray[np.bool_]) -> LinearRows:
    """Rows with an entry for each twin of an entry's label or edge; ``allowed`` (L', L') are the twin's edges."""
    entries = [
        _twin_entries(*edge, origin, allowed) for edge in zip(rows.previous.tolist(), rows.label.tolist(), strict=True)
    ]
    copies = np.array([len(own) for own in entries], np.int64)
    edges = np.concatenate([np.zeros((0, 2), np.int32), *entries])
    return replace(
        rows,
        pointer=np.append(0, np.cumsum(copies))[rows.pointer],
        position=np.repeat(rows.position, copies),
        previous=np.ascontiguousarray(edges[:, 0]),
        label=np.ascontiguousarray(edges[:, 1]),
        coefficient=np.repeat(rows.coefficient, copies),
    )


def _twin_entries(previous: int, label: int, origin: Labels, allowed: NDArray[np.bool_]) -> NDArray[np.int32]:
    """(C, 2) the twins of an entry: previous label, or `ANY`, and label."""
    own = np.flatnonzero(origin == label)
    if previous == ANY:
        return np.stack([np.full(len(own), ANY), own], axis=1).astype(np.int32)
    edges = np.argwhere(allowed & (origin[:, None] == previous) & (origin[None, :] == label))
    return edges.astype(np.int32)


def _twin_agreement(agreement: SpanAgreement, kinds: Ints) -> SpanAgreement:
    cost = agreement.cost[kinds]
    return replace(agreement, cost=cost if agreement.relation is Relation.UNLABELLED else cost[:, kinds])
