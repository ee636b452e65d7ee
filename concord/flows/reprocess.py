"""The main flow: labels a corpus shard by shard, resumes where it stopped, and tracks the run in MLflow."""

from __future__ import annotations

from collections.abc import Sequence

from concord.flows.inputs.jobs import checked_places, run_place
from concord.flows.inputs.run_context import RunContext
from concord.flows.watched import watched
from concord.schemas.folders import FolderKind
from concord.schemas.run import DEFAULT_RUN, RunSettings
from concord.schemas.run_report import RunReport


@watched("reprocess", run_name="{corpus} with {model}")
def reprocess(
    corpus: str,
    model: str,
    out: str,
    *,
    settings: RunSettings = DEFAULT_RUN,
    constraints: Sequence[str] = (),
    consistency: bool = True,
    only: Sequence[str] | None = None,
    shard_bytes: int | None = None,
    ray: str | None = None,
    workers: int | None = None,
    tracking: str | None = None,
    fail_on_drift: bool = False,
    allow_gone: bool = False,
    report: bool = False,
) -> RunReport:
    """Labels every document of ``corpus`` with ``model`` into ``out``.

    - ``out``: folder that all machines see, or a URI of an object store such as ``s3://bucket/out``.
    - ``model``: folder, ``models:/NAME@ALIAS``, or a URI such as ``s3://bucket/model``.
    - ``settings``: settings by which each document is decoded; a mapping is validated.
    - ``constraints``: YAML files, added to the label consistency trained with the model (``consistency``).
    - ``only``: ids of the documents that are labelled (None: all); such a run needs an output of its own.
    - ``shard_bytes``: size of a shard, in bytes of text (None: 256 KiB, more for a large corpus); another size cuts
      other shards, which are done anew.
    - ``ray``: address of a cluster (None: ``RAY_ADDRESS``, or else this machine).
    - ``workers``: number of Ray actors (None: one for each CPU).
    - ``tracking``: MLflow tracking URI (None: as the environment says).
    - ``fail_on_drift``: raise `DriftedRunError` where figures moved beyond their thresholds, see `workers.drift.chart`.
    - ``allow_gone``: publish although more than a tenth of the last run's documents are gone from the corpus?
    - ``report``: log the page of the run to MLflow, see `flows.labelling.run_page`; each call is a run there, then.

    The same call again does only what is not done yet.

    Raises `ShardsFailedError` if shards failed, after the others are done, `WithheldRunError` if too many documents are
    gone, `NothingLabelledError` if every document is a reject, and `UntrackedError` if MLflow was gone at the end; all
    have the report. Other errors are those of `schemas.errors`.
    """
    folder = run_place(out)
    (place,) = checked_places([corpus], folder, makes=FolderKind.RUN, model=model, files=constraints)

    from concord.flows.labelling.label_corpus import label_corpus
    from concord.flows.labelling.label_job import LabelRequest
    from concord.workers.labelling.labelled import check_settings

    request = LabelRequest(
        corpus=place,
        model=model,
        out=folder,
        settings=check_settings(settings),
        constraints=tuple(constraints),
        consistency=consistency,
        only=None if only is None else tuple(only),
        shard_bytes=shard_bytes,
        context=RunContext(ray=ray, workers=workers, tracking=tracking),
        fail_on_drift=fail_on_drift,
        allow_gone=allow_gone,
        report=report,
    )
    return label_corpus(request)
