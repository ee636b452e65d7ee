"""A backend for Label Studio: its predictions of a model, with scores by which the least certain task comes first.

In ``model.py`` of a folder that ``label-studio-ml`` serves:

    from concord.labelstudio import ConcordBackend


    class News(ConcordBackend):
        model = "models/news"

A score is 1 / (1 + e^−m). For a region, m are the nats of its margin; for a task, those that its answer has over the
second best. So Label Studio's order by prediction score, lowest first, begins with the texts that are most in doubt.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, ClassVar, NamedTuple

from label_studio_ml.model import LabelStudioMLBase
from scipy.special import expit

from concord.labelling import Labeller, load
from concord.schemas.errors import InputError
from concord.schemas.labelled import LabelledEntity, LabelledText
from concord.workers.corpus.readers.text import is_blank


class _Tags(NamedTuple):
    """The tags of a labelling interface: name of Labels, name of Text, key of the text in tasks, labels by type."""

    labels: str
    text: str
    key: str
    label_of: Mapping[str, str]


class ConcordBackend(LabelStudioMLBase):
    """Labels the texts of tasks. What subclasses set:

    - ``model``: folder, URI or name in MLflow's registry
    - ``options``: keywords of `concord.load`
    """

    model: ClassVar[str]
    options: ClassVar[Mapping[str, Any]] = {}

    def predict(
        self, tasks: Sequence[Mapping[str, Any]], context: object = None, **others: object
    ) -> list[dict[str, Any]]:
        """A prediction for each task, with the labels that the labelling interface has.

        Raises `InputError` for an interface without labels of the model and for a task without a text, and the errors
        of `concord.load` and `Labeller.label`.
        """
        del context, others
        labeller = self._labeller()
        tags = _tags(self.parsed_label_config, labeller)
        return [_prediction(_text(task, tags), labeller, tags) for task in tasks]

    @classmethod
    @cache
    def _labeller(cls) -> Labeller:
        """The model, opened once: the host makes backends anew now and then."""
        return load(cls.model, confidence="margin", n_best=2, **cls.options)


def _tags(interface: Mapping[str, Any], labeller: Labeller) -> _Tags:
    """The first tags Labels and Text whose labels the model has, by the label's name or its ``predicted_values``."""
    for name, tag in interface.items():
        label_of = {kind: label for label in tag["labels"] for kind in _kinds(label, tag) if kind in labeller.types}
        if tag["type"] == "Labels" and tag["inputs"][0]["type"] == "Text" and label_of:
            return _Tags(name, tag["to_name"][0], tag["inputs"][0]["value"], label_of)
    types = ", ".join(labeller.types)
    raise InputError(
        f"the labelling interface has no tag Labels for a Text with a label of the model ({types}); "
        'name them so, or <Label value="Person" predicted_values="PER"/>'
    )


def _kinds(label: str, tag: Mapping[str, Any]) -> list[str]:
    """The model's types that a label stands for."""
    attributes = tag.get("labels_attrs", {}).get(label, {})
    return [label, *(kind.strip() for kind in attributes.get("predicted_values", "").split(","))]


def _text(task: Mapping[str, Any], tags: _Tags) -> str:
    text = task["data"].get(tags.key)
    if not isinstance(text, str):
        raise InputError(f"task {task.get('id')}: no text under data.{tags.key}, which the labelling interface shows")
    return text


def _prediction(text: str, labeller: Labeller, tags: _Tags) -> dict[str, Any]:
    if is_blank(text):
        return {"result": [], "score": 1.0}
    answer = labeller.label(text)
    shown = [one for one in answer.entities if one.type in tags.label_of]
    return {"result": [_region(number, one, tags) for number, one in enumerate(shown)], "score": _sureness(answer)}


def _sureness(answer: LabelledText) -> float:
    """The odds of the answer against the second best, as a probability; 1 where nothing else is possible."""
    return float(expit(answer.n_best[1].gap)) if len(answer.n_best) > 1 else 1.0


def _region(number: int, entity: LabelledEntity, tags: _Tags) -> dict[str, Any]:
    assert entity.margin is not None
    value = {"start": entity.char_start, "end": entity.char_end, "text": entity.text}
    return {
        "id": str(number),
        "from_name": tags.labels,
        "to_name": tags.text,
        "type": "labels",
        "value": value | {"labels": [tags.label_of[entity.type]]},
        "score": float(expit(entity.margin)),
    }
