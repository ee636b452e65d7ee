"""Columns made of other mentions of a word, against plain loops over one document."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from concord.schemas.document import Batch, Document
from concord.workers.features.mentions import MENTION_COLUMNS, mention_columns

WORDS = ["New", "York", "NEW", "new", "NYT", "Times", "times", "NY", "of", "1996", "X", "ẞ", "中", "n", "E", "IBM", ""]
documents = st.lists(
    st.lists(st.lists(st.sampled_from(WORDS), min_size=1, max_size=6), max_size=5), min_size=1, max_size=3
)


def _kind(sentence: list[str]) -> str:
    text = " ".join(sentence)
    return "capitals" if text == text.upper() and text != text.lower() else ""


class Reference:
    """One document, a token at a time."""

    def __init__(self, sentences: list[list[str]]) -> None:
        self.words = [w for s in sentences for w in s]
        self.place = [(s, i) for s, sentence in enumerate(sentences) for i in range(len(sentence))]
        self.sentences = sentences
        self.runs = [self._run(t) for t in range(len(self.words))]

    def _capital(self, t: int) -> bool:
        return self.words[t][:1].isupper()

    def _run(self, t: int) -> range:
        s, i = self.place[t]
        sentence = self.sentences[s]
        if _kind(sentence) or not self._capital(t):
            return range(t, t)
        first = last = i
        while first and sentence[first - 1][:1].isupper():
            first -= 1
        while last + 1 < len(sentence) and sentence[last + 1][:1].isupper():
            last += 1
        return range(t - i + first, t - i + last + 1)

    def _others(self, t: int) -> list[int]:
        return [u for u, w in enumerate(self.words) if u != t and w.lower() == self.words[t].lower()]

    def case(self, t: int) -> str:
        word, (s, i) = self.words[t], self.place[t]
        if not word[:1].isalpha():
            return ""
        low = any(self.words[u].islower() for u in self._others(t))
        high = any(
            self._capital(u) and self.place[u][1] > 0 and not _kind(self.sentences[self.place[u][0]])
            for u in self._others(t)
        )
        where = _kind(self.sentences[s]) or ("inside" if i else "opens")
        return f"{where}.{'X' if self._capital(t) else 'x'}{'.lower' * low}{'.capitalised' * high}"

    def sequence(self, t: int) -> str:
        runs = [(u, self.runs[u]) for u in self._others(t) if len(self.runs[u]) > 1]
        if not runs or not self._capital(t):
            return ""
        u, run = max(runs, key=lambda r: (len(r[1]), -r[0]))
        return f"{min(len(run), 4)}.{min(u - run.start, 2)}"

    def first(self, t: int) -> str:
        if not self._capital(t):
            return ""
        return "later" if any(u < t for u in self._others(t)) else "first"

    def acronym(self, t: int) -> str:
        spelled = {
            tuple(range(a, b))
            for run in self.runs
            for a in run
            for b in range(a + 2, run.stop + 1)
            if b - a <= 6 and "".join(self.words[u][0] for u in range(a, b)) in self._acronyms()
        }
        if self.words[t] in {"".join(self.words[u][0] for u in places) for places in spelled}:
            return "acronym"
        return "spelled" if any(t in places for places in spelled) else ""

    def _acronyms(self) -> set[str]:
        return {w for w in self.words if w.isascii() and w.isalpha() and w.isupper() and 2 <= len(w) <= 6}

    def beside(self, t: int, which: str, side: str) -> str:
        others = self._others(t)
        earlier, later = [u for u in others if u < t], [u for u in others if u > t]
        near = {"first": earlier[:1], "previous": earlier[-1:], "next": later[:1]}[which]
        if not near or not self._capital(t):
            return ""
        (u,) = near
        s, i = self.place[u]
        if side == "left":
            return self.sentences[s][i - 1].lower() if i else "<s>"
        return self.sentences[s][i + 1].lower() if i + 1 < len(self.sentences[s]) else "</s>"

    def column(self, name: str) -> list[str]:
        which, side = name.split("-")
        count = range(len(self.words))
        if which == "mention":
            return [getattr(self, side)(t) for t in count]
        return [self.beside(t, which, side) for t in count]


@settings(max_examples=300, deadline=None)
@given(nested=documents)
def test_every_column_is_that_of_plain_loops_a_document(nested: list[list[list[str]]]) -> None:
    batch = Batch.of([Document.build(str(i), d) for i, d in enumerate(nested)])
    found = mention_columns(batch, list(MENTION_COLUMNS))
    for name, column in found.items():
        assert column.strings() == [v for d in nested for v in Reference(d).column(name)], name


def test_an_acronym_and_what_it_stands_for_know_each_other() -> None:
    document = Document.build("d", [["New", "York", "Times", "said"], ["the", "NYT", "of", "NY"], ["A", "NYTX"]])
    columns = mention_columns(Batch.of([document]), ["mention-acronym"])
    assert columns["mention-acronym"].strings() == [
        *("spelled", "spelled", "spelled", "", "", "acronym", "", "acronym", "", "")
    ]


def test_a_document_without_tokens_has_empty_columns() -> None:
    empty = Batch.of([Document.build("e", [])])
    assert all(len(column) == 0 for column in mention_columns(empty, list(MENTION_COLUMNS)).values())
