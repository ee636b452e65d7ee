"""A run of answers that another program gave: `concord adopt`."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import pyarrow as pa

from concord.flows.commands.layering import check_answered, label_names, never_said, tagger_answers
from concord.flows.errors import RunFolderError
from concord.flows.inputs.jobs import checked_places, run_place, source_place
from concord.flows.inputs.options import OptionError
from concord.flows.labelling.corrected_documents import correction_file
from concord.flows.labelling.label_corpus import label_corpus
from concord.flows.runfolder.former_run import former_sources
from concord.flows.runfolder.layout import ADOPTED_FOLDER, SOURCES, RunOutput
from concord.flows.runfolder.runfolder import Purpose, check_purpose, run_output, sources_in
from concord.flows.screen.progress import meter, say
from concord.schemas.document import Batch, Document
from concord.schemas.folders import FolderKind
from concord.schemas.label_names import has_prefix
from concord.schemas.labels import OUTSIDE, LabelSet, Scheme
from concord.schemas.layers import ABOVE
from concord.schemas.requests import LabelRequest
from concord.schemas.run import ADOPTED
from concord.schemas.run_report import RunReport
from concord.schemas.secrets import short_name
from concord.schemas.settings import TextSettings
from concord.workers.corpus.plan import plan
from concord.workers.corpus.shards import read_batch
from concord.workers.corpus.taggers import ImportTally, SpanOnTokens, TaggerAnswers
from concord.workers.corpus.tokenizers.registry import pinned
from concord.workers.models.adopted import (
    GIVEN_FILE,
    PROGRAM_FILE,
    AnsweringProgram,
    GivenSpan,
    save,
    table_of,
)
from concord.workers.models.folder import MANIFEST, ModelError
from concord.workers.storage.storage import Storage, file_bytes, read_if_there

KEPT_LIST = "names.txt"
"""The names of the kept answers, one a line."""
NAME_DIGITS = 16
"""Hex digits of the name of kept answers."""
CUT = "are cut where a sentence of the corpus ends"
NO_PROBABILITY = "have a score that is no number from 0 to 1, which is left out"


class AnswerSource(NamedTuple):
    """Answers, and who gave them.

    - ``place``: file or folder; ``form``: its reader, with ``options``
    - ``names``: the user's names for labels of the program, as THEIRS=YOURS
    - ``program``, ``version``, ``prompt``: what the user calls the program; the prompt is a file
    """

    place: str
    form: str
    program: str
    version: str | None = None
    prompt: str | None = None
    names: Sequence[str] = ()
    options: Sequence[str] = ()


@dataclass
class GoldNames:
    """Names of the gold labels of a corpus but for O; ``plain`` if the corpus says that each is a type by itself."""

    names: set[str] = field(default_factory=set)
    plain: bool = False

    def add(self, batch: Batch) -> None:
        """Adds the labels of a batch."""
        if batch.labels is not None:
            self.names |= {name for name in batch.labels.used() if name != OUTSIDE}
            self.plain |= batch.labels.plain

    @property
    def scheme(self) -> Scheme:
        """The scheme of labels that can be counted against them; BIO where there are none."""
        bare = bool(self.names) and not any(map(has_prefix, self.names))
        return Scheme.PLAIN if self.plain or bare else Scheme.BIO


def adopt(source: AnswerSource, request: LabelRequest) -> RunReport:
    """Makes a run of the answers, like `flows.reprocess` of those that concord finds; the request's model is theirs.

    A document without an answer is a reject. Raises `LayerError` where no document has one, `OptionError`, the errors
    of reading, those of `flows.reprocess`, and `RunFolderError` where another call has put other answers there.
    """
    out = run_place(request.out)
    prompts = [] if source.prompt is None else [source.prompt]
    (corpus,) = checked_places(
        [request.corpus], out, makes=FolderKind.RUN, files=[source.place, *prompts, *request.files_read]
    )
    text = request.settings.text.model_copy(update={"tokenizer": pinned(request.settings.text.tokenizer)})
    settings = request.settings.model_copy(update={"engine": ADOPTED, "confidence": "marginal", "text": text})
    answered = _program(source)
    table, scheme = _answers(source, answered, corpus, text)
    output = run_output(out)
    with output.exclusive():
        check_purpose(output, Purpose.of(corpus))
        model = _keep(output, answered, table, scheme, correction_file(request.corrections).types)
    corrections = None if request.corrections is None else source_place(request.corrections)
    parts = {"corpus": corpus, "out": out, "model": model, "settings": settings, "corrections": corrections}
    try:
        return label_corpus(request.model_copy(update=parts | {"consistency": False}))
    except ModelError as error:
        if short_name(model) in _listed(output.storage.below(ADOPTED_FOLDER)):
            raise
        fault = "another `concord adopt` has put its answers in the place of these meanwhile; give the command again"
        raise RunFolderError(f"{out}: {fault}") from error


def _program(source: AnswerSource) -> AnsweringProgram:
    if not source.program.strip():
        raise OptionError("--program: want a name, such as gliner")
    names = label_names(source.names)
    above = next((theirs for theirs, yours in names.items() if ABOVE in yours), None)
    if above is not None:
        raise OptionError(f"--map {above}: an answer has one type; give one, or O to leave it out")
    prompt = None if source.prompt is None else hashlib.sha256(file_bytes(source.prompt)).hexdigest()
    return AnsweringProgram(program=source.program, version=source.version, prompt=prompt, names=names)


def _answers(
    source: AnswerSource, answered: AnsweringProgram, corpus: str, text: TextSettings
) -> tuple[pa.Table, Scheme]:
    """The answers to the documents of the corpus, on their tokens, and the scheme of its gold labels, BIO for none.

    Tells what could not be placed.
    """
    tally, gold = ImportTally(), GoldNames()
    answers = tagger_answers(source.place, source.form, source.options, answered.names, tally)
    with meter("placing the answers", None):
        table = table_of(_placed(answers, tally, corpus, text, gold))
    answers.end()
    check_answered(tally, answers, source.place, corpus)
    _tell(tally, source, answered.names)
    return table, gold.scheme


def _placed(
    answers: TaggerAnswers, tally: ImportTally, corpus: str, text: TextSettings, gold: GoldNames
) -> Iterator[tuple[str, int, list[GivenSpan]]]:
    for shard in plan(corpus, text=text.without_kept):
        batch = read_batch(shard, text=text.without_kept)[0]
        gold.add(batch)
        for document in batch:
            placed = answers.placed(document)
            if placed is None:
                continue
            pieces = [piece for span in answers.spans_to_show(placed) for piece in _pieces(span, document, tally)]
            yield document.doc_id, len(document), pieces


def _pieces(span: SpanOnTokens, document: Document, tally: ImportTally) -> Iterator[GivenSpan]:
    """A span as labels can say it: within sentences."""
    first, last, label, came = span
    score = came.score
    if score is not None and not 0.0 <= score <= 1.0:
        tally.unplaced[NO_PROBABILITY] += 1
        score = None
    inside = [start for start in document.sentence_starts.tolist() if first < start < last]
    tally.unplaced[CUT] += bool(inside)
    for start, end in zip([first, *inside], [*inside, last], strict=True):
        yield GivenSpan(start, end, label, score)


def _tell(tally: ImportTally, source: AnswerSource, names: Mapping[str, str]) -> None:
    """Tells what of the answers is not as it came; documents without an answer are rejects of the run."""
    for reason, count in (+tally.unplaced).items():
        say(f"{count:,} of {tally.spans:,} spans {reason}", style="yellow")
    for reason, count in (+tally.unused).items():
        say(f"{count:,} {reason}", style="yellow")
    for notice in dict.fromkeys(f"{one.source}: {one.reason}" for one in tally.notices):
        say(notice)
    if tally.rejects:
        say(f"{len(tally.rejects):,} records cannot be read; the first: {tally.rejects[0].line}", style="yellow")
    if not tally.labels:
        say(f"{source.place}: marks nothing in any document; is that what {source.program} says?", style="yellow")
    for notice in never_said(names, tally):
        say(notice, style="yellow")


def _keep(
    output: RunOutput, answered: AnsweringProgram, table: pa.Table, scheme: Scheme, more_types: frozenset[str]
) -> str:
    """Keeps the answers in the output, and removes those that are neither of the published run nor of the one before.

    Returns the place, which no other answers have. Raises `OutputError`.
    """
    types = {span["type"] for spans in table["spans"].to_pylist() for span in spans}
    store = output.storage.below(ADOPTED_FOLDER)
    kinds = sorted(types.union(more_types))
    labels = LabelSet((OUTSIDE, *kinds), scheme) if scheme is Scheme.PLAIN else LabelSet.bio(kinds)
    with TemporaryDirectory() as folder:
        model = save(Path(folder), answered, table, labels)
        name = model.manifest.digest[:NAME_DIGITS]
        _remove_unused(output, store, name)
        for file in (*model.manifest.files, MANIFEST):
            store.write(f"{name}/{file}", (Path(folder) / file).read_bytes())
    return store.below(name).uri


def _listed(store: Storage) -> list[str]:
    """Names of the kept answers."""
    return (read_if_there(store, KEPT_LIST) or b"").decode().split()


def _remove_unused(output: RunOutput, store: Storage, name: str) -> None:
    """Removes kept answers that no run of the output needs, and lists those that are left, with a new name."""
    runs = (sources_in(read_if_there(output.storage, SOURCES)), sources_in(former_sources(output.storage)))
    needed = {short_name(run.model) for run in runs if run is not None}
    listed = _listed(store)
    kept = dict.fromkeys([*(one for one in listed if one in needed), name])
    store.write(KEPT_LIST, "\n".join(kept).encode())
    for one in listed:
        if one not in kept:
            store.remove([f"{one}/{file}" for file in (MANIFEST, PROGRAM_FILE, GIVEN_FILE)])
