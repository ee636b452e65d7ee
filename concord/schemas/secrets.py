"""Passwords, keys and tokens in addresses: masked where text is shown or kept, left out where places are compared."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import PurePath

MASK = "***"

_AUTHORITY = re.compile(
    r"\b(?P<scheme>[a-z][a-z0-9+.-]*):(?P<slashes>/{1,2})(?P<user>"
    r"(?<=//)[^\s/?#\"<>]*"
    # A URI that went through `Path` has one slash left; ``models:/NAME@ALIAS`` has no password.
    r"|[^\s/?#\"<>:]*:[^\s/?#\"<>]*"
    # A password with a raw slash in it, which no library accepts, but which stands in the message that says so.
    r"|[^\s/?#\"<>@:]+:(?!\d+(?:[/?#\s]|$))[^\s\"<>@]*"
    r")@",
    re.IGNORECASE,
)
_QUERY = re.compile(
    r"(?P<name>[?&;](?:[^=&;#?\s]*(?:token|secret|passw|pwd|key|signature|credential|auth|connect)[^=&;#?\s]*"
    r"|sig|sas|pass))=(?P<value>[^&;#\s\"<>]*)",
    re.IGNORECASE,
)
_CONTAINER = ("abfs", "abfss")
"""Schemes whose user part names a place: ``abfs://CONTAINER[:KEY]@ACCOUNT``."""


def redact(text: str) -> str:
    """The text with `MASK` in place of the secrets of its addresses.

    Secrets are the part before the ``@`` of a host, and the values of query parameters whose names contain
    key, token, password, signature and the like. Text without an address, or with masked ones, is unchanged.
    """
    return _QUERY.sub(rf"\g<name>={MASK}", _AUTHORITY.sub(_masked, text))


def place_of(uri: str) -> str:
    """The address without its secrets: the same for every key that it is read with."""
    masked = redact(uri).replace(f":{MASK}@", "@").replace(f"/{MASK}@", "/")
    base, question, query = masked.partition("?")
    kept = [part for part in query.split("&") if not part.endswith(f"={MASK}")]
    return base + question + "&".join(kept) if any(kept) else base


def short_name(place: str) -> str:
    """Name of a corpus, model or output for people: the last part of its place."""
    return PurePath(place_of(place).partition("?")[0]).name


@contextmanager
def masked_errors() -> Iterator[None]:
    """Context manager and decorator: masks the secrets in errors that leave the block, and in their causes, since all
    of them are logged."""
    try:
        yield
    except Exception as error:
        shown = _masked_error(error)
        if shown is error:
            raise
        raise shown from shown.__cause__


def _masked_error(error: BaseException) -> BaseException:
    """The error itself if it needs no mask, or else another one with the masked text; causes are masked too."""
    said = redact(str(error))
    shown = error if said == str(error) else _copy(error, said).with_traceback(error.__traceback__)
    if error.__context__ is not None:
        shown.__context__ = _masked_error(error.__context__)
    if error.__cause__ is not None:
        shown.__cause__ = _masked_error(error.__cause__)
    return shown


def _copy(error: BaseException, said: str) -> BaseException:
    if not isinstance(error, OSError):
        return RuntimeError(f"{type(error).__name__}: {said}")
    if error.errno is None:
        return type(error)(said)
    if error.filename is None:
        return type(error)(error.errno, redact(str(error.strerror)))
    return type(error)(error.errno, redact(str(error.strerror)), redact(str(error.filename)))


def _masked(found: re.Match[str]) -> str:
    start = f"{found['scheme']}:{found['slashes']}"
    if found["scheme"].lower() not in _CONTAINER:
        return f"{start}{MASK}@"
    container, colon, _ = found["user"].partition(":")
    return f"{start}{container}{colon and ':' + MASK}@"
