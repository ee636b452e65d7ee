"""Runs over whole corpora: labelling on Ray, evaluation against gold, verification, explanation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from concord.flows.inputs.frames import Corpus, place_of_corpus
from concord.flows.inputs.in_python import speaks_python
from concord.rules import Rules
from concord.schemas.audit import Explanation
from concord.schemas.reports import EvaluationReport, RunPageReport, VerifyReport
from concord.schemas.run import ENGINE, ConfidenceKind, RunSettings
from concord.schemas.run_context import RunContext
from concord.schemas.run_report import RunReport
from concord.schemas.settings import TextSettings
from concord.schemas.why import WhyReport


@speaks_python
def reprocess(
    corpus: Corpus,
    *,
    model: str | PathLike[str],
    out: str | PathLike[str],
    engine: str = ENGINE,
    options: Mapping[str, Any] | None = None,
    constraints: Sequence[str | PathLike[str]] = (),
    consistency: bool = True,
    only: Sequence[str] | None = None,
    corrections: str | PathLike[str] | None = None,
    seed: int = 0,
    text_column: str | None = None,
    id_column: str | None = None,
    tokenizer: str | None = None,
    keep_columns: Sequence[str] = (),
    confidence: ConfidenceKind = "none",
    n_best: int = 0,
    certificates: bool = False,
    settle: bool = False,
    allow_gone: bool = False,
    allow_again: bool = False,
    report: bool = False,
    ray: str | None = None,
    workers: int | None = None,
    tracking: str | None = None,
) -> RunReport:
    """Labels every document of a corpus on Ray; the same call again does only the work that is not done yet.

    - ``corpus``: the corpus, or a pandas frame or Arrow table of documents, which is kept beside ``out``
    - ``model``: model folder, URI (``s3://bucket/model``), or ``models:/NAME@ALIAS`` of MLflow's registry
    - ``out``: folder of the run, or URI of an object store (``s3://bucket/out``); `read_predictions` opens it
    - ``engine``, ``options``: name of the engine and its options
    - ``constraints``: paths of YAML files
    - ``consistency``: use the label consistency that was learned with the model, too?
    - ``only``: ids of the documents that are labelled; the default is all. Such a run needs an output of its own
    - ``corrections``: path of a file of corrections, which every answer keeps, see ``docs/corrections.md``
    - ``seed``: seed of all random choices
    - ``text_column``, ``id_column``: columns of raw text and of document ids, for a corpus of raw text
    - ``tokenizer``: name of the tokenizer for raw text; the default is the one that the model names
    - ``keep_columns``: columns of the corpus that predictions have, too, such as a source or a date
    - ``confidence``: figure for each entity: "marginal", "margin" or "none"
    - ``n_best``: number of best labellings that are listed; 0 for none
    - ``certificates``: write proofs that `verify` can check?
    - ``settle``: prove that no other labelling comes near an answer, so that later runs with other constraints or
      another model keep it without a search?
    - ``allow_gone``: publish although more than a tenth of the last run's documents are gone or rejects?
    - ``allow_again``: publish although a rollback took the same answers back?
    - ``report``: log the page of `report` to MLflow?
    - ``ray``: address of a Ray cluster; the default is ``RAY_ADDRESS``, or else this machine ("local")
    - ``workers``: number of this machine's cores to use
    - ``tracking``: address of MLflow

    Raises `InputError` for input that cannot be used. If shards fail, the others are finished first; then an error with
    the report is raised.

    >>> report = concord.reprocess("corpora/test", model="models/news", out="out", workers=1)
    >>> report.documents, report.rejected
    (20, 0)
    """
    from concord.flows.reprocess import reprocess as flow

    columns = {"text_column": text_column, "id_column": id_column, "tokenizer": tokenizer}
    named = {name: value for name, value in columns.items() if value is not None}
    text = TextSettings.model_validate(named | {"keep_columns": tuple(keep_columns)})
    settings = RunSettings(
        engine=engine,
        options=dict(options or {}),
        seed=seed,
        text=text,
        confidence=confidence,
        n_best=n_best,
        certificates=certificates,
        settle=settle,
    )
    return flow(
        place_of_corpus(corpus, fspath(out)),
        fspath(model),
        fspath(out),
        settings=settings,
        constraints=[fspath(path) for path in constraints],
        consistency=consistency,
        only=only,
        corrections=None if corrections is None else fspath(corrections),
        allow_gone=allow_gone,
        allow_again=allow_again,
        report=report,
        ray=ray,
        workers=workers,
        tracking=tracking,
    )


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
    doc_id: str,
    *,
    span: tuple[int, int] | None = None,
    corpus: str | PathLike[str] | None = None,
    model: str | PathLike[str] | None = None,
    constraints: Sequence[str | PathLike[str]] | None = None,
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
        None if constraints is None else tuple(fspath(path) for path in constraints),
    )
    return explain_span(fspath(run), doc_id, span=span, moved=moved, context=RunContext(tracking=tracking))


@speaks_python
def explain(
    text: str, *, model: str | PathLike[str], constraints: Rules = (), consistency: bool = True, engine: str = ENGINE
) -> Explanation:
    """The effect of each constraint on a text: what it changes, and its cost in nats. Raises `InputError`.

    >>> [effect.name for effect in concord.explain("Ada met Ada Lovelace.", model="models/news").effects]
    ['consistent', 'consistent_subsequence', 'consistent_unlabelled']
    """
    from concord.labelling import load

    return load(model, constraints=constraints, consistency=consistency, engine=engine).explain(text)
