"""An example from a run: a name that agreement across the document has corrected."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

from concord.flows.runfolder.published import published
from concord.schemas.columns import DOC_ID, LABELS, PREDICTIONS_LAYOUT, VITERBI_LABELS
from concord.schemas.document import Document
from concord.workers.corpus.plan import plan
from concord.workers.corpus.shards import read_batch
from concord.workers.labelling.output import PREDICTIONS

AROUND = 4
"""Number of words shown on each side of a mention."""


class MendedMention(NamedTuple):
    """A mention of the name.

    - ``left``, ``right``: the words around it.
    - ``before``, ``after``: its type under Viterbi and under the engine.
    """

    left: str
    right: str
    before: str
    after: str


class Mended(NamedTuple):
    """A corrected name, its document, and up to three mentions, of which at least one is corrected."""

    name: str
    doc_id: str
    mentions: tuple[MendedMention, ...]


def mended_name(predictions: Path, corpus: Path) -> Mended | None:
    """The name with the most mentions that are wrong under Viterbi and right under the engine; None without any."""
    rows = {
        row[DOC_ID]: (row[VITERBI_LABELS], row[LABELS])
        for table in published(str(predictions)).tables(PREDICTIONS, PREDICTIONS_LAYOUT)
        for row in table.select([DOC_ID, VITERBI_LABELS, LABELS]).to_pylist()
    }
    best: tuple[int, Mended] | None = None
    for shard in plan(corpus):
        batch, _ = read_batch(shard)
        for document in batch:
            if document.doc_id in rows and document.labels is not None:
                found = _best_of(document, *rows[document.doc_id])
                if found is not None and (best is None or found[0] > best[0]):
                    best = found
    return None if best is None else best[1]


def _best_of(document: Document, before: list[str], after: list[str]) -> tuple[int, Mended] | None:
    assert document.labels is not None
    words, gold = document.tokens, document.labels.strings()
    places: dict[str, list[int]] = defaultdict(list)
    for t, label in enumerate(gold):
        if label.startswith("B-"):
            places[words[t]].append(t)
    counts = {word: sum(before[t] != gold[t] and after[t] == gold[t] for t in at) for word, at in places.items()}
    for word, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        # A name with a mention that was right from the start shows where the answer came from.
        if count and any(before[t] == gold[t] for t in places[word]):
            at = sorted(places[word], key=lambda t: (before[t] == after[t], t))[:2]
            at += [next(t for t in places[word] if before[t] == gold[t])]
            mentions = tuple(_mention(words, before, after, t) for t in sorted(set(at)))
            return count, Mended(word, document.doc_id, mentions)
    return None


def _mention(words: list[str], before: list[str], after: list[str], t: int) -> MendedMention:
    left, right = words[max(0, t - AROUND) : t], words[t + 1 : t + 1 + AROUND]
    return MendedMention(" ".join(left), " ".join(right), _type(before[t]), _type(after[t]))


def _type(label: str) -> str:
    return label.removeprefix("B-").removeprefix("I-")
