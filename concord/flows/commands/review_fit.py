"""Predicted errors of a review fitted to a run over documents with gold labels."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from concord.flows.runfolder.published import Published, published
from concord.schemas.arrays import Mask
from concord.schemas.columns import DOC_ID, PREDICTIONS_LAYOUT
from concord.schemas.errors import UsageError
from concord.schemas.review import ReviewRequest
from concord.workers.corpus.plan import plan
from concord.workers.corpus.shards import read_batch
from concord.workers.labelling.output import PREDICTIONS
from concord.workers.report.places import TypedPlaces, gold_places
from concord.workers.review.predicted import LogisticFit
from concord.workers.review.review_items import ReviewItems, items_of


class LabelledRun(NamedTuple):
    """A run over documents with gold labels, to which predicted errors are fitted."""

    run: str
    corpus: str

    @classmethod
    def of(cls, run: str | None, corpus: str | None) -> LabelledRun | None:
        """The run, if there is one. Raises `UsageError` where half of it is missing."""
        if run is None and corpus is None:
            return None
        if run is None or corpus is None:
            raise UsageError("--fit-run and --fit-corpus belong together; give both")
        return cls(run, corpus)


def fit_to(labelled: LabelledRun, request: ReviewRequest, order: str) -> LogisticFit:
    """The fit, for what is read and how sure it is said to be. Raises `UsageError`, and the errors of reading."""
    if request.by == "sentence":
        raise UsageError(
            "--fit-run: nothing says how sure empty sentences are, so there is nothing to fit; leave it out"
        )
    run = published(labelled.run)
    listed = items_of(run.tables(PREDICTIONS, PREDICTIONS_LAYOUT), request.by, run=labelled.run)
    if listed.order != order:
        raise UsageError(f"--fit-run {labelled.run}: says how sure it is by {listed.order}, and the run by {order}")
    wrong, in_gold = _wrong(run, listed, labelled.corpus)
    if not in_gold.any():
        raise UsageError(f"--fit-corpus {labelled.corpus}: has no gold labels of documents in {labelled.run}")
    return LogisticFit.of(listed.predicted[in_gold], wrong[in_gold])


def _wrong(run: Published, listed: ReviewItems, corpus: str) -> tuple[Mask, Mask]:
    """Which things of a run gold does not have, and of which gold is in_gold."""
    gold: dict[str, TypedPlaces] = {}
    for shard in plan(corpus, text=run.manifest.run.settings.text.without_kept):
        gold |= gold_places(read_batch(shard)[0])
    answers: dict[str, TypedPlaces] = {}
    for table in run.tables(PREDICTIONS, PREDICTIONS_LAYOUT):
        for row in table.select([DOC_ID, "entities"]).to_pylist():
            answers[row[DOC_ID]] = {(one["start"], one["end"]): one["type"] for one in row["entities"]}
    in_gold = np.array([one.doc_id in gold for one in listed.things], np.bool_)
    wrong = [
        (answers[one.doc_id] != gold.get(one.doc_id))
        if one.type is None
        else gold.get(one.doc_id, {}).get((one.start, one.end)) != one.type
        for one in listed.things
    ]
    return np.array(wrong, np.bool_), in_gold
