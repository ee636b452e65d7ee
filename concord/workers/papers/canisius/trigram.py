"""Memory-based model of label n-grams, with constraint-satisfaction inference.

Canisius, Van den Bosch & Daelemans (2011). A class is an n-gram: the labels of a token and its neighbours. The nearest
training instances of each token predict a class, and the overlapping predictions form a weighted constraint
satisfaction problem (`workers.papers.canisius.ngrams`). Its unigrams are the model's potentials; longer n-grams are
rows of the model's own, which engines solve like any other rows. Transition scores are zero, so Viterbi's answer is the
vote of the unigrams.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from concord.schemas.arrays import Floats, Ids, Ints, Mask
from concord.schemas.document import Batch
from concord.schemas.labels import Labels, LabelSet
from concord.schemas.potentials import LARGEST_WEIGHT, Potentials
from concord.workers.features.gazetteer_files import read_gazetteer, write_gazetteer
from concord.workers.models.arrays_file import ArrayKind, write_arrays
from concord.workers.models.folder import Manifest, manifest_of, read_manifest, write_manifest
from concord.workers.models.model import LocalScores
from concord.workers.models.saved_files import FolderModel, parsing, saved_arrays
from concord.workers.papers.canisius import timbl
from concord.workers.papers.canisius.nearest import Nearest, Vote
from concord.workers.papers.canisius.neighbourhoods import Classifier, Neighbourhoods, told_once
from concord.workers.papers.canisius.ngrams import ground, neighbour_grams, predicted_grams, rows_of, summed, voted
from concord.workers.papers.canisius.settings import TrigramSettings, TrigramWindow
from concord.workers.papers.canisius.windows import Windows, numbered
from concord.workers.storage.files import write_whole
from concord.workers.storage.tables import read_table

KIND = "trigram"
NEAREST = "nearest"
"""Name of concord's own learner; the others are TiMBL's."""
INSTANCES_FILE = "instances.bin"
VALUES_FILE = "values.parquet"
"""File of the values of each feature, in the order of their numbers."""
ENTITIES_FILE = "entities.parquet"
ARRAYS = (
    ArrayKind("values", "<i4", ("features", "instances")),
    ArrayKind("classes", "<i4", ("instances",)),
    ArrayKind("weights", "<f8", ("features",)),
    ArrayKind("labels", "<i8", ("classes", "places")),
)
LAYOUT = pa.schema([("feature", pa.int32()), ("value", pa.string())])


class Instances(NamedTuple):
    """Training instances: M tokens with F features.

    - ``values`` (F, M): number of each token's value of each feature.
    - ``classes`` (M,): number of each token's label n-gram.
    - ``weights`` (F,): weight of each feature.
    - ``labels`` (C, n): label ids of each label n-gram, −1 beyond the sentence.
    """

    values: Ids
    classes: Ids
    weights: Floats
    labels: Ints


@dataclass(frozen=True, eq=False)
class TrigramModel(FolderModel):
    """A memory-based model.

    - ``windows``: the features of a token.
    - ``values``: names of the values of each of the F features, by number.
    - ``classes`` (C, n): label ids of each class, −1 beyond the sentence.
    - ``classifier``: finds the nearest training instances.
    """

    labels: LabelSet
    windows: Windows
    values: Sequence[Sequence[str]]
    classes: Ints
    classifier: Classifier
    settings: TrigramSettings
    manifest: Manifest

    @property
    def columns(self) -> tuple[str, ...]:
        """The token columns that the windows read."""
        return self.windows.columns

    def potentials(self, batch: Batch) -> Potentials:
        """Potentials of the unigrams alone: unary (N, L), shares of neighbourhoods, summed over the tokens that predict
        a label; −inf for a label that is no candidate."""
        return self.scores(batch).potentials

    def scores(self, batch: Batch) -> LocalScores:
        """Potentials of the unigrams, and rows of the longer n-grams; see `workers.papers.canisius.ngrams`."""
        return self.scores_of(self.neighbourhoods(batch), batch)

    def scores_of(self, neighbourhoods: Neighbourhoods, batch: Batch) -> LocalScores:
        """Local scores of a batch, given the neighbourhoods of its tokens."""
        grams = predicted_grams(neighbourhoods, self.classes, batch.sentence_bounds)
        if self.settings.domain == "neighbours":
            unigrams = neighbour_grams(neighbourhoods, self.classes)
            grams = summed([grams.chosen(grams.length > 1), unigrams])
        local = ground(grams, batch.token_count, self.labels, legal=self.settings.legality == "bio")
        flat = np.zeros((len(self.labels),) * 2)
        return LocalScores(Potentials(local.unary, flat, batch.sentence_starts), rows_of(local.grams, batch.doc_starts))

    def neighbourhoods(self, batch: Batch) -> Neighbourhoods:
        """Neighbourhood of each of the N tokens; equal tokens are classified once."""
        return told_once(self.classifier, self.instances(batch))

    def instances(self, batch: Batch) -> Ids:
        """(N, F) number of each token's value of each feature; −1 for a value that training did not have."""
        return numbered(self.windows.features(batch), self.values)

    def voted(self, batch: Batch) -> Labels:
        """(N,) majority label of the predicted n-grams that overlap at each token."""
        return voted(self.neighbourhoods(batch), self.classes, batch.sentence_bounds, len(self.labels))

    def known(self, words: Sequence[str]) -> Mask:
        """(V,) mask of the words that were a training token (not only a neighbour of one)."""
        training_words = set(self.values[WORD_FEATURE])
        return np.array([word in training_words for word in words], np.bool_)


