"""Mining by logic beside mining by counting: clauses of Cora's and us50's training parts, and what they are worth.

How many clauses are learned, proven to cost least, beyond chance in the held-out documents, and said by a constraint;
CPU seconds; and token accuracy of certify on the development parts under counted rules, clauses, and both, with 95 % of
10,000 draws of documents. Rules, clauses and weights are of the training documents alone, with the settings that the
command has. Cora's model is a CRF of the features ``fields`` by CRFsuite, that of us50 one of ``fersini`` by `lbfgs`.
Mined in process: `concord constraints mine` gives the same for any number of workers. Needs the real corpora.

    python benchmarks/bench_logic.py
"""

from __future__ import annotations

import itertools
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from bench_mining import KINDS as KINDS_COUNTED
from common import save
from corpora import documents_of
from mined import mined, weighed
from problems import citations, decode, ground

from concord.schemas.decoded import Status
from concord.schemas.document import Batch, Document
from concord.schemas.labels import LabelSet
from concord.workers.constraints.declared import DeclaredConstraints
from concord.workers.constraints.declared_weights import with_weights
from concord.workers.constraints.templates.registry import TEMPLATES
from concord.workers.learning.mining.logic.clauses import ClauseCounts, OpeningCounts
from concord.workers.learning.mining.logic.kept import TriedClause, WrittenClauses, kept_clauses, tried, written
from concord.workers.learning.mining.logic.openings import names_of, part_of
from concord.workers.learning.mining.logic.search import LogicSettings, clauses_of
from concord.workers.learning.mining.rules import MiningSettings, in_documents, passing
from concord.workers.learning.trainers.registry import trainer_named
from concord.workers.learning.weights.penalties import COUNTED
from concord.workers.learning.weights.row_counts import count_rows
from concord.workers.models.model import Model

COST = COUNTED["odds"]


class Clauses(NamedTuple):
    """What mining by logic found, and the figures that say how."""

    kept: WrittenClauses
    constraints: DeclaredConstraints
    figures: dict[str, Any]


def clauses_from(documents: Sequence[Document], labels: LabelSet) -> Clauses:
    """As `concord constraints mine --method logic` finds and weighs them."""
    settings, batch, started = LogicSettings(), Batch.of(documents), time.process_time()
    samples = OpeningCounts.of(batch, labels, held_out=settings.held_out_share)
    found = list(clauses_of(samples, names_of(labels), settings, seed=0))
    searched = time.process_time()
    heads = [one.clause for one in found]
    counts = ClauseCounts.of(batch, labels, heads, held_out=settings.held_out_share, orders=settings.orders, seed=0)
    every = tried(found, counts)
    beyond_chance = passing(every, settings)
    kept = written(kept_clauses(beyond_chance, settings), labels)
    rows = count_rows(kept.constraints, [part_of(batch, settings.held_out_share, held_out=True)], labels)
    weights = {one.name: in_documents(one, rows[one.name].degree).weight(COST, COST.settings()) for one in kept.clauses}
    figures = {
        "learned from": samples.learned,
        "held out": counts.tried,
        "runs": int(samples.counts.sum()),
        "distinct": len(samples.counts),
        "clauses": len(found),
        "proven to cost least": sum(one.proven for one in found),
        "beyond chance": len(beyond_chance),
        "kept": len(kept.clauses) + len(kept.unsaid),
        "said": len(kept.clauses),
        "CPU seconds": round(time.process_time() - started, 1),
        "CPU seconds of CP-SAT": round(searched - started, 1),
        "rules": [_shown(one) | {"template": TEMPLATES.name_of(type(t))} for one, t in _paired(kept)],
        "unsaid": [_shown(one) | {"reason": reason} for one, reason in kept.unsaid],
    }
    return Clauses(kept, with_weights(kept.constraints, weights), figures)


def _paired(kept: WrittenClauses) -> Sequence[tuple[TriedClause, Any]]:
    return list(zip(kept.clauses, kept.constraints.templates, strict=True))


def _shown(one: TriedClause) -> dict[str, Any]:
    return {"clause": one.name, "n": one.n, "broken": one.broken, "chance": round(one.chance, 4)}


def rules_from(documents: Sequence[Document], labels: LabelSet) -> DeclaredConstraints:
    """Counted rules of the kinds that `bench_mining.py` has, with their weights."""
    rules = mined(documents, labels, MiningSettings(kinds=KINDS_COUNTED))
    return weighed(rules, [Batch.of(documents)], labels)


def together(rules: DeclaredConstraints, clauses: DeclaredConstraints) -> DeclaredConstraints:
    """Both, what both say once."""
    said = {t.model_copy(update={"name": None, "weight": 0.0}) for t in rules.templates}
    new = [t for t in clauses.templates if t.model_copy(update={"name": None, "weight": 0.0}) not in said]
    return DeclaredConstraints((*rules.templates, *new))


def interval(right: np.ndarray, base: np.ndarray, *, draws: int = 10_000) -> tuple[float, float]:
    """95 % of the difference of two accuracies under resampled documents; both (D, 2), right tokens and tokens."""
    at = np.random.default_rng(0).integers(len(right), size=(draws, len(right)))
    gain = (right[at, 0] - base[at, 0]).sum(axis=1) / right[at, 1].sum(axis=1)
    low, high = np.quantile(gain, [0.025, 0.975]).tolist()
    return low, high


def measured(name: str, model: Model, train: Sequence[Document], dev: Sequence[Document]) -> dict[str, Any]:
    """All figures of a corpus."""
    clauses, rules = clauses_from(train, model.labels), rules_from(train, model.labels)
    print({name: figure for name, figure in clauses.figures.items() if not isinstance(figure, list)}, flush=True)
    sets = {
        "none": DeclaredConstraints(()),
        "counting": rules,
        "logic": clauses.constraints,
        "both": together(rules, clauses.constraints),
    }
    right, rows = dict[str, np.ndarray](), list[dict[str, Any]]()
    for title, constraints in sets.items():
        task, started = ground(name, model, dev, constraints), time.process_time()
        found = decode(task, "certify" if constraints.names else "viterbi")
        pairs = zip(found.decoded, task.gold, strict=True)
        right[title] = np.array([(int((one.labels == gold).sum()), len(gold)) for one, gold in pairs])
        rows.append(
            {
                "constraints": title,
                "rules": len(constraints.names),
                "accuracy": found.accuracy(task),
                "unfinished": sum(one.status is Status.TIMEOUT for one in found.decoded),
                "CPU seconds": round(time.process_time() - started, 1),
            }
        )
        print(rows[-1], flush=True)
    gains = [
        {"from": a, "to": b, "low": low, "high": high}
        for a, b in itertools.combinations(sets, 2)
        for low, high in [interval(right[b], right[a])]
    ]
    return clauses.figures | {"accuracy": rows, "gains": gains}


def main() -> None:
    """Measures both corpora."""
    cora, train, dev = citations(), documents_of("addresses"), documents_of("addresses-dev")
    trainer = trainer_named("lbfgs")
    with tempfile.TemporaryDirectory() as folder:
        settings = trainer.settings.model_validate({"features": "fersini"})
        model = trainer.train(train, settings=settings, out=Path(folder) / "model")
    figures = {
        cora.name: measured(cora.name, cora.model, cora.train, cora.dev),
        "us50 dev": measured("us50 dev", model, train, dev),
    }
    save("logic", {"corpora": figures})


if __name__ == "__main__":
    main()
