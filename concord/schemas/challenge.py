"""What a weekly training comes to: a new model beside the one in use."""

from __future__ import annotations

from concord.schemas.reports import Difference
from concord.schemas.run import Figures, TrainReport


class ChallengeReport(Figures):
    """A challenger and the champion, on documents that neither may have learned from.

    - ``alias``: alias of the champion
    - ``challenger``, ``champion``: versions in the registry; null where there was no champion
    - ``promoted``: whether the alias moved to the challenger
    - ``reason``: why, or why not
    - ``measure``: what was compared by F1
    - ``gain``: the challenger's F1 beside the champion's, on ``documents``; null where nothing was compared
    - ``training``: report of the challenger's training
    """

    name: str
    alias: str
    challenger: str
    champion: str | None
    promoted: bool
    reason: str
    measure: str | None = None
    documents: int = 0
    gain: Difference | None = None
    training: TrainReport
