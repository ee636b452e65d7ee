"""Word vectors beside the features: scores against plain sums, the gradient against differences, what is refused."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from concord.flows.cli.trainer_flags import TrainerFlags, trainer_pairs
from concord.flows.inputs.options import OptionError
from concord.schemas.arrays import Floats
from concord.schemas.document import Batch, Document
from concord.workers.features.attributes import AttributeMaker
from concord.workers.features.clustering.vectors import VectorError, read_vectors
from concord.workers.features.clusters import ClusterFileError, Clusters
from concord.workers.features.templates import FeatureSetError, feature_set
from concord.workers.features.word_vectors import VECTOR_OFFSETS, WordVectors
from concord.workers.learning.estimation import sgd
from concord.workers.learning.estimation.objective import Objective
from concord.workers.learning.estimation.token_vectors import TokenVectors, word_scores
from concord.workers.learning.trainers.fit import Fitting
from concord.workers.learning.trainers.registry import TRAINERS
from concord.workers.models.attribute_names import read_names
from concord.workers.models.crf import CrfModel, load
from concord.workers.models.feature_files import VECTORS_FILE
from concord.workers.models.folder import ModelError
from concord.workers.models.settings import EnsembleSettings, SgdSettings, VectorSettings

WORDS = ("mira", "Mira", "met", "lou", "0", "in", "paris")
POINTS = np.random.default_rng(4).normal(size=(len(WORDS), 3))
DOCUMENTS = [
    Document.build("a", [["Mira", "met", "Lou"], ["x"]], labels=[["B-PER", "O", "B-PER"], ["O"]]),
    Document.build("b", [["7", "in", "Paris"]], labels=[["O", "O", "B-LOC"]]),
]
UNSEEN = [Document.build("c", [["lou", "MIRA", "paris"], ["nobody", "5", "mira"]]), Document.build("d", [["Met"]])]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file of vectors as GloVe's."""
    path = tmp_path / "vectors.txt"
    lines = (" ".join([word, *map(str, point)]) for word, point in zip(WORDS, POINTS.tolist(), strict=True))
    path.write_text("\n".join(lines) + "\n")
    return path


def options(file: Path, **more: Any) -> dict[str, Any]:
    return {"features": "core", "passes": 4, "vectors": str(file), **more}


def trained(file: Path, out: Path, trainer: str = "sgd", **more: Any) -> CrfModel:
    entry = TRAINERS[trainer]
    model = entry.train(DOCUMENTS, settings=entry.settings.model_validate(options(file, **more)), out=out)
    assert isinstance(model, CrfModel)
    return model


def vectors_of(file: Path, scale: float, most: int = 100) -> WordVectors:
    return WordVectors.scaled(*read_vectors(file, most), scale)


def row_of(word: str) -> int:
    """As written, with zeros for digits, in lower case."""
    digits = "".join("0" if letter.isdigit() else letter for letter in word)
    return next((WORDS.index(form) for form in (word, digits, word.lower()) if form in WORDS), -1)


def test_rows_are_those_of_a_plain_loop(file: Path) -> None:
    vectors = vectors_of(file, 0.5)
    assert vectors.points.std() == pytest.approx(0.5)
    rows, first = vectors.rows(Batch.of(UNSEEN)), 0
    for document in UNSEEN:
        bounds = [*document.sentence_starts.tolist(), len(document)]
        for start, end in pairwise(bounds):
            for t in range(start, end):
                places = [t + offset for offset in VECTOR_OFFSETS]
                wanted = [row_of(document.tokens[p]) if start <= p < end else -1 for p in places]
                assert rows[first + t].tolist() == wanted
        first += len(document)
    assert vectors.rows(Batch.of([])).shape == (0, len(VECTOR_OFFSETS))
    assert len(vectors_of(file, 0.5, most=3).table.words) == 3


