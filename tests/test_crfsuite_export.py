"""Models written in CRFsuite's form: its own tagger must take them, and find every name."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pycrfsuite
import pytest

from concord.schemas.document import Batch
from concord.schemas.errors import InputError
from concord.workers.features.attributes import AttributeMaker
from concord.workers.inference.core.chain import viterbi
from concord.workers.learning.trainers.crfsuite import CRFSUITE_FILE
from concord.workers.learning.trainers.crfsuite_writer import write_crfsuite
from concord.workers.learning.trainers.export import export_crfsuite
from concord.workers.learning.trainers.registry import TRAINERS
from concord.workers.models.crf import load
from concord.workers.models.crfsuite_file import CrfsuiteWeights, read_crfsuite
from tests.support.made_corpora import corpus


def test_what_is_written_reads_back(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    attributes = tuple(f"{'ü' * (i % 15)}{i}" for i in range(700))
    source, target = rng.integers(0, 700, 900).astype(np.int32), rng.integers(0, 3, 900).astype(np.int32)
    pairs = np.unique(np.stack([source, target], axis=1), axis=0)
    weights = CrfsuiteWeights(
        ("O", "ß", "B-X"), attributes, pairs[:, 0], pairs[:, 1], rng.normal(size=len(pairs)), rng.normal(size=(3, 3))
    )
    write_crfsuite(tmp_path / "model", weights)
    again = read_crfsuite(tmp_path / "model")
    for name, value in vars(weights).items():
        np.testing.assert_array_equal(getattr(again, name), value)
    tagger = pycrfsuite.Tagger()
    tagger.open(str(tmp_path / "model"))
    dense = np.zeros((700, 3))
    dense[pairs[:, 0], pairs[:, 1]] = weights.weight
    for i, name in enumerate(attributes):
        tagger.set([[name]])
        odds = np.exp(dense[i])
        np.testing.assert_allclose([tagger.marginal(y, 0) for y in weights.labels], odds / odds.sum(), rtol=1e-9)


@pytest.mark.parametrize("trainer", ["lbfgs", "sgd", "crfsuite"])
def test_an_exported_model_labels_as_it_did(trainer: str, tmp_path: Path) -> None:
    entry, documents = TRAINERS[trainer], corpus(1, 40)
    entry.train(corpus(0, 30), settings=entry.settings(), out=tmp_path / "model")
    model = load(tmp_path / "model")
    export_crfsuite(tmp_path / "model", tmp_path / "out.crfsuite")
    tagger = pycrfsuite.Tagger()
    tagger.open(str(tmp_path / "out.crfsuite"))
    maker, batch = AttributeMaker(model.features), Batch.of(documents)
    labels = model.labels.decode(viterbi(model.potentials(batch)))
    rows = [row for document in documents for row in maker(document)]
    tagged = [tagger.tag(rows[a:b]) for a, b in pairwise([*batch.sentence_starts.tolist(), batch.token_count])]
    assert [name for sentence in tagged for name in sentence] == labels
    if trainer == "crfsuite":
        assert (tmp_path / "out.crfsuite").read_bytes() == (tmp_path / "model" / CRFSUITE_FILE).read_bytes()


def test_a_model_that_has_no_names_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not there"):
        export_crfsuite(tmp_path, tmp_path / "out")
