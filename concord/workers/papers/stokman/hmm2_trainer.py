"""A second-order hidden Markov model by counting: a label depends on the two before it, a word on its label.

The distribution after two labels backs off to the distribution after the later one, by Witten-Bell smoothing, see
`workers.learning.estimation.hmm_counts`.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from concord.schemas.arrays import Floats
from concord.schemas.document import TOKENS, Document
from concord.workers.learning.estimation.chains import GoldChains
from concord.workers.learning.estimation.hmm_counts import shares, witten_bell
from concord.workers.learning.trainers import hmm
from concord.workers.learning.trainers.trainer import Progress, Trainer, TrainingCounts
from concord.workers.models.folder import begin
from concord.workers.models.settings import HmmSettings
from concord.workers.papers.stokman.hmm2 import FIRST_ORDER, Hmm2Model, save
from concord.workers.papers.stokman.second_order import earlier
from concord.workers.papers.stokman.settings import Hmm2Settings

NAME = "hmm2"


def train(
    documents: Iterable[Document], *, settings: Hmm2Settings, out: Path, progress: Progress | None = None
) -> Hmm2Model:
    """See `workers.learning.trainers.trainer.Train`."""
    counts, texts = TrainingCounts((TOKENS,)), []
    for document in documents:
        counts.gold(document)
        texts.append(document)
    training = counts.training(NAME, settings)
    begin(out)
    first = hmm.train(texts, settings=HmmSettings(labels=settings.labels), out=out / FIRST_ORDER, progress=progress)
    gold = hmm.read_words(texts, [], first.labels).gold
    return save(out, first, after_two(gold, np.exp(first.tables.transition)), settings=settings, training=training)


def after_two(gold: GoldChains, after_one: Floats) -> Floats:
    """(L + 1, L, L) log p of a label (last axis) after two others, the earlier first; L stands for a sentence's start.

    - ``after_one`` (L, L): p of a label after one other.
    """
    size = gold.width
    before = earlier(gold.labels, gold.bounds, size)
    counts = np.zeros((size + 1, size, size))
    np.add.at(counts, (before.two, before.one, gold.labels[before.token]), 1.0)
    smoothed = witten_bell(counts.reshape(-1, size), np.tile(after_one, (size + 1, 1)))
    nats: Floats = np.log(shares(smoothed)).reshape(counts.shape)
    return nats


HMM2 = Trainer(train, Hmm2Settings, comparison=True)
"""The trainer as it is registered."""
