"""Memory that a worker asks Ray for, from measurements of real workers (`benchmarks/bench_memory.py`). No Ray here.

numpy arrays among a task's parts lie in Ray's object store, once on each node. Each process has everything else for
itself: a copy of the pickle without these arrays, the objects made from it, and structures that they build on first
use, such as TiMBL's tree from its text. The table has the peak of real workers in MiB, without shared memory, and the
size of that pickle in MiB:

    before the parts come; counting a corpus                           100; 150
    CRFs with 8 to 57 MiB of arrays on news and novels, by certify     190 to 260   below 0.1
    memory-based trigrams of CoNLL-2000's chunks, learner nearest      210 to 260   4.3
    the same, learner igtree                                           260          7.4
    the same, learners tribl2 and ib1                                  940 to 960   55.5 and 60.0
    a trial of nearest on 150,557 tokens of 22 features                200 to 230   0
    the same of igtree; of tribl2 on 50,000 tokens                     350; 350     0

`BASE` is enough for a worker of a CRF, and for most novels (the most was 721 MiB, see `docs/speed.md`). With a
TiMBL instance base a process takes up to 13.5 times its own pickle in addition. A trial learns from arrays in the
store, and takes a number of bytes for each value that it remembers (`Sampling.token_bytes`).
"""

from __future__ import annotations

import pickle
from typing import TypeVar

from concord.workers.corpus.plan import U
from concord.workers.remote.task import P, Task

BASE = 500 << 20
"""Bytes of a worker's own code, kernels and documents; tables of words among them are at most half of it."""

GROWTH = 14
"""Bytes that a process takes, at its peak, for each byte of its own pickle."""

R = TypeVar("R")


def memory_of(task: Task[U, P, R], parts: P) -> int:
    """Bytes that each worker of the task asks Ray for, whatever the shard."""
    own = len(pickle.dumps(parts, protocol=5, buffer_callback=_left_out))
    return BASE + GROWTH * own + task.builds(parts)


def _left_out(buffer: pickle.PickleBuffer) -> None:
    """An array: Ray shares it."""
