"""Texts and documents labelled in this process: no corpus, no cluster, neither Ray nor Prefect nor MLflow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from os import PathLike
from typing import Any

from concord.flows.commands.label import TextLabeller, open_labeller
from concord.flows.run_context import RunContext
from concord.rules import Rules, files_of
from concord.schemas.audit import Explanation
from concord.schemas.document import Document
from concord.schemas.labelled import LabelledText
from concord.schemas.run import ENGINE, ConfidenceKind, RunSettings
from concord.schemas.settings import TextSettings


class Labeller:
    """A model that is ready to label, with its constraints. `load` makes one.

    >>> model = concord.load("models/news")
    >>> model.labels[:3]
    ('O', 'B-LOC', 'I-LOC')
    """

    def __init__(self, opened: TextLabeller) -> None:
        self._opened = opened

    def __repr__(self) -> str:
        titles = ", ".join(self.constraints) or "none"
        return f"Labeller({self._opened.name!r}, engine={self._opened.settings.engine!r}, constraints: {titles})"

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of the model's labels."""
        return self._opened.model.labels.names

    @property
    def constraints(self) -> tuple[str, ...]:
        """The names of the constraints, those of the label consistency that was trained with the model among them."""
        return self._opened.constraints.titles

    def label(self, text: str, *, doc_id: str = "text") -> LabelledText:
        """A text as one document: cut into sentences and tokens, and labelled.

        ``doc_id`` names it, and is with the seed the only source of chance. Raises `InputError` for a text of blanks,
        for one that no labelling fits, and where the model reads more than words.

        >>> answer = model.label("Police met Ada Lovelace in London. Lovelace told reporters.")
        >>> answer.gap <= 1e-6
        True
        """
        return self._opened(text, doc_id=doc_id)

    def label_many(self, texts: Iterable[str], *, doc_ids: Iterable[str] | None = None) -> Iterator[LabelledText]:
        """Each text as one document, one answer after the other; ``doc_ids`` name them, by default their number.

        Raises as `label` does, and `ValueError` where there are more or fewer names than texts.

        >>> [len(answer.entities) for answer in model.label_many(["Nothing.", "Nobody."])]
        [0, 0]
        """
        if doc_ids is None:
            return (self.label(text, doc_id=str(i)) for i, text in enumerate(texts))
        return (self.label(text, doc_id=name) for text, name in zip(texts, doc_ids, strict=True))

    def label_tokens(
        self, sentences: Sequence[Sequence[str]], *, doc_id: str = "text", **columns: Sequence[Sequence[str]]
    ) -> LabelledText:
        """A document that is cut into tokens already: a list of words a sentence.

        ``columns`` are what else the model reads of each token, such as ``pos=``, in the same form. Raises as `label`
        does, and `ValueError` for a column of another form.

        >>> model.label_tokens([["Ada", "Lovelace", "wrote", "."]]).tokens
        ('Ada', 'Lovelace', 'wrote', '.')
        """
        return self.label_document(Document.build(doc_id, sentences, **columns))

    def label_document(self, document: Document) -> LabelledText:
        """A `Document`, as readers and `Document.build` make one. Raises as `label` does."""
        return self._opened.document(document)

    def explain(self, text: str, *, doc_id: str = "text") -> Explanation:
        """What each constraint changes in a text, and at what cost in nats: a solve for each. Raises as `label` does.

        >>> [effect.name for effect in model.explain("Ada met Ada Lovelace.").effects] == list(model.constraints)
        True
        """
        return self._opened.explain(self._opened.document_of(text, doc_id=doc_id))


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
    """A model folder, or ``models:/NAME@ALIAS`` of MLflow's registry at ``tracking``, ready to label.

    ``constraints`` are `Constraints`, or paths of YAML files, added to the label consistency that was trained with the
    model (``consistency``). ``engine`` decodes, with its ``options``; ``confidence`` ("marginal" or "margin") says how
    sure each entity is, and ``n_best`` lists so many labellings. ``tokenizer`` cuts texts, by default the one that the
    model states. Raises `InputError` where one of them cannot be used.

    >>> concord.load("models/news", engine="gibbs", options={"sweeps": 300})
    Labeller('models/news', engine='gibbs', constraints: consistent, consistent_subsequence, consistent_unlabelled)
    """
    settings = RunSettings(
        engine=engine,
        options=dict(options or {}),
        seed=seed,
        text=TextSettings(tokenizer=tokenizer),
        confidence=confidence,
        n_best=n_best,
    )
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
