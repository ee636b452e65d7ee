"""Documents that are runs of labels, and what a plain loop reads in them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from hypothesis import strategies as st

from concord.schemas.document import Document
from concord.schemas.labels import OUTSIDE, LabelSet, Scheme

PLAIN = LabelSet(("a", "b", "c"), Scheme.PLAIN)
BIO = LabelSet.bio(["a", "b", "c"])
NESTED = LabelSet.bio(["a", "b/c", "b/d", "b/d/e"])


def plain_runs(document: Document, scheme: Scheme) -> list[list[tuple[str, int]]]:
    """For each sentence the type of every run and where it starts, by a loop."""
    assert document.labels is not None
    names, starts = document.labels.strings(), set(document.sentence_starts.tolist())
    sentences: list[list[tuple[str, int]]] = []
    before = ""
    for t, name in enumerate(names):
        kind = name[2:] if scheme is Scheme.BIO and name != OUTSIDE else name
        if t in starts:
            sentences.append([])
        opens = t in starts or kind != before or name.startswith("B-")
        if opens:
            sentences[-1].append((kind, t))
        before = kind
    return sentences


def documents_of(label: st.SearchStrategy[str]) -> st.SearchStrategy[list[Document]]:
    token = st.tuples(st.sampled_from(["w", ",", "."]), label)
    document = st.lists(st.lists(token, min_size=1, max_size=5), max_size=3)
    return st.lists(document, min_size=1, max_size=5).map(
        lambda found: [
            Document.build(f"d{i}", [[w for w, _ in s] for s in d], labels=[[x for _, x in s] for s in d])
            for i, d in enumerate(found)
        ]
    )


ANY_PLAIN = documents_of(st.sampled_from(PLAIN.names))
ANY_BIO = documents_of(st.sampled_from(BIO.names))
ANY_NESTED = documents_of(st.sampled_from(NESTED.names))
ANY = st.one_of(
    ANY_PLAIN.map(lambda d: (d, PLAIN)), ANY_BIO.map(lambda d: (d, BIO)), ANY_NESTED.map(lambda d: (d, NESTED))
)


def spelled(doc_id: str, runs: Sequence[str], rng: np.random.Generator, *, mark: bool = True) -> Document:
    """A document with these runs in BIO, of one to three tokens each and a mark at their ends."""
    words: list[str] = []
    labels: list[str] = []
    for kind in runs:
        length = int(rng.integers(1, 4))
        words += ["w"] * (length - 1) + ["," if mark else "w"]
        labels += [f"B-{kind}"] + [f"I-{kind}"] * (length - 1)
    return Document.build(doc_id, [words], labels=[labels])


def shuffled_corpus(seed: int, size: int, types: Sequence[str]) -> list[Document]:
    """Runs of types, and marks, that know nothing of each other."""
    rng = np.random.default_rng(seed)
    found = []
    for i in range(size):
        runs = [str(rng.choice(list(types))) for _ in range(rng.integers(1, 8))]
        document = spelled(f"{seed}-{i}", runs, rng, mark=False)
        words = rng.choice(["w", "w", ","], size=len(document)).tolist()
        assert document.labels is not None
        found.append(Document.build(document.doc_id, [words], labels=[document.labels.strings()]))
    return found


def plainly(document: Document) -> Document:
    """The same with plain labels: neighbours of one label become one run."""
    assert document.labels is not None
    names = [name[2:] for name in document.labels.strings()]
    return Document.build(document.doc_id, [document.tokens], labels=[names])


def in_order(doc_id: str, rng: np.random.Generator, *, times: int = 1) -> Document:
    """Runs of a, then of b, c and d, no b after a d; each run so many times as long."""
    runs = ["a", *rng.permutation(list("bcd")).tolist()]
    b, d = sorted((runs.index("b"), runs.index("d")))
    runs[b], runs[d] = "b", "d"
    short = spelled(doc_id, [kind for kind in runs for _ in range(times)], rng)
    assert short.labels is not None
    if times == 1:
        return short
    # One run of each: all but its first token continue it.
    kinds = [label[2:] for label in short.labels.strings()]
    joined = [f"{'I' if i and kinds[i - 1] == kind else 'B'}-{kind}" for i, kind in enumerate(kinds)]
    return Document.build(doc_id, [list(short.tokens)], labels=[joined])
