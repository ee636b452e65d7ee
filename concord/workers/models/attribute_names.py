"""Files of a CRF's attribute names, one per row of its weights; read by warm starts of training and by export."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from concord.workers.models.folder import Manifest, ModelError
from concord.workers.storage.tables import TableFileError, read_table

ATTRIBUTES_FILE = "attributes.parquet"
PAIR_ATTRIBUTES_FILE = "pair-attributes.parquet"
"""Attributes of pairs of labels."""
COLUMN = "attribute"
STRING_TYPES = (pa.string(), pa.large_string())


def write_names(path: Path, names: pa.ChunkedArray) -> None:
    """Writes the names; equal ones give equal bytes. Raises `OSError`."""
    table = pa.table({COLUMN: names})
    pq.write_table(table, path, compression="zstd", use_dictionary=False, write_statistics=False)


def read_names(folder: Path, manifest: Manifest, count: int, file: str = ATTRIBUTES_FILE) -> pa.ChunkedArray:
    """Attribute names (A,) of a model folder whose file hashes were checked; A must be ``count``.

    Raises `ModelError` where the folder has no such file, or where the names are not ``count`` different strings (a
    matching hash does not prove them: it can be mended).
    """
    if file not in manifest.files:
        raise ModelError(f"{folder}: the model does not keep the names of its attributes; train it with lbfgs or sgd")
    path = folder / file
    try:
        table = read_table(path)
    except TableFileError as error:
        raise ModelError(f"{path}: {error}; copy the folder again or train again") from error
    if table.schema.names != [COLUMN] or table.schema.types[0] not in STRING_TYPES or table[COLUMN].null_count:
        raise ModelError(f"{path}: not one column {COLUMN!r} of strings; copy the folder again or train again")
    names = table[COLUMN]
    if len(names) != count or len(names.unique()) != count:
        raise ModelError(f"{path}: not a name for each of {count} attributes; copy the folder again or train again")
    return names
