"""Pages beside tutorials and those of `test_readme.py`: every command runs on made-up files, as it stands."""

from __future__ import annotations

import gzip
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pycrfsuite
import pytest
from pyarrow import csv
from scipy.special import log_softmax

from concord.schemas.columns import table_from_documents
from concord.schemas.document import Document
from concord.schemas.labels import LabelSet
from concord.workers.synthesis.made_up import synthesize
from tests.integration.conftest import World
from tests.support.made_files import conll
from tests.support.made_pages import viewer_of

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
BASH = re.compile(r"^```bash\n(.*?)^```$", re.MULTILINE | re.DOTALL)

FOLLOWED = ("rerun", "schedule", "cluster", "tracking", "operations")
"""Pages that `test_readme.py` follows."""

PAGES = (
    "readers",
    "confidence",
    "review",
    "corrections",
    "why",
    "n-best",
    "engines",
    "measures",
    "report",
    "table",
    "export",
    "figures-too-low",
    "models",
    "layers",
    "adopt",
    "sweeps",
    "clusters",
    "features",
    "tuning",
    "vectors",
    "gazetteers",
    "ensembles",
    "bilou",
    "pairs",
    "few-labels",
    "perceptron",
    "segments",
    "memory",
)
"""In this order: the first makes corpora, and the last ones train other models of the name that all others use."""

TRAINING = 10
"""Documents to train on."""

BEFORE = {
    "readers": ("concord train --corpus corpora/all/ --features core --out models/news/",),
    "confidence": ("concord train --corpus corpora/train/ --out models/news/",),
    "corrections": ("concord train --corpus corpora/train/ --out models/first/",),
    "measures": tuple(
        f"concord reprocess --corpus corpora/testa/ --model models/news/ --engine {engine} --out {out}"
        for engine, out in (("certify", "out/"), ("viterbi", "out-viterbi/"))
    ),
}
"""What a page rests on beside its own commands, as the README makes it."""

