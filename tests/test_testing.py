"""The contract tests of `concord.testing` find faults, each by its own words; for engines see `test_engines.py`."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from concord.schemas.columns import Misfit, Notice, Reject
from concord.schemas.document import Document
from concord.testing import (
    BIO,
    Case,
    GoodFile,
    check_features,
    check_measure,
    check_penalty,
    check_reader,
    check_template,
    check_tokenizer,
    check_trainer,
)
from concord.testing.measures import Text, Things
from concord.workers.constraints.templates.presence import StartsWith
from concord.workers.corpus.readers.reader import Reader, ReaderEntry
from concord.workers.corpus.readers.registry import READERS
from concord.workers.corpus.tokenizers.registry import TOKENIZERS
from concord.workers.corpus.tokenizers.tokenizer import Cut, Cuts, Tokenizer, TokenizerError
from concord.workers.evaluation.figures import FIGURES
from concord.workers.evaluation.measures import MEASURES, Items, Measure, Pair, Places
from concord.workers.features.extractors import EXTRACTORS
from concord.workers.features.templates import AttributeTemplate, Single, Source
from concord.workers.learning.trainers.registry import TRAINERS
from concord.workers.learning.trainers.trainer import Iteration, Trainer
from concord.workers.learning.weights.penalties import Penalty, PenaltySettings
from concord.workers.models.folder import MANIFEST
from concord.workers.models.loaders import load_model

# Readers

ADDRESSES = READERS["addresses"]
GOOD = GoodFile("a.txt", b"12 |1\nRose Lane, |3\n\nHill Street, |3\nOslo, |5\n", word=b"Oslo", documents=2)
Item = Document | Reject | Misfit | Notice


def reading(change: Callable[[Iterator[Item], str], Iterator[Item]]) -> ReaderEntry:
    """The reader of addresses, what it gives changed."""

    def read(source: str, settings: Any) -> Iterator[Item]:
        yield from change(ADDRESSES.read(source, settings), source)

    reader: Reader = read
    return ADDRESSES._replace(read=reader)


def without_rejects(items: Iterator[Item], source: str) -> Iterator[Item]:
    return (item for item in items if not isinstance(item, Reject))


def loses_the_second(items: Iterator[Item], source: str) -> Iterator[Item]:
    return (item for i, item in enumerate(items) if i != 1)


def of_one_name(items: Iterator[Item], source: str) -> Iterator[Item]:
    for item in items:
        yield Document("a", item.sentence_starts, item.columns, item.labels) if isinstance(item, Document) else item


def without_lines(items: Iterator[Item], source: str) -> Iterator[Item]:
    return (item._replace(row=None) if isinstance(item, Reject) else item for item in items)


def nowhere_is_empty(items: Iterator[Item], source: str) -> Iterator[Item]:
    return items if Path(source).exists() else iter(())


def fails_at_nul(items: Iterator[Item], source: str) -> Iterator[Item]:
    for item in items:
        if isinstance(item, Reject) and "NUL" in item.reason:
            raise ValueError("a NUL byte")
        yield item


def of_the_time(items: Iterator[Item], source: str) -> Iterator[Item]:
    name = str(np.random.default_rng().integers(1 << 60))
    for i, item in enumerate(items):
        if isinstance(item, Document):
            yield Document(f"{name}-{i}", item.sentence_starts, item.columns, item.labels)
        else:
            yield item


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (without_rejects, "a file gives something, if only a reject"),
        (loses_the_second, "documents of a good file: found 1, want 2"),
        (of_one_name, "document ids that differ"),
        (without_lines, "the line of "),
        (nowhere_is_empty, "a source that is not there is a CorpusError"),
        (fails_at_nul, "a NUL byte"),
        (of_the_time, "the documents of the same file"),
    ],
)
def test_faults_of_readers(change: Callable[[Iterator[Item], str], Iterator[Item]], said: str) -> None:
    check_reader(ADDRESSES, GOOD)
    with pytest.raises((AssertionError, ValueError), match=said):
        check_reader(reading(change), GOOD)


# Templates


def outside(text: list[list[tuple[str, str]]]) -> float:
    return text[0][0][1] != "O"


def test_faults_of_templates() -> None:
    good = Case({"labels": ["O"]}, BIO, outside)
    check_template(StartsWith, [good])
    with pytest.raises(AssertionError, match=r"^the degree of .*found 1\.0, want 0"):
        check_template(StartsWith, [good._replace(degree=lambda text: 0.0)])
    with pytest.raises(AssertionError, match="hardly ever break it"):
        check_template(StartsWith, [Case({"labels": list(BIO.names)}, BIO, lambda text: 0.0)])


# Measures


def plain(text: Text, side: str) -> Things:
    return Counter({(getattr(token, side), i): 1 for i, token in enumerate(text)})


def items_of(change: Callable[[Items], Items]) -> Measure:
    def items(pair: Pair) -> Items:
        return change(MEASURES["labels"].items(pair))

    return MEASURES["labels"]._replace(items=items)


def shifted(items: Items) -> Items:
    return items._replace(gold=Places(items.gold.document * 0, items.gold.name))


@pytest.mark.parametrize(
    ("measure", "said"),
    [
        (items_of(lambda items: items._replace(correct=items.gold)), "gold, predicted, both of"),
        (items_of(shifted), "gold, predicted, both of"),
        (MEASURES["labels"]._replace(items=MEASURES["spans"].items), "gold, predicted, both of"),
    ],
)
def test_faults_of_measures(measure: Measure, said: str) -> None:
    check_measure(MEASURES["labels"], plain)
    with pytest.raises(AssertionError, match=said):
        check_measure(measure, plain)


def test_a_figure_that_perfect_labels_do_not_have_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(FIGURES, "half", lambda counts: np.float64(0.5))
    measure = MEASURES["labels"]._replace(figures=("half",))
    with pytest.raises(AssertionError, match=r"half of nothing|half of perfect labels"):
        check_measure(measure, plain)


# Trainers


def training(**change: Any) -> Trainer:
    """The HMM's, which is quick, with what it is given changed."""
    hmm = TRAINERS["hmm"]

    def train(documents: Any, *, settings: Any, out: Path, progress: Any = None) -> Any:
        given = list(documents)[change.get("first", 0) :]
        told = None if change.get("silent") else progress
        if change.get("backwards") and progress is not None:
            progress(Iteration(2, 2))
        model = hmm.train(given, settings=settings, out=out, progress=told)
        if change.get("chance"):
            path = out / MANIFEST
            path.write_text(path.read_text() + "\n" * int(np.random.default_rng().integers(1, 1000)))
        return model

    return hmm._replace(train=train)


