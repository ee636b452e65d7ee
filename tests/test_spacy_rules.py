"""What is spaCy's own: its rules, given at once, its memory, and the languages that it knows."""

from __future__ import annotations

from typing import Any

import pytest

from concord.schemas.settings import TextSettings
from concord.workers.corpus.tokenizers import spacy_rules
from concord.workers.corpus.tokenizers.registry import load_tokenizer
from concord.workers.corpus.tokenizers.tokenizer import LanguageError
from concord.workers.synthesis.made_up import synthesize

spacy = pytest.importorskip("spacy", reason="it needs concord-nlp[spacy]")


@pytest.mark.parametrize("language", ["en", "de"])
def test_rules_given_at_once_cut_as_those_given_to_a_finished_tokenizer(language: str) -> None:
    other: Any = spacy.blank(language).tokenizer
    rules = spacy_rules._infixes(
        spacy.util.get_lang_class(language).Defaults.infixes or (), spacy.lang.char_classes.HYPHENS
    )
    other.infix_finditer = spacy.util.compile_infix_regex(rules).finditer
    own = spacy_rules._spacy_tokenizer(language)
    texts = [" ".join(document.tokens) for document in synthesize(20, seed=3, kind="news")]
    texts += ["don't (e.g. a-b) 1996-08-22, 6-3: http://x.y/z?a=b :-) U.S.-based z.B. 5km $10.50 “so”—it's\n\n x"]
    for text in texts:
        assert [token.text for token in own(text)] == [token.text for token in other(text)]


def test_a_tokenizer_made_anew_cuts_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = load_tokenizer(TextSettings(tokenizer="spacy"))
    texts = ["She's here, isn't she? Yes—at 5 p.m.", "U.S. towns"]
    before = tokenizer(texts)
    monkeypatch.setattr("concord.workers.corpus.tokenizers.spacy_rules.STRING_LIMIT", 0)
    after = tokenizer(texts)
    assert after.tokens.strings() == before.tokens.strings()
    assert after.sentence_starts.tolist() == before.sentence_starts.tolist()


def test_a_language_without_rules() -> None:
    with pytest.raises(LanguageError, match="'qq'"):
        load_tokenizer(TextSettings(tokenizer="spacy", language="qq"))
