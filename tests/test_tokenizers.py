"""Tokenizers: all against their contract, what the default cuts, and which one a corpus, a model and a run use."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

import concord
import concord.flows.training.train_model
from concord.flows.cli.failures import Exit
from concord.flows.commands.label import open_labeller
from concord.flows.labelling.label_job import LabelJob
from concord.flows.labelling.sources import cutting as cutting_of
from concord.flows.labelling.sources import open_model
from concord.flows.training.train_model import TrainJob, train_model
from concord.schemas.errors import CorpusError, DocumentError
from concord.schemas.requests import LabelRequest as Labelling
from concord.schemas.run import RunSettings
from concord.schemas.settings import TextSettings
from concord.testing import check_tokenizer
from concord.workers.corpus.ingestion import ingest
from concord.workers.corpus.plan import plan
from concord.workers.corpus.readers.text import batch_from_texts
from concord.workers.corpus.settings import PubtatorSettings, TextReaderSettings
from concord.workers.corpus.shards import tokenizer_of
from concord.workers.corpus.tokenizers import registry, words
from concord.workers.corpus.tokenizers.registry import OWN, TOKENIZERS, load_tokenizer, pinned
from concord.workers.corpus.tokenizers.sentences import TextCutter
from concord.workers.corpus.tokenizers.tokenizer import RUN_LIMIT, Cut, Cuts, Tokenizer, TokenizerError
from concord.workers.models.folder import MANIFEST, parse_manifest
from concord.workers.models.settings import HmmSettings
from concord.workers.parts import Group, Registry
from concord.workers.storage.storage import FolderStorage
from tests.support.made_tracking import untracked
from tests.support.word_features import call

HERE = [name for name, tokenizer in TOKENIZERS.items() if tokenizer.installed() is not None]
each = pytest.mark.parametrize("name", HERE)


def cutting(name: str, **options: Any) -> TextCutter:
    return load_tokenizer(TextSettings(tokenizer=name, **options))


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] * (n == "spacy")) for n in HERE])
def test_it_keeps_its_promises(name: str) -> None:
    check_tokenizer(TOKENIZERS[name])


@each
@given(
    texts=st.lists(
        st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from(" .\n“”\"'-A"), max_size=60), max_size=4
    )
)
def test_tokens_are_cut_out_of_the_text_and_nothing_is_lost(name: str, texts: list[str]) -> None:
    cut = cutting(name, sentence_limit=7)(texts)
    strings = cut.tokens.strings()
    for i, text in enumerate(texts):
        part = slice(int(cut.doc_starts[i]), int(cut.doc_starts[i + 1]))
        spans = list(zip(cut.start[part].tolist(), cut.end[part].tolist(), strict=True))
        assert [text[a:b] for a, b in spans] == strings[part]
        assert "".join(strings[part]) == "".join(text.split())
        starts = [s - part.start for s in cut.sentence_starts.tolist() if part.start <= s < part.stop]
        assert starts[:1] == ([0] if strings[part] else [])
        lengths = np.diff([*starts, len(spans)])
        assert np.all((lengths > 0) & (lengths <= 7))


@each
def test_sentences_end_where_a_reader_ends_them(name: str) -> None:
    text = 'He met Mr. Dow. "Come!" said he.\n\nI came on Jan. 3 to the well-known\ninn'
    cut = cutting(name)([text])
    assert [cut.tokens.strings()[s] for s in cut.sentence_starts] == ["He", '"', "I"]
    assert "well-known" in cut.tokens.strings()
    assert "Mr." in cut.tokens.strings()


@each
def test_long_sentences_and_long_runs_are_cut(name: str) -> None:
    cut = cutting(name)(["a " * 1200, "(" * 100_000])
    assert np.diff(np.append(cut.sentence_starts[:3], 1200)).tolist() == [500, 500, 200]
    assert max(map(len, cut.tokens.values)) <= RUN_LIMIT
    assert cut.end[-1] == 100_000


@each
@given(texts=st.lists(st.text(st.sampled_from("ab- .é"), max_size=30), max_size=4))
def test_words_are_cut_at_hyphens_if_told_so(name: str, texts: list[str]) -> None:
    whole, cut = (cutting(name, split_hyphens=split)(texts) for split in (False, True))
    wanted: list[tuple[int, str, int]] = []
    words = zip(whole.tokens.strings(), whole.start.tolist(), strict=True)
    owner = np.repeat(np.arange(len(texts)), np.diff(whole.doc_starts)).tolist()
    for document, (word, start) in zip(owner, words, strict=True):
        for i, letter in enumerate(word):
            if i and (letter == "-") == (word[i - 1] == "-"):
                last = wanted.pop()
                wanted.append((document, last[1] + letter, last[2]))
            else:
                wanted.append((document, letter, start + i))
    found = np.repeat(np.arange(len(texts)), np.diff(cut.doc_starts)).tolist()
    assert list(zip(found, cut.tokens.strings(), cut.start.tolist(), strict=True)) == wanted
    assert (cut.end - cut.start).tolist() == [len(word) for _, word, _ in wanted]


# The default's rules

CUT = {
    "en": [
        "It costs $|1,000.50 (|US$|5|)|. 1.2.3 22/08/1996 1996-08-22|, 6-3|; 3:30-5:00 .5 -5 +3.2 x-5 5|- -|x",
        "well-known U.S.-based R2-D2 AT&T node.js B12 1990s 4th m² 1,25-dihydroxyvitamin snake_case __|init|__",
        "do|n't ca|n’t can|not we|'ll Ada|'s U.K.|'s O'Brien|'s dogs|' she|’d DO|N'T can|not",
        "'|quoted|' '90s '' `` ’em 'tis it|'s",
        "Mr.|Smith J.K.|Rowling J.|Smith U.S.A U.S.A. Ph.D. e.g.|, i.e.|: etc.|) etc|... Mich|.. Oslo|. no|. a|. p.m.",
        "5|km 3|pm 3:30|p.m. 10|mg|/|kg 24|°C 7|%",
        "and|/|or a|=|b one|—|two end|.|Next Paris|,|London wait|...|! what|?|! f|(|x|) N|-|[|4|-|] Ca2|+ == -- a|--|b",
        "http://x.y/z?a=b|, www.a.org|. a.b@c.co.uk|)|. @user #tag #|5 :-) (|https://a.b/|)",
        "naïve Žofín e\u0301te\u0301 co\u00adop İstanbul 東|京|は|カタカナ|語|。 한국어 हिन्दी ส|วั|ส|ดี",
        "👩\u200d🚀 ❤\ufe0f|❤\ufe0f 🇩🇪|🇫🇷 👍🏽|👍🏽 \ud800 \x00|a \u200b|a",
    ],
    "fr": ["L'|homme qu'|il aujourd'hui d’|Artagnan n'|est c'|est-à-dire can't"],
    "it": ["dell'|arte l'|uomo un'|idea"],
    "nl": ["'s auto's 't zo'n"],
    "de": ["z.B. geht's Hr.|Maier usw.|, Ost-Berlin"],
}
"""Texts with a bar where one token ends and the next begins."""


@pytest.mark.parametrize("language", CUT)
def test_what_the_default_cuts(language: str) -> None:
    cut = TOKENIZERS["words"].open(language)
    for line in CUT[language]:
        found = cut([wanted.replace("|", "") for wanted in line.split(" ")])
        strings, bounds = found.tokens.strings(), found.doc_starts.tolist()
        assert " ".join("|".join(strings[a:b]) for a, b in pairwise(bounds)) == line


def test_what_is_kept_of_chunks_is_bounded_and_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [f"Ada{i} isn't the {i % 7}th, is she?" for i in range(300)]
    kept, forgetful = (words.Words("en") for _ in range(2))
    wanted = kept(texts)
    assert len(kept._chunks) == len({chunk for text in texts for chunk in text.split()})
    monkeypatch.setattr(words, "CHUNK_LIMIT", 40)
    found = [forgetful([text]) for text in texts]
    assert len(forgetful._chunks) <= 40 + len(texts[0].split())
    assert [word for one in found for word in one.tokens.strings()] == wanted.tokens.strings()
    assert [at for one in found for at in one.start.tolist()] == wanted.start.tolist()
    assert len(found[-1].tokens.values) == len(set(found[-1].tokens.strings())), "values that this text has alone"


# Which one is used


class Blanks:
    """A tokenizer of another version for each instance: what stands between blanks."""

    def __init__(self, version: str) -> None:
        self.entry = Tokenizer(lambda language: self, "what stands between blanks", version=version)

    def __call__(self, texts: Sequence[str]) -> Cuts:
        return Cuts.of(texts, ([found.span() for found in re.finditer(r"[^ @]+", text)] for text in texts))


def unopened(language: str) -> Cut:
    raise AssertionError(language)


@pytest.fixture
def others(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Registers tokenizers beside ours."""

    def register(**tokenizers: Tokenizer) -> None:
        registered: Registry[Tokenizer] = Registry(Group.TOKENIZERS, OWN | tokenizers, TOKENIZERS.wrong)
        monkeypatch.setattr(registry, "TOKENIZERS", registered)
        registry._loaded.cache_clear()

    yield register
    registry._loaded.cache_clear()


