"""Labelling of texts in this process, without Ray, Prefect or MLflow: `concord label`, and the same in Python.

label = open_labeller("models/news")
print(label("Ada Lovelace wrote to Charles Babbage.").entities)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from concord.flows.labelling.sources import cutting, open_constraints, open_model, say_unused_rules
from concord.flows.screen.progress import compiling_told
from concord.schemas.audit import Explanation
from concord.schemas.columns import MARGIN, MARGIN_STATUS, PROBABILITY, Reject
from concord.schemas.corrections import Clamp, Correction, clamped, sorted_corrections
from concord.schemas.document import Batch, Document, TokenizedText
from concord.schemas.errors import DocumentError, InputError
from concord.schemas.labelled import LabelledText
from concord.schemas.predictions import entities_column
from concord.schemas.run import DEFAULT_RUN, RunSettings
from concord.schemas.run_context import HERE, RunContext
from concord.workers.audit.auditing import explain
from concord.workers.constraints.constraint_set import Separable
from concord.workers.constraints.correction_mask import check_corrections
from concord.workers.corpus.readers.text import document_from_bytes
from concord.workers.corpus.settings import TextReaderSettings
from concord.workers.labelling.labelled import check_settings, check_there, label_batch, run_decoder
from concord.workers.labelling.shard import answers_table
from concord.workers.models.model import Model, local_scores, text_tokenizer
from concord.workers.storage.files import naming

TEXT_ID = "text"
ENCODING_FLAG = "--encoding "
MOST_TEXT_BYTES = 256 << 20
"""Largest text: a hundred novels. A larger one is a corpus, or a stream without end."""

CONFIDENCE = {"probability": PROBABILITY, "margin": MARGIN, "margin_status": MARGIN_STATUS}
"""Column of predictions, by field of an entity."""


class TextError(InputError):
    """A text that cannot be read; the message names its source and the reason."""


class RawText(NamedTuple):
    """Bytes of a text; ``source`` is its name: a file's path, or another origin."""

    source: str
    content: bytes


