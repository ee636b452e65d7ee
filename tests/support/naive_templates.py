"""What each template's degree is, by plain loops over label names, with fields to try it with."""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Sequence
from itertools import combinations, pairwise
from typing import Any

from concord.testing.templates import BIO, PLAIN, TEMPLATE_WORDS, Sentences

__all__ = ["BIO", "CASES", "PLAIN", "TEMPLATE_WORDS", "Sentences"]


def inside(name: str, wanted: Sequence[str]) -> bool:
    return name in wanted or (name[:2] in ("B-", "I-") and name[2:] in wanted)


def listed(word: str, words: Sequence[str]) -> bool:
    return word.lower() in [w.lower() for w in words]


def kind(name: str) -> str:
    return name[2:] if name[:2] in ("B-", "I-") else name


def continued(before: str, after: str) -> bool:
    """Does ``after`` belong to the span or outside stretch of ``before``?"""
    if "O" in (before, after):
        return before == after
    return kind(before) == kind(after) and not after.startswith("B-")


def runs(sentence: list[tuple[str, str]], wanted: Sequence[str]) -> list[tuple[int, int]]:
    """(start, end) of the runs of the wanted labels in a sentence."""
    found: list[list[int]] = []
    for t, (_, label) in enumerate(sentence):
        if not inside(label, wanted):
            continue
        before = sentence[t - 1][1] if t else None
        if before is not None and inside(before, wanted) and continued(before, label):
            found[-1][1] = t + 1
        else:
            found.append([t, t + 1])
    return [(start, end) for start, end in found]


def spans(text: Sentences) -> list[tuple[tuple[str, ...], str]]:
    """(words, type) of every labelled span."""
    found = []
    for sentence in text:
        types = dict.fromkeys(kind(label) for _, label in sentence if label != "O")
        for name in types:
            found += [(tuple(w for w, _ in sentence[s:e]), name) for s, e in runs(sentence, [name])]
    return found


def segments(text: Sentences, scope: str) -> Sentences:
    return text if scope == "sentence" else [[pair for sentence in text for pair in sentence]]


def run_count(text: Sentences, wanted: Sequence[str]) -> int:
    return sum(len(runs(sentence, wanted)) for sentence in text)


def scoped(text: Sentences, scope: str) -> list[Sentences]:
    """Parts of the document a constraint speaks of, each still in sentences."""
    return [[sentence] for sentence in text] if scope == "sentence" else [text]


def adjacency(text: Sentences, c: dict[str, Any]) -> float:
    edges = [(a, b) for s in text for (_, a), (_, b) in pairwise(s)]
    return sum(inside(a, c["first"]) and not inside(b, c["second"]) for a, b in edges)


def should_not_precede(text: Sentences, c: dict[str, Any]) -> float:
    edges = [(a, b) for s in text for (_, a), (w, b) in pairwise(s) if listed(w, c.get("tokens", TEMPLATE_WORDS))]
    return sum(inside(a, c["first"]) and inside(b, c["second"]) for a, b in edges)


def precedence(text: Sentences, c: dict[str, Any]) -> float:
    broken = 0
    for part in segments(text, c.get("scope", "sentence")):
        for t, (_, label) in enumerate(part):
            window = part[t + 1 :][: c.get("reach")]
            broken += inside(label, c["first"]) and not any(inside(b, c["second"]) for _, b in window)
    return broken


def state_change(text: Sentences, c: dict[str, Any]) -> float:
    missing = 0
    for sentence in text:
        for t in range(1, len(sentence) - 1):
            if listed(sentence[t][0], c["delimiters"]):
                missing += not inside(sentence[t - 1][1], c["before"])
                missing += not inside(sentence[t + 1][1], c["after"])
    return missing


def begin_end(text: Sentences, c: dict[str, Any]) -> float:
    parts = [p for p in segments(text, c.get("scope", "document")) if len(p) > 1]
    return sum(inside(p[0][1], c["begin"]) and not inside(p[-1][1], c["end"]) for p in parts)


