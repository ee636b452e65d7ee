"""MLflow, the one place: parameters, data set, figures, and the registry of models."""

from __future__ import annotations

import json
import logging
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from mlflow import MlflowClient
from mlflow.artifacts import download_artifacts
from mlflow.entities import Dataset, DatasetInput, ExperimentTag, InputTag, Metric, Param, RunStatus, RunTag
from mlflow.exceptions import MlflowException
from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from concord.flows.environment import MLFLOW, SQLITE, applied, command, home, page_of_artifact, tracking_uri
from concord.flows.errors import TrackingError
from concord.flows.inputs.model_copies import kept_copy
from concord.flows.screen.patience import within
from concord.flows.tracking.sqlite_file import make_once
from concord.schemas.errors import InputError
from concord.schemas.run import ALIAS
from concord.schemas.secrets import redact
from concord.schemas.shown import Report
from concord.workers.models.folder import ModelError
from concord.workers.storage.scratch import scratch_folder

T = TypeVar("T")

EXPERIMENT = "concord"
OF_TRAINING = {"mlflow.experimentKind": "custom_model_development"}
"""Tag by which MLflow's pages show runs and their figures, and not traces of language models."""
MODEL_FOLDER = "model"
MLMODEL, PACKAGED = "MLmodel", "artifacts/model"
"""File by which MLflow knows a model of its own kind, and where our folder is in it."""
PENALTIES_FILE = "penalties.json"
"""Artifact: what each constraint costs, with the interval of what was counted."""
PARENT = "mlflow.parentRunId"
"""Tag of a run within another one, whose id it is."""
RUN_NAME = "mlflow.runName"
"""Tag that MLflow shows as the name of a run."""
DESCRIPTION = "mlflow.note.content"
"""Tag that MLflow shows as the description of a run."""
FAILURES = "failures"
"""Tag of a run that failed: its reasons, a line each."""

PARAM_LETTERS, TAG_LETTERS, NAME_LETTERS = 6000, 5000, 240
"""What MLflow keeps of a text; what we keep of a name. MLflow takes 250, and names alike get a number."""

UNKNOWN = ("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE")
"""How MLflow says that there is no such model, alias or version."""

MOST_SHOWN = 20
"""Models that are named where another one is not there."""

_BATCH, _METRICS = 100, 1000
"""`log_batch` takes at most so many parameters, and metrics, a call."""


TRACKER_SECONDS = 30.0
"""How long MLflow may take, at the start of a run and once more at its end."""

KILLED_SECONDS = 5.0
"""The same where the run is being interrupted."""

COPY_SECONDS = 600.0
"""How long the files of a model may take on their way."""

# Its lines on every new attempt would stand between ours.
logging.getLogger("urllib3.connectionpool").setLevel(logging.ERROR)


class Outcome(Report):
    """How a run ended, as MLflow is told: the time (ms since 1970), figures and tags by name, and its status."""

    status: str
    time_ms: int
    metrics: dict[str, float]
    tags: dict[str, str]

    @classmethod
    def now(
        cls,
        metrics: Mapping[str, float],
        *,
        failures: Sequence[str] = (),
        tags: Mapping[str, str] | None = None,
        description: str = "",
    ) -> Outcome:
        """The outcome of a run that has just ended; with ``failures`` (a line each) it is a failed one."""
        named = {FAILURES: "\n".join(failures), DESCRIPTION: description}
        all_tags = {**(tags or {}), **{name: text for name, text in named.items() if text}}
        return cls(
            status=RunStatus.to_string(RunStatus.FAILED if failures else RunStatus.FINISHED),
            time_ms=int(time.time() * 1000),
            metrics=dict(metrics),
            tags={name: text[:TAG_LETTERS] for name, text in all_tags.items()},
        )


class Registered(NamedTuple):
    """A version of a model in the registry."""

    name: str
    version: str
    alias: str


class Fetched(NamedTuple):
    """A version of a model in the registry, and our folder in its copy on this machine."""

    name: str
    version: str
    folder: Path


