"""Runs forged in every way, with all digests renewed: `concord verify` has to refuse each, and to name the place.

A forgery changes the rows of a whole run's files, or its manifest; what it left is written to a folder of its own, with
the files' hashes, the shards' keys and names and the manifest's seal as an honest run would have them.
"""

from __future__ import annotations

import hashlib
import math
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from concord.flows.commands.verify import verify
from concord.flows.runfolder.layout import CORPUS, SHARD_LISTS, SOURCES
from concord.schemas.columns import (
    DOC_ID,
    DOCUMENT_DIGEST,
    LABELS,
    MARGIN,
    MARGIN_STATUS,
    N_BEST,
    N_BEST_BOUND,
    PROBABILITY,
    SENTENCE_STARTS,
    SETTLED,
    VITERBI_CONSTRAINTS,
    VITERBI_LABELS,
    VITERBI_LOCAL,
    VITERBI_PENALTY,
)
from concord.schemas.decoded import Status
from concord.schemas.document import TOKENS, Batch
from concord.schemas.errors import InputError
from concord.schemas.predictions import entities_column
from concord.schemas.problem import Problem
from concord.schemas.run import RunKey
from concord.workers.corpus.parquet import table_bytes
from concord.workers.corpus.plan import plan
from concord.workers.corpus.shards import read_batch
from concord.workers.inference.registry import SOLVERS
from concord.workers.labelling.output import CERTIFICATES, PREDICTIONS, REJECTS, shard_key
from concord.workers.models.model import local_scores
from concord.workers.verification.plain_chain import span_probabilities
from tests.support.made_folders import MadeRun
from tests.support.manifests import opened_manifest, write_manifest

Row = dict[str, Any]


@dataclass
class Forged:
    """A run as its files say it: rows by path, and the manifest. ``place`` is the row of predictions aimed at."""

    made: MadeRun
    rows: dict[str, list[Row]]
    schemas: dict[str, pa.Schema]
    manifest: dict[str, Any]
    place: tuple[str, int]

    @property
    def row(self) -> Row:
        """The row of the predictions that is aimed at."""
        path, i = self.place
        return self.rows[path][i]

    @property
    def proof(self) -> Row | None:
        """The certificate of that document, where there are such."""
        path, i = self.place
        found = self.rows.get(path.replace(PREDICTIONS, CERTIFICATES, 1))
        return None if found is None else found[i]

    @property
    def document(self) -> Batch:
        """The document that is aimed at, alone in a batch."""
        for shard in plan(str(self.made.out.parent / "corpus")):
            batch, _ = read_batch(shard)
            if self.row[DOC_ID] in batch.doc_ids:
                i = batch.doc_ids.index(self.row[DOC_ID])
                return batch.part(i, i + 1)
        raise AssertionError(self.row[DOC_ID])

    def problem(self) -> Problem:
        """Its problem, as the run had it."""
        batch, model = self.document, self.made.model
        problem = next(local_scores(model, batch).problems(batch, model.labels, self.made.constraints))
        relaxed = self.row["status"] == Status.RELAXED
        return problem.relaxed(self.made.key.settings.relaxed_weight) if relaxed else problem

    def rescored(self, names: list[str], *, bound: float, status: str) -> None:
        """Gives the row these labels, with every column as it follows from them."""
        problem, row = self.problem(), self.row
        labels = problem.labels.encode(names)
        score = problem.score(labels)
        gap = 0.0 if bound == score.objective else max(0.0, bound - score.objective)
        parts = zip(problem.constraint_names, score.degree.tolist(), score.penalties.tolist(), strict=True)
        row |= {
            LABELS: names,
            "entities": entities_column(self.document, problem.labels, labels).to_pylist()[0],
            "local": score.local,
            "penalty": score.penalty,
            "objective": score.objective,
            "bound": bound,
            "gap": gap,
            "status": status,
            "certified": status in (Status.OPTIMAL, Status.BY_SOLVER),
            "constraints": [{"name": n, "degree": d, "penalty": p} for n, d, p in parts],
        }


