"""Soft constraints mined from the corpus, in two stages: Fersini, Messina, Felici & Roth (2014).

A CRF of the feature set `fersini` by L-BFGS, Viterbi's labels, and those of two-stage inference under mined rules
alone: each kind of rules by itself and all, weighed by `odds` and by `fersini`, a broken row charged by its degree and
once. τ is nowhere in the paper: it is chosen for each weighing and charge on a fifth of the training documents, by a
model, rules and weights of the others. Cora's and us50's development parts, and CoNLL-2003's testa, a sentence a
document. Needs the real corpora; those that are not there are left out.

With ``--segments`` the paper's other model: a semi-Markov CRF of the same features, its nested Viterbi labels, those of
the same model with segments of one token, and certify's under all mined rules. Its prior, and how rare a whole segment
may be that has a weight, are chosen by cross-validation over the training documents, and so is the prior of the CRF
beside it; of five folds us50 has all tried, Cora three and CoNLL-2003 one.

    python benchmarks/bench_fersini.py
    python benchmarks/bench_fersini.py --segments
"""

from __future__ import annotations

import argparse
import itertools
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from bench_mining import KINDS
from common import REAL, save
from mined import mined

from concord.schemas.decoded import Status
from concord.schemas.document import Batch, Document
from concord.schemas.labels import Labels, LabelSet
from concord.schemas.potentials import Potentials
from concord.workers.constraints.constraint_set import build_problems
from concord.workers.constraints.declared import DeclaredConstraints
from concord.workers.constraints.declared_weights import with_weights
from concord.workers.corpus.readers.registry import READERS
from concord.workers.evaluation.bootstrap import paired_bootstraps
from concord.workers.evaluation.figures import FIGURES
from concord.workers.evaluation.measures import MEASURES, Pair, spans
from concord.workers.evaluation.measures import labels as by_label
from concord.workers.evaluation.measures import tokens as by_field
from concord.workers.inference.core.chain import viterbi
from concord.workers.inference.registry import Decoder
from concord.workers.labelling.report import with_gold
from concord.workers.learning.mining.rule_counts import RuleKind
from concord.workers.learning.mining.rules import MiningSettings, Rule, declared, in_documents
from concord.workers.learning.search.folds import fold_of, is_held_out
from concord.workers.learning.trainers.registry import trainer_named
from concord.workers.learning.weights.penalties import PENALTIES
from concord.workers.learning.weights.row_counts import count_rows
from concord.workers.models.model import Model
from concord.workers.models.semicrf import SemiCrfModel

FEATURES, TRAINER = "fersini", "lbfgs"
HELD_OUT = 0.2
TAUS = (1.0, 0.999, 0.995, 0.99, 0.98, 0.95, 0.9)
WEIGHINGS = ("odds", "fersini")
CHARGES = ("degree", "once")
GIVEN = ("trainer", "engine", "rules", "weights", "violations", "tau", "scores", "longest")
"""What a row is told by, where it is there."""
FOLDS = 5
GRIDS: dict[str, dict[str, tuple[float, ...]]] = {
    "lbfgs": {"c2": (0.03, 0.1, 0.3)},
    "semicrf": {"c2": (0.03, 0.1, 0.3), "min_whole": (2,)},
}
"""By trainer, what is chosen by cross-validation: one option after another, if it is better than its default."""
DETERMINISTIC_SECONDS = 0.5
"""CP-SAT's limit a document; how many reach it is in the figures."""


class Corpus(NamedTuple):
    """Two files of `REAL`, how they are read, and whether each sentence is a document."""

    reader: str
    train: str
    dev: str
    sentences: bool = False
    tried: int = 5
    """Of `FOLDS`, how many are held out in turn."""


CORPORA = {
    "Cora dev": Corpus("citations", "cora/citation_train.300.txt", "cora/citation_dev.txt", tried=3),
    "us50 dev": Corpus("addresses", "us50/us50.train.tagged", "us50/us50.dev.tagged"),
    "CoNLL-2003 testa": Corpus("conll", "conll2003/eng.train", "conll2003/eng.testa", sentences=True, tried=1),
}


def documents_of(corpus: Corpus, source: str) -> list[Document]:
    """The documents of a file, or its sentences."""
    reader = READERS[corpus.reader]
    found = [d for d in reader.read(str(REAL / source), reader.settings()) if isinstance(d, Document)]
    return [part for d in found for part in _sentences(d)] if corpus.sentences else found


