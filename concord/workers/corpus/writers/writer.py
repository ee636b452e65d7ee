"""Contract of writers: a writer is a function from documents to files of another program's form."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

from concord.schemas.errors import InputError
from concord.schemas.exported import ExportedDocument
from concord.schemas.settings import WriterSettings


class FormError(InputError):
    """A document cannot be written in a form without a loss; the message says what is in the way."""


class Piece(NamedTuple):
    """Bytes of a file; ``name`` is its place below the folder, with ``/``, and empty in forms of one file."""

    name: str
    content: bytes


class Writer(Protocol):
    """A writer: documents in another form."""

    def __call__(self, documents: Iterator[ExportedDocument], settings: Any) -> Iterator[Piece]:
        """The files, in pieces; those of one file come one after the other. Equal documents give equal bytes.

        ``settings`` is an instance of the writer's own settings class. Raises `FormError` where something of a document
        would be lost.
        """
        ...


class WriterEntry(NamedTuple):
    """A registry entry: the writer, its settings class, one line of help, and whether it makes a folder of files."""

    write: Writer
    settings: type[WriterSettings]
    summary: str
    folder: bool = False
