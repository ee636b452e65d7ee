"""What users meet who call concord from Python: their own words in errors, ids of any type, tables in memory."""

from __future__ import annotations

import datetime
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import concord
import concord.flows.commands.adopting
import concord.flows.commands.why
import concord.flows.reprocess
import concord.flows.train
from concord.flows.commands.adopting import AnswerSource
from concord.flows.inputs.frames import place_of_corpus
from concord.flows.inputs.in_python import in_python
from concord.labelling import Labeller
from concord.schemas.adopting import OF_ENGINES, OF_MODELS
from concord.schemas.document import Document
from concord.schemas.errors import CorpusError, InputError, UsageError
from concord.schemas.requests import LabelRequest
from concord.schemas.settings import TextSettings, fields_within
from concord.workers.corpus.ingestion import write_corpus
from concord.workers.corpus.plan import plan
from concord.workers.corpus.readers.registry import READERS
from concord.workers.corpus.shards import read_batch, read_ids
from concord.workers.learning.trainers import hmm
from concord.workers.models.settings import HmmSettings
from concord.workers.synthesis.made_up import synthesize
from tests.support.runs_here import label, stay_here

REPROCESS = inspect.signature(concord.reprocess).parameters.keys()


@pytest.mark.parametrize(
    ("told", "wanted"),
    [
        ("name the one of document ids with --id-column", "name the one of document ids with id_column"),
        ("give --text-column NAME", "give text_column=NAME"),
        ("leave it out, or use --no-consistency", "leave it out, or use consistency=False"),
        ("with --set sweeps=100 it ends", "with options={'sweeps': '100'} it ends"),
        ("--overwrite is of another command", "--overwrite is of another command"),
        ("`concord ingest x --text-column NAME --out F` does", "`concord ingest x --text-column NAME --out F` does"),
        ("`a` or --text-column NAME; `concord a --set b=c`", "`a` or text_column=NAME; `concord a --set b=c`"),
    ],
)
def test_options_are_told_as_parameters(told: str, wanted: str) -> None:
    assert in_python(told, REPROCESS) == wanted


def test_errors_name_parameters(tmp_path: Path) -> None:
    pq.write_table(pa.table({"key": ["a"], "text": ["Ada wrote."]}), tmp_path / "c.parquet")
    hmm.train(list(synthesize(4, seed=1, kind="news")), settings=HmmSettings(), out=tmp_path / "model")
    with pytest.raises(InputError, match=r"name the one of document ids with id_column$"):
        concord.reprocess(tmp_path / "c.parquet", model=tmp_path / "model", out=tmp_path / "out", workers=1)


OTHERS: dict[str, Any] = {
    "engine": "gibbs",
    "options": {"sweeps": 5},
    "seed": 3,
    "work": 7,
    "seconds": 2.5,
    "on_infeasible": "reject",
    "relaxed_weight": 9.0,
    "id_column": "i",
    "text_column": "t",
    "language": "de",
    "tokenizer": "words",
    "sentence_limit": 9,
    "split_hyphens": True,
    "keep_columns": ["a", "b"],
    "certificates": True,
    "errors_of": "viterbi",
    "confidence": "margin",
    "margin_work": 8,
    "n_best": 4,
    "n_best_work": 6,
    "certificate_nodes": 5,
    "settle": True,
    "constraints": [Path("r.yaml")],
    "consistency": False,
    "only": ["a"],
    "corrections": "c.jsonl",
    "shard_bytes": 5,
    "table": "delta",
    "fail_on_drift": True,
    "allow_gone": True,
    "allow_again": True,
    "report": True,
    "ray": "local",
    "workers": 1,
    "tracking": "x",
}
"""A value of each option that is not its default."""


