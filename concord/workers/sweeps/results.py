"""Results of cells in a sweep's folder: a Parquet file with a row for each document, and a marker written last.

- ``cells/KEY.parquet``: counts, penalty and gap of each document; the same bytes whoever made it
- ``cells/KEY.json``: marker of a whole result with the cell's name, content, figures and CPU seconds
- ``models/KEY/``: model; ``models/KEY.json`` has its CPU seconds
- ``weights/KEY.yaml``: constraints with the weights of a penalty; ``weights/KEY.json`` has their CPU seconds
- ``running/KEY``: there while a worker is at the cell
- ``failed/KEY.json``: reason and traceback of the last attempt
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from concord.schemas.arrays import Floats, Mask
from concord.schemas.errors import InputError
from concord.schemas.settings import Settings
from concord.workers.evaluation.bootstrap import Interval, bootstrap_intervals
from concord.workers.evaluation.figures import FIGURES, Figure
from concord.workers.evaluation.measures import MEASURES
from concord.workers.evaluation.named_counts import Counts
from concord.workers.storage.files import make_folder, write_whole, writing

CELLS, MODELS, WEIGHINGS, RUNNING, FAILED = "cells", "models", "weights", "running", "failed"
NAMES_KEY = b"concord.names"
"""Entry of the table's metadata: names by measure."""

BOOTSTRAP_DRAWS = 1000
"""Number of draws of a bootstrap."""


class ResultError(InputError):
    """A result that cannot be read; the message names the file."""


class MeasureCounts(NamedTuple):
    """Counts of one measure: ``table`` (D, R, 3) of each document for R ``names``."""

    measure: str
    names: tuple[str, ...]
    table: Counts


@dataclass(frozen=True, eq=False)
class CellResult:
    """What a cell came to on D documents.

    - ``objective``, ``penalty``, ``gap`` (D,): nats
    - ``certified`` (D,): marks answers whose gap is closed
    - ``left_out``: titles of constraints that name a label which the model has not learned
    - ``cpu_seconds``: of the engine, on all documents
    - ``worker_cpu_seconds``: of the worker from documents to counts; a worker's first cell of a model has the scoring
    """

    key: str
    name: str
    doc_ids: tuple[str, ...]
    measured: tuple[MeasureCounts, ...]
    objective: Floats
    penalty: Floats
    gap: Floats
    certified: Mask
    left_out: tuple[str, ...]
    cpu_seconds: float
    worker_cpu_seconds: float

    def of(self, measure: str) -> MeasureCounts:
        """Counts of a measure. Raises `ResultError`."""
        for measured in self.measured:
            if measured.measure == measure:
                return measured
        there = ", ".join(measured.measure for measured in self.measured)
        raise ResultError(f"cell {self.name} has no measure {measure!r}; it has {there}")

    def figures(self) -> dict[str, Interval]:
        """Each figure of each measure (``spans.f1``) with its 95 % interval over documents."""
        # Documents are drawn once for all measures: that costs more than all figures.
        counts = np.concatenate([measured.table for measured in self.measured], axis=1)
        figures, first = dict[str, Figure](), 0
        for measured in self.measured:
            own = slice(first, first := first + len(measured.names))
            figures |= {f"{measured.measure}.{n}": _part(FIGURES[n], own) for n in MEASURES[measured.measure].figures}
        return bootstrap_intervals(counts, figures, rng=np.random.default_rng(0), draws=BOOTSTRAP_DRAWS)


class Marker(Settings):
    """Marker of a whole result.

    - ``content``: what decides the result, by part
    - ``figures``: value and bounds of each figure
    - ``sums``: penalty and largest gap in nats, None where they have no end; numbers of answers whose gap is closed,
      and of constraints left out
    """

    key: str
    name: str
    content: Mapping[str, Any]
    documents: int
    figures: Mapping[str, tuple[float, float, float]]
    sums: Mapping[str, float | None]
    left_out: tuple[str, ...] = ()
    cpu_seconds: float
    worker_cpu_seconds: float
    bytes: int


class LearnedPart(Settings):
    """A model that a sweep has trained, or constraints that it has weighed."""

    key: str
    name: str
    cpu_seconds: float


class Failure(Settings):
    """The last attempt at a cell, a model or weights that failed."""

    key: str
    name: str
    reason: str
    log: str


