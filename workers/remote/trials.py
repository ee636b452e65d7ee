"""The task of trials: settings of memory-based n-grams, each on a sample of so many tokens."""

from __future__ import annotations

import json
from typing import NamedTuple

from schemas.settings import TextSettings
from schemas.trigram import Metric, TrigramSettings
from workers.corpus.shards import DEFAULT_TEXT
from workers.learning.progressive import Tally
from workers.learning.trigram_trials import Sample, chosen_of, tried
from workers.models.trigram import NEAREST
from workers.remote.task import Task, itself


class Trial(NamedTuple):
    """Settings on so many tokens; see `Unit`."""

    settings: TrigramSettings
    tokens: int

    @property
    def id(self) -> str:
        """Of a search, in which only what `chosen_of` names differs."""
        return json.dumps([self.tokens, *chosen_of(self.settings).values()])

    @property
    def size(self) -> int:
        """Trials of a size are handed out in their order."""
        return 0

    @property
    def place(self) -> str:
        """For messages."""
        given = ", ".join(f"{name} {value}" for name, value in chosen_of(self.settings).items())
        return f"{given} on {self.tokens:,} tokens"


class TrialParts(NamedTuple):
    """What is remembered and classified; no text is read."""

    sample: Sample
    text: TextSettings = DEFAULT_TEXT


def _run(trial: Trial, parts: TrialParts) -> Tally:
    return tried(parts.sample, trial.settings, trial.tokens)


WARM = 10
"""Tokens that kernels are compiled on."""


def _warm(parts: TrialParts) -> None:
    for metric in (Metric.OVERLAP, Metric.MVDM):
        tried(parts.sample, TrigramSettings(learner=NEAREST, metric=metric), min(WARM, parts.sample.tokens))


TRIALS = Task("trials", TrialParts, run=_run, counts=itself, rehearse=_run, warm=_warm)
