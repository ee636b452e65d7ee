"""Commands that a command proposes at its end, in one place: tests parse each by the real tree, and run it."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from concord.flows.progress import say


def say_next(words: Sequence[str]) -> None:
    """The next command, as it can be typed."""
    say("next:")
    say(shlex.join(["concord", *words]))


def after_agreement(corpus: str, model: str, counts: str) -> list[str]:
    """Counts of a corpus are a prior for its documents; the output stands beside them."""
    out = f"{Path(counts).with_suffix('')}-out"
    return ["reprocess", "--corpus", corpus, "--model", model, "--constraints", counts, "--out", out]


def after_sweep(out: str) -> list[str]:
    """Results of a sweep are compared along one of its axes."""
    return ["sweep", "show", "--sweep", out, "--by", "engine"]


def after_clusters(clusters: str) -> list[str]:
    """Clusters are looked at by a model; corpus and model stand in capitals, for names of one's own."""
    features = "core+mentions+clusters+entities"
    return ["train", "--corpus", "CORPUS", "--features", features, "--clusters", clusters, "--out", "MODEL"]


def after_demo() -> list[list[str]]:
    """The same with a corpus of one's own; its files stand in capitals, for names of one's own."""
    return [
        ["ingest", "conll", "LABELLED", "--out", "corpora/train"],
        ["train", "--corpus", "corpora/train", "--out", "models/mine", "--register", "mine"],
        ["ingest", "conll", "UNLABELLED", "--out", "corpora/new"],
        ["reprocess", "--corpus", "corpora/new", "--model", "models:/mine@champion", "--out", "out/"],
    ]
