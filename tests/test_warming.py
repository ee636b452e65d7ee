"""A warm-up leaves nothing to compile, whatever document it is given."""

from __future__ import annotations

import subprocess
import sys

import pytest

SCRIPT = """
import sys
from numba.core.dispatcher import Dispatcher
from concord.schemas.document import Batch, Document
from concord.schemas.run import RunSettings
from tests.support.made_runs import LABELS, HashModel, consistency
from concord.workers.labelling.labelled import check_settings, label_batch
from concord.workers.synthesis.made_up import synthesize
from concord.workers.labelling.warming import warm

def compiled():
    kernels = {
        value
        for name, module in list(sys.modules.items())
        if name.startswith("concord.workers.")
        for value in vars(module).values()
        if isinstance(value, Dispatcher)
    }
    return {f"{kernel.py_func.__name__}{signature}" for kernel in kernels for signature in kernel.overloads}

settings = check_settings(RunSettings(engine=sys.argv[1], confidence=sys.argv[2], n_best=int(sys.argv[4])))
given = dict(model=HashModel(), constraints=consistency(), settings=settings)
limited = given | {"settings": settings.model_copy(update={"seconds": float(sys.argv[3])})}
warm(Document.build("one", [list("nothing")] * 3, labels=[["O"] * 7] * 3), **limited)
ready = compiled()
done = label_batch(Batch.of(list(synthesize(12, seed=1, kind="news"))), **given)
assert sum(score.penalty > 0 for score in done.before) > 6
assert not compiled() - ready, compiled() - ready
print(len(ready))
"""


@pytest.mark.parametrize(("engine", "confidence", "n_best"), [("gibbs", "none", "0"), ("certify", "marginal", "5")])
def test_no_document_compiles_anything_after_the_warm_up(engine: str, confidence: str, n_best: str) -> None:
    """However little time a document may take: compiling takes more, and the rest would be left to real documents."""
    typed = [sys.executable, "-c", SCRIPT, engine, confidence, "1e-6", n_best]
    run = subprocess.run(typed, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert int(run.stdout) > 5


BESIDE = """
from tests.support.made_runs import HashModel, consistency
from concord.schemas.document import Document
from concord.workers.inference.sampling.sweep import anneal
from concord.workers.inference.sampling.trials import better_all
from concord.workers.labelling.warming import warm_local_search

warm_local_search(Document.build("one", [list("nothing")] * 3), model=HashModel(), constraints=consistency())
print(len(better_all.signatures), len(anneal.signatures))
"""


def test_the_local_search_is_compiled_without_the_sampler() -> None:
    """Another process compiles the sampler meanwhile."""
    run = subprocess.run([sys.executable, "-c", BESIDE], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert run.stdout == "1 0\n"
