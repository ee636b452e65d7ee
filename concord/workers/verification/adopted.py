"""Verification of a shard whose answers another program gave: it is written again from the adopted answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from concord.schemas.columns import DOC_ID, Reject
from concord.schemas.run import RunKey, ShardMarker
from concord.workers.constraints.constraint_set import ConstraintSet
from concord.workers.corpus.shards import Shard
from concord.workers.labelling.output import in_place
from concord.workers.labelling.shard import label_shard
from concord.workers.models.model import Model
from concord.workers.storage.storage import FolderStorage
from concord.workers.storage.tables import read_unthreaded
from concord.workers.verification.claims import Row, Standing
from concord.workers.verification.shard import Verdict, WrongField

ADOPTED_WORD = "that the file of answers was what the program said"


def verify_adopted(
    shard: Shard,
    rows: Sequence[Row],
    rejects: Sequence[Reject],
    *,
    model: Model,
    constraints: ConstraintSet,
    key: RunKey,
) -> Verdict:
    """The verdict on the rows and rejects of a shard. Raises the errors of `label_shard`."""
    wanted, marker = _written_again(shard, model, constraints, key)
    faults = [*_wrong_rows(wanted, rows), *_wrong_rejects(in_place(marker.rejects, shard), rejects)]
    return Verdict(
        faults=faults,
        standings=Counter({Standing.OPEN: len(rows)}),
        rejected=len(rejects),
        report=None if faults else marker.report,
    )


def _written_again(
    shard: Shard, model: Model, constraints: ConstraintSet, key: RunKey
) -> tuple[list[Row], ShardMarker]:
    with TemporaryDirectory() as folder:
        store = FolderStorage(Path(folder))
        marker = label_shard(shard, model=model, constraints=constraints, key=key, store=store).marker
        table = read_unthreaded((store.root / marker.files[0].path).read_bytes())
    return table.to_pylist(), marker


def _wrong_rows(wanted: Sequence[Row], rows: Sequence[Row]) -> Iterator[WrongField]:
    ids = [row[DOC_ID] for row in rows]
    if ids != [row[DOC_ID] for row in wanted]:
        yield WrongField(None, DOC_ID, f"are {len(ids)} documents, not the {len(wanted)} that were answered, in order")
        return
    for row, right in zip(rows, wanted, strict=True):
        # By how values are written, as NaN equals nothing.
        wrong = next((name for name, value in right.items() if repr(row.get(name)) != repr(value)), None)
        if wrong is not None:
            reason = f"is {row.get(wrong)!r:.40}, and by the adopted answer {right[wrong]!r:.40}"
            yield WrongField(row[DOC_ID], wrong, reason)


def _wrong_rejects(wanted: Sequence[Reject], rejects: Sequence[Reject]) -> Iterator[WrongField]:
    there, right = Counter(rejects), Counter(wanted)
    for reject in (there - right).elements():
        yield WrongField(reject.doc_id, "row", f"{reject.row} is no such reject", rejected=True)
    for reject in (right - there).elements():
        reason = f"{reject.row} is not among the rejects, though {reject.reason}"
        yield WrongField(reject.doc_id, "row", reason, rejected=True)
