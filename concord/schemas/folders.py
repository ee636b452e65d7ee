"""Kinds of folders that commands make."""

from __future__ import annotations

from enum import StrEnum


class FolderKind(StrEnum):
    """Kind of a folder, as the folder says it itself (`workers.storage.folder_kinds`)."""

    MODEL = "model"
    RUN = "run"
    CORPUS = "corpus"
    SWEEP = "sweep"
    CYCLES = "codl"
    TABLES = "papers"
    CHALLENGE = "challenge"

    @property
    def phrase(self) -> str:
        """The kind as messages name it."""
        return _PHRASES[self]


_PHRASES = {
    FolderKind.MODEL: "the folder of a model",
    FolderKind.RUN: "the folder of a run",
    FolderKind.CORPUS: "the folder of a corpus",
    FolderKind.SWEEP: "the folder of a sweep",
    FolderKind.CYCLES: "the folder of `concord codl`",
    FolderKind.TABLES: "the folder of `concord papers`",
    FolderKind.CHALLENGE: "the folder of a challenge",
}
