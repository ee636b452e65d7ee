"""`concord codl`: learning from few labelled documents and a pool. Heavy imports stay inside the command."""

from __future__ import annotations

from typing import Annotated

import typer

from concord.flows.cli.arguments import Set
from concord.flows.cli.option_lists import with_options
from concord.flows.cli.settings_options import A_PATH, SHARD_KIB, FieldOptions
from concord.flows.cli.tree import CommandTree
from concord.schemas.codl import CodlReport, CodlSettings
from concord.schemas.learning_requests import CodlRequest
from concord.schemas.requests import ENGINE_HELP, N_BEST_HELP
from concord.schemas.run import ENGINE, RunSettings

app = CommandTree()

CODL_EXAMPLE = with_options(
    "Example: concord codl --corpus gold/ --pool pool/ --constraints rules.yaml --out learned/", CodlSettings
)


CODL_FORMS = {"out": A_PATH, "shard_bytes": SHARD_KIB}


@app.command(epilog=CODL_EXAMPLE, resumes=True)
def codl(
    *,
    request: Annotated[CodlRequest, FieldOptions(CodlRequest, apart=("settings", "labelling"), forms=CODL_FORMS)],
    engine: Annotated[str, typer.Option(help=ENGINE_HELP)] = ENGINE,
    set_: Set = None,
    n_best: Annotated[int, typer.Option(min=1, help=N_BEST_HELP)] = 1,
) -> CodlReport:
    """Learn a model from few labelled documents and a pool without labels (constraint-driven learning).

    In each cycle the model labels the pool under constraints, and learns from its answers. The same command again goes
    on where it stopped.
    """
    from concord.flows.codl import codl as run_codl
    from concord.flows.inputs.jobs import source_place
    from concord.flows.inputs.options import with_engine

    settings, of_engine = with_engine(set_ or [], CodlSettings, engine, owner="codl")
    parts = {
        "constraints": request.constraints and source_place(request.constraints),
        "settings": settings,
        "labelling": RunSettings(engine=engine, options=of_engine, n_best=n_best if n_best > 1 else 0),
    }
    return run_codl(request.model_copy(update=parts))