class Forgery(NamedTuple):
    """A way to forge. ``change`` returns the start of the field that verify has to name, None where it does not apply.

    - ``of_document``: the document is named, too.
    """

    name: str
    change: Callable[[Forged, np.random.Generator], str | None]
    of_document: bool = True


def opened(made: MadeRun) -> Forged:
    """A run's files as rows; the document aimed at is the first."""
    manifest = opened_manifest(made.out)
    tables = {path: pq.read_table(made.out / path) for path in sorted(manifest["files"])}
    rows = {path: table.to_pylist() for path, table in tables.items()}
    first = next(path for path in rows if path.startswith(PREDICTIONS))
    return Forged(made, rows, {path: table.schema for path, table in tables.items()}, manifest, (first, 0))


def places(forged: Forged) -> list[tuple[str, int]]:
    """Of all rows of the predictions."""
    return [(path, i) for path, rows in forged.rows.items() if path.startswith(PREDICTIONS) for i in range(len(rows))]


def forge_rows(
    forged: Forged, forgeries: Sequence[Forgery], rng: np.random.Generator
) -> dict[str, tuple[Forgery, str]]:
    """Forges a document in each of the ways that apply, one way a document, as long as there are documents.

    Returns the way and the field that has to be named, by document.
    """
    done: dict[str, tuple[Forgery, str]] = {}
    left = places(forged)[::-1]  # a way may take the row away, so the last goes first
    for forgery in forgeries:
        for place in left:
            forged.place, doc_id = place, forged.rows[place[0]][place[1]][DOC_ID]
            field = forgery.change(forged, rng)
            if field is not None:
                done[doc_id] = forgery, field
                left = [other for other in left if other < place]
                break
    return done


def written(forged: Forged, out: Path) -> None:
    """Writes it as a run's folder, digests renewed."""
    out.mkdir()
    manifest, made = forged.manifest, forged.made
    for name in (CORPUS, SOURCES):
        if (made.out / name).exists():
            shutil.copy(made.out / name, out / name)
    key = RunKey.model_validate(manifest["run"]) if "run" in manifest else made.key
    names = {}
    if key != made.key:
        shards = plan(str(made.out.parent / "corpus"))
        for place, shard in zip(manifest["places"], shards, strict=True):
            names[place["key"][:16]], place["key"] = shard_key(shard, key)[:16], shard_key(shard, key)
    listed = dict(manifest["files"])
    for path, rows in forged.rows.items():
        if path not in listed:
            continue
        data = table_bytes(pa.Table.from_pylist(rows, schema=forged.schemas[path]))
        start, _, stem = path.rpartition("-")
        stem = names.get(stem.removesuffix(".parquet"), stem.removesuffix(".parquet"))
        digest = hashlib.sha256(data).hexdigest()
        stem = digest[:16] if path.startswith(REJECTS) else stem
        new = f"{start}-{stem}.parquet"
        (out / new).parent.mkdir(exist_ok=True)
        (out / new).write_bytes(data)
        del manifest["files"][path]
        manifest["files"][new] = digest
    write_manifest(out, manifest)


class Found(NamedTuple):
    """A fault that verify finds: file, document and field, and the whole line."""

    file: str
    doc_id: str | None
    field: str
    line: str


def refused(forged: Forged, out: Path) -> list[Found]:
    """What verify finds; a run that it cannot begin with is one fault of the whole."""
    written(forged, out)
    with forged.made.opened():
        try:
            report = verify(str(out))
        except InputError as error:
            return [Found("", None, "", str(error))]
    return [Found(fault.file, fault.doc_id, fault.field, str(fault)) for fault in report.failed]


# Ways to forge a row


def nats(field: str, amount: float) -> Callable[[Forged, np.random.Generator], str | None]:
    """A number that is another, alone."""

    def change(forged: Forged, _: np.random.Generator) -> str | None:
        if forged.row[field] is None or not math.isfinite(forged.row[field]):
            return None
        forged.row[field] += amount
        return ""

    return change


