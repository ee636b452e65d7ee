"""Mined rules on documents that had no part in finding, weighing and judging them: nested cross-validation.

Each corpus is cut into parts. For each part the others are what `concord constraints mine` is given: rules that hold
are mined there with counted weights, and those that help are judged there, by models and folds of these documents
alone. A model of the same documents then labels the part that was left out, without rules, under all that hold, and
under those that help. The gain is that of all parts together, with 95 % of 10,000 draws of documents. Of us50 one part
is learned from and the four others are labelled, since its training part has 51 addresses. Large corpora are cut to
their first documents. Rules are mined in process: the command finds the same for any number of workers. Needs the real
corpora.

    python benchmarks/bench_mining.py
    python benchmarks/bench_mining.py --corpora "Cora" "us50"
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from common import known_figures, save
from corpora import documents_of

from concord.flows.training.judging import AsTrained, judged_beside
from concord.schemas.audit import JudgementReport
from concord.schemas.decoded import Budget
from concord.schemas.document import Batch, Document
from concord.schemas.labels import LabelSet
from concord.workers.constraints.constraint_set import build_problems
from concord.workers.constraints.declared import DeclaredConstraints
from concord.workers.constraints.declared_weights import with_weights
from concord.workers.evaluation.bootstrap import paired_bootstraps
from concord.workers.evaluation.figures import FIGURES
from concord.workers.evaluation.measures import MEASURES, Pair
from concord.workers.evaluation.named_counts import Counts
from concord.workers.inference.registry import Decoder
from concord.workers.learning.mining.miner import MinerHere, MiningTask
from concord.workers.learning.mining.registry import MINERS, miner_named
from concord.workers.learning.mining.rule_counts import RuleKind
from concord.workers.learning.mining.rules import KeptSettings
from concord.workers.learning.search.folds import fold_of
from concord.workers.learning.trainers.registry import trainer_named
from concord.workers.learning.trainers.trainer import gold_of
from concord.workers.learning.weights.penalties import COUNTED_PENALTY

KINDS = (
    *(RuleKind.STARTS, RuleKind.ENDS, RuleKind.FOLLOWED, RuleKind.APART, RuleKind.ORDER),
    *(RuleKind.CHANGES, RuleKind.ONCE, RuleKind.THERE, RuleKind.NEEDS),
)
"""`--set kinds=` of other benchmarks, which are older than the other kinds."""

QUICK = ("starts", "ends", "followed", "apart", "together", "changes", "stops", "once", "there")
"""Kinds whose rules about nested fields are quick to keep to."""

LEVELS = (0.05, 0.2, 1.0)
"""`--set level=`: how likely luck may give as much as the best set of rules gains while it is judged."""
DRAWS = 10_000
WORK = 2_000_000
"""What an answer may cost, as while rules are judged; the best found by then counts."""


class Corpus(NamedTuple):
    """Names of corpora that are one here, as many documents as are used, how a model is trained, what is measured."""

    names: tuple[str, ...]
    trainer: str
    training: Mapping[str, Any]
    measure: str = "spans"
    figure: str = "f1"
    most: int | None = None
    parts: int = 4
    learns_from_one: bool = False
    options: Mapping[str, Any] = {}

    def documents(self) -> list[Document]:
        """The documents with gold labels."""
        found = (document for name in self.names for document in documents_of(name))
        return [document for document in found if document.labels is not None and len(document)][: self.most]


FIELDS, FERSINI, NAMES = ({"features": name} for name in ("fields", "fersini", "core+mentions"))
TOKENS = ("labels", "accuracy")

CORPORA = {
    "Cora": Corpus(("citations", "citations-dev"), "lbfgs", FIELDS, *TOKENS),
    "us50": Corpus(("addresses", "addresses-dev"), "lbfgs", FERSINI, *TOKENS, parts=5, learns_from_one=True),
    "UMass": Corpus(("nested-citations",), "sgd", {"features": "fields+seen"}, most=300, options={"kinds": QUICK}),
    "CoNLL-2003": Corpus(("news",), "sgd", NAMES, most=120),
    "seminars": Corpus(("mails",), "sgd", NAMES, most=120),
}


class Part(NamedTuple):
    """A part of a corpus that was left out: counts (D, 1, 3) by rules, and what was found in the others.

    ``counts`` are under none, all that hold, and the best set, which luck gives with ``p``.
    """

    counts: dict[str, Counts]
    p: float
    figures: dict[str, Any]

    def by_rules(self) -> dict[str, Counts]:
        """Counts under no rule, all that hold, and those that help at each of `LEVELS`."""
        none, best = self.counts["none"], self.counts["best"]
        helps = {f"helps, level {level:g}": best if self.p <= level else none for level in LEVELS}
        return {"none": none, "holds": self.counts["holds"], **helps}


def measured(corpus: Corpus, method: str) -> dict[str, Any]:
    """All figures of a corpus."""
    documents = corpus.documents()
    fold = np.array(fold_of(documents, corpus.parts))
    entry, started = trainer_named(corpus.trainer), time.process_time()
    made = AsTrained(corpus.trainer, entry, entry.settings.model_validate(corpus.training), 1.0, 0.0)
    given = {"measure": corpus.measure, "figure": corpus.figure, "level": 1.0, **corpus.options}
    settings = miner_named(method).settings.model_validate(given)
    parts = list[Part]()
    for number in range(corpus.parts):
        own = (fold == number) == corpus.learns_from_one
        inside, outside = ([documents[i] for i in np.flatnonzero(chosen)] for chosen in (own, ~own))
        labels = LabelSet.infer(name for document in inside for name in gold_of(document))
        miner = MinerHere(miner_named(method), MiningTask(labels, settings, 0), COUNTED_PENALTY["odds"])
        parts.append(_part(inside, outside, made, miner))
        print(f"  part {number}", json.dumps(parts[-1].figures), flush=True)
    figure = {corpus.figure: FIGURES[corpus.figure]}
    every = [part.by_rules() for part in parts]
    total = {name: np.concatenate([counts[name] for counts in every]) for name in every[0]}
    rows = []
    for name, counts in total.items():
        gain = paired_bootstraps(total["none"], counts, figure, rng=np.random.default_rng(0), draws=DRAWS)
        value = float(FIGURES[corpus.figure](counts.sum(axis=0)))
        rows.append({"rules": name, corpus.figure: value, **dict(gain[corpus.figure])})
        print("  {rules}: {value:.2%}, gain {low:+.2%} to {high:+.2%}".format(value=value, **rows[-1]), flush=True)
    return {
        "documents": len(documents),
        "trainer": corpus.trainer,
        "training": dict(corpus.training),
        "method": method,
        "options": given,
        "measure": f"{corpus.figure} of {corpus.measure}",
        "rows": rows,
        "parts": [part.figures for part in parts],
        "CPU seconds": round(time.process_time() - started, 1),
    }


def _part(inside: Sequence[Document], outside: Sequence[Document], made: AsTrained, miner: MinerHere) -> Part:
    started = time.process_time()
    # Of rules that a document of any part could not hold there is none: that is known before a label is.
    whole = miner.rules(inside, [*inside, *outside])
    judgement = judged_beside(made, inside, whole, miner)
    seconds = time.process_time() - started
    helping = {rule.name: rule.weight for rule in judgement.rules}
    sets = {"none": whole.only([]), "holds": whole, "best": with_weights(whole.only(helping), helping)}
    with tempfile.TemporaryDirectory() as folder:
        model = made.trainer.train(inside, settings=made.settings, out=Path(folder) / "model")
    batch, decoder = Batch.of(outside), Decoder.of("certify", budget=Budget(work=WORK))
    # Labels that the training documents lack are wrong in gold, whatever is answered.
    labels = LabelSet.infer([*model.labels.names, *(name for d in outside for name in gold_of(d))])
    own, gold = labels.encode(model.labels.names), labels.encode([name for d in outside for name in gold_of(d)])
    counts = {}
    for name, constraints in sets.items():
        bound: DeclaredConstraints = constraints.bind(model.labels)
        problems = build_problems(batch, model.potentials(batch), model.labels, bound)
        found = [decoder(problem, doc_id).labels for problem, doc_id in zip(problems, batch.doc_ids, strict=True)]
        pair = Pair(batch, labels, gold, own[np.concatenate(found)])
        items = MEASURES[miner.task.settings.measure].items(pair)
        counts[name] = items.by_document().sum(axis=1, keepdims=True)
    return Part(counts, judgement.p, _figures(judgement, counts, len(whole.names), miner.task.settings, seconds))


def _figures(
    judgement: JudgementReport, counts: Mapping[str, Counts], hold: int, settings: KeptSettings, seconds: float
) -> dict[str, Any]:
    left_out = {name: round(float(FIGURES[settings.figure](c.sum(axis=0))), 5) for name, c in counts.items()}
    kept = ("source", "passes", "scale", "tried", "before", "after", "low", "high", "p")
    return {
        "hold": hold,
        "help": {rule.name: rule.weight for rule in judgement.rules},
        **{name: value for name, value in judgement.model_dump().items() if name in kept},
        "left out": left_out,
        "CPU seconds to mine and judge": round(seconds, 1),
    }


def main() -> None:
    """Measures the corpora that are asked for and there, and keeps what is known of others."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpora", nargs="+", choices=CORPORA, default=list(CORPORA))
    parser.add_argument("--method", choices=MINERS, default="counting")
    options = parser.parse_args()
    known = known_figures("mining").get("corpora", {})
    for name in options.corpora:
        title = f"{name}, by {options.method}"
        print(title, flush=True)
        known[title] = measured(CORPORA[name], options.method)
        save("mining", {"command": "python benchmarks/bench_mining.py", "corpora": known})


if __name__ == "__main__":
    main()
