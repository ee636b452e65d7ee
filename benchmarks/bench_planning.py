"""Planning of a run: text that is read a second by the driver alone, by one and by two workers, and when it is known.

The corpus is raw text in many files: chapters of novels, or their paragraphs in rows of about a kilobyte, as often as
it takes. Each figure is that of one survey; from workers' seconds those of starting them, measured with one file, are
taken away.

    python benchmarks/bench_planning.py --files 200
"""

from __future__ import annotations

import argparse
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq
from common import MADE, save
from corpora import NOVELS, STAND_IN, made_up

from concord.flows.labelling import planning
from concord.flows.labelling.planning import KEPT_SURVEY, Listing, plan_corpus, read_anywhere, read_here
from concord.flows.labelling.ray_on_demand import RayOnDemand
from concord.schemas.run_context import RunContext
from concord.workers.corpus import kept_survey
from concord.workers.corpus.parquet import ListedFile, listed_files
from concord.workers.corpus.plan import Survey
from concord.workers.corpus.surveyed import SurveyedFile
from concord.workers.remote.survey import SURVEY, SurveyParts
from concord.workers.storage.storage import FolderStorage

T = TypeVar("T")

FOLDER = MADE / "planning"
PARTS = SurveyParts()


def main() -> None:
    """Measures long and short rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=200, help="copies of the text")
    chosen = parser.parse_args()
    planning.READ_ALONE = 0
    kept_survey.SETTLED_SECONDS = -1  # the files are made here, a moment before they are read
    rows = [measured(name, texts, chosen.files) for name, texts in (("chapters", chapters()), ("paragraphs", short()))]
    save("planning", {"rows": rows})


def chapters() -> list[str]:
    """Texts of the novels' chapters, or of what stands in for them."""
    source = NOVELS if NOVELS.is_dir() else made_up(STAND_IN)
    texts: list[str] = pq.read_table(min(source.glob("*.parquet")))["text"].to_pylist()
    return texts


def short() -> list[str]:
    """The same in rows of a kilobyte or more."""
    return list(_cut(part for text in chapters() for part in text.split("\n\n")))


def _cut(paragraphs: Iterable[str]) -> Iterator[str]:
    waiting = ""
    for paragraph in paragraphs:
        waiting += paragraph
        if len(waiting) >= 1_000:
            yield waiting
            waiting = ""
    if waiting:
        yield waiting


def measured(name: str, texts: list[str], files: int) -> dict[str, Any]:
    """Seconds of the survey of so many copies of the texts, in each way."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    for number in range(files):
        ids = [f"{number}-{row}" for row in range(len(texts))]
        path = FOLDER / "corpus" / f"part-{number:05d}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"doc_id": ids, "text": texts}), path, compression="zstd")
    figures: dict[str, Any] = {
        "name": name,
        "documents": files * len(texts),
        "text_mb": files * sum(len(text.encode()) for text in texts) / 1e6,
        "file_mb": sum(path.stat().st_size for path in (FOLDER / "corpus").iterdir()) / 1e6,
    }
    wanted, figures["seconds_alone"] = _timed(partial(_survey, read_here))
    for workers in (1, 2):
        with RayOnDemand(RunContext(workers=workers)) as ray:
            _, starting = _timed(partial(_one_file, ray))
            _, again = _timed(partial(_one_file, ray))
            found, seconds = _timed(partial(_survey, partial(read_anywhere, ray)))
        figures |= {f"seconds_start_{workers}": starting, f"seconds_workers_{workers}": seconds - again}
        if found != wanted:
            raise SystemExit("workers find other shards")
    out = FolderStorage(FOLDER)
    plan_corpus(Listing.of(str(FOLDER / "corpus")), PARTS, out, read_here).found.keep(out)
    found, figures["seconds_known"] = _timed(partial(_survey, _nothing))
    figures["record_mb"] = sum(path.stat().st_size for path in (FOLDER / KEPT_SURVEY).iterdir()) / 1e6
    if found != wanted:
        raise SystemExit("the record has other shards")
    shutil.rmtree(FOLDER)
    return figures | {"shards": len(wanted.shards)}


def _one_file(ray: RayOnDemand) -> None:
    files = listed_files(str(FOLDER / "corpus"))
    for answer in ray.started().run(SURVEY, files[:1], PARTS):
        if answer.result is None:
            raise SystemExit(answer.failure)


def _survey(read: planning.FileReader) -> Survey:
    return plan_corpus(Listing.of(str(FOLDER / "corpus")), PARTS, FolderStorage(FOLDER), read).survey


def _nothing(files: Iterable[ListedFile], _parts: SurveyParts) -> Iterable[SurveyedFile]:
    raise SystemExit(f"{len(list(files))} files are read again")


def _timed(work: Callable[[], T]) -> tuple[T, float]:
    started = time.perf_counter()
    found = work()
    return found, time.perf_counter() - started


if __name__ == "__main__":
    main()
