"""Corpora of benchmarks, as Parquet in ``build/benchmarks/corpora``, made once.

Sweep files name them by their folders.

    python benchmarks/corpora.py
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from common import MADE, REAL, concord

from concord.schemas.document import Document
from concord.workers.corpus.ingestion import ingest, write_corpus
from concord.workers.corpus.plan import plan
from concord.workers.corpus.readers.registry import READERS
from concord.workers.corpus.shards import read_batch


class Source(NamedTuple):
    """A file or folder below the data folder, and how it is read."""

    path: str
    reader: str
    options: Mapping[str, Any] = {}


TAGGED: dict[str, Any] = {"columns": ("tokens", "pos", "labels")}
WHOLE = {"split_hyphens": False}
CITATIONS, ABSTRACTS = "cora/citation_{}.txt", "bc5cdr/CDR_{}Set.PubTator.txt"

SOURCES = {
    "news": Source("conll2003/eng.train", "conll"),
    "news-dev": Source("conll2003/eng.testa", "conll"),
    "posts": Source("wnut17/wnut17train.conll", "columns"),
    "posts-dev": Source("wnut17/emerging.dev.conll", "columns"),
    "abstracts": Source(ABSTRACTS.format("Training"), "pubtator"),
    "abstracts-dev": Source(ABSTRACTS.format("Development"), "pubtator"),
    "abstracts-whole": Source(ABSTRACTS.format("Training"), "pubtator", WHOLE),
    "abstracts-whole-dev": Source(ABSTRACTS.format("Development"), "pubtator", WHOLE),
    "mails": Source("seminars", "mail"),
    "chunks": Source("conll2000/train.txt", "columns", TAGGED | {"sentences_per_document": 10}),
    "dutch": Source("conll2002/ned.train", "columns", TAGGED),
    "dutch-dev": Source("conll2002/ned.testa", "columns", TAGGED),
    "spanish": Source("conll2002/esp.train", "columns", TAGGED | {"sentences_per_document": 20}),
    "spanish-dev": Source("conll2002/esp.testa", "columns", TAGGED | {"sentences_per_document": 20}),
    "addresses": Source("us50/us50.train.tagged", "addresses"),
    "addresses-dev": Source("us50/us50.dev.tagged", "addresses"),
    "citations": Source(CITATIONS.format("train.300"), "citations"),
    "citations-dev": Source(CITATIONS.format("dev"), "citations"),
    "nested-citations": Source("umass/training.docs.parsed", "umass"),
    "nested-citations-dev": Source("umass/dev.docs.parsed", "umass"),
    "references": Source("excite/excite.train.conll", "columns"),
    "references-dev": Source("excite/excite.dev.conll", "columns"),
    "novels": Source("eltec/part-00000.parquet", "text"),
}
"""By the names of their folders."""


PARTS = {"-before": slice(None, 4), "-after": slice(4, 5)}
"""Ends of names of a part of a corpus: its first four fifths, and its last one."""


NOVELS = REAL / "eltec"

TRAINING, TEST, STAND_IN = 300, 150, 1000
"""Documents of the made-up corpora that stand in for news to learn from, to be judged by, and for novels."""


class Corpora(NamedTuple):
    """Two labelled corpora, and what they are called in the figures."""

    name: str
    train: Path
    test: Path


def corpus(name: str) -> Path:
    """The corpus of that name, or part of one, made if it is not there.

    Ends the program where its source is not there.
    """
    out = MADE / "corpora" / name
    for end, fifths in PARTS.items():
        if name.endswith(end):
            return out if out.is_dir() else _part(name.removesuffix(end), fifths, out)
    source = SOURCES[name]
    if not out.is_dir():
        if not (REAL / source.path).exists():
            raise SystemExit(f"{REAL / source.path}: not there; this benchmark needs the real corpus")
        settings = READERS[source.reader].settings.model_validate(source.options)
        ingest(source.reader, REAL / source.path, out, settings=settings)
    return out


def _part(name: str, fifths: slice, out: Path) -> Path:
    documents = documents_of(name)
    first, last = (len(documents) * fifth // 5 for fifth in (fifths.start or 0, fifths.stop))
    write_corpus(documents[first:last], out, source=SOURCES[name].path)
    return out


def documents_of(name: str) -> list[Document]:
    """All documents of the corpus of that name."""
    return loaded(corpus(name))


def loaded(place: Path) -> list[Document]:
    """All documents of a corpus."""
    return [document for shard in plan(place) for document in read_batch(shard)[0]]


def made_up(documents: int, *, seed: int = 0) -> Path:
    """A made-up corpus of so many documents."""
    out = MADE / "corpora" / f"made-up-{documents}-{seed}"
    if not out.is_dir():
        concord("synthesize", "--documents", str(documents), "--seed", str(seed), "--out", out)
    return out


def labelled_corpora() -> Corpora:
    """CoNLL-2003 (train and testa) where it is there, or made-up news."""
    if (REAL / SOURCES["news"].path).exists():
        return Corpora("CoNLL-2003 testa", corpus("news"), corpus("news-dev"))
    return Corpora("made-up news", made_up(TRAINING, seed=0), made_up(TEST, seed=1))


def tokenised_novels() -> Path:
    """A part of the novels cut into tokens once, or made-up news."""
    return corpus("novels") if NOVELS.is_dir() else made_up(STAND_IN)


def main() -> None:
    """Makes all of them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.parse_args()
    for name in SOURCES:
        print(corpus(name))


if __name__ == "__main__":
    main()
