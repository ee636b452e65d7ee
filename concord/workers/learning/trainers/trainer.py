"""Contract of a trainer: a function that learns a model from labelled documents and saves it as a folder."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from concord.schemas.blocks import Remark
from concord.schemas.document import Document
from concord.schemas.errors import TrainingError
from concord.schemas.label_names import gold_label_set
from concord.schemas.labels import LabelSet
from concord.schemas.settings import Settings, TrainerSettings
from concord.workers.learning.search.progressive import Sampling
from concord.workers.models.model import Model


class Iteration(NamedTuple):
    """Progress of training.

    - ``number``: iterations done.
    - ``total``: most iterations that there can be.
    - ``loss``: nats, where the trainer has a loss.
    """

    number: int
    total: int
    loss: float | None = None


Progress = Callable[[Iteration], None]
"""Function that is called after each iteration; an exception that it raises (Ctrl-C) ends training."""


class Train(Protocol):
    """Learns a model from labelled documents and saves it as the folder ``out``, which `load_model` reads.

    Deterministic: equal documents and settings give equal files. The manifest's ``training`` has the entries of
    `TrainingCounts.training` and the trainer's own figures. A folder that an interrupted training leaves does not load.
    Raises an `InputError` of one line, most often a `TrainingError`, where the documents or settings cannot be used or
    the folder cannot be written, and `OSError`.
    """

    def __call__(
        self, documents: Iterable[Document], *, settings: Any, out: Path, progress: Progress | None = None
    ) -> Model:
        """Trains; ``settings`` are of the class that the function's entry in `TRAINERS` names."""
        ...


def _nothing_more(_figures: Mapping[str, float]) -> tuple[Remark, ...]:
    return ()


class Trainer(NamedTuple):
    """An entry of `TRAINERS`; `concord list` shows the first line of the function's module.

    - ``train``: the function.
    - ``settings``: class of its settings.
    - ``sampling``: how settings are tried on a cluster, by wrapped progressive sampling; None: by cross-validation
      here.
    - ``constraints``: file in the model's folder with the constraints learned beside the model; None if it learns none.
    - ``gold``: does it learn from gold labels? Otherwise there need be none, and it never reads them, unless
      ``gold_if_any``: then it does where all documents have some.
    - ``comparison``: it stands beside a paper's figures; users would choose another.
    - ``kernels``: options that need other kernels than the defaults do, to compile these, too.
    - ``remarks``: what is to be said of its figures beside what is said of all trainers'.
    """

    train: Train
    settings: type[TrainerSettings]
    sampling: Sampling | None = None
    constraints: str | None = None
    gold: bool = True
    gold_if_any: bool = False
    comparison: bool = False
    kernels: tuple[Mapping[str, Any], ...] = ()
    remarks: Callable[[Mapping[str, float]], Iterable[Remark]] = _nothing_more

    def learns_from_gold(self, documents: Sequence[Document]) -> bool:
        """Are the documents' gold labels learned from?"""
        return self.gold or (self.gold_if_any and have_gold(documents))


def have_gold(documents: Sequence[Document]) -> bool:
    """Have all documents gold labels, and is there one?"""
    return bool(documents) and all(document.labels is not None for document in documents)


def gold_of(document: Document) -> list[str]:
    """Gold labels (N,) of a document. Raises `TrainingError` where it has none."""
    if document.labels is None:
        raise TrainingError(
            f"document {document.doc_id!r} has no gold labels, and training needs them on every document; give it "
            "some in the column 'labels', or take it out"
        )
    return document.labels.strings()


def labels_of(documents: Sequence[Document], more: Iterable[str] = ()) -> LabelSet:
    """Label set of documents' gold labels and ``more``. Raises `TrainingError` for a document without labels, and
    `LabelError` where the labels are of no scheme."""
    columns = [document.labels for document in documents]
    names = {name for document in documents for name in gold_of(document)}
    plain = any(column is not None and column.plain for column in columns)
    return gold_label_set({*names, *more}, plain=plain)


def without_new_labels(held_out: Sequence[Document], documents: Sequence[Document]) -> list[Document]:
    """Those held out whose gold labels a model of the ``documents`` can have. Raises the errors of `labels_of`."""
    known = set(labels_of(documents).names)
    return [document for document in held_out if known.issuperset(gold_of(document))]


@dataclass
class TrainingCounts:
    """Counts and digest of the documents that a trainer has read so far.

    - ``columns``: token columns that the features read.
    - ``names``: labels that occur.
    - ``plain``: are they plain because the corpus says so?
    """

    columns: tuple[str, ...]
    names: set[str] = field(default_factory=set)
    plain: bool = False
    documents: int = 0
    sentences: int = 0
    tokens: int = 0
    _digest: Any = field(default_factory=hashlib.sha256, repr=False)

    def gold(self, document: Document) -> list[str]:
        """Gold labels (N,) of a document; adds the document to the counts and the digest.

        Raises `TrainingError` where it has no labels, or lacks a column.
        """
        gold = gold_of(document)
        self._add(document, gold)
        self.names.update(gold)
        self.plain |= document.labels is not None and document.labels.plain
        return gold

    def unlabelled(self, document: Document) -> None:
        """Adds a document to the counts and the digest, without its labels. Raises `TrainingError` as `gold`."""
        self._add(document, [])

    def _add(self, document: Document, gold: list[str]) -> None:
        missing = [name for name in self.columns if name not in document.columns]
        if missing:
            raise TrainingError(
                f"document {document.doc_id!r} has no column {', '.join(map(repr, missing))}, which the features read; "
                "leave out --features, or add the column"
            )
        self.documents += 1
        self.sentences += len(document.sentence_starts)
        self.tokens += len(document)
        content = [document.doc_id, *gold, *(s for c in self.columns for s in document.columns[c].strings())]
        self._digest.update("\x00".join(content).encode("utf-8", "surrogatepass"))
        self._digest.update(document.sentence_starts.astype("<i8").tobytes())

    def label_set(self, more: Iterable[str] = ()) -> LabelSet:
        """Label set of all labels that occur, and of ``more``. Raises `LabelError`, see `read_label_names`."""
        return gold_label_set(self.names.union(more), plain=self.plain)

    def beside(self, document: Document) -> None:
        """Adds a document that is learned from without labels to the digest, but not to the counts."""
        content = "\x00".join([document.doc_id, *document.tokens])
        self._digest.update(content.encode("utf-8", "surrogatepass"))
        self._digest.update(document.sentence_starts.astype("<i8").tobytes())

    def training(self, trainer: str, settings: Settings) -> dict[str, Any]:
        """Entries for the manifest: the trainer's name, the counts, and the digest of documents and settings.

        Raises `TrainingError` where there was no token.
        """
        if self.tokens == 0:
            raise TrainingError("there is no token to train on: the corpus is empty")
        state = self._digest.hexdigest() + settings.model_dump_json()
        return {
            "trainer": trainer,
            "documents": self.documents,
            "sentences": self.sentences,
            "tokens": self.tokens,
            "digest": hashlib.sha256(state.encode()).hexdigest(),
        }
