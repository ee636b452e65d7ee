"""Planning of a run: its corpus is read here or on workers, and files that stand as they did are not read again."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import NamedTuple, Self

from concord.flows.labelling.ray_on_demand import RayOnDemand
from concord.flows.runfolder.saved_tables import save_tables, saved_tables
from concord.flows.screen.progress import explained, meter
from concord.schemas.errors import CorpusError
from concord.schemas.secrets import place_of
from concord.workers.compiling.kept_digests import kept_digest
from concord.workers.corpus.correction_file import NO_FILE, CorrectionFile
from concord.workers.corpus.id_file import IdFile
from concord.workers.corpus.kept_survey import is_settled, known_files, survey_schema, survey_tables
from concord.workers.corpus.parquet import ListedFile, listed_files
from concord.workers.corpus.plan import Survey, joined_survey
from concord.workers.corpus.surveyed import SurveyedFile
from concord.workers.remote.survey import SURVEY, SurveyParts, survey_file
from concord.workers.storage.storage import Storage

KEPT_SURVEY = ".survey"
"""The survey in the output of a run, in tables."""

READ_ALONE = 1 << 30
"""Largest size, in bytes, of files that the driver reads by itself: in less time than it takes to start workers."""

SURVEYING_CODE = ("concord.workers.corpus.surveyed",)

FileReader = Callable[[Sequence[ListedFile], SurveyParts], Iterable[SurveyedFile]]
"""Reads files, in any order."""


class Listing(NamedTuple):
    """The files of a corpus as they were listed.

    - ``corpus``: its place.
    - ``at``: when they were listed, in nanoseconds since 1970.
    """

    corpus: str
    files: Sequence[ListedFile]
    at: int

    @classmethod
    def of(cls, corpus: str) -> Self:
        """Lists the files. Raises `CorpusError` where there are none."""
        now = time.time_ns()
        return cls(corpus, listed_files(corpus), now)


class FoundSurvey(NamedTuple):
    """What the next run may take of a survey: the files that are whole, and ``key``, what they depend on."""

    files: Sequence[SurveyedFile]
    key: str

    def keep(self, storage: Storage) -> None:
        """Keeps it in the output of a run; tables that are there are not written again. Raises `OutputError`."""
        save_tables(storage, KEPT_SURVEY, survey_tables(self.files, self.key))


class PlannedCorpus(NamedTuple):
    """The survey of a corpus, and what the next run may take of it."""

    survey: Survey
    found: FoundSurvey


def plan_corpus(
    listing: Listing,
    parts: SurveyParts,
    storage: Storage,
    read: FileReader,
    only: Collection[str] | None = None,
    corrections: CorrectionFile = NO_FILE,
) -> PlannedCorpus:
    """The survey of a corpus, of which the files that are not known from the last run in ``storage`` are read.

    With ``only`` its shards hold the documents with these ids alone; ``corrections`` are of its documents. Nothing is
    written. Raises as `workers.corpus.plan.survey`, and what ``read`` raises.
    """
    files, key = listing.files, _key(listing.corpus, parts)
    with IdFile() as ids:
        kept = known_files(saved_tables(storage, KEPT_SURVEY, survey_schema(key)), files)
        found = {file.file.id: ids.add(file) for file in kept}
        todo = [file for file in files if file.id not in found]
        found |= {file.file.id: ids.add(file) for file in read(todo, parts)} if todo else {}
        every = ids.given_back([found[file.id] for file in files])
    survey = joined_survey(every, text=parts.text, scores=parts.scores, only=only, corrections=corrections)
    lasting = [file for file in every if file.is_whole and is_settled(file.file, listing.at)]
    return PlannedCorpus(survey, FoundSurvey(lasting, key))


def read_here(files: Sequence[ListedFile], parts: SurveyParts) -> Iterator[SurveyedFile]:
    """Reads files in this process."""
    with explained("reading the corpus, to cut it into shards"):
        for file in files:
            yield survey_file(file, parts)


def read_anywhere(ray: RayOnDemand, files: Sequence[ListedFile], parts: SurveyParts) -> Iterator[SurveyedFile]:
    """Reads files on workers, or here where they are small. Raises the errors of `Cluster.run`."""
    if sum(file.size for file in files) <= READ_ALONE:
        yield from read_here(files, parts)
        return
    running = ray.started()
    with meter("reading the corpus", len(files)) as bar:
        for answer in running.run(SURVEY, files, parts):
            yield answer.result or SurveyedFile.unread(answer.shard, CorpusError(answer.failure))
            bar.advance(note="files")


def _key(corpus: str, parts: SurveyParts) -> str:
    parts_of_digest = [place_of(corpus), parts.text.model_dump_json(), str(parts[1:]), kept_digest(SURVEYING_CODE, ())]
    return hashlib.sha256("\0".join(parts_of_digest).encode()).hexdigest()
