"""Wrapped progressive sampling as a flow, in this process: trials kept, taken up again, failed; what is refused."""

from __future__ import annotations

import errno
import json
import pickle
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

import concord.flows.training.progressive
import concord.flows.training.train_model
import concord.flows.training.trial_file
from concord.flows.screen import terminal
from concord.flows.tracking.tracking import Outcome
from concord.flows.training.progressive import TRIALS_TABLE, choose, search_of
from concord.flows.training.train_model import TrainJob, check_search, train_model
from concord.flows.training.trial_file import TRIALS_END, TrialFile
from concord.schemas.errors import ShardsError, TrainingError
from concord.schemas.learning_requests import TrainingEffort
from concord.schemas.run_context import HERE, RunContext
from concord.schemas.train_report import SampleRow, TrainReport, samples_table
from concord.workers.corpus.ingestion import write_corpus
from concord.workers.learning.search.progressive import TrialTally, rounds, sizes_of
from concord.workers.models.folder import MANIFEST, parse_manifest
from concord.workers.models.settings import SgdSettings
from concord.workers.papers.canisius.settings import TrigramSettings
from concord.workers.papers.canisius.trigram_trials import SAMPLING, Sample, chosen_of, grid, tried
from concord.workers.remote.trials import TRIALS, TrialGroup, TrialParts, name_of
from concord.workers.storage.files import OutputError
from tests.support.in_process import Here
from tests.support.made_samples import DOCUMENTS, plain
from tests.support.made_tracking import untracked

SETTINGS = TrigramSettings.model_validate({"metric": "overlap", "decay": "none"})


def kept(folder: Path, corpus: str = "digest", settings: TrigramSettings = SETTINGS) -> TrialFile:
    return TrialFile(folder / "model", search_of(corpus, SAMPLING, settings))


def chosen(folder: Path, monkeypatch: pytest.MonkeyPatch, broken: int | None = None) -> tuple[Any, int]:
    """The choice, and how many trials it took; trial number ``broken`` of each sample fails."""
    done = list[str]()

    @contextmanager
    def here(ray: str | None, *, workers: int | None) -> Iterator[Here]:
        yield Here(broken)

    def counted(sample: Sample, group: Sequence[TrigramSettings], size: int) -> list[TrialTally]:
        done.extend(name_of(SAMPLING, one, size) for one in group)
        return tried(sample, group, size)

    monkeypatch.setattr(concord.flows.training.progressive, "cluster", here)
    sampling = SAMPLING._replace(tried=counted)
    told = lambda *_: None  # noqa: E731
    found = choose(DOCUMENTS, sampling, SETTINGS, context=HERE, largest=None, trials=kept(folder), progress=told)
    return SimpleNamespace(settings=found[0], samples=found[1]), len(done)


def test_a_search_that_broke_off_goes_on_with_what_is_not_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, count = chosen(tmp_path / "whole", monkeypatch)
    with pytest.raises(
        ShardsError, match=r"1 of 3 groups of trials failed: k 1, .* and 7 like it on 2\d\d tokens: it burned"
    ):
        chosen(tmp_path / "broken", monkeypatch, broken=0)
    again, left = chosen(tmp_path / "broken", monkeypatch)
    assert left == count - 16
    assert again.settings == whole.settings
    assert [row.model_dump(exclude={"seconds"}) for row in again.samples] == [
        row.model_dump(exclude={"seconds"}) for row in whole.samples
    ]
    nothing, none = chosen(tmp_path / "broken", monkeypatch)
    assert (nothing.settings, none) == (whole.settings, 0)


