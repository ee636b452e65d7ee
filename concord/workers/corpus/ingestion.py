"""`concord ingest`: a reader's stream of documents into a Parquet corpus."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple, Self

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from concord.schemas.columns import (
    CORPUS_LAYOUT,
    DOC_ID,
    LABELS,
    REJECTS_LAYOUT,
    SOURCE_SPANS,
    SPAN_TYPE,
    TOKENIZER_KEY,
    Misfit,
    Notice,
    Reject,
    SchemaError,
    check,
    rejects_table,
    table_from_batch,
)
from concord.schemas.document import Batch, Column, Document, SourceSpans
from concord.schemas.errors import InputError
from concord.schemas.labels import OUTSIDE, LabelSet
from concord.schemas.layers import with_layers_of
from concord.schemas.names import unknown
from concord.schemas.settings import RawTextSettings, ReaderSettings
from concord.schemas.shown import fields_html, fields_text
from concord.workers.corpus.fitting import check_form, with_what_it_must_have
from concord.workers.corpus.parquet import (
    WRITE_OPTIONS,
    ids_as_text,
    open_parquet,
    parquet_files,
    read_row_group,
    read_tables,
    table_bytes,
    with_text_ids,
)
from concord.workers.corpus.readers.reader import ReaderItem
from concord.workers.corpus.readers.registry import READERS
from concord.workers.corpus.settings import IngestSettings, MarkedTextSettings
from concord.workers.corpus.shape import Shape
from concord.workers.corpus.shards import stored_ids
from concord.workers.corpus.tokenizers.registry import pinned
from concord.workers.storage.files import naming, second_name, staged, write_whole
from concord.workers.storage.folder_kinds import REJECTS_NAME as REJECTS_NAME

PART_NAME = re.compile(r"part-(\d+)\.parquet")
DEFAULT_LAYOUT = IngestSettings()


WITHOUT_GOLD = (
    "have no gold labels, and commands that read this corpus leave them out: mark them (a .spacy file says with "
    "doc.ents = [] that there is nothing), or ingest them into a folder of their own"
)


class IngestError(InputError):
    """An ingest cannot start; the message says why and what to do."""


class Ceiling(NamedTuple):
    """Best score that token labels can reach on gold spans of characters, as counts of different spans.

    - ``source``: gold spans of the source.
    - ``labels``: spans that the token labels stand for.
    - ``both``: spans that are the same in both.
    """

    source: int = 0
    labels: int = 0
    both: int = 0

    @classmethod
    def of(cls, batch: Batch) -> Ceiling:
        """Counts of a batch; zeros where it has no labels, or where the source's gold is token labels already."""
        if batch.labels is None or batch.source_spans is None:
            return cls()
        names = LabelSet.infer(batch.labels.strings())
        spans = names.spans(names.encode(batch.labels.strings()), batch.sentence_starts)
        source, from_tokens = batch.source_spans.distinct(), SourceSpans.said(batch, spans, names.types).distinct()
        return cls(len(source), len(from_tokens), len(source & from_tokens))

    def plus(self, other: Ceiling) -> Ceiling:
        """The counts of both together."""
        return Ceiling(*(a + b for a, b in zip(self, other, strict=True)))

    @property
    def f1(self) -> float:
        """F1 of perfect token labels by the measure ``offsets``, a fraction; 1 if there is no span."""
        return 2 * self.both / (self.source + self.labels) if self.source + self.labels else 1.0


def _line_of(reason: str, files: Sequence[str]) -> str:
    """A notice with the first file that it is about, and the number of others."""
    others = f" and {len(files) - 1:,} other files" if len(files) > 1 else ""
    return f"{files[0]}{others}: {reason}"