@pytest.mark.parametrize(
    ("name", "trainer", "said"),
    [
        ("other", training(), "the manifest names the trainer as its entry point does: found 'hmm', want 'other'"),
        ("hmm", training(first=1), "documents in the manifest: found 39"),
        ("hmm", training(silent=True), "progress is told of at least one iteration"),
        ("hmm", training(backwards=True), "numbers of iterations|numbers from 1|totals"),
        ("hmm", training(chance=True), "equal documents and settings give equal files"),
    ],
    ids=["name", "count", "silent", "backwards", "chance"],
)
def test_faults_of_trainers(name: str, trainer: Trainer, said: str) -> None:
    with pytest.raises(AssertionError, match=said):
        check_trainer(name, trainer, load_model)


def test_a_model_that_minds_no_damage_is_found() -> None:
    check_trainer("hmm", TRAINERS["hmm"], load_model)
    kept: dict[Path, Any] = {}

    def load(folder: Path) -> Any:
        """What was loaded once is given again, whatever has become of it."""
        if folder not in kept:
            kept[folder] = load_model(folder)
        return kept[folder]

    with pytest.raises(AssertionError, match=r"a model with .* is a ModelError"):
        check_trainer("hmm", TRAINERS["hmm"], lambda folder: load(folder.with_name("model")))


# Tokenizers

WORDS = TOKENIZERS["words"]


def cutting(change: Callable[[Cuts, list[str]], Cuts], **fields: Any) -> Tokenizer:
    """The default tokenizer, what it gives changed."""

    def opened(language: str) -> Cut:
        cut = WORDS.open(language)
        return lambda texts: change(cut(texts), list(texts))

    return WORDS._replace(open=opened, **fields)


