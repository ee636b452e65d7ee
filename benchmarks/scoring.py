"""Scoring plus Viterbi from Parquet to labels, against python-crfsuite with its features built in Python.

Both paths read the same row groups, one after the other in one process on one core, and must give
the same labels. The scorer starts with empty word tables; only the compiled kernels are warm. The
plain path keeps the attributes of words it has seen, which favours it.

    python benchmarks/scoring.py --corpus corpora/novels --model models/news-nopos --tokens 1000000
"""

from __future__ import annotations

import argparse
import json
import time
from itertools import pairwise
from pathlib import Path

import numpy as np
import pycrfsuite

from flows.shards import plan
from schemas.document import Batch
from schemas.labels import Labels
from workers.features.attributes import AttributeMaker
from workers.inference.chain import viterbi
from workers.models.crf import CRFSUITE_FILE, CrfModel, load
from workers.shard_io import Shard, read_batch


def factored(model: CrfModel, shard: Shard) -> Labels:
    """One row group by the scorer and Viterbi."""
    return viterbi(model.potentials(read_batch(shard)[0]))


def plain(model: CrfModel, tagger: pycrfsuite.Tagger, maker: AttributeMaker, shard: Shard) -> Labels:
    """One row group by attribute strings and `pycrfsuite.Tagger`."""
    names: list[str] = []
    for document in read_batch(shard)[0]:
        rows = maker(document)
        for start, end in pairwise([*document.sentence_starts.tolist(), len(document)]):
            names += tagger.tag(rows[start:end])
    return model.labels.encode(names)


def warm_up(model: CrfModel, batch: Batch) -> None:
    """Compiles (or loads) the kernels on a document, with word tables that are thrown away."""
    viterbi(model.potentials(Batch.of([batch.document(0)])))
    del model.__dict__["scorer"]


def main() -> None:
    """Prints both speeds, their ratio and whether the labels agree; with --json one object."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", required=True)
    parser.add_argument("--model", required=True, type=Path)
    parser.add_argument("--tokens", type=int, default=1_000_000, help="stop after the row group that reaches this")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    model, shards = load(options.model), plan(options.corpus)
    tagger, maker = pycrfsuite.Tagger(), AttributeMaker(model.features)
    tagger.open(str(options.model / CRFSUITE_FILE))
    warm_up(model, read_batch(shards[0])[0])
    tokens = differ = 0
    seconds = np.zeros(2)
    for shard in shards:
        began = time.process_time()
        fast = factored(model, shard)
        middle = time.process_time()
        slow = plain(model, tagger, maker, shard)
        seconds += (middle - began, time.process_time() - middle)
        tokens += len(fast)
        differ += int((fast != slow).sum())
        if tokens >= options.tokens:
            break
    speed = tokens / seconds
    figures = {
        "tokens": tokens,
        "labels_that_differ": differ,
        "scorer_tokens_per_second": round(speed[0]),
        "crfsuite_tokens_per_second": round(speed[1]),
        "ratio": round(speed[0] / speed[1], 1),
    }
    if options.json:
        print(json.dumps(figures))
    else:
        print("\n".join(f"{name:28}{value:>14,}" for name, value in figures.items()))
    if differ:
        raise SystemExit("the two paths disagree")


if __name__ == "__main__":
    main()
