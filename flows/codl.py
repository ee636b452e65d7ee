"""Constraint-driven learning on a cluster: a pool labelled again and again, and a model learned from it each time.

The output folder has a folder for each cycle, `cycle-00` and on: `model`, `constraints.yaml`, the pool's `labels` and
the development corpus's (`dev`), each the output of a run as `reprocess` makes it, and `cycle.json`, written last. What
was killed goes on in the middle of its cycle, and ends with the same bytes.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from prefect import task
from prefect.cache_policies import NO_CACHE

from flows.commands.evaluate import evaluate
from flows.jobs import check_apart, corpus_name, corpus_place, folder_place, run_tags
from flows.prefect.prefect_server import guard_server
from flows.prefect.private_flow import private_flow
from flows.progress import say
from flows.reprocess import Request as Labelling
from flows.reprocess import label_corpus
from flows.runfolder.published import published
from flows.runfolder.runfolder import LOCK, RunFolderError, dataset_digest, locked
from flows.sources import read_documents
from flows.tracking.tracking import MODEL_FOLDER, Outcome, Run, Tracking
from schemas.codl import CodlReport, CodlSettings, Cycle
from schemas.columns import DOC_ID, LABELS, N_BEST, PREDICTIONS
from schemas.document import Batch, Column, Document
from schemas.labels import Labels
from schemas.run import Figures, RunReport, RunSettings
from schemas.secrets import masked_errors
from schemas.settings import Settings
from workers.compiling.code import code_digest
from workers.constraints.constraint_file import load_constraints
from workers.constraints.constraint_writer import constraints_text
from workers.constraints.declared import DeclaredConstraints
from workers.corpus.plan import plan
from workers.labelling.labelled import check_settings
from workers.labelling.output import PREDICTIONS as FOLDER
from workers.learning.codl import Learner, Weights, changed
from workers.learning.trainers.trainer import TrainingError
from workers.storage.files import make_folder, staged, write_whole

CERTIFY = RunSettings(engine="certify")
MODEL, CONSTRAINTS, POOL, DEV, MARKER = "model", "constraints.yaml", "labels", "dev", "cycle.json"
PARENT = "mlflow.parentRunId"


class Request(Settings):
    """One learning, as the command line and Prefect give it."""

    corpus: str
    pool: str
    out: str
    constraints: str | None
    dev: str | None
    settings: CodlSettings
    labelling: RunSettings
    ray: str | None
    workers: int | None
    tracking: str | None


class Done(Figures):
    """A cycle that is done; ``key`` is a digest of all that decided it."""

    key: str
    cycle: Cycle


guard_server()


@private_flow("codl", run_name="{corpus} and {pool}")
def codl(
    corpus: str,
    pool: str,
    out: str,
    *,
    constraints: str | None = None,
    dev: str | None = None,
    settings: CodlSettings | None = None,
    labelling: RunSettings = CERTIFY,
    ray: str | None = None,
    workers: int | None = None,
    tracking: str | None = None,
) -> CodlReport:
    """Learns a hidden Markov model of a labelled ``corpus``, and on from a ``pool``, whose labels are not looked at.

    ``constraints`` is a YAML file of declared constraints, none for semi-supervised learning; ``dev`` a labelled corpus
    that every cycle is measured on. ``labelling`` says how the pool is decoded; of its ``n_best`` labellings all count.
    The same call again goes on where it stopped.

    Raises `TrainingError`, and what `flows.reprocess.reprocess` raises.
    """
    request = Request(
        corpus=corpus_place(corpus),
        pool=corpus_place(pool),
        out=folder_place(out),
        constraints=constraints,
        dev=None if dev is None else corpus_place(dev),
        settings=settings or CodlSettings(),
        labelling=check_settings(labelling),
        ray=ray,
        workers=workers,
        tracking=tracking,
    )
    for place in (request.corpus, request.pool, request.dev):
        if place is not None:
            check_apart(request.out, place)
    return learn(request)


@task(name="learn-from-pool", cache_policy=NO_CACHE, persist_result=False)
@masked_errors()
def learn(request: Request) -> CodlReport:
    """Reads both corpora, and goes through the cycles; one learning a folder at a time, or `RunFolderError`."""
    out, started = Path(request.out), time.monotonic()
    make_folder(out)
    with locked(out / LOCK, out):
        tracking = Tracking(request.tracking)
        name = f"{corpus_name(request.corpus)} and {corpus_name(request.pool)} · codl"
        with tracking.run(name, tags=run_tags(job="codl", model=request.out)) as run:
            job = _Job.open(request, tracking, run)
            run.params(_params(request))
            cycles = []
            for done in job.cycles():
                cycles.append(done)
                say(_line(done))
            run.folder(job.folder(cycles[-1].number) / MODEL, MODEL_FOLDER)
            run.end(Outcome.now(_figures(cycles[-1]) | {"cycles": len(cycles) - 1}))
            return CodlReport(
                documents=job.learner.seen.documents,
                pool=len(job.pool),
                pool_tokens=job.learner.read.unlabelled.word.size,
                rejected=job.rejected,
                cycles=tuple(cycles),
                settled=_settled(cycles[-1], request.settings),
                seconds=time.monotonic() - started,
                out=request.out,
                mlflow_run=run.id,
            )


class _Answers(NamedTuple):
    """The pool's labels (N,): the best, and all that count."""

    best: Labels
    every: Sequence[Labels]


