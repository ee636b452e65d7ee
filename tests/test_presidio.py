"""Presidio's analyzer with the entities of a model: places, names, scores, and mentions that are missed elsewhere."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from concord.labelling import load
from concord.schemas.errors import InputError
from tests.support.agreeing_model import OTHERS, agreeing_model, text_of

presidio = pytest.importorskip("presidio_analyzer", reason="presidio-analyzer is not installed")
spacy = pytest.importorskip("spacy", reason="the extra spacy is not installed")

from concord.presidio import ConcordRecognizer  # noqa: E402 - where the package is

KINDS = {"PER": "PERSON", "LOC": "LOCATION", "ORG": "ORGANIZATION", "MISC": "MISC"}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return agreeing_model(tmp_path_factory.mktemp("models") / "news")


def analyzer(model: Path, **options: Any) -> Any:
    """Presidio with the recognizer alone, over spaCy without a model."""
    from presidio_analyzer.nlp_engine import SpacyNlpEngine

    engine = SpacyNlpEngine()
    engine.nlp = {"en": spacy.blank("en")}
    registry = presidio.RecognizerRegistry(supported_languages=["en"])
    registry.add_recognizer(ConcordRecognizer(str(model), **options))
    return presidio.AnalyzerEngine(registry=registry, nlp_engine=engine, supported_languages=["en"])


def test_it_gives_the_entities_of_the_labeller_by_the_names_of_presidio(model: Path) -> None:
    host, labeller = analyzer(model), load(model, confidence="margin")
    for text in map(text_of, OTHERS[:20]):
        expected = {
            (one.char_start, one.char_end, KINDS[one.type], 1 / (1 + math.exp(-(one.margin or 0.0))))
            for one in labeller.label(text).entities
        }
        results = host.analyze(text, "en")
        assert {(one.start, one.end, one.entity_type) for one in results} == {one[:3] for one in expected}
        assert sorted(one.score for one in results) == pytest.approx(sorted(one[3] for one in expected))
        assert all(0.5 <= one.score <= 1.0 for one in results)


def test_a_name_caught_here_is_not_missed_there(model: Path) -> None:
    sentences = ["Mr Fapirik Totol spoke.", "Totol left."]
    host, text = analyzer(model), " ".join(sentences)
    apart = [[sentence[one.start : one.end] for one in host.analyze(sentence, "en")] for sentence in sentences]
    assert apart == [["Fapirik Totol"], []]
    together = sorted(host.analyze(text, "en"))
    assert [text[one.start : one.end] for one in together] == ["Fapirik Totol", "Totol"]
    assert {one.entity_type for one in together} == {"PERSON"}


def test_it_gives_what_is_asked_for_and_stands_beside_others(model: Path) -> None:
    host = analyzer(model, names={"PER": "NAME"})
    assert set(host.get_supported_entities("en")) == {"NAME", "LOC", "ORG", "MISC"}
    host.registry.add_recognizer(presidio.predefined_recognizers.IpRecognizer())
    text = "Mr Fapirik Totol spoke at 10.0.0.7."
    assert [one.entity_type for one in host.analyze(text, "en", entities=["IP_ADDRESS"])] == ["IP_ADDRESS"]
    assert {one.entity_type for one in host.analyze(text, "en")} >= {"NAME", "IP_ADDRESS"}


@pytest.mark.parametrize("text", ["", " \n ", "\ufeff", "\ufeff \n"])
def test_a_text_without_words_has_no_entities(model: Path, text: str) -> None:
    assert analyzer(model).analyze(text, "en") == []


def test_places_are_those_of_the_text_that_was_given(model: Path) -> None:
    text = "\ufeff \U0001f600 Mr Fapirik Totol spoke."
    assert [text[one.start : one.end] for one in analyzer(model).analyze(text, "en")] == ["Fapirik Totol"]


def test_a_model_that_is_not_there_is_one_message(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="gone"):
        ConcordRecognizer(str(tmp_path / "gone"))
