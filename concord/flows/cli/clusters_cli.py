"""`concord clusters`: word clusters for the feature set of that name. Heavy imports stay inside the commands."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from concord.flows.cli.arguments import RayOptions, Set, TextOptions
from concord.flows.cli.next_steps import after_clusters
from concord.flows.cli.option_lists import with_options
from concord.flows.cli.tree import CommandTree
from concord.schemas.reports import ClusterReport
from concord.schemas.requests import ENCODER_HELP
from concord.workers.features.settings import COUNTED_WAYS, ClusterSettings, StateSettings, TreeSettings

app = CommandTree(help="Group words into clusters, for the feature set clusters.")

Corpora = Annotated[list[str], typer.Option(help="Corpus of any text, labelled or not; may be given many times.")]
ClustersOut = Annotated[Path, typer.Option(help="Parquet file for the clusters.")]


def _next(report: ClusterReport) -> list[str]:
    return after_clusters(report.out)


class Way(NamedTuple):
    """A way to cluster the words of corpora: help and an example of its command."""

    help: str
    example: str


WAYS = {
    "learn": Way(
        "Learn word clusters from text: words of one cluster occur in similar contexts. Counts on Ray.",
        "Example: concord clusters learn --corpus novels/ --corpus corpora/train/ --out words.parquet",
    ),
    "brown": Way(
        "Learn Brown clusters from text: a tree of words, whose first bits give clusters of several sizes. Counts"
        " on Ray.",
        "Example: concord clusters brown --corpus novels/ --corpus corpora/train/ --out words.parquet",
    ),
    "clark": Way(
        "Learn Clark clusters from text: words of one cluster have similar neighbours and similar letters. Counts on"
        " Ray.",
        "Example: concord clusters clark --corpus novels/ --corpus corpora/train/ --out words.parquet",
    ),
}
"""Ways to cluster words, by the name of the command."""


def _learner(name: str) -> Callable[..., ClusterReport]:
    def command(
        *, corpus: Corpora, out: ClustersOut, set_: Set = None, context: RayOptions, text: TextOptions
    ) -> ClusterReport:
        from concord.flows.commands.clusters import learn
        from concord.flows.inputs.options import parse_options

        settings = parse_options(set_ or [], COUNTED_WAYS[name], owner=f"clusters {name}")
        return learn(corpus, out, settings, text=text, context=context)

    return command


for name, way in WAYS.items():
    app.command(name, help=way.help, epilog=with_options(way.example, COUNTED_WAYS[name]), proposes=_next)(
        _learner(name)
    )


@app.command(
    "states",
    epilog=with_options(
        "Example: concord clusters states --encoder downloads/minilm/ --corpus corpora/train/ --out words.parquet",
        StateSettings,
    ),
    proposes=_next,
)
def learn_states(
    *,
    corpus: Corpora,
    encoder: Annotated[Path, typer.Option(help=ENCODER_HELP)],
    out: ClustersOut,
    set_: Set = None,
    context: RayOptions,
    text: TextOptions,
) -> ClusterReport:
    """Cluster the words of a text by what an encoder says of them: the mean of their states. Runs it on Ray."""
    from concord.flows.commands.clusters import learn_from_states
    from concord.flows.inputs.options import parse_options

    settings = parse_options(set_ or [], StateSettings, owner="clusters states")
    return learn_from_states(corpus, out, encoder, settings, text=text, context=context)


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
