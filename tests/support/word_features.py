"""A function of features, and sentences to label with it."""

from __future__ import annotations

from typing import Any

from typer.testing import CliRunner

from concord.flows.cli.app import app

FEATURES = "tests.support.word_features:features"
SENTENCES = [["12", "Main", "St"], ["Ada"], ["Main", "é", "12", "x y"], ["Ada", "Ada", "St"]]
LABELS = [["number", "name", "kind"], ["name"], ["name", "O", "number", "O"], ["name", "name", "kind"]]


def features(words: list[str]) -> list[dict[str, Any]]:
    """Of every kind that python-crfsuite takes: text, truth, number, list, nested."""
    if "refused" in words:
        raise KeyError("refused")
    if "short" in words:
        return []
    found: list[dict[str, Any]] = []
    for at, word in enumerate(words):
        found.append(
            {
                "word": word,
                "digits": word.isdigit(),
                "length": float(len(word)),
                "ends": [word[-1:], word[-2:]],
                "before": {"word": words[at - 1], "length": 0.5} if at else {"start": True},
            }
        )
    return found


def call(*words: str, code: int = 0) -> Any:
    done = CliRunner().invoke(app, [*words])
    assert done.exit_code == code, done.output
    return done
