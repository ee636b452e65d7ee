"""The tokenizers beside each other: speed, where they cut alike, and what gold spans of texts reach in their tokens.

    python benchmarks/bench_tokenizers.py                     # needs concord-nlp[spacy] and the real corpora
    python benchmarks/bench_tokenizers.py --differ 40         # and where they differ most often

Speed is tokens a second of CPU time on one core, sentences not counted, over the same novels in turns, the best of
three; the first turn, in which the default meets each chunk of characters for the first time, stands apart. Two cut
alike where tokens have the same first and last character: F1 of the ones against the others. A ceiling is the F1 by
characters that perfect labels of the tokens reach. Corpora of tokens are written as people write, without blanks before
marks and inside brackets and quotes, and cut again: there, what corpora have as tokens is compared, too.
"""

from __future__ import annotations

import argparse
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow.parquet as pq
from common import REAL, save
from corpora import NOVELS

from concord.schemas.document import Batch, Document
from concord.schemas.labels import LabelSet
from concord.schemas.settings import ReaderSettings
from concord.workers.corpus.ingestion import Ceiling
from concord.workers.corpus.readers.registry import READERS
from concord.workers.corpus.readers.spans import CharSpan, marked_document
from concord.workers.corpus.settings import (
    ColumnsSettings,
    ConllSettings,
    MailSettings,
    MarkedTextSettings,
    PubtatorSettings,
)
from concord.workers.corpus.tokenizers.registry import TOKENIZERS, pinned
from concord.workers.corpus.tokenizers.tokenizer import Cut, Cuts

NAMES = ("words", "spacy")
TURNS = 3
CHAPTERS = 200
"""Of each file of novels."""
BATCH = 64
"""Texts that are cut at once."""

NO_BLANK_BEFORE = re.compile(r"[,.;:!?)\]}%…»]|'(?:s|re|ve|ll|d|m|S)$|n't$|''$|\.\.+$")
NO_BLANK_AFTER = re.compile(r"(?:[(\[{«$£#¿¡]|``|US\$)$")
QUOTES = ('"', "'")


class Corpus(NamedTuple):
    """A corpus of tokens: where it is, and how it is read."""

    path: Path
    language: str
    reader: str
    settings: ReaderSettings


COLUMNS = {
    "CoNLL-2003, English": Corpus(REAL / "conll2003/eng.testa", "en", "conll", ConllSettings()),
    "CoNLL-2000, English chunks": Corpus(
        REAL / "conll2000/train.txt", "en", "columns", ColumnsSettings(columns=("tokens", "_", "labels"))
    ),
    "CoNLL-2002, Dutch": Corpus(
        REAL / "conll2002/ned.testa", "nl", "columns", ColumnsSettings(columns=("tokens", "_", "labels"))
    ),
    "CoNLL-2002, Spanish": Corpus(
        REAL / "conll2002/esp.testa",
        "es",
        "columns",
        ColumnsSettings(columns=("tokens", "_", "labels"), sentences_per_document=20),
    ),
    "WNUT-2017": Corpus(REAL / "wnut17/wnut17train.conll", "en", "columns", ColumnsSettings(separator="tab")),
}


class Written(NamedTuple):
    """A text as people write it, where its tokens are, and its gold spans."""

    text: str
    tokens: frozenset[tuple[int, int]]
    spans: tuple[CharSpan, ...]


def written(document: Document) -> Written:
    """A document of tokens as a text, a line a sentence."""
    words, starts = document.tokens, set(document.sentence_starts.tolist())
    text, places, open_quotes = "", list[tuple[int, int]](), dict.fromkeys(QUOTES, False)
    glued = True
    for i, word in enumerate(words):
        if i in starts:
            open_quotes = dict.fromkeys(QUOTES, False)
            text += "\n" if i else ""
            glued = True
        closes = word in QUOTES and open_quotes[word]
        if not glued and not closes and not NO_BLANK_BEFORE.match(word):
            text += " "
        places.append((len(text), len(text) + len(word)))
        text += word
        glued = bool(NO_BLANK_AFTER.match(word)) or (word in QUOTES and not closes)
        if word in QUOTES:
            open_quotes[word] = not closes
    assert document.labels is not None
    names = LabelSet.infer(document.labels.strings())
    found = names.spans(names.encode(document.labels.strings()), document.sentence_starts)
    spans = (
        CharSpan(places[a][0], places[b - 1][1], names.types[kind], 0)
        for a, b, kind in zip(found.start.tolist(), found.end.tolist(), found.type.tolist(), strict=True)
    )
    return Written(text, frozenset(places), tuple(spans))


def novels() -> list[str]:
    """Chapters of all novels."""
    tables = [pq.read_table(path, columns=["text"]).slice(0, CHAPTERS) for path in sorted(NOVELS.glob("*.parquet"))]
    return [text for table in tables for text in table["text"].to_pylist()]


def cut_all(cut: Cut, texts: Sequence[str]) -> list[Cuts]:
    """All texts, some at a time."""
    return [cut(texts[i : i + BATCH]) for i in range(0, len(texts), BATCH)]


def speeds(texts: Sequence[str]) -> dict[str, dict[str, float]]:
    """Tokens a second of CPU time in the first turn and in the best, by tokenizer."""
    cuts = {name: TOKENIZERS[name].open("en") for name in NAMES}
    rates: dict[str, list[float]] = {name: [] for name in NAMES}
    for _ in range(TURNS):
        for name, cut in cuts.items():
            started = time.process_time()
            tokens = sum(len(part.start) for part in cut_all(cut, texts))
            rates[name].append(tokens / (time.process_time() - started))
    return {name: {"first": found[0], "best": max(found)} for name, found in rates.items()}


