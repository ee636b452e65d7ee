"""Search errors and model errors: was the right answer not found, or does the objective rank it lower?

A heuristic's labelling is compared with gold and with the best labelling under the objective, which
an exact engine has proven. Both counts add up over documents.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from concord.schemas.labels import Labels, LabelSet
from concord.schemas.problem import SLACK_TOLERANCE
from concord.workers.evaluation.conlleval import are_in, check_lengths
from concord.workers.evaluation.named_counts import NamedCounts


class Objectives(NamedTuple):
    """Objectives of three labellings of a document, in nats.

    - ``gold``: of gold; −inf where the model lacks one of its labels.
    - ``heuristic``: of the heuristic's answer.
    - ``best``: of the best known labelling.
    - ``proven``: whether no labelling is better than that.
    """

    gold: float
    heuristic: float
    best: float
    proven: bool


@dataclass(frozen=True, eq=False)
class EntityErrors(NamedCounts):
    """Errors of a heuristic by entity type: entities that it made up, and gold entities that it missed.

    - ``search``: right in the best labelling, which the objective ranks higher.
    - ``model``: wrong in the best labelling as well, which is proven to be the best.
    - ``open``: wrong in both, and nothing is proven.
    - ``lucky``: no errors; the heuristic was right only because it missed the best labelling.
    """

    kinds: ClassVar[tuple[str, ...]] = ("search", "model", "open", "lucky")

    @classmethod
    def of(
        cls,
        gold: Labels,
        heuristic: Labels,
        best: Labels,
        labels: LabelSet,
        sentence_starts: NDArray[np.int64],
        *,
        proven: bool,
    ) -> EntityErrors:
        """Errors in one document; labellings are ids (N,) of ``labels``."""
        check_lengths(gold, heuristic, best)
        true, answer, right = (labels.spans(y, sentence_starts) for y in (gold, heuristic, best))
        made_up, missed = ~are_in(answer, true), ~are_in(true, answer)
        justified, still_missed = are_in(answer, right), ~are_in(true, right)
        mended = np.concatenate([answer.type[made_up & ~justified], true.type[missed & ~still_missed]])
        remaining = np.concatenate([answer.type[made_up & justified], true.type[missed & still_missed]])
        new = ~are_in(right, true) & ~are_in(right, answer)
        lucky = np.concatenate([right.type[new], true.type[~missed & still_missed]])
        none = np.zeros(0, np.int32)
        columns = (mended, remaining if proven else none, none if proven else remaining, lucky)
        return cls.of_columns(labels.types, [np.bincount(kind, minlength=len(labels.types)) for kind in columns])


@dataclass(frozen=True, eq=False)
class DocumentErrors(NamedCounts):
    """Documents by the kind of error that their objectives show.

    - ``right``: no error; the heuristic's labelling is gold.
    - ``model``: the objective ranks the heuristic's labelling at least as high as gold.

    In the others gold ranks higher, so the search failed:

    - ``search``: no labelling beats gold.
    - ``both``: some other labelling beats gold as well.
    - ``open``: whether one does is not proven.
    """

    kinds: ClassVar[tuple[str, ...]] = ("right", "search", "model", "both", "open")

    @classmethod
    def of(cls, objectives: Objectives, *, right: bool) -> DocumentErrors:
        """One document; ``right``: is the heuristic's labelling gold?"""
        kind = "right" if right else _kind(objectives)
        return cls(("documents",), np.array([[int(k == kind) for k in cls.kinds]], np.int64))


def _kind(objectives: Objectives) -> str:
    missed = objectives.gold > objectives.heuristic + SLACK_TOLERANCE
    beaten = objectives.best > objectives.gold + SLACK_TOLERANCE
    if not missed:
        return "model"
    if beaten:
        return "both"
    return "search" if objectives.proven else "open"
