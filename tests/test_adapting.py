"""A model adapted to the corpus that it labels, beside clusters and a model that are made from both corpora by hand."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import concord.flows.cluster.cluster
import concord.flows.commands.clusters
import concord.flows.labelling.adapting
import concord.flows.tracking.tracking
from concord.flows.commands.clusters import learn, learn_from_states
from concord.flows.commands.run_plan import plan_run
from concord.flows.inputs.model_copies import KEPT_COPIES
from concord.flows.labelling.label_corpus import label_corpus
from concord.flows.labelling.sources import read_documents
from concord.flows.nights.record import read_record
from concord.flows.runfolder.runfolder import read_sources
from concord.flows.work.in_process import InProcess
from concord.schemas.document import Batch, Document
from concord.schemas.errors import CorpusError, UsageError
from concord.schemas.requests import LabelRequest
from concord.schemas.run import RunSettings
from concord.workers.corpus.ingestion import write_corpus
from concord.workers.corpus.plan import plan
from concord.workers.features.clustering.learners import settings_of
from concord.workers.features.clusters import (
    RECIPE_KEY,
    ClusterFileError,
    ClusterRecipe,
    Clusters,
    read_clusters,
    write_clusters,
    zeros,
)
from concord.workers.features.settings import COUNTED_WAYS, CountedClustering, StateSettings
from concord.workers.learning.trainers import sgd
from concord.workers.learning.trainers.registry import TRAINERS
from concord.workers.models.encoder import encoder_at
from concord.workers.models.folder import MANIFEST, ModelError, parse_manifest, update_manifest
from concord.workers.models.loaders import load_model
from concord.workers.storage.storage import storage_at
from concord.workers.synthesis.made_up import synthesize
from tests.support.made_tracking import untracked
from tests.support.networks import VOCABULARY, network_folder, use_stubs

OPTIONS: dict[str, dict[str, Any]] = {
    "learn": {"clusters": (4, 9), "least_count": 2, "dimensions": 8},
    "brown": {"clusters": 9, "least_count": 2},
    "clark": {"clusters": (6,), "least_count": 2, "iterations": 2},
}
FEATURES, PASSES = "core+mentions+clusters+entities", 2


@pytest.fixture(scope="module", autouse=True)
def _here() -> Iterator[None]:
    """Work stays in this process."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(concord.flows.tracking.tracking, "Tracking", untracked([]))
        for module in (concord.flows.cluster.cluster, concord.flows.commands.clusters):
            patched.setattr(module, "cluster", lambda *_, **__: nullcontext(InProcess()))
        yield


@pytest.fixture(scope="module")
def first_world(tmp_path_factory: pytest.TempPathFactory, _here: None) -> Path:
    """A folder with the corpora ``train`` and ``feed``, and ``model``, which has clusters learned in two ways."""
    folder = tmp_path_factory.mktemp("world")
    write(folder / "train", list(synthesize(10, seed=3, kind="news")))
    write(folder / "feed", list(synthesize(5, seed=4, kind="news")))
    made(folder, ("brown", "learn"))
    return folder


