"""Constraint-satisfaction inference over memory-based classifiers: tables 2 and 5 of Canisius et al. (2011), remade.

Chunks: CoNLL-2000's training part without its last 1,000 sentences, measured on those. Names: CoNLL-2003's eng.train,
measured on testa. Sentences are documents, as in the paper. Settings are chosen on training documents alone, as the
paper did and as `concord train --tune` does: by wrapped progressive sampling (Van den Bosch 2004). Needs the real
corpora.

    python benchmarks/bench_csi.py --task chunks
    python benchmarks/bench_csi.py --task names
    python benchmarks/bench_csi.py --part settings --task chunks
    python benchmarks/bench_csi.py --part seeds
    python benchmarks/bench_csi.py --part lengths --measured 500
    python benchmarks/bench_csi.py --part timbl

What else ``--part`` measures: which settings bring the gain, on a part of the training sentences; what other seeds
choose; classes of two to five labels by three learners; how fast neighbours are found, beside TiMBL's IB1.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Sequence
from itertools import pairwise, product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from common import MADE, REAL, batches, concord, save
from corpora import labelled_corpora

from concord.schemas.document import Batch, Document
from concord.schemas.labels import Labels, LabelSet, Scheme
from concord.schemas.problem import Problem
from concord.workers.constraints.constraint_set import Unconstrained
from concord.workers.evaluation.bootstrap import paired_bootstrap
from concord.workers.evaluation.figures import f1_of_counts
from concord.workers.evaluation.measures import Pair, spans
from concord.workers.evaluation.named_counts import Counts
from concord.workers.inference.registry import Decoder
from concord.workers.learning.search.progressive import TrialTally, rounds, sizes_of
from concord.workers.models.model import LocalScores
from concord.workers.papers.canisius import trigram_trainer as trigram
from concord.workers.papers.canisius.neighbourhoods import Neighbourhoods
from concord.workers.papers.canisius.ngrams import voted
from concord.workers.papers.canisius.settings import TrigramSettings
from concord.workers.papers.canisius.trigram import TrigramModel
from concord.workers.papers.canisius.trigram_trials import Sample, chosen_of, grid, together, tried

HELD_SENTENCES = 1_000
"""Of CoNLL-2000's training part."""
SAMPLE, JUDGED = 2_500, 500
"""Training sentences that settings are compared on: learned from, and labelled."""
SEEDS = range(3)
"""Of wrapped progressive sampling; the first one's choice is measured."""
CLASSES = {"alone": 1, "trigrams": 3}
"""Labels of a class of both classifiers of the tables."""
CHECKED = 300
"""Sentences that every engine solves."""
BESIDE = 200
"""Instances that TiMBL's IB1 classifies."""
GRID: tuple[dict[str, Any], ...] = (
    {},
    {"k": 3},
    {"k": 5, "decay": "inverse"},
    {"k": 11, "decay": "inverse"},
    {"metric": "mvdm"},
    {"metric": "mvdm", "k": 5},
    {"metric": "mvdm", "k": 11, "decay": "inverse"},
    {"metric": "mvdm", "k": 25, "decay": "inverse"},
    {"metric": "jeffrey", "k": 11, "decay": "inverse"},
    {"learner": "igtree"},
)
ENGINES: dict[str, dict[str, Any]] = {
    "window": {"width": 5},
    "certify": {},
    "csp": {"candidates": 100, "margin": 1e9},
    "astar": {},
    "cpsat": {},
}


class Told(NamedTuple):
    """A model's answers: its neighbourhoods, scores and problems, and CPU seconds of classifying and of the rest."""

    model: TrigramModel
    batch: Batch
    found: Neighbourhoods
    scores: LocalScores
    problems: list[Problem]
    seconds: dict[str, float]


