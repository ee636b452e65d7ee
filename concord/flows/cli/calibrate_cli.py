"""`concord calibrate`: a model fitted to labelled documents. Heavy imports stay inside the command."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from concord.flows.cli.arguments import (
    ModelName,
    TrackingOption,
)
from concord.flows.cli.settings_options import FieldOptions
from concord.flows.cli.tree import CommandTree
from concord.schemas.reports import CalibrationReport
from concord.workers.models.settings import CalibrationSettings

app = CommandTree()


@app.command(
    epilog="Example: concord calibrate --model models/mine/ --corpus corpora/held-out/ --out models/fitted/",
)
def calibrate(
    *,
    model: ModelName,
    corpus: Annotated[str, typer.Option(help="Parquet corpus with gold labels that the model has not learned from.")],
    out: Annotated[Path, typer.Option(help="Folder for the fitted model.")],
    consistency: Annotated[
        bool, typer.Option(help="Learn label consistency, tuned on documents that the model has not learned from.")
    ] = True,
    context: TrackingOption,
    settings: Annotated[CalibrationSettings, FieldOptions(CalibrationSettings)],
) -> CalibrationReport:
    """Fit a model to labelled documents: its temperature and label consistency; for scores also transitions."""
    from concord.flows.commands.calibrating import calibrate_model

    return calibrate_model(model, corpus, str(out), settings=settings, consistency=consistency, context=context)