def value(field: str, other: Any) -> Callable[[Forged, np.random.Generator], str | None]:
    """A field that holds something else."""

    def change(forged: Forged, _: np.random.Generator) -> str | None:
        before = forged.row.get(field, other)
        if before == other or (isinstance(other, float) and isinstance(before, float) and before != before):
            return None
        forged.row[field] = other
        return ""

    return change


def gap_closed(forged: Forged, _: np.random.Generator) -> str | None:
    """Called optimal, though there is a gap: bound and gap stay."""
    if forged.row["gap"] <= 1e-6 or forged.row["status"] == Status.RELAXED:
        return None
    forged.row.update(status="optimal", certified=True)
    return "status"


def bound_below(forged: Forged, _: np.random.Generator) -> str | None:
    """A bound a thousandth of a nat below its own labels' score."""
    row = forged.row
    if not math.isfinite(row["objective"]):
        return None
    row |= {"bound": row["objective"] - 1e-3, "gap": 0.0, "status": "optimal", "certified": True}
    return ""


def bound_above(forged: Forged, _: np.random.Generator) -> str | None:
    """A bound 50,000 nats too high, called optimal."""
    row = forged.row
    if not math.isfinite(row["objective"]):
        return None
    bound = row["objective"] + 5e4
    row |= {"bound": bound, "gap": bound - row["objective"], "status": "optimal", "certified": True}
    return ""


def bound_is_the_score(forged: Forged, _: np.random.Generator) -> str | None:
    """A gap that is claimed to be closed by a bound that nothing proves: caught by a certificate, or where no bound of
    the engine's own is possible."""
    row = forged.row
    engine = SOLVERS[forged.made.key.settings.engine]
    proof = forged.proof
    proven = proof is not None and proof["proof"] is not None
    if row["gap"] <= 1e-3 or not math.isfinite(row["objective"]) or not (proven or not engine.bounds):
        return None
    row |= {"bound": row["objective"], "gap": 0.0, "status": "optimal", "certified": True}
    return ""


def _worse(forged: Forged, names: list[str]) -> bool:
    """Are these labels worse than Viterbi's, which most engines begin with?"""
    problem = forged.problem()
    score = problem.score(problem.labels.encode(names)).objective
    first = problem.score(problem.labels.encode(forged.row[VITERBI_LABELS])).objective
    return score < first - 1e-3


def all_outside(status: str, *, lowered: bool) -> Callable[[Forged, np.random.Generator], str | None]:
    """All labels O with every column as it follows from them; ``lowered``: the bound, too, which closes the gap."""

    def change(forged: Forged, _: np.random.Generator) -> str | None:
        row, engine = forged.row, SOLVERS[forged.made.key.settings.engine]
        names = ["O"] * len(row[TOKENS])
        if row["status"] == Status.RELAXED or not _worse(forged, names) or (engine.own_aim and not lowered):
            return None
        problem = forged.problem()
        bound = problem.score(problem.labels.encode(names)).objective if lowered else row["bound"]
        forged.rescored(names, bound=bound, status=status)
        return ""

    return change


def other_label(forged: Forged, rng: np.random.Generator) -> str | None:
    """One label is another, and nothing else."""
    problem, row = forged.problem(), forged.row
    names = list(row[LABELS])
    t = int(rng.integers(len(names)))
    names[t] = str(rng.choice([n for n in forged.made.model.labels.names if n != names[t]]))
    before, after = (problem.score(problem.labels.encode(x)) for x in (row[LABELS], names))
    spans = [entities_column(forged.document, problem.labels, problem.labels.encode(x)) for x in (row[LABELS], names)]
    if np.isclose(before.local, after.local, atol=1e-3) and spans[0].equals(spans[1]):
        return None
    row[LABELS] = names
    return ""


