"""Imports the answers of a tagger as a layer of a corpus: `concord import entities`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from concord.flows.inputs.jobs import folder_place
from concord.flows.inputs.options import OptionError, parse_options
from concord.flows.inputs.output_places import check_output_place
from concord.flows.screen.progress import meter
from concord.schemas.columns import CORPUS_LAYOUT, DOC_ID, batch_from_table, check
from concord.schemas.document import Document
from concord.schemas.errors import CorpusError
from concord.schemas.folders import FolderKind
from concord.schemas.labels import OUTSIDE
from concord.schemas.layers import ABOVE, LayerError, check_layer_name, layer_columns, layer_names, with_layers
from concord.schemas.names import unknown
from concord.schemas.reports import EntitiesReport
from concord.workers.corpus.fitting import check_form
from concord.workers.corpus.ingestion import REJECTS_NAME, check_target
from concord.workers.corpus.parquet import (
    WRITE_OPTIONS,
    ParquetLocation,
    ids_as_text,
    open_parquet,
    parquet_files,
    read_row_group,
    with_text_ids,
)
from concord.workers.corpus.readers.registry import READERS
from concord.workers.corpus.readers.span_files import read_spans
from concord.workers.corpus.taggers import SILENT, ImportTally, Reading, TaggerAnswers, read_answers
from concord.workers.features.derived import MADE_COLUMNS
from concord.workers.storage.files import copy, staged

NOTICES = 5
"""Notices of a source that are told."""


def import_entities(
    source: str,
    out: Path,
    *,
    form: str,
    name: str,
    corpus: str,
    names: Sequence[str] = (),
    options: Sequence[str] = (),
    reading: Reading = Reading.ANSWERS,
    overwrite: bool = False,
) -> EntitiesReport:
    """Writes the corpus with a layer ``name`` into the folder ``out``; a layer of that name is replaced.

    - ``form``: reader of the source, with its ``options``.
    - ``names``: the user's names for labels of the tagger, as THEIRS=YOURS.
    - ``reading``: what the answers are.

    Raises `LayerError` where no document has an answer, `OptionError`, the errors of reading, `IngestError` and
    `OutputError`.
    """
    check_layer_name(name)
    if name in MADE_COLUMNS:
        raise LayerError(f"--name {name}: features have a column of that name; take another")
    yours = label_names(names)
    place = Path(folder_place(str(out)))
    check_output_place(place, [source, corpus], makes=FolderKind.CORPUS)
    check_target(place, overwrite=overwrite, append=False, ways=" or --overwrite")
    files, tally = parquet_files(corpus), ImportTally()
    for file in files:
        _check(file, name)
    answers = tagger_answers(source, form, options, yours, tally, reading)
    layers: dict[str, None] = {}
    with staged(place) as folder, meter("writing the layer", None) as bar:
        for file in files:
            before = tally.documents
            layers |= dict.fromkeys(_with_layer(file, folder, name, answers))
            bar.advance(tally.documents - before, note="documents")
        answers.end()
        check_answered(tally, answers, source, corpus)
        rejects = Path(corpus) / REJECTS_NAME
        if rejects.is_file():
            copy(rejects, folder / REJECTS_NAME)
    return _report(tally, form, name, yours, tuple(layers), str(place))


def tagger_answers(
    source: str,
    form: str,
    options: Sequence[str],
    yours: Mapping[str, str],
    tally: ImportTally,
    reading: Reading = Reading.ANSWERS,
) -> TaggerAnswers:
    """The answers of a source, read by the reader ``form``. Raises `OptionError`, and the errors of reading."""
    if form not in READERS:
        raise OptionError(unknown("reader", form, READERS))
    settings = parse_options(options, READERS[form].settings, owner=f"reader {form}")
    if reading is Reading.CANDIDATES and READERS[form].read is not read_spans:
        raise OptionError(
            f"--candidates: reader {form} gives no scores; write JSON for --form spans, with a score a span"
        )
    check_form(form, source, settings, answers=True)
    with meter("reading answers", None):
        return TaggerAnswers(read_answers(form, source, settings, tally, reading), tally, yours, reading)


def label_names(pairs: Sequence[str]) -> dict[str, str]:
    """Names by the tagger's labels; of a label above several types all of these. Raises `OptionError`."""
    found: dict[str, str] = {}
    for pair in pairs:
        theirs, sign, yours = pair.partition("=")
        if not sign or not theirs.strip() or not yours.strip():
            raise OptionError(f"--map {pair}: want THEIRS=YOURS, such as COMPANY=ORG")
        if theirs.strip() in found:
            raise OptionError(f"--map {pair}: {theirs.strip()!r} is mapped twice; leave one out")
        types = [name.strip() for name in yours.split(",")]
        if len(types) > 1 and (not all(types) or OUTSIDE in types or len(set(types)) < len(types)):
            raise OptionError(f"--map {pair}: want the types that the label is above, each once, such as ENT=PER,ORG")
        found[theirs.strip()] = ABOVE.join(types)
    return found


