"""Papers: their files, corpora, rows beside published figures, the page, and the whole of it without Ray."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from scipy.stats import ttest_1samp

import concord.flows.cluster.cluster
import concord.flows.sweeping.run_sweep
from concord.flows.errors import RunFolderError
from concord.flows.sweeping.errors import PapersFailedError
from concord.flows.sweeping.run_papers import HTML_PAGE, PAGE, run_papers
from concord.schemas.errors import CorpusError, UsageError
from concord.schemas.published import Lies, MeasuredRow, MeasuredTable, PapersReport, PublishedCorpus, PublishedRow
from concord.schemas.requests import PapersRequest
from concord.schemas.sweep import Cell, CellRow, CellState
from concord.workers.corpus.plan import plan
from concord.workers.corpus.shards import read_batch
from concord.workers.evaluation.bootstrap import bootstrap_interval, paired_bootstraps
from concord.workers.evaluation.figures import f1
from concord.workers.features.templates import feature_set
from concord.workers.published.made_corpora import DataFolders, MissingDataError, documents_in, made_corpus
from concord.workers.published.page import MADE_UP, UNEXPLAINED, html, markdown
from concord.workers.published.paper_file import SHIPPED, PaperFileError, papers_of, read_paper_file
from concord.workers.published.rows import lies, measured
from concord.workers.sweeps.results import CellResult, MeasureCounts, Store
from tests.support.in_process import Here

STAND_IN = {"kind": "news", "documents": 12, "seed": 2}
PLAIN: dict[str, Any] = {
    "paper": "Nobody (1999)",
    "corpora": {
        "train": {"reader": "conll", "source": "train.txt", "made_up": STAND_IN | {"documents": 24, "seed": 1}},
        "test": {"reader": "conll", "source": "test.txt", "made_up": STAND_IN},
    },
    "tables": {
        "1": {
            "title": "Viterbi and beams",
            "sweep": {
                "corpora": {"news": {"train": "train", "test": "test"}},
                "models": {"crf": {"trainer": "perceptron", "options": {"features": "core", "passes": 2}}},
                "engines": {"viterbi": {}, "beam": {"options": {"width": 4}}},
                "measures": ["spans"],
            },
            "rows": [
                {"name": "Viterbi", "cells": {"engine": "viterbi"}, "published": 50},
                {"name": "of places", "cells": {"engine": "viterbi"}, "of": "LOC", "published": 99.99},
                {"name": "beam", "cells": {"engine": "beam"}, "minus": {"engine": "viterbi"}, "published": 0},
                {"name": "theirs", "published": 12.5, "missing": "quoted from elsewhere"},
            ],
        },
        "2": {"title": "Nothing", "rows": [{"name": "gone", "published": 1, "missing": "no such corpus"}]},
    },
}


def written(folder: Path, content: Mapping[str, Any], name: str = "nobody.yaml") -> Path:
    path = folder / name
    path.write_text(yaml.safe_dump(dict(content), sort_keys=False))
    return path


def changed(*place: str | int, to: Any) -> dict[str, Any]:
    """`PLAIN` with another value at a place."""
    content: Any = yaml.safe_load(yaml.safe_dump(PLAIN, sort_keys=False))
    inner = content
    for part in place[:-1]:
        inner = inner[part]
    inner[place[-1]] = to
    return dict(content)


# Files


def test_the_papers_that_are_shipped_can_be_read_and_published_figures_are_fractions() -> None:
    names = papers_of("all")
    assert "finkel" in names
    assert papers_of("finkel") == ["finkel"]
    for name in names:
        file = read_paper_file(SHIPPED / f"{name}.yaml")
        for number, table in file.tables.items():
            for row in table.rows:
                assert row.published is None or -100.0 <= row.published <= 100.0, f"{name} {number} {row.name}"
                assert row.minimum is None or row.published is None or row.minimum <= row.published
    with pytest.raises(UsageError, match=r"no paper is called 'finkl'; did you mean 'finkel'\?"):
        papers_of("finkl")


ROWS = ("tables", "1", "rows")
SWEEP = ("tables", "1", "sweep")


LATTICE: dict[str, Any] = {
    "axis": "engine",
    "figures": {"F1": "spans.f1", "proven": "proven", "seconds": "cpu"},
    "against": "viterbi",
    "less": {"nats": "objective"},
    "notes": {"beam": "only some"},
}
PAIRED: dict[str, Any] = {
    "corpus": "test",
    "relation": "same",
    "types": ["PER", "LOC"],
    "published": {"PER": [5, 0], "LOC": [2]},
}


def latticed(**given: Any) -> dict[str, Any]:
    """`PLAIN` with a lattice in the place of rows."""
    content = changed("tables", "1", "lattice", to=LATTICE | given)
    del content["tables"]["1"]["rows"]
    return content


def paired(**given: Any) -> dict[str, Any]:
    """`PLAIN` with a table of pairs."""
    return changed("tables", "2", to={"title": "Pairs", "pairs": PAIRED | given})


@pytest.mark.parametrize(
    ("content", "at", "told"),
    [
        (changed("corpora", "train", "reader", to="conl"), "reader: conl", "no reader is called 'conl'"),
        (changed("corpora", "test", "made_up", "kind", to="novels"), "kind: novels", "no kind of corpus is called"),
        (changed("corpora", "train", "options", to={"colums": 1}), "colums: 1", "unknown key 'colums'"),
        (changed("corpora", "test", to={"reader": "conll"}), "test:", "key 'corpora.test.source' is missing"),
        (changed(*SWEEP, "corpora", "news", "test", to="tst"), "test: tst", "no corpus is called 'tst'; did you mean"),
        (changed(*SWEEP, "engines", to={"viterbi": {}, "beem": {}}), "beem: {}", "no engine is called 'beem'"),
        (changed(*SWEEP, "models", "crf", "trainer", to="sdg"), "trainer: sdg", "no trainer is called 'sdg'"),
        (changed(*ROWS, 0, "cells", to={"engin": "viterbi"}), "engin: viterbi", "no axis is called 'engin'"),
        (changed(*ROWS, 0, "cells", "engine", to="gibbs"), "cells:", "no cell of the sweep has engine gibbs"),
        (changed(*ROWS, 2, "minus", "engine", to="gibbs"), "minus:", "no cell of the sweep has engine gibbs"),
        (changed(*ROWS, 0, "figure", to="spans.f2"), "figure: spans.f2", "no figure is called 'f2'"),
        (changed(*ROWS, 0, "figure", to="span.f1"), "figure: span.f1", "no measure is called 'span'"),
        (
            changed(*ROWS, 0, "figure", to="spans.accuracy"),
            "figure: spans.acc",
            "measure spans has no figure 'accuracy'",
        ),
        (changed(*ROWS, 0, "figure", to="tokens.f1"), "figure: tokens.f1", "the sweep does not count 'tokens'"),
        (changed(*ROWS, 0, "published", to="high"), "published: high", "Input should be a valid number"),
        (changed(*ROWS, 3, "cells", to={"engine": "beam"}), "- name: theirs", "says with 'missing' why it has none"),
        (changed("tables", "2", "rows", 0, "missing", to=None), "'2':", "Input should be"),
        (changed("colour", to="red"), "colour: red", "unknown key 'colour'"),
        (changed(*ROWS, 2, "figure", to="cpu"), "- name: beam", "CPU seconds have no 'minus'; want 'over'"),
        (changed(*ROWS, 1, "over", to={"engine": "beam"}), "- name: of places", "'over' is of the figure cpu alone"),
        (changed("corpora", "train", "whole_with", to="tst"), "whole_with: tst", "no corpus is called 'tst'"),
        (changed("mined", to={"rules": {"corpus": "tst"}}), "corpus: tst", "no corpus is called 'tst'"),
        (
            changed("mined", to={"rules": {"corpus": "test", "kinds": ["onc"]}}),
            "- onc",
            "no kind of rules is called 'onc'",
        ),
        (
            changed(*SWEEP, "constraints", to={"rules": ["mined:ruls"]}),
            "rules:",
            "no set of mined rules is called 'ruls'",
        ),
        (changed("tables", "1", "lattice", to=LATTICE), "'1':", "rows beside a 'lattice' have a 'column'"),
        (latticed(axis="engin"), "axis: engin", "Input should be"),
        (latticed(against="gibs"), "lattice:", "no cell of the sweep has engine gibs"),
        (latticed(less={}), "lattice:", "want 'against', a value, and 'less'"),
        (latticed(less={"F1": "spans.f2"}), "F1: spans.f2", "no figure is called 'f2'"),
        (latticed(figures={"F1": "spans.f2"}), "F1: spans.f2", "no figure is called 'f2'"),
        (paired(corpus="tst"), "corpus: tst", "no corpus is called 'tst'"),
        (paired(published={"PER": [1, 2, 3]}), "pairs:", "counts of 'PER': want one for each of PER, LOC"),
    ],
)
def test_a_mistake_is_told_with_its_line(tmp_path: Path, content: dict[str, Any], at: str, told: str) -> None:
    if content["tables"]["2"].get("rows", [{"missing": ""}])[0]["missing"] is None:
        del content["tables"]["2"]["rows"][0]["missing"]
        told = "rows that are measured need a 'sweep'"
    path = written(tmp_path, content)
    with pytest.raises(PaperFileError) as caught:
        read_paper_file(path)
    (message,) = [one for one in str(caught.value).splitlines() if told in one]
    place, line, _ = message.split(":", 2)
    assert place == str(path)
    assert path.read_text().splitlines()[int(line) - 1].strip().startswith(at), message


PARTS = ("current-word", "previous-word", "next-word", "substrings", "current-shape", "surrounding-shapes")


@pytest.mark.parametrize(
    ("whole", "parts"),
    [
        ("finkel", (*PARTS, "windows-4", "current-tag", "surrounding-tags")),
        ("finkel-tf", (*PARTS, "windows-9")),
    ],
)
def test_the_features_that_an_ablation_leaves_out_are_all_of_finkels(whole: str, parts: Sequence[str]) -> None:
    joined = feature_set("+".join(f"finkel-{part}" for part in parts)).templates
    assert set(joined) == set(feature_set(whole).templates)
    assert len(joined) == len(set(joined))


# Corpora


def ids(place: Path) -> list[str]:
    return [document.doc_id for shard in plan(str(place)) for document in read_batch(shard)[0]]


def conll(folder: Path, documents: int) -> Path:
    conll_at(folder / "train.txt", documents)
    return folder


def conll_at(file: Path, documents: int) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(f"-DOCSTART- -X- O O\n\nAda{i} NNP I-NP I-PER\nwrote VBD I-VP O\n\n" for i in range(documents))
    file.write_text(text)


def made(corpus: PublishedCorpus, folder: Path, data: Path | None, test_parts: Path | None = None) -> Path:
    return made_corpus("train", {"train": corpus}, sources=DataFolders(data, test_parts), folder=folder)


def test_a_part_of_a_source_is_made_once(tmp_path: Path) -> None:
    data, folder = conll(tmp_path / "data", 5), tmp_path / "corpora"
    corpus = PublishedCorpus(reader="conll", source="train.txt")
    places = {
        name: made(corpus.model_copy(update=part), folder, data)
        for name, part in (("all", {}), ("last", {"last": 2}), ("others", {"without_last": 2}), ("more", {"last": 9}))
    }
    found = {name: ids(place) for name, place in places.items()}
    assert len(set(places.values())) == 4
    assert len(found["all"]) == 5
    assert (found["others"], found["last"], found["more"]) == (found["all"][:3], found["all"][3:], found["all"])
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*.parquet")}
    assert made(corpus, folder, data) == places["all"]
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*.parquet")} == before
    conll(data, 6)
    assert len(ids(made(corpus, folder, data))) == 6, "a source that has changed"


def test_each_sentence_can_be_a_document(tmp_path: Path) -> None:
    data = conll(tmp_path / "data", 2)
    (data / "train.txt").write_text((data / "train.txt").read_text() + "It NN I-NP O\n\n")
    corpus = PublishedCorpus(reader="conll", source="train.txt", sentences=True)
    (one, two, three) = documents_in(made(corpus, tmp_path / "corpora", data))
    assert [document.columns["tokens"].strings() for document in (one, two, three)] == [
        ["Ada0", "wrote"],
        ["Ada1", "wrote"],
        ["It"],
    ]
    assert one.doc_id.endswith("-0")
    assert three.doc_id == two.doc_id.removesuffix("0") + "1"
    assert one.labels is not None
    assert one.labels.strings() == ["B-PER", "O"]


@pytest.mark.parametrize("inner", ["", "news"])
def test_an_official_test_part_stands_in_the_place_of_a_development_part(tmp_path: Path, inner: str) -> None:
    data, official, folder = tmp_path / "data", tmp_path / "official", tmp_path / "corpora"
    conll_at(data / "news" / "train.txt", 5)
    conll_at(official / inner / "eng.testb", 3)
    corpora = {
        "train": PublishedCorpus(reader="conll", source="news/train.txt", without_last=2, whole_with="test"),
        "test": PublishedCorpus(reader="conll", source="news/train.txt", last=2, test_part=("test.txt", "eng.testb")),
    }
    for given, wanted in (
        (DataFolders(data), (3, 2)),
        (DataFolders(data, official), (5, 3)),
        (DataFolders(data, data), (3, 2)),
    ):
        places = [made_corpus(name, corpora, sources=given, folder=folder) for name in corpora]
        assert tuple(len(ids(place)) for place in places) == wanted
    told = DataFolders(data).origin("test", corpora["test"])
    assert told == (
        "test: news/train.txt, the last 2 documents, in place of the official test part (test.txt or eng.testb)."
    )
    assert DataFolders(data, official).origin("test", corpora["test"]) == "test: the official test part, eng.testb."


def test_data_that_are_not_there_are_told(tmp_path: Path) -> None:
    corpus = PublishedCorpus(reader="conll", source="train.txt")
    with pytest.raises(MissingDataError, match=r"train\.txt is not in the data folder"):
        made(corpus, tmp_path / "corpora", tmp_path)
    with pytest.raises(MissingDataError, match=r"no made-up corpus stands in for train\.txt"):
        made(corpus, tmp_path / "corpora", None)


# Rows


DOCUMENTS = 40
BASE, OTHER = {"engine": "viterbi"}, {"engine": "gibbs"}


class Made:
    """Results of cells that are made up, in a folder."""

    def __init__(self, folder: Path) -> None:
        self.store, self.cells = Store(folder), list[tuple[Cell, CellRow]]()
        self.store.make()

    def add(
        self, engine: str, table: Any, *, seed: int = 0, subset: int | None = None, nats: float = 0.0, cpu: float = 0.0
    ) -> None:
        """A cell with counts (D, K, 3) of K names, an objective for each document, and CPU seconds."""
        cell = Cell("news", None, "crf", None, subset, "none", engine, seed)
        key = f"{engine}{seed}-{subset}"
        names = ("LOC", "PER")[: table.shape[1]]
        zeros = np.zeros(len(table))
        result = CellResult(
            key,
            cell.name,
            tuple(f"d{i:03}" for i in range(len(table))),
            (MeasureCounts("spans", names, table),),
            *(zeros + nats, zeros, zeros, np.arange(len(zeros)) % 4 > 0),
            left_out=(),
            cpu_seconds=cpu,
            worker_cpu_seconds=0.0,
        )
        self.store.write(result, {})
        self.cells.append((cell, CellRow(name=cell.name, key=key, state=CellState.DONE)))

    def row(self, **given: Any) -> MeasuredRow:
        return measured(PublishedRow(name="a row", **given), self.cells, self.store)


def counts(seed: int, names: int = 2) -> Any:
    """Counts (D, K, 3): gold, predicted, correct."""
    rng = np.random.default_rng(seed)
    correct = rng.integers(0, 5, (DOCUMENTS, names))
    return np.stack(
        [correct + rng.integers(0, 3, correct.shape), correct + rng.integers(0, 3, correct.shape), correct], -1
    )


@pytest.mark.parametrize(
    ("published", "where"),
    [(1.9, Lies.BELOW), (2.0, Lies.INSIDE), (2.5, Lies.INSIDE), (3.0, Lies.INSIDE), (3.1, Lies.ABOVE), (None, None)],
)
def test_a_published_figure_lies_below_inside_or_above(published: float | None, where: Lies | None) -> None:
    assert lies(published, 2.0, 3.0) is where


def test_a_row_of_one_cell_is_its_figure_with_its_interval(tmp_path: Path) -> None:
    made, table = Made(tmp_path), counts(1)
    made.add("viterbi", table)
    row = made.row(cells=BASE, published=0.0)
    wanted = bootstrap_interval(table, f1, rng=np.random.default_rng(0), draws=1000)
    assert (row.measured, row.low, row.high) == pytest.approx(tuple(100 * x for x in wanted))
    assert (row.lies, row.runs, row.documents, row.measured_sd) == (Lies.BELOW, 1, DOCUMENTS, None)
    places = made.row(cells=BASE, of="PER")
    assert places.measured == pytest.approx(100 * float(f1(table[:, 1:].sum(axis=0))))
    assert places.lies is None


def test_over_seeds_there_are_mean_deviation_minimum_and_the_t_test(tmp_path: Path) -> None:
    made, tables = Made(tmp_path), [counts(seed) for seed in range(2)]
    made.add("viterbi", counts(7))
    for seed, table in enumerate(tables):
        made.add("gibbs", table, seed=seed)
    one, other = (100 * float(f1(table.sum(axis=0))) for table in tables)
    base = 100 * float(f1(counts(7).sum(axis=0)))
    row = made.row(cells=OTHER, published=50.0, sd=0.1, minimum=49.0)
    deviation = abs(one - other) / math.sqrt(2)
    assert row.measured == pytest.approx((one + other) / 2)
    assert (row.measured_sd, row.measured_minimum) == pytest.approx((deviation, min(one, other)))
    assert (row.runs, row.t_test, row.sd, row.minimum) == (2, None, 0.1, 49.0)
    gain = made.row(cells=OTHER, minus=BASE)
    assert gain.measured == pytest.approx((one + other) / 2 - base)
    assert gain.measured_minimum == pytest.approx(min(one, other) - base)
    # Of one degree of freedom, Student's distribution is Cauchy's.
    student = ((one + other) / 2 - base) / (deviation / math.sqrt(2))
    assert gain.t_test == pytest.approx(1.0 - 2.0 / math.pi * math.atan(abs(student)))


def test_draws_of_training_documents_are_paired_and_seeds_are_not(tmp_path: Path) -> None:
    """The spread of a difference is that within each draw, however much the draws differ."""
    made, values = Made(tmp_path), dict[tuple[str, int], float]()
    for subset in range(3):
        for engine, seed in (("viterbi", subset), ("gibbs", 10 + subset)):
            made.add(engine, counts(seed), subset=subset)
            values[engine, subset] = 100 * float(f1(counts(seed).sum(axis=0)))
    within = np.array([values["gibbs", subset] - values["viterbi", subset] for subset in range(3)])
    row = made.row(cells=OTHER, minus=BASE)
    assert row.measured == pytest.approx(within.mean())
    assert (row.measured_sd, row.measured_minimum) == pytest.approx((within.std(ddof=1), within.min()))
    assert row.t_test == pytest.approx(ttest_1samp(within, 0.0).pvalue)


def test_runs_that_are_all_the_same_have_no_t_test(tmp_path: Path) -> None:
    made = Made(tmp_path)
    made.add("viterbi", counts(7))
    for seed in range(3):
        made.add("gibbs", counts(1), seed=seed)
    assert made.row(cells=OTHER, minus=BASE).t_test is None


def test_a_difference_is_paired(tmp_path: Path) -> None:
    made, one, other = Made(tmp_path), counts(1), counts(2)
    made.add("viterbi", one)
    made.add("gibbs", other)
    row = made.row(cells=OTHER, minus=BASE)
    wanted = paired_bootstraps(one, other, {"f1": f1}, rng=np.random.default_rng(0), draws=1000)["f1"]
    assert (row.measured, row.low, row.high) == pytest.approx(tuple(100 * x for x in wanted.with_interval))
    same = made.row(cells=OTHER, minus=OTHER, published=0.0)
    assert (same.measured, same.low, same.high, same.lies) == (0.0, 0.0, 0.0, Lies.INSIDE)


def test_objectives_are_sums_in_nats(tmp_path: Path) -> None:
    made = Made(tmp_path)
    made.add("viterbi", counts(1), nats=-1.0)
    for seed, nats in enumerate((-1.25, -1.75)):
        made.add("gibbs", counts(2), seed=seed, nats=nats)
    row = made.row(cells=OTHER, minus=BASE, figure="objective")
    assert row.measured == pytest.approx(-0.5 * DOCUMENTS)
    assert row.measured_minimum == pytest.approx(-0.75 * DOCUMENTS)


def test_seconds_are_those_of_runs_or_their_share_of_others(tmp_path: Path) -> None:
    made = Made(tmp_path)
    for seed, (one, other) in enumerate(((2.0, 30.0), (4.0, 60.0))):
        made.add("viterbi", counts(1), seed=seed, cpu=one)
        made.add("gibbs", counts(1), seed=seed, cpu=other)
    row = made.row(cells=OTHER, figure="cpu")
    assert (row.measured, row.measured_minimum, row.runs) == (45.0, 30.0, 2)
    times = made.row(cells=OTHER, over=BASE, figure="cpu", published=32.0)
    assert (times.measured, times.measured_minimum) == (15.0, 10.0)
    assert times.measured_sd == pytest.approx(math.sqrt(50.0))
    assert (times.low, times.high, times.lies) == (None, None, None), "seconds are not of documents"


def test_the_share_of_proven_documents_is_a_figure(tmp_path: Path) -> None:
    made = Made(tmp_path)
    made.add("viterbi", counts(1))
    row = made.row(cells=BASE, figure="proven")
    assert row.measured == pytest.approx(75.0)
    assert row.low is not None
    assert row.low < 75.0


def test_where_models_learned_from_draws_these_are_drawn_too(tmp_path: Path) -> None:
    """All documents are alike here, so that only draws can differ."""
    made, few = Made(tmp_path), np.tile(np.array([4, 4, 1]), (DOCUMENTS, 1, 1))
    many = np.tile(np.array([4, 4, 3]), (DOCUMENTS, 1, 1))
    for number, table in enumerate((few, many)):
        made.add("viterbi", table, subset=number)
        made.add("gibbs", table, seed=number)
    row = made.row(cells=BASE)
    assert (row.measured, row.low, row.high, row.runs) == pytest.approx((50.0, 25.0, 75.0, 2))
    seeds = made.row(cells=OTHER)
    assert (seeds.measured, seeds.low, seeds.high, seeds.runs) == pytest.approx((50.0, 50.0, 50.0, 2))


def test_a_row_without_a_figure_says_why(tmp_path: Path) -> None:
    made = Made(tmp_path)
    made.add("viterbi", counts(1))
    cell, row = made.cells[0]
    failed = row.model_copy(update={"state": CellState.FAILED, "reason": "it burned\nand more"})
    made.cells.append((cell._replace(engine="gibbs"), failed))
    assert made.row(cells=BASE, of="ORG").why == "nothing in the corpus is called ORG"
    assert made.row(missing="lost").why == "lost"
    told = made.row(cells=OTHER, published=3.0)
    assert told.why is not None
    assert told.why.endswith("is failed: it burned")
    assert (told.measured, told.lies, told.published) == (None, None, 3.0)
    made.add("beam", counts(2)[:5])
    assert made.row(cells={"engine": "beam"}, minus=BASE).why == "the figure that is taken off is of other documents"


# The page


def table_of(*rows: MeasuredRow, **given: Any) -> MeasuredTable:
    whole = {"paper": "Nobody (1999)", "table": "3", "title": "A title", "rows": rows} | given
    return MeasuredTable.model_validate(whole)


GOOD = MeasuredRow(
    name="a | b <i>",
    figure="spans.f1",
    published=85.51,
    sd=0.01,
    minimum=85.49,
    measured=91.284,
    low=90.0,
    high=92.0,
    lies=Lies.BELOW,
    runs=10,
    measured_sd=0.0241,
    measured_minimum=91.2,
    t_test=0.012,
    note="other part",
)


def test_the_page_has_both_figures_the_interval_and_what_differs() -> None:
    row = (
        "| a \\| b <i> | 85.51 (sd 0.010, min 85.49) | 91.28 (10 runs, sd 0.024, min 91.20) | 90.00 to 92.00 | below "
        "| other part; t-test of the runs: p = 0.012 |"
    )
    text = markdown([table_of(GOOD, note="all differs", cpu_seconds=1234.5)], made_up=False)
    assert row in text.splitlines()
    assert "### Table 3. A title" in text
    assert "all differs" in text
    assert "1,234.5 CPU seconds" in text
    assert MADE_UP not in text
    page = html([table_of(GOOD)], made_up=False)
    assert '<td class="below">a | b &lt;i&gt;</td><td class="below">85.51 (sd 0.010, min 85.49)</td>' in page
    assert page.count("<table>") == page.count("</table>") == 1


def test_the_page_marks_made_up_corpora_and_says_what_is_missing() -> None:
    gone = MeasuredRow(name="gone", figure="objective", why="burned\n\x1b[31m")
    minus = MeasuredRow(name="less", figure="spans.f1", measured=-0.001, low=-1.5, high=0.5)
    for page in (markdown([table_of(gone, minus)], made_up=True), html([table_of(gone, minus)], made_up=True)):
        assert MADE_UP in page
        assert "nats; burned ␛[31m" in page
        assert "no figure" in page
        assert "−1.50 to 0.50" in page
        assert "0.00" in page
        assert "−0.00" not in page


def test_rows_of_one_name_can_stand_on_one_line() -> None:
    pair = {"figure": "pairs", "published": 1941, "measured": 1938, "lies": Lies.ABOVE}
    rows = [
        MeasuredRow(name="PER", column="PER", **pair),
        MeasuredRow(name="PER", column="F1", figure="spans.f1", measured=50.0, low=40.0, high=60.0, note="few"),
        MeasuredRow(name="LOC", column="F1", figure="spans.f1", why="lost", note="few"),
    ]
    text = markdown([table_of(*rows, parts=("dev: all of it.", "test: none."))], made_up=False).splitlines()
    at = text.index("|  | PER | F1 | what differs |")
    assert text[at + 2 : at + 4] == [
        "| PER | 1,938; published 1,941 | 50.00 (40.00 to 60.00) | few |",
        "| LOC |  | no figure | few; lost |",
    ]
    assert text[at - 2] == "dev: all of it. test: none."
    assert '<td class="above">1,938; published 1,941</td><td>50.00 (40.00 to 60.00)</td>' in html(
        [table_of(*rows)], made_up=False
    )


def test_a_paper_has_one_heading_for_all_its_tables() -> None:
    text = markdown([table_of(GOOD), table_of(GOOD), table_of(GOOD, paper="Other (2000)")], made_up=False)
    assert [line for line in text.splitlines() if line.startswith("## ")] == ["## Nobody (1999)", "## Other (2000)"]


# The whole


class Counting(Here):
    """Ray's stand-in that counts what it was given."""

    def __init__(self, broken: int | None = None) -> None:
        super().__init__(broken)
        self.units = self.started = 0

    def run(self, task: Any, shards: Sequence[Any], parts: Any) -> Iterator[Any]:
        self.units += len(shards)
        return super().run(task, shards, parts)


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> Counting:
    """No Ray and no MLflow."""
    stand_in = Counting()

    @contextmanager
    def started(*_args: Any, **_kwargs: Any) -> Iterator[Counting]:
        stand_in.started += 1
        yield stand_in

    monkeypatch.setattr(concord.flows.cluster.cluster, "_own_cluster", started)
    monkeypatch.setattr(concord.flows.sweeping.run_sweep, "_tracked", lambda _, request, report, *__: report)
    monkeypatch.setattr(concord.flows.sweeping.run_sweep, "_tracker", lambda _: None)
    return stand_in


