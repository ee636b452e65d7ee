"""`concord reprocess`: a corpus labelled, the nightly run. Heavy imports stay inside the command."""

from __future__ import annotations

from typing import Annotated

import typer

from concord.flows.cli.arguments import Set
from concord.flows.cli.settings_options import SHARD_KIB, FieldOptions
from concord.flows.cli.tree import CommandTree
from concord.schemas.requests import LabelRequest
from concord.schemas.run_plan import RunPlan
from concord.schemas.run_report import RunReport

app = CommandTree()


@app.command(
    epilog="Example: concord reprocess --corpus corpora/testa/ --model models/news/ --out out/",
    resumes=True,
)
def reprocess(
    *,
    request: Annotated[
        LabelRequest,
        FieldOptions(LabelRequest, apart=("only", "settings.options"), forms={"shard_bytes": SHARD_KIB}),
    ],
    set_: Set = None,
    doc: Annotated[
        list[str] | None, typer.Option(help="Id of a document to label alone; may be given many times.")
    ] = None,
    only: Annotated[
        str | None,
        typer.Option(
            help="File, a path or URI, of the ids of documents to label alone: a text with an id a line, or a Parquet "
            "table such as rejects. Such a run needs an output of its own."
        ),
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="Say what is new, changed and gone, what a run would do and how long it would take; write nothing.",
        ),
    ] = False,
) -> RunReport | RunPlan:
    """Label a corpus on Ray, each document as a whole. The same command again does only the rest."""
    from concord.flows.inputs.jobs import check_sources, source_place
    from concord.flows.inputs.output_places import check_inputs

    lists = [] if only is None else [only]
    check_sources([request.corpus], model=request.model, files=[*request.files_read, *lists])
    check_inputs(request.out, lists)

    from concord.flows.commands.listed_documents import documents_asked_for
    from concord.flows.inputs.options import run_settings

    corrections = request.corrections
    parts = {
        "settings": run_settings(dict(request.settings), set_ or []),
        "constraints": tuple(map(source_place, request.constraints)),
        "only": documents_asked_for(doc or (), only),
        "corrections": None if corrections is None else source_place(corrections),
    }
    request = request.model_copy(update=parts)
    if dry_run:
        from concord.flows.commands.run_plan import plan_run

        return plan_run(request)

    from concord.flows.reprocess import reprocess as run_reprocess

    return run_reprocess(request)
