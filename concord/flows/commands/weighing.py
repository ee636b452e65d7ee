"""Weights of a file's constraints, counted, tuned or learned on a corpus: `concord constraints weigh`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import cast

from concord.flows.commands.constraints import gold_labels
from concord.flows.commands.learning import learned_on
from concord.flows.commands.requests import WeighRequest
from concord.flows.inputs.jobs import run_tags
from concord.flows.inputs.options import parse_options
from concord.flows.inputs.output_places import check_file_place
from concord.flows.labelling.documents import check_labels, read_documents, shards_for
from concord.flows.labelling.sources import open_model
from concord.flows.screen.progress import meter
from concord.schemas.audit import CountedWeight, TuningReport, WeighReport
from concord.schemas.document import Batch
from concord.schemas.errors import CorpusError
from concord.schemas.secrets import short_name
from concord.workers.constraints.constraint_file import load_constraints
from concord.workers.constraints.constraint_writer import constraints_text
from concord.workers.constraints.declared import DeclaredConstraints
from concord.workers.constraints.declared_weights import declared_weights, with_weights
from concord.workers.corpus.plan import plan
from concord.workers.corpus.shard_table import ShardTable
from concord.workers.corpus.shards import Shard, read_batch
from concord.workers.learning.weights.penalties import (
    PENALTIES,
    WEIGHT_DECIMALS,
    By,
    LearnedSettings,
    Penalty,
    PenaltyError,
    PenaltySettings,
    TunedSettings,
    check_figure,
    penalty_named,
)
from concord.workers.learning.weights.row_counts import RowCounts, count_rows
from concord.workers.learning.weights.tuned_weights import FactorTrial, families, tune_weights
from concord.workers.storage.files import write_whole


def weigh_file(file: str, request: WeighRequest, options: Sequence[str]) -> WeighReport:
    """Weights of a file's constraints, from a corpus; ``options``: options of the penalty, as NAME=VALUE.

    Raises `PenaltyError`, `OptionError`, `OutputError`, `CorpusError` if no document has gold labels, and the errors
    of reading corpora, model and file and of tracking.
    """
    corpus, out = request.corpus, request.out
    cost = penalty_named(request.penalty)
    settings = parse_options(options, cost.settings, owner=f"penalty {request.penalty}")
    _check_given(cost, request)
    if out is not None:
        check_file_place(out, [file, corpus, request.held_out, request.model])
    constraints, shards = load_constraints(file), plan(corpus)
    labels = gold_labels(corpus, shards)
    constraints.bind(labels)
    total = sum(shard.rows for shard in shards)
    with meter("counting", total) as bar:
        gold = _Gold(shards, bar.advance)
        counts = count_rows(constraints, gold, labels)
    weights = {name: count.weight(cost, settings) for name, count in counts.items()}
    tuned = learned = None
    if cost.by is By.FACTORS:
        tuned = _tuned(request, with_weights(constraints, weights), cast("TunedSettings", settings))
    elif cost.by is By.ERRORS:
        learned = learned_on(request, constraints, cast("LearnedSettings", settings))
    factors = {} if tuned is None else tuned.factors
    family = families(constraints)
    rows = [
        _counted(name, before, counts[name], (cost, settings), factors.get(family[name], 1.0))
        for name, before in declared_weights(constraints)
    ]
    if learned is not None:
        rows = [row.model_copy(update={"weight": learned.weights.get(row.name, row.before)}) for row in rows]
        rows = [row for row in rows if row.weight > 0.0]
        constraints = constraints.only(t for t in constraints.titles if learned.weights.get(t) != 0.0)
    if out is not None:
        weighed = with_weights(constraints, {row.name: row.weight for row in rows})
        write_whole(out, constraints_text(weighed, {row.name: _comment(row) for row in rows}).encode())
    report = WeighReport.from_results(
        *(gold, request),
        without_gold=gold.without,
        constraints=tuple(rows),
        tuning=tuned,
        learning=None if learned is None else learned.report,
        written=0 if out is None else len(constraints.templates),
        out=None if out is None else str(out),
        mlflow_run=None,
    )
    return report if request.context.tracking is None else _tracked(report, short_name(file), request, shards, settings)


def _check_given(cost: Penalty, request: WeighRequest) -> None:
    """Raises `PenaltyError` if a request has something that the penalty does not take, or lacks something it needs."""
    if request.validation is not None and cost.by is not By.ERRORS:
        learned = " or ".join(name for name, penalty in PENALTIES.items() if penalty.by is By.ERRORS)
        raise PenaltyError(f"--validation is for --penalty {learned}; no other one is judged by parts of the corpus")
    given = {name for name in ("model", "held_out") if getattr(request, name) is not None}
    if cost.by.needs == given:
        return
    tuned, learned = (
        " or ".join(name for name, penalty in PENALTIES.items() if penalty.by is by) for by in (By.FACTORS, By.ERRORS)
    )
    raise PenaltyError(
        f"--penalty {tuned} goes together with --model and --held-out, --penalty {learned} with --model alone, "
        "and every other one with neither"
    )


def _tuned(request: WeighRequest, constraints: DeclaredConstraints, settings: TunedSettings) -> TuningReport:
    """Factors of the templates, chosen on documents that neither the counts nor the model have seen.

    Raises `CorpusError` without gold labels, and the errors of reading.
    """
    assert request.model is not None
    assert request.held_out is not None
    check_figure(settings.measure, settings.figure)
    opened = open_model(request.model, request.context).model
    documents, _ = read_documents(shards_for(request.held_out, opened, request.model), gold=True)
    labelled = [document for document in documents if document.labels is not None]
    if not labelled:
        raise CorpusError(f"{request.held_out}: has no gold labels to tune on")
    check_labels(labelled, opened, request.held_out)
    with meter("tuning", None) as bar:

        def show(trial: FactorTrial) -> None:
            said = ", ".join(f"{family} × {factor:g}" for family, factor in trial.factors.items() if factor != 1.0)
            bar.advance(note=f"{said or 'as counted'}: {settings.figure} {trial.figure:.2%}")

        found = tune_weights(
            Batch.of(labelled), opened, constraints.bind(opened.labels), settings, seed=request.seed, progress=show
        )
    return TuningReport.from_results(*(found, found.gain, settings), factors=found.factors, documents=len(labelled))


def _tracked(
    report: WeighReport, name: str, request: WeighRequest, shards: ShardTable, settings: PenaltySettings
) -> WeighReport:
    """The report with its run in MLflow."""
    # It takes seconds to import.
    from concord.flows.runfolder.runfolder import dataset_digest
    from concord.flows.tracking.tracking import PENALTIES_FILE, Outcome, Tracking

    corpus = request.corpus
    with Tracking(request.context.tracking).run(f"{name} · {report.penalty}", tags=run_tags(job="weigh")) as run:
        run.params({"constraints": name, "corpus": corpus, "penalty": report.penalty} | settings.model_dump())
        run.dataset(name=corpus, digest=dataset_digest(shards), source=corpus, context="weigh")
        run.text(report.model_dump_json(indent=1), PENALTIES_FILE)
        tuning = report.tuning or report.learning
        gains = {} if tuning is None else {"held_out/before": tuning.before, "held_out/after": tuning.after}
        run.end(Outcome.now({"documents": report.documents, "rejected": report.rejected} | gains))
    return report.model_copy(update={"mlflow_run": run.id})


@dataclass
class _Gold:
    """Batches of a corpus that have gold labels.

    - ``documents``, ``without``: number of documents read so far with gold labels, and without.
    - ``rejected``: number of rejects.
    """

    shards: Sequence[Shard]
    progress: Callable[[int], None]
    documents: int = 0
    without: int = 0
    rejected: int = 0

    def __iter__(self) -> Iterator[Batch]:
        for shard in self.shards:
            batch, rejects = read_batch(shard)
            self.rejected += len(rejects)
            if batch.labels is None:
                self.without += len(batch)
            else:
                self.documents += len(batch)
                yield batch
            self.progress(shard.rows)


def _counted(
    name: str, before: float, counts: RowCounts, penalty: tuple[Penalty, PenaltySettings], factor: float
) -> CountedWeight:
    low, high = counts.interval(*penalty)
    weight = before if math.isinf(before) else round(factor * counts.weight(*penalty), WEIGHT_DECIMALS)
    return CountedWeight(
        name=name,
        before=before,
        weight=weight,
        low=factor * low,
        high=factor * high,
        factor=factor,
        **counts._asdict(),
    )


def _comment(row: CountedWeight) -> str:
    share = f", {row.broken:,} of them broken" if row.broken else ", none broken"
    factor = f", times {row.factor:g}" if row.factor != 1.0 else ""
    return f"{row.rows:,} rows with their antecedent{share}{factor}; {row.low:.2f} to {row.high:.2f} nats"