def test_every_field_of_a_request_is_a_parameter_and_reaches_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new option of runs is one field: no list of them is written by hand."""
    asked: list[LabelRequest] = []
    monkeypatch.setattr(concord.flows.reprocess, "reprocess", asked.append)
    fields = {field.path[-1]: field for field in fields_within(LabelRequest)}
    assert len(fields) == len(list(fields_within(LabelRequest))), "a name has one meaning"
    assert set(fields) == set(REPROCESS)
    places: dict[str, Any] = {"corpus": tmp_path / "c", "model": tmp_path / "m", "out": str(tmp_path / "o")}
    assert set(OTHERS) == set(fields) - set(places)
    for name, other in OTHERS.items():
        concord.reprocess(**places | {name: other})
        value: Any = asked[-1]
        for step in fields[name].path:
            value = getattr(value, step)
        assert value != fields[name].default, name
        assert str(value) == str(tuple(map(str, other)) if isinstance(other, list) else other), name
        concord.reprocess(**places | {name: None})
        assert asked[-1] == LabelRequest(**{place: str(path) for place, path in places.items()}), "None is the default"
    assert (asked[-1].corpus, asked[-1].model) == (str(tmp_path / "c"), str(tmp_path / "m"))
    concord.reprocess(pa.table({"doc_id": ["a"], "text": ["b"]}), model="m", out=tmp_path / "o")
    assert asked[-1].corpus == str(tmp_path / "o-corpus")
    with pytest.raises(UsageError, match="seed"):
        concord.reprocess(pa.table({"doc_id": ["a"]}), model="m", out=tmp_path / "wrong", seed=-1)
    assert not (tmp_path / "wrong-corpus").exists(), "nothing is written before all options are right"


ANSWERS: dict[str, tuple[Any, Any]] = {
    "answers": ("b", "b"),
    "form": ("brat", "brat"),
    "program": ("other", "other"),
    "version": ("2", "2"),
    "prompt": (Path("p.txt"), "p.txt"),
    "names": ({"COMPANY": "ORG", "DATE": "O"}, ["COMPANY=ORG", "DATE=O"]),
    "options": ({"spans_key": "ents", "split_hyphens": True}, ['spans_key="ents"', "split_hyphens=true"]),
}
"""A value of each parameter that names answers, and how it comes, in the order of `AnswerSource`."""


def test_what_adopt_asks_for_are_the_answers_and_the_options_of_a_run_without_a_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[AnswerSource, LabelRequest]] = []
    monkeypatch.setattr(concord.flows.commands.adopting, "adopt", lambda *given: asked.append(given))
    fields = {field.path[-1]: field for field in fields_within(LabelRequest)}
    of_runs = {name for name, field in fields.items() if ".".join(field.path) not in (*OF_MODELS, *OF_ENGINES)}
    assert set(inspect.signature(concord.adopt).parameters) == of_runs | set(ANSWERS)
    assert len(ANSWERS) == len(AnswerSource._fields)
    given: dict[str, Any] = {"answers": "a", "program": "p", "corpus": tmp_path / "c", "out": tmp_path / "o"}
    for place, (name, (value, comes)) in enumerate(ANSWERS.items()):
        concord.adopt(**given | {name: value})
        assert asked[-1][0][place] == comes, name
    for name in of_runs - set(given):
        concord.adopt(**given | {name: OTHERS[name]})
        value = asked[-1][1]
        for step in fields[name].path:
            value = getattr(value, step)
        assert str(value) == str(tuple(OTHERS[name]) if isinstance(OTHERS[name], list) else OTHERS[name]), name
    assert (asked[-1][1].corpus, asked[-1][1].out) == (str(tmp_path / "c"), str(tmp_path / "o"))
    with pytest.raises(UsageError, match="engine"):
        concord.adopt(**given, engine="gibbs")


@pytest.mark.parametrize(
    "texts",
    [["a b", "c"], pd.Series(["a"]), pd.DataFrame({"text": ["a"]}), b"a", None],
    ids=lambda one: type(one).__name__,
)
def test_what_is_no_text_is_told_by_the_method_that_takes_it(texts: Any, tmp_path: Path) -> None:
    hmm.train(list(synthesize(4, seed=1, kind="news")), settings=HmmSettings(), out=tmp_path / "model")
    with pytest.raises(UsageError, match=rf"not a {type(texts).__name__}; `label_many` takes many texts"):
        concord.load(tmp_path / "model").label(texts)
    with pytest.raises(UsageError, match=rf"not a {type(texts).__name__}; `label_many` takes many texts"):
        concord.load(tmp_path / "model").explain(texts)


WORDS: list[tuple[str, Any, str]] = [
    ("label_many", pd.DataFrame({"text": ["Ann left."]}), "texts: want a list, .* not a DataFrame"),
    ("label_many", pa.table({"text": ["Ann left."]}), "texts: want a list, .* not a Table"),
    ("label_many", {"1": "Ann left."}, "texts: want a list, .* not a dict"),
    ("label_many", "Ann left.", "texts: want a list, .* not a str"),
    ("label_many", None, "texts: want a list, .* not a NoneType"),
    ("label_tokens", ["Ann met", "Bob"], "tokens: want a list of words for each sentence, not 'Ann met'"),
    ("label_tokens", [{"Ann": 1}], "tokens: want a list of words for each sentence, not {'Ann': 1}"),
    ("label_tokens", "Ann met", "tokens: want a list, .* not a str"),
    ("label_tokens", pd.DataFrame({"w": ["Ann"]}), "tokens: want a list, .* not a DataFrame"),
    ("label_tokens", [None], "tokens: want a list of words for each sentence, not None"),
    ("label_tokens", [["Ann", None]], "tokens: want a str for each word, not None"),
    ("label_tokens", [[1]], "tokens: want a str for each word, not 1"),
    ("label_tokens", [[["Ann"]]], r"tokens: want a str for each word, not \['Ann'\]"),
    ("explain_tokens", ["Ann met", "Bob"], "tokens: want a list of words for each sentence, not 'Ann met'"),
    ("label_document", Document.build("a", [[1]]), "tokens: want a str for each word, not 1"),  # type: ignore[list-item]
]
"""What is no text or no words, by the method that is given it, and what it says."""


@pytest.mark.parametrize(("method", "given", "told"), WORDS, ids=lambda one: one if isinstance(one, str) else "")
def test_what_holds_no_texts_or_words_is_one_line(method: str, given: Any, told: str, labeller: Labeller) -> None:
    with pytest.raises(UsageError, match=f"^{told}") as caught:
        list(getattr(labeller, method)(given))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("kind", [list, tuple, np.array, pd.Series, iter], ids=lambda kind: kind.__name__)
def test_texts_and_words_may_be_in_any_list(kind: Any, labeller: Labeller) -> None:
    assert [one.tokens for one in labeller.label_many(kind(["Ann left.", "Bob."]))] == [
        ("Ann", "left", "."),
        ("Bob", "."),
    ]
    if kind is not iter:
        assert labeller.label_tokens([kind(["Ann", "left"])]).tokens == ("Ann", "left")
        assert labeller.label_tokens(iter([kind(["Ann", "left"])])).tokens == ("Ann", "left")  # type: ignore[arg-type]


@pytest.mark.parametrize("doc_id", [7, np.int64(7), np.uint8(7), np.str_("7"), "7"], ids=lambda one: type(one).__name__)
def test_a_number_names_a_document_by_its_text(doc_id: Any, labeller: Labeller) -> None:
    many = labeller.label_many(["a.", "b."], doc_ids=[doc_id, 8])
    assert [one.doc_id for one in many] == ["7", "8"]
    document = Document.build(doc_id, [["Ann"]])
    for answer in (
        labeller.label("Ann.", doc_id=doc_id),
        labeller.label_tokens([["Ann"]], doc_id=doc_id),
        labeller.label_document(document),
    ):
        assert answer.doc_id == "7"
    assert labeller.explain("Ann.", doc_id=doc_id).doc_id == "7"


@pytest.mark.parametrize("doc_id", [1.0, None, True, b"7", ("a", 1)], ids=lambda one: type(one).__name__)
def test_what_names_no_document_is_one_line(doc_id: Any, labeller: Labeller) -> None:
    with pytest.raises(UsageError, match=rf"want a str or an int, not a {type(doc_id).__name__}$"):
        labeller.label("Ann.", doc_id=doc_id)
    with pytest.raises(UsageError, match="doc_ids: want a list"):
        labeller.label_many(["a.", "b."], doc_ids="ab")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    hmm.train(list(synthesize(4, seed=1, kind="news")), settings=HmmSettings(), out=folder)
    return folder


@pytest.fixture(scope="module")
def labeller(model: Path) -> Labeller:
    return concord.load(model)


@pytest.mark.parametrize(
    ("name", "value"), [("confidence", "margins"), ("n_best", -1), ("seed", -1), ("tokenizer", "")]
)
def test_a_wrong_option_of_load_is_one_line(name: str, value: Any) -> None:
    with pytest.raises(UsageError, match=name) as caught:
        concord.load("nowhere", **{name: value})
    assert "\n" not in str(caught.value)
    assert "pydantic" not in str(caught.value)


RULES = "constraints:\n- {name: rule, template: starts_with, labels: [PER], weight: 1}\n"
DOORS: dict[str, Callable[..., Any]] = {
    "load": concord.load,
    "explain": lambda model, **given: concord.explain("Ann left.", model=model, **given),
    "reprocess": lambda model, **given: concord.reprocess(model, model=model, out=f"{model}-run", **given),
    "from_yaml": lambda _, constraints: concord.Constraints.from_yaml(constraints),
}
"""Functions that take files of constraints, as functions of a model's folder."""