def run(files: Path, out: Path, **given: Any) -> PapersReport:
    return run_papers(PapersRequest(out=str(out), **({"paper": "all", "quick": True} | given)), files=files)


def test_a_paper_is_measured_once_and_again_for_nothing(tmp_path: Path, here: Counting) -> None:
    files, out = tmp_path / "files", tmp_path / "out"
    files.mkdir()
    written(files, PLAIN)
    report = run(files, out)
    assert here.units == 1 + 2
    viterbi, places, beam, theirs = report.tables[0].rows
    assert viterbi.measured is not None
    assert 10.0 < viterbi.measured < 100.0
    assert places.measured != viterbi.measured
    assert beam.measured == pytest.approx(0.0), "without constraints a beam that is wide enough is Viterbi's"
    assert (theirs.measured, theirs.why) == (None, "quoted from elsewhere")
    assert report.tables[1].rows[0].why == "no such corpus"
    assert {row.lies for table in report.tables for row in table.rows} == {None}, "made-up corpora prove nothing"
    assert report.count(None) == 5
    page = (out / PAGE).read_bytes()
    assert MADE_UP in page.decode()
    assert MADE_UP in (out / HTML_PAGE).read_text()
    again = run(files, out)
    assert (here.units, here.started) == (3, 1), "without work there is no Ray"
    assert (out / PAGE).read_bytes() == page
    assert again.tables == report.tables
    one = run(files, out, table="2")
    assert [table.table for table in one.tables] == ["2"]


