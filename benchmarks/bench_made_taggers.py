"""Is an answer ever worse than the tagger's own? Made-up taggers, used as ``concord train --layers`` uses them.

    python benchmarks/bench_made_taggers.py            # 200 taggers beside 10, 30, 100 and 300 documents of gold
    python benchmarks/bench_made_taggers.py --anew --draws 4 --gold 10 --gold 30

A made-up tagger is gold with errors: of entities that it misses, in every place of a name or in some, of types and
borders that it takes for others, and of false alarms. Its F1 lies between 60 and 99, and its alarms are of one of three
kinds: *anywhere*, at tokens drawn one by one; *small words*, at a place or two of words such as ``of``, which the
document has often; *certain words*, wherever the tagger meets one of them.

Gold documents are drawn anew for each tagger, such that the fewest of them have all types: one that gold lacks is left
out, and told of. They are beginnings of documents. The way is chosen, the model trained and label consistency tuned as
the command does it, and the run is held against the tagger on other documents: *worse* is a run whose interval, by the
paired bootstrap over these, ends below 0, *better* one whose interval begins above it.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from bench_layers import counts_of, with_gold, with_layers
from common import TEN_PASSES, known_figures, save
from corpora import labelled_corpora, loaded

from concord.schemas.document import Document
from concord.schemas.labels import OUTSIDE
from concord.schemas.layers import NO_GRADE, layer_labels, shown_spans
from concord.workers.evaluation.bootstrap import paired_bootstrap
from concord.workers.evaluation.figures import f1_of_counts
from concord.workers.learning.trainers.trainer import labels_of
from concord.workers.models.settings import SgdSettings

LOWEST, HIGHEST = 0.60, 0.99
"""F1 of taggers."""
ANYWHERE, SMALL_WORDS, CERTAIN_WORDS = KINDS = ("anywhere", "small words", "certain words")
DRAWS, GOLD, JUDGED = 200, (10, 30, 100, 300), 120
LONGEST = 40
"""Tokens after which no sentence of a document begins: so 800 choices of a way take an hour of one core."""
FREQUENT = 2
"""Times that a document has a small word that is marked by mistake."""
TAGGER = "tagger"
NAME = "made_taggers"
KEPT = 20
"""Rows after which the figures are saved: a run that is stopped goes on from there."""

Span = tuple[int, int, str]
"""First token, token after the last, type."""


class MadeTagger(NamedTuple):
    """A tagger, as the shares of its errors among gold entities.

    - ``kind``: of its false alarms.
    - ``missed``, ``altered``, ``alarms``: shares; an alarm is one beyond gold.
    - ``whole``: are all places of a name missed together?
    """

    kind: str
    missed: float
    altered: float
    alarms: float
    whole: bool

    @classmethod
    def drawn(cls, rng: np.random.Generator, kind: str) -> MadeTagger:
        """A tagger whose expected F1 is drawn between `LOWEST` and `HIGHEST`."""
        f1 = rng.uniform(LOWEST, HIGHEST)
        missed, altered, alarms = rng.dirichlet([1.0, 1.0, 1.0])
        # F1 = 2 (1 − m − a) / (2 − m + f) for shares (m, a, f) of entities; solved for their common factor.
        factor = (2 - 2 * f1) / (2 * (missed + altered) - f1 * missed + f1 * alarms)
        missed, altered, alarms = (min(float(factor * share), 0.9) for share in (missed, altered, alarms))
        return cls(kind, missed, altered, alarms, whole=bool(rng.random() < 0.5))

    def labels(self, documents: Sequence[Document], rng: np.random.Generator) -> list[list[str]]:
        """What it says of documents, in BIO."""
        gold = [_entities(document) for document in documents]
        types = sorted({kind for spans in gold for _, _, kind in spans})
        said = [self._said(d, spans, types, rng) for d, spans in zip(documents, gold, strict=True)]
        alarms = self._alarms(documents, gold, round(self.alarms * sum(map(len, gold))), rng)
        for spans, places in zip(said, alarms, strict=True):
            spans += [(place, place + 1, str(rng.choice(types))) for place in places]
        return [
            layer_labels(len(document), shown_spans([(*span, NO_GRADE) for span in spans], lambda _: 0.0))[0]
            for document, spans in zip(documents, said, strict=True)
        ]

    def _said(
        self, document: Document, gold: Sequence[Span], types: Sequence[str], rng: np.random.Generator
    ) -> list[Span]:
        words = document.tokens
        names = {tuple(words[start:end]) for start, end, _ in gold}
        luck = dict(zip(sorted(names), rng.random(len(names)), strict=True))
        said = list[Span]()
        for start, end, kind in gold:
            chance = luck[tuple(words[start:end])] if self.whole else rng.random()
            if chance < self.missed:
                continue
            if rng.random() >= self.altered / max(1 - self.missed, self.altered):
                said.append((start, end, kind))
            elif end - start > 1 and rng.random() < 0.5:
                said.append((start, end - 1, kind))
            else:
                said.append((start, end, str(rng.choice([other for other in types if other != kind] or [kind]))))
        return said

    def _alarms(
        self, documents: Sequence[Document], gold: Sequence[Sequence[Span]], number: int, rng: np.random.Generator
    ) -> list[list[int]]:
        """Tokens outside of all entities, about ``number`` of them, by document."""
        free = [_free(len(document), spans) for document, spans in zip(documents, gold, strict=True)]
        words = [document.tokens for document in documents]
        if self.kind == CERTAIN_WORDS:
            return _by_word(words, free, number, rng)
        places = [(i, place) for i, free_ in enumerate(free) for place in free_]
        if self.kind == SMALL_WORDS:
            often = [{word for word, count in Counter(own).items() if count >= FREQUENT} for own in words]
            places = [(i, place) for i, place in places if words[i][place].islower() and words[i][place] in often[i]]
        chosen = rng.choice(len(places), min(number, len(places)), replace=False)
        found: list[list[int]] = [[] for _ in documents]
        for i, place in (places[j] for j in chosen.tolist()):
            found[i].append(place)
        return found


def _by_word(
    words: Sequence[Sequence[str]], free: Sequence[Sequence[int]], number: int, rng: np.random.Generator
) -> list[list[int]]:
    """All places of words that are drawn until there are ``number`` of them; none is among the most frequent."""
    count = Counter(words[i][place] for i, places in enumerate(free) for place in places)
    known = sorted(word for word, times in count.items() if times <= max(number // 5, 1) and word[:1].isalpha())
    certain, left = set[str](), number
    for j in rng.permutation(len(known)).tolist():
        if left <= 0:
            break
        certain.add(known[j])
        left -= count[known[j]]
    return [[place for place in places if words[i][place] in certain] for i, places in enumerate(free)]


@cache
def _documents() -> tuple[list[Document], list[Document]]:
    """Documents to learn from, and those that are judged."""
    corpora = labelled_corpora()
    train, test = ([_beginning(document) for document in loaded(place)] for place in (corpora.train, corpora.test))
    return train, test[-JUDGED:]


def _beginning(document: Document) -> Document:
    ends = [*document.sentence_starts[1:].tolist(), len(document)]
    starts = [start for start in document.sentence_starts.tolist() if start < LONGEST]
    sentences = [slice(start, end) for start, end in zip(starts, ends, strict=False)]
    assert document.labels is not None
    words, labels = document.tokens, document.labels.strings()
    return Document.build(document.doc_id, [words[s] for s in sentences], labels=[labels[s] for s in sentences])


def _entities(document: Document) -> list[Span]:
    assert document.labels is not None
    labels = labels_of([document])
    found = labels.spans(labels.encode(document.labels.strings()), document.sentence_starts)
    kinds = [labels.types[i] for i in found.type.tolist()]
    return list(zip(found.start.tolist(), found.end.tolist(), kinds, strict=True))


def _free(length: int, spans: Sequence[Span]) -> list[int]:
    taken = {place for start, end, _ in spans for place in range(start, end)}
    return [place for place in range(length) if place not in taken]


def measured(task: tuple[int, int]) -> dict[str, Any]:
    """The figures of a tagger, by its number, beside so many gold documents."""
    draw, size = task
    train, test = _documents()
    rng = np.random.default_rng([draw, 61])
    tagger = MadeTagger.drawn(rng, KINDS[draw % len(KINDS)])
    learned = _drawn(train, rng)
    said = tagger.labels([*learned, *test], rng)
    assert all(label == OUTSIDE or label[:2] in ("B-", "I-") for labels in said for label in labels)
    tagged = [with_layers(d, {TAGGER: labels}) for d, labels in zip([*learned, *test], said, strict=True)]
    learned, judged = tagged[: len(learned)], tagged[len(learned) :]
    truth = labels_of([*learned, *judged])
    alone = counts_of(judged, truth, said[len(learned) :])
    settings = SgdSettings(features="core", layers=(TAGGER,), **TEN_PASSES)
    ours = with_gold(learned[:size], judged, truth, settings)
    difference = paired_bootstrap(alone, ours.counts, rng=np.random.default_rng(0))
    return {
        "draw": draw,
        "kind": tagger.kind,
        "gold": size,
        "alone": float(f1_of_counts(alone.sum(axis=0))),
        "ours": float(f1_of_counts(ours.counts.sum(axis=0))),
        "way": ours.way,
        "difference": list(difference.with_interval),
    }


def _drawn(documents: Sequence[Document], rng: np.random.Generator) -> list[Document]:
    """Documents in an order in which the fewest that are learned from have all types."""
    types = labels_of(documents)
    while True:
        drawn = [documents[i] for i in rng.permutation(len(documents))[: max(GOLD)].tolist()]
        if labels_of(drawn[: min(GOLD)]) == types:
            return drawn


def main() -> None:
    """Measures what is not measured yet, fewer gold documents first."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=DRAWS, help="taggers that are made up")
    parser.add_argument("--gold", type=int, action="append", help="documents of gold, several times (default: all)")
    parser.add_argument("--anew", action="store_true", help="forget what is measured")
    chosen = parser.parse_args()
    setting = {"corpus": labelled_corpora().name, "judged": JUDGED, "longest": LONGEST}
    known = {} if chosen.anew else known_figures(NAME)
    rows = {(own["gold"], own["draw"]): own for own in known.get("rows", ())}
    tasks = [(draw, size) for size in chosen.gold or GOLD for draw in range(chosen.draws)]
    tasks = [(draw, size) for draw, size in tasks if (size, draw) not in rows]
    for number, row in enumerate(map(measured, tasks), 1):
        rows[row["gold"], row["draw"]] = row
        print(_line(row), file=sys.stderr, flush=True)
        if number % KEPT == 0 or number == len(tasks):
            save(NAME, setting | {"rows": [rows[key] for key in sorted(rows)]})


def _line(row: dict[str, Any]) -> str:
    difference, low, high = (f"{100 * value:+.2f}" for value in row["difference"])
    tagger = f"{row['draw']:4} {row['kind']:14} {row['gold']:4} {row['alone']:.4f}"
    return f"{tagger} {difference} ({low} to {high}) {row['way']}"


if __name__ == "__main__":
    main()
