"""Task of trials of settings on so many tokens, by a trainer's `Sampling`; settings that share work go together."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from concord.schemas.settings import TextSettings, TrainerSettings
from concord.workers.corpus.shards import DEFAULT_TEXT
from concord.workers.learning.search.progressive import Sampled, Sampling, TrialTally
from concord.workers.remote.task import Task


class TrialGroup(NamedTuple):
    """A group of settings (`Sampling.together`) on so many tokens; see `Unit`."""

    sampling: Sampling
    group: tuple[Any, ...]
    tokens: int

    @property
    def names(self) -> list[str]:
        """Name of each of the settings on so many tokens, unique if a search varies only what `chosen_of` names."""
        return [name_of(self.sampling, one, self.tokens) for one in self.group]

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
        settings = ", ".join(f"{name} {value}" for name, value in self.sampling.chosen_of(self.group[0]).items())
        others = f" and {len(self.group) - 1} like it" if len(self.group) > 1 else ""
        return f"{settings}{others} on {self.tokens:,} tokens"


def name_of(sampling: Sampling, settings: TrainerSettings, tokens: int) -> str:
    """Key of the tally of these settings on so many tokens."""
    return json.dumps([tokens, *sampling.chosen_of(settings).values()])


class TrialParts(NamedTuple):
    """Shared parts of trials; ``text`` is not used, as no text is read.

    - ``sampling``: functions that try settings.
    - ``sample``: training instances to remember, and instances to classify.
    - ``settings``: the settings that were given.
    - ``largest``: largest number of tokens that a trial remembers; None: all.
    """

    sampling: Sampling
    sample: Sampled
    settings: TrainerSettings
    largest: int | None = None
    text: TextSettings = DEFAULT_TEXT


def _run(trial: TrialGroup, parts: TrialParts) -> list[TrialTally]:
    return parts.sampling.tried(parts.sample, trial.group, trial.tokens)


WARM = 10
"""Number of tokens on which kernels are compiled."""


def _warm(parts: TrialParts) -> None:
    for settings in parts.sampling.warming:
        parts.sampling.tried(parts.sample, [settings], min(WARM, parts.sample.tokens))


def _builds(parts: TrialParts) -> int:
    tokens = parts.sample.tokens
    return parts.sampling.token_bytes(parts.sample, parts.settings) * min(tokens, parts.largest or tokens)


TRIALS = Task("trials", TrialParts, run=_run, counts=TrialTally.merge, rehearse=_run, warm=_warm, builds=_builds)