def test_a_name_gets_the_version_that_is_here_and_a_version_stays(others: Callable[..., None]) -> None:
    others(blanks=Blanks("7").entry)
    assert pinned(None) == pinned("words") == f"words=={words.VERSION}"
    assert (pinned("blanks"), pinned("blanks==3"), pinned("nowhere==3")) == ("blanks==7", "blanks==3", "nowhere==3")


def test_what_is_not_here_is_one_line_with_what_to_do(others: Callable[..., None]) -> None:
    lost = Tokenizer(unopened, "", library="nowhere-to-be-found", install="concord[nowhere]")
    others(blanks=Blanks("7").entry, lost=lost, numpy=Tokenizer(unopened, "", library="numpy"))
    for name, said in {
        "blank": "no tokenizer is called 'blank'; did you mean 'blanks'? there are words, spacy, blanks, lost, numpy; "
        "install the package that has it",
        "lost": "tokenizer lost: nowhere-to-be-found is not installed; pip install 'concord[nowhere]'",
        "lost==1": "tokenizer lost: nowhere-to-be-found is not installed; pip install 'concord[nowhere]'",
        "blanks==6": "tokenizer blanks: version 6 is wanted, and 7 is here; install the release of concord that has it,"
        " or cut with this one: --tokenizer blanks",
        "numpy==0.1": f"tokenizer numpy: version 0.1 is wanted, and {np.__version__} is here; pip install "
        "'numpy==0.1', or cut with this one: --tokenizer numpy",
    }.items():
        with pytest.raises(TokenizerError) as raised:
            load_tokenizer(TextSettings(tokenizer=name))
        assert str(raised.value) == said
    for wrong in ("", "a b", "a==", "==1", "a=1"):
        with pytest.raises(ValidationError, match="tokenizer"):
            TextSettings(tokenizer=wrong)