class Run:
    """An open MLflow run. Every method raises `TrackingError` where MLflow does not answer in `TRACKER_SECONDS`."""

    def __init__(self, tracking: Tracking, run_id: str) -> None:
        self.id = run_id
        self.ended = False
        self._tracking = tracking

    def params(self, params: Mapping[str, object]) -> None:
        """Logs parameters; MLflow keeps them as strings, and they keep no secret."""
        items = [Param(_name(k), redact(str(v))[:PARAM_LETTERS]) for k, v in params.items() if v is not None]

        def send(client: MlflowClient) -> None:
            for start in range(0, len(items), _BATCH):
                client.log_batch(self.id, params=items[start : start + _BATCH])

        self._tracking.ask(send)

    def dataset(self, *, name: str, digest: str, source: str, context: str) -> None:
        """Names the corpus that was read; ``digest`` is a hex digest of its content."""
        place = json.dumps({"uri": redact(source)})
        entry = Dataset(name=redact(name)[:500], digest=digest[:36], source_type="local", source=place)
        inputs = [DatasetInput(entry, [InputTag("mlflow.data.context", context)])]
        self._tracking.ask(lambda client: client.log_inputs(self.id, datasets=inputs))

    def folder(self, path: Path, name: str | None = None, *, seconds: float = COPY_SECONDS) -> None:
        """Uploads a folder as artifacts, under that name, or the files in it by their own."""
        self._tracking.ask(lambda client: client.log_artifacts(self.id, str(path), name), seconds=seconds)

    def model(self, folder: Path, columns: Sequence[str]) -> None:
        """Uploads a model folder, which reads these token columns, as MLflow's own kind of model."""
        with scratch_folder() as scratch, applied(MLFLOW):
            from concord.flows.tracking.packaging import package

            package(folder, Path(PACKAGED).name, columns, scratch / MODEL_FOLDER)
            self.folder(scratch / MODEL_FOLDER, MODEL_FOLDER)

    def curve(self, name: str, values: Mapping[int, float]) -> None:
        """Logs a figure by step, such as the loss of each iteration."""
        now = int(time.time() * 1000)
        items = [Metric(name, value, now, step) for step, value in sorted(values.items())]

        def send(client: MlflowClient) -> None:
            for start in range(0, len(items), _METRICS):
                client.log_batch(self.id, metrics=items[start : start + _METRICS])

        self._tracking.ask(send)

    def file(self, path: Path) -> None:
        """Uploads a file as an artifact."""
        self._tracking.ask(lambda client: client.log_artifact(self.id, str(path)), seconds=COPY_SECONDS)

    def artifact_page(self, name: str) -> str | None:
        """Address of MLflow's page of an artifact, without secrets, if MLflow is a server; None if it is a file."""
        return page_of_artifact(self._tracking.uri, self._tracking.experiment, self.id, name)

    def text(self, text: str, name: str) -> None:
        """Uploads a text as an artifact."""
        self._tracking.ask(lambda client: client.log_text(self.id, text, name))

    def end(self, outcome: Outcome) -> None:
        """Logs figures and tags, and that the run has ended. The same outcome twice is the same as once."""
        self._tracking.ask(lambda client: _send(client, self.id, outcome))
        self.ended = True