@pytest.mark.parametrize("kind", [str, Path])
def test_one_path_is_one_file(
    kind: Any, labeller: Labeller, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "r.yaml").write_text(RULES)
    given = kind(tmp_path / "r.yaml")
    assert concord.load(model, constraints=given).constraints == (*labeller.constraints, "rule")
    assert [one.name for one in concord.explain("Ann.", model=model, constraints=given).effects][-1] == "rule"
    asked: list[Any] = []
    monkeypatch.setattr(concord.flows.reprocess, "reprocess", asked.append)
    monkeypatch.setattr(concord.flows.train, "train", asked.append)
    monkeypatch.setattr(concord.flows.commands.why, "why", lambda *_, moved, **__: asked.append(moved))
    concord.reprocess("c", model="m", out="o", constraints=given)
    concord.why("o", 7, constraints=given)
    assert [one.constraints for one in asked] == [(str(given),)] * 2
    concord.train("c", out="o", gazetteers=given, clusters=[given], passes=3)
    assert asked[-1].options == {"gazetteers": (str(given),), "clusters": (str(given),), "passes": 3}


@pytest.mark.parametrize("door", DOORS)
def test_a_file_that_is_not_there_is_one_line(door: str, model: Path) -> None:
    with pytest.raises(InputError, match=r"^nope\.yaml: No such file or directory; give a path that is there$"):
        DOORS[door](model, constraints="nope.yaml")


