"""Chains of features to train on."""

from __future__ import annotations

import numpy as np

from concord.schemas.document import Batch, Document
from concord.workers.features.incidence import incidence, pair_incidence
from concord.workers.features.templates import feature_set
from concord.workers.learning.estimation.chains import FeatureRules, GoldChains, TrainingChains

EVERYTHING = FeatureRules(0.0, possible_states=True, possible_transitions=True)


def chains_of(documents: list[Document], allowed: FeatureRules, features: str = "finkel-nopos") -> TrainingChains:
    batch = Batch.of(documents)
    assert batch.labels is not None
    names = sorted(set(batch.labels.strings()))
    codes = np.array([names.index(name) for name in batch.labels.strings()], np.int32)
    own = feature_set(features)
    gold = GoldChains(batch.sentence_bounds, codes, len(names))
    return TrainingChains.of(incidence(batch, own), gold, allowed, pair_incidence(batch, own))