def main() -> None:
    """Measures a part."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", choices=["chunks", "names"], default="chunks")
    parser.add_argument("--part", choices=PARTS, default="tables")
    parser.add_argument("--measured", type=int, help="sentences of the test part, drawn by chance; by default all")
    chosen = parser.parse_args()
    train, whole = corpora(chosen.task)
    test = [one for document in whole for one in sentences(document)]
    drawn = np.random.default_rng(0).permutation(len(test))[: chosen.measured]
    test = [test[i] for i in np.sort(drawn).tolist()]
    found = PARTS[chosen.part](train, test, {"windows": chosen.task, "legality": "loose"})
    name = "csi" if chosen.part == "tables" else f"csi_{chosen.part}"
    save(f"{name}_{chosen.task}", {"task": chosen.task, "sentences": len(test)} | found)


def tables(train: list[Document], test: list[Document], base: dict[str, Any]) -> dict[str, Any]:
    """Both of the paper's, with settings that a search for each kind of class has chosen."""
    searches = {name: search(train, base | {"n": n}, SEEDS[0]) for name, n in CLASSES.items()}
    settings = {name: {"n": n} | searches[name][-1]["best"] for name, n in CLASSES.items()}
    alone = told(train, test, base | settings["alone"])
    loose = told(train, test, base | settings["trigrams"])
    labels, gold = loose.model.labels, gold_of(loose.batch, loose.model.labels)
    answers = {"baseline": own_labels(alone)} | answers_of(train, test, loose, base | settings["trigrams"], gold)
    counts = {name: counted(loose.batch, labels, gold, mine) for name, mine in answers.items()}
    rows = [row_of(name, mine, counts["baseline"]) for name, mine in counts.items()]
    rows.append({"over": "voting"} | row_of("CSI", counts["CSI"], counts["voting"]))
    show(rows)
    found = {
        "searches": searches,
        "settings": settings,
        "rows": rows,
        "trigrams_right": float((loose.found.predicted == known_classes(loose, gold)).mean()),
        "illegal": int(illegal(loose.batch, labels, answers["CSI"])),
        "seconds": loose.seconds,
        "tokens": loose.batch.token_count,
    }
    return found | sequences(loose) | engines_agree(loose)


def answers_of(
    train: list[Document], test: list[Document], loose: Told, settings: dict[str, Any], gold: Labels
) -> dict[str, Labels]:
    """What can be made of trigrams; for names also where training documents were told of their own entities."""
    legal = told(train, test, settings | {"legality": "bio"}, known=loose.found)
    wide = told(train, test, settings | {"domain": "neighbours"}, known=loose.found)
    votes = voted(loose.found, loose.model.classes, loose.batch.sentence_bounds, len(loose.model.labels))
    found = {
        "one of the three": own_labels(loose),
        "voting": votes,
        "CSI": solved(loose, "window"),
        "CSI, legal": solved(legal, "window"),
        "CSI, all labels of the neighbours": solved(wide, "window"),
        "oracle": np.where(loose_domain(loose)[np.arange(len(gold)), gold], gold, votes).astype(np.int32),
    }
    if settings["windows"] == "names":
        found["CSI, all entities told"] = solved(told(train, test, settings | {"held_out": False}), "window")
    return found


def show(rows: Sequence[dict[str, Any]]) -> None:
    """For people."""
    for row in rows:
        print("{name:36} F1 {f1:6.2f}  P {precision:6.2f}  R {recall:6.2f}  {low:+.2f} to {high:+.2f}".format(**row))


def by_setting(train: list[Document], test: list[Document], base: dict[str, Any]) -> dict[str, Any]:
    """F1 of each setting, learned from some training sentences and measured on others."""
    del test
    cut = [one for document in train for one in sentences(document)]
    picked = np.random.default_rng(0).permutation(len(cut))[: SAMPLE + JUDGED].tolist()
    inside, outside = ([cut[i] for i in part] for part in (picked[:SAMPLE], picked[SAMPLE:]))
    rows = []
    for n, given in product(CLASSES.values(), GRID):
        made = told(inside, outside, base | given | {"n": n})
        f1 = f1_of(made, own_labels(made) if n == 1 else solved(made, "window"))
        rows.append({"n": n, "settings": given, "f1": f1, "seconds": made.seconds["classify"]})
        print("n {n} {settings}: F1 {f1:.2f}, {seconds:.1f} s".format(**rows[-1]), flush=True)
    return {"rows": rows}


def by_seed(train: list[Document], test: list[Document], base: dict[str, Any]) -> dict[str, Any]:
    """What searches for trigrams choose that see other samples."""
    del test
    return {"searches": [search(train, base, seed) for seed in SEEDS]}


def by_length(train: list[Document], test: list[Document], base: dict[str, Any]) -> dict[str, Any]:
    """F1 of constraint-satisfaction inference over classes of so many labels, and what finding neighbours takes."""
    rows = []
    for given in ({}, {"metric": "mvdm"}, {"learner": "igtree"}):
        for n in (2, 3, 4, 5):
            made = told(train, test, base | given | {"n": n})
            gold = gold_of(made.batch, made.model.labels)
            f1 = f1_of(made, solved(made, "window"))
            right = float((made.found.predicted == known_classes(made, gold)).mean())
            rows.append({"n": n, "settings": given, "f1": f1, "classes_right": right, "seconds": made.seconds})
            print(
                f"n {n} {given}: F1 {f1:.2f}, classes right {right:.1%}, {made.seconds['classify']:.1f} s", flush=True
            )
    return {"rows": rows}


