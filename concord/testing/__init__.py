"""Contract tests for authors of parts: one plain function for each kind of part, to be called from your own tests.

    from concord.testing import check_engine
    from my_package import FAST

    def test_my_engine() -> None:
        check_engine(FAST)

Each tests the part on small made-up input, against brute force or a plain count, and raises `AssertionError` with the
promise that was broken. The same functions run over concord's own parts. All names here are public and stay.
"""

from __future__ import annotations

from concord.testing.commands import check_command
from concord.testing.engines import check_answer, check_engine
from concord.testing.features import check_features
from concord.testing.measures import check_measure
from concord.testing.miners import check_miner
from concord.testing.penalties import check_penalty
from concord.testing.problems import enumerate_best, random_problem
from concord.testing.readers import GoodFile, check_reader
from concord.testing.templates import BIO, PLAIN, Case, check_template
from concord.testing.tokenizers import check_tokenizer
from concord.testing.trainers import check_trainer
from concord.testing.writers import check_writer

__all__ = [
    "BIO",
    "PLAIN",
    "Case",
    "GoodFile",
    "check_answer",
    "check_command",
    "check_engine",
    "check_features",
    "check_measure",
    "check_miner",
    "check_penalty",
    "check_reader",
    "check_template",
    "check_tokenizer",
    "check_trainer",
    "check_writer",
    "enumerate_best",
    "random_problem",
]
