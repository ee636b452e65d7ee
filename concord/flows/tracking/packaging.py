"""A model folder as MLflow's own kind of model, with a signature: loaded by code that is in it, never by a pickle."""

from __future__ import annotations

import shutil
import tempfile
import warnings
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

import pandas as pd
from mlflow.models import ModelSignature
from mlflow.pyfunc import save_model
from mlflow.types.schema import Array, ColSpec, DataType, Object, Property, Schema

import concord.flows
from concord.schemas.distribution import DISTRIBUTION
from concord.schemas.document import TOKENS

CODE = "served.py"
"""The file in `concord.flows` that MLflow loads the model by."""

_STRING, _NUMBER, _COUNT = DataType.string, DataType.double, DataType.long
_ENTITY = Object(
    [
        Property("type", _STRING),
        Property("start", _COUNT),
        Property("end", _COUNT),
        Property("text", _STRING),
    ]
)
ANSWER = Schema(
    [
        ColSpec(Array(_STRING), "tokens"),
        ColSpec(Array(_STRING), "labels"),
        ColSpec(_NUMBER, "score"),
        ColSpec(_NUMBER, "gap"),
        ColSpec(_STRING, "status"),
        ColSpec(Array(_ENTITY), "entities"),
    ]
)
"""What such a model answers, a row a document."""


def package(folder: Path, name: str, columns: Sequence[str], to: Path) -> None:
    """Writes the model of ``folder``, which reads these token columns, as MLflow's kind of model to the new ``to``.

    ``name`` is that of the model's folder among its artifacts.
    """
    code = Path(concord.flows.__path__[0]) / CODE
    with warnings.catch_warnings(), tempfile.TemporaryDirectory() as scratch:
        # MLflow keeps a folder by its own name, and we look for it by one that does not change.
        source = shutil.copytree(folder, Path(scratch) / name)
        # What it has to say of type hints and examples is for those who let it guess.
        warnings.simplefilter("ignore", UserWarning)
        save_model(
            str(to),
            python_model=str(code),
            artifacts={name: str(source)},
            signature=ModelSignature(_asked(columns), ANSWER),
            input_example=_example(columns),
            pip_requirements=[f"{DISTRIBUTION}=={version(DISTRIBUTION)}"],
        )
    shutil.rmtree(to / "__pycache__", ignore_errors=True)


def _asked(columns: Sequence[str]) -> Schema:
    """What the model is asked: texts, or sentences in lists where it reads more than words."""
    if tuple(columns) == (TOKENS,):
        return Schema([ColSpec(_STRING, "text")])
    return Schema([ColSpec(Array(Array(_STRING)), name) for name in columns])


def _example(columns: Sequence[str]) -> pd.DataFrame:
    if tuple(columns) == (TOKENS,):
        return pd.DataFrame({"text": ["Ada Lovelace wrote to Charles Babbage."]})
    return pd.DataFrame({name: [[["Ada", "wrote"]] if name == TOKENS else [["NNP", "VBD"]]] for name in columns})
