"""Scoring plus Viterbi from Parquet to labels, against python-crfsuite with its features built in Python.

Both paths read the same shards, one after the other in one process on one core, and must give
the same labels. The scorer starts with empty word tables; only the compiled kernels are warm. The
plain path keeps the attributes of words it has seen, which favours it.

    python benchmarks/bench_scoring.py --tokens 1000000
"""

from __future__ import annotations

import time
from itertools import pairwise
from pathlib import Path

import numpy as np
import pycrfsuite
from common import options, save, trained_model
from corpora import labelled_corpora, tokenised_novels

from concord.schemas.document import Batch
from concord.schemas.labels import Labels
from concord.workers.corpus.plan import plan
from concord.workers.corpus.shards import Shard, read_batch
from concord.workers.features.attributes import AttributeMaker
from concord.workers.inference.core.chain import viterbi
from concord.workers.learning.trainers.crfsuite import CRFSUITE_FILE
from concord.workers.models.crf import CrfModel, load

FEATURES = "rich-nopos"


def factored(model: CrfModel, shard: Shard) -> Labels:
    """One shard by the scorer and Viterbi."""
    return viterbi(model.potentials(read_batch(shard)[0]))


def plain(model: CrfModel, tagger: pycrfsuite.Tagger, maker: AttributeMaker, shard: Shard) -> Labels:
    """One shard by attribute strings and `pycrfsuite.Tagger`."""
    return model.labels.encode(tagged(tagger, maker, read_batch(shard)[0]))


def tagged(tagger: pycrfsuite.Tagger, maker: AttributeMaker, batch: Batch) -> list[str]:
    """The labels of a batch as python-crfsuite gives them."""
    names: list[str] = []
    for document in batch:
        rows = maker(document)
        for start, end in pairwise([*document.sentence_starts.tolist(), len(document)]):
            names += tagger.tag(rows[start:end])
    return names


def warm_up(model: CrfModel, batch: Batch) -> None:
    """Compiles (or loads) the kernels on a document, with word tables that are thrown away."""
    viterbi(model.potentials(Batch.of([batch.document(0)])))
    del model.__dict__["scorer"]


def main() -> None:
    """Measures both paths on the same shards."""
    parser = options(__doc__, features=FEATURES)
    parser.add_argument("--features", default=FEATURES, help="of the model that is trained where none is given")
    parser.add_argument("--tokens", type=int, default=200_000, help="stop after the shard that reaches this")
    chosen = parser.parse_args()
    folder = chosen.model or trained_model(chosen.features, labelled_corpora().train)
    corpus = chosen.corpus or tokenised_novels()
    model, shards = load(folder), plan(corpus)
    tagger, maker = pycrfsuite.Tagger(), AttributeMaker(model.features)
    tagger.open(str(folder / CRFSUITE_FILE))
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
        if tokens >= chosen.tokens:
            break
    speed = tokens / seconds
    figures = {
        "corpus": Path(corpus).name,
        "features": model.features.name,
        "tokens": tokens,
        "labels_that_differ": differ,
        "scorer_tokens_per_second": round(speed[0]),
        "crfsuite_tokens_per_second": round(speed[1]),
        "scorer_over_crfsuite": speed[0] / speed[1],
    }
    save("scoring", figures)
    if differ:
        raise SystemExit("the two paths disagree")


if __name__ == "__main__":
    main()
