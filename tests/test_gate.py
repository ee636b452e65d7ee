"""The gate between challenger and champion: chance does not open it, and a better model does; the whole challenge."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner, Result

import concord.flows.cluster.cluster
from concord.flows.challenge import challenge
from concord.flows.cli.app import app
from concord.flows.screen.pages import page_of
from concord.flows.tracking.tracking import Tracking
from concord.flows.training.unseen import ChallengeError
from concord.flows.work.in_process import InProcess
from concord.schemas.challenge import ChallengeReport
from concord.schemas.gains import Comparison
from concord.workers.corpus.ingestion import write_corpus
from concord.workers.evaluation.bootstrap import paired_bootstrap
from concord.workers.evaluation.gate import gate
from concord.workers.evaluation.named_counts import Counts
from concord.workers.synthesis.made_up import synthesize


def counts(right: float, rng: np.random.Generator, documents: int = 60) -> Counts:
    """Counts of documents with ten entities each, of which a share is found, and nothing else."""
    correct = rng.binomial(10, right, documents)
    return np.column_stack([np.full(documents, 10), correct, correct])


def opened(right: float, other: float, *, least_gain: float = 0.0, tries: int = 200) -> float:
    """The share of challenges that the gate lets through, of models that find these shares of entities."""
    rng = np.random.default_rng(4)
    gains = [paired_bootstrap(counts(right, rng), counts(other, rng), rng=rng, draws=200) for _ in range(tries)]
    return float(np.mean([gate(gain, least_gain=least_gain).promoted for gain in gains]))


def test_of_models_that_are_no_better_hardly_one_gets_through() -> None:
    assert opened(0.9, 0.9) < 0.06
    assert opened(0.9, 0.8) == 0.0


def test_a_better_model_gets_through_and_with_a_margin_one_that_is_as_good() -> None:
    assert opened(0.8, 0.9) > 0.95
    assert opened(0.9, 0.9, least_gain=-0.05) > 0.95
    assert opened(0.8, 0.9, least_gain=0.2) == 0.0


def test_the_verdict_says_why() -> None:
    gain = Comparison(difference=0.008, low=-0.001, high=0.017, p_value=0.1)
    assert gate(gain) == (False, "+0.80 points of F1 (95 %: -0.10 to +1.70); the interval has to be above +0.00")
    assert gate(gain, least_gain=-0.002) == (True, "+0.80 points of F1 (95 %: -0.10 to +1.70)")


@pytest.mark.filterwarnings("ignore")  # of what MLflow itself uses when it packs a model
def test_the_alias_moves_only_to_a_better_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONCORD_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(concord.flows.cluster.cluster, "cluster", lambda *_, **__: nullcontext(InProcess()))
    documents = list(synthesize(130, seed=1, kind="news"))
    for name, part in {"few": documents[:2], "many": documents[:30], "judges": documents[30:]}.items():
        write_corpus(part, tmp_path / name, source="test")

    def told(corpus: str, *more: str) -> Result:
        places = ("--corpus", corpus, "--held-out", "judges", "--register", "news", "--out", "out")
        given = ("--trainer", "hmm", "--engine", "viterbi", "--no-consistency", "--workers", "1")
        return CliRunner().invoke(app, ["challenge", *places, *given, *more])

    def asked(corpus: str) -> ChallengeReport:
        return ChallengeReport.model_validate_json(told(corpus, "--json").stdout)

    first, better, same, worse = (asked(corpus) for corpus in ("few", "many", "many", "few"))
    assert [report.promoted for report in (first, better, same, worse)] == [True, True, False, False]
    assert [report.champion for report in (first, better, same, worse)] == [None, "1", "2", "2"]
    tracking = Tracking(None)
    assert (tracking.version("news", "champion"), tracking.version("news", "challenger")) == ("2", "4")
    assert first.reason == "there was no champion yet"
    assert same.reason == "it is the same model as the champion, byte for byte"
    assert better.gain is not None
    assert worse.gain is not None
    assert better.gain.low > 0 > worse.gain.high
    assert worse.documents == 100
    kept = tracking.ask(lambda client: client.get_run(worse.training.mlflow_run))
    assert kept.data.tags["promoted"] == "false"
    assert kept.data.tags["gate"].startswith("news v2 stays the champion before v4: -")
    assert kept.data.metrics["gate/high"] == worse.gain.high
    page = page_of(better)
    assert page is not None
    assert page.headline.startswith("news v2 is the champion now: +")
    assert page.tags == ("promoted",)
    assert told("few").stdout.splitlines() == [
        f"100 held-out documents, F1 of spans: v2 {worse.gain.other:.2%}, "
        f"v5 {worse.gain.other + worse.gain.difference:.2%}",
        kept.data.tags["gate"].replace("v4", "v5"),
        f"model in {tmp_path / 'out' / 'model'}, registered as models:/news@challenger",
    ]
    with pytest.raises(ChallengeError, match=r"row 0: its id is in .*many, too"):
        challenge("many", "few", "out", register_as="news")


def test_options_of_the_trainer_and_of_the_engine_are_told_apart(tmp_path: Path) -> None:
    places = [f"--{name}={tmp_path}" for name in ("corpus", "held-out")]
    asked = ["challenge", *places, "--register=news", f"--out={tmp_path / 'out'}", "--engine=gibbs"]
    told = CliRunner().invoke(app, [*asked, "--set", "decoding.sweps=9"])
    assert told.exit_code == 2
    assert "trainer sgd, decoding has no option 'sweps'; did you mean 'sweeps'?" in told.stderr
    told = CliRunner().invoke(app, [*asked, "--set", "sweeps=9"])
    assert told.exit_code == 2
    assert "trainer sgd has no option 'sweeps'" in told.stderr
    told = CliRunner().invoke(app, [*asked, "--trainer=hmm", "--features=core"])
    assert told.exit_code == 2
    assert told.stderr.startswith("concord: --features: trainer hmm has no such option; trainers that have it: ")
