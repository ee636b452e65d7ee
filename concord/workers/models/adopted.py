"""Answers of another program in the place of a model, see `concord adopt`: they are read, and nothing is scored.

The folder holds who answered, and the answers on the tokens of the corpus. The digest is that of who answered and of
how the user names labels: under it the answers to a document may be other ones every night, so they are a part of the
shards' ids (`with_answers`).
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np
import pyarrow as pa
from pydantic import Field

from concord.schemas.corrections import Correction
from concord.schemas.document import Batch, Document
from concord.schemas.errors import DocumentError, InputError
from concord.schemas.labels import OUTSIDE, LabelSet
from concord.schemas.settings import Settings
from concord.workers.corpus.parquet import table_bytes
from concord.workers.models.folder import Manifest, ModelError, manifest_of, read_manifest, write_manifest
from concord.workers.models.model import GivenAnswer
from concord.workers.models.saved_files import FolderModel, saved_content, write_content
from concord.workers.storage.files import write_whole
from concord.workers.storage.tables import read_unthreaded

KIND = "adopted"
PROGRAM_FILE, GIVEN_FILE = "program.json", "answers.parquet"
ANSWERS = pa.schema(
    [
        ("doc_id", pa.string()),
        ("tokens", pa.int32()),
        (
            "spans",
            pa.list_(
                pa.struct([("start", pa.int32()), ("end", pa.int32()), ("type", pa.string()), ("score", pa.float64())])
            ),
        ),
    ]
)
"""A row a document that was answered: its tokens, and spans of them (end exclusive) in order; null for no score."""
UNANSWERED = "no answer to this document, or none that can be read and is to its text"


class UnscoredError(InputError):
    """Answers of another program, where a model is needed that scores documents."""


class AnsweringProgram(Settings):
    """Who answered, as the user names it.

    - ``prompt``: SHA-256 of the prompt; None for none.
    - ``names``: the user's names for labels of the program.
    """

    program: str = Field(min_length=1)
    version: str | None = None
    prompt: str | None = None
    names: Mapping[str, str] = Field(default_factory=dict)

    @property
    def digest(self) -> str:
        """Hex digest of all of it."""
        return hashlib.sha256(json.dumps(self.model_dump(mode="json"), sort_keys=True).encode()).hexdigest()


class GivenSpan(NamedTuple):
    """A span of an answer: tokens (end exclusive), type, and score as a probability; None for none."""

    start: int
    end: int
    type: str
    score: float | None = None


@dataclass(frozen=True, eq=False)
class AdoptedModel(FolderModel):
    """The answers of another program.

    - ``answered``: who gave them.
    - ``answers``: in the form of `ANSWERS`.
    """

    labels: LabelSet
    answered: AnsweringProgram
    answers: pa.Table
    manifest: Manifest
    columns: tuple[str, ...] = ()

    @property
    def digest(self) -> str:
        """Hex digest of who answered, whatever the answers are."""
        return self.answered.digest

    @property
    def name(self) -> str:
        """Program and version."""
        return " ".join(filter(None, (self.answered.program, self.answered.version)))

    def potentials(self, batch: Batch) -> NoReturn:  # noqa: ARG002
        """Raises `UnscoredError`."""
        raise UnscoredError(
            f"these are answers of {self.answered.program}, which `concord adopt` has made a run of; they score no "
            "labels, so this needs a model, such as of `concord train`"
        )

    def answer(self, document: Document) -> GivenAnswer:
        """The answer to a document, with its corrections. Raises `DocumentError` where there is none."""
        row = self._rows.get(document.doc_id)
        if row is None:
            raise DocumentError(UNANSWERED, document.doc_id)
        size = self.answers["tokens"][row].as_py()
        if size != len(document):
            raise DocumentError(f"the answer is to another text, of {size} tokens", document.doc_id)
        return self._given(with_corrections(self._spans(row), document.corrections), document)

    def answer_digest(self, doc_id: str) -> bytes:
        """Digest of the answer to a document; empty for none."""
        row = self._rows.get(doc_id)
        if row is None:
            return b""
        return hashlib.sha256(json.dumps([self.answers["tokens"][row].as_py(), *self._spans(row)]).encode()).digest()

    @cached_property
    def _rows(self) -> dict[str, int]:
        return {doc_id: row for row, doc_id in enumerate(self.answers["doc_id"].to_pylist())}

    def _spans(self, row: int) -> list[GivenSpan]:
        return [GivenSpan(**span) for span in self.answers["spans"][row].as_py()]

    def _given(self, spans: Sequence[GivenSpan], document: Document) -> GivenAnswer:
        """The spans as labels; of plain ones that touch and are one by their label, the least score."""
        labels = np.full(len(document), self.labels.index[OUTSIDE], np.int32)
        scores = np.zeros(len(document))
        for span in spans:
            kind = self.labels.types.index(span.type)
            labels[span.start] = self.labels.opening[kind]
            labels[span.start + 1 : span.end] = self.labels.inside[kind]
            scores[span.start : span.end] = math.nan if span.score is None else span.score
        shown = self.labels.spans(labels, document.sentence_starts)
        least = [float(scores[start:end].min()) for start, end in zip(shown.start, shown.end, strict=True)]
        return GivenAnswer(labels, np.array(least, np.float64))


def with_corrections(spans: Sequence[GivenSpan], corrections: Sequence[Correction]) -> list[GivenSpan]:
    """Spans in order that keep the corrections: those that share a token with one give way to it."""
    kept = [span for span in spans if all(span.end <= one.start or one.end <= span.start for one in corrections)]
    said = [GivenSpan(one.start, one.end, one.type, 1.0) for one in corrections if one.type is not None]
    return sorted([*kept, *said], key=lambda span: span.start)


def table_of(answers: Iterable[tuple[str, int, Sequence[GivenSpan]]]) -> pa.Table:
    """Answers in the form of `ANSWERS`, of ids, numbers of tokens, and spans in order."""
    rows: list[dict[str, Any]] = [
        {"doc_id": doc_id, "tokens": size, "spans": [span._asdict() for span in spans]}
        for doc_id, size, spans in answers
    ]
    return pa.Table.from_pylist(rows, schema=ANSWERS)


def save(out: Path, answered: AnsweringProgram, answers: pa.Table, labels: LabelSet) -> AdoptedModel:
    """Writes answers into an existing folder, the manifest last. Raises `OSError` and `OutputError`."""
    write_content(out / PROGRAM_FILE, answered)
    write_whole(out / GIVEN_FILE, table_bytes(answers))
    manifest = write_manifest(out, manifest_of(out, KIND, labels, files=(PROGRAM_FILE, GIVEN_FILE)))
    return AdoptedModel(labels, answered, answers, manifest)


def load(folder: Path | str) -> AdoptedModel:
    """The answers of a folder; files are parsed only after their hash was checked. Raises `ModelError`."""
    folder = Path(folder)
    manifest = read_manifest(folder, kind=KIND, files=(PROGRAM_FILE, GIVEN_FILE))
    answers = read_unthreaded((folder / GIVEN_FILE).read_bytes())
    if answers.schema.remove_metadata() != ANSWERS:
        raise ModelError(f"{folder / GIVEN_FILE}: damaged (other columns); run `concord adopt` again")
    return AdoptedModel(manifest.label_set, saved_content(folder / PROGRAM_FILE, AnsweringProgram), answers, manifest)
