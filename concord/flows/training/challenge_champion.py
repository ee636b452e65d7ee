"""The work of `flows.challenge`: training, both models' answers to held-out documents, the gate, the alias."""

from __future__ import annotations

from pathlib import Path

from concord.flows.labelling.evaluate import evaluate
from concord.flows.labelling.label_corpus import label_corpus
from concord.flows.labelling.sources import open_model
from concord.flows.tracking.tracking import Tracking
from concord.flows.training.train_model import TrainJob, train_model
from concord.schemas.challenge import ChallengeReport
from concord.schemas.folders import FolderKind
from concord.schemas.learning_requests import ChallengeRequest
from concord.schemas.reports import AgainstReport
from concord.schemas.requests import LabelRequest
from concord.schemas.run import REGISTRY
from concord.schemas.settings import TrainerSettings
from concord.workers.evaluation.gate import GateVerdict, gate
from concord.workers.storage.folder_kinds import check_kind, say_kind

CHALLENGER = "challenger"
"""Alias of the newest version, and the folder of its answers."""
CHAMPION = "champion"
MODEL = "model"
"""Folders in that of a challenge."""
COMPARED = "f1"


class ChallengeJob(ChallengeRequest):
    """A request, and the settings that the options of its trainer are.

    - ``trainer_settings``: of the trainer
    """

    trainer_settings: TrainerSettings

    @property
    def champion(self) -> str:
        """The champion, as a run names it."""
        return f"{REGISTRY}{self.register_as}@{self.alias}"

    @property
    def training(self) -> TrainJob:
        """The challenger's training."""
        return TrainJob(
            corpus=self.corpus,
            out=str(Path(self.out) / MODEL),
            trainer=self.trainer,
            settings=self.trainer_settings,
            consistency=self.consistency,
            register_as=self.register_as,
            alias=CHALLENGER,
            context=self.context,
        )


def challenge_champion(request: ChallengeJob) -> ChallengeReport:
    """Trains and registers, compares, moves the alias or does not, and tells MLflow why."""
    check_kind(Path(request.out), FolderKind.CHALLENGE)
    say_kind(Path(request.out), FolderKind.CHALLENGE)
    tracking = Tracking(request.context.tracking)
    champion = tracking.version(request.register_as, request.alias)
    training = train_model(request.training)
    challenger = tracking.version(request.register_as, CHALLENGER)
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
        tracking.point(request.register_as, request.alias, challenger)
    report = ChallengeReport.from_results(
        *(verdict, request),
        name=request.register_as,
        challenger=challenger,
        champion=champion,
        measure=measure,
        documents=documents,
        gain=None if against is None or measure is None else against.measures[measure][COMPARED],
        training=training,
    )
    _note(tracking, report)
    return report


def _compare(request: ChallengeJob) -> tuple[AgainstReport, int]:
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
                allow_gone=True,
            )
        )
    champion, challenger = (str(Path(request.out) / folder) for folder in folders)
    found = evaluate(challenger, request.held_out, against=champion).report
    assert found.against is not None
    return found.against, found.documents


def _note(tracking: Tracking, report: ChallengeReport) -> None:
    """Adds the verdict to the MLflow run of the training."""
    figures = {} if report.gain is None else {f"gate/{n}": float(x) for n, x in report.gain.model_dump().items()}
    tags = {"gate": report.headline, "promoted": str(report.promoted).lower()}
    tracking.note(report.training.mlflow_run, figures, tags)
