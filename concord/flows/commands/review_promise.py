"""Whether a promise is still one of a run: recomputed from its answers, `concord verify --promise`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from pydantic import ValidationError

from concord.flows.commands.reviewing import NUMBERS, ReviewError, digests, fitted, other_run, plan_of
from concord.flows.nights.record import read_record
from concord.flows.runfolder.published import Published, published
from concord.schemas.arrays import Ints
from concord.schemas.columns import PREDICTIONS_LAYOUT
from concord.schemas.review import PromiseCheck, ReviewPromise
from concord.workers.labelling.output import PREDICTIONS
from concord.workers.review.nested import NOT_READ, READ_WRONG, ReviewStanding, promised_level, standing
from concord.workers.review.review_items import ReviewItems, items_of
from concord.workers.storage.storage import file_bytes


def check_promise(run: str, promise: Path) -> PromiseCheck:
    """Recomputes a promise of a run from what is written in its file.

    Raises `ReviewError` for a file that is no promise, and the errors of reading the run.
    """
    try:
        claim = ReviewPromise.model_validate_json(file_bytes(promise))
    except ValidationError:
        raise ReviewError(f"{promise}: is no promise of `concord review`, or a damaged one") from None
    fault = _fault(published(run), claim)
    return PromiseCheck(promise=str(promise), run=run, sentence=claim.sentence, fault=fault)


def _fault(run: Published, claim: ReviewPromise) -> str | None:
    method = claim.method
    drifted = [
        night.night
        for night in read_record(run.storage).nights
        if night.night > method.night and night.drift is not None and night.drift.breaches
    ]
    drift = f"night {drifted[0]} of the run's folder drifted" if drifted else ""
    now = digests(run)
    for name in ("model", "corpus", "run"):
        if now[name] != getattr(method, name):
            return f"the {name} is another one" + (f", and {drift}" if drift else "") + "; review this run"
    if drift:
        return f"{drift}; review the run that it leads to"
    listed = items_of(run.tables(PREDICTIONS, PREDICTIONS_LAYOUT), method.request.by, run=run.uri)
    if other_run(method, run, listed) is not None or len(listed.things) != method.size:
        return "it does not list what this run has"
    return _recomputed(claim, listed)


def _recomputed(claim: ReviewPromise, listed: ReviewItems) -> str | None:
    plan = plan_of(claim.method, fitted(claim.method, listed))
    places = {(one.doc_id, one.start, one.end): (number, one.type) for number, one in enumerate(listed.things)}
    verdicts: Ints = np.full(claim.method.size, NOT_READ, np.int64)
    for answer in claim.answers:
        number, kind = places.get(answer.place, (None, None))
        if number is None or kind != answer.type or verdicts[number] != NOT_READ:
            return f"its answer about {answer.place} is none about this run"
        verdicts[number] = NUMBERS[answer.verdict]
    if not {again.place for again in claim.repeats} <= {answer.place for answer in claim.answers}:
        return "it has repeated questions that were not asked before"
    now: ReviewStanding = standing(plan, verdicts)
    level = promised_level(plan, verdicts, now.levels)
    whole = claim.method.request.whole is not None
    size = 0 if not level else claim.method.size if whole else int(plan.sizes[level - 1])
    wrong = int((verdicts >= READ_WRONG).sum())
    if (size, len(claim.answers), wrong) != (claim.promised, claim.read, claim.wrong):
        return f"its answers promise {size:,}, not {claim.promised:,}"
    return None
