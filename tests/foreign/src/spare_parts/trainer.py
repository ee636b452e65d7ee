"""Counts how often each word has each label."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from concord.parts import (
    Document,
    Iteration,
    LabelSet,
    Manifest,
    Progress,
    Trainer,
    TrainerSettings,
    TrainingCounts,
    begin,
    file_digest,
    write_manifest,
)
from spare_parts.model import COUNTS, KIND, WordCounts, load

NAME = "word-counts"


def train(
    documents: Iterable[Document], *, settings: TrainerSettings, out: Path, progress: Progress | None = None
) -> WordCounts:
    """One pass over the documents."""
    seen, pairs = TrainingCounts(("tokens",)), Counter[tuple[str, str]]()
    for document in documents:
        pairs.update(zip(document.columns["tokens"].strings(), seen.gold(document), strict=True))
    training = seen.training(NAME, settings)
    labels = LabelSet.infer(seen.names)
    begin(out)
    if progress is not None:
        progress(Iteration(1, 1))
    words = sorted({word for word, _ in pairs})
    counts = {word: [pairs[word, label] for label in labels.names] for word in words}
    (out / COUNTS).write_text(json.dumps(counts))
    manifest = Manifest(
        kind=KIND,
        labels=labels.names,
        scheme=labels.scheme,
        settings=settings.model_dump(),
        versions={},
        training=training,
        files={COUNTS: file_digest(out / COUNTS)},
    )
    write_manifest(out, manifest)
    return load(out)


WORD_COUNTS = Trainer(train, TrainerSettings)
