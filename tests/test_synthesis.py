"""The synthetic corpus: reproducible, endless, well formed, and with names that introduce themselves."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections import Counter
from itertools import islice, pairwise
from typing import cast

import numpy as np
import pytest

from concord.schemas.document import Document
from concord.schemas.labels import LabelSet, Scheme
from concord.workers.synthesis.made_up import Kind, synthesize
from concord.workers.synthesis.names import (
    COUNTRIES,
    FIRMS,
    GIVEN,
    PLACE_NAMES,
    SURNAMES,
    Draws,
    Inventory,
    adjective,
    words,
)
from concord.workers.synthesis.text import TAG_OF, WORD_TAGS

KINDS: tuple[Kind, ...] = ("news", "citations")
FIELDS = frozenset(
    words("author booktitle date editor institution journal location note pages publisher tech title volume")
)


def gold(document: Document) -> list[str]:
    assert document.labels is not None
    return document.labels.strings()


def sentences(document: Document) -> list[tuple[list[str], list[str]]]:
    bounds = [*document.sentence_starts.tolist(), len(document)]
    tokens, labels = document.tokens, gold(document)
    return [(tokens[a:b], labels[a:b]) for a, b in pairwise(bounds)]


def entities(document: Document) -> list[tuple[str, tuple[str, ...]]]:
    """(type, words) of every gold entity."""
    labels = LabelSet.bio(["LOC", "MISC", "ORG", "PER"])
    spans = labels.spans(labels.encode(gold(document)), document.sentence_starts)
    tokens = document.tokens
    bounds = zip(spans.type.tolist(), spans.start.tolist(), spans.end.tolist(), strict=True)
    return [(labels.types[kind], tuple(tokens[a:b])) for kind, a, b in bounds]


def fingerprint(kind: Kind) -> str:
    digest = hashlib.sha256()
    for document in synthesize(20, seed=11, kind=kind):
        digest.update(repr((document.doc_id, sentences(document))).encode())
    return digest.hexdigest()


@pytest.mark.parametrize("kind", KINDS)
def test_a_document_depends_on_seed_and_number_alone(kind: Kind) -> None:
    whole = list(synthesize(12, seed=3, kind=kind))
    part = list(synthesize(4, seed=3, kind=kind, first=5))
    assert [d.doc_id for d in part] == [d.doc_id for d in whole[5:9]]
    assert [sentences(d) for d in part] == [sentences(d) for d in whole[5:9]]
    other = list(synthesize(12, seed=4, kind=kind))
    assert all(sentences(a) != sentences(b) for a, b in zip(whole, other, strict=True))


def test_string_hashing_does_not_matter() -> None:
    code = "import test_synthesis as t; print(*(t.fingerprint(k) for k in t.KINDS))"
    expected = " ".join(fingerprint(kind) for kind in KINDS)
    for seed in ("0", "1"):
        run = subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": __file__.rpartition("/")[0]},
            capture_output=True,
            text=True,
            check=True,
        )
        assert run.stdout.strip() == expected


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_a_stream(kind: Kind) -> None:
    assert len(list(islice(synthesize(10**12, seed=0, kind=kind, first=10**9), 3))) == 3
    assert list(synthesize(0, seed=0, kind=kind)) == []


def test_news_is_well_formed() -> None:
    known = {*TAG_OF.values(), *WORD_TAGS.values()}
    lengths = []
    for document in synthesize(300, seed=1, kind="news"):
        lengths.append(len(document))
        assert set(document.columns) == {"tokens", "pos"}
        assert set(document.columns["pos"].strings()) <= known
        for tokens, labels in sentences(document):
            assert not any(" " in t or "{" in t or "<" in t or not t for t in tokens)
            legal = ["O", *labels[:-1]]
            assert all(b[0] != "I" or a[1:] == b[1:] for a, b in zip(legal, labels, strict=True))
        for label, tag in zip(gold(document), document.columns["pos"].strings(), strict=True):
            assert label == "O" or tag == "PROPN"
    assert min(lengths) >= 25
    assert max(lengths) <= 500
    assert 100 <= np.mean(lengths) <= 250


def test_every_type_is_common_and_names_recur() -> None:
    types: Counter[str] = Counter()
    repeated = total = 0
    for document in synthesize(300, seed=2, kind="news"):
        found = entities(document)
        types.update(kind for kind, _ in found)
        times = Counter(found)
        repeated += sum(n for n in times.values() if n > 1)
        total += len(found)
    assert min(types[kind] for kind in ("PER", "LOC", "ORG", "MISC")) > 0.05 * total
    assert repeated > 0.5 * total


def test_names_mostly_have_one_type_in_a_document_but_not_always() -> None:
    one = several = 0
    for document in synthesize(300, seed=5, kind="news"):
        kinds: dict[tuple[str, ...], set[str]] = {}
        for kind, name in entities(document):
            kinds.setdefault(name, set()).add(kind)
        one += sum(len(k) == 1 for k in kinds.values())
        several += sum(len(k) > 1 for k in kinds.values())
    assert 0.005 < several / (one + several) < 0.1


def test_the_vocabulary_is_open() -> None:
    seen = {word for d in synthesize(300, seed=6, kind="news") for _, name in entities(d) for word in name}
    new = [
        word not in seen
        for d in synthesize(100, seed=6, kind="news", first=300)
        for _, name in entities(d)
        for word in name
    ]
    assert 0.6 < np.mean(new) < 0.95


@pytest.mark.parametrize("kind", ["news", "citations"])
def test_corpora_of_several_seeds_can_be_one(kind: Kind) -> None:
    """Seed 0, the default, has the ids that it always had; the words depend on no id."""
    made = [document for seed in (0, 1, 10) for document in synthesize(12, seed=seed, kind=kind)]
    assert made[3].doc_id == f"{kind}-000000003"
    assert made[15].doc_id == f"{kind}-1-000000003"
    assert len({document.doc_id for document in made}) == len(made)
    assert made[15].columns["tokens"].strings() != made[3].columns["tokens"].strings()


def test_citations_are_well_formed() -> None:
    labels: Counter[str] = Counter()
    for document in synthesize(300, seed=1, kind="citations"):
        names = gold(document)
        assert document.sentence_starts.tolist() == [0]
        assert 4 <= len(document) <= 90
        assert "title" in names
        # Every field is one run: the order of fields is what constraints are made of.
        runs = [a for a, b in zip(names, [*names[1:], ""], strict=True) if a != b]
        assert len(runs) == len(set(runs))
        labels.update(set(names))
    assert set(labels) == FIELDS
    assert LabelSet.infer(labels).scheme is Scheme.PLAIN
    assert labels["author"] < 300
    assert min(labels.values()) >= 5


@pytest.mark.parametrize("inventory", [PLACE_NAMES, COUNTRIES, SURNAMES, GIVEN, FIRMS])
def test_names_of_an_inventory_differ(inventory: Inventory) -> None:
    names = [inventory.name(number) for number in range(20_000)]
    # Different syllables can spell the same word, so a few coincide.
    assert len(set(names)) > 19_000
    assert all(name.isalpha() and name.istitle() for name in names)
    assert all(adjective(name) != name for name in names[:100])


def test_a_step_that_would_repeat_names_is_refused() -> None:
    with pytest.raises(ValueError, match="names would repeat"):
        Inventory("burg", step=2)


def test_draws_are_uniform_and_bounded() -> None:
    draws = Draws(np.random.default_rng(0))
    values = Counter(draws.between(3, 6) for _ in range(4000))
    assert set(values) == {3, 4, 5, 6}
    assert min(values.values()) > 850
    orders = Counter(tuple(draws.shuffled("abc")) for _ in range(3000))
    assert len(orders) == 6
    assert min(orders.values()) > 400


def test_bad_requests_are_refused() -> None:
    with pytest.raises(ValueError, match="no kind of corpus is called 'poems'"):
        synthesize(1, seed=0, kind=cast("Kind", "poems"))
    with pytest.raises(ValueError, match="must not be negative"):
        synthesize(-1, seed=0, kind="news")
    with pytest.raises(ValueError, match="must not be negative"):
        synthesize(1, seed=0, kind="news", first=-1)
