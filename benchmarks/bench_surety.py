"""Label consistency priced by how sure the model is of a name's places, judged by later documents.

Agreement mends a name that is wrong here and there; one that is wrong at most of its places it makes consistently
wrong. Tried against that, with proofs valid as before, since all of it is data of the problem: a prior from the surest
place of a name for its other places (λ times its log marginals, at the label that opens), and agreement that costs more
or less where no place of a name is sure (its surest marginal is below 0.97) than where some is. A model of the first
three fifths of a training part, in its own order, labels the fourth, where the scales of consistency and then each
price are chosen, "none" among them; one of the first four labels the last. All answers are certify's. Needs the real
corpora.

    python benchmarks/bench_surety.py
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from common import TEN_PASSES, save
from corpora import documents_of
from numpy.typing import NDArray

from concord.schemas.arrays import Floats
from concord.schemas.document import Batch, Document
from concord.schemas.labels import Labels, Spans
from concord.schemas.problem import NO_KEY, Problem
from concord.workers.constraints.consistency import LabelConsistency, PairCounts
from concord.workers.constraints.constraint_set import build_problems
from concord.workers.evaluation.bootstrap import paired_bootstrap
from concord.workers.evaluation.figures import f1_of_counts
from concord.workers.evaluation.measures import Pair, by_document
from concord.workers.evaluation.named_counts import Counts
from concord.workers.inference.core.prepared import Prepared
from concord.workers.inference.core.span_marginals import span_marginals
from concord.workers.inference.registry import Decoder
from concord.workers.inference.settings import GibbsSettings
from concord.workers.learning.trainers.registry import trainer_named
from concord.workers.learning.weights.consistency_scales import tune_scales
from concord.workers.models.model import Model

SURE = 0.97
"""The marginal from which on a place is sure."""
LEAST = -5.0
"""Nats below the likeliest type that the prior says at most."""


class Price(NamedTuple):
    """λ of the prior, and what agreement is multiplied by where no place of a name is sure, and where one is."""

    prior: float = 0.0
    unsure: float = 1.0
    sure: float = 1.0


NONE = Price()
FAMILIES = {
    "prior": [Price(prior=0.1), Price(prior=0.3)],
    "classes": [Price(unsure=0.5), Price(unsure=2.0), Price(sure=0.5), Price(sure=2.0), Price(unsure=2.0, sure=0.5)],
}
OTHERS = {"news": "news-dev", "dutch": None, "spanish": None}
"""Corpora, and parts of other weeks."""


class Name(NamedTuple):
    """A name that stands at P places (P,) of a document, its words, and the marginals (P, T) of each type there."""

    places: NDArray[np.int64]
    words: int
    marginal: Floats

    @property
    def surest(self) -> int:
        """The place with the largest marginal."""
        return int(self.marginal.max(axis=1).argmax())


@dataclass(frozen=True, eq=False)
class Surety:
    """What the local model says of the names of a document that Viterbi finds somewhere in it, by key.

    ``sure`` (K,) says of each key whether one of its places is sure; ``prior`` (N, L) are the log marginals of types at
    a name's surest place, less the likeliest's, where one of the others opens.
    """

    names: dict[int, Name]
    sure: NDArray[np.bool_]
    prior: Floats

    @classmethod
    def of(cls, problem: Problem) -> Surety:
        """By the marginals of all places of each name."""
        names, keys = dict(_names_of(problem)), problem.agreements[0].key
        sure, prior = np.zeros(int(keys.max(initial=NO_KEY)) + 1, np.bool_), np.zeros_like(problem.potentials.unary)
        for key, name in names.items():
            said = np.log(np.maximum(name.marginal[name.surest], 1e-9))
            others = np.delete(name.places, name.surest)
            sure[key] = name.marginal.max() >= SURE
            prior[np.ix_(others, problem.labels.opening)] += np.maximum(said - said.max(), LEAST)
        return cls(names, sure, prior)

    def priced(self, problem: Problem, price: Price) -> Problem:
        """The problem under a price: other scores at some places, and two agreements in the place of each."""
        if price == NONE:
            return problem
        keys = problem.agreements[0].key
        sure = np.append(self.sure, np.False_)[keys]
        tables = [np.where(sure == kind, keys, NO_KEY).astype(np.int32) for kind in (False, True)]
        agreements = tuple(
            replace(agreement, key=table, cost=agreement.cost * factor)
            for agreement in problem.agreements
            for table, factor in zip(tables, (price.unsure, price.sure), strict=True)
        )
        unary = problem.potentials.unary + price.prior * self.prior
        potentials = replace(problem.potentials, unary=unary)
        return replace(problem, potentials=potentials, agreements=agreements)


def _names_of(problem: Problem) -> Iterator[tuple[int, Name]]:
    """Every key that a span of Viterbi's has, with the name."""
    prepared, keys, types = Prepared.of(problem), problem.agreements[0].key, len(problem.labels.types)
    found = problem.labels.spans(prepared.viterbi, problem.potentials.sentence_starts)
    for key, words in dict(zip(_keys_of(keys, found), (found.end - found.start).tolist(), strict=True)).items():
        if key == NO_KEY:
            continue
        places = np.flatnonzero(keys[:, words - 1] == key)
        kinds = np.tile(np.arange(types, dtype=np.int32), len(places))
        spans = Spans(np.repeat(places, types), np.repeat(places + words, types), kinds)
        yield key, Name(places, words, span_marginals(prepared, spans).reshape(-1, types))


