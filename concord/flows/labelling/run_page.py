"""The page of a finished run: its tables are read shard by shard, beside those of another run and of gold."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from concord.flows.errors import RunFolderError, TrackingError
from concord.flows.labelling.evaluate import evaluate
from concord.flows.nights.record import read_record
from concord.flows.runfolder.layout import MANIFEST, times_of
from concord.flows.runfolder.lists import ListedShard
from concord.flows.runfolder.published import Published, published
from concord.flows.runfolder.runfolder import read_sources
from concord.flows.screen.progress import meter
from concord.schemas.columns import DOC_ID, LABELS, PREDICTIONS_LAYOUT, REJECTS_LAYOUT, SENTENCE_STARTS, TIMES_LAYOUT
from concord.schemas.errors import InputError
from concord.schemas.requests import LabelRequest
from concord.schemas.run import ShardReport
from concord.schemas.run_report import RunReport
from concord.schemas.secrets import place_of, short_name
from concord.workers.corpus.plan import plan
from concord.workers.corpus.shards import read_batch
from concord.workers.labelling.output import PREDICTIONS, REJECTS
from concord.workers.report.answered import ShardTables
from concord.workers.report.other_labels import OtherLabels
from concord.workers.report.page import PageTitle, page, viewer
from concord.workers.report.places import TypedPlaces, gold_places, places_of
from concord.workers.report.sections import RunFacts, at_a_glance, in_words, sections_of
from concord.workers.report.summary import RunSummary
from concord.workers.storage.scratch import scratch_folder
from concord.workers.storage.storage import Storage, read_if_there
from concord.workers.storage.tables import table_like

if TYPE_CHECKING:
    from concord.flows.tracking.tracking import Run

PAGE = "report.html"
"""Name of the page among MLflow's artifacts of a run."""

SHOWN_LAYERS = ("this run", "model alone", "other run", "gold")
"""Names of the labellings that the viewer shows."""


class RunPage(NamedTuple):
    """The page of a run: its bytes, and how many documents the run has and the viewer shows."""

    data: bytes
    documents: int
    shown: int


def run_page(run: str, *, against: str | None = None, gold: str | None = None, promise: str | None = None) -> RunPage:
    """The page of the run in a folder.

    - ``against``: folder of another run of the same corpus
    - ``gold``: corpus with gold labels
    - ``promise``: what a review promises, in a sentence

    The same run gives the same bytes. Documents are read shard by shard; with ``gold`` the labels of all of them are in
    memory, as `evaluate` needs them. Raises `PublishedError` if a folder has no whole run, and as `evaluate`.
    """
    done = published(run)
    other = None if against is None else published(against)
    evaluation = None if gold is None else evaluate(run, gold, against=against).report
    summary = RunSummary(
        other=None if other is None else OtherLabels(_answers(other)),
        gold=None if gold is None else OtherLabels(_gold(gold)),
        plain=gold is not None and _is_plain(gold),
    )
    with meter("reading answers", done.manifest.totals.documents) as bar:
        for shard in _shards(done):
            summary.add(shard)
            bar.advance(len(shard.predictions), note="documents")
    record = read_record(done.storage)
    facts = RunFacts(
        run=place_of(run),
        against=None if against is None else place_of(against),
        gold=None if gold is None else place_of(gold),
        sources=_sources(done.storage),
        manifest=done.manifest,
        nights=record.nights,
        night=None if (manifest := read_if_there(done.storage, MANIFEST)) is None else record.with_manifest(manifest),
        evaluation=evaluation,
        promise=promise,
    )
    totals, documents = done.manifest.totals, summary.chosen.documents()
    head = PageTitle(f"Run {short_name(run)}", in_words(facts, summary), at_a_glance(facts))
    return RunPage(
        page(head, sections_of(facts, summary), viewer(SHOWN_LAYERS, documents, totals.documents)),
        totals.documents,
        len(documents),
    )


def keep_page(run: Run, report: RunReport, totals: ShardReport, request: LabelRequest) -> RunReport:
    """Uploads the page of a published run to MLflow, with gold where the corpus has it; the report with its address.

    MLflow that has gone away is told of at the end of the run, not here. Raises as `run_page`.
    """
    gold = request.corpus if totals.documents and totals.with_gold == totals.documents else None
    made = run_page(request.out, gold=gold)
    with scratch_folder() as folder, suppress(TrackingError):
        (folder / PAGE).write_bytes(made.data)
        run.file(folder / PAGE)
        return report.model_copy(update={"report_page": run.artifact_page(PAGE)})
    return report


def _sources(storage: Storage) -> dict[str, str]:
    """What a run was made from, as it was named; nothing where that is not known any more."""
    try:
        sources = read_sources(storage)
    except RunFolderError:
        return {}
    rules = ", ".join(sources.constraints) or "those trained with the model"
    return {"corpus": sources.corpus, "model": sources.model, "constraints": rules}


def _shards(run: Published) -> Iterator[ShardTables]:
    for shard in run.shards():
        (path, digest) = _file_in(shard, PREDICTIONS) or ("", "")
        if not path:
            continue
        table = run.table(path, digest, PREDICTIONS_LAYOUT)
        rejects = _rejects(run, shard)
        bad = {reject["row"] for reject in rejects}
        place = shard.place
        rows = [row for row in range(place.first_row, place.first_row + place.rows) if row not in bad]
        there = len(rows) == len(table)
        yield ShardTables(
            place.file if there else None,
            rows if there else None,
            path,
            table,
            _times(run, path, len(table)),
            rejects,
        )


def _file_in(shard: ListedShard, folder: str) -> tuple[str, str] | None:
    """A shard's file in one of the folders of a run, and its SHA-256; None where it has none."""
    return next((file for file in shard.files.items() if file[0].startswith(f"{folder}/")), None)


def _rejects(run: Published, shard: ListedShard) -> list[dict[str, Any]]:
    file = _file_in(shard, REJECTS)
    return [] if file is None else run.table(*file, REJECTS_LAYOUT).to_pylist()


def _times(run: Published, path: str, documents: int) -> pa.Table | None:
    """The times of a file of predictions; None where they are gone or of other documents: no digest is kept of them."""
    data = read_if_there(run.storage, times_of(path))
    table = None if data is None else table_like(data, TIMES_LAYOUT.required.with_metadata(TIMES_LAYOUT.metadata))
    return table if table is not None and len(table) == documents else None


def _answers(run: Published) -> Iterator[tuple[str, TypedPlaces]]:
    """The places of each document of another run."""
    for table in run.tables(PREDICTIONS, PREDICTIONS_LAYOUT):
        yield from zip(table[DOC_ID].to_pylist(), places_of(table[LABELS], table[SENTENCE_STARTS]), strict=True)


def _gold(corpus: str) -> Iterator[tuple[str, TypedPlaces]]:
    """The places of each document of a corpus with gold labels."""
    for shard in plan(corpus):
        batch, _ = read_batch(shard)
        if not len(batch):
            continue
        if batch.labels is None:
            raise InputError(
                f"{shard.file.path}: no gold labels (column {LABELS!r}) to compare with; leave --corpus out"
            )
        yield from gold_places(batch)


def _is_plain(corpus: str) -> bool:
    """Whether the corpus says that each of its labels is a type by itself."""
    batches = (read_batch(shard)[0] for shard in plan(corpus))
    first = next((batch for batch in batches if len(batch)), None)
    return first is not None and first.labels is not None and first.labels.plain
