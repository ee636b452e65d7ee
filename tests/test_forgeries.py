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
from tests.support.forgeries import OF_MANIFESTS, OF_ROWS, OF_TOTALS, Found, forge_rows, opened, refused
from tests.support.made_folders import CalibratedModel, FlatModel, MadeRun, WordModel, made_run
from tests.support.seeds import blocks

EVERYTHING: dict[str, Any] = {"confidence": "margin", "n_best": 3}
POLICIES = ("viterbi", "relax", "reject")
KINDS = [
    (Scheme.BIO, "certify", {"certificates": True, "model_class": CalibratedModel} | EVERYTHING),
    (Scheme.PLAIN, "certify", {"certificates": True, "impossible": True, "on_infeasible": "relax"}),
    (Scheme.BIO, "gibbs", EVERYTHING),
    (Scheme.LOOSE, "viterbi", {"n_best": 3, "model_class": CalibratedModel}),
    (Scheme.PLAIN, "beam", {"impossible": True}),
    (Scheme.BIO, "certify", {"settle": True, "impossible": True}),
]
PARTS = 3
"""Blocks of a test: each has all runs and all ways to make or forge them, and another part of their pairs."""
IDS = [f"{scheme}-{engine}{'-settle' * ('settle' in settings)}" for scheme, engine, settings in KINDS]


@pytest.fixture(scope="module", params=range(len(KINDS)), ids=IDS)
def kind(request: pytest.FixtureRequest) -> int:
    number: int = request.param
    return number


@pytest.fixture(scope="module")
def made(kind: int, tmp_path_factory: pytest.TempPathFactory) -> MadeRun:
    scheme, engine, settings = KINDS[kind]
    return made_run(tmp_path_factory.mktemp("made") / "run", scheme, engine=engine, count=8, **settings)


@pytest.mark.parametrize("block", blocks(PARTS))
@pytest.mark.parametrize("place", range(len(Scheme)), ids=list(Scheme))
def test_honest_runs_are_confirmed(place: int, block: int, tmp_path: Path) -> None:
    scheme = list(Scheme)[place]
    for number, engine in list(enumerate(SOLVERS))[(place + block) % PARTS :: PARTS]:
        policy, able = POLICIES[number % 3], SOLVERS[engine].certifies
        given: dict[str, Any] = {"engine": engine, "on_infeasible": policy, "certificates": able}
        given["model_class"] = (WordModel, CalibratedModel)[number % 2]
        run = made_run(tmp_path / engine, scheme, seed=number, impossible=True, **given)
        with run.opened():
            report = verify(str(run.out))
        assert report.failed == (), engine
        assert (report.documents, report.rejected) == ((4, 2) if number % 3 == 2 else (5, 1))
        assert report.tolerance == 1e-6


@pytest.mark.parametrize("block", blocks(PARTS))
@pytest.mark.parametrize("place", range(len(Scheme)), ids=list(Scheme))
@pytest.mark.parametrize("engine", ["certify", "gibbs"])
def test_honest_lists_are_confirmed_and_what_is_not_is_named(
    place: int, engine: str, block: int, tmp_path: Path
) -> None:
    scheme, n_best = list(Scheme)[place], (0, 1, 4)[(place + block) % PARTS]
    model = (WordModel, CalibratedModel)[block % 2]
    run = made_run(tmp_path / "made", scheme, model_class=model, engine=engine, count=6, seed=n_best, n_best=n_best)
    with run.opened():
        report = verify(str(run.out))
    assert report.failed == ()
    assert (LISTED_WORD in report.trusted) is (n_best > 0)


@pytest.mark.parametrize("block", blocks(PARTS))
def test_forged_rows_are_refused_and_named(made: MadeRun, kind: int, block: int, tmp_path: Path) -> None:
    """Several documents are forged at once, each in its own way: those are named, and no others."""
    rng, waiting, tried = np.random.default_rng(0), list(OF_ROWS[(kind + block) % PARTS :: PARTS]), 0
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
    assert tried > 40


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
    assert tried > 20


def test_forged_totals_are_refused_and_named(made: MadeRun, tmp_path: Path) -> None:
    """All of them at once: each is named, and nothing else."""
    rng, forged = np.random.default_rng(0), opened(made)
    forged_names = {name for name, forgery in OF_TOTALS.items() if forgery.change(forged, rng) is not None}
    assert len(forged_names) > 12
    found = refused(forged, tmp_path / "forged")
    assert {(fault.file, fault.field) for fault in found} == {(MANIFEST, f"totals.{name}") for name in forged_names}


@pytest.mark.slow
@pytest.mark.parametrize("name", OF_TOTALS)
def test_a_forged_total_is_refused_and_named(made: MadeRun, name: str, tmp_path: Path) -> None:
    forged = opened(made)
    if OF_TOTALS[name].change(forged, np.random.default_rng(0)) is not None:
        (fault,) = refused(forged, tmp_path / "forged")
        assert (fault.file, fault.field) == (MANIFEST, f"totals.{name}")
