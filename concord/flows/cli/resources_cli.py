"""`concord resources`: names for a user's own vectors, clusters, lists and encoders."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from concord.flows.cli.tree import CommandTree
from concord.schemas.reports import ResourceReport
from concord.workers.features.own_resources import add as add_resource
from concord.workers.features.own_resources import check_own
from concord.workers.features.own_resources import remove as remove_resource
from concord.workers.features.resources import OwnResource, ResourceKind

app = CommandTree(help="Name your own word vectors, clusters, lists or encoders, so that training finds them.")


@app.command(epilog="Example: concord resources add cc.nl.300.vec --name fasttext-nl --kind vectors --language nl")
def add(
    path: Annotated[Path, typer.Argument(help="The file, or the folder of an encoder; it stays where it is.")],
    *,
    name: Annotated[str, typer.Option(help="Name that stands for it from now on, such as fasttext-nl.")],
    kind: Annotated[ResourceKind, typer.Option(help="Kind of resource, which is the option that takes the name.")],
    language: Annotated[
        list[str] | None, typer.Option(help="Language of its words, such as nl; may be given many times.")
    ] = None,
    licence: Annotated[str, typer.Option(help="Its licence, for those who ask later.")] = "not stated",
) -> ResourceReport:
    """Give a file a name that options take in the place of its path; train --effort best tries it by itself."""
    from concord.workers.learning.trainers.given_features import check_resource

    own = OwnResource(name, kind, str(path.expanduser().absolute()), licence, tuple(language or ()))
    check_own(own)
    check_resource(kind, own.path)
    add_resource(own)
    return ResourceReport.from_results(own, is_known=True)


@app.command(epilog="Example: concord resources remove --name fasttext-nl")
def remove(
    *,
    name: Annotated[str, typer.Option(help="Name of `concord resources add` that is taken away.")],
) -> ResourceReport:
    """Take a name away; the file itself stays."""
    return ResourceReport.from_results(remove_resource(name), is_known=False)
