"""Import of a CRFsuite model: its functions are tried on sentences before it is saved, and what they lack is told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal, NamedTuple

from concord.schemas.document import TOKENS, Document
from concord.schemas.errors import DocumentError
from concord.workers.models.attribute_trial import AttributeTrial, made_up, try_function
from concord.workers.models.crfsuite import (
    FUNCTIONS_FILE,
    KNOWN_SHARE,
    MODEL_FILE,
    UNTRIED,
    CrfsuiteModel,
    Functions,
    columns_asked,
    function_named,
    import_function,
    manifest_over,
    sentences_of,
    weights_in,
    with_functions,
)
from concord.workers.models.folder import ModelError, write_manifest
from concord.workers.models.saved_files import write_content
from concord.workers.models.word_tables import departure
from concord.workers.storage.files import write_whole

TRIAL_TEXTS = 40
"""Number of texts on which a tokenizer is tried; half of them in other cases, too."""


class SavedModel(NamedTuple):
    """A model that was imported, and what its functions made of trial sentences and texts.

    - ``attributes``: trial of the feature function.
    - ``changed``: a word of a trial text, and what the tokenizer made of it; None if it changed none.
    """

    model: CrfsuiteModel
    attributes: AttributeTrial
    changed: tuple[str, str] | None


def save(
    out: Path,
    data: bytes,
    features: str,
    *,
    tokenizer: str | None = None,
    word_tables: bool = True,
    scheme: Literal["auto", "plain"] = "auto",
    documents: Sequence[Document] = (),
) -> SavedModel:
    """Writes a model into an existing folder, from the bytes of a CRFsuite file and functions that the caller trusts.

    - ``features``, ``tokenizer``: functions as MODULE:FUNCTION.
    - ``word_tables``: try whether word tables can replace the feature function? Otherwise it is called for each
      sentence.
    - ``scheme``: ``plain`` for labels that are types by themselves, whatever their names look like.
    - ``documents``: what the functions are tried on; none: sentences made up of the model's own words.

    Raises `ModelError` where there is no such function, it fails on all sentences or makes no attribute that the model
    knows, or the labels are of no scheme; `ModelFileError` where the bytes are no model; and `OutputError`.
    """
    own = function_named(features)
    columns = columns_asked(import_function(features), features)
    named = Functions(
        features=own,
        tokenizer=None if tokenizer is None else function_named(tokenizer),
        columns=columns,
        scheme=scheme,
        departure=f"it reads {', '.join(columns)} beside the words" if columns else UNTRIED,
    )
    write_whole(out / MODEL_FILE, data)
    weights = weights_in(out / MODEL_FILE)
    model = with_functions(weights, named, manifest_over(out, weights, named, ()))
    trial = _tried(model, documents)
    changed = _changed_word(model, documents)
    if word_tables and not columns:
        found = departure(model.scored, len(weights.labels), weights.attributes)
        named = named.model_copy(update={"departure": found})
    write_content(out / FUNCTIONS_FILE, named)
    training = {KNOWN_SHARE: trial.share, "trial_sentences": trial.sentences}
    manifest = write_manifest(out, manifest_over(out, weights, named, (MODEL_FILE, FUNCTIONS_FILE), training))
    saved = replace(model, functions=named, manifest=manifest)
    return SavedModel(saved, trial, changed)


def _tried(model: CrfsuiteModel, documents: Sequence[Document]) -> AttributeTrial:
    """Trial of the feature function. Raises `ModelError` where it cannot be the one that the model was trained with."""
    name, attributes_there = model.functions.features.name, model.weights.attributes
    sentences = list(sentences_of(documents, model.columns)) if documents else made_up(attributes_there, model.columns)
    trial = try_function(model.attributes_of, model.rows, sentences)
    if trial.failed == trial.sentences:
        fault = trial.fault.removeprefix(f"{name} ")
        asked = f"; it asks for the columns {', '.join(model.columns[1:])}" if model.functions.columns else ""
        raise ModelError(f"{name}: fails on all {trial.sentences} trial sentences, the first time so: {fault}{asked}")
    if not trial.made:
        raise ModelError(f"{name}: makes no attributes of {trial.sentences} trial sentences")
    if not trial.known:
        raise ModelError(
            f"{name}: of the attributes that it makes, such as {trial.unknown!r}, the model knows none; it has "
            f"{', '.join(map(repr, attributes_there[:3]))}: give the function that the model was trained with"
        )
    return trial


def _changed_word(model: CrfsuiteModel, documents: Sequence[Document]) -> tuple[str, str] | None:
    """A word of trial texts that the tokenizer changes, as it stands there and as it comes out.

    Raises `ModelError` where the tokenizer fails on all texts.
    """
    own = model.tokenizer
    if own is None:
        return None
    columns = (TOKENS,)
    sentences = sentences_of(documents, columns) if documents else made_up(model.weights.attributes, columns)
    texts = [" ".join(sentence[TOKENS]) for sentence in sentences][:TRIAL_TEXTS]
    texts += [f"{text.title()}, {text.upper()}" for text in texts[: TRIAL_TEXTS // 2]]
    changed, faults = None, list[str]()
    for text in texts:
        try:
            cut = own([text])
        except DocumentError as error:
            faults.append(error.reason)
            continue
        stands = [text[a:b] for a, b in zip(cut.start.tolist(), cut.end.tolist(), strict=True)]
        pairs = zip(stands, cut.tokens.strings(), strict=True)
        changed = changed or next(((there, word) for there, word in pairs if there != word), None)
    if len(faults) == len(texts):
        fault = faults[0].removeprefix(f"{own.name} ")
        raise ModelError(f"{own.name}: fails on all {len(texts)} trial texts, the first time so: {fault}")
    return changed
