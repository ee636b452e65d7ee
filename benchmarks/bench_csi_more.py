"""What else constraint-satisfaction inference can be given: a CRF's own n-grams, declared constraints, consistency.

Beside memory-based trigrams (`bench_csi.py`, whose parts and settings these are): trigrams that weigh as much as the
marginals of three neighbouring labels under a CRF of the same columns, so that the two meet; both together, each with
half of the weight; rules that are mined and weighed on the training documents, and for names the consistency of labels
in a document, with scales that are tuned on training documents which were held out, under both of which trigrams and
the CRF are solved by certify. Rows are compared with the CRF's Viterbi labels by a paired bootstrap over documents:
those of chunks are sentences. Needs the real corpora, and the settings that `bench_csi.py` chose.

    python benchmarks/bench_csi_more.py --task chunks
    python benchmarks/bench_csi_more.py --task names
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from bench_csi import Told, corpora, counted, gold_of, own_labels, row_of, show, solved, told
from common import RESULTS, save
from mined import mined, weighed

from concord.schemas.arrays import Floats, Ints
from concord.schemas.document import Batch, Document
from concord.schemas.labels import Labels, LabelSet
from concord.schemas.potentials import Potentials
from concord.schemas.problem import Problem
from concord.workers.constraints.consistency import LabelConsistency, PairCounts
from concord.workers.constraints.constraint_set import Unconstrained, build_problems
from concord.workers.inference.core.chain import sum_messages
from concord.workers.inference.core.recursion import sentence_bounds
from concord.workers.inference.registry import Decoder
from concord.workers.learning.mining.rules import MiningSettings
from concord.workers.learning.search.folds import is_held_out
from concord.workers.learning.trainers import sgd
from concord.workers.learning.weights.consistency_scales import tune_scales
from concord.workers.models.model import Model
from concord.workers.models.settings import SgdSettings
from concord.workers.papers.canisius import trigram_trainer as trigram
from concord.workers.papers.canisius.neighbourhoods import Neighbourhoods, ranked
from concord.workers.papers.canisius.ngrams import voted
from concord.workers.papers.canisius.settings import TrigramSettings

FEATURES = {"chunks": "core+pos", "names": "core+pos+mentions+entities"}
"""Of the CRF: the columns that the windows read."""
LEAST = 1e-4
"""Marginals below are left out."""
HELD_OUT = 0.2
"""The share of the training documents that scales are tuned on."""
BLOCK = 256
"""Tokens whose label triples are held at once."""


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", choices=["chunks", "names"], default="chunks")
    chosen = parser.parse_args()
    train, test = corpora(chosen.task)
    settings = json.loads((RESULTS / f"csi_{chosen.task}.json").read_text())["settings"]["trigrams"]
    settings |= {"windows": chosen.task, "legality": "bio"}
    memory = told(train, test, settings)
    labels, batch = memory.model.labels, memory.batch
    gold, crf = gold_of(batch, labels), potentials_of(train, batch, FEATURES[chosen.task], labels)
    chain = with_neighbourhoods(memory, *chain_neighbourhoods(crf))
    both = with_neighbourhoods(memory, *joined(memory, chain))
    rules = weighed(mined(train, labels, MiningSettings()), [Batch.of(train)], labels)
    answers = {
        "CRF": solved_by_certify(build_problems(batch, crf, labels, Unconstrained())),
        "CSI": solved(memory, "window"),
        "CRF's trigrams: the middle one": own_labels(chain),
        "CRF's trigrams: voting": voted(chain.found, chain.model.classes, batch.sentence_bounds, len(labels)),
        "CRF's trigrams: CSI": solved(chain, "window"),
        "both together: CSI": solved(both, "window"),
        "CSI, rules": solved_by_certify(memory.scores.problems(batch, labels, rules)),
        "CRF, rules": solved_by_certify(build_problems(batch, crf, labels, rules)),
    }
    if chosen.task == "names":
        answers |= consistent(train, test, memory, settings, crf)
    counts = {name: counted(batch, labels, gold, answer) for name, answer in answers.items()}
    rows = [row_of(name, mine, counts["CRF"]) for name, mine in counts.items()]
    rows.append({"over": "CSI"} | row_of("CSI, rules", counts["CSI, rules"], counts["CSI"]))
    show(rows)
    given = {"task": chosen.task, "sentences": [len(train), len(test)], "settings": settings, "rules": len(rules.names)}
    save(f"csi_more_{chosen.task}", given | {"rows": rows})


def consistent(
    train: list[Document], test: list[Document], memory: Told, settings: dict[str, Any], crf: Potentials
) -> dict[str, Labels]:
    """Answers under the consistency of labels in a document; each model has scales of its own."""
    held = [is_held_out(document.doc_id, HELD_OUT) for document in train]
    inside, outside = ([d for d, out in zip(train, held, strict=True) if out is part] for part in (False, True))
    labels, batch = memory.model.labels, memory.batch
    wide = told(train, test, settings | {"domain": "neighbours"}, known=memory.found)

    def tuned(learn: Callable[[Path], Model]) -> LabelConsistency:
        """With scales for a model that has not seen what it is tuned on."""
        with tempfile.TemporaryDirectory() as folder:
            model = learn(Path(folder) / "model")
            counted = [PairCounts.of(train, model.labels, fold_case=fold) for fold in (False, True)]
            found, _ = tune_scales(outside, model, counted)
        print(found.counts.fold_case, found.scales, flush=True)
        return found

    given = TrigramSettings.model_validate(settings)
    by_neighbours = tuned(lambda out: trigram.train(inside, settings=given, out=out))
    by_crf = tuned(lambda out: sgd.train(inside, settings=SgdSettings(features=FEATURES["names"]), out=out))
    return {
        "CSI, consistency": solved_by_certify(memory.scores.problems(batch, labels, by_neighbours)),
        "CSI over all labels, consistency": solved_by_certify(wide.scores.problems(batch, labels, by_neighbours)),
        "CRF, consistency": solved_by_certify(build_problems(batch, crf, labels, by_crf)),
    }


def potentials_of(train: Sequence[Document], batch: Batch, features: str, labels: LabelSet) -> Potentials:
    """What a CRF of the training documents says, with its labels in the order of ``labels``."""
    with tempfile.TemporaryDirectory() as folder:
        model = sgd.train(train, settings=SgdSettings(features=features), out=Path(folder) / "model")
    assert set(model.labels.names) == set(labels.names)
    place = model.labels.encode(labels.names)
    own = model.potentials(batch)
    return Potentials(own.unary[:, place], own.transition[np.ix_(place, place)], own.sentence_starts).legal(labels)


def chain_neighbourhoods(potentials: Potentials) -> tuple[Neighbourhoods, Ints]:
    """For each token the triples of labels around it and their marginals, and the triples (C, 3) by number.

    p(a, b, c) ∝ exp(before(a) + T(a, b) + u(b) + T(b, c) + after(c)): −1 stands for what lies beyond the sentence.
    """
    p, size = potentials, potentials.unary.shape[1]
    before, after, total = sum_messages(p)
    bounds = sentence_bounds(p)
    left = _shifted(before + p.unary, bounds[:-1], 1)
    right = _shifted(after + p.unary, bounds[1:] - 1, -1)
    into, out = np.vstack([p.transition, np.zeros(size)]), np.hstack([p.transition, np.zeros((size, 1))])
    own = p.unary - np.repeat(total, np.diff(bounds))[:, None]
    found = list[tuple[Ints, Floats]]()
    for first in range(0, len(own), BLOCK):
        these = slice(first, first + BLOCK)
        pairs = left[these, :, None] + into + own[these, None, :]
        joint = pairs[..., None] + (out + right[these, None, :])[:, None]
        places = np.nonzero(joint > np.log(LEAST))
        triples = np.column_stack(places).astype(np.int64)
        triples[:, 0] += first
        found.append((triples, np.exp(joint[places])))
    triples, share = (np.concatenate(parts) for parts in zip(*found, strict=True))
    token, around = triples[:, 0], np.where(triples[:, 1:] == size, -1, triples[:, 1:])
    classes, which = np.unique(around, axis=0, return_inverse=True)
    share /= np.bincount(token, share)[token]
    return ranked(token, which.ravel(), share, len(own)), classes


def _shifted(scores: Floats, edge: Ints, step: int) -> Floats:
    """(N, L + 1) the scores of each token's neighbour; at the edge of a sentence only the last column is possible."""
    beyond = np.full((len(scores), 1), -np.inf)
    moved = np.roll(np.hstack([scores, beyond]), step, axis=0)
    moved[edge] = -np.inf
    moved[edge, -1] = 0.0
    return moved


