"""`concord chains`: which documents the sampler mixes on, as figures and as a picture."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from concord.flows.cli.app import app
from concord.flows.cli.chains import LEVELS, PICTURE_WIDTH, picture
from concord.schemas.document import Document
from concord.schemas.reports import ChainsReport, DocumentChains
from concord.workers.corpus.ingestion import write_corpus
from concord.workers.corpus.settings import IngestSettings
from concord.workers.learning.trainers import crfsuite
from concord.workers.models.settings import CrfSettings
from concord.workers.synthesis.made_up import synthesize


@pytest.fixture(scope="module")
def documents() -> list[Document]:
    return list(synthesize(6, seed=4, kind="news"))


@pytest.fixture(scope="module")
def arguments(documents: list[Document], tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("chains")
    write_corpus(documents, folder / "corpus", source="made up", layout=IngestSettings(group_documents=4))
    crfsuite.train(documents, settings=CrfSettings(features="finkel", max_iterations=5), out=folder / "model")
    return ["chains", "--corpus", str(folder / "corpus"), "--model", str(folder / "model"), "--set", "sweeps=40"]


def run(*arguments: str, code: int = 0) -> str:
    result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code == code, result.output
    return result.stdout


def test_one_document_has_figures_and_traces(arguments: list[str], documents: list[Document]) -> None:
    one = [*arguments, "--doc", documents[5].doc_id, "--chains", "3"]
    report = ChainsReport.model_validate(json.loads(run(*one, "--json")))
    (row,) = report.documents
    assert (row.doc_id, row.tokens, report.chains, report.sweeps) == (documents[5].doc_id, len(documents[5]), 3, 40)
    assert [len(chain) for chain in row.objective] == [40, 40, 40]
    assert row.best >= max(max(chain) for chain in row.objective) - 1e-6
    assert row.mixed == (row.split_rhat < report.rhat_limit)
    assert report == ChainsReport.model_validate(json.loads(run(*one, "--json")))
    text = run(*one)
    assert documents[5].doc_id in text
    assert sum(line[0] in LEVELS for line in text.splitlines() if line) == 3 + 1


def test_a_corpus_has_a_row_a_document(arguments: list[str], documents: list[Document]) -> None:
    report = json.loads(run(*arguments, "--documents", "5", "--json"))
    assert [row["doc_id"] for row in report["documents"]] == [d.doc_id for d in documents[:5]]
    assert report["mixed"] == sum(row["mixed"] for row in report["documents"])


def test_mistakes_leave_with_a_message_and_a_code(arguments: list[str]) -> None:
    run(*arguments, "--doc", "nowhere", code=3)
    run(*arguments, "--set", "sweeps=6", code=2)
    run(*arguments, "--set", "sweep=70", code=2)
    run(*arguments, "--set", "chains=3", code=2)


def test_the_picture_is_on_one_scale_and_as_wide_as_it_may_be() -> None:
    row = DocumentChains(
        doc_id="d",
        tokens=1,
        split_rhat=1.0,
        effective_samples=1.0,
        flips=0.0,
        best=7.0,
        viterbi=7.0,
        mixed=True,
        objective=((0.0, 1.0, 7.0), (7.0, 7.0, 7.0)),
    )
    assert picture(row)[:2] == ["▁▂█", "███"]
    long = row.model_copy(update={"objective": (tuple(float(i // 2) for i in range(2 * PICTURE_WIDTH)),)})
    assert len(picture(long)[0]) == PICTURE_WIDTH
    assert picture(long)[1].startswith("▁ 0.00 to █ 59.00 nats")
    flat = row.model_copy(update={"objective": ((3.0,) * 8,)})
    assert picture(flat)[0] == LEVELS[0] * 8