def probabilities_at_cost(forged: Forged, _: np.random.Generator) -> str | None:
    """Probabilities are those of scores with the outside cost, by which entities are likelier than they are."""
    problem, row = forged.problem(), forged.row
    before = row.get(PROBABILITY)
    if not before or None in before:
        return None
    spans = problem.labels.spans(problem.labels.encode(row[LABELS]), problem.potentials.sentence_starts)
    after = span_probabilities(problem.potentials, problem.labels, spans)
    if np.allclose(before, after, rtol=0.0, atol=1e-3):
        return None
    row[PROBABILITY] = after.tolist()
    return PROBABILITY


def part(field: str, key: str, other: Any) -> Callable[[Forged, np.random.Generator], str | None]:
    """An entry of a list of structures has another value."""

    def change(forged: Forged, rng: np.random.Generator) -> str | None:
        listed = forged.row.get(field)
        if not listed:
            return None
        i = int(rng.integers(len(listed)))
        before = listed[i][key]
        new = other(before) if callable(other) else other
        if before == new or (isinstance(before, float) and not math.isfinite(before)):
            return None
        listed[i] = {**listed[i], key: new}
        return field

    return change


def fewer(field: str) -> Callable[[Forged, np.random.Generator], str | None]:
    """A list lacks its last entry."""

    def change(forged: Forged, _: np.random.Generator) -> str | None:
        if not forged.row.get(field):
            return None
        forged.row[field] = forged.row[field][:-1]
        return field

    return change


def entry(field: str, other: Any) -> Callable[[Forged, np.random.Generator], str | None]:
    """An entry of a list of numbers or words is another."""

    def change(forged: Forged, rng: np.random.Generator) -> str | None:
        listed = forged.row.get(field)
        if not listed:
            return None
        i = int(rng.integers(len(listed)))
        new = other(listed[i]) if callable(other) and listed[i] is not None else other
        if callable(new) or new == listed[i] or (isinstance(listed[i], float) and not math.isfinite(listed[i])):
            return None
        listed[i] = new
        return field

    return change


def status(other: Status) -> Callable[[Forged, np.random.Generator], str | None]:
    """Another status than the engine can have meant, ``certified`` to fit."""

    def change(forged: Forged, _: np.random.Generator) -> str | None:
        row, settings = forged.row, forged.made.key.settings
        engine, found = SOLVERS[settings.engine], Status(row["status"])
        closed = (Status.OPTIMAL, Status.BY_SOLVER)
        told = {  # what cannot be told from the truth, or is no more than another word for it
            Status.OPTIMAL: found in closed or (found is Status.RELAXED and row["gap"] <= 1e-6),
            Status.BY_SOLVER: engine.asks_solver and (row["gap"] <= 1e-6),
            Status.FEASIBLE: not engine.exact and row["gap"] > 0 and row["objective"] > -math.inf,
            Status.TIMEOUT: row["gap"] > 0,
            Status.INFEASIBLE: row["bound"] == -math.inf,
            Status.RELAXED: settings.on_infeasible == "relax",
            Status.ADOPTED: False,
        }
        if found is other or told[other] or found is Status.RELAXED:
            return None
        row |= {"status": str(other), "certified": other in closed}
        return ""

    return change


def settled_unproven(forged: Forged, _: np.random.Generator) -> str | None:
    """Called settled, though it is not even proven."""
    if forged.row.get(SETTLED, True) or forged.row["status"] == Status.OPTIMAL:
        return None
    forged.row[SETTLED] = True
    return SETTLED


def ranked_above(forged: Forged, _: np.random.Generator) -> str | None:
    """A list of the best whose bound is below an answer that it does not list."""
    listed = forged.row.get(N_BEST)
    if not listed or len(listed) < 2 or listed[0][LABELS] != forged.row[LABELS]:
        return None
    forged.row[N_BEST] = [{**one, "gap": one["gap"] - listed[1]["gap"], "proven": True} for one in listed[1:]]
    forged.row[N_BEST_BOUND] = listed[-1]["score"]
    return N_BEST_BOUND


