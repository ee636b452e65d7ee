"""Runs over whole corpora: labelling on Ray, evaluation against gold, verification, explanation."""

from __future__ import annotations

import json
from collections.abc import Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from concord.flows.inputs.frames import place_of_corpus
from concord.flows.inputs.in_python import several, speaks_python
from concord.flows.inputs.request_fields import takes_fields
from concord.rules import Rules
from concord.schemas.adopting import NOT_ADOPTED, AdoptRequest
from concord.schemas.audit import Explanation
from concord.schemas.reports import EvaluationReport, RunPageReport, VerifyReport
from concord.schemas.requests import LabelRequest
from concord.schemas.run import ENGINE
from concord.schemas.run_context import RunContext
from concord.schemas.run_report import RunReport
from concord.schemas.why import WhyReport


def _place_of(corpus: Any, request: LabelRequest) -> str:
    """The place of a corpus that is a table."""
    return place_of_corpus(corpus, request.out)


@speaks_python
@takes_fields(LabelRequest, _place_of)
def reprocess(request: LabelRequest) -> RunReport:
    """Labels every document of a corpus on Ray; the same call again does only the work that is not done yet.

    The corpus may be a pandas frame or an Arrow table of documents, too, which is kept beside ``out``;
    `read_predictions` opens what is written there.

    {fields}

    Raises `InputError` for input that cannot be used. If shards fail, the others are finished first; then an error with
    the report is raised.

    >>> report = concord.reprocess("corpora/test", model="models/news", out="out", workers=1)
    >>> report.documents, report.rejected
    (20, 0)
    """
    from concord.flows.reprocess import reprocess as flow

    return flow(request)


@speaks_python
@takes_fields(AdoptRequest, apart=NOT_ADOPTED)
def adopt(request: AdoptRequest) -> RunReport:
    """Makes a run of another program's answers; the same call again does only what is not done yet.

    {fields}

    Raises `InputError`, and the errors of `reprocess`.

    >>> concord.adopt("answers.jsonl", program="tagger", corpus="corpora/test", out="adopted").documents
    20
    """
    from concord.flows.commands.adopting import AnswerSource
    from concord.flows.commands.adopting import adopt as adopted

    names = [f"{theirs}={yours}" for theirs, yours in request.names.items()]
    options = [f"{name}={json.dumps(value)}" for name, value in request.options.items()]
    given = (request.answers, request.form, request.program, request.version, request.prompt, names, options)
    return adopted(AnswerSource(*given), request.run)


@speaks_python
def evaluate(
    run: str | PathLike[str],
    *,
    corpus: str | PathLike[str],
    measures: Sequence[str] | None = None,
    against: str | PathLike[str] | None = None,
) -> EvaluationReport:
    """Scores a run against a corpus with gold labels.

    - ``run``: folder of the run
    - ``corpus``: the corpus with gold labels
    - ``measures``: names of measures, see ``docs/measures.md``; the default depends on the label scheme
    - ``against``: folder of another run to compare with

    Raises `InputError`.

    >>> concord.evaluate("proven", corpus="corpora/test").documents
    20
    """
    from concord.flows.labelling.evaluate import evaluate as scored

    other = None if against is None else fspath(against)
    return scored(fspath(run), fspath(corpus), measures=measures, against=other).report


@speaks_python
def report(
    run: str | PathLike[str],
    *,
    out: str | PathLike[str],
    against: str | PathLike[str] | None = None,
    corpus: str | PathLike[str] | None = None,
    promise: str | PathLike[str] | None = None,
) -> RunPageReport:
    """Writes a run as one page for people: figures in plain words, and a viewer of the documents that changed.

    - ``run``: folder of the run
    - ``out``: HTML file; it needs no network and no second file
    - ``against``: folder of another run, whose answers are shown beside
    - ``corpus``: corpus with gold labels, which say what is right
    - ``promise``: file promise.json of ``concord review``

    Raises `InputError`.

    >>> concord.report("proven", corpus="corpora/test", out="report.html").documents
    20
    """
    from concord.flows.commands.report import report as written

    other, gold = (None if place is None else fspath(place) for place in (against, corpus))
    return written(
        fspath(run), Path(out), against=other, corpus=gold, promise=None if promise is None else Path(promise)
    )


@speaks_python
def verify(run: str | PathLike[str], *, tracking: str | None = None) -> VerifyReport:
    """Verifies a run of any engine: every document, number and reject, and the bounds that have certificates.

    Raises `InputError`.

    >>> concord.verify("proven").failed
    ()
    """
    from concord.flows.commands.verify import verify as verified

    return verified(fspath(run), RunContext(tracking=tracking))


@speaks_python
def why(
    run: str | PathLike[str],
    doc_id: str | int,
    *,
    span: tuple[int, int] | None = None,
    corpus: str | PathLike[str] | None = None,
    model: str | PathLike[str] | None = None,
    constraints: str | PathLike[str] | Sequence[str | PathLike[str]] | None = None,
    tracking: str | None = None,
) -> WhyReport:
    """Why a document of a run has an entity at a span, or has none: margin, rivals, constraints, mentions, in nats.

    - ``run``: folder of the run
    - ``doc_id``: the document
    - ``span``: its first token, and the one after its last; the default is each entity that the constraints changed
    - ``corpus``, ``model``, ``constraints``: of the run, where they have moved
    - ``tracking``: address of MLflow

    Raises `InputError`, also where the model, the constraints or the document are no longer those of the run.

    >>> concord.why("proven", "news-1-000000000", span=(0, 1)).spans[0].text
    'WEATHER'
    """
    from concord.flows.commands.why import Moved
    from concord.flows.commands.why import why as explain_span

    moved = Moved(
        None if corpus is None else fspath(corpus),
        None if model is None else fspath(model),
        None if constraints is None else tuple(map(fspath, several(constraints))),
    )
    return explain_span(fspath(run), str(doc_id), span=span, moved=moved, context=RunContext(tracking=tracking))


@speaks_python
def explain(
    text: str, *, model: str | PathLike[str], constraints: Rules = (), consistency: bool = True, engine: str = ENGINE
) -> Explanation:
    """The effect of each constraint on a text: what it changes, and its cost in nats. Raises `InputError`.

    >>> [effect.name for effect in concord.explain("Ada met Ada Lovelace.", model="models/news").effects]
    ['consistent', 'consistent_unlabelled']
    """
    from concord.labelling import load

    return load(model, constraints=constraints, consistency=consistency, engine=engine).explain(text)