def test_a_text_without_a_word_is_a_reject(others: Callable[..., None]) -> None:
    others(blanks=Blanks("7").entry)
    with pytest.raises(DocumentError, match=r"'b'.*finds no word in it"):
        batch_from_texts(["a", "b"], ["a", "@ @"], TextSettings(tokenizer="blanks"))


def made(folder: Path) -> Path:
    """A model of the corpus in a folder; MLflow is told nothing."""
    request = TrainJob(
        corpus=str(folder / "corpus"),
        out=str(folder / "model"),
        trainer="hmm",
        settings=HmmSettings(),
        consistency=False,
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(concord.flows.training.train_model, "Tracking", untracked([]))
        train_model(request)
    return folder / "model"


ABSTRACTS = "".join(
    f"{n}|t|Ada took zinc-oxide daily.\n{n}|a|None.\n{n}\t9\t19\tzinc-oxide\tChemical\n\n" for n in range(9)
)


@pytest.fixture
def trained(tmp_path: Path, others: Callable[..., None]) -> Path:
    """A model of abstracts that were cut at blanks alone, beside its corpus."""
    others(blanks=Blanks("7").entry)
    (tmp_path / "a.txt").write_text(ABSTRACTS)
    settings = PubtatorSettings(tokenizer="blanks", split_hyphens=False)
    assert ingest("pubtator", tmp_path / "a.txt", tmp_path / "corpus", settings=settings).rejected == 0
    return made(tmp_path)


def test_a_corpus_and_a_model_state_what_cut_them_and_texts_are_cut_by_it(
    trained: Path, others: Callable[..., None]
) -> None:
    assert tokenizer_of(plan(str(trained.parent / "corpus"))) == "blanks==7"
    assert parse_manifest(trained / MANIFEST).tokenizer == "blanks==7"
    text = "Ada (didn't) run."
    assert open_labeller(str(trained))(text).tokens == ("Ada", "(didn't)", "run.")
    assert concord.load(trained, tokenizer="words").label(text).tokens == ("Ada", "(", "did", "n't", ")", "run", ".")
    others(blanks=Blanks("8").entry)
    said = call("label", "--model", str(trained), text, code=Exit.INPUT).stderr
    assert said.startswith("concord: tokenizer blanks: version 7 is wanted, and 8 is here; install")
    shown = call("label", "--model", str(trained), "--tokenizer", "blanks", "--json", text).stdout
    assert json.loads(shown)["tokens"] == ["Ada", "(didn't)", "run."]
    others()
    said = call("label", "--model", str(trained), text, code=Exit.INPUT).stderr
    assert said.startswith("concord: no tokenizer is called 'blanks'; there are words, spacy; install the package")


def test_a_runs_key_names_the_tokenizer_and_its_version(trained: Path, tmp_path: Path) -> None:
    opened = open_model(str(trained))
    assert cutting_of(opened, TextSettings()).tokenizer == "blanks==7"
    assert cutting_of(opened, TextSettings(tokenizer="words")).tokenizer == f"words=={words.VERSION}"
    assert cutting_of(opened, TextSettings(tokenizer="blanks==6")).tokenizer == "blanks==6"
    for asked, wanted in ((None, "blanks==7"), ("words", f"words=={words.VERSION}")):
        settings = RunSettings(text=TextSettings(tokenizer=asked))
        run = Labelling(corpus=str(trained.parent / "corpus"), model=str(trained), out="out", settings=settings)
        assert LabelJob.of(run, FolderStorage(tmp_path)).key.settings.text.tokenizer == wanted


def test_a_model_of_a_corpus_of_tokens_states_the_default(tmp_path: Path) -> None:
    concord.synthesize(tmp_path / "corpus", documents=5)
    assert tokenizer_of(plan(str(tmp_path / "corpus"))) is None
    made(tmp_path)
    assert parse_manifest(tmp_path / "model" / MANIFEST).tokenizer == f"words=={words.VERSION}"


def test_a_corpus_that_two_have_cut_is_refused(tmp_path: Path, others: Callable[..., None]) -> None:
    others(blanks=Blanks("7").entry)
    (tmp_path / "corpus").mkdir()
    for number, name in enumerate(("blanks", "words")):
        source = tmp_path / f"{name}.txt"
        source.write_text("Ada ran.")
        ingest("text", source, tmp_path / name, settings=TextReaderSettings(tokenizer=name))
        (tmp_path / name / "part-00000.parquet").rename(tmp_path / "corpus" / f"part-{number:05d}.parquet")
    with pytest.raises(CorpusError, match=r"was cut by blanks==7 and .*part-00001\.parquet by words==1; ingest both"):
        tokenizer_of(plan(str(tmp_path / "corpus")))


def test_without_spacy_all_but_its_tokenizer_is_there(tmp_path: Path) -> None:
    concord.synthesize(tmp_path / "corpus", documents=5)
    model = made(tmp_path)
    script = f"""
import importlib.metadata as metadata, sys
version = metadata.version
def missing(name):
    if name == "spacy":
        raise metadata.PackageNotFoundError(name)
    return version(name)
metadata.version = missing
sys.modules["spacy"] = None
import concord
print(concord.load({str(model)!r}).label("Ada isn't here.").tokens)
from concord.flows.cli.app import app
app(["label", "--model", {str(model)!r}, "--tokenizer", "spacy", "Ada ran."])
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.stdout.strip().splitlines()[-1] == str(("Ada", "is", "n't", "here", "."))
    assert done.returncode == Exit.INPUT
    said = "concord: tokenizer spacy: spacy is not installed; pip install 'concord-nlp[spacy]'\n"
    assert done.stderr.endswith(said)