@dataclass(frozen=True)
class TextLabeller:
    """A model ready for use.

    - ``name``: the user's name of the model.
    - ``model``: the model.
    - ``constraints``: its constraints.
    - ``settings``: settings by which documents are decoded.
    """

    name: str
    model: Model
    constraints: Separable
    settings: RunSettings

    def __call__(self, text: str, *, doc_id: str = TEXT_ID, clamp: Clamp = ()) -> LabelledText:
        """Labels a text as one document, cut into sentences and tokens, with the corrections ``clamp``.

        Raises `TextError` for a text of blanks, `CorpusError` if the model reads more than words, and
        `DocumentError` for a text that cannot be labelled, and `CorrectionError`.
        """
        return self.document(self.corrected(self.document_of(text, doc_id=doc_id), clamped(clamp)))

    def document_of(self, text: str, *, doc_id: str = TEXT_ID) -> Document:
        """A text cut into sentences and tokens. Raises `TextError`, `LanguageError`."""
        settings = TextReaderSettings.of(self.settings.text)
        document = self.read(RawText(doc_id, text.encode()), settings)
        assert document.raw is not None
        content, start, end = document.raw
        mark = len(text) - len(content)  # a mark of byte order is no part of a file's text, but of this one's places
        return replace(document, raw=TokenizedText(text, start + mark, end + mark)) if mark else document

    def read(self, raw: RawText, settings: TextReaderSettings) -> Document:
        """A text as a document whose id is its source, cut by the model's own function if it has one.

        ``settings`` name the tokenizer, see `cutting`. Raises `TextError`, `TokenizerError`, `LanguageError`.
        """
        found = document_from_bytes(
            raw.content,
            raw.source,
            raw.source,
            settings.model_copy(update={"tokenizer": self.settings.text.tokenizer}),
            option=ENCODING_FLAG,
            tokenizer=text_tokenizer(self.model),
        )
        if isinstance(found, Reject):
            raise TextError(f"{raw.source}: {found.reason}")
        return found

    def corrected(self, document: Document, corrections: Sequence[Correction]) -> Document:
        """The document with corrections, which its answer keeps. Raises `CorrectionError`."""
        ordered = sorted_corrections(corrections)
        labels = self.model.labels
        check_corrections(ordered, labels, document.sentence_starts, len(document), doc_id=document.doc_id)
        return replace(document, corrections=ordered)

    def document(self, document: Document) -> LabelledText:
        """Labels a document of tokens. Raises the errors of a call."""
        self._check(document)
        batch = Batch.of([document])
        model, constraints, settings = self.model, self.constraints, self.settings
        with compiling_told():
            labelled = label_batch(batch, model=model, constraints=constraints, settings=settings)
        for reason in labelled.refused.values():
            raise DocumentError(reason, document.doc_id)
        table = answers_table(batch, labelled, model=model, constraints=constraints, settings=settings)
        (row,) = table.to_pylist()
        wanted = {name: row[name] for name in LabelledText.model_fields if name in row}
        (alone,) = entities_column(batch, model.labels, labelled.first[0]).to_pylist()
        given = {
            "text": document.text,
            "score": row["objective"],
            "entities": _entities(row),
            "viterbi_entities": alone,
        }
        return LabelledText.model_validate(wanted | given)

    def explain(self, document: Document) -> Explanation:
        """Changes and cost of each constraint in a document; each needs a run of the engine. Raises as a call does."""
        self._check(document)
        with compiling_told():
            scores, decoder = local_scores(self.model, Batch.of([document])), run_decoder(self.settings)
            return explain(document, scores, self.constraints, self.model.labels, decoder=decoder)

    def _check(self, document: Document) -> None:
        there, place = sorted(document.columns), document.doc_id
        check_there(there, place, model=self.model, constraints=self.constraints, source=self.name)


def open_labeller(
    model: str,
    *,
    constraints: Sequence[str] = (),
    consistency: bool = True,
    settings: RunSettings = DEFAULT_RUN,
    context: RunContext = HERE,
) -> TextLabeller:
    """A labeller with the model of a folder, a URI, or ``models:/NAME@ALIAS`` (then MLflow is imported).

    - ``constraints``: YAML files, added to the label consistency trained with the model (``consistency``).
    - ``settings``: those of a run.
    - ``context``: MLflow, whose registry may have the model.

    Raises `EngineError`, `ModelError`, `ConstraintError`, `TrackingError`, `OSError`.
    """
    checked = check_settings(settings)
    opened = open_model(model, context)
    checked = checked.model_copy(update={"text": cutting(opened, checked.text)})
    say_unused_rules(opened, constraints)
    return TextLabeller(model, opened.model, open_constraints(opened, constraints, consistency=consistency), checked)


def _entities(row: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Entities of a row of predictions, each with its confidence from other columns."""
    beside = {name: column for name, column in CONFIDENCE.items() if column in row}
    return [
        entity | {name: row[column][i] for name, column in beside.items()} for i, entity in enumerate(row["entities"])
    ]


def raw_file(path: Path) -> RawText:
    """Content of a file. Raises `OSError`, which names the file, and `TextError` if it is larger than allowed."""
    with naming(path), path.expanduser().open("rb") as file:
        return raw_stream(file, str(path))


def raw_stream(file: BinaryIO, source: str) -> RawText:
    """Rest of a stream. Raises `TextError` if it has more than `MOST_TEXT_BYTES`."""
    content = file.read(MOST_TEXT_BYTES + 1)
    if len(content) > MOST_TEXT_BYTES:
        raise TextError(
            f"{source}: more than {MOST_TEXT_BYTES >> 20} MiB, which is too much for one document; cut it into several"
        )
    return RawText(source, content)