WORD_FEATURE = 2
"""Number of the feature that is the token's own word, in the middle of the first window."""


def save(
    out: Path,
    labels: LabelSet,
    windows: Windows,
    values: Sequence[Sequence[str]],
    instances: Instances,
    *,
    settings: TrigramSettings,
    training: Mapping[str, Any],
) -> TrigramModel:
    """Writes instances, values, entities and manifest. Raises `OSError` and `OutputError`."""
    files = [INSTANCES_FILE, VALUES_FILE]
    libraries = () if settings.learner == NEAREST else (timbl.TIMBL_DISTRIBUTION,)
    if libraries:
        files += timbl.write_base(out, instances.values, instances.classes, settings)
        instances = instances._replace(values=instances.values[:, :0], classes=instances.classes[:0])
    write_arrays(out / INSTANCES_FILE, instances)
    _write_values(out / VALUES_FILE, values)
    if windows.entities is not None:
        entities = windows.entities.for_all
        windows = Windows(windows.kind, entities)
        write_gazetteer(out / ENTITIES_FILE, entities)
        files.append(ENTITIES_FILE)
    manifest = manifest_of(
        out, KIND, labels, files=files, settings=settings, training=training, libraries=("numpy", *libraries)
    )
    return _model(out, windows, values, instances, settings, write_manifest(out, manifest))


def load(folder: Path | str) -> TrigramModel:
    """The model saved in a folder. Raises `ModelError` where it is not whole."""
    folder = Path(folder)
    manifest = read_manifest(folder, kind=KIND, files=(INSTANCES_FILE, VALUES_FILE))
    settings = TrigramSettings.model_validate(manifest.settings)
    instances = Instances(*saved_arrays(folder / INSTANCES_FILE, ARRAYS))
    with parsing(folder / VALUES_FILE):
        values = _read_values(folder / VALUES_FILE)
    with parsing(folder / ENTITIES_FILE):
        entities = read_gazetteer(folder / ENTITIES_FILE) if settings.windows is TrigramWindow.NAMES else None
    with parsing(folder / INSTANCES_FILE):
        _check(instances, values, manifest.label_set, remembered=settings.learner == NEAREST)
    return _model(folder, Windows(settings.windows, entities), values, instances, settings, manifest)


def nearest(instances: Instances, settings: TrigramSettings) -> Nearest:
    """Nearest-neighbour classifier of the instances, with the settings' metric and vote."""
    how = settings.metric, Vote(settings.k, settings.decay)
    return Nearest(instances.values, instances.classes, len(instances.labels), instances.weights, *how)


def _model(
    folder: Path,
    windows: Windows,
    values: Sequence[Sequence[str]],
    instances: Instances,
    settings: TrigramSettings,
    manifest: Manifest,
) -> TrigramModel:
    remembered = settings.learner == NEAREST
    classifier: Classifier = nearest(instances, settings) if remembered else timbl.Timbl.read(folder, settings)
    return TrigramModel(manifest.label_set, windows, values, instances.labels, classifier, settings, manifest)


def _write_values(path: Path, values: Sequence[Sequence[str]]) -> None:
    feature = np.repeat(np.arange(len(values), dtype=np.int32), [len(names) for names in values])
    table = pa.table([feature, [name for names in values for name in names]], schema=LAYOUT)
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd")
    write_whole(path, sink.getvalue().to_pybytes())


def _read_values(path: Path) -> list[list[str]]:
    table = read_table(path)
    if table.schema.remove_metadata() != LAYOUT or any(column.null_count for column in table.columns):
        raise ValueError(f"{path.name} has other columns than {', '.join(LAYOUT.names)}")
    feature, names = table["feature"].to_numpy(), table["value"].to_pylist()
    if (np.diff(feature) < 0).any() or feature.min(initial=0) < 0:
        raise ValueError(f"{path.name} is not ordered by feature")
    cuts = np.searchsorted(feature, np.arange(int(feature.max(initial=-1)) + 2)).tolist()
    return [names[low:high] for low, high in pairwise(cuts)]


def _check(instances: Instances, values: Sequence[Sequence[str]], labels: LabelSet, *, remembered: bool) -> None:
    """Raises `ValueError` where the arrays do not fit together; ``remembered`` tells whether they include instances."""
    features, count = instances.values.shape
    sizes = np.array([len(names) for names in values])
    if len(sizes) != features:
        raise ValueError(f"{INSTANCES_FILE} is not of {len(sizes)} features")
    if (count == 0) is remembered or (instances.values < 0).any() or (instances.values >= sizes[:, None]).any():
        raise ValueError(f"{INSTANCES_FILE} has values that {VALUES_FILE} does not name")
    if (instances.classes < 0).any() or (instances.classes >= len(instances.labels)).any():
        raise ValueError(f"{INSTANCES_FILE} has classes without labels")
    own = instances.labels[:, instances.labels.shape[1] // 2]
    if (own < 0).any() or (instances.labels < -1).any() or (instances.labels >= len(labels)).any():
        raise ValueError(f"{INSTANCES_FILE} has labels that the manifest does not name")
    if not ((instances.weights >= 0) & (instances.weights <= LARGEST_WEIGHT)).all():
        raise ValueError(f"{INSTANCES_FILE} has weights that are no numbers")