def test_a_second_paper_stands_beside_the_first_on_the_page(tmp_path: Path, here: Counting) -> None:
    files, out = tmp_path / "files", tmp_path / "out"
    files.mkdir()
    written(files, PLAIN)
    (files / "second.yaml").write_text(yaml.safe_dump(PLAIN | {"paper": "Second (2001)"}, sort_keys=False))
    names = sorted(path.stem for path in files.glob("*.yaml"))
    for name in names:
        run(files, out, paper=name)
    page = (out / PAGE).read_text()
    assert [line for line in page.splitlines() if line.startswith("## ")] == ["## Nobody (1999)", "## Second (2001)"]
    assert "not measured yet" not in page
    run(files, out, paper=names[0], table="2")
    assert (out / PAGE).read_text() == page, "one table again: the others stay"
    with pytest.raises(RunFolderError, match="its page has tables of made-up corpora"):
        run(files, out, quick=False, data=str(files))


def test_a_note_names_the_figure_of_another_row(tmp_path: Path, here: Counting) -> None:
    rows = PLAIN["tables"]["1"]["rows"]
    told = {**rows[0], "note": f"the beam has {{{rows[2]['name']}}}, theirs {{{rows[3]['name']}}}"}
    written(tmp_path, changed("tables", "1", "rows", to=[told, *rows[1:]]))
    report = run(tmp_path, tmp_path / "out")
    assert report.tables[0].rows[0].note == "the beam has 0.0, theirs no figure"
    written(tmp_path, changed("tables", "1", "rows", to=[{**rows[0], "note": "see {nobody}"}, *rows[1:]]))
    with pytest.raises(PaperFileError, match="no row is called 'nobody'"):
        run(tmp_path, tmp_path / "out")