def proof(other: Callable[[list[int]], list[int] | None]) -> Callable[[Forged, np.random.Generator], str | None]:
    """A certificate that proves nothing, or another thing."""

    def change(forged: Forged, _: np.random.Generator) -> str | None:
        row = forged.proof
        if row is None or row["proof"] is None:
            return None
        new = other(row["proof"])
        if new == row["proof"]:
            return None
        row["proof"] = new
        return "proof"

    return change


def _no_proof(numbers: list[int]) -> list[int] | None:
    return [0, -1] if len(numbers) > 2 else numbers


NUMBERS = ("local", "penalty", "objective", "bound", "gap", VITERBI_LOCAL, VITERBI_PENALTY)
AMOUNTS = (1e-3, -1e-3, 1.0, -1.0, 5e4, -5e4)
ODD: tuple[Any, ...] = (None, float("nan"))

OF_ROWS = (
    *(Forgery(f"{field} {amount:+g}", nats(field, amount)) for field in NUMBERS for amount in AMOUNTS),
    *(Forgery(f"{field} = {other}", value(field, other)) for field in NUMBERS for other in ODD),
    *(Forgery(f"{field} = inf", value(field, math.inf)) for field in ("local", "objective", "bound", VITERBI_LOCAL)),
    *(Forgery(f"{field} is null", value(field, None)) for field in (TOKENS, SENTENCE_STARTS, LABELS, "entities")),
    *(Forgery(f"{field} is null", value(field, None)) for field in ("engine", "status", "certified", "constraints")),
    *(
        Forgery(f"{field} is another", value(field, "other"))
        for field in ("engine", "model_digest", "constraint_digest")
    ),
    *(Forgery(f"{field} is shorter", fewer(field)) for field in (TOKENS, SENTENCE_STARTS, LABELS, VITERBI_LABELS)),
    *(Forgery(f"{field} is shorter", fewer(field)) for field in ("entities", "constraints", PROBABILITY, MARGIN)),
    *(Forgery(f"{field} = ?", entry(field, "?")) for field in (TOKENS, LABELS, VITERBI_LABELS, MARGIN_STATUS)),
    *(Forgery(f"{field} = null", entry(field, None)) for field in (LABELS, VITERBI_LABELS, PROBABILITY, MARGIN)),
    Forgery("a sentence starts elsewhere", entry(SENTENCE_STARTS, lambda x: x + 1)),
    Forgery("a probability too high", entry(PROBABILITY, lambda x: x + 1e-3)),
    Forgery("a probability too low", entry(PROBABILITY, lambda x: x - 1e-3)),
    Forgery("probabilities at the outside cost", probabilities_at_cost),
    Forgery("a margin too high", entry(MARGIN, lambda x: x + 50.0)),
    Forgery("a margin far too low", entry(MARGIN, lambda x: x - 1e3)),
    Forgery("certified turned", lambda f, _: f.row.update(certified=not f.row["certified"]) or "certified"),
    Forgery("one label", other_label),
    Forgery("labels given to another", lambda f, rng: _swapped(f, rng)),
    Forgery("O at feasible", all_outside("feasible", lowered=False)),
    Forgery("O at timeout", all_outside("timeout", lowered=False)),
    Forgery("O called optimal", all_outside("optimal", lowered=True)),
    Forgery("O by a solver", all_outside("optimal-by-solver", lowered=True)),
    Forgery("a gap called closed", gap_closed),
    Forgery("a bound below its labels", bound_below),
    Forgery("a bound far above", bound_above),
    Forgery("a bound that nothing proves", bound_is_the_score),
    *(Forgery(f"status {other}", status(other)) for other in Status),
    Forgery("status unknown", value("status", "best")),
    *(
        Forgery(f"constraints {key} {amount:+g}", part("constraints", key, lambda x, a=amount: x + a))
        for key in ("degree", "penalty")
        for amount in (1e-3, 1.0, -1.0)
    ),
    Forgery("constraints renamed", part("constraints", "name", "other")),
    *(
        Forgery(f"{VITERBI_CONSTRAINTS} {key} {amount:+g}", part(VITERBI_CONSTRAINTS, key, lambda x, a=amount: x + a))
        for key in ("degree", "penalty")
        for amount in (1e-3, -1.0)
    ),
    Forgery("grounded turned", part(VITERBI_CONSTRAINTS, "grounded", lambda x: not x)),
    Forgery(f"{VITERBI_CONSTRAINTS} renamed", part(VITERBI_CONSTRAINTS, "name", "other")),
    Forgery(f"{VITERBI_CONSTRAINTS} is shorter", fewer(VITERBI_CONSTRAINTS)),
    *(Forgery(f"{field} is null", value(field, None)) for field in (VITERBI_CONSTRAINTS, DOCUMENT_DIGEST, SETTLED)),
    Forgery("the digest of another row", value(DOCUMENT_DIGEST, bytes(16))),
    Forgery("an unproven answer called settled", settled_unproven),
    *(Forgery(f"entity {key}", part("entities", key, lambda x: x + 1)) for key in ("start", "end")),
    *(Forgery(f"entity {key}", part("entities", key, "other")) for key in ("type", "text")),
    *(Forgery(f"entity {key}", part("entities", key, 3)) for key in ("char_start", "char_end")),
    *(Forgery(f"n_best {key}", part(N_BEST, key, lambda x: x + 0.01)) for key in ("score", "gap")),
    Forgery("n_best proven", part(N_BEST, "proven", lambda x: not x)),
    Forgery("n_best labels", part(N_BEST, LABELS, lambda x: x[::-1] if x[::-1] != x else ["?", *x[1:]])),
    Forgery("n_best without its first", ranked_above),
    Forgery("n_best bound", lambda f, _: _lower_bound(f)),
    Forgery("n_best cut to its first", lambda f, _: _cut_to_first(f, f.row.get(N_BEST_BOUND))),
    Forgery("n_best cut to its first, nothing else possible", lambda f, _: _cut_to_first(f, -math.inf)),
    Forgery("n_best bound 2 nats too low", lambda f, _: _bound_too_low(f)),
    Forgery("proof cut", proof(lambda p: p[:-1])),
    Forgery("proof longer", proof(lambda p: [*p, 7])),
    Forgery("proof of nothing", proof(_no_proof)),
    Forgery("proof empty", proof(lambda _: [])),
    Forgery("doc_id is another", lambda f, _: _renamed(f)),
    Forgery("doc_id is null", value(DOC_ID, None), of_document=False),
    Forgery("a document twice", lambda f, _: _twice(f)),
    Forgery("a document taken out", lambda f, _: _taken_out(f)),
    Forgery("a document made a reject", lambda f, _: _rejected(f, "it was too long")),
    Forgery("a document called infeasible", lambda f, _: _rejected(f, "no labelling keeps all hard constraints; x")),
)


