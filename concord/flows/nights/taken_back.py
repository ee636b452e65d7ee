"""What a rollback took back: why it differs from what readers have, and whether a run would bring it again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from pydantic import ValidationError

from concord.flows.environment import tracking_uri
from concord.flows.errors import TakenBackError
from concord.flows.nights.record import read_record
from concord.flows.runfolder.former_run import taken_back
from concord.flows.runfolder.layout import MANIFEST
from concord.flows.runfolder.runfolder import Sources
from concord.schemas.drift import SHOWN_DIGITS
from concord.schemas.nights import NightCause, night_name
from concord.schemas.run import ADOPTED, REGISTRY, RunKey, RunManifest
from concord.schemas.run_changes import RunChanges
from concord.schemas.secrets import place_of, redact
from concord.workers.storage.files import OutputError
from concord.workers.storage.sealed import unseal
from concord.workers.storage.storage import Storage, read_if_there


def check_taken_back(storage: Storage, key: RunKey, dataset: str) -> None:
    """Raises `TakenBackError` where a run by that key, of the corpus with that digest, is one that was taken back."""
    data = taken_back(storage)
    if data is None:
        return
    gone, there = run_manifest(data), run_manifest(read_if_there(storage, MANIFEST))
    if gone is None or there is None or not _is_again(gone, there, key, dataset):
        return
    night = _night_of(storage, data)
    causes = "; ".join(differences(there, gone))
    raise TakenBackError(
        f"{storage.uri} is not published: this would be {night_name(night)} again, which a rollback took back "
        f"({causes}); nothing of that has changed since. Change it, or give --allow-again"
    )


def _is_again(gone: RunManifest, there: RunManifest, key: RunKey, dataset: str) -> bool:
    """Has a run all that made a run that is gone differ from the one that is there?

    A corpus that has grown since brings the same model or rules again; where the corpus alone was another one, it is
    the same again or it is not.
    """
    differing = [name for name in RunKey.model_fields if getattr(gone.run, name) != getattr(there.run, name)]
    if not differing:
        return dataset == gone.dataset != there.dataset
    return all(getattr(key, name) == getattr(gone.run, name) for name in differing)


def run_manifest(data: bytes | None) -> RunManifest | None:
    """A sealed manifest; None for none, and for one that is damaged or of another version."""
    try:
        return RunManifest.model_validate(None if data is None else unseal(data))
    except ValidationError:
        return None


def _night_of(storage: Storage, manifest: bytes) -> int:
    try:
        line = read_record(storage).with_manifest(manifest)
    except (OSError, OutputError):
        return 0
    return 0 if line is None else line.night


def differences(there: RunManifest, gone: RunManifest) -> Iterator[str]:
    """How a run that is gone differs from the one that is there, in a few words each."""
    yield from RunChanges.between(there, gone.run, gone.rules).lines
    if there.dataset != gone.dataset:
        yield "the corpus"


class NightSources(NamedTuple):
    """What a run was made from, None if that is unknown, and what its line in the record says that it was asked for."""

    sources: Sources | None
    request: Mapping[str, str]


def causes(
    there: RunManifest, gone: RunManifest, before: NightSources, after: NightSources, out: str
) -> Iterator[NightCause]:
    """Why a run that is gone differs from the one that is there, and how to have each thing as it was ``before``."""
    changes = RunChanges.between(there, gone.run, gone.rules)
    if changes.model is not None:
        old, new = (digest[:SHOWN_DIGITS] for digest in changes.model)
        yield NightCause(differs=f"model {old} → {new}", remedy=_model_remedy(before, after, old))
    yield from (NightCause(differs=line, remedy=_rule_remedy(before, after)) for line in changes.rule_lines)
    if changes.engine is not None:
        yield NightCause(differs=f"engine {' → '.join(changes.engine)}", remedy=f"--engine {changes.engine[0]}")
    for name, (old_value, new_value) in changes.settings.items():
        differs = f"{name} {old_value} → {new_value}"
        yield NightCause(differs=differs, remedy=f"give {name} as then: {old_value}")
    if changes.code:
        yield NightCause(differs="concord's code", remedy="install the version of then")
    if there.dataset != gone.dataset:
        corpus = "the corpus" if before.sources is None else place_of(before.sources.corpus)
        remedy = f"put {corpus} right; `concord changes --run {place_of(out)}` lists its documents"
        what = "the corpus or the answers to it" if gone.run.settings.engine == ADOPTED else "the corpus"
        yield NightCause(differs=what, remedy=remedy)


def _model_remedy(before: NightSources, after: NightSources, digest: str) -> str:
    if before.sources is None or after.sources is None:
        return f"--model with the model of then ({digest})"
    named = before.sources.model
    if named != after.sources.model:
        return f"--model {named}"
    name, _, version = before.request.get("model_version", "").rpartition(" v")
    if not named.startswith(REGISTRY) or not version:
        return f"put the model of then ({digest}) back into {named}, or name another one with --model"
    alias = named.rpartition("@")[2]
    client = f"mlflow.MlflowClient({redact(tracking_uri(None))!r})"
    return f'python -c "import mlflow; {client}.set_registered_model_alias({name!r}, {alias!r}, {version!r})"'


def _rule_remedy(before: NightSources, after: NightSources) -> str:
    if before.sources is None or after.sources is None:
        return "give the files of constraints of then"
    files = before.sources.constraints
    if files != after.sources.constraints or before.sources.consistency != after.sources.consistency:
        options = [
            *(f"--constraints {name}" for name in files),
            "" if before.sources.consistency else "--no-consistency",
        ]
        return " ".join(filter(None, options)) or "leave --constraints out"
    return f"put it back in {', '.join(files)}" if files else "take the model of then, whose consistency it is"
