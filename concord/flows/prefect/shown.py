"""What Prefect shows of a flow run of ours: log lines, progress, a page in Markdown, tags, the state's message."""

from __future__ import annotations

import contextvars
import logging
import re
import time
from collections.abc import Callable
from functools import partial, wraps
from typing import Any, ParamSpec
from uuid import UUID

import httpx
from prefect.artifacts import create_markdown_artifact, create_progress_artifact, update_progress_artifact
from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import FlowRun
from prefect.context import FlowRunContext
from prefect.events import emit_event
from prefect.exceptions import PrefectHTTPStatusError
from prefect.logging import get_run_logger
from prefect.states import Completed, Failed

from concord.flows.errors import FORESEEN, ReportingError
from concord.flows.screen.pages import Page, cancelled_page, line_of, page_of
from concord.flows.screen.patience import within
from concord.flows.screen.progress import LINE_SECONDS, followed
from concord.schemas.run_report import RunReport
from concord.schemas.secrets import place_of, redact

P = ParamSpec("P")

SHOWN_SECONDS = 10.0
"""How long Prefect may take for what it only shows."""

CANCEL_SECONDS = 5.0
"""How long Prefect may take to be told of an interruption: somebody waits for the end."""

TAG = "concord"
"""Of every run of ours."""

DRIFT_EVENT = "concord.drift"
"""Name of the event that a breach of a threshold emits."""


def shown(run: Callable[P, Any]) -> Callable[P, Any]:
    """The function; inside of a flow run of Prefect's its notices, its progress and its report are shown there.

    A run that a signal ends is shown with what it has done, whether it was called or deployed.
    What has a headline ends as a state with that for its message, and so does an error that was foreseen, which is then
    the data of a failed state. Where Prefect will try again the error is raised: only so it does. Prefect that does not
    answer ends nothing.
    """

    @wraps(run)
    def called(*args: P.args, **kwargs: P.kwargs) -> Any:
        context = FlowRunContext.get()
        if context is None or context.flow_run is None:
            return run(*args, **kwargs)
        pages = _Pages(context)
        with followed(pages):
            try:
                answer = run(*args, **kwargs)
            except FORESEEN as error:
                last = pages.is_last_try()
                line = pages.failed(error, *["failed"] * last)
                if not last:
                    raise
                return Failed(message=line, data=error)
            except BaseException as error:
                if not isinstance(error, Exception):  # a signal, by whichever name
                    pages.cancelled()
                raise
        page = pages.ended(answer)
        return answer if page is None else Completed(message=page.headline, data=answer)

    return called


class _Pages:
    """The pages of the flow run that goes on. Once Prefect has not answered it is told no more."""

    def __init__(self, context: FlowRunContext) -> None:
        assert context.flow_run is not None
        self._run, self._flow = context.flow_run, context.flow_run.name
        self._key = _slug("" if context.flow is None else context.flow.name)
        self._logger = get_run_logger()
        self._lost, self._patience = False, SHOWN_SECONDS
        self._left: object = None
        self._bars: dict[str, UUID] = {}
        self._told: dict[str, float] = {}
        # Of the flow, whatever is said of everything else: the lines are few.
        of_runs = logging.getLogger("prefect.flow_runs")
        of_runs.setLevel(logging.INFO)
        of_runs.addFilter(_unforeseen)

    def said(self, message: str) -> None:
        """See `concord.flows.screen.progress.Follower`."""
        self._logger.info(redact(message))

    def advanced(self, title: str, done: int, total: int | None, note: str) -> None:
        """See `flows.screen.progress.Follower`: a line, and a bar where the end is known, every `LINE_SECONDS`."""
        now = time.monotonic()
        last = self._told.get(title)
        if done != total and last is not None and now - last < LINE_SECONDS:
            return
        self._told[title] = now
        goal = "" if total is None else f" of {total:,}"
        line = redact(f"{title}: {done:,}{goal} {note}".rstrip())
        self._logger.info(line)
        if not total:
            return
        share = min(100.0 * done / total, 100.0)
        if title in self._bars:
            self._ask(partial(update_progress_artifact, self._bars[title], share, line))
            return
        made = self._ask(partial(create_progress_artifact, share, f"{self._key}-{_slug(title)}", line))
        if made is not None:
            self._bars[title] = made

    def left(self, report: object) -> None:
        """See `concord.flows.screen.progress.Follower`."""
        self._left = report

    def cancelled(self) -> None:
        """Shows what was done by a run that a signal ends."""
        self._patience = CANCEL_SECONDS
        self._show(page_of(self._left) or cancelled_page(self._flow))

    def is_last_try(self) -> bool:
        """Whether Prefect will not run this again after an error. Not known where it does not answer."""
        run = self._ask(partial(_read, self._run.id))
        return run is not None and run.run_count > (run.empirical_policy.retries or 0)

    def failed(self, error: Exception, *tags: str) -> str:
        """Shows the page of what was done before an error, if anything was; the error in a line."""
        page = self.ended(error.report, *tags) if isinstance(error, ReportingError) else None
        if page is None:
            self._tag(*tags)
        line = line_of(str(error))
        self._logger.error(line)
        return line

    def ended(self, report: object, *tags: str) -> Page | None:
        """Shows the page of a report, if it has one."""
        page = page_of(report)
        if page is None:
            return None
        self._show(page, *tags)
        if isinstance(report, RunReport) and report.drift is not None and report.drift.breaches:
            self._ask(partial(_emit, report, page))
        return page

    def _show(self, page: Page, *tags: str) -> None:
        self._logger.info(page.headline)
        key = f"{self._key}-{_slug(page.name)}"
        self._ask(partial(create_markdown_artifact, page.markdown, key, page.headline))
        self._tag(*tags, *page.tags)
        if page.title:
            self._ask(partial(rename, self._run, f"{self._run.name} · {page.title}"))

    def _tag(self, *tags: str) -> None:
        self._ask(partial(tag, self._run, *tags))

    def _ask(self, call: Callable[[], Any]) -> Any:
        """What Prefect answers; None where it does not."""
        if self._lost:
            return None
        try:
            return within(self._patience, partial(contextvars.copy_context().run, call))
        except (TimeoutError, httpx.HTTPError, PrefectHTTPStatusError):
            self._lost = True
            return None


def tag(run: FlowRun, *tags: str) -> None:
    """Gives a run of ours more tags. Raises what Prefect's client raises."""
    with get_client(sync_client=True) as client:
        client.update_flow_run(run.id, tags=sorted({*run.tags, TAG, *tags}))


def rename(run: FlowRun, name: str) -> None:
    """Gives a run of ours another name. Raises what Prefect's client raises."""
    with get_client(sync_client=True) as client:
        client.update_flow_run(run.id, name=name)


def _read(run: UUID) -> FlowRun:
    with get_client(sync_client=True) as client:
        return client.read_flow_run(run)


def _unforeseen(record: logging.LogRecord) -> bool:
    """Whether a line is no traceback of Prefect's for an error that has been told in a line."""
    return not (record.exc_info and isinstance(record.exc_info[1], FORESEEN))


def _emit(report: RunReport, page: Page) -> None:
    assert report.drift is not None
    emit_event(
        DRIFT_EVENT,
        resource={"prefect.resource.id": f"concord.output.{_slug(page.name)}", "prefect.resource.name": page.name},
        payload={
            "out": place_of(report.out),
            "headline": page.headline,
            "movements": [movement.model_dump(mode="json") for movement in report.drift.breaches],
        },
    )


def _slug(text: str) -> str:
    """The text as a key of Prefect's: lower case letters, digits and dashes."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-") or "concord"
