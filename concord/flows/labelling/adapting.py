"""A model adapted to the corpus that it is to label: its word clusters know the words of that corpus, too.

A word that no labelled document has then has the clusters of words that are used like it (Miller, Guinness & Zamanian
2004). Where an encoder says how a word is used, it joins the nearest of the clusters that there are, and the model is
the same. Clusters that come from counts of words are learned anew by their recipes, from the documents that the model
was learned from and from the texts to be labelled; then the model learns again, from the same documents by the same
settings. Label consistency stays the model's own. What was learned is kept in `home` under a digest of all contents, so
that equal contents are learned from once.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import count, filterfalse, takewhile
from pathlib import Path
from typing import Any, NamedTuple, Self

from pydantic import ValidationError

from concord.flows.inputs.model_copies import copy_place, kept_copy
from concord.flows.labelling.label_job import LabelJob
from concord.flows.labelling.learned_clusters import cluster_counts, learned_clusters, texts_digest, with_words_of
from concord.flows.labelling.ray_on_demand import RayOnDemand
from concord.flows.labelling.sources import OpenModel, read_documents
from concord.flows.screen.progress import meter, say
from concord.flows.work.done import Workers
from concord.schemas.document import Document
from concord.schemas.errors import CorpusError, UsageError
from concord.schemas.secrets import place_of, short_name
from concord.workers.compiling.code import digest_of_libraries
from concord.workers.compiling.kept_digests import kept_digest
from concord.workers.corpus.plan import plan
from concord.workers.corpus.shard_table import ShardTable
from concord.workers.features.clustering.learners import settings_of
from concord.workers.features.clusters import ClusterRecipe, Clusters, read_clusters, write_clusters
from concord.workers.features.gazetteers import GAZETTEER
from concord.workers.features.settings import ClusterLearning, StateSettings
from concord.workers.learning.trainers.registry import TRAINERS
from concord.workers.learning.trainers.trainer import Iteration, Trainer, TrainingCounts
from concord.workers.models.encoder import Encoder, encoder_at, is_encoder
from concord.workers.models.feature_files import LIST_FILES, clusters_file
from concord.workers.models.folder import MANIFEST, Manifest, ModelError, file_digest, parse_manifest, write_manifest
from concord.workers.models.loaders import load_model
from concord.workers.models.settings import FeatureSettings
from concord.workers.storage.scratch import scratch_folder

TRAINING_CODE = ("concord.workers.learning.trainers.registry", "concord.workers.features.clustering.learners")
TRAINING_LIBRARIES = ("scikit-learn", "scipy")
"""What a model is learned by; its own libraries are among the labelling ones."""

UNLEARNED = "new"
"""In the place of a model's digest: it is not learned yet."""


class _ModelClusters(NamedTuple):
    """The clusters of a model, by file: the tables, and the settings by which they were learned."""

    tables: tuple[Clusters, ...]
    ways: tuple[ClusterLearning, ...]

    @classmethod
    def of(cls, folder: Path, manifest: Manifest) -> Self:
        """Raises `ModelError` where a model has no clusters, or some do not say how they were learned."""
        files = [folder / name for name in takewhile(manifest.files.__contains__, map(clusters_file, count(1)))]
        if not files:
            raise ModelError(
                f"{folder}: --adapt needs a model that `concord train` has learned with --clusters, in one chain "
                "without --encoder"
            )
        tables = tuple(read_clusters(file, file=number) for number, file in enumerate(files, 1))
        return cls(
            tables, tuple(settings_of(_recipe(table, file), file) for table, file in zip(tables, files, strict=True))
        )

    @property
    def recipes(self) -> tuple[ClusterRecipe, ...]:
        """How each was learned."""
        return tuple(table.recipe for table in self.tables if table.recipe is not None)

    @property
    def are_extended(self) -> bool:
        """Do new words join the clusters that there are, so that the model stays as it is?"""
        return all(isinstance(way, StateSettings) for way in self.ways)


def _recipe(table: Clusters, file: Path) -> ClusterRecipe:
    if table.recipe is None:
        raise ModelError(
            f"{file}: does not say how its clusters were learned; make them again by `concord clusters` learn, brown, "
            "clark or states, and train with these"
        )
    return table.recipe


class _ModelTraining(NamedTuple):
    """How a model was trained; files of phrases are those of its folder."""

    trainer: Trainer
    settings: FeatureSettings

    @classmethod
    def of(cls, folder: Path, manifest: Manifest) -> Self:
        """Raises `ModelError` where the model cannot be trained again with other clusters."""
        name = str(manifest.training.get("trainer"))
        if name not in TRAINERS or not issubclass(TRAINERS[name].settings, FeatureSettings):
            raise ModelError(f"{folder}: --adapt cannot train it again, since `concord train` has not; leave it out")
        try:
            settings = TRAINERS[name].settings.model_validate(manifest.settings)
        except ValidationError as error:
            fault = error.errors()[0]["msg"]
            raise ModelError(f"{folder / MANIFEST}: settings of another version ({fault}); train again") from error
        assert isinstance(settings, FeatureSettings)
        _check_alone(folder, settings)
        phrases = (str(folder / LIST_FILES[GAZETTEER]),) if settings.gazetteers else ()
        return cls(TRAINERS[name], settings.model_copy(update={"gazetteers": phrases}))


