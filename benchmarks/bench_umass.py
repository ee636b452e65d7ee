"""Nested citations under mined rules: field F1 of a CRF, and under what the training citations say of their fields.

A label is a path of fields, such as authors/person/person-last, and a field a run of one path. Everything is of the
training part of the UMass citations: the feature set by cross-validation, the CRF, the rules, what they cost, and how
penalties are learned. The development part is labelled by the CRF alone, under mined rules with weights that are
counted, and with penalties that are learned; the intervals are those of a paired bootstrap over citations. The rules
are counted in process: `concord constraints mine` gives the same for any number of workers.

Anzaroot, Passos, Belanger & McCallum (2014) measure another part: CRF 94.41, with soft constraints whose penalties are
learned 95.39, which are 17.9 % fewer errors. Needs the real citations.

    python benchmarks/bench_umass.py
"""

from __future__ import annotations

import json
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from common import MADE, save
from corpora import documents_of
from mined import weighed

from concord.schemas.decoded import Decoded
from concord.schemas.document import Batch, Document
from concord.schemas.labels import Labels
from concord.workers.constraints.constraint_set import build_problems
from concord.workers.constraints.declared import DeclaredConstraints
from concord.workers.constraints.declared_weights import with_weights
from concord.workers.evaluation.bootstrap import paired_bootstrap
from concord.workers.evaluation.figures import f1_of_counts
from concord.workers.evaluation.measures import Pair, spans
from concord.workers.evaluation.named_counts import Counts
from concord.workers.inference.registry import Decoder
from concord.workers.learning.mining.rule_counts import RuleCounts, RuleKind
from concord.workers.learning.mining.rules import MiningSettings, Rule, candidates, declared, kept_of, significant
from concord.workers.learning.search.trials import Trial
from concord.workers.learning.trainers.registry import DEFAULT, trainer_named
from concord.workers.learning.trainers.selection import cross_validated
from concord.workers.learning.weights.learned_weights import LearnedWeights, PassDone, learn_weights
from concord.workers.learning.weights.penalties import LearnedSettings
from concord.workers.learning.weights.unseen import Unseen
from concord.workers.models.model import Model

FEATURES = ("fields", "core", "fields+mentions", "fields+seen")
FOLDS = 5
TOGETHER = 50
KINDS = (
    *(RuleKind.STARTS, RuleKind.ENDS, RuleKind.FOLLOWED, RuleKind.APART, RuleKind.TOGETHER),
    *(RuleKind.CHANGES, RuleKind.STOPS, RuleKind.ONCE, RuleKind.THERE),
)
"""Kinds whose rules are quick to keep to: a pass over the citations under all kinds takes over ten times as long."""

MINING = MiningSettings(kinds=KINDS, held=0.8, support=5)
LEARNING = LearnedSettings(passes=30)
PUBLISHED = {"alone": 0.9441, "learned": 0.9539, "fewer errors": 0.179}


class Labelled(NamedTuple):
    """Fields (D, 3) gold, predicted and correct of the development citations, how many are proven, and CPU seconds."""

    counts: Counts
    certified: int
    seconds: float


def main() -> None:
    """Trains, mines, learns, labels and compares."""
    train, dev = documents_of("nested-citations"), documents_of("nested-citations-dev")
    trials = _trials(train)
    trainer, features = trainer_named(DEFAULT), max(trials, key=lambda name: trials[name])
    settings = trainer.settings.model_validate({"features": features})
    with tempfile.TemporaryDirectory() as folder:
        model = trainer.train(train, settings=settings, out=Path(folder) / "model")
    started = time.process_time()
    counts = RuleCounts.of(Batch.of(train), model.labels, orders=MINING.orders, seed=0)
    every = candidates(counts, model.labels)
    passing = significant(every, MINING)
    rules = kept_of(passing, MINING)
    mined = time.process_time()
    learned = _learned(Unseen.of(train, trainer.train, settings, FOLDS), declared(rules, model.labels))
    seconds = {"mine": mined - started, "learn": time.process_time() - mined}
    alone = _labelled(dev, model, declared([], model.labels))
    under = {"counted": weighed(rules, _batches(train), model.labels), "learned": _with(learned, rules, model)}
    save(
        "umass",
        {
            "command": "python benchmarks/bench_umass.py",
            "features": features,
            "F1 by cross-validation": trials,
            "candidates": len(every),
            "candidates by kind": Counter(str(rule.kind) for rule in every),
            "significant": len(passing),
            "rules": len(rules),
            "rules by kind": Counter(str(rule.kind) for rule in rules),
            "rules with a learned penalty": len(under["learned"].names),
            "rate": learned.rate,
            "passes": learned.passes,
            "scale": learned.scale,
            "stopped": learned.stopped,
            "halves of the training citations": [learned.before, learned.after, *dict(learned.gain).values()],
            "heaviest": dict(sorted(learned.weights.items(), key=lambda named: -named[1])[:20]),
            "CPU seconds": seconds,
            "alone": _f1(alone.counts),
            "rows": [_row(name, _labelled(dev, model, given), alone) for name, given in under.items()],
            "published, on another part": PUBLISHED,
        },
    )


