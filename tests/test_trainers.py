"""What every trainer has to do, over the registry: whoever adds one adds no test of this kind."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from concord.flows.cli import compiling
from concord.schemas.document import Batch, Document
from concord.schemas.errors import InputError, TrainingError
from concord.testing import trainers as promises
from concord.workers.inference.core.chain import viterbi
from concord.workers.learning.trainers.registry import DEFAULT, TRAINERS, TrainerError, trainer_named
from concord.workers.models.folder import MANIFEST
from concord.workers.models.loaders import load_model
from concord.workers.models.model import Model, local_scores, temperature_of, tempered
from concord.workers.synthesis.layered import with_layer
from concord.workers.verification.second_path import second_path
from tests.support.made_corpora import corpus

trainers = pytest.mark.parametrize("name", TRAINERS)
DOCUMENTS = with_layer(corpus(0, 40))


def learned(name: str, out: Path, documents: list[Document]) -> Model:
    trainer = TRAINERS[name]
    return trainer.train(documents, settings=trainer.settings(), out=out)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    base = tmp_path_factory.mktemp("models")
    for name in TRAINERS:
        learned(name, base / name, DOCUMENTS)
    return {name: base / name for name in TRAINERS}


@trainers
def test_the_model_loads_and_scores_as_it_was_trained(name: str, folders: dict[str, Path], tmp_path: Path) -> None:
    promises.the_model_scores_as_it_was_trained(TRAINERS[name], load_model, folders[name], tmp_path, DOCUMENTS)
    promises.equal_documents_give_equal_files(folders[name], tmp_path)
    promises.damage_is_a_model_error(load_model, tmp_path)


@trainers
def test_its_temperature_divides_its_scores_on_the_second_path_too(name: str, folders: dict[str, Path]) -> None:
    documents = with_layer(corpus(5, 5))
    promises.a_temperature_divides_the_scores(load_model, folders[name], documents)
    model, batch = load_model(folders[name]), Batch.of(documents)
    warm = tempered(model, 4.0)
    assert temperature_of(warm) == 4.0
    second, plain = second_path(warm).scores(batch).potentials, local_scores(model, batch).potentials
    np.testing.assert_allclose(second.unary, plain.unary / 4.0, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(second.transition, plain.transition / 4.0, rtol=1e-9, atol=1e-12)


@trainers
def test_its_kernels_can_be_compiled_before_anything_needs_them(name: str, tmp_path: Path) -> None:
    compiling.train(tmp_path, name)
    assert (tmp_path / name / MANIFEST).is_file()


@trainers
def test_it_labels_what_it_has_not_seen(name: str, folders: dict[str, Path]) -> None:
    model, batch = load_model(folders[name]), Batch.of(with_layer(corpus(5, 30)))
    assert batch.labels is not None
    labels = model.labels.decode(viterbi(model.potentials(batch)))
    gold = batch.labels.strings()
    always_outside = gold.count("O") / len(gold)
    right = sum(a == b for a, b in zip(labels, gold, strict=True)) / len(gold)
    assert right > (1 + always_outside) / 2


@trainers
def test_the_manifest_says_what_was_seen_and_by_whom(name: str, folders: dict[str, Path], tmp_path: Path) -> None:
    promises.the_manifest_says_what_was_seen(name, TRAINERS[name], folders[name], DOCUMENTS)
    promises.other_documents_have_another_digest(TRAINERS[name], folders[name], tmp_path, DOCUMENTS)


@trainers
def test_plain_labels_a_document_without_tokens_and_sentences_of_one_token(name: str, tmp_path: Path) -> None:
    promises.plain_labels_and_short_documents_will_do(TRAINERS[name], tmp_path)


@trainers
def test_progress_rises_to_its_total_and_what_it_raises_leaves_no_model(name: str, tmp_path: Path) -> None:
    promises.progress_rises_and_what_it_raises_ends_all(TRAINERS[name], load_model, tmp_path / "whole", DOCUMENTS)


@trainers
@pytest.mark.parametrize(
    ("documents", "message"),
    [
        ([], "corpus is empty"),
        ([Document.build("e", [], labels=[], pos=[])], "corpus is empty"),
        ([*DOCUMENTS[:2], Document.build("u", [["a"]], pos=[["X"]])], "'u' has no gold labels"),
        ([Document.build("n", [["a"]], labels=[["O"]])], "'n' has no column 'pos'"),
    ],
    ids=["nothing", "no-token", "no-labels", "no-column"],
)
def test_bad_input_is_one_line_and_no_folder_that_loads(
    name: str, documents: list[Document], message: str, folders: dict[str, Path], tmp_path: Path
) -> None:
    if "column" in message and not {"pos"} <= set(load_model(folders[name]).columns):
        return  # it reads no such column
    if "gold" in message and not TRAINERS[name].gold:
        message = "no layer to learn from"
    with pytest.raises(TrainingError, match=message) as raised:
        learned(name, tmp_path / "out", documents)
    assert "\n" not in str(raised.value)
    assert not (tmp_path / "out" / MANIFEST).exists()


@trainers
def test_features_that_are_not_there_are_one_line(name: str, tmp_path: Path) -> None:
    trainer = TRAINERS[name]
    if "features" not in trainer.settings.model_fields:
        return
    settings = trainer.settings.model_validate({"features": "nope"})
    with pytest.raises(ValueError, match="no feature set is called 'nope'; there are"):
        trainer.train(DOCUMENTS, settings=settings, out=tmp_path)


@trainers
def test_a_place_that_cannot_be_written_is_an_error_that_names_it(name: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises((OSError, InputError), match="file"):
        learned(name, tmp_path / "file" / "below", DOCUMENTS[:5])


def test_a_trainer_that_is_not_there_is_one_line() -> None:
    assert trainer_named(DEFAULT) is TRAINERS[DEFAULT]
    with pytest.raises(TrainerError, match="no trainer is called 'magic'; there are crfsuite"):
        trainer_named("magic")
