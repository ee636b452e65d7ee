"""Constraint-driven learning on a cluster: cycles of labelling a pool and learning a model from it."""

from __future__ import annotations

from concord.flows.inputs.jobs import checked_places, folder_place
from concord.flows.watched import watched
from concord.schemas.codl import CodlReport, CodlSettings
from concord.schemas.folders import FolderKind
from concord.schemas.requests import DEFAULT_CODL, CodlRequest
from concord.schemas.run import DEFAULT_RUN, RunSettings
from concord.schemas.settings import Validation


@watched("codl", CodlRequest, run_name="{corpus} and {pool}")
def codl(
    corpus: str,
    pool: str,
    out: str,
    *,
    constraints: str | None = None,
    held_out: str | None = None,
    settings: CodlSettings = DEFAULT_CODL,
    tune: bool = False,
    validation: Validation | None = None,
    labelling: RunSettings = DEFAULT_RUN,
    shard_bytes: int | None = None,
    ray: str | None = None,
    workers: int | None = None,
    tracking: str | None = None,
) -> CodlReport:
    """Learns a model from a labelled ``corpus`` and a ``pool``, whose labels are not read.

    Gamma is chosen as `flows.training.codl_tuning` says.

    The same call again goes on where it stopped. Raises `TrainingError`, and the errors of `flows.reprocess.reprocess`.
    """
    request = CodlRequest.of(locals())
    if settings.em == "soft" and not labelling.n_best:
        from concord.schemas.errors import TrainingError

        raise TrainingError("em=soft weighs the best labellings against each other: give --n-best as well")
    if validation is not None and not tune:
        from concord.schemas.errors import TrainingError

        raise TrainingError("--validation says which documents judge what --tune chooses: give --tune as well")
    corpora = [corpus, pool] if held_out is None else [corpus, pool, held_out]
    folder = folder_place(out)
    places = checked_places(
        corpora, folder, makes=FolderKind.CYCLES, files=[] if constraints is None else [constraints]
    )

    from concord.flows.training.learn_from_pool import learn
    from concord.workers.labelling.labelled import check_settings

    parts = {"corpus": places[0], "pool": places[1], "out": folder, "labelling": check_settings(labelling)}
    if held_out is not None:
        parts["held_out"] = places[2]
    return learn(request.model_copy(update=parts))
