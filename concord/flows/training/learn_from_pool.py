"""Constraint-driven learning on a cluster: cycles of labelling a pool and learning a model from it.

The output folder has a folder for each cycle, `cycle-00` and on: `model`, `constraints.yaml`, the pool's `labels` and
the held-out corpus's (`held-out`), each the output of a run as `reprocess` makes it, and `cycle.json`, written last.
A killed learning goes on in the middle of its cycle, and ends with the same bytes.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from concord.flows.errors import RunFolderError
from concord.flows.inputs.jobs import run_tags
from concord.flows.labelling.documents import read_documents
from concord.flows.labelling.evaluate import evaluate
from concord.flows.labelling.label_corpus import label_corpus
from concord.flows.runfolder.locks import LOCK, locked
from concord.flows.runfolder.published import published
from concord.flows.runfolder.runfolder import dataset_digest
from concord.flows.screen.progress import say
from concord.flows.tracking.tracking import PARENT, Outcome, Run, Tracking
from concord.flows.training.codl_tuning import best_gamma, choose_gamma
from concord.schemas.codl import CodlReport, CodlSettings, Cycle, GammaTrial
from concord.schemas.columns import DOC_ID, LABELS, N_BEST, PREDICTIONS_LAYOUT
from concord.schemas.document import Batch, Document
from concord.schemas.errors import TrainingError
from concord.schemas.folders import FolderKind
from concord.schemas.learning_requests import CodlRequest
from concord.schemas.requests import LabelRequest
from concord.schemas.run_report import RunReport
from concord.schemas.secrets import short_name
from concord.schemas.settings import Settings, Validation
from concord.schemas.shown import Report
from concord.workers.compiling.kept_digests import code_digest
from concord.workers.constraints.constraint_file import load_constraints
from concord.workers.constraints.constraint_writer import constraints_text
from concord.workers.constraints.declared import DeclaredConstraints
from concord.workers.corpus.plan import plan
from concord.workers.corpus.shards import tokenizer_of
from concord.workers.corpus.tokenizers.registry import pinned
from concord.workers.labelling.output import PREDICTIONS
from concord.workers.learning.little_gold.codl import Ranked, Weights, changed, ways_of
from concord.workers.learning.little_gold.codl_learners import Learner, LearningWay, learner_of
from concord.workers.models.folder import MANIFEST, parse_manifest, update_manifest
from concord.workers.models.loaders import load_model
from concord.workers.storage.files import TEMPORARY, make_folder, remove, staged, write_whole
from concord.workers.storage.folder_kinds import check_kind, say_kind

SCORE = "score"
MODEL, CONSTRAINTS, POOL, HELD_OUT, MARKER = "model", "constraints.yaml", "labels", "held-out", "cycle.json"
TUNED = "gamma.json"
"""Name of the file of trials of gamma, beside the cycles."""


class CycleDone(Report):
    """A finished cycle; ``key`` is the digest of everything that decided it."""

    key: str
    cycle: Cycle


class TrialsDone(Report):
    """Finished trials of shares; ``key`` as in `CycleDone`."""

    key: str
    trials: tuple[GammaTrial, ...]


def learn(request: CodlRequest) -> CodlReport:
    """Reads both corpora and runs the cycles. Raises `RunFolderError` if another learning uses the folder, and
    `OutputError`."""
    out, started = Path(request.out), time.monotonic()
    check_kind(out, FolderKind.CYCLES)
    make_folder(out)
    with locked(out / LOCK, out):
        say_kind(out, FolderKind.CYCLES)
        remove([*out.glob(f"{TEMPORARY}*"), *out.glob(f"cycle-*/{TEMPORARY}*")])
        tracking = Tracking(request.context.tracking)
        name = f"{short_name(request.corpus)} and {short_name(request.pool)} · codl"
        with tracking.run(name, tags=run_tags(job="codl", model=request.out)) as run:
            job = _LearnJob.open(request, tracking, run)
            run.params(_params(request) | {"gamma": job.learner.settings.gamma})
            cycles = []
            for done in job.cycles():
                cycles.append(done)
                say(_line(done))
            learned = job.folder(cycles[-1].number) / MODEL
            run.model(learned, load_model(learned).columns)
            run.end(Outcome.now(_figures(cycles[-1]) | _tried(job.trials) | {"cycles": len(cycles) - 1}))
            return CodlReport(
                documents=job.learner.counts.documents,
                pool=len(job.pool),
                pool_tokens=sum(map(len, job.pool)),
                rejected=job.rejected,
                cycles=tuple(cycles),
                settled=_settled(cycles[-1], request.settings),
                gamma=job.learner.settings.gamma,
                tuned=job.trials,
                seconds=time.monotonic() - started,
                out=request.out,
                mlflow_run=run.id,
            )


class _LearnJob(NamedTuple):
    """The parts that all cycles share.

    - ``request``: the request.
    - ``tracking``, ``run``: MLflow, and the parent of the cycles' runs.
    - ``learner``: learns a model from the labelled documents and the pool.
    - ``weights``: weights of the constraints, if there are any.
    - ``pool``: documents of the pool.
    - ``rejected``: rejects of both corpora.
    - ``trials``: trials of gamma, if it was tuned.
    - ``tokenizer``: tokenizer of the labelled corpus.
    - ``key``: digest of everything that decides a cycle.
    """

    request: CodlRequest
    tracking: Tracking
    run: Run
    learner: Learner
    weights: Weights | None
    pool: Sequence[Document]
    rejected: int
    trials: tuple[GammaTrial, ...]
    tokenizer: str
    key: str

    @classmethod
    def open(cls, request: CodlRequest, tracking: Tracking, run: Run) -> _LearnJob:
        """The job of a request. Raises `TrainingError`, `ConstraintError`, and the errors of reading a corpus."""
        places = {"training": request.corpus, "pool": request.pool, "held-out": request.held_out}
        shards = {context: plan(place) for context, place in places.items() if place is not None}
        (documents, bad), (pool, worse) = (
            read_documents(shards[context], gold=context == "training") for context in ("training", "pool")
        )
        if not pool:
            raise TrainingError(f"{request.pool}: there is no document to learn from")
        tokenizer = tokenizer_of(shards["training"]) or pinned(None)
        digests = {context: dataset_digest(found) for context, found in shards.items()}
        for context, digest in digests.items():
            place = str(places[context])
            run.dataset(name=short_name(place), digest=digest, source=place, context=context)
        learner = learner_of(documents, pool, request.settings)
        bound, text = None, ""
        if request.constraints is not None:
            bound = load_constraints(request.constraints).bind(learner.labels)
            text = constraints_text(bound, {})
        asked = f"{_key(request, digests, text, request.settings)} {request.validation}"
        trials = _trials(request, documents, pool, bound, asked)
        if trials:
            chosen = request.settings.model_copy(update={"gamma": best_gamma(trials)})
            learner = replace(learner, settings=chosen)
        settings = learner.settings
        weights = None if bound is None else Weights.of(bound, Batch.of(documents), learner.labels, settings)
        key = _key(request, digests, text, settings.mixture)
        return cls(request, tracking, run, learner, weights, pool, bad + worse, trials, tokenizer, key)

    def folder(self, number: int) -> Path:
        """Folder of a cycle."""
        return Path(self.request.out) / f"cycle-{number:02d}"

    def cycles(self) -> Iterator[Cycle]:
        """The cycles, each when it is done. Cycles of earlier calls come at once."""
        for number in range(self.request.settings.cycles + 1):
            found = _read(self.folder(number) / MARKER, self.key)
            cycle = self._again(number) if found is None else found
            yield cycle
            if _settled(cycle, self.request.settings):
                return

    def _again(self, number: int) -> Cycle:
        """Runs a cycle from its beginning."""
        folder = self.folder(number)
        make_folder(folder)
        name = f"cycle {number}"
        with self.tracking.run(name, tags=run_tags(job="codl", **{PARENT: self.run.id})) as run:
            labelled = self._label(number, self.request.pool, folder / POOL) if number else None
            cycle = self._learn(number, labelled)
            if self.request.held_out is not None:
                self._label(number + 1, self.request.held_out, folder / HELD_OUT)
                accuracy = evaluate(str(folder / HELD_OUT), self.request.held_out).report.token_accuracy
                cycle = cycle.model_copy(update={"accuracy": accuracy})
            write_whole(folder / MARKER, CycleDone(key=self.key, cycle=cycle).model_dump_json(indent=1).encode())
            run.end(Outcome.now(_figures(cycle)))
        return cycle

    def _label(self, number: int, corpus: str, out: Path) -> RunReport:
        """Labels a corpus with the model and constraints of the cycle before ``number``."""
        folder = self.folder(number - 1)
        return label_corpus(
            LabelRequest(
                corpus=corpus,
                model=str(folder / MODEL),
                out=str(out),
                settings=self.request.labelling,
                constraints=() if self.weights is None else (str(folder / CONSTRAINTS),),
                consistency=False,
                shard_bytes=self.request.shard_bytes,
                context=self.request.context,
                allow_gone=True,
            )
        )

    def _learn(self, number: int, labelled: RunReport | None) -> Cycle:
        """Learns a cycle's model and constraints, from the labelled pool if there is one, and writes them."""
        folder, learner, weights = self.folder(number), self.learner, self.weights
        ways = [] if labelled is None else self._ways(number)
        parts = learner.learned(ways) if ways else learner.first
        with staged(folder / MODEL) as model:
            learner.save(parts, model)
            update_manifest(model, kind=parse_manifest(model / MANIFEST).kind, tokenizer=self.tokenizer)
        if weights is not None:
            pool = Batch.of(self.pool)
            weighed = weights.learned(ways[0].labels, pool, learner.labels) if ways else weights.begun()
            write_whole(folder / CONSTRAINTS, constraints_text(weighed, {}).encode())
        if labelled is None:
            return Cycle(number=number)
        moved = 1.0 if number == 1 else changed(self._ways(number - 1)[0].labels, ways[0].labels)
        return Cycle(number=number, changed=moved, penalty=labelled.penalty, certified=labelled.certified)

    def _ways(self, number: int) -> list[LearningWay]:
        """The pool's labellings in a cycle's run. Raises `RunFolderError` if a document is missing."""
        place, encode = self.folder(number) / POOL, self.learner.labels.encode
        found: dict[str, Ranked] = {}
        for table in published(str(place)).tables(PREDICTIONS, PREDICTIONS_LAYOUT):
            ranked = table[N_BEST].to_pylist() if N_BEST in table.column_names else [None] * len(table)
            for doc_id, labels, ranks in zip(table[DOC_ID].to_pylist(), table[LABELS].to_pylist(), ranked, strict=True):
                best = ranks or [{LABELS: labels, SCORE: 0.0}]
                score = np.array([rank[SCORE] for rank in best])
                found[doc_id] = Ranked(np.array([encode(rank[LABELS]) for rank in best]), score)
        missing = [document.doc_id for document in self.pool if document.doc_id not in found]
        if missing:
            raise RunFolderError(
                f"{place}: no labels for document {missing[0]!r}; it may break what is hard: see the rejects there"
            )
        return ways_of([found[document.doc_id] for document in self.pool], self.learner.settings.em)