def _sentences(document: Document) -> Iterator[Document]:
    bounds = [*document.sentence_starts.tolist(), len(document)]
    assert document.labels is not None
    words, gold = document.tokens, document.labels.strings()
    for i, (start, end) in enumerate(pairwise(bounds)):
        yield Document.build(f"{document.doc_id}/{i}", [words[start:end]], labels=[gold[start:end]])


def learned(trainer: str, documents: Sequence[Document], options: dict[str, Any]) -> Model:
    """The model of these documents."""
    entry = trainer_named(trainer)
    with tempfile.TemporaryDirectory() as folder:
        settings = entry.settings.model_validate({"features": FEATURES, **options})
        return entry.train(documents, settings=settings, out=Path(folder) / "model")


class Fitted(NamedTuple):
    """A model, and the rules of its training documents with the degree of all that break each."""

    model: Model
    rules: list[Rule]
    degrees: dict[str, float]

    @classmethod
    def of(cls, documents: Sequence[Document]) -> Fitted:
        """Trains, mines and counts."""
        model, settings, batch = learned(TRAINER, documents, {}), MiningSettings(kinds=KINDS), Batch.of(documents)
        rules = mined(documents, model.labels, settings)
        rows = count_rows(declared(rules, model.labels), [batch], model.labels)
        return cls(model, rules, {name: count.degree for name, count in rows.items()})

    def weighed(self, penalty: str, kinds: Iterable[RuleKind]) -> DeclaredConstraints:
        """The rules of some kinds as `concord constraints mine` weighs them."""
        rules, cost = [rule for rule in self.rules if rule.kind in kinds], PENALTIES[penalty]
        weights = {r.name: in_documents(r, self.degrees[r.name]).weight(cost, cost.settings()) for r in rules}
        return with_weights(declared(rules, self.model.labels), weights)


class Labelled(NamedTuple):
    """Labels (N,) of a batch, documents whose answer is not proven, and CPU seconds."""

    labels: Labels
    unfinished: int
    seconds: float


class Held(NamedTuple):
    """Documents with gold labels (N,), scored; ``labels`` may hold more names than the model's."""

    batch: Batch
    potentials: Potentials
    model: Model
    labels: LabelSet
    gold: Labels

    @classmethod
    def of(cls, model: Model, documents: Sequence[Document]) -> Held:
        """Scores the documents."""
        batch = Batch.of(documents)
        return cls(batch, model.potentials(batch), model, *with_gold(model.labels, batch))

    def by(self, constraints: DeclaredConstraints, engine: str, **options: Any) -> Labelled:
        """Answers of an engine under constraints."""
        decoder, started = Decoder.of(engine, options), time.process_time()
        problems = build_problems(self.batch, self.potentials, self.model.labels, constraints)
        found = [decoder(p, doc_id) for p, doc_id in zip(problems, self.batch.doc_ids, strict=True)]
        unfinished = sum(d.status is Status.TIMEOUT for d in found)
        return Labelled(np.concatenate([d.labels for d in found]), unfinished, time.process_time() - started)

    def soft(self, constraints: DeclaredConstraints, charge: str, tau: float) -> Labelled:
        """Answers in two stages."""
        options = {"tau": tau, "violations": charge, "deterministic_seconds": DETERMINISTIC_SECONDS}
        return self.by(constraints, "two-stage", **options)

    def accuracy(self, found: Labelled) -> float:
        """Share of tokens with the right label."""
        return float((found.labels == self.gold).mean())

    def figures(self, found: Labelled, base: Labelled) -> dict[str, Any]:
        """All figures of the paper, and what some gain over ``base`` with 95 % of draws of documents."""
        pair, before = (Pair(self.batch, self.labels, self.gold, given.labels) for given in (found, base))
        items = by_field(pair)
        counts, figures = items.by_document(), MEASURES["tokens"].figures
        gains = paired_bootstraps(by_field(before).by_document(), counts, _figures(figures), rng=_rng())
        accuracy = paired_bootstraps(
            by_label(before).by_document(), by_label(pair).by_document(), _figures(["accuracy"]), rng=_rng()
        )
        total = counts.sum(axis=0)
        return {
            "accuracy": self.accuracy(found),
            **{name: float(FIGURES[name](total)) for name in figures},
            "fields": {n: float(FIGURES["f1"](t[None])) for n, t in zip(items.names, total, strict=True) if t[0]},
            "spans": float(FIGURES["f1"](spans(pair).by_document().sum(axis=0))),
            "gain": {name: list(gain[:3]) for name, gain in (accuracy | gains).items()},
            "unfinished": found.unfinished,
            "cpu_seconds": round(found.seconds, 2),
        }


