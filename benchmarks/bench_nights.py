"""A night after a change, beside a run that decodes everything: documents decoded again, CPU seconds, equal bytes.

The first night labels chapters of novels and settles its answers. Each other night changes one thing: some rows, a
constraint, a weight, the model. It goes on from a copy of the first night's output, and beside it the same is run into
an empty folder.

    python benchmarks/bench_nights.py --documents 300

With ``--text`` it labels other documents, and prints their figures instead of keeping them.
"""

from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import yaml
from common import MADE, concord, known_figures, save
from corpora import NOVELS, STAND_IN, labelled_corpora, made_up

from concord.workers.corpus.ingestion import write_corpus
from concord.workers.corpus.plan import plan
from concord.workers.corpus.shards import read_batch

FEATURES = "rich-nopos"
CHANGED = 0.01
"""Share of the rows that change in a night."""
DAY = 46
"""Documents of the last day of news, which the first night's model has not seen."""
RULES: list[dict[str, Any]] = [
    {"template": "consistent", "name": "same words", "weight": 4.0},
    {"template": "consistent_subsequence", "name": "part of a longer name", "weight": 2.0},
    {"template": "legality", "weight": "hard"},
]
FOLDER = MADE / "nights"


def main() -> None:
    """Runs the nights, and keeps their figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=300, help="3267 are all chapters of the novels")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--text", type=Path, help="raw text in Parquet instead of the novels: doc_id and text")
    parser.add_argument(
        "--night", action="append", help="a night of the table; may be given many times; all without it"
    )
    chosen = parser.parse_args()
    shutil.rmtree(FOLDER, ignore_errors=True)
    corpus = _chapters(chosen.text or (NOVELS if NOVELS.is_dir() else made_up(STAND_IN)), chosen.documents)
    before, after = _models()
    given = {"corpus": corpus, "model": before, "rules": RULES}
    first = _night("first", given, chosen.workers)
    raised, lowered = _weighing(0, 4.5), _weighing(0, 3.5)
    nights: dict[str, dict[str, Any]] = {
        "1 % of rows changed": {"corpus": _changed(corpus)},
        "one constraint added": {
            "rules": [*RULES, {"template": "consistent_unlabelled", "name": "new", "weight": 1.0}]
        },
        "one weight raised": {"rules": raised},
        "one weight lowered": {"rules": lowered},
        "a model trained on one more day": {"model": after},
    }
    known = {} if chosen.text else {row["night"]: row for row in _known(first["documents"])}
    for name in chosen.night or nights:
        known[name] = _beside(name, given | nights[name], chosen.workers)
        if chosen.text:
            print(json.dumps(known[name]))
            continue
        rows = [known[night] for night in nights if night in known]
        save("nights", {"documents": first["documents"], "tokens": first["tokens"], "rows": rows})


def _known(documents: int) -> list[dict[str, Any]]:
    """The rows that were measured before with so many documents."""
    found = known_figures("nights")
    return found["rows"] if found.get("documents") == documents else []


def _chapters(source: Path, documents: int) -> Path:
    """The first chapters of the novels, or of what stands in for them, in a folder of their own."""
    table = pq.read_table(source).slice(0, documents)
    folder = FOLDER / "chapters"
    folder.mkdir(parents=True)
    pq.write_table(table, folder / "chapters.parquet")
    return folder


def _changed(corpus: Path) -> Path:
    """The corpus with a word more in some of its rows."""
    table = pq.read_table(corpus / "chapters.parquet")
    texts, every = table["text"].to_pylist(), round(1 / CHANGED)
    for row in range(0, len(texts), every):
        texts[row] += "\n\nThe End."
    folder = FOLDER / "changed"
    folder.mkdir()
    column = table.schema.get_field_index("text")
    table = table.set_column(column, table.schema.field(column), pa.array(texts, table.schema.field(column).type))
    pq.write_table(table, folder / "chapters.parquet")
    return folder


def _models() -> tuple[Path, Path]:
    """Models trained without and with the last day of the news."""
    documents = [batch.document(i) for batch in _batches(labelled_corpora().train) for i in range(len(batch))]
    found = []
    for name, part in (("before", documents[:-DAY]), ("after", documents)):
        corpus, model = FOLDER / "news" / name, FOLDER / "models" / name
        write_corpus(part, corpus, source="news")
        concord("train", "--corpus", corpus, "--features", FEATURES, "--set", "passes=10", "--out", model)
        found.append(model)
    return found[0], found[1]


def _batches(corpus: Path) -> Any:
    return (read_batch(shard)[0] for shard in plan(corpus))


def _weighing(row: int, weight: float) -> list[dict[str, Any]]:
    """The constraints with another weight in one row."""
    return [rule | {"weight": weight} if i == row else rule for i, rule in enumerate(RULES)]


def _night(out: str, given: dict[str, Any], workers: int) -> dict[str, Any]:
    """A run into a folder of that name; what it reports. The output of a corpus is known by the corpus's place."""
    shutil.rmtree(FOLDER / "corpus", ignore_errors=True)
    shutil.copytree(given["corpus"], FOLDER / "corpus")
    rules = FOLDER / "rules.yaml"
    rules.write_text(yaml.safe_dump({"constraints": given["rules"]}))
    return concord(
        *("reprocess", "--corpus", FOLDER / "corpus", "--model", given["model"], "--no-consistency"),
        *("--constraints", rules, "--engine", "certify", "--settle", "--workers", str(workers)),
        *("--out", FOLDER / "out" / out),
    )


def _beside(name: str, given: dict[str, Any], workers: int) -> dict[str, Any]:
    """A night after the first one, and the same from nothing."""
    out = FOLDER / "out"
    shutil.copytree(out / "first", out / "night", symlinks=True)
    night, whole = _night("night", given, workers), _night("whole", given, workers)
    equal = _tables(out / "night") == _tables(out / "whole")
    figures = {"this": _figures(night, _times(out / "first")), "whole": _figures(whole, {})}
    for folder in ("night", "whole"):
        shutil.rmtree(out / folder)
    return {"night": name, "equal_bytes": equal} | figures


def _tables(out: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((out / "predictions").glob("*.parquet"))}


def _times(out: Path) -> dict[str, float]:
    """CPU seconds of each document; one that kept its answer has those of the night that found it."""
    table = pq.read_table(out / "_times", columns=["doc_id", "cpu_seconds"])
    return dict(zip(table["doc_id"].to_pylist(), table["cpu_seconds"].to_pylist(), strict=True))


def _figures(report: dict[str, Any], before: dict[str, float]) -> dict[str, Any]:
    """Documents that were labelled and how, seconds of the worker, and those of the processor for documents.

    ``before`` are the seconds of the night before, which do not count again.
    """
    reuse, times = report["reuse"], _times(Path(report["out"]))
    return {
        "labelled": report["labelled"],
        "kept": reuse["kept"],
        "stood": reuse["stood"],
        "confirmed": reuse["confirmed"],
        "decoded": report["labelled"] - sum(reuse.values()),
        "worker_seconds": report["worker_seconds"],
        "cpu_seconds": sum(seconds for name, seconds in times.items() if before.get(name) != seconds),
        "certified": report["certified"],
    }


if __name__ == "__main__":
    main()
