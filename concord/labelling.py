"""Labelling of texts and documents in this process, without a corpus and without Ray, Prefect or MLflow."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from numbers import Integral
from os import PathLike
from typing import Any

from concord.flows.commands.label import TextLabeller, open_labeller
from concord.flows.inputs.in_python import speaks_python
from concord.flows.inputs.options import validated
from concord.rules import Rules, files_of
from concord.schemas.audit import Explanation
from concord.schemas.corrections import Clamp, clamped
from concord.schemas.document import TOKENS, Document
from concord.schemas.errors import UsageError
from concord.schemas.labelled import LabelledText
from concord.schemas.run import ENGINE, ConfidenceKind, RunSettings
from concord.schemas.run_context import RunContext


class Labeller:
    """A model with its constraints, ready to label. `load` makes one.

    >>> model = concord.load("models/news")
    >>> model.labels[:3]
    ('O', 'B-LOC', 'I-LOC')
    """

    def __init__(self, labeller: TextLabeller) -> None:
        self._labeller = labeller

    def __repr__(self) -> str:
        titles = ", ".join(self.constraints) or "none"
        return f"Labeller({self._labeller.name!r}, engine={self._labeller.settings.engine!r}, constraints: {titles})"

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of the model's labels."""
        return self._labeller.model.labels.names

    @property
    def types(self) -> tuple[str, ...]:
        """The types of entities that these labels name."""
        return self._labeller.model.labels.types

    @property
    def constraints(self) -> tuple[str, ...]:
        """The names of the constraints, including the label consistency that was learned with the model."""
        return self._labeller.constraints.titles

    def label(self, text: str, *, doc_id: str | int = "text", clamp: Clamp = ()) -> LabelledText:
        """Cuts a text into sentences and tokens and labels it as one document.

        ``clamp`` are corrections that the answer keeps, each a span of tokens with its type: (0, 2, "PER"), or with
        None for no entity. Random choices depend only on ``doc_id``, the document's name, and on the seed. A number
        names what its digits name.

        Raises `InputError` for a text of blanks, for a text without a possible labelling, for corrections that do not
        fit, and if the model reads more than words.

        >>> answer = model.label("Police met Ada Lovelace in London. Lovelace told reporters.")
        >>> answer.gap <= 1e-6
        True
        >>> model.label("Police met Ada.", clamp=[(0, 1, None), (2, 3, "LOC")]).labels
        ('O', 'O', 'B-LOC', 'O')
        """
        return self._labeller(_one_text(text), doc_id=_name(doc_id), clamp=clamp)

    def label_many(self, texts: Iterable[str], *, doc_ids: Iterable[str | int] | None = None) -> Iterator[LabelledText]:
        """Labels each text as one document, and gives the answers one after the other.

        ``doc_ids`` are the documents' names; the default is their numbers. Raises the errors of `label`, `ValueError`
        where there are more or fewer names than texts, and `UsageError` for a whole table, a mapping or a single text.

        >>> [len(answer.entities) for answer in model.label_many(["Nothing.", "Nobody."])]
        [0, 0]
        """
        many = _many(texts, "texts")
        if doc_ids is None:
            return (self.label(text, doc_id=i) for i, text in enumerate(many))
        return (self.label(text, doc_id=name) for text, name in zip(many, _many(doc_ids, "doc_ids"), strict=True))

    def label_tokens(
        self,
        sentences: Sequence[Sequence[str]],
        *,
        doc_id: str | int = "text",
        clamp: Clamp = (),
        **columns: Sequence[Sequence[str]],
    ) -> LabelledText:
        """Labels a document that is already cut into tokens: a list of words for each sentence.

        ``clamp`` are corrections, as of `label`; ``columns`` are further columns that the model reads, such as
        ``pos=``, in the form of ``sentences``. Raises the errors of `label`, `UsageError` for other than lists of str,
        and `ValueError` for a column of another form.

        >>> model.label_tokens([["Ada", "Lovelace", "wrote", "."]]).tokens
        ('Ada', 'Lovelace', 'wrote', '.')
        """
        document = _built(doc_id, sentences, columns)
        return self._labeller.document(self._labeller.corrected(document, clamped(clamp)))

    def label_document(self, document: Document) -> LabelledText:
        """Labels a `Document`, which readers and `Document.build` make. Raises the errors of `label`."""
        for name, column in document.columns.items():
            _check_words(column.used(), name)
        return self._labeller.document(replace(document, doc_id=_name(document.doc_id)))

    def explain(self, text: str, *, doc_id: str | int = "text") -> Explanation:
        """The effect of each constraint on a text: what it changes, and its cost in nats.

        Solves the text once more for each constraint. Raises the errors of `label`.

        >>> [effect.name for effect in model.explain("Ada met Ada Lovelace.").effects] == list(model.constraints)
        True
        """
        return self._labeller.explain(self._labeller.document_of(_one_text(text), doc_id=_name(doc_id)))

    def explain_tokens(
        self, sentences: Sequence[Sequence[str]], *, doc_id: str | int = "text", **columns: Sequence[Sequence[str]]
    ) -> Explanation:
        """The same of a document that is already cut into tokens; arguments and errors are those of `label_tokens`.

        >>> model.explain_tokens([["Ada", "met", "Ada", "Lovelace", "."]]).tokens[:2]
        ('Ada', 'met')
        """
        return self._labeller.explain(_built(doc_id, sentences, columns))