def _keys_of(keys: NDArray[np.int32], spans: Spans) -> list[int]:
    """The key of each span; none of one that is too long."""
    size = np.minimum(spans.end - spans.start, keys.shape[1])
    known = np.where(spans.end - spans.start > keys.shape[1], NO_KEY, keys[spans.start, size - 1])
    return [int(key) for key in known]


@dataclass(frozen=True, eq=False)
class Judged:
    """Documents with gold that a model has not seen, as problems."""

    batch: Batch
    gold: Labels
    problems: Sequence[Problem]

    @classmethod
    def of(cls, documents: Sequence[Document], model: Model, consistency: LabelConsistency) -> Judged:
        """Grounds the documents."""
        batch = Batch.of(documents)
        assert batch.labels is not None
        problems = list(build_problems(batch, model.potentials(batch), model.labels, consistency))
        return cls(batch, model.labels.encode(batch.labels.strings()), problems)

    @cached_property
    def sureties(self) -> list[Surety]:
        """One a document."""
        return [Surety.of(problem) for problem in self.problems]

    def counts(self, price: Price) -> Counts:
        """(D, 3) entities of gold, predicted and correct under a price."""
        decoder = Decoder.of("certify")
        rows = zip(self.sureties, self.problems, self.batch.doc_ids, strict=True)
        return self.against_gold([decoder(surety.priced(p, price), doc_id).labels for surety, p, doc_id in rows])

    def against_gold(self, answers: Sequence[Labels]) -> Counts:
        """(D, 3) of labellings, one a document."""
        pair = Pair(self.batch, self.problems[0].labels, self.gold, np.concatenate(answers))
        counts: Counts = by_document("spans", pair).table.sum(axis=1)
        return counts

    def choices(self) -> dict[str, int]:
        """Of the gold entities that stand at places of the names, how many have which choice of a type.

        Each place's own likeliest; one for a name, by the sum of marginals, or by its surest place; and, with a look at
        gold, the best of those types for a name that are likeliest somewhere: more than that no choice can have.
        """
        total: Counter[str] = Counter()
        bounds = self.batch.doc_starts.tolist()
        for surety, problem, start, end in zip(self.sureties, self.problems, bounds, bounds[1:], strict=False):
            gold = problem.labels.spans(self.gold[start:end], problem.potentials.sentence_starts)
            given = dict(zip(zip(gold.start.tolist(), gold.end.tolist(), strict=True), gold.type.tolist(), strict=True))
            for places, words, marginal in surety.names.values():
                own = marginal.argmax(axis=1)
                wanted = np.array([given.get((place, place + words), -1) for place in places.tolist()])
                total["entities"] += int((wanted >= 0).sum())
                total["own"] += int((wanted == own).sum())
                total["sum"] += int((wanted == marginal.sum(axis=0).argmax()).sum())
                total["surest"] += int((wanted == marginal.max(axis=0).argmax()).sum())
                total["best"] += max(int((wanted == kind).sum()) for kind in set(own.tolist()))
        return dict(total)

    def viterbi(self) -> Counts:
        """(D, 3) of the model alone."""
        return self.against_gold([Prepared.of(problem).viterbi for problem in self.problems])


def trained(documents: Sequence[Document]) -> Model:
    """By stochastic gradient descent, with the default features."""
    trainer = trainer_named("sgd")
    with tempfile.TemporaryDirectory() as folder:
        return trainer.train(
            documents, settings=trainer.settings.model_validate(TEN_PASSES), out=Path(folder) / "model"
        )


