"""Abstracts by characters: what tokens let a model reach, and what it scores, by tokens and against the source's gold.

A CRF learns from the training part of BC5CDR and labels the development part by Viterbi, with words kept whole at
hyphens and cut there. The ceiling is what labels that are all right score against the spans of the source. Needs the
real abstracts.

    python benchmarks/bench_offsets.py
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from common import MADE, REAL, TEN_PASSES, batches, save

from concord.schemas.document import Batch, Document
from concord.schemas.labels import LabelSet
from concord.workers.corpus.ingestion import Ceiling, ingest
from concord.workers.corpus.settings import PubtatorSettings
from concord.workers.evaluation.bootstrap import paired_bootstrap
from concord.workers.evaluation.figures import f1_of_counts
from concord.workers.evaluation.measures import Pair, by_document
from concord.workers.evaluation.named_counts import Counts
from concord.workers.learning.trainers.registry import trainer_named
from concord.workers.models.model import viterbi_labels

ABSTRACTS = REAL / "bc5cdr"
FEATURES = "core+mentions+entities"
MEASURES = ("spans", "offsets")


def documents_of(part: str, *, split: bool) -> tuple[list[Document], Ceiling]:
    """The documents of a part, through Parquet, and the ceiling that ingestion reports."""
    out = MADE / "corpora" / f"bc5cdr-{part}-{'cut' if split else 'kept'}"
    settings = PubtatorSettings(split_hyphens=split)
    report = ingest("pubtator", ABSTRACTS / f"CDR_{part}Set.PubTator.txt", out, settings=settings, overwrite=True)
    assert report.ceiling is not None
    return [document for batch in batches(out) for document in batch], report.ceiling


def row_of(*, split: bool) -> tuple[dict[str, Any], dict[str, Counts]]:
    """Figures of one way to cut words, and the counts (D, 3) of each measure."""
    started, trainer = time.process_time(), trainer_named("sgd")
    training, _ = documents_of("Training", split=split)
    development, ceiling = documents_of("Development", split=split)
    with tempfile.TemporaryDirectory() as folder:
        settings = trainer.settings.model_validate({"features": FEATURES, **TEN_PASSES})
        model = trainer.train(training, settings=settings, out=Path(folder) / "model")
    batch = Batch.of(development)
    assert batch.labels is not None
    labels = LabelSet.infer([*model.labels.names, *batch.labels.values])
    found = labels.encode(model.labels.names)[viterbi_labels(model, batch)]
    pair = Pair(batch, labels, labels.encode(batch.labels.strings()), found)
    counts = {measure: by_document(measure, pair).table.sum(axis=1) for measure in MEASURES}
    row = {
        "split_hyphens": split,
        "ceiling": ceiling.f1,
        **{measure: float(f1_of_counts(table.sum(axis=0))) for measure, table in counts.items()},
        "cpu_seconds": time.process_time() - started,
    }
    return row, counts


def main() -> None:
    """Both ways to cut words, and what cutting gains against the source's gold."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    if not ABSTRACTS.is_dir():
        raise SystemExit(f"{ABSTRACTS}: the abstracts are not there")
    (kept, before), (cut, after) = (row_of(split=split) for split in (False, True))
    gain = paired_bootstrap(before["offsets"], after["offsets"], rng=np.random.default_rng(0))
    for words, row in (("whole", kept), ("cut at hyphens", cut)):
        figures = (f"{name} {row[name]:.2%}" for name in ("ceiling", *MEASURES))
        print(f"words {words}:", *figures, f"{row['cpu_seconds']:.0f} CPU seconds")
    print(f"gain {gain.difference:+.2%} ({gain.low:+.2%} to {gain.high:+.2%})")
    save("offsets", {"features": FEATURES, "rows": [kept, cut], "gain": list(gain[:3])})


if __name__ == "__main__":
    main()
