"""Predictions of a run: as documents, as an Arrow table, or as a pandas frame."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from concord.flows.commands.export_predictions import export_predictions
from concord.flows.inputs.options import OptionError, validated
from concord.flows.runfolder.feed_reader import changes_of, feed_files, files_since, read_changes
from concord.flows.runfolder.published import Published, published
from concord.schemas.columns import PREDICTIONS_LAYOUT
from concord.schemas.errors import UnknownDocumentError
from concord.schemas.feed import CHANGES_SCHEMA
from concord.schemas.names import closest, unknown
from concord.schemas.reports import ExportReport
from concord.schemas.shown import (
    broken_lines,
    fields_html,
    fields_text,
    lines_html,
    marked_html,
    marked_text,
    marked_tokens,
    proven,
)
from concord.workers.corpus.writers.registry import WRITERS
from concord.workers.labelling.output import PREDICTIONS

if TYPE_CHECKING:
    import pandas as pd

MOST_COMPARED = 1000
"""Ids of documents that an unknown one is compared with."""

CONSTRAINT_PENALTIES = pa.schema(
    [
        ("name", pa.string()),
        *((name, pa.float64()) for name in ("degree_before", "degree", "penalty_before", "penalty")),
    ]
)
SPAN_CHANGES = pa.schema(
    [
        ("doc_id", pa.string()),
        *((name, pa.int64()) for name in ("start", "end")),
        *((name, pa.string()) for name in ("text", "before", "after")),
    ]
)

LAST_CHANGED = pa.schema([("doc_id", pa.string()), ("run", pa.int64()), ("model_digest", pa.string())])


class PredictedDocument(NamedTuple):
    """One document of a run.

    - ``doc_id``: its id
    - ``tokens`` (N,): its tokens
    - ``labels`` (N,): the label of each token
    - ``entities``: mappings with type, start and end (in tokens, end exclusive), char_start, char_end and text
    - ``violations``: the constraints that the answer breaks: mappings with name, degree, and penalty in nats
    - ``score``: score of the answer, in nats
    - ``gap``: nats by which another labelling can score higher, at most
    - ``status``: how much is proven
    - ``row``: everything that was written, by column
    """

    doc_id: str
    tokens: list[str]
    labels: list[str]
    entities: list[Mapping[str, Any]]
    violations: list[Mapping[str, Any]]
    score: float
    gap: float
    status: str
    row: Mapping[str, Any]

    def __repr__(self) -> str:
        return "\n".join([marked_text(*self._marked()), *self._lines()])

    def _repr_html_(self) -> str:
        return f"{marked_html(*self._marked())}{lines_html(self._lines())}"

    def _marked(self) -> tuple[str, Sequence[Mapping[str, Any]]]:
        return marked_tokens(self.tokens, self.entities)

    def _lines(self) -> list[str]:
        """What is proven of the answer, and what it breaks."""
        return [f"{self.doc_id}: {proven(self.status, self.gap)}", *broken_lines(self.violations)]


class Predictions:
    """The predictions of a run; its files are read when they are needed, and checked against their digests.

    >>> found = concord.read_predictions("out")
    >>> len(found)
    20
    """

    def __init__(self, run: Published) -> None:
        self._run = run

    def __len__(self) -> int:
        """The number of labelled documents."""
        return sum(table.num_rows for table in self._tables())

    def __iter__(self) -> Iterator[PredictedDocument]:
        """The documents, in the order of the corpus. Raises `InputError` where a file is missing or damaged.

        >>> next(iter(found)).status
        'optimal'
        """
        for table in self._tables():
            for row in table.to_pylist():
                yield _document(row)

    def __getitem__(self, doc_id: str | int) -> PredictedDocument:
        """The document with this id; a number is the id that is written so. Raises `InputError`, also a `KeyError`."""
        name, ids = str(doc_id), list[str]()
        for document in self:
            if document.doc_id == name:
                return document
            ids.append(document.doc_id)
        meant = closest(name, ids[:MOST_COMPARED])
        guess = "" if meant is None else f"; did you mean {meant!r}?"
        raise UnknownDocumentError(f"{self._run.uri}: none of the {len(ids):,} documents is called {name!r}{guess}")

    def to_arrow(self) -> pa.Table:
        """A table with one row for each document, and all columns that were written.

        >>> found.to_arrow().num_rows
        20
        """
        return pa.concat_tables(list(self._tables()))

    def to_pandas(self) -> pd.DataFrame:
        """A pandas frame with one row for each document, and all columns that were written.

        >>> len(found.to_pandas())
        20
        """
        frame: pd.DataFrame = self.to_arrow().to_pandas()
        return frame

    def entities(self) -> pa.Table:
        """A table with one row for each entity: doc_id, type, start, end, char_start, char_end, text."""
        return _flat(self.to_arrow(), "entities")

    def violations(self) -> pa.Table:
        """A table with one row for each constraint that an answer breaks: doc_id, name, degree, penalty (nats)."""
        flat = _flat(self.to_arrow(), "constraints")
        return flat.filter(pa.compute.greater(flat["degree"], 0.0))

    def penalties(self) -> pa.Table:
        """A table with one row for each constraint: what the model alone would have broken, and what the answers break.

        Columns: name, degree_before, degree, penalty_before, penalty (nats), summed over all documents.

        >>> found.penalties().column_names
        ['name', 'degree_before', 'degree', 'penalty_before', 'penalty']
        """
        rows = self._run.manifest.totals.constraints
        return pa.Table.from_pylist(
            [{"name": name, **figures.model_dump()} for name, figures in rows.items()], schema=CONSTRAINT_PENALTIES
        )

    def changes(self, before: Predictions) -> pa.Table:
        """A table with one row for each span that only one of two runs over a corpus has, or has with another type.

        Columns: doc_id, start, end (in tokens, end exclusive), text, before, after; a type is null where the run does
        not have the span. Documents that one of the runs does not have are left out.

        >>> found.changes(found).num_rows
        0
        """
        own, other = _types_by_document(self), _types_by_document(before)
        rows = [
            {**span._asdict(), "before": former.get(span), "after": now.get(span)}
            for doc_id, now in own.items()
            if (former := other.get(doc_id)) is not None
            for span in sorted({*now, *former})
            if now.get(span) != former.get(span)
        ]
        return pa.Table.from_pylist(rows, schema=SPAN_CHANGES)

    def changes_since(self, run: int | None = None) -> pa.Table:
        """A table with one row for each document that is new, gone, or has another text or answer since a run.

        - ``run``: number of a run in the folder, as the column ``run`` has it; the changes of all later ones are
          summed, and a document that changed and changed back is left out. Default: those of the last run that changed
          something, alone.

        Columns: run, since, doc_id, what (new, gone, text, answer), labels_before, labels, entities_before, entities,
        text_digest_before, text_digest, why, model_digest; see ``docs/table.md``. Raises `InputError` where the changes
        do not reach back that far: then read the predictions in full.

        >>> found.changes_since().column("what").unique().to_pylist()
        ['new']
        """
        storage = self._run.storage
        return pa.concat_tables([CHANGES_SCHEMA.empty_table(), *changes_of(storage, files_since(storage, run))])

    def last_changed(self) -> pa.Table:
        """A table with one row for each document: doc_id, run, model_digest.

        - ``run``: number of the run in which its text or answer last changed, as in `changes_since`; null where that is
          longer ago than the folder keeps changes
        - ``model_digest``: the model of that run

        Raises `InputError` as `changes_since`.

        >>> found.last_changed().column("run").unique().to_pylist()
        [1]
        """
        storage, last = self._run.storage, dict[str, tuple[int, str]]()
        for file in feed_files(storage):
            for table in read_changes(storage, file):
                columns = (table[name].to_pylist() for name in LAST_CHANGED.names)
                last |= {doc_id: (run, model) for doc_id, run, model in zip(*columns, strict=True)}
        ids = [doc_id for table in self._tables() for doc_id in table["doc_id"].to_pylist()]
        rows = [(doc_id, *last.get(doc_id, (None, None))) for doc_id in ids]
        return pa.Table.from_pylist([dict(zip(LAST_CHANGED.names, row, strict=True)) for row in rows], LAST_CHANGED)

    def to_form(
        self,
        form: str,
        out: str | PathLike[str],
        *,
        corpus: str | PathLike[str] | None = None,
        keep_columns: Sequence[str] = (),
        **options: Any,
    ) -> ExportReport:
        """Writes the predictions in the form of another program, see ``concord list writers``.

        - ``form``: name of a writer: conll, jsonl, docbin, labelstudio, presidio, doccano, brat, csv, or a package's
        - ``out``: file, or folder of brat
        - ``corpus``: that of the run, for its texts; without it they are the tokens with blanks between them
        - ``keep_columns``: columns of the corpus that are passed on
        - ``options``: options of the writer, such as ``marks=False``

        Raises `InputError` where a document cannot be written without a loss, or the corpus is another one.

        >>> found.to_form("doccano", "corrected.jsonl", corpus="corpora/test").documents
        20
        """
        if form not in WRITERS:
            raise OptionError(unknown("form", form, WRITERS))
        settings = validated(options, WRITERS[form].settings, owner=f"writer {form}")
        place = None if corpus is None else fspath(corpus)
        return export_predictions(
            self._run.uri, form, Path(out), settings=settings, corpus=place, keep_columns=keep_columns
        )

    def to_conll(self, out: str | PathLike[str], **options: Any) -> ExportReport:
        """Writes a token a line between tabs; as `to_form`."""
        return self.to_form("conll", out, **options)

    def to_jsonl(self, out: str | PathLike[str], **options: Any) -> ExportReport:
        """Writes a JSON object a line, as Prodigy and spaCy have them; as `to_form`."""
        return self.to_form("jsonl", out, **options)

    def to_docbin(self, out: str | PathLike[str], **options: Any) -> ExportReport:
        """Writes spaCy's ``.spacy`` file; as `to_form`."""
        return self.to_form("docbin", out, **options)

    def to_labelstudio(self, out: str | PathLike[str], **options: Any) -> ExportReport:
        """Writes Label Studio's tasks with predictions; as `to_form`."""
        return self.to_form("labelstudio", out, **options)

    def to_presidio(self, out: str | PathLike[str], **options: Any) -> ExportReport:
        """Writes a JSON object a line with Presidio's results; as `to_form`."""
        return self.to_form("presidio", out, **options)

    def to_doccano(self, out: str | PathLike[str], **options: Any) -> ExportReport:
        """Writes a JSON object a line with ``[start, end, label]``; as `to_form`."""
        return self.to_form("doccano", out, **options)

    def to_brat(self, out: str | PathLike[str], **options: Any) -> ExportReport:
        """Writes a folder of brat's texts and annotations; as `to_form`."""
        return self.to_form("brat", out, **options)

    def to_csv(self, out: str | PathLike[str], **options: Any) -> ExportReport:
        """Writes a table of spans, one a row; as `to_form`."""
        return self.to_form("csv", out, **options)

    @property
    def settings(self) -> Mapping[str, Any]:
        """The settings of the run: engine, options, seed and so on."""
        settings: Mapping[str, Any] = self._run.manifest.run.settings.model_dump(mode="json")
        return settings

    def __repr__(self) -> str:
        return fields_text("Predictions", self._fields())

    def _repr_html_(self) -> str:
        return fields_html("Predictions", self._fields())

    def _fields(self) -> Mapping[str, Any]:
        return {"run": self._run.uri, "documents": len(self), "engine": self.settings["engine"]}

    def _tables(self) -> Iterator[pa.Table]:
        return self._run.tables(PREDICTIONS, PREDICTIONS_LAYOUT)


