"""Constraint-driven learning on a cluster: cycles of labelling a pool and learning a model from it."""

from __future__ import annotations

from concord.flows.inputs.jobs import checked_places, folder_place
from concord.flows.watched import watched
from concord.schemas.codl import CodlReport
from concord.schemas.folders import FolderKind
from concord.schemas.learning_requests import CodlRequest


@watched("codl", CodlRequest, run_name="{corpus} and {pool}")
def codl(request: CodlRequest) -> CodlReport:
    """Learns a model from a labelled ``corpus`` and a ``pool``, whose labels are not read.

    Gamma is chosen as `flows.training.codl_tuning` says.

    The same call again goes on where it stopped. Raises `TrainingError`, and the errors of `flows.reprocess.reprocess`.
    """
    if request.settings.em == "soft" and not request.labelling.n_best:
        from concord.schemas.errors import TrainingError

        raise TrainingError("em=soft weighs the best labellings against each other: give --n-best as well")
    if request.validation is not None and not request.tune:
        from concord.schemas.errors import TrainingError

        raise TrainingError("--validation says which documents judge what --tune chooses: give --tune as well")
    corpora = [place for place in (request.corpus, request.pool, request.held_out) if place is not None]
    out, files = folder_place(request.out), () if request.constraints is None else (request.constraints,)
    places = checked_places(corpora, out, makes=FolderKind.CYCLES, files=files)

    from concord.flows.training.learn_from_pool import learn
    from concord.workers.labelling.labelled import check_settings

    named = dict(zip(("corpus", "pool", "held_out"), places, strict=False))
    labelling = check_settings(request.labelling)
    return learn(request.model_copy(update=named | {"out": out, "labelling": labelling}))
