"""Training, as far as it needs neither Prefect nor MLflow."""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console
from typer.testing import CliRunner

import concord.flows.training.best_model
import concord.flows.training.ladder_rules
import concord.flows.training.train_model
import concord.workers.learning.trainers.selection
from concord.flows.cli.app import app
from concord.flows.cli.failures import Exit
from concord.flows.errors import RunFolderError
from concord.flows.runfolder.locks import locked
from concord.flows.screen.terminal import grid, show_report
from concord.flows.tracking.tracking import PENALTIES_FILE
from concord.flows.training.best_model import FIELD_RULES_COST, _Clock, best_model
from concord.flows.training.ladder_rules import LadderRules, with_rules
from concord.flows.training.train_model import TrainJob, check_search, train_model
from concord.flows.training.tuning import tune_consistency
from concord.schemas.blocks import Table
from concord.schemas.document import Batch, Document
from concord.schemas.errors import CorpusError, TrainingError
from concord.schemas.learning_requests import TrainRequest
from concord.schemas.settings import TrainerSettings, Validation
from concord.schemas.train_report import SearchReport, TrainReport
from concord.workers.constraints.constraint_file import load_constraints
from concord.workers.corpus.ingestion import write_corpus
from concord.workers.evaluation.figures import f1_of_counts
from concord.workers.inference.core.prepared import Prepared
from concord.workers.inference.registry import Decoder
from concord.workers.learning.search.folds import is_held_out
from concord.workers.learning.trainers.entity_counts import entity_counts, viterbi_counts
from concord.workers.learning.trainers.given_features import FEATURE_FILES
from concord.workers.learning.trainers.layers import ANSWERING
from concord.workers.learning.trainers.registry import DEFAULT, OWN, TRAINERS
from concord.workers.learning.trainers.selection import RUNGS, TrainerChoice, judged
from concord.workers.learning.trainers.trainer import Progress, Trainer, TrainingCounts
from concord.workers.learning.weights.known_weights import known_weights
from concord.workers.models.crf import CrfModel
from concord.workers.models.folder import MANIFEST, Manifest, begin, parse_manifest, write_manifest
from concord.workers.models.loaders import load_model
from concord.workers.models.model import Model, local_scores
from concord.workers.models.saved_consistency import saved_consistency
from concord.workers.models.settings import CrfSettings, HmmSettings, PerceptronSettings, SemiCrfSettings, SgdSettings
from concord.workers.synthesis.layered import MADE_LAYER, with_layer
from concord.workers.synthesis.made_up import synthesize
from tests.support.made_runs import HashModel
from tests.support.made_tracking import untracked

LABELS = ("B-X", "I-X", "B-Y")


