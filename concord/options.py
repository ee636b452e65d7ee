"""Options given by name, which are checked before anything is done."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import ValidationError

from concord.flows.errors import faults
from concord.flows.options import OptionError
from concord.schemas.settings import Settings

S = TypeVar("S", bound=Settings)


def checked(kind: type[S], options: Mapping[str, Any], *, owner: str) -> S:
    """Options as an instance of a settings class. Raises `OptionError`, an `InputError`, which names the known ones."""
    try:
        return kind.model_validate(dict(options))
    except ValidationError as error:
        known = ", ".join(kind.model_fields) or "none"
        raise OptionError(f"options of {owner}: {faults(error)}; there are {known}") from error