def presence_precedence(text: Sentences, c: dict[str, Any]) -> float:
    parts = segments(text, c.get("scope", "document"))
    return sum(inside(b, c["second"]) and inside(a, c["first"]) for p in parts for (_, b), (_, a) in combinations(p, 2))


def before(text: Sentences, c: dict[str, Any]) -> float:
    broken = 0
    for part in scoped(text, c.get("scope", "document")):
        seen = False
        for sentence in part:
            opened = {start for start, _ in runs(sentence, c["second"])}
            for t, (_, label) in enumerate(sentence):
                broken += t in opened and not seen
                seen = seen or inside(label, c["first"])
    return broken


def starts_with(text: Sentences, c: dict[str, Any]) -> float:
    return sum(not inside(p[0][1], c["labels"]) for p in segments(text, c.get("scope", "document")))


def must_appear(text: Sentences, c: dict[str, Any]) -> float:
    parts = segments(text, c.get("scope", "document"))
    return sum(not any(inside(label, c["labels"]) for _, label in p) for p in parts)


def appears_once(text: Sentences, c: dict[str, Any]) -> float:
    parts = scoped(text, c.get("scope", "document"))
    names = c.get("labels") or sorted({kind(label) for s in text for _, label in s} - {"O"})
    return sum(max(0, run_count(p, [name]) - 1) for p in parts for name in names)


def appears_once_a_side(text: Sentences, c: dict[str, Any]) -> float:
    total = 0
    every = sorted({kind(label) for s in text for _, label in s} - {"O"})
    names = c.get("labels") or [name for name in every if name not in c["separators"]]
    for part in scoped(text, c.get("scope", "document")):
        places = [
            [(i, start) for i, sentence in enumerate(part) for start, _ in runs(sentence, wanted)]
            for wanted in (c["separators"], *([name] for name in names))
        ]
        opened = [(i, t) for i, t in places[0] if listed(part[i][t][0], c.get("tokens", TEMPLATE_WORDS))]
        for of_name in places[1:]:
            first = min(opened, default=(len(part), 0))
            left = sum(place < first for place in of_name)
            total += max(0, left - 1) + max(0, len(of_name) - left - 1)
    return total


def at_most_runs(text: Sentences, c: dict[str, Any]) -> float:
    return float(sum(max(0, run_count(p, c["labels"]) - c["limit"]) for p in scoped(text, c.get("scope", "document"))))


def at_least_runs(text: Sentences, c: dict[str, Any]) -> float:
    return float(sum(max(0, c["limit"] - run_count(p, c["labels"])) for p in scoped(text, c.get("scope", "document"))))


def implication(have: int, need: int, c: dict[str, Any]) -> float:
    if c.get("counted", False):
        return float(max(0, have - need))
    return float(have if need == 0 else 0)


def tag_implies_tag(text: Sentences, c: dict[str, Any]) -> float:
    total = 0.0
    for part in segments(text, c.get("scope", "document")):
        have, need = (sum(inside(label, c[key]) for _, label in part) for key in ("label", "implies"))
        total += implication(have, need, c)
    return total


def sequence_implies_sequence(text: Sentences, c: dict[str, Any]) -> float:
    parts = scoped(text, c.get("scope", "document"))
    return sum(implication(run_count(p, c["label"]), run_count(p, c["implies"]), c) for p in parts)


def transition_on(text: Sentences, c: dict[str, Any]) -> float:
    def passes(word: str) -> bool:
        return listed(word, c["tokens"]) if "tokens" in c else all(ch in string.punctuation for ch in word)

    side = c.get("side", "either")
    broken = 0
    for sentence in text:
        for (first, a), (second, b) in pairwise(sentence):
            free = (side != "after" and passes(first)) or (side != "before" and passes(second))
            broken += not free and not continued(a, b)
    return broken


def changes_at(text: Sentences, c: dict[str, Any]) -> float:
    broken = 0
    for sentence in text:
        for (first, a), (second, b) in pairwise(sentence):
            marked = listed(second if c.get("side") == "after" else first, c["tokens"])
            meant = "labels" not in c or (inside(a, c["labels"]) and inside(b, c["labels"]))
            broken += marked and meant and continued(a, b)
    return broken


