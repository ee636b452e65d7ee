"""Faults, counted: each kind is done to the real thing at several moments, and the same command given again.

    python benchmarks/bench_faults.py                                  # five moments of every kind; about an hour
    python benchmarks/bench_faults.py --seeds 2 --only SIGTERM --only "worker killed"

The command line runs in a process of its own, with its own Ray, and its own servers of MLflow and Prefect where these
are to die. The moment comes from the seed. A trial holds where the command that meets the fault ends as it promises to
(its exit code, one line, no traceback, no process left), and the same command again writes the bytes of a run that
nothing disturbed, with every document read either written or rejected, and nothing half-written left over.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow.parquet as pq
from common import ROOT, known_figures, save
from trials import SHARDS, Trial, processes

sys.path.insert(0, str(ROOT))  # what the tests do to a run is part of them, which are not installed

from concord.flows.environment import SQLITE
from tests.integration.citations import labelled, write_citations
from tests.integration.conftest import PYTHON, World, markers, new_world
from tests.integration.lethal import LETHAL_DOCUMENTS
from tests.integration.processes import command_line, descendants, wait_until, workers_of
from tests.integration.servers import MlflowServer, mlflow_server, prefect_server
from tests.integration.terminals import CTRL_C, Terminal

SLOW = ("--set", "chains=6", "--set", "work=null")
"""Shards of a second or two each: Ray's death can be seen before the run is over."""

POOL = 30
"""Citations that `codl` labels."""

RUNS, PARAMETERS, FIGURES = 200, 15, 60
"""Runs in the tracker, and what each tells, about as much as one of `reprocess`."""

TRACKED = f"{RUNS} tracked runs"


# To a run of `reprocess`


def moment(trial: Trial, *, most: int = SHARDS - 2, early: bool = False) -> Callable[[int], bool]:
    """Has the moment of the fault come for a command that starts now? It is told the command's process.

    When 0 to ``most`` shards are done; for one in four where it may be ``early``, at a second of its start.
    """
    if early and trial.rng.random() < 0.25:
        due = time.monotonic() + trial.rng.uniform(1.5, 8)
        return lambda _: time.monotonic() > due
    shards = trial.rng.randint(0, most)
    return lambda pid: markers(trial.world, trial.out) >= shards and bool(workers_of(pid))


def disturbed(
    trial: Trial, command: Sequence[str], fault: Callable[[int], None], *, codes: Sequence[int], **when: Any
) -> None:
    """A run that meets the ``fault``, which is told its process, at the `moment` that ``when`` allows."""
    come = moment(trial, **when)
    process = trial.start(command)
    wait_until(lambda: come(process.pid), process, seconds=300)
    time.sleep(trial.rng.uniform(0, 0.3))
    fault(process.pid)
    _, said = process.communicate(timeout=400)
    trial.ended(process.returncode, said, *codes)


def signalled(number: signal.Signals) -> Callable[[int], None]:
    """A fault: the command itself gets a signal."""
    return lambda pid: os.kill(pid, number)


def killed(part: str) -> Callable[[int], None]:
    """A fault: a process below the command, with this in its command line, is killed."""

    def fault(driver: int) -> None:
        victims = [pid for pid in descendants(driver) if part in command_line(pid)]
        assert victims, f"no {part} to kill"
        os.kill(victims[0], signal.SIGKILL)

    return fault


def reprocess(
    trial: Trial, fault: Callable[[int], None], *, codes: Sequence[int], more: Sequence[str] = (), **when: Any
) -> None:
    """The fault in a run of two workers, and the same command again."""
    command = trial.world.reprocess_command(trial.out, "--workers", "2", *more)
    disturbed(trial, command, fault, codes=codes, **when)
    trial.check_labelled(command, wanted=reference(trial.world, *more))


def reference(world: World, *more: str) -> str:
    """The folder of the undisturbed run with these options, which is made once."""
    name = "reference" + "".join(more).replace("--", "-")
    if not (world.folder / name).exists():
        world.reprocess(name, "--workers", "1", *more)
    return name


def ctrl_c(trial: Trial) -> None:
    """Ctrl-C at a terminal, once or twice."""
    command = trial.world.reprocess_command(trial.out, "--workers", "2")
    come = moment(trial, early=True)
    trial.others = frozenset(processes(trial.world))
    terminal = Terminal.start(trial.world, *command)
    terminal.wait(lambda: come(terminal.pid) or terminal.ended(), seconds=240)
    already = len(terminal.said)
    for _ in range(trial.rng.randint(1, 2)):
        os.write(terminal.keyboard, CTRL_C)
        time.sleep(trial.rng.uniform(0, 0.5))
    terminal.wait(terminal.ended, seconds=60)
    terminal.step()
    trial.ended(terminal.code, terminal.said[already:].decode(), 130)
    trial.check_labelled(command, wanted=reference(trial.world))


