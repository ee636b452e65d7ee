"""Why a run answers as it does at a span of a document: `concord why`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from concord.flows.labelling.corrected_documents import correction_file
from concord.flows.labelling.planning import Listing, plan_corpus, read_here
from concord.flows.labelling.sources import open_constraints, open_model
from concord.flows.runfolder.delta_table import TableState, has_table, past_answers
from concord.flows.runfolder.published import Published, published, row_of
from concord.flows.runfolder.runfolder import Sources, read_sources
from concord.flows.screen.progress import compiling_told
from concord.schemas.columns import DOC_ID, DOCUMENT_DIGEST, LABELS, PREDICTIONS_LAYOUT
from concord.schemas.corrections import Correction, CorrectionError
from concord.schemas.decoded import Decoded, Score, Status
from concord.schemas.document import TOKENS, Batch
from concord.schemas.errors import InputError, UnknownDocumentError, UsageError
from concord.schemas.problem import Problem
from concord.schemas.run_context import HERE, RunContext
from concord.schemas.why import PastAnswer, SpanReason, WhyReport
from concord.workers.constraints.correction_mask import check_corrections
from concord.workers.corpus.shards import read_documents
from concord.workers.inference.core.prepared import Prepared
from concord.workers.labelling.output import PREDICTIONS
from concord.workers.labelling.reasons import AnsweredProblem, changed_spans, reason_of
from concord.workers.models.model import Model, local_scores, score_column, text_tokenizer
from concord.workers.remote.survey import SurveyParts

SPAN_FORM = re.compile(r"([0-9]+):([0-9]+)")


class MovedError(InputError):
    """A model, a corpus or constraints that are not those of the run."""


class Moved(NamedTuple):
    """Places of what a run was made from, where they are others now; None for those that are not."""

    corpus: str | None = None
    model: str | None = None
    constraints: tuple[str, ...] | None = None

    def now(self, sources: Sources) -> Sources:
        """The places now."""
        return sources.model_copy(update={name: place for name, place in self._asdict().items() if place is not None})


NOT_MOVED = Moved()


def parsed_span(text: str) -> tuple[int, int]:
    """First token, and the one after the last, of ``A:B``. Raises `UsageError`."""
    match = SPAN_FORM.fullmatch(text)
    if match is None or int(match[1]) >= int(match[2]):
        raise UsageError(f"--span {text}: want A:B, the first token and the one after the last, such as 3:5")
    return int(match[1]), int(match[2])


def why(
    out: str, doc_id: str, *, span: tuple[int, int] | None = None, moved: Moved = NOT_MOVED, context: RunContext = HERE
) -> WhyReport:
    """Why the document of the run in the folder ``out`` has an entity at ``span``, or has none.

    Without a span: each entity that the answer or the model alone has and the other has not. Raises
    `UnknownDocumentError`, `MovedError` where model, constraints or document are not those of the run, `UsageError` for
    a span that the document does not have, and the errors of reading.
    """
    run = published(out)
    row = _row(run, doc_id)
    sources, key = moved.now(read_sources(run.storage)), run.manifest.run
    opened = open_model(sources.model, context)
    constraints = open_constraints(opened, sources.constraints, consistency=sources.consistency)
    _check(out, "model", sources.model, opened.model.digest, key.model, "--model")
    named = ", ".join(sources.constraints) or "trained with the model"
    _check(out, "constraints", named, constraints.digest, key.constraints, "--constraints")
    batch = _document(run, sources, opened.model, row)
    with compiling_told():
        scores = local_scores(opened.model, batch)
        problem = Prepared.of(next(scores.problems(batch, opened.model.labels, constraints)))
        answered = AnsweredProblem(problem, _answer(problem, row), batch.document(0).tokens, doc_id, key.settings)
        spans = changed_spans(answered) if span is None else [_checked(span, problem, doc_id)]
        past = list(past_answers(run.storage, doc_id)) if has_table(run.storage) else []
        reasons = [reason_of(answered, *place) for place in spans]
    return WhyReport(
        out=out,
        doc_id=doc_id,
        status=row["status"],
        gap=answered.answer.gap,
        spans=tuple(one.model_copy(update={"past": _changes(past, one, row)}) for one in reasons),
        model=sources.model,
        model_digest=key.model,
        constraint_digest=key.constraints,
        corrections=len(batch.corrections.get(doc_id, ())),
    )


def _changes(
    past: Sequence[tuple[TableState, Mapping[str, Any]]], span: SpanReason, now: Mapping[str, Any]
) -> tuple[PastAnswer, ...]:
    """The versions in which the answer at a span became another one."""
    changes = list[PastAnswer]()
    for state, row in past:
        here = (one["type"] for one in row["entities"] if (one["start"], one["end"]) == (span.start, span.end))
        same_text, kind = row[TOKENS] == now[TOKENS], next(here, None)
        answer = PastAnswer(version=state.version, type=kind, model_digest=state.model, same_text=same_text)
        if not changes or (changes[-1].type, changes[-1].same_text) != (kind, same_text):
            changes.append(answer)
    return tuple(changes)


def _row(run: Published, doc_id: str) -> Mapping[str, Any]:
    """The answer of the run to a document. Raises `UnknownDocumentError`."""
    for table in run.tables(PREDICTIONS, PREDICTIONS_LAYOUT):
        row = row_of(table, doc_id)
        if row is not None:
            return row
    raise UnknownDocumentError(f"{run.uri}: the run has no answer to a document {doc_id!r}; look at the id")


def _check(out: str, what: str, name: str, now: str, then: str, option: str) -> None:
    if now != then:
        raise MovedError(f"{out}: the {what} {name} is not what this run was made from; name the place with {option}")


def _document(run: Published, sources: Sources, model: Model, row: Mapping[str, Any]) -> Batch:
    """The document of an answer alone. Raises `MovedError`, and what reading raises."""
    text, doc_id = run.manifest.run.settings.text, row[DOC_ID]
    parts = SurveyParts(text, sources.shard_bytes, score_column(model))
    corrections = correction_file(sources.corrections)
    survey, _ = plan_corpus(Listing.of(sources.corpus), parts, run.storage, read_here, [doc_id], corrections)
    for shard in survey.shards:
        batch, _, digests, _ = read_documents(shard, text=text, tokenizer=text_tokenizer(model))
        if doc_id in batch.doc_ids and digests[batch.doc_ids.index(doc_id)] == row[DOCUMENT_DIGEST]:
            place = batch.doc_ids.index(doc_id)
            return batch.part(place, place + 1)
    raise MovedError(
        f"{run.uri}: document {doc_id!r} of {sources.corpus} (or its corrections) is not what this run was made from; "
        "name the place with --corpus, or run again"
    )


def _answer(problem: Problem, row: Mapping[str, Any]) -> Decoded:
    labels = problem.labels.encode(row[LABELS])
    degree, penalties = (np.array([one[name] for one in row["constraints"]]) for name in ("degree", "penalty"))
    return Decoded(labels, Score(row["local"], degree, penalties), row["bound"], Status(row["status"]))


def _checked(span: tuple[int, int], problem: Problem, doc_id: str) -> tuple[int, int]:
    """The span, if an entity can be there. Raises `UsageError`."""
    entity = Correction(*span, problem.labels.types[0])
    try:
        check_corrections([entity], problem.labels, problem.potentials.sentence_starts, len(problem), doc_id=doc_id)
    except CorrectionError as error:
        raise UsageError(f"--span {span[0]}:{span[1]}: {error}") from None
    return span