def test_a_row_below_the_published_figure_without_a_reason_says_so() -> None:
    text = markdown([table_of(GOOD.model_copy(update={"lies": Lies.ABOVE, "note": None}))], made_up=False)
    assert UNEXPLAINED in text
    given = markdown([table_of(GOOD.model_copy(update={"lies": Lies.ABOVE, "note": "another part"}))], made_up=False)
    assert UNEXPLAINED not in given


def test_notes_hold_no_figures_of_one_run() -> None:
    """Those of another run would contradict them; published ones, and settings, stand beside a word that says so."""
    told = re.compile(r"\b\d\d\.\d+(?! alone)")
    for path in sorted(SHIPPED.glob("*.yaml")):
        for number, table in read_paper_file(path).tables.items():
            for row in table.rows:
                assert not told.search(row.note or ""), f"{path.name}, table {number}, {row.name}: {row.note}"


def test_tables_share_models_and_count_their_cost_once(tmp_path: Path, here: Counting) -> None:
    content = changed("tables", "2", to=PLAIN["tables"]["1"] | {"title": "The same again"})
    written(tmp_path, content)
    report = run(tmp_path, tmp_path / "out")
    assert here.units == 3
    assert report.tables[0].cpu_seconds > 0.0
    models = changed("tables", "2", to=changed(*SWEEP, "models", "crf", "options", "passes", to=1)["tables"]["1"])
    written(tmp_path, models)
    run(tmp_path, tmp_path / "other")
    assert (here.units, here.started) == (3 + 6, 2), "one Ray for all tables of a run"
    assert report.tables[1].cpu_seconds == 0.0
    assert report.tables[1].rows == report.tables[0].rows
    models["tables"]["3"] = PLAIN["tables"]["1"]
    written(tmp_path, models)
    run(tmp_path, tmp_path / "third")
    assert here.units == 3 + 6 + 6, "the third table has the models of the first"


