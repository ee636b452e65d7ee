"""Model folder: files, and a manifest that lists them with their hashes and tells how they were made."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from concord.schemas.distribution import DISTRIBUTION
from concord.schemas.errors import InputError
from concord.schemas.folders import FolderKind
from concord.schemas.labels import OUTSIDE, LabelSet, Scheme
from concord.schemas.settings import TOKENIZER, Settings
from concord.workers.storage.files import write_whole
from concord.workers.storage.folder_kinds import MANIFEST as MANIFEST
from concord.workers.storage.folder_kinds import check_kind

FOLDER_VERSION = 1
CONSTRAINTS_FILE = "constraints.yaml"
"""File of rules in a model's folder, with their weights: those that it was learned under, or mined ones that help."""


class ModelError(InputError):
    """A model folder is missing, damaged or of another kind; the message names the file."""


def check_model_folder(folder: Path) -> Path:
    """Path of a folder's manifest. Raises `ModelError` where it has none, `OSError` where the file system does not
    tell."""
    path = folder / MANIFEST
    try:
        path.stat()
    except FileNotFoundError:
        raise ModelError(
            f"{path}: not there, so {folder} is not a model folder; train one with `concord train`"
        ) from None
    return path


class Manifest(BaseModel):
    """Manifest of a model folder: its labels, its files, and how it was trained.

    - ``folder``: kind of the folder, see `workers.storage.folder_kinds`.
    - ``kind``, ``version``: kind of the model, and version of the folder's layout.
    - ``labels``, ``scheme``: the L labels in the order of the scores, and their scheme.
    - ``features``, ``templates``: name of the feature set and of its templates, for models that have one.
    - ``settings``: options of the trainer.
    - ``versions``: version of each library that the weights depend on.
    - ``training``: counts of the training data, and figures of the trainer's own.
    - ``temperature``: number by which all scores are divided, see `workers.learning.trainers.temperature`; a folder at
      1 does not name it.
    - ``outside_cost``: nats that a token outside of entities costs, before temperature, see
      `workers.learning.trainers.outside_cost`; a folder at 0 does not name it.
    - ``tokenizer``: tokenizer of raw text, NAME==VERSION; the one of the training corpus if that was text. None: the
      default.
    - ``files``: SHA-256 of each file by name.
    - ``metrics``: figures of evaluations.
    - ``extras``: trained parts that are not the model's own, such as costs of label consistency.

    Neither ``metrics`` nor ``extras`` changes scores or digest.
    """

    model_config = ConfigDict(extra="forbid")

    folder: Literal[FolderKind.MODEL] = FolderKind.MODEL
    kind: str
    version: int = FOLDER_VERSION
    labels: tuple[Annotated[str, Field(min_length=1)], ...] = Field(min_length=1)
    scheme: Scheme
    features: str = ""
    templates: tuple[str, ...] = ()
    settings: dict[str, Any]
    versions: dict[str, str]
    training: dict[str, Any]
    temperature: float = Field(1.0, ge=0.01, le=100, exclude_if=lambda temperature: temperature == 1.0)
    outside_cost: float = Field(0.0, ge=0.0, le=100, exclude_if=lambda cost: cost == 0.0)
    tokenizer: str | None = Field(None, pattern=TOKENIZER)
    files: dict[str, str]
    metrics: dict[str, Any] = Field(default_factory=dict)
    extras: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _labels_make_a_set(self) -> Self:
        """Checks that each type has the labels that engines look up: its opening one, its inside one, and outside."""
        complete = self.label_set if self.scheme is Scheme.PLAIN else LabelSet.infer(self.labels)
        if set(self.label_set.names) != set(complete.names):
            raise ValueError(f"labels {', '.join(self.labels)} are not O, and B- and I- of each type")
        if self.outside_cost and OUTSIDE not in self.labels:
            raise ValueError(f"outside_cost is {self.outside_cost}, and no label is {OUTSIDE}")
        return self

    @property
    def label_set(self) -> LabelSet:
        """Label set of the model: its L labels in the order of its scores."""
        return LabelSet(self.labels, self.scheme)

    @property
    def figures(self) -> dict[str, float]:
        """Entries of ``training`` that are numbers."""
        return {name: float(value) for name, value in self.training.items() if isinstance(value, int | float)}

    @property
    def digest(self) -> str:
        """Hex digest of all that decides the scores: the fields that are named here."""
        decisive = {"kind", "version", "labels", "scheme", "templates", "temperature", "outside_cost", "files"}
        return hashlib.sha256(self.model_dump_json(include=decisive).encode()).hexdigest()


