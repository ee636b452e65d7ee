"""`concord adopt`: a run of another program's answers. Heavy imports stay inside the command."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from concord.flows.cli.arguments import AnswersFile, AnswersForm, LabelMap, Set
from concord.flows.cli.settings_options import SHARD_KIB, FieldOptions
from concord.flows.cli.tree import CommandTree
from concord.schemas.adopting import OF_ENGINES, OF_MODELS
from concord.schemas.requests import LabelRequest
from concord.schemas.run_report import RunReport

app = CommandTree()


@app.command(
    epilog="Example: concord adopt answers.jsonl --program gliner --corpus corpora/notes/ --out out/",
    resumes=True,
)
def adopt(
    source: AnswersFile,
    *,
    program: Annotated[
        str,
        typer.Option(help="What you call the program that answered; with version and prompt it names the run's model."),
    ],
    version: Annotated[str | None, typer.Option(help="Its version, or the name of its model.")] = None,
    prompt: Annotated[
        str | None, typer.Option(help="File of its prompt, a path or URI, of which a digest counts.")
    ] = None,
    form: AnswersForm = "spans",
    map_: LabelMap = None,
    set_: Set = None,
    run: Annotated[
        dict[str, Any], FieldOptions(LabelRequest, apart=(*OF_MODELS, *OF_ENGINES), forms={"shard_bytes": SHARD_KIB})
    ],
) -> RunReport:
    """Make a run of another program's answers, for all that runs are good for: the changes of a night, a review, the
    gate."""
    from concord.flows.commands.adopting import AnswerSource
    from concord.flows.commands.adopting import adopt as adopted

    answers = AnswerSource(source, form, program, version, prompt, map_ or (), set_ or ())
    return adopted(answers, LabelRequest.model_validate(run | {"model": program}))