class Tracking:
    """A tracking server (or SQLite file) and its registry."""

    def __init__(self, uri: str | None = None) -> None:
        """Connects; a new SQLite file gets its schema here, in the driver, as a whole or not at all.

        Raises `TrackingError`, and `InputError` where that file cannot be made.
        """
        self.uri = tracking_uri(uri)
        self.lost = False
        """Whether a call has failed or was late; no run is told of its end then."""
        with applied(MLFLOW):
            _make_file(self.uri)
        self._client: MlflowClient | None = None
        self.experiment = self.ask(_experiment_id)
        """Id of the experiment of our runs."""

    def ask(self, call: Callable[[MlflowClient], T], *, seconds: float = TRACKER_SECONDS) -> T:
        """What ``call`` gets from MLflow. Raises `TrackingError` where it does not within ``seconds``."""
        try:
            with applied(MLFLOW):
                return within(seconds, lambda: call(self._connected()))
        except TimeoutError:
            self.lost = True
            raise TrackingError(f"MLflow at {self.uri} did not answer within {seconds:g} s") from None
        except (MlflowException, SQLAlchemyError, OSError, ImportError) as error:
            self.lost = True
            hint = "; a damaged file may be moved away, a new one is made then" if self.uri.startswith(SQLITE) else ""
            raise TrackingError(f"MLflow at {self.uri}: {_one_line(error)}{hint}") from None

    def _connected(self) -> MlflowClient:
        if self._client is None:
            self._client = MlflowClient(tracking_uri=self.uri, registry_uri=self.uri)
        return self._client

    @contextmanager
    def run(self, name: str, *, tags: Mapping[str, str]) -> Iterator[Run]:
        """A run that ends as finished, failed or killed, whichever way the block is left, unless it has ended."""
        created = self.ask(lambda client: client.create_run(self.experiment, run_name=redact(name), tags=_masked(tags)))
        run = Run(self, created.info.run_id)
        with ExitStack() as stack:
            stack.push(lambda kind, _error, _traceback: self._leave(run, redact(name), kind))
            yield run

    def child(self, parent: Run, name: str, *, params: Mapping[str, object], outcome: Outcome, start_ms: int) -> None:
        """A run within another one that has begun and ended already, in three calls."""
        names, given = _names(outcome.metrics), {_name(k): redact(str(v)) for k, v in params.items() if v is not None}
        metrics = [Metric(names[n], value, outcome.time_ms, 0) for n, value in outcome.metrics.items()]
        tags = _masked({PARENT: parent.id, **outcome.tags})

        def send(client: MlflowClient) -> None:
            info = client.create_run(self.experiment, run_name=redact(name), tags=tags, start_time=start_ms).info
            parameters = [Param(key, value[:PARAM_LETTERS]) for key, value in given.items()]
            client.log_batch(info.run_id, metrics=metrics, params=parameters)
            client.set_terminated(info.run_id, outcome.status, outcome.time_ms)

        self.ask(send)

    def finish(self, run_id: str, outcome: Outcome) -> bool:
        """Ends a run that another process began; False where MLflow has none of that id."""

        def send(client: MlflowClient) -> bool:
            try:
                _send(client, run_id, outcome)
            except MlflowException as error:
                if error.error_code != "RESOURCE_DOES_NOT_EXIST":
                    raise
                return False
            return True

        return self.ask(send)

    def _leave(self, run: Run, name: str, kind: type[BaseException] | None) -> None:
        """Says how the run ended: ``kind`` is what was raised in it, if anything, and goes before MLflow's errors."""
        if run.ended or self.lost:
            return
        if kind is None:
            run.end(Outcome.now({}))
            return
        failed = issubclass(kind, Exception)
        status = RunStatus.to_string(RunStatus.FAILED if failed else RunStatus.KILLED)

        def send(client: MlflowClient) -> None:
            client.set_tag(run.id, RUN_NAME, f"{name} · {'failed' if failed else 'cancelled'}")
            client.set_terminated(run.id, status)

        with suppress(TrackingError):
            self.ask(send, seconds=TRACKER_SECONDS if failed else KILLED_SECONDS)

    def register(self, run: Run, name: str, *, alias: str = ALIAS) -> Registered:
        """Makes the run's model folder the newest version of ``name`` and points ``alias`` to it."""

        def send(client: MlflowClient) -> Registered:
            with _there_already():
                client.create_registered_model(name)
            source = f"{client.get_run(run.id).info.artifact_uri}/{MODEL_FOLDER}"
            version = client.create_model_version(name, source=source, run_id=run.id)
            client.set_registered_model_alias(name, alias, version.version)
            return Registered(name, str(version.version), alias)

        return self.ask(send)

    def version(self, name: str, alias: str) -> str | None:
        """The version of a model that an alias points to; None where there is none."""
        return self.ask(lambda client: _version_of(client, name, alias))

    def point(self, name: str, alias: str, version: str) -> None:
        """Points an alias to a version of a model."""
        self.ask(lambda client: client.set_registered_model_alias(name, alias, version))

    def note(self, run_id: str, figures: Mapping[str, float], tags: Mapping[str, str]) -> None:
        """Adds figures and tags to a run that has ended."""
        now = int(time.time() * 1000)
        metrics = [Metric(_name(name), value, now, 0) for name, value in figures.items()]
        entries = [RunTag(name, text[:TAG_LETTERS]) for name, text in _masked(tags).items()]
        self.ask(lambda client: client.log_batch(run_id, metrics=metrics, tags=entries))

    def fetch(self, reference: str) -> Fetched:
        """A model of the registry by ``models:/NAME@ALIAS`` or ``models:/NAME/VERSION``.

        Downloaded once a version. Raises `ModelError` for one that is not there, and `TrackingError`.
        """
        name, version = self._resolve(reference)

        def copied(folder: Path) -> Path:
            source = self.ask(lambda client: _source_of(client, name, version))
            if source is None:
                raise ModelError(f"{reference} is not in the registry at {self.uri}; {self.ask(_registered)}")

            def download(_client: MlflowClient) -> Path:
                return Path(download_artifacts(artifact_uri=source, dst_path=str(folder), tracking_uri=self.uri))

            return self.ask(download, seconds=COPY_SECONDS)

        return Fetched(name, version, model_in(kept_copy(self.uri, name, version, copied)))

    def _resolve(self, reference: str) -> tuple[str, str]:
        match = re.fullmatch(r"models:/([^/@]+)(?:@([^/]+)|/([0-9]+))", reference)
        if match is None:
            raise ModelError(
                f"{reference!r} is no model of a registry; write models:/NAME@ALIAS or models:/NAME/VERSION; "
                f"{self.ask(_registered)}"
            )
        name, alias, version = match.groups()
        if version:
            return name, version
        found = self.version(name, alias)
        if found is None:
            raise ModelError(f"{reference} is not in the registry at {self.uri}; {self.ask(_registered)}")
        return name, found


def model_in(folder: Path) -> Path:
    """Our folder in the artifacts of a model, which were just that before MLflow could load them."""
    return folder / PACKAGED if (folder / MLMODEL).is_file() else folder


