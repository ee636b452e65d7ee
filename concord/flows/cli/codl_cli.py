"""`concord codl`: learning from few labelled documents and a pool. Heavy imports stay inside the command."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from pydantic import Field

from concord.flows.cli.arguments import ContextOptions, Corpus, Set, ShardKib
from concord.flows.cli.option_lists import with_options
from concord.flows.cli.settings_options import FieldOptions
from concord.flows.commands.requests import JUDGING
from concord.schemas.codl import CodlReport, CodlSettings
from concord.schemas.run import ENGINE, RunSettings
from concord.schemas.settings import Settings, Validation

CODL_EXAMPLE = with_options(
    "Example: concord codl --corpus gold/ --pool pool/ --constraints rules.yaml --out learned/", CodlSettings
)


class PoolChoices(Settings):
    """Options of `codl` that are parameters of its flow, by the same names, and its constraints."""

    constraints: str | None = Field(
        None, description="YAML file of constraints for the answers on the pool, a path or URI."
    )
    held_out: str | None = Field(None, description="Labelled corpus on which every cycle is measured.")
    tune: bool = Field(default=False, description="Choose gamma by cross-validation over the labelled documents.")
    validation: Validation | None = Field(None, description=JUDGING)


def codl(
    *,
    corpus: Corpus,
    pool: Annotated[str, typer.Option(help="Second corpus to learn from; its labels, if it has any, are not read.")],
    out: Annotated[Path, typer.Option(help="Folder for the cycles, on a disk that all workers see.")],
    choices: Annotated[PoolChoices, FieldOptions(PoolChoices)],
    engine: Annotated[
        str, typer.Option(help="Engine that decodes each document; `concord list engines` has them.")
    ] = ENGINE,
    set_: Set = None,
    n_best: Annotated[int, typer.Option(min=1, help="Number of best labellings of each document.")] = 1,
    shard_kib: ShardKib = None,
    context: ContextOptions,
) -> CodlReport:
    """Learn a model from few labelled documents and a pool without labels (constraint-driven learning).

    In each cycle the model labels the pool under constraints, and learns from its answers. The same command again goes
    on where it stopped.
    """
    from concord.flows.codl import codl as run_codl
    from concord.flows.inputs.jobs import source_place
    from concord.flows.inputs.options import with_engine

    settings, of_engine = with_engine(set_ or [], CodlSettings, engine, owner="codl")
    return run_codl(
        corpus,
        pool,
        str(out),
        constraints=choices.constraints and source_place(choices.constraints),
        settings=settings,
        labelling=RunSettings(engine=engine, options=of_engine, n_best=n_best if n_best > 1 else 0),
        shard_bytes=shard_kib and shard_kib << 10,
        **choices.model_dump(exclude={"constraints"}),
        **context.model_dump(),
    )
