"""A dozen nights of a folder, each with what happened and what concord says of it: page, tags, MLflow, table, feed.

    python benchmarks/bench_twelve_nights.py --into DIR

Real runs by the command line, with `--table delta`: the first night, one with nothing new, texts that change, documents
that come and go, a rule that is added and one that is weighed anew, another model, a damaged file, a run that is
cancelled, other kinds of text, and a corpus of which half is missing. At the end a consumer that merged the feed night
by night is held against the table that readers see, and so is each version of the Delta table where `deltalake` is
installed. The page of what was said is written into DIR.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import random
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from common import save

from concord.flows.environment import command
from concord.flows.nights.record import read_record
from concord.flows.screen.pages import page_of
from concord.flows.tracking.tracking import RUN_NAME
from concord.predictions import read_predictions
from concord.schemas.run_report import RunReport
from concord.workers.corpus.ingestion import write_corpus
from concord.workers.storage.storage import FolderStorage
from concord.workers.synthesis.made_up import synthesize

FILES, DOCUMENTS = 4, 40
"""Files of the corpus, and documents in each."""
COMMAND = (command("concord"),)
RULES = "constraints:\n  - {{template: legality, weight: hard}}\n{more}"
RULE = "  - {{name: few persons, template: at_most_runs, labels: [B-PER, I-PER], limit: 1, weight: {weight}}}\n"


class Team:
    """A team's folder: corpus, models, rules and output."""

    def __init__(self, base: Path) -> None:
        self.base, self.model, self.random = base, "v1", random.Random(0)
        self.corpus, self.rules, self.out = base / "corpus", base / "rules.yaml", base / "out"
        self.environment = {**os.environ, "CONCORD_HOME": str(base / "home"), "MLFLOW_TRACKING_URI": self.tracking}
        self.rules.write_text(RULES.format(more=""))
        for number in range(FILES):
            self.write(number, synthesize(DOCUMENTS, seed=number, kind="news"))

    @property
    def tracking(self) -> str:
        """Address of MLflow's file."""
        return f"sqlite:///{self.base}/mlflow.db"

    def write(self, number: int, documents: Any) -> None:
        """Writes a file of the corpus anew."""
        folder = self.base / "made"
        shutil.rmtree(folder, ignore_errors=True)
        write_corpus(documents, folder, source="made up")
        self.corpus.mkdir(exist_ok=True)
        (folder / "part-00000.parquet").replace(self.file(number))

    def file(self, number: int) -> Path:
        """A file of the corpus."""
        return self.corpus / f"part-{number:05d}.parquet"

    def edit(self, number: int, change: Callable[[list[dict[str, Any]]], list[dict[str, Any]]]) -> None:
        """Changes the rows of a file."""
        table = pq.read_table(self.file(number))
        pq.write_table(pa.Table.from_pylist(change(table.to_pylist()), table.schema), self.file(number))

    def train(self, name: str, *, documents: int) -> None:
        """Trains a model."""
        corpus = self.base / f"train-{name}"
        write_corpus(synthesize(documents, seed=99, kind="news"), corpus, source="made up")
        words = ["train", "--corpus", str(corpus), "--features", "core+entities", "--out", str(self.base / name)]
        subprocess.run([*COMMAND, *words], check=True, capture_output=True, env=self.environment)

    def words(self) -> list[str]:
        """The command of a night."""
        given = {"corpus": self.corpus, "model": self.base / self.model, "constraints": self.rules, "out": self.out}
        options = [word for name, value in given.items() for word in (f"--{name}", str(value))]
        return [*COMMAND, "reprocess", *options, "--table", "delta", "--json"]


