"""Does it help to learn under the constraints? The perceptron of Chang, Ratinov & Roth (2008), table 3, on Cora.

Token accuracy on the 100 development citations of perceptrons learned from the first n of each of five subsets of 25
training citations, or from all 300: alone (L), constraints only when answering (L+CI), constraints of fixed weights
while learning (CIBT), and of weights that are learned with the model (wCIBT). Fixed weights are those counted on the n
citations, times what cross-validation chose for the perceptron (`bench_little_gold.py`). Each is learned with the beam
search of the paper and with exact inference; certify answers at the end. Needs the real citations.

    python benchmarks/bench_constrained_learning.py
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from bench_little_gold import SIZES, SUBSETS, learned_from, subset, weighed
from common import save
from problems import CORA, Citations, citation_task, citations, decode

from concord.schemas.document import Document
from concord.workers.constraints.constraint_file import load_constraints
from concord.workers.constraints.constraint_writer import constraints_text
from concord.workers.learning.trainers.perceptron import CONSTRAINTS_FILE
from concord.workers.learning.trainers.registry import trainer_named
from concord.workers.learning.weights.penalties import OddsSettings
from concord.workers.models.settings import PerceptronSettings

FEATURES = "fields"
STRENGTH = 12.0
"""What counted weights are multiplied by: the perceptron's scores are no nats."""
HELD = OddsSettings(held=50.0)
ENGINES = ("beam", "certify")
PUBLISHED = {5: (50.14, 66.36, 64.79, 61.65), 10: (59.90, 72.91, 68.52, 69.64), 20: (68.26, 77.28, 72.79, 78.46)}
PUBLISHED |= {300: (89.83, 91.63, 87.83, 93.89)}
"""L, L+CI, CIBT and wCIBT, in percent, on another test part."""


def main() -> None:
    """Learns in every way from every size."""
    if not CORA.is_dir():
        raise SystemExit(f"{CORA}: not there; the table needs the real citations")
    found, rows = citations(), []
    for size in (*SIZES, len(found.train)):
        started = time.process_time()
        parts = [found.train] if size > max(SIZES) else [subset(k)[:size] for k in SUBSETS]
        measured = [accuracies(found, part) for part in parts]
        row = {name: 100.0 * float(np.mean([one[name] for one in measured])) for name in measured[0]}
        seconds = time.process_time() - started
        rows.append({"citations": size, **row, "published": PUBLISHED[size], "cpu_seconds": seconds})
        shown = ", ".join(f"{name} {value:.2f}" for name, value in row.items())
        print(f"{size}: {shown} {PUBLISHED[size]} {seconds:.0f} CPU s", flush=True)
    save("constrained_learning", {"rows": rows})


def accuracies(found: Citations, train: Sequence[Document]) -> dict[str, float]:
    """Token accuracy of every way of learning."""
    alone = learned_from(found, train, "perceptron", PerceptronSettings(features=FEATURES))
    fixed = weighed(alone, train, HELD, strength=STRENGTH)
    plain, under = citation_task(alone), citation_task(alone, fixed)
    rows = {"L": decode(plain, "viterbi").accuracy(plain), "L+CI": decode(under, "certify").accuracy(under)}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "constraints.yaml"
        file.write_text(constraints_text(fixed, {}))
        for engine in ENGINES:
            for learn in ("cibt", "wcibt"):
                given = {"features": FEATURES, "constraints": str(file), "learn": learn, "engine": engine}
                out = Path(folder) / f"{learn}-{engine}"
                settings = PerceptronSettings.model_validate(given)
                model = trainer_named("perceptron").train(train, settings=settings, out=out)
                task = citation_task(alone._replace(model=model), load_constraints(out / CONSTRAINTS_FILE))
                rows[f"{learn} {engine}"] = decode(task, "certify").accuracy(task)
    return rows


if __name__ == "__main__":
    main()
