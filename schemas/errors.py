"""What kinds of errors a user can mend. Every such error of concord's derives from one of these.

Their messages name addresses and quote other libraries, so passwords and keys are masked as they are made.
"""

from __future__ import annotations

from concord.schemas.secrets import redact


class _MaskedError(Exception):
    """An error whose message holds no secret of an address, wherever it is shown, logged or kept."""

    def __init__(self, *args: object) -> None:
        super().__init__(*(redact(part) if isinstance(part, str) else part for part in args))


class UsageError(_MaskedError, ValueError):
    """A name that nothing has, or an option with a value that it does not take."""


class InputError(_MaskedError, ValueError):
    """A corpus, model, constraint file or folder that cannot be used."""


class CorpusError(InputError):
    """A corpus that cannot be read: names the file, what is wrong with it and what to do."""

    @classmethod
    def missing(cls, place: object) -> CorpusError:
        """Of a path or URI that leads nowhere."""
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
"""What a function of the user's may raise at what it cannot take; anything else is no fault of a document."""


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
    """Documents that nothing can be learned from, or settings that do not go with them."""


class ServiceError(_MaskedError):
    """Ray, Prefect or MLflow cannot be started or reached."""


class ShardsError(_MaskedError):
    """Some shards of a run failed; the others are done."""
