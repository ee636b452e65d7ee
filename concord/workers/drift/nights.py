"""What is different from the last night, and whether it is more than chance: documents matched, figures compared."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from concord.schemas.arrays import Floats, Ints
from concord.schemas.drift import MOST_MOVED, ChangedDocument, Drift, Movement
from concord.workers.drift.chart import BREACH_LEVEL, LEAST_EFFECT, NightScore, effect, p_value, paired_rise, rise
from concord.workers.drift.figures import OF_TEXTS, WITHOUT_ANSWERS, DocumentFigures, unit_of
from concord.workers.drift.pairs import Pairs
from concord.workers.evaluation.bootstrap import holm

MOST_CHANGED = 10
"""Documents with other answers that are named: those with the most changes."""

Chart = Mapping[str, NightScore]
"""Scores of a night, by `name_of` the figure."""


class Night(NamedTuple):
    """The documents of both nights that may differ.

    - ``before``, ``after``: documents of the parts that differ, of the last night and of this one
    - ``same``: documents of parts that do not differ; some will do
    - ``last``: number of documents of the last night, in all
    - ``rejected``: ids of documents that are rejects of this night
    - ``same_run``: whether model, constraints, settings and code are those of the last night
    - ``sampled``: were documents drawn?
    """

    before: DocumentFigures
    after: DocumentFigures
    same: DocumentFigures
    same_run: bool
    last: int = 0
    rejected: frozenset[str] = frozenset()
    sampled: bool = False


class NightCompared(NamedTuple):
    """What a night comes to beside the last one, and its scores, which later nights are judged by."""

    drift: Drift
    chart: dict[str, NightScore]


def name_of(of: str, figure: str) -> str:
    """The name of a figure among all that are compared."""
    return f"{of}: {figure}"


def compare(night: Night, *, against: int, earlier: Sequence[Chart]) -> NightCompared:
    """The night ``against`` the last one, whose number that is; ``earlier`` are the scores of nights before, oldest
    first."""
    pairs = Pairs.of(_names(night.before), _names(night.after))
    changed = [i for i, (a, b) in enumerate(pairs.rows.tolist()) if night.before.answers[a] != night.after.answers[b]]
    differs = bool(changed) or len(pairs.new) > 0 or len(pairs.gone) > 0
    moves = [*_of_texts(night, pairs), *_of_answers(night, pairs)] if differs else []
    chart = {name_of(move.of, move.figure): move.score for move in moves}
    p_values = [p_value(m.score, [c[name] for c in earlier if name in c]) for name, m in zip(chart, moves, strict=True)]
    adjusted = holm(np.array(p_values, np.float64)).tolist()
    movements = [move.movement(p, night.after) for move, p in zip(moves, adjusted, strict=True)]
    drift = Drift(
        against=against,
        last=night.last,
        **_counted(night, pairs),
        changed=int(night.after.times[pairs.rows[changed, 1]].sum()),
        sampled=night.sampled,
        movements=tuple(sorted(movements, key=lambda movement: movement.p_value)),
        most_changed=_most_changed(night, pairs.rows[changed]),
    )
    return NightCompared(drift, chart)


def _names(documents: DocumentFigures) -> list[tuple[str, bytes]]:
    """Id and text of each document."""
    return list(zip(documents.ids, documents.texts, strict=True))


def _with_ids(documents: DocumentFigures, rows: Ints, ids: Collection[str]) -> Ints:
    """The rows of documents with one of these ids."""
    return np.array([row for row in rows.tolist() if documents.ids[row] in ids], np.int64)


def _counted(night: Night, pairs: Pairs) -> dict[str, int]:
    """Fields of `Drift`: documents that are new, gone, with another text, and missing."""
    before, after = frozenset(night.before.ids), frozenset(night.after.ids)
    new, gone = night.after.times[pairs.new].sum(), night.before.times[pairs.gone].sum()
    texts = night.after.times[_with_ids(night.after, pairs.new, before)].sum()
    there = night.before.times[_with_ids(night.before, pairs.gone, after)].sum()
    rejected = night.before.times[_with_ids(night.before, pairs.gone, night.rejected - after)].sum()
    emptied = _emptied(night, pairs)
    counts = {"new": new - texts, "gone": gone - there, "texts": texts, "missing": gone - there - rejected}
    return counts | {"emptied": emptied}


def _emptied(night: Night, pairs: Pairs) -> int:
    """Documents of both nights whose entities are all gone, less those that had none and have some now."""
    before, after = (
        np.bincount(documents.spans[:, 0], minlength=len(documents))[rows] > 0
        for documents, rows in ((night.before, pairs.rows[:, 0]), (night.after, pairs.rows[:, 1]))
    )
    times = night.after.times[pairs.rows[:, 1]]
    return max(0, int(times[before & ~after].sum()) - int(times[after & ~before].sum()))


class _Move(NamedTuple):
    """A figure of some documents before and after, and its score.

    - ``rows`` (n,): the documents of this night
    - ``shift`` (n,): what each of them adds to the difference
    """

    of: Literal["texts", "answers"]
    figure: str
    before: Floats
    after: Floats
    score: NightScore
    rows: Ints
    shift: Floats

    def movement(self, p: float, documents: DocumentFigures) -> Movement:
        """The movement, whose adjusted p-value that is; of a breach it says in which of the documents."""
        breach = p <= BREACH_LEVEL and abs(effect(self.before, self.after)) >= LEAST_EFFECT
        return Movement(
            figure=self.figure,
            of=self.of,
            before=float(self.before.mean()),
            after=float(self.after.mean()),
            unit=unit_of(self.figure),
            p_value=p,
            breach=breach,
            **(self._places(documents) if breach else {}),
        )

    def _places(self, documents: DocumentFigures) -> dict[str, Any]:
        """Fields of `Movement`: the file that adds most to the difference, and the documents that do."""
        adds = self.shift * (1.0 if self.after.mean() > self.before.mean() else -1.0)
        most = self.rows[np.argsort(-adds, kind="stable")[:MOST_MOVED]]
        files = [documents.files[row] for row in self.rows.tolist()]
        names, numbers = np.unique(files, return_inverse=True)
        worst = int(np.bincount(numbers, adds).argmax())
        return {
            "file": str(names[worst]),
            "in_file": int((numbers == worst).sum()),
            "most": tuple(documents.ids[row] for row in most.tolist()),
        }


def _of_texts(night: Night, pairs: Pairs) -> list[_Move]:
    """New documents against the others: those that both nights have, as they are answered now, and those that are gone.

    The answers of those that are gone count where they are the answers that this run would give.
    """
    moves = []
    for name in dict.fromkeys([*night.after.values, *night.same.values]):
        new = night.after.figure(name)[pairs.new]
        others = [night.after.figure(name)[pairs.rows[:, 1]], night.same.figure(name)]
        if night.same_run or name in WITHOUT_ANSWERS:
            others.append(night.before.figure(name)[pairs.gone])
        there = np.isfinite(new)
        before, after = _there(np.concatenate(others)), new[there]
        if len(before) and len(after):
            shift = after - before.mean()
            moves.append(_Move("texts", name, before, after, rise(after, before), pairs.new[there], shift))
    return moves


def _of_answers(night: Night, pairs: Pairs) -> list[_Move]:
    """The same documents, answered before and now."""
    moves = []
    for name in dict.fromkeys([*night.before.values, *night.after.values]):
        if name in OF_TEXTS:
            continue
        before, after = night.before.figure(name)[pairs.rows[:, 0]], night.after.figure(name)[pairs.rows[:, 1]]
        there = np.isfinite(before) & np.isfinite(after)
        before, after, rows = before[there], after[there], pairs.rows[there, 1]
        if (before != after).any():
            score = paired_rise(before, after)
            moves.append(_Move("answers", name, before, after, score, rows, after - before))
    return moves


def _there(values: Floats) -> Floats:
    return values[np.isfinite(values)]


def _most_changed(night: Night, rows: Ints) -> tuple[ChangedDocument, ...]:
    """Of pairs of rows with other answers, the documents with the most spans that only one of both has."""
    types = tuple(dict.fromkeys((*night.before.types, *night.after.types)))
    sides = ((night.before, rows[:, 0]), (night.after, rows[:, 1]))
    spans = np.concatenate([documents.spans_of(own, types) for documents, own in sides])
    distinct, times = np.unique(spans, axis=0, return_counts=True)
    counts = np.bincount(distinct[times == 1, 0], minlength=len(rows))
    most = np.argsort(-counts, kind="stable")[:MOST_CHANGED]
    ids = [night.after.ids[row] for row in rows[most, 1].tolist()]
    return tuple(ChangedDocument(doc_id=name, spans=int(n)) for name, n in zip(ids, counts[most], strict=True))