def lexicon(text: Sentences, c: dict[str, Any]) -> float:
    return sum(listed(w, c["words"]) and not inside(label, c["labels"]) for s in text for w, label in s)


def only_in(text: Sentences, c: dict[str, Any]) -> float:
    pattern = c["tokens"]["pattern"]
    return sum(bool(re.fullmatch(pattern, w)) and not inside(label, c["labels"]) for s in text for w, label in s)


def should_be_tagged(text: Sentences, c: dict[str, Any]) -> float:
    flat = [pair for s in text for pair in s]
    if "tokens" in c:
        return sum(listed(w, c["tokens"]) and not inside(label, c["labels"]) for w, label in flat)
    if c["position"] not in range(-len(flat), len(flat)):
        return 0
    return float(not inside(flat[c["position"]][1], c["labels"]))


def linear(text: Sentences, c: dict[str, Any]) -> float:
    def beyond(total: float) -> float:
        slack = total - c.get("bound", 0.0)
        return float({"<=": max(0.0, slack), ">=": max(0.0, -slack), "==": abs(slack)}[c.get("sense", "<=")])

    def value(sentence: list[tuple[str, str]], t: int, term: dict[str, Any]) -> float:
        held = inside(sentence[t][1], term["label"])
        if "previous" in term:
            held = held and t > 0 and inside(sentence[t - 1][1], term["previous"])
        return float(term.get("coefficient", 1.0)) * held

    total = 0.0
    if c.get("each", "document") == "token":
        for sentence in text:
            for t, (word, _) in enumerate(sentence):
                spots = [(t + term.get("offset", 0), "previous" in term) for term in c["terms"]]
                if listed(word, c.get("tokens", TEMPLATE_WORDS)) and all(
                    int(edge) <= at < len(sentence) for at, edge in spots
                ):
                    total += beyond(sum(value(sentence, t + term.get("offset", 0), term) for term in c["terms"]))
        return total
    for part in scoped(text, c.get("each", "document")):
        total += beyond(
            sum(
                value(sentence, t, term)
                for sentence in part
                for t, (word, _) in enumerate(sentence)
                for term in c["terms"]
                if listed(word, term.get("tokens", TEMPLATE_WORDS))
            )
        )
    return total


def legality(text: Sentences, c: dict[str, Any]) -> float:
    del c
    broken = 0
    for sentence in text:
        names = [label for _, label in sentence]
        for last, label in zip(["O", *names[:-1]], names, strict=True):
            broken += label.startswith("I-") and kind(last) != kind(label)
    return broken


def consistent(text: Sentences, c: dict[str, Any]) -> float:
    found = [span for span in spans(text) if span[1] in c.get("labels", (span[1],))]
    return sum(len(a[0]) for a, b in combinations(found, 2) if a[0] == b[0] and a[1] != b[1])


def consistent_subsequence(text: Sentences, c: dict[str, Any]) -> float:
    found = [span for span in spans(text) if span[1] in c.get("labels", (span[1],))]
    total = 0
    for long in found:
        for short in found:
            size = len(short[0])
            parts = {long[0][i : i + size] for i in range(len(long[0]) - size + 1)}
            total += size * (size < len(long[0]) and short[0] in parts and short[1] != long[1])
    return total


def consistent_unlabelled(text: Sentences, c: dict[str, Any]) -> float:
    total = 0
    for words, name in spans(text):
        if name not in c.get("labels", (name,)):
            continue
        for sentence in text:
            for t, (_, label) in enumerate(sentence):
                here = tuple(w for w, _ in sentence[t : t + len(words)])
                total += len(words) * (label == "O" and here == words)
    return total


