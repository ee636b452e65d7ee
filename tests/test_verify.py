"""`concord verify` on runs made in a moment: what it confirms, and what it finds damaged."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from concord.flows.commands import verify as flow
from concord.flows.commands.verify import VerifyError, verify
from concord.flows.labelling.sources import OpenModel
from concord.flows.runfolder.folder_output import FolderOutput
from concord.flows.runfolder.layout import STORE
from concord.flows.runfolder.runfolder import Sources, find_done, publish, write_sources
from concord.schemas.run import RunKey
from concord.workers.corpus.ingestion import write_corpus
from concord.workers.corpus.parquet import table_bytes
from concord.workers.corpus.plan import plan
from concord.workers.corpus.settings import IngestSettings
from concord.workers.inference.registry import EngineError
from concord.workers.labelling.output import CERTIFICATES
from concord.workers.storage.storage import FolderStorage
from concord.workers.synthesis.made_up import synthesize
from tests.support.made_runs import HashModel, consistency, key_of, run
from tests.support.manifests import opened_manifest, write_manifest

KEY: dict[str, object] = {"engine": "certify", "options": {}, "certificates": True}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a corpus of two shards of four documents, and a whole run over it with certificates."""
    folder = tmp_path_factory.mktemp("made")
    documents = synthesize(8, seed=3, kind="news")
    write_corpus(documents, folder / "corpus", source="made up", layout=IngestSettings(group_documents=4))
    publish_run(folder / "out", folder / "corpus", key_of(consistency(), **KEY))
    return folder


@pytest.fixture
def out(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of that run, to be looked at and damaged."""
    constraints = consistency()
    monkeypatch.setattr(flow, "open_model", lambda name, registry: OpenModel(HashModel(), Path(name)))
    monkeypatch.setattr(flow, "open_constraints", lambda opened, files, consistency: constraints)
    return shutil.copytree(made / "out", tmp_path / "out", symlinks=True)


def publish_run(out: Path, corpus: Path, key: RunKey) -> None:
    out.mkdir()
    shards = plan(corpus)
    run(shards, out / STORE, key, consistency())
    write_sources(FolderStorage(out), Sources(corpus=str(corpus), model="model", constraints=(), consistency=True))
    publish(FolderOutput(out), find_done(FolderOutput(out), shards, key), rules=consistency().strengths)


def rewritten(out: Path, change: Callable[[list[int]], list[int]]) -> None:
    """Changes the longest proof, and all digests with it."""
    manifest = opened_manifest(out)
    tables = {path: pq.read_table(out / path) for path in manifest["files"] if path.startswith(CERTIFICATES)}
    path = max(tables, key=lambda name: max(map(len, tables[name]["proof"].to_pylist())))
    proofs = tables[path]["proof"].to_pylist()
    longest = max(range(len(proofs)), key=lambda i: len(proofs[i]))
    proofs[longest] = change(proofs[longest])
    data = table_bytes(tables[path].set_column(1, "proof", pa.array(proofs, pa.list_(pa.int64()))))
    (out / path).write_bytes(data)
    manifest["files"][path] = hashlib.sha256(data).hexdigest()
    write_manifest(out, manifest)


def test_a_run_with_certificates_is_confirmed_document_by_document(out: Path) -> None:
    report = verify(str(out))
    assert (report.documents, report.optimal, report.by_solver, report.open, report.failed) == (8, 8, 0, 0, ())
    assert (report.tolerance, report.rejected) == (1e-6, 0)
    assert report.cpu_seconds > 0
    assert any("scores that HashModel computes, compiled" in what for what in report.trusted)
    assert report.headline == "tolerance 1e-06 nats; 8 documents right: 8 proven optimal (100.0%); 0 rejected; 0 faults"


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (lambda proof: proof[:-3], "ends after"),
        (lambda proof: [*proof, 7], "1 numbers too many"),
        (lambda proof: [0, -1], "nats too high"),
        (lambda proof: [], "ends after 0 numbers"),
        (lambda proof: [1 << 62, *proof], "not one of 0 to"),
    ],
)
def test_a_proof_that_proves_nothing_is_named(out: Path, change: Callable[[list[int]], list[int]], fault: str) -> None:
    rewritten(out, change)
    report = verify(str(out))
    assert report.documents == 7
    assert [(fault in failure.reason, failure.field) for failure in report.failed] == [(True, "proof")]


@pytest.mark.parametrize("damage", ["flipped", "cut", "gone", "other"])
def test_a_damaged_file_of_certificates_is_named_and_the_others_count(out: Path, damage: str) -> None:
    path = min((out / CERTIFICATES).glob("*.parquet"))
    data = path.read_bytes()
    if damage == "flipped":
        path.write_bytes(data[:200] + bytes([data[200] ^ 1]) + data[201:])
    elif damage == "cut":
        path.write_bytes(data[: len(data) // 2])
    elif damage == "gone":
        path.unlink()
    else:
        path.write_bytes(table_bytes(pa.table({"doc_id": ["a"]})))
    report = verify(str(out))
    assert [(Path(failure.file).name, failure.doc_id) for failure in report.failed] == [(path.name, None)]
    assert report.documents == 8
    assert report.optimal < 8


def test_another_model_or_corpus_is_refused(out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(HashModel, "digest", "another")
        with pytest.raises(VerifyError, match="the model model is not what this run was made from"):
            verify(str(out))
    write_corpus(synthesize(9, seed=3, kind="news"), tmp_path / "other", source="made up")
    write_sources(
        FolderStorage(out), Sources(corpus=str(tmp_path / "other"), model="model", constraints=(), consistency=True)
    )
    with pytest.raises(VerifyError, match=r"the corpus .* is not what this run was made from"):
        verify(str(out))


@pytest.mark.usefixtures("out")
def test_certificates_are_of_certify_alone_and_have_to_be_asked_for(made: Path, tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="engine gibbs writes no certificates; use --engine certify"):
        key_of(consistency(), certificates=True)
    publish_run(tmp_path / "without", made / "corpus", key_of(consistency(), engine="certify", options={}))
    report = verify(str(tmp_path / "without"))
    assert (report.documents, report.failed) == (8, ())
    assert report.optimal + report.by_engine + report.by_solver == 8
    assert report.optimal < 8
