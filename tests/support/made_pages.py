"""Pages of made-up runs, and what their viewers hold."""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections.abc import Sequence
from html import unescape
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from concord.schemas.document import Document
from concord.workers.corpus.ingestion import write_corpus
from tests.support.made_predictions import predictions, write_run

HOSTILE = (
    "</script><img/src=x/onerror=document.title='taken'>",
    "{{6007*6011}}<b>&amp;",
    "\u202eabc\u2066",
    "\u05d0\u05d1\u05d2",
    "\x1b[31m",
    "x" * 1_000_000,
)
"""Tokens that would be markup, a template, another direction, a terminal's order, or too long."""


def corpus_with_a_bad_row(documents: Sequence[Document], folder: Path) -> Path:
    """A corpus of these documents, whose second row cannot be read."""
    write_corpus(documents, folder / "made", source="made up")
    table = pa.concat_tables([pq.read_table(path) for path in sorted((folder / "made").glob("part-*.parquet"))])
    column = table.schema.get_field_index("sentence_starts")
    bad = table.slice(1, 1).set_column(0, "doc_id", pa.array(["bad"]))
    bad = bad.set_column(column, "sentence_starts", pa.array([[7_000_000]], pa.list_(pa.int32())))
    (folder / "corpus").mkdir()
    pq.write_table(
        pa.concat_tables([table.slice(0, 1), bad, table.slice(1)]), folder / "corpus" / "c.parquet", row_group_size=4
    )
    return folder / "corpus"


def viewer_of(page: bytes) -> dict[str, Any]:
    """What the viewer of a page shows."""
    found = re.search(rb'<script id="data"[^>]*>([^<]*)</script>', page)
    assert found is not None
    viewer: dict[str, Any] = json.loads(zlib.decompress(base64.b64decode(found[1])))
    return viewer


def text_of(page: bytes) -> str:
    """A page as people read it, without its viewer's documents."""
    body = re.sub(rb"<(script|style|svg)\b.*?</\1>", b" ", page, flags=re.DOTALL).decode()
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", body)).split())


def hostile_run(folder: Path) -> Path:
    """A run in which ids, words and types are hostile."""
    names = [f"B-{HOSTILE[0]}", "O", f"B-{HOSTILE[1]}", "O", "O", "O"]
    predictions(folder, {HOSTILE[0]: names, HOSTILE[2]: ["O"] * 6}, viterbi={HOSTILE[0]: ["O"] * 6, HOSTILE[2]: names})
    (file,) = (folder / "predictions").iterdir()
    table = pq.read_table(file)
    words = pa.array([list(HOSTILE)] * len(table))
    write_run(folder, table.set_column(table.schema.get_field_index("tokens"), "tokens", words))
    return folder
