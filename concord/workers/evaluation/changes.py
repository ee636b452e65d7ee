"""Changes between two labellings of the same documents, judged by gold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from concord.schemas.labels import OUTSIDE, Labels, LabelSet
from concord.workers.evaluation.conlleval import are_in, check_lengths
from concord.workers.evaluation.named_counts import NamedCounts


@dataclass(frozen=True, eq=False)
class TokenChanges(NamedCounts):
    """Tokens whose label differs between two labellings, by the type gold gives them (or ``O``).

    - ``fixed``: wrong before, right after
    - ``broken``: right before, wrong after
    - ``both_wrong``: changed, but right in neither
    """

    kinds: ClassVar[tuple[str, ...]] = ("fixed", "broken", "both_wrong")

    @classmethod
    def of(cls, gold: Labels, before: Labels, after: Labels, labels: LabelSet) -> TokenChanges:
        """Changes in one document or a whole batch; labellings are ids (N,) of ``labels``."""
        check_lengths(gold, before, after)
        at = np.flatnonzero(before != after)
        names = labels.types if OUTSIDE in labels.types else (*labels.types, OUTSIDE)
        kind = np.where(labels.type_of < 0, names.index(OUTSIDE), labels.type_of)[gold[at]]
        fixed, broken = gold[at] == after[at], gold[at] == before[at]
        masks = (fixed, broken, ~fixed & ~broken)
        return cls.of_columns(names, [np.bincount(kind[m], minlength=len(names)) for m in masks])


@dataclass(frozen=True, eq=False)
class EntityChanges(NamedCounts):
    """Entities that only one of two labellings has, by type.

    - ``fixed``: a gold entity found only after
    - ``broken``: a gold entity found only before
    - ``removed``: a wrong entity that is gone after
    - ``added``: a wrong entity that is new after

    An entity with a new type or other edges counts once for what went and once for what came.
    """

    kinds: ClassVar[tuple[str, ...]] = ("fixed", "broken", "removed", "added")

    @classmethod
    def of(
        cls,
        gold: Labels,
        before: Labels,
        after: Labels,
        labels: LabelSet,
        sentence_starts: NDArray[np.int64],
    ) -> EntityChanges:
        """Changes in one document or a whole batch; labellings are ids (N,) of ``labels``."""
        check_lengths(gold, before, after)
        right, old, new = (labels.spans(y, sentence_starts) for y in (gold, before, after))
        gone, come = ~are_in(old, new), ~are_in(new, old)
        old_right, new_right = are_in(old, right), are_in(new, right)
        kinds = (
            new.type[come & new_right],
            old.type[gone & old_right],
            old.type[gone & ~old_right],
            new.type[come & ~new_right],
        )
        return cls.of_columns(labels.types, [np.bincount(k, minlength=len(labels.types)) for k in kinds])