@pytest.fixture(autouse=True)
def _without_resources(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps are those of every machine, whatever is installed."""
    monkeypatch.setattr(concord.workers.learning.trainers.selection, "available", lambda _: [])


def train(out: Path, corpus: Path, trainer: str = DEFAULT) -> Any:
    settings = TRAINERS[trainer].settings()
    request = TrainJob(corpus=str(corpus), out=str(out), trainer=trainer, settings=settings, consistency=False)
    return train_model(request)


def test_two_trainings_into_one_folder_at_once_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(concord.flows.training.train_model, "Tracking", untracked([]))
    model, nowhere = tmp_path / "model", tmp_path / "nowhere"
    link = tmp_path / "link"
    model.mkdir()
    link.symlink_to(model)
    with locked(tmp_path / ".model.lock", model):
        for out in (model, link):
            with pytest.raises(RunFolderError, match=f"^{out}: another run is writing there; wait for its end"):
                train(out, nowhere)
        with pytest.raises(CorpusError):  # another folder is free
            train(tmp_path / "other", nowhere)
    with pytest.raises(CorpusError):  # and so is this one now
        train(model, nowhere)


def nameless(
    documents: Iterable[Document], *, settings: TrainerSettings, out: Path, progress: Progress | None = None
) -> HashModel:
    """A model of another kind than the CRF: without features, iterations and loss, and without a word of progress."""
    seen = TrainingCounts(("tokens",))
    for document in documents:
        seen.gold(document)
    begin(out)
    labels, training = HashModel.labels, seen.training("nameless", settings)
    manifest = Manifest(
        kind="hash", labels=labels.names, scheme=labels.scheme, settings={}, versions={}, training=training, files={}
    )
    write_manifest(out, manifest)
    return HashModel()


def test_a_model_without_features_iterations_and_loss_is_trained_like_any(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(concord.flows.training.train_model, "Tracking", untracked([]))
    monkeypatch.setitem(OWN, "nameless", Trainer(nameless, TrainerSettings))
    monkeypatch.setattr(concord.flows.training.train_model, "load_model", lambda _: HashModel())
    write_corpus(synthesize(30, seed=0, kind="news"), tmp_path / "corpus", source="test")
    report: TrainReport = train(tmp_path / "model", tmp_path / "corpus", "nameless")
    assert (report.trainer, report.documents, report.labels) == ("nameless", 30, len(HashModel.labels))
    assert set(report.figures) == {"documents", "sentences", "tokens"}
    manifest = parse_manifest(tmp_path / "model" / MANIFEST)
    assert manifest.metrics == {**report.figures, "rejected": 0}
    assert (manifest.features, report.model_digest) == ("", HashModel.digest)


def test_a_tracked_training_says_how_it_learned_and_what_penalties_it_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: dict[str, object] = {}
    monkeypatch.setattr(concord.flows.training.train_model, "Tracking", untracked([], kept))
    write_corpus(synthesize(30, seed=0, kind="news"), tmp_path / "corpus", source="test")
    settings = SgdSettings(features="finkel-nopos", passes=1)
    request = TrainJob(corpus=str(tmp_path / "corpus"), out=str(tmp_path / "m"), trainer="sgd", settings=settings)
    tuned = train_model(request).consistency
    assert (kept["model_kind"], kept["learning"], kept["trainer"]) == ("crf", "l", "sgd")
    consistency = saved_consistency(tmp_path / "m")
    assert consistency is not None
    assert tuned is not None
    assert (tuned.exact_scale, tuned.subsequence_scale, tuned.unlabelled_scale) == consistency.scales
    figures = parse_manifest(tmp_path / "m" / MANIFEST).metrics
    assert (tuned.f1_without, tuned.f1) == (figures["held_out/f1_without_consistency"], figures["held_out/f1"])
    known = json.loads(str(kept.get(PENALTIES_FILE, "[]")))
    assert known == [json.loads(w.model_dump_json()) for w in known_weights(consistency)]

    (tmp_path / "rules.yaml").write_text("constraints:\n- {template: starts_with, name: s, labels: O, weight: 1}\n")
    under = PerceptronSettings(features="finkel-nopos", passes=1, constraints=str(tmp_path / "rules.yaml"))
    request = request.model_copy(update={"trainer": "perceptron", "settings": under, "consistency": False})
    assert train_model(request).consistency is None
    assert (kept["model_kind"], kept["learning"]) == ("crf", "wcibt")
    ((name, low),) = [(row["name"], row["low"]) for row in json.loads(str(kept[PENALTIES_FILE]))]
    assert (name, low) == ("s", None)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--trainer", "magic"), "no trainer is called 'magic'; there are crfsuite"),
        (
            ("--set", "magic=1"),
            f"--set magic=1: trainer {DEFAULT} has no option 'magic'; options of",
        ),
        (
            ("--trainer", "perceptron", "--pool", "pool"),
            "--pool: trainer perceptron has no such option; trainers that have it: hmm",
        ),
        (("--trainer", "hmm", "--set", "em=hard"), "options of trainer hmm: em: give a pool, too"),
        (("--set", "c2=-1"), f"options of trainer {DEFAULT}: c2: Input should be greater than or equal to 0"),
    ],
)
def test_a_trainer_or_an_option_that_is_not_there_is_one_line(
    words: tuple[str, ...], message: str, tmp_path: Path
) -> None:
    done = CliRunner().invoke(app, ["train", "--corpus", str(tmp_path), "--out", str(tmp_path / "o"), *words])
    assert done.exit_code == Exit.USAGE
    assert done.stderr.startswith(f"concord: {message}")


OF_SETS = {"clusters": "clusters", "gazetteers": "gazetteer"}
"""Feature sets that read the files of an option."""
FILE_OPTIONS = [(name, option) for name, entry in OWN.items() for option in entry.settings.files]


@pytest.mark.parametrize("content", [None, b"", b"\xff\x00 nothing of the kind"])
@pytest.mark.parametrize(("trainer", "option"), FILE_OPTIONS)
def test_a_file_of_the_trainer_is_looked_at_before_the_corpus_is(
    trainer: str, option: str, content: bytes | None, tmp_path: Path
) -> None:
    """The corpus is damaged, which is told where it is read first."""
    (tmp_path / "corpus").mkdir()
    (tmp_path / "corpus" / "of-corpus.parquet").write_bytes(b"damaged")
    file = tmp_path / "nowhere"
    if content is not None and option not in FEATURE_FILES:
        pytest.skip("read with the documents, by its owner")
    if content is not None:
        file.write_bytes(content)
    given = [f"{option}={file}"]
    given += [f"features=core+{OF_SETS[option]}"] if option in OF_SETS else []
    if option == "vector_index":
        np.save(tmp_path / "v.npy", np.zeros((2, 2)))
        given.append(f"vectors={tmp_path / 'v.npy'}")
    words = ["--corpus", str(tmp_path / "corpus"), "--out", str(tmp_path / "model"), "--trainer", trainer]
    message = CliRunner().invoke(app, ["train", *words, *(word for one in given for word in ("--set", one))])
    assert "of-corpus" not in message.stderr
    if message.exit_code != Exit.USAGE:  # some trainers refuse an option that those which they are made of have
        assert message.exit_code == Exit.INPUT, message.output
        assert str(file) in message.stderr.replace("\n", "")
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize("option", OF_SETS)
@pytest.mark.parametrize("there", [True, False])
def test_a_search_of_features_looks_at_files_that_no_set_names_yet(option: str, there: bool, tmp_path: Path) -> None:
    (tmp_path / "corpus").mkdir()
    (tmp_path / "corpus" / "of-corpus.parquet").write_bytes(b"damaged")
    file = tmp_path / ("phrases.tsv" if option == "gazetteers" else "clusters.parquet")
    if there and option == "gazetteers":
        file.write_text("Oslo\tplace\n")
    elif there:
        pq.write_table(pa.table({"word": ["a", "b"], "cluster-2": pa.array([0, 1], pa.int32())}), file)
    words = ["train", "--effort", "best", "--corpus", str(tmp_path / "corpus"), "--out", str(tmp_path / "model")]
    message = CliRunner().invoke(app, [*words, "--set", f"{option}={file}"])
    assert message.exit_code == Exit.INPUT, message.output
    assert ("of-corpus" if there else str(file)) in message.stderr.replace("\n", "")


def test_an_array_of_vectors_asks_for_its_words_by_an_option_that_training_has(tmp_path: Path) -> None:
    np.save(tmp_path / "X.npy", np.zeros((2, 2)))
    (tmp_path / "corpus").mkdir()
    words = [
        "--corpus",
        str(tmp_path / "corpus"),
        "--out",
        str(tmp_path / "model"),
        "--vectors",
        str(tmp_path / "X.npy"),
    ]
    message = CliRunner().invoke(app, ["train", *words]).stderr
    assert message.startswith(f"concord: {tmp_path / 'X.npy'}: an array has no words")
    option = message.partition("--set ")[2].partition("=")[0]
    assert option in SgdSettings.model_fields
    (tmp_path / "names.txt").write_text("a\nb\n")
    message = CliRunner().invoke(app, ["train", *words, "--set", f"{option}={tmp_path / 'names.txt'}"]).stderr
    assert "X.npy" not in message, "the corpus is what is missing now"


def test_the_trainers_are_listed_with_their_options() -> None:
    said = CliRunner().invoke(app, ["list", "trainers"]).stdout
    assert all(name in said for name in TRAINERS)
    assert all(field in said for field in CrfSettings.model_fields)


def test_a_training_that_chooses_says_what_it_tried_and_what_to_expect(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(concord.flows.training.train_model, "Tracking", untracked([]))
    write_corpus(synthesize(30, seed=0, kind="news"), tmp_path / "corpus", source="test")
    given = {"corpus": str(tmp_path / "corpus"), "trainer": "sgd", "consistency": False, "effort": "best"}
    options = SgdSettings(features="kinds", passes=1, c2=0.3)
    request = TrainJob.model_validate({**given, "out": str(tmp_path / "model"), "settings": options})
    report: TrainReport = train_model(request)
    search = report.search
    assert search is not None
    settings = parse_manifest(tmp_path / "model" / MANIFEST).settings
    assert (settings["features"], settings["passes"], settings["c2"]) == ("kinds", 1, 0.3)
    assert {step.step for step in search.steps} == {
        *("base", "min_freq 2", "dropout 0", "dropout 0.5", "scheme bilou", "models averaged"),
        "rules mined: none holds",
    }
    assert (search.rules, report.rules) == (None, None)
    assert (search.documents, search.held_out) == (
        14,
        6,
    )  # the last three of five parts of the first 24, and the others
    assert search.gain == pytest.approx(search.f1 - search.base_f1)
    kept = {step.step for step in search.steps if step.is_kept}
    assert (settings["scheme"] == "bilou") == ("scheme bilou" in kept)
    assert (report.trainer == "ensemble") == ("models averaged" in kept)
    assert not list(tmp_path.glob(".model.trials"))
    shown = Console(width=120, record=True, file=io.StringIO())
    for block in search.lines():
        if isinstance(block, Table):
            shown.print(grid(block))
            assert len(shown.export_text().splitlines()) == 1 + len(search.steps)
    said = " ".join(str(getattr(block, "text", "")) for block in search.lines())
    assert "expect an F1 of" in said
    assert "on 6 documents that had no part in the choice" in said
    for limit in ("minutes", "cpu_seconds"):
        in_time = request.model_copy(update={"out": str(tmp_path / limit), limit: 1e-9})
        hurried = train_model(in_time).search
        assert hurried is not None
        assert [step.step for step in hurried.steps] == ["base"]
        assert len(hurried.untried) == len(search.steps) - 1


def test_a_choice_that_was_killed_goes_on_and_ends_with_the_same_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(concord.flows.training.train_model, "Tracking", untracked([]))
    write_corpus(synthesize(30, seed=0, kind="news"), tmp_path / "corpus", source="test")
    given = {"corpus": str(tmp_path / "corpus"), "trainer": "sgd", "consistency": False, "effort": "best"}
    options = SgdSettings(features="kinds", passes=1, c2=0.3)
    whole_job, job = (
        TrainJob.model_validate({**given, "out": str(tmp_path / name), "settings": options}) for name in ("a", "b")
    )
    whole = train_model(whole_job)
    trained, own = list[object](), judged

    def dies(*arguments: Any, **options: Any) -> Any:
        trained.append(arguments)
        if len(trained) == 3:
            raise KeyboardInterrupt
        return own(*arguments, **options)

    monkeypatch.setattr(concord.flows.training.best_model, "judged", dies)
    with pytest.raises(KeyboardInterrupt):
        train_model(job)
    assert whole.search is not None
    kept_trials = tmp_path / ".b.trials"
    trials = kept_trials.read_bytes()
    tried = [step.step for step in whole.search.steps]
    for limit, done in (("cpu_seconds", 1), ("minutes", 2)):
        shutil.rmtree(tmp_path / "b", ignore_errors=True)
        kept_trials.write_bytes(trials)
        hurried = train_model(job.model_copy(update={limit: 1e-9})).search
        assert hurried is not None
        assert [step.step for step in hurried.steps] == tried[:done], "what was tried before takes no minutes"
    shutil.rmtree(tmp_path / "b")
    kept_trials.write_bytes(trials)
    again = train_model(job)
    assert len(trained) == 3 + len(whole.search.steps) - 3, "two were tried before, and rules are no training"
    assert again.model_digest == whole.model_digest
    assert again.search is not None
    assert [step.step for step in again.search.steps] == tried


def test_what_was_tried_with_another_file_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(concord.flows.training.train_model, "Tracking", untracked([]))
    write_corpus(synthesize(12, seed=0, kind="news"), tmp_path / "corpus", source="test")
    phrases = tmp_path / "phrases.tsv"
    given = {"corpus": str(tmp_path / "corpus"), "trainer": "sgd", "consistency": False, "effort": "best"}
    options = SgdSettings(features="kinds+gazetteer", gazetteers=(str(phrases),), passes=1, c2=0.3, dropout=0.0)
    job = TrainJob.model_validate({**given, "out": str(tmp_path / "model"), "settings": options})
    own = judged

    def tried(text: str, *, more: int) -> list[str]:
        """What is kept of trials where a training is killed after some more of them."""
        phrases.write_text(text)
        trained = list[object]()

        def dies(*arguments: Any, **options: Any) -> Any:
            trained.append(arguments)
            if len(trained) > more:
                raise KeyboardInterrupt
            return own(*arguments, **options)

        monkeypatch.setattr(concord.flows.training.best_model, "judged", dies)
        with pytest.raises(KeyboardInterrupt):
            train_model(job)
        return (tmp_path / ".model.trials").read_text().splitlines()

    key, *first = tried("Basel\tLOC\n", more=1)
    assert len(first) == 1
    assert tried("Basel\tLOC\n", more=1)[:2] == [key, *first]
    other, *others = tried("Delft\tLOC\n", more=1)
    assert (other != key, len(others)) == (True, 1)


def test_rules_are_given_up_when_the_time_is_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(concord.flows.training.train_model, "Tracking", untracked([]))
    write_corpus(synthesize(60, seed=0, kind="citations"), tmp_path / "corpus", source="test")
    options = SgdSettings(features="kinds", passes=1, c2=0.3, min_freq=1, dropout=0.0, scheme="corpus")
    given = {"corpus": str(tmp_path / "corpus"), "trainer": "sgd", "consistency": False, "effort": "best"}
    job = TrainJob.model_validate({**given, "out": str(tmp_path / "model"), "settings": options})
    looks = list[float]()

    def is_over(_: object, cost: float, seconds: float) -> bool:
        looks.append(seconds)
        return len(looks) > 10

    monkeypatch.setattr(concord.flows.training.best_model._Clock, "is_over", is_over)
    report = train_model(job)
    assert (len(looks), report.rules) == (11, None)
    assert report.search is not None
    assert "rules mined" in report.search.untried
    assert "not tried, for want of time: " in str(report)


def test_too_few_documents_to_measure_by_are_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(concord.flows.training.train_model, "Tracking", untracked([]))
    ids = [name for name in map(str, range(100)) if not is_held_out(name, 0.2)][:12]
    made = zip(ids, synthesize(12, seed=0, kind="news"), strict=True)
    write_corpus([replace(document, doc_id=name) for name, document in made], tmp_path / "corpus", source="test")
    given = {"corpus": str(tmp_path / "corpus"), "trainer": "sgd", "consistency": False, "effort": "best"}
    given |= {"validation": "random", "out": str(tmp_path / "model"), "settings": SgdSettings()}
    with pytest.raises(TrainingError, match="12 documents, of which 0 have no part in the choice, are too few"):
        train_model(TrainJob.model_validate(given))


def test_held_out_documents_with_labels_of_their_own_are_left_out_of_tuning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(concord.flows.training.train_model, "Tracking", untracked([]))
    documents = list(synthesize(20, seed=0, kind="news"))
    odd = Document.build("odd", [["Ada", "wrote"]], labels=[["B-AUTHOR", "O"]], pos=[["N", "V"]])
    write_corpus([*documents, odd], tmp_path / "corpus", source="test")
    given = {"corpus": str(tmp_path / "corpus"), "trainer": "sgd", "settings": SgdSettings(features="kinds", passes=1)}
    report = train_model(TrainJob.model_validate({**given, "out": str(tmp_path / "model")}))
    assert report.consistency is not None
    assert "1 of 4 held-out documents have labels that no other has" in capsys.readouterr().err
    assert "B-AUTHOR" in parse_manifest(tmp_path / "model" / MANIFEST).labels
    write_corpus([*documents[:3], odd], tmp_path / "few", source="test")
    few = TrainJob.model_validate({**given, "corpus": str(tmp_path / "few"), "out": str(tmp_path / "none")})
    with pytest.raises(TrainingError, match="the 1 documents held out all have labels that no other has"):
        train_model(few)


@pytest.mark.parametrize("effort", ["normal", "best"])
@pytest.mark.parametrize("name", [name for name, own in TRAINERS.items() if own.gold and own.sampling is None])
def test_a_label_of_the_last_document_alone_stops_no_trainer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, effort: str
) -> None:
    monkeypatch.setattr(concord.flows.training.train_model, "Tracking", untracked([]))
    monkeypatch.setattr(concord.workers.learning.trainers.selection, "RUNGS", {})
    odd = Document.build("odd", [["Ada", "wrote"]], labels=[["B-AUTHOR", "O"]], pos=[["N", "V"]])
    documents = list(with_layer([*synthesize(15, seed=0, kind="news"), odd]))
    write_corpus(documents, tmp_path / "corpus", source="test")
    given = {"corpus": str(tmp_path / "corpus"), "out": str(tmp_path / "model"), "effort": effort, "trainer": name}
    report = train_model(TrainJob.model_validate(given | {"settings": TRAINERS[name].settings().quick}))
    assert report.consistency is not None
    labels, saved = load_model(tmp_path / "model").labels, saved_consistency(tmp_path / "model")
    assert saved is not None
    assert "AUTHOR" in labels.types
    assert saved.ground(Batch.of(documents), labels)


def test_of_documents_without_an_entity_no_figure_is_foretold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(concord.flows.training.train_model, "Tracking", untracked([]))
    empty = [Document.build(f"e{i}", [["so", "it", "goes"]], labels=[["O"] * 3], pos=[["R"] * 3]) for i in range(3)]
    write_corpus([*synthesize(12, seed=0, kind="news"), *empty], tmp_path / "corpus", source="test")
    given = {"corpus": str(tmp_path / "corpus"), "trainer": "sgd", "consistency": False, "effort": "best"}
    given |= {"out": str(tmp_path / "model"), "settings": SgdSettings(features="kinds", passes=1), "cpu_seconds": 1e-9}
    report = train_model(TrainJob.model_validate(given))
    assert "no F1 can be foretold: the 3 documents that had no part in the choice have no entity" in str(report)
    assert "so it cannot label raw text" not in str(report)
    request = TrainJob.model_validate(given | {"settings": SgdSettings(features="kinds+pos", passes=1)})
    assert "reads pos, so it cannot label raw text, which has none" in str(train_model(request))


def test_rules_that_help_are_a_file_beside_the_model_and_are_judged_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(concord.flows.training.train_model, "Tracking", untracked([]))
    write_corpus(synthesize(100, seed=0, kind="citations"), tmp_path / "corpus", source="test")
    options = SgdSettings(features="kinds", passes=1, c2=0.3, min_freq=1, dropout=0.0, scheme="corpus")
    given = {"corpus": str(tmp_path / "corpus"), "trainer": "sgd", "consistency": False, "effort": "best"}
    job = TrainJob.model_validate({**given, "out": str(tmp_path / "model"), "settings": options})
    made = list[tuple[Model, list[Document]]]()

    def dies(report: SearchReport, rules: LadderRules, model: Model, inside: Any, outside: list[Document]) -> Any:
        made.append((model, outside))
        if len(made) == 1:
            raise KeyboardInterrupt
        return with_rules(report, rules, model, inside, outside)

    monkeypatch.setattr(concord.flows.training.best_model, "with_rules", dies)
    with pytest.raises(KeyboardInterrupt):
        train_model(job)
    monkeypatch.delattr(concord.flows.training.ladder_rules, "judged_beside")
    report, decoder = train_model(job), Decoder.of("certify")
    assert report.search is not None
    assert report.search.rules is not None
    step = report.search.steps[-1]
    assert (step.step, step.is_kept, report.search.untried) == ("rules mined", True, ())
    assert report.rules == str(tmp_path / "model" / "constraints.yaml")
    assert "constraints.yaml" in parse_manifest(tmp_path / "model" / MANIFEST).files
    rules = load_constraints(report.rules)
    assert len(rules.templates) == report.search.rules.rules
    model, outside = made[1]
    assert [document.doc_id for document in outside] == [f"citations-{number:09}" for number in range(80, 100)]
    batch = Batch.of(outside)
    problems = local_scores(model, batch).problems(batch, model.labels, rules.bind(model.labels))
    answers = [decoder(Prepared.of(problem), "") for problem in problems]
    counts = entity_counts(outside, model.labels, model.labels.names, np.concatenate([own.labels for own in answers]))
    assert report.search.rules.f1 == f1_of_counts(counts.sum(axis=0))
    assert report.search.f1 == f1_of_counts(viterbi_counts(model, outside, model.labels).sum(axis=0))
    assert report.search.rules.gain == pytest.approx(report.search.rules.f1 - report.search.f1)
    assert f"--constraints {report.rules}" in str(report)


@pytest.mark.parametrize("of", ["layered", "plain", "no O"])
@pytest.mark.parametrize("name", [name for name, own in TRAINERS.items() if own.gold and own.sampling is None])
def test_every_ladder_ends_with_rules_or_says_why_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, of: str
) -> None:
    """Whatever the labels are and whatever the trainer's models score."""
    monkeypatch.setattr(concord.flows.training.train_model, "Tracking", untracked([]))
    monkeypatch.setattr(concord.workers.learning.trainers.selection, "RUNGS", {})
    made: dict[str, Callable[[], Iterable[Document]]] = {
        "layered": lambda: with_layer(synthesize(12, seed=0, kind="news")),
        "plain": lambda: synthesize(20, seed=0, kind="citations"),
        "no O": lambda: [Document.build(f"{i}", [["a", "b", "c"]] * 2, labels=[LABELS] * 2) for i in range(12)],
    }
    write_corpus(made[of](), tmp_path / "corpus", source="test")
    given = {"corpus": str(tmp_path / "corpus"), "out": str(tmp_path / "model"), "effort": "best", "trainer": name}
    settings = TRAINERS[name].settings().quick
    search = train_model(TrainJob.model_validate({**given, "consistency": False, "settings": settings})).search
    assert search is not None
    base, *steps = search.steps
    assert base.step == "base"
    assert [step.step for step in steps] in ([], ["rules mined"], ["rules mined: none holds"])
    assert search.untried == ()


@pytest.mark.parametrize(
    ("labels", "free"),
    [(("X", "Y"), FIELD_RULES_COST), (("B-X", "I-X"), FIELD_RULES_COST), (("B-X", "O"), 0.0), (("X", "O"), 0.0)],
)
def test_time_for_rules_is_kept_free_where_nearly_every_token_is_in_a_field(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, labels: tuple[str, str], free: float
) -> None:
    kept_free = set[float]()
    monkeypatch.setattr(concord.workers.learning.trainers.selection, "RUNGS", {"cut-off": RUNGS["cut-off"]})
    monkeypatch.setattr(_Clock, "has_time", lambda *_, **asked: kept_free.add(asked["free"]))
    documents = [Document.build(f"{i}", [["a", "b"]] * 2, labels=[list(labels)] * 2) for i in range(12)]
    base = TrainerChoice("sgd", SgdSettings(features="core", passes=1))
    best_model(documents, base, out=tmp_path / "model", corpus="", validation=Validation.LATER)
    assert kept_free == {free}


def test_answers_of_a_layer_are_tuned_by_the_model_that_gives_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where a ladder has trained another model without the held-out documents."""
    monkeypatch.setattr(concord.flows.training.train_model, "Tracking", untracked([]))
    write_corpus(with_layer(synthesize(20, seed=0, kind="news")), tmp_path / "corpus", source="test")
    tuned = list[str]()

    def kept(documents: Sequence[Document], model: CrfModel, *others: Any, **options: Any) -> Any:
        tuned.append(model.manifest.training["trainer"])
        return tune_consistency(documents, model, *others, **options)

    monkeypatch.setattr(concord.flows.training.train_model, "tune_consistency", kept)
    options = SgdSettings(layers=(MADE_LAYER,), features="kinds", passes=1, rate=1e-6, c2=0.3, dropout=0.0)
    given = {"corpus": str(tmp_path / "corpus"), "out": str(tmp_path / "model"), "effort": "best", "minutes": 1e-9}
    report = train_model(TrainJob.model_validate({**given, "trainer": "sgd", "settings": options}))
    assert report.layers is not None
    assert not report.layers.learned
    assert tuned == [ANSWERING]
    assert report.search is None, "its figures would be those of another model"
    assert report.layers.documents < 16, "the last four of twenty have no part in a choice"


def test_a_quick_training_makes_few_passes_and_keeps_what_is_given(tmp_path: Path) -> None:
    assert SgdSettings().quick == SgdSettings(passes=10, dropout=0.0, c2=0.3, decay=0.85)
    assert SgdSettings(passes=2, features="core").quick.model_dump(include={"passes", "features"}) == {
        "passes": 2,
        "features": "core",
    }
    for trainer in TRAINERS.values():
        quick = trainer.settings().quick
        assert trainer.settings.model_validate(quick.model_dump()) == quick


@pytest.mark.parametrize("trainer", [name for name, one in TRAINERS.items() if one.settings().quick == one.settings()])
def test_a_quick_training_that_is_no_quicker_is_one_line(trainer: str, tmp_path: Path) -> None:
    words = ["--corpus", str(tmp_path), "--out", str(tmp_path / "o"), "--trainer", trainer, "--effort", "quick"]
    refused = CliRunner().invoke(app, ["train", *words])
    assert refused.exit_code == Exit.INPUT
    assert "--effort quick is for --trainer sgd or ensemble" in refused.stderr


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"minutes": 5.0}, "--minutes is for --effort best"),
        ({"cpu_seconds": 5.0, "effort": "quick"}, "--cpu-seconds is for --effort best"),
        ({"minutes": 5.0, "effort": "best", "trainer": "trigram"}, "--minutes is for --effort best"),
        ({"effort": "best", "trainer": "taggers"}, "reads no gold labels"),
        ({"context": {"workers": 2}}, "--ray, --workers and --largest-sample are for --effort best"),
        ({"effort": "best", "largest_sample": 500}, "--largest-sample is for --effort best of trainer trigram alone"),
    ],
)
def test_a_search_that_cannot_be_is_one_line(changes: dict[str, Any], fault: str) -> None:
    with pytest.raises(TrainingError, match=fault):
        check_search(TrainRequest.model_validate({"corpus": "c", "out": "o", **changes}))


@pytest.mark.parametrize("effort", ["normal", "best"])
def test_a_corpus_without_any_entity_is_one_line(effort: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(concord.flows.training.train_model, "Tracking", untracked([]))
    write_corpus([Document.build("d", [["a"]], labels=[["O"]])], tmp_path / "corpus", source="test")
    given = {"corpus": str(tmp_path / "corpus"), "out": str(tmp_path / "model"), "effort": effort}
    with pytest.raises(CorpusError, match=r"corpus.*no document of this corpus has an entity"):
        train_model(TrainJob.model_validate({**given, "settings": SgdSettings()}))
    assert not (tmp_path / "model").exists()


def test_segments_that_were_cut_are_told_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(concord.flows.training.train_model, "Tracking", untracked([]))
    write_corpus(synthesize(12, seed=0, kind="news"), tmp_path / "corpus", source="test")
    for longest, told in ((1, "gold segments had more than 1 tokens, and were cut"), (100, "")):
        settings = SemiCrfSettings(features="fersini", longest=longest, max_iterations=2)
        corpus, out = str(tmp_path / "corpus"), str(tmp_path / "model")
        request = TrainJob(corpus=corpus, out=out, trainer="semicrf", settings=settings, consistency=False)
        show_report(train_model(request))
        said = " ".join(capsys.readouterr().out.split())
        assert told in said
        assert ("were cut" in said) == bool(told)


def test_a_corpus_without_labels_is_tracked_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read = list[dict[str, Any]]()
    monkeypatch.setattr(concord.flows.training.train_model, "Tracking", untracked([], read=read))
    for name, seed in (("corpus", 0), ("pool", 1)):
        write_corpus(synthesize(12, seed=seed, kind="news"), tmp_path / name, source="test")
    settings = HmmSettings(pool=str(tmp_path / "pool"), iterations=2)
    corpus, out = str(tmp_path / "corpus"), str(tmp_path / "model")
    request = TrainJob(corpus=corpus, out=out, trainer="hmm", settings=settings, consistency=False)
    report: TrainReport = train_model(request)
    assert report.figures["iterations"] == 2
    assert [(Path(entry["name"]).name, entry["context"]) for entry in read] == [
        ("corpus", "training"),
        ("pool", "pool"),
    ]
    assert len({entry["digest"] for entry in read}) == 2


def test_later_documents_tune_consistency_where_that_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class StoppedError(Exception):
        pass

    def tuned_on(documents: Sequence[Document], *_: object, **__: object) -> None:
        raise StoppedError([document.doc_id for document in documents])

    monkeypatch.setattr(concord.flows.training.train_model, "Tracking", untracked([]))
    monkeypatch.setattr(concord.flows.training.train_model, "tune_consistency", tuned_on)
    documents = list(synthesize(30, seed=0, kind="news"))
    write_corpus(documents, tmp_path / "corpus", source="test")
    options = SgdSettings(features="finkel", passes=1, min_freq=0.0, c2=0.1)
    given = {"corpus": str(tmp_path / "corpus"), "trainer": "sgd", "settings": options, "held_out_share": 0.3}
    for validation in Validation:
        request = TrainJob.model_validate({**given, "out": str(tmp_path / "model"), "validation": validation})
        with pytest.raises(StoppedError) as stopped:
            train_model(request)
        (judged,) = stopped.value.args
        last = [document.doc_id for document in documents[-9:]]
        assert (judged == last) == (validation is Validation.LATER)
        report: TrainReport = train_model(request.model_copy(update={"consistency": False}))
        show_report(report)
        assert f"sgd: 1 passes over {report.tokens:,} tokens, dropout" in " ".join(capsys.readouterr().out.split())