def file_digest(path: Path) -> str:
    """SHA-256 of a file's bytes, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def parse_manifest(path: Path) -> Manifest:
    """Manifest of a file; its form is checked, the files that it lists are not. Raises `ModelError`."""
    return manifest_in(path.read_bytes(), str(path))


def manifest_in(data: bytes, place: str) -> Manifest:
    """Manifest in the content of a file, which messages call ``place``. Its names of files lead nowhere else.

    Raises `ModelError`.
    """
    try:
        manifest = Manifest.model_validate_json(data)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the file"
        raise ModelError(f"{place}: {where}: {first['msg']}; this is no manifest of a concord model") from error
    for name in manifest.files:
        if Path(name).is_absolute() or ".." in Path(name).parts:
            raise ModelError(f"{place}: the file {name!r} is not in the model's folder; train again")
    return manifest


def read_manifest(folder: Path, *, kind: str, files: Sequence[str] = (), changed: Sequence[str] = ()) -> Manifest:
    """Manifest of a model folder, after the hash of every file but the ``changed`` was checked; it must list ``files``.

    Raises `ModelError` where the folder is no model of this kind, or a file is missing or differs from what was saved.
    """
    path = folder / MANIFEST
    if not path.is_file():
        raise ModelError(f"{path}: not there, so {folder} is not a model folder; train one with `concord train`")
    manifest = parse_manifest(path)
    if manifest.kind != kind or manifest.version != FOLDER_VERSION:
        version = "" if manifest.version == FOLDER_VERSION else f" in version {manifest.version} of the folder"
        raise ModelError(
            f"{path}: this is a model of kind {manifest.kind!r}{version}; only one of kind {kind!r} will do here"
        )
    for name, digest in manifest.files.items():
        if not (folder / name).is_file():
            raise ModelError(f"{folder / name}: the model's file is missing; copy the whole folder or train again")
        if name not in changed and file_digest(folder / name) != digest:
            copies = "; change a copy of the rules, outside of the model's folder" if name == CONSTRAINTS_FILE else ""
            raise ModelError(
                f"{folder / name}: SHA-256 differs from the manifest's; the file is damaged or foreign{copies}"
            )
    for name in files:
        if name not in manifest.files:
            raise ModelError(f"{path}: lists no {name}; make the model again")
    return manifest


def begin(folder: Path) -> None:
    """Makes the folder, and deletes a manifest that is in it: it is no model until `write_manifest` has written a new
    one. Raises `OSError`, and `OutputError` where the folder is of another kind."""
    check_kind(folder, FolderKind.MODEL)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / MANIFEST).unlink(missing_ok=True)


def write_manifest(folder: Path, manifest: Manifest) -> Manifest:
    """Writes the manifest in one step, so that a folder with a manifest is whole, and returns it. Raises
    `OutputError`."""
    write_whole(folder / MANIFEST, manifest.model_dump_json(indent=2).encode() + b"\n")
    return manifest


def manifest_of(
    folder: Path,
    kind: str,
    labels: LabelSet,
    *,
    files: Iterable[str],
    settings: Settings | None = None,
    training: Mapping[str, Any] | None = None,
    libraries: Sequence[str] = ("numpy",),
    features: str = "",
    templates: Sequence[str] = (),
) -> Manifest:
    """The manifest over the ``files`` that were written into a folder.

    ``libraries`` are those whose versions the files depend on, beside concord itself; the others are as in `Manifest`.
    Raises `OSError` for a file that is not there.
    """
    return Manifest(
        kind=kind,
        labels=labels.names,
        scheme=labels.scheme,
        features=features,
        templates=tuple(templates),
        settings={} if settings is None else settings.model_dump(mode="json"),
        versions={"concord": version(DISTRIBUTION)} | {name: version(name) for name in libraries},
        training=dict(training or {}),
        files={name: file_digest(folder / name) for name in files},
    )


def update_manifest(
    folder: Path,
    *,
    kind: str,
    metrics: dict[str, Any] | None = None,
    extras: dict[str, Any] | None = None,
    files: Sequence[str] = (),
    tokenizer: str | None = None,
    temperature: float | None = None,
    outside_cost: float | None = None,
) -> Manifest:
    """Adds metrics, extras, files of the folder, a tokenizer, a temperature and an outside cost to a saved model; those
    of the same name are replaced.

    Raises `ModelError` as `read_manifest` does, and `OutputError`.
    """
    manifest = read_manifest(folder, kind=kind, changed=files)
    added: dict[str, Any] = {
        "metrics": manifest.metrics | (metrics or {}),
        "extras": manifest.extras | (extras or {}),
        "files": manifest.files | {name: file_digest(folder / name) for name in files},
    }
    added |= {"tokenizer": tokenizer or manifest.tokenizer, "temperature": temperature or manifest.temperature}
    added["outside_cost"] = manifest.outside_cost if outside_cost is None else outside_cost
    return write_manifest(folder, manifest.model_copy(update=added))