def reworded(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Three documents with one more word in the first place."""
    for row in rows[:3]:
        row["tokens"][0] = f"{row['tokens'][0]}x"
    return rows


def strange(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Documents of words that nobody knows, under new ids."""
    return [row | {"doc_id": f"odd {row['doc_id']}", "tokens": [f"{w}q" for w in row["tokens"]]} for row in rows]


class Night(NamedTuple):
    """A night: what happens before it, and how."""

    what: str
    prepare: Callable[[Team], None]
    end: str = ""


def _nights() -> Iterator[Night]:
    def rules(*weights: float) -> Callable[[Team], None]:
        more = "".join(RULE.format(weight=weight) for weight in weights)
        return lambda team: void(team.rules.write_text(RULES.format(more=more)))

    kept: dict[int, bytes] = {}

    def damage(team: Team) -> None:
        kept[1] = team.file(1).read_bytes()
        team.file(1).write_bytes(kept[1][: len(kept[1]) // 2])

    def add_strange(team: Team) -> None:
        team.write(FILES + 1, synthesize(40, seed=50, kind="news"))
        team.edit(FILES + 1, strange)

    def lose(team: Team) -> None:
        for number in (2, 3):
            team.file(number).rename(team.base / f"lost-{number}")

    def bring_back(team: Team) -> None:
        for number in (2, 3):
            (team.base / f"lost-{number}").rename(team.file(number))

    yield Night("the first night", lambda _: None)
    yield Night("nothing new", lambda _: None)
    yield Night("three texts changed", lambda team: team.edit(0, reworded))
    yield Night("five documents gone", lambda team: team.edit(1, lambda rows: rows[5:]))
    yield Night("a file of forty new ones", lambda team: team.write(FILES, synthesize(40, seed=50, kind="news")))
    yield Night("a rule added", rules(0.5))
    yield Night("its weight raised", rules(3.0))
    yield Night("another model", lambda team: setattr(team, "model", "v2"))
    yield Night("a damaged file", damage)
    yield Night("mended, and cancelled", lambda team: mend(team, kept[1]), "cancelled")
    yield Night("forty texts of another kind", add_strange)
    yield Night("half of the files missing", lose)
    yield Night("all files again", bring_back)


def mend(team: Team, data: bytes) -> None:
    """Puts a file back, and changes another one, so that there is something to do."""
    team.file(1).write_bytes(data)
    team.edit(0, reworded)


def void(_: object) -> None:
    """Nothing of it."""


def run(team: Team, night: Night) -> RunReport | None:
    """Runs a night; its report, None where a signal ended it."""
    if night.end == "cancelled":
        process = subprocess.Popen(team.words(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=team.environment)
        assert process.stderr is not None
        for line in process.stderr:
            if b"starting workers" in line:
                break
        process.send_signal(signal.SIGINT)
        process.communicate()
        return None
    done = subprocess.run(team.words(), check=False, capture_output=True, env=team.environment, text=True)
    found = json.loads(done.stdout) if done.stdout.strip().startswith("{") else None
    return None if found is None else RunReport.model_validate(found.get("report", found))


def merged(consumer: dict[str, list[str]], seen: int, out: Path) -> int:
    """Merges what the feed has after a run into a consumer's answers; the number of the feed's last run."""
    changes = read_predictions(out).changes_since(seen).to_pylist()
    for row in changes:
        if row["what"] == "gone":
            consumer.pop(row["doc_id"])
        else:
            consumer[row["doc_id"]] = row["labels"]
    return max((row["run"] for row in changes), default=seen)


def table_now(out: Path) -> dict[str, list[str]]:
    """The answers that readers see."""
    rows = pq.read_table(out / "predictions", columns=["doc_id", "labels"]).to_pylist()
    return {row["doc_id"]: row["labels"] for row in rows}


def mlflow_names(team: Team) -> list[str]:
    """Names of the nights in MLflow, the oldest first."""
    from mlflow import MlflowClient

    client = MlflowClient(team.tracking)
    runs = [run for one in client.search_experiments() for run in client.search_runs([one.experiment_id])]
    nights = [run for run in runs if run.data.tags.get("job") == "reprocess"]
    return [run.data.tags[RUN_NAME] for run in sorted(nights, key=lambda run: run.info.start_time)]


def delta_versions(out: Path) -> list[dict[str, list[str]]]:
    """The answers of each version of the Delta table; none where its reader is not installed."""
    if importlib.util.find_spec("deltalake") is None:
        return []
    from deltalake import DeltaTable

    last = DeltaTable(str(out / "table")).version()
    tables = (DeltaTable(str(out / "table"), version=version).to_pyarrow_table() for version in range(last + 1))
    return [dict(zip(t["doc_id"].to_pylist(), t["labels"].to_pylist(), strict=True)) for t in tables]


def main() -> None:
    """Runs the nights and keeps what was said."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--into", type=Path, required=True, help="an empty folder")
    base = parser.parse_args().into
    base.mkdir(parents=True)
    team = Team(base)
    team.train("v1", documents=60)
    team.train("v2", documents=90)
    consumer: dict[str, list[str]] = {}
    seen, states, rows, pages = 0, list[dict[str, list[str]]](), list[dict[str, Any]](), list[str]()
    for number, night in enumerate(_nights(), 1):
        night.prepare(team)
        report = run(team, night)
        seen = merged(consumer, seen, team.out)
        assert consumer == table_now(team.out), f"night {number}: the merged feed is not the table"
        states += [dict(consumer)] if not states or states[-1] != consumer else []
        last = read_record(FolderStorage(team.out)).nights[-1]
        page = None if report is None else page_of(report)
        said = "cancelled" if page is None else page.headline
        tags = last.end if page is None else ", ".join(page.tags)
        rows.append({"night": number, "what happened": night.what, "what is said": said, "tags": tags, "feed": seen})
        pages.append(f"<!-- night {number}: {night.what} -->\n\n{'' if page is None else page.markdown}")
        print(f"{number:2d}  {night.what:26s} {said}", flush=True)
    names = mlflow_names(team)
    versions = delta_versions(team.out)
    assert not versions or [v for i, v in enumerate(versions) if not i or v != versions[i - 1]] == states
    (base / "pages.md").write_text("\n\n".join(pages))
    for name in ("history", "changes"):
        done = subprocess.run([*COMMAND, name, "--run", str(team.out)], capture_output=True, text=True, check=True)
        (base / f"{name}.txt").write_text(done.stdout)
    print(*names, sep="\n")
    print(f"{len(versions)} versions of the Delta table, {len(states)} states of the consumer, all the same")
    save("twelve_nights", {"nights": rows, "mlflow": names, "versions": len(versions), "states": len(states)})


if __name__ == "__main__":
    main()
