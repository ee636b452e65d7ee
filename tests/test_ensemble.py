"""The average of several CRFs: its scores are the mean of those of its members, trained one by one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from concord.schemas.document import Batch
from concord.workers.learning.trainers.registry import TRAINERS
from concord.workers.learning.trainers.trainer import Iteration
from concord.workers.models.settings import EnsembleSettings, SgdSettings
from concord.workers.synthesis.made_up import synthesize

OPTIONS = {"features": "core", "passes": 3, "dropout": 0.4}


@pytest.mark.parametrize("scheme", ["corpus", "bilou"])
def test_its_scores_are_the_mean_of_its_members(scheme: str, tmp_path: Path) -> None:
    documents = list(synthesize(12, seed=0, kind="news"))
    options, batch, steps = OPTIONS | {"scheme": scheme}, Batch.of(documents), list[Iteration]()
    mean = TRAINERS["ensemble"].train(
        documents,
        settings=EnsembleSettings.model_validate(options | {"members": 3, "seed": 5}),
        out=tmp_path / "mean",
        progress=steps.append,
    )
    members = [
        TRAINERS["sgd"].train(
            documents, settings=SgdSettings.model_validate(options | {"seed": seed}), out=tmp_path / str(seed)
        )
        for seed in (5, 6, 7)
    ]
    assert [step.number for step in steps] == list(range(1, 10))
    assert {step.total for step in steps} == {9}
    rng, labels = np.random.default_rng(0), mean.labels
    for _ in range(5):
        labelling = rng.integers(len(labels), size=batch.token_count).astype(np.int32)
        legal = repaired(labels.decode(labelling), batch.sentence_starts.tolist())
        ids = labels.encode(legal)
        scores = [member.potentials(batch).score(ids) for member in members]
        assert mean.potentials(batch).score(ids) == pytest.approx(np.mean(scores), abs=1e-6)
        assert np.ptp(scores) > 1e-3


def repaired(names: list[str], starts: list[int]) -> list[str]:
    """An inside label that goes on with nothing begins a span."""
    before = ["O", *names[:-1]]
    opens = [t in starts or before[t][1:] != name[1:] for t, name in enumerate(names)]
    return ["B" + name[1:] if new and name[0] == "I" else name for name, new in zip(names, opens, strict=True)]
