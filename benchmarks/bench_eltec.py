"""A corpus of long documents of raw text through `concord reprocess --engine certify`, start to end.

Counts documents in and out, samples the memory of every worker, takes the share of each stage from
the workers' own clocks and the seconds of each document from the times they write, and compares
one worker with two on a part of the corpus. By default a part of the novels; --files 8 is all.

    python benchmarks/bench_eltec.py --files 8
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import sentencex
from common import MADE, concord, concord_command, draw, environment, figure, options, ray_workers, save, trained_model
from corpora import NOVELS, STAND_IN, labelled_corpora, made_up
from numpy.typing import NDArray

from concord.schemas.columns import DOC_ID, PREDICTIONS_LAYOUT, TIMES_LAYOUT
from concord.schemas.document import TOKENS
from concord.schemas.settings import TextSettings
from concord.workers.corpus.parquet import read_tables
from concord.workers.corpus.plan import plan
from concord.workers.corpus.readers.text import batch_from_text_table
from concord.workers.corpus.shards import read_shard
from concord.workers.corpus.tokenizers.registry import load_tokenizer
from concord.workers.corpus.tokenizers.sentences import RARE

FEATURES = "rich-nopos"
PAIRS = 3
"""How often one worker and several are compared: cores that are shared with others change their speed."""
STEP = 0.5
"""Seconds between two looks at the workers' memory."""
MIB = 1 << 20


class Memory(NamedTuple):
    """One look: seconds since the start, and MiB of the worker that has most.

    ``resident`` counts pages that workers share (the model, libraries) whole, ``fair`` by its part of
    them (PSS), ``own`` only what no file or shared memory is behind.
    """

    at: float
    resident: float
    fair: float
    own: float


def main() -> None:
    """Runs, measures, draws."""
    parser = options(__doc__, features=FEATURES)
    parser.add_argument("--files", type=int, default=1, help="how many of the corpus' files the run is over")
    parser.add_argument("--part", type=int, default=1, help="how many of them one worker and two are compared on")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--name", default="eltec", help="of the figures and the picture")
    chosen = parser.parse_args()
    model = chosen.model or trained_model(FEATURES, labelled_corpora().train)
    source = Path(chosen.corpus) if chosen.corpus else NOVELS if NOVELS.is_dir() else made_up(STAND_IN)
    whole, part = (_first_files(source, count) for count in (chosen.files, chosen.part))
    report, memory, out = _watched(whole, model, chosen.workers)
    documents = _documents(out)
    figures = {
        "corpus": f"{source.name}, {chosen.files} of {len(_files(source))} files",
        "documents_in": sum(shard.rows for shard in plan(whole)),
        "documents_out": report["documents"],
        "rejected": report["rejected"],
        "tokens": report["tokens"],
        "certified_share": report["certified"],
        "largest_gap_nats": report["max_gap"],
        "seconds": report["seconds"],
        "tokens_per_second": report["tokens_per_second"],
        "load_of_the_machine": os.getloadavg()[1],
        **_stages(report["mlflow_run"]),
        **_reading(whole),
        **_flatness(memory),
        **_growth(documents),
        **_compared(part, model, chosen.workers),
        "open_documents": _open_documents(out),
    }
    save(chosen.name, figures)
    _draw(documents, memory, chosen.name)


def _files(source: Path) -> list[Path]:
    return sorted(p for p in source.glob("*.parquet") if not p.name.startswith("_"))


def _first_files(source: Path, count: int) -> Path:
    """A folder with links to the first files of the corpus."""
    folder = MADE / "corpora" / f"{source.name}-first-{count}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for file in _files(source)[:count]:
        (folder / file.name).symlink_to(file.resolve())
    return folder


def _arguments(corpus: Path, model: Path, workers: int, out: Path) -> list[str | Path]:
    shutil.rmtree(out, ignore_errors=True)
    engine = ["--engine", "certify", "--workers", str(workers)]
    return ["reprocess", "--corpus", corpus, "--model", model, *engine, "--out", out]


def _watched(corpus: Path, model: Path, workers: int) -> tuple[dict[str, Any], list[Memory], Path]:
    """Runs to the end and looks at the workers' memory on the way."""
    out = MADE / "out" / corpus.name
    typed = concord_command(*_arguments(corpus, model, workers, out))
    print("$", *typed, file=sys.stderr)
    started, memory = time.monotonic(), []
    with subprocess.Popen(typed, env=environment(), stdout=subprocess.PIPE, text=True) as running:
        while running.poll() is None:
            time.sleep(STEP)
            found = [_sizes(pid) for pid in ray_workers(running.pid)]
            if found:
                memory.append(Memory(time.monotonic() - started, *max(found)))
        assert running.stdout is not None
        report: dict[str, Any] = json.loads(running.stdout.read())
    if running.returncode:
        raise SystemExit(f"the run failed: {report.get('errors')}")
    return report, memory, out


def _sizes(pid: int) -> tuple[float, float, float]:
    """MiB resident in all, by its part of shared pages, and of its own."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
        status = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0.0, 0.0, 0.0  # it ended meanwhile
    kibibytes = {line.split()[0]: int(line.split()[1]) for line in lines}
    own = sum(int(line.split()[1]) for line in status if line.startswith("RssAnon:"))
    return kibibytes["Rss:"] / 1024, kibibytes["Pss:"] / 1024, own / 1024


def _stages(run: str) -> dict[str, float]:
    """What share of the workers' time each stage took; reading includes tokenising and sentence splitting."""
    os.environ |= environment()
    import mlflow

    from concord.flows.tracking.tracking import Tracking

    metrics = mlflow.MlflowClient(Tracking(None).uri).get_run(run).data.metrics
    prefix = "worker_seconds/"
    seconds = {name.removeprefix(prefix): value for name, value in metrics.items() if name.startswith(prefix)}
    shares = {f"share_of_{name}": value / sum(seconds.values()) for name, value in seconds.items()}
    return {"worker_seconds": sum(seconds.values()), **shares}