def _check_alone(folder: Path, settings: FeatureSettings) -> None:
    """Raises `ModelError` if something else was learned from than documents, clusters and phrases."""
    own = ("clusters", "gazetteers")
    others = settings.places([name for name in (*settings.corpora, *settings.files) if name not in own])
    if others or settings.layers:
        also = ", ".join(others or settings.layers)
        raise ModelError(
            f"{folder}: it was learned from {also}, too, and --adapt learns from documents, clusters and phrases "
            "alone; leave it out"
        )


class Adaptation(NamedTuple):
    """What an adapted model is learned from.

    - ``job``: of the corpus, by the model as it is.
    - ``manifest``: of that model.
    - ``clusters``: of that model.
    - ``training``: how that model is trained again; None where it stays, with more words in its clusters.
    - ``places``, ``texts``: places and shards of the documents that it was learned from, and of further texts.
    - ``encoders``: those of its clusters, by the digests of their files.
    """

    job: LabelJob
    manifest: Manifest
    clusters: _ModelClusters
    training: _ModelTraining | None
    places: Sequence[str]
    texts: Sequence[ShardTable]
    encoders: Mapping[str, Encoder]

    @classmethod
    def of(cls, job: LabelJob) -> Self:
        """The adaptation that the job's request asks for.

        Raises `UsageError` where only some documents are to be labelled, `ModelError` where the model cannot be learned
        again, and `CorpusError` where a corpus cannot be read, or clusters were learned from one that is not given.
        """
        request, folder = job.request, job.opened.folder
        if request.only is not None:
            raise UsageError("--adapt learns from all documents of the corpus; leave --only and --doc out")
        if job.damages:
            raise job.damages[0]
        manifest = parse_manifest(folder / MANIFEST)
        clusters = _ModelClusters.of(folder, manifest)
        training = None if clusters.are_extended else _ModelTraining.of(folder, manifest)
        encoders = {one.files_digest: one for one in map(encoder_at, map(Path, filter(is_encoder, request.adapt)))}
        places = tuple(filterfalse(is_encoder, request.adapt))
        if not places or not {recipe.encoder for recipe in clusters.recipes if recipe.encoder} <= encoders.keys():
            raise ModelError(
                f"{folder}: --adapt wants the labelled corpus that it was learned from, and then all else that its "
                "clusters were learned from: corpora, and for those of states the encoder's folder as it was"
            )
        texts = [plan(place, text=request.settings.text) for place in places]
        missing = {digest for recipe in clusters.recipes for digest in recipe.corpora} - set(map(texts_digest, texts))
        if missing:
            named = ", ".join(map(place_of, places))
            raise CorpusError(
                f"--adapt {named}: {len(missing)} of the corpora that clusters of {folder} were learned from are not "
                "among these, or have other rows; give all of them, the labelled one first"
            )
        return cls(job, manifest, clusters, training, places, texts, encoders)

    @property
    def _key(self) -> str:
        """Digest of all contents that decide the model."""
        parts = [
            self.manifest.model_dump_json(),
            self.job.request.settings.text.model_dump_json(),
            *map(texts_digest, (*self.texts, self.job.shards)),
            *(self.encoders[recipe.encoder].digest for recipe in self.clusters.recipes if recipe.encoder),
            kept_digest(TRAINING_CODE, ()),
            digest_of_libraries(TRAINING_LIBRARIES),
        ]
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]

    @property
    def _copy(self) -> tuple[str, str, str]:
        """What names the kept model, for `kept_copy`: as many are kept of each model and corpus."""
        request = self.job.request
        return f"{self.manifest.digest} {place_of(request.corpus)}", f"{short_name(request.model)}-adapted", self._key

    @property
    def line(self) -> str:
        """What is learned, in a line."""
        labelled, *texts = map(short_name, self.places)
        corpus = short_name(self.job.request.corpus)
        if self.training is None:
            return f"which of the model's clusters the new words of {corpus} are nearest to"
        ways, every = (
            ", ".join(dict.fromkeys(r.way for r in self.clusters.recipes)),
            ", ".join((labelled, *texts, corpus)),
        )
        return f"clusters ({ways}) from the texts of {every}, and the model from {labelled} with these clusters"

    @property
    def is_kept(self) -> bool:
        """Is there a model that was learned from equal contents?"""
        return copy_place(*self._copy).exists()

    def planned(self) -> LabelJob:
        """The job by the adapted model if that is kept, otherwise by one that is not known yet. Learns nothing."""
        if self.is_kept:
            return self._by(copy_place(*self._copy))
        return self.job._replace(adapted_from=self.job.opened, key=self.job.key.model_copy(update={"model": UNLEARNED}))

    def adapted(self, ray: RayOnDemand) -> LabelJob:
        """The job by the adapted model, which is learned where it is not kept.

        Raises `CorpusError` where the documents are not those that the model was learned from, and the errors of
        reading, of workers, of training, and of writing.
        """
        return self._by(kept_copy(*self._copy, partial(self._learn, ray)))

    def _by(self, folder: Path) -> LabelJob:
        base = self.job.opened
        model = load_model(folder)
        key = self.job.key.model_copy(update={"model": model.digest})
        return self.job._replace(opened=OpenModel(model, folder, base.version), adapted_from=base, key=key)

    def _learn(self, ray: RayOnDemand, folder: Path) -> Path:
        """Learns the model into an empty folder."""
        say(f"learning, since it is not kept for these contents: {self.line}")
        if self.training is None:
            return self._extended(ray, folder)
        documents, _ = read_documents(self.texts[0], gold=True)
        self._check_learned_from(documents, self.training)
        with scratch_folder() as scratch:
            self._train(documents, self.training, self._write_clusters(ray, scratch), folder)
        return folder

    def _check_learned_from(self, documents: Sequence[Document], training: _ModelTraining) -> None:
        """Raises `CorpusError` unless the model was learned from these documents."""
        counts = TrainingCounts(self.job.opened.model.columns)
        for document in documents:
            counts.gold(document)
        settings = type(training.settings).model_validate(self.manifest.settings)
        now = counts.training(str(self.manifest.training["trainer"]), settings)
        if now["digest"] != self.manifest.training.get("digest"):
            raise CorpusError(
                f"{self.places[0]}: not the documents that {self.job.opened.folder} was learned from "
                f"({self.manifest.figures['documents']:,.0f} documents, {self.manifest.figures['tokens']:,.0f} tokens; "
                f"these are {counts.documents:,} and {counts.tokens:,}), or by another version: train on them again"
            )

    def _write_clusters(self, ray: RayOnDemand, folder: Path) -> list[str]:
        """Writes the files of clusters, as a model's folder names them, and returns their places."""
        running, files = ray.started(), list[str]()
        for table, way in zip(self.clusters.tables, self.clusters.ways, strict=True):
            files.append(str(folder / clusters_file(table.file)))
            write_clusters(Path(files[-1]), self._clusters(running, table, way))
        return files

    def _clusters(self, running: Workers, table: Clusters, way: ClusterLearning) -> Clusters:
        text, recipe = self.job.request.settings.text, table.recipe
        corpora = (*self.texts, self.job.shards)
        if not isinstance(way, StateSettings):
            return learned_clusters(cluster_counts(corpora, way, running, text), corpora, way)
        assert recipe is not None
        read = [shards for shards in self.texts if texts_digest(shards) in recipe.corpora]
        encoder = self.encoders[str(recipe.encoder)]
        return with_words_of(self.job.shards, table, read, way, encoder, running, text)

    def _extended(self, ray: RayOnDemand, folder: Path) -> Path:
        """Copies the model into an empty folder, with more words in its clusters."""
        own = self.job.opened.folder
        for name in self.manifest.files:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(own / name, folder / name)
        tables = {Path(file).name: file_digest(Path(file)) for file in self._write_clusters(ray, folder)}
        write_manifest(
            folder, self.manifest.model_copy(update={"files": self.manifest.files | tables, **self._origin({})})
        )
        return folder

    def _train(
        self, documents: Sequence[Document], training: _ModelTraining, clusters: Sequence[str], folder: Path
    ) -> None:
        """Trains with these clusters. The manifest has the settings of the model that is adapted, and its extras."""
        settings = training.settings.model_copy(update={"clusters": tuple(clusters)})
        with meter("training the adapted model", None) as bar:
            done = 0

            def show(iteration: Iteration) -> None:
                nonlocal done
                bar.expect(iteration.total)
                bar.advance(iteration.number - done, note="iterations")
                done = iteration.number

            training.trainer.train(documents, settings=settings, out=folder, progress=show)
        manifest, base = parse_manifest(folder / MANIFEST), self.manifest
        changes = {"settings": base.settings, "tokenizer": base.tokenizer, "extras": base.extras}
        write_manifest(folder, manifest.model_copy(update=changes | self._origin(manifest.training)))

    def _origin(self, figures: Mapping[str, Any]) -> dict[str, Any]:
        """The entry of a manifest that says what the model was adapted from, beside figures of its training."""
        origin = {"digest": self._key, "adapted_from": self.manifest.digest}
        return {"training": {**self.manifest.training, **figures, **origin}}
