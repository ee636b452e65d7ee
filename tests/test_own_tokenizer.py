"""Text cut by a function of the user's: where its words stand, and what it gets wrong."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pycrfsuite
import pytest
from hypothesis import given
from hypothesis import strategies as st

from concord.flows.cli.failures import Exit
from concord.flows.commands.label import open_labeller
from concord.flows.labelling.sources import some_documents
from concord.schemas.errors import DocumentError
from concord.workers.corpus.plan import plan
from concord.workers.corpus.readers.own_tokenizer import OwnTokenizer
from concord.workers.corpus.shards import DEFAULT_TEXT, read_batch
from concord.workers.models.crfsuite import TRUST
from concord.workers.models.loaders import load_model
from concord.workers.models.model import text_tokenizer
from tests.support.word_features import FEATURES, LABELS, SENTENCES, call, features

TOKENIZER = "tests.test_own_tokenizer:tokenizer"
WRONG: dict[str, Any] = {"none": [], "other": ["else"], "twice": ["twice", "twice"], "number": [3], "empty": [""]}


def tokenizer(text: str) -> list[Any]:
    """Commas stay with their words, ``&amp;`` becomes ``&``; some texts go wrong in each possible way."""
    if text == "raises":
        raise ValueError("no text")
    return list(WRONG.get(text, re.findall(r"[^\s,]+,*", text.replace("&amp;", "&"))))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("own")
    trainer = pycrfsuite.Trainer(verbose=False, params={"max_iterations": 20})
    for words, labels in zip(SENTENCES, LABELS, strict=True):
        trainer.append(features(words), labels)
    trainer.train(str(path / "a.crfsuite"))
    given = ("--feature-function", FEATURES, "--tokenizer-function", TOKENIZER, "--out", str(path / "model"))
    done = call("import", "crfsuite", str(path / "a.crfsuite"), *given)
    assert f"text is cut by {TOKENIZER}" in done.stdout
    assert f"CONCORD_TRUST={FEATURES},{TOKENIZER}" in done.stdout.replace("\n", "")
    return path / "model"


@pytest.fixture
def trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TRUST, f"{FEATURES},{TOKENIZER}")


@given(st.text("ab, \n&é", max_size=12))
def test_words_are_found_in_their_order(text: str) -> None:
    own = OwnTokenizer("f", tokenizer)
    words = tokenizer(text)
    if not words:
        with pytest.raises(DocumentError, match="f finds no word in it"):
            own([text])
        return
    cut = own([text, "b"])
    assert cut.tokens.strings() == [*words, "b"]
    assert [text[a:b] for a, b in zip(cut.start[:-1], cut.end[:-1], strict=True)] == words
    assert all(a <= b for a, b in zip(cut.end[:-2], cut.start[1:-1], strict=True))
    assert (cut.doc_starts.tolist(), cut.sentence_starts.tolist()) == ([0, len(words), len(words) + 1], [0, len(words)])


NOWHERE = "which stands nowhere in the text; let it return (word, start, end) for each word"
REASONS = {
    "none": f"{TOKENIZER} finds no word in it",
    "other": f"{TOKENIZER} gave 'else', {NOWHERE}",
    "twice": f"{TOKENIZER} gave 'twice', {NOWHERE}",
    "number": f"{TOKENIZER} gave 3, which is no word",
    "empty": f"{TOKENIZER} gave '', which is no word",
    "raises": f"{TOKENIZER} cannot take it: ValueError: no text",
}


@pytest.mark.usefixtures("trusted")
def test_a_text_is_labelled_in_the_words_of_its_tokenizer(folder: Path) -> None:
    text = "12 Main, St &amp; Ada"
    found = open_labeller(str(folder))(text)
    assert found.tokens == ("12", "Main,", "St", "&", "Ada")
    assert found.sentence_starts == (0,)
    assert all(text[e.char_start : e.char_end] == e.text for e in found.entities)
    done = call("label", "--model", str(folder), "--json", text)
    assert json.loads(done.stdout)["tokens"] == list(found.tokens)
    for wrong, reason in REASONS.items():
        said = call("label", "--model", str(folder), wrong, code=Exit.INPUT).stderr
        assert said == f"concord: text: {reason}\n"


@pytest.mark.usefixtures("trusted")
def test_raw_text_of_a_corpus_is_cut_by_it_and_bad_rows_are_rejects(folder: Path, tmp_path: Path) -> None:
    texts = ["Main, St", *REASONS, " ", "Ada"]
    pq.write_table(pa.table({"doc_id": [f"d{i}" for i in range(len(texts))], "text": texts}), tmp_path / "a.parquet")
    (shard,) = plan(str(tmp_path))
    batch, rejects = read_batch(shard, tokenizer=text_tokenizer(load_model(folder)))
    assert batch.columns["tokens"].strings() == ["Main,", "St", "Ada"]
    assert [r.reason for r in rejects] == [*REASONS.values(), "text is blank"]


@pytest.mark.usefixtures("trusted")
def test_the_sample_to_compile_on_is_cut_by_it_too(folder: Path, tmp_path: Path) -> None:
    pq.write_table(pa.table({"doc_id": ["a", "b"], "text": ["Main, St", "none"]}), tmp_path / "a.parquet")
    shards, model = plan(str(tmp_path)), load_model(folder)
    (sample,) = some_documents(shards, DEFAULT_TEXT, model, 2)
    assert sample.columns["tokens"].strings() == ["Main,", "St"]


def test_both_functions_have_to_be_trusted(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TRUST, FEATURES)
    said = call("label", "--model", str(folder), "x", code=Exit.INPUT).stderr
    assert f"the model calls {FEATURES} of" in said
    assert f"and {TOKENIZER} of" in said
    assert f"if you trust it, set {TRUST}={FEATURES},{TOKENIZER}" in said
