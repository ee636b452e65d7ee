"""`concord clusters`: word clusters for the feature set of that name. Heavy imports stay inside the commands."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from concord.flows.cli.arguments import Set
from concord.flows.cli.next_steps import after_clusters
from concord.flows.cli.option_lists import with_options
from concord.flows.cli.tree import CommandTree
from concord.schemas.reports import ClusterReport
from concord.workers.features.settings import ClusterSettings, TreeSettings

app = CommandTree(help="Group words into clusters, for the feature set clusters.")

ClustersOut = Annotated[Path, typer.Option(help="Parquet file for the clusters.")]


def _next(report: ClusterReport) -> list[str]:
    return after_clusters(report.out)


@app.command(
    "import",
    epilog=with_options("Example: concord clusters import glove.6B.50d.txt --out words.parquet", ClusterSettings),
    proposes=_next,
)
def import_vectors(
    vectors: Annotated[
        Path, typer.Argument(help="File of word vectors: text, .bin of word2vec, .parquet, or .npy with --words.")
    ],
    *,
    out: ClustersOut,
    words: Annotated[
        Path | None,
        typer.Option(
            help="Words of an .npy array: a .txt file with one word on each line, or a .parquet file with a column of "
            "strings (default: the array's name with one of these endings)."
        ),
    ] = None,
    set_: Set = None,
) -> ClusterReport:
    """Make word clusters from word vectors of other programs."""
    from concord.flows.commands.clusters import imported
    from concord.flows.inputs.options import parse_options

    settings = parse_options(set_ or [], ClusterSettings, owner="clusters import")
    return imported(vectors, out, settings, words=words)


@app.command(
    "paths",
    epilog=with_options(
        "Example: concord clusters paths es_lexeme_cluster.json.gz --out words.parquet",
        TreeSettings,
    ),
    proposes=_next,
)
def read_paths(
    tree: Annotated[
        Path,
        typer.Argument(
            help="Tree of words: text with a path of 0 and 1, a word and its count on each line (Brown clusters; maybe "
            ".gz), or spaCy's table of clusters (.json, .json.gz)."
        ),
    ],
    *,
    out: ClustersOut,
    set_: Set = None,
) -> ClusterReport:
    """Make word clusters from a tree of words that other programs have learned, such as Brown clusters."""
    from concord.flows.commands.clusters import of_tree
    from concord.flows.inputs.options import parse_options

    return of_tree(tree, out, parse_options(set_ or [], TreeSettings, owner="clusters paths"))
