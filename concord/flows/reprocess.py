"""The main flow: labels a corpus shard by shard, resumes where it stopped, and tracks the run in MLflow."""

from __future__ import annotations

from concord.flows.inputs.jobs import checked_places, run_place
from concord.flows.watched import watched
from concord.schemas.folders import FolderKind
from concord.schemas.requests import LabelRequest
from concord.schemas.run_report import RunReport


@watched("reprocess", LabelRequest, run_name="{corpus} with {model}")
def reprocess(request: LabelRequest) -> RunReport:
    """Labels every document of ``corpus`` with ``model`` into ``out``.

    The same call again does only what is not done yet.

    Raises `ShardsFailedError` if shards failed, after the others are done, `WithheldRunError` if too many documents are
    gone, `DriftedRunError` if figures moved beyond their thresholds (`workers.drift.chart`) and that is a failure,
    `NothingLabelledError` if every document is a reject, and `UntrackedError` if MLflow was gone at the end; all have
    the report. Raises `TakenBackError`, before it labels, if a rollback took the same answers back. Other errors are
    those of `schemas.errors`.
    """
    out = run_place(request.out)
    (corpus,) = checked_places(
        [request.corpus], out, makes=FolderKind.RUN, model=request.model, files=request.files_read
    )

    from concord.flows.labelling.label_corpus import label_corpus
    from concord.workers.labelling.labelled import check_settings

    settings = check_settings(request.settings)
    return label_corpus(request.model_copy(update={"corpus": corpus, "out": out, "settings": settings}))
