"""Corpora: folders of Parquet files with one document in each row."""

from __future__ import annotations

from os import PathLike, fspath
from pathlib import Path
from typing import Any

from concord.flows.commands.corpora import ingest_corpus, synthesize_corpus
from concord.flows.inputs.options import OptionError, validated
from concord.workers.corpus.ingestion import IngestReport
from concord.workers.corpus.readers.registry import READERS
from concord.workers.corpus.settings import IngestSettings
from concord.workers.synthesis.made_up import Kind


def ingest(
    reader: str,
    source: str | PathLike[str],
    *,
    out: str | PathLike[str],
    overwrite: bool = False,
    append: bool = False,
    **options: Any,
) -> IngestReport:
    """Converts files of another format to a corpus; a document that cannot be read becomes a counted reject.

    - ``reader``: name of a reader, see ``concord list readers``
    - ``source``: file or folder to be read
    - ``out``: folder of the new corpus
    - ``overwrite``: may an older corpus in that folder be replaced?
    - ``append``: may documents be added to the corpus in that folder? Those that it has are rejected.
    - ``options``: options of the reader

    Raises `InputError` where the source cannot be used or ``out`` is not empty, and `OSError`.

    >>> report = concord.ingest("columns", "chunks.txt", out="corpora/chunks", columns=("tokens", "pos", "labels"))
    >>> report.read == report.written + report.rejected
    True
    """
    if reader not in READERS:
        raise OptionError(f"no reader is called {reader!r}; there are {', '.join(READERS)}")
    return ingest_corpus(
        reader,
        fspath(source),
        Path(out),
        settings=validated(options, READERS[reader].settings, owner=f"reader {reader}"),
        layout=IngestSettings(),
        overwrite=overwrite,
        append=append,
    )


def synthesize(
    out: str | PathLike[str], *, documents: int = 2000, kind: Kind = "news", seed: int = 0, overwrite: bool = False
) -> IngestReport:
    """Makes up a corpus of ``documents`` with gold labels, for trying things out; the same seed gives the same bytes.

    Raises the errors of `ingest`.

    >>> concord.synthesize("corpora/made-up", documents=20).written
    20
    """
    return synthesize_corpus(
        Path(out), documents=documents, seed=seed, kind=kind, layout=IngestSettings(), overwrite=overwrite
    )