def _partly_labelled(documents: Sequence[Document], *, marked: bool) -> pa.Table:
    """A corpus table of documents of which some have no gold: their labels and source spans are null.

    - ``marked``: has the corpus source spans?
    """
    gold = [document for document in documents if document.labels is not None]
    marked = marked or any(document.source_spans is not None for document in gold)
    table = table_from_batch(Batch.of([_with_gold(document, marked=marked) for document in documents]))
    there = pa.array([document.labels is not None for document in documents])
    for name in (LABELS, *SOURCE_SPANS):
        place = table.schema.get_field_index(name)
        if place >= 0:
            column = pc.if_else(there, table.column(place), pa.scalar(None, table.schema.types[place]))
            table = table.set_column(place, table.schema.field(place), column)
    return table


def _with_gold(document: Document, *, marked: bool) -> Document:
    """The document, with labels that say nothing if it has none."""
    if document.labels is not None:
        return document
    spans = SourceSpans.of([]) if marked else None
    return replace(document, labels=Column.encode([OUTSIDE] * len(document)), source_spans=spans)


class IngestReport(NamedTuple):
    """Counts of an ingest: documents ``read`` = ``written`` + ``rejected``; tokens and sentences written.

    - ``misfits``: number of gold spans of written documents that token labels cannot express as they are, by reason.
    - ``ceiling``: best score that labels can reach because of these; None where documents have no gold.
    - ``notices``: sentences about the source that its user should know although it was read.
    """

    read: int = 0
    written: int = 0
    rejected: int = 0
    tokens: int = 0
    sentences: int = 0
    misfits: Mapping[str, int] = MappingProxyType({})
    ceiling: Ceiling | None = None
    notices: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return fields_text(type(self).__name__, self._asdict())

    def _repr_html_(self) -> str:
        return fields_html(type(self).__name__, self._asdict())


def ingest(
    reader: str,
    source: str | Path,
    out: str | Path,
    *,
    settings: ReaderSettings | None = None,
    layout: IngestSettings = DEFAULT_LAYOUT,
    overwrite: bool = False,
    append: bool = False,
    progress: Callable[[IngestReport], None] | None = None,
) -> IngestReport:
    """Writes ``part-00000.parquet``, ... and ``_rejects.parquet`` into the folder ``out``.

    ``out`` appears when all is written, or not at all. The same source gives the same bytes. A
    second document with a ``doc_id`` seen before is rejected. ``progress`` is called after each
    row group. Raises `IngestError` where the reader is unknown or ``out`` is not empty (unless
    ``overwrite`` and it holds a corpus), `CorpusError` and `SchemaError` where the source cannot
    be read.

    With ``append`` the parts of the corpus that is there stay as they are, and others follow. A document whose
    ``doc_id`` is there is rejected. The report counts what is new. The same command again changes nothing more.
    """
    if reader not in READERS:
        raise IngestError(unknown("reader", reader, READERS))
    entry = READERS[reader]
    reader_settings = settings or entry.settings()
    check_form(reader, str(source), reader_settings)
    items = _read(source, with_what_it_must_have(reader, str(source), entry.read(str(source), reader_settings)))
    return write_corpus(
        items,
        out,
        source=str(source),
        layout=layout,
        overwrite=overwrite,
        append=append,
        progress=progress,
        tokenizer=_cut_by(reader_settings),
    )


def _cut_by(settings: ReaderSettings) -> str | None:
    """Tokenizer of a reader of texts, NAME==VERSION; None for a reader of tokens. Raises `TokenizerError`."""
    return pinned(settings.tokenizer) if isinstance(settings, RawTextSettings | MarkedTextSettings) else None


def _read(source: str | Path, items: Iterable[ReaderItem]) -> Iterator[ReaderItem]:
    """Passes the items on; an error of the disk while they are read names the source."""
    with naming(Path(source)):
        yield from items


