"""How much of what was is kept in an output: the last files of the feed, and the last versions of the table."""

from __future__ import annotations

from typing import TypedDict

from concord.flows.errors import RunFolderError
from concord.flows.runfolder.delta_table import has_table, keep_versions
from concord.flows.runfolder.feed_reader import feed_files, keep_changes
from concord.flows.runfolder.runfolder import run_output
from concord.schemas.nights import KeptRange


class Retention(TypedDict):
    """What stays; None for what the output does not have."""

    table: KeptRange | None
    feed: KeptRange | None


def keep_last(out: str, count: int) -> Retention:
    """Removes all but the last files of the feed of an output, and all but the last versions of its table.

    May be killed at any point. Raises `RunFolderError` where there is neither, and as `keep_versions`.
    """
    output = run_output(out)
    with output.exclusive():
        storage = output.storage
        feed = keep_changes(storage, count) if feed_files(storage) else None
        table = keep_versions(storage, count) if has_table(storage) else None
    if feed is None and table is None:
        raise RunFolderError(f"{out}: there are neither changes nor a table; `concord reprocess` makes them")
    return Retention(table=table, feed=feed)
