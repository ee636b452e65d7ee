"""Rules and agreement in one proof: CPU seconds of certify, and what rests on a solver's word, before and after.

Each set is documents under a model's label consistency and a file of rules. Their problems are made once, by this
checkout, and solved by it and by the other checkout that ``--against`` names, in turn, each in a process of its own.
Agreements that can charge nothing stay in the problems that the other checkout gets: whether it solves them quickly is
part of the question. ``CUT`` cuts documents at the first end of a sentence after so many tokens.

    python benchmarks/bench_together.py --against ../before news=MODEL,TESTA talks=MODEL,MAILS,seminars.yaml \
        short=MODEL,TESTA,,50
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

from common import MADE, ROOT, batches, save

from concord.flows.labelling.sources import open_constraints, open_model
from concord.schemas.document import Batch, Document
from concord.schemas.problem import Problem
from concord.workers.constraints.constraint_set import build_problems

MEASURE = """
import json, pickle, sys, time
from pathlib import Path
from concord.workers.inference.registry import Decoder
made = pickle.loads(Path(sys.argv[1]).read_bytes())
decoder = Decoder.of("certify")
for doc_id, problem in made[:10]:
    decoder(problem, doc_id)
seconds, statuses, objectives = 0.0, [], []
for doc_id, problem in made:
    started = time.process_time()
    answer = decoder(getattr(problem, "binding", lambda: problem)(), doc_id)
    seconds += time.process_time() - started
    statuses.append(answer.status.value)
    objectives.append(answer.objective)
print(json.dumps({"seconds": seconds, "statuses": statuses, "objectives": objectives}))
"""
"""What a checkout runs: the documents of a file, and what it answers. The first ten load the kernels."""

BETTER = 1e-6
"""Nats by which an objective has to differ to count as another one."""


def main() -> None:
    """Makes the problems, solves them by both checkouts, and saves the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", type=Path, required=True, help="another checkout of concord")
    parser.add_argument("sets", nargs="+", metavar="NAME=MODEL,CORPUS[,RULES[,CUT]]", help="documents to be solved")
    chosen = parser.parse_args()
    save("together", {"sets": [_compared(text, chosen.against) for text in chosen.sets]})


def _compared(text: str, against: Path) -> dict[str, Any]:
    """Figures of a set."""
    name, _, given = text.partition("=")
    model, corpus, rules, cut = (*given.split(","), "", "")[:4]
    file = MADE / "together" / f"{name}.pickle"
    file.parent.mkdir(parents=True, exist_ok=True)
    made = list(_problems(model, corpus, rules, int(cut or 0)))
    file.write_bytes(pickle.dumps(made))
    before, after = (_solved(code, file) for code in (against, ROOT))
    pairs = list(zip(before["objectives"], after["objectives"], strict=True))
    row: dict[str, Any] = {
        "name": name,
        "documents": len(made),
        "tokens": sum(len(problem) for _, problem in made),
        "rows": sum(len(problem.rows) for _, problem in made),
        "before": _figures(before),
        "after": _figures(after),
        "better answers": sum(new > old + BETTER for old, new in pairs),
        "worse answers": sum(new < old - BETTER for old, new in pairs),
    }
    print(json.dumps(row), flush=True)
    return row


def _figures(solved: dict[str, Any]) -> dict[str, float]:
    statuses = solved["statuses"]
    return {
        "CPU seconds": solved["seconds"],
        "by solver": statuses.count("optimal-by-solver") / len(statuses),
        "open": sum(status not in ("optimal", "optimal-by-solver", "infeasible") for status in statuses),
    }


def _solved(code: Path, file: Path) -> dict[str, Any]:
    """What a checkout answers to the problems of a file."""
    command, place = [sys.executable, "-c", MEASURE, str(file.resolve())], code.resolve()
    environment = os.environ | {"PYTHONPATH": str(place)}
    ended = subprocess.run(command, env=environment, cwd=place, stdout=subprocess.PIPE, check=True, text=True)
    answers: dict[str, Any] = json.loads(ended.stdout)
    return answers


def _problems(model: str, corpus: str, rules: str, cut: int) -> Iterator[tuple[str, Problem]]:
    """Id and problem of each document, with agreements that can charge nothing."""
    opened = open_model(model)
    constraints = open_constraints(opened, [rules] if rules else [], consistency=True)
    for batch in batches(corpus):
        own = Batch.of([part for document in batch for part in _cut(document, cut)]) if cut else batch
        with mock.patch.object(Problem, "binding", lambda problem: problem):
            problems = build_problems(own, opened.model.potentials(own), opened.model.labels, constraints)
            yield from zip(own.doc_ids, problems, strict=True)


def _cut(document: Document, tokens: int) -> Iterator[Document]:
    """Parts of a document of whole sentences, each of at least so many tokens but for the last one."""
    bounds, first = [*document.sentence_starts.tolist(), len(document)], 0
    for last in bounds[1:]:
        if last - first >= tokens or last == len(document):
            part = slice(first, last)
            starts = document.sentence_starts[(document.sentence_starts >= first) & (document.sentence_starts < last)]
            columns = {name: column[part] for name, column in document.columns.items()}
            yield Document(f"{document.doc_id}/{first}", starts - first, columns)
            first = last


if __name__ == "__main__":
    main()
