"""Parsers of parserator: what they take stays, and what they refuse gets the best labelling that they take."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pycrfsuite
import pytest

from concord.parserator import Parser, _labeller

LABELS = ("AddressNumber", "StreetName", "IntersectionSeparator", "PlaceName")
CODE = '''
"""A parser as parserator makes them."""
import pycrfsuite

class RepeatedLabelError(Exception):
    pass

def tokenize(text):
    return text.split()

def tokens2features(tokens):
    return [{"digits": token.isdigit(), "word": token, "first": i == 0} for i, token in enumerate(tokens)]

def parse(text):
    tagger = pycrfsuite.Tagger()
    tagger.open(__file__.replace("__init__.py", "tiny.crfsuite"))
    tokens = tokenize(text)
    return list(zip(tokens, tagger.tag(tokens2features(tokens)))) if tokens else []

def tag(text, names=None):
    parts, last, crossed = {}, None, False
    for token, label in parse(text):
        crossed = crossed or label == "IntersectionSeparator"
        label = "Second" + label if crossed and label == "StreetName" else label
        label = (names or {}).get(label, label)
        if label in parts and label != last:
            raise RepeatedLabelError(text)
        parts[label] = f"{parts[label]} {token}" if label in parts else token
        last = label
    return parts, "Intersection" if crossed else "Street"
'''
TAUGHT = (
    ("12 Main", "AddressNumber StreetName"),
    ("7 Elm Rd Dover", "AddressNumber StreetName StreetName PlaceName"),
    ("Elm & Main", "StreetName IntersectionSeparator StreetName"),
    ("Main Rd & Elm Dover", "StreetName StreetName IntersectionSeparator StreetName PlaceName"),
)
WORDS = ("12", "Main", "Elm", "&", "Dover", "x")


@pytest.fixture
def parser(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Parser]:
    """A package with a model of its own, as pip installs it."""
    package = tmp_path / "site" / "tinyparser"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(CODE)
    info = tmp_path / "site" / "tinyparser-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: tinyparser\nVersion: 1.0\n")
    (info / "top_level.txt").write_text("tinyparser\n")
    (info / "RECORD").write_text("tinyparser/__init__.py,,\n")
    monkeypatch.syspath_prepend(tmp_path / "site")
    monkeypatch.setenv("CONCORD_HOME", str(tmp_path / "home"))
    trainer = pycrfsuite.Trainer(verbose=False)
    module = import_module("tinyparser")
    for text, labels in TAUGHT:
        trainer.append(pycrfsuite.ItemSequence(module.tokens2features(text.split())), labels.split())
    trainer.set_params({"c2": 0.1, "feature.possible_transitions": True})
    trainer.train(str(package / "tiny.crfsuite"))
    yield Parser("tinyparser", "tiny.crfsuite", "usaddress.yaml")
    _labeller.cache_clear()
    sys.modules.pop("tinyparser", None)


def _taken(module: Any, text: str, labels: tuple[str, ...]) -> bool:
    """Does the package's `tag` take these labels?"""
    own = module.parse
    module.parse = lambda _: list(zip(text.split(), labels, strict=True))
    try:
        module.tag(text)
    except module.RepeatedLabelError:
        return False
    finally:
        module.parse = own
    return True


def test_every_string_gets_the_best_labelling_that_the_package_takes(parser: Parser) -> None:
    module, tagger, refused = import_module("tinyparser"), pycrfsuite.Tagger(), 0
    tagger.open(str(Path(module.__file__ or "").with_name("tiny.crfsuite")))
    rng = np.random.default_rng(0)
    for size in (1, 2, 3, 4, 5, 5, 5, 5, 5, 5):
        text = " ".join(rng.choice(WORDS, size))
        assert parser.parse(text) == module.parse(text)
        tagger.set(module.tokens2features(text.split()))
        scores = {
            labels: np.log(tagger.probability(labels))
            for labels in product(LABELS, repeat=size)
            if _taken(module, text, labels)
        }
        best, alone = max(scores.values()), np.log(tagger.probability([label for _, label in module.parse(text)]))
        readings = parser.readings(text)
        assert scores[tuple(label for _, label in readings.tagged)] == pytest.approx(best, abs=1e-6)
        assert readings.nats == pytest.approx(alone - best, abs=1e-6)
        if readings.tagged == readings.alone:
            assert parser.tag(text, names={}) == module.tag(text)
        else:
            refused += 1
            with pytest.raises(module.RepeatedLabelError):
                module.tag(text)
            assert sorted(" ".join(parser.tag(text, names={})[0].values()).split()) == sorted(text.split())
    assert refused


def test_names_that_several_labels_have_come_together(parser: Parser) -> None:
    names = {"AddressNumber": "line", "PlaceName": "line"}
    module = import_module("tinyparser")
    with pytest.raises(module.RepeatedLabelError):
        module.tag("7 Elm Rd Dover", names)
    parts, kind = parser.tag("7 Elm Rd Dover", names, names=names)
    assert (parts, kind) == ({"line": "7 Dover", "StreetName": "Elm Rd"}, "Street")


def test_no_string_and_no_names_are_refused(parser: Parser) -> None:
    """Over draws: whatever is merged, each token has a part, and names for both sides of a separator may be one."""
    rng, kinds = np.random.default_rng(1), [*LABELS, "SecondStreetName"]
    for _ in range(300):
        text = " ".join(rng.choice(WORDS, rng.integers(1, 8)))
        names = {kind: str(rng.choice(["a", "b", kind])) for kind in kinds if rng.random() < 0.6}
        parts, _ = parser.tag(text, names, names=names)
        assert sorted(" ".join(parts.values()).split()) == sorted(text.split())


def test_a_string_without_a_word_has_no_parts(parser: Parser) -> None:
    assert parser.parse("") == []
    assert parser.tag("", names={}) == ({}, "Street")


@pytest.mark.skipif(find_spec("usaddress") is None, reason="usaddress is not installed")
def test_usaddress_takes_what_it_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONCORD_HOME", str(tmp_path))
    theirs, ours = import_module("usaddress"), import_module("concord.usaddress")
    for text in ("123 Main St. Suite 100 Chicago, IL", "Main St & Elm St, Boston MA", ""):
        assert (ours.parse(text), ours.tag(text)) == (theirs.parse(text), theirs.tag(text))
    twice = "PO Box 12 Suite 4 PO Box 3"
    with pytest.raises(theirs.RepeatedLabelError):
        theirs.tag(twice)
    assert ours.tag(twice)[1] == "PO Box"
    assert ours.readings(twice).nats > 0


@pytest.mark.skipif(find_spec("probablepeople") is None, reason="probablepeople is not installed")
@pytest.mark.parametrize("kind", [None, "generic", "person", "company"])
def test_probablepeople_takes_what_it_refused(
    kind: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CONCORD_HOME", str(tmp_path))
    theirs, ours = import_module("probablepeople"), import_module("concord.probablepeople")
    for text in ('Mr George "Gob" Bluth II', "Sitwell Housing Inc", "John Smith and Jane Smith"):
        assert (ours.parse(text, kind), ours.tag(text, kind)) == (theirs.parse(text, kind), theirs.tag(text, kind))
    assert ours.tag("Ann and Bob and Carl Lee", kind)[0]
