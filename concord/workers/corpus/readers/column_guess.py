"""Options of readers that the first lines of a column file ask for: which column has labels, a header, comments."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from concord.schemas.columns import LABELS
from concord.schemas.document import TOKENS
from concord.schemas.label_names import has_prefix
from concord.schemas.labels import OUTSIDE, SPAN_PREFIXES
from concord.workers.corpus.readers.lines import SKIP

COMMENT = "#"
MISC_KEY = re.compile(r"(?:^|\|)([^=|]+)=([^|]*)")


def column_options(lines: Sequence[str], separator: str) -> Mapping[str, Any]:
    """Options of the reader of columns for lines of which one column has labels of spans; empty where none has.

    The last such column is taken where it is the last of all, and else the first.
    """
    comments = [line for line in lines if re.match(r"#+ ", line)]
    written = [line for line in lines if line.strip() and line not in comments and not line.startswith("-DOCSTART-")]
    rows = [line.split("\t") if separator == "tab" else line.split() for line in written]
    if not rows or len(rows[0]) < 2 or {len(row) for row in rows} != {len(rows[0])}:
        return {}
    columns = list(zip(*rows, strict=True))
    marked = [at for at, cells in enumerate(columns) if at and _are_labels(cells[1:])]
    if not marked:
        return {}
    at = marked[-1] if marked[-1] == len(columns) - 1 else marked[0]
    names = tuple({0: TOKENS, at: LABELS}.get(number, SKIP) for number in range(len(columns)))
    options: dict[str, Any] = {} if names == (TOKENS, LABELS) else {"columns": names}
    if separator == "tab":
        options["separator"] = "tab"
    if not _is_label(columns[at][0]):
        options["header"] = True
    if comments:
        options["comments"] = COMMENT
    return options


def ends_in_labels(rows: Sequence[Sequence[str]]) -> bool:
    """Are the last columns labels of spans, or O? The first row may name the columns."""
    labels = [row[-1] for row in rows]
    marked = sum(label.startswith(SPAN_PREFIXES) for label in labels)
    return marked > 0 and marked + labels.count(OUTSIDE) >= len(labels) - 1


def _are_labels(cells: Sequence[str]) -> bool:
    return any(map(has_prefix, cells)) and all(map(_is_label, cells))


def _is_label(cell: str) -> bool:
    return cell == OUTSIDE or has_prefix(cell)


def conllu_labels(lines: Sequence[str]) -> str:
    """The name under which the last column of CoNLL-U has labels of spans; empty where it has none."""
    by_key: dict[str, list[str]] = {}
    for line in lines:
        for key, value in MISC_KEY.findall(line.rpartition("\t")[2]) if not line.startswith(COMMENT) else ():
            by_key.setdefault(key, []).append(value)
    return next((key for key, values in by_key.items() if _are_labels(values)), "")
