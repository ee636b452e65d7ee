"""The work of `flows.challenge`: training, both models' answers to held-out documents, the gate, the alias."""

from __future__ import annotations

from pathlib import Path

from concord.flows.commands.evaluate import evaluate
from concord.flows.label_corpus import LabelRequest, label_corpus
from concord.flows.pages import challenge_told
from concord.flows.progress import say
from concord.flows.run_context import RunContext
from concord.flows.sources import open_model
from concord.flows.tracking.tracking import Tracking
from concord.flows.train_model import TrainRequest, train_model
from concord.schemas.challenge import ChallengeReport
from concord.schemas.errors import InputError
from concord.schemas.reports import AgainstReport
from concord.schemas.run import REGISTRY, RunSettings, TrainReport
from concord.schemas.settings import Settings, TrainerSettings
from concord.workers.corpus.plan import plan
from concord.workers.corpus.shards import read_ids
from concord.workers.evaluation.gate import GateVerdict, gate

CHALLENGER = "challenger"
"""Alias of the newest version, and the folder of its answers."""
CHAMPION = "champion"
MODEL = "model"
"""Folders in that of a challenge."""
COMPARED = "f1"


class ChallengeError(InputError):
    """Documents that cannot judge a model, since it has learned from them."""


class ChallengeRequest(Settings):
    """One challenge, as Prefect gives it; fields as the parameters of `flows.challenge.challenge`."""

    corpus: str
    held_out: str
    out: str
    name: str
    alias: str
    trainer: str
    trainer_settings: TrainerSettings
    settings: RunSettings
    constraints: tuple[str, ...]
    consistency: bool
    least_gain: float
    context: RunContext

    @property
    def champion(self) -> str:
        """The champion, as a run names it."""
        return f"{REGISTRY}{self.name}@{self.alias}"


def challenge_champion(request: ChallengeRequest) -> ChallengeReport:
    """Trains and registers, compares, moves the alias or does not, and tells MLflow why."""
    check_unseen(request.corpus, request.held_out)
    tracking = Tracking(request.context.tracking)
    champion = tracking.version(request.name, request.alias)
    training = _train(request)
    challenger = tracking.version(request.name, CHALLENGER)
    assert challenger is not None
    against: AgainstReport | None = None
    measure: str | None = None
    documents = 0
    if champion is None:
        verdict = GateVerdict(promoted=True, reason=f"there was no {request.alias} yet")
    elif open_model(request.champion, request.context).model.digest == training.model_digest:
        verdict = GateVerdict(promoted=False, reason=f"it is the same model as the {request.alias}, byte for byte")
    else:
        against, documents = _compare(request)
        measure = next(name for name, figures in against.measures.items() if COMPARED in figures)
        verdict = gate(against.measures[measure][COMPARED], least_gain=request.least_gain)
    if verdict.promoted:
        tracking.point(request.name, request.alias, challenger)
    report = ChallengeReport(
        name=request.name,
        alias=request.alias,
        challenger=challenger,
        champion=champion,
        promoted=verdict.promoted,
        reason=verdict.reason,
        measure=measure,
        documents=documents,
        gain=None if against is None or measure is None else against.measures[measure][COMPARED],
        training=training,
    )
    _note(tracking, report)
    say(challenge_told(report))
    return report


def check_unseen(corpus: str, held_out: str) -> None:
    """Raises `ChallengeError` for a document of ``held_out`` whose id is in ``corpus``."""
    learned = {name for shard in plan(corpus) for name in read_ids(shard)}
    for shard in plan(held_out):
        for row, name in enumerate(read_ids(shard)):
            if name is not None and name in learned:
                raise ChallengeError(
                    f"{shard.file.path}, row {shard.first_row + row}: its id is in {corpus}, too; what a "
                    "model has learned from cannot judge it: take it out of one of the corpora"
                )


def _train(request: ChallengeRequest) -> TrainReport:
    return train_model(
        TrainRequest(
            corpus=request.corpus,
            out=str(Path(request.out) / MODEL),
            trainer=request.trainer,
            settings=request.trainer_settings,
            consistency=request.consistency,
            register_as=request.name,
            alias=CHALLENGER,
            context=request.context,
        )
    )


def _compare(request: ChallengeRequest) -> tuple[AgainstReport, int]:
    """The challenger's answers beside the champion's, and the number of documents."""
    folders = {CHAMPION: request.champion, CHALLENGER: str(Path(request.out) / MODEL)}
    for folder, model in folders.items():
        label_corpus(
            LabelRequest(
                corpus=request.held_out,
                model=model,
                out=str(Path(request.out) / folder),
                settings=request.settings,
                constraints=request.constraints,
                consistency=request.consistency,
                context=request.context,
            )
        )
    champion, challenger = (str(Path(request.out) / folder) for folder in folders)
    found = evaluate(challenger, request.held_out, against=champion).report
    assert found.against is not None
    return found.against, found.documents


def _note(tracking: Tracking, report: ChallengeReport) -> None:
    """Adds the verdict to the MLflow run of the training."""
    figures = {} if report.gain is None else {f"gate/{n}": float(x) for n, x in report.gain.model_dump().items()}
    tags = {"gate": challenge_told(report), "promoted": str(report.promoted).lower()}
    tracking.note(report.training.mlflow_run, figures, tags)
