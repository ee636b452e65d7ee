"""Scores from tables of words: the feature function's bit for bit; functions that they do not do for are found."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pycrfsuite
import pytest
from hypothesis import given
from hypothesis import strategies as st

from concord.schemas.document import Batch, Document
from concord.schemas.errors import DocumentError
from concord.workers.models import crfsuite, crfsuite_import, word_tables
from concord.workers.models.crfsuite import CrfsuiteModel
from concord.workers.models.folder import ModelError
from concord.workers.models.word_tables import Scored, WordTables, departure
from tests.support.word_features import LABELS, SENTENCES, call
from tests.support.word_features import features as by_word

HERE = "tests.test_word_tables"
WORDS = ["Ada", "12", "Main", "St", "é", "x y", ":", "many", "a", "refused", "Rome", "Rome,"]

Items = list[dict[str, Any]]


def many(words: list[str]) -> Items:
    """Of one word each; some have so many features that their sum depends on its order."""
    items = by_word(words)
    for item, word in zip(items, words, strict=True):
        item["huge"] = 1e7 * (word == "many")
    return items


def position(words: list[str]) -> Items:
    return [item | {"at": float(t == 3)} for t, item in enumerate(by_word(words))]


def two_back(words: list[str]) -> Items:
    return [item | {"word": words[max(t - 2, 0)]} for t, item in enumerate(by_word(words))]


def length(words: list[str]) -> Items:
    return [item | {"length": float(len(words))} for item in by_word(words)]


def seen(words: list[str]) -> Items:
    return [item | {"digits": any("," in w for w in words[:t])} for t, item in enumerate(by_word(words))]


def pair(words: list[str]) -> Items:
    return [item | {"digits": words[t : t + 2] == ["Rome", "Rome"]} for t, item in enumerate(by_word(words))]


def no_reference(words: list[str]) -> Items:
    if "a" in words:
        raise ValueError("a")
    return by_word(words)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("tables") / "a.crfsuite"
    trainer = pycrfsuite.Trainer(verbose=False, params={"max_iterations": 20})
    for words, labels in zip(SENTENCES, LABELS, strict=True):
        trainer.append([item | {"at": 1.0, "huge": 1.0} for item in by_word(words)], labels)
    trainer.train(str(path))
    return path.read_bytes()


def made(data: bytes, out: Path, function: Callable[..., Items], *, word_tables: bool = True) -> CrfsuiteModel:
    out.mkdir()
    return crfsuite_import.save(out, data, f"{HERE}:{function.__name__}", word_tables=word_tables).model


@pytest.fixture(scope="module")
def models(data: bytes, tmp_path_factory: pytest.TempPathFactory) -> tuple[CrfsuiteModel, CrfsuiteModel]:
    """The same, with tables and without."""
    folder = tmp_path_factory.mktemp("models")
    return made(data, folder / "tables", many), made(data, folder / "plain", many, word_tables=False)


@given(sentences=st.lists(st.lists(st.sampled_from(WORDS), min_size=1, max_size=6), min_size=1, max_size=4))
def test_tables_give_what_the_function_gives_bit_for_bit(
    models: tuple[CrfsuiteModel, CrfsuiteModel], sentences: list[list[str]]
) -> None:
    tabled, plain = models
    assert (tabled.functions.departure, plain.functions.departure) == ("", crfsuite.UNTRIED)
    assert tabled.digest != plain.digest
    batch = Batch.of([Document.build("d", sentences)])
    if any("refused" in sentence for sentence in sentences):
        for model in models:
            with pytest.raises(DocumentError, match="KeyError"):
                model.potentials(batch)
        return
    assert tabled.potentials(batch).unary.tobytes() == plain.potentials(batch).unary.tobytes()


def test_the_function_is_called_once_a_distinct_word(models: tuple[CrfsuiteModel, CrfsuiteModel]) -> None:
    tabled, _ = models
    called: list[int] = []

    def counted(words: Sequence[str]) -> Scored:
        called.append(len(words))
        return tabled.scored(words)

    tables = WordTables(counted, len(tabled.labels))
    called.clear()
    tables.ids([f"w{i}" for i in range(150)] * 2)
    tables.ids(["w7", "w149"])
    assert called == [2 + 3 * 64, 2 + 3 * 64, 2 + 3 * 22]


def test_many_words_are_begun_anew(
    models: tuple[CrfsuiteModel, CrfsuiteModel], monkeypatch: pytest.MonkeyPatch
) -> None:
    tabled, plain = models
    monkeypatch.setattr(word_tables, "MOST_TABLE_BYTES", 1)
    for words in (["Ada", "St"], [f"w{i}" for i in range(3000)], ["St", "Ada", "w5"]):
        batch = Batch.of([Document.build("d", [words[i : i + 3] for i in range(0, len(words), 3)])])
        assert tabled.potentials(batch).unary.tobytes() == plain.potentials(batch).unary.tobytes()


@pytest.mark.parametrize("function", [position, two_back, length, seen])
def test_what_depends_on_more_is_found_at_the_import(
    data: bytes, tmp_path: Path, function: Callable[..., Items]
) -> None:
    model = made(data, tmp_path / "model", function)
    assert model.functions.departure.startswith("features of a word depend on more than its neighbours, as in '")
    plain = made(data, tmp_path / "plain", function, word_tables=False)
    batch = Batch.of([Document.build("d", [["Ada", "12", "Main,", "St", "é"]])])
    assert model.potentials(batch).unary.tobytes() == plain.potentials(batch).unary.tobytes()


def test_a_function_that_refuses_the_reference_has_no_tables(data: bytes, tmp_path: Path) -> None:
    assert made(data, tmp_path / "model", no_reference).functions.departure.startswith("it cannot be tried: ")


def test_too_few_sentences_that_it_takes_are_no_trial() -> None:
    def picky(words: Any) -> Scored:
        if set(words) != {"a"} and len(words) < 9:
            raise DocumentError("short")
        return Scored(np.zeros((len(words), 2)), np.ones(len(words), np.bool_))

    assert departure(picky, 2, ["word:b"]) == "it took only 0 of 400 made-up sentences"


def test_what_departs_in_use_ends_in_an_error_at_the_same_sentences(
    data: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = made(data, tmp_path / "model", pair)
    assert model.functions.departure == ""
    departing = [["Rome", "Rome", f"w{i}"] for i in range(300)]
    batch = Batch.of([Document.build(str(i), [sentence]) for i, sentence in enumerate(departing)])
    with pytest.raises(ModelError, match=r"pair: features .*'Rome Rome w\d+'; import the model again with --no-word"):
        model.potentials(batch)
    caught = []
    for i, document in enumerate(batch):
        try:
            model.potentials(Batch.of([document]))
        except ModelError:
            caught.append(i)
    assert 0 < len(caught) < 20
    monkeypatch.setattr(word_tables, "CHECKED", 1)
    with pytest.raises(ModelError, match="'Rome Rome'"):
        model.potentials(Batch.of([Document.build("d", [["Ada"], ["Rome", "Rome"]])]))


def test_the_import_says_what_it_found(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.crfsuite").write_bytes(data)
    given = ("import", "crfsuite", str(tmp_path / "a.crfsuite"), "--out")
    said = call(*given, str(tmp_path / "one"), "--feature-function", f"{HERE}:many").stdout
    assert "each feature depends on one word: scored from word tables" in said
    said = call(*given, str(tmp_path / "two"), "--feature-function", f"{HERE}:length").stdout
    assert "no word tables: features of a word depend on more than its neighbours" in " ".join(said.split())
    said = call(*given, str(tmp_path / "three"), "--feature-function", f"{HERE}:many", "--no-word-tables").stdout
    assert "no word tables: it was not tried" in said