def test_a_file_in_the_place_of_a_model_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("{}")
    with pytest.raises(InputError, match=r"a\.jsonl/manifest\.json: Not a directory; a file stands where a folder"):
        concord.load(tmp_path / "a.jsonl")


def test_an_option_that_is_not_there_is_named_with_the_one_that_was_meant() -> None:
    with pytest.raises(UsageError, match="no option is called 'confidense'; did you mean 'confidence'"):
        concord.reprocess("c", model="m", out="o", confidense="margin")
    with pytest.raises(UsageError, match="n_best"):
        concord.reprocess("c", model="m", out="o", n_best=-1)
    with pytest.raises(TypeError, match="model"):
        concord.reprocess("c", out="o")


IDS: dict[str, list[Any]] = {
    "integers": [7, 8, 9],
    "dates": [datetime.date(2026, 1, day) for day in (1, 2, 3)],
    "times": [datetime.datetime(2026, 1, 1, hour) for hour in (1, 2, 3)],
}


@pytest.mark.parametrize("kind", IDS)
def test_ids_of_any_exact_type_are_text(kind: str, tmp_path: Path) -> None:
    texts = ["Ada wrote.", "Bob wrote.", "Cy wrote."]
    pq.write_table(pa.table({"key": IDS[kind], "text": texts}), tmp_path / "c.parquet", row_group_size=2)
    settings = TextSettings(id_column="key")
    wanted = pa.array(IDS[kind]).cast(pa.string()).to_pylist()
    shards = plan(tmp_path / "c.parquet", text=settings)
    assert [doc for shard in shards for doc in read_batch(shard, text=settings)[0].doc_ids] == wanted
    assert [doc for shard in shards for doc in read_ids(shard, text=settings)] == [one.encode() for one in wanted]
    entry = READERS["text"]
    read = list(entry.read(str(tmp_path / "c.parquet"), entry.settings(id_column="key")))  # type: ignore[call-arg]
    assert [document.doc_id for document in read if isinstance(document, Document)] == wanted


