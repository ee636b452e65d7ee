"""Columns of a corpus that predictions have, too: which there may be, and what they are there.

A column has one type in all predictions of a run, whatever width a file of the corpus stores it in: that is what makes
them one table. Nothing decides an answer by them, but they are part of what a document is known by, so that a value
that changed reaches the next predictions.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from concord.schemas.columns import PREDICTION_COLUMNS, SchemaError, absent, decode

MOMENT = pa.timestamp("us", "UTC")
"""Type of points in time; those of a file without a zone are taken to be in UTC."""


def kept_type(kind: pa.DataType) -> pa.DataType | None:
    """The type in predictions of a column of a corpus; None for one that cannot be kept."""
    types = pa.types
    if types.is_dictionary(kind):
        return kept_type(kind.value_type)
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind) or types.is_null(kind):
        return pa.string()
    if types.is_integer(kind):
        return None if types.is_uint64(kind) else pa.int64()
    if types.is_floating(kind):
        return pa.float64()
    if types.is_boolean(kind):
        return pa.bool_()
    if types.is_date(kind):
        return pa.date32()
    return MOMENT if types.is_timestamp(kind) else None


def check_kept(schema: pa.Schema, names: Sequence[str], *, source: str) -> None:
    """Raises `SchemaError` where a column is not in the file, cannot be kept, or is one of predictions' own."""
    for name in names:
        if name in PREDICTION_COLUMNS:
            raise SchemaError(f"--keep-columns {name}: predictions have a column of that name; rename it in the corpus")
        if not schema.get_all_field_indices(name):
            raise SchemaError(f"{source}: --keep-columns {name}: {absent(schema, name)}")
        if kept_type(schema.field(name).type) is None:
            raise SchemaError(
                f"{source}: --keep-columns {name}: a column of type {schema.field(name).type} cannot be kept; strings, "
                "numbers, booleans, dates and timestamps can"
            )


def kept_types(schema: pa.Schema, names: Sequence[str]) -> tuple[str, ...]:
    """Each column with its type in predictions, for comparison and messages."""
    return tuple(f"{name} ({kept_type(schema.field(name).type)})" for name in names)


def kept_values(table: pa.Table, names: Sequence[str], rows: Sequence[int]) -> dict[str, pa.Array]:
    """The values of some rows by column, as predictions have them."""
    kinds = {name: kept_type(table[name].type) for name in names}
    # What is cut off a time are nanoseconds.
    whole = {name: table[name].cast(kind, safe=kind != MOMENT) for name, kind in kinds.items()}
    return {name: column.take(pa.array(rows, pa.int64())).combine_chunks() for name, column in whole.items()}


def kept_faults(table: pa.Table, names: Sequence[str]) -> dict[int, str]:
    """Reason by row, for rows with text that is not UTF-8."""
    texts = [name for name in names if kept_type(table[name].type) == pa.string()]
    return {
        row: f"{name} is not valid UTF-8"
        for name in texts
        for row, value in enumerate(decode(table[name]))
        if value is None and table[name][row].is_valid
    }