def write_corpus(
    items: Iterable[ReaderItem],
    out: str | Path,
    *,
    source: str,
    layout: IngestSettings = DEFAULT_LAYOUT,
    overwrite: bool = False,
    append: bool = False,
    progress: Callable[[IngestReport], None] | None = None,
    tokenizer: str | None = None,
) -> IngestReport:
    """Writes a stream of documents and rejects as a corpus, see `ingest`; ``source`` is for the rejects.

    The corpus states the ``tokenizer`` that cut its texts, NAME==VERSION.
    """
    target = Path(out).expanduser().absolute()
    check_target(target, overwrite=overwrite, append=append)
    ids: set[str] = set()
    rejects: list[Reject] = []
    written = False
    with staged(target) as folder, _PartWriter(folder, layout, tokenizer) as parts:
        before = parts.take_over(target) if append else frozenset()
        for item in items:
            if isinstance(item, Misfit):
                parts.misfits[item.reason] += written
                parts.lost += written and not item.in_text
            elif isinstance(item, Notice):
                parts.notices.setdefault(item.reason, []).append(item.source)
            elif isinstance(item, Document) and item.doc_id.encode() in before:
                written = False
                rejects.append(Reject(source, None, item.doc_id, "doc_id is in the corpus already"))
            elif isinstance(item, Document) and item.doc_id in ids:
                written = False
                rejects.append(Reject(source, None, item.doc_id, "doc_id was seen before in this ingest"))
            elif isinstance(item, Document):
                written = True
                ids.add(item.doc_id)
                if parts.add(item) and progress is not None:
                    progress(parts.report(len(rejects)))
            else:
                rejects.append(item)
        parts.flush()
        others = _other_rejects(target, rejects) if append else []
        write_whole(folder / REJECTS_NAME, table_bytes(rejects_table([*rejects, *others])))
    report = parts.report(len(rejects))
    if progress is not None:
        progress(report)
    return report


def _other_rejects(target: Path, rejects: Sequence[Reject]) -> list[Reject]:
    """The rejects of the corpus that is there, without those of the list."""
    if not (target / REJECTS_NAME).exists():
        return []
    rows = [row for table in read_tables(target / REJECTS_NAME, REJECTS_LAYOUT) for row in table.to_pylist()]
    new_rejects = set(rejects)
    return [reject for reject in (Reject(**row) for row in rows) if reject not in new_rejects]


def check_target(target: Path, *, overwrite: bool, append: bool, ways: str = ", --append or --overwrite") -> None:
    """Raises `IngestError` for a place where no corpus can be written; ``ways``: options that would allow it."""
    if not target.exists():
        return
    if not target.is_dir():
        raise IngestError(f"{target}: is a file; give a folder")
    entries = sorted(p.name for p in target.iterdir())
    if entries == [REJECTS_NAME]:
        return  # all that an ingest leaves which could read nothing, and no corpus
    if entries and not overwrite and not append:
        raise IngestError(f"{target}: is not empty; give another folder{ways}")
    strange = [n for n in entries if n != REJECTS_NAME and not (n.startswith("part-") and n.endswith(".parquet"))]
    if strange:
        raise IngestError(f"{target}: holds {strange[0]!r}, which is no part of a corpus; left as it is")


