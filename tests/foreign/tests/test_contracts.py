"""Each part against its contract: what an author of parts writes."""

from __future__ import annotations

from collections import Counter

from spare_parts.command import LONGEST
from spare_parts.engine import RESTARTS
from spare_parts.features import ENDS
from spare_parts.measure import SENTENCES
from spare_parts.miner import LAST_LABEL
from spare_parts.model import load
from spare_parts.penalty import DOUBLED
from spare_parts.reader import PIPES
from spare_parts.template import EndsWith
from spare_parts.tokenizer import COMMAS
from spare_parts.trainer import NAME, WORD_COUNTS
from spare_parts.writer import BARS

from concord.testing import (
    BIO,
    PLAIN,
    Case,
    GoodFile,
    check_command,
    check_engine,
    check_features,
    check_measure,
    check_miner,
    check_penalty,
    check_reader,
    check_template,
    check_tokenizer,
    check_trainer,
    check_writer,
)
from concord.testing.measures import Text, Things


def test_engine() -> None:
    check_engine(RESTARTS)


def test_reader() -> None:
    content = b"Ann|B-PER\nran|O\n\nto|O\nOslo|B-LOC\n"
    check_reader(PIPES, GoodFile("a.txt", content, word=b"Oslo", documents=2))


def test_template() -> None:
    def outside(text: list[list[tuple[str, str]]]) -> float:
        return text[-1][-1][1] != "O"

    def author(text: list[list[tuple[str, str]]]) -> float:
        return text[-1][-1][1] not in ("author", "date")

    check_template(
        EndsWith, [Case({"labels": ["O"]}, BIO, outside), Case({"labels": ["author", "date"]}, PLAIN, author)]
    )


def test_trainer_and_model() -> None:
    check_trainer(NAME, WORD_COUNTS, load)


def test_measure() -> None:
    def plain(text: Text, side: str) -> Things:
        found: Things = Counter()
        for number in {token.sentence for token in text}:
            labels = tuple(getattr(token, side) for token in text if token.sentence == number)
            found["sentences", (number, labels)] = 1
        return found

    check_measure(SENTENCES, plain)


def test_penalty() -> None:
    check_penalty(DOUBLED)


def test_miner() -> None:
    check_miner(LAST_LABEL)


def test_features() -> None:
    check_features(ENDS)


def test_tokenizer() -> None:
    check_tokenizer(COMMAS)


def test_writer() -> None:
    check_writer(BARS)


def test_command() -> None:
    check_command("longest", LONGEST)
