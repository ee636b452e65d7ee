"""MLflow, the one place: parameters, data set, figures, and the registry of models."""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from mlflow import MlflowClient
from mlflow.artifacts import download_artifacts
from mlflow.entities import Dataset, DatasetInput, InputTag, Metric, Param, RunStatus, RunTag
from mlflow.exceptions import MlflowException

from flows.environment import command, home
from schemas.errors import ServiceError

EXPERIMENT = "concord"
ALIAS = "champion"
MODEL_FOLDER = "model"

_BATCH = 100
"""`log_batch` takes at most 100 parameters and 1,000 metrics a call."""


class TrackingError(ServiceError):
    """MLflow could not be reached, or does not know what was asked for."""


class Registered(NamedTuple):
    """A version of a model in the registry."""

    name: str
    version: str
    alias: str


class Run:
    """An open MLflow run; every call is one request."""

    def __init__(self, client: MlflowClient, run_id: str, experiment_id: str) -> None:
        self.id = run_id
        self.experiment_id = experiment_id
        self._client = client

    def params(self, params: Mapping[str, object]) -> None:
        """Logs parameters; MLflow keeps them as strings."""
        items = [Param(_name(k), str(v)[:6000]) for k, v in params.items() if v is not None]
        for start in range(0, len(items), _BATCH):
            self._client.log_batch(self.id, params=items[start : start + _BATCH])

    def metrics(self, metrics: Mapping[str, float]) -> None:
        """Logs figures in one request."""
        now = int(time.time() * 1000)
        items = [Metric(_name(k), float(v), now, 0) for k, v in metrics.items()]
        for start in range(0, len(items), 1000):
            self._client.log_batch(self.id, metrics=items[start : start + 1000])

    def tags(self, tags: Mapping[str, str]) -> None:
        """Logs where things are and what they belong to."""
        self._client.log_batch(self.id, tags=[RunTag(k, v) for k, v in tags.items()])

    def dataset(self, *, name: str, digest: str, source: str, context: str) -> None:
        """Names the corpus that was read; ``digest`` is a hex digest of its content."""
        entry = Dataset(name=name[:500], digest=digest[:36], source_type="local", source=json.dumps({"uri": source}))
        self._client.log_inputs(self.id, datasets=[DatasetInput(entry, [InputTag("mlflow.data.context", context)])])

    def folder(self, path: Path, name: str) -> None:
        """Uploads a folder as artifacts."""
        self._client.log_artifacts(self.id, str(path), name)

    def file(self, path: Path) -> None:
        """Uploads one file as an artifact."""
        self._client.log_artifact(self.id, str(path))


class Tracking:
    """A tracking server (or SQLite file) and its registry."""

    def __init__(self, uri: str | None = None) -> None:
        """Connects; a new SQLite file gets its schema here, in the driver, before anyone else comes.

        Raises `TrackingError`.
        """
        self.uri = uri or os.environ.get("MLFLOW_TRACKING_URI") or _default_uri()
        try:
            self._client = MlflowClient(tracking_uri=self.uri, registry_uri=self.uri)
            self._experiment = self._experiment_id()
        except (MlflowException, OSError) as error:
            raise TrackingError(f"MLflow at {self.uri} does not answer: {error}") from error

    def _experiment_id(self) -> str:
        found = self._client.get_experiment_by_name(EXPERIMENT)
        if found is not None:
            return str(found.experiment_id)
        # A server chooses its own place; a file beside us must not put artifacts in the current folder.
        place = None if self.uri.startswith("http") else (home() / "artifacts").as_uri()
        return str(self._client.create_experiment(EXPERIMENT, artifact_location=place))

    @contextmanager
    def run(self, name: str, *, tags: Mapping[str, str]) -> Iterator[Run]:
        """A run that ends as finished, failed or killed, whichever way the block is left."""
        created = self._client.create_run(self._experiment, run_name=name, tags=dict(tags))
        run = Run(self._client, created.info.run_id, self._experiment)
        with ExitStack() as stack:
            stack.push(lambda kind, _error, _traceback: self._end(run, kind))
            yield run

    def _end(self, run: Run, kind: type[BaseException] | None) -> None:
        """Says how the run ended: ``kind`` is what was raised in it, if anything."""
        raised = RunStatus.FAILED if kind is not None and issubclass(kind, Exception) else RunStatus.KILLED
        self._client.set_terminated(run.id, RunStatus.to_string(RunStatus.FINISHED if kind is None else raised))

    def register(self, run: Run, name: str, *, alias: str = ALIAS) -> Registered:
        """Makes the run's model folder the newest version of ``name`` and points ``alias`` to it."""
        try:
            self._client.create_registered_model(name)
        except MlflowException as error:
            if error.error_code != "RESOURCE_ALREADY_EXISTS":
                raise
        version = self._client.create_model_version(
            name, source=f"{self._client.get_run(run.id).info.artifact_uri}/{MODEL_FOLDER}", run_id=run.id
        )
        self._client.set_registered_model_alias(name, alias, version.version)
        return Registered(name, str(version.version), alias)

    def fetch(self, reference: str) -> Path:
        """The folder of a model in the registry: ``models:/NAME@ALIAS`` or ``models:/NAME/VERSION``.

        Downloaded once a version. Raises `TrackingError` for one that is not there.
        """
        name, version = self._resolve(reference)
        store = hashlib.sha256(self.uri.encode()).hexdigest()[:8]
        folder = home() / "models" / store / name / version
        if folder.exists():
            return folder
        try:
            source = self._client.get_model_version_download_uri(name, version)
            partial = folder.with_name(f".{version}.{os.getpid()}")
            partial.mkdir(parents=True, exist_ok=True)
            got = Path(download_artifacts(artifact_uri=source, dst_path=str(partial), tracking_uri=self.uri))
        except (MlflowException, OSError) as error:
            raise TrackingError(f"cannot download {reference} from {self.uri}: {error}") from error
        got.replace(folder)
        if partial.exists():
            partial.rmdir()
        return folder

    def _resolve(self, reference: str) -> tuple[str, str]:
        match = re.fullmatch(r"models:/([^/@]+)(?:@([^/]+)|/([0-9]+))", reference)
        if match is None:
            raise TrackingError(
                f"{reference!r} is no model reference; write models:/NAME@ALIAS or models:/NAME/VERSION"
            )
        name, alias, version = match.groups()
        if version:
            return name, version
        try:
            return name, str(self._client.get_model_version_by_alias(name, alias).version)
        except MlflowException as error:
            raise TrackingError(
                f"{reference} is not in the registry at {self.uri}; "
                f"`concord train ... --register {name}` puts a model there ({error})"
            ) from error


def ui_command(uri: str) -> str:
    """How the user looks at the runs."""
    return f"{command('mlflow')} ui --workers 1 --backend-store-uri {uri}" if not uri.startswith("http") else uri


def _default_uri() -> str:
    home().mkdir(parents=True, exist_ok=True)
    return f"sqlite:///{home() / 'mlflow.db'}"


def _name(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_\-./: ]", "_", name)