def consistent_value(text: Sentences, c: dict[str, Any]) -> float:
    def normal(words: tuple[str, ...]) -> tuple[str, ...] | str:
        joined = "".join(words).lower()
        times = {"3:30": "T", "3:30pm": "T", "3.30": "T", "3.30pm": "T", "3:30p.m.": "T", "3.30p.m.": "T"}
        if c.get("value") == "time" and joined in times:
            return times[joined]
        return tuple(w.lower() for w in words)

    found = [(normal(words), name, len(words)) for words, name in spans(text) if name in c["labels"]]
    broken = [(a, b) for a, b in combinations(found, 2) if a[1] == b[1] and a[0] != b[0]]
    return sum(min(a[2], b[2]) if c.get("per_token") else 1 for a, b in broken)


def consistent_last_word(text: Sentences, c: dict[str, Any]) -> float:
    flat = [(i, t, w, label) for i, s in enumerate(text) for t, (w, label) in enumerate(s)]
    broken = 0
    for i, sentence in enumerate(text):
        for _, end in runs(sentence, c["labels"]):
            last = sentence[end - 1][0]
            if last not in c["words"]:
                continue
            others = [x for x in flat if x[:2] != (i, end - 1) and x[2] in c["words"] and x[2].lower() == last.lower()]
            broken += sum(not inside(x[3], c["labels"]) for x in others)
    return broken


Naive = Callable[[Sentences, dict[str, Any]], float]