class _Job(NamedTuple):
    """What all cycles share."""

    request: Request
    tracking: Tracking
    run: Run
    learner: Learner
    weights: Weights | None
    pool: Sequence[Document]
    rejected: int
    key: str

    @classmethod
    def open(cls, request: Request, tracking: Tracking, run: Run) -> _Job:
        """Reads everything. Raises `TrainingError`, `ConstraintError`, and what reading a corpus raises."""
        places = {"training": request.corpus, "pool": request.pool, "development": request.dev}
        shards = {context: plan(place) for context, place in places.items() if place is not None}
        (documents, bad), (pool, worse) = (read_documents(shards[context]) for context in ("training", "pool"))
        if not pool:
            raise TrainingError(f"{request.pool}: there is no document to learn from")
        digests = {context: dataset_digest(found) for context, found in shards.items()}
        for context, digest in digests.items():
            place = str(places[context])
            run.dataset(name=corpus_name(place), digest=digest, source=place, context=context)
        learner = Learner.of(documents, pool, request.settings)
        weights, text = None, ""
        if request.constraints is not None:
            bound = load_constraints(Path(request.constraints)).bind(learner.labels)
            text = constraints_text(bound, {})
            weights = Weights.of(bound, Batch.of(documents), learner.labels, request.settings)
        return cls(request, tracking, run, learner, weights, pool, bad + worse, _key(request, digests, text))

    def folder(self, number: int) -> Path:
        """Of a cycle."""
        return Path(self.request.out) / f"cycle-{number:02d}"

    def cycles(self) -> Iterator[Cycle]:
        """Each cycle when it is done, those of earlier calls at once."""
        for number in range(self.request.settings.cycles + 1):
            found = _read(self.folder(number) / MARKER, self.key)
            cycle = self._again(number) if found is None else found
            yield cycle
            if _settled(cycle, self.request.settings):
                return

    def _again(self, number: int) -> Cycle:
        """One cycle, whole."""
        folder = self.folder(number)
        make_folder(folder)
        name = f"cycle {number}"
        with self.tracking.run(name, tags=run_tags(job="codl", **{PARENT: self.run.id})) as run:
            labelled = self._label(number, self.request.pool, folder / POOL) if number else None
            cycle = self._learn(number, labelled)
            if self.request.dev is not None:
                self._label(number + 1, self.request.dev, folder / DEV)
                accuracy = evaluate(str(folder / DEV), self.request.dev).report.token_accuracy
                cycle = cycle.model_copy(update={"accuracy": accuracy})
            write_whole(folder / MARKER, Done(key=self.key, cycle=cycle).model_dump_json(indent=1).encode())
            run.end(Outcome.now(_figures(cycle)))
        return cycle

    def _label(self, number: int, corpus: str, out: Path) -> RunReport:
        """A corpus labelled with the model and constraints of the cycle before ``number``."""
        folder = self.folder(number - 1)
        return label_corpus(
            Labelling(
                corpus=corpus,
                model=str(folder / MODEL),
                out=str(out),
                settings=self.request.labelling,
                constraints=() if self.weights is None else (str(folder / CONSTRAINTS),),
                consistency=False,
                ray=self.request.ray,
                workers=self.request.workers,
                tracking=self.request.tracking,
            )
        )

    def _learn(self, number: int, labelled: RunReport | None) -> Cycle:
        """Writes the cycle's model and constraints, learned from the pool where it was ``labelled``."""
        answers = None if labelled is None else self._answers(number)
        folder, learner = self.folder(number), self.learner
        tables = learner.first if answers is None else learner.learned(answers.every)
        with staged(folder / MODEL) as model:
            learner.save(tables, model)
        if self.weights is not None:
            weighed = self.weights.begun() if answers is None else self._weighed(self.weights, answers.best)
            write_whole(folder / CONSTRAINTS, constraints_text(weighed, {}).encode())
        if answers is None or labelled is None:
            return Cycle(number=number)
        moved = 1.0 if number == 1 else changed(self._answers(number - 1).best, answers.best)
        return Cycle(number=number, changed=moved, penalty=labelled.penalty, certified=labelled.certified)

    def _weighed(self, weights: Weights, best: Labels) -> DeclaredConstraints:
        batch = replace(Batch.of(self.pool), labels=Column(best.astype(np.int32), self.learner.labels.names))
        return weights.learned(batch, self.learner.labels)

    def _answers(self, number: int) -> _Answers:
        """What a cycle's run says of the pool. Raises `RunFolderError` where it lacks a document."""
        place = self.folder(number) / POOL
        found: dict[str, list[list[str]]] = {}
        for table in published(str(place)).tables(FOLDER, PREDICTIONS):
            ranked = table[N_BEST].to_pylist() if N_BEST in table.column_names else [None] * len(table)
            for doc_id, labels, ranks in zip(table[DOC_ID].to_pylist(), table[LABELS].to_pylist(), ranked, strict=True):
                found[doc_id] = [rank[LABELS] for rank in ranks] if ranks else [labels]
        missing = [document.doc_id for document in self.pool if document.doc_id not in found]
        if missing:
            raise RunFolderError(
                f"{place}: no labels for document {missing[0]!r}; it may break what is hard: see the rejects there"
            )
        size = max(map(len, found.values()))
        # A document with fewer labellings than others has its best one count for those that it lacks.
        every = [[found[d.doc_id][k if k < len(found[d.doc_id]) else 0] for d in self.pool] for k in range(size)]
        ids = [self.learner.labels.encode([label for part in parts for label in part]) for parts in every]
        return _Answers(ids[0], ids)


