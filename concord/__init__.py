"""Joint, certified sequence labelling of document corpora.

    import concord

    concord.ingest("conll", "eng.train", out="corpora/train")
    concord.train("corpora/train", out="models/news")

    model = concord.load("models/news")
    model.label("Police met Ada Lovelace at her home in London.")

    concord.reprocess("corpora/archive", model="models/news", out="out")
    concord.read_predictions("out").to_pandas()

The labels of a document are chosen together: they agree with a local model, with each other, and with declared
constraints. Each answer has a bound on its distance from the best possible one, in nats.

The names that this module lists are public and stay, and so are those that `concord.parts` and `concord.testing` have
for authors of parts. Everything else is internal and may change. Nothing is imported before it is used, and importing
concord changes nothing in the process.
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from concord.schemas.distribution import DISTRIBUTION

if TYPE_CHECKING:
    from concord.corpora import ingest as ingest
    from concord.corpora import synthesize as synthesize
    from concord.labelling import Labeller as Labeller
    from concord.labelling import load as load
    from concord.models import calibrate as calibrate
    from concord.models import train as train
    from concord.predictions import PredictedDocument as PredictedDocument
    from concord.predictions import Predictions as Predictions
    from concord.predictions import read_predictions as read_predictions
    from concord.problems import solve as solve
    from concord.reviews import RunReview as RunReview
    from concord.reviews import review as review
    from concord.rules import Constraints as Constraints
    from concord.runs import adopt as adopt
    from concord.runs import evaluate as evaluate
    from concord.runs import explain as explain
    from concord.runs import report as report
    from concord.runs import reprocess as reprocess
    from concord.runs import verify as verify
    from concord.runs import why as why
    from concord.schemas.document import Document as Document
    from concord.schemas.errors import InputError as InputError
    from concord.schemas.labels import LabelSet as LabelSet
    from concord.schemas.potentials import Potentials as Potentials
    from concord.schemas.problem import LinearRows as LinearRows
    from concord.schemas.problem import Problem as Problem
    from concord.schemas.problem import SpanAgreement as SpanAgreement
    from concord.sweeps import SweepResults as SweepResults
    from concord.sweeps import read_sweep as read_sweep
    from concord.sweeps import sweep as sweep

PLACES = {
    # One text, one document.
    "load": "concord.labelling",
    "Labeller": "concord.labelling",
    "Document": "concord.schemas.document",
    # Corpora and models.
    "ingest": "concord.corpora",
    "synthesize": "concord.corpora",
    "train": "concord.models",
    "calibrate": "concord.models",
    "Constraints": "concord.rules",
    # Runs over corpora.
    "reprocess": "concord.runs",
    "adopt": "concord.runs",
    "evaluate": "concord.runs",
    "report": "concord.runs",
    "verify": "concord.runs",
    "explain": "concord.runs",
    "why": "concord.runs",
    "review": "concord.reviews",
    "RunReview": "concord.reviews",
    "read_predictions": "concord.predictions",
    "Predictions": "concord.predictions",
    "PredictedDocument": "concord.predictions",
    # Sweeps over models, constraints and engines.
    "sweep": "concord.sweeps",
    "read_sweep": "concord.sweeps",
    "SweepResults": "concord.sweeps",
    # Arrays of your own.
    "solve": "concord.problems",
    "Problem": "concord.schemas.problem",
    "Potentials": "concord.schemas.potentials",
    "LabelSet": "concord.schemas.labels",
    "LinearRows": "concord.schemas.problem",
    "SpanAgreement": "concord.schemas.problem",
    # Raised by all of them for input that cannot be used.
    "InputError": "concord.schemas.errors",
}
"""Each public name, with the module from which it is imported when it is first used."""

__version__ = version(DISTRIBUTION)
__all__ = [*PLACES, "__version__"]


def __getattr__(name: str) -> Any:
    """Imports a public name. Raises `AttributeError` for any other."""
    if name not in PLACES:
        raise AttributeError(f"module 'concord' has no attribute {name!r}; it has {', '.join(PLACES)}")
    return getattr(import_module(PLACES[name]), name)


def __dir__() -> list[str]:
    return sorted([*PLACES, "__version__"])
