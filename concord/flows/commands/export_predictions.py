"""Predictions of a run in the forms of other programs, beside the texts and columns of the corpus."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from concord.flows.inputs.output_places import check_file_place, check_output_place
from concord.flows.runfolder.published import Published, published
from concord.flows.screen.progress import meter
from concord.schemas.columns import LABELS, PREDICTIONS_LAYOUT, PROBABILITY, VITERBI_CONSTRAINTS, VITERBI_LABELS
from concord.schemas.document import TOKENS, TokenizedText
from concord.schemas.errors import InputError, UsageError
from concord.schemas.exported import Change, ExportedDocument, ExportedSpan, Reason
from concord.schemas.labels import LabelSet
from concord.schemas.names import nearest, unknown
from concord.schemas.reports import ExportReport
from concord.schemas.settings import TextSettings, WriterSettings
from concord.workers.corpus.parquet import ParquetLocation, open_parquet
from concord.workers.corpus.plan import plan
from concord.workers.corpus.row_ranges import RowRanges
from concord.workers.corpus.shards import Shard, open_rows, read_batch, shard_columns
from concord.workers.corpus.writers.registry import WRITERS
from concord.workers.corpus.writers.writer import Piece
from concord.workers.labelling.output import PREDICTIONS
from concord.workers.storage.files import OutputError, staged, whole_file

NO_COLUMNS: Mapping[str, Any] = {}


class ExportError(InputError):
    """Predictions cannot be written in a form; the message says why and what to do."""


class _Beside(NamedTuple):
    """A document of the corpus: its text, if it has one, and the columns that are passed on."""

    doc_id: str
    tokens: Sequence[str]
    raw: TokenizedText | None
    columns: Mapping[str, Any]


def export_predictions(
    run: str,
    form: str,
    out: Path,
    *,
    settings: WriterSettings | None = None,
    corpus: str | None = None,
    keep_columns: Sequence[str] = (),
) -> ExportReport:
    """Writes the predictions of a run as a file, or as a folder, in the form of a writer.

    - ``corpus``: that of the run; without it texts are the tokens with blanks between them.
    - ``keep_columns``: columns of the corpus that are passed on.

    Raises `UsageError` for an unknown form or column, `ExportError` where the corpus is not that of the run,
    `FormError`, `OutputError`, and the errors of reading.
    """
    if form not in WRITERS:
        raise UsageError(unknown("form", form, WRITERS))
    if keep_columns and corpus is None:
        raise UsageError("--keep-columns passes columns of the corpus on; name the corpus, too: --corpus")
    entry = WRITERS[form]
    chosen = settings or entry.settings()
    if entry.folder:
        _check_folder(out, [run, corpus])
    else:
        check_file_place(out, [run, corpus])
    done = published(run)
    counts = dict.fromkeys(("documents", "spans", "changed", "removed"), 0)
    total = done.manifest.totals.documents
    with meter("writing", total) as bar:

        def counted() -> Iterator[ExportedDocument]:
            for document in exported(done, corpus, keep_columns):
                counts["documents"] += 1
                counts["spans"] += len(document.spans)
                counts["changed"] += sum(span.change is not Change.KEPT for span in document.spans)
                counts["removed"] += len(document.removed)
                yield document
                bar.advance(1, note="documents")

        pieces = entry.write(counted(), chosen)
        if entry.folder:
            _write_folder(out, pieces)
        else:
            with whole_file(out.expanduser()) as file:
                file.writelines(piece.content for piece in pieces)
    return ExportReport(**counts, form=form, out=str(out))


def _check_folder(out: Path, inputs: Sequence[str | None]) -> None:
    check_output_place(out, inputs, makes=None)
    target = out.expanduser()
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise OutputError(f"--out {out}: is not empty; give another folder")


def _write_folder(out: Path, pieces: Iterator[Piece]) -> None:
    names: set[str] = set()
    with staged(out.expanduser()) as folder:
        for piece in pieces:
            if piece.name.lower() in names:
                raise ExportError(f"two documents would be the file {piece.name!r}; give them other ids")
            names.add(piece.name.lower())
            (folder / piece.name).parent.mkdir(parents=True, exist_ok=True)
            (folder / piece.name).write_bytes(piece.content)


def exported(run: Published, corpus: str | None, keep_columns: Sequence[str] = ()) -> Iterator[ExportedDocument]:
    """The documents of a run, in the order of the corpus. Raises as `export_predictions`."""
    beside = None if corpus is None else _corpus(corpus, run.manifest.run.settings.text.without_kept, keep_columns)
    for table in run.tables(PREDICTIONS, PREDICTIONS_LAYOUT):
        for row in table.to_pylist():
            yield _document(row, None if beside is None else _of_corpus(row, beside, corpus))


def _of_corpus(row: Mapping[str, Any], corpus: Iterator[_Beside], place: str | None) -> _Beside:
    """The document of the corpus that a row of predictions is about; those between were rejected or left out."""
    found = next((document for document in corpus if document.doc_id == row["doc_id"]), None)
    if found is None or list(found.tokens) != row[TOKENS]:
        wrong = "is not there" if found is None else "has other tokens"
        raise ExportError(
            f"{place}: document {row['doc_id']!r} of the run {wrong}; give the corpus that was labelled, as it was"
        )
    return found


def _corpus(corpus: str, text: TextSettings, keep_columns: Sequence[str]) -> Iterator[_Beside]:
    rows: tuple[ParquetLocation, RowRanges] | None = None
    for shard in plan(corpus, text=text):
        batch, rejects = read_batch(shard, text=text)
        columns: list[Mapping[str, Any]] = [NO_COLUMNS] * len(batch)
        if keep_columns:
            if rows is None or rows[0] != shard.file:
                rows = shard.file, _kept_rows(shard, text, keep_columns)
            bad = {reject.row for reject in rejects}
            table = rows[1].read(shard.first_row, shard.rows).select(list(keep_columns))
            numbered = enumerate(table.to_pylist(), shard.first_row)
            columns = [values for row, values in numbered if row not in bad]
        for document, values in zip(batch, columns, strict=True):
            yield _Beside(document.doc_id, document.tokens, document.raw, values)


def _kept_rows(shard: Shard, text: TextSettings, keep_columns: Sequence[str]) -> RowRanges:
    """Reader of the ids and of the columns that are passed on. Raises `UsageError` for one that is not there."""
    whole = open_parquet(shard.file)
    for name in keep_columns:
        if name not in whole.schema_arrow.names:
            there = nearest(name, dict.fromkeys(whole.schema_arrow.names))
            raise UsageError(f"--keep-columns {name}: {shard.file.path} has no such column{there}")
    ids = shard_columns(open_rows(shard.file, text=text).schema, text, source=shard.file.path)[0]
    return RowRanges(whole, partial(open_parquet, shard.file), shard.file, list(dict.fromkeys([ids, *keep_columns])))


def _document(row: Mapping[str, Any], beside: _Beside | None) -> ExportedDocument:
    raw = TokenizedText.of_words(row[TOKENS]) if beside is None or beside.raw is None else beside.raw
    before = row.get(VITERBI_LABELS) or row[LABELS]
    alone = _spans(before, row["sentence_starts"])
    scores = row.get(PROBABILITY) or [None] * len(row["entities"])
    answer = {(entity["start"], entity["end"]) for entity in row["entities"]}
    text, start, end = raw
    return ExportedDocument(
        row["doc_id"],
        text,
        row[TOKENS],
        start.tolist(),
        end.tolist(),
        row["sentence_starts"],
        row[LABELS],
        before,
        [
            _span(raw, (entity["start"], entity["end"]), entity["type"], alone, score)
            for entity, score in zip(row["entities"], scores, strict=True)
        ],
        [
            _span(raw, place, kind, alone, None)._replace(change=Change.REMOVED)
            for place, kind in alone.items()
            if place not in answer
        ],
        _reasons(row) if before != row[LABELS] else (),
        NO_COLUMNS if beside is None else beside.columns,
    )


def _spans(labels: Sequence[str], sentence_starts: Sequence[int]) -> dict[tuple[int, int], str]:
    names = LabelSet.infer(labels)
    found = names.spans(names.encode(labels), np.array(sentence_starts, np.int64))
    places = zip(found.start.tolist(), found.end.tolist(), strict=True)
    return dict(zip(places, (names.types[kind] for kind in found.type.tolist()), strict=True))


def _span(
    raw: TokenizedText, place: tuple[int, int], kind: str, alone: Mapping[tuple[int, int], str], score: float | None
) -> ExportedSpan:
    """A span of the answer, beside what the model alone says of its place."""
    first, last = int(raw.start[place[0]]), int(raw.end[place[1] - 1])
    before = alone.get(place)
    change = Change.KEPT if before == kind else Change.ADDED if before is None else Change.RETYPED
    return ExportedSpan(*place, first, last, kind, raw.content[first:last], change, before, score)


def _reasons(row: Mapping[str, Any]) -> list[Reason]:
    after = {charge["name"]: charge["penalty"] for charge in row["constraints"]}
    saved = [
        Reason(charge["name"], math.inf if math.isinf(charge["penalty"]) else charge["penalty"] - after[charge["name"]])
        for charge in row.get(VITERBI_CONSTRAINTS) or ()
        if charge["name"] in after and charge["penalty"] > after[charge["name"]]
    ]
    return sorted(saved, key=lambda reason: (-reason.nats, reason.constraint))
