"""Reader of CRFsuite's binary model files, with weights at full precision.

`pycrfsuite.Tagger.info` and ``dump`` round weights to six decimals; the file holds float64. All
integers are little-endian 32 bit. The file is a header, a block of features (type, source,
target, weight) and two constant databases ("CQDB") that map label and attribute names to ids.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from concord.schemas.errors import InputError

FILE_HEAD = struct.Struct("<4sI4s9I")
CHUNK_HEAD = struct.Struct("<4sII")
DATABASE = struct.Struct("<4s5I")
FEATURE = np.dtype([("type", "<u4"), ("source", "<u4"), ("target", "<u4"), ("weight", "<f8")])
STATE_FEATURE, TRANSITION_FEATURE = 0, 1
PICKLE = re.compile(rb"\x80[\x02-\x05]")
"""Beginning of a pickle, of joblib too."""
BYTE_ORDER = 0x62445371
"""Written by CRFsuite in the byte order of its machine; anything else is a foreign file."""


class ModelFileError(InputError):
    """A model file is damaged or not CRFsuite's; the message names the file and the fault."""


@dataclass(frozen=True, eq=False)
class CrfsuiteWeights:
    """Content of a CRFsuite model file, weights exactly as trained.

    - ``labels`` (K,), ``attributes`` (A,): names by id.
    - ``source``, ``target``, ``weight``: state feature i gives weight[i] nats to label target[i] where attribute
      source[i] is active.
    - ``transition`` (K, K): nats, row: the previous label; 0 where the model has no feature.
    """

    labels: tuple[str, ...]
    attributes: tuple[str, ...]
    source: NDArray[np.int32]
    target: NDArray[np.int32]
    weight: NDArray[np.float64]
    transition: NDArray[np.float64]


def read_crfsuite(path: Path) -> CrfsuiteWeights:
    """The weights of a model file written by CRFsuite.

    Raises `ModelFileError` where the file is cut, damaged or of another kind.
    """
    data = path.read_bytes()
    if PICKLE.match(data):
        raise ModelFileError(
            f"{path}: is a pickle of Python objects, not CRFsuite's model file, and is not opened, because that runs "
            "code; a pickled CRF of sklearn-crfsuite keeps the file in crf.modelfile.name: load it where it was made, "
            "and give a copy of that file"
        )
    if len(data) < FILE_HEAD.size:
        raise ModelFileError(f"{path}: {len(data)} bytes are too few for a CRFsuite model; was the file cut?")
    magic, size, kind, version, _, label_count, attribute_count, *offsets = FILE_HEAD.unpack_from(data)
    if magic != b"lCRF" or kind != b"FOMC" or version != 100:
        raise ModelFileError(f"{path}: not a CRFsuite model of version 100 (starts with {data[:4]!r})")
    if size != len(data):
        raise ModelFileError(f"{path}: {len(data)} bytes where its header says {size}; was the file cut?")
    feature_offset, label_offset, attribute_offset, _, _ = offsets
    labels = _names(path, data, label_offset, label_count, "labels")
    attributes = _names(path, data, attribute_offset, attribute_count, "attributes")
    features = _features(path, data, feature_offset)
    return _weights(path, labels, attributes, features)


def _features(path: Path, data: bytes, offset: int) -> NDArray[np.void]:
    if offset + CHUNK_HEAD.size > len(data):
        raise ModelFileError(f"{path}: the feature block starts outside the file")
    magic, _, count = CHUNK_HEAD.unpack_from(data, offset)
    # The chunk's own size field is left at zero by some releases, so only the count is trusted.
    if magic != b"FEAT" or offset + CHUNK_HEAD.size + count * FEATURE.itemsize > len(data):
        raise ModelFileError(f"{path}: the feature block at byte {offset} is damaged")
    return np.frombuffer(data, FEATURE, count, offset + CHUNK_HEAD.size)


def _names(path: Path, data: bytes, offset: int, count: int, what: str) -> tuple[str, ...]:
    """Strings of a constant database in the order of their ids, found through its table from id to record."""
    if offset + DATABASE.size > len(data):
        raise ModelFileError(f"{path}: the {what} start outside the file")
    magic, size, _, order, entries, backward = DATABASE.unpack_from(data, offset)
    if magic != b"CQDB" or order != BYTE_ORDER or offset + size > len(data):
        raise ModelFileError(f"{path}: the {what} at byte {offset} are damaged or of another byte order")
    if entries < count or backward + 4 * count > size:
        raise ModelFileError(f"{path}: {entries} {what} on file where the header says {count}")
    records = np.frombuffer(data, "<u4", count, offset + backward).astype(np.int64)
    if count and (records.min() < DATABASE.size or records.max() + 8 > size):
        raise ModelFileError(f"{path}: the table of {what} points outside its block")
    names = []
    for expected, record in enumerate((records + offset).tolist()):
        ident, length = struct.unpack_from("<II", data, record)
        if ident != expected or length == 0 or record + 8 + length > offset + size:
            raise ModelFileError(f"{path}: entry {expected} of the {what} is damaged")
        names.append(_decode(path, data[record + 8 : record + 7 + length], what))
    return tuple(names)


def _decode(path: Path, name: bytes, what: str) -> str:
    try:
        return name.decode()
    except UnicodeDecodeError as error:
        raise ModelFileError(f"{path}: {name!r} among the {what} is not UTF-8") from error


def _weights(
    path: Path, labels: tuple[str, ...], attributes: tuple[str, ...], features: NDArray[np.void]
) -> CrfsuiteWeights:
    state, edge = features[features["type"] == STATE_FEATURE], features[features["type"] == TRANSITION_FEATURE]
    if len(state) + len(edge) != len(features):
        raise ModelFileError(f"{path}: a feature is neither of a state nor of a transition")
    for part, sources in ((state, len(attributes)), (edge, len(labels))):
        if len(part) and (part["source"].max() >= sources or part["target"].max() >= len(labels)):
            raise ModelFileError(f"{path}: a feature refers to a label or attribute that is not there")
    if not np.isfinite(features["weight"]).all():
        raise ModelFileError(f"{path}: a weight is not a finite number; was training cut short?")
    transition = np.zeros((len(labels), len(labels)))
    transition[edge["source"], edge["target"]] = edge["weight"]
    return CrfsuiteWeights(
        labels,
        attributes,
        state["source"].astype(np.int32),
        state["target"].astype(np.int32),
        state["weight"].astype(np.float64),
        transition,
    )
