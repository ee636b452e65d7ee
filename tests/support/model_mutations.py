"""Damages a model folder in hundreds of ways, mends its hashes, and labels with whatever loads.

Run as a process of its own, which a kernel that reads outside an array may end:
``python -m tests.support.model_mutations FOLDER SCRATCH SEED COUNT``. Prints how many mutants were refused and how many
worked; anything else ends it with a traceback.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from concord.schemas.document import Batch, Document
from concord.schemas.errors import InputError
from concord.schemas.run import RunSettings
from concord.workers.constraints.constraint_set import Unconstrained
from concord.workers.constraints.declared import JoinedConstraints
from concord.workers.labelling.labelled import check_settings, label_batch
from concord.workers.models.arrays_file import read_arrays, write_arrays
from concord.workers.models.crf import ARRAYS, WEIGHTS_FILE
from concord.workers.models.folder import MANIFEST, file_digest
from concord.workers.models.loaders import load_model
from concord.workers.models.saved_consistency import saved_consistency

WORDS = [["Ada", "Byron", "said", "Basel"], ["Ems", "Öl", "AG", "in", "1996"], ["Byron"]]
SAMPLE = Batch.of([Document.build(f"d{i}", WORDS[i:], pos=[["X"] * len(s) for s in WORDS[i:]]) for i in range(3)])

ODD_NUMBERS = [-(2**63), -(2**31), -2, -1, 0, 1, 7, 2**31 - 1, 2**31, 2**62]
ODD_WEIGHTS = [float("nan"), float("inf"), -float("inf"), 1e308, -1e308, 1e6, 5e-324]
ODD_VALUES: list[Any] = [None, [], {}, "", "x", 0, -1, 1e400, True, [[]], ["O"], ["O", "O"], ["I-PER"], ["\0"], "plain"]

Arrays = list[NDArray[Any]]


def numbers(rng: np.random.Generator, arrays: Arrays) -> None:
    """Some places of one array hold odd numbers."""
    i = int(rng.integers(len(arrays)))
    flat = arrays[i].reshape(-1)
    if not len(flat):
        return
    at = rng.integers(0, len(flat), int(rng.integers(1, 4)))
    odd = ODD_WEIGHTS if flat.dtype.kind == "f" else ODD_NUMBERS
    with np.errstate(all="ignore"):
        flat[at] = np.array([odd[k] for k in rng.integers(0, len(odd), len(at))]).astype(flat.dtype)


def sizes(rng: np.random.Generator, arrays: Arrays) -> None:
    """One array is shorter, longer, of another type or shape, or in another's place."""
    i, j = rng.integers(0, len(arrays), 2).tolist()
    changes: list[Callable[[], Any]] = [
        lambda: arrays[i][: len(arrays[i]) // 2],
        lambda: arrays[i][:0],
        lambda: np.concatenate([arrays[i], arrays[i][:1]]),
        lambda: arrays[i].astype(np.float32),
        lambda: arrays[i].reshape(1, -1),
        lambda: arrays[j],
        lambda: np.zeros_like(arrays[i]),
        lambda: arrays[i][::-1],
    ]
    arrays[i] = changes[int(rng.integers(len(changes)))]()


def full_table(rng: np.random.Generator, arrays: Arrays) -> None:
    """A hash table without a free slot, in which a search for what is not there would not end."""
    i = int(rng.choice([4, 6, 8]))
    arrays[i] = np.maximum(arrays[i], 0)


def bytes_of_weights(rng: np.random.Generator, folder: Path) -> None:
    """Some bytes differ; half of the time among the first, which are a header."""
    data = bytearray((folder / WEIGHTS_FILE).read_bytes())
    end = 128 if rng.random() < 0.5 else len(data)
    for at in rng.integers(0, end, int(rng.integers(1, 5))).tolist():
        data[at] = int(rng.integers(256))
    if rng.random() < 0.2:
        data = data[: int(rng.integers(len(data)))]
    (folder / WEIGHTS_FILE).write_bytes(data)


def odd_manifest(rng: np.random.Generator, folder: Path) -> None:
    """A value somewhere in the manifest is another."""
    content: Any = json.loads((folder / MANIFEST).read_text())
    inner = content
    while True:
        keys = list(inner) if isinstance(inner, dict) else list(range(len(inner)))
        key = keys[int(rng.integers(len(keys)))]
        if isinstance(inner[key], dict | list) and inner[key] and rng.random() < 0.7:
            inner = inner[key]
            continue
        inner[key] = ODD_VALUES[int(rng.integers(len(ODD_VALUES)))]
        break
    (folder / MANIFEST).write_text(json.dumps(content))


def mend_hashes(folder: Path) -> None:
    content = json.loads((folder / MANIFEST).read_text())
    if isinstance(content.get("files"), dict):
        content["files"] |= {name: file_digest(folder / name) for name in content["files"] if (folder / name).is_file()}
    (folder / MANIFEST).write_text(json.dumps(content))


def mutate(rng: np.random.Generator, folder: Path) -> str:
    kinds = (numbers, sizes, full_table, bytes_of_weights, odd_manifest)
    kind = kinds[int(rng.choice(len(kinds), p=[0.35, 0.15, 0.05, 0.2, 0.25]))]
    if kind in (numbers, sizes, full_table):
        arrays = read_arrays(folder / WEIGHTS_FILE, ARRAYS)
        kind(rng, arrays)
        write_arrays(folder / WEIGHTS_FILE, arrays)
    else:
        kind(rng, folder)  # type: ignore[arg-type]
    mend_hashes(folder)
    return kind.__name__


def try_out(folder: Path) -> str:
    try:
        model, consistency = load_model(folder), saved_consistency(folder)
    except InputError as error:
        return "refused" if re.fullmatch(f".*{folder}.*", str(error)) else f"said {error}"
    constraints = JoinedConstraints((consistency,)) if consistency is not None else Unconstrained()
    settings = check_settings(RunSettings(engine="gibbs", options={"sweeps": 5}))
    labelled = label_batch(SAMPLE, model=model, constraints=constraints, settings=settings)
    assert len(labelled.decoded) + len(labelled.refused) == len(SAMPLE)
    assert all(np.isfinite(answer.local) or answer.objective == -np.inf for answer in labelled.decoded)
    return "worked"


def main(folder: Path, scratch: Path, seed: int, count: int) -> None:
    rng = np.random.default_rng(seed)
    outcomes: Counter[str] = Counter()
    for i in range(count):
        mutant = scratch / str(i)
        shutil.copytree(folder, mutant)
        kind = mutate(rng, mutant)
        sys.stderr.write(f"{i} {kind}\n")
        outcomes[f"{kind} {try_out(mutant)}"] += 1
        shutil.rmtree(mutant)
    sys.stdout.write(json.dumps(outcomes))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