def joined(one: Told, other: Told) -> tuple[Neighbourhoods, Ints]:
    """Half of each neighbourhood's weight, and the classes of both."""
    every = np.concatenate([one.model.classes, other.model.classes])
    classes, number = np.unique(every, axis=0, return_inverse=True)
    cut = len(one.model.classes)
    count = len(one.found.pointer) - 1
    cell = np.concatenate(
        [
            made.found.instance * len(classes) + numbers[made.found.classes]
            for made, numbers in ((one, number.ravel()[:cut]), (other, number.ravel()[cut:]))
        ]
    )
    cells, place = np.unique(cell, return_inverse=True)
    share = np.bincount(place.ravel(), np.concatenate([one.found.share, other.found.share])) / 2.0
    token, of_class = np.divmod(cells, len(classes))
    return ranked(token, of_class, share, count), classes


def with_neighbourhoods(made: Told, found: Neighbourhoods, classes: Ints) -> Told:
    """The same model with other neighbourhoods."""
    model = replace(made.model, classes=classes)
    scores = model.scores_of(found, made.batch)
    problems = list(scores.problems(made.batch, model.labels, Unconstrained()))
    return Told(model, made.batch, found, scores, problems, {})


def solved_by_certify(problems: Iterable[Problem]) -> Labels:
    """The proven labels of all sentences."""
    decoder = Decoder.of("certify")
    return np.concatenate([decoder(problem, f"sentence {i}").labels for i, problem in enumerate(problems)])


if __name__ == "__main__":
    main()