@pytest.fixture
def world(first_world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it, in which models are kept, too."""
    monkeypatch.setenv("CONCORD_HOME", str(tmp_path / "world" / "home"))
    return Path(shutil.copytree(first_world, tmp_path / "world"))


def write(place: Path, documents: Sequence[Document]) -> None:
    write_corpus(documents, place, source="made up")


def options_of(way: str) -> CountedClustering:
    return COUNTED_WAYS[way].model_validate(OPTIONS[way])


def made(
    world: Path,
    ways: Sequence[str],
    out: str = "model",
    texts: Sequence[str] = ("train",),
    trainer: str = sgd.NAME,
    **more: Any,
) -> Path:
    """A model of the corpus ``train`` with clusters of the ``texts``, learned by the commands' own functions."""
    files = [world / f"{out}-{way}.parquet" for way in ways]
    for file, way in zip(files, ways, strict=True):
        learn([str(world / text) for text in texts], file, options_of(way))
    documents, _ = read_documents(plan(world / "train"), gold=True)
    options = {"features": FEATURES, "clusters": tuple(map(str, files)), "passes": PASSES, **more}
    TRAINERS[trainer].train(documents, settings=TRAINERS[trainer].settings(**options), out=world / out)
    manifest = parse_manifest(world / out / MANIFEST)
    update_manifest(world / out, kind=manifest.kind, tokenizer="words==1")
    return world / out


def replace_training(patched: pytest.MonkeyPatch, train: Any) -> None:
    """Has adapted models trained by this function."""
    others = {**TRAINERS, sgd.NAME: TRAINERS[sgd.NAME]._replace(train=train)}
    patched.setattr(concord.flows.labelling.adapting, "TRAINERS", others)


def request(world: Path, **given: Any) -> LabelRequest:
    asked = {"model": str(world / "model"), "adapt": (str(world / "train"),), "out": str(world / "out")}
    usual = {"corpus": str(world / "feed"), "settings": RunSettings(engine="viterbi")}
    return LabelRequest(**usual | asked | given)


def answers(out: Path) -> dict[str, bytes]:
    """The files of predictions by name."""
    return {path.name: path.read_bytes() for path in sorted((out / "predictions").glob("*.parquet"))}


def adapted_folders(world: Path) -> list[Path]:
    return sorted(path.parent for path in (world / "home" / "models").rglob(MANIFEST))


def test_an_adapted_run_is_that_of_a_model_with_clusters_of_both_corpora(world: Path) -> None:
    label_corpus(request(world))
    by_hand = made(world, ("brown", "learn"), "by-hand", ("train", "feed"))
    label_corpus(request(world, model=str(by_hand), adapt=(), out=str(world / "out-by-hand")))
    (folder,) = adapted_folders(world)
    own, theirs = (parse_manifest(place / MANIFEST) for place in (folder, by_hand))
    assert {name for name in own.files if own.files[name] != theirs.files[name]} == set()
    assert own.digest == theirs.digest != parse_manifest(world / "model" / MANIFEST).digest
    assert answers(world / "out") == answers(world / "out-by-hand")


def test_equal_contents_are_learned_from_once_and_a_dry_run_says_what_is_learned(
    world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = plan_run(request(world))
    assert before.learning == (
        "clusters (brown, learn) from the texts of train, feed, and the model from train with these clusters"
    )
    assert any(before.learning in str(block) for block in before.blocks())
    assert before.decoded == 5
    assert not (world / "home" / "models").exists()

    def never(*_: Any, **__: Any) -> Any:
        raise AssertionError("trained again")

    label_corpus(request(world))
    first = answers(world / "out")
    replace_training(monkeypatch, never)
    planned, again = plan_run(request(world)), label_corpus(request(world))
    assert (planned.learning, planned.skipped, again.shards_skipped) == ("", 5, 1)
    label_corpus(request(world, out=str(world / "elsewhere")))
    assert answers(world / "out") == answers(world / "elsewhere") == first


def test_what_a_model_was_adapted_from_is_recorded(world: Path) -> None:
    label_corpus(request(world))
    (folder,) = adapted_folders(world)
    base = parse_manifest(world / "model" / MANIFEST)
    manifest = parse_manifest(folder / MANIFEST)
    assert manifest.training["adapted_from"] == base.digest
    assert (manifest.settings, manifest.extras, manifest.tokenizer) == (base.settings, base.extras, base.tokenizer)
    sources = read_sources(storage_at(str(world / "out")))
    assert sources.model == str(folder)
    assert (sources.adapted_from, sources.adapted_with) == (str(world / "model"), (str(world / "train"),))
    (night,) = read_record(storage_at(str(world / "out"))).nights
    assert (night.asked["adapted_from"], night.asked["adapted_with"]) == (base.digest, str(world / "train"))
    assert night.asked["model_digest"] == manifest.digest


def test_another_text_is_adapted_to_anew_a_correction_is_not(world: Path) -> None:
    label_corpus(request(world))
    document = next(iter(read_documents(plan(world / "feed"))[0]))
    file = world / "corrections.jsonl"
    file.write_text(json.dumps({"doc_id": document.doc_id, "start": 0, "end": 1, "type": None}))
    label_corpus(request(world, corrections=str(file)))
    assert len(adapted_folders(world)) == 1
    for seed in range(5, 5 + KEPT_COPIES):
        (world / "feed" / "more.parquet").unlink(missing_ok=True)
        write(world / "more", [replace(d, doc_id=f"more {d.doc_id}") for d in synthesize(1, seed=seed, kind="news")])
        next((world / "more").glob("part*")).rename(world / "feed" / "more.parquet")
        label_corpus(request(world, allow_gone=True))
    assert len(adapted_folders(world)) == KEPT_COPIES


def test_a_training_that_is_broken_off_leaves_nothing_and_no_answer(
    world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*args: Any, progress: Any, **given: Any) -> Any:
        def show(_iteration: Any) -> None:
            raise KeyboardInterrupt

        return sgd.train(*args, progress=show, **given)

    with monkeypatch.context() as patched:
        replace_training(patched, stopped)
        with pytest.raises(KeyboardInterrupt):
            label_corpus(request(world))
    assert adapted_folders(world) == []
    assert not any((world / "home" / "models").rglob("*.bin"))
    assert label_corpus(request(world)).documents == 5


def test_phrases_are_those_of_the_model(world: Path) -> None:
    phrases = world / "phrases.tsv"
    phrases.write_text("Oslo\tplace\n")
    made(world, ("clark",), features=f"{FEATURES}+gazetteer", gazetteers=(str(phrases),))
    phrases.unlink()
    label_corpus(request(world))
    (folder,) = adapted_folders(world)
    for name in ("gazetteer.parquet", "entities.parquet"):
        assert (folder / name).read_bytes() == (world / "model" / name).read_bytes()


def test_all_texts_of_the_clusters_are_asked_for_and_learned_from_again(world: Path) -> None:
    write(world / "novels", list(synthesize(5, seed=8, kind="news")))
    made(world, ("clark",), texts=("novels", "train"))
    with pytest.raises(
        CorpusError, match=r"1 of the corpora that clusters of .* were learned from are not among these"
    ):
        label_corpus(request(world))
    both = tuple(str(world / name) for name in ("train", "novels"))
    label_corpus(request(world, adapt=both))
    (folder,) = adapted_folders(world)
    recipe = read_clusters(folder / "clusters.parquet").recipe
    assert recipe is not None
    assert len(recipe.corpora) == 3


def test_new_words_join_the_clusters_of_states_that_are_nearest_and_the_model_stays(
    world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_stubs(monkeypatch)
    monkeypatch.setenv("CONCORD_SCORES", "off")
    random = np.random.default_rng(4).normal(size=(VOCABULARY, 4))
    mine, other = (network_folder(world / name, [name], random + i) for i, name in enumerate(("mine", "other")))
    learn_from_states([str(world / "train")], world / "states.parquet", mine, StateSettings(clusters=(5, 9)))
    made(world, (), clusters=(str(world / "states.parquet"),))
    for wrong in (("train",), ("mine",), ("train", other.name)):
        with pytest.raises(ModelError, match="the encoder's folder as it was"):
            plan_run(request(world, adapt=tuple(str(world / name) for name in wrong)))
    monkeypatch.setattr(concord.flows.labelling.adapting, "TRAINERS", {})
    adapt = (str(world / "train"), str(mine))
    assert plan_run(request(world, adapt=adapt)).learning == (
        "which of the model's clusters the new words of feed are nearest to"
    )
    label_corpus(request(world, adapt=adapt))
    (folder,) = adapted_folders(world)
    before, after = (parse_manifest(place / MANIFEST) for place in (world / "model", folder))
    assert {name for name in before.files if before.files[name] != after.files[name]} == {"clusters.parquet"}
    own, extended = (read_clusters(place / "clusters.parquet") for place in (world / "model", folder))
    words, more = own.words.to_pylist(), extended.words.to_pylist()[len(own.words) :]
    assert extended.words.to_pylist()[: len(words)] == words
    assert extended.codes[: len(words)].tolist() == own.codes.tolist()
    train, feed = (directions(world / name, mine) for name in ("train", "feed"))
    assert sorted(more) == sorted(feed.keys() - train.keys())
    for clustering in range(2):
        members: dict[int, list[Any]] = {}
        for word, code in zip(words, own.codes[:, clustering].tolist(), strict=True):
            members.setdefault(code, []).append(train[word])
        centres = [np.mean(members[code], axis=0) for code in range(len(members))]
        for word, code in zip(more, extended.codes[len(words) :, clustering], strict=True):
            assert code == np.argmin([np.sum((feed[word] - centre) ** 2) for centre in centres])
    assert load_model(folder).digest == after.digest != before.digest


def directions(corpus: Path, encoder: Path) -> dict[str, Any]:
    """Mean state of each word of a corpus, with length 1."""
    documents, _ = read_documents(plan(corpus))
    seen: dict[str, list[Any]] = {}
    states = encoder_at(encoder).states(Batch.of(documents)).astype(np.float64)
    for word, state in zip((w for d in documents for w in d.tokens), states, strict=True):
        seen.setdefault(zeros(word), []).append(state)
    means = {word: np.mean(own, axis=0) for word, own in seen.items()}
    return {word: mean / np.linalg.norm(mean) for word, mean in means.items()}


def test_only_some_documents_are_nothing_to_adapt_to(world: Path) -> None:
    document = next(iter(read_documents(plan(world / "feed"))[0]))
    with pytest.raises(UsageError, match="leave --only and --doc out"):
        plan_run(request(world, only=(document.doc_id,)))


def test_other_documents_than_those_learned_from_are_refused(world: Path) -> None:
    documents, _ = read_documents(plan(world / "train"))
    write(world / "fewer", documents[:-1])
    with pytest.raises(CorpusError, match="not among these, or have other rows"):
        plan_run(request(world, adapt=(str(world / "fewer"),)))
    both = tuple(str(world / name) for name in ("fewer", "train"))
    with pytest.raises(CorpusError, match=r"fewer: not the documents that .* was learned from \(10 documents"):
        label_corpus(request(world, adapt=both))
    assert adapted_folders(world) == []


def test_models_that_cannot_be_learned_again_are_refused_in_a_line(world: Path) -> None:
    def refusal(error: type[Exception] = ModelError) -> str:
        with pytest.raises(error) as raised:
            plan_run(request(world))
        text = str(raised.value)
        assert "\n" not in text
        return text

    made(world, (), features="core", clusters=None)
    assert "learned with --clusters" in refusal()
    made(world, ("clark",), start_from=str(made(world, ("clark",), "first")))
    assert f"was learned from {world / 'first'}, too" in refusal()
    own = made(world, ("clark",))
    update_manifest(own, kind="crf", metrics={})
    manifest = json.loads((own / MANIFEST).read_text())
    (own / MANIFEST).write_text(json.dumps(manifest | {"settings": {"features": "core", "of old": 1}}))
    assert "settings of another version" in refusal()
    (own / MANIFEST).write_text(json.dumps(manifest | {"training": {"documents": 10, "tokens": 20}}))
    assert "cannot train it again" in refusal()


def test_clusters_of_vectors_are_refused(world: Path) -> None:
    table = Clusters(pa.array(["a", "b"]), ("2",), np.array([[0], [1]], np.int32))
    write_clusters(world / "vectors.parquet", table)
    made(world, (), clusters=(str(world / "vectors.parquet"),))
    with pytest.raises(ModelError, match=r"clusters.parquet: does not say how its clusters were learned"):
        plan_run(request(world))


@pytest.mark.parametrize("way", COUNTED_WAYS)
def test_a_file_says_how_its_clusters_were_learned(world: Path, way: str) -> None:
    learn([str(world / "train")], world / "c.parquet", options_of(way))
    read = read_clusters(world / "c.parquet")
    assert read.recipe is not None
    assert (read.recipe.way, len(read.recipe.corpora)) == (way, 1)
    assert settings_of(read.recipe, world / "c.parquet") == options_of(way)
    write_clusters(world / "d.parquet", read)
    assert (world / "c.parquet").read_bytes() == (world / "d.parquet").read_bytes()
    assert load_model(made(world, (way,))) is not None
    assert read_clusters(world / "model" / "clusters.parquet").recipe == read.recipe


def test_a_damaged_recipe_is_one_message(world: Path) -> None:
    file = world / "model" / "clusters.parquet"
    table = pq.read_table(file)
    pq.write_table(table.replace_schema_metadata({RECIPE_KEY: b'{"way": "guess"}'}), file)
    with pytest.raises(ClusterFileError, match="its recipe cannot be read"):
        read_clusters(file)
    recipe = ClusterRecipe(way="guess", options={}, corpora=())
    with pytest.raises(ClusterFileError, match="unknown way 'guess'; make them again"):
        settings_of(recipe, file)
    with pytest.raises(ClusterFileError, match="another version's options"):
        settings_of(recipe.model_copy(update={"way": "clark", "options": {"of old": 1}}), file)
