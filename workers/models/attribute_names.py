"""The names of a CRF's attributes, row by row of its weights: for a start from them, and for export."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from workers.models.folder import Manifest, ModelError

ATTRIBUTES_FILE = "attributes.parquet"
COLUMN = "attribute"


def write_names(path: Path, names: pa.ChunkedArray) -> None:
    """Writes the names; equal ones give equal bytes. Raises `OSError`."""
    table = pa.table({COLUMN: names})
    pq.write_table(table, path, compression="zstd", use_dictionary=False, write_statistics=False)


def read_names(folder: Path, manifest: Manifest) -> pa.ChunkedArray:
    """The names (A,) as strings, of a folder whose files were checked. Raises `ModelError` where it has none."""
    if ATTRIBUTES_FILE not in manifest.files:
        raise ModelError(f"{folder}: the model does not keep the names of its attributes; train it with lbfgs or sgd")
    return pq.read_table(folder / ATTRIBUTES_FILE, columns=[COLUMN])[COLUMN]