class _PartWriter:
    """Collects documents into row groups and row groups into part files; counts what it wrote."""

    def __init__(self, folder: Path, layout: IngestSettings, tokenizer: str | None) -> None:
        self.folder = folder
        self.stated = {} if tokenizer is None else {TOKENIZER_KEY: tokenizer.encode()}
        self.layout = layout
        self.pending: list[Document] = []
        self.pending_tokens = self.documents = self.tokens = self.sentences = self.files = 0
        self.lost = self.without_gold = 0
        self.misfits: Counter[str] = Counter()
        self.notices: dict[str, list[str]] = {}
        self.shape = Shape()
        self.ceiling: Ceiling | None = None
        self.schema: pa.Schema | None = None
        self.sink: pa.NativeFile | None = None
        self.writer: pq.ParquetWriter | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def take_over(self, corpus: Path) -> frozenset[bytes | None]:
        """Goes on after the parts of a corpus, which are linked into the folder; returns the ids of its documents.

        Raises `CorpusError` for a damaged part, `SchemaError` for one of no corpus, and `IngestError` where its texts
        were cut by another tokenizer.
        """
        ids: set[bytes | None] = set()
        for path in sorted(corpus.glob("part-*.parquet")):
            (file,) = parquet_files(path)
            parquet = open_parquet(file)
            self.schema = with_text_ids(parquet.schema_arrow, DOC_ID)
            check(self.schema, CORPUS_LAYOUT, source=file.path)
            cut_by, own = ((meta or {}).get(TOKENIZER_KEY, b"none") for meta in (self.schema.metadata, self.stated))
            if cut_by != own:
                fault = f"its tokenizer is {cut_by.decode(errors='replace')}, and this source's is {own.decode()}"
                raise IngestError(f"{path}: {fault}; give another folder")
            for row_group in range(parquet.num_row_groups):
                table = read_row_group(parquet, file, row_group, [DOC_ID])
                ids.update(stored_ids(ids_as_text(table, DOC_ID)[DOC_ID]))
            second_name(path, self.folder / path.name)
            number = PART_NAME.fullmatch(path.name)  # others may have written parts of other names
            self.files = max(self.files, int(number[1]) + 1 if number else 0)
        return frozenset(ids)

    def add(self, document: Document) -> bool:
        """Adds a document; returns whether it completed a row group."""
        self.pending.append(document)
        self.pending_tokens += len(document)
        if len(self.pending) < self.layout.group_documents and self.pending_tokens < self.layout.group_tokens:
            return False
        self.flush()
        return True

    def flush(self) -> None:
        """Writes the pending documents as a row group. Raises `SchemaError` where columns change."""
        if not self.pending:
            return
        gold = [document for document in self.pending if document.labels is not None]
        batch = Batch.of(self.pending)
        if len(gold) == len(batch) or not (gold or self.ceiling is not None):
            table = table_from_batch(batch)
        else:
            table = _partly_labelled(self.pending, marked=self.schema is not None and SPAN_TYPE in self.schema.names)
            self.without_gold += len(batch) - len(gold)
        table = table.replace_schema_metadata((table.schema.metadata or {}) | self.stated)
        if self.schema is None:
            self.schema = table.schema
        table = with_layers_of(table, self.schema)
        if table.schema != self.schema:
            raise SchemaError(
                f"document {self.pending[0].doc_id!r}: columns {table.schema.names} differ from the corpus's "
                f"{self.schema.names}; ingest sources with different columns into different folders"
            )
        if self.writer is None:
            self.sink = pa.OSFile(str(self.folder / f"part-{self.files:05d}.parquet"), "wb")
            self.writer = pq.ParquetWriter(self.sink, self.schema, **WRITE_OPTIONS)
            self.files += 1
        self.writer.write_table(table, row_group_size=len(table))
        if gold:
            self.ceiling = (self.ceiling or Ceiling()).plus(Ceiling.of(Batch.of(gold)))
        self.documents += len(table)
        self.shape = self.shape.with_batch(batch)
        self.tokens += self.pending_tokens
        self.sentences += sum(len(d.sentence_starts) for d in self.pending)
        self.pending, self.pending_tokens = [], 0
        if self.sink is not None and self.sink.tell() >= self.layout.part_bytes:
            self._close()

    def report(self, rejected: int) -> IngestReport:
        """Report of everything written so far."""
        misfits = MappingProxyType(dict(sorted((+self.misfits).items())))
        read = self.documents + rejected
        notices = [*(_line_of(reason, files) for reason, files in self.notices.items()), *self.shape.notices]
        if self.without_gold:
            notices.append(f"{self.without_gold:,} of the {self.documents:,} documents {WITHOUT_GOLD}")
        ceiling = None if self.ceiling is None else self.ceiling.plus(Ceiling(source=self.lost))
        return IngestReport(
            read, self.documents, rejected, self.tokens, self.sentences, misfits, ceiling, tuple(notices)
        )

    def _close(self) -> None:
        if self.writer is not None and self.sink is not None:
            self.writer.close()
            self.sink.close()
        self.writer = self.sink = None
