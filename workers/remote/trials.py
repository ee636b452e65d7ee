"""The task of trials: settings of memory-based n-grams, those together that share distances, on so many tokens."""

from __future__ import annotations

import json
from typing import NamedTuple

from concord.schemas.settings import TextSettings
from concord.workers.corpus.shards import DEFAULT_TEXT
from concord.workers.learning.search.progressive import TrialTally
from concord.workers.learning.trainers.trigram_trials import Sample, chosen_of, tried
from concord.workers.models.memory.settings import Metric, TrigramSettings
from concord.workers.models.trigram import NEAREST
from concord.workers.remote.task import Task


class TrialGroup(NamedTuple):
    """A group of settings (`workers.learning.trainers.trigram_trials.together`) on so many tokens; see `Unit`."""

    group: tuple[TrigramSettings, ...]
    tokens: int

    @property
    def names(self) -> list[str]:
        """Of each of the settings on so many tokens, in a search in which only what `chosen_of` names differs."""
        return [name_of(one, self.tokens) for one in self.group]

    @property
    def id(self) -> str:
        """Of a search."""
        return json.dumps(self.names)

    @property
    def size(self) -> int:
        """The largest groups are handed out first."""
        return len(self.group)

    @property
    def place(self) -> str:
        """For messages."""
        given = ", ".join(f"{name} {value}" for name, value in chosen_of(self.group[0]).items())
        others = f" and {len(self.group) - 1} like it" if len(self.group) > 1 else ""
        return f"{given}{others} on {self.tokens:,} tokens"


def name_of(settings: TrigramSettings, tokens: int) -> str:
    """What the tally of these settings is kept by."""
    return json.dumps([tokens, *chosen_of(settings).values()])


class TrialParts(NamedTuple):
    """What is remembered and classified, by what learner, and the most tokens that a trial remembers, None for all; no
    text is read."""

    sample: Sample
    learner: str = NEAREST
    largest: int | None = None
    text: TextSettings = DEFAULT_TEXT


def _run(trial: TrialGroup, parts: TrialParts) -> list[TrialTally]:
    return tried(parts.sample, trial.group, trial.tokens)


WARM = 10
"""Tokens that kernels are compiled on."""


def _warm(parts: TrialParts) -> None:
    for metric in (Metric.OVERLAP, Metric.MVDM):
        tried(parts.sample, [TrigramSettings(learner=NEAREST, metric=metric)], min(WARM, parts.sample.tokens))


REMEMBERED = {NEAREST: 40, "igtree": 100, "tribl2": 250, "ib1": 250}
"""Bytes of a value that is remembered, of 22 a token, at the peak of a trial; measured, see `workers.remote.memory`."""


def _builds(parts: TrialParts) -> int:
    tokens = parts.sample.tokens
    return REMEMBERED[parts.learner] * len(parts.sample.values) * min(tokens, parts.largest or tokens)


TRIALS = Task("trials", TrialParts, run=_run, counts=TrialTally.merge, rehearse=_run, warm=_warm, builds=_builds)
