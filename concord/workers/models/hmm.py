"""A first-order hidden Markov model: each label follows from the one before, each word from its own label.

    p(y, w) = Π_t p(y_t | y_{t−1}) · p(w_t | y_t),

so the potentials are the logarithms of these probabilities, and engines treat them like a CRF's (Stokman 2011
eq. 2–8). A word that training never saw is scored by its shape (`workers.features.extractors.shape`), and by the row
for unseen shapes if the shape is new as well.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from concord.schemas.arrays import Floats
from concord.schemas.document import TOKENS, Batch
from concord.schemas.labels import LabelSet
from concord.schemas.potentials import Potentials
from concord.workers.features.extractors import shape
from concord.workers.models.arrays_file import LOG_PROBABILITIES, ArrayKind, write_arrays
from concord.workers.models.folder import Manifest, ModelError, manifest_of, read_manifest, write_manifest
from concord.workers.models.saved_files import FolderModel, saved_arrays
from concord.workers.models.settings import HmmSettings
from concord.workers.storage.files import write_whole

KIND = "hmm"
STRINGS_FILE = "strings.json"
"""Words and shapes of the training corpus, each list in the order of its table's rows."""
TABLES_FILE = "tables.bin"
ARRAYS = (
    ArrayKind("initial", "<f8", ("labels",), LOG_PROBABILITIES),
    ArrayKind("transition", "<f8", ("labels", "labels"), LOG_PROBABILITIES),
    ArrayKind("word", "<f8", ("words", "labels"), LOG_PROBABILITIES),
    ArrayKind("shape", "<f8", ("shapes", "labels"), LOG_PROBABILITIES),
)


class Tables(NamedTuple):
    """Log probabilities in nats, one column per label (L).

    - ``initial`` (L,): the first label of a sentence.
    - ``transition`` (L, L): a label given the label before (row).
    - ``word`` (V, L): each of V known words given the label.
    - ``shape`` (S + 1, L): one unknown word of each shape given the label; the last row is for unseen shapes.
    """

    initial: Floats
    transition: Floats
    word: Floats
    shape: Floats


@dataclass(frozen=True, eq=False)
class HmmModel(FolderModel):
    """Hidden Markov model: its tables, and the words (V) and shapes (S) that their rows stand for."""

    labels: LabelSet
    words: tuple[str, ...]
    shapes: tuple[str, ...]
    tables: Tables
    manifest: Manifest
    columns: tuple[str, ...] = (TOKENS,)

    def potentials(self, batch: Batch) -> Potentials:
        """Local scores of a whole batch: unary (N, L), nats, without the label set's legality."""
        tokens = batch.columns[TOKENS]
        unary = self._emissions(tokens.values)[tokens.codes]
        unary[batch.sentence_starts] += self.tables.initial
        return Potentials(unary, self.tables.transition.copy(), batch.sentence_starts)

    def known(self, words: Sequence[str]) -> NDArray[np.bool_]:
        """(V,) mask of the words that occurred in training."""
        return np.array([word in self._row_of_word for word in words], np.bool_)

    def _emissions(self, words: Sequence[str]) -> Floats:
        """(V, L) log probability of each of these words given the label, in nats."""
        rows = np.array([self._row(word) for word in words], np.int64)
        return np.concatenate([self.tables.word, self.tables.shape])[rows]

    def _row(self, word: str) -> int:
        row = self._row_of_word.get(word)
        return len(self.words) + self._row_of_shape.get(shape(word), len(self.shapes)) if row is None else row

    @cached_property
    def _row_of_word(self) -> dict[str, int]:
        return {word: row for row, word in enumerate(self.words)}

    @cached_property
    def _row_of_shape(self) -> dict[str, int]:
        return {name: row for row, name in enumerate(self.shapes)}


def save(
    out: Path,
    labels: LabelSet,
    words: Sequence[str],
    shapes: Sequence[str],
    tables: Tables,
    *,
    settings: HmmSettings,
    training: dict[str, Any],
) -> HmmModel:
    """Writes a model into an existing folder, the manifest last. Raises `OSError` and `OutputError`."""
    write_whole(out / STRINGS_FILE, json.dumps({"words": list(words), "shapes": list(shapes)}).encode())
    write_arrays(out / TABLES_FILE, tables)
    files = (STRINGS_FILE, TABLES_FILE)
    manifest = write_manifest(out, manifest_of(out, KIND, labels, files=files, settings=settings, training=training))
    return HmmModel(labels, tuple(words), tuple(shapes), tables, manifest)


def load(folder: Path | str) -> HmmModel:
    """Hidden Markov model of a folder; files are parsed only after their hash was checked. Raises `ModelError`."""
    folder = Path(folder)
    manifest = read_manifest(folder, kind=KIND, files=(STRINGS_FILE, TABLES_FILE))
    words, shapes = _strings(folder / STRINGS_FILE)
    sizes = {"labels": len(manifest.labels), "words": len(words), "shapes": len(shapes) + 1}
    tables = Tables(*saved_arrays(folder / TABLES_FILE, ARRAYS, **sizes))
    return HmmModel(manifest.label_set, words, shapes, tables, manifest)


def _strings(path: Path) -> tuple[tuple[str, ...], tuple[str, ...]]:
    try:
        found = json.loads(path.read_bytes())
        words, shapes = found["words"], found["shapes"]
        known = all(isinstance(text, str) for text in (*words, *shapes))
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ModelError(f"{path}: damaged ({error}); train again") from error
    if not known or len(set(words)) < len(words) or len(set(shapes)) < len(shapes):
        raise ModelError(f"{path}: words and shapes are strings, each of them once; train again")
    return tuple(words), tuple(shapes)
