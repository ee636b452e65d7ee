"""The main flow: labels a corpus shard by shard, resumes where it stopped, and tracks the run in MLflow."""

from __future__ import annotations

from collections.abc import Sequence

from concord.flows.inputs.jobs import checked_places, run_place
from concord.flows.watched import watched
from concord.schemas.folders import FolderKind
from concord.schemas.requests import LabelRequest, TableForm
from concord.schemas.run import DEFAULT_RUN, RunSettings
from concord.schemas.run_report import RunReport


@watched("reprocess", LabelRequest, run_name="{corpus} with {model}")
def reprocess(
    corpus: str,
    model: str,
    out: str,
    *,
    settings: RunSettings = DEFAULT_RUN,
    constraints: Sequence[str] = (),
    consistency: bool = True,
    only: Sequence[str] | None = None,
    corrections: str | None = None,
    shard_bytes: int | None = None,
    table: TableForm | None = None,
    ray: str | None = None,
    workers: int | None = None,
    tracking: str | None = None,
    fail_on_drift: bool = False,
    allow_gone: bool = False,
    allow_again: bool = False,
    report: bool = False,
) -> RunReport:
    """Labels every document of ``corpus`` with ``model`` into ``out``.

    The same call again does only what is not done yet.

    Raises `ShardsFailedError` if shards failed, after the others are done, `WithheldRunError` if too many documents are
    gone, `DriftedRunError` if figures moved beyond their thresholds (`workers.drift.chart`) and that is a failure,
    `NothingLabelledError` if every document is a reject, and `UntrackedError` if MLflow was gone at the end; all have
    the report. Raises `TakenBackError`, before it labels, if a rollback took the same answers back. Other errors are
    those of `schemas.errors`.
    """
    request = LabelRequest.of(locals())
    folder = run_place(out)
    (place,) = checked_places([corpus], folder, makes=FolderKind.RUN, model=model, files=request.files_read)

    from concord.flows.labelling.label_corpus import label_corpus
    from concord.workers.labelling.labelled import check_settings

    return label_corpus(
        request.model_copy(update={"corpus": place, "out": folder, "settings": check_settings(settings)})
    )
