"""Stand-ins for onnxruntime and tokenizers: a network that is a table, and a tokenizer that cuts off three letters."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

VOCABULARY, PIECE = 64, 3
BEFORE, AFTER, PAD = 1, 2, 0
CALLS: list[int] = []
"""Number of sub-words of each call of a network."""


def number_of(piece: str) -> int:
    """Number of a sub-word: the same in every process."""
    return 3 + zlib.crc32(piece.encode()) % (VOCABULARY - 3)


class Tokenizer:
    """Cuts words at blanks, and each into pieces of at most three characters; ``#`` is dropped."""

    def __init__(self) -> None:
        self.limited = True

    @classmethod
    def from_str(cls, text: str) -> Tokenizer:
        if json.loads(text) != {"stub": True}:
            raise Exception("no tokenizer")
        return cls()

    def no_truncation(self) -> None:
        self.limited = False

    def no_padding(self) -> None:
        pass

    def encode(self, text: str, *, add_special_tokens: bool) -> SimpleNamespace:
        assert not self.limited
        offsets, here = list[tuple[int, int]](), 0
        for word in text.split():
            here = text.index(word, here)
            ends = range(here, here + len(word), PIECE)
            offsets += [(a, min(a + PIECE, here + len(word))) for a in ends if text[a] != "#"]
            here += len(word)
        ids, mask = [number_of(text[a:b]) for a, b in offsets], [0] * len(offsets)
        if add_special_tokens:
            ids, mask, offsets = [BEFORE, *ids, AFTER], [1, *mask, 1], [(0, 0), *offsets, (0, 0)]
        return SimpleNamespace(ids=ids, offsets=offsets, special_tokens_mask=mask)


class InferenceSession:
    """Logits of a sub-word: its row of a table, and a tenth of its left neighbour's where the network looks around."""

    def __init__(self, data: bytes, options: Any, providers: Sequence[str]) -> None:
        assert options.intra_op_num_threads == options.inter_op_num_threads == 1
        assert providers == ["CPUExecutionProvider"]
        try:
            self.content = json.loads(data)
        except ValueError as error:
            raise Exception("INVALID_PROTOBUF") from error

    def get_inputs(self) -> list[SimpleNamespace]:
        return [SimpleNamespace(name=name) for name in self.content["inputs"]]

    def run(self, _: None, given: Mapping[str, NDArray[np.int64]]) -> list[NDArray[np.float32]]:
        assert list(given) == self.content["inputs"]
        ids = given["input_ids"]
        CALLS.append(ids.shape[1])
        assert ids.shape[1] <= self.content["room"]
        table = np.array(self.content["table"], np.float32)[ids]
        if self.content["around"]:
            table[:, 1:] += np.float32(0.1) * np.array(self.content["table"], np.float32)[ids[:, :-1]]
        return [table]


def use_stubs(patch: pytest.MonkeyPatch) -> None:
    """Puts the stand-ins in the place of the two libraries."""
    runtime, cutter = ModuleType("onnxruntime"), ModuleType("tokenizers")
    vars(runtime).update(InferenceSession=InferenceSession, SessionOptions=SimpleNamespace, __version__="1.0")
    vars(cutter).update(Tokenizer=Tokenizer, __version__="1.0")
    patch.setitem(__import__("sys").modules, "onnxruntime", runtime)
    patch.setitem(__import__("sys").modules, "tokenizers", cutter)


def network_folder(
    folder: Path, labels: Sequence[str], table: NDArray[Any], *, room: int = 12, around: bool = False, **config: Any
) -> Path:
    """A folder as an export makes it; ``table`` (`VOCABULARY`, W) has the logits."""
    folder.mkdir(parents=True)
    named = {"id2label": {str(i): name for i, name in enumerate(labels)}, "max_position_embeddings": room}
    (folder / "config.json").write_text(json.dumps(named | config))
    (folder / "tokenizer.json").write_text(json.dumps({"stub": True}))
    inputs = ["input_ids", "attention_mask"]
    network = {"inputs": inputs, "table": table.tolist(), "room": room, "around": around}
    (folder / "model.onnx").write_text(json.dumps(network))
    return folder
