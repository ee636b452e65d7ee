"""Registry of tasks by name, in which a worker looks up its task."""

from __future__ import annotations

from concord.workers.remote.count import COUNT
from concord.workers.remote.label import LABEL
from concord.workers.remote.mining import COUNTED_RULES, ROWS
from concord.workers.remote.survey import SURVEY
from concord.workers.remote.sweep import SWEEP
from concord.workers.remote.task import AnyTask
from concord.workers.remote.trials import TRIALS
from concord.workers.remote.words import CONTEXTS, WORDS

TASKS: dict[str, AnyTask] = {
    task.name: task for task in (LABEL, COUNT, WORDS, CONTEXTS, COUNTED_RULES, ROWS, TRIALS, SWEEP, SURVEY)
}