def mlflow_killed(trial: Trial) -> None:
    """MLflow's server is killed; there is one again, with the same runs, before the same command is given."""
    folder = trial.world.folder / f"mlflow-{trial.out}"

    def served(server: MlflowServer) -> list[str]:
        return trial.world.reprocess_command(trial.out, "--workers", "2", "--tracking", server.uri)

    with mlflow_server(folder, trial.world.env) as server:
        disturbed(trial, served(server), lambda _: server.signal(signal.SIGKILL), codes=[5])
    with mlflow_server(folder, trial.world.env, port=int(server.uri.rpartition(":")[2])) as server:
        trial.check_labelled(served(server), wanted=reference(trial.world))
        told = server.runs(trial.world.folder / trial.out)
        trial.check(set(told.values()) == {"FINISHED"}, f"MLflow has {told}")


def prefect_killed(trial: Trial) -> None:
    """The Prefect server that watches the run is killed; the output is there, and the same command does without."""
    command = trial.world.reprocess_command(trial.out, "--workers", "2")
    alone = trial.world
    with prefect_server(alone.folder, alone.env) as server:
        trial.world = alone.watched(server.api)
        disturbed(trial, command, lambda _: server.process.kill(), codes=[5])
    trial.check((alone.folder / trial.out / "manifest.json").exists(), "the output was not finished")
    trial.world = alone
    trial.check_labelled(command, wanted=reference(alone))


def lethal_documents(trial: Trial) -> None:
    """One or two documents end every worker that scores them: they are rejects, all others as they always are."""
    world, name = trial.world, reference(trial.world)
    wanted = predicted(world, name)
    lethal = trial.rng.sample(sorted(wanted), trial.rng.randint(1, 2))
    env = world.env | {LETHAL_DOCUMENTS: ",".join(lethal), "PYTHONPATH": str(ROOT)}
    script = [PYTHON, "-c", "from tests.integration.lethal import lethal_app; lethal_app()"]
    command = [*script, *world.reprocess_command(trial.out, "--workers", "2")]
    answers = []
    for _ in range(2):
        trial.others = frozenset(processes(world))
        ran = subprocess.run(command, env=env, cwd=world.folder, capture_output=True, text=True, check=False)
        trial.ended(ran.returncode, ran.stderr, 0)
        answers.append(json.loads(ran.stdout))
    first, again = answers
    trial.check((first["documents"], first["rejected"]) == (len(wanted) - len(lethal), len(lethal)), f"{first}")
    trial.check((again["shards_done"], again["shards_skipped"]) == (0, SHARDS), f"done again: {again}")
    kept = {name: row for name, row in wanted.items() if name not in lethal}
    trial.check(predicted(world, trial.out) == kept, "other labels for their neighbours")
    rejects = pq.read_table(world.folder / trial.out / "_rejects")["doc_id"].to_pylist()
    trial.check(sorted(rejects) == sorted(lethal), f"rejected {rejects} for {lethal}")


def predicted(world: World, out: str) -> dict[str, Any]:
    """The row of each document."""
    return {row["doc_id"]: row for row in pq.read_table(world.folder / out / "predictions").to_pylist()}


def numbers_of_workers(trial: Trial) -> None:
    """No fault: 1, 2 and 4 workers with a seed of its own write the same bytes."""
    names = [f"{trial.out}-{count}" for count in (1, 2, 4)]
    seed = str(trial.rng.randrange(1000))
    for name in names:
        answer = trial.world.reprocess(name, "--workers", name[-1], "--seed", seed)
        trial.check(answer["shards_done"] == SHARDS, f"shards lost: {answer}")
    for name in names[1:]:
        trial.check_same(name, names[0])


# To other commands


def training(trial: Trial) -> None:
    """`train` is killed at any second; the same command again makes the model that undisturbed training makes."""
    started = time.monotonic()
    trial.world.run(*train_command(f"whole-{trial.out}"))
    after = trial.rng.uniform(0, 0.9) * (time.monotonic() - started)
    process = trial.start(train_command(trial.out))
    time.sleep(after)
    process.kill()
    _, said = process.communicate(timeout=60)
    trial.ended(process.returncode, said, -signal.SIGKILL)
    trial.again(train_command(trial.out))
    trial.check_same(trial.out, f"whole-{trial.out}")


def train_command(out: str) -> list[str]:
    """The arguments of a training on the corpus that is there for it."""
    return ["train", "--corpus", "train", "--features", "finkel", "--out", out, "--json"]


