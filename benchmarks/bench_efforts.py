"""What one command trains: ``concord train --effort quick``, ``normal`` and ``best``, on ten corpora.

Each model learns from a corpus's training part and labels its development part, of which no choice knew. Figures: F1 of
spans by Viterbi and certified under the model's label consistency and mined rules, the gain on the effort before with
the 95 % interval of a paired bootstrap over documents, CPU seconds and peak memory of training, what ``best`` tried,
gained and kept, and what it told to expect. Vectors and encoders are tried where their packages are installed (`concord
list resources`). Corpora without a development part of their own learn from the first four fifths and label the last
one.

    python benchmarks/bench_efforts.py             # all; what is there keeps its figures
    python benchmarks/bench_efforts.py --cpu-seconds 3600 news/quick news/normal news/best
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

from common import MADE, concord, concord_command, environment, known_figures, save
from corpora import corpus

EFFORTS = ("quick", "normal", "best")


class Parts(NamedTuple):
    """Corpora to learn from and to be judged by."""

    train: str
    test: str


CORPORA = {
    "news": Parts("news", "news-dev"),
    "dutch": Parts("dutch", "dutch-dev"),
    "spanish": Parts("spanish", "spanish-dev"),
    "posts": Parts("posts", "posts-dev"),
    "abstracts": Parts("abstracts", "abstracts-dev"),
    "mails": Parts("mails-before", "mails-after"),
    "chunks": Parts("chunks-before", "chunks-after"),
    "citations": Parts("citations", "citations-dev"),
    "nested-citations": Parts("nested-citations", "nested-citations-dev"),
    "references": Parts("references", "references-dev"),
}


def main() -> None:
    """Trains and judges the models that have no figures yet."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cpu-seconds", help="of `--effort best`")
    parser.add_argument("names", nargs="*", metavar="CORPUS/EFFORT", help="such as news/normal (default: all)")
    chosen = parser.parse_args()
    every = [f"{name}/{effort}" for name in CORPORA for effort in EFFORTS]
    known: dict[str, Any] = known_figures("efforts").get("models", {})
    for model in chosen.names or every:
        if model not in known:
            name, effort = model.split("/")
            known[model] = _measured(name, effort, chosen.cpu_seconds)
            save("efforts", {"models": {one: known[one] for one in every if one in known}})


def _measured(name: str, effort: str, cpu_seconds: str | None) -> dict[str, Any]:
    """Figures of an effort on a corpus, and its gain on the effort before, whose run is there."""
    parts, before = CORPORA[name], EFFORTS[EFFORTS.index(effort) - 1] if effort != EFFORTS[0] else None
    train, test = corpus(parts.train), corpus(parts.test)
    model, run = (MADE / "efforts" / f"{name}-{effort}{end}" for end in ("", "-run"))
    limit = ("--cpu-seconds", cpu_seconds) if cpu_seconds and effort == "best" else ()
    trained = _command("train", "--corpus", train, "--out", model, "--effort", effort, *limit)
    rules = ("--constraints", model / "constraints.yaml") if trained.get("rules") else ()
    engine = ("--engine", "certify", "--workers", "0")
    concord("reprocess", "--corpus", test, "--model", model, "--out", run, *rules, *engine)
    against = () if before is None else ("--against", MADE / "efforts" / f"{name}-{before}-run")
    judged = concord("evaluate", "--run", run, "--corpus", test, "--measure", "spans", *against)
    return trained | {"evaluation": judged}


def _command(*arguments: str | Path) -> dict[str, Any]:
    """What a training reports of its choice, and its CPU seconds and peak memory in bytes."""
    typed = concord_command(*arguments)
    print("$", *typed, file=sys.stderr)
    with subprocess.Popen(typed, env=environment(), stdout=subprocess.PIPE, text=True) as training:
        assert training.stdout is not None
        report = json.load(training.stdout)
        _, status, used = os.wait4(training.pid, 0)
        training.returncode = os.waitstatus_to_exitcode(status)
    return {
        "search": report["search"],
        "rules": report["rules"],
        "CPU seconds": used.ru_utime + used.ru_stime,
        "peak bytes": used.ru_maxrss * 1024,
    }


if __name__ == "__main__":
    main()
