"""Counts of a corpus, made on Ray: `concord corpus stats`."""

from __future__ import annotations

from collections.abc import Sequence

from concord.flows.cluster.cluster import cluster
from concord.flows.cluster.counting import count
from concord.flows.errors import ReportingError, failed_message
from concord.flows.inputs.jobs import source_place
from concord.flows.labelling.sources import open_model
from concord.schemas.errors import InputError, ShardsError
from concord.schemas.reports import CorpusReport, LengthFigures, SpanFigures
from concord.schemas.run_context import HERE, RunContext
from concord.schemas.secrets import redact
from concord.schemas.settings import TextSettings
from concord.workers.corpus.plan import survey
from concord.workers.corpus.shards import DEFAULT_TEXT, Shard
from concord.workers.evaluation.corpus_counts import CorpusCounts, Lengths
from concord.workers.models.model import KnownWords
from concord.workers.remote.count import COUNT, CountParts


class VocabularyError(InputError):
    """A model without a list of known words."""


class ShardsUncountedError(ReportingError, ShardsError):
    """Some shards failed; ``report`` counts the others and names the errors."""


def corpus_stats(
    corpus: str,
    *,
    model: str | None = None,
    text: TextSettings = DEFAULT_TEXT,
    context: RunContext = HERE,
) -> CorpusReport:
    """Counts of a corpus; unknown words are those that ``model`` does not know.

    The counts do not depend on the number of workers. Raises `ShardsUncountedError` if parts of the corpus failed,
    `VocabularyError`, `ClusterError`, and the errors of reading corpus and model.
    """
    vocabulary = None if model is None else _vocabulary(model, context)
    shards, damages, _ = survey(source_place(corpus), text=text)
    counts, errors = _count(shards, CountParts(text, vocabulary), context)
    errors = [*(redact(str(damage)) for damage in damages), *errors]
    report = _report(corpus, counts, model=model, errors=errors)
    if errors:
        raise ShardsUncountedError(failed_message(errors, len(shards) + len(damages)), report)
    return report


def _vocabulary(model: str, context: RunContext) -> KnownWords:
    found = open_model(model, context).model
    if not isinstance(found, KnownWords):
        raise VocabularyError(f"{model}: this kind of model does not tell which words it knows; leave --model out")
    return found


def _count(shards: Sequence[Shard], parts: CountParts, context: RunContext) -> tuple[CorpusCounts, list[str]]:
    """Merged counts of the shards that did not fail, and the errors of the others."""
    with cluster(context.ray, workers=context.workers) as running:
        found, errors = count(running, COUNT, shards, parts, title="counting")
    return CorpusCounts.merge(found), errors


def _report(corpus: str, counts: CorpusCounts, *, model: str | None, errors: Sequence[str]) -> CorpusReport:
    spans = counts.spans.as_dict()
    return CorpusReport.from_results(
        counts,
        corpus=corpus,
        sentences=counts.sentence_tokens.total,
        unknown_tokens=None if model is None else counts.unknown,
        unknown=None if model is None else counts.unknown / max(counts.tokens, 1),
        labels={name: row["tokens"] for name, row in counts.labels.as_dict().items()},
        spans={name: SpanFigures(**row) for name, row in spans.items()},
        document_tokens=_lengths(counts.document_tokens),
        sentence_tokens=_lengths(counts.sentence_tokens),
        errors=tuple(errors),
    )


def _lengths(lengths: Lengths) -> LengthFigures:
    points = (0, 25, 50, 75, 95, 99, 100)
    names = ("shortest", "p25", "median", "p75", "p95", "p99", "longest")
    found = dict(zip(names, map(lengths.percentile, points), strict=True))
    return LengthFigures(**found, mean=lengths.mean())