def read_predictions(run: str | PathLike[str]) -> Predictions:
    """Opens the predictions in the folder of a run. Raises `InputError` where the folder has no complete run.

    >>> concord.read_predictions("out").entities().column_names[:2]
    ['doc_id', 'type']
    """
    return Predictions(published(fspath(run)))


class _Span(NamedTuple):
    """A place in a document, and its text."""

    doc_id: str
    start: int
    end: int
    text: str


def _types_by_document(predictions: Predictions) -> dict[str, dict[_Span, str]]:
    """The type of each span of each document."""
    return {
        document.doc_id: {
            _Span(document.doc_id, one["start"], one["end"], one["text"]): one["type"] for one in document.entities
        }
        for document in predictions
    }


def _document(row: Mapping[str, Any]) -> PredictedDocument:
    return PredictedDocument(
        doc_id=row["doc_id"],
        tokens=row["tokens"],
        labels=row["labels"],
        entities=row["entities"],
        violations=[one for one in row["constraints"] if one["degree"] > 0],
        score=row["objective"],
        gap=row["gap"],
        status=row["status"],
        row=row,
    )


def _flat(table: pa.Table, column: str) -> pa.Table:
    """A table of the items in a column of lists, each with the id of its document."""
    lists = table[column].combine_chunks()
    parents = pa.compute.list_parent_indices(lists)
    inner = pa.Table.from_struct_array(lists.flatten())
    return inner.add_column(0, "doc_id", table["doc_id"].take(parents))