def search(train: Sequence[Document], base: dict[str, Any], seed: int) -> list[dict[str, Any]]:
    """The samples of wrapped progressive sampling; the last one's best settings are chosen."""
    given = TrigramSettings.model_validate(base)
    every, sample = grid(given), Sample.of(train, given, seed=seed)

    def attempt(size: int, numbers: Sequence[int]) -> dict[int, TrialTally]:
        groups = together(every[number] for number in numbers)
        tallies = dict(pair for group in groups for pair in zip(group, tried(sample, group, size), strict=True))
        return {number: tallies[every[number]] for number in numbers}

    rows = list[dict[str, Any]]()
    for made in rounds(len(every), sizes_of(sample.tokens), attempt):
        mine, every_one = made.tallies[made.best], TrialTally.merge(made.tallies.values())
        rows.append(
            {
                "seed": seed,
                "tokens": made.size,
                "tested": mine.tested,
                "tried": len(made.tallies),
                "left": len(made.left),
                "best": chosen_of(every[made.best]),
                "accuracy": mine.accuracy,
                "default": made.tallies[0].accuracy,
                "seconds": every_one.seconds,
            }
        )
        print(rows[-1], flush=True)
    return rows


def corpora(task: str) -> tuple[list[Document], list[Document]]:
    """Training and test documents; the chunks' are single sentences."""
    if task == "names":
        both = labelled_corpora()
        train, test = ([d for batch in batches(place) for d in batch] for place in (both.train, both.test))
        return train, test
    out = MADE / "corpora" / "chunk-sentences"
    if not out.is_dir():
        options = ("--set=columns=tokens,pos,labels", "--set=sentences_per_document=1")
        concord("ingest", "columns", REAL / "conll2000" / "train.txt", "--out", out, *options)
    every = [document for batch in batches(out) for document in batch]
    return every[:-HELD_SENTENCES], every[-HELD_SENTENCES:]


def sentences(document: Document) -> list[Document]:
    """Each of its sentences as a document."""
    bounds = [*document.sentence_starts.tolist(), len(document)]
    found = []
    for i, (start, end) in enumerate(pairwise(bounds)):
        columns = {name: column[start:end] for name, column in document.columns.items()}
        gold = None if document.labels is None else document.labels[start:end]
        found.append(Document(f"{document.doc_id}-{i}", np.zeros(1, np.int64), columns, gold))
    return found


def told(
    train: Sequence[Document], test: Sequence[Document], settings: dict[str, Any], known: Neighbourhoods | None = None
) -> Told:
    """A model of the training documents on the others; ``known`` are its neighbourhoods where they are."""
    seconds, started = {}, time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        model = trigram.train(train, settings=TrigramSettings.model_validate(settings), out=Path(folder) / "model")
    seconds["train"], started = time.process_time() - started, time.process_time()
    batch = Batch.of(test)
    found = model.neighbourhoods(batch) if known is None else known
    seconds["classify"], started = time.process_time() - started, time.process_time()
    scores = model.scores_of(found, batch)
    problems = list(scores.problems(batch, model.labels, Unconstrained()))
    seconds["ground"] = time.process_time() - started
    return Told(model, batch, found, scores, problems, seconds)


def gold_of(batch: Batch, labels: LabelSet) -> Labels:
    """(N,) the gold labels; names that training lacks are the first label, which is wrong."""
    assert batch.labels is not None
    return np.array([labels.index.get(name, 0) for name in batch.labels.strings()], np.int32)


