"""A registered model for `mlflow.pyfunc.load_model` and ``mlflow models serve``; MLflow keeps a copy of this module.

A request has a row for each document: its ``text``, or, for a model that reads more than words, its sentences
(``tokens`` and the other columns, each a list of lists). An answer has a row for each document. Nothing is pickled.
"""

from __future__ import annotations

from typing import Any

import pandas as pd
from mlflow.exceptions import MlflowException
from mlflow.models import set_model
from mlflow.pyfunc.model import PythonModel

from concord.flows.commands.label import TextLabeller, open_labeller
from concord.schemas.document import TOKENS, Document
from concord.schemas.errors import InputError

ANSWERED = ("tokens", "labels", "score", "gap", "status")
"""Fields of an answer, in addition to its entities."""
ENTITY_FIELDS = ("type", "start", "end", "text")


class ServedModel(PythonModel):
    """The model of the folder that MLflow keeps as the artifact ``model``."""

    def load_context(self, context: Any) -> None:
        """Opens the model; MLflow calls this once."""
        self._labeller: TextLabeller = open_labeller(context.artifacts["model"])

    def predict(self, context: Any, model_input: pd.DataFrame, params: dict[str, Any] | None = None) -> pd.DataFrame:  # noqa: ARG002
        """An answer for each row of a data frame. Raises `MlflowException`, which a server sends as status 400."""
        return pd.DataFrame([self._answer(dict(row)) for row in model_input.to_dict(orient="records")])

    def _answer(self, row: dict[Any, Any]) -> dict[str, Any]:
        try:
            if "text" in row:
                found = self._labeller(row["text"])
            else:
                columns = {name: [list(part) for part in value] for name, value in row.items()}
                found = self._labeller.document(Document.build("document", columns.pop(TOKENS), **columns))
        except (InputError, ValueError) as error:
            raise MlflowException.invalid_parameter_value(str(error)) from error
        entities = [{name: getattr(entity, name) for name in ENTITY_FIELDS} for entity in found.entities]
        fields = {name: getattr(found, name) for name in ANSWERED}
        lists = {name: list(value) if isinstance(value, tuple) else value for name, value in fields.items()}
        return {**lists, "entities": entities}


set_model(ServedModel())