class Store(NamedTuple):
    """The folder of a sweep."""

    folder: Path

    def marker(self, key: str) -> Path:
        """Marker of a cell."""
        return self.folder / CELLS / f"{key}.json"

    def table(self, key: str) -> Path:
        """Table of a cell."""
        return self.folder / CELLS / f"{key}.parquet"

    def model(self, key: str) -> Path:
        """Folder of a model."""
        return self.folder / MODELS / key

    def weights(self, key: str) -> Path:
        """Constraint file with the weights of a penalty."""
        return self.folder / WEIGHINGS / f"{key}.yaml"

    def running(self, key: str) -> Path:
        """File that is there while a worker is at a cell."""
        return self.folder / RUNNING / key

    def failure(self, key: str) -> Path:
        """File of the last failed attempt at a cell, a model or weights."""
        return self.folder / FAILED / f"{key}.json"

    def make(self) -> None:
        """Makes the folders. Raises `OutputError`."""
        for name in (CELLS, MODELS, WEIGHINGS, RUNNING, FAILED):
            make_folder(self.folder / name)

    def write(self, result: CellResult, content: Mapping[str, Any]) -> Marker:
        """Writes a result, its marker last; a second time changes nothing but the seconds. Raises `OutputError`."""
        sink = pa.BufferOutputStream()
        pq.write_table(_table(result), sink, compression="zstd")
        data = sink.getvalue().to_pybytes()
        marker = Marker(
            key=result.key,
            name=result.name,
            content=content,
            documents=len(result.doc_ids),
            figures={name: tuple(interval) for name, interval in result.figures().items()},
            sums=_sums(result),
            left_out=result.left_out,
            cpu_seconds=result.cpu_seconds,
            worker_cpu_seconds=result.worker_cpu_seconds,
            bytes=len(data),
        )
        write_whole(self.table(result.key), data)
        write_whole(self.marker(result.key), marker.model_dump_json().encode())
        return marker

    def note(self, kind: str, part: LearnedPart) -> None:
        """Notes what one of `MODELS` or `WEIGHINGS` took, when it is whole. Raises `OutputError`."""
        write_whole(self.folder / kind / f"{part.key}.json", part.model_dump_json().encode())

    def is_done(self, key: str) -> bool:
        """Whether a cell has a result."""
        return self.marker(key).is_file() and self.table(key).is_file()

    def models(self) -> dict[str, LearnedPart]:
        """The models that are whole, by key."""
        return {key: part for key, part in self._noted(MODELS).items() if self.model(key).is_dir()}

    def weighings(self) -> dict[str, LearnedPart]:
        """The weights that are whole, by key."""
        return {key: part for key, part in self._noted(WEIGHINGS).items() if self.weights(key).is_file()}

    def _noted(self, kind: str) -> dict[str, LearnedPart]:
        return {path.stem: _parsed(LearnedPart, path) for path in sorted((self.folder / kind).glob("*.json"))}

    def read(self, key: str) -> CellResult:
        """The result of a cell. Raises `ResultError` if it cannot be read."""
        path = self.table(key)
        try:
            table = pq.read_table(path)
            marker = self.read_marker(key)
            return _result(table, marker)
        except (OSError, pa.ArrowException, KeyError, TypeError, ValueError) as error:
            raise ResultError(f"{path}: no whole result ({error}); delete it and run the sweep again") from None

    def read_marker(self, key: str) -> Marker:
        """The marker of a cell. Raises `ResultError` if it cannot be read."""
        return _parsed(Marker, self.marker(key))

    def markers(self) -> dict[str, Marker]:
        """Markers of all results whose table is there, by key."""
        markers = {path.stem: _parsed(Marker, path) for path in sorted((self.folder / CELLS).glob("*.json"))}
        return {key: marker for key, marker in markers.items() if self.table(key).is_file()}

    def failures(self) -> dict[str, Failure]:
        """All failures by key."""
        return {path.stem: _parsed(Failure, path) for path in sorted((self.folder / FAILED).glob("*.json"))}

    def begin(self, key: str, name: str) -> None:
        """Shows that a worker is at a cell, a model or weights; a hint that need not outlive a power cut."""
        with writing(self.running(key)):
            self.running(key).write_text(name)

    def forget(self, path: Path) -> None:
        """Removes a file, if it is there. Raises `OutputError`."""
        with writing(path):
            path.unlink(missing_ok=True)


Item = TypeVar("Item", bound=Settings)


def _parsed(kind: type[Item], path: Path) -> Item:
    try:
        return kind.model_validate_json(path.read_bytes())
    except (OSError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise ResultError(f"{path}: cannot be read ({reason}); delete it and run the sweep again") from None


def _part(figure: Figure, names: slice) -> Figure:
    """A figure of some of the names."""
    return lambda counts: figure(counts[..., names, :])


def _sums(result: CellResult) -> dict[str, float | None]:
    return {
        "penalty": _finite(result.penalty.sum()),
        "certified": float(result.certified.sum()),
        "largest_gap": _finite(result.gap.max(initial=0.0)),
        "constraints_left_out": float(len(result.left_out)),
    }


def _finite(nats: float) -> float | None:
    """The nats; None without end: an answer breaks a hard constraint, or nothing is proven."""
    return float(nats) if np.isfinite(nats) else None


def _table(result: CellResult) -> pa.Table:
    columns: dict[str, Any] = {
        "doc_id": pa.array(result.doc_ids, pa.string()),
        "objective": pa.array(result.objective, pa.float64()),
        "penalty": pa.array(result.penalty, pa.float64()),
        "gap": pa.array(result.gap, pa.float64()),
        "certified": pa.array(result.certified, pa.bool_()),
    }
    for measured in result.measured:
        size = measured.table.shape[1] * 3
        flat = pa.array(measured.table.reshape(-1).astype(np.int32), pa.int32())
        offsets = pa.array(np.arange(len(result.doc_ids) + 1, dtype=np.int32) * size, pa.int32())
        columns[measured.measure] = pa.ListArray.from_arrays(offsets, flat)
    names = {measured.measure: measured.names for measured in result.measured}
    return pa.table(columns).replace_schema_metadata({NAMES_KEY: json.dumps(names).encode()})


def _result(table: pa.Table, marker: Marker) -> CellResult:
    names: Mapping[str, Sequence[str]] = json.loads(table.schema.metadata[NAMES_KEY])
    measured = []
    for measure, own in names.items():
        flat: NDArray[Any] = table[measure].combine_chunks().flatten().to_numpy().astype(np.int64)
        measured.append(MeasureCounts(measure, tuple(own), flat.reshape(len(table), len(own), 3)))
    return CellResult(
        key=marker.key,
        name=marker.name,
        doc_ids=tuple(table["doc_id"].to_pylist()),
        measured=tuple(measured),
        objective=table["objective"].to_numpy(),
        penalty=table["penalty"].to_numpy(),
        gap=table["gap"].to_numpy(),
        certified=table["certified"].to_numpy(),
        left_out=marker.left_out,
        cpu_seconds=marker.cpu_seconds,
        worker_cpu_seconds=marker.worker_cpu_seconds,
    )