def _swapped(forged: Forged, rng: np.random.Generator) -> str | None:
    path, i = forged.place
    rows = forged.rows[path]
    others = [k for k in range(len(rows)) if rows[k][LABELS] != rows[i][LABELS]]
    if not others:
        return None
    rows[i][LABELS] = rows[int(rng.choice(others))][LABELS]
    return ""


def _lower_bound(forged: Forged) -> str | None:
    """No more than an answer at hand; that of a list that holds both is another matter."""
    row = forged.row
    listed = row.get(N_BEST)
    if not listed or row[LABELS] in [one[LABELS] for one in listed]:
        return None
    row[N_BEST_BOUND] = row["objective"] - 1.0
    return N_BEST


def _cut_to_first(forged: Forged, bound: Any) -> str | None:
    """A list of one, of what was a list of several; the ``bound`` is said to hold for the others.

    The second one has another label at one token: what is farther away may have to be taken on trust.
    """
    listed = forged.row.get(N_BEST)
    if not listed or len(listed) < 2 or not listed[1]["score"] > bound + 1e-3:
        return None
    if sum(one != other for one, other in zip(*(entry[LABELS] for entry in listed[:2]), strict=True)) > 1:
        return None
    proven = listed[0]["score"] >= bound - 1e-6
    forged.row.update({N_BEST: [{**listed[0], "proven": proven}], N_BEST_BOUND: bound})
    return N_BEST_BOUND


