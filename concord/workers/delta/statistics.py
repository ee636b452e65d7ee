"""What a Delta log says of a file's rows: how many there are, and the least and greatest value of plain columns."""

from __future__ import annotations

import math
from datetime import date
from typing import Any

import pyarrow.parquet as pq


def statistics_of(metadata: pq.FileMetaData) -> dict[str, Any]:
    """Rows, least and greatest values, and counts of nulls, from a Parquet file's footer.

    Left out are columns of lists, of structs, of bytes and of dates, those with values that JSON does not have, and
    those of which the footer does not say all of this in every row group.
    """
    least, greatest, nulls = dict[str, Any](), dict[str, Any](), dict[str, int]()
    for place in range(metadata.num_columns):
        name = metadata.schema.column(place).path
        if "." in name:
            continue
        groups = [metadata.row_group(group).column(place).statistics for group in range(metadata.num_row_groups)]
        if not groups or not all(one is not None and one.has_min_max and one.has_null_count for one in groups):
            continue
        low, high = min(one.min for one in groups), max(one.max for one in groups)
        endless = isinstance(low, float) and not (math.isfinite(low) and math.isfinite(high))
        if endless or isinstance(low, bytes | date):
            continue
        least[name], greatest[name] = low, high
        nulls[name] = sum(one.null_count for one in groups)
    return {"numRecords": metadata.num_rows, "minValues": least, "maxValues": greatest, "nullCount": nulls}
