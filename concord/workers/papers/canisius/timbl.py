"""Bindings to TiMBL's classifiers (Daelemans et al. 2009): decision trees IGTree and TRIBL2, nearest neighbours IB1.

TiMBL is under the GPL and no part of concord: `pip install 'concord-nlp[memory]'` adds its bindings, which are imported
only when a model needs them. A model keeps TiMBL's own text file of an instance base. Values and classes are numbers in
it, so that no text of a corpus can break its format.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from concord.schemas.arrays import Ids
from concord.schemas.distribution import with_extra
from concord.schemas.errors import InputError
from concord.workers.papers.canisius.neighbourhoods import Neighbourhoods, ranked
from concord.workers.papers.canisius.settings import Decay, Metric, TrigramSettings, Weighting
from concord.workers.storage.scratch import scratch_folder

ALGORITHMS = {"ib1": "-a0", "igtree": "-a1", "tribl2": "-a4"}
METRICS = {Metric.OVERLAP: "-mO", Metric.MVDM: "-mM", Metric.JEFFREY: "-mJ"}
WEIGHTINGS = {Weighting.NONE: "-w0", Weighting.GAIN_RATIO: "-w1", Weighting.INFORMATION_GAIN: "-w2"}
DECAYS = {Decay.NONE: "-dZ", Decay.INVERSE: "-dID", Decay.LINEAR: "-dIL", Decay.EXPONENTIAL: "-dED:1"}
FORMAT = "-F Tabbed +D +vs+db"
"""TiMBL options: fields separated by tabs, whole class distributions, nothing on standard output."""
TIMBL_DISTRIBUTION = "python3-timbl"
BASE, WEIGHTS = "instances.timbl", "instances.timbl.wgt"


class TimblError(InputError):
    """TiMBL is not installed, or it refused its input; it gives its reason on standard error only."""


def options_of(settings: TrigramSettings) -> str:
    """TiMBL command-line options for the settings; IGTree takes no metric, k or decay."""
    options = [FORMAT, ALGORITHMS[settings.learner], WEIGHTINGS[settings.weighting]]
    if settings.learner != "igtree":
        options += [METRICS[settings.metric], f"-k{settings.k}", DECAYS[settings.decay]]
    return " ".join(options)


def _api(options: str) -> Any:
    try:
        timbl = import_module("timblapi")
    except ModuleNotFoundError as error:
        raise TimblError(
            "learners igtree, tribl2 and ib1 are TiMBL's, which is not installed: "
            f"pip install '{with_extra('memory')}', or use --set learner=nearest"
        ) from error
    return timbl.TimblAPI(options, "concord")


def write_base(folder: Path, values: Ids, classes: Ids, settings: TrigramSettings) -> list[str]:
    """Trains TiMBL on instances, ``values`` (F, M) and ``classes`` (M,), and writes its instance base.

    Returns the names of the files. Raises `TimblError`, `OSError`.
    """
    options = options_of(settings)
    learner = _api(options)
    with scratch_folder() as place:
        examples = place / "examples"
        np.savetxt(examples, np.vstack([values, classes]).T, fmt="%d", delimiter="\t")
        if not learner.learn(str(examples)) or not learner.writeInstanceBase(str(folder / BASE)):
            raise TimblError(f"TiMBL cannot learn with {options}; see its message above")
    return [name for name in (BASE, WEIGHTS) if (folder / name).is_file()]


@dataclass(frozen=True, eq=False)
class Timbl:
    """A TiMBL classifier as bytes that can be sent to other machines: options, instance base, and weights if any."""

    options: str
    base: bytes
    weights: bytes | None

    @classmethod
    def read(cls, folder: Path, settings: TrigramSettings) -> Timbl:
        """The instance base in a model's folder. Raises `OSError`."""
        weights = folder / WEIGHTS
        return cls(
            options_of(settings), (folder / BASE).read_bytes(), weights.read_bytes() if weights.is_file() else None
        )

    @cached_property
    def _classifier(self) -> Any:
        """TiMBL's own classifier object, made anew in each process. Raises `TimblError`."""
        classifier = _api(self.options)
        with scratch_folder() as place:
            file = place / BASE
            file.write_bytes(self.base)
            if self.weights is not None:
                (place / WEIGHTS).write_bytes(self.weights)
            if not classifier.getInstanceBase(str(file)):
                raise TimblError(f"TiMBL cannot read the model's {BASE}; train again")
        return classifier

    def neighbourhoods(self, instances: Ids) -> Neighbourhoods:
        """See `Classifier`. Raises `TimblError`."""
        instance, classes, share = list[int](), list[int](), list[float]()
        for q, row in enumerate(instances.tolist()):
            # The last field is the class, which TiMBL ignores here; the two flags ask for shares of the whole tree.
            is_known, _, shares, _ = self._classifier.classify3("\t".join(map(str, [*row, 0])), *(True, 0))
            if not is_known:
                raise TimblError("TiMBL cannot classify with the model's instance base; train again")
            instance += [q] * len(shares)
            classes += map(int, shares)
            share += shares.values()
        return ranked(np.array(instance, np.int64), np.array(classes, np.int64), np.array(share), len(instances))

    def __getstate__(self) -> dict[str, Any]:
        return {name: self.__dict__[name] for name in self.__dataclass_fields__}
