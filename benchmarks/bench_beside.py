"""What 25 published rules gain on citations beside two trainers: by the scale of scores, or by the errors left?

Cora's training citations by five folds (each scored by a model of the others) and its development citations, by models
of the features ``fields``: token accuracy of Viterbi, and certified under
`workers/published/tables/constraints/citations.yaml` with its weights times some factors; certified under the same
constraints with learned weights; the temperature under which gold of the folds is likeliest (1: the scores are nats as
they stand), and how many wrong tokens stand in answers that break
a constraint that gold keeps: no other ones can a constraint see. Needs the real citations.

    python benchmarks/bench_beside.py
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from common import save
from corpora import documents_of
from problems import CITATION_CONSTRAINTS
from scipy.special import logsumexp

from concord.schemas.arrays import Floats
from concord.schemas.document import Batch, Document
from concord.schemas.labels import Labels, LabelSet
from concord.schemas.potentials import Potentials
from concord.schemas.problem import Problem
from concord.workers.constraints.constraint_file import load_constraints
from concord.workers.constraints.constraint_set import build_problems
from concord.workers.constraints.declared import DeclaredConstraints
from concord.workers.constraints.declared_weights import with_weights
from concord.workers.evaluation.bootstrap import paired_bootstraps
from concord.workers.evaluation.figures import recall
from concord.workers.evaluation.named_counts import Counts
from concord.workers.inference.registry import Decoder
from concord.workers.learning.trainers.registry import trainer_named
from concord.workers.learning.trainers.trainer import gold_of
from concord.workers.learning.weights.learned_weights import learn_weights
from concord.workers.learning.weights.penalties import LearnedSettings
from concord.workers.learning.weights.unseen import Unseen

TRAINERS = ("lbfgs", "sgd")
FACTORS = (0.5, 1.0, 2.0, 4.0)
SHARES = (0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2)
"""1 / T that are tried."""

LEARNING = LearnedSettings(passes=30, measure="labels", figure="accuracy")
DRAWS = 10_000


class Scored(NamedTuple):
    """Documents with scores of a model that has not seen them, and gold labels."""

    documents: Sequence[Document]
    potentials: Sequence[Potentials]
    labels: LabelSet

    def gold(self) -> list[Labels]:
        """(n,) of each document."""
        return [self.labels.encode(gold_of(document)) for document in self.documents]

    def problems(self, constraints: DeclaredConstraints) -> Iterator[tuple[Problem, str]]:
        """With the constraints, and the document's id."""
        size = len(self.labels)
        for document, own in zip(self.documents, self.potentials, strict=True):
            batch = Batch.of([document])
            nothing = Potentials(np.zeros((len(document), size)), np.zeros((size, size)), batch.sentence_starts)
            (problem,) = build_problems(batch, nothing, self.labels, constraints.bind(self.labels))
            local = problem.potentials
            both = Potentials(own.unary + local.unary, own.transition + local.transition, own.sentence_starts)
            yield replace(problem, potentials=both), document.doc_id

    def answers(self, constraints: DeclaredConstraints, engine: str, factor: float = 1.0) -> list[Labels]:
        """Under the weights times a factor."""
        decoder, found = Decoder.of(engine), []
        for problem, doc_id in self.problems(constraints):
            rows = replace(problem.rows, weight=problem.rows.weight * factor)
            found.append(decoder(replace(problem, rows=rows), doc_id).labels)
        return found

    def counts(self, answers: Sequence[Labels]) -> Counts:
        """(D, 1, 3) tokens in gold, labelled, and right."""
        rows = [(len(own), len(own), int((one == own).sum())) for one, own in zip(answers, self.gold(), strict=True)]
        return np.array(rows, np.int64)[:, None, :]

    def loss(self, share: float) -> float:
        """−log p(gold) in nats a token, where every score is multiplied by a share."""
        lost = [_lost(p, gold, share) for p, gold in zip(self.potentials, self.gold(), strict=True)]
        return sum(lost) / sum(map(len, self.documents))

    def in_sight(self, answers: Sequence[Labels], constraints: DeclaredConstraints) -> dict[str, int]:
        """Wrong tokens, and those of documents in which the answer breaks a constraint that gold keeps."""
        wrong, seen, documents = 0, 0, 0
        for (problem, _), answer, gold in zip(self.problems(constraints), answers, self.gold(), strict=True):
            broken, kept = (set(problem.rows.constraint[problem.rows.degree(one) > 0]) for one in (answer, gold))
            own = int((answer != gold).sum())
            wrong += own
            if broken - kept:
                seen, documents = seen + own, documents + 1
        return {"wrong": wrong, "in sight": seen, "documents": documents}


def _lost(potentials: Potentials, gold: Labels, share: float) -> float:
    """−log p(gold) of a document's only sentence."""
    assert len(potentials.sentence_starts) == 1
    unary, transition = share * potentials.unary, share * potentials.transition
    before: Floats = unary[0]
    for row in unary[1:]:
        before = logsumexp(before[:, None] + transition, axis=0) + row
    scored = unary[np.arange(len(gold)), gold].sum() + transition[gold[:-1], gold[1:]].sum()
    return float(logsumexp(before) - scored)


def main() -> None:
    """Measures both trainers."""
    train, dev = documents_of("citations"), documents_of("citations-dev")
    constraints = load_constraints(CITATION_CONSTRAINTS)
    figures = {name: _measured(name, train, dev, constraints) for name in TRAINERS}
    save("beside", {"command": "python benchmarks/bench_beside.py", "trainers": figures})


def _measured(
    name: str, train: Sequence[Document], dev: Sequence[Document], constraints: DeclaredConstraints
) -> dict[str, Any]:
    trainer = trainer_named(name)
    settings = trainer.settings.model_validate({"features": "fields"})
    unseen = Unseen.of(train, trainer.train, settings, LEARNING.folds)
    with tempfile.TemporaryDirectory() as folder:
        model = trainer.train(train, settings=settings, out=Path(folder) / "model")
    scored = [model.potentials(Batch.of([document])).legal(model.labels) for document in dev]
    parts = {
        "folds": Scored(train, unseen.potentials, unseen.labels),
        "dev": Scored(dev, scored, model.labels),
    }
    found = learn_weights(unseen, constraints.bind(unseen.labels), LEARNING)
    kept = [title for title in constraints.titles if found.weights.get(title) != 0.0]
    learned = with_weights(constraints.only(kept), found.weights)
    halves = {"before": found.before, "after": found.after, "low": found.gain.low, "high": found.gain.high}
    figures: dict[str, Any] = {"learned weights on halves of the training citations": halves}
    for part, own in parts.items():
        alone = own.answers(constraints.only([]), "viterbi")
        rows = {f"x {factor:g}": own.answers(constraints, "certify", factor) for factor in FACTORS}
        if part == "dev":
            rows["learned"] = own.answers(learned, "certify")
        base = own.counts(alone)
        figures[part] = {
            "viterbi": float(recall(base.sum(axis=0))),
            "temperature": 1.0 / min(SHARES, key=own.loss),
            **own.in_sight(alone, constraints),
            "certified": {label: _row(base, own.counts(answers)) for label, answers in rows.items()},
        }
        print(name, part, json.dumps(figures[part]), flush=True)
    return figures


def _row(base: Counts, counts: Counts) -> dict[str, float]:
    gain = paired_bootstraps(base, counts, {"": recall}, rng=np.random.default_rng(0), draws=DRAWS)[""]
    return {"accuracy": float(recall(counts.sum(axis=0))), "gain": gain.difference, "low": gain.low, "high": gain.high}


if __name__ == "__main__":
    main()