def consistency_of(documents: Sequence[Document], held_out: Sequence[Document], model: Model) -> LabelConsistency:
    """Counted on all documents before, its scales chosen on those held out."""
    counted = [PairCounts.of(documents, model.labels, fold_case=fold) for fold in (False, True)]
    return tune_scales(held_out, model, counted, config=GibbsSettings(sweeps=8))[0]


def chosen(judged: Judged) -> dict[str, Price]:
    """The best price of each family on documents held out, "none" where nothing is better."""
    tried = chain([NONE], *FAMILIES.values())
    f1 = {price: float(f1_of_counts(judged.counts(price).sum(axis=0))) for price in tried}
    return {name: max([NONE, *prices], key=f1.__getitem__) for name, prices in FAMILIES.items()}


def rows_of(name: str, judged: Judged, best: dict[str, Price]) -> Iterator[dict[str, Any]]:
    """Viterbi, consistency, and every price, with what it gains over consistency."""
    base = judged.counts(NONE)
    yield {"part": name, "what": "viterbi", "f1": float(f1_of_counts(judged.viterbi().sum(axis=0)))}
    for family, prices in {"consistency": [NONE], **FAMILIES}.items():
        for price in prices:
            found = judged.counts(price)
            yield {
                "part": name,
                "what": family,
                "price": price._asdict(),
                "chosen": best.get(family) == price,
                "f1": float(f1_of_counts(found.sum(axis=0))),
                "gain": list(paired_bootstrap(base, found, rng=np.random.default_rng(0)).with_interval),
            }


class Fifths(NamedTuple):
    """A training part in its order: three fifths, the fourth, the last."""

    first: list[Document]
    fourth: list[Document]
    last: list[Document]

    @classmethod
    def of(cls, documents: list[Document]) -> Fifths:
        """Cuts it."""
        first, last = round(0.6 * len(documents)), round(0.8 * len(documents))
        return cls(documents[:first], documents[first:last], documents[last:])

    @property
    def before_last(self) -> list[Document]:
        """Four fifths."""
        return self.first + self.fourth


def choices(name: str) -> dict[str, Any]:
    """What choices of one type for a name can do on the fourth fifth."""
    fifths = Fifths.of(documents_of(name))
    model = trained(fifths.first)
    folded = LabelConsistency(PairCounts.of(fifths.before_last, model.labels, fold_case=True))
    right = Judged.of(fifths.fourth, model, folded).choices()
    print(f"{name}, fourth fifth: types of repeated names", right, flush=True)
    return {"part": name, "right": right}


def prices(name: str) -> Iterator[dict[str, Any]]:
    """Chooses on the fourth fifth, and judges by the last, and by the part of other weeks."""
    fifths, other = Fifths.of(documents_of(name)), OTHERS[name]
    model = trained(fifths.first)
    consistency = consistency_of(fifths.before_last, fifths.fourth, model)
    best = chosen(Judged.of(fifths.fourth, model, consistency))
    yield from rows_of(f"{name}, last fifth", Judged.of(fifths.last, trained(fifths.before_last), consistency), best)
    if other is not None:
        every = fifths.before_last + fifths.last
        counts = PairCounts.of(every, model.labels, fold_case=consistency.counts.fold_case)
        judged = Judged.of(documents_of(other), trained(every), replace(consistency, counts=counts))
        yield from rows_of(other, judged, best)


def main() -> None:
    """Every corpus that is there."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpora", nargs="+", choices=OTHERS, default=list(OTHERS))
    parser.add_argument("--tables", nargs="+", choices=("choices", "prices"), default=["choices", "prices"])
    given = parser.parse_args()
    started, rows = time.process_time(), []
    first = [choices(name) for name in given.corpora if "choices" in given.tables]
    for name in given.corpora if "prices" in given.tables else ():
        for row in prices(name):
            rows.append(row)
            price = "".join(f" {key} {value:g}" for key, value in row.get("price", {}).items())
            gain = "{:+.2%} ({:+.2%} to {:+.2%})".format(*row["gain"]) if "gain" in row else ""
            mark = "chosen" if row.get("chosen") else ""
            print(f"{row['part']:34}{row['what']:12}{price:32}F1 {row['f1']:.2%}  {gain} {mark}", flush=True)
    save("surety", {"choices": first, "prices": rows, "cpu_seconds": time.process_time() - started})


if __name__ == "__main__":
    main()
