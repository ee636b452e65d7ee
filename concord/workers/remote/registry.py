"""Registry of tasks by name, in which a worker looks up its task.

All of them come by entry points, ours too: a worker imports its own task, so that a nightly run reads nothing of mining
or sweeps.
"""

from __future__ import annotations

from typing import Any

from concord.workers.parts import Group, Registry
from concord.workers.remote.task import AnyTask, Task


def _wrong(part: Any) -> str | None:
    return None if isinstance(part, Task) else f"want a Task, not a {type(part).__name__}"


TASKS: Registry[AnyTask] = Registry(Group.TASKS, {}, _wrong)
