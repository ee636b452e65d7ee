"""Choice of a trainer's settings by wrapped progressive sampling, with trials on Ray.

Trials go to one pool of workers, one sample after the other; trials of the same distances go together. The tally of
each is written to a file beside the model when it ends, so that a killed search goes on where it stopped, and ends with
the same choice. Each sample is a child run in MLflow with a table of its trials; a run for each trial would take longer
than most trials.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from concord.flows.cluster.cluster import cluster
from concord.flows.errors import failed_message
from concord.flows.screen.progress import meter, say
from concord.flows.tracking.tracking import Outcome, Tracking
from concord.flows.training.trial_file import TrialFile
from concord.flows.work.done import Done
from concord.schemas.document import Document
from concord.schemas.errors import ShardsError
from concord.schemas.run_context import RunContext
from concord.schemas.settings import TrainerSettings
from concord.schemas.train_report import SampleRow
from concord.workers.learning.search.progressive import SampleRound, Sampling, TrialTally, rounds, sizes_of
from concord.workers.remote.trials import TRIALS, TrialGroup, TrialParts, name_of

TRIALS_TABLE = "trials.json"
"""Name of the artifact with every trial of a sample."""

TrialWork = Callable[[Sequence[TrialGroup]], Iterator[Done[TrialGroup, list[TrialTally]]]]


def search_of(corpus: str, sampling: Sampling, settings: TrainerSettings) -> list[str]:
    """All that decides the result of a trial; ``corpus`` is the digest of the documents.

    Raises `TrainingError` if there is nothing to search.
    """
    return [corpus, *(one.model_dump_json() for one in sampling.grid(settings))]


def choose(
    documents: Sequence[Document],
    sampling: Sampling,
    settings: TrainerSettings,
    *,
    context: RunContext,
    largest: int | None,
    trials: TrialFile,
    progress: Callable[[SampleRound, SampleRow, Sequence[TrainerSettings]], None],
) -> tuple[TrainerSettings, list[SampleRow]]:
    """The best settings, and a row for each sample; ``progress`` gets each sample.

    - ``largest``: largest training sample of a trial, in tokens (None: the whole corpus)

    Raises `TrainingError`, `ShardsError` if a trial failed, `ClusterError` and `OutputError`.
    """
    every, sample = sampling.grid(settings), sampling.sample(documents, settings)
    rows, best = list[SampleRow](), settings
    parts = TrialParts(sampling, sample, settings, largest)
    with (
        cluster(context.ray, workers=context.workers) as running,
        running.pool(TRIALS, parts, most=len(sampling.together(every))) as work,
    ):
        attempt = partial(_tallies, sampling, every, work, trials)
        for made in rounds(len(every), sizes_of(sample.tokens, largest), attempt):
            best = every[made.best]
            rows.append(_row(sampling, made, best))
            say(_line(rows[-1]))
            progress(made, rows[-1], every)
    return best, rows


def _tallies(
    sampling: Sampling,
    every: Sequence[TrainerSettings],
    work: TrialWork,
    trials: TrialFile,
    tokens: int,
    numbers: Sequence[int],
) -> Mapping[int, TrialTally]:
    """Tallies by number of the setting, from an earlier call or from Ray. Raises `ShardsError`."""
    names = {number: name_of(sampling, every[number], tokens) for number in numbers}
    todo = [every[number] for number, name in names.items() if name not in trials.results]
    groups = [TrialGroup(sampling, tuple(group), tokens) for group in sampling.together(todo)]
    errors = list[str]()
    with meter(f"samples of {tokens:,} tokens", len(names)) as bar:
        bar.advance(len(names) - len(todo))
        for done in work(groups):
            if done.result is None:
                errors.append(done.failure)
                continue
            trials.add(dict(zip(done.shard.names, done.result, strict=True)))
            bar.advance(len(done.result), note="trials")
    if errors:
        raise ShardsError(failed_message(sorted(errors), len(groups), of="groups of trials"))
    return {number: TrialTally(*trials.results[name]) for number, name in names.items()}


def _row(sampling: Sampling, made: SampleRound, best: TrainerSettings) -> SampleRow:
    mine = made.tallies[made.best]
    return SampleRow(
        tokens=made.size,
        tested=mine.tested,
        tried=len(made.tallies),
        left=len(made.left),
        best=dict(sampling.chosen_of(best)),
        accuracy=mine.accuracy,
        default=made.tallies[0].accuracy,
        seconds=TrialTally.merge(made.tallies.values()).seconds,
    )


def _line(row: SampleRow) -> str:
    """A sample in one line, for people."""
    return (
        f"{row.tokens:,} tokens: {row.tried} settings tried, {row.left} left; {row.accuracy:.2%} of classes right, "
        f"{row.default:.2%} by default; {row.seconds:,.1f} CPU s"
    )


def track(
    tracking: Tracking,
    tags: Mapping[str, str],
    sampling: Sampling,
    made: SampleRound,
    row: SampleRow,
    every: Sequence[TrainerSettings],
) -> None:
    """Tracks a sample as a child run. Raises `TrackingError`."""
    table = [
        {**sampling.chosen_of(every[number]), "right": tally.right, "seconds": round(tally.seconds, 3)}
        for number, tally in made.tallies.items()
    ]
    with tracking.run(f"{row.tokens:,} tokens", tags=tags) as run:
        run.params({"tokens": row.tokens, "tested": row.tested, **row.best})
        run.text(json.dumps(table, indent=1), TRIALS_TABLE)
        figures = row.model_dump(include={"tried", "left", "accuracy", "default", "seconds"})
        run.end(Outcome.now(figures))
