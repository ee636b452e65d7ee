"""Base classes of all settings; each settings class itself stands beside the code that it sets.

YAML files and the command line are parsed into these classes, which name default, range and meaning of each option.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Any, ClassVar, NamedTuple, Self, get_args, get_origin

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic.fields import FieldInfo

LARGEST_TOLERANCE = 0.01
"""Nats of gap within which an answer may be called optimal: such a labelling is at most 1 % likelier."""


class Settings(BaseModel):
    """Base of all settings: frozen; an unknown key is an error, and so is a number that is infinite or none."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class SettingsField(NamedTuple):
    """A field of settings, or of settings within them; ``path`` are the names that lead to it, its own last."""

    path: tuple[str, ...]
    info: FieldInfo

    @property
    def default(self) -> Any:
        """The field's default; `inspect.Parameter.empty` where it is needed."""
        return inspect.Parameter.empty if self.info.is_required() else self.info.get_default(call_default_factory=True)


def takes_several(annotation: Any) -> bool:
    """Does a field of this annotation take a list of values?"""
    return any(get_origin(kind) is tuple for kind in (annotation, *get_args(annotation)))


def fields_within(kind: type[Settings], above: tuple[str, ...] = ()) -> Iterator[SettingsField]:
    """The fields of settings, and in the place of settings within them those of these."""
    for name, info in kind.model_fields.items():
        inner = info.annotation
        if isinstance(inner, type) and issubclass(inner, Settings):
            yield from fields_within(inner, (*above, name))
        else:
            yield SettingsField((*above, name), info)


def put_within(values: dict[str, Any], path: Sequence[str], value: Any) -> None:
    """Puts a field's value where it stands in the values of settings."""
    for name in path[:-1]:
        values = values.setdefault(name, {})
    values[path[-1]] = value


class EngineSettings(Settings):
    """Base of every engine's options; also the options of an engine without any.

    An option may have options of its own (`CertifySettings.sampler`). If some of these are given, the others keep the
    defaults of the outer option, not those of their own class.
    """

    @model_validator(mode="before")
    @classmethod
    def _fill_in(cls, given: Any) -> Any:
        if not isinstance(given, Mapping):
            return given
        parts = {
            name: field.default for name, field in cls.model_fields.items() if isinstance(given.get(name), Mapping)
        }
        inner = {name: part.model_dump() | given[name] for name, part in parts.items() if isinstance(part, Settings)}
        return {**given, **inner}


TOKENIZER = r"^[^\s=]+(==[^\s=]+)?$"
"""Pattern of a tokenizer's name: NAME, or NAME==VERSION."""


class ReaderSettings(Settings):
    """Base of every reader's options."""


class WriterSettings(Settings):
    """Base of every writer's options; also the options of a writer without any."""

    marks: bool = Field(default=True, description="Mark what the constraints changed, and why?")


def _column_names(value: Any) -> Any:
    """Names of columns that are joined by commas, in one text or in several. Raises `ValueError`."""
    parts = [value] if isinstance(value, str) else value
    if not isinstance(parts, list | tuple) or not all(isinstance(part, str) for part in parts):
        return value
    names = [name for part in parts for name in part.split(",")]
    if "" in names or len(set(names)) < len(names):
        raise ValueError("give names of columns, each of them once")
    return tuple(names)


class RawTextSettings(ReaderSettings):
    """Raw text: a Parquet file or folder, or .txt files."""

    id_column: str = Field("doc_id", description="Column of document ids (strings).")
    text_column: str = Field("text", description="Column of texts (strings).")
    language: str = Field("en", description="Language of the text (ISO 639-1), for tokenizer and sentence splitter.")
    tokenizer: str | None = Field(
        None,
        pattern=TOKENIZER,
        description="Tokenizer that cuts raw text, as NAME or NAME==VERSION; `concord list tokenizers` has them "
        "(default: that of the model, or else words).",
    )
    sentence_limit: int = Field(500, ge=1, description="Longest sentence, in tokens; longer ones are cut.")
    split_hyphens: bool = Field(
        default=False, description="Cut words at hyphens too, for a model whose training corpus was cut like that."
    )


class TextSettings(RawTextSettings):
    """What a run reads of a corpus: raw text, and columns beside it."""

    keep_columns: Annotated[tuple[str, ...], BeforeValidator(_column_names)] = Field(
        (),
        description="Columns of the corpus that the output has, too, such as source and date, joined by commas.",
    )

    @property
    def without_kept(self) -> TextSettings:
        """The same for a corpus that need not have the columns that are kept."""
        return self.model_copy(update={"keep_columns": ()})


class Validation(StrEnum):
    """Documents that judge choices during training; meanwhile the model does not learn from them."""

    RANDOM = "random"
    """Random documents, by a hash of their ids: of the same time as the others."""
    LATER = "later"
    """The last documents of the corpus, judged by a model of the earlier ones: later texts, if files are in order."""


class TrainerSettings(Settings):
    """Base of every trainer's options.

    - ``corpora``: names of the options that are a second corpus, read beside the labelled one.
    - ``files``: names of the options that are other files or folders to read.
    """

    corpora: ClassVar[tuple[str, ...]] = ()
    files: ClassVar[tuple[str, ...]] = ()

    @model_validator(mode="after")
    def _places_have_names(self) -> Self:
        for name in self.files:
            value = getattr(self, name)
            if "" in (value if isinstance(value, tuple) else (value,)):
                raise ValueError(f"{name}: is empty; give a file or a name, or leave it out")
        return self

    @property
    def quick(self) -> Self:
        """The settings for a first look: what was not given is as it trains fastest."""
        return self

    @property
    def learning(self) -> str:
        """Name that Chang et al. (2008) give to this way of learning under constraints; ``l`` for learning without."""
        return "l"

    def places(self, names: Iterable[str] | None = None) -> list[str]:
        """Places that a trainer reads beside its documents, by all of these options or by some names."""
        found = list[str]()
        for name in (*self.corpora, *self.files) if names is None else names:
            given = getattr(self, name)
            found += map(str, given) if isinstance(given, list | tuple) else [str(given)] if given else []
        return found
