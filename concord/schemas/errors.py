"""Base classes of the errors that a user can mend; every such error of concord derives from one of them.

Their messages name addresses and quote other libraries, so passwords and keys are masked as they are made.
"""

from __future__ import annotations

import traceback

from concord.schemas.secrets import redact
from concord.schemas.visible import visible


class _InOneLine(BaseException):
    """Base of exceptions that a notebook shows without their tracebacks."""

    _told = False

    def _render_traceback_(self) -> list[str]:
        """Lines that IPython shows in place of the traceback: the message. Asked again, by ``%tb``: the traceback."""
        if not self._told:
            self._told = True
            return [visible(f"{type(self).__name__}: {self}")]
        return visible(redact("".join(traceback.format_exception(self)))).splitlines()


class _MaskedError(_InOneLine, Exception):
    """Base of errors whose messages mask passwords and keys in addresses."""

    def __init__(self, *args: object) -> None:
        super().__init__(*(redact(part) if isinstance(part, str) else part for part in args))


class FlowInterrupt(_InOneLine, KeyboardInterrupt):
    """A flow that was interrupted, by Ctrl-C or in a notebook; its workers have ended."""


class UsageError(_MaskedError, ValueError):
    """An unknown name, or an option with a value that it does not take."""


class InputError(_MaskedError, ValueError):
    """A corpus, model, constraint file or folder that cannot be used."""


class UnknownDocumentError(InputError, KeyError):
    """An id that no document of a run has."""

    def __str__(self) -> str:
        """The message, which a `KeyError` would put between quotes."""
        return str(self.args[0])


class CorpusError(InputError):
    """A corpus that cannot be read: names the file, what is wrong with it and what to do."""

    @classmethod
    def missing(cls, place: object) -> CorpusError:
        """The error for a path or URI with nothing there."""
        return cls(f"{place}: no such file or folder; check the path, or make the corpus with `concord ingest`")


USERS_CODE_RAISES = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)
"""Errors by which a user's function may refuse a document; any other error is no fault of the document."""

USERS_FUNCTION_RAISES = (Exception, SystemExit)
"""What a user's function that was named by the user may raise at a document: a package that it needs may be missing, or
its own file. Each such document becomes a reject; Ctrl-C is no error of the function."""


def error_line(error: BaseException) -> str:
    """Type and text of an error in one line, whatever the text's own lines."""
    return " ".join(f"{type(error).__name__}: {error}".split())


class DocumentError(InputError):
    """One document that cannot be labelled; ``reason`` says why, and goes into its reject.

    It may be found among many documents. By itself the document must fail in the same way, with the same
    reason. ``doc_id`` is there where it was known.
    """

    def __init__(self, reason: str, doc_id: str | None = None) -> None:
        super().__init__(reason if doc_id is None else f"document {doc_id!r}: {reason}")
        self.reason = reason
        self.doc_id = doc_id


class TrainingError(InputError):
    """Nothing can be learned from the documents, or the settings do not fit them."""


class ServiceError(_MaskedError):
    """Ray, Prefect or MLflow cannot be started or reached."""


class DriftedError(_MaskedError):
    """Figures of answers, or the number of documents that are gone, are beyond their thresholds, or a rollback took
    the answers back."""


class ShardsError(_MaskedError):
    """Some shards of a run failed; the others are done."""