def test_a_run_that_is_stopped_leaves_a_page_of_what_is_measured(
    tmp_path: Path, here: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = changed("tables", "2", to=changed(*SWEEP, "models", "crf", "options", "passes", to=1)["tables"]["1"])
    written(tmp_path, content)
    out, goes_on = tmp_path / "out", here.run

    def stopped(task: Any, shards: Sequence[Any], parts: Any) -> Iterator[Any]:
        if here.units >= 3:
            raise KeyboardInterrupt
        return goes_on(task, shards, parts)

    monkeypatch.setattr(here, "run", stopped)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, out)
    told = "1 more table is not measured yet"
    for page in (out / PAGE, out / HTML_PAGE):
        assert told in page.read_text()
        assert "Table 1" in page.read_text()
        assert "Table 2" not in page.read_text()
    monkeypatch.setattr(here, "run", goes_on)
    report = run(tmp_path, out)
    assert here.units == 3 + 3
    assert len(report.tables) == 2
    assert told not in (out / PAGE).read_text()


def test_without_its_data_a_table_says_so_and_others_go_on(tmp_path: Path, here: Counting) -> None:
    written(tmp_path, PLAIN)
    data = conll(tmp_path / "data", 4)
    report = run(tmp_path, tmp_path / "out", quick=False, data=str(data))
    assert here.units == 0
    assert [row.why for row in report.tables[0].rows] == [
        *["test.txt is not in the data folder"] * 3,
        "quoted from elsewhere",
    ]
    (data / "test.txt").write_bytes((data / "train.txt").read_bytes())
    found = run(tmp_path, tmp_path / "out", quick=False, data=str(data))
    assert found.tables[0].rows[0].lies is Lies.BELOW, "a model finds its own training documents"
    assert found.count(Lies.BELOW) == 1