def _one_text(text: str) -> str:
    """The text. Raises `UsageError` for anything but a str."""
    if not isinstance(text, str):
        raise UsageError(f"one text is labelled, a str, not a {type(text).__name__}; `label_many` takes many texts")
    return text


def _name(doc_id: str | int) -> str:
    """A document's name, of a number as corpora have it: as text. Raises `UsageError` for another type."""
    if isinstance(doc_id, str):
        return doc_id
    if not isinstance(doc_id, Integral) or isinstance(doc_id, bool):
        raise UsageError(f"doc_id {doc_id!r:.40}: want a str or an int, not a {type(doc_id).__name__}")
    return str(doc_id)


def _many(values: Iterable[Any], name: str) -> Iterable[Any]:
    """The values. Raises `UsageError` for what would give its characters, its keys or the names of its columns."""
    if isinstance(values, str | bytes | Mapping) or hasattr(values, "columns") or not isinstance(values, Iterable):
        raise UsageError(f"{name}: want a list, or one column of a table, not a {type(values).__name__}")
    return values


def _built(doc_id: str | int, sentences: Sequence[Sequence[str]], columns: Mapping[str, Any]) -> Document:
    """A document of words. Raises `UsageError` for other than a list of str for each sentence."""
    cut = {name: list(_many(rows, name)) for name, rows in {TOKENS: sentences, **columns}.items()}
    for name, rows in cut.items():
        for words in rows:
            _check_words(words, name)
    return Document.build(_name(doc_id), cut.pop(TOKENS), **cut)


def _check_words(words: Any, name: str) -> None:
    """Raises `UsageError` for a sentence, or other words, that are no list of str."""
    if isinstance(words, str | Mapping) or not isinstance(words, Collection):
        raise UsageError(f"{name}: want a list of words for each sentence, not {words!r:.40}; `label` takes a text")
    for word in words:
        if not isinstance(word, str):
            raise UsageError(f"{name}: want a str for each word, not {word!r:.40}")


@speaks_python
def load(
    model: str | PathLike[str],
    *,
    constraints: Rules = (),
    consistency: bool = True,
    engine: str = ENGINE,
    options: Mapping[str, Any] | None = None,
    seed: int = 0,
    confidence: ConfidenceKind = "none",
    n_best: int = 0,
    tokenizer: str | None = None,
    tracking: str | None = None,
) -> Labeller:
    """Opens a model, ready to label.

    - ``model``: model folder, URI (``s3://bucket/model``), or ``models:/NAME@ALIAS`` of the registry at ``tracking``
    - ``constraints``: `Constraints`, or paths of YAML files
    - ``consistency``: use the label consistency that was learned with the model, too?
    - ``engine``: name of the engine, see ``concord list engines``
    - ``options``: options of the engine
    - ``seed``: seed of all random choices
    - ``confidence``: figure for each entity: "marginal", "margin" or "none"
    - ``n_best``: number of best labellings that are listed; 0 for none
    - ``tokenizer``: name of the tokenizer for texts; the default is the one that the model names
    - ``tracking``: address of MLflow

    Raises `InputError` where one of them cannot be used.

    >>> concord.load("models/news", engine="gibbs", options={"sweeps": 300})
    Labeller('models/news', engine='gibbs', constraints: consistent, consistent_unlabelled)
    """
    values: dict[str, Any] = {"engine": engine, "options": dict(options or {}), "seed": seed}
    values |= {"text": {"tokenizer": tokenizer}, "confidence": confidence, "n_best": n_best}
    settings = validated(values, RunSettings, owner="load")
    with files_of(constraints) as files:
        return Labeller(
            open_labeller(
                str(model),
                constraints=files,
                consistency=consistency,
                settings=settings,
                context=RunContext(tracking=tracking),
            )
        )
