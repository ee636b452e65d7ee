"""Draws docs/demo.png from the output of `make demo`: what agreement does to one document, and to the scores."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from concord.flows.commands.examples import mended_name
from concord.flows.labelling.evaluate import evaluate
from concord.schemas.columns import DOC_ID, LABELS, PREDICTIONS_LAYOUT, VITERBI_LABELS
from concord.schemas.document import Document
from concord.schemas.reports import MeasureReport
from concord.workers.corpus.parquet import read_tables
from concord.workers.corpus.plan import plan
from concord.workers.corpus.shards import read_batch

DEMO = Path("demo")
COLOURS = {"PER": "#4477aa", "LOC": "#228833", "ORG": "#ee6677", "MISC": "#ccbb44", "O": "#dddddd"}
NAMES = 6


def main() -> None:
    """Writes docs/demo.png."""
    mpl.rcParams |= {"font.size": 9, "axes.spines.top": False, "axes.spines.right": False}
    figure = Figure(figsize=(10, 3.8), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(3, 2))
    _draw_document(left)
    _draw_scores(right)
    figure.savefig("docs/demo.png", dpi=130)


def _draw_document(axes: Axes) -> None:
    found = mended_name(DEMO / "out-certify", DEMO / "test")
    assert found is not None, "the demonstration mended nothing"
    document = next(d for s in plan(DEMO / "test") for d in read_batch(s)[0] if d.doc_id == found.doc_id)
    row = next(
        r
        for t in read_tables(DEMO / "out-certify", PREDICTIONS_LAYOUT)
        for r in t.to_pylist()
        if r[DOC_ID] == found.doc_id
    )
    assert document.labels is not None
    labellings = {"Viterbi": row[VITERBI_LABELS], "joint": row[LABELS], "gold": document.labels.strings()}
    place = 0
    ticks: list[float] = []
    names: list[str] = []
    for name, mentions in _names(document):
        for k, labels in enumerate(labellings.values()):
            for i, t in enumerate(mentions):
                colour = COLOURS[labels[t].removeprefix("B-").removeprefix("I-")]
                axes.add_patch(Rectangle((i, -place - k), 0.9, 0.85, color=colour))
        ticks.append(-place - 0.6)
        names.append(name)
        place += 4
    axes.set(xlim=(-0.2, 1 + max(len(m) for _, m in _names(document))), ylim=(-place + 0.6, 1.4), xlabel="mention")
    axes.set_yticks(ticks, names)
    axes.set_xticks([])
    axes.set_title("one document: each name's mentions\n(three rows a name: Viterbi, joint, gold)", loc="left")
    handles = [Rectangle((0, 0), 1, 1, color=c) for c in COLOURS.values()]
    axes.legend(handles, list(COLOURS), ncols=1, frameon=False, loc="lower right")


def _names(document: Document) -> list[tuple[str, list[int]]]:
    """One-word names by how often the document mentions them."""
    assert document.labels is not None
    gold, words = document.labels.strings(), document.tokens
    places: dict[str, list[int]] = defaultdict(list)
    for t, label in enumerate(gold):
        alone = t + 1 == len(gold) or not gold[t + 1].startswith("I-")
        if label.startswith("B-") and alone:
            places[words[t]].append(t)
    return sorted(places.items(), key=lambda item: (-len(item[1]), item[0]))[:NAMES]


def _draw_scores(axes: Axes) -> None:
    folders = [DEMO / f"out-{name}" for name in ("viterbi", "gibbs", "certify")]
    results = {f.name.removeprefix("out-"): _entities(f) for f in folders if f.is_dir()}
    types = [*next(iter(results.values())).names, "all"]
    width = 0.8 / len(results)
    for k, (engine, report) in enumerate(results.items()):
        scores: list[Any] = [100 * report.names[name].f1 for name in types[:-1]]
        bars = axes.bar(
            [i + k * width for i in range(len(types))], [*scores, 100 * report.figures["f1"]], width, label=engine
        )
        axes.bar_label(bars, fmt="%.0f", fontsize=7)
    axes.set_xticks([i + 0.4 - width / 2 for i in range(len(types))], types)
    axes.set(ylim=(60, 103), ylabel="entity F1, per cent")
    axes.set_title("the made-up test corpus of make demo", loc="left")
    axes.legend(ncols=len(results), frameon=False, loc="upper left")


def _entities(run: Path) -> MeasureReport:
    return evaluate(str(run), str(DEMO / "test")).report.measures["spans"]


if __name__ == "__main__":
    main()
