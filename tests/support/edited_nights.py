"""Nights of one output folder, each after a random edit: what was planned beside what the run then did."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import concord.flows.inputs.jobs
import concord.flows.labelling.label_job
from concord.flows.commands.run_plan import plan_run
from concord.flows.errors import NothingLabelledError, ShardsFailedError, WithheldRunError
from concord.flows.labelling.label_corpus import label_corpus
from concord.schemas.columns import table_from_documents
from concord.schemas.document import Batch, Document
from concord.schemas.potentials import Potentials
from concord.schemas.requests import LabelRequest
from concord.schemas.run import RunSettings
from concord.schemas.run_plan import RunPlan
from concord.schemas.run_report import RunReport
from concord.workers.constraints.constraint_set import Separable, Unconstrained
from concord.workers.constraints.declared import DeclaredConstraints
from concord.workers.constraints.templates.features import TokenFeature
from concord.workers.constraints.templates.runs import AtMostRuns
from concord.workers.constraints.templates.template import Template, TokenTest
from concord.workers.constraints.templates.words import Lexicon
from concord.workers.labelling.labelled import check_settings
from tests.support.made_folders import BIO, QUICK, WORDS, WordModel
from tests.support.runs_here import stay_here

WEIGHTS = (0.4, 0.7, 2.0, math.inf)
FILES = ("a.parquet", "b.parquet")


@dataclass(frozen=True)
class ShiftedModel(WordModel):
    """The model after some days of training."""

    days: int = 0

    def potentials(self, batch: Batch) -> Potentials:
        before = super().potentials(batch)
        shift = np.random.default_rng(self.days).normal(size=before.unary.shape[1]) * 0.05 * min(self.days, 1)
        return Potentials(before.unary + shift, before.transition, before.sentence_starts)


@dataclass
class EditedNight:
    """What the next run is asked for: documents by file, constraints by name, a model and settings."""

    rng: random.Random
    files: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    rules: dict[str, Template] = field(default_factory=dict)
    days: int = 0
    settings: dict[str, Any] = field(default_factory=lambda: {"engine": "viterbi"})
    shard_bytes: int = 200
    damaged: bool = False
    made: int = 0

    def document(self, doc_id: str | None = None) -> dict[str, Any]:
        """A new row."""
        self.made += 1
        words = [[self.rng.choice(WORDS) for _ in range(self.rng.randint(1, 5))] for _ in range(2)]
        gold = [["O"] * len(sentence) for sentence in words]
        (row,) = table_from_documents([Document.build(doc_id or f"d{self.made}", words, labels=gold)]).to_pylist()
        return dict(row)

    def rows(self) -> list[dict[str, Any]]:
        """The rows of a file that has some, which an edit may change in place."""
        return self.rng.choice([rows for rows in self.files.values() if rows] or list(self.files.values()))

    def write(self, corpus: Path) -> None:
        """Writes the corpus."""
        schema = table_from_documents([Document.build("d", [["a"]], labels=[["O"]])]).schema
        schema = schema.set(0, schema.field(0).with_nullable(True))
        corpus.mkdir(exist_ok=True)
        for path in corpus.iterdir():
            path.unlink()
        for name, rows in self.files.items():
            pq.write_table(pa.Table.from_pylist(rows, schema), corpus / name)
        if self.damaged:
            (corpus / "c.parquet").write_bytes(b"PAR1")

    def constraints(self) -> Separable:
        """The constraints, bound."""
        return DeclaredConstraints(tuple(self.rules.values())).bind(BIO) if self.rules else Unconstrained()


def _insert(night: EditedNight) -> None:
    rows = night.rows()
    rows.insert(night.rng.randint(0, len(rows)), night.document())


def _remove(night: EditedNight) -> None:
    rows = night.rows()
    if rows:
        rows.pop(night.rng.randrange(len(rows)))


def _remove_many(night: EditedNight) -> None:
    del night.rows()[::3]


def _change(night: EditedNight) -> None:
    rows = night.rows()
    for _ in range(night.rng.randint(1, 3)):
        place = night.rng.randrange(len(rows))
        rows[place] = night.document(rows[place]["doc_id"])


def _no_id(night: EditedNight) -> None:
    night.rng.choice(night.rows())["doc_id"] = None


def _repeat(night: EditedNight) -> None:
    rows = night.rows()
    rows.append(dict(night.rng.choice(rows)))


def _no_words(night: EditedNight) -> None:
    row = night.rng.choice(night.rows())
    row.update(tokens=[], labels=[], sentence_starts=[])


def _bad_gold(night: EditedNight) -> None:
    row = night.rng.choice(night.rows())
    row["labels"] = ["person"] * len(row["tokens"])


def _swap(night: EditedNight) -> None:
    night.rng.shuffle(night.rows())


def _move(night: EditedNight) -> None:
    night.files = dict(zip(night.files, list(night.files.values())[::-1], strict=True))


def _rule(night: EditedNight) -> None:
    name = night.rng.choice(("years", "cities", "one run"))
    weight = night.rng.choice(WEIGHTS)
    words = TokenTest(words=("1996",) if name == "years" else ("Basel",))
    made = Lexicon(words=words, labels=("O",), weight=weight, name=name)
    night.rules[name] = made if name != "one run" else AtMostRuns(labels=("B-PER",), limit=1, weight=weight, name=name)


def _no_rule(night: EditedNight) -> None:
    if night.rules:
        night.rules.pop(night.rng.choice(list(night.rules)))


def _feature(night: EditedNight) -> None:
    night.rules["in"] = TokenFeature(tokens=TokenTest(words=("in",)), labels=("O",), weight=0.3, name="in")


def _train(night: EditedNight) -> None:
    night.days += 1


def _seed(night: EditedNight) -> None:
    night.settings |= {"seed": night.rng.randint(1, 9)}


def _settle(night: EditedNight) -> None:
    night.settings |= {"engine": "certify", "options": QUICK["certify"], "settle": True}


def _engine(night: EditedNight) -> None:
    night.settings |= {"engine": night.rng.choice(("viterbi", "beam")), "options": {}, "settle": False}


def _policy(night: EditedNight) -> None:
    night.settings |= {"on_infeasible": night.rng.choice(("reject", "viterbi", "relax"))}


def _confidence(night: EditedNight) -> None:
    night.settings |= {"confidence": night.rng.choice(("none", "marginal"))}


def _shards(night: EditedNight) -> None:
    night.shard_bytes = night.rng.choice((100, 200, 1000))


def _damage(night: EditedNight) -> None:
    night.damaged = True


def _nothing(night: EditedNight) -> None:
    del night


EDITS: tuple[Callable[[EditedNight], None], ...] = (
    *(_insert, _remove, _change, _change, _remove_many, _no_id, _repeat, _no_words, _bad_gold, _swap, _move),
    *(_rule, _rule, _no_rule, _feature, _train, _seed, _settle, _settle, _engine, _policy, _confidence, _shards),
    *(_damage, _nothing),
)


@dataclass(frozen=True)
class PlannedNight:
    """An edit, the plan, the report of the run, and where they differ."""

    edit: str
    plan: RunPlan
    report: RunReport
    faults: tuple[str, ...]


def edited_nights(folder: Path, edits: int, seed: int) -> Iterator[PlannedNight]:
    """A first night, and one after each of so many random edits."""
    rng = random.Random(seed)
    night = EditedNight(rng)
    night.files = {name: [night.document() for _ in range(8)] for name in FILES}
    with pytest.MonkeyPatch.context() as here:
        here.setenv("CONCORD_HOME", str(folder / "home"))
        stay_here(here)
        here.setattr(concord.flows.inputs.jobs, "check_sources", lambda *_, **__: None)
        opened = lambda *_: SimpleNamespace(model=model_of(night), folder=Path("model"), version=None)  # noqa: E731
        here.setattr(concord.flows.labelling.label_job, "open_model", opened)
        here.setattr(concord.flows.labelling.label_job, "open_constraints", lambda *_, **__: night.constraints())
        yield _ran(night, folder, "first night")
        for _ in range(edits):
            edit = rng.choice(EDITS)
            if not any(night.files.values()):
                edit = _insert
            night.damaged = False
            edit(night)
            yield _ran(night, folder, edit.__name__)


def model_of(night: EditedNight) -> ShiftedModel:
    """The model of a night."""
    return ShiftedModel(BIO, digest=f"word-model-{night.days}", days=night.days)


def _ran(night: EditedNight, folder: Path, edit: str) -> PlannedNight:
    corpus, out = folder / "corpus", folder / "out"
    night.write(corpus)
    request = LabelRequest(
        corpus=str(corpus),
        model="made up",
        out=str(out),
        settings=check_settings(RunSettings.model_validate(night.settings)),
        shard_bytes=night.shard_bytes,
        allow_gone=night.rng.random() < 0.8,
    )
    before = _files(out)
    plan = plan_run(request)
    written = [] if _files(out) == before else ["the plan wrote something"]
    try:
        report: RunReport = label_corpus(request)
    except (ShardsFailedError, WithheldRunError, NothingLabelledError) as error:
        report = error.report
    return PlannedNight(edit, plan, report, (*written, *_faults(plan, report)))


def _files(out: Path) -> dict[str, int]:
    return {str(path): path.lstat().st_mtime_ns for path in sorted(out.rglob("*"))}


def _faults(plan: RunPlan, report: RunReport) -> Iterator[str]:
    """Where a plan and the run differ, to the document."""
    searched = plan.checked + plan.guessed + plan.decoded
    refused = report.rejected - plan.rejected
    exact: dict[str, tuple[Any, Any]] = {
        "documents": (plan.documents - refused, report.documents),
        "rows": (plan.rows, report.documents + report.rejected),
        "shards": (plan.shards, report.shards_done),
        "skipped": (plan.skipped, report.skipped),
        "kept": (plan.kept, report.reuse.kept),
        "searched": (searched - refused, report.labelled - report.reuse.kept),
        "why": (sum(plan.why.values()), searched),
        "damages": (len(plan.damages), report.shards_failed),
        "withheld": (plan.differences is not None and plan.differences.withheld and not plan.damages, report.withheld),
    }
    planned, drift = plan.differences, report.drift
    names = ("new", "gone", "changed")
    differs = [0, 0, 0] if planned is None else [getattr(planned, name).count for name in names]
    differed = [0, 0, 0] if drift is None else [drift.new, drift.gone, drift.texts]
    if not plan.damages and not refused:
        exact["differences"] = (differs, differed)
        exact["missing"] = (0 if planned is None else planned.missing, 0 if drift is None else drift.missing)
    yield from (f"{name}: planned {want}, was {got}" for name, (want, got) in exact.items() if want != got)
    ranges = {
        "refused": (0, refused, searched if plan.refusing else 0),
        "stood": (0, report.reuse.stood, plan.checked),
        "confirmed": (0, report.reuse.confirmed, plan.checked - report.reuse.stood + plan.guessed),
        "decoded": (plan.decoded - refused, report.decoded, searched),
    }
    yield from (
        f"{name}: {low} ≤ {got} ≤ {high} is not" for name, (low, got, high) in ranges.items() if not low <= got <= high
    )