def test_an_official_test_part_is_measured_and_told(tmp_path: Path, here: Counting) -> None:
    content = changed("corpora", "test", "test_part", to=["eng.testb"])
    written(tmp_path, content)
    data, official = conll(tmp_path / "data", 4), tmp_path / "official"
    (data / "test.txt").write_bytes((data / "train.txt").read_bytes())
    conll_at(official / "eng.testb", 7)
    given = {"quick": False, "data": str(data), "table": "1"}
    plain = run(tmp_path, tmp_path / "out", **given).tables[0]
    assert plain.rows[0].documents == 4
    assert plain.parts == ("test: test.txt in place of the official test part (eng.testb).",)
    (table,) = run(tmp_path, tmp_path / "out", test_parts=str(official), **given).tables
    assert table.rows[0].documents == 7
    assert table.parts == ("test: the official test part, eng.testb.",)
    assert table.parts[0] in (tmp_path / "out" / PAGE).read_text()
    with pytest.raises(CorpusError, match="give --test-parts, the folder of official test parts"):
        run(tmp_path, tmp_path / "out", test_parts=str(tmp_path / "gone"), **given)
    with pytest.raises(UsageError, match="--test-parts goes with --data"):
        run(tmp_path, tmp_path / "out", test_parts=str(official))


def test_a_lattice_has_every_figure_of_every_engine(tmp_path: Path, here: Counting) -> None:
    written(tmp_path, latticed())
    (table,) = run(tmp_path, tmp_path / "out", table="1").tables
    found = {(row.name, row.column): row for row in table.rows}
    assert len(found) == len(table.rows) == 8
    assert found["beam", "nats"].measured == pytest.approx(0.0), "without constraints it is Viterbi's answer"
    assert found["viterbi", "proven"].measured == 100.0
    assert found["beam", "seconds"].measured is not None
    assert (found["beam", "F1"].note, found["viterbi", "F1"].note) == ("only some", None)
    assert found["beam", "F1"].measured == found["viterbi", "F1"].measured


