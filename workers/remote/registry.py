"""Every task by its name: what a worker looks up when it is asked to do one."""

from __future__ import annotations

from workers.remote.answers import ANSWERS
from workers.remote.count import COUNT
from workers.remote.label import LABEL
from workers.remote.mining import CLAUSES, OPENINGS, ROWS, RULES
from workers.remote.task import AnyTask
from workers.remote.trials import TRIALS
from workers.remote.words import CONTEXTS, WORDS

TASKS: dict[str, AnyTask] = {
    task.name: task for task in (LABEL, COUNT, WORDS, CONTEXTS, ANSWERS, RULES, OPENINGS, CLAUSES, ROWS, TRIALS)
}
