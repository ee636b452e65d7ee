"""Small runs in this process, of made up rows, that are published one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from concord.flows.runfolder.delta_table import ANSWER_COLUMNS
from concord.flows.runfolder.feed_reader import changes_of, feed_files, files_since
from concord.flows.runfolder.layout import MANIFEST, STORE, RunOutput, files_seen
from concord.flows.runfolder.markers import Markers
from concord.flows.runfolder.published import published
from concord.flows.runfolder.runfolder import find_done, publish
from concord.schemas.changes import AddedChanges
from concord.schemas.columns import CORPUS_LAYOUT, PREDICTIONS_LAYOUT
from concord.schemas.document import Batch
from concord.schemas.run import RuleStrengths
from concord.workers.constraints.constraint_set import ConstraintSet
from concord.workers.corpus.correction_file import NO_FILE, CorrectionFile
from concord.workers.corpus.plan import plan
from concord.workers.labelling.output import PREDICTIONS, TIMES
from concord.workers.labelling.shard import label_shard
from concord.workers.storage.object_storage import ObjectStorage
from tests.support.made_runs import HashModel, consistency, key_of

CONSTRAINTS = consistency()
WORDS = ["Ada", "met", "Babbage", "in", "London", "with", "Lovelace", "again"]
Row = tuple[str, list[str]]
"""A row of a corpus: id and words; without words it is a reject."""


class Biased(HashModel):
    """A model by its number: the higher, the more entities."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.digest = f"model {number}"

    def potentials(self, batch: Batch) -> Any:
        found = super().potentials(batch)
        found.unary[:, 1:] += 1.5 * self.number
        return found


@dataclass(frozen=True)
class Night:
    """What a run is made of."""

    rows: Sequence[Row]
    model: int = 0
    seed: int = 0
    constraints: ConstraintSet = CONSTRAINTS
    rules: RuleStrengths = field(default_factory=RuleStrengths)
    corrections: CorrectionFile = NO_FILE
    shard_bytes: int = 60
    backwards: bool = False

    def into(self, out: RunOutput, folder: Path) -> AddedChanges | None:
        """Labels what is not done, and publishes."""
        markers, store = self.found_in(out, folder), out.storage.below(STORE)
        for shard in list(markers.todo())[:: -1 if self.backwards else 1]:
            own: dict[str, Any] = {"model": Biased(self.model), "constraints": self.constraints, "key": markers.key}
            markers.add(label_shard(shard, store=store, **own).marker)
        return publish(out, markers, rules=self.rules).changes

    def found_in(self, out: RunOutput, folder: Path) -> Markers:
        """The markers of what is done; writes the corpus."""
        corpus = folder / "corpus.parquet"
        starts = [[0] if words else [] for _, words in self.rows]
        columns = ([doc_id for doc_id, _ in self.rows], [words for _, words in self.rows], starts)
        pq.write_table(pa.table(columns, schema=CORPUS_LAYOUT.required), corpus)
        key = key_of(self.constraints, engine="viterbi", options={}, seed=self.seed)
        key = key.model_copy(update={"model": Biased(self.model).digest})
        shards = plan(corpus, shard_bytes=self.shard_bytes, corrections=self.corrections)
        return find_done(out, shards, key)


def rows_of(*numbers: int, words: int = 0) -> list[Row]:
    """Rows by number; ``words`` cuts other words from the list."""
    return [(f"doc-{n}", [WORDS[(n + words + i) % len(WORDS)] for i in range(3 + n % 4)]) for n in numbers]


State = dict[str, dict[str, Any]]
Files = dict[str, bytes | None]


def predicted(out: RunOutput) -> State:
    """The rows of predictions by id."""
    tables = published(out.storage.uri).tables(PREDICTIONS, PREDICTIONS_LAYOUT)
    return {row["doc_id"]: row for table in tables for row in table.to_pylist()}


def read(out: RunOutput, since: int | None = None) -> list[dict[str, Any]]:
    storage = out.storage
    return [row for table in changes_of(storage, files_since(storage, since)) for row in table.to_pylist()]


def merged(out: RunOutput) -> State:
    """What a consumer has that merges all files, one after the other, as `docs/table.md` says."""
    state: State = {}
    for file in feed_files(out.storage):
        rows = [row for table in changes_of(out.storage, [file]) for row in table.to_pylist()]
        if rows and rows[0]["since"] == 0:
            state.clear()
        for row in rows:
            assert (row["doc_id"] in state) == (row["labels_before"] is not None)
            if row["what"] == "gone":
                del state[row["doc_id"]]
            else:
                state[row["doc_id"]] = {"labels": row["labels"], "entities": row["entities"]}
    return state


def seen(out: RunOutput) -> Files:
    """All that readers of a run see, times and the feed apart; in a folder there is nothing else."""
    paths = published(out.storage.uri).files()
    if not isinstance(out.storage, ObjectStorage):
        assert {path for path in files_seen(out.storage) if not path.startswith(f"{TIMES}/")} == set(paths)
    return {path: out.storage.read(path) for path in sorted({*paths, MANIFEST})}


def in_table(state: State) -> State:
    """The rows as the Delta table has them."""
    return {doc_id: {name: row[name] for name in row if name in ANSWER_COLUMNS} for doc_id, row in state.items()}


def answers(state: State) -> State:
    return {doc_id: {name: row[name] for name in ("labels", "entities")} for doc_id, row in state.items()}
