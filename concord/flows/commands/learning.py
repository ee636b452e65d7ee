"""Penalties learned from the errors of a model: `concord constraints weigh --penalty learned`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from pydantic import ValidationError

from concord.flows.commands.requests import WeighRequest
from concord.flows.labelling.documents import read_documents
from concord.flows.labelling.sources import open_model
from concord.flows.screen.progress import meter
from concord.flows.training.judging import AsTrained
from concord.schemas.audit import LearningReport
from concord.schemas.errors import InputError, TrainingError
from concord.schemas.run_context import RunContext
from concord.schemas.settings import Validation
from concord.workers.constraints.declared import DeclaredConstraints
from concord.workers.corpus.plan import plan
from concord.workers.learning.trainers.given_features import check_given
from concord.workers.learning.trainers.layers import ANSWERING
from concord.workers.learning.trainers.registry import TRAINERS
from concord.workers.learning.weights.learned_weights import PassDone, learn_weights
from concord.workers.learning.weights.penalties import WEIGHT_DECIMALS, LearnedSettings, PenaltyError, check_figure
from concord.workers.learning.weights.unseen import check_scores
from concord.workers.models.folder import MANIFEST, parse_manifest
from concord.workers.sweeps.documents import NAMED_FILES, digests_of_named


class WeightsReport(NamedTuple):
    """Learned weights.

    - ``weights``: weight of each soft row by name; 0 for one that got none.
    - ``report``: report of the learning.
    """

    weights: Mapping[str, float]
    report: LearningReport


def learned_on(request: WeighRequest, constraints: DeclaredConstraints, settings: LearnedSettings) -> WeightsReport:
    """Weights learned from the errors of models that are trained like the request's model, on parts of the corpus.

    Raises `PenaltyError` for a model that no trainer here made and an unknown figure, and the errors of reading and
    training.
    """
    assert request.model is not None
    validation = request.validation or Validation.RANDOM
    check_figure(settings.measure, settings.figure)
    made = as_trained(request.model, request.context, why=f"--penalty {request.penalty}")
    documents, _ = read_documents(plan(request.corpus), gold=True)
    labelled = [document for document in documents if document.labels is not None]
    unseen = made.unseen(labelled, settings.folds, validation)
    with meter("learning", None) as bar:

        def show(done: PassDone) -> None:
            there = "" if done.figure is None else f", {settings.figure} {done.figure:.2%}"
            bar.advance(note=f"rate {done.rate:g}, pass {done.passes}{there}")

        bound = constraints.bind(unseen.labels)
        found = learn_weights(unseen, bound, settings, validation=validation, seed=request.seed, progress=show)
    weights = {name: round(nats, WEIGHT_DECIMALS) for name, nats in found.weights.items()}
    dropped = sum(nats == 0.0 for nats in weights.values())
    report = LearningReport.from_results(
        *(found, found.gain, settings), passes=found.passes, validation=validation, dropped=dropped
    )
    return WeightsReport(weights, report)


def as_trained(model: str, context: RunContext, *, why: str) -> AsTrained:
    """Training of an existing model; ``why``: what needs more models like it, the subject of a message.

    Raises `PenaltyError` for a model that no trainer here made, `TrainingError` where its scores are more than
    potentials, and where a file or resource that its settings name cannot be read or is another one; and the errors of
    opening.
    """
    source = open_model(model, context)
    check_scores(source.model)
    manifest = parse_manifest(source.folder / MANIFEST)
    name = str(manifest.training.get("trainer"))
    trainer = TRAINERS.get(name)
    if trainer is None:
        made = "it gives the answers of a layer as they are" if name == ANSWERING else "no trainer made it"
        raise PenaltyError(f"{model}: {made}; {why} trains models of its kind: weigh rules by --penalty odds or tuned")
    fields = trainer.settings.model_fields
    options = {option: value for option, value in manifest.settings.items() if option in fields or value is not None}
    removed = sorted(options.keys() - fields)
    if removed:
        raise PenaltyError(f"{model}: trainer {name} no longer has {', '.join(removed)}; train again without")
    try:
        settings = trainer.settings.model_validate(options)
    except ValidationError as error:
        raise PenaltyError(f"{model}: its settings are not those of its trainer: {error}") from error
    try:
        check_given(settings)
    except InputError as error:
        raise TrainingError(
            f"{model}: {why} trains by its settings, and what one of them names cannot be read: {error}; put it back, "
            "or give it that name by `concord resources add`"
        ) from error
    then = manifest.extras.get(NAMED_FILES, {})
    if changed := [name for name, digest in digests_of_named(settings).items() if then.get(name, digest) != digest]:
        raise TrainingError(
            f"{model}: {why} trains by its settings, and {', '.join(changed)} is not what it was when this model was "
            "trained, or another file of that name; put it back, or train again"
        )
    return AsTrained(name, trainer, settings, manifest.temperature, manifest.outside_cost)
