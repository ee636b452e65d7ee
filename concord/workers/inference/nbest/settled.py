"""Settled answers: the proof that no other labelling of a document comes near the best one.

An answer is *settled* if every other labelling scores at least `LEAD` nats less. Then every search that proves its
answer within a smaller tolerance gives this one, whatever it starts from: there is no choice among equals. So a later
run can take a settled answer for its own, byte for byte, where it knows that the answer is still settled; and it does
not matter who finds it, an engine or a relaxation from labels that are near (`settled_near`).

The relaxation learns prices from the labels where it starts, and they are the first to prove a list of all labellings
that score no less than `LEAD` below the best one it met (`workers.inference.nbest.engine`); the list must hold that one
alone. So the outcome depends on the problem and on where it starts. From the answer itself it is found most often:
where a run's engine was asked, that is the last attempt, and what a later run tries first. The last attempt has
`LAST_ATTEMPT` times the work: what it leaves unsettled a later run may have settled from labels that it knows, and then
the two differ in what they call settled, and in the bound (see `workers.labelling.kept`).
"""

from __future__ import annotations

from concord.schemas.decoded import Budget, Decoded, Status
from concord.schemas.labels import Labels
from concord.schemas.problem import Problem
from concord.workers.inference.core.effort import Effort
from concord.workers.inference.core.folding import Folded
from concord.workers.inference.core.prepared import Prepared
from concord.workers.inference.core.strict_twin import StrictTwin
from concord.workers.inference.nbest.engine import BestFound, look
from concord.workers.inference.numerics import LEAD
from concord.workers.inference.relaxation.relaxation import Narrowing

LEAST_WORK, WORK_A_TOKEN = 4_000_000, 10_000
"""Limit of work, in steps of `relax`: a constant, and for each token. On 3,267 chapters of novels most proofs took up
to 800 steps a token; a quarter of the limit was too little for two documents whose proof was found from elsewhere."""

LAST_ATTEMPT = 10
"""Factor of the work from the answer of an engine, to which few documents come. On novels 4 was enough."""


def settled_near(problem: Problem, start: Labels, *, factor: int = 1) -> Decoded | None:
    """The best labelling as a proven answer, if it is settled and a relaxation from the labels ``start`` (N,) finds it.

    Neither a sampler nor a solver is asked. On chapters of novels that is enough for nine of ten, from the labels of
    another model or from the Viterbi labels. Its bound is its objective, without a tolerance: no other labelling comes
    as near as that. ``factor`` multiplies the work.
    """
    other = Folded.of(problem) or StrictTwin.of(problem)
    if other is not None:
        settled = settled_near(other.problem, other.there(start), factor=factor)
        return None if settled is None else other.answer(settled)
    prepared = Prepared.of(problem)
    effort = Effort(Budget(work=factor * (LEAST_WORK + WORK_A_TOKEN * len(prepared))))
    narrowing = Narrowing(prepared, effort)
    top = BestFound(prepared, narrowing.learn(start), 2)
    if not top.answers:
        return None
    look(top, narrowing, LEAD, effort)
    best, objective = top.best
    others = max([top.bound, *(-negated for negated, _, _ in top.answers[1:])])
    # Half of it, as sums are rounded.
    if others > objective - LEAD / 2:
        return None
    return prepared.decoded(best, bound=objective, status=Status.OPTIMAL)