def _check(file: ParquetLocation, name: str) -> None:
    """Raises `SchemaError` for a file of no corpus, `LayerError` where it has a column of the name that is no layer."""
    schema = with_text_ids(open_parquet(file).schema_arrow, DOC_ID)
    check(schema, CORPUS_LAYOUT, source=file.path)
    taken = [column for column in layer_columns(name) if column in schema.names]
    if taken and name not in layer_names(schema):
        raise LayerError(f"--name {name}: {file.path} has a column {taken[0]!r} that is no layer; take another name")


def _with_layer(file: ParquetLocation, folder: Path, name: str, answers: TaggerAnswers) -> list[str]:
    """Writes a file of the corpus with the layer, row group by row group; returns the layers that it has."""
    parquet, target = open_parquet(file), folder / file.name
    target.parent.mkdir(parents=True, exist_ok=True)
    columns = parquet.schema_arrow.names
    writer: pq.ParquetWriter | None = None
    first, layers = 0, list[str]()
    try:
        for row_group in range(parquet.num_row_groups):
            table = read_row_group(parquet, file, row_group, columns)
            layer = answers.layer(_documents(table, file.path, first))
            table = with_layers(table, [name], [layer])
            first += len(table)
            writer = writer or pq.ParquetWriter(target, table.schema, **WRITE_OPTIONS)
            writer.write_table(table, row_group_size=max(len(table), 1))
            layers = layer_names(table.schema)
    finally:
        if writer is not None:
            writer.close()
    return layers


def _documents(table: pa.Table, path: str, first: int) -> list[Document | None]:
    """The documents of a table by row; None for a row that cannot be read."""
    batch, rejects = batch_from_table(ids_as_text(table, DOC_ID), source=path, first_row=first)
    bad, good = {reject.row for reject in rejects}, iter(batch)
    return [None if first + row in bad else next(good) for row in range(len(table))]


def check_answered(tally: ImportTally, answers: TaggerAnswers, source: str, corpus: str) -> None:
    """Raises `CorpusError` where nothing could be read, and `LayerError` where no document has an answer."""
    if tally.rejects and not len(answers):
        raise CorpusError(f"none of the {len(tally.rejects):,} records can be read; the first: {tally.rejects[0].line}")
    if not len(answers) and (silent := tally.unused[SILENT]):
        raise LayerError(
            f"{source}: none of its {silent:,} records has entities, set or empty; write what the tagger says "
            "(a .spacy file keeps it with the attributes ENT_IOB and ENT_TYPE)"
        )
    if not tally.answered:
        raise LayerError(
            f"{source}: none of its {len(answers):,} answers is to a document of {corpus}, by id or by text; "
            "give the corpus that the tagger has seen, or --set id_key= for other ids"
        )


def never_said(yours: Mapping[str, str], tally: ImportTally) -> list[str]:
    """What is told of labels that the user has a name for, and no answer has."""
    labels = ", ".join(sorted(tally.labels)) or "nothing"
    never = sorted(yours.keys() - tally.labels.keys())
    return [f"--map: no answer says {', '.join(never)}; they say {labels}"] if never else []


def _report(
    tally: ImportTally, form: str, name: str, yours: dict[str, str], layers: tuple[str, ...], out: str
) -> EntitiesReport:
    unused = +tally.unused
    if missing := tally.documents - tally.answered:
        unused["documents of the corpus without an answer"] = missing
    notices = list(dict.fromkeys(f"{notice.source}: {notice.reason}" for notice in tally.notices))[:NOTICES]
    if not tally.labels:
        notices.append("the tagger marks nothing in any document; is that what it says, and all that the file has?")
    notices += never_said(yours, tally)
    return EntitiesReport(
        layer=name,
        form=form,
        documents=tally.documents,
        answered=tally.answered,
        spans=tally.spans,
        labels=dict(tally.labels.most_common()),
        unplaced=dict(+tally.unplaced),
        unused=dict(unused),
        unread=len(tally.rejects),
        unread_reason=tally.rejects[0].line if tally.rejects else None,
        names=yours,
        layers=layers,
        notices=tuple(notices),
        out=out,
    )