def ui_command(uri: str) -> str:
    """How the user looks at the runs: MLflow's server without the many processes of its job queue."""
    if uri.startswith("http"):
        return redact(uri)
    ui = f"{command('mlflow')} ui --workers 1 --backend-store-uri {redact(uri)}"
    return f"MLFLOW_SERVER_ENABLE_JOB_EXECUTION=false {ui}"


def _make_file(uri: str) -> None:
    """Makes the SQLite file of ``uri``, with its schema and the experiment, if it is one and is not there."""
    if not uri.startswith(SQLITE):
        return
    path = Path(uri.removeprefix(SQLITE).partition("?")[0])
    try:
        make_once(path, _make_store)
    except OSError as error:
        raise InputError(
            f"{path}: MLflow's file cannot be made ({error}); CONCORD_HOME or --tracking moves it"
        ) from error


def _make_store(path: Path) -> None:
    connect: Any = SqlAlchemyStore  # has no types
    store = connect(f"{SQLITE}{path}", _artifacts())
    tags = [ExperimentTag(name, text) for name, text in OF_TRAINING.items()]
    store.create_experiment(EXPERIMENT, artifact_location=_artifacts(), tags=tags)
    store.engine.dispose()


def _artifacts() -> str:
    """Where a file beside us keeps artifacts: not in the current folder."""
    return (home() / "artifacts").as_uri()


def _experiment_id(client: MlflowClient) -> str:
    found = client.get_experiment_by_name(EXPERIMENT)
    if found is not None:
        return str(found.experiment_id)
    with _there_already():  # another first run may come between
        # A server chooses its own place.
        place = None if client.tracking_uri.startswith("http") else _artifacts()
        client.create_experiment(EXPERIMENT, artifact_location=place, tags=OF_TRAINING)
    return _experiment_id(client)


def _registered(client: MlflowClient) -> str:
    """What can be asked for instead, for messages."""
    found = client.search_registered_models(max_results=MOST_SHOWN)
    names = [f"models:/{model.name}@{alias}" for model in found for alias in sorted(model.aliases)]
    names += [f"models:/{model.name}/{version.version}" for model in found for version in model.latest_versions]
    if not names:
        return "there is none yet; `concord train ... --register NAME` puts a model there"
    more = ", ..." if len(names) > MOST_SHOWN else ""
    return f"there are {', '.join(names[:MOST_SHOWN])}{more}"


def _source_of(client: MlflowClient, name: str, version: str) -> str | None:
    """Where the files of a version are; None where the registry does not know it."""
    try:
        return str(client.get_model_version_download_uri(name, version))
    except MlflowException as error:
        if error.error_code not in UNKNOWN:
            raise
        return None


def _version_of(client: MlflowClient, name: str, alias: str) -> str | None:
    """The version that an alias points to; None where the registry knows none."""
    try:
        return str(client.get_model_version_by_alias(name, alias).version)
    except MlflowException as error:
        if error.error_code not in UNKNOWN:
            raise
        return None


def _send(client: MlflowClient, run_id: str, outcome: Outcome) -> None:
    names = _names(outcome.metrics)
    items = [Metric(names[name], value, outcome.time_ms, 0) for name, value in outcome.metrics.items()]
    for start in range(0, len(items), _METRICS):
        client.log_batch(run_id, metrics=items[start : start + _METRICS])
    if outcome.tags:
        client.log_batch(run_id, tags=[RunTag(name, text) for name, text in _masked(outcome.tags).items()])
    client.set_terminated(run_id, outcome.status, outcome.time_ms)


@contextmanager
def _there_already() -> Iterator[None]:
    """What another process made meanwhile is as good."""
    try:
        yield
    except MlflowException as error:
        if error.error_code != "RESOURCE_ALREADY_EXISTS":
            raise


def _masked(tags: Mapping[str, str]) -> dict[str, str]:
    return {name: redact(text) for name, text in tags.items()}


def _one_line(error: Exception) -> str:
    """What went wrong, without the statement that SQLAlchemy adds."""
    cause = error.orig if isinstance(error, DBAPIError) else error
    return " ".join(str(cause).partition("[SQL:")[0].split()) or type(error).__name__


def _names(names: Iterable[str]) -> dict[str, str]:
    """What MLflow calls each figure: `_name`, with a number where two would be called alike."""
    found: dict[str, str] = {}
    for name in names:
        called, number = _name(name), 2
        while called in found.values():
            called, number = f"{_name(name)} {number}", number + 1
        found[name] = called
    return found


def _name(name: str) -> str:
    """The name with its letters, of any alphabet; what MLflow refuses becomes a low line. It refuses odd paths, too."""
    kept = re.sub(r"[^\w\-./: ]", "_", name)[:NAME_LETTERS]
    called = "/".join(part for part in kept.split("/") if part not in ("", ".", ".."))
    return f"_{called}" if not called or called.startswith("..") else called
