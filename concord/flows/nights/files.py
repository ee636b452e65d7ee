"""What MLflow keeps of a run beside its figures: the manifest, tables, plots and the page that Prefect shows."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.csv

from concord.flows.errors import TrackingError
from concord.flows.runfolder.layout import MANIFEST
from concord.flows.screen.pages import page_of
from concord.schemas.audit import KnownWeight
from concord.schemas.run import ConstraintFigures, ShardReport
from concord.schemas.run_report import RunReport
from concord.workers.storage.files import writing
from concord.workers.storage.scratch import scratch_folder

if TYPE_CHECKING:
    from concord.flows.tracking.tracking import Run

MOST_MANIFEST_BYTES = 16 << 20
"""Largest manifest that is copied to MLflow; a larger one, of a corpus of very many shards, stays with the output."""

FILES_SECONDS = 15.0
"""How long MLflow may take for them."""

MOST_BARS = 30
"""Constraints in the plot: those with the highest penalty."""


def keep_files(
    run: Run,
    report: RunReport,
    totals: ShardReport,
    *,
    manifest: bytes | None,
    last: ShardReport | None,
    weights: Iterable[KnownWeight],
) -> None:
    """Uploads the files of a run; ``last`` are the counts of the last night, ``weights`` those of soft constraints.

    MLflow that has gone away is told of at the end of the run, not here.
    """
    with scratch_folder() as folder, suppress(TrackingError):
        write_files(folder, report, totals, manifest=manifest, last=last, weights=weights)
        run.folder(folder, seconds=FILES_SECONDS)


def write_files(
    folder: Path,
    report: RunReport,
    totals: ShardReport,
    *,
    manifest: bytes | None = None,
    last: ShardReport | None = None,
    weights: Iterable[KnownWeight] = (),
) -> None:
    """Writes the files of a run into a folder. Raises `OutputError`."""
    page = page_of(report)
    assert page is not None
    with writing(folder):
        (folder / "report.md").write_text(page.markdown, encoding="utf-8")
        if manifest is not None and len(manifest) <= MOST_MANIFEST_BYTES:
            (folder / MANIFEST).write_bytes(manifest)
        (folder / "tables").mkdir()
        tables = _tables(report, totals, last) | {"weights": pa.Table.from_pylist([w.model_dump() for w in weights])}
        for name, table in tables.items():
            if len(table):
                pa.csv.write_csv(table, folder / "tables" / f"{name}.csv")
        if totals.constraints:
            (folder / "plots").mkdir()
            _draw_constraints(totals.constraints, folder / "plots" / "constraints.png")


def _tables(report: RunReport, totals: ShardReport, last: ShardReport | None) -> dict[str, pa.Table]:
    constraints = [{"constraint": name, **row.model_dump()} for name, row in totals.constraints.items()]
    if last is not None:
        for row in constraints:
            row |= _of_last(last.constraints.get(row["constraint"]))
    statuses = [{"status": name, "documents": count} for name, count in totals.statuses.items()]
    counts = [
        {"measure": measure, "labels of": labels, "name": name, **row}
        for labels, measures in (("answers", totals.measures), ("model alone", totals.measures_before))
        for measure, rows in measures.items()
        for name, row in rows.items()
    ]
    tables = {"constraints": constraints, "statuses": statuses, "counts against gold": counts}
    if report.drift is not None:
        tables["against the last night"] = [row.model_dump(exclude={"most"}) for row in report.drift.movements]
        tables["documents changed most"] = [row.model_dump() for row in report.drift.most_changed]
    return {name: pa.Table.from_pylist(rows) for name, rows in tables.items()}


def _of_last(row: ConstraintFigures | None) -> dict[str, float | None]:
    """Columns of a constraint in the last night, which may not have had it."""
    return {f"last_{name}": None if row is None else getattr(row, name) for name in ConstraintFigures.model_fields}


def _draw_constraints(constraints: dict[str, ConstraintFigures], path: Path) -> None:
    """Draws the penalty of each constraint under the model alone and under the answers, where both are finite."""
    from matplotlib.figure import Figure

    soft = (name for name, row in constraints.items() if math.isfinite(row.penalty_before + row.penalty))
    worst = sorted(soft, key=lambda name: constraints[name].penalty_before)[-MOST_BARS:]
    figure = Figure(figsize=(8, 1.2 + 0.35 * len(worst)), layout="constrained")
    axes = figure.add_subplot()
    places = range(len(worst))
    for shift, field, label in ((0.2, "penalty_before", "model alone"), (-0.2, "penalty", "answers")):
        widths = [getattr(constraints[name], field) for name in worst]
        axes.barh([place + shift for place in places], widths, 0.4, label=label)
    axes.set_yticks(list(places), [name.replace("$", r"\$") for name in worst])
    axes.set_xlabel("penalty (nats)")
    axes.legend()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # letters that its font lacks
        figure.savefig(path)