def learning_from_a_pool(trial: Trial) -> None:
    """`codl` is killed at any number of labelled shards; the same command again ends as one that was not."""
    world, whole = trial.world, "whole-codl"
    if not (world.folder / "pool").exists():
        write_citations(world, pool=POOL)
        world.run(*codl_command(whole))
    shards = trial.rng.randint(0, labelled(world, whole) - 2)
    process = trial.start(codl_command(trial.out))
    wait_until(lambda: labelled(world, trial.out) >= shards, process, seconds=300)
    time.sleep(trial.rng.uniform(0, 0.5))
    process.kill()
    _, said = process.communicate(timeout=60)
    trial.ended(process.returncode, said, -signal.SIGKILL)
    trial.again(codl_command(trial.out))
    trial.check_same(trial.out, whole)


def codl_command(out: str) -> list[str]:
    """The arguments of learning in two cycles."""
    places = ["--corpus", "few", "--pool", "pool", "--constraints", "rules.yaml", "--out", out]
    given = ["--set", "cycles=2", "--set", "gamma=0.5", "--shard-kib", "1", "--workers", "1"]
    return ["codl", *places, *given, "--json"]


def tracked_runs(trial: Trial) -> None:
    """No fault: seconds of tracking a run, from its connection to its end, where there are 0, 1 and more before."""
    from concord.flows.tracking.tracking import Outcome, Tracking

    os.environ["CONCORD_HOME"] = trial.world.env["CONCORD_HOME"]
    told = {f"figure/{number}": number / 3 for number in range(FIGURES)}
    seconds = []
    for number in range(RUNS):
        started = time.monotonic()
        tracking = Tracking(f"{SQLITE}{trial.world.folder / trial.out}.db")
        with tracking.run(f"run {number}", tags={"predictions": trial.out}) as run:
            run.params(dict.fromkeys(list(told)[:PARAMETERS], number))
            run.dataset(name="test", digest=f"{number:032x}", source="test", context="reprocess")
            run.end(Outcome.now(told))
        seconds.append(round(time.monotonic() - started, 3))
    names = {"first, which makes the file": seconds[0], "second": seconds[1], f"run {RUNS}": seconds[-1]}
    trial.figures = names | {
        "median of the first 20": median(seconds[:20]),
        "median of the last 20": median(seconds[-20:]),
    }
    trial.check(median(seconds[-20:]) < 2 * median(seconds[:20]), f"slower and slower: {trial.figures}")


# Counting


Fault = Callable[[Trial], None]

FAULTS: dict[str, Fault] = {
    "worker killed": partial(reprocess, fault=killed("ray::ShardWorker"), codes=[0]),
    "driver killed": partial(reprocess, fault=signalled(signal.SIGKILL), codes=[-signal.SIGKILL], early=True),
    "raylet killed": partial(reprocess, fault=killed("raylet/raylet "), codes=[5, 0], more=SLOW, most=4),
    "GCS killed": partial(reprocess, fault=killed("gcs/gcs_server"), codes=[5, 0], more=SLOW, most=4),
    "SIGTERM": partial(reprocess, fault=signalled(signal.SIGTERM), codes=[143], early=True),
    "Ctrl-C": ctrl_c,
    "MLflow killed": mlflow_killed,
    "Prefect killed": prefect_killed,
    "lethal documents": lethal_documents,
    "1, 2, 4 workers": numbers_of_workers,
    "train killed": training,
    "codl killed": learning_from_a_pool,
    TRACKED: tracked_runs,
}
"""What is done, by what it is called."""


def main() -> None:
    """Counts, and saves after each trial; kinds that are not asked for keep what was counted before."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5, help="moments of each kind")
    parser.add_argument(
        "--first", type=int, default=0, help="the first seed; from 1 on, counts are added to those saved"
    )
    parser.add_argument("--only", action="append", choices=FAULTS, help="may be given many times; all without it")
    chosen = parser.parse_args()
    figures = known_figures("faults")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        world = new_world(Path(folder))
        world.run(*train_command("model"))
        for seed in range(chosen.first, chosen.first + chosen.seeds):
            for name in chosen.only or FAULTS:
                if seed == 0:
                    figures[name] = {"tried": 0, "held": 0, "failed": {}, "exit codes": {}}
                count(world, name, seed, figures[name])
                print(f"{name}, moment {seed}: {figures[name]}", flush=True)
                save("faults", figures)


def count(world: World, name: str, seed: int, counts: dict[str, Any]) -> None:
    """Adds one trial to the ``counts`` of its kind; of one that does not hold, the promises that were broken."""
    trial = Trial(world, random.Random(f"{name} {seed}"), f"{name.replace(' ', '-').replace(',', '')}-{seed}")
    try:
        FAULTS[name](trial)
    except (AssertionError, subprocess.TimeoutExpired) as error:
        trial.broken.append(str(error))
    for pid in processes(world):
        os.kill(pid, signal.SIGKILL)
    counts["tried"] += 1
    counts["held"] += not trial.broken
    counts["failed"] |= {str(seed): trial.broken} if trial.broken else {}
    code = str(trial.code)
    counts["exit codes"][code] = counts["exit codes"].get(code, 0) + 1
    counts |= trial.figures


if __name__ == "__main__":
    main()
