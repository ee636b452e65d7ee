"""`benchmarks/bench_chains.py`: which documents the sampler mixes on, as figures and as a picture."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from concord.workers.corpus.ingestion import write_corpus
from concord.workers.corpus.settings import IngestSettings
from concord.workers.learning.trainers import crfsuite
from concord.workers.models.settings import CrfSettings
from concord.workers.synthesis.made_up import synthesize

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "bench_chains.py"


def test_a_document_has_figures_and_a_line_for_each_chain(tmp_path: Path) -> None:
    documents = list(synthesize(6, seed=4, kind="news"))
    write_corpus(documents, tmp_path / "corpus", source="made up", layout=IngestSettings(group_documents=4))
    crfsuite.train(documents, settings=CrfSettings(features="core", max_iterations=5), out=tmp_path / "model")
    command = [sys.executable, str(SCRIPT), "--model", str(tmp_path / "model"), "--corpus", str(tmp_path / "corpus")]
    doc_id = documents[5].doc_id
    ended = subprocess.run(
        [*command, "--doc", doc_id, "--chains", "3", "--sweeps", "40"], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
    heading, figures, *chains, scale, last = ended.stdout.splitlines()
    assert heading.split() == ["document", "tokens", "R̂", "samples", "flips", "best", "Viterbi"]
    name, tokens, rhat, *_ = figures.split()
    assert (name, int(tokens)) == (doc_id, len(documents[5]))
    assert [len(line) for line in chains] == [40, 40, 40]
    assert set("".join(chains)) <= set("▁▂▃▄▅▆▇█")
    assert {"▁", "█"} <= set("".join(chains))
    assert re.fullmatch(r"▁ [-\d.,]+ to █ [-\d.,]+ nats, each the mean of some sweeps", scale)
    assert last == f"{int(float(rhat) < 1.05)} of 1 documents mixed (split R̂ below 1.05)"
