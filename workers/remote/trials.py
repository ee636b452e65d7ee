"""Task of trials of settings of memory-based n-grams on so many tokens; settings that share distances go together."""

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
        """Name of each of the settings on so many tokens, unique if a search varies only what `chosen_of` names."""
        return [name_of(one, self.tokens) for one in self.group]

    @property
    def id(self) -> str:
        """Identifier of the group within a search."""
        return json.dumps(self.names)

    @property
    def size(self) -> int:
        """Number of settings; the largest groups are handed out first."""
        return len(self.group)

    @property
    def place(self) -> str:
        """Description of the group, for messages."""
        given = ", ".join(f"{name} {value}" for name, value in chosen_of(self.group[0]).items())
        others = f" and {len(self.group) - 1} like it" if len(self.group) > 1 else ""
        return f"{given}{others} on {self.tokens:,} tokens"


def name_of(settings: TrigramSettings, tokens: int) -> str:
    """Key of the tally of these settings on so many tokens."""
    return json.dumps([tokens, *chosen_of(settings).values()])


class TrialParts(NamedTuple):
    """Shared parts of trials; ``text`` is not used, as no text is read.

    ``sample``: training instances to remember, and instances to classify
    ``learner``: the learner
    ``largest``: largest number of tokens that a trial remembers; None: all
    """

    sample: Sample
    learner: str = NEAREST
    largest: int | None = None
    text: TextSettings = DEFAULT_TEXT


def _run(trial: TrialGroup, parts: TrialParts) -> list[TrialTally]:
    return tried(parts.sample, trial.group, trial.tokens)


WARM = 10
"""Number of tokens on which kernels are compiled."""


def _warm(parts: TrialParts) -> None:
    for metric in (Metric.OVERLAP, Metric.MVDM):
        tried(parts.sample, [TrigramSettings(learner=NEAREST, metric=metric)], min(WARM, parts.sample.tokens))


REMEMBERED = {NEAREST: 40, "igtree": 100, "tribl2": 250, "ib1": 250}
"""Bytes for each remembered value (22 a token) at the peak of a trial, by learner; measured, see
`workers.remote.memory`."""


def _builds(parts: TrialParts) -> int:
    tokens = parts.sample.tokens
    return REMEMBERED[parts.learner] * len(parts.sample.values) * min(tokens, parts.largest or tokens)


TRIALS = Task("trials", TrialParts, run=_run, counts=TrialTally.merge, rehearse=_run, warm=_warm, builds=_builds)