def _bound_too_low(forged: Forged) -> str | None:
    """A tight bound of all others that is 2 nats too low; a bound that is no other labelling's score may be loose."""
    listed = forged.row.get(N_BEST)
    if not listed or len(listed) < 2 or not listed[-1]["proven"] or not math.isfinite(forged.row[N_BEST_BOUND]):
        return None
    forged.row[N_BEST_BOUND] -= 2.0
    return N_BEST_BOUND


def _both(forged: Forged) -> Iterator[list[Row]]:
    """The files that have a row a document."""
    path, _ = forged.place
    for folder in (PREDICTIONS, CERTIFICATES):
        rows = forged.rows.get(path.replace(PREDICTIONS, folder, 1))
        if rows is not None:
            yield rows


def _renamed(forged: Forged) -> str:
    for rows in _both(forged):
        rows[forged.place[1]][DOC_ID] = "nobody"
    return DOC_ID


def _twice(forged: Forged) -> str:
    """The first row is wrong; whoever keeps rows by document sees the second."""
    i = forged.place[1]
    for rows in _both(forged):
        rows.insert(i, {**rows[i], **({LABELS: rows[i][LABELS][::-1]} if LABELS in rows[i] else {})})
    return ""


def _taken_out(forged: Forged) -> str:
    i = forged.place[1]
    for rows in _both(forged):
        del rows[i]
    return DOC_ID


def _rejected(forged: Forged, reason: str) -> str | None:
    path = next((p for p in forged.rows if p.startswith(f"{REJECTS}/{forged.place[0].split('/')[1][:8]}")), None)
    if path is None:
        return None
    shard = next(s for s in plan(str(forged.made.out.parent / "corpus")) if len(read_batch(s)[1]))
    batch, _ = read_batch(shard)
    doc_id = forged.row[DOC_ID]
    source, row = shard.file.path, shard.first_row + batch.doc_ids.index(doc_id)
    _taken_out(forged)
    forged.rows[path].insert(0, {"source": source, "row": row, DOC_ID: doc_id, "reason": reason})
    return "reason"


# Ways to forge what belongs to no document


def manifest(change: Callable[[dict[str, Any]], object]) -> Callable[[Forged, np.random.Generator], str | None]:
    """A manifest that says something else."""

    def forge(forged: Forged, _: np.random.Generator) -> str | None:
        return None if change(forged.manifest) == "same" else ""

    return forge


def _total(name: str) -> Callable[[dict[str, Any]], object]:
    def change(content: dict[str, Any]) -> object:
        before = content["totals"][name]
        if isinstance(before, Mapping):
            if not before:
                return "same"
            content["totals"][name] = {}
        else:
            content["totals"][name] = before + 1 if math.isfinite(before) else 1.5
        return None

    return change


def _option(name: str, other: Any) -> Callable[[dict[str, Any]], object]:
    def change(content: dict[str, Any]) -> object:
        if name not in content["run"]["settings"]["options"]:
            return "same"
        content["run"]["settings"]["options"][name] = other
        return None

    return change


def _setting(name: str, other: Any) -> Callable[[dict[str, Any]], object]:
    def change(content: dict[str, Any]) -> object:
        if content["run"]["settings"][name] == other:
            return "same"
        content["run"]["settings"][name] = other
        return None

    return change


def _weight(content: dict[str, Any]) -> None:
    content["rules"]["strengths"][0]["weights"][0] = 1e-3


