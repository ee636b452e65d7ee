"""Honest runs of every engine under every label scheme are confirmed; forged ones are refused, by file and field.

`benchmarks/bench_forgeries.py` crosses all engines, schemes and ways to forge; here is a part of that.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from concord.flows.commands.verify import LISTED_WORD, SETTLED_WORD, verify
from concord.flows.runfolder.layout import MANIFEST
from concord.schemas.labels import Scheme
from concord.workers.inference.registry import SOLVERS
from concord.workers.labelling.output import CERTIFICATES, PREDICTIONS, REJECTS
from tests.support.forgeries import OF_MANIFESTS, OF_ROWS, Found, forge_rows, opened, refused
from tests.support.made_folders import FlatModel, MadeRun, made_run

EVERYTHING: dict[str, Any] = {"confidence": "margin", "n_best": 3}
POLICIES = ("viterbi", "relax", "reject")
KINDS = [
    (Scheme.BIO, "certify", {"certificates": True} | EVERYTHING),
    (Scheme.PLAIN, "certify", {"certificates": True, "impossible": True, "on_infeasible": "relax"}),
    (Scheme.BIO, "gibbs", EVERYTHING),
    (Scheme.LOOSE, "viterbi", {"n_best": 3}),
    (Scheme.PLAIN, "beam", {"impossible": True}),
    (Scheme.BIO, "certify", {"settle": True, "impossible": True}),
]
IDS = [f"{scheme}-{engine}{'-settle' * ('settle' in settings)}" for scheme, engine, settings in KINDS]


@pytest.fixture(scope="module", params=range(len(KINDS)), ids=IDS)
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> MadeRun:
    scheme, engine, settings = KINDS[request.param]
    return made_run(tmp_path_factory.mktemp("made") / "run", scheme, engine=engine, count=8, **settings)


@pytest.mark.parametrize("scheme", Scheme)
def test_honest_runs_are_confirmed(scheme: Scheme, tmp_path: Path) -> None:
    for number, engine in enumerate(SOLVERS):
        policy, able = POLICIES[number % 3], SOLVERS[engine].certifies
        given: dict[str, Any] = {"engine": engine, "on_infeasible": policy, "certificates": able}
        run = made_run(tmp_path / engine, scheme, seed=number, impossible=True, **given)
        with run.opened():
            report = verify(str(run.out))
        assert report.failed == (), engine
        assert (report.documents, report.rejected) == ((4, 2) if number % 3 == 2 else (5, 1))
        assert report.tolerance == 1e-6


@pytest.mark.parametrize("scheme", Scheme)
@pytest.mark.parametrize("engine", ["certify", "gibbs"])
def test_honest_lists_are_confirmed_and_what_is_not_is_named(scheme: Scheme, engine: str, tmp_path: Path) -> None:
    for n_best in (0, 1, 4):
        run = made_run(tmp_path / str(n_best), scheme, engine=engine, count=6, seed=n_best, n_best=n_best)
        with run.opened():
            report = verify(str(run.out))
        assert report.failed == ()
        assert (LISTED_WORD in report.trusted) is (n_best > 0)


def test_forged_rows_are_refused_and_named(made: MadeRun, tmp_path: Path) -> None:
    """Several documents are forged at once, each in its own way: those are named, and no others."""
    rng, waiting, tried = np.random.default_rng(0), list(OF_ROWS), 0
    while waiting:
        forged = opened(made)
        done = forge_rows(forged, waiting[:16], rng)
        names = {forgery.name for forgery, _ in done.values()}
        waiting = ([way for way in waiting[:16] if way.name not in names] if done else []) + waiting[16:]
        if not done:
            continue
        found = refused(forged, tmp_path / str(len(waiting)))
        assert not any("\n" in fault.line for fault in found)
        assert {fault.doc_id for fault in found} - {"nobody", None} <= done.keys()
        for doc_id, (forgery, field) in done.items():
            own = [fault for fault in found if fault.doc_id == doc_id or not forgery.of_document]
            assert any(_names(fault, field) for fault in own), (forgery.name, doc_id, found)
        tried += len(done)
    assert tried > 60


def _names(fault: Found, field: str) -> bool:
    folders = (PREDICTIONS, CERTIFICATES, REJECTS)
    return fault.field.startswith(field) and fault.file.startswith(folders) and fault.field in fault.line


def test_of_two_equal_answers_none_is_settled(tmp_path: Path) -> None:
    """All labellings score the same but for constraints, which none of these two breaks."""
    made = made_run(tmp_path / "run", Scheme.BIO, model_class=FlatModel, engine="certify", settle=True)
    with made.opened():
        report = verify(str(made.out))
    assert report.failed == ()
    assert SETTLED_WORD in report.trusted
    forged = opened(made)
    tokens = forged.row["tokens"]
    names = ["O"] * len(tokens)
    names[next(t for t, token in enumerate(tokens) if tokens.count(token) == 1 and token != "1996")] = "B-LOC"
    assert names != forged.row["viterbi_labels"]
    forged.rescored(names, bound=0.0, status="optimal")
    assert {fault.file for fault in refused(forged, tmp_path / "unsettled")} == {MANIFEST}, "its totals alone"
    forged.row["settled"] = True
    found = refused(forged, tmp_path / "settled")
    assert [(fault.doc_id, fault.field) for fault in found] == [(forged.row["doc_id"], "settled")]


def test_forged_manifests_are_refused(made: MadeRun, tmp_path: Path) -> None:
    rng, tried = np.random.default_rng(0), 0
    for number, forgery in enumerate(OF_MANIFESTS):
        forged = opened(made)
        if forgery.change(forged, rng) is None:
            continue
        found = refused(forged, tmp_path / str(number))
        assert found, forgery.name
        assert not any("\n" in fault.line for fault in found)
        tried += 1
    assert tried > 25
