"""Models of other programs as model folders: `concord import`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import ValidationError

from concord.flows.apart import check_apart
from concord.flows.errors import faults
from concord.flows.jobs import check_model_place, folder_place
from concord.flows.options import OptionError
from concord.schemas.arrays import Floats
from concord.schemas.errors import InputError
from concord.schemas.folders import FolderKind
from concord.schemas.potentials import LARGEST_WEIGHT
from concord.schemas.reports import CrfsuiteReport, ScoresReport
from concord.workers.models.crfsuite import save as save_crfsuite
from concord.workers.models.crfsuite import trust_of
from concord.workers.models.scores import label_ids, label_set, placed, save
from concord.workers.models.settings import ScoresSettings
from concord.workers.storage.files import staged


class SourceError(InputError):
    """A file from which no model can be made."""


def import_scores(
    labels: Path, out: Path, settings: Mapping[str, Any], *, transitions: Path | None = None
) -> ScoresReport:
    """Makes a model folder for scores in a column of the corpus.

    - ``labels``: text file with a label on each line.
    - ``settings``: the other fields of `ScoresSettings`.
    - ``transitions``: ``.npy`` file (W, W) of transition scores, in nats (None: zeros).

    Raises `SourceError`, `OptionError`, `LabelError`, `ModelError`, `OutputError` and `OSError`.
    """
    place = Path(folder_place(str(out)))
    check_apart(place, [labels, transitions], makes=FolderKind.MODEL)
    check_model_place(place)
    source = _source(labels, settings)
    found = label_set(source.labels)
    transition = np.zeros((len(found), len(found)))
    if transitions is not None:
        transition = placed(_matrix(transitions, len(source.labels)), source.labels)
    with staged(place) as folder:
        model = save(folder, source, transition)
    written = found.decode(label_ids(source.labels, found))
    return ScoresReport(
        column=source.column,
        form=source.form,
        temperature=source.temperature,
        source=source.labels,
        labels=found.names,
        joined=tuple(a for a, b in zip(source.labels, written, strict=True) if a != b),
        types=len(found.types),
        out=str(place),
        model_digest=model.digest,
    )


def import_crfsuite(
    file: Path, out: Path, features: str, *, tokenizer: str | None = None, word_tables: bool = True
) -> CrfsuiteReport:
    """Makes a model folder from a model file of CRFsuite, and functions MODULE:FUNCTION, whose modules are imported.

    Raises `ModelError`, `ModelFileError`, `OutputError` and `OSError`.
    """
    place = Path(folder_place(str(out)))
    check_apart(place, [file], makes=FolderKind.MODEL)
    check_model_place(place)
    data = file.read_bytes()
    with staged(place) as folder:
        model = save_crfsuite(folder, data, features, tokenizer=tokenizer, word_tables=word_tables)
    functions = model.functions
    return CrfsuiteReport(
        labels=model.labels.names,
        attributes=len(model.weights.attributes),
        features=functions.features.name,
        tokenizer=None if functions.tokenizer is None else functions.tokenizer.name,
        package=functions.features.package,
        release=functions.features.release,
        word_tables=not functions.departure,
        departure=functions.departure,
        trust=trust_of(functions),
        out=str(place),
        model_digest=model.digest,
    )


def _source(labels: Path, settings: Mapping[str, Any]) -> ScoresSettings:
    try:
        names = tuple(line.strip() for line in labels.read_text("utf-8").splitlines() if line.strip())
    except UnicodeDecodeError as error:
        raise SourceError(f"{labels}: is no text in UTF-8; give a file with a label a line") from error
    if not names or len(set(names)) != len(names):
        fault = "a label is there twice" if names else "there is no label in it"
        raise SourceError(f"{labels}: {fault}; give each label a line, in the order of the scores")
    try:
        return ScoresSettings.model_validate({**settings, "labels": names})
    except ValidationError as error:
        raise OptionError(faults(error)) from error


def _matrix(path: Path, size: int) -> Floats:
    try:
        with path.open("rb") as file:
            matrix: Floats = np.lib.format.read_array(file, allow_pickle=False).astype(np.float64)
    except (ValueError, TypeError) as error:
        raise SourceError(f"{path}: is no matrix of numbers ({error}); write one with numpy.save") from error
    if matrix.shape != (size, size):
        raise SourceError(f"{path}: is {matrix.shape}, want ({size}, {size}): a row and a column for each label")
    if not np.abs(matrix).max() <= LARGEST_WEIGHT:
        raise SourceError(f"{path}: has an entry that is no number of at most {LARGEST_WEIGHT:g} nats")
    return matrix