FILE = re.compile(r"^```yaml\n# (\S+\.yaml)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
"""A file that a page shows, under its name."""

ELSEWHERE = {
    "install": "see `test_installing.py`",
    "spacy": "needs a pipeline of spaCy's, which is downloaded",
    "onnx": "needs the extra onnx and a network, see `tests/test_onnx_model.py`",
}
"""Pages whose commands are not run here, and why."""

FEATURES = """
def tokenize(text):
    return text.split()

def tokens2features(tokens):
    return [{"word": token, "digit": token.isdigit()} for token in tokens]
"""


def commands(page: str) -> Iterator[list[str]]:
    """The words of each command, with what a shell would do to quotes and lines that go on; comments are left out."""
    for block in BASH.findall((ROOT / "docs" / f"{page}.md").read_text()):
        for line in block.replace("\\\n", " ").splitlines():
            if words := shlex.split(line, comments=True):
                yield words


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files that the pages name."""
    folder = tmp_path_factory.mktemp("shelf")
    made = list(synthesize(TRAINING + 8, seed=5, kind="news"))
    _columns(folder, made)
    _others(folder)
    # Clusters want thousands of words.
    rare = [" ".join(" ".join([_word(word)] * 5) for word in range(i, 1100, len(made))) for i in range(len(made))]
    texts = {
        "doc_id": [d.doc_id for d in made],
        "text": [f"{' '.join(d.tokens)} {more}" for d, more in zip(made, rare, strict=True)],
    }
    (folder / "novels").mkdir()
    pq.write_table(pa.table(texts), folder / "novels" / "n.parquet")
    _vectors(folder, [*sorted({word for document in made for word in document.tokens}), *map(_word, range(3000))])
    _tagger(folder, made)
    _answers(folder, made)
    _corpora(folder, made)
    _corrections(folder, made[-1])
    return folder


def _corpora(folder: Path, made: list[Document]) -> None:
    """Corpora that no page makes, some of them with the scores of another tagger."""
    labels = sorted({label for document in made for label in document.labels.strings()})  # type: ignore[union-attr]
    (folder / "labels.txt").write_text("\n".join(labels) + "\n")
    parts = {"all": made, "dev": made[-2:], "gold": made[:6], "testa": made[TRAINING:], "held-out": made[TRAINING:]}
    rng = np.random.default_rng(0)
    for name, documents in parts.items():
        table = table_from_documents(documents)
        scores = [_scores(document, labels, rng) for document in documents]
        (folder / "corpora" / name).mkdir(parents=True)
        table = table.append_column("scores", pa.array(scores)).append_column("chunk", table["pos"])
        pq.write_table(table, folder / "corpora" / name / "a.parquet")
    (folder / "addresses").mkdir()
    pq.write_table(pa.table({"doc_id": ["a"], "text": ["12 Main St"]}), folder / "addresses" / "a.parquet")


def _corrections(folder: Path, document: Document) -> None:
    """A correction of a document, and the list of documents that were read whole."""
    row = {"doc_id": document.doc_id, "start": 0, "end": 1, "type": None}
    (folder / "corrections.jsonl").write_text(json.dumps(row) + "\n")
    (folder / "read.txt").write_text(f"{document.doc_id}\n")


def _answer_tasks(folder: Path, file: str) -> None:
    """What somebody gives back who finds each task right."""
    if file.endswith(".json"):
        page = viewer_of((folder / "review.html").read_bytes())
        right = {"verdict": "right", "right_type": None, "no_entity": False}
        answers = [{"task": one["task"], **right} for one in page["questions"]]
        (folder / file).write_text(json.dumps({"run": page["run"], "by": "", "answers": answers}))
    else:
        table = csv.read_csv(folder / "tasks.csv")
        rights = pa.array(["right"] * len(table))
        csv.write_csv(table.set_column(table.column_names.index("verdict"), "verdict", rights), folder / file)


def _word(number: int) -> str:
    """A word of letters alone: words that differ in digits count as one."""
    return "".join(chr(ord("a") + number // 26**place % 26) for place in range(3)) + "um"


def _columns(folder: Path, made: list[Document]) -> None:
    """Column files: each word with more or fewer columns beside it."""
    text = conll(made[:TRAINING])
    (folder / "eng.train").write_text(text)
    (folder / "eng.testa").write_text(conll(made[TRAINING:]))
    rows = [line.split() for line in text.splitlines()]
    for name, places, between in (
        ("deu.train", (0, 0, 1, 2, 3), " "),
        ("ned.train", (0, 1, 3), " "),
        ("esp.train", (0, 3), " "),
        ("train.txt", (0, 1, 3), " "),
        ("wnut17train.conll", (0, 3), "\t"),
    ):
        kept = [row for row in rows if row[:1] != ["-DOCSTART-"]] if name not in ("deu.train", "ned.train") else rows
        lines = [between.join(row[place] for place in places) if row else "" for row in kept]
        (folder / name).write_text("\n".join(lines) + "\n", encoding="latin-1" if name[:3] in NORTHERN else "utf-8")


def _scores(document: Document, labels: list[str], rng: np.random.Generator) -> list[list[float]]:
    """(N, L) log-probabilities by chance, those of gold higher."""
    assert document.labels is not None
    gold = np.array([[label == name for name in labels] for label in document.labels.strings()])
    scores: list[list[float]] = log_softmax(rng.normal(size=gold.shape) + 2.0 * gold, axis=1).tolist()
    return scores


NORTHERN = ("deu", "ned", "esp")


def _others(folder: Path) -> None:
    """Files of the formats that are no columns of words and labels."""
    citation = "B.\tauthor\tf\nRain\ttitle\tf|g\n\nOslo\tplace\tf\n"
    (folder / "citation_train.300.txt").write_text(citation)
    (folder / "citation_unlabeled.txt").write_text(citation)
    (folder / "training.docs.parsed").write_text("B. d d B-who/U-last\n, d d I-who\n\nOslo d d B-venue/U-place\n")
    (folder / "us50.train.tagged").write_text("12 |1\nRose Lane, |3\nBergen, |5\n\nHill Street, |3\nOslo, |5\n")
    (folder / "seminars").mkdir()
    (folder / "seminars" / "a.txt").write_text("Who: <speaker>Ann Lee</speaker>\n\nAt <stime>3:30</stime> in Oslo.\n")
    abstract = "1|t|Salt and rain.\n1|a|Salt rusts iron.\n1\t0\t4\tSalt\tChemical\tD1\n\n"
    (folder / "CDR_TrainingSet.PubTator.txt").write_text(abstract)
    (folder / "places.tsv").write_text("London\tplace\nNew York\tplace\n")
    spans = '{"text": "Ann left Oslo.", "label": [[0, 3, "PER"], [9, 13, "LOC"]]}\n'
    (folder / "export.jsonl").write_text(spans)
    (folder / "brat").mkdir()
    (folder / "brat" / "a.txt").write_text("Ann left Oslo.\n")
    (folder / "brat" / "a.ann").write_text("T1\tPER 0 3\tAnn\n")
    (folder / "core.xml").write_text("<dataset><sequence><author>Lee</author><title>Rain</title></sequence></dataset>")
    (folder / "tei").mkdir()
    tei = "<TEI><bibl><author>Lee</author>, <title level='j'>Rain</title></bibl></TEI>"
    (folder / "tei" / "a.tei.xml").write_text(tei)
    word = "1\tAnn\tAnn\tPROPN\t_\t_\t0\troot\t_\tNER=B-PER\n"
    (folder / "fr-ud-train.conllu").write_text(f"# newdoc id = d1\n{word}")
    (folder / "ner.tsv").write_text("word\tlabel\n# id = 1\nAnn\tB-PER\nran\tO\n")
    (folder / "tickets.csv").write_text('number,body\n7,"Ann ran, so."\n')
    (folder / "conll2003").mkdir()
    rows = {"id": ["1"], "tokens": [["Ann", "ran"]], "ner_tags": [["B-PER", "O"]]}
    pq.write_table(pa.table(rows), folder / "conll2003" / "a.parquet")
    people = pa.table({"phrase": ["Ada Lovelace", "Smith"], "type": ["person", "person"]})
    pq.write_table(people, folder / "people.parquet")
    rule = "constraints:\n- template: starts_with\n  labels: [O, B-PER, B-LOC, B-ORG, B-MISC]\n  weight: 2.0\n"
    (folder / "rules.yaml").write_text(rule)


def _vectors(folder: Path, words: list[str]) -> None:
    """Vectors of some words, as text and as a table beside an array, and a tree of them."""
    vectors = np.random.default_rng(0).normal(size=(len(words), 4)).astype(np.float32)
    lines = (f"{word} {' '.join(map(str, row))}" for word, row in zip(words, vectors.tolist(), strict=True))
    text = "\n".join(lines) + "\n"
    for name in ("glove.6B.50d.txt", "cc.nl.300.vec"):
        (folder / name).write_text(text)
    tree = {word: number for number, word in enumerate(words, 1)}
    (folder / "en_lexeme_cluster.json.gz").write_bytes(gzip.compress(json.dumps(tree).encode()))
    np.save(folder / "vectors.npy", vectors)
    pq.write_table(pa.table({"word": words}), folder / "index.parquet")


def _tagger(folder: Path, made: list[Document]) -> None:
    """A tagger of another package: a CRFsuite model and the functions that its words go through."""
    (folder / "usaddress.py").write_text(FEATURES)
    trainer = pycrfsuite.Trainer(verbose=False)
    for document in made[:5]:
        assert document.labels is not None
        items = [{"word": word, "digit": word.isdigit()} for word in document.tokens]
        trainer.append(pycrfsuite.ItemSequence(items), document.labels.strings())
    trainer.set_params({"max_iterations": 3})
    trainer.train(str(folder / "usaddr.crfsuite"))


def _answers(folder: Path, made: list[Document]) -> None:
    """Answers of two taggers: one finds every second entity, the other calls all of them names.

    And candidates with scores, of which each has a rival; and two runs of one tagger, which differ.
    """
    runs = ("runs/first.jsonl", "runs/second.jsonl")
    files: dict[str, list[str]] = {name: [] for name in ("answers.jsonl", "others.jsonl", "low.jsonl", *runs)}
    (folder / "runs").mkdir()
    for document in made:
        assert document.labels is not None
        labels = LabelSet.infer(document.labels.strings())
        words = document.tokens
        starts = np.cumsum([0, *(len(word) + 1 for word in words)]).tolist()
        found = labels.spans(labels.encode(document.labels.strings()), document.sentence_starts)
        spans = [
            [starts[start], starts[end] - 1, labels.types[kind]]
            for start, end, kind in zip(found.start.tolist(), found.end.tolist(), found.type.tolist(), strict=True)
        ]
        text = " ".join(words)
        names = {"name": sorted({text[start:end] for start, end, _ in spans})}
        for name, entities in (("answers.jsonl", spans[::2]), ("others.jsonl", names)):
            files[name].append(json.dumps({"id": document.doc_id, "text": text, "entities": entities}))
        scored = [
            {"start": start, "end": end, "label": label, "score": score}
            for start, end, kind in spans
            for label, score in ((kind, 0.6), ("rival", 0.3))
        ]
        for name, found_then in (("low.jsonl", scored), (runs[0], scored[::2]), (runs[1], scored[::3])):
            files[name].append(json.dumps({"id": document.doc_id, "text": text, "spans": found_then}))
    (folder / "prompt.txt").write_text("Find all names.")
    for name, lines in files.items():
        (folder / name).write_text("\n".join(lines))


def test_every_page_with_commands_is_here_or_says_why() -> None:
    found = {path.stem for path in (ROOT / "docs").glob("*.md") if any("concord" in w[0] for w in commands(path.stem))}
    assert found - {*FOLLOWED} <= {*PAGES, *ELSEWHERE}
    assert all(any(commands(page)) for page in PAGES)


AS_PROCESSES = {"confidence"}
"""Pages whose commands start a process each, as for a user: a training and runs."""

LONG = {*PAGES[PAGES.index("clusters") :]}
"""Pages that take minutes together: each command trains a model, some of them dozens."""


@pytest.mark.parametrize("page", PAGES)
def test_every_command_of_a_page_runs(page: str, shelf: Path, world: World) -> None:
    if page in LONG and "CONCORD_LONG_PAGES" not in os.environ:
        pytest.skip("takes minutes; set CONCORD_LONG_PAGES=1")
    env = world.quick().env
    env |= {"CONCORD_HOME": str(shelf / "home"), "PYTHONPATH": f"{shelf}:{ROOT}"}
    env["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    if page not in AS_PROCESSES:
        env = replace(world, env=env).served().env
    for name, text in FILE.findall((ROOT / "docs" / f"{page}.md").read_text()):
        (shelf / name).write_text(text)
    for words in [*map(shlex.split, BEFORE.get(page, ())), *commands(page)]:
        if words[0] == "export":
            name, _, value = words[1].partition("=")
            env[name] = value
            if name == "CONCORD_TRUST":
                del env["RAY_ADDRESS"]  # the cluster's workers do not have the package of the tagger
            continue
        if words[1:3] == ["review", "answers"]:
            _answer_tasks(shelf, words[3])
        if words[1] == "reprocess":  # a folder is of one corpus and one model
            shutil.rmtree(shelf / words[words.index("--out") + 1], ignore_errors=True)
        done = subprocess.run(words, cwd=shelf, env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"$ {shlex.join(words)}\n{done.stdout}\n{done.stderr}"