def test_pairs_are_counted_without_a_sweep(tmp_path: Path, here: Counting) -> None:
    written(tmp_path, paired())
    data = tmp_path / "data"
    conll(data, 1)
    # A name that goes on in the next sentence is one run; as labelled, these are two names and one pair.
    tokens = ("Ada NNP I-NP I-PER", "", "Ada NNP I-NP I-PER", "sees VB I-VP O", "Ada NNP I-NP I-LOC", "")
    (data / "test.txt").write_text("\n".join(("-DOCSTART- -X- O O", "", *tokens)) + "\n")
    table = run(tmp_path, tmp_path / "out", quick=False, data=str(data), table="2").tables[0]
    found = {(row.name, row.column): (row.measured, row.published, row.lies) for row in table.rows}
    assert found == {
        ("PER, runs of one type", "PER"): (0, 5, Lies.ABOVE),
        ("PER, runs of one type", "LOC"): (0, 0, Lies.INSIDE),
        ("LOC, runs of one type", "LOC"): (0, 2, Lies.ABOVE),
        ("PER, names as labelled", "PER"): (1, None, None),
        ("PER, names as labelled", "LOC"): (2, None, None),
        ("LOC, names as labelled", "LOC"): (0, None, None),
    }
    assert here.units == 0
    (data / "test.txt").unlink()
    gone = run(tmp_path, tmp_path / "out", quick=False, data=str(data), table="2").tables[0]
    assert {row.why for row in gone.rows} == {"test.txt is not in the data folder"}
    assert {row.lies for row in run(tmp_path, tmp_path / "made up", table="2").tables[0].rows} == {None}


