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
from concord.workers.review.nested import UNREAD, WRONG, Standing, promised_level, standing
from concord.workers.review.things import Things, things_of
from concord.workers.storage.storage import file_bytes


def check_promise(run: str, promise: Path) -> PromiseCheck:
    """Recomputes a promise of a run from what is written in its file.

    Raises `ReviewError` for a file that is no promise, and the errors of reading the run.
    """
    try:
        said = ReviewPromise.model_validate_json(file_bytes(promise))
    except ValidationError:
        raise ReviewError(f"{promise}: is no promise of `concord review`, or a damaged one") from None
    fault = _fault(published(run), said)
    return PromiseCheck(promise=str(promise), run=run, sentence=said.sentence, fault=fault)


def _fault(run: Published, said: ReviewPromise) -> str | None:
    method = said.method
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
    listed = things_of(run.tables(PREDICTIONS, PREDICTIONS_LAYOUT), method.request.by, run=run.uri)
    if other_run(method, run, listed) is not None or len(listed.things) != method.size:
        return "it does not list what this run has"
    return _recomputed(said, listed)


def _recomputed(said: ReviewPromise, listed: Things) -> str | None:
    plan = plan_of(said.method, fitted(said.method, listed))
    places = {(one.doc_id, one.start, one.end): (number, one.type) for number, one in enumerate(listed.things)}
    verdicts: Ints = np.full(said.method.size, UNREAD, np.int64)
    for answer in said.answers:
        number, kind = places.get(answer.place, (None, None))
        if number is None or kind != answer.type or verdicts[number] != UNREAD:
            return f"its answer about {answer.place} is none about this run"
        verdicts[number] = NUMBERS[answer.verdict]
    now: Standing = standing(plan, verdicts)
    level = promised_level(plan, verdicts, now.levels)
    whole = said.method.request.whole is not None
    size = 0 if not level else said.method.size if whole else int(plan.sizes[level - 1])
    wrong = int((verdicts >= WRONG).sum())
    if (size, len(said.answers), wrong) != (said.promised, said.read, said.wrong):
        return f"its answers promise {size:,}, not {said.promised:,}"
    return None
