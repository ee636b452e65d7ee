"""Conversion of stored label columns to ids of one label set, which all counts take."""

from __future__ import annotations

import numpy as np

from concord.schemas.document import Column
from concord.schemas.labels import Labels, LabelSet


def shared_label_ids(*columns: Column) -> tuple[LabelSet, tuple[Labels, ...]]:
    """The label set of all names that occur in any column, as they were read, and each column (N,) as ids of it.

    Gold and predictions may know different labels; counts of batches whose label sets differ
    still add up, because they are kept by name.
    """
    used = [np.unique(column.codes).tolist() for column in columns]
    names = [column.values[i] for column, codes in zip(columns, used, strict=True) for i in codes]
    labels = LabelSet.infer(names, plain=any(column.plain for column in columns))
    return labels, tuple(_ids(column, codes, labels) for column, codes in zip(columns, used, strict=True))


def _ids(column: Column, used: list[int], labels: LabelSet) -> Labels:
    table = np.zeros(len(column.values), np.int32)
    table[used] = [labels.index[column.values[i]] for i in used]
    ids: Labels = table[column.codes]
    return ids
