"""What Ray's workers take of memory, beside what they ask for: CRFs, memory-based models, trials of their settings.

For each kind of parts one worker on this machine does the work of its task, and has its most MiB that it shares with no
other process. `GROWTH` and `BASE` in `workers/remote/memory.py`, and `REMEMBERED` in
`workers/papers/canisius/trigram_trials.py`, are
chosen by these figures.

    python benchmarks/bench_memory.py
"""

from __future__ import annotations

import argparse
import os
import re
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from bench_csi import corpora
from common import ray_workers, save
from corpora import labelled_corpora

from concord.flows.cluster.cluster import cluster
from concord.flows.labelling.documents import read_documents
from concord.flows.labelling.sources import some_documents
from concord.schemas.document import Document
from concord.schemas.run import RunKey, RunSettings
from concord.workers.constraints.constraint_set import Unconstrained
from concord.workers.corpus.ingestion import write_corpus
from concord.workers.corpus.plan import Unit, plan
from concord.workers.learning.trainers import sgd
from concord.workers.models.loaders import load_model
from concord.workers.models.settings import SgdSettings
from concord.workers.papers.canisius import trigram_trainer as trigram
from concord.workers.papers.canisius.settings import TrigramSettings
from concord.workers.papers.canisius.trigram_trials import SAMPLING, Sample
from concord.workers.remote.count import COUNT, CountParts
from concord.workers.remote.label import LABEL, LabelParts
from concord.workers.remote.memory import BASE, GROWTH, memory_of
from concord.workers.remote.task import AnyTask
from concord.workers.remote.trials import TRIALS, TrialGroup, TrialParts
from concord.workers.storage.storage import FolderStorage

LEARNERS: dict[str, dict[str, Any]] = {
    "nearest": {},
    "nearest, MVDM": {"metric": "mvdm", "k": 5},
    "igtree": {"learner": "igtree"},
    "tribl2": {"learner": "tribl2"},
}
"""IB1 keeps as much as TRIBL2, and takes minutes to classify a shard."""
MODEL = "model"
SHARD_BYTES = 2 << 10
"""Of the memory-based models, whose workers grow with their first document alone."""
LABELLED = 2
"""Shards of the memory-based models, and trials of each kind."""
ASKED = 300
"""Instances that a trial classifies."""


def main() -> None:
    """Measures and prints."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    save("memory", {"rows": [*models(), *trials()]})


def models() -> Iterator[dict[str, Any]]:
    """Workers that count, or label: with a CRF of newspaper names, and with memory-based trigrams of chunks."""
    both = labelled_corpora()
    shards = plan(both.train)
    yield row("counting", COUNT, CountParts(), shards)
    documents, _ = read_documents(shards)
    with tempfile.TemporaryDirectory() as folder:
        sgd.train(documents, settings=SgdSettings(features="finkel", passes=2), out=Path(folder) / MODEL)
        yield row("CRF", *labelling(Path(folder), both.train, None, "certify"))
    train, test = corpora("chunks")
    for name, given in LEARNERS.items():
        settings = TrigramSettings.model_validate({"windows": "chunks"} | given)
        with tempfile.TemporaryDirectory() as folder:
            trigram.train(train, settings=settings, out=Path(folder) / MODEL)
            write_corpus(test, Path(folder) / "test", source="test")
            yield row(name, *labelling(Path(folder), Path(folder) / "test", SHARD_BYTES, "window"))


def labelling(
    folder: Path, corpus: Path, shard_bytes: int | None, engine: str
) -> tuple[AnyTask, LabelParts, Sequence[Unit]]:
    """The task, its parts with a folder's model, and shards: all of a corpus, or the first few of so many bytes."""
    model = load_model(folder / MODEL)
    shards = plan(corpus) if shard_bytes is None else plan(corpus, shard_bytes=shard_bytes)[:LABELLED]
    key = RunKey(settings=RunSettings(engine=engine), model=model.digest, constraints="none", code="none")
    (sample,) = some_documents(shards, key.settings.text, model, 1)
    return LABEL, LabelParts(model, Unconstrained(), key, FolderStorage(folder / "store"), sample), shards


def trials() -> Iterator[dict[str, Any]]:
    """Workers that try settings on all of the chunks' training tokens but a fifth."""
    train, _ = corpora("chunks")
    for name, given in LEARNERS.items():
        settings = TrigramSettings.model_validate({"windows": "chunks"} | given)
        yield row(f"trial of {name}", TRIALS, *trial_of(train, settings))


def trial_of(train: Sequence[Document], settings: TrigramSettings) -> tuple[TrialParts, Sequence[Unit]]:
    """Parts, and trials that classify few."""
    sample = Sample.of(train, settings)
    sample = sample._replace(asked=sample.asked[:ASKED], wanted=sample.wanted[:ASKED])
    return TrialParts(SAMPLING, sample, settings), [TrialGroup(SAMPLING, (settings,), sample.tokens)] * LABELLED


def row(name: str, task: AnyTask, parts: Any, units: Sequence[Unit]) -> dict[str, Any]:
    """MiB of one worker: what it has to unpickle for itself, its peak, and what it asks for."""
    asked = memory_of(task, parts)
    own, peak = (asked - BASE - task.builds(parts)) / GROWTH, 0.0
    with cluster(None, workers=1) as running:
        for done in running.run(task, units, parts):
            if done.error is not None:
                raise SystemExit(done.failure)
            peak = max(peak, *map(peak_of, ray_workers(os.getpid())))
    found = {"own": own / 2**20, "peak": peak, "asked": asked / 2**20}
    print(f"{name:24}", *(f"{kind} {size:7.1f}" for kind, size in found.items()), flush=True)
    return {"name": name} | found


def peak_of(pid: int) -> float:
    """MiB that a process has for itself, and what it has given back since its peak."""
    status = Path(f"/proc/{pid}/status").read_text()
    kib = {name: int(size) for name, size in re.findall(r"^(\w+):\s+(\d+) kB$", status, re.MULTILINE)}
    return (kib["RssAnon"] + kib["VmHWM"] - kib["VmRSS"]) / 1024


if __name__ == "__main__":
    main()
