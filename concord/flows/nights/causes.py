"""Why a run that a rollback took back differs from what readers have, and how to have each thing as it was."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from concord.flows.environment import tracking_uri
from concord.flows.nights.taken_back import OTHER_COMMAND, OTHER_CORPUS, is_adopted
from concord.flows.runfolder.runfolder import Sources
from concord.schemas.drift import SHOWN_DIGITS
from concord.schemas.nights import NightCause
from concord.schemas.run import REGISTRY, RunManifest
from concord.schemas.run_changes import RunChanges
from concord.schemas.secrets import place_of, redact


class NightSources(NamedTuple):
    """What a run was made from, None if that is unknown, and what its line in the record says that it was asked for."""

    sources: Sources | None
    request: Mapping[str, str]


def causes(
    there: RunManifest, gone: RunManifest, before: NightSources, after: NightSources, out: str
) -> Iterator[NightCause]:
    """Why a run that is gone differs from the one that is there, and how to have each thing as it was ``before``."""
    adopted = is_adopted(there)
    if is_adopted(gone) is not adopted:
        again = f"adopt {_program_remedy(before)}" if adopted else f"concord reprocess {_named_model(before)}"
        yield NightCause(differs=OTHER_COMMAND[adopted], remedy=again)
        return
    changes = RunChanges.between(there, gone.run, gone.rules)
    if changes.model is not None:
        old, new = (digest[:SHOWN_DIGITS] for digest in changes.model)
        remedy = _program_remedy(before) if adopted else _model_remedy(before, after, old)
        yield NightCause(differs=f"model {old} → {new}", remedy=remedy)
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
        wrong = f"{corpus}, or the file of answers," if adopted else corpus
        remedy = f"put {wrong} right; `concord changes --run {place_of(out)}` lists its documents"
        yield NightCause(differs=OTHER_CORPUS[adopted], remedy=remedy)


def _program_remedy(before: NightSources) -> str:
    return (
        f"the answers of {before.request.get('model', 'then')}, with --program, --version, --prompt and --map as then"
    )


def _named_model(before: NightSources) -> str:
    return "with the model of then" if before.sources is None else f"--model {before.sources.model}"


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
