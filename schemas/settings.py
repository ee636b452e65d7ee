"""What all options have in common; each kind of them stands beside what it sets.

YAML files and the command line parse into such classes, each option with its default, range and meaning once.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field, model_validator

LARGEST_TOLERANCE = 0.01
"""Nats of gap within which an answer may be called optimal: such a labelling is at most 1 % likelier."""


class Settings(BaseModel):
    """Base of all settings: frozen; an unknown key is an error, and so is a number that is infinite or none."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class EngineSettings(Settings):
    """Base of every engine's options; also the options of an engine that has none.

    Of options that hold options of their own (`CertifySettings.sampler`) some may be given: the others stay
    what they are there, not what they are by themselves.
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
"""How tokenizers are named: NAME, or NAME==VERSION."""


class ReaderSettings(Settings):
    """Base of every reader's options."""


class TextSettings(ReaderSettings):
    """Raw text: a Parquet file or folder, or .txt files."""

    id_column: str = Field("doc_id", description="Parquet column of document ids (strings).")
    text_column: str = Field("text", description="Parquet column of texts (strings).")
    language: str = Field("en", description="Language of the text (ISO 639-1), for tokenizer and sentence splitter.")
    tokenizer: str | None = Field(
        None,
        pattern=TOKENIZER,
        description="Tokenizer that cuts raw text, as NAME or NAME==VERSION; `concord list tokenizers` has them "
        "(default: the one that the model states, or words).",
    )
    sentence_limit: int = Field(500, ge=1, description="Longest sentence, in tokens; longer ones are cut.")
    split_hyphens: bool = Field(
        default=False, description="Cut words at hyphens too, for a model of a corpus that is cut so."
    )


class Validation(StrEnum):
    """Which documents judge what is chosen while a model is trained: they are not learned from meanwhile."""

    RANDOM = "random"
    """Those that a hash of their ids names: of the same time as the others."""
    LATER = "later"
    """The last ones in the order of the corpus, judged by a model of those before: of another time, if it has dates."""


class TrainerSettings(Settings):
    """Base of every trainer's options.

    ``corpora`` names the options that are a corpus which is read beside the labelled one, ``files`` those that are
    other places that are read: files, or folders.
    """

    corpora: ClassVar[tuple[str, ...]] = ()
    files: ClassVar[tuple[str, ...]] = ()

    @property
    def learning(self) -> str:
        """Whether the model is learned under constraints, and how: Chang et al.'s names, l without."""
        return "l"
