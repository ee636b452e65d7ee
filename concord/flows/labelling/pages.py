"""Registry of pages that show a published run, by name.

All of them come by entry points, ours too: a run that keeps no page reads nothing of what draws one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from concord.schemas.requests import LabelRequest
from concord.schemas.run import ShardReport
from concord.schemas.run_report import RunReport
from concord.workers.parts import Group, Registry, a_function

if TYPE_CHECKING:
    from concord.flows.tracking.tracking import Run

KeepPage = Callable[["Run", RunReport, ShardReport, LabelRequest], RunReport]
"""Uploads a page of a run, of which the totals are given, to MLflow; returns the report with the page's address."""

RUN_PAGE = "run"
"""Name of the page that ``--report`` keeps."""

PAGES: Registry[KeepPage] = Registry(Group.PAGES, {}, a_function("a function that keeps a page of a run"))
