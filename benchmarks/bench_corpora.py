"""The features of names on corpora of every kind: entity F1 of Viterbi by cross-validation over training documents.

The first feature set of a corpus is its base; each other one is compared with it by a paired bootstrap over documents.
A field of a citation or an address, or a chunk, counts as an entity. Official test parts are not looked at. Needs the
real corpora; those that are not there are left out.

    python benchmarks/bench_corpora.py
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from common import MADE, REAL, batches, concord, save

from concord.schemas.document import Document
from concord.workers.evaluation.bootstrap import paired_bootstrap
from concord.workers.evaluation.figures import f1_of_counts
from concord.workers.learning.trainers.registry import DEFAULT as TRAINER
from concord.workers.learning.trainers.registry import trainer_named
from concord.workers.learning.trainers.selection import FOLDS, cross_validated
from concord.workers.models.settings import FeatureSettings

DEFAULT = FeatureSettings().features
ADDED = "mentions+entities"
"""What is added to a corpus's base."""


class Corpus(NamedTuple):
    """A file or folder of `REAL`, how it is read, and its base feature set; ``dev`` is its development part, if any."""

    source: str
    reader: str
    base: str
    options: tuple[str, ...] = ()
    dev: str | None = None

    @property
    def features(self) -> tuple[str, ...]:
        """The base, the base with what is `ADDED`, and the default or, without tags, what is nearest to it."""
        default = {"rich": (DEFAULT,), "rich-nopos": (DEFAULT.replace("+pos", ""),)}.get(self.base, ())
        return self.base, f"{self.base}+{ADDED}", *default


TAGGED = "columns=tokens,pos,labels"

CORPORA = {
    "news": Corpus("conll2003/eng.train", "conll", "rich", dev="conll2003/eng.testa"),
    "posts": Corpus("wnut17/wnut17train.conll", "columns", "rich-nopos", dev="wnut17/emerging.dev.conll"),
    "abstracts": Corpus(
        "bc5cdr/CDR_TrainingSet.PubTator.txt",
        "pubtator",
        "rich-nopos",
        ("split_hyphens=false",),
        dev="bc5cdr/CDR_DevelopmentSet.PubTator.txt",
    ),
    "mails": Corpus("seminars", "mail", "rich-nopos"),
    "chunks": Corpus("conll2000/train.txt", "columns", "rich", (TAGGED, "sentences_per_document=10")),
    "dutch": Corpus("conll2002/ned.train", "columns", "rich", (TAGGED,), dev="conll2002/ned.testa"),
    "spanish": Corpus(
        "conll2002/esp.train", "columns", "rich", (TAGGED, "sentences_per_document=20"), dev="conll2002/esp.testa"
    ),
    "addresses": Corpus("us50/us50.train.tagged", "addresses", "fields", dev="us50/us50.dev.tagged"),
    "citations": Corpus("cora/citation_train.300.txt", "citations", "fields", dev="cora/citation_dev.txt"),
    "nested-citations": Corpus("umass/training.docs.parsed", "umass", "fields", dev="umass/dev.docs.parsed"),
}


def documents_of(name: str, corpus: Corpus, *, dev: bool = False) -> list[Document]:
    """All of them, or those of the development part, from Parquet that is made once."""
    source = corpus.dev if dev else corpus.source
    assert source is not None
    out = MADE / "corpora" / (f"{name}-dev" if dev else name)
    if not out.is_dir():
        given = (f"--set={option}" for option in corpus.options)
        concord("ingest", corpus.reader, REAL / source, "--out", out, *given)
    return [document for batch in batches(out) for document in batch]


def rows_of(name: str, corpus: Corpus, chosen: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """What each feature set makes of a corpus."""
    documents, trainer, base = documents_of(name, corpus), trainer_named(chosen.trainer), None
    for features in corpus.features:
        started = time.process_time()
        settings = trainer.settings.model_validate({"features": features})
        counts = cross_validated(documents, trainer.train, settings, folds=FOLDS)
        base = counts if base is None else base
        gain = paired_bootstrap(base, counts, rng=np.random.default_rng(0))
        yield {
            "corpus": name,
            "documents": len(documents),
            "features": features,
            "f1": float(f1_of_counts(counts.sum(axis=0))),
            "gain": list(gain[:3]),
            "cpu_seconds": time.process_time() - started,
        }


def main() -> None:
    """Cross-validates every feature set on every corpus that is there."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trainer", default=TRAINER)
    parser.add_argument("--corpora", nargs="+", choices=CORPORA, default=list(CORPORA))
    chosen = parser.parse_args()
    there = [name for name in chosen.corpora if (REAL / CORPORA[name].source).exists()]
    if not there:
        raise SystemExit(f"{REAL}: none of the corpora is there")
    rows = []
    for name in there:
        for row in rows_of(name, CORPORA[name], chosen):
            rows.append(row)
            difference, low, high = row["gain"]
            interval = f"{difference:+.2%} ({low:+.2%} to {high:+.2%})"
            print(f"{name:18}{row['features']:32}F1 {row['f1']:.2%}  {interval}", flush=True)
    save("corpora", {"folds": FOLDS, "trainer": chosen.trainer, "rows": rows})


if __name__ == "__main__":
    main()