def test_fractions_are_no_ids(tmp_path: Path) -> None:
    pq.write_table(pa.table({"doc_id": [1.0], "text": ["Ada wrote."]}), tmp_path / "c.parquet")
    with pytest.raises(InputError, match="column 'doc_id' has type double, want string"):
        plan(tmp_path / "c.parquet", text=TextSettings())


def test_repeated_numbers_are_one_document(tmp_path: Path) -> None:
    pq.write_table(pa.table({"doc_id": [4, 5, 4], "text": ["Ada.", "Bob.", "Cy."]}), tmp_path / "c.parquet")
    read = [read_batch(shard) for shard in plan(tmp_path / "c.parquet", text=TextSettings())]
    assert [doc for batch, _ in read for doc in batch.doc_ids] == ["4", "5"]
    assert [reject.doc_id for _, rejects in read for reject in rejects] == ["4"]


def test_a_corpus_of_tokens_may_have_numbers_as_ids(tmp_path: Path) -> None:
    columns = {"doc_id": [11, 12], "tokens": [["Ada"], ["Bob"]], "sentence_starts": pa.array([[0], [0]])}
    pq.write_table(pa.table(columns), tmp_path / "c.parquet")
    ((batch, rejects),) = [read_batch(shard) for shard in plan(tmp_path / "c.parquet")]
    assert (batch.doc_ids, rejects) == (("11", "12"), [])


@pytest.mark.parametrize("kind", ["pandas", "arrow"])
def test_a_table_in_memory_is_a_corpus_beside_the_output(kind: str, tmp_path: Path) -> None:
    frame = pd.DataFrame({"doc_id": [1, 2], "text": ["Ada wrote.", "Bob wrote."]})
    given = frame if kind == "pandas" else pa.Table.from_pandas(frame)
    place = place_of_corpus(given, str(tmp_path / "out"))
    assert place == str(tmp_path / "out-corpus")
    first = plan(place, text=TextSettings())
    assert place_of_corpus(given, str(tmp_path / "out")) == place
    assert [shard.id for shard in plan(place, text=TextSettings())] == [shard.id for shard in first]
    with pytest.raises(UsageError, match="beside an output on a disk"):
        place_of_corpus(given, "s3://bucket/out")
    with pytest.raises(CorpusError, match="give columns of one type each"):
        place_of_corpus(pd.DataFrame({"doc_id": [1, "x"]}), str(tmp_path / "out"))


@pytest.mark.parametrize("name", ["tickets.csv", "tickets.jsonl"])
def test_a_file_of_another_kind_is_told_what_to_do(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text("id,text\n1,Ada wrote.\n")
    with pytest.raises(
        CorpusError, match=rf"{name}: a corpus is Parquet, and this is none; `concord ingest text .*{name} --text"
    ):
        plan(tmp_path / name)


def test_an_unknown_document_is_told_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stay_here(monkeypatch)
    documents = list(synthesize(3, seed=1, kind="news"))
    write_corpus(documents, tmp_path / "corpus", source="made up")
    label(tmp_path / "corpus", tmp_path / "out")
    run = concord.read_predictions(tmp_path / "out")
    assert run[documents[1].doc_id].tokens == documents[1].tokens
    with pytest.raises(KeyError) as told:
        run[documents[1].doc_id + "x"]
    assert isinstance(told.value, InputError)
    assert str(told.value).endswith(
        f"none of the 3 documents is called '{documents[1].doc_id}x'; did you mean '{documents[1].doc_id}'?"
    )
    (line,) = told.value._render_traceback_()
    assert line.startswith("UnknownDocumentError: ")
