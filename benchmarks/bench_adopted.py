"""How often a review of another program's answers promises what is false, with its scores and without.

    python benchmarks/bench_adopted.py

The program is made up: it names the gold spans of made-up news, some with a wrong type, and is as sure of many wrong
ones as of right ones. Its answers are adopted once, and each figure is over draws of the order in which they are read.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from common import save
from numpy.typing import NDArray

import concord
from concord.schemas.document import Document
from concord.schemas.labels import LabelSet
from concord.workers.corpus.ingestion import write_corpus
from concord.workers.review.nested import UNFITTED_SHARE, PromiseLimits, nested_plan, promised_sizes, whole_plan
from concord.workers.review.review_items import NO_ORDER, items_of
from concord.workers.review.wealth import least_refused, promised_at
from concord.workers.synthesis.made_up import synthesize

LIMITS = PromiseLimits(error=0.05, alpha=0.05)
DOCUMENTS = 50
WRONG = {"8 %": 0.08, "one more than a promise of the whole allows": None}
"""Shares of answers that are wrong, by what they are called."""
Gold = list[tuple[str, str, int, int, str]]


def gold_of(documents: list[Document]) -> Gold:
    """Id, text, first and last character (exclusive) and type of each gold span."""
    return [one for document in documents for one in _spans(document)]


def _spans(document: Document) -> Iterator[tuple[str, str, int, int, str]]:
    assert document.labels is not None
    labels, text = LabelSet.infer(document.labels.strings()), " ".join(document.tokens)
    ends = np.cumsum([len(word) + 1 for word in document.tokens]) - 1
    spans = labels.spans(labels.encode(document.labels.strings()), document.sentence_starts)
    for start, end, kind in zip(spans.start, spans.end, spans.type, strict=True):
        first = int(ends[start]) - len(document.tokens[start])
        yield document.doc_id, text, first, int(ends[end - 1]), labels.types[kind]


def adopted(gold: Gold, wrong: NDArray[np.bool_], scores: NDArray[np.float64] | None, folder: Path) -> Path:
    """A run of the program's answers, in which the types of some are wrong."""
    records: dict[str, dict[str, Any]] = {}
    for n, (doc_id, text, start, end, kind) in enumerate(gold):
        record = records.setdefault(doc_id, {"id": doc_id, "text": text, "entities": []})
        span = {"start": start, "end": end, "label": "WRONG" if wrong[n] else kind}
        record["entities"].append(span if scores is None else span | {"score": float(scores[n])})
    answers, out = folder / "answers.jsonl", folder / "run"
    answers.write_text("".join(json.dumps(record) + "\n" for record in records.values()))
    concord.adopt(answers, program="made up", corpus=folder / "corpus", out=out, allow_gone=True, workers=0)
    return out


def false_promises(run: Path, draws: int) -> dict[str, float]:
    """Share of the draws whose promise is false once all is read that a review asks for, and the mean promise."""
    items = items_of([pq.read_table(run / "predictions")], "entity", run=str(run))
    rows = pq.read_table(run / "predictions").to_pylist()
    wrong = np.array([entity["type"] == "WRONG" for row in rows for entity in row["entities"]])
    total, false, promised = len(wrong), 0, 0.0
    for seed in range(draws):
        rng = np.random.default_rng(seed)
        if items.order == NO_ORDER:
            plan = whole_plan(items.predicted, LIMITS, 0.0, rng)
            members = plan.members(0)
            size = 0 if promised_at(wrong[members], total, int(plan.refused[0]), LIMITS.alpha) is None else total
        else:
            plan = nested_plan(items.predicted, LIMITS, rng, most=UNFITTED_SHARE)
            size = int(promised_sizes(plan, wrong, [total])[0])
        false += size > 0 and int(wrong[plan.rank < size].sum()) >= least_refused(size, LIMITS.error)
        promised += size / total
    return {"false": false / draws, "promised": promised / draws}


def main() -> None:
    """Measures answers with scores and without, at each share of wrong ones."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=1000, help="orders of reading, for each figure")
    draws = parser.parse_args().draws
    documents = [one for one in synthesize(DOCUMENTS, seed=5, kind="news") if isinstance(one, Document)]
    gold, rng = gold_of(documents), np.random.default_rng(0)
    figures: dict[str, Any] = {"draws": draws, "entities": len(gold), "runs": {}}
    with TemporaryDirectory() as made:
        write_corpus(documents, Path(made) / "corpus", source="made up")
        for name, share in WRONG.items():
            count = least_refused(len(gold), LIMITS.error) if share is None else round(share * len(gold))
            wrong = np.isin(np.arange(len(gold)), rng.choice(len(gold), count, replace=False))
            sure = np.where(wrong, rng.uniform(0.3, 1.0, len(gold)), rng.uniform(0.6, 1.0, len(gold)))
            figures["runs"][name] = {
                kind: false_promises(adopted(gold, wrong, scores, Path(made)), draws)
                for kind, scores in (("scores", sure), ("none", None))
            }
            print(name, figures["runs"][name])
    save("adopted", figures)


if __name__ == "__main__":
    main()
