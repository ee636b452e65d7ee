"""Constraint-driven learning on a cluster: cycles of labelling a pool and learning a model from it."""

from __future__ import annotations

from concord.flows.inputs.jobs import checked_places, folder_place
from concord.flows.inputs.run_context import RunContext
from concord.flows.watched import watched
from concord.schemas.codl import CodlReport, CodlSettings
from concord.schemas.folders import FolderKind
from concord.schemas.run import DEFAULT_RUN, RunSettings
from concord.schemas.settings import Validation


@watched("codl", run_name="{corpus} and {pool}")
def codl(
    corpus: str,
    pool: str,
    out: str,
    *,
    constraints: str | None = None,
    held_out: str | None = None,
    settings: CodlSettings | None = None,
    tune: bool = False,
    validation: Validation | None = None,
    labelling: RunSettings = DEFAULT_RUN,
    shard_bytes: int | None = None,
    ray: str | None = None,
    workers: int | None = None,
    tracking: str | None = None,
) -> CodlReport:
    """Learns a model from a labelled ``corpus`` and a ``pool``, whose labels are not read.

    - ``constraints``: YAML file of declared constraints (None: semi-supervised learning).
    - ``held_out``: labelled corpus that every cycle is measured on.
    - ``settings``: options of the learning (None: the defaults).
    - ``tune``: choose `CodlSettings.gamma` by cross-validation over the labelled documents? See
      `flows.training.codl_tuning`.
    - ``validation``: labelled documents that judge gamma (None: random ones).
    - ``labelling``: how the pool is decoded; all of its ``n_best`` labellings count.
    - ``shard_bytes``, ``ray``, ``workers``, ``tracking``: as in `flows.reprocess.reprocess`.

    The same call again goes on where it stopped. Raises `TrainingError`, and the errors of `flows.reprocess.reprocess`.
    """
    chosen = settings or CodlSettings()
    if chosen.em == "soft" and not labelling.n_best:
        from concord.schemas.errors import TrainingError

        raise TrainingError("em=soft weighs the best labellings against each other: give --n-best as well")
    if validation is not None and not tune:
        from concord.schemas.errors import TrainingError

        raise TrainingError("--validation says which documents judge what --tune chooses: give --tune as well")
    given = [corpus, pool] if held_out is None else [corpus, pool, held_out]
    folder = folder_place(out)
    places = checked_places(given, folder, makes=FolderKind.CYCLES, files=[] if constraints is None else [constraints])

    from concord.flows.training.learn_from_pool import LearnRequest, learn
    from concord.workers.labelling.labelled import check_settings

    request = LearnRequest(
        corpus=places[0],
        pool=places[1],
        out=folder,
        constraints=constraints,
        held_out=None if held_out is None else places[2],
        settings=chosen,
        tune=tune,
        validation=validation or Validation.RANDOM,
        labelling=check_settings(labelling),
        shard_bytes=shard_bytes,
        context=RunContext(ray=ray, workers=workers, tracking=tracking),
    )
    return learn(request)