def _figures(names: Iterable[str]) -> dict[str, Any]:
    return {name: FIGURES[name] for name in names}


def _rng() -> np.random.Generator:
    return np.random.default_rng(0)


def chosen_taus(documents: Sequence[Document]) -> dict[tuple[str, str], list[dict[str, float]]]:
    """Held-out accuracy along τ, by weighing and charge."""
    held = [is_held_out(document.doc_id, HELD_OUT) for document in documents]
    inside, outside = ([d for d, out in zip(documents, held, strict=True) if out == own] for own in (False, True))
    fitted = Fitted.of(inside)
    known = set(fitted.model.labels.names)
    part = Held.of(fitted.model, [d for d in outside if d.labels is not None and known >= set(d.labels.strings())])
    curves: dict[tuple[str, str], list[dict[str, float]]] = {}
    for weighing, charge in itertools.product(WEIGHINGS, CHARGES):
        constraints, curve = fitted.weighed(weighing, RuleKind), []
        for tau in TAUS:
            found = part.soft(constraints, charge, tau)
            figures = {"accuracy": part.accuracy(found), "unfinished": found.unfinished, "cpu_seconds": found.seconds}
            curve.append({"tau": tau, **figures})
        curves[weighing, charge] = curve
        print(weighing, charge, "  ".join(f"{c['tau']:g} {c['accuracy']:.2%}" for c in curve), flush=True)
    return curves


def rows_of(train: Sequence[Document], dev: Sequence[Document]) -> dict[str, Any]:
    """Everything that is measured of a corpus."""
    curves = chosen_taus(train)
    # Of τ that are equally good the highest: the answer nearest to Viterbi's.
    taus = {key: max(curve, key=lambda c: (c["accuracy"], c["tau"]))["tau"] for key, curve in curves.items()}
    fitted = Fitted.of(train)
    part = Held.of(fitted.model, dev)
    kinds = [kind for kind in RuleKind if any(rule.kind is kind for rule in fitted.rules)]
    base = part.by(fitted.weighed("odds", []), "viterbi")
    rows = [{"rules": "none", "engine": "viterbi", **part.figures(base, base)}]
    print(_line(rows[0]))
    for weighing in WEIGHINGS:
        for charge, some in itertools.product(CHARGES, [list(RuleKind), *([kind] for kind in kinds)]):
            name, tau = "all" if len(some) > 1 else str(some[0]), taus[weighing, charge]
            found = part.soft(fitted.weighed(weighing, some), charge, tau)
            rows.append({"rules": name, "weights": weighing, "engine": "two-stage", "violations": charge, "tau": tau})
            rows[-1] |= part.figures(found, base)
            print(_line(rows[-1]), flush=True)
    return {
        "training documents": len(train),
        "documents": len(dev),
        "tokens": part.batch.token_count,
        "rules": {str(kind): sum(rule.kind is kind for rule in fitted.rules) for kind in kinds},
        "curves": [{"weights": w, "violations": v, "curve": curve} for (w, v), curve in curves.items()],
        "rows": rows,
    }


class Tried(NamedTuple):
    """Options, and the share of tokens that models of them label right in documents that they have not seen."""

    options: dict[str, Any]
    accuracy: float


def trials_of(trainer: str, documents: Sequence[Document], tried: int) -> list[Tried]:
    """All that was tried; each option is added to what was best before it."""
    found: list[Tried] = []
    for option, values in GRIDS[trainer].items():
        base = best_of(found).options if found else {}
        for value in values:
            options = {**base, option: value}
            found.append(Tried(options, held_out_accuracy(trainer, documents, options, tried)))
            print(trainer, found[-1], flush=True)
    return found


def best_of(trials: Sequence[Tried]) -> Tried:
    """The first of those with the highest accuracy."""
    return max(trials, key=lambda one: one.accuracy)


