"""Drift of nights: how rare false alarms are, which changes are found, and what a comparison costs.

    python benchmarks/bench_drift.py [--nights 20000]

False alarms: shares of p-values up to a level, over nights that differ by chance alone ("documents", a skewed figure
with many zeros), and over nights that differ more than that (variance of the score 1 + excess, 20 nights known at
least). Power: shares of nights in which a change is beyond the threshold among 30 figures, where 60 earlier nights
differed by chance, or by an excess of 4.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from concord.workers.drift.chart import BREACH_LEVEL, EARLIER_NIGHTS, NightScore, p_value, rise

LEVELS = (0.05, 0.01, 0.001, 0.0001)
FIGURES = 30
KNOWN_DOCUMENTS = 3_000


def of_documents(nights: int, rng: np.random.Generator) -> list[NightScore]:
    """Scores of nights of 30 documents each, which are like all others."""
    others = skewed(KNOWN_DOCUMENTS, rng)
    return [rise(skewed(30, rng), others) for _ in range(nights)]


def skewed(documents: int, rng: np.random.Generator) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """A figure of which four of five documents have nothing."""
    return rng.lognormal(size=documents) * (rng.random(documents) < 0.2)


def of_nights(nights: int, excess: float, rng: np.random.Generator) -> list[NightScore]:
    """Scores of nights that differ by more than their documents do by chance."""
    return [NightScore(float(z), 30.0) for z in rng.normal(scale=np.sqrt(1 + excess), size=nights)]


def false_alarms(name: str, scores: list[NightScore]) -> None:
    """Prints a row: shares of the p-values of nights up to each level."""
    found = [p_value(score, scores[max(0, i - EARLIER_NIGHTS) : i]) for i, score in enumerate(scores)][20:]
    shares = " | ".join(f"{(np.array(found) <= level).mean():.5f}" for level in LEVELS)
    print(f"| {name} | {len(found):,} | {shares} |")


def power(rng: np.random.Generator, tries: int = 200) -> None:
    """Prints a table: how often a change of the share of unknown words, from 2 %, is told in its first night."""
    print("\n| unknown words | documents | told | told, excess 4 |\n| --- | --- | --- | --- |")
    known = rng.beta(2, 98, size=KNOWN_DOCUMENTS)
    for share in (0.02, 0.03, 0.04, 0.06, 0.1):
        for documents in (10, 30, 100):
            told = []
            for excess in (0.0, 4.0):
                earlier = of_nights(EARLIER_NIGHTS, excess, rng)
                scores = [rise(rng.beta(100 * share, 100 * (1 - share), documents), known) for _ in range(tries)]
                # The nights before had 30 documents each; the excess grows with a night's size.
                told.append(np.mean([FIGURES * p_value(score, earlier) <= BREACH_LEVEL for score in scores]))
            print(f"| 2 % → {share:.0%} | {documents} | {told[0]:.1%} | {told[1]:.1%} |")


def main() -> None:
    """Prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nights", type=int, default=20_000)
    nights, rng, started = parser.parse_args().nights, np.random.default_rng(0), time.process_time()
    print(f"| nights that differ | nights | {' | '.join(f'p ≤ {level:g}' for level in LEVELS)} |")
    print(f"| --- | --- | {' | '.join('---' for _ in LEVELS)} |")
    false_alarms("by chance (documents)", of_documents(nights, rng))
    for excess in (0.3, 1.0, 4.0, 25.0):
        false_alarms(f"more, excess {excess:g}", of_nights(nights, excess, rng))
    power(rng)
    print(f"\n{time.process_time() - started:.0f} CPU s; a figure is beyond its threshold at p ≤ {BREACH_LEVEL:.2g}")


if __name__ == "__main__":
    main()