@pytest.mark.parametrize("trainer", ["sgd", "ensemble"])
@pytest.mark.parametrize("scheme", ["corpus", "bilou"])
def test_a_model_gives_unseen_words_what_their_vectors_give(
    trainer: str, scheme: str, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    weights = list[Floats]()
    save = Fitting.save

    def noted(self: Fitting, *args: Any, **rest: Any) -> CrfModel:
        weights.append(self.vectors.weights)
        return save(self, *args, **rest)

    monkeypatch.setattr(Fitting, "save", noted)
    model, batch = trained(file, tmp_path / "m", trainer, scheme=scheme), Batch.of(UNSEEN)
    seen = np.flatnonzero(~model.missing)
    vectors = vectors_of(file, 0.2)
    by_vectors = TokenVectors(vectors.rows(batch), vectors.points, weights[0]).scores()
    own = model.scorer.unary(batch)
    spelled = plain_sums(model, tmp_path / "m", UNSEEN)
    np.testing.assert_allclose(own, spelled, atol=1e-9)
    without = plain_sums(model, tmp_path / "m", UNSEEN, but="tokens.vector")
    np.testing.assert_allclose((own - without)[:, seen], by_vectors, atol=1e-9)
    assert np.abs(by_vectors).max() > 1e-3
    again = load(tmp_path / "m")
    np.testing.assert_array_equal(again.potentials(batch).unary, model.potentials(batch).unary)
    assert again.features.vectors is not None
    assert again.manifest.features == "core+vectors"


def plain_sums(model: CrfModel, folder: Path, documents: list[Document], but: str = "") -> Floats:
    """(N, W) sums of the weights of attributes by their names, but for those that begin so."""
    names = read_names(folder, model.manifest, len(model.weights.start) - 1).to_pylist()
    table = np.zeros((len(names), len(model.names)))
    start, label, weight = model.weights.sparse
    table[np.repeat(np.arange(len(names)), np.diff(start)), label] = weight
    row = {name: i for i, name in enumerate(names) if not (but and name.startswith(but))}
    maker = AttributeMaker(model.features)
    return np.array(
        [
            sum((table[row[name]] for name in attributes if name in row), np.zeros(len(model.names)))
            for document in documents
            for attributes in maker(document)
        ]
    )


def test_one_pass_of_one_sentence_goes_down_the_gradient(file: Path) -> None:
    """A small step moves each weight by its share of the objective's slope."""
    fitting = Fitting.of(DOCUMENTS[1:], settings=SgdSettings.model_validate(options(file)), trainer="sgd")
    rates, point, slope = sgd.Rates(1e-3, 1.0, 1, 0.0), np.zeros(fitting.chains.size), fitting.vectors.with_no_weight()
    list(sgd.run_passes(fitting.chains, 0.0, point, rates, np.random.default_rng(0), fitting.vectors))
    zero, step = np.zeros_like(point), 1e-5
    for place in np.ndindex(slope.weights.shape):
        ends = []
        for side in (step, -step):
            slope.weights[place] = side
            ends.append(Objective(fitting.chains, 0.0, beside=slope)(zero)[0])
        slope.weights[place] = 0.0
        down = (ends[1] - ends[0]) / (2 * step)
        assert fitting.vectors.weights[place] == pytest.approx(1e-3 * down, abs=1e-9)


def test_scores_of_tokens_are_those_of_their_words() -> None:
    rng = np.random.default_rng(1)
    rows = rng.integers(-1, 5, (9, 3)).astype(np.int32)
    points, weights = rng.normal(size=(5, 2)), rng.normal(size=(3, 2, 4))
    tokens = TokenVectors.of(rows, points, 4)._replace(weights=weights)
    words = word_scores(points, weights)
    for t in range(9):
        wanted = sum((words[k, rows[t, k]] for k in range(3) if rows[t, k] >= 0), np.zeros(4))
        np.testing.assert_allclose(tokens.scores()[t], wanted, atol=1e-12)
    np.testing.assert_array_equal(TokenVectors.none(4, 2).scores(), np.zeros((4, 2)))
    thinned = tokens.thinned(0.5, np.random.default_rng(0))
    assert (thinned.rows < 0).sum() > (rows < 0).sum()
    np.testing.assert_allclose(thinned.points, 2 * tokens.points)


def test_equal_vectors_give_equal_files(file: Path, tmp_path: Path) -> None:
    first, second = (trained(file, tmp_path / name) for name in "ab")
    assert first.manifest.files == second.manifest.files
    other = tmp_path / "other.txt"
    other.write_text(file.read_text().replace("met ", "mit "))
    assert trained(other, tmp_path / "c").manifest.files[VECTORS_FILE] != first.manifest.files[VECTORS_FILE]


def test_without_vectors_a_model_is_as_it_was(tmp_path: Path) -> None:
    """No number is drawn for vectors that are not there."""
    plain = SgdSettings(features="core", passes=3)
    fitting = Fitting.of(DOCUMENTS, settings=plain, trainer="sgd")
    points = []
    for vectors in (None, fitting.vectors):
        point = np.zeros(fitting.chains.size)
        list(sgd.run_passes(fitting.chains, 0.1, point, sgd.Rates(0.1, 0.9, 3, 0.3), np.random.default_rng(5), vectors))
        points.append(point)
    np.testing.assert_array_equal(points[0], points[1])


def test_what_cannot_be_is_refused(file: Path, tmp_path: Path) -> None:
    with pytest.raises(FeatureSetError, match=r"'vectors' and word vectors go together: give --vectors FILE"):
        feature_set("core+vectors")
    with pytest.raises(OptionError, match=r"--vectors: trainer crfsuite has no such option; .* it: sgd, ensemble$"):
        trainer_pairs("crfsuite", TrainerFlags(vectors=str(file)), [])
    with pytest.raises(ValueError, match="start_from: a model's weights do not say those of vectors"):
        SgdSettings.model_validate(options(file, start_from="m"))
    with pytest.raises(VectorError, match="no such file"):
        trained(tmp_path / "nowhere.txt", tmp_path / "m")
    model = trained(file, tmp_path / "whole")
    (tmp_path / "whole" / VECTORS_FILE).write_bytes(b"")
    with pytest.raises(ModelError, match=VECTORS_FILE):
        load(tmp_path / "whole")
    assert model.manifest.features == "core+vectors"
    with pytest.raises(ClusterFileError, match="its clusterings are 50, 200, not the rows of vectors"):
        WordVectors.of_table(Clusters(pa.array(["a"]), ("50", "200"), np.zeros((1, 2), np.int32)))


def test_an_array_names_its_file_of_words(tmp_path: Path) -> None:
    np.save(tmp_path / "numbers.npy", POINTS)
    (tmp_path / "list.txt").write_text("\n".join(WORDS) + "\n")
    index = str(tmp_path / "list.txt")
    model = trained(tmp_path / "numbers.npy", tmp_path / "m", vector_index=index)
    assert model.features.vectors is not None
    assert tuple(model.features.vectors.table.words.to_pylist()) == WORDS
    assert "vector_index" in VectorSettings.files
    assert EnsembleSettings.model_validate(options(tmp_path / "numbers.npy", vector_index=index)).places() == [
        str(tmp_path / "numbers.npy"),
        index,
    ]