def test_rules_are_mined_for_a_table_once(tmp_path: Path, here: Counting) -> None:
    content = changed("mined", to={"found": {"corpus": "train", "kinds": ["once", "there", "order"]}})
    content["corpora"] |= {
        name: corpus | {"made_up": corpus["made_up"] | {"kind": "citations"}}
        for name, corpus in content["corpora"].items()
    }
    sweep = content["tables"]["1"]["sweep"]
    sweep |= {"constraints": {"rules": ["mined:found"]}, "measures": ["labels"]}
    content["tables"]["1"]["rows"] = [{"name": "right", "cells": {"engine": "beam"}, "figure": "labels.accuracy"}]
    written(tmp_path, content)
    report = run(tmp_path, tmp_path / "out", table="1")
    assert report.tables[0].rows[0].measured is not None
    (file,) = (tmp_path / "out" / "rules").iterdir()
    assert "template: appears_once" in file.read_text()
    before = file.stat().st_mtime_ns
    run(tmp_path, tmp_path / "out", table="1")
    assert (file.stat().st_mtime_ns, here.units) == (before, 3)


def test_without_one_of_its_corpora_a_table_measures_the_others(tmp_path: Path, here: Counting) -> None:
    content = changed(
        *SWEEP, "corpora", to={"news": {"train": "train", "test": "test"}, "more": {"train": "more", "folds": 2}}
    )
    content["corpora"]["more"] = {"reader": "conll", "source": "more.txt"}
    content["tables"]["1"]["rows"] = [
        {"name": name, "cells": {"corpus": name, "engine": "beam"}} for name in ("news", "more")
    ]
    content["tables"]["1"]["sweep"]["cross"] = [{"corpus": ["more"]}, {"corpus": ["news", "more"]}]
    written(tmp_path, content)
    news, more = run(tmp_path, tmp_path / "out", table="1").tables[0].rows
    assert news.measured is not None
    assert (more.measured, more.why) == (None, "no made-up corpus stands in for more.txt")


def test_cells_that_fail_are_told_after_the_page_is_written(tmp_path: Path, here: Counting) -> None:
    content = changed(*SWEEP, "sizes", to=[999])
    written(tmp_path, content)
    here.broken = 0
    with pytest.raises(PapersFailedError, match="2 cells of published tables failed: ") as caught:
        run(tmp_path, tmp_path / "out")
    assert isinstance(caught.value.report, PapersReport)
    assert "it burned" in (tmp_path / "out" / PAGE).read_text()
    assert set(caught.value.report.failed) == {
        f"nobody-1: news/crf/size=999/none/{engine}/seed=0" for engine in ("viterbi", "beam")
    }


def test_the_same_command_tries_again_what_failed(tmp_path: Path, here: Counting) -> None:
    written(tmp_path, PLAIN)
    here.broken = 0
    with pytest.raises(PapersFailedError):
        run(tmp_path, tmp_path / "out")
    here.broken = None
    assert run(tmp_path, tmp_path / "out").tables[0].rows[0].measured is not None


def test_wrong_usage_is_told_before_anything_runs(tmp_path: Path, here: Counting) -> None:
    files = tmp_path / "files"
    files.mkdir()
    written(files, PLAIN)
    for given, told in (
        ({"paper": "nobdy"}, "no paper is called 'nobdy'; did you mean 'nobody'?"),
        ({"table": "7"}, "no table is called '7'"),
        ({"quick": False}, "give --data, the folder of the real corpora, or --quick for made-up ones"),
    ):
        with pytest.raises(UsageError) as caught:
            run(files, tmp_path / "out", **given)
        assert told in str(caught.value)
    with pytest.raises(CorpusError, match=r"nowhere: no such folder; give --data"):
        run(files, tmp_path / "out", quick=False, data=str(tmp_path / "nowhere"))
    assert not (tmp_path / "out").exists()
    with pytest.raises(RunFolderError, match="is there and has no tables of papers; give another --out"):
        run(files, files)
