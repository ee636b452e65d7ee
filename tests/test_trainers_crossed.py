"""Every two options that put something beside the features, together, with every trainer that has both."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from concord.schemas.document import Batch
from concord.testing.trainers import a_temperature_divides_the_scores, contents, made_up
from concord.workers.inference.core.chain import viterbi
from concord.workers.learning.trainers.registry import TRAINERS
from concord.workers.models.loaders import load_model
from concord.workers.models.score_cache import FOLDER
from tests.support.networks import VOCABULARY, network_folder, use_stubs

QUICK = {"passes": 2, "members": 2, "max_iterations": 3, "head_iterations": 3, "share": 0.4}
"""Options that make a training short, for trainers that have them."""

OPTIONS = ("scheme", "encoder", "vectors", "features")


@pytest.fixture
def beside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What each option is given."""
    use_stubs(monkeypatch)
    monkeypatch.setenv(FOLDER, str(tmp_path / "kept"))
    states = np.random.default_rng(2).normal(size=(VOCABULARY, 4)).astype(np.float32)
    words = sorted({word for document in made_up(12, seed=0) for word in document.tokens})
    points = np.random.default_rng(3).normal(size=(len(words), 3))
    np.save(tmp_path / "vectors.npy", points)
    (tmp_path / "vectors.txt").write_text("\n".join(words) + "\n")
    return {
        "scheme": "bilou",
        "encoder": str(network_folder(tmp_path / "net", (), states, around=True, room=32)),
        "vectors": str(tmp_path / "vectors.npy"),
        "features": "core+pairs:kinds",
    }


def pairs() -> Iterator[tuple[str, str, str]]:
    """A trainer and two options that it has; features are those of pairs of labels."""
    for name in ("sgd", "lbfgs", "ensemble", "perceptron"):
        has = [option for option in OPTIONS if option in TRAINERS[name].settings.model_fields]
        yield from ((name, *two) for two in combinations(has, 2))


@pytest.mark.parametrize(("name", "one", "other"), list(pairs()))
def test_two_options_go_together(name: str, one: str, other: str, beside: dict[str, Any], tmp_path: Path) -> None:
    trainer, documents = TRAINERS[name], made_up(12, seed=0)
    quick = {option: value for option, value in QUICK.items() if option in trainer.settings.model_fields}
    base = quick | {"features": "core"}
    settings = trainer.settings.model_validate(base | {one: beside[one], other: beside[other]})
    folders = tmp_path / "first", tmp_path / "again"
    for folder in folders:
        trainer.train(documents, settings=settings, out=folder)
    assert contents(folders[0]) == contents(folders[1])
    model, batch = load_model(folders[0]), Batch.of(made_up(5, seed=1))
    potentials = model.potentials(batch).legal(model.labels)
    answer = viterbi(potentials)
    assert np.isfinite(potentials.score(answer))
    a_temperature_divides_the_scores(load_model, folders[0], made_up(5, seed=1))
    for alone, without in ((one, other), (other, one)):
        less = trainer.train(
            documents,
            settings=trainer.settings.model_validate(base | {alone: beside[alone]}),
            out=tmp_path / f"{alone} alone",
        )
        assert less.digest != model.digest
        scores = less.potentials(batch).legal(less.labels)
        assert not np.array_equal(scores.unary, potentials.unary), f"{without} changes nothing"