def own_labels(made: Told) -> Labels:
    """The middle label of each predicted class."""
    classes = made.model.classes
    own: Labels = classes[made.found.predicted, classes.shape[1] // 2].astype(np.int32)
    return own


def solved(made: Told, engine: str) -> Labels:
    """The labels of an engine; how long it takes is kept as well."""
    started, decoder = time.process_time(), Decoder.of(engine, ENGINES[engine])
    found = np.concatenate([decoder(problem, "sentence").labels for problem in made.problems])
    made.seconds[engine] = time.process_time() - started
    return found


def loose_domain(made: Told) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """(N, L) which labels are candidates."""
    return np.isfinite(made.scores.potentials.unary)


def counted(batch: Batch, labels: LabelSet, gold: Labels, answer: Labels) -> Counts:
    """(D, 3) entities in gold, in the answer, and in both."""
    counts: Counts = spans(Pair(batch, labels, gold, answer)).by_document().sum(axis=1)
    return counts


def f1_of(made: Told, answer: Labels) -> float:
    """Percent, of the sentences that a model was told on."""
    labels = made.model.labels
    return 100.0 * float(f1_of_counts(counted(made.batch, labels, gold_of(made.batch, labels), answer).sum(axis=0)))


def row_of(name: str, counts: Counts, base: Counts) -> dict[str, Any]:
    """Percents, and the interval of the gain over the base by draws of sentences."""
    gold, predicted, correct = counts.sum(axis=0).tolist()
    gain = paired_bootstrap(base, counts, rng=np.random.default_rng(0))
    return {
        "name": name,
        "f1": 100.0 * float(f1_of_counts(counts.sum(axis=0))),
        "precision": 100.0 * correct / predicted,
        "recall": 100.0 * correct / gold,
        "low": 100.0 * gain.low,
        "high": 100.0 * gain.high,
    }


def known_classes(made: Told, gold: Labels) -> np.ndarray[Any, np.dtype[np.int64]]:
    """(N,) the class of each token by its gold labels, −1 where training never had it."""
    classes, which = trigram.label_classes(gold, made.batch.sentence_bounds, made.model.classes.shape[1])
    number = {tuple(labels): i for i, labels in enumerate(made.model.classes.tolist())}
    return np.array([number.get(tuple(labels), -1) for labels in classes.tolist()])[which]


def illegal(batch: Batch, labels: LabelSet, answer: Labels) -> int:
    """Labels I- that continue nothing."""
    strict = LabelSet(labels.names, Scheme.BIO)
    starts = np.zeros(len(answer), np.bool_)
    starts[batch.sentence_starts] = True
    before = np.concatenate([answer[:1], answer[:-1]])
    return int((~np.where(starts, strict.legal_start[answer], strict.legal_transition[before, answer])).sum())


def sequences(made: Told) -> dict[str, float]:
    """How many labellings the candidates of a sentence leave (table 5)."""
    sizes = np.log(loose_domain(made).sum(axis=1))
    counts = np.exp(np.add.reduceat(sizes, made.batch.sentence_starts))
    figures = {"mean": counts.mean(), "median": np.median(counts), "largest": counts.max()}
    return {f"sequences_{name}": float(value) for name, value in figures.items()}


def engines_agree(made: Told) -> dict[str, Any]:
    """The first sentences by every exact engine: how many have the same score by all, and tokens a second of each."""
    problems = made.problems[:CHECKED]
    tokens = sum(map(len, problems))
    scores, speed, proven = [], {}, {}
    for name, options in ENGINES.items():
        decoder, started = Decoder.of(name, options), time.process_time()
        answers = [decoder(problem, "sentence") for problem in problems]
        speed[name] = tokens / (time.process_time() - started)
        proven[name] = sum(answer.certified for answer in answers)
        scores.append([answer.objective for answer in answers])
        print(f"{name:10} {speed[name]:10,.0f} tokens a second, {proven[name]} of {len(problems)} proven", flush=True)
    spread = np.ptp(np.array(scores), axis=0)
    return {
        "engines": {"speed": speed, "proven": proven, "sentences": len(problems), "alike": int((spread < 1e-6).sum())}
    }


def beside_timbl(train: list[Document], test: list[Document], base: dict[str, Any]) -> dict[str, Any]:
    """Instances a CPU second of our own neighbours and of TiMBL's, of the same training tokens; and the same shares?"""
    rows = []
    for given in ({}, {"metric": "mvdm", "k": 5, "decay": "inverse"}):
        found, speed = [], []
        for learner in ("nearest", "ib1"):
            with tempfile.TemporaryDirectory() as folder:
                settings = TrigramSettings.model_validate(base | given | {"learner": learner})
                model = trigram.train(train, settings=settings, out=Path(folder) / "model")
            instances = model.instances(Batch.of(test))[:BESIDE]
            model.classifier.neighbourhoods(instances[:1])  # compiled, and read
            started = time.process_time()
            found.append(model.classifier.neighbourhoods(instances))
            speed.append(len(instances) / (time.process_time() - started))
        same = all(np.array_equal(one, other) for one, other in zip(found[0][:2], found[1][:2], strict=True))
        alike = same and bool(np.allclose(found[0].share, found[1].share, atol=1e-6))
        rows.append(
            {"settings": given, "nearest": speed[0], "timbl": speed[1], "ratio": speed[0] / speed[1], "alike": alike}
        )
        print(f"{given}: {speed[0]:,.0f} and TiMBL's {speed[1]:,.1f} a second; equal: {alike}")
    return {"rows": rows}


PARTS: dict[str, Callable[[list[Document], list[Document], dict[str, Any]], dict[str, Any]]] = {
    "tables": tables,
    "settings": by_setting,
    "seeds": by_seed,
    "lengths": by_length,
    "timbl": beside_timbl,
}

if __name__ == "__main__":
    main()
