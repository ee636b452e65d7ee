"""Columns of strings and of lists as arrays, and digests of their rows."""

from __future__ import annotations

import hashlib
import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from concord.schemas.arrays import Floats
from concord.schemas.columns import ListColumn


@dataclass(frozen=True, eq=False)
class Coded:
    """Strings as codes (N,) into distinct ``names``."""

    codes: NDArray[np.int64]
    names: list[str]

    @classmethod
    def of(cls, strings: pa.Array) -> Coded:
        """Of an array of strings, coded or not."""
        encoded = strings if pa.types.is_dictionary(strings.type) else strings.dictionary_encode()
        return cls(encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64), encoded.dictionary.to_pylist())

    @property
    def digests(self) -> NDArray[np.int64]:
        """(N,) a digest of each string."""
        digests = [hashlib.blake2b(name.encode(), digest_size=8).digest() for name in self.names]
        return np.frombuffer(b"".join(digests), np.int64)[self.codes]


class ItemColumn(ListColumn):
    """A column of lists, D of them with N items in all."""

    @property
    def of_row(self) -> NDArray[np.int64]:
        """(N,) the row of each item."""
        return np.repeat(np.arange(len(self.lengths)), self.lengths)

    def sums(self, codes: NDArray[np.int64], width: int, weights: NDArray[Any] | None = None) -> Floats:
        """(D, width) of each row the sum of weights, or the number of items, by code; −1 is left out."""
        good = codes >= 0
        places = (self.of_row * width + codes)[good]
        sums = np.bincount(places, None if weights is None else weights[good], minlength=len(self.lengths) * width)
        return sums.reshape(len(self.lengths), width).astype(np.float64)

    def means(self) -> Floats:
        """(D,) means of finite numbers; NaN for a row without any."""
        values = self.values.cast(pa.float64()).to_numpy(zero_copy_only=False)
        codes = np.where(np.isfinite(values), 0, -1)
        with np.errstate(invalid="ignore"):
            return (self.sums(codes, 1, values) / self.sums(codes, 1))[:, 0]

    def digests(self, values: NDArray[Any]) -> list[bytes]:
        """A digest of each row's values, which are whole numbers: (N,), or (N, K) of K for an item."""
        width = 8 * int(np.prod(values.shape[1:], dtype=np.int64))
        data, ends = values.astype(np.int64).tobytes(), (width * self.starts).tolist()
        return [hashlib.blake2b(data[a:b], digest_size=8).digest() for a, b in itertools.pairwise(ends)]
