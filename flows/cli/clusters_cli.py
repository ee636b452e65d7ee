"""`concord clusters`: word clusters for the feature set of that name. Heavy imports stay inside the commands."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from concord.flows.cli.arguments import Json, Ray, Set, Workers, print_json
from concord.flows.cli.failures import reported
from concord.flows.cli.next_steps import after_clusters, say_next
from concord.flows.cli.option_lists import with_options
from concord.flows.cli.settings_options import takes
from concord.flows.cli.tree import CommandTree
from concord.flows.progress import show
from concord.schemas.reports import ClusterReport
from concord.schemas.settings import TextSettings
from concord.workers.features.settings import BrownSettings, ClusterSettings, CoOccurrenceSettings

app = CommandTree(help="Put words into clusters, which features can look at.")

Corpora = Annotated[list[str], typer.Option(help="Corpus of any text, labelled or not; may be given many times.")]
ClustersOut = Annotated[Path, typer.Option(help="Parquet file for the clusters.")]


@app.command(
    epilog=with_options(
        "Example: concord clusters learn --corpus novels/ --corpus corpora/train/ --out words.parquet",
        CoOccurrenceSettings,
    )
)
@takes(TextSettings)
def learn(
    *,
    corpus: Corpora,
    out: ClustersOut,
    set_: Set = None,
    ray: Ray = None,
    workers: Workers = None,
    as_json: Json = False,
    settings: dict[str, Any],
) -> None:
    """Learn clusters of words from text: words of one cluster occur in similar contexts. Counts on Ray."""
    with reported():
        from concord.flows.commands import clusters
        from concord.flows.options import parse_options

        chosen = parse_options(set_ or [], CoOccurrenceSettings, owner="clusters learn")
        text = TextSettings.model_validate(settings)
        report = clusters.learn(corpus, out, chosen, text=text, ray=ray, workers=workers)
        _show(report, as_json=as_json)


@app.command(
    epilog=with_options(
        "Example: concord clusters brown --corpus novels/ --corpus corpora/train/ --out words.parquet", BrownSettings
    )
)
@takes(TextSettings)
def brown(
    *,
    corpus: Corpora,
    out: ClustersOut,
    set_: Set = None,
    ray: Ray = None,
    workers: Workers = None,
    as_json: Json = False,
    settings: dict[str, Any],
) -> None:
    """Learn a tree of Brown clusters from text, counted on Ray; its first bits are clusters of several sizes."""
    with reported():
        from concord.flows.commands import clusters
        from concord.flows.options import parse_options

        chosen = parse_options(set_ or [], BrownSettings, owner="clusters brown")
        text = TextSettings.model_validate(settings)
        report = clusters.learn_tree(corpus, out, chosen, text=text, ray=ray, workers=workers)
        _show(report, as_json=as_json)


@app.command(
    "import",
    epilog=with_options("Example: concord clusters import glove.6B.50d.txt --out words.parquet", ClusterSettings),
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
            help="Words of an .npy array: a .txt file, one a line, or .parquet with a column of strings (default: the "
            "array's name with that ending)."
        ),
    ] = None,
    set_: Set = None,
    as_json: Json = False,
) -> None:
    """Make clusters of word vectors that others have learned."""
    with reported():
        from concord.flows.commands import clusters
        from concord.flows.options import parse_options

        settings = parse_options(set_ or [], ClusterSettings, owner="clusters import")
        _show(clusters.imported(vectors, out, settings, words=words), as_json=as_json)


def _show(report: ClusterReport, *, as_json: bool) -> None:
    if as_json:
        print_json(report.model_dump_json())
        return
    show(f"{report.words:,} words in clusters: {', '.join(report.clusterings)}")
    for name, words in zip(report.clusterings, report.examples, strict=True):
        show(f"  one of {name}: {' '.join(words)}")
    show(f"clusters in {report.out}")
    say_next(after_clusters(report.out))