# Each template: its naive degree, then fields to try on the BIO set and on the plain set.
AB_BIO, AB_PLAIN = {"first": ["PER"], "second": ["B-ORG", "O"]}, {"first": ["author"], "second": ["title", "O"]}
CASES: dict[str, tuple[Naive, list[dict[str, Any]], list[dict[str, Any]]]] = {
    "adjacency": (adjacency, [AB_BIO], [AB_PLAIN, {"first": ["O"], "second": ["O", "date"]}]),
    "precedence": (
        precedence,
        [AB_BIO, AB_BIO | {"reach": 2, "scope": "document"}],
        [AB_PLAIN | {"reach": 1}, AB_PLAIN | {"scope": "document"}, {"first": ["title"], "second": ["title"]}],
    ),
    "state_change": (
        state_change,
        [{"delimiters": [",", "."], "before": ["PER"], "after": ["ORG", "O"]}],
        [{"delimiters": [","], "before": ["author"], "after": ["title"]}],
    ),
    "begin_end": (
        begin_end,
        [{"begin": ["PER"], "end": ["O"]}],
        [{"begin": ["author"], "end": ["date"], "scope": "sentence"}],
    ),
    "presence_precedence": (presence_precedence, [AB_BIO], [AB_PLAIN, AB_PLAIN | {"scope": "sentence"}]),
    "starts_with": (starts_with, [{"labels": ["PER"]}], [{"labels": ["author", "O"], "scope": "sentence"}]),
    "appears_once": (appears_once, [{}, {"labels": ["PER", "I-ORG"]}], [{}, {"labels": ["O"], "scope": "sentence"}]),
    "appears_once_a_side": (
        appears_once_a_side,
        [{"separators": ["ORG"], "labels": ["PER"]}, {"separators": ["O"]}],
        [
            {"separators": ["title"]},
            {"separators": ["date"], "labels": ["author", "title", "O"], "scope": "sentence"},
            {"separators": ["O", "date"], "labels": ["author"], "tokens": ["Smith", "of"]},
        ],
    ),
    "transition_on": (transition_on, [{}], [{}, {"side": "after"}, {"tokens": [",", "of"], "side": "before"}]),
    "changes_at": (
        changes_at,
        [{"tokens": ["of"]}, {"tokens": [",", "Smith"], "labels": ["PER"], "side": "after"}],
        [{"tokens": [","], "side": "after"}, {"tokens": ["of", ","], "labels": ["author", "O"]}],
    ),
    "lexicon": (
        lexicon,
        [{"words": ["SMITH", "of"], "labels": ["PER"]}],
        [{"words": ["jones"], "labels": ["author", "title"]}],
    ),
    "only_in": (
        only_in,
        [{"tokens": {"pattern": "[0-9].*"}, "labels": ["ORG"]}],
        [{"tokens": {"pattern": r"\W"}, "labels": ["O", "title", "date"]}],
    ),
    "must_appear": (must_appear, [{"labels": ["PER"]}], [{"labels": ["author", "date"], "scope": "sentence"}]),
    "should_not_precede": (
        should_not_precede,
        [{"first": ["PER"], "second": ["ORG"]}],
        [AB_PLAIN, AB_PLAIN | {"tokens": ["Smith", ","]}, {"first": ["O", "title", "date"], "second": ["O", "title"]}],
    ),
    "should_be_tagged": (
        should_be_tagged,
        [{"position": 1, "labels": ["PER"]}, {"position": -1, "labels": ["O"]}],
        [{"position": 4, "labels": ["title"]}, {"tokens": ["of", ","], "labels": ["O"]}],
    ),
    "tag_implies_tag": (
        tag_implies_tag,
        [{"label": ["PER"], "implies": ["ORG"]}, {"label": ["PER"], "implies": ["B-PER"]}],
        [{"label": ["title"], "implies": ["author", "date"], "counted": True, "scope": "sentence"}],
    ),
    "sequence_implies_sequence": (
        sequence_implies_sequence,
        [{"label": ["PER"], "implies": ["ORG"]}, {"label": ["PER", "ORG"], "implies": ["PER"], "counted": True}],
        [{"label": ["title"], "implies": ["author"]}, {"label": ["O"], "implies": ["date"], "scope": "sentence"}],
    ),
    "at_most_runs": (
        at_most_runs,
        [{"labels": ["PER"], "limit": 1}, {"labels": ["B-PER", "I-ORG"], "limit": 0}],
        [{"labels": ["title", "date"], "limit": 1, "scope": "sentence"}],
    ),
    "at_least_runs": (
        at_least_runs,
        [{"labels": ["ORG"], "limit": 2}],
        [{"labels": ["title"], "limit": 1, "scope": "sentence"}],
    ),
    "before": (before, [{"first": ["PER"], "second": ["ORG"]}], [AB_PLAIN, AB_PLAIN | {"scope": "sentence"}]),
    "linear": (
        linear,
        [
            {"terms": [{"label": ["PER"]}, {"label": ["ORG"], "coefficient": -2.5}], "bound": 0.5},
            {"terms": [{"label": ["PER"], "previous": ["PER"]}, {"label": ["B-PER"]}], "sense": "==", "bound": 1},
        ],
        [
            {
                "terms": [{"label": ["title"], "offset": 1}, {"label": ["author"], "offset": -1, "coefficient": -1}],
                "each": "token",
                "tokens": [",", ".", "of"],
            },
            {
                "terms": [{"label": ["date"], "previous": ["O"], "offset": 1}],
                "each": "token",
                "sense": ">=",
                "bound": 1,
            },
            {"terms": [{"label": ["date"], "tokens": ["of", ","]}], "each": "sentence", "sense": ">=", "bound": 2},
        ],
    ),
    "legality": (legality, [{}], []),
    "consistent": (consistent, [{}, {"labels": ["PER"]}], [{}, {"labels": ["author", "date"]}]),
    "consistent_subsequence": (consistent_subsequence, [{}], [{}, {"labels": ["author", "title"]}]),
    "consistent_unlabelled": (consistent_unlabelled, [{}, {"labels": ["PER"]}], [{}, {"labels": ["author"]}]),
    "consistent_value": (
        consistent_value,
        [{"labels": ["PER"]}, {"labels": ["PER", "ORG"], "value": "time"}, {"labels": ["PER"], "per_token": True}],
        [{"labels": ["date"], "value": "time"}, {"labels": ["date"], "value": "time", "per_token": True}],
    ),
    "consistent_last_word": (
        consistent_last_word,
        [{"labels": ["PER"], "words": list(TEMPLATE_WORDS)}],
        [{"labels": ["author"], "words": ["Smith", "Jones"]}, {"labels": ["O"], "words": ["smith"]}],
    ),
}
