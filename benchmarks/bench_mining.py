"""Mined rules: the development citations under rules mined from the 300 training citations, against the shipped ones.

Token accuracy of Viterbi, and of certify under the shipped constraints, all mined rules, both together, mined
rules at half their weights, and each kind of them alone. The rules are counted in process: `concord constraints mine`
gives the same for any number of workers.

    python benchmarks/bench_mining.py
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Any

import common
import numpy as np
from bench_citations import decode
from problems import Citations, citation_task, citations

from schemas.document import Batch
from workers.constraints.declared import DeclaredConstraints
from workers.learning.mining import MiningSettings, Rule, candidates, declared, in_documents, kept_of, significant
from workers.learning.penalties import PENALTIES, OddsSettings, count_rows, with_weights
from workers.learning.rule_counts import Kind, RuleCounts

KINDS = (
    *(Kind.STARTS, Kind.ENDS, Kind.FOLLOWED, Kind.APART, Kind.ORDER),
    *(Kind.CHANGES, Kind.ONCE, Kind.THERE, Kind.NEEDS),
)


def weighed(found: Citations, rules: Sequence[Rule], *, scale: float = 1.0) -> DeclaredConstraints:
    """The rules with the weights that a mined file has, times ``scale``."""
    constraints = declared(rules, found.model.labels)
    degrees = count_rows(constraints, [Batch.of(found.train)], found.model.labels)
    odds, chosen = PENALTIES["odds"], OddsSettings()
    weights = {rule.name: scale * in_documents(rule, degrees[rule.name].degree).weight(odds, chosen) for rule in rules}
    return with_weights(constraints, weights)


def interval(right: np.ndarray, base: np.ndarray, *, draws: int = 10_000) -> tuple[float, float]:
    """95 % of the difference of two accuracies under resampled documents; both (D, 2), right tokens and tokens."""
    at = np.random.default_rng(0).integers(len(right), size=(draws, len(right)))
    gain = (right[at, 0] - base[at, 0]).sum(axis=1) / right[at, 1].sum(axis=1)
    low, high = np.quantile(gain, [0.025, 0.975]).tolist()
    return low, high


def main() -> None:
    """Prints and saves all figures."""
    found, settings = citations(), MiningSettings(kinds=KINDS)
    started = time.process_time()
    counts = RuleCounts.of(Batch.of(found.train), found.model.labels, orders=settings.orders, seed=0)
    every = candidates(counts, found.model.labels)
    passing = significant(every, settings)
    rules = kept_of(passing, settings)
    seconds = time.process_time() - started
    new = [rule for rule in rules if rule.name not in found.constraints.titles]
    sets: dict[str, DeclaredConstraints | None] = {
        "none (Viterbi)": None,
        "shipped": found.constraints,
        "mined": weighed(found, rules),
        "shipped and mined": DeclaredConstraints((*found.constraints.templates, *weighed(found, new).templates)),
    }
    sets["mined, half the weights"] = weighed(found, rules, scale=0.5)
    kinds = [kind for kind in Kind if any(rule.kind is kind for rule in rules)]
    sets |= {f"mined, {kind} alone": weighed(found, [r for r in rules if r.kind is kind]) for kind in kinds}
    base, rows = None, list[dict[str, Any]]()
    for name, constraints in sets.items():
        task = citation_task(found, constraints)  # without a set: the shipped one, which Viterbi does not see
        measured = decode(task, "viterbi" if constraints is None else "certify")
        pairs = zip(measured.decoded, task.gold, strict=True)
        right = np.array([[int((d.labels == g).sum()), len(g)] for d, g in pairs])
        base = right if base is None else base
        low, high = interval(right, base)
        rows.append(
            {
                "constraints": name,
                "rules": 0 if constraints is None else len(constraints.names),
                "accuracy": measured.accuracy(task),
                "gain, low": low,
                "gain, high": high,
                "certified": sum(d.certified for d in measured.decoded),
                "milliseconds, median": float(np.median(measured.milliseconds)),
                "milliseconds, largest": max(measured.milliseconds),
            }
        )
        print(
            "{constraints:32} {rules:3} rules, accuracy {accuracy:.4f}, gain {gain, low:+.4f} to {gain, high:+.4f}, "
            "{certified} certified, {milliseconds, median:.1f} ms, at most {milliseconds, largest:.0f}".format(
                **rows[-1]
            )
        )
    common.save(
        "mining",
        {
            "corpus": found.name,
            "training citations": len(found.train),
            "candidates": len(every),
            "significant": len(passing),
            "kept": len(rules),
            "by kind": {kind: sum(rule.kind is kind for rule in rules) for kind in kinds},
            "CPU seconds to mine": math.ceil(10.0 * seconds) / 10.0,
            "accuracy": rows,
        },
    )


if __name__ == "__main__":
    main()