def held_out_accuracy(trainer: str, documents: Sequence[Document], options: dict[str, Any], tried: int) -> float:
    """Share of tokens that get the right label by a model that has not seen their document."""
    fold, right, tokens = np.array(fold_of(documents, FOLDS)), 0.0, 0
    for mine in range(tried):
        inside, outside = ([documents[i] for i in np.flatnonzero(c).tolist()] for c in (fold != mine, fold == mine))
        part = Held.of(learned(trainer, inside, options), outside)
        right += float((viterbi(part.potentials.legal(part.model.labels)) == part.gold).sum())
        tokens += part.batch.token_count
    return right / tokens


def segment_rows(train: Sequence[Document], dev: Sequence[Document], tried: int) -> dict[str, Any]:
    """The semi-Markov CRF beside the CRF, and under the rules."""
    fitted = Fitted.of(train)
    nothing, rules = fitted.weighed("odds", []), fitted.weighed("odds", RuleKind)
    part = Held.of(fitted.model, dev)
    base = part.by(nothing, "viterbi")
    rows = [{"trainer": TRAINER, "engine": "viterbi", **part.figures(base, base)}]
    print(_line(rows[0]), flush=True)
    trials = {}
    for trainer in GRIDS:
        found = trials_of(trainer, train, tried)
        options, trials[trainer] = best_of(found).options, [one._asdict() for one in found]
        started = time.process_time()
        model = learned(trainer, train, options)
        seconds = time.process_time() - started
        named = {"trainer": trainer, **options, "training_cpu_seconds": round(seconds, 1)}
        part = Held.of(model, dev)
        rows.append({**named, "engine": "viterbi", **part.figures(part.by(nothing, "viterbi"), base)})
        print(_line(rows[-1]), flush=True)
    rows.append(_row_of_tokens(train, dev, options, base))
    assert isinstance(model, SemiCrfModel)
    for scores in ("best", "marginals"):
        part = Held.of(replace(model, gives_marginals=scores == "marginals"), dev)
        under = part.by(rules, "certify")
        rows.append({**named, "scores": scores, "rules": "all", "engine": "certify", **part.figures(under, base)})
        print(_line(rows[-1]), flush=True)
    return {"trials": trials, "rows": rows}


def _row_of_tokens(
    train: Sequence[Document], dev: Sequence[Document], options: dict[str, Any], base: Labelled
) -> dict[str, Any]:
    """The same model with segments of one token: a chain with the features of what stands around."""
    options = {**options, "longest": 1}
    part = Held.of(learned("semicrf", train, options), dev)
    found = Labelled(viterbi(part.potentials.legal(part.model.labels)), 0, 0.0)
    row = {"trainer": "semicrf", **options, "engine": "viterbi", **part.figures(found, base)}
    print(_line(row), flush=True)
    return row


def _line(row: dict[str, Any]) -> str:
    """A row of the table in `docs/benchmarks.md`."""
    low, high = (100.0 * x for x in row["gain"]["accuracy"][1:])
    name = " ".join(str(row[key]) for key in (*GIVEN, *GRIDS["semicrf"]) if key in row)
    macro = " ".join(f"{100 * row[f'macro_{f}']:.2f}" for f in ("precision", "recall", "f1"))
    micro = " ".join(f"{100 * row[f]:.2f}" for f in ("precision", "recall", "f1"))
    return f"{name:44} accuracy {row['accuracy']:.2%} ({low:+.2f} to {high:+.2f})  macro {macro}  micro {micro}"


def main() -> None:
    """Measures every corpus that is there."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpora", nargs="+", choices=CORPORA, default=list(CORPORA))
    parser.add_argument("--segments", action="store_true", help="measure the semi-Markov CRF")
    options = parser.parse_args()
    there = [name for name in options.corpora if (REAL / CORPORA[name].train).exists()]
    if not there:
        raise SystemExit(f"{REAL}: none of the corpora is there")
    started, found = time.process_time(), {}
    for name in there:
        corpus = CORPORA[name]
        print(name, flush=True)
        train, dev = documents_of(corpus, corpus.train), documents_of(corpus, corpus.dev)
        found[name] = segment_rows(train, dev, corpus.tried) if options.segments else rows_of(train, dev)
        figures: dict[str, Any] = {"features": FEATURES, "trainer": TRAINER, "corpora": found}
        figures["cpu_seconds"] = time.process_time() - started
        save("fersini_segments" if options.segments else "fersini", figures)


if __name__ == "__main__":
    main()