def _without(folder: str) -> Callable[[dict[str, Any]], object]:
    def change(content: dict[str, Any]) -> object:
        found = [path for path in content["files"] if path.startswith(folder)]
        if not found:
            return "same"
        del content["files"][found[0]]
        return None

    return change


def _renumbered(folder: str) -> Callable[[dict[str, Any]], object]:
    """Has a file of the first shard that has one be one of the next shard's."""

    def change(content: dict[str, Any]) -> object:
        found = sorted(path for path in content["files"] if path.startswith(folder))
        if not found or len(content["places"]) < 2:
            return "same"
        number = int(found[0].rpartition("/")[2][:8])
        other = (number + 1) % len(content["places"])
        content["files"][found[0].replace(f"{number:08d}", f"{other:08d}")] = content["files"].pop(found[0])
        return None

    return change


TOTALS = ("documents", "tokens", "rejected", "infeasible", "infeasible_rejected", "with_gold", "gold_tokens")
MORE_TOTALS = ("correct_tokens", "measures", "measures_before", "changes", "relabelled", "certified", "gap_sum")

OF_MANIFESTS = (
    Forgery("an empty manifest", manifest(lambda m: m.update(files={}, places=[], shards=0)), of_document=False),
    Forgery("no shards", manifest(lambda m: m.update(places=[])), of_document=False),
    Forgery("no files", manifest(lambda m: m.update(files={})), of_document=False),
    Forgery("one shard less", manifest(lambda m: m["places"].pop() and None), of_document=False),
    Forgery("rows of a shard", manifest(lambda m: m["places"][0].update(rows=1)), of_document=False),
    Forgery("no predictions of a shard", manifest(_without(PREDICTIONS)), of_document=False),
    Forgery("no certificates of a shard", manifest(_without(CERTIFICATES)), of_document=False),
    Forgery("no rejects", manifest(_without(REJECTS)), of_document=False),
    Forgery(
        "a file too many", manifest(lambda m: m["files"].update({"predictions/x.parquet": "0"})), of_document=False
    ),
    Forgery("a shard more than there are", manifest(lambda m: m.update(shards=m["shards"] + 1)), of_document=False),
    Forgery("predictions of another shard", manifest(_renumbered(PREDICTIONS)), of_document=False),
    Forgery("rejects of another shard", manifest(_renumbered(REJECTS)), of_document=False),
    Forgery("lists by other names", manifest(lambda m: m.update(lists={f"{SHARD_LISTS}/x": ""})), of_document=False),
    Forgery("another corpus", manifest(lambda m: m.update(dataset="0" * 64)), of_document=False),
    Forgery("another model", manifest(lambda m: m["run"].update(model="0")), of_document=False),
    Forgery("other constraints", manifest(lambda m: m["run"].update(constraints="0")), of_document=False),
    Forgery("no rules", manifest(lambda m: m.pop("rules") and None), of_document=False),
    Forgery("one rule less", manifest(lambda m: m["rules"]["strengths"].pop() and None), of_document=False),
    Forgery("a rule that weighs less", manifest(_weight), of_document=False),
    Forgery("other local features", manifest(lambda m: m["rules"].update(local="0")), of_document=False),
    Forgery("another format", manifest(lambda m: m.update(format=1)), of_document=False),
    Forgery("no run", manifest(lambda m: m.pop("run") and None), of_document=False),
    Forgery("tolerance 1e5", manifest(_option("tolerance", 1e5)), of_document=False),
    Forgery("tolerance 0.1", manifest(_option("tolerance", 0.1)), of_document=False),
    Forgery("no tolerance", manifest(lambda m: m["run"]["settings"].update(options={"x": 1})), of_document=False),
    Forgery("no such engine", manifest(_setting("engine", "oracle")), of_document=False),
)
"""Every one of these is refused, whatever the run."""
OF_TOTALS = {
    name: Forgery(f"total {name}", manifest(_total(name)), of_document=False)
    for name in (*TOTALS, *MORE_TOTALS, "gap_max", "statuses", "constraints")
}
"""Every one of these is refused, too, by the total's name."""
