"""All commands with an output, and everything that they read."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import typer

from concord.flows.cli.app import app
from concord.workers.corpus.ingestion import write_corpus
from concord.workers.corpus.settings import IngestSettings
from concord.workers.features.clusters import Clusters, write_clusters
from concord.workers.learning.trainers import crfsuite
from concord.workers.models.settings import CrfSettings
from concord.workers.synthesis.made_up import synthesize

OUT = "out"
READ = {
    "clusters": "clusters.parquet",
    "config": "options.yaml",
    "data": "corpus",
    "constraints": "rules.yaml",
    "corpus": "corpus",
    "corrections": "labels.txt",
    "fit_corpus": "corpus",
    "fit_run": "run",
    "file": "rules.yaml",
    "folder": "source",
    "network": "rules.yaml",
    "gazetteer": "list.tsv",
    "lists": "list.tsv",
    "held_out": "other",
    "labels": "labels.txt",
    "model": "model",
    "only": "ids.txt",
    "source": "source",
    "test_parts": "other",
    "encoder": "source",
    "start_from": "model",
    "transitions": "matrix.npy",
    "pool": "pool",
    "against": "run",
    "promise": "labels.txt",
    "prompt": "labels.txt",
    "reuse": "swept",
    "run": "run",
    "sweep_file": "sweep.yaml",
    "tree": "paths.txt",
    "vectors": "vectors.txt",
    "words": "labels.txt",
}
"""What commands read, by the parameter that names it: a file or folder of the good ones."""


NEEDED = {
    "reader": "text",
    "form": "jsonl",
    "tasks_file": "tasks.json",
    "name": "ner",
    "program": "gliner",
    "register": "news",
    "feature_function": "usaddress:tokens2features",
}
GIVEN: dict[tuple[str, str], list[str]] = {
    **{
        (command, name): given
        for command in ("challenge", "train")
        for name, given in {
            "start_from": ["--features", "core"],
            "clusters": ["--features", "core+clusters"],
            "encoder": ["--features", "core"],
            "gazetteer": ["--features", "core+gazetteer"],
            "pool": ["--trainer", "hmm"],
        }.items()
    },
    ("constraints weigh", "model"): ["--penalty", "learned"],
    ("constraints weigh", "held_out"): ["--penalty", "tuned", "--model", "{good}/model"],
}
"""What else has to be said so that an input is read."""


class Writer(NamedTuple):
    """A command with an output, and the parameters that name what it reads."""

    name: str
    command: Any
    inputs: tuple[str, ...]

    def words(self, good: Path, read: str | None, out: Path) -> list[str]:
        """A command line with everything that is needed, and the parameter ``read``."""
        words, named = self.name.split(), [] if read is None else GIVEN.get((self.name, read), [])
        for part in self.command.params:
            value = NEEDED.get(part.name, str(good / READ[part.name]) if part.name in READ else None)
            if part.name == OUT:
                value = str(out)
            if value is not None and (part.required or part.name in (OUT, read)) and part.opts[0] not in named:
                words += [value] if part.param_type_name == "argument" else [part.opts[0], value]
        return [*words, *(word.format(good=good) for word in named)]


def texts(command: Any) -> list[str]:
    """The parameters of a command that are texts or paths, or lists of them."""
    parameters = inspect.signature(command.callback, eval_str=True).parameters
    return [name for name, given in parameters.items() if {str, Path} & set(kinds(given.annotation))]


def kinds(annotation: Any) -> Iterator[Any]:
    """The annotation and everything in it."""
    yield annotation
    for part in typing.get_args(annotation):
        yield from kinds(part)


def writers() -> Iterator[Writer]:
    def walk(command: Any, name: str) -> Iterator[Writer]:
        for below, inner in getattr(command, "commands", {}).items():
            yield from walk(inner, f"{name} {below}".strip())
        named = [part for part in command.params if part.name == OUT and part.param_type_name == "option"]
        if named:
            yield Writer(name, command, tuple(part for part in texts(command) if part in READ))

    return walk(typer.main.get_command(app), "")


WRITERS = {writer.name: writer for writer in writers()}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    documents = list(synthesize(12, seed=3, kind="news"))
    for name in ("corpus", "other", "pool"):
        write_corpus(documents, folder / name, source="made up", layout=IngestSettings())
    crfsuite.train(documents, settings=CrfSettings(features="core", max_iterations=2), out=folder / "model")
    (folder / "source").mkdir()
    (folder / "source" / "a.txt").write_text("Ada wrote.")
    (folder / "options.yaml").write_text("json: true\n")
    (folder / "rules.yaml").write_text("constraints: [{template: legality, weight: hard}]\n")
    (folder / "list.tsv").write_text("Ada\tPER\n")
    (folder / "ids.txt").write_text("news-000000001\n")
    (folder / "labels.txt").write_text("O\nB-PER\nI-PER\n")
    (folder / "paths.txt").write_text("0\tAda\t2\n1\twrote\t1\n")
    (folder / "vectors.txt").write_text("Ada 1 2\nwrote 2 1\n")
    (folder / "sweep.yaml").write_text("corpora: {all: {test: corpus}}\nmodels: {old: {folder: model}}\n")
    (folder / "swept").mkdir()
    (folder / "swept" / "plan.json").write_text("[]")
    (folder / "run").mkdir()
    (folder / "run" / ".nights.jsonl").write_text("")
    (folder / "matrix.npy").write_bytes(b"no matrix")
    write_clusters(folder / "clusters.parquet", _clusters())
    return folder


def _clusters() -> Clusters:
    import numpy as np
    import pyarrow as pa

    return Clusters(pa.array(["Ada"]), ("2",), np.array([[1]], np.int32))
