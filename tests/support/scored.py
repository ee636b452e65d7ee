"""Corpora with a column of scores, as another tagger would write them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from concord.schemas.columns import table_from_documents
from concord.schemas.document import Document

LISTS = pa.list_(pa.list_(pa.float64()))


def scored(
    documents: Sequence[Document],
    scores: Sequence[NDArray[np.float64]],
    kind: pa.DataType = LISTS,
    *,
    name: str = "scores",
) -> pa.Table:
    """The corpus of the documents with a table of scores (N, W) for each."""
    return with_column(table_from_documents(documents), [rows.tolist() for rows in scores], kind, name=name)


def with_column(table: pa.Table, rows: Sequence[Any], kind: pa.DataType = LISTS, *, name: str = "scores") -> pa.Table:
    """A table with a column of scores, well formed or not."""
    return table.append_column(name, pa.array(rows, kind))


def written(folder: Path, table: pa.Table) -> Path:
    """The table as a corpus."""
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, folder / "part-00000.parquet", row_group_size=3)
    return folder
