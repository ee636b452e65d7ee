"""A recognizer for Presidio's analyzer: ``registry.add_recognizer(ConcordRecognizer("models/news"))``.

It labels a whole text at once, so that label consistency gives it the mentions of a name that are missed elsewhere.
The score of an entity is 1 / (1 + e^−m) for its margin of m nats: the odds against its best rival, as a probability.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from presidio_analyzer import EntityRecognizer, RecognizerResult
from presidio_analyzer.nlp_engine import NlpArtifacts
from scipy.special import expit

from concord.labelling import load
from concord.workers.corpus.readers.text import is_blank

NAMES_OF_PRESIDIO = MappingProxyType({"PER": "PERSON", "LOC": "LOCATION", "ORG": "ORGANIZATION"})
"""Presidio's names for types of models; other types keep theirs."""


class ConcordRecognizer(EntityRecognizer):
    """Gives Presidio's analyzer the entities of a model.

    - ``model``: folder, URI or name in MLflow's registry
    - ``names``: Presidio's name for each type; a type that is not there keeps its own
    - ``supported_language``, ``name``, ``context``: those of each recognizer of Presidio
    - ``options``: keywords of `concord.load`

    Raises the errors of `concord.load`.
    """

    def __init__(
        self,
        model: str,
        *,
        names: Mapping[str, str] = NAMES_OF_PRESIDIO,
        supported_language: str = "en",
        name: str | None = None,
        context: Sequence[str] = (),
        **options: Any,
    ) -> None:
        self.labeller = load(model, confidence="margin", **options)
        self.names = {kind: names.get(kind, kind) for kind in self.labeller.types}
        kinds = list(dict.fromkeys(self.names.values()))
        super().__init__(kinds, supported_language=supported_language, name=name, context=list(context))

    def load(self) -> None:
        """Does nothing: the model is open when Presidio calls it."""

    def analyze(
        self, text: str, entities: Collection[str], nlp_artifacts: NlpArtifacts | None = None
    ) -> list[RecognizerResult]:
        """The entities of a text that have one of these names of Presidio's. Raises the errors of `Labeller.label`."""
        del nlp_artifacts
        if is_blank(text):
            return []
        found = self.labeller.label(text).entities
        return [
            RecognizerResult(self.names[one.type], one.char_start, one.char_end, float(expit(one.margin)))
            for one in found
            if self.names[one.type] in entities
        ]