def _trials(
    request: CodlRequest,
    documents: Sequence[Document],
    pool: Sequence[Document],
    constraints: DeclaredConstraints | None,
    key: str,
) -> tuple[GammaTrial, ...]:
    """Trials of gamma: those of an earlier call with the same request, or new ones; none without ``tune``."""
    if not request.tune:
        return ()
    place = Path(request.out) / TUNED
    if place.is_file():
        found = TrialsDone.model_validate_json(place.read_bytes())
        if found.key == key:
            return found.trials
    trials = choose_gamma(documents, pool, constraints, request.settings, request.labelling, _judging(request))
    write_whole(place, TrialsDone(key=key, trials=trials).model_dump_json(indent=1).encode())
    return trials


def _judging(request: CodlRequest) -> Validation:
    """The documents that judge gamma."""
    return request.validation or Validation.RANDOM


def _key(request: CodlRequest, digests: Mapping[str, str], constraints: str, settings: Settings) -> str:
    """Hex digest of everything that decides a cycle's output; the number of cycles is no part of it."""
    given = [settings.model_dump_json(), request.labelling.model_dump_json()]
    parts = [str(sorted(digests.items())), constraints, *given, code_digest()]
    return hashlib.sha256("\x00".join(parts).encode()).hexdigest()


def _read(path: Path, key: str) -> Cycle | None:
    """The finished cycle of an earlier call with the same key; None without one."""
    if not path.is_file():
        return None
    done = CycleDone.model_validate_json(path.read_bytes())
    return done.cycle if done.key == key else None


