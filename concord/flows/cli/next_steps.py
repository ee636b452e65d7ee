"""Commands that a command proposes at its end. Tests parse each of them with the real command line, and run it."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from concord.flows.screen.progress import say


def say_next(words: Sequence[str]) -> None:
    """Prints the next command as it can be typed."""
    say("next:")
    say(shlex.join(["concord", *words]))


def after_sweep(out: str) -> list[str]:
    """Comparing the results of a sweep along one of its axes."""
    return ["sweep", "show", "--sweep", out, "--by", "engine"]


def after_clusters(clusters: str) -> list[str]:
    """Training a model with the clusters; corpus and model are names in capitals, to be replaced."""
    return ["train", "--corpus", "CORPUS", "--clusters", "glove", "--clusters", clusters, "--out", "MODEL"]


def after_gazetteer(phrases: str) -> list[str]:
    """Training a model with the phrases; corpus and model are names in capitals, to be replaced."""
    features = "core+mentions+clusters+entities+gazetteer"
    return ["train", "--corpus", "CORPUS", "--features", features, "--gazetteer", phrases, "--out", "MODEL"]


def after_proposal(corpus: str, model: str) -> list[str]:
    """What rules are worth that somebody has written; their file is a name in capitals, to be replaced."""
    return ["constraints", "check", "RULES", "--corpus", corpus, "--model", model]


def after_demo() -> list[list[str]]:
    """The steps of the demonstration on the user's own corpus; its files are names in capitals, to be replaced."""
    return [
        ["ingest", "conll", "LABELLED", "--out", "corpora/train"],
        ["train", "--corpus", "corpora/train", "--out", "models/mine", "--register", "mine"],
        ["ingest", "conll", "UNLABELLED", "--out", "corpora/new"],
        ["reprocess", "--corpus", "corpora/new", "--model", "models:/mine@champion", "--out", "out/"],
    ]
