"""What one command trains: ``concord train --effort quick``, ``normal`` and ``best``, on ten corpora.

Each model learns from a corpus's training part and labels its development part, of which no choice knew. Figures: F1 of
spans by Viterbi and certified under the model's label consistency, the gain on the effort before with the 95 % interval
of a paired bootstrap over documents, CPU seconds and peak memory of training, what ``best`` tried, gained and kept, and
what it told to expect. Vectors and encoders are tried where their packages are installed (`concord list resources`).
Corpora without a development part of their own learn from the first four fifths and label the last one.

    python benchmarks/bench_efforts.py             # all; those that are there keep their figures
    python benchmarks/bench_efforts.py --minutes 20 news dutch
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
    """Corpora to learn from and to be judged by, and the options of a person who knows what they are."""

    train: str
    test: str
    options: tuple[str, ...] = ()


CORPORA = {
    "news": Parts("news", "news-dev"),
    "dutch": Parts("dutch", "dutch-dev"),
    "spanish": Parts("spanish", "spanish-dev"),
    "posts": Parts("posts", "posts-dev"),
    "abstracts": Parts("abstracts", "abstracts-dev"),
    "mails": Parts("mails-before", "mails-after"),
    "chunks": Parts("chunks-before", "chunks-after"),
    "citations": Parts("citations", "citations-dev"),
    "nested citations": Parts("nested-citations", "nested-citations-dev"),
    "references": Parts("references", "references-dev"),
}


def main() -> None:
    """Trains and judges the models of the corpora that are named."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", help="of `--effort best`")
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"of {', '.join(CORPORA)}; default: those not measured"
    )
    chosen = parser.parse_args()
    known = known_figures("efforts").get("corpora", {})
    for name in chosen.names or [name for name in CORPORA if name not in known]:
        known[name] = _measured(name, chosen.minutes)
        save("efforts", {"corpora": {one: known[one] for one in CORPORA if one in known}})


def _measured(name: str, minutes: str | None) -> dict[str, Any]:
    """Figures of the three efforts on a corpus."""
    parts, figures, runs = CORPORA[name], dict[str, Any](), list[Path]()
    train, test = corpus(parts.train), corpus(parts.test)
    for effort in EFFORTS:
        model, run = (MADE / "efforts" / f"{name}-{effort}{end}" for end in ("", "-run"))
        limit = ("--minutes", minutes) if minutes and effort == "best" else ()
        trained = _command("train", "--corpus", train, "--out", model, "--effort", effort, *parts.options, *limit)
        concord("reprocess", "--corpus", test, "--model", model, "--out", run, "--engine", "certify", "--workers", "0")
        against = ("--against", runs[-1]) if runs else ()
        judged = concord("evaluate", "--run", run, "--corpus", test, "--measure", "spans", *against)
        figures[effort] = trained | {"evaluation": judged}
        runs.append(run)
    return figures


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
        "CPU seconds": used.ru_utime + used.ru_stime,
        "peak bytes": used.ru_maxrss * 1024,
    }


if __name__ == "__main__":
    main()