def _settled(cycle: Cycle, settings: CodlSettings) -> bool:
    """Did fewer of the pool's labels change than the settings ask for?"""
    return cycle.changed is not None and cycle.changed < settings.change


def _figures(cycle: Cycle) -> dict[str, float]:
    named = {"changed": cycle.changed, "penalty": cycle.penalty, "held_out/accuracy": cycle.accuracy}
    return {name: value for name, value in named.items() if value is not None}


def _tried(trials: Sequence[GammaTrial]) -> dict[str, float]:
    """Figures of the trials of gamma, for MLflow."""
    rows = [(f"gamma/{trial.gamma:g}/", trial.model_dump(exclude={"gamma"})) for trial in trials]
    return {start + name: value for start, row in rows for name, value in row.items()}


def _params(request: CodlRequest) -> dict[str, object]:
    given = {
        "corpus": request.corpus,
        "pool": request.pool,
        "constraints": request.constraints,
        "held_out": request.held_out,
        "validation": _judging(request),
    }
    return given | {"engine": request.labelling.engine} | request.settings.model_dump()


def _line(cycle: Cycle) -> str:
    """A cycle in one line, for people."""
    parts = [
        "of labelled documents alone" if cycle.changed is None else f"{cycle.changed:.2%} of labels changed",
        *([] if cycle.penalty is None else [f"penalty {cycle.penalty:,.0f} nats, {cycle.certified:.1%} certified"]),
        *([] if cycle.accuracy is None else [f"{cycle.accuracy:.2%} of held-out tokens right"]),
    ]
    return f"cycle {cycle.number}: " + "; ".join(parts)
