"""Models of other programs as model folders: `concord import`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import ValidationError

from concord.flows.errors import faults
from concord.flows.inputs.jobs import check_model_place, folder_place
from concord.flows.inputs.options import OptionError
from concord.flows.inputs.output_places import check_output_place
from concord.flows.labelling.documents import first_documents, read_documents
from concord.flows.screen.progress import meter
from concord.schemas.arrays import Floats
from concord.schemas.document import Document
from concord.schemas.errors import CorpusError, InputError
from concord.schemas.folders import FolderKind
from concord.schemas.labels import OUTSIDE, LabelSet
from concord.schemas.potentials import LARGEST_WEIGHT
from concord.schemas.reports import CrfsuiteReport, OnnxReport, ScoresReport, WeakFamily
from concord.workers.corpus.plan import plan
from concord.workers.learning.trainers.calibration_choice import viterbi_f1
from concord.workers.models.attribute_trial import FEW_KNOWN
from concord.workers.models.crfsuite import trust_of
from concord.workers.models.crfsuite_import import save as save_crfsuite
from concord.workers.models.label_files import labels_in
from concord.workers.models.onnx import save as save_onnx
from concord.workers.models.scores import label_set, names_of, placed, save
from concord.workers.models.settings import ScoresSettings
from concord.workers.models.subword_network import TOKENIZER_FILE, OnnxSettings, network_file, room_of
from concord.workers.storage.files import staged

TRIAL_DOCUMENTS = 200
"""Number of documents on which the functions of a model are tried."""


class SourceError(InputError):
    """A file from which no model can be made."""


def import_scores(
    labels: Path, out: Path, settings: Mapping[str, Any], *, transitions: Path | None = None
) -> ScoresReport:
    """Makes a model folder for scores in a column of the corpus.

    - ``labels``: text file with a label on each line, or the ``config.json`` of a Hugging Face model.
    - ``settings``: the other fields of `ScoresSettings`.
    - ``transitions``: ``.npy`` file (W, W) of transition scores, in nats (None: zeros).

    Raises `SourceError`, `LabelFileError`, `OptionError`, `LabelError`, `ModelError`, `OutputError` and `OSError`.
    """
    place = Path(folder_place(str(out)))
    check_output_place(place, [labels, transitions], makes=FolderKind.MODEL)
    check_model_place(place)
    source = _source(labels, settings)
    found = label_set(source)
    transition = np.zeros((len(found), len(found)))
    if transitions is not None:
        transition = placed(_matrix(transitions, len(source.labels)), source)
    with staged(place) as folder:
        model = save(folder, source, transition)
    return ScoresReport.from_results(
        source, source=source.labels, out=str(place), model_digest=model.digest, **_of_labels(source, found)
    )


def import_crfsuite(
    file: Path,
    out: Path,
    features: str,
    *,
    tokenizer: str | None = None,
    word_tables: bool = True,
    scheme: Literal["auto", "plain"] = "auto",
    corpus: str | None = None,
) -> CrfsuiteReport:
    """Makes a model folder from a model file of CRFsuite, and functions MODULE:FUNCTION, whose modules are imported.

    - ``scheme``: ``plain`` for labels that are types by themselves, whatever their names look like.
    - ``corpus``: documents on which the functions are tried; None: sentences made up of the model's own words.

    Raises `ModelError`, `ModelFileError`, `CorpusError`, `OutputError` and `OSError`.
    """
    place = Path(folder_place(str(out)))
    check_output_place(place, [file, corpus], makes=FolderKind.MODEL)
    check_model_place(place)
    data = file.read_bytes()
    documents = [] if corpus is None else _first_documents(corpus)
    with staged(place) as folder:
        saved = save_crfsuite(
            folder,
            data,
            features,
            tokenizer=tokenizer,
            word_tables=word_tables,
            scheme=scheme,
            documents=documents,
        )
    model, trial = saved.model, saved.attributes
    functions = model.functions
    return CrfsuiteReport.from_results(
        *(model, functions, functions.features, trial),
        labels=model.labels.names,
        attributes=len(model.weights.attributes),
        features=functions.features.name,
        tokenizer=None if functions.tokenizer is None else functions.tokenizer.name,
        columns=functions.columns,
        trial_sentences=trial.sentences,
        failed_sentences=trial.failed,
        attributes_known=trial.share,
        few_known=trial.share < FEW_KNOWN,
        weak_families=tuple(map(WeakFamily.from_results, trial.weak)),
        changed_word=saved.changed,
        word_tables=not functions.departure,
        trust=trust_of(functions),
        out=str(place),
        model_digest=model.digest,
    )


def import_onnx(
    folder: Path,
    out: Path,
    *,
    file: Path | None = None,
    pooling: Literal["auto", "first", "mean"] = "auto",
    overlap: int = OnnxSettings().overlap,
    scheme: Literal["auto", "plain"] = "auto",
    corpus: str | None = None,
) -> OnnxReport:
    """Makes a model folder from a Hugging Face token classifier in ONNX.

    - ``folder``: has ``config.json``, ``tokenizer.json`` and the network.
    - ``file``: the network; None: the only file ``.onnx`` of the folder, or ``model.onnx`` among several.
    - ``pooling``: scores of a word, see `OnnxSettings`; ``auto`` takes those with the better F1 on the corpus, and
      ``first`` without one.
    - ``overlap``: see `OnnxSettings`.
    - ``corpus``: labelled documents, which the network has not learned from.

    Raises `SourceError`, `LabelFileError`, `LabelError`, `ModelError`, `OptionError`, the errors of reading the corpus,
    `OutputError` and `OSError`.
    """
    place = Path(folder_place(str(out)))
    check_output_place(place, [folder, file, corpus], makes=FolderKind.MODEL)
    check_model_place(place)
    if pooling == "auto" and corpus is not None:
        documents, _ = read_documents(plan(corpus), gold=True)
    else:
        documents = []
    config = _config(folder / "config.json")
    place_of_network = file or network_file(folder, "name one with --network")
    network, tokenizer = place_of_network.read_bytes(), (folder / TOKENIZER_FILE).read_bytes()
    source = _source(folder / "config.json", {"form": "log-probabilities", "scheme": scheme})
    found: dict[str, float] = {}
    ways = ("first", "mean") if documents else ("first" if pooling == "auto" else pooling,)
    with staged(place) as made:
        for way in ways:
            reading = _reading(way, overlap, config)
            model = save_onnx(made, network, tokenizer, source, reading)
            if documents:
                with meter(f"judging the scores of a word: {way}", None):
                    found[way] = viterbi_f1(documents, model)
        if found and found["first"] >= found["mean"]:
            model = save_onnx(made, network, tokenizer, source, _reading("first", overlap, config))
    own = _of_labels(source, model.labels)
    return OnnxReport.from_results(model.reading, pooling_f1=found, out=str(place), model_digest=model.digest, **own)


def _of_labels(source: ScoresSettings, labels: LabelSet) -> dict[str, Any]:
    """Fields of reports about the labels of a tagger and those of the model that reads its scores."""
    read = names_of(source)
    return {
        "labels": labels.names,
        "joined": read.converted,
        "padding": read.padding,
        "outside": OUTSIDE in source.labels,
        "scheme": str(labels.scheme),
        "types": len(labels.types),
    }


def _reading(pooling: str, overlap: int, config: Mapping[str, Any]) -> OnnxSettings:
    try:
        return OnnxSettings.model_validate({"pooling": pooling, "overlap": overlap, "room": room_of(config)})
    except ValidationError as error:
        raise OptionError(faults(error)) from error


def _config(path: Path) -> dict[str, Any]:
    """Content of a ``config.json``. Raises `SourceError`."""
    try:
        read = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise SourceError(f"{path}: is no JSON ({error})") from error
    if not isinstance(read, dict):
        raise SourceError(f"{path}: is no configuration of a model; it has to be one JSON object")
    return read


def _first_documents(corpus: str) -> list[Document]:
    """The first `TRIAL_DOCUMENTS` documents of a corpus. Raises `CorpusError`, also where there is none."""
    documents = [document for batch in first_documents(plan(corpus), TRIAL_DOCUMENTS) for document in batch]
    if not documents:
        raise CorpusError(f"{corpus}: has no document to try the functions on")
    return documents


def _source(labels: Path, settings: Mapping[str, Any]) -> ScoresSettings:
    try:
        return ScoresSettings.model_validate({**settings, "labels": labels_in(labels)})
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
