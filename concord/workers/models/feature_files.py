"""Feature set of a saved model: its name in the manifest, and the files that it reads in the model folder."""

from __future__ import annotations

from dataclasses import replace
from itertools import count, takewhile
from pathlib import Path

from concord.workers.features.clusters import ClusterFileError, read_clusters, write_clusters
from concord.workers.features.gazetteer_files import GazetteerFileError, read_gazetteer, write_gazetteer
from concord.workers.features.gazetteers import PHRASE_SETS
from concord.workers.features.templates import FeatureSet, FeatureSetError, feature_set
from concord.workers.features.word_vectors import WordVectors
from concord.workers.models.folder import MANIFEST, Manifest, ModelError

LIST_FILES = {name: f"{name}.parquet" for name in PHRASE_SETS}
"""Files of the phrase lists (gazetteers) that a feature set reads, by name of the list."""

VECTORS_FILE = "vectors.parquet"
"""File of the words that word vectors have."""


def clusters_file(number: int) -> str:
    """Name of a file of word clusters; ``number`` counts those that the feature set reads, from 1."""
    return "clusters.parquet" if number == 1 else f"clusters-{number}.parquet"


def write_features(out: Path, features: FeatureSet) -> tuple[FeatureSet, tuple[str, ...]]:
    """Writes the files that the features read.

    Returns the features as they are for documents outside the training corpus, and the names of the files. Raises
    `OSError`.
    """
    lists = {name: gazetteer.for_all for name, gazetteer in features.lists.items()}
    tables = {clusters_file(table.file): table for table in features.clusters}
    vectors = None if features.vectors is None else features.vectors.saved
    if vectors is not None:
        tables[VECTORS_FILE] = vectors.table
    for name, table in tables.items():
        write_clusters(out / name, table)
    for name, gazetteer in lists.items():
        write_gazetteer(out / LIST_FILES[name], gazetteer)
    return replace(features, lists=lists, vectors=vectors), (*tables, *(LIST_FILES[name] for name in lists))


def read_features(folder: Path, manifest: Manifest) -> FeatureSet:
    """Feature set that a manifest names, with its files in the folder. Raises `ModelError`, also where the templates
    of this feature set are no longer those of the training."""
    try:
        clusters = (folder / file for file in takewhile(manifest.files.__contains__, map(clusters_file, count(1))))
        lists = {name: read_gazetteer(folder / file) for name, file in LIST_FILES.items() if file in manifest.files}
        features = feature_set(manifest.features, clusters, lists, _vectors(folder, manifest))
    except (FeatureSetError, ClusterFileError, GazetteerFileError) as error:
        raise ModelError(f"{folder / MANIFEST}: {error}; train again") from error
    if features.template_names != manifest.templates:
        raise ModelError(
            f"{folder / MANIFEST}: trained with another definition of feature set {manifest.features!r}; train again"
        )
    return features


def _vectors(folder: Path, manifest: Manifest) -> WordVectors | None:
    if VECTORS_FILE not in manifest.files:
        return None
    return WordVectors.of_table(read_clusters(folder / VECTORS_FILE, file=0))
