"""Which answers to read first where the aim is to mend: F1 after so many are read, by the order in which they are.

    python benchmarks/bench_corrections.py news=MODEL,TESTA citations=MODEL,DEV,RULES

A reader looks at entities of the answers and says what gold says: it is right, it has another type or other bounds, or
there is none. Each truth is a correction, under which its document is answered again, so that agreement and rules carry
it on. Entities that only gold has are not read. Fields of citations are entities that leave no token out: what touches
one in gold is its truth. Orders:

- at random
- least margin: nats by which the best labelling without exactly this entity is worse, as `--confidence margin` has it
- most change: probability of an error by that margin, times the entities that are others in that labelling
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from common import known_figures, save

from concord.flows.labelling.documents import read_documents
from concord.flows.labelling.sources import open_constraints, open_model
from concord.schemas.corrections import Correction, sorted_corrections
from concord.schemas.decoded import Decoded
from concord.schemas.document import Batch, Document
from concord.schemas.run import RunSettings
from concord.schemas.run_context import HERE
from concord.workers.constraints.constraint_set import ConstraintSet
from concord.workers.corpus.plan import plan
from concord.workers.inference.core.prepared import Prepared
from concord.workers.inference.registry import Decoder
from concord.workers.labelling.confidence import Entity, _Prover, margin_decoder
from concord.workers.models.model import Model, local_scores

Entities = dict[tuple[int, int], str]
READ = (0, 50, 100, 200, 400)
"""Numbers of answers that are read."""
DRAWS = 5
"""Draws of the random order."""
SETTINGS = RunSettings(engine="certify", confidence="margin")


class Answer(NamedTuple):
    """An answer: its problem, labels and score, and its entities by their tokens."""

    problem: Prepared
    decoded: Decoded
    entities: Entities


@dataclass
class Answers:
    """Answers to a corpus under corrections."""

    documents: Sequence[Document]
    model: Model
    constraints: ConstraintSet
    decoder: Decoder = field(default_factory=lambda: margin_decoder(SETTINGS))

    def answer(self, number: int, corrections: Sequence[Correction] = ()) -> Answer:
        """The answer to a document that keeps the corrections."""
        document = replace(self.documents[number], corrections=sorted_corrections(corrections))
        batch = Batch.of([document])
        problem = next(local_scores(self.model, batch).problems(batch, self.model.labels, self.constraints))
        prepared = Prepared.of(problem)
        decoded = self.decoder(prepared, document.doc_id)
        return Answer(prepared, decoded, self.entities(decoded.labels, document))

    def rival(self, number: int, answer: Answer, entity: Entity) -> tuple[float, Entities]:
        """The best labelling without exactly an entity of an answer: its score in nats, and its entities."""
        document = self.documents[number]
        best, entities = -np.inf, Entities()
        for local, case, labels in _Prover(answer.problem, answer.decoded, document.doc_id, self.decoder)._cases(
            entity
        ):
            if local <= best:
                break
            problem = Prepared.of(replace(answer.problem, potentials=case))
            decoded = self.decoder(problem, document.doc_id, incumbent=labels)
            if decoded.objective > best:
                best, entities = decoded.objective, self.entities(decoded.labels, document)
        return best, entities

    def entities(self, labels: Any, document: Document) -> Entities:
        """Entities of labels."""
        spans = self.model.labels.spans(labels, document.sentence_starts)
        places = zip(spans.start.tolist(), spans.end.tolist(), spans.type.tolist(), strict=True)
        return {(start, end): self.model.labels.types[kind] for start, end, kind in places}

    def gold(self, number: int) -> Entities:
        """Gold entities of a document."""
        document = self.documents[number]
        assert document.labels is not None
        return self.entities(self.model.labels.encode(document.labels.strings()), document)


class Read(NamedTuple):
    """An entity of an answer that can be read: its document and place, margin, and entities that hang on it."""

    document: int
    place: tuple[int, int]
    margin: float
    others: int


def readable(answers: Answers, number: int, answer: Answer) -> Iterator[Read]:
    """The entities of an answer."""
    for place, kind in answer.entities.items():
        entity = Entity(*place, answers.model.labels.types.index(kind))
        score, without = answers.rival(number, answer, entity)
        differing = set(answer.entities.items()) ^ set(without.items())
        yield Read(number, place, answer.decoded.objective - score, len(differing))


def truth(gold: Entities, place: tuple[int, int]) -> list[Correction]:
    """What a reader says of a place: the entities that gold has there, or that there is none."""
    touching = [(own, kind) for own, kind in gold.items() if own[0] < place[1] and place[0] < own[1]]
    return [Correction(*own, kind) for own, kind in touching] or [Correction(*place, None)]


ORDERS: dict[str, Callable[[Read], float]] = {
    "least margin": lambda one: one.margin,
    "most change": lambda one: -one.others / (1.0 + np.exp(min(one.margin, 500.0))),
}


def f1(answers: Answers, read: Sequence[Read], before: Sequence[Answer]) -> float:
    """F1 of entities of the whole corpus once these are read."""
    corrections: dict[int, dict[tuple[int, int], Correction]] = {}
    for one in read:
        for correction in truth(answers.gold(one.document), one.place):
            corrections.setdefault(one.document, {})[correction.start, correction.end] = correction
    both = predicted = gold = 0
    for number, answer in enumerate(before):
        kept = corrections.get(number)
        now = answers.answer(number, list(kept.values())) if kept else answer
        own, right = set(now.entities.items()), set(answers.gold(number).items())
        both, predicted, gold = both + len(own & right), predicted + len(own), gold + len(right)
    return 2 * both / (predicted + gold)


def measured(answers: Answers) -> dict[str, Any]:
    """F1 by order and number of answers read."""
    before = [answers.answer(number) for number in range(len(answers.documents))]
    every = [one for number, answer in enumerate(before) for one in readable(answers, number, answer)]
    curves: dict[str, list[float]] = {}
    for name, rank in ORDERS.items():
        order = sorted(every, key=rank)
        curves[name] = [f1(answers, order[:count], before) for count in READ]
    draws = [np.random.default_rng(seed).permutation(len(every)) for seed in range(DRAWS)]
    curves["at random"] = [
        float(np.mean([f1(answers, [every[i] for i in draw[:count]], before) for draw in draws])) for count in READ
    ]
    return {"documents": len(before), "entities": len(every), "read": READ, "f1": curves}


def main() -> None:
    """Measures each corpus, and keeps the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sets", nargs="+", help="TITLE=MODEL,CORPUS or TITLE=MODEL,CORPUS,CONSTRAINTS")
    figures = known_figures("corrections")
    figures.pop("machine", None)
    for one in parser.parse_args().sets:
        title, _, places = one.partition("=")
        model, corpus, *files = places.split(",")
        opened = open_model(model, HERE)
        constraints = open_constraints(opened, files, consistency=True)
        documents, _ = read_documents(plan(corpus), gold=True)
        figures[title] = measured(Answers(documents, opened.model, constraints))
        print(title, figures[title], flush=True)
    save("corrections", figures)


if __name__ == "__main__":
    main()
