"""What a worker asks Ray for in memory, by what real ones took (`benchmarks/bench_memory.py`). No Ray here.

numpy arrays among a task's parts lie in Ray's store, once a node. All else each process has for itself: the pickle
without these arrays is copied, its objects are made anew, and what they stand for is built on first use, as TiMBL's
tree is from its text. MiB that real workers had at their peak without what others share, and MiB of that pickle:

    before the parts come; counting a corpus                           100; 150
    CRFs with 8 to 57 MiB of arrays on news and novels, by certify     190 to 260   below 0.1
    memory-based trigrams of CoNLL-2000's chunks, learner nearest      210 to 260   4.3
    the same, learner igtree                                           260          7.4
    the same, learners tribl2 and ib1                                  940 to 960   55.5 and 60.0
    a trial of nearest on 150,557 tokens of 22 features                200 to 230   0
    the same of igtree; of tribl2 on 50,000 tokens                     350; 350     0

A CRF's worker has room in `BASE`, and so have most novels (721 was the most, see `docs/benchmarks.md`); with TiMBL's
bases a process has up to 13.5 times its own pickle more. A trial learns from arrays in the store, and takes so many
bytes for each value that it remembers (`workers.remote.trials`).
"""

from __future__ import annotations

import pickle
from typing import TypeVar

from concord.workers.corpus.plan import U
from concord.workers.remote.task import P, Task

BASE = 500 << 20
"""Bytes of a worker's own code, kernels and documents; tables of words among them are at most half of it."""

GROWTH = 14
"""Bytes that a process holds in the end for one of its own pickle."""

R = TypeVar("R")


def memory_of(task: Task[U, P, R], parts: P) -> int:
    """Bytes that each worker of the task asks Ray for, whatever the shard."""
    own = len(pickle.dumps(parts, protocol=5, buffer_callback=_left_out))
    return BASE + GROWTH * own + task.builds(parts)


def _left_out(buffer: pickle.PickleBuffer) -> None:
    """An array: Ray shares it."""
