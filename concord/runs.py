"""Runs over whole corpora: labelled on Ray, scored against gold, verified, explained."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike, fspath
from typing import Any

from concord.flows.run_context import RunContext
from concord.rules import Rules
from concord.schemas.audit import Explanation
from concord.schemas.reports import EvaluationReport, VerifyReport
from concord.schemas.run import ENGINE, ConfidenceKind, RunReport, RunSettings
from concord.schemas.settings import TextSettings


def reprocess(
    corpus: str | PathLike[str],
    *,
    model: str | PathLike[str],
    out: str | PathLike[str],
    engine: str = ENGINE,
    options: Mapping[str, Any] | None = None,
    constraints: Sequence[str | PathLike[str]] = (),
    consistency: bool = True,
    seed: int = 0,
    text_column: str | None = None,
    id_column: str | None = None,
    tokenizer: str | None = None,
    confidence: ConfidenceKind = "none",
    n_best: int = 0,
    certificates: bool = False,
    ray: str | None = None,
    workers: int | None = None,
    tracking: str | None = None,
) -> RunReport:
    """Labels every document of a corpus on Ray, into the folder ``out``; the same call again does what is not done yet.

    ``model`` is a folder or ``models:/NAME@ALIAS``; ``constraints`` are paths of YAML files. ``text_column`` and
    ``id_column`` read raw text, which ``tokenizer`` cuts, by default the one that the model states. ``ray`` is a
    cluster's address, by default this machine with ``workers`` of its cores. `read_predictions` opens what was written.
    Raises `InputError` for what cannot be used, and an error with the report where shards failed, after the others are
    done.

    >>> report = concord.reprocess("corpora/test", model="models/news", out="out", workers=1)
    >>> report.documents, report.rejected
    (20, 0)
    """
    from concord.flows.reprocess import reprocess as flow

    columns = {"text_column": text_column, "id_column": id_column, "tokenizer": tokenizer}
    text = TextSettings.model_validate({name: value for name, value in columns.items() if value is not None})
    settings = RunSettings(
        engine=engine,
        options=dict(options or {}),
        seed=seed,
        text=text,
        confidence=confidence,
        n_best=n_best,
        certificates=certificates,
    )
    return flow(
        fspath(corpus),
        fspath(model),
        fspath(out),
        settings=settings,
        constraints=[fspath(path) for path in constraints],
        consistency=consistency,
        ray=ray,
        workers=workers,
        tracking=tracking,
    )


def evaluate(
    run: str | PathLike[str],
    *,
    corpus: str | PathLike[str],
    measures: Sequence[str] | None = None,
    against: str | PathLike[str] | None = None,
) -> EvaluationReport:
    """Scores the run in a folder against a corpus with gold labels; ``against`` compares it with another run's.

    ``measures`` are names of ``docs/measures.md``, by default those of the label scheme. Raises `InputError`.

    >>> concord.evaluate("proven", corpus="corpora/test").documents
    20
    """
    from concord.flows.commands.evaluate import evaluate as scored

    other = None if against is None else fspath(against)
    return scored(fspath(run), fspath(corpus), measures=measures, against=other).report


def verify(run: str | PathLike[str], *, tracking: str | None = None) -> VerifyReport:
    """Checks a run of any engine: every document, number and reject, and the bounds that have certificates.

    Raises `InputError`.

    >>> concord.verify("proven").failed
    ()
    """
    from concord.flows.commands.verify import verify as verified

    return verified(fspath(run), RunContext(tracking=tracking))


def explain(
    text: str, *, model: str | PathLike[str], constraints: Rules = (), consistency: bool = True, engine: str = ENGINE
) -> Explanation:
    """What each constraint changes in a text, and at what cost in nats. Raises `InputError`.

    >>> [effect.name for effect in concord.explain("Ada met Ada Lovelace.", model="models/news").effects]
    ['consistent', 'consistent_subsequence', 'consistent_unlabelled']
    """
    from concord.labelling import load

    return load(model, constraints=constraints, consistency=consistency, engine=engine).explain(text)
