"""Files in a model folder: arrays and settings that are checked when they are read, and models inside a model.

What is wrong with one is a `ModelError` that names the file. Hashes have been compared before (`read_manifest`), but a
hash can be mended, so nothing in a file is believed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, Self, TypeVar

from numpy.typing import NDArray
from pydantic import BaseModel, ValidationError

from concord.schemas.labels import LabelSet
from concord.workers.models.arrays_file import ArrayKind, read_arrays
from concord.workers.models.folder import MANIFEST, Manifest, ModelError
from concord.workers.storage.files import write_whole

Content = TypeVar("Content", bound=BaseModel)


class FolderModel:
    """Base of models that hold the manifest of their folder, from which they have their digest.

    What they compute when it is used first (``cached_property``) belongs to a process and is not pickled.
    """

    manifest: Manifest

    @property
    def digest(self) -> str:
        """See `Model.digest`."""
        return self.manifest.digest

    @property
    def temperature(self) -> float:
        """See `HasTemperature`."""
        return self.manifest.temperature

    @property
    def outside_cost(self) -> float:
        """See `HasOutsideCost`."""
        return self.manifest.outside_cost

    def at(self, temperature: float) -> Self:
        """See `HasTemperature`; the two share what they have computed before temperature."""
        return self._with(temperature=temperature)

    def costing(self, outside_cost: float) -> Self:
        """See `HasOutsideCost`; the two share what they have computed before."""
        return self._with(outside_cost=outside_cost)

    def _with(self, **settings: float) -> Self:
        other = object.__new__(type(self))
        kept = {name: value for name, value in vars(self).items() if name != "digest"}
        vars(other).update(kept, manifest=self.manifest.model_copy(update=settings))
        return other

    def __getstate__(self) -> dict[str, Any]:
        kind = type(self)
        cached = {name for name in vars(self) if isinstance(getattr(kind, name, None), cached_property)}
        return {name: value for name, value in vars(self).items() if name not in cached}


@contextmanager
def parsing(path: Path) -> Iterator[None]:
    """Context manager that turns a `ValueError` of the block, which parses a file of a model, into a `ModelError`."""
    try:
        yield
    except ModelError:
        raise
    except ValidationError as error:
        raise ModelError(f"{path}: damaged ({error.errors()[0]['msg']}); make the model again") from error
    except ValueError as error:
        raise ModelError(f"{path}: damaged ({error}); make the model again") from error


def saved_arrays(path: Path, kinds: Sequence[ArrayKind], **sizes: int) -> list[NDArray[Any]]:
    """Arrays of a model's file, see `read_arrays`. Raises `ModelError`."""
    with parsing(path):
        return read_arrays(path, kinds, **sizes)


def write_content(path: Path, content: BaseModel) -> None:
    """Writes settings as JSON, in one step. Raises `OutputError`."""
    write_whole(path, content.model_dump_json(indent=2).encode() + b"\n")


def saved_content(path: Path, kind: type[Content]) -> Content:
    """Settings of a model's file. Raises `ModelError`."""
    with parsing(path):
        return kind.model_validate_json(path.read_bytes())


def files_inside(folder: str, manifest: Manifest) -> list[str]:
    """Files of a model that is saved in a subfolder of another model's, by their paths from there."""
    return [f"{folder}/{file}" for file in (*manifest.files, MANIFEST)]


def check_labels(place: Path, labels: LabelSet, manifest: Manifest) -> None:
    """Raises `ModelError` where the labels at ``place``, a part of a model, are not those of its manifest."""
    if labels != manifest.label_set:
        raise ModelError(f"{place}: its labels are not those of {MANIFEST}; make the model again")
