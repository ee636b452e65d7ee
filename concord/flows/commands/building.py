"""Files of phrases, made from lists, tables and packages: `concord gazetteer build`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path

from concord.flows.cluster.cluster import cluster
from concord.flows.cluster.counting import count_all
from concord.flows.inputs.jobs import folder_place, source_place
from concord.flows.inputs.output_places import check_file_place
from concord.flows.screen.progress import meter
from concord.schemas.errors import UsageError
from concord.schemas.reports import GazetteerReport
from concord.schemas.run_context import HERE, RunContext
from concord.schemas.settings import TextSettings
from concord.workers.corpus.plan import plan
from concord.workers.corpus.shards import DEFAULT_TEXT
from concord.workers.features.clustering.word_counts import WordCounts
from concord.workers.features.gazetteer_files import write_phrases
from concord.workers.features.phrase_choice import CommonWords, PhraseChoice
from concord.workers.features.phrase_sources import (
    PACKAGES,
    PhraseSourceError,
    TypedColumn,
    TypedPhrase,
    frequency_in,
    phrases_of_column,
    phrases_of_file,
    phrases_of_package,
)
from concord.workers.features.settings import PhraseSettings
from concord.workers.remote.words import WORDS, WordsParts


def build_gazetteer(
    out: Path,
    settings: PhraseSettings,
    *,
    files: Sequence[Path] = (),
    columns: Sequence[str] = (),
    packages: Sequence[str] = (),
    corpora: Sequence[str] = (),
    frequencies: str | None = None,
    text: TextSettings = DEFAULT_TEXT,
    context: RunContext = HERE,
) -> GazetteerReport:
    """The phrases of files, columns (FILE:COLUMN=TYPE) and packages in one file, sorted; the same bytes for the same
    sources.

    - ``corpora``: text whose letter case says which words are common.
    - ``frequencies``: language of which a package says how frequent words are.

    Raises `UsageError` without a source, `PhraseSourceError`, `GazetteerFileError`, `ShardsError` if a shard failed,
    and the errors of reading a corpus and writing a file.
    """
    tables = [TypedColumn.parse(column) for column in columns]
    folder_place(str(out))
    check_file_place(out, [*files, *(table.file for table in tables), *corpora])
    if not (files or tables or packages):
        raise UsageError(
            "there is nothing to build from: give LISTS, --phrase-column FILE:COLUMN=TYPE or --package NAME"
        )
    frequency = None if frequencies is None else frequency_in(frequencies)
    counts = _counts(corpora, text, context) if corpora else {}
    common, choice = CommonWords.of(counts, frequency, settings), PhraseChoice()
    with meter("reading phrases", None):
        choice.add(_phrases(files, tables, packages, settings), common)
    if not choice.entries:
        raise PhraseSourceError("no phrase is left of these sources")
    out.parent.mkdir(parents=True, exist_ok=True)
    write_phrases(out, sorted(choice.entries))
    return GazetteerReport.from_results(
        choice,
        phrases=len(choice.entries),
        types=dict(sorted(Counter(kind for _, kind in choice.entries).items())),
        origins={name: PACKAGES[name].origin for name in packages},
        out=str(out),
    )


def _phrases(
    files: Sequence[Path], columns: Sequence[TypedColumn], packages: Sequence[str], settings: PhraseSettings
) -> Iterator[TypedPhrase]:
    return chain(
        chain.from_iterable(map(phrases_of_file, files)),
        chain.from_iterable(map(phrases_of_column, columns)),
        *(phrases_of_package(name, settings) for name in packages),
    )


def _counts(corpora: Sequence[str], text: TextSettings, context: RunContext) -> dict[str, int]:
    """Uses of each word in all corpora."""
    shards = [shard for corpus in corpora for shard in plan(source_place(corpus), text=text)]
    with cluster(context.ray, workers=context.workers) as running:
        return WordCounts.merge(count_all(running, WORDS, shards, WordsParts(text), title="counting words")).words
