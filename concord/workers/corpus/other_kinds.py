"""What to do with a file that is neither a corpus nor plain text."""

from __future__ import annotations

from pathlib import Path

_TEXTS = "`concord ingest text {name} --text-column NAME --out FOLDER` makes a corpus of its texts"
_COLUMNS = "`concord ingest columns`, or conll, reads files with a token a line"
_UNPACK = "unpack it, and give the .txt files in it"
_AS_TEXT = "save its text as a .txt file, or its texts as a column of a Parquet file"
OTHER_KINDS = (
    dict.fromkeys((".csv", ".jsonl", ".ndjson"), _TEXTS)
    | dict.fromkeys((".tsv", ".conll", ".bio", ".iob", ".iob2"), _COLUMNS)
    | dict.fromkeys((".gz", ".zip", ".bz2", ".xz", ".zst", ".tar", ".tgz", ".7z"), _UNPACK)
    | dict.fromkeys((".json", ".xml", ".html", ".htm", ".pdf", ".rtf", ".doc", ".docx", ".odt", ".xlsx"), _AS_TEXT)
)
"""Advice for files that are not plain text, by the end of their names."""


def advice_for(path: str) -> str | None:
    """What to do with a file, by the end of its name; None for one that is not of `OTHER_KINDS`."""
    advice = OTHER_KINDS.get(Path(path).suffix.lower())
    return None if advice is None else advice.replace("{name}", path)
