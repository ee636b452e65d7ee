"""A component for spaCy's pipelines: ``nlp.add_pipe("concord", config={"model": "models/news"})``.

It labels a whole `Doc` at once, as `Labeller.label_tokens` does, and sets ``doc.ents``. ``ent._.concord_margin`` is the
confidence of an entity in nats, ``doc._.concord_gap`` how far the answer can be from the best one. spaCy finds the
component by its entry point.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

from spacy.language import Language
from spacy.pipeline import Pipe
from spacy.tokens import Doc, Span, Token

from concord.labelling import Labeller, load
from concord.schemas.layers import NO_GRADE, layer_columns
from concord.schemas.run import ENGINE, ConfidenceKind

_MODEL = "model"
"""Folder of the model in that of a saved component."""
_MARGIN, _GAP = "concord_margin", "concord_gap"
"""Extension attributes of entities and documents, in nats."""


class ConcordComponent(Pipe):
    """Labels documents with a model of concord.

    - ``model``: folder, URI or name in MLflow's registry; opened when the first document comes.
    - ``options``: keywords of `concord.load`.
    - ``layer``: name of the layer under which the model has learned to read the entities that are there already.
    """

    def __init__(self, name: str, model: str, *, layer: str | None, **options: Any) -> None:
        self.name, self.model, self.layer, self.options = name, model, layer, options

    @cached_property
    def labeller(self) -> Labeller:
        """The model, ready to label. Raises the errors of `concord.load`."""
        return load(self.model, **self.options)

    def __call__(self, doc: Doc) -> Doc:
        """Sets the entities of a document, in place of those that it has. Blanks between words are no words.

        Raises the errors of `Labeller.label_tokens`.
        """
        sentences = [words for words in map(_words, _sentences(doc)) if words]
        if not sentences:
            return doc
        columns: dict[str, Any] = {} if self.layer is None else _layer(self.layer, sentences)
        answer = self.labeller.label_tokens([[token.text for token in words] for words in sentences], **columns)
        tokens = list(chain.from_iterable(sentences))
        found = [
            (Span(doc, tokens[one.start].i, tokens[one.end - 1].i + 1, label=one.type), one.margin)
            for one in answer.entities
        ]
        doc.set_ents([span for span, _ in found])
        for span, margin in found:
            span._.set(_MARGIN, margin)
        doc._.set(_GAP, answer.gap)
        return doc

    def to_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> None:
        """Copies the model's folder into that of the component. Raises `OSError`."""
        del exclude
        shutil.copytree(self.model, Path(path) / _MODEL, dirs_exist_ok=True)

    def from_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> ConcordComponent:
        """Takes the model from the folder that `to_disk` wrote."""
        del exclude
        self.model = str(Path(path) / _MODEL)
        vars(self).pop("labeller", None)
        return self


@Language.factory(
    "concord",
    default_config={"engine": ENGINE, "confidence": "margin", "constraints": [], "consistency": True, "layer": None},
    assigns=["doc.ents"],
)
def component(
    nlp: Language,
    name: str,
    model: str,
    engine: str,
    confidence: ConfidenceKind,
    constraints: list[str],
    consistency: bool,  # noqa: FBT001 - spaCy calls it by keywords
    layer: str | None,
) -> ConcordComponent:
    """The component; its settings but ``model`` and ``layer`` are those of `concord.load`."""
    del nlp
    for kind, attribute in ((Span, _MARGIN), (Doc, _GAP)):
        if not kind.has_extension(attribute):
            kind.set_extension(attribute, default=None)
    options = {"engine": engine, "confidence": confidence, "constraints": constraints, "consistency": consistency}
    return ConcordComponent(name, model, layer=layer, **options)


def _sentences(doc: Doc) -> Iterable[Iterable[Token]]:
    """The sentences; the whole document where nothing has looked for them."""
    return doc.sents if doc.has_annotation("SENT_START") else [doc]


def _words(sentence: Iterable[Token]) -> list[Token]:
    return [token for token in sentence if not token.is_space]


def _layer(name: str, sentences: list[list[Token]]) -> dict[str, list[list[str]]]:
    """Columns of the layer: the labels of the entities that are there, and no grade of them."""
    labels, grade, _ = layer_columns(name)
    return {labels: _of_each(sentences, _label), grade: _of_each(sentences, lambda _: NO_GRADE)}


def _of_each(sentences: list[list[Token]], value: Callable[[Token], str]) -> list[list[str]]:
    return [[value(token) for token in words] for words in sentences]


def _label(token: Token) -> str:
    return f"{token.ent_iob_}-{token.ent_type_}" if token.ent_type_ else "O"
