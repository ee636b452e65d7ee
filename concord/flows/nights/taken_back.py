"""What a rollback took back: how it differs from what readers have, and whether a run would bring it again."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import ValidationError

from concord.flows.errors import TakenBackError
from concord.flows.nights.record import read_record
from concord.flows.runfolder.former_run import taken_back
from concord.flows.runfolder.layout import MANIFEST
from concord.schemas.nights import night_name
from concord.schemas.run import ADOPTED, RunKey, RunManifest
from concord.schemas.run_changes import RunChanges
from concord.workers.storage.files import OutputError
from concord.workers.storage.sealed import unseal
from concord.workers.storage.storage import Storage, read_if_there

OTHER_COMMAND = ("adopted answers for a model's", "a model's answers for adopted ones")
OTHER_CORPUS = ("the corpus", "the corpus or the answers to it")
"""What differs, by whether the run that is there is adopted."""


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

    A corpus that has grown since brings the same model or rules again; where the corpus alone was another one, or
    answers were adopted, it is the same again or it is not.
    """
    differing = [name for name in RunKey.model_fields if getattr(gone.run, name) != getattr(there.run, name)]
    if (not differing or is_adopted(gone)) and not dataset == gone.dataset != there.dataset:
        return False
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
    if is_adopted(there) != is_adopted(gone):
        yield OTHER_COMMAND[is_adopted(there)]
        return
    yield from RunChanges.between(there, gone.run, gone.rules).lines
    if there.dataset != gone.dataset:
        yield OTHER_CORPUS[is_adopted(there)]


def is_adopted(run: RunManifest) -> bool:
    """Are the answers a tagger's, whose digest is in that of the corpus?"""
    return run.run.settings.engine == ADOPTED
