"""Keys of a run's shards in columns, and where in the corpus each of them is."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from concord.schemas.arrays import Ints
from concord.schemas.run import RunKey
from concord.workers.corpus.shards import Shard
from concord.workers.labelling.output import KEY_BYTES, NAME_LENGTH, shard_keys

NAME = re.compile(rf"[0-9a-f]{{{NAME_LENGTH},{2 * KEY_BYTES}}}")
"""A key, or as much of it as names of files have."""

HEAD = 16
"""Hex digits by which keys are looked up."""


class RunKeys(Sequence[str]):
    """Keys of the shards of a run, by place in the corpus: 48 bytes each. Shards with equal rows have equal keys."""

    def __init__(self, shards: Sequence[Shard], key: RunKey) -> None:
        """The keys of these shards."""
        data = bytearray()
        for name in shard_keys(shards, key):
            data += bytes.fromhex(name)
        self._keys = np.frombuffer(data, np.uint8).reshape(-1, KEY_BYTES)
        heads = self._keys[:, : HEAD // 2].copy().view(">u8").ravel().astype(np.uint64)
        self._order = np.argsort(heads, kind="stable")
        self._heads = heads[self._order]

    def __len__(self) -> int:
        return len(self._keys)

    def __getitem__(self, place: int) -> str:  # type: ignore[override]
        name: str = self._keys[place].tobytes().hex()
        return name

    def places(self, name: str) -> list[int]:
        """Places of the shards with a key, or with one whose start names their files, ascending; none for others."""
        if NAME.fullmatch(name) is None:
            return []
        head = np.uint64(int(name[:HEAD], 16))
        start, end = self._heads.searchsorted(head), self._heads.searchsorted(head, side="right")
        return [place for place in self._order[start:end].tolist() if self[place].startswith(name)]

    def first(self, name: str) -> int | None:
        """The first of the `places` of a name; None where there is none."""
        return next(iter(self.places(name)), None)

    def first_places(self) -> Ints:
        """The place of each key, ascending: where the first of the shards with equal rows stands."""
        _, first = np.unique(self._keys.view(f"V{KEY_BYTES}").ravel(), return_index=True)
        return np.sort(first)
