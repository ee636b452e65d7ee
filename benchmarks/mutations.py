"""Changes the code behind the proofs on purpose, one line at a time, and says which test notices.

Every change of `mutants.MUTANTS` is made in a copy of the project and the tests that should notice it run there until
one fails. A change that no test notices SURVIVED: write the test. The tests have to pass without any change first.
Kernels are kept beside the copy under the digest of their code, so one that changed compiles anew.

    python benchmarks/mutations.py --file checker --file relaxation.py
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from common import ROOT, save
from mutants import MUTANTS, Mutant

COPIED = ("concord", "tests", "benchmarks", "infra")
FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)
SECONDS = 900.0
"""A change that keeps its tests busy for longer is noticed, too."""

SURVIVED, NOT_FOUND = "SURVIVED", "old text not found once"

PLAIN = {"NUMBA_DISABLE_JIT": "1"}
SILENT = ("-W", "ignore::RuntimeWarning")
"""Numpy warns of hashes that wrap around and of 0 · inf, compiled kernels do not."""


class Verdict(NamedTuple):
    """Which test noticed a change, or why none did."""

    by: str
    seconds: float


def main() -> None:
    """Tries the changes, prints a line for each and saves the table; exit code 1 where one survived."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--file", action="append", default=[], help="only changes of files with this in their name")
    parser.add_argument("--unchecked", action="store_true", help="do not run the tests without a change first")
    parser.add_argument("--name", default="mutations", help="name of the file of results")
    parser.add_argument("--check", action="store_true", help="only say which changes no longer fit the code")
    chosen = parser.parse_args()
    mutants = [m for m in MUTANTS if not chosen.file or any(part in m.file for part in chosen.file)]
    if chosen.check:
        raise SystemExit("\n".join(stale(mutants)) or 0)
    with tempfile.TemporaryDirectory() as place:
        tree = copied(Path(place) / "tree")
        if not chosen.unchecked:
            unchanged = run(tree, tuple(dict.fromkeys(test for m in mutants for test in m.tests)))
            if unchanged.by != SURVIVED:
                raise SystemExit(f"fails without any change: {unchanged.by}")
        rows = [(mutant, tried(tree, mutant)) for mutant in mutants]
    open_ = [mutant for mutant, verdict in rows if verdict.by in (SURVIVED, NOT_FOUND)]
    save(
        chosen.name,
        {
            "mutants": len(rows),
            "killed": len(rows) - len(open_),
            "seconds": sum(verdict.seconds for _, verdict in rows),
            "table": [
                {"file": m.file, "old": m.old, "new": m.new, "by": by, "seconds": round(seconds, 1)}
                for m, (by, seconds) in rows
            ],
        },
    )
    raise SystemExit(bool(open_))


def stale(mutants: list[Mutant]) -> list[str]:
    """What is wrong with changes whose old text, or whose tests, are no longer there."""
    texts = {name: (ROOT / name).read_text() for m in mutants for name in (m.file, *map(_file, m.tests))}
    wrong = [f"{m.file}: found {n} times: {m.old}" for m in mutants if (n := texts[m.file].count(m.old)) != 1]
    named = {test for m in mutants for test in m.tests if "::" in test}
    return wrong + [
        f"no such test: {test}" for test in sorted(named) if f"def {_name(test)}(" not in texts[_file(test)]
    ]


def _file(test: str) -> str:
    return test.partition("::")[0]


def _name(test: str) -> str:
    return test.partition("::")[2]


def copied(tree: Path) -> Path:
    """A copy of the project's code in ``tree``."""
    for name in COPIED:
        shutil.copytree(ROOT / name, tree / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copyfile(ROOT / "pyproject.toml", tree / "pyproject.toml")
    return tree


def tried(tree: Path, mutant: Mutant) -> Verdict:
    """Makes the change, runs its tests, and takes it back; prints the verdict."""
    path = tree / mutant.file
    text = path.read_text()
    verdict = Verdict(NOT_FOUND, 0.0)
    if text.count(mutant.old) == 1:
        path.write_text(text.replace(mutant.old, mutant.new))
        verdict = run(tree, mutant.tests)
        path.write_text(text)
    print(f"{verdict.seconds:6.1f} s  {verdict.by}\n          {mutant.file}: {mutant.new.strip()}", flush=True)
    return verdict


def run(tree: Path, tests: tuple[str, ...]) -> Verdict:
    """The first of the tests that fails in a copy of the project, or `SURVIVED`."""
    started = time.perf_counter()
    typed = [sys.executable, "-B", "-m", "pytest", "-x", "-p", "no:cacheprovider", "--tb=no", *SILENT, *tests]
    try:
        ended = subprocess.run(
            typed, cwd=tree, env=os.environ | PLAIN, capture_output=True, text=True, check=False, timeout=SECONDS
        )
    except subprocess.TimeoutExpired:
        return Verdict(f"no end within {SECONDS:g} s", time.perf_counter() - started)
    seconds = time.perf_counter() - started
    if ended.returncode == 0:
        return Verdict(SURVIVED, seconds)
    found = FAILED.search(ended.stdout)
    if found is None and ended.returncode > 0:
        raise SystemExit(f"pytest did not run:\n{ended.stdout}{ended.stderr}")
    return Verdict(found[1] if found else f"signal {-ended.returncode}", seconds)


if __name__ == "__main__":
    main()