def in_small_letters(cuts: Cuts, texts: list[str]) -> Cuts:
    return WORDS.open("en")([text.lower() for text in texts])


def without_marks(cuts: Cuts, texts: list[str]) -> Cuts:
    return Cuts.of(texts, ([found.span() for found in re.finditer(r"[\w\ud800]+", text)] for text in texts))


def with_blanks(cuts: Cuts, texts: list[str]) -> Cuts:
    return Cuts.of(texts, ([found.span() for found in re.finditer(r"\S+(?: \S+)?", text)] for text in texts))


def twice(cuts: Cuts, texts: list[str]) -> Cuts:
    return Cuts.of(texts, ([found.span() for found in re.finditer(r"\S+", text) for _ in "ab"] for text in texts))


def alone_otherwise(cuts: Cuts, texts: list[str]) -> Cuts:
    spans = (re.finditer(r"\S" if len(texts) == 1 else r"\S+", text) for text in texts)
    return Cuts.of(texts, ([found.span() for found in own] for own in spans))


def blanks_as_tokens(cuts: Cuts, texts: list[str]) -> Cuts:
    return Cuts.of(texts, ([found.span() for found in re.finditer(r"\S+|^\s+$", text)] for text in texts))


def refuses(language: str) -> Cut:
    if language == "qq":
        raise TokenizerError("what is that?")
    return WORDS.open(language)


@pytest.mark.parametrize(
    ("tokenizer", "said"),
    [
        (cutting(in_small_letters), "the token at"),
        (cutting(without_marks), "what no token has"),
        (cutting(with_blanks), "no white space in"),
        (cutting(twice), "tokens one after the other"),
        (cutting(alone_otherwise), ", alone: found"),
        (cutting(blanks_as_tokens), "no white space in"),
        (WORDS._replace(version="1 or 2"), "a version without blanks and ="),
        (WORDS._replace(version="", library="nowhere-to-be-found"), "its library is installed, nowhere-to-be-found"),
        (WORDS._replace(open=refuses), "a language that it does not know is a LanguageError"),
    ],
)
def test_what_is_wrong_with_a_tokenizer_is_said(tokenizer: Tokenizer, said: str) -> None:
    with pytest.raises(AssertionError, match=re.escape(said)):
        check_tokenizer(tokenizer)


# Penalties

asked = 0


def growing(rows: float, broken: float, settings: PenaltySettings) -> float:
    global asked
    asked += 1
    return float(asked) if broken == 0 else 0.0


@pytest.mark.parametrize(
    ("nats", "said"),
    [
        (lambda n, b, settings: 1.0 - b, "nats ≥ 0 of"),
        (lambda n, b, settings: math.nan, "nats ≥ 0 of"),
        (lambda n, b, settings: math.log(b + 1.0), "broken rows in"),
        (growing, "nats of the same counts, a second time"),
    ],
)
def test_what_is_wrong_with_a_penalty_is_said(nats: Any, said: str) -> None:
    with pytest.raises(AssertionError, match=re.escape(said)):
        check_penalty(Penalty(nats, PenaltySettings, ""))


# Feature sets

LETTERS = Single(Source("tokens", "lower"))


@pytest.mark.parametrize(
    ("templates", "said"),
    [
        ((), "a template at least"),
        ((LETTERS, LETTERS), "names of templates, each once"),
        ((Single(Source("a=b")),), "names with ="),
    ],
)
def test_what_is_wrong_with_a_feature_set_is_said(templates: tuple[AttributeTemplate, ...], said: str) -> None:
    with pytest.raises(AssertionError, match=re.escape(said)):
        check_features(templates)


def test_an_extractor_whose_tables_say_another_thing_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []

    def text(word: str) -> str:
        calls.append(word)
        return f"{word}{len(calls)}"

    monkeypatch.setitem(EXTRACTORS, "lower", replace(EXTRACTORS["lower"], text=text))
    with pytest.raises(AssertionError, match="attributes of the same documents"):
        check_features((LETTERS,))