def _reading(source: Path) -> dict[str, float]:
    """What of reading raw text is Parquet and what is sentence splitting; the rest is tokenising. One shard, here."""
    shard, text = plan(source)[0], TextSettings()
    began = time.process_time()
    table = read_shard(shard, text=text)
    parquet = time.process_time() - began
    if TOKENS in table.column_names:
        return {}
    load_tokenizer(text)
    began = time.process_time()
    batch_from_text_table(table, text, source=shard.file.path)
    cut = time.process_time() - began
    began = time.process_time()
    for chapter in table[text.text_column].to_pylist():
        sentencex.get_sentence_boundaries(text.language, RARE.sub(" ", chapter))
    split = time.process_time() - began
    whole = parquet + cut
    return {"parquet_share_of_reading": parquet / whole, "sentence_splitting_share_of_reading": split / whole}


def _flatness(memory: list[Memory]) -> dict[str, float]:
    """Peak MiB of a worker, and the mean of the last quarter of the run over that of the second."""
    resident = np.array([look.resident for look in memory])
    quarters = np.array_split(resident, 4)
    return {
        "worker_peak_mib": float(resident.max()),
        "worker_peak_fair_mib": max(look.fair for look in memory),
        "worker_peak_own_mib": max(look.own for look in memory),
        "memory_last_quarter_over_second": float(quarters[3].mean() / quarters[1].mean()),
    }


def _documents(out: Path) -> NDArray[np.float64]:
    """(D, 3) tokens, seconds of decoding and the sampler's work, which is 0 where Viterbi's labels have no penalty."""
    times = {row[DOC_ID]: row for table in read_tables(out / "_times", TIMES_LAYOUT) for row in table.to_pylist()}
    rows = [
        (len(labels), times[name]["seconds"], times[name]["work"])
        for table in read_tables(out, PREDICTIONS_LAYOUT)
        for name, labels in zip(table[DOC_ID].to_pylist(), table["labels"], strict=True)
    ]
    return np.array(rows)


def _growth(documents: NDArray[np.float64]) -> dict[str, Any]:
    """The exponent of cost in length (1 is linear) of documents with a penalty, and microseconds a token."""
    length, seconds, work = documents.T
    slope = float(np.polyfit(np.log(length[work > 0]), np.log(seconds[work > 0]), 1)[0])
    edges = np.quantile(length, [0, 0.25, 0.5, 0.75, 0.95, 1])
    rows = []
    for low, high in pairwise(edges.tolist()):
        inside = (length >= low) & ((length < high) | (high == float(edges[-1])))
        cost = 1e6 * seconds[inside].sum() / length[inside].sum()
        rows.append(
            {"tokens": f"{low:.0f} to {high:.0f}", "documents": int(inside.sum()), "microseconds_a_token": cost}
        )
    return {
        "documents_without_penalty": int((work == 0).sum()),
        "exponent_of_decoding_in_length": slope,
        "longest_seconds": float(seconds.max()),
        "by_length": rows,
    }


def _compared(part: Path, model: Path, workers: int) -> dict[str, Any]:
    """The same part by one worker and by several, in turn: wall clock from the start of actors to the last shard."""
    speeds: dict[int, list[float]] = {1: [], workers: []}
    for _ in range(PAIRS):
        for count, seen in speeds.items():
            report = concord(*_arguments(part, model, count, MADE / "out" / f"{part.name}-{count}"))
            seen.append(report["tokens_per_second"])
    middle = {count: float(np.median(seen)) for count, seen in speeds.items()}
    return {
        "tokens_per_second_by_1_worker": middle[1],
        f"tokens_per_second_by_{workers}_workers": middle[workers],
        f"{workers}_workers_over_1": middle[workers] / middle[1],
        f"{workers}_workers_over_1_by_pair": [many / one for one, many in zip(*speeds.values(), strict=True)],
    }


def _open_documents(out: Path) -> list[dict[str, Any]]:
    """Documents without a proof, with their gaps in nats."""
    return [
        {"doc_id": row[DOC_ID], "gap": row["gap"], "status": row["status"]}
        for table in read_tables(out, PREDICTIONS_LAYOUT)
        for row in table.select([DOC_ID, "gap", "status", "certified"]).to_pylist()
        if not row["certified"]
    ]


def _draw(documents: NDArray[np.float64], memory: list[Memory], name: str) -> None:
    picture = figure(9, 3.4)
    left, right = picture.subplots(1, 2)
    left.loglog(documents[:, 0], 1e3 * documents[:, 1], ".", markersize=2, color="#4477aa")
    middle = np.median(documents[:, 1] / documents[:, 0])
    ends = np.array([documents[:, 0].min(), documents[:, 0].max()])
    left.loglog(ends, 1e3 * middle * ends, color="#bbbbbb", linewidth=1, label="linear")
    left.set(xlabel="tokens of the document", ylabel="milliseconds to its certified labels")
    left.legend(frameon=False)
    right.plot([m.at for m in memory], [m.resident for m in memory], label="resident", color="#4477aa")
    right.plot([m.at for m in memory], [m.fair for m in memory], label="with its part of shared pages", color="#228833")
    right.plot([m.at for m in memory], [m.own for m in memory], label="without shared pages", color="#ee6677")
    right.axhline(2048, color="#bbbbbb", linewidth=1)
    right.set(xlabel="seconds of the run", ylabel="MiB of the worker with most", ylim=(0, 2200))
    right.legend(frameon=False)
    draw(picture, name)


if __name__ == "__main__":
    main()