def _trials(train: Sequence[Document]) -> dict[str, float]:
    """F1 of feature sets by cross-validation on the training citations, made once."""
    kept, trainer = MADE / "umass-features.json", trainer_named(DEFAULT)
    if not kept.is_file():
        given = {name: trainer.settings.model_validate({"features": name}) for name in FEATURES}
        found = {
            n: Trial(s, cross_validated(train, trainer.train, s, folds=FOLDS), f1_of_counts).value
            for n, s in given.items()
        }
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text(json.dumps(found))
    trials: dict[str, float] = json.loads(kept.read_text())
    return trials


def _learned(unseen: Unseen, rules: DeclaredConstraints) -> LearnedWeights:
    def told(done: PassDone) -> None:
        there = "all citations" if done.figure is None else f"halves {done.figure:.2%}"
        print(f"rate {done.rate:g}, pass {done.passes}: {there}", flush=True)

    return learn_weights(unseen, rules, LEARNING, progress=told)


def _with(learned: LearnedWeights, rules: Sequence[Rule], model: Model) -> DeclaredConstraints:
    """The rules that got a penalty."""
    kept = [rule for rule in rules if learned.weights[rule.name] > 0.0]
    return with_weights(declared(kept, model.labels), learned.weights)


def _labelled(documents: Sequence[Document], model: Model, constraints: DeclaredConstraints) -> Labelled:
    decoder, started, found = Decoder.of("certify"), time.process_time(), list[Decoded]()
    for part in _batches(documents):
        problems = build_problems(part, model.potentials(part), model.labels, constraints)
        found += [decoder(problem, doc_id) for problem, doc_id in zip(problems, part.doc_ids, strict=True)]
    seconds, batch = time.process_time() - started, Batch.of(documents)
    labels: Labels = np.concatenate([decoded.labels for decoded in found])
    assert batch.labels is not None
    pair = Pair(batch, model.labels, model.labels.encode(batch.labels.strings()), labels)
    return Labelled(spans(pair).by_document().sum(axis=1), sum(d.certified for d in found), seconds)


def _batches(documents: Sequence[Document]) -> Iterator[Batch]:
    """Few at a time: the rows of all would not fit into memory."""
    for first in range(0, len(documents), TOGETHER):
        yield Batch.of(documents[first : first + TOGETHER])


def _f1(counts: Counts) -> float:
    gold, predicted, correct = counts.sum(axis=0).tolist()
    return float(2.0 * correct / (gold + predicted))


def _row(name: str, under: Labelled, alone: Labelled) -> dict[str, Any]:
    """Field F1, the gain over the CRF alone, and the share of its errors that are gone."""
    gain = paired_bootstrap(alone.counts, under.counts, rng=np.random.default_rng(0))
    row: dict[str, Any] = {
        "penalties": name,
        "f1": _f1(under.counts),
        "low": gain.low,
        "high": gain.high,
        "fewer errors": gain.difference / (1.0 - _f1(alone.counts)),
        "citations": len(under.counts),
        "certified": under.certified,
        "CPU seconds": under.seconds,
    }
    print(
        "{penalties}: {f1:.2%} ({low:+.2%} to {high:+.2%}), {fewer errors:.1%} fewer errors".format(**row), flush=True
    )
    return row


if __name__ == "__main__":
    main()
