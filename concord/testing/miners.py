"""Contract tests of methods of mining, on a made-up corpus of citations."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any

from concord.schemas.document import Batch, Document
from concord.schemas.labels import LabelSet
from concord.testing.expect import expect, expect_same
from concord.workers.learning.mining.miner import Counting, MinedRules, Miner, MiningTask, mined
from concord.workers.learning.search.folds import first_held_out
from concord.workers.synthesis.made_up import synthesize


def check_miner(miner: Miner) -> None:
    """Checks the promises of a method, with its default settings. Raises `AssertionError` at a broken promise."""
    documents = list(synthesize(120, seed=0, kind="citations"))
    labels = Batch.of(documents).labels
    assert labels is not None
    names = LabelSet.infer(sorted(set(labels.strings())))
    task = MiningTask(names, miner.settings(), 0)
    whole = _mined(miner, task, [documents])
    parts = _mined(miner, task, [documents[:50], [], documents[50:51], documents[51:]])
    expect_same(_without_constraints(parts), _without_constraints(whole), "rules of a corpus in one part and in four")
    expect_same(parts.constraints.digest, whole.constraints.digest, "constraints of a corpus in one part and in four")
    _every_rule_is_a_constraint(whole, names)
    _counts_add_up(whole, documents)
    nothing = _mined(miner, task, [])
    expect(not nothing.rules and not nothing.documents, "no document gives no rule")


def _mined(miner: Miner, task: MiningTask, parts: Sequence[Sequence[Document]]) -> MinedRules:
    """The rules of a corpus whose parts are counted one by one, as workers do."""

    def count(counting: Counting) -> Any:
        sent: Counting = pickle.loads(pickle.dumps(counting))  # noqa: S301
        before_held_out, counts = first_held_out(sum(map(len, parts)), sent.held_out), []
        for part in parts:
            counts.append(sent.of_batch(Batch.of(part), first=max(0, before_held_out), rejected=0))
            before_held_out -= len(part)
        return sent.merge(counts)

    return mined(miner, task, count)


def _without_constraints(result: MinedRules) -> dict[str, Any]:
    """The result but for the constraints, which are compared by their digest."""
    return result._asdict() | {"constraints": None}


def _every_rule_is_a_constraint(result: MinedRules, labels: LabelSet) -> None:
    """Constraints and rules have the same names, and the constraints fit the labels."""
    names = [rule.name for rule in result.rules]
    expect_same(list(result.constraints.titles), names, "names of the constraints and of the rules")
    result.constraints.bind(labels)


def _counts_add_up(result: MinedRules, documents: Sequence[Document]) -> None:
    """All documents are counted, and no rule binds in more."""
    expect_same(result.documents, len(documents), "documents read")
    expect_same(result.with_gold, len(documents), "documents with gold labels")
    expect(len(result.rules) <= result.significant <= result.candidates, "rules ≤ significant ones ≤ candidates")
    for rule in result.rules:
        expect(0 <= rule.broken <= rule.n <= len(documents), f"{rule.name}: broken ≤ n ≤ all documents")
        expect(0.0 <= rule.p <= 1.0 and 0.0 <= rule.chance <= 1.0, f"{rule.name}: p and chance are probabilities")
