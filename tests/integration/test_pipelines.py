"""Labelling as a step of other programs' pipelines, as a page shows it: Ray Data, and Spark's part of it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest

import concord
from concord.schemas.document import Document
from concord.workers.learning.trainers import hmm
from concord.workers.models.settings import HmmSettings
from concord.workers.synthesis.made_up import synthesize

pytestmark = pytest.mark.slow

PAGE = Path(__file__).parents[2] / "docs" / "cluster.md"
EXAMPLES = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
MADE = [one for one in synthesize(12, seed=4, kind="news") if isinstance(one, Document)]
TEXTS = pd.DataFrame({"doc_id": [one.doc_id for one in MADE], "text": [" ".join(one.tokens) for one in MADE]})


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the model and the texts of the examples."""
    folder = tmp_path_factory.mktemp("shelf")
    hmm.train(MADE[:8], settings=HmmSettings(), out=folder / "models" / "news")
    TEXTS.to_parquet(folder / "texts.parquet")
    return folder


@pytest.fixture(scope="module")
def answers(shelf: Path) -> dict[str, str]:
    """The answer to each text, in this process."""
    labelled = concord.load(shelf / "models" / "news").label_many(TEXTS["text"], doc_ids=TEXTS["doc_id"])
    return dict(zip(TEXTS["doc_id"], [one.model_dump_json() for one in labelled], strict=True))


def answered(table: pd.DataFrame) -> dict[str, str]:
    return dict(zip(table["doc_id"], table["answer"], strict=True))


def test_ray_data_labels_as_this_process_does(shelf: Path, answers: dict[str, str]) -> None:
    env = {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"}
    done = subprocess.run(
        [sys.executable, "-c", EXAMPLES[0]], cwd=shelf, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert answered(pq.read_table(shelf / "by-ray").to_pandas()) == answers


def test_the_function_for_spark_labels_frame_by_frame(
    shelf: Path, answers: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(shelf)
    (function, _) = EXAMPLES[1].split("\n\n")
    names: dict[str, Callable[[Iterator[pd.DataFrame]], Iterator[pd.DataFrame]]] = {}
    exec(function, {"concord": concord}, names)
    frames = list(names["label"](iter([TEXTS[:5], TEXTS[5:]])))
    assert [len(frame) for frame in frames] == [5, 7]
    assert answered(pd.concat(frames)) == answers