def test_the_choice_is_that_of_plain_trials(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found, _ = chosen(tmp_path, monkeypatch)
    every, sample = grid(SETTINGS), Sample.of(DOCUMENTS, SETTINGS)
    *_, last = rounds(
        len(every),
        sizes_of(sample.tokens),
        lambda size, numbers: {number: tried(sample, [every[number]], size)[0] for number in numbers},
    )
    assert found.settings == every[last.best]
    assert found.samples[-1].best == chosen_of(found.settings)


def test_trials_of_another_search_are_not_taken(tmp_path: Path) -> None:
    kept(tmp_path).add({"a": [1, 2, 0.5]})
    assert kept(tmp_path).results == {"a": [1, 2, 0.5]}
    given = SETTINGS.model_copy(update={"n": 2})
    assert kept(tmp_path, settings=given).results == {}
    kept(tmp_path).add({"a": [1, 2, 0.5]})
    assert kept(tmp_path, corpus="another").results == {}


def test_code_that_has_changed_makes_trials_stale(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept(tmp_path).add({"a": [1, 2]})
    monkeypatch.setattr(concord.flows.training.trial_file, "workers_digest", lambda: "other code")
    assert kept(tmp_path).results == {}


def test_a_line_that_was_cut_off_is_done_again(tmp_path: Path) -> None:
    kept(tmp_path).add({"a": [1, 2], "b": [2, 2]})
    path = tmp_path / f".model{TRIALS_END}"
    path.write_bytes(path.read_bytes()[:-5])
    again = kept(tmp_path)
    assert again.results == {"a": [1, 2]}
    again.add({"b": [2, 2]})
    assert kept(tmp_path).results == {"a": [1, 2], "b": [2, 2]}


def test_a_full_disk_is_one_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = kept(tmp_path)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "open", full)
    with pytest.raises(OutputError, match=rf"\.model{TRIALS_END}: cannot be written \(No space left on device\)"):
        file.add({"a": [1, 2]})


def test_a_training_that_searches_keeps_the_choice_and_no_trials(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended, told = list[Outcome](), dict[str, object]()
    monkeypatch.setattr(concord.flows.training.train_model, "Tracking", untracked(ended, told))
    expected, count = chosen(tmp_path, monkeypatch)
    write_corpus(DOCUMENTS, tmp_path / "corpus", source="test")
    request = TrainJob(
        corpus=str(tmp_path / "corpus"),
        out=str(tmp_path / "m"),
        trainer="trigram",
        settings=SETTINGS,
        effort=TrainingEffort.BEST,
        consistency=False,
    )
    report: TrainReport = train_model(request)
    manifest = parse_manifest(tmp_path / "m" / MANIFEST)
    assert TrigramSettings.model_validate(manifest.settings) == expected.settings
    assert sum(row.tried for row in report.samples) == count
    assert [outcome.metrics["left"] for outcome in ended[:-1]] == [row.left for row in report.samples]
    table = json.loads(str(told[TRIALS_TABLE]))
    assert len(table) == report.samples[-1].tried
    assert set(table[0]) == {"k", "metric", "weighting", "decay", "right", "seconds"}
    assert not list(tmp_path.glob(f".m{TRIALS_END}"))


def test_where_no_settings_are_searched_ray_is_not_asked_for() -> None:
    context = RunContext(workers=2)
    request = TrainJob(
        corpus="c", out="o", trainer="trigram", settings=SETTINGS, effort=TrainingEffort.BEST, context=context
    )
    check_search(request)
    check_search(request.model_copy(update={"trainer": "sgd", "settings": SgdSettings()}))
    with pytest.raises(TrainingError, match="--workers and --largest-sample are for --effort best; leave them out"):
        check_search(request.model_copy(update={"effort": TrainingEffort.NORMAL}))


def test_a_trial_is_a_task_for_the_pool() -> None:
    sample = Sample.of(DOCUMENTS, SETTINGS)
    trial, parts = TrialGroup(SAMPLING, (SETTINGS,), 40), TrialParts(SAMPLING, sample, SETTINGS)
    assert isinstance(parts, TRIALS.parts)
    assert [tally[:2] for tally in TRIALS.run(trial, parts)] == [plain(sample, SETTINGS, 40)]
    TRIALS.warm(parts)
    every = grid(SETTINGS)
    assert len({TrialGroup(SAMPLING, (one,), size).id for one in every for size in (40, 50)}) == 2 * len(every)
    there = pickle.loads(pickle.dumps((trial, parts)))
    assert there[0] == trial
    assert [tally[:2] for tally in TRIALS.run(*there)] == [plain(sample, SETTINGS, 40)]


def shown(rows: Sequence[SampleRow]) -> str:
    console = Console(width=160, record=True)
    console.print(terminal.grid(samples_table(rows)))
    return console.export_text()


def test_the_table_has_a_line_for_each_sample() -> None:
    row = SampleRow(
        tokens=1278,
        tested=256,
        tried=52,
        left=7,
        best={"k": 11, "metric": "mvdm"},
        accuracy=0.6445,
        default=0.5117,
        seconds=2.1,
    )
    text = shown([row, row])
    assert text.count("64.45") == 2
    assert text.splitlines()[1].split() == ["1,278", "256", "52", "7", "11", "mvdm", "64.45", "51.17", "2.1"]
