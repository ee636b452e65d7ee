"""Settling: the local search that closes a sampler's run.

A sampler seldom changes all mentions of a name at once, least of all if their spans have to change as well
("Washington" in "MaliVai Washington"). So block descent (`workers.inference.relaxation.block_descent`) first improves
all sentences. Then each name whose mentions differ is tried under each type: a trial gives all of them that type, runs
block descent on the sentences whose charges change, and is taken back unless it is the best. The time grows with the
sentences that a trial reaches, not with the length of the document.

Invariant: the labels between trials are the best labelling met, so the objective never falls. It proves nothing.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from concord.schemas.arrays import Ints
from concord.schemas.problem import Problem
from concord.workers.inference.core.incumbent import Search
from concord.workers.inference.numerics import ROUNDING
from concord.workers.inference.relaxation.block_descent import Descent, start_at
from concord.workers.inference.relaxation.relaxation import chains_of
from concord.workers.inference.sampling.names import Sites
from concord.workers.inference.sampling.trials import (
    DescentTrial,
    better_all,
    close,
    keep_if,
    retype,
    take_best,
    trial_of,
    types_at,
    undo,
    undo_looks,
    value,
)


def settle(search: Search, sites: Sites, *, hard_weight: float) -> None:
    """Offers the best labelling that trials reach from the incumbent, with the spans of ``sites``.

    Trials are guided by local scores and agreement alone; their result is kept only if it is better with the rows, too.
    ``hard_weight`` nats stand for infinite costs. The search's work grows by the labels and spans visited, and its
    budget ends the trials.
    """
    if not search.problem.agreements:
        return
    settling = _Settling(search, sites, hard_weight)
    settling.run()
    if settling.objective > search.objective:
        search.offer(settling.trial.base)


class _Settling:
    def __init__(self, search: Search, sites: Sites, hard_weight: float) -> None:
        problem = search.problem
        self.search, self.objective, self.groups = search, search.objective, sites.groups
        chains, state = chains_of(problem, sites.spans), problem.empty_state(hard_weight)
        self.descent: Descent = start_at(chains, state, search.labels.astype(np.int32))
        self.trial: DescentTrial = trial_of(self.descent)
        self.is_exact = _is_exact(problem)

    def run(self) -> None:
        """Descends over all sentences, then tries all groups, as long as the budget lasts."""
        better_all(self.descent, self.trial)
        self._count()
        is_better = self._is_better()
        keep_if(is_better, self.descent, self.trial)
        if not is_better:
            undo(self.descent, self.trial)
        take_best(self.descent, self.trial)
        for first, last in pairwise(self.groups.pointer.tolist()):
            if self.search.spent:
                return
            self._try(self.groups.places[first:last])

    def _try(self, places: Ints) -> None:
        """Tries each type at the spans of ``places`` (P, 2), if they have several types now, and takes the best."""
        kinds = types_at(self.descent, self.trial, places)
        labelled = kinds >= 0
        self._count()
        if (kinds[labelled] == kinds.max()).all():
            return
        for kind in range(len(self.search.problem.labels.types)):
            retype(self.descent, self.trial, places[labelled], kind)
            self._count()
            keep_if(self._is_better(), self.descent, self.trial)
            undo(self.descent, self.trial)
            undo_looks(self.descent, self.trial)
            close(self.trial)
        take_best(self.descent, self.trial)

    def _is_better(self) -> bool:
        """Do the present labels score more than the best so far?

        The descent counts no rows, so its value is an upper bound of the score: most labels need no scoring.
        """
        reached = float(value(self.descent, self.trial))
        if reached <= self.objective + ROUNDING:
            return False
        if not self.is_exact:
            self.search.work += len(self.search.problem)
            reached = self.search.problem.score(self.descent.labels).objective
            if reached <= self.objective + ROUNDING:
                return False
        self.objective = reached
        return True

    def _count(self) -> None:
        self.search.work += int(self.trial.now["work"][0])
        self.trial.now["work"][0] = 0.0


def _is_exact(problem: Problem) -> bool:
    """Does a descent count the whole penalty of a labelling: are there no rows and no hard agreements?"""
    return not len(problem.rows) and all(np.isfinite(agreement.cost).all() for agreement in problem.agreements)
