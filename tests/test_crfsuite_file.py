"""CRFsuite's binary model file: exact weights, and clear errors for damaged files."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pycrfsuite
import pytest

from concord.workers.models.crfsuite_file import FILE_HEAD, ModelFileError, read_crfsuite

LABELS = ("O", "B-X", "I-X", "ß")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(0)
    trainer = pycrfsuite.Trainer(verbose=False)
    for _ in range(60):
        length = int(rng.integers(1, 6))
        rows = [[f"a{rng.integers(30)}", f"中=b|{rng.integers(9)}", "bias"] for _ in range(length)]
        trainer.append(rows, [LABELS[i] for i in rng.integers(0, 4, length)])
    trainer.set_params({"c2": 0.01, "max_iterations": 30, "feature.possible_transitions": True})
    path = tmp_path_factory.mktemp("model") / "model.crfsuite"
    trainer.train(str(path))
    return path


def test_names_and_weights_equal_info_to_its_six_decimals(model: Path) -> None:
    weights = read_crfsuite(model)
    tagger = pycrfsuite.Tagger()
    tagger.open(str(model))
    info = tagger.info()
    assert {n: str(i) for i, n in enumerate(weights.labels)} == info.labels
    assert {n: str(i) for i, n in enumerate(weights.attributes)} == info.attributes
    triples = zip(weights.source.tolist(), weights.target.tolist(), weights.weight.tolist(), strict=True)
    mine = {(weights.attributes[a], weights.labels[y]): w for a, y, w in triples}
    assert mine.keys() == info.state_features.keys()
    assert max(abs(mine[k] - w) for k, w in info.state_features.items()) < 1e-6
    assert len(info.transitions) == 16
    for (a, b), w in info.transitions.items():
        assert weights.transition[weights.labels.index(a), weights.labels.index(b)] == pytest.approx(w, abs=1e-6)


def test_weights_are_exact(model: Path) -> None:
    """log P(y|x) of a single token needs only its state weights: compare far below six decimals."""
    weights = read_crfsuite(model)
    tagger = pycrfsuite.Tagger()
    tagger.open(str(model))
    rounding = []
    for i in range(30):
        row = [f"a{i}", "bias"]
        known = [weights.attributes.index(a) for a in row if a in weights.attributes]
        scores = np.zeros(4)
        for a in known:
            at = weights.source == a
            scores[weights.target[at]] += weights.weight[at]
        tagger.set([row])
        expected = [tagger.marginal(n, 0) for n in weights.labels]
        np.testing.assert_allclose(np.exp(scores - np.logaddexp.reduce(scores)), expected, rtol=1e-12)
        rounding.append(np.abs(scores - np.round(scores, 6)).max())
    assert max(rounding) > 1e-8


def _damaged(data: bytes, at: int, patch: bytes) -> bytes:
    return data[:at] + patch + data[at + len(patch) :]


def test_damage_is_named(model: Path, tmp_path: Path) -> None:
    data, bad = model.read_bytes(), tmp_path / "bad.crfsuite"
    offsets = FILE_HEAD.unpack_from(data)[7:]
    huge = struct.pack("<I", 2**31)
    cases = {
        "too few": data[:20],
        "not a CRFsuite model": b"PK\x03\x04" + data[4:],
        "was the file cut": data[:-1],
        "feature block starts outside": _damaged(data, 28, huge),
        "feature block at byte": _damaged(data, offsets[0], b"XXXX"),
        "labels start outside": _damaged(data, 32, huge),
        "labels at byte": _damaged(data, offsets[1], b"XXXX"),
        "attributes on file": _damaged(data, 24, huge),
        "points outside": _damaged(data, offsets[2] + struct.unpack_from("<I", data, offsets[2] + 20)[0], huge),
        "neither": _damaged(data, offsets[0] + 12, struct.pack("<I", 7)),
        "not there": _damaged(data, offsets[0] + 20, huge),
        "not a finite": _damaged(data, offsets[0] + 24, struct.pack("<d", float("nan"))),
    }
    for message, content in cases.items():
        bad.write_bytes(content)
        with pytest.raises(ModelFileError, match=message) as caught:
            read_crfsuite(bad)
        assert str(bad) in str(caught.value)


def test_a_file_cut_or_changed_anywhere_never_crashes(model: Path, tmp_path: Path) -> None:
    data, bad = model.read_bytes(), tmp_path / "bad.crfsuite"
    rng = np.random.default_rng(1)
    refused = 0
    for at in rng.integers(0, len(data), 400).tolist():
        bad.write_bytes(_damaged(data, at, bytes([data[at] ^ 0xFF])))
        try:
            read_crfsuite(bad)
        except ModelFileError:
            refused += 1
    assert refused > 0
