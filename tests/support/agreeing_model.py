"""A model of made-up news with label consistency, for doors into other people's programs."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

from concord.schemas.document import Document
from concord.workers.constraints.consistency import LabelConsistency, PairCounts
from concord.workers.learning.trainers import sgd
from concord.workers.models.folder import update_manifest
from concord.workers.models.saved_consistency import EXTRA, consistency_extra
from concord.workers.models.settings import SgdSettings
from concord.workers.synthesis.made_up import synthesize

MADE = list(synthesize(160, seed=0, kind="news"))
LEARNED, OTHERS = MADE[:60], MADE[60:]
"""What the model has seen, and a hundred documents that it has not."""


def agreeing_model(folder: Path) -> Path:
    """Trains the model into a folder, and returns it."""
    trained = sgd.train(LEARNED, settings=SgdSettings(passes=4), out=folder)
    extra = consistency_extra(LabelConsistency(PairCounts.of(LEARNED, trained.labels)))
    update_manifest(folder, kind="crf", extras={EXTRA: extra})
    return folder


def text_of(document: Document) -> str:
    """A line a sentence, with a blank between each two words."""
    bounds = [*document.sentence_starts.tolist(), len(document)]
    return "\n".join(" ".join(document.tokens[a:b]) for a, b in pairwise(bounds))
