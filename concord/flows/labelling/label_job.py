"""The job that a request to label a corpus becomes once model, constraints and corpus are read."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from concord.flows.inputs.jobs import source_place
from concord.flows.labelling.corrected_documents import check_documents, correction_file
from concord.flows.labelling.planning import FileReader, FoundSurvey, Listing, plan_corpus, read_here
from concord.flows.labelling.sources import OpenModel, cutting, open_constraints, open_model, say_unused_rules
from concord.flows.runfolder.runfolder import Sources, dataset_digest, ids_digest, last_shard_bytes
from concord.schemas.errors import CorpusError, UsageError
from concord.schemas.requests import LabelRequest
from concord.schemas.run import ADOPTED, RunKey, RunSettings
from concord.schemas.secrets import short_name
from concord.workers.compiling.kept_digests import code_digest
from concord.workers.constraints.constraint_set import Separable
from concord.workers.corpus.shard_size import shard_bytes_of
from concord.workers.corpus.shard_table import ShardTable
from concord.workers.labelling.labelled import check_there
from concord.workers.models.model import BringsAnswers, score_column
from concord.workers.remote.survey import SurveyParts
from concord.workers.storage.storage import URI, Storage, file_bytes

LOOKED_FOR = ("engine", "seed", "work", "seconds", "on_infeasible")
"""Settings that MLflow has of every run."""


class LabelJob(NamedTuple):
    """A request, and all that is read before work begins.

    - ``request``: the request, its text settings with the tokenizer that cuts
    - ``shard_bytes``: size of a shard, in bytes of text
    - ``opened``: the model
    - ``constraints``: the constraints, bound to the model's labels
    - ``files``: hex digest of each file of constraints, and of that of corrections
    - ``key``: what decides the output of a shard
    - ``shards``: the shards of the corpus
    - ``damages``: errors of the parts of the corpus that cannot be read
    - ``found``: what the next run may take of the survey of the corpus; None where that is kept already
    """

    request: LabelRequest
    shard_bytes: int
    opened: OpenModel
    constraints: Separable
    files: Mapping[str, str]
    key: RunKey
    shards: ShardTable
    damages: Sequence[CorpusError]
    found: FoundSurvey | None

    @classmethod
    def of(cls, request: LabelRequest, storage: Storage, read: FileReader = read_here) -> LabelJob:
        """The job of a request, whose output is in ``storage``. Writes nothing.

        Raises the errors of reading model, constraints and corpus.
        """
        opened = open_model(request.model, request.context)
        if isinstance(opened.model, BringsAnswers) and request.settings.engine != ADOPTED:
            raise UsageError(
                f"{request.model}: answers of another program, not a model; `concord adopt` makes a run of such answers"
            )
        say_unused_rules(opened, request.constraints)
        constraints = open_constraints(opened, request.constraints, consistency=request.consistency)
        files = {name: hashlib.sha256(file_bytes(name)).hexdigest() for name in request.files_read}
        text = cutting(opened, request.settings.text)
        request = request.model_copy(update={"settings": request.settings.model_copy(update={"text": text})})
        key = RunKey(
            settings=request.settings, model=opened.model.digest, constraints=constraints.digest, code=code_digest()
        )
        listing = Listing.of(request.corpus)
        size = request.shard_bytes or shard_bytes_of(listing.files, last_shard_bytes(storage))
        parts = SurveyParts(text, size, score_column(opened.model))
        corrections = correction_file(request.corrections)
        survey, found = plan_corpus(listing, parts, storage, read, request.only, corrections)
        check_documents(corrections, survey.shards, text, opened.model)
        for file, columns in survey.columns.items():
            check_there(columns, file.path, model=opened.model, constraints=constraints, source=request.model)
        shards = survey.shards
        if isinstance(opened.model, BringsAnswers):
            shards = shards.answered(opened.model.answer_digest, text)
        return cls(request, size, opened, constraints, files, key, shards, survey.damages, found)

    @property
    def digest(self) -> str:
        """Hex digest of everything that MLflow gets of the run."""
        parts = [dataset_digest(self.shards), *map(str, sorted(self.params().items()))]
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()

    def params(self) -> dict[str, object]:
        """MLflow's parameters of the run."""
        request, key = self.request, self.key
        return {
            "corpus": request.corpus,
            "only": None if request.only is None else f"{_number_of(request.only)}, {ids_digest(request.only)}",
            "model": self.model_name,
            "model_version": self.opened.version,
            "model_digest": key.model,
            "constraints": ", ".join(request.constraints) or None,
            **{f"{self._use_of(name)}.{short_name(name)}": digest for name, digest in self.files.items()},
            **({} if request.corrections is None else {"corrections": short_name(request.corrections)}),
            "constraints_digest": key.constraints,
            "code_digest": key.code,
            **_named(key.settings),
        }

    @property
    def model_name(self) -> str:
        """The model as it was asked for, or who gave the answers."""
        if self.key.settings.engine != ADOPTED:
            return self.request.model
        assert isinstance(self.opened.model, BringsAnswers)
        return self.opened.model.name

    def _use_of(self, file: str) -> str:
        return "corrections" if file == self.request.corrections else "constraints"

    @property
    def recorded(self) -> dict[str, object]:
        """What the record of nights keeps of the request."""
        return self.params() | {"dataset": dataset_digest(self.shards)}

    def run_name(self, title: str = "") -> str:
        """What tells runs apart: corpus, what the run came to (``title``) as soon as that is known, engine, model with
        its version, and files of constraints with a digest."""
        request = self.request
        model = self.opened.version or short_name(self.model_name)
        parts = [short_name(request.corpus), request.settings.engine, model]
        if title:
            parts.insert(1, title)
        if request.only is not None:
            parts.insert(1, _number_of(request.only))
        if request.constraints:
            parts.append(f"{', '.join(map(short_name, request.constraints))} {self.constraints.digest[:8]}")
        if not request.consistency:
            parts.append("no consistency")
        return " · ".join(parts)

    @property
    def sources(self) -> Sources:
        """Sources of the run, by absolute paths."""
        request = self.request
        named = request.model if URI.match(request.model) else str(Path(request.model).expanduser().absolute())
        return Sources(
            corpus=request.corpus,
            model=named,
            constraints=tuple(map(source_place, request.constraints)),
            consistency=request.consistency,
            shard_bytes=self.shard_bytes,
            only=request.only,
            corrections=None if request.corrections is None else source_place(request.corrections),
        )


def _named(settings: RunSettings) -> dict[str, object]:
    """Settings by name: those that people look for, and of the others what is not the default."""
    rest = settings.model_dump(mode="json", exclude={"options", "text"}, exclude_defaults=True)
    return {
        **{name: getattr(settings, name) for name in LOOKED_FOR},
        **{f"engine.{name}": value for name, value in settings.options.items()},
        **{f"text.{name}": value for name, value in settings.text.model_dump(exclude_defaults=True).items()},
        **{name: value for name, value in rest.items() if name not in LOOKED_FOR},
    }


def _number_of(only: Sequence[str]) -> str:
    return f"{len(set(only)):,} documents"
