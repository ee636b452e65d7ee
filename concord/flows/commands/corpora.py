"""Corpora made from other formats, and made-up corpora."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from concord.flows.inputs.jobs import folder_place
from concord.flows.inputs.output_places import check_output_place
from concord.flows.screen.progress import meter
from concord.schemas.columns import REJECTS_LAYOUT
from concord.schemas.errors import UsageError
from concord.schemas.folders import FolderKind
from concord.schemas.settings import ReaderSettings
from concord.workers.corpus.ingestion import REJECTS_NAME, IngestReport, ingest, write_corpus
from concord.workers.corpus.parquet import read_tables
from concord.workers.corpus.settings import IngestSettings
from concord.workers.synthesis.made_up import Kind, synthesize


def synthesize_corpus(
    out: Path, *, documents: int, seed: int, kind: Kind, layout: IngestSettings, overwrite: bool
) -> IngestReport:
    """Writes a made-up corpus with gold labels. Documents are streamed, so that any number of them is possible.

    Raises `RunFolderError` for a URI.
    """
    folder_place(str(out))
    check_output_place(out, [], makes=FolderKind.CORPUS)
    with _shown("writing", documents) as show:
        items = synthesize(documents, seed=seed, kind=kind)
        return write_corpus(items, out, source=f"synthesize {kind}", layout=layout, overwrite=overwrite, progress=show)


def ingest_corpus(
    reader: str,
    source: str,
    out: Path,
    *,
    settings: ReaderSettings,
    layout: IngestSettings,
    overwrite: bool = False,
    append: bool = False,
) -> IngestReport:
    """Reads a source into a corpus. The length of the source is not known beforehand, so progress is a count.

    Raises `RunFolderError` for a URI, and `UsageError` for a corpus that is to be replaced and added to.
    """
    if overwrite and append:
        raise UsageError("--append adds to a corpus, and --overwrite replaces it; give one of the two")
    folder_place(str(out))
    check_output_place(out, [source], makes=FolderKind.CORPUS)
    with _shown("reading", None) as show:
        return ingest(
            *(reader, source, out), settings=settings, layout=layout, overwrite=overwrite, append=append, progress=show
        )


def first_reason(out: Path) -> str:
    """Reason of the first reject of a corpus. Raises the errors of reading."""
    for table in read_tables(out / REJECTS_NAME, REJECTS_LAYOUT):
        for row in table.slice(0, 1).to_pylist():
            return f"{row['source']}: {row['reason']}"
    return "there are no documents in it"


@contextmanager
def _shown(title: str, total: int | None) -> Iterator[Callable[[IngestReport], None]]:
    """Shows progress for the length of the block; yields a function that moves it to the state of a report."""
    with meter(title, total) as bar:
        read = 0

        def show(report: IngestReport) -> None:
            nonlocal read
            bar.advance(report.read - read, note=f"documents, {report.tokens:,} tokens, {report.rejected} rejected")
            read = report.read

        yield show