def _key(request: Request, digests: Mapping[str, str], constraints: str) -> str:
    """Hex digest of all that decides what a cycle makes; how many there are decides nothing."""
    settings = request.settings.mixture.model_dump_json()
    parts = [str(sorted(digests.items())), constraints, settings, request.labelling.model_dump_json(), code_digest()]
    return hashlib.sha256("\x00".join(parts).encode()).hexdigest()


def _read(path: Path, key: str) -> Cycle | None:
    """A cycle that is done, by a call that asked for the same."""
    if not path.is_file():
        return None
    done = Done.model_validate_json(path.read_bytes())
    return done.cycle if done.key == key else None


def _settled(cycle: Cycle, settings: CodlSettings) -> bool:
    """Nothing moves any more, and the model is that of the cycle before as nearly as was asked for."""
    return cycle.changed is not None and cycle.changed < settings.change


def _figures(cycle: Cycle) -> dict[str, float]:
    named = {"changed": cycle.changed, "penalty": cycle.penalty, "dev/accuracy": cycle.accuracy}
    return {name: value for name, value in named.items() if value is not None}


def _params(request: Request) -> dict[str, object]:
    given = {"corpus": request.corpus, "pool": request.pool, "constraints": request.constraints, "dev": request.dev}
    return given | {"engine": request.labelling.engine} | request.settings.model_dump()


def _line(cycle: Cycle) -> str:
    """A cycle for people."""
    parts = [
        "of labelled documents alone" if cycle.changed is None else f"{cycle.changed:.2%} of labels changed",
        *([] if cycle.penalty is None else [f"penalty {cycle.penalty:,.0f} nats, {cycle.certified:.1%} certified"]),
        *([] if cycle.accuracy is None else [f"{cycle.accuracy:.2%} of development tokens right"]),
    ]
    return f"cycle {cycle.number}: " + "; ".join(parts)