def places_of(cut: Cut, texts: Sequence[str]) -> list[set[tuple[int, int]]]:
    """The tokens of each text."""
    found = []
    for part in cut_all(cut, texts):
        pairs = list(zip(part.start.tolist(), part.end.tolist(), strict=True))
        bounds = part.doc_starts.tolist()
        found += [set(pairs[a:b]) for a, b in pairwise(bounds)]
    return found


def alike(ones: Sequence[Iterable[tuple[int, int]]], others: Sequence[Iterable[tuple[int, int]]]) -> float:
    """F1 of the tokens of the ones against those of the others."""
    pairs = [(set(one), set(other)) for one, other in zip(ones, others, strict=True)]
    both = sum(len(one & other) for one, other in pairs)
    return 2 * both / sum(len(one) + len(other) for one, other in pairs)


def differences(texts: Sequence[str], most: int) -> list[tuple[str, int]]:
    """Chunks of characters that are cut differently, with both ways, the most frequent first."""
    cuts = {name: TOKENIZERS[name].open("en") for name in NAMES}
    chunks = Counter(chunk for text in texts for chunk in text.split())
    counted: Counter[str] = Counter()
    ways = {name: cut_all(cut, list(chunks)) for name, cut in cuts.items()}
    shown = {name: [words for part in parts for words in _words(part)] for name, parts in ways.items()}
    for (_, count), one, other in zip(chunks.items(), *shown.values(), strict=True):
        if one != other:
            counted[f"{one}   {other}"] += count
    return counted.most_common(most)


def _words(part: Cuts) -> Iterator[str]:
    strings, bounds = part.tokens.strings(), part.doc_starts.tolist()
    return ("|".join(strings[a:b]) for a, b in pairwise(bounds))


def ceiling(documents: Iterable[Any]) -> float:
    """Of documents among what a reader gives."""
    parts = [Ceiling.of(Batch.of([item])) for item in documents if isinstance(item, Document)]
    return Ceiling(*(sum(column) for column in zip(*parts, strict=True))).f1


def raw_ceilings(name: str) -> dict[str, float]:
    """Of corpora whose source is text, with words whole at hyphens and cut there."""
    found = {}
    for split in (False, True):
        how = "cut at hyphens" if split else "whole"
        mail = MailSettings(tokenizer=name, split_hyphens=split)
        found[f"seminars, {how}"] = ceiling(READERS["mail"].read(str(REAL / "seminars"), mail))
        for part in ("Training", "Development"):
            settings = PubtatorSettings(tokenizer=name, split_hyphens=split)
            path = REAL / f"bc5cdr/CDR_{part}Set.PubTator.txt"
            found[f"BC5CDR {part.lower()}, {how}"] = ceiling(READERS["pubtator"].read(str(path), settings))
    return found


def main() -> None:
    """All of it, and the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--differ", type=int, default=0, help="chunks to show that are cut differently")
    asked = parser.parse_args()
    if not NOVELS.is_dir():
        raise SystemExit(f"{NOVELS}: the real corpora are not there")
    texts = novels()
    figures: dict[str, Any] = {"tokenizers": [pinned(name) for name in NAMES], "speed": speeds(texts)}
    own = {name: TOKENIZERS[name].open for name in NAMES}
    for name, rate in figures["speed"].items():
        print(f"{name}: {rate['best']:,.0f} tokens/s, {rate['first']:,.0f} in the first turn")
    figures["alike"] = {"novels": _alike(own, "en", texts)}
    figures["ceilings"] = {name: raw_ceilings(name) for name in NAMES}
    figures["tokens"] = {name: {} for name in NAMES}
    for title, corpus in COLUMNS.items():
        documents = list(READERS[corpus.reader].read(str(corpus.path), corpus.settings))
        rewritten = [written(item) for item in documents if isinstance(item, Document)]
        these = [one.text for one in rewritten]
        figures["alike"][title] = _alike(own, corpus.language, these)
        texts += these if corpus.language == "en" else []
        for name in NAMES:
            found = places_of(own[name](corpus.language), these)
            figures["tokens"][name][title] = alike(found, [one.tokens for one in rewritten])
            settings = MarkedTextSettings(tokenizer=name, language=corpus.language, split_hyphens=False)
            marked = (
                marked_document(str(i), one.text, one.spans, settings, breaks=_lines(one.text))[0]
                for i, one in enumerate(rewritten)
            )
            figures["ceilings"][name][title] = ceiling(marked)
    for what in ("ceilings", "tokens"):
        for title in figures[what][NAMES[0]]:
            shown = ", ".join(f"{name} {figures[what][name][title]:.2%}" for name in NAMES)
            print(f"{what}, {title}: {shown}")
    for title, share in figures["alike"].items():
        print(f"alike, {title}: {share:.2%}")
    for way, count in differences(texts, asked.differ):
        print(f"{count:7,} {way}")
    save("tokenizers", figures)


def _alike(own: dict[str, Callable[[str], Cut]], language: str, texts: Sequence[str]) -> float:
    return alike(*(places_of(own[name](language), texts) for name in NAMES))


def _lines(text: str) -> list[int]:
    return (np.flatnonzero(np.array(list(text)) == "\n") + 1).tolist()


if __name__ == "__main__":
    main()
